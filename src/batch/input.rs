//! The lines of an input: where each begins and ends, and which id it has.
//!
//! A BOM, CRLF, blank lines and a missing last newline are no errors. What is blank has no record;
//! everything else has one, a line that is too long or no JSON too.

use std::io::{self, BufRead, BufReader};
use std::ops::Range;

use memchr::memchr;
use serde_json::value::RawValue;

use super::ids::{self, Id, MOST_LINES};
use super::packed;

/// Lines one after the other, into a buffer that is used again.
pub(crate) struct Lines<R> {
    source: R,
    number: u32,
}

/// What [`Lines::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line with something on it, in this part of the buffer.
    Text(Range<usize>),
    /// Nothing but white space.
    Blank,
    /// More bytes than [`LONGEST`]; the buffer holds the first of them.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    /// The lines of a source that begins at its beginning.
    pub(crate) fn new(source: R) -> Self {
        Self { source, number: 0 }
    }

    /// The number of the line that was read last, counted from 1.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Reads the next line into `buffer`, whose old content goes.
    ///
    /// # Errors
    ///
    /// Of the source; input that is UTF-16; more than 4,294,967,294 lines.
    pub(crate) fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<Line>> {
        buffer.clear();
        let mut length = 0_u64;
        loop {
            let part = match self.source.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                part => part?,
            };
            let end = memchr(b'\n', part);
            let taken = end.unwrap_or(part.len());
            let room = LONGEST.saturating_sub(buffer.len());
            buffer.extend_from_slice(&part[..taken.min(room)]);
            length += taken as u64;
            let at_end_of_input = part.is_empty();
            self.source.consume(taken + usize::from(end.is_some()));
            if end.is_some() || at_end_of_input {
                if length == 0 && end.is_none() {
                    return Ok(None);
                }
                break;
            }
        }
        if self.number == MOST_LINES {
            return Err(io::Error::other(format!(
                "the input has more than {MOST_LINES} lines"
            )));
        }
        self.number += 1;
        if length > LONGEST as u64 {
            return Ok(Some(Line::TooLong));
        }
        let text = text_of(buffer, self.number == 1)?;
        Ok(Some(if text.is_empty() {
            Line::Blank
        } else {
            Line::Text(text)
        }))
    }
}

impl<R: io::Read> Lines<BufReader<R>> {
    /// Whether the next line can be read without asking the source.
    pub(crate) fn is_next_at_hand(&self) -> bool {
        memchr(b'\n', self.source.buffer()).is_some()
    }
}

/// The id of a line, and its text.
#[derive(Debug)]
pub(crate) struct Named {
    /// The `custom_id`, else the id made from number and text.
    pub(crate) text: String,
    /// The hash of that.
    pub(crate) id: Id,
    /// Whether it is made from number and text.
    made: bool,
}

impl Named {
    /// The id of a line with this text. It depends on the bytes alone, so that it is the same
    /// whether the line turns out to be good or bad.
    pub(crate) fn of(line: u32, text: &[u8]) -> Self {
        // An array would be read as the fields in their order.
        let object = text.starts_with(b"{").then_some(text);
        let head = object.and_then(|object| serde_json::from_slice::<Head<'_>>(object).ok());
        let custom_id = head.and_then(|head| head.custom_id);
        Self::given(line, text, custom_id)
    }

    /// The same, of a line whose `custom_id` was read already.
    pub(crate) fn given(line: u32, text: &[u8], custom_id: Option<&RawValue>) -> Self {
        match custom_id.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) {
            Some(text) => Self {
                id: Id::of(&text),
                text,
                made: false,
            },
            None => Self::made(line, text),
        }
    }

    /// The id of a line whose own id does not count.
    pub(crate) fn made(line: u32, text: &[u8]) -> Self {
        let text = ids::line_id(line, ids::content_hash(text));
        Self {
            id: Id::of(&text),
            text,
            made: true,
        }
    }

    /// Whether the id is made from number and text, and so changes with them.
    pub(crate) fn is_made(&self) -> bool {
        self.made
    }
}

/// The only field that an id is made of.
#[derive(serde::Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    custom_id: Option<&'a RawValue>,
}

/// What is wrong with an input, or with what is to be made of it: nothing that another try would
/// mend.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

/// A fault as an error of reading.
pub(super) fn fault(said: impl Into<String>) -> io::Error {
    io::Error::other(Fault(said.into()))
}

/// What is wrong with an input, if that is why it could not be read.
pub(super) fn fault_in(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<Fault>()?;
    Some(inner.to_string())
}

