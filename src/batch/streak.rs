//! Whether everything is turned away in the same way: a missing key, a wrong path, a wrong method.
//!
//! A batch of a million lines should not be burnt on a slip of the pen. So many equal refusals from
//! the first answer on, and no success, end the run; what they said of their lines is taken back, so
//! that the mended command does these lines too.

use super::ids::Place;
use super::record::Code;
use super::tally::Why;
use super::turned_away::TurnedAway;

/// The answers so far, while all of them turn their requests away in the same way.
#[derive(Debug)]
pub(crate) struct Streak {
    same: Option<Why>,
    /// The lines that were turned away.
    places: Vec<Place>,
    /// How the last of them was.
    last: Option<TurnedAway>,
    /// Whether something else came.
    broken: bool,
    /// Whether the batch has had successes in earlier runs: then its address is right.
    proven: bool,
}

impl Streak {
    /// Nothing came so far.
    pub(crate) fn new(proven: bool) -> Self {
        Self {
            same: None,
            places: Vec::new(),
            last: None,
            broken: false,
            proven,
        }
    }

    /// A line has ended, and `turned_away` says how, where all may end like this. Answers whether
    /// it is enough now.
    pub(crate) fn on(&mut self, why: Why, place: Place, turned_away: Option<&TurnedAway>) -> bool {
        if self.broken || !is_answer(why) {
            return false;
        }
        let asks_for_a_key = matches!(why, Why::Status(401 | 403));
        let is_same = |now: &TurnedAway| {
            let last = self.last.as_ref();
            last.is_none_or(|last| last.place == now.place) && (asks_for_a_key || !self.proven)
        };
        match turned_away.filter(|now| is_same(now)) {
            Some(now) if self.same.is_none_or(|same| same == why) => {
                self.same = Some(why);
                self.places.push(place);
                self.last = Some(now.clone());
                self.places.len() == ENOUGH
            }
            _ => {
                self.broken = true;
                self.places = Vec::new();
                false
            }
        }
    }

    /// Whether it was enough, and this line ends like the others.
    pub(crate) fn has_stopped(&self, why: Why) -> bool {
        !self.broken && self.places.len() >= ENOUGH && self.same == Some(why)
    }

    /// The lines that were turned away.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// What there is to say of it: why, how often, what to do. None if something else came.
    pub(crate) fn hint(&self) -> Option<String> {
        let why = self.same.filter(|_| !self.broken)?;
        let count = self.places.len();
        let answers = match count {
            1 => "the only answer was".to_owned(),
            count => format!("all {count} answers were"),
        };
        let hint = &self.last.as_ref()?.hint;
        Some(format!("{answers} {why}: {hint}"))
    }
}

/// Whether a line has ended with an answer, not for want of one.
fn is_answer(why: Why) -> bool {
    match why {
        Why::Status(_) => true,
        Why::Code(code) => matches!(code, Code::Html | Code::Failed | Code::Undecodable),
    }
}

/// How many are enough: more than the lines that somebody tries out, few enough to cost nothing.
const ENOUGH: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn away(place: &str) -> TurnedAway {
        TurnedAway {
            place: place.to_owned(),
            hint: "check".to_owned(),
        }
    }

    fn after(ends: &[(u16, Option<&str>)], proven: bool) -> (Streak, bool) {
        let mut streak = Streak::new(proven);
        let mut enough = false;
        for (at, (status, place)) in ends.iter().enumerate() {
            let (line, away) = (Place::of_line(at as u32 + 1), place.map(away));
            enough |= streak.on(Why::Status(*status), line, away.as_ref());
        }
        (streak, enough)
    }

    #[test]
    fn twenty_equal_ones_are_enough_and_one_that_differs_ends_it_for_good() {
        let turned_away = [(404, Some("check")); ENOUGH];
        let (streak, enough) = after(&turned_away, false);
        assert!(enough && streak.has_stopped(Why::Status(404)));
        assert!(!streak.has_stopped(Why::Status(200)));
        assert!(!after(&turned_away[1..], false).1);
        for other in [(200, None), (405, Some("check")), (400, None)] {
            let mut ends = turned_away.to_vec();
            ends.insert(5, other);
            let (streak, enough) = after(&ends, false);
            assert!(!enough && streak.hint().is_none(), "{other:?}");
        }
    }

    #[test]
    fn places_that_differ_are_what_was_asked_for() {
        let mut streak = Streak::new(false);
        for at in 1..=ENOUGH as u32 {
            let away = away(&format!("/items/{at}"));
            assert!(!streak.on(Why::Status(403), Place::of_line(at), Some(&away)));
        }
        assert_eq!(streak.hint(), None);
    }

    #[test]
    fn what_is_no_answer_neither_counts_nor_ends_it() {
        let mut streak = Streak::new(false);
        streak.on(Why::Status(404), Place::of_line(1), Some(&away("/")));
        streak.on(Why::Code(Code::Network), Place::of_line(2), None);
        streak.on(Why::Code(Code::BadLine), Place::of_line(3), None);
        assert_eq!(
            streak.hint().as_deref(),
            Some("the only answer was 404: check")
        );
    }

    #[test]
    fn a_batch_that_has_had_successes_is_stopped_for_its_keys_only() {
        assert!(!after(&[(404, Some("check")); ENOUGH], true).1);
        assert!(after(&[(401, Some("give a key")); ENOUGH], true).1);
    }
}
