//! Waits while a provider cannot be reached or answers nothing but errors, so that an hour without
//! it does not leave the rest of the night's requests undone.
//!
//! A failure is a line's own only if the provider served somebody after the line had begun. Else
//! it may be the provider's: then lines are held back, and one of them probes at growing
//! intervals, each time another one, so that a line that always fails cannot keep the others. What
//! the provider serves ends it. The patience is shorter where nothing was ever served: then the
//! address is wrong more often than the provider is away.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Time;

use super::summary::Rounded;

/// Whether one provider can be reached.
#[derive(Debug)]
pub(crate) struct Outage {
    /// As it is shown.
    host: String,
    /// How long it is waited for, if the user has said so.
    patience: Option<Duration>,
    state: Mutex<State>,
    /// Wakes those who wait for the end.
    pub(crate) over: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When it last served a request.
    served: Option<Time>,
    /// Attempts in a row that ended badly, and when the first of them did.
    in_row: u32,
    bad_since: Option<Time>,
    /// What the last of them said.
    cause: String,
    /// Since when lines are held back.
    since: Option<Time>,
    /// Cancelled from when they are until they are not.
    begins: CancellationToken,
    probe_at: Time,
    /// Lines that are held back, by how often each has probed.
    held: BTreeMap<u32, usize>,
    /// Whether the beginning was told.
    told: bool,
    /// What is to be told.
    news: Vec<String>,
    past: Past,
}

/// The outages of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// What a line may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Go.
    Open,
    /// Go, to see whether it is over.
    Probe,
    /// Ask again then, or when it is over.
    Wait(Time),
    /// It has lasted longer than anybody waits.
    Never,
}

impl Outage {
    /// Nothing is known of this provider so far.
    pub(crate) fn new(host: String, patience: Option<Duration>) -> Self {
        Self {
            host,
            patience,
            state: Mutex::default(),
            over: Notify::new(),
        }
    }

    /// It served an attempt that began then.
    pub(crate) fn on_served(&self, began: Time, now: Time) {
        let mut state = self.state();
        if state.since.is_some_and(|since| began < since) {
            // What was on its way when it went away says nothing of now.
            return;
        }
        state.served = Some(now);
        state.in_row = 0;
        state.bad_since = None;
        let Some(since) = state.since.take() else {
            return;
        };
        state.begins = CancellationToken::new();
        let lasted = now.since(since);
        state.past.time += lasted;
        if std::mem::take(&mut state.told) {
            let news = format!("{} answers again after {}", self.host, Rounded(lasted));
            state.news.push(news);
        }
        drop(state);
        self.over.notify_waiters();
    }

    /// An attempt that began then had no answer, or an error of the server's own.
    pub(crate) fn on_bad(&self, cause: &str, began: Time, now: Time) {
        let mut state = self.state();
        if state.served.is_some_and(|served| served > began) {
            // What was on its way while others were served says nothing of now.
            return;
        }
        state.in_row = state.in_row.saturating_add(1);
        state.bad_since.get_or_insert(now);
        if state.cause != cause {
            cause.clone_into(&mut state.cause);
        }
        let enough = if state.served.is_some() {
            ENOUGH
        } else {
            ENOUGH_AT_FIRST
        };
        if state.in_row >= enough {
            self.begin(state, now);
        }
    }

    /// Whether the trouble of a line that began then and has failed is its own: others were
    /// served since. If not, an outage begins.
    pub(crate) fn is_own_trouble(&self, began: Time, now: Time) -> bool {
        let state = self.state();
        if state.served.is_some_and(|served| served >= began) {
            return true;
        }
        self.begin(state, now);
        false
    }

