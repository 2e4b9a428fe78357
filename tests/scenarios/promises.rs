//! What holds against any provider of the simulator, with any load and any seed: never more than
//! the ceiling in any window, never a send inside a wait that holds for it, always progress when
//! the provider allows, nothing lost.
//!
//! `PROPTEST_CASES=20000 cargo test --release --all-features promises` looks for longer, with seeds
//! of its own.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use paceline::scheduler::concurrency::{AimdSettings, Concurrency};
use paceline::scheduler::pace::{IntervalSettings, PaceSettings};
use paceline::sim::{self, Attempt, Client, End, Job, Next, Paceline, Reply, Scenario};
use paceline::{Ceiling, Settings, Time};
use proptest::prelude::*;
use proptest::sample::select;

/// A client that is held to what it promises.
struct Watched {
    client: Paceline,
    rules: Rules,
    submitted: usize,
    ended: HashMap<u32, Ended>,
    /// Per key: until when it must not be used.
    parked: HashMap<usize, Time>,
    /// Per request and key: until when the one must not see the other.
    barred: HashMap<(u32, usize), Time>,
    flying: HashMap<usize, u32>,
    tokens: Vec<f64>,
    /// The last moment at which something was sent, or began to wait, or was told to.
    moved: Time,
    /// Attempts that nobody answered in time: each may have been served all the same.
    unanswered: u64,
    broken: Vec<String>,
}

/// What bounds a client from its own side.
#[derive(Clone, Debug, Default)]
struct Rules {
    per_key: Option<Bound>,
    over_all: Option<Bound>,
    key_concurrency: Option<u32>,
    max_concurrency: Option<u32>,
}

impl Rules {
    fn are_none(&self) -> bool {
        let Self {
            per_key,
            over_all,
            key_concurrency,
            max_concurrency,
        } = self;
        per_key.is_none()
            && over_all.is_none()
            && key_concurrency.is_none()
            && max_concurrency.is_none()
    }
}

/// A ceiling, and what was sent under it.
#[derive(Clone, Debug)]
struct Bound {
    ceiling: Ceiling,
    amount: f64,
    window: Duration,
    tokens: bool,
    sent: HashMap<usize, Vec<(Time, f64)>>,
}

/// How a request ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ended {
    Served,
    /// With an answer that is no success.
    Answered(u16),
    /// Without an answer.
    Unanswered,
    GivenUp,
}

impl Watched {
    fn new(client: Paceline, rules: Rules) -> Self {
        Self {
            client,
            rules,
            submitted: 0,
            ended: HashMap::new(),
            parked: HashMap::new(),
            barred: HashMap::new(),
            flying: HashMap::new(),
            tokens: Vec::new(),
            moved: Time::START,
            unanswered: 0,
            broken: Vec::new(),
        }
    }

    fn end(&mut self, job: u32, how: Ended) {
        if let Some(before) = self.ended.insert(job, how) {
            self.broken
                .push(format!("request {job} ended as {before:?} and as {how:?}"));
        }
    }

    /// Whoever waits must not be forgotten.
    fn check_progress(&mut self, now: Time) {
        let flying = self.flying.values().sum::<u32>() as usize;
        if self.submitted <= self.ended.len() + flying {
            self.moved = now;
        }
        if now.since(self.moved) > LONGEST_REST {
            self.broken
                .push(format!("nothing was sent from {:?} to {now:?}", self.moved));
            self.moved = now;
        }
    }

    fn check_waits(&mut self, attempt: Attempt, now: Time) {
        let Attempt { job, key, .. } = attempt;
        let parked = self.parked.get(&key).copied().unwrap_or_default();
        let barred = self.barred.get(&(job, key)).copied().unwrap_or_default();
        if parked > now {
            self.broken.push(format!(
                "sent on key {key} at {now:?}, parked until {parked:?}"
            ));
        }
        if barred > now {
            self.broken.push(format!(
                "request {job} sent on key {key} at {now:?}, refused there until {barred:?}"
            ));
        }
    }

