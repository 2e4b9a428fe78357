//! The state of one scope, told the time: what every store must do, step by step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::super::counts::{Count, slot_id};
use super::super::store::{
    Alive, Beat, Claim, Epoch, FACTS_AT_ONCE, Fact, Heard, Known, Law, Lent, Limit, MOST_FACTS,
    OpId, Owner, Refund, Release, Standing, Take, Taken, micros, remembered,
};
use super::shares::{Share, Shares};

/// Everything that one scope shares.
#[derive(Debug, Default)]
pub(super) struct State {
    about: Option<About>,
    counts: HashMap<CountKey, Count>,
    payments: HashMap<OpId, Payment>,
    /// The payments by the end of their windows: they are remembered as long.
    ends: BTreeSet<(u64, OpId)>,
    shares: HashMap<CountKey, Shares>,
    owners: BTreeMap<Owner, u64>,
    facts: BTreeMap<String, Kept>,
}

/// The state's own story.
#[derive(Clone, Debug)]
struct About {
    epoch: String,
    sequence: u64,
    born: u64,
    is_lost: bool,
    facts: u64,
}

/// Limits of one name that count differently do not mix.
type CountKey = (String, u8, u64);

#[derive(Debug)]
struct Payment {
    granted: u32,
    paid: u64,
    refunded: BTreeSet<u32>,
}

#[derive(Debug)]
struct Kept {
    /// How many had been published with it.
    version: u64,
    value: String,
    observed: u64,
    until: u64,
}

impl State {
    pub(super) fn take(&mut self, take: &Take, fresh: &str, now: u64) -> Taken {
        self.open(take.epoch.as_ref(), fresh, now);
        self.forget_payments(now);
        if let Some(payment) = self.payments.get(&take.op) {
            return Taken {
                granted: payment.granted,
                wait: None,
                is_lost: false,
                age: Duration::from_micros(now - payment.paid),
                standing: self.standing(now),
            };
        }
        let mut counts: Vec<Count> = take.limits.iter().map(|l| self.count(l, now)).collect();
        let (mut granted, mut wait, mut is_lost) = (0, 0, false);
        let asks = take
            .runs
            .iter()
            .flat_map(|run| (0..run.count).map(move |_| run));
        for run in asks {
            let each = take.limits.iter().zip(&run.costs);
            if !take.is_sent {
                for ((limit, &cost), count) in each.clone().zip(&counts) {
                    let until = self.unknown_until(limit);
                    if until > now {
                        (wait, is_lost) = (wait.max(until - now), true);
                    } else {
                        wait = wait.max(count.wait(limit, cost, now));
                    }
                }
            }
            if wait > 0 {
                break;
            }
            for ((limit, &cost), count) in each.zip(&mut counts) {
                count.charge(limit, cost, (take.op, granted), now);
            }
            granted += 1;
        }
        if granted > 0 {
            for (limit, count) in take.limits.iter().zip(counts) {
                self.counts.insert(count_key(limit), count);
            }
            self.remember(take.op, granted, &take.limits, now);
        }
        Taken {
            granted,
            wait: (wait > 0).then(|| Duration::from_micros(wait)),
            is_lost,
            age: Duration::ZERO,
            standing: self.standing(now),
        }
    }

    pub(super) fn refund(&mut self, refund: &Refund, fresh: &str, now: u64) -> Standing {
        self.open(refund.epoch.as_ref(), fresh, now);
        self.forget_payments(now);
        if !self.payments.contains_key(&refund.op) {
            // It has not arrived yet, or its windows are over: from now on it pays nothing.
            self.remember(refund.op, 0, &refund.limits, now);
            return self.standing(now);
        }
        let payment = self.payments.get_mut(&refund.op).expect("it was found");
        let (granted, paid) = (payment.granted, payment.paid);
        let fresh_items: Vec<_> = refund
            .items
            .iter()
            .filter(|(item, _)| *item < granted && payment.refunded.insert(*item))
            .collect();
        for (item, costs) in fresh_items {
            for (limit, &cost) in refund.limits.iter().zip(costs) {
                let mut count = self.count(limit, now);
                count.refund(limit, cost, (refund.op, *item), paid);
                self.counts.insert(count_key(limit), count);
            }
        }
        self.changed();
        self.standing(now)
    }

    pub(super) fn beat(&mut self, beat: &Beat, fresh: &str, now: u64) -> Alive {
        self.open(beat.epoch.as_ref(), fresh, now);
        self.owners.retain(|_, until| *until > now);
        if beat.lasts.is_zero() {
            self.owners.remove(&beat.owner);
        } else {
            self.owners.insert(beat.owner, now + micros(beat.lasts));
        }
        let mut gone = Vec::new();
        for (place, slot) in &beat.slots {
            let limit = &beat.limits[*place as usize];
            let adopt = self.unknown_until(limit) > now;
            let mut count = self.count(limit, now);
            if !count.renew(limit, slot_id(slot), adopt, now) {
                gone.push(*slot);
            }
            self.counts.insert(count_key(limit), count);
        }
        self.changed();
        Alive {
            owners: self.owners.len() as u32,
            gone,
            standing: self.standing(now),
        }
    }

    pub(super) fn release(&mut self, release: &Release, fresh: &str, now: u64) -> Standing {
        self.open(None, fresh, now);
        for (place, slot) in &release.slots {
            let limit = &release.limits[*place as usize];
            let mut count = self.count(limit, now);
            count.refund(limit, 1, slot_id(slot), now);
            self.counts.insert(count_key(limit), count);
        }
        self.changed();
        self.standing(now)
    }

