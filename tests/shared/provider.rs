//! A provider that answers everything and logs when each request came and how many it had at once.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A server on the loopback, gone with the test.
#[derive(Clone)]
pub(super) struct Provider {
    port: u16,
    seen: Arc<Seen>,
}

struct Seen {
    start: Instant,
    arrivals: Mutex<Vec<(Duration, String)>>,
    /// By path: how long it took its sender at most, from when it might leave.
    sent_before: Mutex<HashMap<String, Duration>>,
    at_once: Mutex<(usize, usize)>,
    takes: Duration,
}

impl Provider {
    #[expect(clippy::disallowed_methods, reason = "processes keep real time")]
    pub(super) fn start(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let seen = Arc::new(Seen {
            start: Instant::now(),
            arrivals: Mutex::default(),
            sent_before: Mutex::default(),
            at_once: Mutex::default(),
            takes,
        });
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&all);
                thread::spawn(move || serve(&stream, &seen));
            }
        });
        Self { port, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The paths that were asked for.
    pub(super) fn paths(&self) -> Vec<String> {
        let arrivals = self.seen.arrivals.lock().unwrap();
        arrivals.iter().map(|(_, path)| path.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.seen.arrivals.lock().unwrap().len()
    }

    /// A sender says that a request left at most so long before it was here.
    pub(super) fn told(&self, path: String, before: Duration) {
        self.seen.sent_before.lock().unwrap().insert(path, before);
    }

    /// Says that no window of this length holds more requests, or which one does. A busy machine
    /// brings some late, and many at once: so each left somewhere between the first moment that its
    /// sender knows of and its arrival, and what counts in a window lies in it with all of that.
    pub(super) fn assert_at_most(&self, most: usize, window: Duration) {
        let before = self.seen.sent_before.lock().unwrap();
        let arrivals = self.seen.arrivals.lock().unwrap();
        let left = arrivals.iter().map(|(at, path)| {
            let before = before.get(path).copied().unwrap_or_default();
            (at.saturating_sub(before), *at, path)
        });
        let mut log: Vec<_> = left.collect();
        log.sort_unstable();
        for (first, (start, ..)) in log.iter().enumerate() {
            let inside = log[first..]
                .iter()
                .filter(|(_, at, _)| *at < *start + window);
            assert!(
                inside.clone().count() <= most,
                "more than {most} in {window:?}: {:#?}",
                inside.collect::<Vec<_>>()
            );
        }
    }

    /// How long it has been there.
    #[expect(clippy::disallowed_methods, reason = "processes keep real time")]
    pub(super) fn elapsed(&self) -> Duration {
        self.seen.start.elapsed()
    }

    /// From the first request to the last.
    pub(super) fn took(&self) -> Duration {
        let arrivals = self.seen.arrivals.lock().unwrap();
        let times = arrivals.iter().map(|(at, _)| *at);
        times.clone().max().unwrap_or_default() - times.min().unwrap_or_default()
    }

    /// The most requests that it worked on at once.
    pub(super) fn most_at_once(&self) -> usize {
        self.seen.at_once.lock().unwrap().1
    }
}

#[expect(clippy::disallowed_methods, reason = "processes keep real time")]
fn serve(stream: &TcpStream, seen: &Seen) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut path = String::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line == "\r\n" => break,
                Ok(_) if path.is_empty() => {
                    path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                }
                Ok(_) => {}
            }
        }
        let at = seen.start.elapsed();
        seen.arrivals.lock().unwrap().push((at, path));
        if !seen.takes.is_zero() {
            let mut at_once = seen.at_once.lock().unwrap();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
            drop(at_once);
            thread::sleep(seen.takes);
            seen.at_once.lock().unwrap().0 -= 1;
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if (&mut &*stream).write_all(answer).is_err() {
            return;
        }
    }
}
