//! `paceline run`: the requests of a file, once each.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use http::HeaderName;
use paceline::batch::{self, Error, Input, Options, Provider, Replays, Show};
use paceline::{Ceiling, Mode, Profile, Settings};
use reqwest::Url;

use super::keys::{self, Auth};
use super::table::Table;
use super::{config, files};

/// Sends the requests of a file, once each, as fast as the API allows.
#[derive(clap::Args)]
#[command(after_help = MORE)]
pub(crate) struct Args {
    /// The requests, one a line, or a table (.csv, .tsv) with --url and --body; `-` is stdin; a
    /// name that ends in .gz is gzip, in .zst zstd.
    input: PathBuf,
    /// Where results go [default: stdout, which cannot be resumed].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What relative urls are resolved against.
    #[arg(long, value_name = "URL", value_parser = web_address)]
    base_url: Option<Url>,
    #[command(flatten)]
    table: Table,
    /// Take a key from this environment variable; repeat it for more keys.
    #[arg(long, value_name = "NAME")]
    key_env: Vec<String>,
    /// Take keys from this file, one a line; may be repeated.
    #[arg(long, value_name = "PATH")]
    key_file: Vec<PathBuf>,
    /// Where a key goes: bearer, header:NAME or query:NAME [default: where the API of --base-url
    /// or --profile takes it, else bearer].
    #[arg(long, value_name = "PLACE")]
    auth: Option<Auth>,
    /// Which vendor's API it is [default: by its host]; a wrong name lists those that are known.
    #[arg(long, value_name = "VENDOR", value_parser = profile)]
    profile: Option<Profile>,
    /// Settings, and providers with keys of their own, in TOML; options win over it; paceline config
    /// check --help shows one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Resolve relative urls against the base_url of this provider of the --config.
    #[arg(long, value_name = "NAME", requires = "config")]
    provider: Option<String>,
    /// Never more than this per key, such as 500/1m or 1/1s+10%; may be repeated.
    #[arg(long, value_name = "RATE")]
    rate: Vec<Ceiling>,
    /// Never more than this in flight in all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrency: Option<u32>,
    /// Never more than this in flight per key.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    key_concurrency: Option<u32>,
    #[command(flatten)]
    shared: super::shared::Shared,
    /// Send each request at most so often, failed connections not counted [default: 4 for errors,
    /// 11 for refusals, and without a bound while a provider is away].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_attempts: Option<u16>,
    /// How long one attempt may take, its answer included [default: until the server has been
    /// silent for 10 minutes].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Wait so long for a provider that cannot be reached or answers nothing but errors, then stop;
    /// the same command goes on [default: 1h; 30s if it has never served a request].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    max_outage: Option<Duration>,
    /// Give up a request after this [default: never].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    max_wait: Option<Duration>,
    /// Keep what is learned about the API in this file, and begin with what is in it: the next run
    /// starts without the refusals of this one.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Sort the output as the input at the end.
    #[arg(long)]
    ordered: bool,
    /// Do what failed for good again too.
    #[arg(long)]
    retry_failed: bool,
    /// What may be sent again after the server may have processed it: auto takes idempotent
    /// methods and generation calls of language models; never sends nothing twice, not even in
    /// another run.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Replay::Auto)]
    replay: Replay,
    /// The header by which the server knows a request that it has seen.
    #[arg(long, value_name = "NAME")]
    idempotency_header: Option<HeaderName>,
    /// Hold nothing back and repeat nothing; count what would have been, for the summary.
    #[arg(long)]
    observe: bool,
    /// What is shown meanwhile: auto shows a bar on a terminal and nothing in a pipe.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Progress::Auto)]
    progress: Progress,
    /// How the summary on stderr looks.
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Table)]
    summary: Form,
    /// How long what is in flight may take after Ctrl-C or SIGTERM; a second one stops at once.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1s",
        value_parser = humantime::parse_duration
    )]
    grace: Duration,
    /// Do only the first N of the lines that are left to do: a trial before the whole.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Send nothing more once the answers of this run say (`usage`) that they took N tokens, with what
    /// is in flight reckoned by their mean. Streamed answers are not counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Go on though the first 20 answers all turn their requests away in the same way (401, 403, 404,
    /// 405, a redirect, a web page), or no key has credit left [default: stop and say what to do].
    #[arg(long)]
    keep_going: bool,
    /// Check everything, send nothing, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the batch and prints its summary.
