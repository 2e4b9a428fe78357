//! A window whose sends each come back when they are as old as it is long.
//!
//! Also the cautious picture of a window that starts anew at fixed moments, until such a start was
//! seen. The length is an interval that readings narrow; used is its long end.

use std::collections::VecDeque;

use crate::scheduler::sends::Sends;
use crate::scheduler::time::Time;

use super::reading::Span;

/// The sends that still count, and how long each does.
#[derive(Clone, Debug)]
pub(super) struct Window {
    shortest: f64,
    longest: f64,
    /// The length as it stood on the wire.
    given: Option<f64>,
    /// A given length so short that rounding to whole seconds may have changed it much: it is tested
    /// once.
    doubted: bool,
    /// The length by the resets that were told, where a longer one is given in whole seconds.
    reckoned: Option<Reckoned>,
    /// Resets in whole seconds make a window of less than one unlikely: the short end until counts
    /// insist. None once they have.
    likely: Option<f64>,
    /// The length is settled: the whole of it comes back at once, so counts and resets no longer tell
    /// it.
    settled: bool,
    /// Counts in a row that contradict the long end.
    longer: u32,
    counting: VecDeque<(Time, f64)>,
    /// The sum of it.
    counted: f64,
    /// Something has come back since the length was learned: the oldest that counts is then no
    /// longer known for sure, and so neither is what its reset says about the length.
    returned: bool,
}

impl Window {
    /// Enough for a window at a resolution of a thousandth; beyond it, neighbours are merged into
    /// the later of them, which then returns late rather than early.
    const KEPT: usize = 4096;

    pub(super) fn new(length: Option<f64>) -> Self {
        Self {
            shortest: length.filter(|&length| length > DOUBTED).unwrap_or(0.0),
            doubted: length.is_some_and(|length| length <= DOUBTED),
            reckoned: length.and_then(Reckoned::new),
            longest: length.unwrap_or(f64::INFINITY),
            given: length,
            likely: Some(0.0),
            settled: false,
            longer: 0,
            counting: VecDeque::new(),
            counted: 0.0,
            returned: false,
        }
    }

    pub(super) fn given(&self) -> Option<f64> {
        self.given
    }

    /// Whether it is believed to be shorter than it was told to be.
    pub(super) fn is_shortened(&self) -> bool {
        self.given.is_some_and(|given| self.longest < given)
    }

    pub(super) fn longest(&self) -> f64 {
        self.longest
    }

    pub(super) fn is_known(&self) -> bool {
        self.longest.is_finite()
    }

    /// When sends that may or may not have returned at `moment` were made.
    pub(super) fn sent_for_return_at(&self, moment: Time) -> (Time, Time) {
        (
            moment.plus_secs(-self.longest),
            moment.plus_secs(-self.shortest),
        )
    }

    /// When the oldest that counts returns, where more than resets has to tell.
    pub(super) fn next_return(&self) -> Option<Span> {
        let open = self.is_known() && self.reckoned.is_none();
        let oldest = self.oldest().filter(|_| open)?;
        let (earliest, latest) = (
            oldest.plus_secs(self.shortest),
            oldest.plus_secs(self.longest),
        );
        Some(Span {
            earliest,
            latest,
            ..Span::default()
        })
    }

