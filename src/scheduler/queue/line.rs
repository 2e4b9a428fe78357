//! Lanes that nothing but hard rates keep shut: they wait in line for them.
//!
//! Hard rates are of all lanes alike, and whatever is freed of them is freed for all: were everybody
//! asked anew each time, a decision would cost as many questions as there are lanes. So only the first
//! in turn of each class are asked, and those that take least, which may pass with what the others
//! leave. Whoever goes makes room for the next at the head of the line.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::SlotQueue;

/// The lanes that wait in line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By what their heads take.
    lanes: BTreeSet<(u32, u32)>,
    /// Those that were asked in this state of the scheduler: only their moments and their claims
    /// count.
    asked: Vec<u32>,
    /// Somebody was granted since the first of them were to be asked.
    moved: bool,
}

impl Line {
    /// Somebody was granted: the next may go, too, though nothing else has happened.
    pub(super) fn on_granted(&mut self) {
        self.moved = true;
    }

    /// Whether somebody was granted since this was last asked.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved) && !self.lanes.is_empty()
    }

    pub(super) fn enter(&mut self, takes: u32, lane: u32) {
        self.lanes.insert((takes, lane));
        self.asked.push(lane);
    }

    pub(super) fn leave(&mut self, takes: u32, lane: u32) {
        self.lanes.remove(&(takes, lane));
    }
}

impl SlotQueue {
    /// Something happened that may have freed hard rates, or taken of them: the first in line are to
    /// be asked again.
    pub(super) fn ask_line_anew(&mut self) {
        for index in std::mem::take(&mut self.shut.line.asked) {
            // It may have been opened since, and may even be another lane by now.
            let lane = self.lanes.get(index as usize);
            let shut = lane.and_then(|lane| lane.shut);
            if let Some(shut) = shut.filter(|shut| shut.in_line.is_some()) {
                self.shut.until.remove(&(shut.why.until, index));
                self.shut.claims.remove(&(shut.due, shut.seq, index));
            }
        }
        if self.shut.line.lanes.is_empty() {
            return;
        }
        let least = self.shut.line.lanes.iter().take(MOST_ASKED);
        let mut first: SmallVec<[u32; 16]> = least.map(|&(_, lane)| lane).collect();
        let classes: SmallVec<[u8; 4]> = self.classes.iter().map(|class| class.priority).collect();
        for priority in classes {
            first.extend(self.first_in_line(priority, MOST_ASKED));
        }
        for lane in first {
            self.open(lane);
        }
    }

    /// Nothing is known of hard rates any more.
    pub(super) fn open_line(&mut self) {
        while let Some(&(_, lane)) = self.shut.line.lanes.first() {
            self.open(lane);
        }
    }
}

/// How many of a class are asked anew, and how many of those that take least. One would do for the
/// order; a few more let those pass that fit into what the first leave.
const MOST_ASKED: usize = 4;
