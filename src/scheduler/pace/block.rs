//! The end of a block: what a time in which nothing was accepted says about the limit behind it.
//!
//! A bucket that refuses has one back after a period, and a block of several periods contradicts it.
//! Then the limit is a window, if it is one at all, and one send more tells: a window that has
//! opened takes it, a bucket that has just come back does not.

use crate::scheduler::events::{Because, KeyId};
use crate::scheduler::time::Time;
use crate::scheduler::timing::Timing;

use super::bracket::Bracket;
use super::evidence::TICK;
use super::learned::{KeyPace, Learned};
use super::window::SilentWindow;
use super::{Changed, Scene, Stamp};

/// A key's block that has just ended, and what went before it.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Accepted from the first send that counts until it began, and with what was sent meanwhile.
    held: f64,
    sent: f64,
    /// In seconds from the arrival of that first send: until it began, until the last refusal, until
    /// it ended.
    began: f64,
    refused: f64,
    ended: f64,
    last_refused: Time,
    /// Refusals after the first.
    in_a_row: u32,
}

impl Block {
    fn of(track: &KeyPace, credit: f64, back: Time, timing: &Timing) -> Self {
        let evidence = &track.evidence;
        let since = evidence.counted_since(credit, back);
        let before = evidence.sends.before(since);
        let since = evidence.arrival(since, timing.answer());
        Self {
            held: evidence.held() - before,
            sent: evidence.sends.before(back) - before,
            began: evidence.block_began.secs_since(since).max(0.0),
            refused: evidence
                .anchor
                .map_or(0.0, |anchor| anchor.secs_since(since) - timing.jitter()),
            ended: back.secs_since(since).max(TICK),
            last_refused: evidence.anchor.unwrap_or(back),
            in_a_row: track.refused_in_a_row,
        }
    }

    fn lasted(&self) -> f64 {
        self.ended - self.began
    }

    fn mean(&self) -> f64 {
        self.held / self.ended
    }

    /// The window that it would be.
    fn window(&self, jitter: f64) -> SilentWindow {
        SilentWindow::new(self.held, self.refused, self.ended + jitter)
    }

    /// Whether a rate that let through what it did would have let more through meanwhile.
    fn is_no_rates(&self) -> bool {
        self.in_a_row >= 2
            && self.held >= FEW
            && self.mean() * (self.refused - self.began) > BLOCKED
    }
}

