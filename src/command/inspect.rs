//! `paceline inspect`: shows what paceline reads in a response.

use std::io::Read;
use std::process::ExitCode;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use paceline::feedback::{self, Profile};

/// Reads one HTTP response on stdin, as `curl -si` prints it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON for a program.
    #[arg(long)]
    json: bool,
}

/// Reads the response and prints what it says.
pub(crate) fn run(args: Args) -> ExitCode {
    let mut bytes = Vec::new();
    if let Err(error) = std::io::stdin().lock().read_to_end(&mut bytes) {
        eprintln!("paceline inspect: cannot read stdin: {error}");
        return ExitCode::FAILURE;
    }
    let Some((status, headers)) = response(&bytes) else {
        eprintln!(
            "paceline inspect: stdin is not an HTTP response: the first line must look like \
             `HTTP/1.1 429 Too Many Requests` (curl -si prints it)"
        );
        return ExitCode::from(super::USAGE);
    };
    let said = feedback::read(
        &Profile::NONE,
        status,
        &headers,
        None,
        SystemTime::UNIX_EPOCH,
    );
    if args.json {
        println!("{}", serde_json::json!({ "class": said.class }));
    } else {
        println!("class  {:?}", said.class);
    }
    ExitCode::SUCCESS
}

fn response(bytes: &[u8]) -> Option<(StatusCode, HeaderMap)> {
    let mut lines = bytes
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    let first = lines.next()?;
    let mut words = first.split(|&byte| byte == b' ');
    words
        .next()
        .filter(|version| version.starts_with(b"HTTP/"))?;
    let status = StatusCode::from_bytes(words.next()?).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(
            name,
            HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?,
        );
    }
    Some((status, headers))
}