    /// Narrows the length by a count: a send of age `counted` still counts, one of age `gone` does
    /// not; `refused` is whether nothing was left.
    pub(super) fn on_count(&mut self, counted: f64, gone: f64, refused: bool) -> Counted {
        if !self.settled && gone + SLACK < self.least() {
            return Counted::TooFew;
        }
        if counted > self.longest + SLACK {
            self.longer += 1;
            if self.longer >= LONGER {
                self.longest = self.given.unwrap_or(counted).max(counted);
                self.longer = 0;
            }
            return if self.given == Some(self.longest) {
                Counted::Fits
            } else {
                Counted::TooMany
            };
        }
        self.longer = 0;
        if self.settled {
            return Counted::Fits;
        }
        let most = self.given.unwrap_or(f64::INFINITY);
        if refused && counted + SLACK > self.longest && self.longest < most {
            // What was refused at just this age must not be sent at it again.
            self.longest = self.longest.max((counted + SLACK).min(most));
            return Counted::JustTooMany;
        }
        let before = self.longest;
        self.longest = self.longest.min(gone.max(self.shortest));
        self.shortest = self.shortest.max(counted.min(self.longest));
        if self.doubted {
            self.doubted = self.given == Some(self.longest);
            if self.doubted && self.shortest > (TEST_AT - 0.1) * self.longest {
                // It stood the test: what is told is meant.
                self.shortest = self.longest;
                self.doubted = false;
            }
        }
        if before.is_finite() && self.longest < 0.5 * before {
            Counted::FarFewer
        } else {
            Counted::Fits
        }
    }

    fn least(&self) -> f64 {
        self.shortest.max(self.likely.unwrap_or(0.0))
    }

    /// Counts insist on a shorter window than is likely. False if it was not only unlikely.
    pub(super) fn give_in(&mut self) -> bool {
        self.likely
            .take()
            .is_some_and(|likely| likely > self.shortest)
    }

    /// All that counts.
    pub(super) fn counted(&self) -> f64 {
        self.counted
    }

