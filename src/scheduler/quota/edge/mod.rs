//! The next start of a window whose whole limit comes back at one moment.
//!
//! Such windows follow the clock, or the first request after the last one opens the next. Both
//! ideas are kept side by side, each with its own length; the one whose predictions hold decides,
//! and while both do the edge may lie anywhere that either allows. What a server tells bounds it
//! in any case. A request that was counted in the old window was sent before the edge; one that
//! was counted in the new one at most the jitter of arrivals before it.

use crate::scheduler::time::Time;

use super::reading::Span;
use super::rhythm::{Bracket, Rhythm, meet};
use super::sight::{Count, Seeing, Sight};

mod question;

/// An interval for the moment at which the whole limit comes back.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    /// As told in the window that ends, by all its readings together.
    told: Bracket,
    /// The server's own word for this window, where it is a moment: a new one is a new window.
    moment: Option<f64>,
    /// A request sent then was counted in the window that ends.
    seen: Time,
    /// When that window began.
    began: Option<Bracket>,
    /// The first request that it counted, if that may have opened it.
    first: Option<Time>,
    /// An edge long ago, and how many lie between.
    anchor: Option<(Bracket, f64)>,
    clocked: Rhythm,
    asked: Rhythm,
    /// By our clock the window has begun; no reading has confirmed it yet.
    assumed: Option<Assumed>,
    /// When the latest window began by our clock.
    opened: Option<Time>,
    /// A window went on after the end that was told: the server's clock, or its rounding, is not as
    /// it seems, and resets are not to be relied on.
    misled: bool,
    /// How often the old window went on after all.
    late: u32,
    /// A request sent before the window must have begun: its number and when.
    tried: Option<(u64, Time)>,
    was_refused: bool,
    /// How many asked in vain since one succeeded.
    vain: u32,
    strikes: u32,
    /// The latest window that counts among them.
    struck: Option<Time>,
}

/// The window before one that is only assumed.
#[derive(Clone, Debug)]
struct Assumed {
    end: Bracket,
    told: Bracket,
    began: Option<Bracket>,
    first: Option<Time>,
}

impl Edge {
    /// The first start that was seen: the last reading of the old window was by a request sent at
    /// `old_sent` and told `old`, the first of the new one was sent at `sent` and told `new`.
    pub(super) fn found(
        (old, old_sent): (&Span, Time),
        (new, sent): (&Span, Time),
        given: Option<f64>,
        jitter: f64,
    ) -> Self {
        let mut edge = Self::joined(old, old_sent, None, given, jitter);
        edge.begin(new, sent, jitter);
        edge
    }

    /// A window that goes on, as a request sent at `sent` was told; `first` is the first request
    /// ever sent, where that may have opened it.
    pub(super) fn joined(
        told: &Span,
        sent: Time,
        first: Option<Time>,
        given: Option<f64>,
        jitter: f64,
    ) -> Self {
        let mut edge = Self {
            earliest: told.earliest,
            latest: told.latest,
            told: (told.earliest, told.latest),
            moment: told.moment,
            seen: sent,
            began: None,
            first,
            anchor: None,
            clocked: Rhythm::new(given),
            asked: Rhythm::new(given),
            assumed: None,
            opened: None,
            misled: false,
            late: 0,
            tried: None,
            was_refused: false,
            vain: 0,
            strikes: 0,
            struck: None,
        };
        edge.learn(jitter);
        edge.refresh(jitter);
        edge
    }

    /// By our clock the window begins now. What is predicted from here on is the end of the new
    /// one.
    pub(super) fn assume(&mut self, jitter: f64, now: Time) {
        let end = (self.earliest, self.latest);
        // Of several that are assumed in a row, what was seen last is what readings speak of.
        self.assumed.get_or_insert(Assumed {
            end,
            told: self.told,
            began: self.began,
            first: self.first,
        });
        self.opened = Some(now);
        self.began = Some(end);
        self.first = None;
        self.told = (end.0, Time::NEVER);
        self.refresh(jitter);
    }

    /// Whether a window may be assumed to begin at its time: not while it is not certain that the
    /// one before did.
    pub(super) fn may_roll(&self) -> bool {
        self.latest < Time::NEVER && (self.assumed.is_none() || self.is_proven())
    }

    /// When it is heard whether the first request of an assumed window is refused, where that must
    /// be waited for.
    pub(super) fn heard_at(&self, hearing: f64) -> Option<Time> {
        let first = self
            .first
            .filter(|_| self.is_assumed() && !self.is_proven())?;
        Some(first.plus_secs(hearing))
    }

