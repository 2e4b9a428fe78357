//! The lanes that are known to be shut, and what opens them again: their moment, something that
//! happened in their bucket, or anything that happened.
//!
//! Where every lane waits for the same, that is known once and of all of them: none needs to be
//! asked, but those whose heads are new, so that whoever waits in vain is told at once.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::super::events::Ticket;
use super::super::gates::{Claim, Shut};
use super::super::time::Time;
use super::SlotQueue;
use super::heads::Head;
use super::lane::{Closed, Due};
use super::line::Line;

/// What is known of lanes that are shut.
#[derive(Debug, Default)]
pub(super) struct ShutLanes {
    /// Those with a moment, by it.
    pub(super) until: BTreeSet<(Time, u32)>,
    /// Those that only their bucket opens, by its ledger.
    by_bucket: BTreeSet<(u32, u32)>,
    /// Those that anything may open.
    by_anything: Vec<u32>,
    /// The state of the scheduler that those were asked in.
    state: u64,
    /// What all lanes wait for, whatever else they wait for.
    all: Option<Shut>,
    /// Lanes whose heads have changed since they were asked.
    fresh: Vec<u32>,
    /// Lanes with deadlines, by the moment from which their first is surely missed.
    pub(super) hopeless: BTreeSet<(Time, u32)>,
    /// When each of those that only their bucket opens was asked, oldest first.
    asked: VecDeque<(Time, u32)>,
    /// Those whose heads claim what they wait for, by when it was their turn, and in the order in
    /// which they were asked.
    pub(super) claims: BTreeSet<(Due, u64, u32)>,
    pub(super) line: Line,
    /// How many were found shut so far.
    seq: u64,
}

impl SlotQueue {
    /// Opens what may have opened: in another state of the scheduler than before everything that
    /// not only its own bucket keeps shut.
    pub(crate) fn look_again(&mut self, state: u64, now: Time) {
        if self.shut.state != state {
            self.shut.state = state;
            self.shut.all = None;
            let mut lanes = std::mem::take(&mut self.shut.by_anything);
            for lane in lanes.drain(..) {
                if self.is_shut(lane, |shut| shut.by_bucket.is_none()) {
                    self.open(lane);
                }
            }
            self.shut.by_anything = lanes;
            self.ask_line_anew();
        } else if self.shut.line.has_moved() {
            self.ask_line_anew();
        }
        if self.shut.all.is_some_and(|all| all.until <= now) {
            self.shut.all = None;
        }
        self.open_longest_unasked(now);
        while let Some(&(until, lane)) = self.shut.until.first() {
            if until > now {
                break;
            }
            self.open(lane);
        }
    }

    /// Opens the lane that was asked longest ago of those that only their bucket opens, if that is
    /// long ago: one at a time, so that no decision asks many.
    fn open_longest_unasked(&mut self, now: Time) {
        while let Some(&(asked, lane)) = self.shut.asked.front() {
            if now.since(asked) < LONGEST_UNASKED {
                break;
            }
            self.shut.asked.pop_front();
            // It may have been opened, and asked again, since.
            if self.is_shut(lane, |shut| shut.by_bucket.is_some() && shut.at == asked) {
                self.open(lane);
                break;
            }
        }
    }

    /// Something happened that may have opened a bucket sooner than it was known to open.
    pub(crate) fn open_bucket(&mut self, bucket: u32) {
        self.open_buckets(bucket..=bucket);
    }

    /// The same of all buckets.
    pub(crate) fn open_all_buckets(&mut self) {
        self.open_buckets(0..=u32::MAX);
        self.open_line();
    }

    fn open_buckets(&mut self, buckets: std::ops::RangeInclusive<u32>) {
        if self.shut.by_bucket.is_empty() {
            return;
        }
        let (first, last) = buckets.into_inner();
        while let Some(&(bucket, lane)) = self.shut.by_bucket.range((first, 0)..).next() {
            if bucket > last {
                break;
            }
            self.open(lane);
        }
    }

    /// The gates of a lane's head are shut. `by_bucket` is the ledger of its bucket where nothing
    /// else can open them sooner: then the lane stays shut whoever else's turn it is meanwhile, as
    /// nobody passes a head. `in_line` is what the head takes of hard rates where nothing but those
    /// keeps it.
    pub(crate) fn shut(
        &mut self,
        head: Head,
        why: Shut,
        by_bucket: Option<u32>,
        in_line: Option<u32>,
        now: Time,
    ) {
        let Head {
            lane: index, due, ..
        } = head;
        self.shut.seq += 1;
        let seq = self.shut.seq;
        let lane = &mut self.lanes[index as usize];
        lane.is_fresh = false;
        lane.shut = Some(Closed {
            why,
            by_bucket,
            in_line,
            at: now,
            grants: self.grants,
            due,
            seq,
        });
        if why.claim.is_some() {
            self.shut.claims.insert((due, seq, index));
        }
        if why.until != Time::NEVER {
            self.shut.until.insert((why.until, index));
        }
        match (by_bucket, in_line) {
            (Some(bucket), _) => {
                self.shut.by_bucket.insert((bucket, index));
                self.shut.asked.push_back((now, index));
            }
            (None, Some(takes)) => self.shut.line.enter(takes, index),
            (None, None) => self.shut.by_anything.push(index),
        }
        self.list(index);
        self.reckon_hopeless(index);
    }

    /// The gates of a lane are to be asked again.
    pub(super) fn open(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        let Some(shut) = lane.shut.take() else { return };
        self.shut.until.remove(&(shut.why.until, index));
        self.shut.claims.remove(&(shut.due, shut.seq, index));
        if let Some(takes) = shut.in_line {
            self.shut.line.leave(takes, index);
        }
        if let Some(bucket) = shut.by_bucket {
            self.shut.by_bucket.remove(&(bucket, index));
        }
        self.on_opened(index, &shut);
        self.list(index);
        self.reckon_hopeless(index);
    }

