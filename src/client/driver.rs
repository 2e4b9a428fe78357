//! The one timer of a limiter: it moves the queue while anyone waits.
//!
//! A waiter's own future cannot be what moves the queue, because it may be alive and not polled.
//! So a task does it, one for each runtime on which somebody waits: a runtime that nobody drives
//! any more must not stop those on another. It keeps no limiter alive and ends by itself when it
//! finds that nobody waits.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Sleep;

use super::gate::Gate;

/// Makes sure that the queue moves while somebody waits on this runtime. False outside tokio.
pub(crate) fn ensure(gate: &Arc<Gate>) -> bool {
    let Ok(runtime) = Handle::try_current() else {
        return false;
    };
    if let Some(id) = gate.new_driver(runtime.id()) {
        let driver = Driver {
            gate: Arc::downgrade(gate),
            id,
            sleep: None,
        };
        drop(runtime.spawn(driver));
    }
    true
}

struct Driver {
    gate: Weak<Gate>,
    id: u64,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(gate) = self.gate.upgrade() else {
                return Poll::Ready(());
            };
            let Some(next) = gate.drive(self.id, context.waker()) else {
                return Poll::Ready(());
            };
            let now = gate.clock().now();
            let wake = now + next.since(now).min(SLICE);
            let wake = gate.clock().instant(wake);
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

/// The longest sleep: a suspended machine is noticed this soon after it wakes.
const SLICE: Duration = Duration::from_secs(30);
