//! A server on the loopback that does with each request exactly as it is told, and writes down all
//! that it is sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline::Time;
use paceline::client::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// One request as the server read it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Time,
    pub(super) method: String,
    /// With its query.
    pub(super) path: String,
    /// Lines of the head, without the first.
    pub(super) head: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// What the server does with a request, in order. It keeps the connection unless told otherwise.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send(Vec<u8>),
    Sleep(Duration),
    /// Closes the connection.
    Close,
    /// Closes it so that the client gets a reset.
    Reset,
}

type Script = dyn Fn(&Seen, usize) -> Vec<Step> + Send + Sync;

#[derive(Clone)]
pub(super) struct Server {
    address: std::net::SocketAddr,
    log: Arc<Mutex<Log>>,
    clock: Clock,
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    flying: usize,
    peak: usize,
    connections: usize,
}

impl Server {
    /// Treats the n-th request (from 0) as told.
    pub(super) async fn start(
        script: impl Fn(&Seen, usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            log: Arc::default(),
            clock: Clock::new(),
        };
        let script: Arc<Script> = Arc::new(script);
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                own.log.lock().unwrap().connections += 1;
                let (own, script) = (own.clone(), Arc::clone(&script));
                // That a client goes away is part of the tests.
                tokio::spawn(async move { drop(own.serve(stream, &*script).await) });
            }
        });
        server
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.log.lock().unwrap().seen.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.log.lock().unwrap().seen.len()
    }

    /// The most requests that were in work at once.
    pub(super) fn peak(&self) -> usize {
        self.log.lock().unwrap().peak
    }

    pub(super) fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    /// Everything that it was sent, as text.
    pub(super) fn everything(&self) -> String {
        format!("{:?}", self.seen())
    }

    /// The times between requests.
    pub(super) fn gaps(&self) -> Vec<Duration> {
        let seen = self.seen();
        let gaps = seen.windows(2).map(|pair| pair[1].at.since(pair[0].at));
        gaps.collect()
    }

    async fn serve(&self, stream: TcpStream, script: &Script) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let Some(mut seen) = read(&mut stream).await? else {
                return Ok(());
            };
            seen.at = self.clock.now();
            let steps = {
                let mut log = self.log.lock().unwrap();
                log.seen.push(seen.clone());
                log.flying += 1;
                log.peak = log.peak.max(log.flying);
                script(&seen, log.seen.len() - 1)
            };
            let _flying = Flying(&self.log);
            for step in steps {
                match step {
                    Step::Send(bytes) => stream.get_mut().write_all(&bytes).await?,
                    Step::Sleep(time) => tokio::time::sleep(time).await,
                    Step::Close => return Ok(()),
                    Step::Reset => {
                        stream.get_mut().set_zero_linger()?;
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Counts a request as in work until the end of its script.
struct Flying<'a>(&'a Mutex<Log>);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().flying -= 1;
    }
}

/// Reads a request and its body; none at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Seen>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Ok(None),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.trim_end().lines().map(ToOwned::to_owned);
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let mut seen = Seen {
        at: Time::START,
        method: words.next().unwrap_or_default().to_owned(),
        path: words.next().unwrap_or_default().to_owned(),
        head: lines.collect(),
        body: Vec::new(),
    };
    if seen.header("expect") == Some("100-continue") {
        stream
            .get_mut()
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await?;
    }
    if let Some(length) = seen.header("content-length") {
        seen.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut seen.body).await?;
    } else if seen.header("transfer-encoding") == Some("chunked") {
        loop {
            let mut size = String::new();
            tokio::io::AsyncBufReadExt::read_line(stream, &mut size).await?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).await?;
            if size == 0 {
                break;
            }
            seen.body.extend(&chunk[..size]);
        }
    }
    Ok(Some(seen))
}

/// An answer with these lines of the head and this body.
pub(super) fn answer(status: u16, head: &[&str], body: &[u8]) -> Step {
    let mut text = format!(
        "HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n",
        body.len()
    );
    for line in head {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend(body);
    Step::Send(bytes)
}

pub(super) fn ok() -> Step {
    answer(200, &[], b"served")
}
