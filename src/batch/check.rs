//! A look at a batch without sending anything or touching a file: what is wrong, and what is left.

use std::collections::BTreeMap;
use std::fmt;

use super::error::Error;
use super::hosts::Hosts;
use super::ids::Index;
use super::options::{Input, Options};
use super::output::Journal;
use super::resume;
use super::run;
use super::source::SharedIndex;
use super::summary::Grouped;

/// What a run would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Check {
    /// Lines with something on them.
    pub lines: u64,
    /// Of these, lines that earlier runs have done for good.
    pub done_before: u64,
    /// Requests that would be sent, by host.
    pub hosts: BTreeMap<String, u64>,
    /// Lines that are no requests.
    pub bad: u64,
    /// The first of them, and what is wrong.
    pub faults: Vec<String>,
}

/// Reads the whole input and what there is of the output.
///
/// # Errors
///
/// As [`run`](run::run); nothing was changed.
pub fn check(options: &Options) -> Result<Check, Error> {
    Hosts::check(options)?;
    let stream = options.input.is_stream();
    let mut index = match &options.input {
        Input::File(path) if !stream => resume::index(path)?,
        _ => Index::of_stream(),
    };
    let journal = options
        .output
        .as_deref()
        .map(Journal::look)
        .transpose()?
        .flatten();
    if let Some(mut journal) = journal {
        run::refuse_same_file(&journal, &options.input)?;
        resume::read_back(&mut index, &mut journal, stream)?;
    }
    let index = SharedIndex::new(index);
    let mut work = run::read(options, stream, &index)?;
    let mut check = Check::default();
    while let Some(lines) = work.blocking_recv() {
        for work in lines? {
            let line = index.lock().line(work.place);
            match work.request {
                Ok(request) => {
                    let host = request.url.host_str().unwrap_or_default().to_owned();
                    *check.hosts.entry(host).or_default() += 1;
                }
                Err(fault) if fault.wants_base() => return Err(Error::NoBase { line }),
                Err(fault) => {
                    check.bad += 1;
                    if check.faults.len() < EXAMPLES {
                        check.faults.push(format!("line {line}: {fault}"));
                    }
                }
            }
        }
    }
    let counts = index.lock().counts();
    (check.lines, check.done_before) = (counts.lines, counts.last);
    Ok(check)
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12}  {}", "lines", Grouped(self.lines))?;
        writeln!(f, "{:<12}  {}", "done before", Grouped(self.done_before))?;
        let requests = self.hosts.values().sum();
        writeln!(f, "{:<12}  {}", "requests", Grouped(requests))?;
        for (host, count) in &self.hosts {
            writeln!(f, "{:<12}  {host}  {}", "  to", Grouped(*count))?;
        }
        writeln!(f, "{:<12}  {}", "bad lines", Grouped(self.bad))?;
        for fault in &self.faults {
            writeln!(f, "  {fault}")?;
        }
        Ok(())
    }
}

/// How many bad lines are named.
const EXAMPLES: usize = 10;
