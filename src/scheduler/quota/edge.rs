//! The next start of a window that begins anew for everybody at fixed moments.

use crate::scheduler::time::Time;

use super::reading::Span;

/// An interval for the moment at which the whole limit comes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Edge {
    pub(super) earliest: Time,
    pub(super) latest: Time,
    /// The server's own word for this window, where it is a moment: a new one is a new window.
    moment: Option<f64>,
    /// By our clock the window has begun; no reading has confirmed it yet.
    assumed: bool,
    /// When the latest window began by our clock.
    began: Option<Time>,
    strikes: u32,
}

/// What a reading says about the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seeing {
    /// The same window as before.
    Same,
    /// A new one began, as was assumed.
    Confirmed,
    /// A new one began before it was assumed.
    Early,
    /// The old one goes on although a new one was assumed.
    Late,
}

impl Edge {
    /// The first start that was seen: the last reading of the old window was by a request sent at
    /// `old_sent` and told `old`, the first of the new one was sent at `sent` and told `new`.
    pub(super) fn found(old: &Span, old_sent: Time, new: &Span, sent: Time) -> Self {
        let moved = new.latest.secs_since(old.latest);
        let earliest = old.earliest.max(old_sent).plus_secs(moved);
        let latest = old.latest.min(sent).plus_secs(moved);
        let mut edge = Self {
            moment: new.moment,
            ..Self::default()
        };
        edge.set_within(earliest, latest, new);
        edge
    }

    /// By our clock the window begins now.
    pub(super) fn assume(&mut self, now: Time) {
        self.assumed = true;
        self.began = Some(now);
    }

    /// Whether the latest window is only assumed.
    pub(super) fn is_assumed(&self) -> bool {
        self.assumed
    }

    /// Takes in a reading of a request sent at `sent`; `last` is the reset told before it.
    pub(super) fn on_reading(
        &mut self,
        told: &Span,
        last: &Span,
        newer: bool,
        sent: Time,
    ) -> Seeing {
        if self.is_next(told) {
            let moved = told.latest.secs_since(last.latest);
            let earliest = self.earliest.plus_secs(moved);
            let latest = self.latest.min(sent).plus_secs(moved);
            self.set_within(earliest, latest, told);
            self.moment = told.moment;
            return if std::mem::take(&mut self.assumed) {
                Seeing::Confirmed
            } else {
                Seeing::Early
            };
        }
        if !newer || sent >= told.latest {
            return Seeing::Same;
        }
        if told.moment.is_none() {
            self.set_within(
                self.earliest.max(told.earliest),
                self.latest.min(told.latest),
                told,
            );
        } else if told.moment != self.moment {
            return Seeing::Same;
        }
        if sent < self.latest {
            self.earliest = self.earliest.max(sent);
            Seeing::Same
        } else if std::mem::take(&mut self.assumed) {
            self.earliest = sent;
            self.latest = told.latest.max(sent.plus_secs(SOON));
            Seeing::Late
        } else {
            Seeing::Same
        }
    }

    /// Whether `told` belongs to a window after this one.
    fn is_next(&self, told: &Span) -> bool {
        match (told.moment, self.moment) {
            (Some(new), Some(old)) if new > old => true,
            _ => told.earliest > self.latest.plus_secs(if told.exact { SOON } else { 0.0 }),
        }
    }

    fn set_within(&mut self, earliest: Time, latest: Time, told: &Span) {
        self.earliest = earliest.max(told.earliest);
        self.latest = latest.min(told.latest);
        if self.earliest > self.latest {
            (self.earliest, self.latest) = (told.earliest, told.latest);
        }
    }

    /// A request of a window that should have been fresh was refused; `length` is the window's.
    /// Whether it is the second time: then it was no such window.
    pub(super) fn is_disproved_by_refusal(&mut self, length: f64, sent: Time) -> bool {
        let fresh = self.began.is_some_and(|since| {
            sent >= since && sent < since.plus_secs(0.5 * length.min(LONG)) && sent > self.earliest
        });
        self.strikes += u32::from(fresh);
        self.strikes >= STRIKES
    }
}

/// In seconds: what two exact resets of one window may differ by.
const SOON: f64 = 0.01;
/// In seconds: half of a longer window than this is not "fresh".
const LONG: f64 = 1000.0;
/// One refusal can be another client; a wrong belief that the whole limit is back costs a refusal
/// at every start.
const STRIKES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn told(moment: f64) -> Span {
        let latest = at(moment);
        Span {
            earliest: at(moment - 1.0),
            latest,
            moment: Some(moment),
            ..Span::default()
        }
    }

    #[test]
    fn scouts_narrow_the_edge_and_it_carries_over_to_the_next() {
        // The old window was seen at 9.4, the new one at 9.5: it starts at x.4 to x.5.
        let mut edge = Edge::found(&told(10.0), at(9.4), &told(15.0), at(9.5));
        assert_eq!((edge.earliest, edge.latest), (at(14.4), at(14.5)));
        edge.assume(at(14.505));
        let seeing = edge.on_reading(&told(20.0), &told(15.0), true, at(14.51));
        assert_eq!(seeing, Seeing::Confirmed);
        assert_eq!((edge.earliest, edge.latest), (at(19.4), at(19.5)));
    }

    #[test]
    fn an_old_window_that_goes_on_moves_the_edge() {
        let mut edge = Edge::found(&told(10.0), at(9.4), &told(15.0), at(9.5));
        edge.assume(at(14.505));
        assert_eq!(
            edge.on_reading(&told(15.0), &told(15.0), true, at(14.51)),
            Seeing::Late
        );
        assert_eq!((edge.earliest, edge.latest), (at(14.51), at(15.0)));
    }

    #[test]
    fn two_refusals_in_fresh_windows_disprove_them() {
        let mut edge = Edge::found(&told(10.0), at(9.4), &told(15.0), at(9.5));
        assert!(
            !edge.is_disproved_by_refusal(5.0, at(14.6)),
            "not assumed to be fresh"
        );
        edge.assume(at(14.505));
        assert!(!edge.is_disproved_by_refusal(5.0, at(14.6)));
        assert!(edge.is_disproved_by_refusal(5.0, at(14.7)));
    }
}