impl Learned {
    /// The first success after a block ends a segment of the key's history. Where the limit is like
    /// a window, segments are the only measure of the rate.
    pub(super) fn come_back(
        &mut self,
        key: KeyId,
        stamp: &Stamp,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<Changed> {
        let track = &mut self.keys[key.index()];
        // What was sent before the refusal was heard is of its episode: some of it arrived first.
        let is_after = track.cut.is_some_and(|cut| stamp.at > cut);
        let evidence = &mut track.evidence;
        if !evidence.blocked || !is_after {
            return None;
        }
        evidence.blocked = false;
        let gap = evidence
            .gap_before(stamp.at)
            .filter(|&gap| stamp.at.plus_secs(-gap) <= evidence.block_began);
        let credit = self.brackets[track.bracket].credit;
        let block = Block::of(track, credit, stamp.at, scene.timing);
        self.keys[key.index()].evidence.segment = Some(stamp.at);
        let index = self.keys[key.index()].bracket;
        let from = self.brackets[index].pace;
        if let Some(gap) = gap {
            self.came_back_after(key.index(), gap, scene);
        }
        if block.is_no_rates() {
            self.wake_others(key.index(), scene, now);
        }
        let to = self.end_block(key.index(), &block, scene, now)?;
        Some(Changed {
            from,
            to,
            why: Because::Recovered,
        })
    }

    /// Answers the pace, if the block changed it.
    fn end_block(
        &mut self,
        key: usize,
        block: &Block,
        scene: &Scene<'_>,
        now: Time,
    ) -> Option<f64> {
        let jitter = scene.timing.jitter();
        let track = &mut self.keys[key];
        let bracket = &mut self.brackets[track.bracket];
        if let Some(window) = bracket.window.take() {
            let window = if block.held < 0.5 * window.limit {
                // Blocked before it was used up: that tells nothing about its size.
                window
            } else if block.lasted() < SHORT_BLOCK * block.ended {
                // A block that soon ended: it is as it was, and a little longer.
                window.lengthened(block.ended + jitter)
            } else if block.lasted() >= BURST * block.began {
                block.window(jitter)
            } else {
                bracket.follow(window.rate(), block);
                return Some(bracket.pace);
            };
            bracket.pace = window.rate();
            bracket.window = Some(window);
            track.next = now;
            return Some(bracket.pace);
        }
        let others_went_on = self.others_went_on(key, block);
        let track = &mut self.keys[key];
        let bracket = &mut self.brackets[track.bracket];
        let odd = block.is_no_rates() && !others_went_on && !scene.told;
        let rate = bracket.as_known();
        if odd || bracket.windowed {
            let known = bracket.is_first_block();
            // Of a rate that was well known a first block that is longer than all before it may be
            // anything.
            if known && block.lasted() > block.began && bracket.leave_block(false) {
                return None;
            }
        }
        if odd || bracket.windowed && block.lasted() >= BURST * block.began && block.held >= 2.0 {
            let window = block.window(jitter);
            bracket.if_no_window = (!bracket.windowed).then_some(rate);
            bracket.pace = window.rate();
            bracket.window = Some(window);
            track.next = now;
            return Some(bracket.pace);
        }
        if !bracket.windowed {
            if block.in_a_row >= 1 || block.held < 1.0 {
                bracket.leave_block(block.held < 1.0);
            }
            return None;
        }
        bracket.follow(block.sent.max(1.0) / block.ended, block);
        if block.in_a_row >= 1 {
            bracket.leave_block(block.held < 1.0);
        }
        track.next = track.next.max(now);
        Some(bracket.pace)
    }

    /// The others that are blocked ask now, one after the other.
    fn wake_others(&mut self, key: usize, scene: &Scene<'_>, now: Time) {
        let bracket = self.keys[key].bracket;
        let mut ask = now;
        for (other, track) in self.keys.iter_mut().enumerate() {
            if other != key && track.bracket == bracket && track.evidence.blocked {
                track.next = track.next.min(ask);
                ask = ask.plus_secs(scene.timing.hearing());
            }
        }
    }

    /// Whether other keys of its bracket were served while this one was blocked: then they may have
    /// taken what it was refused.
    fn others_went_on(&self, key: usize, block: &Block) -> bool {
        let track = &self.keys[key];
        let (from, to) = (track.evidence.block_began, block.last_refused);
        let shares = |other: &KeyPace| other.bracket == track.bracket;
        let others = self
            .keys
            .iter()
            .enumerate()
            .filter(|&(i, other)| i != key && shares(other));
        others
            .map(|(_, other)| other.evidence.sends.between(from, to))
            .sum::<f64>()
            >= 1.0
    }
}

impl Bracket {
    /// A pace a little below a mean that was measured over a block.
    fn follow(&mut self, mean: f64, block: &Block) {
        // It came back somewhere between the last refusal and the success.
        let soonest = block.held / block.refused.max(TICK);
        self.high = soonest.clamp(1.05 * mean, 1.5 * mean);
        self.pace = 0.97 * mean;
        self.low = self.low.min(self.pace);
    }
}

/// Sends before a block that are enough to call its length odd.
const FEW: f64 = 3.0;
/// Periods of what was let through before a block: a bucket would have had one back after the first, and
/// of three a minute nothing is asked for between the sixth second and the twelfth.
const BLOCKED: f64 = 1.4;
/// Times the time in which a window was filled: a shorter block may be anything.
const BURST: f64 = 2.0;
/// Of a window's length: a refusal at its end that jitter may have caused.
const SHORT_BLOCK: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn block(held: f64, began: f64, refused: f64, in_a_row: u32) -> Block {
        Block {
            held,
            sent: held,
            began,
            refused,
            ended: refused + 0.1,
            last_refused: Time::from_secs_f64(refused),
            in_a_row,
        }
    }

    #[test]
    fn a_block_of_many_periods_is_no_rates() {
        assert!(block(100.0, 0.5, 0.9, 4).is_no_rates());
        assert!(!block(100.0, 0.5, 0.507, 4).is_no_rates(), "one period");
        assert!(!block(100.0, 0.5, 0.9, 1).is_no_rates(), "refused twice");
        assert!(!block(2.0, 0.5, 9.0, 4).is_no_rates(), "too few to tell");
    }
}
