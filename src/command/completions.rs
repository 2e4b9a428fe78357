//! `paceline completions`: what a shell needs to complete subcommands and options.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Command;

/// Writes a completion script to stdout.
#[derive(clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Args {
    /// For which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script.
pub(crate) fn run(args: &Args) -> ExitCode {
    let mut script = Vec::new();
    let mut command = Command::command();
    clap_complete::generate(args.shell, &mut command, "paceline", &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paceline completions: cannot write the script: {error}");
            ExitCode::FAILURE
        }
    }
}

const MORE: &str = "\
Example:
  paceline completions bash > ~/.local/share/bash-completion/completions/paceline
  paceline completions zsh > ~/.zfunc/_paceline      (with ~/.zfunc in $fpath)
  paceline completions fish > ~/.config/fish/completions/paceline.fish";
