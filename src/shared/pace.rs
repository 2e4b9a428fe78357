//! A share of a rate that is borrowed for a time: paced, so that no window of the sum of all
//! shares holds more than the whole.

use std::time::Duration;

use crate::Time;

/// A share, and how far it is used up.
///
/// Sends are spaced so that each waits until the one before has been earned at the share's rate.
/// In any window it therefore sends less than the share and one more, and in one in which it has
/// joined others no more than its part of the share.
#[derive(Debug)]
pub(super) struct Pace {
    window: Duration,
    /// How much it earns in a window.
    share: u64,
    /// The lease: nothing is earned after it.
    until: Time,
    /// Sent and not earned yet, at `at`.
    debt: f64,
    at: Time,
}

impl Pace {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            share: 0,
            until: Time::START,
            debt: 0.0,
            at: Time::START,
        }
    }

    /// What it holds now.
    pub(super) fn share(&self, now: Time) -> u64 {
        if now < self.until { self.share } else { 0 }
    }

    /// The last share, whether or not its lease has ended.
    pub(super) fn last_share(&self) -> u64 {
        self.share
    }

    pub(super) fn until(&self) -> Time {
        self.until
    }

    /// How long its share takes to earn all that was sent.
    pub(super) fn owes(&self, now: Time) -> Duration {
        let sent = self.debt_at(now) - self.least();
        if sent <= 0.0 || self.share == 0 {
            return Duration::ZERO;
        }
        let windows = sent / self.earns();
        self.window.mul_f64(windows.min(MOST_OWED))
    }

    /// From now on it earns `share` in a window, until then.
    pub(super) fn set(&mut self, share: u64, until: Time, now: Time) {
        self.settle(now);
        self.share = share;
        self.debt = self.debt.max(self.least());
        self.until = until;
    }

    /// It has its first share beside others: its first request is earned before it is sent. What
    /// was not lent before is sent already, by those who held it, so of the window that ends now
    /// nothing is left for it.
    pub(super) fn join(&mut self) {
        self.debt = self.debt.max(FIRST);
    }

    /// When the next may be sent if the share stays what it is; none without a share.
    pub(super) fn ready(&self, now: Time) -> Option<Time> {
        if self.share(now) == 0 {
            return None;
        }
        let debt = self.debt_at(now);
        if debt <= 0.0 {
            return Some(now);
        }
        let wait = self.window.as_nanos() as f64 * debt / self.earns();
        Some(now + Duration::from_nanos(wait.ceil() as u64))
    }

    /// Something of this cost is sent.
    pub(super) fn spend(&mut self, cost: u64, now: Time) {
        self.settle(now);
        self.debt += cost as f64;
    }

    /// It was not sent after all.
    pub(super) fn give_back(&mut self, cost: u64, now: Time) {
        self.settle(now);
        self.debt = (self.debt - cost as f64).max(self.least());
    }

    /// What it earns in a window.
    fn earns(&self) -> f64 {
        self.share as f64 * (1.0 - CREDIT)
    }

    /// The debt at its least: what was not sent in time may be sent a little later.
    fn least(&self) -> f64 {
        -CREDIT * self.share as f64
    }

    fn settle(&mut self, now: Time) {
        self.debt = self.debt_at(now);
        self.at = now.max(self.at);
    }

    fn debt_at(&self, now: Time) -> f64 {
        let earning = now.min(self.until).since(self.at);
        let earned = earning.as_nanos() as f64 * self.earns() / self.window.as_nanos() as f64;
        (self.debt - earned).max(self.least())
    }
}

