//! `paceline config`: a file of settings, read as `run --config` reads it.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use paceline::{Limiter, Settings};

/// Looks at a file of settings.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Say what a file of settings means, or what is wrong with it.
    #[command(after_help = MORE)]
    Check {
        /// The file, in TOML, as `paceline run --config FILE` takes it.
        file: PathBuf,
    },
}

/// Says what the file means.
pub(crate) fn run(args: Args) -> ExitCode {
    let What::Check { file } = args.what;
    match settings_in(&file) {
        Ok(settings) => {
            print!("{}", Meaning(&settings));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("paceline config check: {error}");
            ExitCode::from(super::USAGE)
        }
    }
}

/// The settings in a file, checked. A batch has time: without `max_wait` it waits for ever.
///
/// # Errors
///
/// The file cannot be read, or what is wrong in it and where.
pub(super) fn settings_in(path: &Path) -> Result<Settings, String> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings in {shown}: {error}"))?;
    let mut settings: Settings = toml::from_str(&text).map_err(|error| {
        let error = error.to_string();
        format!("{shown} cannot be used: {}", error.trim_end())
    })?;
    let says = toml::from_str::<toml::Table>(&text).is_ok_and(|file| file.contains_key("max_wait"));
    settings.max_wait = settings.max_wait.filter(|_| says);
    // The limiter knows the range of every setting, those of its parts too.
    Limiter::builder()
        .settings(settings.clone())
        .build()
        .map_err(|error| format!("{shown} cannot be used: {error}"))?;
    Ok(settings)
}

/// All settings as a file that means the same, with what each is for.
struct Meaning<'a>(&'a Settings);

impl Display for Meaning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut defaults = Settings::default();
        defaults.max_wait = None;
        let plain = rows(&defaults);
        for (row, plain) in rows(self.0).iter().zip(plain) {
            let Row(name, value, meaning) = row;
            let same = if *value == plain.1 { " (default)" } else { "" };
            match value {
                Some(value) => writeln!(f, "{name} = {value}  # {meaning}{same}")?,
                None => writeln!(f, "# {name}: none; {meaning}{same}")?,
            }
        }
        Ok(())
    }
}

/// A setting: its name, its value as a file has it, and what it is for.
struct Row(&'static str, Option<String>, &'static str);

fn rows(settings: &Settings) -> Vec<Row> {
    let retry = &settings.retry;
    let listed = |list: &[paceline::Ceiling]| {
        let list: Vec<_> = list
            .iter()
            .map(|ceiling| format!("\"{ceiling}\""))
            .collect();
        Some(format!("[{}]", list.join(", ")))
    };
    vec![
        Row("ceilings", listed(&settings.ceilings), "never more per key"),
        Row(
            "shared_ceilings",
            listed(&settings.shared_ceilings),
            "never more over all keys",
        ),
        Row(
            "key_concurrency",
            number(settings.key_concurrency),
            "the most in flight per key",
        ),
        Row(
            "max_concurrency",
            settings.max_concurrency.and_then(number),
            "the most in flight over all keys",
        ),
        Row(
            "concurrency",
            toml_of(&settings.concurrency),
            "what sets how many are in flight",
        ),
        Row(
            "pace",
            toml_of(&settings.pace),
            "what sets the pace where the server reports no quota",
        ),
        Row(
            "max_wait",
            settings.max_wait.and_then(duration),
            "how long a request may wait, retries included",
        ),
        Row("queue", number(settings.queue), "the most that may wait"),
        Row(
            "penalty",
            toml_of(&settings.penalty),
            "what a refusal without a hint costs its key",
        ),
        Row(
            "hint_scope",
            toml_of(&settings.hint_scope),
            "whom a whole-second hint stops",
        ),
        Row(
            "longest_park",
            duration(settings.longest_park),
            "the longest block on a server's word",
        ),
        Row("retry.errors", number(retry.errors), "repeats after errors"),
        Row(
            "retry.refusals",
            number(retry.refusals),
            "repeats after refusals",
        ),
        Row(
            "retry.base",
            retry.base.and_then(duration),
            "the first delay after an error; none: half the usual response time",
        ),
        Row(
            "retry.factor",
            number(retry.factor),
            "what each further delay is multiplied by",
        ),
        Row("retry.cap", duration(retry.cap), "the longest delay"),
        Row(
            "retry.jitter",
            number(retry.jitter),
            "the share by which delays are lengthened at random",
        ),
        Row(
            "retry.budget_share",
            number(retry.budget_share),
            "repeats after errors per success",
        ),
        Row(
            "retry.budget_per_second",
            number(retry.budget_per_second),
            "repeats after errors a second, whatever succeeds",
        ),
    ]
}

fn number(value: impl fmt::Debug) -> Option<String> {
    Some(format!("{value:?}"))
}

fn duration(value: Duration) -> Option<String> {
    Some(format!("\"{}\"", humantime::format_duration(value)))
}

/// A value with parts, on one line.
fn toml_of(value: &impl serde::Serialize) -> Option<String> {
    let value = toml::Value::try_from(value).ok()?;
    Some(value.to_string())
}

const MORE: &str = "\
It prints every setting with its value and its meaning; what it prints is such a
file itself.

Example:
  paceline config check limits.toml
where limits.toml is, for example:
  ceilings = [\"500/1m\", \"30000 tokens/1m\"]
  max_concurrency = 20
  retry = { errors = 5 }

Exit codes: 0 it can be used, 2 it cannot; what is wrong is on stderr.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_file_that_means_the_same() {
        let text = "ceilings = ['500/1m', '30000 tokens/1m+10%']\nmax_wait = '90s'\n\
            concurrency = { aimd = { start = 7 } }\npace = { interval = { min = '2s', max = '3s' } }\n\
            penalty = { streak = { each = '3s', most = '1m' } }\nretry = { errors = 5, base = '1s' }\n";
        let settings: Settings = toml::from_str(text).expect("good settings");
        let printed = Meaning(&settings).to_string();
        let again: Settings = toml::from_str(&printed).expect(&printed);
        assert_eq!(again, settings, "{printed}");
        assert!(printed.contains("retry.errors = 5  # repeats after errors\n"));
        assert!(printed.contains("retry.refusals = 10  # repeats after refusals (default)\n"));
    }
}