    /// How long windows last, as far as it is known.
    pub(super) fn length(&self) -> Option<f64> {
        let trusted = if self.asked.doubt() < self.clocked.doubt() {
            &self.asked
        } else {
            &self.clocked
        };
        trusted.length(SLACK).map(|(_, longest)| longest)
    }

    /// The interval that the edge lies in.
    pub(super) fn span(&self) -> Span {
        Span {
            earliest: self.earliest,
            latest: self.latest,
            ..Span::default()
        }
    }

    /// Whether the latest window is only assumed.
    pub(super) fn is_assumed(&self) -> bool {
        self.assumed.is_some()
    }

    /// Whether windows came where they were predicted.
    pub(super) fn is_proven(&self) -> bool {
        let best = self.clocked.doubt().min(self.asked.doubt());
        let proven = |rhythm: &Rhythm| rhythm.doubt() < best + 0.5 && rhythm.is_proven();
        proven(&self.clocked) || proven(&self.asked)
    }

    /// Whether no idea of what begins a window has predicted one for long.
    pub(super) fn is_hopeless(&self) -> bool {
        self.clocked.doubt() >= HOPELESS && self.asked.doubt() >= HOPELESS
    }

    /// A request was sent.
    pub(super) fn on_sent(&mut self, jitter: f64, now: Time) {
        if self.assumed.is_some() && self.first.is_none() {
            self.first = Some(now);
            self.refresh(jitter);
        }
    }

    /// Takes in a reading.
    pub(super) fn on_reading(&mut self, sight: &Sight<'_>) -> Seeing {
        match &self.assumed {
            Some(assumed) => {
                let old = (assumed.end, assumed.told);
                self.on_reading_assumed(sight, old)
            }
            None if self.is_next(sight, (self.earliest, self.latest), self.told) => {
                self.begin(sight.told, sight.sent, sight.jitter);
                Seeing::Early
            }
            None if self.is_past(sight) => Seeing::Past,
            None => {
                self.narrow(sight);
                Seeing::Same
            }
        }
    }

    fn on_reading_assumed(&mut self, sight: &Sight<'_>, (end, told): (Bracket, Bracket)) -> Seeing {
        let began_by_clock = self.opened.unwrap_or(end.1);
        if self.is_next(sight, end, told) {
            let early = sight.sent < began_by_clock;
            self.withdraw();
            self.begin(sight.told, sight.sent, sight.jitter);
            return if early {
                Seeing::Early
            } else {
                Seeing::Confirmed
            };
        }
        if sight.sent < began_by_clock || !sight.newer {
            return Seeing::Past;
        }
        self.withdraw();
        self.opened = None;
        self.misled |= sight.sent > told.1.plus_secs(slack(sight.jitter));
        if self.late == 0 && !self.misled {
            self.clocked.on_failed();
            self.asked.on_failed();
        }
        self.seen = self.seen.max(sight.sent);
        let pause = SOON * f64::from(1_u32 << self.late.min(7));
        self.late += 1;
        let again = sight.sent.plus_secs(pause);
        let latest = if self.misled {
            again
        } else {
            again.max(sight.told.latest)
        };
        (self.earliest, self.latest) = (sight.sent, latest);
        self.told = (sight.sent, latest);
        Seeing::Late
    }

    /// A new window was not assumed after all.
    fn withdraw(&mut self) {
        if let Some(assumed) = self.assumed.take() {
            (self.earliest, self.latest) = assumed.end;
            (self.told, self.began, self.first) = (assumed.told, assumed.began, assumed.first);
        }
    }

    /// Whether a reading belongs to a window after the one that ends within `end`, told as `told`.
    fn is_next(&self, sight: &Sight<'_>, end: Bracket, told: Bracket) -> bool {
        let span = sight.told;
        let room = if span.exact { SOON } else { 0.0 };
        if let (Some(new), Some(old)) = (span.moment, self.moment) {
            return new > old + room && span.earliest > told.0;
        }
        if span.earliest > told.1.plus_secs(room) || span.earliest > end.1.plus_secs(room) {
            return true;
        }
        let may_be = span.latest > told.0.plus_secs(LEAST_WINDOW)
            && sight.sent >= end.0.plus_secs(-sight.jitter);
        may_be
            && match sight.count {
                Count::New => true,
                Count::Either => self.is_assumed(),
                Count::Old => false,
            }
    }

