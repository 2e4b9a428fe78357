//! The last place before the wire: nothing passes it once it is shut, and what passes is marked.
//!
//! It stands inside the limiter, so that it sees every attempt.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::RETRY_AFTER;
use http::{Extensions, HeaderMap, StatusCode};
use reqwest_middleware::{Middleware, Next};
use tokio::sync::Notify;

use crate::client::Clock;
use crate::scheduler::events::Refusal;

use super::ids::Id;
use super::inflight::{InFlight, Slot};
use super::outage::Outage;
use super::transport;

/// The last place before the wire.
#[derive(Debug)]
pub(crate) struct Door {
    shut: AtomicBool,
    /// Attempts on the wire and answers being read.
    flying: AtomicUsize,
    /// What these take of memory.
    flying_bytes: AtomicUsize,
    /// Lines handed to the limiter that have no record.
    active: AtomicUsize,
    active_bytes: AtomicUsize,
    /// Told when few are left that wait.
    pub(crate) hungry: Notify,
    inflight: Option<InFlight>,
    fault: Mutex<Option<io::Error>>,
    /// How attempts were answered, by status.
    answers: Mutex<BTreeMap<u16, u64>>,
}

impl Door {
    /// A door that marks what passes in this file.
    pub(crate) fn new(inflight: Option<InFlight>) -> Self {
        Self {
            shut: AtomicBool::new(false),
            flying: AtomicUsize::new(0),
            flying_bytes: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            active_bytes: AtomicUsize::new(0),
            hungry: Notify::new(),
            inflight,
            fault: Mutex::new(None),
            answers: Mutex::default(),
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

    /// Says how many lines are in the limiter's hands, and what they take of memory.
    pub(crate) fn set_active(&self, lines: usize, bytes: usize) {
        self.active.store(lines, Relaxed);
        self.active_bytes.store(bytes, Relaxed);
    }

    /// Whether more lines may wait for their turn. What is on the wire does not count, since how much
    /// that is the limiter decides, as long as there is memory for it.
    pub(crate) fn has_room(&self) -> bool {
        let bytes = self.active_bytes.load(Relaxed);
        let waiting_bytes = bytes.saturating_sub(self.flying_bytes.load(Relaxed));
        let waiting = self.waiting();
        waiting < READ_AHEAD && (waiting_bytes < MOST_WAITING || waiting == 0) && !self.is_full()
    }

    /// Whether all lines that have no record take as much memory as they may.
    pub(crate) fn is_full(&self) -> bool {
        self.active_bytes.load(Relaxed) >= MOST_BYTES
    }

    /// Lines that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.active.load(Relaxed).saturating_sub(self.flying())
    }

    /// Requests on the wire.
    pub(crate) fn flying(&self) -> usize {
        self.flying.load(Relaxed)
    }

    /// Says that a line has its record, and whether that is final.
    pub(crate) fn leave(&self, slot: Slot, last: bool) {
        let Some(inflight) = &self.inflight else {
            return;
        };
        if let Err(error) = inflight.leave(slot, last) {
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Whether a line was in flight when an earlier run ended.
    pub(crate) fn was_left(&self, id: Id) -> bool {
        self.inflight
            .as_ref()
            .is_some_and(|inflight| inflight.was_left(id))
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

    /// How attempts were answered so far, by status.
    pub(crate) fn answers(&self) -> BTreeMap<u16, u64> {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn on_answer(&self, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status.as_u16()).or_default() += 1;
    }

    /// Counts something as on the wire.
    pub(crate) fn fly(&self, mark: &Mark) -> Flight<'_> {
        self.flying.fetch_add(1, Relaxed);
        self.flying_bytes.fetch_add(mark.size, Relaxed);
        if self.waiting() < READ_AHEAD / 2 {
            self.hungry.notify_one();
        }
        Flight(self, mark.size)
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
pub(crate) struct Flight<'a>(&'a Door, usize);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.flying.fetch_sub(1, Relaxed);
        self.0.flying_bytes.fetch_sub(self.1, Relaxed);
    }
}

/// What is known of one line's attempts.
#[derive(Debug)]
pub(crate) struct Mark {
    id: Id,
    /// What the line takes of memory.
    size: usize,
    /// How often it may be sent.
    most: Option<u16>,
    slot: OnceLock<Slot>,
    attempts: AtomicU32,
    refused: AtomicU32,
    /// Whether it may go though its provider is away.
    probes: AtomicBool,
    /// Whether it was sent back for that.
    turned_back: AtomicBool,
    /// Whether its last attempt was sent on: the next one belongs to the same.
    sent_on: AtomicBool,
    /// How its last attempt broke, and whether it had left.
    broke: Mutex<Option<(String, bool)>>,
}

impl Mark {
    /// Nothing was sent so far; it may be `most` times, however often it comes to the door.
    pub(crate) fn new(id: Id, size: usize, most: Option<u16>) -> Self {
        let (attempts, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        Self {
            id,
            size,
            most,
            slot: OnceLock::new(),
            attempts,
            refused,
            probes: AtomicBool::new(false),
            turned_back: AtomicBool::new(false),
            sent_on: AtomicBool::new(false),
            broke: Mutex::default(),
        }
    }

    /// How many attempts were sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Relaxed)
    }

    /// Whether it was sent as often as it may be.
    pub(crate) fn is_used_up(&self) -> bool {
        self.most.is_some_and(|most| self.attempts() >= most.into())
    }

    /// Whether somebody has said how often it may be sent.
    pub(crate) fn is_bounded(&self) -> bool {
        self.most.is_some()
    }

    /// Says that the server refused one of them.
    pub(crate) fn on_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// How many of them the server refused.
    pub(crate) fn refused(&self) -> u32 {
        self.refused.load(Relaxed)
    }

    /// Says whether it may go though its provider is away.
    pub(crate) fn set_probes(&self, probes: bool) {
        self.probes.store(probes, Relaxed);
    }

    /// Says that it was sent back because its provider is away.
    pub(crate) fn turn_back(&self) {
        self.turned_back.store(true, Relaxed);
    }

    /// Whether it may go though its provider is away.
    pub(crate) fn probes(&self) -> bool {
        self.probes.load(Relaxed)
    }

    /// Whether it was sent back since this was asked last, because its provider is away.
    pub(crate) fn was_turned_back(&self) -> bool {
        self.turned_back.swap(false, Relaxed)
    }

    /// How its last attempt broke, and whether it had left, if it broke.
    pub(crate) fn broke(&self) -> Option<(String, bool)> {
        self.broke
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Its slot, once something was sent.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot.get().copied()
    }
}

/// The door as a middleware.
#[derive(Clone, Debug)]
pub(crate) struct AtTheDoor {
    pub(crate) door: Arc<Door>,
    pub(crate) outage: Arc<Outage>,
    pub(crate) clock: Clock,
}

#[async_trait]
impl Middleware for AtTheDoor {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let door = &self.door;
        let mark = extensions.get::<Arc<Mark>>().map(Arc::clone);
        let mark = mark.expect("every request of a run has its mark");
        if door.is_shut() {
            return Err(unsent());
        }
        let began = self.clock.now();
        let queued = self.outage.lasts(began) > Duration::ZERO && !mark.probes();
        let is_hop = mark.sent_on.swap(false, Relaxed);
        if !is_hop && (queued || mark.is_used_up()) {
            // The outage began just when its turn came, or it has been sent as often as it may.
            mark.turn_back();
            return Err(unsent());
        }
        if let Err(error) = door.mark(&mark) {
            *door.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            door.shut();
            return Err(unsent());
        }
        let flight = door.fly(&mark);
        let result = next.run(request, extensions).await;
        drop(flight);
        let now = self.clock.now();
        if let Ok(response) = &result {
            door.on_answer(response.status());
            mark.sent_on
                .store(response.status().is_redirection(), Relaxed);
        }
        match &result {
            Ok(response) => match Sign::of(response.status(), response.headers()) {
                Sign::Served => self.outage.on_served(began, now),
                // A provider that refuses is there, but whether it serves is not known.
                Sign::Refused => mark.on_refused(),
                Sign::Bad => {
                    let cause = format!("it answers {}", response.status());
                    self.outage.on_bad(&cause, began, now);
                }
            },
            Err(error) => {
                let cause = transport::describe(error);
                self.outage.on_bad(&cause, began, now);
                let sent = !transport::is_unsent(error);
                if !sent {
                    mark.attempts.fetch_sub(1, Relaxed);
                }
                let mut broke = mark.broke.lock().unwrap_or_else(PoisonError::into_inner);
                *broke = Some((cause, sent));
            }
        }
        result
    }
}

/// What an answer says about its provider, at a glance.
enum Sign {
    Served,
    /// For going too fast, or for being full.
    Refused,
    /// An error of the server's own.
    Bad,
}

impl Sign {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Self::Refused,
            StatusCode::SERVICE_UNAVAILABLE if headers.contains_key(RETRY_AFTER) => Self::Refused,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Self::Bad,
            // What it cannot do at all is no outage.
            StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => Self::Served,
            status if status.as_u16() == OVERLOADED => Self::Refused,
            status if status.is_server_error() => Self::Bad,
            _ => Self::Served,
        }
    }
}

