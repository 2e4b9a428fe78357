//! An output that is no file. Records pass through a thread of its own, so that a reader who does
//! not read holds up neither signals nor what is in flight.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use tokio::sync::Notify;

/// An output that is no file.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Until the first record, when the thread takes it.
    sink: Option<Sink>,
    records: Option<mpsc::Sender<Vec<u8>>>,
    state: Arc<State>,
}

/// Where records end.
#[derive(Debug)]
pub(crate) enum Sink {
    Stdout,
    /// A pipe, a terminal or a device.
    Stream(File),
}

#[derive(Debug, Default)]
struct State {
    /// Records that are not written yet, and their bytes.
    waiting: AtomicU64,
    bytes: AtomicUsize,
    fault: Mutex<Option<io::Error>>,
    /// Told when everything was written, when there is room again, and when nothing more will be.
    moved: Notify,
}

impl Pipe {
    /// Nothing is written so far.
    pub(crate) fn new(sink: Sink) -> Self {
        Self {
            sink: Some(sink),
            records: None,
            state: Arc::default(),
        }
    }

    /// Hands over a record.
    ///
    /// # Errors
    ///
    /// The thread cannot be started, or an earlier record could not be written.
    pub(crate) fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if let Some(sink) = self.sink.take() {
            let (sender, records) = mpsc::channel();
            let state = Arc::clone(&self.state);
            thread::Builder::new()
                .name("output".to_owned())
                .spawn(move || state.write_all(sink, &records))?;
            self.records = Some(sender);
        }
        self.state.waiting.fetch_add(1, Relaxed);
        self.state.bytes.fetch_add(record.len(), Relaxed);
        let sent = self
            .records
            .as_ref()
            .is_some_and(|records| records.send(record.to_vec()).is_ok());
        if sent {
            return Ok(());
        }
        Err(self
            .fault()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))
    }

    /// Why nothing more can be written, if so. It is told once.
    pub(crate) fn fault(&self) -> Option<io::Error> {
        let mut fault = self
            .state
            .fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        fault.take()
    }

    /// Records that are not written.
    pub(crate) fn unwritten(&self) -> u64 {
        self.state.waiting.load(Relaxed)
    }

    /// Whether so much waits to be written that no more should be asked for.
    pub(crate) fn is_clogged(&self) -> bool {
        self.state.bytes.load(Relaxed) > MOST_BYTES
    }

    /// When it is worth to look again.
    pub(crate) async fn moved(&self) {
        self.state.moved.notified().await;
    }
}

impl State {
    fn write_all(&self, mut sink: Sink, records: &mpsc::Receiver<Vec<u8>>) {
        while let Ok(record) = records.recv() {
            let written = match &mut sink {
                Sink::Stdout => {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(&record).and_then(|()| stdout.flush())
                }
                Sink::Stream(file) => file.write_all(&record),
            };
            if let Err(error) = written {
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.moved.notify_one();
                return;
            }
            let bytes = self.bytes.fetch_sub(record.len(), Relaxed);
            let all = self.waiting.fetch_sub(1, Relaxed) == 1;
            let room = bytes > MOST_BYTES && bytes - record.len() <= MOST_BYTES;
            if all || room {
                self.moved.notify_one();
            }
        }
    }
}

/// What may wait to be written before no more lines are begun: what is in flight then comes on top.
const MOST_BYTES: usize = 8 << 20;
