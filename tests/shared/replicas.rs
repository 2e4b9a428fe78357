//! The demonstration of two processes with one limit does what it says.

use std::process::Command;

use super::server::{Kind, Server};

#[test]
fn two_replicas_send_200_alone_150_unevenly_and_100_together() {
    // A machine that tests other things too sends late: of the shares the best of three counts.
    let shares: Vec<u32> = (0..3)
        .map(|_| demonstrate())
        .take_while(|share| *share < 90)
        .collect();
    assert!(
        shares.len() < 3,
        "the busy one sent {shares:?} % of what the idle one left"
    );
}

/// Runs it, and answers how much the busy one sent of what the idle one left, in percent.
fn demonstrate() -> u32 {
    let server = Server::start(Kind::Valkey);
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--all-features"])
        .args(["--example", "replicas", "--", &server.url()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{trouble}");
    let line = |start: &str| said.lines().find(|line| line.starts_with(start)).unwrap();
    for (start, end) in [
        ("each for itself:", "sent: 200, and 50 refused"),
        ("each for itself, unevenly:", "sent: 150, and 100 refused"),
        ("sharing:", "sent: 100, and 150 refused"),
    ] {
        assert!(line(start).ends_with(end), "{said}");
    }
    let number_before = |line: &str, what: &str| -> u32 {
        let before = line.split(what).next().unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let most = number_before(line("with leases:"), " in the fullest second");
    assert!(most <= 100, "{said}");
    let share = number_before(line("  the busy one"), " %");
    let immortal: Vec<_> = server
        .keys()
        .into_iter()
        .filter(|(_, left)| *left < 0)
        .collect();
    assert!(immortal.is_empty(), "{immortal:?}");
    share
}
