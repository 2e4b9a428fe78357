//! What each law counts: the memory store's arithmetic, and so the specification that the scripts
//! are checked against, bit for bit.
//!
//! Times are microseconds on the store's clock. Numbers that can be fractions are `f64`, as in the
//! scripts; sums stay below 2^53.

use std::collections::BTreeMap;

use super::store::{Law, Limit, OpId, Slot, micros};

/// The count of one limit.
#[derive(Clone, Debug)]
pub(crate) enum Count {
    Window {
        id: u64,
        count: u64,
        /// Of the window before; only the sliding counter looks at it.
        previous: u64,
    },
    Log {
        sum: u64,
        /// By the moment from which on a window without them begins.
        slices: BTreeMap<u64, u64>,
    },
    Bucket {
        /// How much was missing at `at`.
        debt: f64,
        at: u64,
        /// When it was last full.
        since: u64,
    },
    Slots(BTreeMap<SlotId, u64>),
}

/// A slot as it is kept: the payment and the place in it.
pub(crate) type SlotId = (OpId, u32);

pub(crate) fn slot_id(slot: &Slot) -> SlotId {
    (slot.op, slot.item)
}

impl Count {
    pub(crate) fn new(limit: &Limit) -> Self {
        match limit.law {
            Law::FixedWindow | Law::SlidingCounter => Self::Window {
                id: 0,
                count: 0,
                previous: 0,
            },
            Law::SlidingLog => Self::Log {
                sum: 0,
                slices: BTreeMap::new(),
            },
            Law::Bucket { .. } => Self::Bucket {
                debt: 0.0,
                at: 0,
                since: 0,
            },
            Law::Slots => Self::Slots(BTreeMap::new()),
        }
    }

    /// Moves on to `now`: what has run out is gone.
    pub(crate) fn advance(&mut self, limit: &Limit, now: u64) {
        let window = micros(limit.window);
        match self {
            Self::Window {
                id,
                count,
                previous,
            } => {
                let current = now / window;
                if *id != current {
                    *previous = if *id + 1 == current { *count } else { 0 };
                    *count = 0;
                    *id = current;
                }
            }
            Self::Log { sum, slices } => {
                while let Some(entry) = slices.first_entry() {
                    if entry.key() + window > now {
                        break;
                    }
                    *sum -= entry.remove();
                }
            }
            // Its debt is worked out from the last charge: another step would round anew.
            Self::Bucket { .. } => {}
            Self::Slots(slots) => slots.retain(|_, until| *until > now),
        }
    }

    /// How long `cost` must wait; zero if it fits now. The count was advanced to `now`.
    pub(crate) fn wait(&self, limit: &Limit, cost: u64, now: u64) -> u64 {
        // What takes more than everything waits for everything: amounts may differ between
        // processes, and one of them must not wait for ever.
        let cost = cost.min(limit.largest());
        let window = micros(limit.window);
        match self {
            Self::Window {
                id,
                count,
                previous,
            } => {
                let end = (id + 1) * window;
                if limit.law == Law::FixedWindow {
                    return if count + cost <= limit.amount {
                        0
                    } else {
                        end - now
                    };
                }
                sliding_wait(
                    [*previous as f64, *count as f64, cost as f64],
                    limit.amount as f64,
                    window as f64,
                    (now - id * window) as f64,
                )
            }
            Self::Log { sum, slices } => {
                let mut excess = (sum + cost).saturating_sub(limit.amount);
                for (at, amount) in slices {
                    if excess == 0 {
                        break;
                    }
                    if *amount >= excess {
                        return at + window - now;
                    }
                    excess -= amount;
                }
                0
            }
            Self::Bucket { debt, at, .. } => {
                let excess = left(limit, *debt, *at, now) + cost as f64 - limit.largest() as f64;
                if excess <= ROUNDING {
                    return 0;
                }
                ((excess - ROUNDING) * window as f64 / limit.amount as f64).ceil() as u64
            }
            Self::Slots(slots) => {
                if slots.len() as u64 + cost <= limit.amount {
                    return 0;
                }
                let first = slots.values().min().copied().unwrap_or(now + window);
                first - now
            }
        }
    }

