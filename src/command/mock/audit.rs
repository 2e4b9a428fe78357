//! The log of `paceline mock`: one line a request, in the order in which they were decided.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use paceline::Time;

/// A file to which each request adds a line.
pub(super) struct Audit(Mutex<LineWriter<File>>);

impl Audit {
    /// Opens the file anew.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path)
            .map_err(|error| format!("cannot write --log {}: {error}", path.display()))?;
        Ok(Self(Mutex::new(LineWriter::new(file))))
    }

    /// Adds a line. Line breaks and tabs in an id would break the format, so they are replaced.
    pub(super) fn note(&self, key: usize, id: &str, status: u16, now: Time) {
        let id = id.replace(['\t', '\n', '\r'], " ");
        let line = format!("{:.6}\t{key}\t{id}\t{status}\n", now.as_secs_f64());
        let mut file = self
            .0
            .lock()
            .expect("nothing panics while it holds the log");
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("paceline mock: cannot write to the log: {error}");
        }
    }
}
