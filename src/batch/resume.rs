//! What is left to do: the lines of an input beside the records of earlier runs.
//!
//! Progress is a set of ids, never a count or an offset. Where lines without a `custom_id` moved
//! because others were put in or taken out above them, their records are found again, so that
//! nothing is sent twice for it.

use std::io::{self, BufReader};
use std::path::Path;

use super::error::Error;
use super::ids::{self, Id, Index, Place, State};
use super::input::{Line, Lines, Named};
use super::output::{Damage, Journal};
use super::record::Stored;
use super::rows::{self, Rows};

/// What earlier runs have left in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Earlier {
    /// All records.
    pub(crate) records: u64,
    /// Records of lines whose text is gone. They are dropped at the end.
    pub(crate) edited: u64,
    /// Records whose `custom_id` the input does not have. They are kept.
    pub(crate) strangers: u64,
    pub(crate) damage: Damage,
}

/// Reads every line of a file and knows it by its id.
///
/// # Errors
///
/// The file cannot be read, or an id stands on two lines.
pub(crate) fn index(path: &Path, rows: Option<&Rows>) -> Result<Index, Error> {
    let mut lines = lines_of(path, rows)?;
    let (mut index, mut buffer) = (Index::of_file(), Vec::new());
    while let Some(line) = next(&mut lines, &mut buffer)? {
        match line {
            Line::Blank => index.push_blank(),
            Line::Text(text) => index.push(Named::of(lines.number(), &buffer[text]).id),
            Line::TooLong => index.push(Named::made(lines.number(), &buffer).id),
        }
    }
    let (mut count, mut pairs) = (0, Vec::new());
    index.seal(|first, second| {
        count += 1;
        if pairs.len() < EXAMPLES {
            pairs.push((first, second));
        }
    });
    if count > 0 {
        return Err(Error::Duplicates {
            count,
            examples: describe(path, rows, &pairs)?,
        });
    }
    Ok(index)
}

/// Notes the last record of every line. Of a stream, records come before their lines.
///
/// # Errors
///
/// The output cannot be read, or belongs to another input.
pub(crate) fn read_back(
    index: &mut Index,
    journal: &mut Journal,
    stream: bool,
) -> Result<Earlier, Error> {
    let (mut earlier, mut shift, mut lost) = (Earlier::default(), Shift::default(), 0);
    let damage = journal.read_back(|stored, offset| {
        earlier.records += 1;
        let id = Id::of(&stored.custom_id);
        let mut place = if stream {
            Some(index.find_or_add(id))
        } else {
            index.find(id)
        };
        if let (None, Some((line, content))) = (place, ids::parse_line_id(&stored.custom_id)) {
            place = shift.find(line, content, |id| index.find(id));
            match place {
                Some(_) => index.on_moved(),
                None => {
                    earlier.edited += 1;
                    lost += u64::from(stored.state() == State::Succeeded);
                }
            }
        } else if place.is_none() {
            earlier.strangers += 1;
        }
        if let Some(place) = place {
            index.set(place, stored.state(), offset);
        }
        Ok(())
    })?;
    earlier.damage = damage;
    // What is dropped at the end was paid for: a few edited lines are meant, most of them are not.
    let kept = earlier.records - earlier.edited;
    if lost > kept.max(FEW) {
        return Err(Error::OtherInput {
            path: journal.path().to_owned(),
            strangers: earlier.edited,
            records: earlier.records,
        });
    }
    Ok(earlier)
}

/// What a line of a stream turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Seen for the first time in this stream.
    Here(Place),
    /// Its id stands on this earlier line too.
    Duplicate(u32),
}

/// Finds or makes the entry of a line of a stream.
pub(crate) fn arrive(index: &mut Index, shift: &mut Shift, line: u32, named: &Named) -> Arrival {
    let mut place = index.find(named.id);
    if let (None, Some((_, content))) = (place, ids::parse_line_id(&named.text)) {
        let free = |id| index.find(id).filter(|&place| index.line(place) == 0);
        place = shift.find(line, content, free);
        if place.is_some() {
            index.on_moved();
        }
    }
    let place = place.unwrap_or_else(|| index.find_or_add(named.id));
    match index.line(place) {
        0 => {
            index.set_line(place, line);
            Arrival::Here(place)
        }
        first => Arrival::Duplicate(first),
    }
}

/// Finds lines that moved: their neighbours moved just as far.
#[derive(Debug)]
pub(crate) struct Shift {
    by: i64,
    searches_left: u32,
}

impl Default for Shift {
    fn default() -> Self {
        Self {
            by: 0,
            searches_left: SEARCHES,
        }
    }
}