    /// When the oldest that counts was sent.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.counting.front().map(|entry| entry.0)
    }

    pub(super) fn push(&mut self, cost: f64, at: Time) {
        if self.counting.len() >= Self::KEPT {
            self.merge();
        }
        // Kept in order of time: what others took may be booked at a moment in the past.
        let at = self.counting.back().map_or(at, |last| last.0.max(at));
        self.counting.push_back((at, cost));
        self.counted += cost;
    }

    /// Takes out what has come back by `now` and returns how much it is.
    pub(super) fn returned_by(&mut self, jitter: f64, now: Time) -> f64 {
        let mut back = 0.0;
        while let Some(&(at, cost)) = self.counting.front() {
            if at.plus_secs(self.longest + jitter) > now {
                break;
            }
            back += cost;
            self.counted -= cost;
            self.counting.pop_front();
            self.returned = true;
        }
        back
    }

    /// The moment at which `amount` more will have come back.
    pub(super) fn return_of(&self, mut amount: f64, jitter: f64) -> Option<Time> {
        self.counting.iter().find_map(|&(at, cost)| {
            amount -= cost;
            (amount <= 1e-9).then(|| at.plus_secs(self.longest + jitter))
        })
    }

    /// The same if the window is as long as the middle of what it may be; none if that is known well
    /// enough.
    pub(super) fn trial_of(&self, mut amount: f64, jitter: f64) -> Option<Time> {
        let wide = self.longest - self.shortest > WIDE * self.longest + 2.0 * jitter;
        let age = f64::midpoint(self.shortest, self.longest);
        let mut counting = self.counting.iter().filter(|_| wide && self.is_known());
        counting.find_map(|&(at, cost)| {
            amount -= cost;
            (amount <= 1e-9).then(|| at.plus_secs(age + jitter))
        })
    }

    /// The same if the window is as long as the resets say, where they say that it is shorter than it
    /// was told to be.
    pub(super) fn reckoned_return_of(&self, mut amount: f64, jitter: f64) -> Option<Time> {
        let age = self.reckoned.as_ref()?.shorter(self.longest)?;
        self.counting.iter().find_map(|&(at, cost)| {
            amount -= cost;
            (amount <= 1e-9).then(|| at.plus_secs(age + jitter))
        })
    }

    /// A request was refused although something was to be back by then: what is told is meant.
    pub(super) fn on_refused(&mut self) {
        if self.reckoned.take().is_some() {
            self.shortest = self.longest;
        }
    }

    /// What was sent until `moment` has come back already. Answers how much it was.
    pub(super) fn take_until(&mut self, moment: Time) -> f64 {
        let mut back = 0.0;
        while let Some(&(_, cost)) = self.counting.front().filter(|entry| entry.0 <= moment) {
            back += cost;
            self.counting.pop_front();
        }
        self.counted -= back;
        back
    }

    /// The oldest `amount` has come back already, so a reading says.
    pub(super) fn take_back(&mut self, mut amount: f64) {
        while amount > 0.0 {
            let Some(front) = self.counting.front_mut() else {
                break;
            };
            let taken = front.1.min(amount);
            front.1 -= taken;
            amount -= taken;
            self.counted -= taken;
            if front.1 > 0.0 {
                break;
            }
            self.counting.pop_front();
        }
    }

    /// Takes out the entry of a send that was refused.
    pub(super) fn undo(&mut self, cost: f64, at: Time) {
        let index = self.counting.partition_point(|entry| entry.0 < at);
        if let Some(entry) = self.counting.get_mut(index) {
            let undone = entry.1.min(cost);
            entry.1 -= undone;
            self.counted -= undone;
            if entry.1 <= 1e-9 {
                self.counting.remove(index);
            }
        }
    }

    /// Counts these anew, which were sent while nothing was counted here.
    pub(super) fn recount(&mut self, sends: impl Iterator<Item = (Time, f64)>) {
        self.forget_all();
        for (at, cost) in sends {
            self.push(cost, at);
        }
    }

    /// Goes on with what another counted.
    pub(super) fn inherit(&mut self, other: &Self) {
        self.counting.clone_from(&other.counting);
        self.counted = other.counted;
    }

    /// Settles the length, as told or else as long as it may be, and counts anew what was sent within
    /// it.
    pub(super) fn settle(&mut self, sends: &Sends, now: Time) {
        self.forget_all();
        if let Some(given) = self.given {
            self.longest = given;
        }
        self.settled = true;
        self.doubted = false;
        if self.is_known() {
            self.shortest = self.longest;
            self.recount(sends.after_each(now.plus_secs(-self.longest)));
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.counting.clear();
        self.counted = 0.0;
    }

    pub(super) fn forget_length(&mut self) {
        if self.given.is_none() {
            (self.shortest, self.longest) = (0.0, f64::INFINITY);
        }
        self.returned = false;
    }

    /// Its length as it seemed to another law, if nothing better is known.
    pub(super) fn suppose_length(&mut self, longest: f64) {
        if !self.is_known() {
            self.longest = longest.max(self.shortest);
        }
    }

    pub(super) fn relearn_length(&mut self) {
        self.returned = false;
    }

    /// Narrows the length: the oldest send that counts leaves when the quota resets. `in_use` is
    /// what the server counts plus what was sent since, `doubt` what it may or may not count;
    /// `sent` is when the request that brought the reading left. Answers what turned
    /// out not to count any more.
    pub(super) fn on_reset(
        &mut self,
        reset: &Span,
        in_use: f64,
        doubt: f64,
        jitter: f64,
        sent: Time,
    ) -> f64 {
        if self.settled {
            return 0.0;
        }
        if self.given.is_some() {
            self.reckon(reset, in_use, doubt, jitter, sent);
            return 0.0;
        }
        if !reset.exact
            && let Some(likely) = &mut self.likely
        {
            *likely = LIKELY;
        }
        // Whatever counts was not sent after this request, so the window is as long as its reset.
        let least = reset.earliest.secs_since(sent) - jitter;
        if least > self.longest {
            self.forget_length();
        }
        self.shortest = self.shortest.max(least);
        if self.returned {
            return 0.0;
        }
        let mut gone = 0.0;
        while self.counted > in_use + doubt + 0.5 {
            match self.counting.front() {
                Some(&(at, cost)) if at < sent.plus_secs(-jitter) => {
                    self.counted -= cost;
                    gone += cost;
                    self.counting.pop_front();
                }
                _ => break,
            }
        }
        let Some(oldest) = self.oldest().filter(|&at| at <= sent) else {
            return gone;
        };
        let shortest = (reset.earliest.secs_since(oldest) - jitter).max(0.0);
        let longest = reset.latest.secs_since(oldest);
        if longest <= 0.002 {
            return gone;
        }
        if shortest <= self.longest && longest >= self.shortest {
            self.shortest = self.shortest.max(shortest);
            self.longest = self.longest.min(longest);
        } else {
            (self.shortest, self.longest) = (shortest, longest);
        }
        gone
    }

    /// What a reset says about a length that is given. Only what one's own sends took tells it.
    fn reckon(&mut self, reset: &Span, in_use: f64, doubt: f64, jitter: f64, sent: Time) {
        let is_own = !self.returned && (self.counted - in_use).abs() <= doubt + 0.5;
        let oldest = self.oldest().filter(|&at| is_own && at <= sent);
        let (Some(oldest), Some(reckoned)) = (oldest, &mut self.reckoned) else {
            return;
        };
        let shortest = reset.earliest.secs_since(oldest) - jitter;
        let longest = reset.latest.secs_since(oldest);
        if !reckoned.narrow(shortest, longest) {
            self.reckoned = None;
            self.shortest = self.longest;
        } else if reckoned.shorter(self.longest).is_some() {
            self.shortest = self.shortest.min(reckoned.shortest);
        }
    }

    fn merge(&mut self) {
        let old = std::mem::take(&mut self.counting);
        let mut entries = old.into_iter();
        while let Some((first, cost)) = entries.next() {
            let (at, more) = entries.next().unwrap_or((first, 0.0));
            self.counting.push_back((at, cost + more));
        }
    }
}

