//! Which lines there are and what is known of each, in at most 24 bytes a line.
//!
//! An id is known by 72 bits of its hash: among ten million lines, two different ids look the same
//! in one batch of a hundred million. Entries lie in the order in which they were first seen (for a
//! file: one entry a line); beside them lie their numbers, ordered by hash. In a stream that was
//! not begun before, lines come in the order of entries too, and need not be kept.

use std::fmt::Write;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::pieces::Pieces;
use super::slots::{HASH_BITS, Slots};

/// An id of a line, as a hash of its text. The same in every run and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) u128);

impl Id {
    /// The id with this text.
    pub(crate) fn of(text: &str) -> Self {
        Self(xxh3_128(text.as_bytes()))
    }

    /// The whole hash, to be stored.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// What [`Id::to_bytes`] gave.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    fn kept(self) -> u128 {
        self.0 >> (128 - HASH_BITS)
    }
}

/// The hash of a line's text, by which an edited line is noticed.
pub(crate) fn content_hash(line: &[u8]) -> u64 {
    xxh3_64(line)
}

/// The id of a line that has no `custom_id`: its number and a hash of its text.
pub(crate) fn line_id(line: u32, content: u64) -> String {
    let mut id = String::with_capacity(32);
    write!(id, "line-{line}-{content:016x}").expect("a String takes every write");
    id
}

/// The line number and the hash in an id made by [`line_id`].
pub(crate) fn parse_line_id(id: &str) -> Option<(u32, u64)> {
    let (line, hash) = id.strip_prefix("line-")?.split_once('-')?;
    let parsed = (line.parse().ok()?, u64::from_str_radix(hash, 16).ok()?);
    (line_id(parsed.0, parsed.1) == id).then_some(parsed)
}

/// The number of an entry of the [`Index`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u32);

impl Place {
    /// The entry of a line of a file, whose lines are counted from 1.
    pub(crate) fn of_line(line: u32) -> Self {
        Self(line - 1)
    }
}

/// What is known of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is nothing on it.
    Blank = 0,
    /// It has no record.
    Open = 1,
    /// Its record says that it was not processed, and is to be sent again.
    Refused = 2,
    /// Its record says that it may have been processed; no answer came.
    Unanswered = 3,
    /// It succeeded.
    Succeeded = 4,
    /// It failed for good.
    Failed = 5,
    /// It may have been processed, no answer came, and it must not be sent twice.
    Doubtful = 6,
}

impl State {
    /// Whether nothing is left to do.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Doubtful)
    }

    /// Whether nothing is left to do and it did not succeed.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Doubtful)
    }

    /// Whether there is a record of it.
    pub(crate) fn has_record(self) -> bool {
        !matches!(self, Self::Blank | Self::Open)
    }

    fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Blank,
            1 => Self::Open,
            2 => Self::Refused,
            3 => Self::Unanswered,
            4 => Self::Succeeded,
            6 => Self::Doubtful,
            _ => Self::Failed,
        }
    }
}

/// How many lines there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) lines: u64,
    /// Of these, lines with a final record.
    pub(crate) last: u64,
    /// Of these, lines that failed.
    pub(crate) failed: u64,
    /// Of these, lines that the server may have done.
    pub(crate) doubtful: u64,
}

/// Every id that was seen, with the state and the place of its last record.
#[derive(Debug, Default)]
pub(crate) struct Index {
    entries: Pieces<Entry>,
    slots: Slots,
    /// So many entries, from the first on, have the lines from 1 on.
    straight: u32,
    /// The lines of the entries behind them. 0, or not there: no line so far.
    lines: Pieces<u32>,
    is_stream: bool,
    moved: u64,
}

impl Index {
    /// An index of the lines of a file: [`push`](Self::push) each, then [`seal`](Self::seal).
    pub(crate) fn of_file() -> Self {
        Self::default()
    }

    /// An index whose ids come in any order, some of them from records before their lines.
    pub(crate) fn of_stream() -> Self {
        Self {
            is_stream: true,
            ..Self::default()
        }
    }

