//! `paceline demo`: 2,100 hotels from a provider that allows one request a second on each of five
//! keys, first as scripts usually do it, then with paceline.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use paceline::client::Clock;
use paceline::sim::Scenario;
use paceline::{ApiKey, Ceiling, Limiter, Priority, Report};
use reqwest_middleware::ClientBuilder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::mock::Stand;
use super::say;

/// Shows in under half a minute what paceline does, with no key and no network.
///
/// A practice provider on this machine allows one request a second on each of five keys, thirty
/// times as fast as that. 2,100 hotels are asked for: first as a script does it that sends 100 at
/// a time, sleeps five seconds after an error and gives up after three attempts; then by paceline,
/// which is told the keys and the rule "one a second, and 10 % to be safe".
///
/// Example: paceline demo
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many hotels.
    #[arg(long, default_value_t = 2100, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    hotels: u32,
}

/// Runs both clients and prints their results side by side.
pub(crate) fn run(args: Args) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let shown = runtime
        .map_err(|error| format!("cannot start: {error}"))
        .and_then(|runtime| {
            let shown = runtime.block_on(show(args.hotels));
            runtime.shutdown_background();
            shown
        });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("paceline demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn show(hotels: u32) -> Result<(), String> {
    say(format_args!(
        "{hotels} hotels from a provider that allows 1 request a second on each of {KEYS} keys.\n\
         Everything runs {SCALE} times as fast as it would.\n\n"
    ));
    let naive = naive(hotels).await?;
    let paced = paced(hotels).await?;
    let rounds = hotels.div_ceil(KEYS).saturating_sub(1);
    let allowed = rule().window().as_secs_f64() * f64::from(rounds);
    print_results(&naive, &paced, allowed);
    Ok(())
}

/// What one client reached.
struct Reached {
    served: u64,
    refused: u64,
    seconds: f64,
}

/// The provider, and where the hotels of a run are counted.
struct Stage {
    stand: Stand,
    bar: ProgressBar,
    done: AtomicU64,
    clock: Clock,
}

impl Stage {
    async fn new(name: &'static str, hotels: u32) -> Result<Self, String> {
        let scenario = Scenario::parse(PROVIDER).map_err(|error| error.to_string())?;
        let stand = Stand::open(&scenario, 1).await?;
        let bar = ProgressBar::with_draw_target(
            Some(u64::from(hotels)),
            ProgressDrawTarget::stderr_with_hz(10),
        );
        let style = ProgressStyle::with_template("{prefix:9} {bar:40} {pos:>5}/{len} {msg}")
            .expect("the template is sound");
        bar.set_style(style);
        bar.set_prefix(name);
        Ok(Self {
            stand,
            bar,
            done: AtomicU64::new(0),
            clock: Clock::new(),
        })
    }

    fn url(&self, hotel: u32) -> String {
        format!("http://{}/hotels/{hotel}", self.stand.address())
    }

    fn on_served(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(1);
        self.show_refusals();
    }

    fn show_refusals(&self) {
        self.bar
            .set_message(format!("{} refused", self.stand.refused()));
    }

    fn end(&self) -> Reached {
        let seconds = self.clock.now().as_secs_f64();
        self.show_refusals();
        self.bar.abandon();
        let served = self.done.load(Ordering::Relaxed);
        Reached {
            served,
            refused: self.stand.refused(),
            seconds,
        }
    }
}