    /// Charges an ask of a payment. The count was advanced to `now`.
    pub(crate) fn charge(&mut self, limit: &Limit, cost: u64, item: SlotId, now: u64) {
        let cost = cost.min(limit.largest());
        let window = micros(limit.window);
        match self {
            Self::Window { count, .. } => *count += cost,
            Self::Log { sum, slices } => {
                *sum += cost;
                *slices.entry(slice(window, now)).or_default() += cost;
            }
            Self::Bucket { debt, at, since } => {
                let before = left(limit, *debt, *at, now);
                if before == 0.0 {
                    *since = now;
                }
                *debt = before + cost as f64;
                *at = now;
            }
            Self::Slots(slots) => {
                if cost > 0 {
                    slots.insert(item, now + window);
                }
            }
        }
    }

    /// Takes a charge of the moment `paid` back, where it still counts. The count was advanced.
    pub(crate) fn refund(&mut self, limit: &Limit, cost: u64, item: SlotId, paid: u64) {
        let cost = cost.min(limit.largest());
        let window = micros(limit.window);
        match self {
            Self::Window {
                id,
                count,
                previous,
            } => {
                let of = paid / window;
                if of == *id {
                    *count = count.saturating_sub(cost);
                } else if of + 1 == *id {
                    *previous = previous.saturating_sub(cost);
                }
            }
            Self::Log { sum, slices } => {
                if let Some(amount) = slices.get_mut(&slice(window, paid)) {
                    let back = cost.min(*amount);
                    *amount -= back;
                    *sum -= back;
                }
            }
            Self::Bucket { debt, since, .. } => {
                // After it was full once, the charge has long been refilled.
                if *since <= paid {
                    *debt = (*debt - cost as f64).max(0.0);
                }
            }
            Self::Slots(slots) => {
                slots.remove(&item);
            }
        }
    }

    /// Renews a slot. Answers false if its lease had ended: then somebody else may have its place,
    /// and it counts beyond the amount, for what holds it is in flight all the same.
    pub(crate) fn renew(&mut self, limit: &Limit, item: SlotId, adopt: bool, now: u64) -> bool {
        let Self::Slots(slots) = self else {
            return true;
        };
        let was_held = slots.insert(item, now + micros(limit.window)).is_some();
        adopt || was_held
    }
}

/// What is still missing in a bucket that lacked `debt` at the moment `at`.
fn left(limit: &Limit, debt: f64, at: u64, now: u64) -> f64 {
    let refilled = (now - at) as f64 * limit.amount as f64 / micros(limit.window) as f64;
    (debt - refilled).max(0.0)
}

/// The wait of the sliding counter: `counts` are the previous window's, this one's and the cost.
fn sliding_wait(counts: [f64; 3], amount: f64, window: f64, elapsed: f64) -> u64 {
    let ([previous, current, cost], amount) = (counts, amount + ROUNDING);
    if previous * (1.0 - elapsed / window) + current + cost <= amount {
        return 0;
    }
    if current + cost <= amount {
        // Fits when less of the previous window overlaps.
        let at = (1.0 - (amount - current - cost) / previous) * window;
        return ((at - elapsed).ceil() as u64).max(1);
    }
    // Not before this window is the previous one.
    let at = (1.0 - (amount - cost) / current) * window;
    ((window - elapsed) + at.max(0.0)).ceil() as u64
}

/// The slice of a window that a moment belongs to, by its end: counting an older send as a newer
/// one can only make somebody wait longer.
fn slice(window: u64, at: u64) -> u64 {
    let length = (window / SLICES).max(1);
    at.div_ceil(length) * length
}

