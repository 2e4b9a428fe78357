//! The simulator against the world: the same scenarios over loopback sockets, `paceline run`
//! against `paceline mock`, beside what virtual time says of them.
//!
//! `cargo bench --features cli --bench sockets` runs the base cases; scenario files as arguments
//! run those. No bar: the machine takes part. On one that has little else to do the two
//! efficiencies differ by at most 0.03; where they differ by more, the simulator leaves something
//! out.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use paceline::sim::{self, Paceline, Scenario};

mod mock;

/// What one run came to.
struct Row {
    efficiency: f64,
    refused: u64,
    served: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut named: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    // `cargo test --benches` runs this too, and does not want minutes of it.
    let asked = named.iter().any(|name| name == Path::new("--bench"));
    named.retain(|name| !name.as_os_str().to_string_lossy().starts_with("--"));
    if !asked && named.is_empty() {
        return Ok(());
    }
    if named.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios");
        let file = |name: &str| root.join(name).with_extension("toml");
        named = BASE_CASES.lines().map(file).collect();
    }
    println!(
        "{:60} {:>9} {:>9} {:>9} {:>9}",
        "", "simulated", "sockets", "refused", "refused"
    );
    for path in named {
        let scenario = Scenario::parse(&std::fs::read_to_string(&path)?)?;
        let simulated = simulated(&scenario);
        let real = over_sockets(&path, &scenario, simulated.ideal)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let lost = match scenario.load.requests - real.served {
            0 => String::new(),
            lost => format!("  {lost} lost"),
        };
        println!(
            "{name:60} {:>9.3} {:>9.3} {:>9} {:>9}{lost}",
            simulated.efficiency, real.efficiency, simulated.refused, real.refused
        );
    }
    Ok(())
}

fn simulated(scenario: &Scenario) -> sim::Run {
    sim::run(scenario, scenario.first_seed, Paceline::new, None).0
}

fn over_sockets(path: &Path, scenario: &Scenario, ideal: f64) -> Result<Row, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (input, keys) = (folder.path().join("in.jsonl"), folder.path().join("keys"));
    let mut lines = std::io::BufWriter::new(std::fs::File::create(&input)?);
    for job in 0..scenario.load.requests {
        writeln!(
            lines,
            r#"{{"custom_id":"{job}","method":"POST","url":"/v1/work","body":{{"max_tokens":{}}}}}"#,
            scenario.load.tokens.0.midpoint(scenario.load.tokens.1)
        )?;
    }
    lines.flush()?;
    let secrets: String = (0..scenario.load.keys)
        .map(|key| format!("key-{key}\n"))
        .collect();
    std::fs::write(&keys, secrets)?;
    let provider = Provider::open(path, scenario.first_seed)?;
    let run = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["run", "--replay", "always", "--progress", "never"])
        .arg(&input)
        .arg("-o")
        .arg(folder.path().join("out.jsonl"))
        .args(["--base-url", &format!("http://{}", provider.address)])
        .arg("--key-file")
        .arg(&keys)
        .stderr(Stdio::null())
        .status()?;
    let stats = provider.stats()?;
    let count = |name: &str| stats["total"][name].as_u64().unwrap_or(0);
    if count("served") == 0 {
        return Err(format!("nothing was served: `paceline run` ended with {run}").into());
    }
    let seconds = stats["seconds"].as_f64().unwrap_or(f64::INFINITY);
    Ok(Row {
        efficiency: ideal / seconds,
        refused: count("refused"),
        served: count("served"),
    })
}

/// A provider in a process of its own.
struct Provider {
    child: Child,
    address: String,
}

impl Provider {
    fn open(scenario: &Path, seed: u64) -> Result<Self, Box<dyn Error>> {
        let (child, url) = mock::open(scenario, &["--seed", &seed.to_string()])?;
        let address = url.trim_start_matches("http://").to_owned();
        Ok(Self { child, address })
    }

    fn stats(&self) -> Result<serde_json::Value, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.address)?;
        let host = &self.address;
        write!(
            stream,
            "GET /__stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer
            .split_once("\r\n\r\n")
            .ok_or("an answer has a body")?
            .1;
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// The scenarios, one for each kind of provider: a name a line.
const BASE_CASES: &str = include_str!("../fixtures/kinds.txt");
