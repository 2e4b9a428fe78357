//! A window that nobody tells: so many sends in so long, learned from a block.
//!
//! A bucket that refuses has one back after one period. Who is refused for far longer than that
//! after a burst has met a window, and a rate says little about it: what was accepted before the
//! block is its size, and from the first of it to the end of the block its length. It is then used
//! like a told one, each send coming back as it gets old, and refusals and acceptances narrow the
//! length by the age of the send that did or did not come back.

use crate::scheduler::sends::Sends;
use crate::scheduler::time::Time;

/// So many sends within a length that lies in an interval, in seconds.
#[derive(Clone, Debug)]
pub(super) struct SilentWindow {
    pub(super) limit: f64,
    shortest: f64,
    longest: f64,
    /// Accepted since the last refusal.
    quiet: f64,
    /// How often the limit was raised since then, and what it was before.
    raises: u32,
    proven: f64,
    /// It was used up once without a refusal.
    confirmed: bool,
}

impl SilentWindow {
    pub(super) fn new(limit: f64, shortest: f64, longest: f64) -> Self {
        let shortest = shortest.clamp(0.0, longest);
        let limit = limit.max(1.0);
        Self {
            limit,
            shortest,
            longest,
            quiet: 0.0,
            raises: 0,
            proven: limit,
            confirmed: false,
        }
    }

    /// The shortest and the longest that it may be, in seconds.
    pub(super) fn length(&self) -> (f64, f64) {
        (self.shortest, self.longest)
    }

    /// The longest that it may be, in seconds.
    pub(super) fn longest(&self) -> f64 {
        self.longest
    }

    /// The same window, found to be a little longer.
    pub(super) fn lengthened(mut self, length: f64) -> Self {
        self.longest = self.longest.max(length);
        self
    }

    /// Sends per second when it is used up each time.
    pub(super) fn rate(&self) -> f64 {
        if self.longest.is_finite() {
            self.limit / self.longest
        } else {
            self.limit / self.shortest
        }
    }

    /// When the next send may go. `may_try` allows one that may be too early.
    pub(super) fn ready(&self, sends: &Sends, jitter: f64, may_try: bool, now: Time) -> Time {
        let age = match self.longest.is_finite() {
            true if may_try => self.trial(self.shortest, jitter).unwrap_or(self.longest),
            true => self.longest,
            false => asked_after(self.shortest),
        };
        match sends.reach_back(self.limit, now + AFTER) {
            Some((_, oldest)) => oldest.plus_secs(age + jitter),
            None => now,
        }
    }

    /// Whether a send now is sooner than the long end allows.
    pub(super) fn is_trial(&self, sends: &Sends, now: Time) -> bool {
        sends
            .reach_back(self.limit, now)
            .is_some_and(|(_, oldest)| now.secs_since(oldest) < self.longest)
    }

    /// A send was accepted, so the last one that would have filled the window had left it.
    pub(super) fn on_accepted(&mut self, sends: &Sends, jitter: f64, may_try: bool, sent: Time) {
        if let Some((oldest, _)) = sends.reach_back(self.limit, sent) {
            let gone = sent.secs_since(oldest) + jitter;
            self.longest = self.longest.min(gone.max(self.shortest));
            if let Some(length) =
                usual_length_at(self.longest, jitter).filter(|&u| u > self.shortest)
            {
                self.longest = self.longest.min(length + jitter);
            }
        }
        self.quiet += 1.0;
        self.confirmed |= self.quiet >= self.limit;
        let is_settled = self.trial(self.shortest, jitter).is_none();
        if may_try && is_settled && self.quiet >= QUIET_WINDOWS * self.limit {
            if self.raises == 0 {
                self.proven = self.limit;
                // While the size is looked at, so is the length.
                self.shortest *= 0.5;
            }
            let raise = f64::from(1_u32 << self.raises.min(20));
            self.quiet -= self.limit;
            self.limit += raise.min((0.5 * self.limit).floor()).max(1.0);
            self.raises += 1;
        }
    }

