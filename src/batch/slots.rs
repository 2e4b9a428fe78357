//! Which entry has which hash: a table of entry numbers, ordered by hash, so that a look-up ends
//! early even when the table is nearly full.
//!
//! It is cut into shards by the first bits of the hash. Each grows by itself, so that nothing
//! large is ever copied or given back, and nobody waits for all of it to be laid out anew.
//! The hash of an entry is not kept here: whoever asks says how to tell it from the number.

/// Entry numbers by their hashes, which differ and are spread evenly.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Shard>);

impl Slots {
    /// The entry of this hash.
    pub(crate) fn find(&self, hash: u128, of: impl Fn(u32) -> u128) -> Option<u32> {
        let shard = self.0.get(shard_of(hash))?;
        shard.entry(shard.slot(hash, &of), hash, &of)
    }

    /// Puts in an entry.
    ///
    /// # Errors
    ///
    /// The entry of the same hash that was there before, and stays.
    pub(crate) fn insert(
        &mut self,
        number: u32,
        hash: u128,
        of: impl Fn(u32) -> u128,
    ) -> Result<(), u32> {
        if self.0.is_empty() {
            self.0.resize_with(SHARDS, Shard::default);
        }
        self.0[shard_of(hash)].insert(number, hash, &of)
    }

    /// What it takes of memory, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.0.iter().map(|shard| shard.slots.capacity()).sum();
        self.0.capacity() * size_of::<Shard>() + slots * size_of::<u32>()
    }
}

/// The entries whose hashes begin alike.
#[derive(Debug, Default)]
struct Shard {
    /// Ordered by hash, with gaps. Longer than `homes` where the last run is.
    slots: Vec<u32>,
    homes: u32,
    used: u32,
}

impl Shard {
    /// Puts in an entry, unless one of its hash is there.
    fn insert(&mut self, number: u32, hash: u128, of: &impl Fn(u32) -> u128) -> Result<(), u32> {
        let mut slot = self.slot(hash, of);
        if let Some(there) = self.entry(slot, hash, of) {
            return Err(there);
        }
        if f64::from(self.used + 1) > f64::from(self.homes) * FULLEST {
            self.grow(of);
            slot = self.slot(hash, of);
        }
        let mut carried = number;
        while let Some(there) = self.slots.get_mut(slot) {
            carried = std::mem::replace(there, carried);
            if carried == GAP {
                break;
            }
            slot += 1;
        }
        if carried != GAP {
            push(&mut self.slots, carried);
        }
        self.used += 1;
        Ok(())
    }

    /// The entry of a hash, if it is there, in the slot where it would be.
    fn entry(&self, slot: usize, hash: u128, of: &impl Fn(u32) -> u128) -> Option<u32> {
        let number = *self.slots.get(slot)?;
        (number != GAP && of(number) == hash).then_some(number)
    }

    /// Lays all out anew with more room. They come in their order, so none is looked for.
    fn grow(&mut self, of: &impl Fn(u32) -> u128) {
        let homes = self.homes + self.homes / GROWTH + SMALLEST;
        let mut slots = Vec::with_capacity(homes as usize);
        for &number in self.slots.iter().filter(|&&number| number != GAP) {
            let home = home(of(number), homes);
            if slots.len() < home {
                slots.resize(home, GAP);
            }
            push(&mut slots, number);
        }
        if slots.len() < homes as usize {
            slots.resize(homes as usize, GAP);
        }
        (self.slots, self.homes) = (slots, homes);
    }

    /// The first slot, from a hash's home on, that is a gap or holds no smaller hash.
    fn slot(&self, hash: u128, of: &impl Fn(u32) -> u128) -> usize {
        let mut slot = home(hash, self.homes);
        while let Some(&number) = self.slots.get(slot) {
            if number == GAP || of(number) >= hash {
                break;
            }
            slot += 1;
        }
        slot
    }
}

fn shard_of(hash: u128) -> usize {
    (hash >> (HASH_BITS - SHARD_BITS)) as usize
}

/// Where a hash belongs in its shard. It is monotone in the hash, so that runs are ordered across
/// homes.
fn home(hash: u128, homes: u32) -> usize {
    let within = (hash >> (HASH_BITS - SHARD_BITS - 32)) as u32;
    ((u64::from(within) * u64::from(homes)) >> 32) as usize
}

/// Adds a slot without the room for as many again that a `Vec` would take.
fn push(slots: &mut Vec<u32>, number: u32) {
    if slots.len() == slots.capacity() {
        slots.reserve_exact(SMALLEST as usize);
    }
    slots.push(number);
}

/// How many bits of a hash are told apart: n ids collide with a chance of n² / 2^73, 1e-8 for ten
/// million.
pub(crate) const HASH_BITS: usize = 72;

/// How full a shard may be. Ordered probing then looks at 7 entries on average
/// ((1 + 1/(1 - load)) / 2), and a slot costs 4.35 bytes.
const FULLEST: f64 = 0.92;

/// A shard grows by this part of itself: slots cost at most 4.9 bytes an entry, and laying them out
/// anew looks at each entry eight times in all.
const GROWTH: u32 = 8;

/// As many homes more at least, or small shards would grow at every entry.
const SMALLEST: u32 = 8;

/// A million entries are then 5 KiB a shard, ten million 50: less than what an allocator takes from
/// the system by itself.
const SHARD_BITS: usize = 10;
const SHARDS: usize = 1 << SHARD_BITS;

/// No entry: there are fewer.
const GAP: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// As spread as the hashes of ids.
    fn hash(number: u32) -> u128 {
        xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes()) >> (128 - HASH_BITS)
    }

    #[test]
    fn what_was_put_in_is_found_while_it_grows_and_nothing_else() {
        let mut slots = Slots::default();
        for number in 0..50_000 {
            assert_eq!(slots.find(hash(number), hash), None);
            assert_eq!(slots.insert(number, hash(number), hash), Ok(()));
            let earlier = number / 2;
            assert_eq!(slots.find(hash(earlier), hash), Some(earlier));
        }
        assert!((0..50_000).all(|number| slots.find(hash(number), hash) == Some(number)));
    }

    #[test]
    fn the_first_of_two_with_the_same_hash_stays() {
        let same = |number| hash(number % 1_000);
        let mut slots = Slots::default();
        for number in 0..3_000 {
            let expected = if number < 1_000 {
                Ok(())
            } else {
                Err(number % 1_000)
            };
            assert_eq!(slots.insert(number, same(number), same), expected);
        }
    }

    #[test]
    fn what_is_there_already_makes_no_room_for_itself() {
        let mut slots = Slots::default();
        let put = |slots: &mut Slots, number| slots.insert(number, hash(number), hash);
        for number in 0..20_000 {
            assert_eq!(put(&mut slots, number), Ok(()));
        }
        let bytes = slots.bytes();
        assert!((0..20_000).all(|number| put(&mut slots, number) == Err(number)));
        assert_eq!(slots.bytes(), bytes);
    }

    #[test]
    fn hashes_at_both_ends_of_a_shard_have_room() {
        let ends = |number: u32| match number % 2 {
            0 => u128::from(number),
            _ => (1 << HASH_BITS) - u128::from(number),
        };
        let mut slots = Slots::default();
        for number in 1..2_000 {
            assert_eq!(slots.insert(number, ends(number), ends), Ok(()));
        }
        assert!((1..2_000).all(|number| slots.find(ends(number), ends) == Some(number)));
    }
}