    /// Adds the next line of a file. Nothing finds it before [`seal`](Self::seal).
    pub(crate) fn push(&mut self, id: Id) {
        self.entries.push(Entry::new(id.kept(), State::Open));
        self.straight += 1;
    }

    /// Adds a blank line of a file.
    pub(crate) fn push_blank(&mut self) {
        self.entries.push(Entry::new(0, State::Blank));
        self.straight += 1;
    }

    /// Makes the pushed lines known by their ids; tells `duplicate` the lines of each id that
    /// stands on two.
    pub(crate) fn seal(&mut self, mut duplicate: impl FnMut(u32, u32)) {
        let entries = &self.entries;
        for (number, entry) in (0..).zip(entries.iter()) {
            if entry.state() == State::Blank {
                continue;
            }
            let of = |number| hash(entries, number);
            if let Err(first) = self.slots.insert(number, entry.hash(), of) {
                duplicate(first + 1, number + 1);
            }
        }
    }

    /// Whether ids come in any order.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The entry of an id of a stream, made if there was none.
    pub(crate) fn find_or_add(&mut self, id: Id) -> Place {
        let (entries, number) = (&self.entries, self.entries.len() as u32);
        let of = |number| hash(entries, number);
        if let Err(there) = self.slots.insert(number, id.kept(), of) {
            return Place(there);
        }
        self.entries.push(Entry::new(id.kept(), State::Open));
        Place(number)
    }

    /// The entry of an id.
    pub(crate) fn find(&self, id: Id) -> Option<Place> {
        let found = self
            .slots
            .find(id.kept(), |number| hash(&self.entries, number));
        found.map(Place)
    }

    /// The line of an entry, counted from 1; 0 if it has none.
    pub(crate) fn line(&self, place: Place) -> u32 {
        match place.0.checked_sub(self.straight) {
            None => place.0 + 1,
            Some(behind) => self.lines.at(behind as usize).copied().unwrap_or(0),
        }
    }

    /// Says on which line of a stream an id stands. No other id stands there; what was said first
    /// stays.
    pub(crate) fn set_line(&mut self, place: Place, line: u32) {
        let Some(behind) = place.0.checked_sub(self.straight) else {
            return;
        };
        if self.lines.len() == 0 && (behind, line) == (0, place.0 + 1) {
            self.straight += 1;
            return;
        }
        while self.lines.len() <= behind as usize {
            self.lines.push(0);
        }
        if let Some(none @ 0) = self.lines.at_mut(behind as usize) {
            *none = line;
        }
    }

    /// What is known of a line.
    pub(crate) fn state(&self, place: Place) -> State {
        entry(&self.entries, place.0).state()
    }

    /// Where its last record begins in the output.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        entry(&self.entries, place.0).offset()
    }

    /// Says what its last record is, and where it begins.
    pub(crate) fn set(&mut self, place: Place, state: State, offset: u64) {
        let entry = self.entries.at_mut(place.0 as usize);
        entry.expect("places are of entries").set(state, offset);
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the line of this place has this id.
    pub(crate) fn holds(&self, place: Place, id: Id) -> bool {
        self.entries
            .at(place.0 as usize)
            .is_some_and(|entry| entry.state() != State::Blank && entry.hash() == id.kept())
    }

    /// The record of a line was found under another line number.
    pub(crate) fn on_moved(&mut self) {
        self.moved += 1;
    }

    /// How many records name another line number than their line has now.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// How many lines there are, and how many of them are done.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (number, entry) in (0..).zip(self.entries.iter()) {
            let state = entry.state();
            if self.line(Place(number)) > 0 && state != State::Blank {
                counts.lines += 1;
                counts.last += u64::from(state.is_final());
                counts.failed += u64::from(state.is_failure());
                counts.doubtful += u64::from(state == State::Doubtful);
            }
        }
        counts
    }

    /// Every entry that has a line, in the order of lines.
    pub(crate) fn by_line(&self) -> impl Iterator<Item = Place> {
        // No line behind the straight ones comes before them: each stands for one entry.
        let straight = (0..self.straight).map(Place);
        straight.chain(self.behind_by_line())
    }

    /// Some lines at a time, since a list of all would take another four bytes of each.
    fn behind_by_line(&self) -> impl Iterator<Item = Place> {
        let last = self.lines.iter().copied().max().unwrap_or(0);
        let step = (last / PASSES).max(FEWEST);
        (0..=last / step).flat_map(move |pass| {
            let mut window = vec![NONE; step as usize];
            for (number, &line) in (self.straight..).zip(self.lines.iter()) {
                if line > 0 && line / step == pass {
                    window[(line % step) as usize] = number;
                }
            }
            let there = window.into_iter().filter(|&number| number != NONE);
            there.map(Place)
        })
    }

    /// Gives back the memory that finding ids takes. None is found afterwards.
    pub(crate) fn forget_ids(&mut self) {
        self.slots = Slots::default();
    }
}