/// What one request of those who count requests takes.
const FIRST: f64 = 1.0;
/// One ask can take as much as a window of everything, from a share that is a small part of that:
/// more than so many windows nothing is held back for.
const MOST_OWED: f64 = 10.0;
/// The part of a share that is not earned but lent: timers end late, and without it each lateness
/// would be lost. In a window of 100 ms it makes up for 2 ms, as much as a timer of tokio's is late
/// at most. In no window is it spent beyond the share, for that much less is earned.
const CREDIT: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_share_is_paced_and_not_burst() {
        let mut pace = Pace::new(Duration::from_secs(1));
        assert_eq!(pace.ready(at(0)), None);
        pace.set(4, at(10_000_000), at(0));
        assert_eq!(pace.ready(at(0)), Some(at(0)));
        pace.spend(1, at(0));
        // A little more than a quarter: some of the share is kept for what comes late.
        let next = pace.ready(at(10)).unwrap();
        assert!(next > at(250_000) && next < at(260_000), "{next:?}");
        pace.spend(2, next);
        let third = pace.ready(next).unwrap();
        assert!(third > at(750_000) && third < at(775_000), "{third:?}");
    }

    #[test]
    fn the_first_beside_others_is_earned_before_it_is_sent() {
        let mut pace = Pace::new(Duration::from_secs(1));
        pace.set(4, Time::NEVER, at(0));
        pace.join();
        let first = pace.ready(at(0)).unwrap();
        assert!(first > at(250_000) && first < at(260_000), "{first:?}");
    }

    #[test]
    fn what_came_late_is_made_up_for_within_limits() {
        let mut pace = Pace::new(Duration::from_secs(1));
        pace.set(100, Time::NEVER, at(0));
        pace.spend(1, at(0));
        // 30 ms late: the three that were not sent follow at once. Of ten it would be no more.
        let mut sent = 0;
        while pace.ready(at(40_000)) == Some(at(40_000)) {
            pace.spend(1, at(40_000));
            sent += 1;
        }
        assert_eq!(sent, 3);
    }

    #[test]
    fn nothing_is_sent_after_the_lease() {
        let mut pace = Pace::new(Duration::from_secs(1));
        pace.set(4, at(300_000), at(0));
        pace.spend(2, at(0));
        let ready = pace.ready(at(0)).unwrap();
        assert!(
            ready > at(500_000) && ready < at(515_000),
            "if it is renewed: {ready:?}"
        );
        assert_eq!(pace.ready(at(300_000)), None);
        // A new lease goes on where the old one ended: what was sent is still to be earned.
        pace.set(4, at(2_000_000), at(300_000));
        assert_eq!(pace.ready(at(300_000)), Some(ready));
    }

    proptest! {
        /// Two that share 20 in 100 ms by moving parts of it to and fro, never lending a part
        /// twice, with one kept back.
        #[test]
        fn no_window_of_the_sum_holds_more_than_the_whole(
            moves in proptest::collection::vec((0u64..20, 1u64..40_000), 1..40),
        ) {
            let window = Duration::from_millis(100);
            let (mut a, mut b) = (Pace::new(window), Pace::new(window));
            let end = Time::NEVER;
            let (mut now, mut sent) = (0u64, Vec::new());
            a.set(10, end, at(0));
            b.set(9, end, at(0));
            for (part, gap) in moves {
                let stop = now + gap;
                while now < stop {
                    for pace in [&mut a, &mut b] {
                        if pace.ready(at(now)) == Some(at(now)) {
                            pace.spend(1, at(now));
                            sent.push(now);
                        }
                    }
                    now += 100;
                }
                // First the one gives back, then the other gets more.
                a.set(part.min(a.last_share()), end, at(now));
                b.set(19 - a.last_share(), end, at(now));
                let left = 19 - b.last_share();
                a.set(left, end, at(now));
                if part % 2 == 0 {
                    b.set(part.min(b.last_share()), end, at(now));
                    a.set(19 - b.last_share(), end, at(now));
                }
            }
            for (index, &start) in sent.iter().enumerate() {
                let inside = sent[index..].iter().take_while(|&&s| s < start + 100_000).count();
                prop_assert!(inside <= 20, "{inside}");
            }
        }
    }
}
