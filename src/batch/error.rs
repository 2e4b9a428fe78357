//! Why a batch cannot start, or had to stop.

use std::io;
use std::path::{Path, PathBuf};

use super::counted::counted;
use super::input;

/// Why a batch cannot start, or had to stop. What it says is enough to act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A key or a setting of the limiter is not valid.
    #[error("{0}")]
    Settings(#[from] crate::Error),
    /// A key is not valid.
    #[error("the key of {name}: {source}")]
    Key {
        /// Where it came from.
        name: String,
        /// What is wrong with it.
        source: crate::Error,
    },
    /// The file of what was learned cannot be read, or is something else.
    #[error("{0}")]
    State(String),
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Runtime(#[source] io::Error),
    /// No requests can be made of the input: it is no text, or its rows do not fit what is asked.
    #[error("{0}")]
    Unfit(String),
    /// The input cannot be opened.
    #[error("cannot open the input {}: {source}{}", path.display(), to_open(source, path))]
    OpenInput {
        /// The input.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The input cannot be read any further.
    #[error("cannot read the input after line {line}: {source}; what has a record is kept")]
    ReadInput {
        /// The last line that was read.
        line: u32,
        /// Why.
        source: io::Error,
    },
    /// An id stands on two lines. Nothing was sent.
    #[error(
        "{} of the input, so nothing was sent: {examples}",
        counted(*count, "[custom_id stands|custom_ids stand] on two lines")
    )]
    Duplicates {
        /// How many second lines there are.
        count: u64,
        /// The first of them, with both line numbers.
        examples: String,
    },
    /// A line is not what it was when the input was checked.
    #[error("line {line} of the input was changed during the run: run the same command again")]
    InputChanged {
        /// The line.
        line: u32,
    },
    /// The first line has a relative URL, and nothing to resolve it against.
    #[error(
        "line {line} has a relative url: say where to with --base-url, \
         for example --base-url https://api.openai.com"
    )]
    NoBase {
        /// The line.
        line: u32,
    },
    /// An option that works on the whole output was given, and there is no file that holds it.
    #[error("{option} needs an output that is a file: give one with -o FILE")]
    NeedsFile {
        /// The option.
        option: &'static str,
    },
    /// Input and output are one file.
    #[error("the input and the output are the same file, {}: give another -o", path.display())]
    SameFile {
        /// That file.
        path: PathBuf,
    },
    /// The output cannot be opened.
    #[error("cannot open the output {}: {source}{}", path.display(), to_open(source, path))]
    OpenOutput {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another run writes to the output.
    #[error("another run writes to {}: wait for it, or give another -o", path.display())]
    Locked {
        /// The output.
        path: PathBuf,
    },
    /// The output holds something else than records.
    #[error(
        "{} is no output of `paceline run` (line {line} is no record), and is left alone: \
         give another -o", path.display()
    )]
    NotAnOutput {
        /// The output.
        path: PathBuf,
        /// The first line that is no record.
        line: u64,
    },
    /// The output belongs to another input.
    #[error(
        "most records of {} belong to no line of the input ({strangers} of {records}): it is the \
         output of another input, or the input was changed; give another -o", path.display()
    )]
    OtherInput {
        /// The output.
        path: PathBuf,
        /// Records that belong to no line.
        strangers: u64,
        /// All records.
        records: u64,
    },
    /// The output cannot be read.
    #[error("cannot read the output {}: {source}", path.display())]
    ReadOutput {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The output takes no more records.
    #[error(
        "cannot write to {}: {source}; every record that was written is whole: {}",
        path.display(), to_do(source)
    )]
    WriteOutput {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everything is recorded, but the output could not be put in order.
    #[error(
        "every record is in {}, but it could not be rewritten: {source}; {}",
        path.display(), to_do(source)
    )]
    Rewrite {
        /// The output.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// Why an input could not be opened.
    pub(crate) fn opening(path: &Path, source: io::Error) -> Self {
        match input::fault_in(&source) {
            Some(fault) => Self::Unfit(fault),
            None => Self::OpenInput {
                path: path.to_owned(),
                source,
            },
        }
    }

    /// Why an input could not be read beyond this line.
    pub(crate) fn reading(line: u32, source: io::Error) -> Self {
        match input::fault_in(&source) {
            Some(fault) => Self::Unfit(fault),
            None => Self::ReadInput { line, source },
        }
    }

    /// Whether the command was used wrongly: nothing was sent, and nothing will be until it is
    /// changed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::ReadInput { .. }
                | Self::InputChanged { .. }
                | Self::WriteOutput { .. }
                | Self::Rewrite { .. }
        )
    }
}

/// What to do where a file cannot be opened.
fn to_open(source: &io::Error, path: &Path) -> String {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match (source.kind(), folder) {
        (io::ErrorKind::NotFound, Some(folder)) if !folder.is_dir() => format!(
            ": there is no folder {}: make it, or name another",
            folder.display()
        ),
        (io::ErrorKind::NotFound, _) => ": is its name right?".to_owned(),
        (io::ErrorKind::PermissionDenied, _) => {
            ": ask for the permission, or name another file".to_owned()
        }
        (io::ErrorKind::IsADirectory, _) => ": it is a folder: name a file in it".to_owned(),
        _ => String::new(),
    }
}

fn to_do(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on the disk and run the same command again"
        }
        io::ErrorKind::BrokenPipe => "whoever read the output has gone",
        _ => "run the same command again when it can be written",
    }
}
