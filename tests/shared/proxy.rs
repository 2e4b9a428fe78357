//! What lies between a store and those who ask it: a way that is slow, that breaks, that falls
//! silent, or that leads to another server from now on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A way to a server, on a port of its own.
pub(super) struct Proxy {
    port: u16,
    way: Arc<Way>,
}

struct Way {
    server: AtomicU16,
    /// Milliseconds before each piece is passed on.
    delay: AtomicU64,
    cuts: AtomicU64,
    silences: AtomicU64,
    is_open: AtomicBool,
}

impl Proxy {
    pub(super) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::new(Way {
            server: AtomicU16::new(server),
            delay: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            silences: AtomicU64::new(0),
            is_open: AtomicBool::new(true),
        });
        let all = Arc::clone(&way);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if !all.is_open.load(Ordering::SeqCst) {
                    return;
                }
                let server = all.server.load(Ordering::SeqCst);
                let far = TcpStream::connect(("127.0.0.1", server)).unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let way = Arc::clone(&all);
                    thread::spawn(move || way.pass(from, to));
                }
            }
        });
        Self { port, way }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on each piece takes so many milliseconds.
    pub(super) fn delay(&self, millis: u64) {
        self.way.delay.store(millis, Ordering::SeqCst);
    }

    /// Breaks every connection.
    pub(super) fn cut(&self) {
        self.way.cuts.fetch_add(1, Ordering::SeqCst);
    }

    /// Nothing passes any more on the connections that there are, and nobody is told: the server
    /// lost its power, or its network.
    pub(super) fn silence(&self) {
        self.way.silences.fetch_add(1, Ordering::SeqCst);
    }

    /// Connections made from now on lead to another server.
    pub(super) fn lead_to(&self, server: u16) {
        self.way.server.store(server, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.way.is_open.store(false, Ordering::SeqCst);
        self.cut();
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Way {
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let count = |events: &AtomicU64| events.load(Ordering::SeqCst);
        let (cuts, silences) = (count(&self.cuts), count(&self.silences));
        from.set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut piece = [0; 16_384];
        while count(&self.cuts) == cuts {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(_) if count(&self.silences) != silences => {}
                Ok(length) => {
                    thread::sleep(Duration::from_millis(count(&self.delay)));
                    if to.write_all(&piece[..length]).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }
}
