//! `paceline config`: a file of settings, read as `run --config` reads it.

mod file;

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use paceline::{Profile, Settings};
use reqwest::Url;

pub(super) use file::File;
use file::Place;

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
    match File::read(&file) {
        Ok(file) => {
            super::say(file);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("paceline config check: {error}");
            ExitCode::from(super::USAGE)
        }
    }
}

/// The profile that a file of settings describes.
///
/// # Errors
///
/// The file cannot be read, has no profile, or what is wrong in it and where.
pub(super) fn profile_in(path: &Path) -> Result<Profile, String> {
    File::read(path)?
        .settings
        .profile
        .ok_or_else(|| format!("{} has no [profile]", path.display()))
}

/// All settings as a file that means the same, with what each is for.
struct Meaning<'a>(&'a Settings);

impl Display for Meaning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut defaults = Settings::default();
        defaults.max_wait = None;
        let plain = rows(&defaults);
        write!(f, "{}", Vendor(self.0.profile.as_ref()))?;
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

/// Which vendor's API it is.
struct Vendor<'a>(Option<&'a Profile>);

impl Display for Vendor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Whoever reads this has the description: it is the file that was checked.
            Some(profile) if profile.is_described() => {
                writeln!(f, "# profile: {}, as the file describes it", profile.name())
            }
            Some(profile) => writeln!(f, "profile = \"{}\"  # the vendor", profile.name()),
            None => writeln!(
                f,
                "# profile: none; the vendor, known by the host (default)"
            ),
        }
    }
}

impl Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Meaning(&self.settings))?;
        let all = rows(&self.settings);
        for provider in &self.providers {
            writeln!(f, "\n[providers.{}]", toml_key(&provider.name))?;
            write!(f, "{}", provider.place)?;
            if provider.settings.profile.as_ref().map(Profile::name)
                != self.settings.profile.as_ref().map(Profile::name)
            {
                write!(f, "{}", Vendor(provider.settings.profile.as_ref()))?;
            }
            // What it does not say is as above.
            let own = rows(&provider.settings);
            for (Row(name, value, meaning), Row(_, of_all, _)) in own.iter().zip(&all) {
                if let Some(value) = value.as_ref().filter(|_| value != of_all) {
                    writeln!(f, "{name} = {value}  # {meaning}")?;
                }
            }
        }
        Ok(())
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.base_url {
            writeln!(
                f,
                "base_url = \"{url}\"  # its relative urls, and where its keys go"
            )?;
        }
        if !self.hosts.is_empty() {
            let hosts: Vec<_> = self.hosts.iter().map(Url::as_str).collect();
            writeln!(f, "hosts = {hosts:?}  # where else its keys go")?;
        }
        if !self.key_env.is_empty() {
            let is_missing = |name: &&String| std::env::var_os(name.as_str()).is_none();
            let missing: Vec<_> = self.key_env.iter().filter(is_missing).collect();
            let state = match missing.len() {
                0 => "set".to_owned(),
                _ => format!("not set here: {missing:?}"),
            };
            writeln!(f, "key_env = {:?}  # {state}", self.key_env)?;
        }
        if !self.key_file.is_empty() {
            let missing: Vec<_> = self.key_file.iter().filter(|path| !path.exists()).collect();
            let state = match missing.len() {
                0 => "there".to_owned(),
                _ => format!("not there: {missing:?}"),
            };
            writeln!(f, "key_file = {:?}  # {state}", self.key_file)?;
        }
        if let Some(auth) = &self.auth {
            writeln!(f, "auth = \"{auth}\"  # where a key goes")?;
        }
        Ok(())
    }
}

fn toml_key(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
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
            "repeats after refusals of its own",
        ),
        Row(
            "retry.refusals_in_all",
            number(retry.refusals_in_all),
            "repeats after those of a key that is used up, too",
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

  [providers.openai]                     # keys and settings of its own
  base_url = \"https://api.openai.com\"
  key_env = [\"OPENAI_API_KEY\", \"OPENAI_API_KEY_2\"]

  [providers.hotels]
  hosts = [\"app.rakuten.co.jp\"]
  key_file = \"hotel-keys.txt\"            # one a line, beside this file
  auth = \"query:applicationId\"
  ceilings = [\"1/1s+10%\"]

A provider has every setting of the part above that it does not give itself. A
key goes only to its provider's hosts, and never stands in the file.

Exit codes: 0 it can be used, 2 it cannot; what is wrong is on stderr.";

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: &str = "[providers.\"a b\"]\nbase_url = 'https://h/v1'\nhosts = ['http://g:1']\n\
        key_env = 'NOT_SET_ANYWHERE'\nauth = 'query:k'\nprofile = 'openai'\nretry = { errors = 1 }\n";

    #[test]
    fn what_is_printed_is_a_file_that_means_the_same() {
        let text = "ceilings = ['500/1m', '30000 tokens/1m+10%']\nmax_wait = '90s'\n\
            concurrency = { aimd = { start = 7 } }\npace = { interval = { min = '2s', max = '3s' } }\n\
            penalty = { streak = { each = '3s', most = '1m' } }\nretry = { errors = 5, base = '1s' }\n";
        let settings: Settings = toml::from_str(text).expect("good settings");
        let printed = Meaning(&settings).to_string();
        let again: Settings = toml::from_str(&printed).expect(&printed);
        assert_eq!(again, settings, "{printed}");
        let file = File::parse(&format!("{text}{PROVIDER}"), Path::new("")).expect("good settings");
        let printed_again = file.to_string();
        let same = File::parse(&printed_again, Path::new("")).expect(&printed_again);
        assert_eq!(same.to_string(), printed_again);
        assert!(
            printed_again.contains("retry.errors = 1  # repeats after errors\n"),
            "{printed_again}"
        );
        assert!(
            printed_again.contains("not set here: [\"NOT_SET_ANYWHERE\"]"),
            "{printed_again}"
        );
        assert!(printed.contains("retry.errors = 5  # repeats after errors\n"));
        assert!(
            printed
                .contains("retry.refusals = 10  # repeats after refusals of its own (default)\n")
        );
    }
}
