//! The common pace of a provider, and those of the buckets that are refused by themselves.
//!
//! One rate is learned for all that a key sends, until a bucket proves to have a limit of its own:
//! then it goes by a pace of its own, and its refusals say nothing about the rest any more. The proof
//! holds for a time: luck can look like it, plans change, and what is so still proves it again. A
//! minimum interval is a rule for the whole key, so it is never parted.

use std::collections::HashMap;
use std::time::Duration;

use crate::scheduler::events::KeyId;
use crate::scheduler::names::Names;
use crate::scheduler::pace::{Pace, PaceSettings};
use crate::scheduler::suspect::Suspect;
use crate::scheduler::time::Time;

#[derive(Debug)]
pub(super) struct Paces {
    common: Pace,
    apart: HashMap<u32, Apart>,
    /// Named buckets that were refused and not served since.
    suspects: HashMap<u32, Suspect<KeyId>>,
    settings: PaceSettings,
}

/// A bucket with a pace of its own.
#[derive(Debug)]
struct Apart {
    pace: Pace,
    since: Time,
    /// When something in it was served last.
    served: Option<Time>,
}

impl Apart {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.since) >= LASTS
    }
}

impl Paces {
    pub(super) fn new(settings: PaceSettings, seed: u64) -> Self {
        Self {
            common: Pace::new(settings, seed),
            apart: HashMap::new(),
            suspects: HashMap::new(),
            settings,
        }
    }

    /// Changes the settings for so many keys.
    pub(super) fn set(&mut self, settings: PaceSettings, keys: usize, seed: u64) {
        self.common.set(settings, keys, seed);
        if matches!(settings, PaceSettings::Interval(_)) {
            self.apart.clear();
        } else {
            for apart in self.apart.values_mut() {
                apart.pace.set(settings, keys, seed);
            }
        }
        self.settings = settings;
    }

    /// The one of everything that is not apart.
    pub(super) fn common(&self) -> &Pace {
        &self.common
    }

    pub(super) fn common_mut(&mut self) -> &mut Pace {
        &mut self.common
    }

    /// The one that a bucket goes by.
    pub(super) fn of(&self, bucket: u32) -> &Pace {
        let apart = self.apart.get(&bucket);
        apart.map_or(&self.common, |apart| &apart.pace)
    }

    pub(super) fn of_mut(&mut self, bucket: u32) -> &mut Pace {
        match self.apart.get_mut(&bucket) {
            Some(apart) => &mut apart.pace,
            None => &mut self.common,
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pace> {
        let apart = self.apart.values_mut().map(|apart| &mut apart.pace);
        std::iter::once(&mut self.common).chain(apart)
    }

    /// Whether everything goes by the common one.
    pub(super) fn is_one(&self) -> bool {
        self.apart.is_empty()
    }

    pub(super) fn is_apart(&self, bucket: u32) -> bool {
        self.apart.contains_key(&bucket)
    }

    /// The bucket by whose pace the next send of one goes: itself, or the default one for the common
    /// pace. A bucket whose time apart is over rejoins the others.
    pub(super) fn next_in(&mut self, bucket: u32, now: Time) -> u32 {
        match self.apart.get(&bucket) {
            Some(apart) if !apart.is_over(now) => bucket,
            Some(_) => {
                self.apart.remove(&bucket);
                Names::DEFAULT
            }
            None => Names::DEFAULT,
        }
    }

    /// When something was served last in a bucket that is apart; none if it is not.
    pub(super) fn served_apart(&self, bucket: u32) -> Option<Option<Time>> {
        self.apart.get(&bucket).map(|apart| apart.served)
    }

    /// The buckets that are apart, in the order in which they were first named.
    pub(super) fn apart(&self) -> Vec<u32> {
        let mut apart: Vec<_> = self.apart.keys().copied().collect();
        // The same every time, whatever the map's.
        apart.sort_unstable();
        apart
    }

    /// From now on a bucket goes by a pace of its own. Whether it did not before.
    pub(super) fn part(&mut self, bucket: u32, keys: usize, now: Time) -> bool {
        let is_rule = matches!(self.settings, PaceSettings::Interval(_));
        if bucket == Names::DEFAULT || is_rule || self.is_apart(bucket) {
            return false;
        }
        // Only an interval draws lots.
        let mut pace = Pace::new(self.settings, 0);
        pace.set(self.settings, keys, 0);
        self.suspects.remove(&bucket);
        // Nobody may ask for some of these ever again.
        self.apart.retain(|_, apart| !apart.is_over(now));
        let apart = Apart {
            pace,
            since: now,
            served: None,
        };
        self.apart.insert(bucket, apart);
        self.common.doubt();
        true
    }

    /// Something was served in a bucket.
    pub(super) fn on_served(&mut self, key: KeyId, bucket: u32, sent: Time, now: Time) {
        if let Some(apart) = self.apart.get_mut(&bucket) {
            apart.served = Some(now);
        }
        if self.suspects.is_empty() {
            return;
        }
        self.suspects.remove(&bucket);
        for suspect in self.suspects.values_mut() {
            suspect.on_other_served(key, sent);
        }
    }

    /// A bucket that is not apart was refused, and nothing told explains it. Whether it is to be.
    pub(super) fn suspects(&mut self, key: KeyId, bucket: u32, sent: Time, now: Time) -> bool {
        if bucket == Names::DEFAULT {
            return false;
        }
        match self.suspects.get_mut(&bucket) {
            Some(suspect) => suspect.on_refused(key, sent, now),
            None => {
                self.suspects.insert(bucket, Suspect::new(key, now));
                false
            }
        }
    }
}

/// How long a bucket stays apart. What is refused for ever costs the others the three refusals of a
/// new proof once in so long; at a refusal in a hundred, luck parts a bucket less often than that.
const LASTS: Duration = Duration::from_secs(3600);
