//! Which lines there are and what is known of each, in at most 24 bytes a line.
//!
//! An id is known by 72 bits of its hash: among ten million lines, two different ids look the same
//! in one batch of a hundred million. Entries lie in an array in the order in which they were
//! first seen (for a file: one entry a line); beside it lies a table of entry numbers, ordered by
//! hash, so that a look-up ends early even when the table is nearly full.

use std::fmt::Write;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

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
    entries: Vec<Entry>,
    /// Entry numbers, ordered by hash, with gaps. Longer than `homes` where the last run is.
    table: Vec<u32>,
    homes: u64,
    used: usize,
    /// The line of each entry, where entries were not made line by line. 0: no line so far.
    lines: Option<Vec<u32>>,
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
            lines: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Adds the next line of a file. Nothing finds it before [`seal`](Self::seal).
    pub(crate) fn push(&mut self, id: Id) {
        self.entries.push(Entry::new(id.kept(), State::Open));
    }

    /// Adds a blank line of a file.
    pub(crate) fn push_blank(&mut self) {
        self.entries.push(Entry::new(0, State::Blank));
    }

    /// Makes the pushed lines known by their ids; tells `duplicate` the lines of each id that
    /// stands on two.
    pub(crate) fn seal(&mut self, mut duplicate: impl FnMut(u32, u32)) {
        let count = self
            .entries
            .iter()
            .filter(|entry| entry.state() != State::Blank)
            .count();
        self.size_for(count);
        for number in 0..self.entries.len() as u32 {
            if self.entries[number as usize].state() == State::Blank {
                continue;
            }
            if let Err(first) = self.insert(number) {
                duplicate(self.line(first), number + 1);
            }
        }
    }

    /// Whether ids come in any order.
    pub(crate) fn is_stream(&self) -> bool {
        self.lines.is_some()
    }

    /// The entry of an id of a stream, made if there was none.
    pub(crate) fn find_or_add(&mut self, id: Id) -> Place {
        if let Some(place) = self.find(id) {
            return place;
        }
        let number = self.entries.len() as u32;
        self.entries.push(Entry::new(id.kept(), State::Open));
        self.lines.get_or_insert_default().push(0);
        if (self.used + 1) as f64 > self.homes as f64 * FULLEST {
            self.grow();
        }
        let place = self.insert(number);
        debug_assert!(place.is_ok(), "it was looked for just above");
        Place(number)
    }

    /// The entry of an id.
    pub(crate) fn find(&self, id: Id) -> Option<Place> {
        let number = *self.table.get(self.slot_of(id.kept()))?;
        (number != GAP && self.hash(number) == id.kept()).then_some(Place(number))
    }

    /// The line of an entry, counted from 1; 0 if it has none.
    pub(crate) fn line(&self, place: Place) -> u32 {
        self.lines
            .as_ref()
            .map_or(place.0 + 1, |lines| lines[place.0 as usize])
    }

    /// Says on which line of a stream an id stands.
    pub(crate) fn set_line(&mut self, place: Place, line: u32) {
        if let Some(lines) = &mut self.lines {
            lines[place.0 as usize] = line;
        }
    }

    /// What is known of a line.
    pub(crate) fn state(&self, place: Place) -> State {
        self.entries[place.0 as usize].state()
    }

    /// Where its last record begins in the output.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        self.entries[place.0 as usize].offset()
    }

    /// Says what its last record is, and where it begins.
    pub(crate) fn set(&mut self, place: Place, state: State, offset: u64) {
        self.entries[place.0 as usize].set(state, offset);
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the line of this place has this id.
    pub(crate) fn holds(&self, place: Place, id: Id) -> bool {
        self.entries
            .get(place.0 as usize)
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
        for (number, entry) in self.entries.iter().enumerate() {
            let unseen = self.lines.as_ref().is_some_and(|lines| lines[number] == 0);
            let state = entry.state();
            if !unseen && state != State::Blank {
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
        // A stream that was not begun before has them in their order already.
        let is_sorted = |lines: &&Vec<u32>| lines.first() != Some(&0) && lines.is_sorted();
        let lines = self.lines.as_ref().filter(|lines| !is_sorted(lines));
        let order = lines.map(|lines| {
            let known = lines.iter().filter(|&&line| line > 0).count();
            let mut order = Vec::with_capacity(known);
            order.extend((0..lines.len() as u32).filter(|&number| lines[number as usize] > 0));
            order.sort_unstable_by_key(|&number| lines[number as usize]);
            order
        });
        let count = order.as_ref().map_or(self.entries.len(), Vec::len);
        (0..count).map(move |at| Place(order.as_ref().map_or(at as u32, |order| order[at])))
    }

    /// Gives back the memory that finding ids takes. None is found afterwards.
    pub(crate) fn forget_ids(&mut self) {
        self.table = Vec::new();
    }

    fn size_for(&mut self, count: usize) {
        self.homes = ((count as f64 / FULLEST) as u64).max(SMALLEST);
        self.used = 0;
        self.table = Vec::new();
        self.table.resize(self.homes as usize, GAP);
    }

    /// Makes room. The old table goes before the new one comes, so that both are never there.
    fn grow(&mut self) {
        let factor = if self.used < LARGE { 1.5 } else { 1.125 };
        self.size_for(((self.used as f64) * factor) as usize + 1);
        for number in 0..self.entries.len() as u32 - 1 {
            if self.entries[number as usize].state() != State::Blank {
                let place = self.insert(number);
                debug_assert!(place.is_ok(), "ids in a table differ");
            }
        }
    }

    /// Puts an entry into the table, unless one of the same id is there.
    fn insert(&mut self, number: u32) -> Result<(), Place> {
        let hash = self.hash(number);
        let mut slot = self.slot_of(hash);
        match self.table.get(slot) {
            Some(&there) if there != GAP && self.hash(there) == hash => return Err(Place(there)),
            _ => {}
        }
        let mut carried = number;
        while carried != GAP {
            if slot == self.table.len() {
                self.table.push(GAP);
            }
            carried = std::mem::replace(&mut self.table[slot], carried);
            slot += 1;
        }
        self.used += 1;
        Ok(())
    }

    /// The first slot, from a hash's home on, that is a gap or holds no smaller hash.
    fn slot_of(&self, hash: u128) -> usize {
        // The home is monotone in the hash, so that runs are ordered across homes.
        let high = (hash >> (HASH_BITS - 64)) as u64;
        let mut slot = ((u128::from(high) * u128::from(self.homes)) >> 64) as usize;
        while let Some(&number) = self.table.get(slot) {
            if number == GAP || self.hash(number) >= hash {
                break;
            }
            slot += 1;
        }
        slot
    }

    fn hash(&self, number: u32) -> u128 {
        self.entries[number as usize].hash()
    }
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

/// n ids collide with a chance of n² / 2^73: 1e-8 for ten million.
const HASH_BITS: usize = 72;

const GAP: u32 = u32::MAX;

/// How full the table may be. Ordered probing then looks at 7 entries on average
/// ((1 + 1/(1 - load)) / 2), and a slot costs 4.35 bytes of the 24.
const FULLEST: f64 = 0.92;

/// From here on the table grows by an eighth and costs at most 4.9 bytes a line; below, what
/// growing by half leaves unused is under 3 MB.
const LARGE: usize = 1 << 20;

const SMALLEST: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

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
        let table = 4.0 * 1.125 / FULLEST;
        assert!(size_of::<Entry>() as f64 + table + 4.0 <= 24.0);
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
