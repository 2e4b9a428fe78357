//! What one key's refusals and the sends between them say about its rate.
//!
//! A send counts as accepted unless it turns out refused. Refusals may take as long as answers, so
//! every count is as of a moment: sends after it may be refused and not be heard of yet.

use crate::scheduler::sends::Sends;
use crate::scheduler::time::Time;

/// The sends of one key that were not refused, and the moments from which to count them.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) sends: Sends,
    /// The send of the last refusal that began an episode; none before the first.
    pub(super) anchor: Option<Time>,
    /// Those before it, newest first.
    older: [Option<Time>; OLDER],
    /// The first refusal of those in a row that the anchor is the last of.
    pub(super) block_began: Time,
    /// Since the anchor, and since when it was sent without a stall: credit may have run over in a
    /// stall.
    steady_since: Option<Time>,
    /// The slowest pace since the anchor.
    pub(super) slowest: f64,
    /// When the key last came back from a block, or was first used.
    pub(super) segment: Option<Time>,
    /// The first send ever, and when it was answered if it was served.
    first: Option<Time>,
    first_answered: Option<Time>,
    /// The first send since the pace last changed.
    changed: Option<Time>,
    /// Refused, and not accepted since.
    pub(super) blocked: bool,
}

impl Evidence {
    /// What was accepted after the anchor, or ever, and before `moment`.
    pub(super) fn accepted_before(&self, moment: Time) -> f64 {
        let from = self.anchor.map_or(0.0, |anchor| self.sends.until(anchor));
        (self.sends.before(moment) - from).max(0.0)
    }

    /// What was accepted from the start of the segment on and before `moment`, and that start.
    pub(super) fn segment_before(&self, moment: Time) -> (Time, f64) {
        let start = self.segment.unwrap_or(moment);
        (start, self.sends.before(moment) - self.sends.before(start))
    }

    /// In seconds, how long after the one before it a send was made; none if it was the first.
    pub(super) fn gap_before(&self, sent: Time) -> Option<f64> {
        let (_, before) = self.sends.reach_back(1.0, sent)?;
        Some(sent.secs_since(before))
    }

    /// What was accepted before the block began, ever.
    pub(super) fn held(&self) -> f64 {
        self.sends.until(self.block_began)
    }

    /// The first send that a window would count which was used up when the block began. No window
    /// holds more than the `credit` that was there at first.
    pub(super) fn counted_since(&self, credit: f64, moment: Time) -> Time {
        let start = self.segment.unwrap_or(moment);
        let oldest = self.sends.reach_back(credit, self.block_began);
        oldest.map_or(start, |(oldest, _)| oldest.max(start))
    }

    /// When this send arrived, as far as the first answer tells: it takes as much longer than the
    /// `usual` one as the first connection took to open, and nothing arrives before that.
    pub(super) fn arrival(&self, sent: Time, usual: Option<f64>) -> Time {
        let (Some(first), Some(answered), Some(usual)) = (self.first, self.first_answered, usual)
        else {
            return sent;
        };
        let late = (answered.secs_since(first) - usual).clamp(0.0, LATEST_ARRIVAL);
        sent.max(first.plus_secs(late))
    }

    /// The lowest rate that can have accepted what was, up to a refusal at `refused`: the level was
    /// below one at the anchor, so all but one of it has come in since.
    pub(super) fn low(&self, jitter: f64, refused: Time) -> Option<f64> {
        let span = refused.secs_since(self.anchor?) + jitter;
        Some(((self.accepted_before(refused) - 1.0) / span.max(TICK)).max(0.0))
    }

    /// The same as far as one of the refusals before tells more, and no more than `most`: then the limit
    /// has fallen since.
    pub(super) fn low_since_older(&self, jitter: f64, refused: Time, most: f64) -> f64 {
        let accepted = self.sends.before(refused);
        let lows = self.older.iter().flatten().map(|&anchor| {
            let span = refused.secs_since(anchor) + jitter;
            (accepted - self.sends.until(anchor) - 1.0) / span.max(TICK)
        });
        lows.filter(|&low| low < most).fold(0.0, f64::max)
    }

    /// The highest rate that can have refused a send at `refused`.
    pub(super) fn high(&self, jitter: f64, refused: Time) -> f64 {
        let Some(since) = self
            .steady_since
            .or(self.anchor)
            .filter(|&since| since < refused)
        else {
            return f64::INFINITY;
        };
        let accepted = self.sends.before(refused) - self.sends.before(since);
        (accepted + 1.0) / (refused.secs_since(since) - jitter).max(TICK)
    }

