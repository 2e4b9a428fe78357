//! Which keys share a bracket.
//!
//! Equal keys teach each other, unequal ones mislead. So after the first refusal of a silent key one
//! other goes on as a test and the rest follow the refused one: if the test is refused after about as
//! much, all are alike; if it passes, the first one stands alone.

use crate::scheduler::time::Time;

use super::Scene;
use super::bracket::Bracket;
use super::learned::Learned;

/// A key that shows whether others are like one that was refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    /// The bracket of the one that was refused, and of those who follow it meanwhile.
    bracket: usize,
    tester: usize,
}

/// The bracket of keys of which nothing is known.
const UNKNOWN: usize = 0;

impl Learned {
    /// Finds the bracket of a key that was refused for the first time. Answers its pace if another's
    /// tells all there is to know.
    pub(super) fn find_group(
        &mut self,
        key: usize,
        sent: Time,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<f64> {
        let track = &mut self.keys[key];
        let alone = scene.told || scene.keys <= 1 || track.evidence.anchor.is_some();
        if alone || track.bracket != UNKNOWN {
            track.follows = false;
            return None;
        }
        let accepted = track.evidence.accepted_before(sent);
        let like = self
            .brackets
            .iter()
            .position(|bracket| bracket.is_known() && is_like(bracket.credit, accepted));
        let tests = self.test.take_if(|test| test.tester == key);
        let Some(like) = like else {
            if let Some(test) = tests {
                self.release_followers(test.bracket, now);
            }
            self.found_bracket(key, scene.keys);
            return None;
        };
        self.confirm_followers(like);
        let to = self.brackets[like].pace;
        let track = &mut self.keys[key];
        track.bracket = like;
        track.evidence.take_anchor(sent, to);
        track.cut = Some(now);
        track.backoff = to.recip();
        track.next = now.plus_secs(track.backoff);
        Some(to)
    }

    /// A tester was served: it may have shown that it is not like the one that was refused.
    pub(super) fn on_test_served(&mut self, key: usize, sent: Time, now: Time) {
        let Some(test) = self.test.filter(|test| test.tester == key) else {
            return;
        };
        let accepted = self.keys[key].evidence.accepted_before(sent);
        let credit = self.brackets[test.bracket].credit;
        if accepted > credit && !is_like(credit, accepted) {
            self.test = None;
            self.release_followers(test.bracket, now);
        }
    }

    /// Gives a key a bracket of its own, one other key the test, and the rest to it.
    fn found_bracket(&mut self, key: usize, keys: usize) {
        self.brackets.push(Bracket::default());
        let bracket = self.brackets.len() - 1;
        // A key that was never used is as unknown as any.
        if self.keys.len() < keys {
            self.keys.resize_with(keys, Default::default);
        }
        self.keys[key].bracket = bracket;
        if self.test.is_some() {
            return;
        }
        let mut unknown =
            (0..self.keys.len()).filter(|&i| self.keys[i].bracket == UNKNOWN && !self.keys[i].out);
        let Some(tester) = unknown.next() else { return };
        let followers: Vec<usize> = unknown.collect();
        self.test = Some(Test { bracket, tester });
        for follower in followers {
            self.keys[follower].bracket = bracket;
            self.keys[follower].follows = true;
        }
    }

    fn release_followers(&mut self, bracket: usize, now: Time) {
        for track in self
            .keys
            .iter_mut()
            .filter(|t| t.bracket == bracket && t.follows)
        {
            track.bracket = UNKNOWN;
            track.follows = false;
            track.next = now;
        }
    }

    fn confirm_followers(&mut self, bracket: usize) {
        for track in self
            .keys
            .iter_mut()
            .filter(|track| track.bracket == bracket)
        {
            track.follows = false;
        }
    }
}

/// Whether two keys were first refused after about as much.
fn is_like(one: f64, other: f64) -> bool {
    (one - other).abs() <= (ALIKE * one.max(other)).max(ALIKE_SENDS)
}

/// Keys of the same tariff differ by what refilled between their first sends.
const ALIKE: f64 = 0.3;
/// Sends: what a few milliseconds between two keys' first refusals make.
const ALIKE_SENDS: f64 = 2.0;
