//! A small HTTP server whose answers a test decides, and which remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// How long it takes.
    pub delay: Duration,
    /// Bytes of the body that are promised and do not come: the connection closes before them.
    pub missing: usize,
}

impl Answer {
    pub(super) fn json(status: u16, body: &str) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self {
            status,
            headers,
            body: body.into(),
            delay: Duration::ZERO,
            missing: 0,
        }
    }

    pub(super) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// Holds answers back until it is opened, however long a busy machine takes to get there.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(super) fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns once it is open.
    pub(super) fn pass(&self) {
        while !self.0.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

type Handler = dyn Fn(&Call) -> Answer + Send + Sync;

/// Serves on the loopback until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    open: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn new(handler: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0".parse().expect("an address"), handler)
    }

    pub(super) fn on(
        address: SocketAddr,
        handler: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Self {
        // The one that was here before may need a moment to go.
        let mut listener = TcpListener::bind(address);
        for _ in 0..200 {
            if listener.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
            listener = TcpListener::bind(address);
        }
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let open = Arc::new(AtomicBool::new(true));
        let (log, going, handler) = (Arc::clone(&calls), Arc::clone(&open), Arc::new(handler));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if !going.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (log, going) = (Arc::clone(&log), Arc::clone(&going));
                let handler: Arc<Handler> = Arc::clone(&handler) as Arc<Handler>;
                thread::spawn(move || serve(stream, &*handler, &log, &going));
            }
        });
        Self {
            address,
            calls,
            open,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic").clone()
    }

    pub(super) fn count(&self) -> usize {
        self.calls.lock().expect("no panic").len()
    }

    /// How often each body came.
    pub(super) fn bodies(&self) -> HashMap<String, usize> {
        let mut bodies = HashMap::new();
        for call in self.calls() {
            *bodies.entry(call.body).or_default() += 1;
        }
        bodies
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.open.store(false, Ordering::SeqCst);
        // Wakes the thread that accepts; if that fails it has ended already.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(stream: TcpStream, handler: &Handler, log: &Mutex<Vec<Call>>, open: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut writer = stream;
    while let Some(call) = read(&mut reader) {
        if !open.load(Ordering::SeqCst) {
            return;
        }
        log.lock().expect("no panic").push(call.clone());
        let answer = handler(&call);
        thread::sleep(answer.delay);
        let mut head = format!("HTTP/1.1 {} X\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = answer.body.len() + answer.missing;
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
        let bytes = [head.as_bytes(), &answer.body].concat();
        if writer.write_all(&bytes).is_err() || answer.missing > 0 {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |text| text.parse().expect("a number"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Call {
        path,
        headers,
        body: String::from_utf8(body).expect("UTF-8"),
    })
}
