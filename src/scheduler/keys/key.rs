//! One key: until when it rests, as a whole or in a bucket, and what is known of its refusals.

use super::super::events::{Because, Fingerprint, Reason};
use super::super::secrets::Secret;
use super::super::time::Time;
use super::fault::Faulty;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) in_flight: u32,
    /// The number of its last grant: ties go to the key that was used longest ago.
    pub(crate) last_grant: u64,
    pub(super) parked_until: Time,
    pub(super) park_reason: Reason,
    pub(super) bucket_parks: Vec<(u32, Time)>,
    /// Refusals in a row, each of a request that was sent after the one before was heard.
    pub(super) refusals: u32,
    pub(super) last_refusal: Option<Time>,
    pub(super) last_penalty: Option<Time>,
    /// Attempts in a row that nobody answered.
    pub(super) unanswered: u32,
    /// When it was last put to rest for that.
    pub(super) rested_at: Option<Time>,
    pub(super) faulty: Option<Faulty>,
    pub(super) secret: Secret,
    /// Taken out by the user; what is in flight may finish.
    pub(super) removed: bool,
}

impl Key {
    /// Until when it is parked: as a whole, and each of its buckets.
    pub(crate) fn parks(&self) -> impl Iterator<Item = (Option<u32>, Time)> + '_ {
        let buckets = self.bucket_parks.iter();
        let buckets = buckets.map(|&(bucket, until)| (Some(bucket), until));
        [(None, self.parked_until)].into_iter().chain(buckets)
    }

    pub(super) fn new(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            in_flight: 0,
            last_grant: 0,
            parked_until: Time::START,
            park_reason: Reason::Hint,
            bucket_parks: Vec::new(),
            refusals: 0,
            last_refusal: None,
            last_penalty: None,
            unanswered: 0,
            rested_at: None,
            faulty: None,
            secret: Secret::default(),
            removed: false,
        }
    }

    /// Whether a request sent at `sent` knew nothing of the last penalty.
    pub(super) fn is_stale(&self, sent: Time) -> bool {
        self.last_penalty.is_some_and(|penalty| sent <= penalty)
    }

    /// Parks the key or one of its buckets; never shortens. Whether anything moved.
    pub(super) fn park(
        &mut self,
        bucket: Option<u32>,
        until: Time,
        why: Because,
        now: Time,
    ) -> bool {
        let Some(bucket) = bucket else {
            let moved = until > self.parked_until;
            if moved {
                self.parked_until = until;
                self.park_reason = match why {
                    Because::Streak => Reason::Penalty,
                    Because::Unanswered => Reason::Unanswered,
                    _ => Reason::Hint,
                };
            }
            return moved;
        };
        self.bucket_parks.retain(|&(_, until)| until > now);
        match self
            .bucket_parks
            .iter_mut()
            .find(|(parked, _)| *parked == bucket)
        {
            Some((_, old)) => {
                let moved = until > *old;
                *old = (*old).max(until);
                moved
            }
            None => {
                self.bucket_parks.push((bucket, until));
                true
            }
        }
    }
}
