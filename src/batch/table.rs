//! The bytes of a table on their way to the reader of rows: every line ends with a newline alone,
//! as lines are counted, and what stands in quotes is whole.
//!
//! The reader of rows takes what it finds: a quote without an end would take in the rest of the
//! file as one text, and quotes in the middle of a field would be lost. Here both are errors.

use std::io::{self, Read};

use super::input::fault;
use super::packed;

/// A table that is read.
pub(super) struct Table<R> {
    source: R,
    quotes: Quotes,
    /// What the last byte was, of those that were given or are held back.
    last: u8,
    /// A carriage return that may belong to a newline.
    held: bool,
    begun: bool,
    ended: bool,
}

impl<R: Read> Table<R> {
    /// A table whose fields are separated by this.
    pub(super) fn new(source: R, separator: u8) -> Self {
        Self {
            source,
            quotes: Quotes::new(separator),
            last: b'\n',
            held: false,
            begun: false,
            ended: false,
        }
    }
}

impl<R: Read> Read for Table<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Room for a carriage return that was held back, beside what is read.
        let most = buffer.len().saturating_sub(1).clamp(1, CHUNK);
        let mut chunk = [0; CHUNK];
        let mut given = 0;
        while given == 0 && !self.ended {
            let read = self.source.read(&mut chunk[..most])?;
            if !std::mem::replace(&mut self.begun, true)
                && let Some(what_to_do) = packed::no_text(&chunk[..read])
            {
                return Err(fault(what_to_do));
            }
            let quotes = &mut self.quotes;
            let mut give = |byte| {
                buffer[given] = byte;
                given += 1;
                quotes.on(byte)
            };
            if read == 0 {
                self.ended = true;
                if self.held {
                    give(b'\r')?;
                }
                if self.last != b'\n' && given < buffer.len() {
                    buffer[given] = b'\n';
                    given += 1;
                }
                self.quotes.end()?;
                break;
            }
            for &byte in &chunk[..read] {
                if std::mem::take(&mut self.held) && byte != b'\n' {
                    give(b'\r')?;
                }
                self.last = byte;
                if byte == b'\r' {
                    self.held = true;
                } else {
                    give(byte)?;
                }
            }
        }
        Ok(given)
    }
}

/// Where in a field a table is, as far as quotes are concerned (RFC 4180).
struct Quotes {
    separator: u8,
    at: At,
    /// The line that is being read, counted from 1.
    line: u64,
    /// The line on which the last quote opened.
    opened: u64,
}

#[derive(Clone, Copy)]
enum At {
    /// At the beginning of the file, where a byte order mark may stand; so many of its bytes came.
    Mark(usize),
    /// At the beginning of a field.
    Start,
    /// Behind blanks at the beginning of a field.
    Blanks,
    /// In a field without quotes.
    Plain,
    /// In quotes.
    Quoted,
    /// Behind a quote that ends a field, or is the first of two.
    Behind,
}

impl Quotes {
    fn new(separator: u8) -> Self {
        Self {
            separator,
            at: At::Mark(0),
            line: 1,
            opened: 0,
        }
    }

    fn on(&mut self, byte: u8) -> io::Result<()> {
        let ends = byte == self.separator || matches!(byte, b'\n' | b'\r');
        self.at = match (self.at, byte) {
            (At::Mark(at), byte) if BOM.get(at) == Some(&byte) => At::Mark(at + 1),
            (At::Mark(_) | At::Start, b'"') => {
                self.opened = self.line;
                At::Quoted
            }
            (At::Quoted, b'"') => At::Behind,
            (At::Quoted, _) | (At::Behind, b'"') => At::Quoted,
            (At::Blanks, b'"') => return Err(self.blank_before()),
            _ if ends => At::Start,
            (At::Behind, _) => return Err(self.text_behind()),
            (At::Mark(_) | At::Start | At::Blanks, b' ') => At::Blanks,
            _ => At::Plain,
        };
        self.line += u64::from(byte == b'\n');
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        match self.at {
            At::Quoted => Err(fault(format!(
                "the quote that opens on line {} is never closed: end its text with a quote; a \
                 quote within a text is written twice",
                self.opened
            ))),
            _ => Ok(()),
        }
    }

    fn text_behind(&self) -> io::Error {
        let (line, opened) = (self.line, self.opened);
        let which = if line == opened {
            format!("on line {line} something follows the quote that ends a text")
        } else {
            format!(
                "on line {line} something follows the quote that ends the text that began on line \
                 {opened}, which may have no end of its own"
            )
        };
        fault(format!(
            "{which}: a text with quotes in it stands in quotes as a whole, and each quote in it \
             is written twice"
        ))
    }

    fn blank_before(&self) -> io::Error {
        fault(format!(
            "on line {} a blank stands before the quote that begins a text, which would make the \
             quotes part of it: take the blank away",
            self.line
        ))
    }
}

/// One read of a table.
const CHUNK: usize = 8 << 10;

const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str, separator: u8) -> Result<String, String> {
        let mut text = String::new();
        let mut table = Table::new(table.as_bytes(), separator);
        let read = table.read_to_string(&mut text);
        read.map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_line_ends_with_a_newline_alone_and_quotes_that_are_whole_stay() {
        let table = "\u{feff}\"a\",b\r\n\"1\r\n,\"\"x\"\"\",5\" disk\r\n\n\"\",\"\"";
        assert_eq!(
            read(table, b','),
            Ok("\u{feff}\"a\",b\n\"1\n,\"\"x\"\"\",5\" disk\n\n\"\",\"\"\n".to_owned())
        );
        assert_eq!(read("a\tb\n1,\"x\t\"2\"\n", b'\t').map(|_| ()), Ok(()));
    }

    #[test]
    fn a_quote_without_an_end_is_named_by_the_line_on_which_it_opens() {
        // The rest of the file became one text, and the run ended well.
        let said = read("a,b\n1,x\n2,\"open\n3,y\n", b',').expect_err("no end");
        assert!(said.contains("opens on line 3"), "{said}");
        let said = read("a,b\n1,\"open\n2,y\n3,\"z\"\n", b',').expect_err("no end");
        assert!(
            said.contains("on line 4") && said.contains("began on line 2"),
            "{said}"
        );
    }

    #[test]
    fn quotes_that_would_be_lost_or_become_text_are_errors() {
        let said = read("a,b\n1,x\n2,\"a\" b\n", b',').expect_err("lost");
        assert!(
            said.contains("on line 3") && said.contains("written twice"),
            "{said}"
        );
        let said = read("a,b\n1, \"x\"\n", b',').expect_err("text");
        assert!(
            said.contains("on line 2") && said.contains("blank"),
            "{said}"
        );
    }
}