    pub(super) fn lend(&mut self, claim: &Claim, fresh: &str, now: u64) -> Lent {
        self.open(claim.epoch.as_ref(), fresh, now);
        let about = self.about.as_ref().expect("it was opened");
        let learning = about.is_lost && now < about.born + micros(claim.lease);
        let shares = self.shares.entry(count_key(&claim.limit)).or_default();
        shares.advance(now);
        let before = shares.of(claim.owner);
        let earned = now + micros(claim.owes);
        let (share, is_short) = if claim.is_last {
            let lent = Share {
                share: before,
                want: 0,
                until: earned,
            };
            shares.0.insert(claim.owner, lent);
            if before == 0 || earned == now {
                shares.0.remove(&claim.owner);
            }
            (0, false)
        } else {
            let amount = claim.limit.amount;
            let (share, is_short) =
                shares.divide(claim.owner, claim.want, claim.has, amount, learning);
            // It sends at what it has until it hears this, so the rest is not lent to others
            // before it has confirmed it.
            let lent = Share {
                share: share.max(claim.has.min(before)),
                want: claim.want,
                until: earned.max(now + micros(claim.lease)),
            };
            shares.0.insert(claim.owner, lent);
            (share, is_short)
        };
        let owners = shares.0.len() as u32;
        self.changed();
        Lent {
            share,
            lasts: claim.lease,
            owners,
            is_short,
            standing: self.standing(now),
        }
    }

    pub(super) fn publish(&mut self, fact: &Fact, fresh: &str, now: u64) -> bool {
        self.open(None, fresh, now);
        self.facts.retain(|_, kept| kept.until > now);
        let observed = now.saturating_sub(micros(fact.age));
        let until = now + micros(fact.lasts);
        let is_news = self.facts.get(&fact.subject).is_none_or(|kept| {
            if fact.extends {
                until > kept.until
            } else {
                observed > kept.observed
            }
        });
        if is_news {
            let about = self.about.as_mut().expect("it was opened");
            about.facts += 1;
            let kept = Kept {
                version: about.facts,
                value: fact.value.clone(),
                observed,
                until,
            };
            self.facts.insert(fact.subject.clone(), kept);
            if self.facts.len() > MOST_FACTS {
                let oldest = self.facts.iter().min_by_key(|(_, kept)| kept.version);
                let (subject, _) = oldest.expect("there are many");
                let subject = subject.clone();
                self.facts.remove(&subject);
            }
            self.changed();
        }
        is_news
    }

    pub(super) fn facts(&self, since: u64, now: u64) -> Heard {
        let mut news: Vec<_> = self.facts.iter().collect();
        news.retain(|(_, kept)| kept.version > since);
        news.sort_unstable_by_key(|(_, kept)| kept.version);
        let all = self.about.as_ref().map_or(0, |about| about.facts);
        let version = match news.get(FACTS_AT_ONCE - 1) {
            Some((_, last)) => last.version,
            None => all,
        };
        news.truncate(FACTS_AT_ONCE);
        news.retain(|(_, kept)| kept.until > now);
        let known = |(subject, kept): (&String, &Kept)| Known {
            subject: subject.clone(),
            value: kept.value.clone(),
            age: Duration::from_micros(now - kept.observed),
            lasts: Duration::from_micros(kept.until - now),
        };
        Heard {
            facts: news.into_iter().map(known).collect(),
            version,
        }
    }

    /// Finds out whether something was lost since the caller last looked.
    fn open(&mut self, known: Option<&Epoch>, fresh: &str, now: u64) {
        match &mut self.about {
            Some(about) => match known {
                // Somebody drew this epoch who knew of no other; the caller does.
                Some(known) if known.id != about.epoch => about.is_lost = true,
                // Its own changes are missing: an older copy took over.
                Some(known) if known.sequence > about.sequence => {
                    about.epoch = fresh.to_owned();
                    about.sequence = 0;
                    about.born = now;
                    about.is_lost = true;
                }
                _ => {}
            },
            None => {
                self.about = Some(About {
                    epoch: fresh.to_owned(),
                    sequence: 0,
                    born: now,
                    is_lost: known.is_some(),
                    facts: 0,
                });
            }
        }
    }

    fn standing(&self, now: u64) -> Standing {
        let about = self.about.as_ref().expect("it was opened");
        Standing {
            now,
            epoch: Epoch {
                id: about.epoch.clone(),
                sequence: about.sequence,
            },
            is_lost: about.is_lost,
            born: about.born,
            facts: about.facts,
        }
    }

    fn changed(&mut self) {
        self.about.as_mut().expect("it was opened").sequence += 1;
    }

    /// Until when payments that were lost may still count.
    fn unknown_until(&self, limit: &Limit) -> u64 {
        match &self.about {
            Some(about) if about.is_lost => about.born + micros(limit.memory()),
            _ => 0,
        }
    }

    fn count(&self, limit: &Limit, now: u64) -> Count {
        let kept = self.counts.get(&count_key(limit)).cloned();
        let mut count = kept.unwrap_or_else(|| Count::new(limit));
        count.advance(limit, now);
        count
    }

    fn remember(&mut self, op: OpId, granted: u32, limits: &[Limit], now: u64) {
        let end = now + remembered(limits);
        let payment = Payment {
            granted,
            paid: now,
            refunded: BTreeSet::new(),
        };
        self.payments.insert(op, payment);
        self.ends.insert((end, op));
        self.changed();
    }

    fn forget_payments(&mut self, now: u64) {
        while let Some(&(end, op)) = self.ends.first().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, op));
            self.payments.remove(&op);
        }
    }
}

fn count_key(limit: &Limit) -> CountKey {
    let law = match limit.law {
        Law::FixedWindow => 1,
        Law::SlidingCounter => 2,
        Law::SlidingLog => 3,
        Law::Bucket { .. } => 4,
        Law::Slots => 5,
    };
    (limit.name.clone(), law, micros(limit.window))
}
