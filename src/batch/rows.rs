//! A table as an input: each row becomes a line, so that all that is promised of lines holds for
//! rows too.
//!
//! A line has the number of the row's first line in the file: the head of the table and further
//! lines of a row are blank lines.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;

use serde::de::IgnoredAny;

use super::fields::FAULT;
use super::packed::Unpacked;

/// What each row of a table asks for. `{{column}}` stands for what the row has in that column.
#[derive(Clone, Debug)]
pub struct Rows {
    method: Option<String>,
    url: String,
    body: Option<String>,
    id: Option<String>,
}

/// Why rows cannot become requests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The body is no JSON.
    #[error(
        "the body for rows is not JSON ({0}): a text that holds a column is \"{{{{column}}}}\", with its quotes"
    )]
    Body(serde_json::Error),
}

impl Rows {
    /// Rows that ask for this URL, absolute or relative, with this body, which is JSON. `id` is the
    /// column of the `custom_id`; without one it is `custom_id` or `id`, if there is such a column.
    ///
    /// # Errors
    ///
    /// The body is no JSON.
    pub fn new(
        method: Option<String>,
        url: String,
        body: Option<String>,
        id: Option<String>,
    ) -> Result<Self, RowsError> {
        if let Some(body) = &body {
            serde_json::from_str::<IgnoredAny>(body).map_err(RowsError::Body)?;
        }
        // A line is one line.
        let body = body.map(|body| body.replace(['\n', '\r'], " "));
        Ok(Self {
            method,
            url,
            body,
            id,
        })
    }

    /// Whether a file of this name is a table.
    #[must_use]
    pub fn is_table(path: &Path) -> bool {
        separator(path).is_some()
    }

    /// The lines of a table.
    ///
    /// # Errors
    ///
    /// It cannot be read; a column that is named is not there.
    pub(crate) fn lines_of<R: Read>(&self, source: R, separator: u8) -> io::Result<Lines<R>> {
        let mut table = csv::ReaderBuilder::new()
            .delimiter(separator)
            .flexible(true)
            .from_reader(Tidy::new(source));
        let head = table.headers().map_err(broken)?;
        let columns: Vec<String> = head.iter().map(|name| name.trim().to_owned()).collect();
        let place = |name: &str| columns.iter().position(|column| column == name);
        let id = match &self.id {
            Some(name) => Some(place(name).ok_or_else(|| unknown(name, &columns))?),
            None => place("custom_id").or_else(|| place("id")),
        };
        let parts = |text: &str| Parts::of(text, &columns);
        Ok(Lines {
            url: parts(&self.url)?,
            body: self.body.as_deref().map(parts).transpose()?,
            method: self.method.clone(),
            id,
            columns: columns.len(),
            table,
            row: csv::ByteRecord::new(),
            line: Vec::new(),
            at: 0,
            written: 0,
        })
    }
}

/// Opens an input whose rows, if it is a table, ask for this.
///
/// # Errors
///
/// As [`Rows::lines_of`].
pub(crate) fn open(path: &Path, rows: Option<&Rows>) -> io::Result<Box<dyn Read + Send>> {
    let file = Unpacked::open(path)?;
    Ok(match rows {
        Some(rows) => Box::new(rows.lines_of(file, separator(path).unwrap_or(b','))?),
        None => Box::new(file),
    })
}

/// What stands between the fields of a table of this name; none if it is none.
fn separator(path: &Path) -> Option<u8> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let packed = [".gz", ".zst"];
    let name = packed
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(b','),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}