pub(crate) fn run(args: Args) -> ExitCode {
    let (dry_run, form) = (args.dry_run, args.summary);
    let options = match args.options() {
        Ok(options) => options,
        Err(error) => return usage(&error),
    };
    if dry_run {
        return check(&options);
    }
    // One thread: see `batch::run`.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(batch::run(options));
            // A thread that still reads from a terminal would keep the process alive.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Error::Runtime(error)),
    };
    match outcome {
        Ok(outcome) => {
            match form {
                Form::Table => match batch::columns() {
                    Some(columns) => eprint!("{}", outcome.summary.on_screen(columns)),
                    None => eprint!("{}", outcome.summary),
                },
                Form::Json => match serde_json::to_string(&outcome.summary) {
                    Ok(line) => eprintln!("{line}"),
                    Err(error) => eprintln!("paceline run: cannot print the summary: {error}"),
                },
            }
            ExitCode::from(outcome.exit_code())
        }
        Err(error) => usage(&error),
    }
}

fn check(options: &Options) -> ExitCode {
    match batch::check(options) {
        Ok(check) => {
            super::say(&check);
            ExitCode::from(u8::from(check.bad > 0))
        }
        Err(error) => usage(&error),
    }
}

fn usage(error: &dyn Display) -> ExitCode {
    eprintln!("paceline run: {error}");
    ExitCode::from(super::USAGE)
}

impl Args {
    fn options(self) -> Result<Options, String> {
        let file = match &self.config {
            Some(path) => config::File::read(path)?,
            None => config::File::default(),
        };
        if let Some(path) = &self.output {
            refuse_name(path)?;
        }
        let (providers, named) = self.providers(&file)?;
        let base_url = self.base(&file)?;
        let rows = self.table.rows(&self.input)?;
        let settings = self.over(file.settings);
        let in_flight = self.max_concurrency.is_some() || self.key_concurrency.is_some();
        let shared = self.shared.sharing(in_flight)?;
        let keys = self.keys(base_url.as_ref())?;
        let input = if self.input == Path::new("-") {
            Input::Stdin
        } else {
            Input::File(self.input)
        };
        let mut options = Options::new(input);
        options.settings = settings;
        options.shared = shared;
        options.shared_scope = self.shared.scope();
        options.keys = keys.iter().map(|(key, _)| key.clone()).collect();
        options.providers = providers;
        let keys = keys.into_iter().chain(named.into_iter().flatten());
        options.key_names = keys.map(|(key, name)| (key.fingerprint(), name)).collect();
        options.max_attempts = self.max_attempts;
        options.timeout = self.timeout;
        options.max_outage = self.max_outage;
        options.output = self.output;
        options.base_url = base_url;
        options.rows = rows;
        options.profile = self.profile;
        options.replay = self.replay.into();
        options.idempotency_header = self.idempotency_header;
        options.state = self.state;
        options.ordered = self.ordered;
        options.retry_failed = self.retry_failed;
        options.limit = self.limit;
        options.max_tokens = self.max_tokens;
        options.keep_going = self.keep_going;
        options.grace = self.grace;
        options.progress = self.progress.into();
        Ok(options)
    }

    /// Lays the options over settings of a file, or over the defaults.
    fn over(&self, mut settings: Settings) -> Settings {
        if self.config.is_none() || self.max_wait.is_some() {
            settings.max_wait = self.max_wait;
        }
        if self.observe {
            settings.mode = Mode::Observe;
        }
        settings.ceilings.extend(&self.rate);
        settings.max_concurrency = self.max_concurrency.or(settings.max_concurrency);
        settings.key_concurrency = self.key_concurrency.unwrap_or(settings.key_concurrency);
        if let Some(attempts) = self.max_attempts {
            settings.retry.refusals = attempts - 1;
            settings.retry.refusals_in_all = attempts - 1;
            settings.retry.errors = attempts - 1;
        }
        let sockets = files::room_for_sockets();
        settings.max_concurrency = Some(
            settings
                .max_concurrency
                .map_or(sockets, |most| most.min(sockets)),
        );
        settings
    }

    /// The providers of the file of settings, and what relative urls are resolved against.
    fn providers(&self, file: &config::File) -> Result<(Vec<Provider>, Vec<keys::Named>), String> {
        let (mut providers, mut named) = (Vec::new(), Vec::new());
        for provider in &file.providers {
            let place = &provider.place;
            let origins = place.origins();
            let by_host = || Profile::by_host(origins.first()?.host_str()?);
            let profile = provider.settings.profile.clone().or_else(by_host);
            let by_profile = || Auth::of(&profile.clone().unwrap_or_default());
            let auth = place.auth.clone().unwrap_or_else(by_profile);
            let keys = keys::read(&place.key_env, &place.key_file, &auth)
                .map_err(|error| format!("provider {}: {error}", provider.name))?;
            providers.push(Provider {
                name: provider.name.clone(),
                origins,
                keys: keys.iter().map(|(key, _)| key.clone()).collect(),
                profile,
                settings: self.over(provider.settings.clone()),
            });
            named.push(keys);
        }
        Ok((providers, named))
    }

