//! Two processes with one API key, whose limit is 100: each for itself, sharing it through a store,
//! and with shares that they borrow.
//!
//! `cargo run --features shared --example replicas [redis://127.0.0.1:6379]`

mod provider;
mod replica;
mod store;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use paceline::Time;
use provider::Provider;
use store::Store;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, rest @ ..] = &words[..]
        && role == "replica"
    {
        return replica::run(rest).await;
    }
    let store = Store::find(words.first())?;
    println!(
        "limit 100, 250 requests from two processes through {}\n",
        store.url
    );
    let [together, uneven] = [[125, 125], [200, 50]];
    show("each for itself", "local", together, &store).await?;
    show("each for itself, unevenly", "local", uneven, &store).await?;
    show("sharing", "exact", together, &store).await?;
    lend(&store).await
}

/// Sends 250 at once, of which an hour allows 100.
async fn show(title: &str, mode: &str, wanted: [usize; 2], store: &Store) -> Result<(), Failure> {
    // What was not sent after two seconds would wait for the next hour.
    let rule = [mode, "100/1h", "2"];
    let sent = run(rule, wanted.map(|count| (count, 0)), store).await?;
    let [first, second] = sent.map(|sent| sent.len());
    let ([a, b], all) = (wanted, first + second);
    println!(
        "{title}: {first} of {a} and {second} of {b} sent: {all}, and {} refused",
        250 - all
    );
    Ok(())
}

/// One process sends all it can and the other one in a quarter of a second.
async fn lend(store: &Store) -> Result<(), Failure> {
    // The network may crowd what was paced: 5 % are for that.
    let [busy, idle] = run(["leases", "100/1s+5%", "60"], [(500, 0), (20, 250)], store).await?;
    // From when the shares have settled, while both send.
    let (from, until) = (idle[4], idle[19]);
    let while_both = |sent: &[Time]| sent.iter().filter(|at| (from..until).contains(at)).count();
    let limit = 100.0 * until.since(from).as_secs_f64() / 1.05;
    let share = while_both(&busy) as f64 / (limit - while_both(&idle) as f64);
    let mut all = [busy, idle].concat();
    all.sort_unstable();
    let in_second = |&start: &Time| {
        let end = start + Duration::from_secs(1);
        all.iter().filter(|&&at| start <= at && at < end).count()
    };
    let most = all.iter().map(in_second).max().unwrap_or(0);
    println!(
        "with leases: {} sent, {most} in the fullest second;",
        all.len()
    );
    println!(
        "  the busy one sent {:.0} % of what the idle one left",
        100.0 * share
    );
    Ok(())
}

/// Runs two replicas, each told how many to send and how many milliseconds apart; when they did.
async fn run(
    rule: [&str; 3],
    loads: [(usize, u32); 2],
    store: &Store,
) -> Result<[Vec<Time>; 2], Failure> {
    let provider = Provider::start().await;
    // What an earlier demonstration left in a store that stays is none of this one's.
    let scope = format!("replicas-{}", provider.port());
    let mut replicas = Vec::new();
    for (name, (count, gap)) in NAMES.into_iter().zip(loads) {
        let mut replica = Command::new(std::env::current_exe()?);
        replica
            .arg("replica")
            .args(rule)
            .args([&store.url, &scope, &provider.url(name)]);
        replicas.push(replica.args([count.to_string(), gap.to_string()]).spawn()?);
    }
    for mut replica in replicas {
        let ended = tokio::task::spawn_blocking(move || replica.wait()).await??;
        if !ended.success() {
            return Err("a replica failed".into());
        }
    }
    Ok(provider.log(NAMES))
}

const NAMES: [&str; 2] = ["first", "second"];
