//! The signals that ask a run to stop.

use std::io;

/// A signal that asks a run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal has gone.
    Hangup,
}

impl Signal {
    /// The exit code of a process that it ended: 128 and its number.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::Hangup => 129,
        }
    }
}

/// Every signal that comes.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// None if the parent has it ignored, as nohup does: then it is not ours to hear.
    hangup: Option<tokio::signal::unix::Signal>,
    /// Held, so that it does not end the process: the write that is too large fails, too, and that
    /// is told.
    _too_large: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        let hangup = if is_hangup_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            interrupt,
            terminate,
            hangup,
            _too_large: SIGXFSZ.and_then(|number| signal(SignalKind::from_raw(number)).ok()),
        })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = heard(&mut self.hangup) => Signal::Hangup,
        }
    }
}

/// The signal for a file that has become larger than `ulimit -f` allows, where its number is known.
#[cfg(unix)]
const SIGXFSZ: Option<i32> = if cfg!(any(target_os = "linux", target_os = "macos")) {
    Some(25)
} else {
    None
};

#[cfg(unix)]
async fn heard(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP is ignored: whoever started the run wants it to outlive its terminal.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    // "SigIgn:\t0000000000000001": bit 0 is SIGHUP. Where there is no such file, it is not known.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|bits| u64::from_str_radix(bits.trim(), 16).is_ok_and(|bits| bits & 1 == 1))
}

/// Every signal that comes.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