    /// What relative urls are resolved against: --base-url, else the provider that is named, else
    /// the only one.
    fn base(&self, file: &config::File) -> Result<Option<Url>, String> {
        if self.base_url.is_some() {
            return Ok(self.base_url.clone());
        }
        let Some(name) = &self.provider else {
            return Ok(match &file.providers[..] {
                [only] => only.place.base_url.clone(),
                _ => None,
            });
        };
        let known = file
            .providers
            .iter()
            .find(|provider| provider.name == *name);
        let known = known.ok_or_else(|| {
            let names: Vec<_> = file.providers.iter().map(|one| one.name.as_str()).collect();
            format!(
                "--provider {name} is none of the file's: {}",
                names.join(", ")
            )
        })?;
        let base = known.place.base_url.clone();
        base.map(Some)
            .ok_or_else(|| format!("provider {name} has no base_url for relative urls"))
    }

    /// The keys of the command line.
    fn keys(&self, base: Option<&Url>) -> Result<keys::Named, String> {
        let by_host = || Profile::by_host(base?.host_str()?);
        let profile = self.profile.clone().or_else(by_host).unwrap_or_default();
        let auth = self.auth.clone().unwrap_or_else(|| Auth::of(&profile));
        keys::read(&self.key_env, &self.key_file, &auth)
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Replay {
    Auto,
    Always,
    Never,
}

impl From<Replay> for Replays {
    fn from(replay: Replay) -> Self {
        match replay {
            Replay::Auto => Self::Auto,
            Replay::Always => Self::Always,
            Replay::Never => Self::Never,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Progress {
    Auto,
    Always,
    Never,
    Json,
}

impl From<Progress> for Show {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Auto => Self::Auto,
            Progress::Always => Self::Always,
            Progress::Never => Self::Never,
            Progress::Json => Self::Json,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    Table,
    Json,
}

/// An output whose name promises something else than lines of JSON.
fn refuse_name(path: &Path) -> Result<(), String> {
    let end = path.extension().unwrap_or_default().to_string_lossy();
    if !OTHER_FORMS.contains(&end.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(format!(
        "the results are lines of JSON, and -o {} would say that they are something else: give it a \
         name such as {}",
        path.display(),
        path.with_extension("jsonl").display()
    ))
}

/// An address that requests can be sent to: anything else would fail every line for good.
fn web_address(text: &str) -> Result<Url, String> {
    let hint =
        || format!("{text:?} is no web address: write it as https://HOST or http://HOST:PORT");
    let url = Url::parse(text).map_err(|_| hint())?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_web.then_some(url).ok_or_else(hint)
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::by_name(name).ok_or_else(|| match Profile::nearest(name) {
        Some(meant) => format!("no vendor has this name: is `{meant}` meant?"),
        None => {
            let names: Vec<_> = Profile::names().collect();
            format!("it is none of {}", names.join(", "))
        }
    })
}

/// Endings of names of files that are packed, or tables.
const OTHER_FORMS: [&str; 8] = ["gz", "zst", "bz2", "xz", "zip", "csv", "tsv", "xlsx"];

const MORE: &str = "\
Each line of INPUT is one request in the form of OpenAI's Batch API,
{\"custom_id\", \"method\", \"url\", \"body\"}, or of Anthropic's, {\"custom_id\", \"params\"}.
The url may be relative to --base-url; headers, priority, tenant, group, bucket
and cost may be added. The output has one line a request, with its response or
its error; \"final\": false marks what the same command does when it is run again.

Each row of a table (.csv, .tsv; the first row names the columns) asks for --url
with --body, in which {{column}} stands for what the row has there.

Keys go to the host of --base-url, else of the first request of the input, and
nowhere else: --dry-run says to which, and sends nothing.

Example:
  paceline run questions.jsonl -o answers.jsonl \\
      --base-url https://api.openai.com --key-env OPENAI_API_KEY
  paceline run prompts.csv -o answers.jsonl \\
      --base-url https://api.openai.com --key-env OPENAI_API_KEY \\
      --url /v1/responses --body '{\"model\": \"gpt-5\", \"input\": \"{{prompt}}\"}'
  paceline run hotels.jsonl -o prices.jsonl --key-file keys.txt \\
      --auth query:applicationId --rate 1/1s+10%
  paceline run hotels-1.jsonl -o prices-1.jsonl --key-file keys.txt \\
      --rate 1/1s+10% --shared redis://cache.internal

Exit codes: 0 all done and all succeeded (with --limit: all that it let through),
1 something failed or is left to do, 2 wrong usage, 129, 130 or 143 stopped by
SIGHUP, SIGINT or SIGTERM; the same command goes on.";