    /// Whether so many sends of a window that was only assumed, and no more since it opened, are too
    /// few for a refusal: then it is none.
    pub(super) fn is_disproved(&self, accepted: f64) -> bool {
        !self.confirmed && accepted < ENOUGH * self.limit
    }

    /// A send was refused. Answers from when it counts, and the age at which to try again; none if
    /// only more was tried than had held.
    pub(super) fn on_refused(
        &mut self,
        sends: &Sends,
        segment: Time,
        jitter: f64,
        may_try: bool,
        sent: Time,
    ) -> Option<(Time, f64)> {
        let heard = std::mem::take(&mut self.quiet);
        if std::mem::take(&mut self.raises) > 0 {
            self.limit = self.proven;
            return None;
        }
        let oldest = sends.reach_back(self.limit, sent).map(|(_, oldest)| oldest);
        if let Some(oldest) = oldest.filter(|&at| sent.secs_since(at) < self.longest) {
            // A trial, sooner than the long end: it only was too soon.
            let counted = sent.secs_since(oldest) - jitter;
            self.shortest = self.shortest.max(counted).min(self.longest);
            return None;
        }
        let is_near = |at: &Time| sent.secs_since(*at) < SHORT_OF * self.longest;
        let counts = oldest.filter(|at| self.confirmed || is_near(at));
        let start = counts.unwrap_or(segment);
        let age = sent.secs_since(start);
        let again = if age + jitter < self.longest {
            // Used up: it may come back before the long end.
            let trial = may_try.then(|| self.trial(self.shortest.max(age), jitter));
            trial.flatten().unwrap_or(self.longest)
        } else if age < SHORT_OF * self.longest {
            // A little too soon: jitter, or the first of it was later than it seemed.
            self.longest = self.longest.max(age + 2.0 * jitter);
            self.quiet = heard;
            self.longest.mul_add(SHORT_OF, 2.0 * jitter)
        } else if std::mem::take(&mut self.confirmed) {
            // It has held before: a little more may do.
            1.01 * age + 2.0 * jitter
        } else {
            asked_after(age)
        };
        Some((start, again))
    }

    /// The age, above this one, at which a send is worth a refusal: of a length that people choose,
    /// if one is left, else half way to the long end.
    fn trial(&self, above: f64, jitter: f64) -> Option<f64> {
        let apart = (WIDE * self.longest).max(4.0 * jitter);
        if self.longest - above <= apart {
            return None;
        }
        let middle = f64::midpoint(above, self.longest);
        let inside = |length: &&f64| **length > above + jitter && **length < self.longest - apart;
        let from_middle = |length: &&f64| (**length - middle).abs();
        let usual = COMMON_LENGTHS.iter().filter(inside);
        let nearest = usual.min_by(|one, other| from_middle(one).total_cmp(&from_middle(other)));
        match nearest {
            Some(&length) => Some(length),
            None if self.longest - above < SURE * self.longest
                && usual_length_at(self.longest, jitter).is_some() =>
            {
                None
            }
            None => Some(middle),
        }
    }
}

/// The common length that this one is, as far as arrivals tell.
fn usual_length_at(seconds: f64, jitter: f64) -> Option<f64> {
    let is_it = |length: &f64| {
        let late = (4.0 * jitter).max(0.002 * length + LATE + jitter);
        (-jitter..=late).contains(&(seconds - length))
    };
    COMMON_LENGTHS.iter().copied().find(is_it)
}

/// When to ask whether a window that is longer than this has ended, both in seconds: a little after
/// the next length that people choose, for its first send may have arrived late.
pub(super) fn asked_after(seconds: f64) -> f64 {
    1.002 * usual_length_after(seconds) + LATE
}

/// The next length above this one, in seconds, that is worth a try: people choose round ones.
fn usual_length_after(seconds: f64) -> f64 {
    let least = LONGER * seconds;
    let usual = USUAL_LENGTHS.iter().copied().find(|&length| length > least);
    usual.unwrap_or(1.5 * seconds).min(seconds + LONGEST_STEP)
}

