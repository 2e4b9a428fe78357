//! `paceline inspect`: shows what paceline reads in a response, and what it would do next.

mod advice;
mod answer;
mod beside;
mod case;
mod plain;
mod response;

use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use paceline::client::Clock;
use paceline::feedback::{self, Profile};

use self::response::Response;

/// What to read, and how to print it.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print JSON for a program.
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,
    /// Read one case a line, and answer each with a line.
    #[arg(long, conflicts_with = "profile")]
    jsonl: bool,
    /// Read it as this vendor's: a name, the host it came from, or a file that describes it.
    #[arg(long, value_name = "VENDOR", value_parser = profile)]
    profile: Option<Profile>,
}

/// Reads what is on stdin and prints what it says.
pub(crate) fn run(args: Args) -> ExitCode {
    let clock = Clock::new();
    let done = if args.jsonl {
        lines(&clock)
    } else {
        single(&args, &clock)
    };
    match done {
        Ok(code) => code,
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paceline inspect: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One raw response.
fn single(args: &Args, clock: &Clock) -> io::Result<ExitCode> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(MOST).read_to_end(&mut bytes)?;
    let Some(response) = Response::read(&bytes) else {
        eprintln!(
            "paceline inspect: stdin is not an HTTP response: its first line must look like \
             `HTTP/1.1 429 Too Many Requests`, as `curl -si` prints it"
        );
        return Ok(ExitCode::from(super::USAGE));
    };
    for line in &response.unread {
        eprintln!("paceline inspect: passed over a line that is no header: {line:?}");
    }
    let profile = args.profile.clone().unwrap_or_default();
    let body = Some(response.body).filter(|body| !body.is_empty());
    let received = clock.wall();
    let said = feedback::read(&profile, response.status, &response.headers, body, received);
    let text = if args.json {
        format!("{:#}\n", answer::whole(&said))
    } else {
        let beside = beside::names(&profile, &response, received);
        plain::explain(&profile, &response, &said, &beside)
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// One case a line.
fn lines(clock: &Clock) -> io::Result<ExitCode> {
    let mut input = io::stdin().lock();
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        if input.by_ref().take(MOST).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match case::read(&line, clock) {
            Ok(said) => answer::short(&said),
            Err(error) => serde_json::json!({ "error": format!("line {number}: {error}") }),
        };
        writeln!(output, "{answer}")?;
        // Whoever feeds cases one by one waits for each answer.
        output.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn profile(name: &str) -> Result<Profile, String> {
    if name.ends_with(".toml") {
        return super::config::profile_in(Path::new(name));
    }
    Profile::by_name(name)
        .or_else(|| Profile::by_host(name))
        .ok_or_else(|| {
            if let Some(meant) = Profile::nearest(name) {
                return format!("no vendor has this name or host: is `{meant}` meant?");
            }
            let near = |known: &&str| known.contains(name) || name.contains(*known);
            let mut like: Vec<&str> = Profile::names().filter(near).collect();
            like.truncate(8);
            if like.is_empty() {
                "no vendor has this name or host; leave it out to read what needs no vendor"
                    .to_owned()
            } else {
                format!(
                    "no vendor has this name or host; there are {}",
                    like.join(", ")
                )
            }
        })
}

const HELP: &str = "\
The response is read from stdin, as `curl -si` prints it:

  curl -si https://api.github.com/rate_limit | paceline inspect --profile github

With --jsonl every line of stdin is a case

  {\"status\": 429, \"headers\": [[\"Retry-After\", \"7\"]], \"body\": null,
   \"now\": \"2026-03-10T12:00:00Z\", \"profile\": \"github\"}

and is answered by a line {\"class\", \"retry_after_ms\", \"quotas\"}, in order; a line that cannot
be read by {\"error\"}; empty lines are passed over.";

/// As much of a response, or of a line, as is read.
const MOST: u64 = 16 << 20;
