//! What people see of a page or a plain text: its first words, without tags.

/// The words of a text, with one space between them.
pub(crate) struct Prose {
    bytes: [u8; MOST],
    length: usize,
}

impl Prose {
    /// Reads as many whole words as there is place for.
    pub(crate) fn read(text: &[u8], page: bool) -> Self {
        let mut prose = Self {
            bytes: [b' '; MOST],
            length: 0,
        };
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            let gap = match byte {
                b'<' if page => after_tag(after),
                b'&' if page => after_entity(after),
                _ if byte.is_ascii_whitespace() => Some(after),
                _ => None,
            };
            let fits = prose.add(if gap.is_some() { b' ' } else { byte });
            if !fits {
                // A word that is cut could be a number without its last digits.
                prose.cut();
                break;
            }
            rest = gap.unwrap_or(after);
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

/// What follows a tag; of one whose contents nobody sees, what follows those.
fn after_tag(tag: &[u8]) -> Option<&[u8]> {
    let hidden = HIDDEN.iter().any(|name| {
        tag.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    });
    let end = tag.iter().position(|&byte| byte == b'>');
    let after = end.map_or(&tag[..0], |end| &tag[end + 1..]);
    if !hidden {
        return Some(after);
    }
    let end = after.windows(2).position(|pair| pair == b"</");
    Some(end.map_or(&after[..0], |end| &after[end..]))
}

/// What follows a character that is written by its name: most of them are kinds of spaces.
fn after_entity(name: &[u8]) -> Option<&[u8]> {
    let end = name
        .iter()
        .take(LONGEST_ENTITY)
        .position(|&byte| byte == b';')?;
    Some(&name[end + 1..])
}

/// Pages that say when to come back say so at once.
const MOST: usize = super::text::LONGEST;

/// `&nbsp;`, `&#160;`, `&thinsp;`
const LONGEST_ENTITY: usize = 8;

const HIDDEN: [&[u8]; 2] = [b"script", b"style"];

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        String::from_utf8_lossy(Prose::read(text.as_bytes(), true).as_bytes()).into_owned()
    }

    #[test]
    fn tags_styles_and_spaces_are_not_seen() {
        let text =
            "<html><style>p { x: 1 }</style><p>Try again in <b>30</b>&nbsp;seconds</p>\n  </html>";
        assert_eq!(page(text), "Try again in 30 seconds ");
        assert_eq!(page("a < b"), "a ");
        assert_eq!(page("<script>"), "");
    }

    #[test]
    fn a_word_that_has_no_place_is_left_out() {
        let text = format!("{} in 20 seconds", "x".repeat(MOST - 5));
        let seen = Prose::read(text.as_bytes(), false);
        assert!(seen.as_bytes().ends_with(b"x in"));
        assert_eq!(
            Prose::read("x".repeat(2 * MOST).as_bytes(), false).as_bytes(),
            b""
        );
    }
}
