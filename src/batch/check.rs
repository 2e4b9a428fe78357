//! A look at a batch without sending anything or touching a file: what is wrong, and what is left.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;

use crate::Ceiling;
use crate::feedback::{self, Dimension};

use super::error::Error;
use super::hosts::{self, Hosts};
use super::ids::Index;
use super::options::{Input, Options};
use super::output::Journal;
use super::request::Request;
use super::resume;
use super::run;
use super::source::{Seen, SharedIndex};
use super::state::StateFile;
use super::summary::{Grouped, Rounded};

/// What a run would do.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Check {
    /// Lines with something on them.
    pub lines: u64,
    /// Of these, lines that earlier runs have done for good.
    pub done_before: u64,
    /// What would be sent where.
    pub hosts: BTreeMap<String, Share>,
    /// Lines that are no requests.
    pub bad: u64,
    /// The first of them, and what is wrong.
    pub faults: Vec<String>,
    /// What else is worth knowing.
    pub notices: Vec<String>,
}

/// What would be sent to one host.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Share {
    /// Requests.
    pub requests: u64,
    /// Tokens that calls of language models take, as far as their size tells.
    pub tokens: u64,
    /// How many keys go there.
    pub keys: usize,
    /// The least time that the ceilings set for it leave; none if there are none.
    pub least: Option<Duration>,
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
        Input::File(path) if !stream => resume::index(path, options.rows.as_ref())?,
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
    if let Some(path) = &options.state {
        StateFile::open(path).map_err(Error::State)?;
    }
    let index = SharedIndex::new(index);
    let seen = Arc::new(Seen::default());
    let mut work = run::read(options, stream, &index, &seen)?;
    let mut check = Check::default();
    while let Some(lines) = work.blocking_recv() {
        for work in lines? {
            let line = index.lock().line(work.place);
            match work.request {
                Ok(request) => {
                    let first = seen.first.get().expect("it is told before any request");
                    check.add(options, first, &request);
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
    seen.tell(&mut |notice| check.notices.push(notice));
    Ok(check)
}

impl Check {
    fn add(&mut self, options: &Options, first: &Url, request: &Request) {
        let (name, keys, settings) = hosts::place_of(options, first, &request.url);
        let share = self.hosts.entry(name).or_default();
        share.requests += 1;
        share.keys = keys;
        let body = request.body.as_deref().unwrap_or_default();
        if let Some(estimate) = feedback::estimate(request.url.path(), body) {
            share.tokens += u64::from(estimate.input_tokens) + u64::from(estimate.output_tokens);
        }
        let per_key = settings
            .ceilings
            .iter()
            .map(|ceiling| (ceiling, keys.max(1)));
        let ceilings = per_key.chain(settings.shared_ceilings.iter().map(|one| (one, 1)));
        share.least = ceilings
            .filter_map(|(ceiling, keys)| share.at_least(ceiling, keys))
            .max();
    }
}

impl Share {
    /// The least time under one ceiling that so many keys have each.
    fn at_least(&self, ceiling: &Ceiling, keys: usize) -> Option<Duration> {
        let amount = match ceiling.dimension() {
            Dimension::Requests => self.requests,
            Dimension::Tokens => self.tokens,
            _ => return None,
        };
        let a_window = ceiling.amount().saturating_mul(keys as u64);
        let windows = amount.saturating_sub(1) / a_window;
        let nanos = ceiling.window().as_nanos().saturating_mul(windows.into());
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12}  {}", "lines", Grouped(self.lines))?;
        writeln!(f, "{:<12}  {}", "done before", Grouped(self.done_before))?;
        let requests = self.hosts.values().map(|share| share.requests).sum();
        writeln!(f, "{:<12}  {}", "to send", Grouped(requests))?;
        for (host, share) in &self.hosts {
            let keys = match share.keys {
                0 => "without a key".to_owned(),
                1 => "with the key".to_owned(),
                keys => format!("with {keys} keys"),
            };
            let requests = Grouped(share.requests);
            writeln!(f, "{:<12}  {requests} to {host}, {keys}", "")?;
            if share.tokens > 0 {
                let tokens = Grouped(share.tokens);
                writeln!(
                    f,
                    "{:<12}  about {tokens} tokens, as far as its texts tell",
                    ""
                )?;
            }
            match share.least {
                Some(least) => {
                    let least = Rounded(least);
                    writeln!(
                        f,
                        "{:<12}  at least {least} at the ceilings that are set",
                        ""
                    )?;
                }
                None => writeln!(
                    f,
                    "{:<12}  no ceiling is set: as fast as the API turns out to allow",
                    ""
                )?,
            }
        }
        writeln!(f, "{:<12}  {}", "bad lines", Grouped(self.bad))?;
        for fault in &self.faults {
            writeln!(f, "{:<12}  {fault}", "")?;
        }
        for notice in &self.notices {
            writeln!(f, "{:<12}  {notice}", "note")?;
        }
        Ok(())
    }
}

/// How many bad lines are named.
const EXAMPLES: usize = 10;
