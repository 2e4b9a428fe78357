//! How a rate is divided among those who borrow of it, by demand.

use std::collections::BTreeMap;

use super::super::store::Owner;

/// What one owner borrows. Who wants nothing is gone, and what it sent is still to be earned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) share: u64,
    pub(super) want: u64,
    pub(super) until: u64,
}

/// All that is lent of one limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(pub(super) BTreeMap<Owner, Share>);

impl Shares {
    /// Forgets those whose lease has ended.
    pub(super) fn advance(&mut self, now: u64) {
        self.0.retain(|_, share| share.until > now);
    }

    /// The share of an owner that wants so much, of a limit of this amount, and whether its due is
    /// more. `learning`: others may hold what the store has forgotten, so it only believes claims.
    pub(super) fn divide(
        &self,
        owner: Owner,
        want: u64,
        has: u64,
        amount: u64,
        learning: bool,
    ) -> (u64, bool) {
        let others = self.0.iter().filter(|(other, _)| **other != owner);
        let others = others.map(|(_, share)| share);
        let lent: u64 = others.clone().map(|share| share.share).sum();
        let (alive, gone): (Vec<&Share>, Vec<&Share>) = others.partition(|share| share.want > 0);
        // Each paces its share, so in a window that begins when it may send it can send one more
        // than its share's fraction: those are kept back, but for one, as no window holds a
        // fraction of a request. Of one that is gone its share, which is held until all is earned
        // that it sent, is enough; and one that came within the window earned its first before.
        let holders = alive.iter().filter(|share| share.share > 0).count();
        let pool = amount.saturating_sub(holders as u64);
        let free = pool.saturating_sub(lent);
        if learning {
            return (has.min(want).min(free), true);
        }
        let gone: u64 = gone.iter().map(|share| share.share).sum();
        let mut wants: Vec<u64> = alive.iter().map(|share| share.want).collect();
        wants.push(want);
        let due = due(want, &mut wants, pool.saturating_sub(gone));
        (due.min(free), due > free)
    }

    /// What an owner holds, for others.
    pub(super) fn of(&self, owner: Owner) -> u64 {
        self.0.get(&owner).map_or(0, |share| share.share)
    }
}

/// The fair part of a pool for one who wants `want`: all get what they want up to a common level,
/// and what then is left goes in equal parts on top, up to the whole.
fn due(want: u64, wants: &mut [u64], pool: u64) -> u64 {
    wants.sort_unstable();
    let (mut left, mut heads) = (pool, wants.len() as u64);
    for &other in wants.iter() {
        let part = left / heads;
        if other > part {
            // From here on all want more than an equal part of what is left.
            return want.min(part.max(1));
        }
        left -= other;
        heads -= 1;
    }
    want + left / wants.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn due_of(want: u64, wants: &[u64], pool: u64) -> u64 {
        due(want, &mut wants.to_vec(), pool)
    }

    #[test]
    fn what_one_does_not_want_flows_to_whom_it_helps() {
        assert_eq!(due_of(1000, &[1000, 0], 99), 99);
        assert_eq!(due_of(1000, &[1000, 20], 100), 80);
        assert_eq!(due_of(20, &[1000, 20], 100), 20);
        assert_eq!(due_of(1000, &[1000, 1000, 10], 100), 45);
    }

    #[test]
    fn slack_is_spread_so_that_nobody_must_ask_first() {
        assert_eq!(due_of(10, &[10, 20], 100), 45);
        assert_eq!(due_of(0, &[0, 0], 100), 50);
    }

    proptest! {
        #[test]
        fn nothing_is_lent_twice_and_one_is_kept_back_for_each_other_holder(
            amount in 1u64..200,
            claims in proptest::collection::vec((0u64..6, 1u64..300, 0u8..4), 1..100),
        ) {
            let mut shares = Shares::default();
            for (owner, want, does) in claims {
                let owner = Owner::new(owner);
                if does == 0 {
                    shares.0.remove(&owner);
                } else if does == 1 {
                    // It is gone, and what it sent is still to be earned.
                    shares.0.entry(owner).and_modify(|share| share.want = 0);
                } else {
                    let has = shares.0.get(&owner).map_or(0, |share| share.share);
                    let (share, _) = shares.divide(owner, want, has, amount, false);
                    shares.0.insert(owner, Share { share, want, until: 1 });
                }
                let lent: u64 = shares.0.values().map(|share| share.share).sum();
                let holders = shares.0.values().filter(|share| share.share > 0 && share.want > 0);
                let holders = holders.count() as u64;
                prop_assert!(
                    lent + holders.saturating_sub(1) <= amount,
                    "{lent} of {amount} by {holders}, of whom each can send one more"
                );
            }
        }

        #[test]
        fn the_greedy_get_equal_parts_and_all_of_it_is_lent(
            owners in 1u64..8,
            amount in 20u64..500,
        ) {
            let mut shares = Shares::default();
            for _ in 0..3 {
                for owner in (0..owners).map(Owner::new) {
                    let (share, _) = shares.divide(owner, amount, 0, amount, false);
                    shares.0.insert(owner, Share { share, want: amount, until: 1 });
                }
            }
            let parts: Vec<u64> = shares.0.values().map(|share| share.share).collect();
            let spread = parts.iter().max().unwrap() - parts.iter().min().unwrap();
            prop_assert!(spread <= 1, "{parts:?}");
            prop_assert!(parts.iter().sum::<u64>() + 2 * owners > amount, "{parts:?}");
        }
    }
}