    fn check_bounds(&mut self, attempt: Attempt, now: Time) {
        let cost = self.tokens[attempt.job as usize];
        let Rules {
            per_key, over_all, ..
        } = &mut self.rules;
        let bounds = [(per_key, attempt.key), (over_all, usize::MAX)];
        for (bound, place) in bounds {
            let Some(bound) = bound else { continue };
            let weight = if bound.tokens { cost } else { 1.0 };
            let sent = bound.sent.entry(place).or_default();
            sent.push((now, weight));
            let since = |&(at, _): &(Time, f64)| now.since(at) < bound.window;
            let held: f64 = sent
                .iter()
                .rev()
                .take_while(|s| since(s))
                .map(|s| s.1)
                .sum();
            if held > bound.amount {
                let ceiling = &bound.ceiling;
                self.broken
                    .push(format!("{held} within {ceiling} at {now:?}"));
            }
        }
        let (of_key, of_all) = (self.flying[&attempt.key], self.flying.values().sum::<u32>());
        if self.rules.key_concurrency.is_some_and(|most| of_key > most) {
            self.broken.push(format!("{of_key} in flight on a key"));
        }
        if self.rules.max_concurrency.is_some_and(|most| of_all > most) {
            self.broken.push(format!("{of_all} in flight"));
        }
    }

    fn on_refused(&mut self, attempt: Attempt, reply: &Reply, now: Time) {
        let Some((wait, whole_second)) = hint(reply) else {
            return;
        };
        let until = now + wait;
        self.moved = self.moved.max(until);
        let later = |slot: &mut Time| *slot = until.max(*slot);
        later(self.barred.entry((attempt.job, attempt.key)).or_default());
        // A single whole-second `1` may be a fraction of a second and stops its request only.
        if !whole_second || wait > Duration::from_secs(1) {
            later(self.parked.entry(attempt.key).or_default());
        }
    }
}

impl Client for Watched {
    fn submit(&mut self, job: &Job, now: Time) {
        self.submitted += 1;
        // What costs no more than one is asked for as a request, without tokens.
        let told = if job.tokens > 1.0 {
            job.judged.round()
        } else {
            0.0
        };
        self.tokens.push(told);
        self.client.submit(job, now);
    }

    fn poll_send(&mut self, now: Time) -> Option<Attempt> {
        let attempt = self.client.poll_send(now)?;
        *self.flying.entry(attempt.key).or_default() += 1;
        self.moved = now;
        if let Some(how) = self.ended.get(&attempt.job) {
            self.broken
                .push(format!("request {} sent after it {how:?}", attempt.job));
        }
        self.check_waits(attempt, now);
        self.check_bounds(attempt, now);
        Some(attempt)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.check_progress(now);
        self.client.poll_timeout(now)
    }

    fn on_end(&mut self, attempt: Attempt, end: End<'_>, now: Time) -> Next {
        *self.flying.get_mut(&attempt.key).expect("it was sent") -= 1;
        let next = self.client.on_end(attempt, end, now);
        let how = match end {
            End::Answer(reply) => {
                if reply.status == 429 {
                    self.on_refused(attempt, reply, now);
                }
                match reply.status {
                    200 => Ended::Served,
                    status => Ended::Answered(status),
                }
            }
            End::Broken => {
                self.unanswered += 1;
                Ended::Unanswered
            }
        };
        match next {
            Next::Ended => self.end(attempt.job, how),
            Next::Again if how == Ended::Served => {
                self.broken
                    .push(format!("{} served and sent again", attempt.job));
            }
            Next::Again => {}
        }
        next
    }

    fn poll_given_up(&mut self, now: Time) -> Option<u32> {
        let job = self.client.poll_given_up(now)?;
        self.end(job, Ended::GivenUp);
        Some(job)
    }
}

/// The wait that an answer asks for, and whether it is told in whole seconds.
fn hint(reply: &Reply) -> Option<(Duration, bool)> {
    let number = |name| reply.headers.get(name)?.to_str().ok()?.parse().ok();
    if let Some(millis) = number("retry-after-ms") {
        return Some((Duration::from_millis(millis), false));
    }
    number("retry-after").map(|seconds| (Duration::from_secs(seconds), true))
}

/// The longest that nothing may be sent though somebody waits and nobody said so long: the longest
/// backoff, a minute, with its jitter.
const LONGEST_REST: Duration = Duration::from_secs(72);

fn limit() -> impl Strategy<Value = String> {
    let per = select(vec!["key", "account"]);
    let counts = select(vec!["requests", "requests", "tokens"]);
    let tail = (per, counts, any::<bool>()).prop_map(|(per, counts, hidden)| {
        let many = if counts == "tokens" { 100 } else { 1 };
        let text = format!("per = '{per}', counts = '{counts}', hidden = {hidden}");
        (many, per, text)
    });
    let numbers = (0_u32..5, 1_u32..200, 1_u32..60, 100_u32..8000);
    (numbers, tail).prop_map(|((kind, rate, burst, millis), (many, per, tail))| match kind {
        0 => format!(
            "{{ kind = 'bucket', rate = {}, burst = {}, {tail} }}",
            rate * many,
            burst * many
        ),
        1 => format!(
            "{{ kind = 'fixed-window', limit = {}, window = '{millis}ms', {tail}, opens = '{}' }}",
            rate * many,
            ["clock", "first-request"][burst as usize % 2]
        ),
        2 => format!(
            "{{ kind = 'sliding-window', limit = {}, window = '{millis}ms', {tail} }}",
            rate * many
        ),
        3 => format!(
            "{{ kind = 'interval', every = '{}ms', per = '{per}' }}",
            millis / 8
        ),
        _ => format!("{{ kind = 'concurrency', max = {burst}, per = '{per}' }}"),
    })
}

