//! The subcommands of `paceline`: one file each, with its arguments and what it prints.

mod chart;
mod completions;
mod config;
mod demo;
mod files;
mod history;
mod inspect;
mod keys;
mod man;
mod mock;
mod run;
mod shared;
mod simulate;
mod table;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Runs calls to other people's HTTP APIs as fast as those APIs allow.
///
/// Results go to stdout or to a file, everything else to stderr. Exit codes: 0 all done and all
/// succeeded, 1 something failed or is left to do, 2 wrong usage, 129, 130 or 143 stopped by a signal.
#[derive(clap::Parser)]
#[command(name = "paceline", version, arg_required_else_help = true)]
pub(crate) enum Command {
    /// Send the requests of a file, once each.
    Run(Box<run::Args>),
    /// Look at a file of settings.
    Config(config::Args),
    /// Show what paceline does, with no key and no network.
    Demo(demo::Args),
    /// Show what paceline reads in a response.
    Inspect(inspect::Args),
    /// Serve a virtual provider over HTTP, for practice and tests.
    Mock(mock::Args),
    /// Run scenarios in virtual time.
    Simulate(simulate::Args),
    /// Show what happened hour by hour, from the file of run --state.
    History(history::Args),
    /// Write a completion script for a shell.
    Completions(completions::Args),
    /// Write the manual page.
    Man(man::Args),
}

impl Command {
    /// Runs the subcommand that was asked for.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Run(args) => run::run(*args),
            Self::Config(args) => config::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Mock(args) => mock::run(args),
            Self::Simulate(args) => simulate::run(args),
            Self::History(args) => history::run(args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

/// Writes a result to stdout. That whoever read it has gone, as `head` does, is no error: it has what
/// it wanted, and what else is to be done is done.
fn say(text: impl Display) {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("paceline: cannot write to stdout: {error}");
        }
        _ => {}
    }
}

/// Exit code for wrong usage or an unusable configuration, as clap uses it.
const USAGE: u8 = 2;