/// A table as lines.
pub(crate) struct Lines<R> {
    table: csv::Reader<Tidy<R>>,
    url: Parts,
    body: Option<Parts>,
    method: Option<String>,
    id: Option<usize>,
    columns: usize,
    row: csv::ByteRecord,
    /// The line that is being read, and how far it was.
    line: Vec<u8>,
    at: usize,
    /// How many lines were given so far.
    written: u64,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() && !self.next()? {
            return Ok(0);
        }
        let rest = &self.line[self.at..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

impl<R: Read> Lines<R> {
    /// Makes a line of the next row. False at the end.
    fn next(&mut self) -> io::Result<bool> {
        (self.at, self.line) = (0, std::mem::take(&mut self.line));
        self.line.clear();
        if !self.table.read_byte_record(&mut self.row).map_err(broken)? {
            return Ok(false);
        }
        // Behind the row; before it there may have been blank lines.
        let behind = self.table.position().line();
        let breaks = self.row.as_slice().iter().filter(|byte| **byte == b'\n');
        let number = behind.saturating_sub(1 + breaks.count() as u64);
        while self.written + 1 < number {
            self.line.push(b'\n');
            self.written += 1;
        }
        if let Err(fault) = self.write() {
            let start = self.written_so_far();
            self.line.truncate(start);
            let field = serde_json::json!({ FAULT: fault });
            self.line.extend_from_slice(field.to_string().as_bytes());
        }
        self.line.push(b'\n');
        self.written += 1;
        Ok(true)
    }

    /// Where in the buffer the line of this row begins: after the blank ones.
    fn written_so_far(&self) -> usize {
        self.line.iter().take_while(|byte| **byte == b'\n').count()
    }

    fn write(&mut self) -> Result<(), String> {
        if self.row.len() != self.columns {
            return Err(format!(
                "the row has {} fields and the first one {}: a text with a comma, a quote or a \
                 line break needs quotes around it",
                self.row.len(),
                self.columns
            ));
        }
        let mut fields = Vec::with_capacity(self.columns);
        for field in &self.row {
            fields.push(std::str::from_utf8(field).map_err(|_| "the row is not UTF-8".to_owned())?);
        }
        let line = &mut self.line;
        line.push(b'{');
        if let Some(id) = self.id.map(|id| fields[id]).filter(|id| !id.is_empty()) {
            line.extend_from_slice(b"\"custom_id\":");
            line.extend_from_slice(quoted(id).as_bytes());
            line.push(b',');
        }
        if let Some(method) = &self.method {
            line.extend_from_slice(b"\"method\":");
            line.extend_from_slice(quoted(method).as_bytes());
            line.push(b',');
        }
        let url = self.url.filled(&fields, in_url);
        line.extend_from_slice(b"\"url\":");
        line.extend_from_slice(quoted(&url).as_bytes());
        if let Some(body) = &self.body {
            line.extend_from_slice(b",\"body\":");
            line.extend_from_slice(body.filled(&fields, in_json).as_bytes());
        }
        line.push(b'}');
        Ok(())
    }
}

/// A table whose every line ends with a newline alone, as lines are counted.
struct Tidy<R> {
    source: R,
    /// What the last byte was, of those that were given or are held back.
    last: u8,
    /// A carriage return that may belong to a newline.
    held: bool,
    ended: bool,
}

impl<R: Read> Tidy<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            last: b'\n',
            held: false,
            ended: false,
        }
    }
}

impl<R: Read> Read for Tidy<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Room for a carriage return that was held back, beside what is read.
        let most = buffer.len().saturating_sub(1).clamp(1, CHUNK);
        let mut chunk = [0; CHUNK];
        let mut given = 0;
        while given == 0 && !self.ended {
            let read = self.source.read(&mut chunk[..most])?;
            let mut give = |byte| {
                buffer[given] = byte;
                given += 1;
            };
            if read == 0 {
                self.ended = true;
                if self.held {
                    give(b'\r');
                }
                if self.last != b'\n' && given < buffer.len() {
                    buffer[given] = b'\n';
                    given += 1;
                }
                break;
            }
            for &byte in &chunk[..read] {
                if std::mem::take(&mut self.held) && byte != b'\n' {
                    give(b'\r');
                }
                self.last = byte;
                if byte == b'\r' {
                    self.held = true;
                } else {
                    give(byte);
                }
            }
        }
        Ok(given)
    }
}

/// A text with places for columns.
#[derive(Debug)]
struct Parts(Vec<(String, Option<usize>)>);

impl Parts {
    fn of(text: &str, columns: &[String]) -> io::Result<Self> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else {
                break;
            };
            let name = name.trim();
            let place = columns.iter().position(|column| column == name);
            let place = place.ok_or_else(|| unknown(name, columns))?;
            parts.push((before.to_owned(), Some(place)));
            rest = after;
        }
        parts.push((rest.to_owned(), None));
        Ok(Self(parts))
    }

    fn filled(&self, fields: &[&str], as_it_is: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for (before, place) in &self.0 {
            text.push_str(before);
            if let Some(place) = place {
                text.push_str(&as_it_is(fields[*place]));
            }
        }
        text
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text is JSON")
}