fn entry(entries: &Pieces<Entry>, number: u32) -> &Entry {
    entries.at(number as usize).expect("numbers are of entries")
}

fn hash(entries: &Pieces<Entry>, number: u32) -> u128 {
    entry(entries, number).hash()
}

/// Bytes only, so that nothing is lost to alignment.
#[derive(Debug)]
struct Entry {
    hash: [u8; HASH_BITS / 8],
    /// Three bits of state, the rest the offset.
    record: [u8; 6],
}

impl Entry {
    fn new(hash: u128, state: State) -> Self {
        let mut entry = Self {
            hash: [0; HASH_BITS / 8],
            record: [0; 6],
        };
        entry
            .hash
            .copy_from_slice(&hash.to_le_bytes()[..HASH_BITS / 8]);
        entry.set(state, 0);
        entry
    }

    fn hash(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes[..HASH_BITS / 8].copy_from_slice(&self.hash);
        u128::from_le_bytes(bytes)
    }

    fn set(&mut self, state: State, offset: u64) {
        let bits = offset.min(LARGEST_OFFSET) << 3 | state as u64;
        self.record.copy_from_slice(&bits.to_le_bytes()[..6]);
    }

    fn bits(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.record);
        u64::from_le_bytes(bytes)
    }

    fn state(&self) -> State {
        State::from_bits(self.bits() & 7)
    }

    fn offset(&self) -> u64 {
        self.bits() >> 3
    }
}

/// The most lines an input may have: entry numbers have 32 bits, one of which is the gap.
pub(crate) const MOST_LINES: u32 = u32::MAX - 1;

/// The largest offset that an entry can hold: outputs beyond 32 TiB are refused.
pub(crate) const LARGEST_OFFSET: u64 = (1 << 45) - 1;

/// No entry: there are at most [`MOST_LINES`].
const NONE: u32 = u32::MAX;

/// How often all lines are looked at to put them in order, if there are many: each time a 64th of
/// them, which takes a 16th of a byte a line.
const PASSES: u32 = 64;