fn text_of(line: &[u8], first: bool) -> io::Result<Range<usize>> {
    if let Some(what_to_do) = packed::no_text(line).filter(|_| first) {
        return Err(fault(what_to_do));
    }
    let start = if first && line.starts_with(BOM) {
        BOM.len()
    } else {
        0
    };
    let rest = line[start..].trim_ascii_start();
    let start = line.len() - rest.len();
    Ok(start..start + rest.trim_ascii_end().len())
}

/// The longest line that is read: 64 MiB, twice what the largest request of a known API takes.
/// It is also what a broken input without newlines can cost in memory.
pub(crate) const LONGEST: usize = 64 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], chunk: usize) -> Vec<(u32, Option<String>)> {
        let mut lines = Lines::new(BufReader::with_capacity(chunk, input));
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        while let Some(line) = lines.next(&mut buffer).expect("readable") {
            let text = match line {
                Line::Text(range) => Some(String::from_utf8_lossy(&buffer[range]).into_owned()),
                Line::Blank => None,
                Line::TooLong => Some("too long".to_owned()),
            };
            seen.push((lines.number(), text));
        }
        seen
    }

    #[test]
    fn bom_crlf_blanks_and_a_missing_newline_change_no_line() {
        let input = b"\xef\xbb\xbf{\"a\":1}\r\n\r\n  \n {\"b\":2} \n\n{\"c\":3}";
        let expected = [
            (1, Some("{\"a\":1}")),
            (2, None),
            (3, None),
            (4, Some("{\"b\":2}")),
            (5, None),
            (6, Some("{\"c\":3}")),
        ]
        .map(|(line, text)| (line, text.map(str::to_owned)));
        for chunk in [1, 2, 3, 7, 4096] {
            assert_eq!(
                lines(input, chunk),
                expected,
                "read {chunk} bytes at a time"
            );
        }
    }

    #[test]
    fn a_bom_counts_at_the_beginning_only() {
        assert_eq!(lines(b"\xef\xbb\xbf", 16), [(1, None)]);
        let text = lines(b"x\n\xef\xbb\xbfy\n", 16)[1]
            .1
            .clone()
            .expect("there is text");
        assert_eq!(text, "\u{feff}y");
        assert_eq!(lines(b"", 16), []);
    }

    #[test]
    fn a_line_beyond_the_bound_is_one_line_and_costs_no_more_memory_than_the_bound() {
        let mut input = vec![b'x'; LONGEST + 10];
        input.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(BufReader::new(&input[..]));
        let mut buffer = Vec::new();
        assert_eq!(
            lines.next(&mut buffer).expect("readable"),
            Some(Line::TooLong)
        );
        assert_eq!(buffer.len(), LONGEST);
        assert_eq!(
            lines.next(&mut buffer).expect("readable"),
            Some(Line::Text(0..4))
        );
        assert_eq!(lines.number(), 2);
    }

    #[test]
    fn utf_16_is_named_as_such() {
        let mut lines = Lines::new(&b"\xff\xfe{\0"[..]);
        let error = lines.next(&mut Vec::new()).expect_err("no UTF-8");
        assert!(error.to_string().contains("UTF-16"));
    }

    #[test]
    fn an_id_is_the_custom_id_or_made_from_number_and_text() {
        let named = Named::of(
            3,
            br#"{"custom_id":"a\"b","url":"/x","body":{"custom_id":"no"}}"#,
        );
        assert_eq!(named.text, "a\"b");
        for text in [
            r#"{"url":"/x"}"#,
            r#"{"custom_id":null}"#,
            r#"{"custom_id":5}"#,
            "{broken",
            r#"["a"]"#,
        ] {
            let named = Named::of(3, text.as_bytes());
            assert!(named.text.starts_with("line-3-"), "{text}");
        }
    }

    #[test]
    fn an_edited_line_has_another_id_and_another_line_ending_has_not() {
        let id = |input: &[u8]| {
            let mut buffer = Vec::new();
            let line = Lines::new(input).next(&mut buffer).expect("readable");
            let Some(Line::Text(range)) = line else {
                panic!("a line")
            };
            Named::of(1, &buffer[range]).text
        };
        assert_eq!(
            id(b"{\"url\":\"/a\"}\r\n"),
            id(b"\xef\xbb\xbf{\"url\":\"/a\"}")
        );
        assert_ne!(id(b"{\"url\":\"/a\"}"), id(b"{\"url\":\"/b\"}"));
    }
}