    /// Whether anybody has the patience to wait for it at all.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.patience.is_none_or(|patience| !patience.is_zero())
    }

    /// Whether all have been refused for longer than anybody waits.
    pub(crate) fn refuses_for_good(&self, now: Time) -> bool {
        let served = self.state().served.unwrap_or(Time::START);
        now.since(served) >= self.patience.unwrap_or(PATIENCE)
    }

    /// Whether anybody was served since then.
    pub(crate) fn has_served_since(&self, began: Time) -> bool {
        self.state().served.is_some_and(|served| served >= began)
    }

    /// Whether a line that has probed so often may go now.
    pub(crate) fn pass(&self, probed: u32, now: Time) -> Pass {
        let mut state = self.state();
        let Some(since) = state.since else {
            return Pass::Open;
        };
        if now.since(since) >= self.patience(&state) {
            return Pass::Never;
        }
        if now < state.probe_at {
            return Pass::Wait(state.probe_at);
        }
        if state
            .held
            .keys()
            .next()
            .is_some_and(|least| probed > *least)
        {
            // Somebody who has tried less often is about to.
            return Pass::Wait(now + LOOK);
        }
        let step = now.since(since) / SHARE;
        state.probe_at = now + step.clamp(FIRST_PROBE, LAST_PROBE);
        Pass::Probe
    }

    /// What is cancelled when the next one begins; already, while one lasts.
    pub(crate) fn begins(&self) -> CancellationToken {
        self.state().begins.clone()
    }

    /// A line that has probed so often is held back, until what is given back is dropped.
    pub(crate) fn hold(&self, probed: u32) -> Held<'_> {
        *self.state().held.entry(probed).or_default() += 1;
        Held(self, probed)
    }

    /// How long it has lasted; zero if there is none.
    pub(crate) fn lasts(&self, now: Time) -> Duration {
        self.state()
            .since
            .map_or(Duration::ZERO, |since| now.since(since))
    }

    /// What is to be told of it now.
    pub(crate) fn news(&self, now: Time) -> Vec<String> {
        let mut state = self.state();
        let lasts = state.since.map_or(Duration::ZERO, |since| now.since(since));
        if lasts >= WORTH_TELLING && !state.told {
            state.told = true;
            let patience = humantime::format_duration(self.patience(&state));
            let hint = if state.served.is_none() {
                "; is the address right?"
            } else {
                ""
            };
            let news = format!(
                "{}: {}{hint}; trying again for up to {patience} (--max-outage)",
                self.host, state.cause
            );
            state.news.push(news);
        }
        std::mem::take(&mut state.news)
    }

    /// Why it is given up, and what to do.
    pub(crate) fn verdict(&self, now: Time) -> String {
        let state = self.state();
        let lasted = Rounded(now.since(state.since.unwrap_or(Time::START)));
        let (host, cause) = (&self.host, &state.cause);
        let cause = if cause.is_empty() {
            "it refuses every request"
        } else {
            cause
        };
        if state.served.is_some() {
            return format!(
                "{host} has served no request for {lasted}: {cause}: run the same command again \
                 when it does, or with a longer --max-outage"
            );
        }
        format!(
            "{host} has not served a single request in {lasted}: {cause}: check the address \
             (--base-url or url), the network and the service, then run the same command again; \
             --max-outage waits longer"
        )
    }

    /// How many there were, the one that lasts included.
    pub(crate) fn past(&self, now: Time) -> Past {
        let state = self.state();
        let lasts = state.since.map_or(Duration::ZERO, |since| now.since(since));
        Past {
            time: state.past.time + lasts,
            ..state.past
        }
    }

    fn begin(&self, mut state: MutexGuard<'_, State>, now: Time) {
        if state.since.is_some() || self.patience(&state).is_zero() {
            return;
        }
        state.since = Some(state.bad_since.unwrap_or(now));
        state.probe_at = now + FIRST_PROBE;
        state.past.count += 1;
        let begins = state.begins.clone();
        // Whoever is woken by it may ask here.
        drop(state);
        begins.cancel();
    }

    fn patience(&self, state: &State) -> Duration {
        self.patience.unwrap_or(match state.served {
            Some(_) => PATIENCE,
            None => FIRST_PATIENCE,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line that is held back.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Outage, u32);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Self(outage, probed) = self;
        let mut state = outage.state();
        if let Some(count) = state.held.get_mut(probed) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(probed);
            }
        }
    }
}

/// How many bad ends in a row are an outage: the attempts of two or three requests can all fall
/// into a restart of a server, those of ten seldom do.
const ENOUGH: u32 = 10;

/// The same before anything was served: whoever has mistyped the address is to be told soon.
const ENOUGH_AT_FIRST: u32 = 2;

/// The gap between probes is this share of what the outage has lasted: waiting for the next probe
/// makes it longer by a tenth at most.
const SHARE: u32 = 10;

/// A restart takes seconds.
const FIRST_PROBE: Duration = Duration::from_secs(1);

/// Once a minute costs nothing and loses at most a minute.
const LAST_PROBE: Duration = Duration::from_secs(60);

/// How soon those who wait for another one's probe look again.
const LOOK: Duration = Duration::from_millis(100);

/// What is over sooner is not worth a word.
const WORTH_TELLING: Duration = Duration::from_secs(2);

