//! The lines of a desk, one a key, and the limits that they share. Keys come and go: what has not
//! been used for so long that nothing of it counts any more gives its place to the next.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use smallvec::SmallVec;

use crate::Time;
use crate::scheduler::allowance::Purchase;
use crate::scheduler::events::Fingerprint;

use super::super::sharing::Shared;
use super::super::store::Limit;
use super::limits::Known;
use super::payments::Batch;
use super::{Desk, IDLE_LEASES, Stage};

/// The purchases of one key.
#[derive(Debug)]
pub(super) struct Line {
    /// The places of its limits: what is paid for exactly, and what is borrowed.
    pub(super) exact: SmallVec<[usize; 4]>,
    pub(super) lent: SmallVec<[usize; 4]>,
    pub(super) paid_from: Vec<Limit>,
    pub(super) waiting: VecDeque<Purchase>,
    pub(super) flying: Option<Batch>,
    pub(super) refused_until: Time,
    /// Until when the store does not know what was used.
    pub(super) lost_until: Time,
    used_at: Time,
}

/// Which places nobody uses, and when to look for them.
#[derive(Debug, Default)]
pub(super) struct Spare {
    lines: Vec<usize>,
    limits: Vec<usize>,
    /// As soon as there are so many lines.
    look_at: usize,
}

impl Desk {
    /// The line of a key.
    pub(super) fn line(&mut self, key: Fingerprint, now: Time) -> usize {
        if let Some(&line) = self.line_of.get(&key) {
            self.lines[line].used_at = now;
            return line;
        }
        if self.lines.len() >= self.spare.look_at && self.spare.lines.is_empty() {
            self.look_for_spare(now);
        }
        let mut line = Line {
            exact: SmallVec::new(),
            lent: SmallVec::new(),
            paid_from: Vec::new(),
            waiting: VecDeque::new(),
            flying: None,
            refused_until: now,
            lost_until: now,
            used_at: now,
        };
        // The settings were checked with another key of the same ceilings.
        let shared = self.sharing.limits(&self.settings, key).unwrap_or_default();
        for shared in shared {
            let place = self.place(shared);
            let known = &self.limits[place];
            if known.shared.is_lent {
                line.lent.push(place);
            } else {
                line.exact.push(place);
                line.paid_from.push(known.shared.limit.clone());
            }
        }
        let place = match self.spare.lines.pop() {
            Some(place) => {
                self.lines[place] = line;
                place
            }
            None => {
                self.lines.push(line);
                self.lines.len() - 1
            }
        };
        self.line_of.insert(key, place);
        place
    }

    /// The place of a limit, whichever keys have it.
    fn place(&mut self, shared: Shared) -> usize {
        let same = |known: &Known| known.shared.limit == shared.limit;
        if let Some(place) = self.limits.iter().position(same) {
            self.spare.limits.retain(|&other| other != place);
            return place;
        }
        let known = Known::new(shared, self.owners);
        match self.spare.limits.pop() {
            Some(place) => {
                self.limits[place] = known;
                place
            }
            None => {
                self.limits.push(known);
                self.limits.len() - 1
            }
        }
    }

    /// Finds the lines and limits of which nothing counts any more. As rarely as they have doubled:
    /// it looks at all.
    fn look_for_spare(&mut self, now: Time) {
        let mut used: HashSet<usize> = self.debts.lines().collect();
        used.extend(self.purchases.values().filter_map(|stage| match stage {
            Stage::Waiting(line) => Some(*line),
            Stage::Granted(granted) => Some(granted.line),
            Stage::Flying | Stage::Dropped => None,
        }));
        let windows = self.limits.iter().map(|limit| limit.shared.limit.memory());
        let longest = windows.max().unwrap_or_default();
        let counts = longest.max(self.sharing.lease * IDLE_LEASES) + SLACK;
        let (lines, spare) = (&self.lines, &mut self.spare);
        self.line_of.retain(|_, &mut place| {
            let line = &lines[place];
            let is_busy = line.flying.is_some() || !line.waiting.is_empty();
            let lives = is_busy || used.contains(&place) || now < line.used_at + counts;
            if !lives {
                spare.lines.push(place);
            }
            lives
        });
        let places = self.line_of.values().map(|&line| &lines[line]);
        let kept: HashSet<usize> = places
            .flat_map(|line| line.exact.iter().chain(&line.lent).copied())
            .collect();
        let is_free = |place: &usize| {
            let limit = &self.limits[*place];
            !kept.contains(place) && !limit.claim.is_flying && limit.pace.share(now) == 0
        };
        spare.limits = (0..self.limits.len()).filter(is_free).collect();
        spare.look_at = (2 * self.line_of.len()).max(FEW);
    }
}

/// So many lines cost nothing, and most limiters never have more.
const FEW: usize = 64;
/// What was sent last may be told to the store a little later.
const SLACK: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::config::Settings;
    use crate::scheduler::allowance::Settled;
    use crate::scheduler::events::{Cost, Ticket};
    use crate::shared::store::{Owner, Scope, Store};
    use crate::shared::{MemoryStore, Mode, Sharing};

    /// Ten thousand keys, each used once, one a second. How many lines and limits are kept.
    async fn come_and_go(mode: Mode) -> (usize, usize) {
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let told = Arc::clone(&clock);
        let memory = Arc::new(MemoryStore::with_clock(move || told.load(Ordering::SeqCst)));
        let sharing = Sharing::new(Arc::clone(&memory), "s").expect("a good name");
        let settings = Settings {
            ceilings: vec!["100/10s".parse().expect("a rate")],
            key_concurrency: 4,
            ..Settings::default()
        };
        let store: Arc<dyn Store> = memory;
        let mut desk = Desk::new(sharing.mode(mode), settings, Owner::new(1));
        let scope = Scope::new("s").expect("a good name");
        for number in 1..=10_000u64 {
            let now = Time::from_nanos(number * 1_000_000_000);
            clock.fetch_add(1_000_000, Ordering::SeqCst);
            let [.., a, b] = number.to_be_bytes();
            let key = Fingerprint::from_hash([1, 2, 3, 4, a, b]);
            let ticket = Ticket {
                slot: 0,
                generation: 0,
            };
            let cost = Cost::ONE;
            desk.on_purchase(
                Purchase {
                    id: number,
                    ticket,
                    key,
                    cost,
                },
                now,
            );
            while let Some(call) = desk.poll_call(now) {
                let (call, heard) = call.make(Arc::clone(&store), scope.clone()).await;
                desk.on_heard(call, heard, now);
            }
            desk.on_settled(Settled::Ended(number), now);
            while desk.poll_answer().is_some() || desk.poll_change().is_some() {}
        }
        (desk.lines.len(), desk.limits.len())
    }

    #[tokio::test]
    async fn keys_that_come_and_go_leave_nothing_behind() {
        for mode in [Mode::Exact, Mode::Leases] {
            let (lines, limits) = come_and_go(mode).await;
            assert!(
                lines <= 300 && limits <= 600,
                "{mode:?}: {lines} lines, {limits} limits"
            );
        }
    }
}