    /// The same where nothing was saved up beyond what came in since the anchor, in a stall too.
    pub(super) fn high_with_stalls(&self, jitter: f64, refused: Time) -> f64 {
        let since = self.anchor.filter(|&anchor| anchor < refused);
        since.map_or(f64::INFINITY, |anchor| {
            let span = refused.secs_since(anchor) - jitter;
            (self.accepted_before(refused) + 1.0) / span.max(TICK)
        })
    }

    /// The lowest rate that can have accepted what was since the anchor, up to `heard`, with the
    /// number that it rests on.
    pub(super) fn low_until(&self, jitter: f64, heard: Time) -> Option<(f64, f64)> {
        let anchor = self.anchor?;
        let accepted = self.sends.until(heard) - self.sends.until(anchor);
        let (_, last) = self.sends.reach_back(1.0, heard + TICK_AFTER)?;
        let span = last.secs_since(anchor) + jitter;
        Some(((accepted - 1.0) / span.max(TICK), accepted))
    }

    /// The same since the pace last changed, less all credit that there can be.
    pub(super) fn low_since_change(&self, credit: f64, heard: Time) -> Option<f64> {
        let since = self.changed?;
        let sent = self.sends.until(heard) - self.sends.before(since);
        if sent <= credit.max(1.0) {
            return None;
        }
        let (_, last) = self.sends.reach_back(1.0, heard + TICK_AFTER)?;
        Some((sent - credit) / last.secs_since(since).max(TICK))
    }

    /// Whether a send was made since the pace last changed.
    pub(super) fn is_at_pace(&self, sent: Time) -> bool {
        self.changed.is_some_and(|since| sent >= since)
    }

    /// Starts counting at a new pace.
    pub(super) fn pace_changed(&mut self) {
        self.changed = None;
    }

    /// Starts counting anew at a refusal of what was sent at `refused`.
    pub(super) fn take_anchor(&mut self, refused: Time, pace: f64) {
        if self.anchor.is_none() || self.accepted_before(refused) >= 1.0 {
            self.block_began = refused;
        }
        if let Some(anchor) = self.anchor.filter(|_| self.accepted_before(refused) >= 1.0) {
            self.older.rotate_right(1);
            self.older[0] = Some(anchor);
        }
        self.anchor = Some(refused);
        self.steady_since = None;
        self.slowest = pace;
        self.blocked = true;
        self.pace_changed();
    }

    /// No refusal so far was about the rate.
    pub(super) fn start_again(&mut self) {
        self.anchor = None;
        self.older = [None; OLDER];
        self.blocked = false;
        self.segment = self.first;
        self.steady_since = None;
        self.pace_changed();
    }

    /// A ban or the like: the anchor says nothing any more.
    pub(super) fn forget_anchor(&mut self) {
        self.anchor = None;
        self.older = [None; OLDER];
        self.segment = None;
    }

    pub(super) fn on_sent(&mut self, pace: f64, last: Option<Time>, now: Time) {
        let stalled = last.is_some_and(|last| now.secs_since(last) * pace > STALL);
        if self.anchor.is_some() && (stalled || self.steady_since.is_none()) {
            self.steady_since = Some(now);
        }
        self.first.get_or_insert(now);
        self.segment.get_or_insert(now);
        self.changed.get_or_insert(now);
        self.sends.push(1.0, now);
    }

    /// What was sent at `sent` was served.
    pub(super) fn on_served(&mut self, sent: Time, now: Time) {
        if self.first == Some(sent) {
            self.first_answered.get_or_insert(now);
        }
    }

    /// A send of before turned out refused.
    pub(super) fn on_refused(&mut self, sent: Time) {
        self.sends.undo(1.0, sent);
    }
}

/// Refusals of before that are kept: those of the first search.
const OLDER: usize = 3;
/// Shorter times are measured as this.
pub(super) const TICK: f64 = 1e-3;
/// The same as a duration: what was sent at a moment is before the next.
const TICK_AFTER: std::time::Duration = std::time::Duration::from_nanos(1);
/// In seconds: opening a connection takes no longer, and an answer that does was slow itself.
const LATEST_ARRIVAL: f64 = 0.1;
/// In periods of the pace: a longer pause is no pace.
const STALL: f64 = 2.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn what_is_sent_while_the_first_connection_opens_arrives_with_the_first() {
        let mut evidence = Evidence::default();
        evidence.on_sent(f64::INFINITY, None, at(10));
        assert_eq!(evidence.arrival(at(20), Some(0.1)), at(20), "no answer yet");
        evidence.on_served(at(10), at(150));
        assert_eq!(evidence.arrival(at(10), Some(0.1)), at(50));
        assert_eq!(evidence.arrival(at(20), Some(0.1)), at(50));
        assert_eq!(evidence.arrival(at(70), Some(0.1)), at(70));
    }
}
