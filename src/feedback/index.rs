//! The names of the table's headers, found by a hash that the compiler has made.
//!
//! A typical response has twenty headers, and few speak of limits: nearly all are sent away by one
//! look at their length and two of their letters.

use super::vendors::{Header, Key, Meaning, VENDORS, Vendor, same};

/// What the rows say about a header of a vendor: its own meaning before the one that all share.
#[inline]
pub(crate) fn find(vendor: &'static Vendor, name: &str) -> Option<&'static Meaning<'static>> {
    INDEX.find(vendor, name)
}

/// The rows' names by their hash, with open addressing.
struct Index {
    /// By length, a bit for each mark that a name of this length has.
    marks: [u64; LONGEST],
    slots: [u16; SLOTS],
    entries: [Entry; MOST],
}

/// A header of the table.
#[derive(Clone, Copy)]
struct Entry {
    name: &'static str,
    means: Meaning<'static>,
    /// The only vendor whose header it is.
    own: Option<&'static Vendor>,
}

impl Index {
    /// The vendor's own meaning of a name before the one that all share.
    #[inline]
    fn find(
        &'static self,
        vendor: &'static Vendor,
        name: &str,
    ) -> Option<&'static Meaning<'static>> {
        let bytes = name.as_bytes();
        if self.marks.get(bytes.len())? & mark(bytes) == 0 {
            return None;
        }
        self.search(vendor, name)
    }

    #[inline]
    fn search(
        &'static self,
        vendor: &'static Vendor,
        name: &str,
    ) -> Option<&'static Meaning<'static>> {
        let mut at = slot(name.as_bytes());
        while self.slots[at] != 0 {
            let entry = &self.entries[usize::from(self.slots[at]) - 1];
            // The vendors' own rows were entered first, so they stand before the shared one.
            if entry.name == name && entry.own.is_none_or(|own| own.name == vendor.name) {
                return Some(&entry.means);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }

    const fn build() -> Self {
        const EMPTY: Entry = Entry {
            name: "",
            means: Meaning::Nothing,
            own: None,
        };
        let mut index = Self {
            marks: [0; LONGEST],
            slots: [0; SLOTS],
            entries: [EMPTY; MOST],
        };
        let mut count = 0;
        let mut shared = false;
        loop {
            let mut file = 0;
            while file < VENDORS.len() {
                let mut row = 0;
                while row < VENDORS[file].len() {
                    let vendor = &VENDORS[file][row];
                    count = if shared {
                        index.add(vendor.headers, None, count)
                    } else {
                        index.add(vendor.own.headers, Some(vendor), count)
                    };
                    row += 1;
                }
                file += 1;
            }
            if shared {
                return index;
            }
            shared = true;
        }
    }

    const fn add(
        &mut self,
        headers: &'static [Header],
        own: Option<&'static Vendor>,
        mut count: usize,
    ) -> usize {
        let mut at = 0;
        while at < headers.len() {
            let name = headers[at].name;
            let means = self.numbered(headers[at].means, count);
            self.entries[count] = Entry { name, means, own };
            count += 1;
            self.marks[name.len()] |= mark(name.as_bytes());
            let mut place = slot(name.as_bytes());
            while self.slots[place] != 0 {
                place = (place + 1) % SLOTS;
            }
            self.slots[place] = count as u16;
            at += 1;
        }
        count
    }
}

impl Index {
    /// A meaning whose key has the number of the first equal key among `count` entries.
    const fn numbered(&self, means: Meaning<'static>, count: usize) -> Meaning<'static> {
        let Meaning::Part(key, part) = means else {
            return means;
        };
        let mut at = 0;
        while at < count {
            if let Meaning::Part(known, _) = self.entries[at].means
                && known.dimension as u8 == key.dimension as u8
                && known.window == key.window
                && known.plain == key.plain
                && same(known.scope.as_bytes(), key.scope.as_bytes())
                && same(known.family.as_bytes(), key.family.as_bytes())
            {
                return Meaning::Part(known, part);
            }
            at += 1;
        }
        Meaning::Part(
            Key {
                id: count as u16 + 1,
                ..key
            },
            part,
        )
    }
}

/// One of 64 marks of a name, by its last letter and the one in its middle: a name of no interest
/// seldom shares it with one of the same length in the table.
const fn mark(name: &[u8]) -> u64 {
    match name.last() {
        Some(last) => 1 << ((*last as usize * 5 + name[name.len() / 2] as usize) & 63),
        None => 0,
    }
}

/// Where a name's search begins: by its end, its middle and its length. Names that differ nowhere
/// else are found one after the other.
const fn slot(name: &[u8]) -> usize {
    let mut hash = name.len() as u64;
    if let Some((before, end)) = name.split_last_chunk::<8>() {
        hash ^= u64::from_le_bytes(*end);
        let (_, from_middle) = name.split_at(before.len() / 2);
        if let Some((middle, _)) = from_middle.split_first_chunk::<8>() {
            hash ^= u64::from_le_bytes(*middle)
                .wrapping_mul(SPREAD)
                .rotate_left(32);
        }
    } else if let Some(first) = name.first() {
        hash ^= (*first as u64) << 8;
    }
    (hash.wrapping_mul(SPREAD) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// The fractional part of the golden ratio: multiplying by it spreads the bits (Knuth, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// More rows than this do not compile.
const MOST: usize = 320;

/// Some times as many, so that a name of no interest mostly meets an empty slot at once.
const SLOTS: usize = 1024;

/// Longer names do not compile.
const LONGEST: usize = 64;

static INDEX: Index = Index::build();

#[cfg(test)]
mod tests {
    use super::super::vendors::all;
    use super::*;

    /// What the index says, without the numbers that it gives to keys.
    fn found(vendor: &'static Vendor, name: &str) -> Option<Meaning<'static>> {
        INDEX.find(vendor, name).map(|means| match *means {
            Meaning::Part(key, part) => Meaning::Part(Key { id: 0, ..key }, part),
            other => other,
        })
    }

    #[test]
    fn every_row_is_found_by_its_name() {
        for vendor in all() {
            for header in vendor.own.headers {
                let found = found(vendor, header.name);
                assert_eq!(
                    found,
                    Some(header.means),
                    "{} of {}",
                    header.name,
                    vendor.name
                );
            }
            for header in vendor.headers {
                assert_eq!(
                    found(&Vendor::NONE, header.name),
                    Some(header.means),
                    "{}",
                    header.name
                );
            }
        }
    }

    #[test]
    fn equal_keys_have_one_number() {
        let number = |name: &str| match INDEX.find(&Vendor::NONE, name) {
            Some(Meaning::Part(key, _)) => key.id,
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(number("x-ratelimit-limit"), number("x-ratelimit-reset"));
        assert_ne!(number("x-ratelimit-limit"), number("ratelimit-limit"));
        assert_ne!(
            number("x-ratelimit-limit-tokens"),
            number("x-ratelimit-limit-requests")
        );
    }
}
