//! The output file while a batch runs: a journal to which one record is appended by one write.
//!
//! Invariants: between two writes it holds whole records only; a run that was killed in the middle
//! of a write leaves at most one torn line at the end, which the next run cuts off before it
//! appends. One process writes at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::ids::LARGEST_OFFSET;
use super::pipe::{Pipe, Sink};
use super::record::{self, Stored};
use super::rewrite::beside;

/// Where records go.
#[derive(Debug)]
pub(crate) struct Journal {
    target: Target,
    /// For messages, and for what lies beside it.
    path: PathBuf,
    length: u64,
    lines: u64,
    /// Whether its end is repaired when it is read.
    repair: bool,
    /// Whether this run made the file, and nobody is to find it so far.
    fresh: bool,
}

#[derive(Debug)]
enum Target {
    /// It can be read again, repaired, locked and replaced.
    File(File),
    /// What is written is gone.
    Stream(Pipe),
}

/// What [`Journal::read_back`] found beside records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Whether a torn line was cut off the end.
    pub(crate) cut: bool,
    /// So many zero bytes were: a file that had grown when the power went may have such an end.
    pub(crate) zeros: u64,
    /// Whole lines that are no records.
    pub(crate) lines: u64,
}

impl Journal {
    /// Standard output: nothing to read back.
    pub(crate) fn stdout() -> Self {
        Self::new(Target::Stream(Pipe::new(Sink::Stdout)), "stdout".into())
    }

    /// An output that is read and stays as it is; none if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub(crate) fn look(path: &Path) -> Result<Option<Self>, Error> {
        match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
                let mut journal = Self::new(Target::File(file), path.to_owned());
                journal.repair = false;
                Ok(Some(journal))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::OpenOutput {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn new(target: Target, path: PathBuf) -> Self {
        Self {
            target,
            path,
            length: 0,
            lines: 0,
            repair: true,
            fresh: false,
        }
    }

    /// Opens or creates an output, and locks it against other runs.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or another run has it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::OpenOutput {
            path: path.to_owned(),
            source,
        };
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            let made = options.clone().create_new(true).open(path);
            let fresh = made.is_ok();
            let file = match made {
                Err(_) => options.create(true).truncate(false).open(path),
                made => made,
            };
            let file = match file {
                // A pipe or a device may be for writing only.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    let only = OpenOptions::new().append(true).open(path);
                    only.map_err(|_| fail(error))?
                }
                file => file.map_err(fail)?,
            };
            if !file.metadata().map_err(fail)?.is_file() {
                let pipe = Pipe::new(Sink::Stream(file));
                return Ok(Self::new(Target::Stream(pipe), path.to_owned()));
            }
            lock(&file, path)?;
            // Behind a symbolic link the file itself is what is replaced at the end.
            let path = path.canonicalize().map_err(fail)?;
            // A run that ended between opening and locking has put another file in its place.
            if is_at(&file, &path).map_err(fail)? {
                let mut journal = Self::new(Target::File(file), path);
                journal.fresh = fresh;
                return Ok(journal);
            }
        }
    }

    /// The file, if it is one that can be read back.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.target {
            Target::File(file) => Some(file),
            Target::Stream(_) => None,
        }
    }

    /// Leaves the file where it is though nothing is in it: the run has come to an end.
    pub(crate) fn keep(&mut self) {
        self.fresh = false;
    }

    /// Goes on with the file that has taken this one's place, which is locked already.
    pub(crate) fn replace(&mut self, file: File) {
        self.target = Target::File(file);
    }

    /// The pipe, if it is no file.
    pub(crate) fn pipe(&self) -> Option<&Pipe> {
        match &self.target {
            Target::Stream(pipe) => Some(pipe),
            Target::File(_) => None,
        }
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many whole lines it has.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether `input` is the same file.
    pub(crate) fn is_file(&self, input: &Path) -> bool {
        self.file()
            .is_some_and(|file| is_at(file, input).unwrap_or(false))
    }

    /// Reads every record with its offset, and repairs the end. Records are appended afterwards.
    ///
    /// # Errors
    ///
    /// It cannot be read or repaired, or it is no output of a batch: then it is left as it is.
    pub(crate) fn read_back(
        &mut self,
        mut found: impl FnMut(&Stored<'_>, u64) -> Result<(), Error>,
    ) -> Result<Damage, Error> {
        let Target::File(file) = &self.target else {
            return Ok(Damage::default());
        };
        let fail = |source| Error::ReadOutput {
            path: self.path.clone(),
            source,
        };
        let strange = |line| Error::NotAnOutput {
            path: self.path.clone(),
            line,
        };
        let mut lines = LineAt::new(file);
        let (mut damage, mut records, mut whole) = (Damage::default(), 0_u64, true);
        let mut first_bad = None;
        while let Some(line) = lines.next(self.length).map_err(fail)? {
            let read = line.len() as u64;
            whole = line.ends_with(b"\n");
            let zeros = line.iter().rev().take_while(|byte| **byte == 0).count();
            let rest = &line[..line.len() - zeros];
            if let Some(stored) = Stored::read(line) {
                found(&stored, self.length)?;
                records += 1;
            } else if whole {
                damage.lines += 1;
                first_bad.get_or_insert(self.lines + 1);
            } else if rest.is_empty() || record::is_torn(rest) {
                (damage.cut, damage.zeros) = (!rest.is_empty(), zeros as u64);
                break;
            } else {
                return Err(strange(self.lines + 1));
            }
            self.lines += 1;
            self.length += read;
        }
        if let (0, Some(line)) = (records, first_bad) {
            return Err(strange(line));
        }
        let mut file = file;
        if self.repair && (damage.cut || damage.zeros > 0) {
            file.set_len(self.length).map_err(fail)?;
        }
        file.seek(SeekFrom::Start(self.length)).map_err(fail)?;
        if self.repair && !whole && !damage.cut && damage.zeros == 0 {
            file.write_all(b"\n").map_err(fail)?;
            self.length += 1;
        }
        Ok(damage)
    }

    /// Appends a record with its newline by one write; answers where it begins.
    ///
    /// # Errors
    ///
    /// It could not be written as a whole: then nothing of it is left.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<u64, Error> {
        let offset = self.length;
        let written = match &mut self.target {
            Target::File(_) if offset + record.len() as u64 > LARGEST_OFFSET => {
                Err(io::ErrorKind::FileTooLarge.into())
            }
            Target::File(file) => file.write_all(record),
            Target::Stream(pipe) => pipe.append(record),
        };
        if let Err(source) = written {
            if let Target::File(file) = &mut self.target {
                // What does not work here is repaired by the next run.
                file.set_len(offset).ok();
            }
            return Err(self.unwritable(source));
        }
        self.length += record.len() as u64;
        self.lines += 1;
        Ok(offset)
    }

    /// The record that begins there, with its newline.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(crate) fn line_at(&self, offset: u64) -> Result<Vec<u8>, Error> {
        let fail = |source| Error::ReadOutput {
            path: self.path.clone(),
            source,
        };
        let Some(mut file) = self.file() else {
            return Err(fail(io::ErrorKind::NotSeekable.into()));
        };
        let line = LineAt::new(file).read(offset).map(<[u8]>::to_vec);
        // Where the next record goes.
        file.seek(SeekFrom::Start(self.length)).map_err(fail)?;
        line.map_err(fail)
    }

    /// Sees to it that the records survive a loss of power.
    ///
    /// # Errors
    ///
    /// The disk does not take them.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let synced = self.file().map_or(Ok(()), File::sync_data);
        if_it_can(synced).map_err(|source| self.unwritable(source))
    }

    /// The error of an output that takes no more.
    pub(crate) fn unwritable(&self, source: io::Error) -> Error {
        Error::WriteOutput {
            path: self.path.clone(),
            source,
        }
    }
}

