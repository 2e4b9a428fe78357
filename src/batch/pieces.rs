//! An array that grows by a piece at a time, and moves nothing that it holds.
//!
//! A large array that grows by a copy needs the old memory and the new at once, and leaves a hole
//! as large as itself where the allocator does not give it back.

/// Items by number, in the order in which they were pushed.
#[derive(Debug)]
pub(crate) struct Pieces<T>(Vec<Vec<T>>);

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pieces<T> {
    /// Adds an item behind the others.
    pub(crate) fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(item);
                self.0.push(piece);
            }
        }
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> usize {
        let last = self.0.last().map_or(0, Vec::len);
        self.0.len().saturating_sub(1) * PIECE + last
    }

    /// The item of this number, if there is one.
    pub(crate) fn at(&self, number: usize) -> Option<&T> {
        self.0.get(number / PIECE)?.get(number % PIECE)
    }

    /// The item of this number, if there is one, to be changed.
    pub(crate) fn at_mut(&mut self, number: usize) -> Option<&mut T> {
        self.0.get_mut(number / PIECE)?.get_mut(number % PIECE)
    }

    /// All items, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// What all items take of memory, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let outer = self.0.capacity() * size_of::<Vec<T>>();
        let inner: usize = self.0.iter().map(Vec::capacity).sum();
        outer + inner * size_of::<T>()
    }
}

/// How many items a piece holds. Pieces of an index are then at most 120 KiB, which glibc takes
/// from its heap and not from the system.
const PIECE: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_found_by_its_number_and_none_behind_the_last() {
        let mut pieces = Pieces::default();
        for number in 0..2 * PIECE + 5 {
            assert_eq!((pieces.len(), pieces.at(number)), (number, None));
            pieces.push(number);
        }
        *pieces.at_mut(PIECE).expect("it was pushed") = 7;
        let expected = (0..2 * PIECE + 5).map(|number| if number == PIECE { 7 } else { number });
        assert!(pieces.iter().copied().eq(expected.clone()));
        assert!(
            expected
                .enumerate()
                .all(|(at, item)| pieces.at(at) == Some(&item))
        );
    }
}