/// A length in seconds that resets narrow, within the second by which it was rounded up.
#[derive(Clone, Copy, Debug)]
struct Reckoned {
    shortest: f64,
    longest: f64,
}

impl Reckoned {
    fn new(given: f64) -> Option<Self> {
        (given > DOUBTED && given.fract() == 0.0).then_some(Self {
            shortest: given - 1.0,
            longest: given,
        })
    }

    /// False if the resets contradict each other or what is given.
    fn narrow(&mut self, shortest: f64, longest: f64) -> bool {
        self.shortest = self.shortest.max(shortest);
        self.longest = self.longest.min(longest);
        self.shortest <= self.longest
    }

    /// The length, if it is surely less than `told`.
    fn shorter(&self, told: f64) -> Option<f64> {
        (self.longest < told - SHORTER).then_some(self.longest)
    }
}

/// What a count says of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Nothing against it.
    Fits,
    /// It is less than half as long as was believed.
    FarFewer,
    /// Sends that are too young to have returned do not count: it is no sliding window.
    TooFew,
    /// Sends that are too old count: others use it too, or it is no window.
    TooMany,
    /// A send was refused when all that it needs was just old enough.
    JustTooMany,
}

/// In seconds: whoever tells resets in whole ones counts in whole ones.
const LIKELY: f64 = 0.9;
/// In seconds: lengths are told in whole ones, and a longer one is not far off when rounded.
const DOUBTED: f64 = 2.0;
/// Of a given length: what has not come back by then comes back when it was told.
const TEST_AT: f64 = 0.85;
/// Of the length: less is not worth a refusal.
const WIDE: f64 = 0.1;
/// In seconds: less is within what timers and clocks are off.
const SHORTER: f64 = 0.03;
/// In seconds: rounding to milliseconds on both sides is no contradiction.
const SLACK: f64 = 0.002;
/// Counts in a row that show sends older than the window to count: others cause single ones.
const LONGER: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn sends_come_back_when_they_are_as_old_as_the_window() {
        let mut window = Window::new(Some(1.0));
        window.push(1.0, at(0.0));
        window.push(2.0, at(0.5));
        assert_eq!(window.returned_by(0.0, at(0.9)), 0.0);
        assert_eq!(window.return_of(2.0, 0.0), Some(at(1.5)));
        assert_eq!(window.returned_by(0.0, at(1.0)), 1.0);
        assert_eq!(window.return_of(3.0, 0.0), None);
    }

    #[test]
    fn the_length_is_the_reset_less_the_oldest_send() {
        let mut window = Window::new(None);
        window.push(1.0, at(2.0));
        window.push(1.0, at(2.5));
        let reset = Span {
            earliest: at(61.0),
            latest: at(62.0),
            after: 59.0,
            ..Span::default()
        };
        window.on_reset(&reset, 2.0, 0.0, 0.005, at(2.5));
        assert!((window.shortest - 58.995).abs() < 1e-6 && window.longest == 60.0);
        // Another reading with the same reset in other rounding intersects.
        let reset = Span {
            earliest: at(61.4),
            latest: at(62.4),
            after: 59.0,
            ..Span::default()
        };
        window.on_reset(&reset, 2.0, 0.0, 0.005, at(2.6));
        assert!((window.shortest - 59.395).abs() < 1e-6 && window.longest == 60.0);
    }

    /// A send at 0, told in whole seconds by requests sent at each of `moments`.
    fn told_in_seconds(given: f64, length: f64, moments: &[f64]) -> Window {
        let mut window = Window::new(Some(given));
        window.push(1.0, at(0.0));
        for &moment in moments {
            let after = (length - moment).ceil();
            let reset = Span {
                earliest: at(moment + after - 1.0),
                latest: at(moment + after),
                after,
                ..Span::default()
            };
            window.on_reset(&reset, 1.0, 0.0, 0.005, at(moment));
        }
        window
    }

    #[test]
    fn resets_say_that_a_window_is_shorter_than_it_was_told_to_be() {
        let window = told_in_seconds(7.0, 6.03, &[0.0, 0.6, 1.2, 2.1]);
        let asks = window.reckoned_return_of(1.0, 0.0).expect("it is shorter");
        assert!(at(6.03) <= asks && asks <= at(6.3), "{asks:?}");
        assert_eq!(
            window.return_of(1.0, 0.0),
            Some(at(7.0)),
            "nothing showed it"
        );
        let whole = told_in_seconds(7.0, 7.0, &[0.0, 0.6, 1.2, 2.1]);
        assert_eq!(whole.reckoned_return_of(1.0, 0.0), None);
    }

    #[test]
    fn a_refusal_ends_the_belief_in_a_shorter_window() {
        let mut window = told_in_seconds(7.0, 6.03, &[0.0, 0.6, 1.2, 2.1]);
        window.on_refused();
        assert_eq!(window.reckoned_return_of(1.0, 0.0), None);
        assert_eq!((window.shortest, window.longest), (7.0, 7.0));
    }

    #[test]
    fn what_was_refused_at_an_age_is_not_sent_at_it_again() {
        let mut window = Window::new(None);
        window.on_count(0.0, 0.3, false);
        assert_eq!(window.on_count(0.299, 0.6, true), Counted::JustTooMany);
        assert!(window.longest() > 0.3);
        let mut window = Window::new(Some(1.0));
        window.on_count(0.0, 0.3, false);
        assert_eq!(window.on_count(0.1, 0.6, true), Counted::Fits);
        assert_eq!(window.longest(), 0.3);
    }

    #[test]
    fn a_hundred_thousand_sends_in_a_window_stay_bounded_and_none_returns_early() {
        let mut window = Window::new(Some(60.0));
        for i in 0..100_000_u32 {
            window.push(1.0, at(f64::from(i) * 1e-4));
        }
        assert!(window.counting.len() <= Window::KEPT);
        assert!(window.returned_by(0.0, at(61.0)) <= 10_001.0);
        let rest = window.returned_by(0.0, at(70.1));
        assert!(rest > 89_000.0, "{rest}");
    }
}
