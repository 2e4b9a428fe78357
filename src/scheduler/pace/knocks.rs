//! How often a key was refused of late, how many refusals may still be risked, and what became of
//! those who were refused too often.

use std::collections::VecDeque;
use std::time::Duration;

use crate::scheduler::time::Time;

/// The latest refusals of one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Knocks {
    at: VecDeque<Time>,
}

impl Knocks {
    /// More than a ban takes to come.
    const KEPT: usize = 16;

    pub(super) fn push(&mut self, now: Time) {
        if self.at.len() == Self::KEPT {
            self.at.pop_front();
        }
        self.at.push_back(now);
    }

    /// Refusals in the last `seconds`.
    pub(super) fn count(&self, seconds: f64, now: Time) -> u32 {
        self.at
            .iter()
            .rev()
            .take_while(|&&at| now.secs_since(at) < seconds)
            .count() as u32
    }
}

/// Refusals that may be risked to learn: a few at once, then one per hundred successes.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Self::MOST }
    }
}

impl Budget {
    /// A silent limit has two unknowns, its kind, and one error.
    const MOST: f64 = 4.0;
    /// What following a limit that may rise costs: 1 % of requests.
    const EARNED: f64 = 0.01;

    /// What is left, for the next time.
    pub(super) fn left(&self) -> f64 {
        self.left
    }

    /// Begins with what was left: who knows the limit has nothing to learn by refusals.
    pub(super) fn recall(&mut self, left: f64) {
        // Not a number is none.
        self.left = if left > 0.0 {
            left.min(Self::MOST)
        } else {
            0.0
        };
    }

    pub(super) fn earn(&mut self) {
        self.left = (self.left + Self::EARNED).min(Self::MOST);
    }

    /// Never below nothing: after an outage a debt would forbid every trial for the rest of a run.
    pub(super) fn spend(&mut self) {
        self.left = (self.left - 1.0).max(0.0);
    }

    pub(super) fn allows(&self) -> bool {
        self.left >= 1.0
    }
}

/// A ban, and what it came after. One is remembered: the next would cost its whole length again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ban {
    /// So many refusals brought it …
    refusals: u32,
    /// … within this time, in seconds, as far as is known.
    within: f64,
    at: Time,
    /// How long before `at` it was, where that is before all time.
    older: f64,
}

/// A ban, for the next time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
pub(super) struct BanMemory {
    /// So many refusals brought it.
    refusals: u32,
    /// In seconds, within how long.
    #[cfg_attr(feature = "serde", serde(default = "longest_within"))]
    within: f64,
    /// In seconds, how long ago it was.
    ago: f64,
}

impl Ban {
    /// In seconds: bans seen in the wild count refusals over seconds up to a minute.
    pub(super) const WITHIN: f64 = 60.0;
    /// In seconds, where the ban says how long it lasts and is waited out: the commonest, and a
    /// little more. If it comes again they count for longer.
    const SHORT: f64 = 10.05;
    /// In seconds: after it what was let through is asked for more again.
    const STILL: f64 = 600.0;
    /// In seconds: thirty days. A month without a ban may be another rule.
    const KEPT: f64 = 30.0 * 86_400.0;
    /// What is denied after fewer has another fault.
    const FEWEST: u32 = 2;
    /// In a row: one or two may be about what was asked for.
    pub(super) const DENIALS: u32 = 3;

    /// What a server may have that asks to wait: it counts who does not, and four refusals in ten seconds
    /// are a strict rule. Three find most rates; two are enough where no rate `is_sought`.
    pub(super) fn presumed(is_sought: bool) -> Self {
        Self {
            refusals: if is_sought { 5 } else { 4 },
            within: Self::SHORT,
            at: Time::START,
            older: 0.0,
        }
    }

    /// What denials after so many refusals tells, with what was known before.
    pub(super) fn after(refusals: u32, before: Option<Self>, now: Time) -> Option<Self> {
        (refusals >= Self::FEWEST).then(|| Self {
            refusals: before.map_or(refusals, |ban| ban.refusals.min(refusals)),
            within: Self::WITHIN,
            at: now,
            older: 0.0,
        })
    }

    /// The same where the server said how long it lasts.
    pub(super) fn that_ends(refusals: u32, before: Option<Self>, now: Time) -> Option<Self> {
        let within = before.map_or(Self::SHORT, |_| Self::WITHIN);
        Self::after(refusals, before, now).map(|ban| Self { within, ..ban })
    }

    /// In seconds, how long a refusal counts towards the next.
    pub(super) fn within(&self) -> f64 {
        self.within
    }

    /// Whether it is so fresh that nothing is worth being asked for.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        self.older + now.secs_since(self.at) < Self::STILL
    }

    /// Whether a refusal more may be risked after so many within its time: one is left for
    /// what nobody meant.
    pub(super) fn allows(&self, refusals: u32) -> bool {
        refusals + 2 < self.refusals
    }

    pub(super) fn remember(&self, now: Time) -> BanMemory {
        BanMemory {
            refusals: self.refusals,
            within: self.within,
            ago: self.older + now.secs_since(self.at),
        }
    }

    /// What is still known of it after a time more.
    pub(super) fn recall(memory: &BanMemory, age: Duration) -> Option<Self> {
        let older = memory.ago + age.as_secs_f64();
        let known = memory.refusals >= Self::FEWEST && (0.0..Self::KEPT).contains(&older);
        known.then_some(Self {
            refusals: memory.refusals,
            within: memory.within.clamp(1.0, Self::WITHIN),
            at: Time::START,
            older,
        })
    }
}

#[cfg(feature = "serde")]
fn longest_within() -> f64 {
    Ban::WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_leaves_no_debt() {
        let mut budget = Budget::default();
        (0..1000).for_each(|_| budget.spend());
        assert!(!budget.allows());
        (0..101).for_each(|_| budget.earn());
        assert!(budget.allows());
    }

    #[test]
    fn of_a_rate_that_is_known_less_is_risked() {
        assert!(Ban::presumed(true).allows(2) && !Ban::presumed(true).allows(3));
        assert!(Ban::presumed(false).allows(1) && !Ban::presumed(false).allows(2));
    }

    #[test]
    fn only_the_latest_knocks_count() {
        let mut knocks = Knocks::default();
        for second in 0..10 {
            knocks.push(Time::from_secs_f64(f64::from(second)));
        }
        assert_eq!(knocks.count(5.0, Time::from_secs_f64(10.0)), 4);
    }

    #[test]
    fn a_ban_leaves_one_refusal_to_spare_and_is_forgotten_after_a_month() {
        let now = Time::from_secs_f64(5.0);
        assert!(Ban::after(1, None, now).is_none(), "another fault");
        let ban = Ban::after(5, None, now).expect("a ban");
        assert!(ban.allows(2) && !ban.allows(3));
        let stricter = Ban::after(3, Some(ban), now).expect("a ban");
        assert!(stricter.allows(0) && !stricter.allows(1));
        let memory = stricter.remember(Time::from_secs_f64(65.0));
        let day = Duration::from_secs(86_400);
        let recalled = Ban::recall(&memory, day).expect("a day is not long");
        assert_eq!(recalled.remember(Time::START).ago, 60.0 + 86_400.0);
        assert!(Ban::recall(&memory, 30 * day).is_none());
    }
}