fn limits() -> impl Strategy<Value = String> {
    proptest::collection::vec(limit(), 0..3).prop_map(|limits| format!("[{}]", limits.join(", ")))
}

/// How a provider answers, and what it tells.
fn manner() -> impl Strategy<Value = String> {
    let style = select(vec![
        "openai",
        "anthropic",
        "github",
        "ietf",
        "retry-after",
        "none",
    ]);
    let times = (0_u32..600, 0_u32..60, 0_u32..300, 0_u32..3000);
    let yes = proptest::bool::weighted;
    let odd = (yes(0.2), yes(0.2), yes(0.2), yes(0.2), yes(0.2));
    (style, times, odd).prop_map(|(style, (latency, jitter, slow, skew), odd)| {
        let mut text = format!("headers = '{style}'\nlatency = '{latency}ms'\n");
        if style == "none" {
            text = format!("latency = '{latency}ms'\n");
        }
        let (counted, bare, undated, tailed, slow_refusals) = odd;
        let jitter = jitter.min(latency);
        writeln!(text, "jitter = '{jitter}ms'\nclock_ahead = '{skew}ms'").unwrap();
        writeln!(text, "refusals_count = {counted}\nrefusals_bare = {bare}").unwrap();
        writeln!(text, "without_date = {undated}").unwrap();
        if tailed {
            text.push_str("tail = 0.8\n");
        }
        if slow_refusals {
            writeln!(text, "refusals_take = '{slow}ms'\nunknown_wait = '1s'").unwrap();
        }
        text
    })
}

/// What goes wrong with a provider.
fn troubles() -> impl Strategy<Value = String> {
    let yes = || proptest::bool::weighted(0.15);
    let which = (yes(), yes(), yes(), yes(), yes(), yes());
    let at = (0_u32..3000, 1_u32..3000, 1_u32..30);
    (which, at, limits()).prop_map(|(which, (from, lasts, number), changed)| {
        let (change, outage, errors, ban, penalty, others) = which;
        let until = from + lasts;
        let mut text = String::new();
        if change {
            writeln!(
                text,
                "changes = [{{ at = '{from}ms', limits = {changed} }}]"
            )
            .unwrap();
        }
        if outage {
            let status = [500, 503, 529][number as usize % 3];
            writeln!(
                text,
                "outages = [{{ from = '{from}ms', until = '{until}ms', status = {status} }}]"
            )
            .unwrap();
        }
        if errors {
            let share = f64::from(number) / 100.0;
            writeln!(
                text,
                "errors = {{ share = {share}, statuses = [500, 503] }}"
            )
            .unwrap();
        }
        if ban {
            writeln!(
                text,
                "ban = {{ refusals = {}, within = '5s', lasts = '{lasts}ms', \
                 extended_by_knocking = {} }}",
                3 + number / 4,
                number % 2 == 0
            )
            .unwrap();
        }
        if penalty {
            writeln!(text, "penalty = {{ first = '{number}ms', longest = '2s' }}").unwrap();
        }
        if others {
            writeln!(text, "others = {{ rate = {} }}", f64::from(number) / 100.0).unwrap();
        }
        text
    })
}

/// One key that differs from the others.
fn odd_key() -> impl Strategy<Value = String> {
    (0_u32..6, 0_u32..3000, limits()).prop_map(|(kind, at, limits)| match kind {
        0 => format!("keys = [{{ index = 0, revoked_at = '{at}ms' }}]\n"),
        1 => format!("keys = [{{ index = 0, mute_from = '{at}ms' }}]\n"),
        2 => format!("keys = [{{ index = 0, limits = {limits} }}]\n"),
        _ => String::new(),
    })
}

