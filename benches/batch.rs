//! What a batch costs: the processor time of a request and the memory of a run, `paceline run` against
//! `paceline mock`, beside a bare reqwest loop that sends the same bodies to the same server.
//!
//! `cargo bench --features cli --bench batch` runs 10,000 lines and then 1,000,000, of 100 bytes and of
//! 20 KB, from a file and through a pipe; `-- LINES BYTES [pipe]` a run of your own. Each process is
//! measured apart, the server too: user and system time from `/proc`, in steps of 10 ms, and the most
//! memory it had. So it needs Linux. The bars, on a machine that has little else to do: at most 60 µs a
//! request, and at most 8 MiB and 24 bytes a line above the run of 10,000 lines of the same kind.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;

mod mock;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["bare", url, lines, bytes] => return bare(url, lines.parse()?, bytes.parse()?),
        // `cargo test --benches` runs this too, and does not want minutes of it.
        [] => return Ok(()),
        _ => {}
    }
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let from = if words.contains(&"pipe") {
        Source::Pipe
    } else {
        Source::File
    };
    let runs = match numbers[..] {
        [lines, bytes] => vec![(lines, bytes, from)],
        _ => RUNS.to_vec(),
    };
    println!(
        "{:>9} {:>6} {:<5} {:<9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "lines", "bytes", "from", "process", "user", "system", "seconds", "µs each", "peak MiB"
    );
    for (lines, bytes, from) in runs {
        compare(lines, bytes, from)?;
    }
    Ok(())
}

/// Where lines come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    File,
    Pipe,
}

/// One run of each, over as many lines.
fn compare(lines: usize, bytes: usize, from: Source) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let input = match from {
        Source::File => folder.path().join("in.jsonl"),
        Source::Pipe => "-".into(),
    };
    let output = folder.path().join("out.jsonl");
    if from == Source::File {
        write_lines(File::create(&input)?, lines, bytes)?;
    }
    let scenario = folder.path().join("fast.toml");
    fs::write(&scenario, FAST)?;
    let row = |name: &str, used: &Used| {
        let each = (used.user + used.system) / lines as f64 * 1e6;
        let peak = used.peak as f64 / f64::from(1 << 20);
        let from = format!("{from:?}").to_lowercase();
        println!(
            "{lines:>9} {bytes:>6} {from:<5} {name:<9} {:>8.2} {:>8.2} {:>8.1} {each:>9.1} \
             {peak:>9.1}",
            used.user, used.system, used.seconds
        );
    };
    for (name, command) in [
        ("paceline", &run as &dyn Fn(&str) -> Command),
        ("reqwest", &|base: &str| {
            let mut command = Command::new(std::env::current_exe().expect("it runs"));
            command.args(["bare", base, &lines.to_string(), &bytes.to_string()]);
            command
        }),
    ] {
        let (mut server, url) = mock::open(&scenario, &[])?;
        let mut command = command(&url);
        if name == "paceline" {
            command.arg(&input).arg("-o").arg(&output);
            if from == Source::Pipe {
                command.stdin(Stdio::piped());
            }
        }
        let mut child = command.spawn()?;
        if let Some(pipe) = child.stdin.take() {
            // What breaks it is told by the records that are missing.
            thread::spawn(move || write_lines(pipe, lines, bytes).ok());
        }
        row(name, &Used::by(child)?);
        let peak = peak(&format!("/proc/{}", server.id()));
        server.kill()?;
        let used = Used::by(server)?;
        row("(server)", &Used { peak, ..used });
    }
    let records = BufReader::new(File::open(&output)?).lines().count();
    if records != lines {
        return Err(format!("{records} records of {lines} lines").into());
    }
    Ok(())
}

fn run(base: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command
        .args(["run", "--progress", "never", "--base-url", base])
        .stderr(Stdio::null());
    command
}

