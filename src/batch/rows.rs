//! A table as an input: each row becomes a line, so that all that is promised of lines holds for
//! rows too.
//!
//! A line has the number of the row's first line in the file: the head of the table and further
//! lines of a row are blank lines.

use std::io::{self, Read};
use std::path::Path;

use serde::de::IgnoredAny;

use super::fields::FAULT;
use super::input::{fault, fault_in};
use super::packed::Unpacked;
use super::request;
use super::table::Table;
use super::template::{Parts, Template, named, place, slip};

/// What each row of a table asks for. `{{column}}` stands for what the row has in that column.
#[derive(Clone, Debug)]
pub struct Rows {
    method: Option<String>,
    url: Template,
    body: Option<Template>,
    id: Option<String>,
    /// Whether all may ask for the same.
    alike: bool,
}

/// Why rows cannot become requests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The body is no JSON.
    #[error(
        "--body is not JSON ({0}): a text that holds a column is \"{{{{column}}}}\", with its quotes"
    )]
    Body(serde_json::Error),
    /// The method is none.
    #[error("{0}")]
    Method(String),
}

impl Rows {
    /// Rows that ask for this URL, absolute or relative, with this body, which is JSON. `id` is the
    /// column of the `custom_id`; without one it is `custom_id` or `id`, if there is such a column.
    ///
    /// # Errors
    ///
    /// The body is no JSON; the method is none.
    pub fn new(
        method: Option<String>,
        url: String,
        body: Option<String>,
        id: Option<String>,
    ) -> Result<Self, RowsError> {
        if let Some(body) = &body {
            serde_json::from_str::<IgnoredAny>(body).map_err(RowsError::Body)?;
        }
        if let Some(method) = &method {
            request::method(method).map_err(|fault| RowsError::Method(fault.to_string()))?;
        }
        let template = |name: &str, text| Template {
            name: name.to_owned(),
            text,
        };
        Ok(Self {
            method,
            url: template("--url", url),
            body: body.map(|body| template("--body", body)),
            id,
            alike: false,
        })
    }

    /// Says where the body stands, for messages.
    #[must_use]
    pub fn body_in(mut self, place: &str) -> Self {
        if let Some(body) = &mut self.body {
            body.name = format!("--body {place}");
        }
        self
    }

