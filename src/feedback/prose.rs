//! What people see of a plain text: its first words.

/// The words of a text, with one space between them.
pub(crate) struct Prose {
    bytes: [u8; MOST],
    length: usize,
}

impl Prose {
    /// Reads as many whole words as there is place for.
    pub(crate) fn read(text: &[u8]) -> Self {
        let mut prose = Self {
            bytes: [b' '; MOST],
            length: 0,
        };
        for &byte in text {
            let is_gap = byte.is_ascii_whitespace();
            if !prose.add(if is_gap { b' ' } else { byte }) {
                // A word that is cut could be a number without its last digits.
                prose.cut();
                break;
            }
        }
        prose
    }

    /// What was read.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn add(&mut self, byte: u8) -> bool {
        if byte == b' ' && self.as_bytes().last().is_none_or(|last| *last == b' ') {
            return true;
        }
        let Some(place) = self.bytes.get_mut(self.length) else {
            return false;
        };
        *place = byte;
        self.length += 1;
        true
    }

    fn cut(&mut self) {
        let end = self.as_bytes().iter().rposition(|byte| *byte == b' ');
        self.length = end.unwrap_or(0);
    }
}

/// Texts that say when to come back say so at once.
const MOST: usize = super::text::LONGEST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_words_there_is_one_space() {
        let seen = Prose::read(b"Try again\r\n  in\t20 seconds \n");
        assert_eq!(seen.as_bytes(), b"Try again in 20 seconds ");
    }

    #[test]
    fn a_word_that_has_no_place_is_left_out() {
        let text = format!("{} in 20 seconds", "x".repeat(MOST - 5));
        let seen = Prose::read(text.as_bytes());
        assert!(seen.as_bytes().ends_with(b"x in"));
        assert_eq!(Prose::read("x".repeat(2 * MOST).as_bytes()).as_bytes(), b"");
    }
}
