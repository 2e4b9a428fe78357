//! What an operator does with a running gate: looks, cancels, switches, changes settings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "metrics")]
use std::sync::atomic::AtomicBool;

use crate::config::Settings;
use crate::error::{Error, Kind};
use crate::scheduler::events::{Name, Priority};
use crate::scheduler::explain::Explanation;
use crate::scheduler::groups::Cancelled;
use crate::scheduler::history::History;
use crate::scheduler::mode::Mode;

use super::gate::Gate;
#[cfg(any(feature = "metrics", feature = "tracing"))]
use super::telemetry::Telemetry;

/// What is read without the lock.
#[derive(Debug)]
pub(super) struct Live {
    /// What [`Settings::max_wait`] is, in nanoseconds; [`FOREVER`] if it is none.
    max_wait: AtomicU64,
    /// The same of [`Settings::attempt_timeout`].
    attempt_timeout: AtomicU64,
    /// When the gauges were last set, in nanoseconds, or [`FOREVER`].
    #[cfg(feature = "metrics")]
    sampled: AtomicU64,
    /// Whether nobody was there then.
    #[cfg(feature = "metrics")]
    sampled_idle: AtomicBool,
}

impl Live {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            max_wait: AtomicU64::new(nanos(settings.max_wait)),
            attempt_timeout: AtomicU64::new(nanos(settings.attempt_timeout)),
            #[cfg(feature = "metrics")]
            sampled: AtomicU64::new(FOREVER),
            #[cfg(feature = "metrics")]
            sampled_idle: AtomicBool::new(false),
        }
    }
}

impl Gate {
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(super) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Sets the gauges, unless that was done just now.
    #[cfg(feature = "metrics")]
    pub(super) fn sample(&self) {
        let now = self.clock().now().as_nanos();
        let last = self.live.sampled.load(Ordering::Relaxed);
        let is_due = last == FOREVER || now.saturating_sub(last) >= SAMPLE;
        let is_idle = self.depth() == (0, 0);
        if !is_due && (!is_idle || self.live.sampled_idle.load(Ordering::Relaxed)) {
            return;
        }
        self.live.sampled.store(now, Ordering::Relaxed);
        self.live.sampled_idle.store(is_idle, Ordering::Relaxed);
        self.telemetry.on_sample(&self.explain());
    }

    /// What the machine is up to.
    pub(crate) fn explain(&self) -> Explanation {
        self.act(|inner, now, wakes| {
            self.pump(inner, now, wakes);
            inner.seats.machine.explain(now)
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        self.lock().seats.machine.mode()
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        self.act(|inner, now, wakes| {
            inner.seats.machine.set_mode(mode, now);
            self.pump(inner, now, wakes);
        });
    }

    pub(crate) fn settings(&self) -> Settings {
        self.lock().seats.machine.settings().clone()
    }

    /// How long a request may wait, as newcomers have it.
    pub(crate) fn max_wait(&self) -> Option<Duration> {
        duration(&self.live.max_wait)
    }

    /// How long an attempt may take, as newcomers have it.
    pub(crate) fn attempt_timeout(&self) -> Option<Duration> {
        duration(&self.live.attempt_timeout)
    }

    pub(crate) fn set_settings(&self, settings: Settings) -> Result<(), Error> {
        self.act(|inner, now, wakes| {
            let old = inner.seats.machine.settings();
            if inner.buyer.is_some() && !has_same_limits(old, &settings) {
                return Err(Kind::SharedCeiling.into());
            }
            let (max_wait, attempt_timeout) = (settings.max_wait, settings.attempt_timeout);
            inner.seats.machine.set_settings(settings, now)?;
            let live = &self.live;
            live.max_wait.store(nanos(max_wait), Ordering::Relaxed);
            live.attempt_timeout
                .store(nanos(attempt_timeout), Ordering::Relaxed);
            self.pump(inner, now, wakes);
            Ok(())
        })
    }

    /// Cancels what waits of a group, but for what is at or above `spare`; that belongs to `new`
    /// from now on, if there is one.
    pub(crate) fn cancel_group(
        &self,
        group: &Name,
        new: Option<&Name>,
        spare: Option<Priority>,
    ) -> Cancelled {
        self.act(|inner, now, wakes| {
            let machine = &mut inner.seats.machine;
            let cancelled = match new {
                Some(new) => machine.replace_group(group, new, spare),
                None => machine.cancel_group(group, spare),
            };
            self.pump(inner, now, wakes);
            cancelled
        })
    }

    pub(crate) fn history(&self) -> History {
        self.lock().seats.machine.history()
    }

    pub(crate) fn heartbeat(&self, tenant: Name) {
        self.act(|inner, now, _| inner.seats.machine.on_heartbeat(tenant, now));
    }

    pub(crate) fn set_weight(&self, tenant: Name, weight: f64) {
        self.lock().seats.machine.set_weight(tenant, weight);
    }
}

/// Whether the hard limits are the same: those are what is shared with other processes.
fn has_same_limits(one: &Settings, other: &Settings) -> bool {
    one.ceilings == other.ceilings
        && one.shared_ceilings == other.shared_ceilings
        && one.max_concurrency == other.max_concurrency
        && one.key_concurrency == other.key_concurrency
}

fn nanos(wait: Option<Duration>) -> u64 {
    wait.map_or(FOREVER, |wait| {
        u64::try_from(wait.as_nanos()).unwrap_or(FOREVER - 1)
    })
}

fn duration(nanos: &AtomicU64) -> Option<Duration> {
    let nanos = nanos.load(Ordering::Relaxed);
    (nanos != FOREVER).then(|| Duration::from_nanos(nanos))
}

/// In nanoseconds: how often the gauges are set at most, but that they are set once nobody is there
/// any more. Scrapers look every few seconds.
#[cfg(feature = "metrics")]
const SAMPLE: u64 = 100_000_000;
/// No wait is this long.
const FOREVER: u64 = u64::MAX;