/// So many lines are put in order at once at least.
const FEWEST: u32 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: u32 = 400_000;

    /// What shards and begun pieces take however few lines there are.
    const SPARE: usize = 512 << 10;

    fn sealed(ids: &[&str]) -> (Index, Vec<(u32, u32)>) {
        let mut index = Index::of_file();
        for id in ids {
            if id.is_empty() {
                index.push_blank()
            } else {
                index.push(Id::of(id))
            }
        }
        let mut duplicates = Vec::new();
        index.seal(|first, second| duplicates.push((first, second)));
        (index, duplicates)
    }

    #[test]
    fn a_duplicate_is_told_with_both_lines_and_blank_lines_count() {
        let (_, duplicates) = sealed(&["a", "", "b", "", "a", "b"]);
        assert_eq!(duplicates, [(1, 5), (3, 6)]);
    }

    #[test]
    fn every_line_of_a_file_is_found_at_its_own_place() {
        let ids: Vec<String> = (1..=50_000).map(|line| format!("id-{line}")).collect();
        let (index, duplicates) = sealed(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(duplicates.is_empty());
        for (at, id) in ids.iter().enumerate() {
            let place = index.find(Id::of(id)).expect("it was pushed");
            assert_eq!(index.line(place), at as u32 + 1);
            assert!(index.holds(Place::of_line(at as u32 + 1), Id::of(id)));
        }
        assert_eq!(index.find(Id::of("id-0")), None);
    }

    #[test]
    fn a_growing_index_loses_nothing_and_adds_nothing_twice() {
        let mut index = Index::of_stream();
        for round in 0..2 {
            for n in 0..20_000_u32 {
                let place = index.find_or_add(Id::of(&n.to_string()));
                if round == 0 {
                    index.set(place, State::Refused, u64::from(n) * 7);
                }
                assert_eq!(index.offset(place), u64::from(n) * 7);
            }
        }
        assert_eq!(index.len(), 20_000);
    }

    #[test]
    fn lines_come_back_in_order_whatever_the_order_of_their_ids() {
        let mut index = Index::of_stream();
        for (id, line, offset) in [("c", 3, 30), ("gone", 0, 5), ("a", 1, 10), ("b", 2, 20)] {
            let place = index.find_or_add(Id::of(id));
            index.set_line(place, line);
            index.set(place, State::Succeeded, offset);
        }
        let offsets: Vec<u64> = index.by_line().map(|place| index.offset(place)).collect();
        assert_eq!(offsets, [10, 20, 30]);
    }

    #[test]
    fn state_and_offset_share_six_bytes_without_harm() {
        let mut entry = Entry::new(5, State::Open);
        for state in [
            State::Open,
            State::Refused,
            State::Unanswered,
            State::Failed,
            State::Doubtful,
        ] {
            entry.set(state, LARGEST_OFFSET);
            assert_eq!(
                (entry.state(), entry.offset(), entry.hash()),
                (state, LARGEST_OFFSET, 5)
            );
        }
    }

    #[test]
    fn an_entry_with_its_slot_and_its_line_stays_within_24_bytes() {
        let mut index = Index::of_stream();
        // Records come before their lines, and lines in another order.
        for n in 0..LINES {
            index.find_or_add(Id::of(&n.to_string()));
            // Not at each, which would take seconds; shards grow at all numbers.
            if n % 499 == 0 {
                let bytes = index.entries.bytes() + index.slots.bytes() + 4 * n as usize;
                assert!(bytes <= 24 * n as usize + SPARE, "{bytes} bytes for {n}");
            }
        }
        for n in 0..LINES {
            index.set_line(Place(n), LINES - n);
        }
        let window = 4 * (LINES / PASSES).max(FEWEST) as usize;
        let bytes = index.entries.bytes() + index.slots.bytes() + index.lines.bytes() + window;
        assert!(bytes <= 24 * LINES as usize + SPARE, "{bytes} bytes");
        assert!(index.by_line().eq((0..LINES).rev().map(Place)));
    }

    #[test]
    fn a_stream_that_was_not_begun_before_keeps_no_lines() {
        let mut index = Index::of_stream();
        for line in 1..=1_000 {
            let place = index.find_or_add(Id::of(&line.to_string()));
            index.set_line(place, line);
            assert_eq!((index.line(place), index.lines.len()), (line, 0));
        }
        // From a blank line on they are kept.
        let place = index.find_or_add(Id::of("behind"));
        assert_eq!(index.line(place), 0);
        index.set_line(place, 1_002);
        assert_eq!(index.line(place), 1_002);
        assert!(index.by_line().eq((0..=1_000).map(Place)));
    }

    #[test]
    fn only_an_id_made_from_a_line_is_read_as_one() {
        let id = line_id(17, 0xab);
        assert_eq!(id, "line-17-00000000000000ab");
        assert_eq!(parse_line_id(&id), Some((17, 0xab)));
        for other in [
            "line-17-ab",
            "line-017-00000000000000ab",
            "line-17",
            "x",
            "line-1-+0000000000000ab",
        ] {
            assert_eq!(parse_line_id(other), None, "{other}");
        }
    }
}