/// Steps of a half at most, so that an odd length is overshot by a fifth in the mean.
const USUAL_LENGTHS: [f64; 26] = [
    0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0,
];
/// Those of them that documented limits have: worth a try before any other.
const COMMON_LENGTHS: [f64; 15] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// In seconds: longer is not waited without a try.
const LONGEST_STEP: f64 = 600.0;
/// Of the length: refused within it, the length was nearly right.
const SHORT_OF: f64 = 1.05;
/// Of the length: less is not worth a refusal.
const WIDE: f64 = 0.03;
/// Of a length that people choose: none shorter is worth a refusal.
const SURE: f64 = 0.2;
/// In seconds: what a first connection takes longer than the next ones, on a near network.
const LATE: f64 = 0.005;
const LONGER: f64 = 1.03;
/// Of a window: who else uses it may take as much.
const ENOUGH: f64 = 0.5;
/// Windows used up without a refusal before one more is tried.
const QUIET_WINDOWS: f64 = 3.0;
const AFTER: std::time::Duration = std::time::Duration::from_nanos(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn sent(moments: &[f64]) -> Sends {
        let mut sends = Sends::default();
        moments
            .iter()
            .for_each(|&moment| sends.push(1.0, at(moment)));
        sends
    }

    #[test]
    fn a_full_window_waits_for_its_oldest_send() {
        let window = SilentWindow::new(3.0, 60.0, 60.0);
        assert_eq!(
            window.ready(&sent(&[1.0, 2.0]), 0.005, false, at(3.0)),
            at(3.0)
        );
        assert_eq!(
            window.ready(&sent(&[1.0, 2.0, 3.0]), 0.005, false, at(4.0)),
            at(61.005)
        );
    }

    #[test]
    fn acceptances_narrow_the_length() {
        let mut window = SilentWindow::new(2.0, 30.0, 60.0);
        let sends = sent(&[0.0, 1.0]);
        assert_eq!(window.ready(&sends, 0.005, true, at(2.0)), at(45.005));
        window.on_accepted(&sends, 0.005, false, at(50.0));
        assert!((window.longest - 50.005).abs() < 1e-9);
    }

    #[test]
    fn a_refusal_of_more_than_held_takes_the_trial_back() {
        let mut window = SilentWindow::new(1.0, 1.0, 1.0);
        let sends = sent(&[]);
        (0..3).for_each(|i| window.on_accepted(&sends, 0.005, true, at(f64::from(i))));
        assert_eq!(window.limit, 2.0);
        assert_eq!(
            window.on_refused(&sends, at(0.0), 0.005, true, at(9.0)),
            None
        );
        assert_eq!(window.limit, 1.0);
    }

    #[test]
    fn a_refusal_is_answered_by_the_next_round_length() {
        let mut window = SilentWindow::new(2.0, 0.5, 0.6);
        let sends = sent(&[0.0, 0.01]);
        let again = window.on_refused(&sends, at(0.0), 0.005, true, at(0.65));
        assert_eq!(again, Some((at(0.0), 1.002 * 0.75 + LATE)));
    }

    #[test]
    fn a_length_that_people_choose_is_tried_before_the_middle() {
        let window = SilentWindow::new(10.0, 0.9, 1.6);
        assert_eq!(window.trial(0.9, 0.005), Some(1.0));
        assert_eq!(window.trial(1.1, 0.005), Some(1.35));
        assert_eq!(window.trial(1.59, 0.005), None);
        // Of a minute nearly sure: a little less is not worth a refusal.
        assert_eq!(SilentWindow::new(10.0, 50.0, 60.0).trial(50.0, 0.005), None);
    }

    #[test]
    fn round_lengths_are_tried_first() {
        assert_eq!(usual_length_after(46.0), 60.0);
        assert_eq!(usual_length_after(59.9), 90.0);
        assert_eq!(usual_length_after(10_000.0), 10_600.0);
    }
}