    /// Lets all rows ask for the same: no column has to stand in the URL or the body.
    #[must_use]
    pub fn alike(mut self) -> Self {
        self.alike = true;
        self
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
    /// It cannot be read, or names no columns; a column that is named is not there, or twice; what
    /// looks like the place of a column is none.
    pub(crate) fn lines_of<R: Read>(&self, source: R, separator: u8) -> io::Result<Lines<R>> {
        let mut table = csv::ReaderBuilder::new()
            .delimiter(separator)
            .flexible(true)
            .from_reader(Table::new(source, separator));
        let head = table.headers().map_err(broken)?;
        let columns: Vec<String> = head.iter().map(|name| name.trim().to_owned()).collect();
        look_at_head(&columns, separator)?;
        let by_name = |name: &str| {
            let mut same = columns
                .iter()
                .filter(|column| column.eq_ignore_ascii_case(name));
            same.next()
                .map(|column| place(column, &columns, "the table"))
                .transpose()
        };
        let id = match (&self.id, by_name("custom_id")?) {
            (Some(name), _) => Some(place(name, &columns, "--id")?),
            (None, Some(id)) => Some(id),
            (None, None) => by_name("id")?,
        };
        let url = Parts::of(&self.url, &columns)?;
        let body = self.body.as_ref();
        let body = body.map(|text| Parts::of(text, &columns)).transpose()?;
        // A line is one line.
        let body = body.map(Parts::on_one_line);
        let is_used = |column| {
            [Some(&url), body.as_ref()]
                .iter()
                .flatten()
                .any(|parts| parts.has(column))
        };
        let all_alike = !(0..columns.len()).any(is_used);
        let unused = (0..columns.len()).filter(|column| !is_used(*column));
        let texts: Vec<_> = [&self.url].into_iter().chain(&self.body).collect();
        if !self.alike
            && let Some(slip) = unused
                .filter_map(|column| slip(&columns[column], &texts, all_alike))
                .next()
        {
            return Err(slip);
        }
        Ok(Lines {
            name: "the table".to_owned(),
            url,
            body,
            alike: (all_alike && !self.alike).then(|| alike(&columns)),
            method: self.method.clone(),
            id,
            columns: columns.len(),
            table,
            row: csv::ByteRecord::new(),
            line: Vec::new(),
            at: 0,
            written: 0,
            rows: 0,
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
    let Some(rows) = rows else {
        return Ok(Box::new(file));
    };
    let name = path.display().to_string();
    let lines = rows.lines_of(file, separator(path).unwrap_or(b','));
    let mut lines = lines.map_err(|error| named_in(&name, error))?;
    lines.name = name;
    Ok(Box::new(lines))
}

/// A fault of the table of this name.
fn named_in(name: &str, error: io::Error) -> io::Error {
    fault_in(&error).map_or(error, |said| fault(format!("{name}: {said}")))
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
    /// What it is called in messages.
    name: String,
    table: csv::Reader<Table<R>>,
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
    /// How many rows were read so far.
    rows: u64,
    /// What is wrong with a second row, where all would ask for the same.
    alike: Option<String>,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len()
            && !self.next().map_err(|error| named_in(&self.name, error))?
        {
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
            return match self.rows {
                0 => Err(fault(
                    "it has no row below the first one, which names the columns",
                )),
                _ => Ok(false),
            };
        }
        self.rows += 1;
        if let (2.., Some(alike)) = (self.rows, &self.alike) {
            return Err(fault(alike.clone()));
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
            fields.push(
                std::str::from_utf8(field)
                    .map_err(|_| "the row is not UTF-8: save the table as UTF-8".to_owned())?,
            );
        }
        let id = self.id.map(|id| fields[id]);
        if id.is_some_and(|id| id.trim().is_empty()) {
            return Err(
                "the row has no id: every row needs one where a column is named custom_id or id, \
                 or by --id"
                    .to_owned(),
            );
        }
        let line = &mut self.line;
        line.push(b'{');
        if let Some(id) = id {
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

/// The first row has to name columns.
fn look_at_head(columns: &[String], separator: u8) -> io::Result<()> {
    let said = match columns {
        [] => "it is empty: its first row names the columns".to_owned(),
        [only] if separator == b',' && only.contains('\t') => format!(
            "its first row names one column, `{only}`: a table with tabs has a name that ends in .tsv"
        ),
        [only] if separator == b',' && only.contains([';', '|']) => format!(
            "its first row names one column, `{only}`: save it with commas between the fields, or \
             with tabs as .tsv"
        ),
        [only] if separator == b'\t' && only.contains([',', ';']) => format!(
            "its first row names one column, `{only}`: the fields of a .tsv have tabs between \
             them; a table with commas has a name that ends in .csv"
        ),
        _ => return Ok(()),
    };
    Err(fault(said))
}

/// What is wrong with rows that all ask for the same.
fn alike(columns: &[String]) -> String {
    let example = columns.last().map_or("", String::as_str);
    format!(
        "no column stands in --url or --body, so that every row would send the same request: write \
         {{{{{example}}}}} where the text of a row belongs (its first row names {}), or say \
         --same-request",
        named(columns)
    )
}

fn broken(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        csv::ErrorKind::Utf8 { .. } => fault("its first row is not UTF-8: save it as UTF-8"),
        kind => fault(format!("it is no table: {kind:?}")),
    }
}

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
    fn a_column_in_a_url_is_escaped_and_a_table_without_ids_has_none() {
        let rows = rows("/hotels/{{ no }}?q={{q}}", None);
        let lines = lines(&rows, "no,q\n7,a&b c\n");
        assert_eq!(lines[1], "{\"url\":\"/hotels/7?q=a%26b%20c\"}");
    }

    #[test]
    fn a_row_of_another_length_or_without_its_id_is_a_line_that_says_so() {
        let lines = lines(&rows("/{{a}}", None), "a,id\n1\n1,2\n1,2,3\n1, \n");
        assert!(lines[1].contains("the row has 1 fields"), "{}", lines[1]);
        assert_eq!(lines[2], "{\"custom_id\":\"2\",\"url\":\"/1\"}");
        assert!(lines[4].contains("the row has no id"), "{}", lines[4]);
        assert!(lines[3].contains("the row has 3 fields"));
    }

    #[test]
    fn what_cannot_be_filled_in_is_said_with_what_there_is() {
        let fault = |rows: Rows| match rows.lines_of(&b"prompt,lang\n"[..], b',') {
            Ok(_) => panic!("it was filled in"),
            Err(error) => fault_in(&error).expect("a fault"),
        };
        let said = fault(rows("/x", Some("\"{{promt}}\"")));
        assert!(said.contains("no column `promt`") && said.contains("`prompt`, `lang`"));
        let said = fault(rows("/x", Some("{\n  \"é\": \"{{promt}}\"\n}")).body_in("@b.json"));
        assert!(
            said.contains("at --body @b.json, line 2, character 9:"),
            "{said}"
        );
        let said = fault(rows("/x", Some("\"say {prompt}\"")));
        assert!(
            said.contains("(--body, character 6)") && said.contains("{{prompt}}"),
            "{said}"
        );
        let said = fault(rows("/{{lang}}", Some("\"say {prompt}\"")));
        assert!(
            said.contains("`{prompt}` stands for nothing (--body"),
            "{said}"
        );
        let said = fault(rows("/$prompt", None));
        assert!(
            said.contains("`$prompt` stands for nothing (--url, character 2)"),
            "{said}"
        );
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

    fn complaint(rows: &Rows, table: &str) -> Option<String> {
        let read = rows
            .lines_of(table.as_bytes(), b',')
            .and_then(|mut lines| lines.read_to_string(&mut String::new()));
        read.err().map(|error| error.to_string())
    }

    #[test]
    fn rows_that_would_all_ask_for_the_same_are_refused_unless_that_is_meant() {
        let same = rows("/x", Some("\"hello\""));
        assert_eq!(complaint(&same, "id,p\n1,a\n"), None, "one is no mistake");
        let said = complaint(&same, "id,p\n1,a\n2,b\n").expect("refused");
        assert!(
            said.contains("{{p}}") && said.contains("--same-request"),
            "{said}"
        );
        assert_eq!(complaint(&same.alike(), "id,p\n1,a\n2,b\n"), None);
        assert_eq!(complaint(&rows("/{{ p }}", None), "id,p\n1,a\n2,b\n"), None);
    }

    #[test]
    fn a_head_that_names_no_columns_is_refused_with_what_to_do() {
        let good = rows("/{{p}}", None);
        for (table, part) in [
            ("", "it is empty"),
            ("\n\n", "it is empty"),
            ("id,p\n", "no row below"),
            ("id;p\n1;2\n", "commas"),
            ("id\tp\n1\t2\n", ".tsv"),
            ("p,p\n1,2\n", "two columns `p`"),
            ("id,ID,id,p\n1,2,3,4\n", "two columns `id`"),
        ] {
            let said = complaint(&good, table).expect(table);
            assert!(said.contains(part), "{table:?}: {said}");
        }
        assert_eq!(
            complaint(&good, "q,q,p\n1,2,3\n"),
            None,
            "nobody asks for q"
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
