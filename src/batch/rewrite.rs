//! The output at a clean end: one record a line, in the order of the input.
//!
//! A new file takes the old one's place as a whole. Whenever it stops before that, the journal is
//! as it was, and the next run does it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memchr::memmem;

use super::error::Error;
use super::ids::{self, Index, Place};
use super::output::{self, Journal, LineAt};
use super::record::Stored;
use super::resume::{self, Earlier};

/// Puts the output in order if it is not: drops records that were replaced, and with `ordered`
/// sorts them. It gives up when `stop` is set.
///
/// # Errors
///
/// The new file cannot be written; the old one is as it was.
pub(crate) fn rewrite(
    journal: &mut Journal,
    index: &mut Index,
    earlier: &Earlier,
    ordered: bool,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let Some(old) = journal.file() else {
        return Ok(());
    };
    let strangers = strangers(journal, index, earlier);
    if !is_needed(journal, index, strangers, ordered) {
        return Ok(());
    }
    if strangers == 0 {
        index.forget_ids();
    }
    let temporary = beside(journal.path(), "rewrite");
    let written = write(
        &temporary,
        old,
        index,
        index.moved() > 0,
        strangers > 0,
        stop,
    )
    .and_then(|new| put_in_place(new, &temporary, journal.path()));
    match written {
        Ok(new) => {
            journal.replace(new);
            Ok(())
        }
        Err(source) => {
            fs::remove_file(&temporary).ok();
            Err(Error::Rewrite {
                path: journal.path().to_owned(),
                source,
            })
        }
    }
}

/// A hidden file that belongs to an output, in the same folder.
pub(crate) fn beside(output: &Path, purpose: &str) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!(".{name}.{purpose}"))
}

/// How many records are kept though no line has their id.
fn strangers(journal: &Journal, index: &Index, earlier: &Earlier) -> u64 {
    if !index.is_stream() {
        return earlier.strangers;
    }
    // Of a stream it is known only now which records found no line.
    let live = index
        .by_line()
        .filter(|&place| index.state(place).has_record())
        .count() as u64;
    journal.lines() - live
}

fn is_needed(journal: &Journal, index: &Index, strangers: u64, ordered: bool) -> bool {
    let (mut live, mut last, mut sorted) = (0, None, true);
    for place in index
        .by_line()
        .filter(|&place| index.state(place).has_record())
    {
        sorted &= last < Some(index.offset(place));
        last = Some(index.offset(place));
        live += 1;
    }
    let surplus = if index.is_stream() {
        strangers > 0
    } else {
        journal.lines() != live + strangers
    };
    surplus || index.moved() > 0 || (ordered && !sorted)
}

fn write(
    path: &Path,
    old: &File,
    index: &Index,
    renumber: bool,
    strangers: bool,
    stop: &AtomicBool,
) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.set_permissions(old.metadata()?.permissions())?;
    let mut new = BufWriter::with_capacity(256 << 10, file);
    let mut lines = LineAt::new(old);
    for place in index
        .by_line()
        .filter(|&place| index.state(place).has_record())
    {
        if stop.load(Relaxed) {
            return Err(io::Error::other("it was interrupted"));
        }
        let line = lines.read(index.offset(place))?;
        match renumbered(line, index, place).filter(|_| renumber) {
            Some(line) => new.write_all(&line)?,
            None => new.write_all(line)?,
        }
    }
    if strangers {
        let (mut offset, end) = (0, old.metadata()?.len());
        while offset < end {
            let line = lines.read(offset)?;
            if Stored::read(line).is_some_and(|stored| resume::is_stranger(index, &stored, offset))
            {
                new.write_all(line)?;
            }
            offset += line.len() as u64;
        }
    }
    new.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The record with the number that its line has now, if it names another.
fn renumbered(line: &[u8], index: &Index, place: Place) -> Option<Vec<u8>> {
    let stored = Stored::read(line)?;
    let (number, content) = ids::parse_line_id(&stored.custom_id)?;
    if number == index.line(place) {
        return None;
    }
    let field = format!("\"custom_id\":\"{}\"", stored.custom_id);
    let at = memmem::find(line, field.as_bytes())?;
    let id = ids::line_id(index.line(place), content);
    let field_now = format!("\"custom_id\":\"{id}\"");
    Some([&line[..at], field_now.as_bytes(), &line[at + field.len()..]].concat())
}

