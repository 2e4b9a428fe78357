//! The one timer of a limiter: it moves the queue while anyone waits.
//!
//! A waiter's own future cannot be what moves the queue, because it may be alive and not polled.
//! So a task does it, one for each runtime on which somebody waits: a runtime that nobody drives
//! any more must not stop those on another. It keeps no limiter alive and ends by itself when it
//! finds that nobody waits.
//!
//! A timer of tokio's ends up to two milliseconds late (it rounds up to whole ones, and so does
//! the poll below it). At 25 requests a second that is 4 % of the rate, so the last stretch before
//! a near moment is waited for by being polled again and again, for a bounded share of the time.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::Time;

use super::gate::Gate;

/// Makes sure that the queue moves while somebody waits on this runtime. False outside tokio.
pub(crate) fn ensure(gate: &Arc<Gate>) -> bool {
    let Ok(runtime) = Handle::try_current() else {
        return false;
    };
    gate.see_to_agent();
    if let Some(id) = gate.new_driver(runtime.id()) {
        let driver = Driver {
            gate: Arc::downgrade(gate),
            id,
            sleep: None,
            is_slice: false,
            stretch: None,
            haste: Haste::default(),
        };
        drop(runtime.spawn(driver));
    }
    true
}

struct Driver {
    gate: Weak<Gate>,
    id: u64,
    sleep: Option<Pin<Box<Sleep>>>,
    /// It sleeps for a part of its wait only, to see whether the machine was suspended.
    is_slice: bool,
    /// The last stretch that it is polled through, if it is in one.
    stretch: Option<Stretch>,
    haste: Haste,
}

/// The time from one look at the gate to the next, within the last stretch before a moment.
struct Stretch {
    look_at: Time,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(gate) = self.gate.upgrade() else {
                return Poll::Ready(());
            };
            if let Some(stretch) = self.stretch.take() {
                let now = gate.clock().now();
                if now < stretch.look_at && self.haste.spend(now) {
                    self.stretch = Some(stretch);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            let is_over = self.sleep.as_ref().is_some_and(|sleep| sleep.is_elapsed());
            if self.is_slice && is_over {
                gate.catch_up();
            }
            let next = gate.drive(self.id, context.waker());
            gate.see_to_agent();
            let Some((next, is_sharp)) = next else {
                return Poll::Ready(());
            };
            let now = gate.clock().now();
            let wait = next.since(now);
            let lead = match self.haste.lead(wait, now) {
                lead if is_sharp => lead,
                _ => Duration::ZERO,
            };
            if !wait.is_zero() && wait <= lead {
                let look_at = now + wait.min(LOOK);
                self.stretch = Some(Stretch { look_at });
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let wait = wait - lead;
            self.is_slice = wait > SLICE;
            let wake = gate.clock().instant(now + wait.min(SLICE));
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    sleep.as_mut().reset(wake);
                    sleep
                }
                none => none.insert(Box::pin(tokio::time::sleep_until(wake))),
            };
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.upgrade() {
            gate.driver_gone(self.id);
        }
    }
}

/// How much of its time a driver may spend awake before its moments.
#[derive(Debug, Default)]
struct Haste {
    credit: Duration,
    at: Time,
    /// Polls in a row that found the clock where it was.
    still: u32,
}

impl Haste {
    /// How long before the end of a wait to wake up and stay awake.
    fn lead(&mut self, wait: Duration, now: Time) -> Duration {
        let earned = now.since(self.at) / SHARE;
        self.credit = (self.credit + earned).min(LEAD);
        self.at = now;
        if wait > FAR || self.still >= STANDS_STILL {
            return Duration::ZERO;
        }
        // While it sleeps it earns more.
        (self.credit + wait / SHARE).min(LEAD).min(wait)
    }

    /// Whether it may stay awake for another poll.
    fn spend(&mut self, now: Time) -> bool {
        let spent = now.since(self.at);
        self.at = now;
        if spent.is_zero() {
            // A clock that stands still is a paused one, and moves only when all sleep.
            self.still += 1;
            return self.still < STANDS_STILL;
        }
        self.still = 0;
        self.credit = self.credit.saturating_sub(spent);
        !self.credit.is_zero()
    }
}

/// The longest sleep: a suspended machine is noticed this soon after it wakes.
const SLICE: Duration = Duration::from_secs(30);
/// How late a timer of tokio's may end: one millisecond for its own rounding up, one for that of
/// the poll below it.
const LEAD: Duration = Duration::from_millis(2);
/// Beyond this a timer's lateness is less than one percent of the wait.
const FAR: Duration = Duration::from_millis(200);
/// A driver is awake for at most one part in so many of its time: at a fifth, intervals down to
/// 10 ms are kept in full.
const SHARE: u32 = 5;
/// How often the gate is looked at meanwhile, for what may have become due sooner.
const LOOK: Duration = Duration::from_micros(50);
/// Real clocks tick at least every 100 ns, and a poll takes about as long.
const STANDS_STILL: u32 = 100;
