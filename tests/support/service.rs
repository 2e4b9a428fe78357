//! A service in virtual time, of which nothing is learned.

use paceline::scheduler::concurrency::{Concurrency, FixedSettings};
use paceline::scheduler::events::Ticket;
use paceline::scheduler::pace::PaceSettings;
use paceline::{Settings, Time};

use super::machine::{Machine, at, secs, served};

/// Nothing is learned: so many in flight per key, and these hard rates per key.
pub(crate) fn fixed(limit: u32, ceilings: &[&str]) -> Settings {
    let mut settings = Settings::default();
    let mut fixed = FixedSettings::default();
    fixed.limit = limit;
    settings.concurrency = Concurrency::Fixed(fixed);
    settings.pace = PaceSettings::Off;
    settings.max_wait = None;
    settings.ceilings = ceilings
        .iter()
        .map(|text| text.parse().expect("a rate"))
        .collect();
    settings
}

/// A service in virtual time: every request takes so long, and who asks is up to the test.
pub(crate) struct Service {
    pub(crate) machine: Machine,
    takes: f64,
    flying: Vec<(Time, Ticket)>,
}

impl Service {
    pub(crate) fn new(settings: Settings, keys: u8, takes: f64) -> Self {
        Self {
            machine: Machine::new(settings, keys),
            takes,
            flying: Vec::new(),
        }
    }

    /// Lets everything happen until a moment; each grant is told.
    pub(crate) fn run(&mut self, until: f64, mut granted: impl FnMut(&mut Machine, Ticket)) {
        let end = at(until);
        loop {
            while let Some(grant) = self.machine.grant() {
                let done = self.machine.now + secs(self.takes);
                self.flying.push((done, grant.ticket));
                granted(&mut self.machine, grant.ticket);
            }
            let answer = self.flying.iter().map(|&(done, _)| done).min();
            // What is due already is a refusal, and the test's to look at.
            let timeout = self.machine.scheduler.poll_timeout();
            let timeout = timeout.filter(|&at| at > self.machine.now);
            let next = answer.into_iter().chain(timeout).min();
            let Some(next) = next.filter(|&next| next <= end) else {
                break;
            };
            self.machine.now = next.max(self.machine.now);
            let now = self.machine.now;
            let (ended, left): (Vec<_>, Vec<_>) =
                self.flying.iter().partition(|&&(done, _)| done <= now);
            self.flying = left;
            for (_, ticket) in ended {
                self.machine.settle(ticket, &served());
            }
        }
        self.machine.now = end.max(self.machine.now);
    }
}

pub(crate) fn percentile(waits: &mut [f64], share: f64) -> f64 {
    waits.sort_by(f64::total_cmp);
    assert!(!waits.is_empty());
    waits[((waits.len() as f64 * share) as usize).min(waits.len() - 1)]
}