    fn is_past(&self, sight: &Sight<'_>) -> bool {
        match (sight.told.moment, self.moment) {
            (Some(new), Some(old)) => new < old,
            _ => self.began.is_some_and(|began| {
                sight.told.latest < self.told.0 || sight.sent.plus_secs(sight.jitter) < began.0
            }),
        }
    }

    /// A reading of the window that is going on.
    fn narrow(&mut self, sight: &Sight<'_>) {
        let span = sight.told;
        if !self.misled && (span.moment.is_none() || span.moment == self.moment) {
            meet(&mut self.told, (span.earliest, span.latest));
        }
        self.seen = self.seen.max(sight.sent.min(self.told.1));
        if let Some(first) = self.first.as_mut().filter(|first| sight.sent < **first) {
            *first = sight.sent;
        }
        self.learn(sight.jitter);
        self.refresh(sight.jitter);
    }

    /// A window began: the first request known of it was sent at `sent`.
    fn begin(&mut self, new: &Span, sent: Time, jitter: f64) {
        let slack = slack(jitter);
        let mut end = (self.seen, sent.plus_secs(jitter));
        if !self.misled {
            end = (end.0.max(self.told.0), end.1.min(self.told.1));
        }
        if end.0 > end.1 {
            end.0 = end.1;
        }
        if let (Some(last), Some(next), true) = (self.moment, new.moment, self.misled) {
            // By the server's own clock, and each of the two was rounded.
            let moved = next - last;
            self.clocked.learn(moved - 1.0, moved + 1.0, slack);
        }
        if let Some(first) = self.first {
            self.asked
                .judge((first, first.plus_secs(jitter)), end, slack);
            let least = end.0.secs_since(first.plus_secs(jitter));
            self.asked.learn(least, end.1.secs_since(first), slack);
        }
        if let Some(began) = self.began {
            self.clocked.judge(began, end, slack);
            let least = end.0.secs_since(began.1);
            self.clocked.learn(least, end.1.secs_since(began.0), slack);
            // What the clock predicted holds where it is narrower than what was seen.
            let predicted = self.clocked.end_of(began, slack);
            if let Some(predicted) = predicted.filter(|at| at.0 <= end.1 && end.0 <= at.1) {
                meet(&mut end, predicted);
            }
        }
        self.count_from_anchor(end, slack);
        end = self.skip_unused(end, new, slack);
        self.began = Some(end);
        self.first = Some(sent);
        self.told = if self.misled {
            (sent, Time::NEVER)
        } else {
            (new.earliest, new.latest)
        };
        self.moment = new.moment;
        self.seen = sent;
        self.late = 0;
        self.tried = None;
        self.was_refused = false;
        self.learn(jitter);
        self.refresh(jitter);
    }

    /// Edges far apart tell the length better than neighbours do.
    fn count_from_anchor(&mut self, end: Bracket, slack: f64) {
        let Some((anchor, passed)) = &mut self.anchor else {
            self.anchor = Some((end, 0.0));
            return;
        };
        *passed += 1.0;
        let (least, most) = (end.0.secs_since(anchor.1), end.1.secs_since(anchor.0));
        if let Some((shortest, longest)) = self.clocked.length(slack) {
            let fits = *passed * shortest <= most + slack && least <= *passed * longest + slack;
            if fits && *passed < LONGEST_COUNT {
                self.clocked.learn(least / *passed, most / *passed, slack);
                return;
            }
        }
        self.anchor = Some((end, 0.0));
    }

    /// By the clock, windows that nobody used may lie between the last edge and the one that began
    /// the window a reading is about.
    fn skip_unused(&mut self, end: Bracket, new: &Span, slack: f64) -> Bracket {
        let Some((shortest, longest)) = self.clocked.length(slack) else {
            return end;
        };
        let ahead = new.middle().secs_since(end.0) - 0.5 * (shortest + longest);
        let unused = (ahead / longest.max(LEAST_WINDOW)).round();
        if unused < 1.0 {
            return end;
        }
        self.anchor = None;
        (
            end.0.plus_secs(unused * shortest),
            end.1.plus_secs(unused * longest),
        )
    }

