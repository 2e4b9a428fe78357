//! What a gate has done outside, since nothing waits in the gate itself: keys are brought, grants are
//! paid for. It is started by whoever finds it due, and runs by itself.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime;

use crate::Time;

use super::gate::Gate;
use super::renewal::{Renewed, Which};
use super::seats::Seats;

impl Gate {
    /// Makes sure that somebody calls the outside, where there is something to call for: keys that
    /// are to be renewed, grants that are paid for there.
    pub(crate) fn see_to_agent(self: &Arc<Self>) {
        self.see_to_renewals();
        if !self.has_no_agent.load(Ordering::SeqCst) {
            return;
        }
        let gate = Arc::downgrade(self);
        let agent = {
            let (mut inner, now) = (self.lock(), self.clock.now());
            inner
                .buyer
                .as_mut()
                .and_then(|buyer| buyer.agent(gate, now))
        };
        let Some(agent) = agent else { return };
        self.has_no_agent.store(false, Ordering::SeqCst);
        run(agent);
    }

    /// Whether any key is renewed.
    pub(super) fn renews(&self) -> bool {
        !self.has_no_renewals
    }

    /// Calls the functions that bring keys, where one is due.
    fn see_to_renewals(self: &Arc<Self>) {
        if self.has_no_renewals {
            return;
        }
        let calls = {
            let (mut inner, now) = (self.lock(), self.clock.now());
            inner.seats.renewals.calls(&Arc::downgrade(self), now)
        };
        calls.into_iter().for_each(run);
    }

    /// A call of such a function has ended, or was dropped.
    pub(super) fn renewal_ended(&self, which: Which, brought: Option<Result<Renewed, Box<str>>>) {
        self.act(|inner, now, wakes| {
            let Seats {
                renewals, machine, ..
            } = &mut inner.seats;
            let was_dropped = brought.is_none();
            renewals.on_ended(which, brought, machine, now);
            self.pump(inner, now, wakes);
            if was_dropped {
                // Somebody who waits on another runtime calls it again.
                wakes.wakers.extend(inner.seats.wakers());
            }
        });
    }

    /// Why no key can be brought, and when it is tried again, if that is so.
    pub(super) fn renewal_trouble(&self) -> Option<(Arc<str>, Time)> {
        self.lock().seats.renewals.trouble()
    }

    /// Nobody calls the outside any more.
    #[cfg(feature = "shared")]
    pub(crate) fn agent_gone(&self) {
        self.has_no_agent.store(true, Ordering::SeqCst);
        self.act(|inner, _, wakes| {
            // The driver looks after the agent; without one, those who wait start both.
            wakes
                .wakers
                .extend(inner.drivers.iter().map(|alarm| alarm.waker.clone()));
            if inner.drivers.is_empty() {
                wakes.wakers.extend(inner.seats.wakers());
            }
        });
    }
}

/// Runs something that calls the outside: as a task of this runtime, or on a thread where there is
/// none.
fn run(call: Pin<Box<dyn Future<Output = ()> + Send>>) {
    match runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(call)),
        Err(_) => {
            let builder = runtime::Builder::new_current_thread().enable_all().build();
            // Without a thread to call from, whoever waits runs into its deadline.
            if let Ok(runtime) = builder {
                std::thread::spawn(move || runtime.block_on(call));
            }
        }
    }
}