/// A fixed number at a time, keys in turn, a fixed sleep after any error, no look at what the
/// provider says.
async fn naive(hotels: u32) -> Result<Reached, String> {
    let stage = Arc::new(Stage::new("a script", hotels).await?);
    let client = paceline::http_client()
        .build()
        .map_err(|error| error.to_string())?;
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    for hotel in 0..hotels {
        let (stage, client, places) = (Arc::clone(&stage), client.clone(), Arc::clone(&places));
        tasks.spawn(async move {
            let _place = places.acquire().await.expect("it is never closed");
            for attempt in 0..ATTEMPTS {
                let key = format!("key-{}", (hotel + attempt) % KEYS);
                let reply = client.get(stage.url(hotel)).bearer_auth(key).send().await;
                if reply.is_ok_and(|reply| reply.status().is_success()) {
                    return stage.on_served();
                }
                stage.show_refusals();
                tokio::time::sleep(SLEEP / SCALE).await;
            }
        });
    }
    tasks.join_all().await;
    Ok(stage.end())
}

/// All at once, and the limiter decides.
async fn paced(hotels: u32) -> Result<Reached, String> {
    let stage = Arc::new(Stage::new("paceline", hotels).await?);
    let limiter = Limiter::builder()
        .keys((0..KEYS).map(|key| ApiKey::bearer(format!("key-{key}"))))
        .ceiling(rule())
        .build()
        .map_err(|error| error.to_string())?;
    let client = paceline::http_client()
        .build()
        .map_err(|error| error.to_string())?;
    let client = ClientBuilder::new(client).with(limiter).build();
    let mut tasks = JoinSet::new();
    for hotel in 0..hotels {
        let (stage, client) = (Arc::clone(&stage), client.clone());
        tasks.spawn(async move {
            let request = client
                .get(stage.url(hotel))
                .with_extension(Priority::BACKGROUND);
            let reply = request.send().await.map_err(|error| error.to_string())?;
            if reply.status().is_success() {
                stage.on_served();
                return Ok(());
            }
            let report = reply.extensions().get::<Report>();
            Err(format!("hotel {hotel}: {} {report:?}", reply.status()))
        });
    }
    for outcome in tasks.join_all().await {
        outcome?;
    }
    Ok(stage.end())
}

fn rule() -> Ceiling {
    let second = Duration::from_secs(1) / SCALE;
    Ceiling::new(1, second)
        .and_then(|rule| rule.margin(MARGIN))
        .expect("a sound ceiling")
}

fn print_results(naive: &Reached, paced: &Reached, allowed: f64) {
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let row = |what: &str, a: String, b: String| say(format_args!("{what:28}{a:>16}{b:>16}\n"));
    say("\n");
    row("", "a script".into(), "paceline".into());
    row(
        "hotels answered",
        naive.served.to_string(),
        paced.served.to_string(),
    );
    row(
        "refusals (429)",
        naive.refused.to_string(),
        paced.refused.to_string(),
    );
    row(
        "refusals per answer",
        format!("{:.1} %", percent(naive.refused, naive.served)),
        format!("{:.1} %", percent(paced.refused, paced.served)),
    );
    row(
        "seconds",
        format!("{:.1}", naive.seconds),
        format!("{:.1}", paced.seconds),
    );
    row(
        "seconds the rule allows",
        String::new(),
        format!("{allowed:.1}"),
    );
    row(
        "time over what is allowed",
        String::new(),
        format!("{:.3}", paced.seconds / allowed.max(1e-9)),
    );
}

/// As in the Rakuten Travel system.
const KEYS: u32 = 5;
/// How much faster than the real provider, so that seven minutes take fifteen seconds.
const SCALE: u32 = 30;
/// One a second exactly is refused by that provider, 1,100 ms is not.
const MARGIN: f64 = 0.1;
/// What scripts commonly do: so many at a time, …
const AT_A_TIME: usize = 100;
/// … three attempts, …
const ATTEMPTS: u32 = 3;
/// … and the same sleep after whatever went wrong.
const SLEEP: Duration = Duration::from_secs(5);
/// A second is 33.333 ms here; responses take 300 ms, which is 10 ms.
const PROVIDER: &str = r#"
    [provider]
    latency = "10ms"
    jitter = "3ms"
    limits = [{ kind = "interval", every = "33333us" }]

    [load]
    requests = 2100
    keys = 5
"#;
