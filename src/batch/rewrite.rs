//! The output at a clean end: one record a line, in the order of the input.
//!
//! A new file takes the old one's place as a whole. Whenever it stops before that, the journal is
//! as it was, and the next run does it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::error::Error;
use super::ids::{self, Index, Place};
use super::output::{self, Journal, LineAt};
use super::record::Stored;
use super::resume::{self, Earlier};

/// Puts the output in order if it is not: drops records that were replaced, and with `ordered`
/// sorts them. Answers whether it had to.
///
/// # Errors
///
/// The new file cannot be written; the old one is as it was.
pub(crate) fn rewrite(
    journal: &Journal,
    index: &mut Index,
    earlier: &Earlier,
    ordered: bool,
) -> Result<bool, Error> {
    let Some(old) = journal.file() else { return Ok(false) };
    let strangers = strangers(journal, index, earlier);
    if !is_needed(journal, index, earlier, strangers, ordered) {
        return Ok(false);
    }
    if strangers == 0 {
        index.forget_ids();
    }
    let fail = |source| Error::Rewrite { path: journal.path().to_owned(), source };
    let temporary = beside(journal.path(), "rewrite");
    let written = write(&temporary, old, index, earlier.moved > 0, strangers > 0)
        .and_then(|new| put_in_place(new, &temporary, journal.path()));
    if let Err(source) = written {
        fs::remove_file(&temporary).ok();
        return Err(fail(source));
    }
    Ok(true)
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
    let live = index.by_line().filter(|&place| index.state(place).has_record()).count() as u64;
    journal.lines() - live
}

fn is_needed(
    journal: &Journal,
    index: &Index,
    earlier: &Earlier,
    strangers: u64,
    ordered: bool,
) -> bool {
    let (mut live, mut last, mut sorted) = (0, None, true);
    for place in index.by_line().filter(|&place| index.state(place).has_record()) {
        sorted &= last < Some(index.offset(place));
        last = Some(index.offset(place));
        live += 1;
    }
    let surplus = if index.is_stream() {
        strangers > 0
    } else {
        journal.lines() != live + strangers
    };
    surplus || earlier.moved > 0 || (ordered && !sorted)
}

fn write(
    path: &Path,
    old: &File,
    index: &Index,
    renumber: bool,
    strangers: bool,
) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(true).open(path)?;
    file.set_permissions(old.metadata()?.permissions())?;
    let mut new = BufWriter::with_capacity(256 << 10, file);
    let mut lines = LineAt::new(old);
    for place in index.by_line().filter(|&place| index.state(place).has_record()) {
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
            if Stored::read(line).is_some_and(|stored| resume::is_stranger(index, &stored, offset)) {
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

fn put_in_place(new: File, temporary: &Path, path: &Path) -> io::Result<()> {
    new.sync_all()?;
    // Whoever waits for the old file finds the new one taken too, until this run has ended.
    output::lock(&new, path).map_err(io::Error::other)?;
    fs::rename(temporary, path)?;
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
