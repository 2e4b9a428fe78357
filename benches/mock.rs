//! `paceline mock` in a process of its own.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The process, and the URL that it answers at. Whoever opened it ends it.
pub(crate) fn open(scenario: &Path, arguments: &[&str]) -> Result<(Child, String), Box<dyn Error>> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .arg("mock")
        .arg(scenario)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    let told = child.stdout.take().ok_or("stdout was piped")?;
    BufReader::new(told).read_line(&mut line)?;
    Ok((child, line.trim().to_owned()))
}