/// Far below one unit, far above what adding and taking away can leave.
const ROUNDING: f64 = 1e-9;
/// Slices of a window: an error of 1/4,096 of it at most, and a key of 300 kB at most.
const SLICES: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::super::store::Owner;
    use super::*;
    use proptest::prelude::*;

    fn limit(law: Law, amount: u64, millis: u64) -> Limit {
        Limit::new("k", law, amount, Duration::from_millis(millis)).unwrap()
    }

    fn item(number: u64) -> SlotId {
        let owner = Owner::new(1);
        (OpId { owner, number }, 0)
    }

    /// Sends whenever it may, at these gaps; answers the moments and costs.
    fn drive(limit: &Limit, asks: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (mut count, mut now, mut sent) = (Count::new(limit), 1_795_994_854_207_700, vec![]);
        for (number, &(gap, cost)) in asks.iter().enumerate() {
            now += gap;
            count.advance(limit, now);
            let wait = count.wait(limit, cost, now);
            if wait > 0 {
                // Not a microsecond too early, and surely then (but for slices' ends).
                let mut early = count.clone();
                early.advance(limit, now + wait - 1);
                assert!(early.wait(limit, cost, now + wait - 1) > 0);
                now += wait;
                count.advance(limit, now);
            }
            assert_eq!(count.wait(limit, cost, now), 0, "{limit:?} {cost}");
            count.charge(limit, cost, item(number as u64), now);
            sent.push((now, cost));
        }
        sent
    }

    fn most_in_a_window(sent: &[(u64, u64)], window: u64) -> u64 {
        let most = sent.iter().enumerate().map(|(index, &(start, _))| {
            let inside = sent[index..].iter().take_while(|s| s.0 < start + window);
            inside.map(|s| s.1).sum()
        });
        most.max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_log_lets_no_window_hold_more_than_the_amount(
            amount in 1u64..12,
            asks in proptest::collection::vec((0u64..40_000, 1u64..4), 1..150),
        ) {
            let limit = limit(Law::SlidingLog, amount, 100);
            let asks: Vec<_> = asks.iter().map(|&(gap, cost)| (gap, cost.min(amount))).collect();
            prop_assert!(most_in_a_window(&drive(&limit, &asks), 100_000) <= amount);
        }

        #[test]
        fn a_fixed_window_holds_the_amount_and_a_sliding_one_twice_it_at_most(
            amount in 1u64..12,
            asks in proptest::collection::vec((0u64..40_000, 1u64..2), 1..150),
        ) {
            let limit = limit(Law::FixedWindow, amount, 100);
            let sent = drive(&limit, &asks);
            for &(at, _) in &sent {
                let same = sent.iter().filter(|s| s.0 / 100_000 == at / 100_000);
                prop_assert!(same.count() as u64 <= amount);
            }
            prop_assert!(most_in_a_window(&sent, 100_000) <= 2 * amount);
        }

        #[test]
        fn a_bucket_lets_a_burst_and_the_refill_through(
            amount in 1u64..12,
            burst in 1u64..6,
            asks in proptest::collection::vec((0u64..40_000, 1u64..2), 1..150),
        ) {
            let limit = limit(Law::Bucket { burst }, amount, 100);
            let sent = drive(&limit, &asks);
            for (index, &(start, _)) in sent.iter().enumerate() {
                for (more, &(end, _)) in sent[index..].iter().enumerate() {
                    let refill = (end - start) as f64 * amount as f64 / 1e5;
                    prop_assert!(more as f64 + 1.0 <= burst as f64 + refill + 1e-6);
                }
            }
        }

        #[test]
        fn the_sliding_counter_says_when_it_will_open(
            amount in 1u64..12,
            asks in proptest::collection::vec((0u64..40_000, 1u64..2), 1..150),
        ) {
            drive(&limit(Law::SlidingCounter, amount, 100), &asks);
        }

        #[test]
        fn a_refund_leaves_what_was_there_before(
            amount in 2u64..12,
            asks in proptest::collection::vec(0u64..40_000, 1..60),
        ) {
            for law in [Law::FixedWindow, Law::SlidingCounter, Law::SlidingLog, Law::Bucket { burst: 2 }, Law::Slots] {
                let limit = limit(law, amount, 100);
                let (mut count, mut now) = (Count::new(&limit), 1_000_000_000);
                for (number, &gap) in asks.iter().enumerate() {
                    now += gap;
                    count.advance(&limit, now);
                    let before = count.wait(&limit, 1, now);
                    let id = item(number as u64);
                    if before == 0 {
                        count.charge(&limit, 1, id, now);
                        count.refund(&limit, 1, id, now);
                        let after = count.wait(&limit, 1, now);
                        prop_assert!(after == 0, "{law:?}: {after}");
                        count.charge(&limit, 1, id, now);
                    }
                }
            }
        }
    }

    #[test]
    fn a_bucket_that_was_full_since_gives_nothing_back() {
        let limit = limit(Law::Bucket { burst: 1 }, 1, 100);
        let mut count = Count::new(&limit);
        count.advance(&limit, 0);
        count.charge(&limit, 1, item(0), 0);
        count.advance(&limit, 150_000);
        count.charge(&limit, 1, item(1), 150_000);
        count.refund(&limit, 1, item(0), 0);
        assert_eq!(count.wait(&limit, 1, 150_000), 100_000);
    }

    #[test]
    fn a_slot_whose_lease_had_ended_counts_beyond_the_amount() {
        let limit = limit(Law::Slots, 1, 100);
        let mut count = Count::new(&limit);
        count.charge(&limit, 1, item(0), 0);
        assert_eq!(count.wait(&limit, 1, 50_000), 50_000);
        count.advance(&limit, 100_000);
        assert!(!count.renew(&limit, item(0), false, 100_000));
        count.charge(&limit, 1, item(1), 100_000);
        count.advance(&limit, 150_000);
        assert!(count.renew(&limit, item(1), false, 150_000));
        count.refund(&limit, 1, item(1), 150_000);
        assert_eq!(count.wait(&limit, 1, 150_000), 50_000);
    }

    /// Sources whose rates are spread about `median` (a share of the limit), e-fold by `spread`:
    /// the share of verdicts that an exact log would not give, and the mean error of the rate.
    fn errors_of_the_sliding_counter(median: f64, spread: f64) -> (f64, f64) {
        use rand::{RngExt, SeedableRng, rngs::SmallRng};
        let limit = limit(Law::SlidingCounter, 100, 60_000);
        let window = micros(limit.window);
        let mut random = SmallRng::seed_from_u64(7);
        let (mut verdicts, mut wrong, mut error) = (0u64, 0u64, 0.0);
        for _ in 0..600 {
            let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            let gap = window as f64 / (100.0 * median * (spread * normal).exp());
            let (mut count, mut now) = (Count::new(&limit), 1_795_994_854_207_700);
            let (begin, mut log) = (now, VecDeque::new());
            while now < begin + 12 * window {
                now += (gap * -(1.0 - random.random::<f64>()).ln()) as u64 + 1;
                count.advance(&limit, now);
                while log.front().is_some_and(|&sent| sent + window <= now) {
                    log.pop_front();
                }
                let Count::Window {
                    id,
                    count: current,
                    previous,
                } = count
                else {
                    unreachable!("a counter has windows");
                };
                let elapsed = (now - id * window) as f64 / window as f64;
                let estimate = previous as f64 * (1.0 - elapsed) + current as f64;
                let is_allowed = count.wait(&limit, 1, now) == 0;
                // The first window of a source has no history to be wrong about.
                if now > begin + window {
                    verdicts += 1;
                    wrong += u64::from(is_allowed != (log.len() < 100));
                    error += (estimate - log.len() as f64).abs() / (log.len() as f64).max(1.0);
                }
                if is_allowed {
                    count.charge(&limit, 1, item(0), now);
                    log.push_back(now);
                }
            }
        }
        (wrong as f64 / verdicts as f64, error / verdicts as f64)
    }

    #[test]
    fn the_sliding_counter_is_seldom_wrong() {
        println!(
            "Sliding counter against an exact log of the same sends. Wrong: the verdicts that the \
             log would not give, of all on a source's requests after its first window; the error \
             is that of the rate. Cloudflare counted 0.003 % and 6 % over all requests of its own \
             traffic, nearly all of which is far below any limit."
        );
        for (load, median, spread, most_wrong, most_error) in [
            (
                "600 sources about a tenth of the limit",
                0.1,
                0.5,
                0.0005,
                0.15,
            ),
            (
                "about a fifth, and some above the limit",
                0.2,
                0.6,
                0.01,
                0.1,
            ),
            ("all near the limit or above it", 1.0, 0.3, 0.2, 0.1),
        ] {
            let (wrong, error) = errors_of_the_sliding_counter(median, spread);
            let (wrong_in_100, error_in_100) = (100.0 * wrong, 100.0 * error);
            println!("{load}: {wrong_in_100:.4} % wrong, mean error {error_in_100:.1} %");
            assert!(
                wrong < most_wrong && error < most_error,
                "{load}: {wrong} {error}"
            );
        }
    }
}
