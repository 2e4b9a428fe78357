//! `paceline run`, as the real command.

mod answers;
mod budget;
mod endings;
mod keys;
mod kills;
#[cfg(target_os = "linux")]
mod memory;
mod outages;
#[cfg(unix)]
mod pipes;
mod providers;
mod requests;
mod resumed;
mod server;
mod setup;
mod state;
mod stops;
mod tables;
mod usage;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder with an input, and runs over it.
struct Batch {
    dir: tempfile::TempDir,
    base: String,
    options: Vec<String>,
}

impl Batch {
    fn new(input: &str, base: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let batch = Self {
            dir,
            base: base.to_owned(),
            options: Vec::new(),
        };
        batch.write(input);
        batch
    }

    fn with(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    fn write(&self, input: &str) {
        fs::write(self.input(), input).expect("written");
    }

    fn input(&self) -> PathBuf {
        self.dir.path().join("in.jsonl")
    }

    fn output(&self) -> PathBuf {
        self.dir.path().join("out.jsonl")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command
            .arg("run")
            .arg(self.input())
            .arg("-o")
            .arg(self.output());
        command.args(["--base-url", &self.base]).args(&self.options);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Child {
        self.command().spawn().expect("the command starts")
    }

    /// Starts it and listens to what it says.
    fn start_heard(&self) -> Heard {
        Heard::new(self.start())
    }

    fn run(&self) -> Ended {
        Ended::of(self.command())
    }

    /// The records in the output, as they stand there.
    fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.output()).expect("an output");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect()
    }

    fn ids(&self) -> Vec<String> {
        self.records()
            .iter()
            .map(|record| text(&record["custom_id"]))
            .collect()
    }
}

/// A run whose stderr is listened to while it goes on.
struct Heard {
    child: Child,
    lines: Receiver<String>,
    said: String,
}

impl Heard {
    fn new(mut child: Child) -> Self {
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                sender.send(line.expect("UTF-8")).ok();
            }
        });
        let said = String::new();
        Self { child, lines, said }
    }

    /// Waits until it has said this.
    fn until_said(&mut self, part: &str) {
        until(part, || {
            self.hear(self.lines.try_iter().collect());
            self.said.contains(part)
        });
    }

    fn hear(&mut self, lines: Vec<String>) {
        for line in lines {
            self.said.push_str(&line);
            self.said.push('\n');
        }
    }

    /// Waits for its end.
    fn end(mut self) -> Ended {
        let mut output = self.child.wait_with_output().expect("it ends");
        for line in self.lines {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        output.stderr = self.said.into_bytes();
        Ended::from(output)
    }
}

/// A command that has ended.
struct Ended {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(mut command: Command) -> Self {
        Self::from(command.output().expect("the command starts"))
    }

    fn with_stdin(mut command: Command, input: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        Self::from(child.wait_with_output().expect("it ends"))
    }

    fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by a signal: {}", self.stderr))
    }

    /// The summary, where `--summary json` was given.
    fn summary(&self) -> Value {
        let line = self.stderr.lines().last().expect("a summary");
        serde_json::from_str(line).unwrap_or_else(|_| panic!("no summary: {}", self.stderr))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no string"))
        .to_owned()
}

/// Waits for something that another process or thread does.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = now();
    while !holds() {
        assert!(
            start.elapsed_secs() < 30.0,
            "{what} did not happen within 30 s"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The time since then, for tests of processes, which no paused clock reaches.
struct Since(Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "another process is timed from outside"
)]
fn now() -> Since {
    Since(Instant::now())
}

impl Since {
    #[expect(
        clippy::disallowed_methods,
        reason = "another process is timed from outside"
    )]
    fn elapsed_secs(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

#[cfg(unix)]
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(child.id().to_string())
        .status();
    assert!(sent.expect("kill is there").success());
}

fn is_empty_folder_beside(path: &Path, names: &[&str]) -> bool {
    let folder = path.parent().expect("a folder");
    fs::read_dir(folder).expect("readable").all(|entry| {
        names.contains(
            &entry
                .expect("an entry")
                .file_name()
                .to_str()
                .expect("UTF-8"),
        )
    })
}
