//! Several providers in one configuration.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use super::Batch;
use super::server::{Answer, Server};
use super::{Ended, text};

#[test]
fn each_provider_gets_its_own_keys_and_limits_and_nobody_else_a_key() {
    let [one, two, other] = [0; 3].map(|_| Server::new(|_| Answer::json(200, "{}")));
    let mut input = String::new();
    for n in 0..12 {
        for server in [&one, &two, &other] {
            input.push_str(&format!(
                "{{\"custom_id\":\"{}/{n}\",\"url\":\"{}/{n}\"}}\n",
                server.url(),
                server.url()
            ));
        }
    }
    input.push_str("{\"custom_id\":\"relative\",\"url\":\"/relative\"}\n");
    let batch = Batch::new(&input, "");
    let config = batch.dir.path().join("providers.toml");
    fs::write(
        batch.dir.path().join("keys.txt"),
        "# of two\nkey-of-two-a\n\nkey-of-two-b\n",
    )
    .expect("written");
    let file = format!(
        "[providers.one]\nbase_url = \"{}\"\nkey_env = \"ONE\"\n\n\
         [providers.two]\nhosts = [\"{}\"]\nkey_file = \"keys.txt\"\nauth = \"header:x-key\"\n\
         ceilings = [\"4/1s\"]\n",
        one.url(),
        two.url()
    );
    fs::write(&config, file).expect("written");
    let run = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_paceline"));
        command
            .arg("run")
            .arg(batch.input())
            .arg("-o")
            .arg(batch.output());
        command.arg("--config").arg(&config).args(more);
        command.env("ONE", "key-of-one").env("CI", "");
        Ended::of(command)
    };
    let end = run(&[]);
    assert!(
        end.code() == 1 && end.stderr.contains("bad_line x 1"),
        "{}",
        end.stderr
    );
    let end = run(&["--provider", "one", "--retry-failed"]);
    assert_eq!(end.code(), 0, "{}", end.stderr);
    assert_eq!(
        (one.calls().len(), two.calls().len(), other.calls().len()),
        (13, 12, 12)
    );
    assert!(
        one.calls()
            .iter()
            .all(|call| call.headers["authorization"] == "Bearer key-of-one")
    );
    let used: std::collections::HashSet<_> = two
        .calls()
        .iter()
        .map(|call| call.headers["x-key"].clone())
        .collect();
    assert_eq!(used.len(), 2, "both keys of the file");
    assert!(
        two.calls()
            .iter()
            .all(|call| !call.headers.contains_key("authorization"))
    );
    for call in other.calls() {
        assert!(!call.headers.contains_key("authorization") && !call.headers.contains_key("x-key"));
    }
    let keys: std::collections::HashSet<_> = batch
        .records()
        .iter()
        .filter(|record| record["key"].is_string())
        .map(|record| text(&record["key"]))
        .collect();
    assert_eq!(keys.len(), 3);
}

#[test]
fn a_slow_provider_that_holds_up_another_is_told_of() {
    // The other one stood still, and nobody said why.
    let (slow, fast) = (
        Server::new(|_| Answer::json(200, "{}").after(Duration::from_secs(60))),
        Server::new(|_| Answer::json(200, "{}")),
    );
    let line = |n, server: &Server| format!("{{\"url\":\"{}/{n}\"}}\n", server.url());
    let lines = (0..1_500).flat_map(|n| [line(n, &slow), line(n, &fast)]);
    let batch = Batch::new(&lines.collect::<String>(), &fast.url());
    let batch = batch.with(&["--key-concurrency", "4"]);
    let mut run = batch.start();
    let stderr = BufReader::new(run.stderr.take().expect("a pipe")).lines();
    let note = format!("wait for {}, and no line behind", slow.address());
    let mut said = stderr.map(|line| line.expect("UTF-8"));
    // Its progress comes first where the start takes long.
    assert!(said.by_ref().take(20).any(|line| line.contains(&note)));
    drop(said);
    run.kill().expect("it runs");
    run.wait().expect("it ends");
}

#[test]
fn a_key_that_is_not_there_is_named_with_its_provider() {
    let batch = Batch::new("{\"url\":\"/a\"}", "http://127.0.0.1:9");
    let config = batch.dir.path().join("providers.toml");
    let path = config.to_str().expect("UTF-8").to_owned();
    let batch = batch.with(&["--config", &path]);
    for (file, part) in [
        (
            "[providers.a]\nhosts = [\"h\"]\nkey_env = \"NOT_SET_ANYWHERE\"\n",
            "provider a: the environment variable NOT_SET_ANYWHERE",
        ),
        (
            "[providers.a]\nhosts = [\"h\"]\nkey_file = \"nowhere.txt\"\n",
            "provider a: cannot read the keys in",
        ),
        (
            "[providers.a]\nhots = [\"h\"]\n",
            "expected one of `base_url`, `hosts`",
        ),
    ] {
        fs::write(&config, file).expect("written");
        let end = batch.run();
        assert!(
            end.code() == 2 && end.stderr.contains(part),
            "{file}: {}",
            end.stderr
        );
    }
}
