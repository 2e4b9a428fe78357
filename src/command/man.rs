//! `paceline man`: the manual page of the command, or of one of its subcommands.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;

use super::Command;

/// Writes a manual page to stdout.
#[derive(clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Args {
    /// Of which subcommand, such as run or config check [default: of all, in short].
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Vec<String>,
}

/// Writes the page.
pub(crate) fn run(args: &Args) -> ExitCode {
    // Subcommands get their full names when the whole is built.
    let mut whole = Command::command();
    whole.build();
    let mut command = whole;
    for name in &args.subcommand {
        let Some(found) = command.find_subcommand(name).cloned() else {
            let known: Vec<_> = command
                .get_subcommands()
                .map(clap::Command::get_name)
                .collect();
            let known = match &known[..] {
                [] => "it has none".to_owned(),
                known => format!("it is none of {}", known.join(", ")),
            };
            eprintln!("paceline man: there is no subcommand {name:?}: {known}");
            return ExitCode::from(super::USAGE);
        };
        command = found;
    }
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(command)
        .source(concat!("paceline ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .and_then(|()| io::stdout().write_all(&page));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paceline man: cannot write the page: {error}");
            ExitCode::FAILURE
        }
    }
}

const MORE: &str = "\
Example:
  paceline man run | man -l -
  paceline man > ~/.local/share/man/man1/paceline.1
  paceline man run > ~/.local/share/man/man1/paceline-run.1";