impl Shift {
    fn find(
        &mut self,
        line: u32,
        content: u64,
        mut look_up: impl FnMut(Id) -> Option<Place>,
    ) -> Option<Place> {
        let mut at = |by: i64| {
            let line = u32::try_from(i64::from(line) + by)
                .ok()
                .filter(|&line| line > 0)?;
            look_up(Id::of(&ids::line_id(line, content)))
        };
        if let Some(place) = at(self.by) {
            return Some(place);
        }
        self.searches_left = self.searches_left.checked_sub(1)?;
        for step in 1..=FARTHEST {
            for by in [self.by + step, self.by - step] {
                if let Some(place) = at(by) {
                    (self.by, self.searches_left) = (by, SEARCHES);
                    return Some(place);
                }
            }
        }
        None
    }
}

/// Tells whether a record stands for a stranger that is kept.
pub(crate) fn is_stranger(index: &Index, stored: &Stored<'_>, offset: u64) -> bool {
    if ids::parse_line_id(&stored.custom_id).is_some() {
        return false;
    }
    match index.find(Id::of(&stored.custom_id)) {
        None => true,
        Some(place) => index.line(place) == 0 && index.offset(place) == offset,
    }
}

/// Reads a line, and says where reading failed.
pub(crate) fn next<R: io::BufRead>(
    lines: &mut Lines<R>,
    buffer: &mut Vec<u8>,
) -> Result<Option<Line>, Error> {
    let line = lines.number();
    lines
        .next(buffer)
        .map_err(|source| Error::reading(line, source))
}

fn lines_of(
    path: &Path,
    rows: Option<&Rows>,
) -> Result<Lines<BufReader<Box<dyn io::Read + Send>>>, Error> {
    let source = rows::open(path, rows).map_err(|source| Error::opening(path, source))?;
    Ok(Lines::new(BufReader::with_capacity(CHUNK, source)))
}

/// The ids of duplicate lines, which the index does not have as text.
fn describe(path: &Path, rows: Option<&Rows>, pairs: &[(u32, u32)]) -> Result<String, Error> {
    let mut lines = lines_of(path, rows)?;
    let (mut buffer, mut texts) = (Vec::new(), Vec::new());
    while let (true, Some(line)) = (texts.len() < pairs.len(), next(&mut lines, &mut buffer)?) {
        if let (Line::Text(text), Some((first, _))) = (
            line,
            pairs.iter().find(|(_, second)| *second == lines.number()),
        ) {
            let id = Named::of(lines.number(), &buffer[text]).text;
            texts.push(format!("`{id}` on lines {first} and {}", lines.number()));
        }
    }
    Ok(texts.join(", "))
}

/// How many duplicates a message names.
const EXAMPLES: usize = 5;

/// Up to this many results may be dropped because their lines were edited, however few are left.
const FEW: u64 = 10;

/// How far from where it is expected a moved line is looked for: one edit seldom puts in more.
const FARTHEST: i64 = 1_000;

/// Wide searches in a row that may fail: each takes 2,000 look-ups, so all of them a second.
const SEARCHES: u32 = 1_000;