/// The same bodies by reqwest alone, as many at once as a careful script has.
fn bare(url: &str, lines: usize, bytes: usize) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let client = reqwest::Client::new();
    let url = reqwest::Url::parse(url)?.join("/v1/work")?;
    let pad = bytes::Bytes::from(body(bytes));
    let served = runtime.block_on(async {
        let sends = futures_util::stream::iter(0..lines).map(|_| async {
            let request = client.post(url.clone()).body(pad.clone());
            let reply = request
                .header("content-type", "application/json")
                .send()
                .await?;
            reply.error_for_status()?.bytes().await
        });
        let mut sends = sends.buffer_unordered(AT_ONCE);
        let mut served = 0;
        while let Some(sent) = sends.next().await {
            served += usize::from(sent.is_ok());
        }
        served
    });
    match served == lines {
        true => Ok(()),
        false => Err(format!("{served} of {lines} were served").into()),
    }
}

fn body(bytes: usize) -> String {
    let pad = "x".repeat(bytes.saturating_sub(AROUND));
    format!("{{\"pad\":\"{pad}\"}}")
}

fn write_lines<W: Write>(to: W, lines: usize, bytes: usize) -> io::Result<()> {
    let body = body(bytes);
    let mut to = BufWriter::with_capacity(1 << 20, to);
    for line in 0..lines {
        writeln!(
            to,
            "{{\"custom_id\":\"{line:07}\",\"url\":\"/v1/work\",\"body\":{body}}}"
        )?;
    }
    to.flush()
}

/// What a process has used from its start to its end.
#[derive(Default)]
struct Used {
    user: f64,
    system: f64,
    seconds: f64,
    peak: u64,
}

impl Used {
    /// Waits for its end. What it has used can be read until somebody asks how it ended.
    fn by(mut child: Child) -> Result<Self, Box<dyn Error>> {
        let folder = format!("/proc/{}", child.id());
        let start = uptime()?;
        let mut used = Self::default();
        loop {
            let stat = fs::read_to_string(format!("{folder}/stat"))?;
            // Behind the name, which may hold anything.
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split(' ').collect();
            let ticks = |at: usize| fields[at].parse::<f64>();
            (used.user, used.system) = (ticks(12)? / TICKS, ticks(13)? / TICKS);
            used.peak = used.peak.max(peak(&folder));
            if fields[1] == "Z" {
                break;
            }
            thread::sleep(LOOK);
        }
        used.seconds = uptime()? - start;
        let status = child.wait()?;
        match status.code() {
            Some(0) | None => Ok(used),
            Some(code) => Err(format!("it ended with {code}").into()),
        }
    }
}

/// The most memory that a process had so far, in bytes.
fn peak(folder: &str) -> u64 {
    let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Seconds since the machine was started: clocks are not to be read in this crate.
fn uptime() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/uptime")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// Lines, bytes in the body of each, and where they come from. As a file, 100,000 lines of 20 KB are
/// 2 GB; ten times as many are for a pipe, which needs no room.
const RUNS: [(usize, usize, Source); 7] = [
    (10_000, 100, Source::File),
    (1_000_000, 100, Source::File),
    (1_000_000, 100, Source::Pipe),
    (10_000, 20_000, Source::File),
    (100_000, 20_000, Source::File),
    (10_000, 20_000, Source::Pipe),
    (1_000_000, 20_000, Source::Pipe),
];

/// It answers at once, and refuses nothing.
const FAST: &str = "[provider]\nlatency = \"0ms\"\nlimits = []\n\n[load]\nrequests = 1\n";

/// As many requests of the bare loop are in flight.
const AT_ONCE: usize = 64;

/// What stands around the pad of a body.
const AROUND: usize = 10;

/// The unit of times in `/proc`, on every Linux of today.
const TICKS: f64 = 100.0;

/// Memory that comes and goes in less is not seen, but its peak is.
const LOOK: Duration = Duration::from_millis(20);
