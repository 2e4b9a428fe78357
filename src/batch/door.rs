//! The last place before the wire: nothing passes it once it is shut, and what passes is marked.
//!
//! It stands inside the limiter, so that it sees every attempt.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use http::header::RETRY_AFTER;
use http::{Extensions, StatusCode};
use reqwest_middleware::{Middleware, Next};
use tokio::sync::Notify;

use super::ids::Id;
use super::inflight::{InFlight, Slot};

/// The last place before the wire.
#[derive(Debug)]
pub(crate) struct Door {
    shut: AtomicBool,
    /// Attempts on the wire and answers being read.
    flying: AtomicUsize,
    /// Lines handed to the limiter that have no record.
    active: AtomicUsize,
    /// Told when few are left that wait.
    pub(crate) hungry: Notify,
    inflight: Option<InFlight>,
    fault: Mutex<Option<io::Error>>,
}

impl Door {
    /// A door that marks what passes in this file.
    pub(crate) fn new(inflight: Option<InFlight>) -> Self {
        Self {
            shut: AtomicBool::new(false),
            flying: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            hungry: Notify::new(),
            inflight,
            fault: Mutex::new(None),
        }
    }

    /// Lets nothing more out.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Relaxed);
    }

    /// Whether nothing more goes out.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Relaxed)
    }

    /// Says how many lines are in the limiter's hands.
    pub(crate) fn set_active(&self, lines: usize) {
        self.active.store(lines, Relaxed);
    }

    /// Lines that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.active.load(Relaxed).saturating_sub(self.flying())
    }

    /// Requests on the wire.
    pub(crate) fn flying(&self) -> usize {
        self.flying.load(Relaxed)
    }

    /// Says that a line has its record.
    pub(crate) fn leave(&self, slot: Slot) {
        if let Some(inflight) = &self.inflight {
            inflight.leave(slot);
        }
    }

    /// Ends the file of marks: there is a record of everything.
    pub(crate) fn forget(&self) {
        if let Some(inflight) = &self.inflight {
            inflight.remove();
        }
    }

    /// Why nothing could be marked, if so.
    pub(crate) fn fault(&self) -> Option<io::Error> {
        self.fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Counts something as on the wire.
    pub(crate) fn fly(&self) -> Flight<'_> {
        self.flying.fetch_add(1, Relaxed);
        if self.waiting() < READ_AHEAD / 2 {
            self.hungry.notify_one();
        }
        Flight(self)
    }

    fn mark(&self, mark: &Mark) -> io::Result<()> {
        if let (Some(inflight), None) = (&self.inflight, mark.slot.get()) {
            let slot = inflight.enter(mark.id)?;
            mark.slot
                .set(slot)
                .expect("attempts of one request follow each other");
        }
        mark.attempts.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Counts as on the wire until it is dropped.
pub(crate) struct Flight<'a>(&'a Door);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.flying.fetch_sub(1, Relaxed);
    }
}

/// What is known of one line's attempts.
#[derive(Debug)]
pub(crate) struct Mark {
    id: Id,
    slot: OnceLock<Slot>,
    attempts: AtomicU32,
    refused: AtomicU32,
}

impl Mark {
    /// Nothing was sent so far.
    pub(crate) fn new(id: Id) -> Self {
        let (attempts, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        Self {
            id,
            slot: OnceLock::new(),
            attempts,
            refused,
        }
    }
}

impl Mark {
    /// How many attempts were sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Relaxed)
    }

    /// How many of them the server refused.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.load(Relaxed)
    }

    /// Its slot, once something was sent.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot.get().copied()
    }
}

/// The door as a middleware.
#[derive(Clone, Debug)]
pub(crate) struct AtTheDoor(pub(crate) Arc<Door>);

#[async_trait]
impl Middleware for AtTheDoor {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let door = &self.0;
        let mark = extensions.get::<Arc<Mark>>().map(Arc::clone);
        let mark = mark.expect("every request of a run has its mark");
        if door.is_shut() {
            return Err(reqwest_middleware::Error::middleware(Stopping));
        }
        if let Err(error) = door.mark(&mark) {
            *door.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            door.shut();
            return Err(reqwest_middleware::Error::middleware(Stopping));
        }
        let flight = door.fly();
        let result = next.run(request, extensions).await;
        drop(flight);
        if let Ok(response) = &result {
            let refused = match response.status() {
                StatusCode::TOO_MANY_REQUESTS => true,
                StatusCode::SERVICE_UNAVAILABLE => response.headers().contains_key(RETRY_AFTER),
                status => status.as_u16() == OVERLOADED,
            };
            mark.refused.fetch_add(u32::from(refused), Relaxed);
        }
        result
    }
}

/// Nothing more is sent.
#[derive(Debug, thiserror::Error)]
#[error("the run is being stopped; it was not sent")]
struct Stopping;

/// So many lines wait for their turn, so that a high priority among them goes first.
pub(crate) const READ_AHEAD: usize = 1_000;

/// Several vendors' own status for being full.
const OVERLOADED: u16 = 529;