/// A script that nobody watches should end on the day on which its server went for good.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A server that starts together with the run is there by then; whoever has mistyped the address
/// wants to know soon.
const FIRST_PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn fresh() -> Outage {
        Outage::new("api.example".to_owned(), None)
    }

    fn broken_at(seconds: f64) -> Outage {
        let outage = fresh();
        outage.on_served(at(seconds - 1.0), at(seconds - 1.0));
        for _ in 0..ENOUGH {
            assert_eq!(outage.pass(0, at(seconds)), Pass::Open);
            outage.on_bad("cannot connect", at(seconds), at(seconds));
        }
        outage
    }

    #[test]
    fn a_failure_is_its_own_only_where_others_were_served_since_it_began() {
        let outage = fresh();
        outage.on_served(at(5.0), at(5.0));
        assert!(outage.is_own_trouble(at(4.0), at(6.0)));
        assert_eq!(outage.pass(0, at(6.0)), Pass::Open);
        assert!(!outage.is_own_trouble(at(5.5), at(6.0)));
        assert_eq!(outage.pass(0, at(6.0)), Pass::Wait(at(7.0)));
    }

    #[test]
    fn whoever_waits_is_told_when_one_begins() {
        let outage = fresh();
        let begins = outage.begins();
        outage.on_served(at(5.0), at(5.0));
        assert!(!begins.is_cancelled());
        assert!(!outage.is_own_trouble(at(5.5), at(6.0)));
        assert!(begins.is_cancelled() && outage.begins().is_cancelled());
        outage.on_served(at(7.0), at(7.0));
        assert!(!outage.begins().is_cancelled());
    }

    #[test]
    fn an_answer_to_what_was_on_its_way_ends_no_outage() {
        let outage = broken_at(10.0);
        outage.on_served(at(9.9), at(10.1));
        assert_ne!(outage.pass(0, at(10.2)), Pass::Open);
        outage.on_served(at(11.0), at(11.1));
        assert_eq!(outage.pass(0, at(11.2)), Pass::Open);
        assert_eq!(outage.past(at(12.0)).count, 1);
    }

    #[test]
    fn what_is_served_in_between_makes_failures_each_their_own() {
        let outage = fresh();
        for _ in 0..100 {
            outage.on_served(at(1.0), at(1.0));
            for _ in 1..ENOUGH {
                outage.on_bad("500", at(1.0), at(1.0));
            }
            assert_eq!(outage.pass(0, at(1.0)), Pass::Open);
        }
    }

    #[test]
    fn one_line_probes_at_growing_intervals_and_what_is_served_opens() {
        let outage = broken_at(10.0);
        assert_eq!(outage.pass(0, at(10.5)), Pass::Wait(at(11.0)));
        assert_eq!(outage.pass(0, at(11.0)), Pass::Probe);
        assert_eq!(outage.pass(0, at(11.0)), Pass::Wait(at(12.0)));
        assert_eq!(outage.pass(0, at(40.0)), Pass::Probe);
        assert_eq!(outage.pass(0, at(40.0)), Pass::Wait(at(43.0)));
        assert_eq!(outage.pass(0, at(3_000.0)), Pass::Probe);
        assert_eq!(outage.pass(0, at(3_000.0)), Pass::Wait(at(3_060.0)));
        outage.on_served(at(3_010.0), at(3_010.0));
        assert_eq!(outage.pass(0, at(3_010.0)), Pass::Open);
        let past = outage.past(at(3_600.0));
        assert_eq!((past.count, past.time), (1, Duration::from_secs(3_000)));
    }

    #[test]
    fn a_line_that_has_probed_lets_the_others_try_first() {
        let outage = broken_at(10.0);
        let fresh = outage.hold(0);
        let tried = outage.hold(1);
        assert!(matches!(outage.pass(1, at(11.0)), Pass::Wait(_)));
        assert_eq!(outage.pass(0, at(11.0)), Pass::Probe);
        drop(fresh);
        assert_eq!(outage.pass(1, at(20.0)), Pass::Probe);
        drop(tried);
    }

    #[test]
    fn patience_is_an_hour_and_half_a_minute_where_nothing_was_ever_served() {
        let outage = broken_at(10.0);
        assert!(matches!(outage.pass(0, at(3_609.0)), Pass::Probe));
        assert_eq!(outage.pass(0, at(3_610.0)), Pass::Never);
        assert!(outage.verdict(at(3_610.0)).contains("no request for 1 h"));

        let never = fresh();
        assert!(!never.is_own_trouble(at(1.0), at(8.0)));
        assert_eq!(never.pass(0, at(38.0)), Pass::Never);
        assert!(never.verdict(at(38.0)).contains("--base-url"));
    }

    #[test]
    fn without_patience_nothing_is_ever_held_back() {
        let outage = Outage::new("api.example".to_owned(), Some(Duration::ZERO));
        for _ in 0..100 {
            outage.on_bad("cannot connect", at(1.0), at(1.0));
        }
        assert!(!outage.is_own_trouble(at(1.0), at(2.0)));
        assert_eq!(outage.pass(0, at(2.0)), Pass::Open);
        assert!(outage.refuses_for_good(at(2.0)));
    }

    #[test]
    fn only_an_outage_of_some_length_is_told_with_its_cause_and_its_end() {
        let outage = broken_at(10.0);
        assert!(outage.news(at(10.5)).is_empty());
        let news = outage.news(at(12.5));
        assert!(news[0].contains("api.example: cannot connect") && news[0].contains("1h"));
        assert!(outage.news(at(13.0)).is_empty());
        outage.on_served(at(30.0), at(30.0));
        assert_eq!(
            outage.news(at(30.0)),
            ["api.example answers again after 20 s"]
        );
    }
}