    /// What the told reset says about the lengths.
    fn learn(&mut self, jitter: f64) {
        let (told, slack) = (self.told, slack(jitter));
        if self.misled || told.1 == Time::NEVER {
            return;
        }
        if let Some(began) = self.began {
            let (least, most) = (told.0.secs_since(began.1), told.1.secs_since(began.0));
            self.clocked.learn(least, most, slack);
        }
        if let Some(first) = self.first {
            let least = told.0.secs_since(first.plus_secs(jitter));
            self.asked.learn(least, told.1.secs_since(first), slack);
        }
    }

    /// Where the edge lies: as told, and as the ideas predict that are not disproved.
    fn refresh(&mut self, jitter: f64) {
        let slack = slack(jitter);
        let bounds = (self.told.0.max(self.seen), self.told.1);
        let predicted = |rhythm: &Rhythm, began: Option<Bracket>| {
            let Some(mut end) = began.and_then(|began| rhythm.end_of(began, slack)) else {
                return Some((rhythm.doubt(), bounds));
            };
            if end.1.plus_secs(slack) < bounds.0 || bounds.1.plus_secs(slack) < end.0 {
                return None;
            }
            meet(&mut end, bounds);
            Some((rhythm.doubt(), end))
        };
        let first = self.first.map(|first| (first, first.plus_secs(jitter)));
        let both = [
            predicted(&self.clocked, self.began),
            predicted(&self.asked, first),
        ];
        let best = both
            .iter()
            .flatten()
            .map(|(doubt, _)| *doubt)
            .fold(f64::INFINITY, f64::min);
        let end = both
            .iter()
            .flatten()
            .filter(|(doubt, _)| *doubt < best + 0.5)
            .map(|(_, end)| *end)
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        (self.earliest, self.latest) = end.unwrap_or(bounds);
    }

    /// A request of a window that had begun was refused; `length` is the window's. Whether it is
    /// the second window of which all should have been there: then it was no such window.
    pub(super) fn is_disproved_by_refusal(&mut self, length: f64, sent: Time) -> bool {
        let Some(opened) = self.opened.filter(|&opened| self.struck != Some(opened)) else {
            return false;
        };
        if sent >= opened && sent < opened.plus_secs(0.5 * length.min(LONG)) {
            self.strikes += 1;
            self.struck = Some(opened);
        }
        self.strikes >= STRIKES
    }
}

/// In seconds: how far what is predicted and what is seen may be apart and still agree. Timers and
/// new connections delay sends by some milliseconds.
fn slack(jitter: f64) -> f64 {
    (2.0 * jitter).max(SLACK)
}