const CHUNK: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::record::{Ending, Record, RequestId};
    use super::*;

    /// Input and output as texts, and what is found of them.
    struct Case {
        _dir: tempfile::TempDir,
        index: Index,
        earlier: Earlier,
    }

    fn case(lines: &[&str], records: &[(u32, &str)]) -> Result<Case, Error> {
        let dir = tempfile::tempdir().expect("a folder");
        let (input, output) = (dir.path().join("in"), dir.path().join("out"));
        fs::write(&input, lines.join("\n")).expect("written");
        let mut index = index(&input, None)?;
        let mut journal = Journal::open(&output)?;
        for (line, text) in records {
            journal.append(&record(&Named::of(*line, text.as_bytes()).text))?;
        }
        drop(journal);
        let mut journal = Journal::open(&output)?;
        let earlier = read_back(&mut index, &mut journal, false)?;
        Ok(Case {
            _dir: dir,
            index,
            earlier,
        })
    }

    fn record(custom_id: &str) -> Vec<u8> {
        let mut line = Vec::new();
        let ending = Ending::Answer {
            status: 200,
            request_id: None,
            form: super::super::content::Form::Json,
            flaw: None,
            body: b"1",
        };
        Record {
            id: RequestId(1),
            custom_id,
            ending,
            attempts: 1,
            key: None,
            waited: Duration::ZERO,
            took: Duration::ZERO,
            last: true,
        }
        .write(&mut line);
        line
    }

    fn states(case: &Case) -> Vec<State> {
        case.index
            .by_line()
            .map(|place| case.index.state(place))
            .collect()
    }

    use State::{Blank, Open, Succeeded};

    #[test]
    fn lines_with_a_record_are_done_wherever_it_stands() {
        let case = case(
            &[
                r#"{"custom_id":"a"}"#,
                "",
                r#"{"custom_id":"b"}"#,
                "{}",
                r#"{"custom_id":"c"}"#,
            ],
            &[
                (9, r#"{"custom_id":"c"}"#),
                (4, "{}"),
                (1, r#"{"custom_id":"old"}"#),
            ],
        )
        .expect("fine");
        assert_eq!(states(&case), [Open, Blank, Open, Succeeded, Succeeded]);
        assert_eq!(case.earlier.strangers, 1);
    }

    #[test]
    fn a_line_put_in_at_the_top_is_the_only_one_left_to_do() {
        let old: Vec<String> = (0..50).map(|n| format!("{{\"n\":{n}}}")).collect();
        let mut lines = vec!["{\"new\":1}"];
        lines.extend(old.iter().map(String::as_str));
        let records: Vec<(u32, &str)> = old
            .iter()
            .enumerate()
            .map(|(at, text)| (at as u32 + 1, text.as_str()))
            .collect();
        let case = case(&lines, &records).expect("fine");
        assert_eq!(states(&case)[0], Open);
        assert!(states(&case)[1..].iter().all(|state| *state == Succeeded));
        assert_eq!((case.index.moved(), case.earlier.edited), (50, 0));
    }

    #[test]
    fn an_edited_line_is_to_be_done_again_and_its_neighbours_are_not() {
        let case = case(
            &["{\"n\":1}", "{\"n\":20}", "{\"n\":3}"],
            &[(1, "{\"n\":1}"), (2, "{\"n\":2}"), (3, "{\"n\":3}")],
        )
        .expect("fine");
        assert_eq!(states(&case), [Succeeded, Open, Succeeded]);
        assert_eq!((case.index.moved(), case.earlier.edited), (0, 1));
    }

    #[test]
    fn an_output_of_another_input_is_refused_before_anything_is_lost() {
        let old: Vec<String> = (0..20).map(|n| format!("{{\"n\":{n}}}")).collect();
        let records: Vec<(u32, &str)> = old
            .iter()
            .enumerate()
            .map(|(at, text)| (at as u32 + 1, text.as_str()))
            .collect();
        let error = case(&["{\"other\":1}"], &records).err().expect("refused");
        assert!(
            error.is_usage() && error.to_string().contains("20 of 20"),
            "{error}"
        );
    }

    #[test]
    fn duplicates_are_named_with_both_lines() {
        let lines = [
            r#"{"custom_id":"a"}"#,
            "",
            r#"{"custom_id":"a","url":"/x"}"#,
        ];
        let error = case(&lines, &[]).err().expect("refused");
        assert!(
            error.to_string().contains("`a` on lines 1 and 3"),
            "{error}"
        );
    }

    #[test]
    fn a_custom_id_that_looks_like_the_id_of_a_line_is_told_apart_from_that_line() {
        let made = Named::of(1, b"{}").text;
        let clash = format!("{{\"custom_id\":\"{made}\"}}");
        let error = case(&["{}", &clash], &[]).err().expect("refused");
        assert!(error.to_string().contains("on lines 1 and 2"), "{error}");
        assert!(case(&["{\"n\":1}", &clash], &[]).is_ok());
    }

    #[test]
    fn lines_of_a_stream_meet_their_records_and_their_duplicates() {
        let (mut index, mut shift) = (Index::of_stream(), Shift::default());
        for text in ["{\"n\":1}", "{\"custom_id\":\"a\"}"] {
            let place = index.find_or_add(Named::of(1, text.as_bytes()).id);
            index.set(place, Succeeded, 10);
        }
        let mut arrive = |line, text: &str| {
            let arrival = arrive(
                &mut index,
                &mut shift,
                line,
                &Named::of(line, text.as_bytes()),
            );
            let state = match arrival {
                Arrival::Here(place) => Some(index.state(place)),
                Arrival::Duplicate(_) => None,
            };
            (arrival, state)
        };
        assert!(matches!(
            arrive(1, "{\"custom_id\":\"b\"}"),
            (Arrival::Here(_), Some(Open))
        ));
        assert!(matches!(
            arrive(2, "{\"n\":1}"),
            (Arrival::Here(_), Some(Succeeded))
        ));
        assert!(matches!(
            arrive(3, "{\"custom_id\":\"a\"}"),
            (Arrival::Here(_), Some(Succeeded))
        ));
        assert_eq!(arrive(4, "{\"custom_id\":\"b\"}").0, Arrival::Duplicate(1));
        assert_eq!(arrive(5, "{\"custom_id\":\"a\"}").0, Arrival::Duplicate(3));
    }
}