fn load() -> impl Strategy<Value = (String, usize)> {
    let numbers = (1_u32..150, 1_usize..4, 0_u32..3, 1_u32..200, 0_u32..40);
    (numbers, 1_u32..100).prop_map(|((requests, keys, arrival, rate, off), tokens)| {
        let arrival = match arrival {
            0 => "{ kind = 'batch' }".to_owned(),
            1 => format!("{{ kind = 'open', rate = {rate} }}"),
            _ => format!("{{ kind = 'bursts', size = {rate}, every = '2s' }}"),
        };
        let text = format!(
            "[load]\nrequests = {requests}\nkeys = {keys}\ntokens = [1, {tokens}]\n\
             misjudged = {}\ntimeout = '5s'\narrival = {arrival}\n",
            f64::from(off) / 100.0
        );
        (text, keys)
    })
}

fn network() -> impl Strategy<Value = String> {
    (0_u32..20_000, 0_u32..50).prop_map(|(jitter, handshake)| {
        format!(
            "[network]\nout = ['500us', '{}us']\nhandshake = ['0ms', '{handshake}ms']\n",
            500 + jitter
        )
    })
}

fn scenario() -> impl Strategy<Value = String> {
    let provider = (limits(), manner(), troubles(), odd_key());
    (provider, load(), network()).prop_map(|(provider, (load, keys), network)| {
        let (limits, manner, troubles, odd) = provider;
        // With one key alone nobody is left to serve when it is gone.
        let odd = if keys > 1 { odd } else { String::new() };
        format!("[provider]\nlimits = {limits}\n{manner}{troubles}{odd}{load}{network}")
    })
}

fn bound() -> impl Strategy<Value = Option<Bound>> {
    let bound = (1_u32..40, 100_u32..3000, 0_u32..20, any::<bool>());
    proptest::option::weighted(
        0.4,
        bound.prop_map(|(amount, millis, margin, tokens)| {
            // Never less than the largest request.
            let (amount, unit) = if tokens {
                (amount + 200, " tokens")
            } else {
                (amount, "")
            };
            let text = format!("{amount}{unit}/{millis}ms+{margin}%");
            let window =
                Duration::from_millis(millis.into()).mul_f64(1.0 + f64::from(margin) / 1e2);
            Bound {
                ceiling: text.parse().expect("a ceiling"),
                amount: f64::from(amount),
                window,
                tokens,
                sent: HashMap::new(),
            }
        }),
    )
}

fn rules() -> impl Strategy<Value = Rules> {
    let most = || proptest::option::weighted(0.2, 1_u32..20);
    (bound(), bound(), most(), most()).prop_map(|(per_key, over_all, key, all)| Rules {
        per_key,
        over_all,
        key_concurrency: key,
        max_concurrency: all,
    })
}

fn settings(rules: &Rules, law: u8) -> Settings {
    let mut settings = Settings::default();
    settings.max_wait = None;
    let ceilings = |bound: &Option<Bound>| bound.iter().map(|bound| bound.ceiling).collect();
    settings.ceilings = ceilings(&rules.per_key);
    settings.shared_ceilings = ceilings(&rules.over_all);
    settings.key_concurrency = rules.key_concurrency.unwrap_or(1024);
    settings.max_concurrency = rules.max_concurrency;
    match law {
        0 => settings.concurrency = Concurrency::Aimd(AimdSettings::default()),
        1 => settings.pace = PaceSettings::Interval(IntervalSettings::default()),
        _ => {}
    }
    settings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_provider_no_load_and_no_seed_breaks_a_promise(
        text in scenario(),
        rules in rules(),
        law in 0_u8..12,
        seed in any::<u64>(),
    ) {
        let scenario = Scenario::parse(&text).expect("a scenario");
        let settings = settings(&rules, law);
        let client = |keys, wall, seed| {
            Watched::new(Paceline::with_settings(settings, keys, wall, seed), rules)
        };
        let (run, watched) = sim::run(&scenario, seed, client, None);
        prop_assert!(watched.broken.is_empty(), "{:#?}\n{text}", watched.broken);
        prop_assert_eq!(watched.submitted as u64, run.requests);
        // A run is stopped after ten times the ideal, which knows nothing of our own bounds and is
        // quicker than every other client of a quota.
        let ended = watched.ended.len();
        let is_hampered = !watched.rules.are_none() || scenario.provider.others.is_some();
        let enough = is_hampered || watched.submitted / 2 <= ended;
        prop_assert!(enough, "{ended} of {} ended\n{text}", watched.submitted);
        prop_assert!(run.twice <= watched.unanswered, "served twice\n{}", text);
        let served = watched.ended.values().filter(|how| **how == Ended::Served).count() as u64;
        prop_assert!(served <= run.served);
    }
}