    /// The head of a lane has changed: its gates have not been asked for this one.
    pub(super) fn on_head(&mut self, index: u32) {
        self.open(index);
        self.list(index);
        let lane = &mut self.lanes[index as usize];
        if !lane.is_fresh {
            lane.is_fresh = true;
            self.shut.fresh.push(index);
        }
    }

    /// An answer came to what was sent from the lane of a ticket: what waits there may have to wait
    /// for longer now.
    pub(crate) fn on_answer(&mut self, ticket: Ticket) {
        if self.has_lanes()
            && let Some(lane) = self.entry(ticket).map(|entry| entry.lane)
        {
            self.on_head(lane);
        }
    }

    /// Every lane waits for this at least, in this state of the scheduler.
    pub(crate) fn shut_all(&mut self, why: Shut) {
        self.shut.all = Some(why);
    }

    /// What every lane waits for, where that is known.
    pub(crate) fn all_shut(&self) -> Option<Shut> {
        self.shut.all
    }

    /// What the first heads of other lanes claim whose turn was before, and when each has enough.
    pub(crate) fn claims_before(&self, head: Head) -> impl Iterator<Item = (Time, Claim)> + '_ {
        let before = self.shut.claims.range(..=(head.due, u64::MAX, u32::MAX));
        before.take(MOST_CLAIMS).filter_map(|&(_, _, lane)| {
            let shut = self.lanes[lane as usize].shut?;
            Some((shut.why.until, shut.why.claim?))
        })
    }

    /// The next lane that is not known to be shut and whose head is new.
    pub(crate) fn next_fresh(&mut self) -> Option<Head> {
        while let Some(index) = self.shut.fresh.pop() {
            // It may have been asked, and may even be another lane by now.
            let lane = self.lanes.get_mut(index as usize);
            let Some(lane) = lane.filter(|lane| lane.is_fresh) else {
                continue;
            };
            lane.is_fresh = false;
            if let Some(head) = self.open_head(index) {
                return Some(head);
            }
        }
        None
    }

    /// When the first of the lanes that are shut may open, as far as that is a moment.
    pub(crate) fn next_opening(&self) -> Time {
        let own = self.shut.until.first().map(|&(until, _)| until);
        let all = self.shut.all.map(|all| all.until);
        own.into_iter().chain(all).min().unwrap_or(Time::NEVER)
    }

    /// Why a lane is shut in this state of the scheduler: what was found of it, or of all.
    pub(crate) fn why_shut(&self, index: u32, state: u64) -> Option<Shut> {
        let own = self.lanes[index as usize].shut;
        let keeps = |shut: &Closed| shut.by_bucket.is_some() || shut.in_line.is_some();
        let holds = |shut: &Closed| keeps(shut) || self.shut.state == state;
        let all = self.shut.all.filter(|_| self.shut.state == state);
        own.filter(holds).map(|shut| shut.why).or(all)
    }

    /// The moment before which a lane surely stays shut.
    pub(crate) fn known_until(&self, index: u32) -> Time {
        let own = self.lanes[index as usize].known_until();
        own.max(self.all_known_until())
    }

    /// The first waiting ticket that surely cannot be sent in time: its deadline has come, or lies
    /// before the moment until which its lane is known to be shut.
    pub(crate) fn hopeless(&mut self, now: Time) -> Option<Ticket> {
        self.settle();
        let &(from, index) = self.shut.hopeless.first()?;
        if from > now.max(self.all_known_until()) {
            return None;
        }
        let &(_, slot) = self.lanes[index as usize].deadlines.first()?;
        Some(self.ticket(slot))
    }

    /// When the first of those who wait will surely not be sent in time: its deadline, or the start
    /// if that is certain already.
    pub(crate) fn next_hopeless(&self) -> Option<Time> {
        let &(from, _) = self.shut.hopeless.first()?;
        Some(if from <= self.all_known_until() {
            Time::START
        } else {
            from
        })
    }

    /// The first deadline of a lane has changed, or until when it is known to be shut.
    pub(super) fn reckon_hopeless(&mut self, index: u32) {
        let lane = &mut self.lanes[index as usize];
        let from = match lane.deadlines.first() {
            Some(&(deadline, _)) if deadline <= lane.known_until() => Time::START,
            Some(&(deadline, _)) => deadline,
            None => Time::NEVER,
        };
        let before = std::mem::replace(&mut lane.hopeless, from);
        if before == from {
            return;
        }
        if before != Time::NEVER {
            self.shut.hopeless.remove(&(before, index));
        }
        if from != Time::NEVER {
            self.shut.hopeless.insert((from, index));
        }
    }

    fn all_known_until(&self) -> Time {
        let all = self.shut.all.as_ref();
        all.map_or(Time::START, Shut::known_until)
    }

    fn is_shut(&self, index: u32, by: impl Fn(&Closed) -> bool) -> bool {
        let lane = self.lanes.get(index as usize);
        lane.and_then(|lane| lane.shut.as_ref()).is_some_and(by)
    }
}

/// So many claims are kept to by whoever comes after: those whose turn is next, and all others in
/// time, as they come to be among them.
const MOST_CLAIMS: usize = 32;

/// When the quota of a bucket comes back is reckoned from its own answers, but also from what all
/// answers say of the server's clock: after so long it is worth reckoning anew.
const LONGEST_UNASKED: Duration = Duration::from_secs(1);