/// In seconds: what two exact resets of one window may differ by; also the first pause after the
/// old window went on.
const SOON: f64 = 0.01;
/// In seconds: half of a longer window than this is not "fresh".
const LONG: f64 = 1000.0;
/// In seconds.
const SLACK: f64 = 0.02;
/// In seconds: nobody tells a shorter window in whole seconds.
const LEAST_WINDOW: f64 = 0.1;
/// Failures of late that no change of a limit explains.
const HOPELESS: f64 = 2.0;
/// Clocks drift: counting longer brings nothing.
const LONGEST_COUNT: f64 = 256.0;
/// One refusal can be another client; a wrong belief that the whole limit is back costs a refusal
/// at every start.
const STRIKES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const JITTER: f64 = 0.005;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    /// A moment of the server's clock, which is ours.
    fn told(moment: f64) -> Span {
        Span {
            earliest: at(moment - 1.0),
            latest: at(moment),
            moment: Some(moment),
            ..Span::default()
        }
    }

    fn read(edge: &mut Edge, told: &Span, count: Count, sent: f64) -> Seeing {
        edge.on_reading(&Sight {
            told,
            count,
            newer: true,
            sent: at(sent),
            jitter: JITTER,
        })
    }

    fn near(edge: &Edge, earliest: f64, latest: f64) {
        let off = |time: Time, expected: f64| (time.as_secs_f64() - expected).abs();
        assert!(
            off(edge.earliest, earliest) < 0.03 && off(edge.latest, latest) < 0.03,
            "{:?} to {:?}",
            edge.earliest,
            edge.latest
        );
    }

    #[test]
    fn a_clock_is_followed_where_a_first_request_is_disproved() {
        // Windows of five seconds end at 9.45, 14.45 and so on; the old one was seen until 9.4.
        let mut edge = Edge::found((&told(10.0), at(9.4)), (&told(15.0), at(9.5)), None, JITTER);
        assert!(edge.earliest <= at(14.45) && at(14.45) <= edge.latest);
        for window in 1..6 {
            let end = 9.45 + 5.0 * f64::from(window);
            let moment = 10.0 + 5.0 * f64::from(window);
            read(&mut edge, &told(moment), Count::Old, end - 0.04);
            // The first request of the next comes at any time after that: it cannot have opened it.
            let late = 0.1 * f64::from(1 + window * 3 % 5);
            let seeing = read(&mut edge, &told(moment + 5.0), Count::New, end + late);
            assert_eq!(seeing, Seeing::Early);
        }
        assert!(edge.is_proven());
        assert!(edge.earliest <= at(39.45) && at(39.45) <= edge.latest);
        assert!(edge.span().width() < 0.25, "{:?}", edge.span());
    }

    #[test]
    fn windows_that_open_with_a_request_end_their_length_after_it() {
        let mut first = 1.2;
        let moment = |first: f64| (first + 3.0_f64).ceil();
        let mut edge = Edge::joined(
            &told(moment(first)),
            at(first),
            Some(at(first)),
            None,
            JITTER,
        );
        for _ in 0..6 {
            // Each is opened a while after the one before has ended.
            let next = first + 3.4;
            read(&mut edge, &told(moment(first)), Count::Old, first + 2.99);
            let seeing = read(&mut edge, &told(moment(next)), Count::New, next);
            assert_eq!(seeing, Seeing::Early);
            first = next;
        }
        near(&edge, first + 3.0, first + 3.0);
    }

    #[test]
    fn a_length_of_no_whole_seconds_is_found_behind_whole_ones() {
        // 1.5 s by the clock, told as the next whole second; one request before each end and one
        // after it.
        let end = |window: u32| 0.3 + 1.5 * f64::from(window);
        let mut edge = Edge::joined(&told(end(0).ceil()), at(0.2), None, None, JITTER);
        for window in 0..12 {
            read(
                &mut edge,
                &told(end(window).ceil()),
                Count::Old,
                end(window) - 0.05,
            );
            let next = told(end(window + 1).ceil());
            read(&mut edge, &next, Count::New, end(window) + 0.02);
        }
        assert!(edge.earliest <= at(end(12)) && at(end(12)) <= edge.latest);
        assert!(edge.span().width() < 0.15, "{:?}", edge.span());
    }

    #[test]
    fn an_old_window_that_goes_on_moves_the_edge() {
        let mut edge = Edge::joined(&told(10.0), at(9.1), None, None, JITTER);
        edge.assume(JITTER, at(9.5));
        let seeing = read(&mut edge, &told(10.0), Count::Old, 9.51);
        assert_eq!(seeing, Seeing::Late);
        assert_eq!((edge.earliest, edge.latest), (at(9.51), at(10.0)));
        assert!(!edge.is_assumed());
    }

    #[test]
    fn windows_that_nobody_used_are_skipped_by_the_clock() {
        let mut edge = Edge::found(
            (&told(10.0), at(9.98)),
            (&told(15.0), at(10.0)),
            None,
            JITTER,
        );
        read(&mut edge, &told(15.0), Count::Old, 14.98);
        read(&mut edge, &told(20.0), Count::New, 15.0);
        near(&edge, 20.0, 20.0);
        // Nothing was sent for three windows.
        read(&mut edge, &told(40.0), Count::New, 36.7);
        near(&edge, 40.0, 40.0);
    }

    #[test]
    fn a_question_that_is_not_refused_is_the_new_window() {
        let mut edge = Edge::joined(&told(10.0), at(9.1), None, None, JITTER);
        edge.on_try(7, edge.next_try(JITTER));
        assert_eq!(edge.tried(), Some(at(9.55)));
        assert!(edge.on_refused(7));
        edge.on_try(8, at(9.8));
        edge.on_try_held(JITTER);
        assert_eq!(edge.latest, at(9.805));
    }

    #[test]
    fn two_fresh_windows_that_refuse_are_none() {
        let mut edge = Edge::joined(&told(10.0), at(9.1), None, None, JITTER);
        assert!(!edge.is_disproved_by_refusal(5.0, at(9.6)), "it is old");
        edge.assume(JITTER, at(10.0));
        assert!(!edge.is_disproved_by_refusal(5.0, at(10.1)));
        assert!(!edge.is_disproved_by_refusal(5.0, at(10.2)), "the same");
        edge.assume(JITTER, at(15.0));
        assert!(edge.is_disproved_by_refusal(5.0, at(15.1)));
    }
}