/// A text within a JSON string. In valid JSON two braces stand nowhere else.
fn in_json(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// A text within a URL.
fn in_url(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

fn unknown(name: &str, columns: &[String]) -> io::Error {
    let columns: Vec<Cow<'_, str>> = columns
        .iter()
        .map(|name| format!("`{name}`").into())
        .collect();
    io::Error::other(format!(
        "it has no column `{name}`; its first row names {}",
        columns.join(", ")
    ))
}

fn broken(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        csv::ErrorKind::Utf8 { .. } => io::Error::other("its first row is not UTF-8"),
        kind => io::Error::other(format!("it is no table: {kind:?}")),
    }
}

/// One read of a table.
const CHUNK: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rows: &Rows, table: &str) -> Vec<String> {
        let mut text = String::new();
        let mut lines = rows.lines_of(table.as_bytes(), b',').expect("a table");
        lines.read_to_string(&mut text).expect("readable");
        text.lines().map(str::to_owned).collect()
    }

    fn rows(url: &str, body: Option<&str>) -> Rows {
        Rows::new(None, url.to_owned(), body.map(str::to_owned), None).expect("good rows")
    }

    #[test]
    fn a_row_becomes_the_line_of_its_number() {
        let rows = rows("/v1/x", Some("{\"p\": \"say {{prompt}}\",\n \"n\": 1}"));
        let table =
            "\u{feff}id,prompt\r\na,hello\r\nb,\"two\nlines, \"\"quoted\"\"\"\r\n\r\nc,é\r\n";
        let lines = lines(&rows, table);
        let line = |id: &str, prompt: &str| {
            format!(
                "{{\"custom_id\":\"{id}\",\"url\":\"/v1/x\",\"body\":{{\"p\": \"say {prompt}\",  \"n\": 1}}}}"
            )
        };
        assert_eq!(lines[0], "");
        assert_eq!(lines[1], line("a", "hello"));
        assert_eq!(lines[2], line("b", "two\\nlines, \\\"quoted\\\""));
        assert_eq!(&lines[3..5], ["", ""]);
        assert_eq!(lines[5], line("c", "é"));
        assert_eq!(lines.len(), 6);
    }

    #[test]
    fn a_column_in_a_url_is_escaped_and_a_row_without_an_id_has_none() {
        let rows = rows("/hotels/{{ no }}?q={{q}}", None);
        let lines = lines(&rows, "no,q,id\n7,a&b c,\n");
        assert_eq!(lines[1], "{\"url\":\"/hotels/7?q=a%26b%20c\"}");
    }

    #[test]
    fn a_row_of_another_length_is_a_line_that_says_so() {
        let lines = lines(&rows("/x", None), "a,b\n1\n1,2\n1,2,3\n");
        assert!(lines[1].contains("the row has 1 fields"), "{}", lines[1]);
        assert_eq!(lines[2], "{\"url\":\"/x\"}");
        assert!(lines[3].contains("the row has 3 fields"));
    }

    #[test]
    fn what_cannot_be_filled_in_is_said_with_what_there_is() {
        let fault = |rows: Rows| match rows.lines_of(&b"prompt,lang\n"[..], b',') {
            Ok(_) => panic!("it was filled in"),
            Err(error) => error.to_string(),
        };
        let said = fault(rows("/x", Some("\"{{promt}}\"")));
        assert!(said.contains("no column `promt`") && said.contains("`prompt`, `lang`"));
        let id = Rows::new(None, "/x".to_owned(), None, Some("key".to_owned()));
        assert!(fault(id.expect("good rows")).contains("no column `key`"));
        let body = Rows::new(
            None,
            "/x".to_owned(),
            Some("{\"a\": {{b}}}".to_owned()),
            None,
        );
        assert!(
            body.expect_err("no JSON")
                .to_string()
                .contains("with its quotes")
        );
    }

    #[test]
    fn a_table_is_known_by_its_name() {
        for (name, table) in [
            ("a.csv", true),
            ("a.CSV.gz", true),
            ("a.tsv.zst", true),
            ("a.jsonl", false),
            ("csv", false),
            ("a.csv.bak", false),
        ] {
            assert_eq!(Rows::is_table(Path::new(name)), table, "{name}");
        }
    }
}