/// A run that could not begin leaves no file behind.
impl Drop for Journal {
    fn drop(&mut self) {
        if self.fresh && self.length == 0 {
            // The lock is still held: nobody else writes to it.
            std::fs::remove_file(&self.path).ok();
            std::fs::remove_file(beside(&self.path, "inflight")).ok();
        }
    }
}

/// Reads the line that begins at an offset. Neighbours come from the same read.
#[derive(Debug)]
pub(crate) struct LineAt<'a> {
    file: &'a File,
    buffer: Vec<u8>,
    start: u64,
}

impl<'a> LineAt<'a> {
    /// A reader of lines of this file.
    pub(crate) fn new(file: &'a File) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// The line that begins at `offset`, with its newline.
    ///
    /// # Errors
    ///
    /// Of the file; it ends before the line does.
    pub(crate) fn read(&mut self, offset: u64) -> io::Result<&[u8]> {
        let line = self.next(offset)?.filter(|line| line.ends_with(b"\n"));
        line.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The same; none at the end of the file. Its last line may have no newline.
    ///
    /// # Errors
    ///
    /// Of the file.
    fn next(&mut self, offset: u64) -> io::Result<Option<&[u8]>> {
        let held = self.start..self.start + self.buffer.len() as u64;
        let mut from = 0;
        let mut end = None;
        if held.contains(&offset) {
            from = (offset - self.start) as usize;
            end = memchr::memchr(b'\n', &self.buffer[from..]);
        }
        if end.is_none() {
            self.start = offset;
            self.buffer.clear();
            from = 0;
            let mut file = self.file;
            file.seek(SeekFrom::Start(offset))?;
            while end.is_none() {
                let known = self.buffer.len();
                if file.take(CHUNK as u64).read_to_end(&mut self.buffer)? == 0 {
                    return Ok(Some(&self.buffer[..]).filter(|rest| !rest.is_empty()));
                }
                end = memchr::memchr(b'\n', &self.buffer[known..]).map(|at| known + at);
            }
        }
        let end = end.expect("the loop above ends with one");
        Ok(Some(&self.buffer[from..=from + end]))
    }
}

/// Passes over that a file system has no way to do it.
pub(crate) fn if_it_can(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Locks an output for this process.
#[expect(
    clippy::incompatible_msrv,
    reason = "the command may need a newer Rust than the library"
)]
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Locked {
            path: path.to_owned(),
        }),
        // A file system without locks: better an unlocked run than none.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(source)) => Err(Error::OpenOutput {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Whether the open file is what lies at `path` now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        there => there?,
    };
    let here = file.metadata()?;
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

