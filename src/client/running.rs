//! How far an attempt has come behind its limiter, as what lies further in tells.

use std::sync::atomic::{AtomicBool, Ordering};

/// An attempt loop that is running.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// A limiter further in holds the attempt back.
    waits_below: AtomicBool,
    /// It has done so since this was last asked.
    waited_below: AtomicBool,
    /// The service that is to send it is not ready.
    unready: AtomicBool,
}

impl Running {
    /// Whether it is held back further in: nothing was sent of the attempt.
    pub(super) fn is_held_back(&self) -> bool {
        self.waits_below.load(Ordering::Relaxed) || self.unready.load(Ordering::Relaxed)
    }

    /// Whether a limiter further in holds it back, or has since this was last asked.
    pub(super) fn has_waited_below(&self) -> bool {
        self.waited_below.swap(false, Ordering::Relaxed) || self.waits_below.load(Ordering::Relaxed)
    }

    /// A limiter further in holds the attempt back, or does not any more.
    #[cfg(any(feature = "reqwest", feature = "tower"))]
    pub(super) fn set_waits_below(&self, waits: bool) {
        self.waits_below.store(waits, Ordering::Relaxed);
        self.waited_below.store(true, Ordering::Relaxed);
    }

    /// The service that is to send the attempt is ready, or is not.
    #[cfg(feature = "tower")]
    pub(super) fn set_ready(&self, is_ready: bool) {
        self.unready.store(!is_ready, Ordering::Relaxed);
    }
}