/// To the limiter it is as if nobody had taken up its turn: it takes back what that was charged.
fn unsent() -> reqwest_middleware::Error {
    let refused = crate::Error::refused(Refusal::Closed, None, None, false);
    reqwest_middleware::Error::middleware(refused)
}

/// What lines that wait for their turn may take of memory, unless a single one takes more: a thousand
/// of 8 KB, and at most 8 MiB more than a thousand of the smallest.
const MOST_WAITING: usize = 16 << 20;

/// What lines may take of memory in all. It is more than any line of its own, and leaves a machine of
/// 1 GiB alive whatever the limiter learns: a thousand lines in flight of 10 MB each would be 10 GB.
const MOST_BYTES: usize = 256 << 20;

/// So many lines wait for their turn, so that a high priority among them goes first.
pub(crate) const READ_AHEAD: usize = 1_000;

/// Several vendors' own status for being full.
const OVERLOADED: u16 = 529;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_wire_takes_no_room_from_what_waits() {
        let door = Door::new(None);
        let mark = Mark::new(Id::of("a"), MOST_WAITING, None);
        assert!(door.has_room());
        door.set_active(1, MOST_WAITING);
        assert!(!door.has_room(), "as many bytes wait as may");
        let flight = door.fly(&mark);
        assert!(door.has_room());
        door.set_active(1 + READ_AHEAD, MOST_WAITING);
        assert!(!door.has_room(), "as many lines wait as may");
        drop(flight);
        assert_eq!((door.flying(), door.waiting()), (0, 1 + READ_AHEAD));
    }

    #[test]
    fn no_more_is_begun_than_there_is_memory_for_however_much_may_be_in_flight() {
        let door = Door::new(None);
        let (mark, mut flights) = (Mark::new(Id::of("a"), MOST_WAITING, None), Vec::new());
        while door.has_room() {
            door.set_active(flights.len() + 1, (flights.len() + 1) * MOST_WAITING);
            flights.push(door.fly(&mark));
        }
        assert_eq!(
            (flights.len(), door.is_full()),
            (MOST_BYTES / MOST_WAITING, true)
        );
    }

    #[test]
    fn a_line_that_is_larger_than_all_room_goes_alone() {
        let door = Door::new(None);
        let mark = Mark::new(Id::of("a"), 2 * MOST_WAITING, None);
        assert!(door.has_room(), "nothing waits");
        door.set_active(1, 2 * MOST_WAITING);
        assert!(!door.has_room());
        let _flight = door.fly(&mark);
        assert!(door.has_room());
    }
}