/// Whether the open file is what lies at `path` now. A locked file cannot be replaced here, so
/// it is enough that there is one.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    Ok(path.exists())
}

/// One read of the file system: large enough to be cheap per line, small beside 8 MiB.
const CHUNK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::record::{Ending, Record, RequestId};
    use super::*;

    fn record(custom_id: &str) -> Vec<u8> {
        let mut line = Vec::new();
        let ending = Ending::Answer {
            status: 200,
            request_id: None,
            form: super::super::content::Form::Json,
            flaw: None,
            body: b"{\"a\":1}",
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

    type Found = (Journal, Vec<(String, u64)>, Damage);

    fn read_back(path: &Path) -> Result<Found, Error> {
        let mut journal = Journal::open(path)?;
        let mut records = Vec::new();
        let damage = journal.read_back(|stored, offset| {
            records.push((stored.custom_id.to_string(), offset));
            Ok(())
        })?;
        Ok((journal, records, damage))
    }

    fn holding(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("out.jsonl");
        fs::write(&path, content).expect("written");
        (dir, path)
    }

    #[test]
    fn whatever_was_torn_off_the_next_record_stands_on_its_own_line() {
        let (a, b, c) = (record("a"), record("b"), record("c"));
        let whole = [&a[..], &b[..]].concat();
        for length in a.len()..=whole.len() {
            let (_dir, path) = holding(&whole[..length]);
            let (mut journal, _, damage) = read_back(&path).expect("an output");
            journal.append(&c).expect("room");
            drop(journal);
            // Only the newline is missing: the record counts.
            let b_counts = length >= whole.len() - 1;
            assert_eq!(damage.cut, !b_counts && length > a.len());
            let expected = if b_counts {
                [&a[..], &b, &c].concat()
            } else {
                [&a[..], &c].concat()
            };
            assert_eq!(fs::read(&path).expect("read"), expected, "cut at {length}");
        }
    }

    #[test]
    fn a_file_of_something_else_is_left_as_it_is() {
        for content in [
            "my notes",
            "my notes\n",
            "{\"a\":1}\n",
            "notes\n{\"id\":\"torn",
        ] {
            let (_dir, path) = holding(content.as_bytes());
            let error = read_back(&path).expect_err("no output");
            assert!(
                error.is_usage() && error.to_string().contains("left alone"),
                "{error}"
            );
            assert_eq!(fs::read(&path).expect("read"), content.as_bytes());
        }
    }

    #[test]
    fn a_damaged_line_hides_no_other() {
        let (a, b) = (record("a"), record("b"));
        let (_dir, path) = holding(&[&a[..], b"{\"id\":\"torn{\"id\":\"x\"}\n", &b[..]].concat());
        let (journal, records, damage) = read_back(&path).expect("an output");
        assert_eq!(
            records
                .iter()
                .map(|(id, _)| id.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!((damage.lines, journal.lines()), (1, 3));
    }

    #[test]
    fn lines_are_read_at_their_offsets_in_any_order() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("out.jsonl");
        let mut journal = Journal::open(&path).expect("new");
        let long = "x".repeat(3 * CHUNK);
        let mut offsets = Vec::new();
        for id in ["a", &long, "b"] {
            offsets.push((journal.append(&record(id)).expect("room"), record(id)));
        }
        let mut lines = LineAt::new(journal.file().expect("a file"));
        for at in [2, 0, 1, 1, 0, 2] {
            let (offset, line) = &offsets[at];
            assert_eq!(lines.read(*offset).expect("there"), line);
        }
        assert!(lines.read(u64::from(u32::MAX)).is_err());
    }

    #[test]
    fn a_second_run_on_the_same_output_is_refused() {
        let (_dir, path) = holding(b"");
        let first = Journal::open(&path).expect("free");
        assert!(matches!(Journal::open(&path), Err(Error::Locked { .. })));
        drop(first);
        assert!(Journal::open(&path).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_said_to_be_full() {
        let mut journal = Journal::open(Path::new("/dev/full")).expect("a device");
        // A stream is written on a thread of its own: what goes wrong there is told a little later.
        let error = (0..5000)
            .find_map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                journal.append(&record("a")).err()
            })
            .expect("full");
        assert!(
            !error.is_usage() && error.to_string().contains("make room"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_input_is_known_under_another_name() {
        let (dir, path) = holding(b"");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        let journal = Journal::open(&path).expect("free");
        assert!(journal.is_file(&link) && !journal.is_file(dir.path()));
    }
}
