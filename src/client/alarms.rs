//! The drivers that a gate has: who is woken when its next moment comes nearer.

use std::task::Waker;

use tokio::runtime;

use crate::Time;

use super::gate::{Gate, Inner};

/// A driver that sleeps until `armed`.
#[derive(Debug)]
pub(super) struct Alarm {
    pub(super) id: u64,
    pub(super) runtime: runtime::Id,
    pub(super) armed: Time,
    pub(super) waker: Waker,
}

impl Gate {
    /// Registers a driver of this runtime, unless it has one.
    pub(crate) fn new_driver(&self, runtime: runtime::Id) -> Option<u64> {
        let mut inner = self.lock();
        if inner.drivers.iter().any(|alarm| alarm.runtime == runtime) {
            return None;
        }
        inner.drivers_made += 1;
        let id = inner.drivers_made;
        inner.drivers.push(Alarm {
            id,
            runtime,
            // Its first poll is due already: there is no need to wake it.
            armed: Time::START,
            waker: Waker::noop().clone(),
        });
        Some(id)
    }

    /// A driver's turn: does what is due and answers when it is due again, and whether that is a
    /// moment to be in time for; none when nobody waits any more, and then the driver is no longer
    /// registered.
    pub(crate) fn drive(&self, id: u64, waker: &Waker) -> Option<(Time, bool)> {
        self.act(|inner, now, wakes| {
            if let Some(alarm) = inner.alarm(id) {
                // Its next moment is computed below: it need not be woken for it.
                alarm.armed = Time::START;
            }
            self.turn(inner, now, wakes);
            if !inner.seats.somebody_waits() {
                inner.drivers.retain(|alarm| alarm.id != id);
                return None;
            }
            let next = self.next_of(inner);
            let alarm = inner.alarm(id)?;
            alarm.armed = next;
            if !alarm.waker.will_wake(waker) {
                wakes
                    .spent
                    .push(std::mem::replace(&mut alarm.waker, waker.clone()));
            }
            // Who looks whether somebody is silent may be late.
            Some((next, next == inner.seats.next()))
        })
    }

    /// A driver is gone, perhaps with its runtime: whoever waits may have to start another.
    pub(crate) fn driver_gone(&self, id: u64) {
        self.act(|inner, _, wakes| {
            let before = inner.drivers.len();
            inner.drivers.retain(|alarm| alarm.id != id);
            if inner.drivers.len() < before {
                wakes.wakers.extend(inner.seats.wakers());
            }
        });
    }
}

impl Inner {
    fn alarm(&mut self, id: u64) -> Option<&mut Alarm> {
        self.drivers.iter_mut().find(|alarm| alarm.id == id)
    }
}