fn put_in_place(new: File, temporary: &Path, path: &Path) -> io::Result<File> {
    output::if_it_can(new.sync_all())?;
    // Whoever waits for the old file finds the new one taken too, until this run has ended.
    output::lock(&new, path).map_err(io::Error::other)?;
    fs::rename(temporary, path)?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        output::if_it_can(File::open(folder)?.sync_all())?;
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::ids::{Id, State};
    use super::super::input::Named;
    use super::super::record::{Ending, Record, RequestId};
    use super::*;

    fn record(custom_id: &str, status: u16, last: bool) -> Vec<u8> {
        let mut line = Vec::new();
        let ending = Ending::Answer {
            status,
            request_id: None,
            form: super::super::content::Form::Json,
            flaw: None,
            body: b"{}",
        };
        Record {
            id: RequestId(1),
            custom_id,
            ending,
            attempts: 1,
            key: None,
            waited: Duration::ZERO,
            took: Duration::ZERO,
            last,
        }
        .write(&mut line);
        line
    }

    /// Runs a rewrite of these records for lines with these ids; answers the ids that are left.
    fn rewritten(lines: &[&str], records: &[Vec<u8>], ordered: bool) -> (bool, Vec<String>) {
        let dir = tempfile::tempdir().expect("a folder");
        let (input, output) = (dir.path().join("in"), dir.path().join("out"));
        fs::write(&input, lines.join("\n")).expect("written");
        fs::write(&output, records.concat()).expect("written");
        let mut index = resume::index(&input, None).expect("an input");
        let mut journal = Journal::open(&output).expect("an output");
        let earlier = resume::read_back(&mut index, &mut journal, false).expect("an output");
        let never = AtomicBool::new(false);
        rewrite(&mut journal, &mut index, &earlier, ordered, &never).expect("room");
        assert!(!beside(&output, "rewrite").exists());
        let text = fs::read_to_string(&output).expect("read");
        let changed = text.as_bytes() != records.concat();
        let ids = text.lines().map(|line| {
            let stored = Stored::read(line.as_bytes()).expect("a record");
            format!("{} {:?}", stored.custom_id, stored.state())
        });
        (changed, ids.collect())
    }

    const AB: [&str; 2] = [r#"{"custom_id":"a"}"#, r#"{"custom_id":"b"}"#];

    #[test]
    fn the_last_record_of_a_line_is_the_one_that_stays() {
        let records = [
            record("a", 429, false),
            record("b", 200, true),
            record("a", 200, true),
        ];
        let (changed, ids) = rewritten(&AB, &records, false);
        assert_eq!(
            (changed, ids),
            (true, vec!["a Succeeded".into(), "b Succeeded".into()])
        );
    }

    #[test]
    fn order_costs_a_rewrite_only_where_it_is_wanted_and_missing() {
        let records = [record("b", 200, true), record("a", 404, true)];
        let (changed, ids) = rewritten(&AB, &records, false);
        assert_eq!(
            (changed, ids),
            (false, vec!["b Succeeded".into(), "a Failed".into()])
        );
        let (changed, ids) = rewritten(&AB, &records, true);
        assert_eq!(
            (changed, ids),
            (true, vec!["a Failed".into(), "b Succeeded".into()])
        );
        let records = [record("a", 200, true), record("b", 200, true)];
        assert!(!rewritten(&AB, &records, true).0);
    }

    #[test]
    fn records_of_other_inputs_are_kept_and_damaged_lines_are_not() {
        let records = [
            record("elsewhere", 200, true),
            b"{\"id\":\"torn\n".to_vec(),
            record("b", 200, true),
            record("a", 200, true),
        ];
        let (changed, ids) = rewritten(&AB, &records, false);
        let expected = ["a Succeeded", "b Succeeded", "elsewhere Succeeded"];
        assert_eq!((changed, ids), (true, expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_moved_line_gets_its_new_number_and_an_edited_one_loses_its_old_record() {
        let old: Vec<Vec<u8>> = ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]
            .iter()
            .zip(1..)
            .map(|(text, line)| record(&Named::of(line, text.as_bytes()).text, 200, true))
            .collect();
        let lines = ["{\"n\":0}", "{\"n\":1}", "{\"n\":20}", "{\"n\":3}"];
        let (changed, ids) = rewritten(&lines, &old, false);
        let expected = [(2, "{\"n\":1}"), (4, "{\"n\":3}")]
            .map(|(line, text)| format!("{} Succeeded", Named::of(line, text.as_bytes()).text));
        assert_eq!((changed, ids), (true, expected.to_vec()));
    }

    #[test]
    fn records_of_a_stream_come_in_the_order_of_its_lines() {
        let dir = tempfile::tempdir().expect("a folder");
        let output = dir.path().join("out");
        let mut journal = Journal::open(&output).expect("new");
        let mut index = Index::of_stream();
        for (id, line) in [("gone", 0), ("b", 2), ("a", 1)] {
            let offset = journal.append(&record(id, 200, true)).expect("room");
            let place = index.find_or_add(Id::of(id));
            index.set_line(place, line);
            index.set(place, State::Succeeded, offset);
        }
        let never = AtomicBool::new(false);
        rewrite(&mut journal, &mut index, &Earlier::default(), true, &never).expect("room");
        let text = fs::read_to_string(&output).expect("read");
        let ids: Vec<_> = text
            .lines()
            .map(|line| {
                Stored::read(line.as_bytes())
                    .expect("a record")
                    .custom_id
                    .into_owned()
            })
            .collect();
        assert_eq!(ids, ["a", "b", "gone"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_behind_a_link_is_replaced_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().expect("a folder");
        let (output, link) = (dir.path().join("out"), dir.path().join("link"));
        fs::write(
            &output,
            [record("b", 200, true), record("a", 200, true)].concat(),
        )
        .expect("");
        fs::set_permissions(&output, fs::Permissions::from_mode(0o640)).expect("set");
        symlink(&output, &link).expect("linked");
        let input = dir.path().join("in");
        fs::write(&input, AB.join("\n")).expect("written");
        let mut index = resume::index(&input, None).expect("an input");
        let mut journal = Journal::open(&link).expect("an output");
        let earlier = resume::read_back(&mut index, &mut journal, false).expect("an output");
        rewrite(
            &mut journal,
            &mut index,
            &earlier,
            true,
            &AtomicBool::new(false),
        )
        .expect("room");
        assert!(link.is_symlink());
        let mode = fs::metadata(&output).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // Whoever had waited for the old file does not get into the new one either.
        assert!(matches!(Journal::open(&link), Err(Error::Locked { .. })));
    }
}
