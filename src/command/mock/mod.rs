//! `paceline mock`: a virtual provider behind real HTTP on the loopback, for practice and tests.

mod audit;
mod exchange;
mod practice;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use paceline::sim::Scenario;
use tokio::net::{TcpListener, TcpStream};

use practice::Practice;

/// Serves the provider of a scenario on 127.0.0.1 until it is interrupted.
///
/// Keys are told apart by `Authorization`, by a header such as `x-api-key`, or by a query parameter
/// such as `key`, `appid` or `access_token`, and stand in no answer and no log. Any text will do:
/// the first ones that come are the scenario's, and more are answered 401. A request is known by `x-request-id`, else by the
/// `custom_id` of its JSON body, else by its path, query and body. It costs what `x-cost-tokens`
/// says, else the `max_tokens` of its body, else 1. `GET /__stats` answers the counts.
///
/// Example: paceline mock fixtures/scenarios/practice/openai-bucket.toml --port 8080
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario whose provider is served.
    scenario: PathBuf,
    /// The port; 0 takes a free one and prints the address on stdout.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Decides everything random: latencies, errors, where windows stand.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes a line a request: seconds since the start, key, id and status, separated by tabs.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Serves until interrupted, then prints the counts.
pub(crate) fn run(args: Args) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let served = runtime
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let served = runtime.block_on(serve(&args));
            // Connections that are still open would keep an ordinary shutdown waiting.
            runtime.shutdown_background();
            served
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paceline mock: {error}");
            ExitCode::from(super::USAGE)
        }
    }
}

/// A provider that is served in this process, on a port of its own, for as long as the runtime
/// runs.
pub(super) struct Stand {
    practice: Arc<Practice>,
    address: SocketAddr,
}

impl Stand {
    /// Opens it.
    pub(super) async fn open(scenario: &Scenario, seed: u64) -> Result<Self, String> {
        let practice = Arc::new(Practice::new(scenario, seed, None)?);
        let (listener, address) = listen(0).await?;
        let served = Arc::clone(&practice);
        tokio::spawn(async move { accept(listener, &served).await });
        Ok(Self { practice, address })
    }

    /// Where it is.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests it has refused.
    pub(super) fn refused(&self) -> u64 {
        self.practice.refused()
    }
}

async fn listen(port: u16) -> Result<(TcpListener, SocketAddr), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .await
        .map_err(|error| format!("cannot listen on port {port}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    Ok((listener, address))
}

async fn serve(args: &Args) -> Result<(), String> {
    let path = args.scenario.display();
    let text = std::fs::read_to_string(&args.scenario)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    let scenario = Scenario::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    let practice = Arc::new(Practice::new(&scenario, args.seed, args.log.as_deref())?);
    let (listener, address) = listen(args.port).await?;
    if args.port == 0 {
        println!("http://{address}");
        std::io::stdout()
            .flush()
            .map_err(|error| format!("cannot write to stdout: {error}"))?;
    }
    eprintln!("{path} on http://{address}; Ctrl-C ends it and prints what was served");
    tokio::select! {
        () = accept(listener, &practice) => {}
        () = interrupted() => {}
    }
    practice.print_summary();
    Ok(())
}

async fn accept(listener: TcpListener, practice: &Arc<Practice>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(practice)));
            }
            // Out of file descriptors, as a rule: what is open goes on, and closing makes room.
            Err(error) => {
                eprintln!("paceline mock: cannot accept a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, practice: Arc<Practice>) {
    if let Err(error) = stream.set_nodelay(true) {
        eprintln!("paceline mock: cannot switch off Nagle's delay: {error}");
    }
    let service = service_fn(|request| exchange::answer(&practice, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    // A client that hangs up in the middle is what the practice is about, not an error of ours.
    drop(served);
}

#[cfg(unix)]
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            eprintln!("paceline mock: cannot listen for SIGTERM: {error}");
            return until_ctrl_c().await;
        }
    };
    tokio::select! {
        () = until_ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    until_ctrl_c().await;
}

async fn until_ctrl_c() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("paceline mock: cannot listen for Ctrl-C: {error}");
        std::future::pending::<()>().await;
    }
}
