//! A virtual provider: a plain machine that is told requests and the time, and answers as a real
//! API would, with header text, refusals, latencies and faults.
//!
//! The simulator drives it in virtual time and `paceline mock` behind real HTTP. Same seed and
//! same requests at the same times: same answers. A request that was admitted is in flight until
//! [`Provider::finish`] is called for it.

mod counts;
mod door;
mod headers;
mod key;
mod law;
mod meter;

use std::time::Duration;

use http::header::{DATE, HeaderMap, HeaderValue};

use crate::Time;

use super::dice::{Dice, Stream};

pub use counts::{Counted, KeyCounts, Totals};
pub use law::{
    Ban, Counts, Drift, Errors, Joined, Law, Limit, LimitChange, OddKey, Opens, Others, Outage,
    Penalty, Per, Style,
};

use headers::Told;
use key::Key;
use meter::{Meter, View};

/// A provider with its counters.
#[derive(Debug)]
pub struct Provider {
    law: Law,
    keys: Vec<Key>,
    account: Vec<Meter>,
    in_flight: u32,
    /// How many of `law.changes` hold by now.
    changed: usize,
    /// How many each outage has turned away.
    turned_away: Vec<u64>,
    /// How far other users have used the quotas.
    others_until: f64,
    /// The provider's clock at the start, seconds since 1970.
    wall: f64,
    counts: Counted,
    dice: Dice,
    /// The last `Date` that was written, and its second.
    date: Option<(f64, HeaderValue)>,
    views: Vec<View>,
    text: String,
}

/// A request as a provider sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Tells requests apart; the same again is a repetition.
    pub id: u64,
    /// Which key it came with, from 0. One beyond the last is unknown and answered 401.
    pub key: usize,
    /// What it costs in tokens.
    pub tokens: f64,
}

/// An answer, and when it goes out.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// What it tells.
    pub headers: HeaderMap,
    /// The text of a refusal or an error; an empty body otherwise.
    pub body: &'static str,
    /// From arrival to answer. [`Duration::MAX`] if none ever comes.
    pub delay: Duration,
    /// Whether the request is in flight until [`Provider::finish`].
    pub admitted: bool,
}

/// Why a request is refused, and for how long, if that is known.
#[derive(Clone, Copy)]
struct Shut {
    /// The place of the limit: those of the key first, then those of the account, then the penalty.
    limit: usize,
    /// Seconds.
    wait: f64,
    /// Whether only a request that ends makes room, so that no time can be told.
    until_an_end: bool,
}

impl Provider {
    /// A provider that was never used, for so many keys. `wall` is its clock at [`Time::START`] in
    /// seconds since 1970, before `law.clock_ahead` and `law.clock_behind` are counted in.
    #[must_use]
    pub fn new(law: &Law, keys: usize, wall: f64, seed: u64) -> Self {
        let mut dice = Dice::new(seed, Stream::Provider);
        let joined = match law.joined {
            Joined::Start => dice.between(0.02, 0.07),
            Joined::Anywhere => dice.between(0.0, 60.0),
        };
        let counts = Counted::new(keys);
        let odd = |index| law.keys.iter().find(|odd| odd.index == index).cloned();
        let keys = (0..keys)
            .map(|index| Key::new(&law.limits, odd(index), -joined))
            .collect();
        let wall = wall + law.clock_ahead.as_secs_f64() - law.clock_behind.as_secs_f64();
        Self {
            keys,
            account: account_meters(&law.limits, -joined),
            in_flight: 0,
            changed: 0,
            turned_away: vec![0; law.outages.len()],
            others_until: 0.0,
            wall,
            counts,
            dice,
            date: None,
            views: Vec::new(),
            text: String::new(),
            law: law.clone(),
        }
    }

    /// A request arrives.
    pub fn arrive(&mut self, request: Request, now: Time) -> Reply {
        let time = now.as_secs_f64();
        self.counts.arrived(now);
        if let Some(reply) = self.turned_away(request, time) {
            return self.dated(reply, time);
        }
        let reply = match self.shut(request.key, request.tokens, time) {
            Some(shut) => self.refuse(request, shut, time),
            None => self.admit(request, time),
        };
        self.dated(reply, time)
    }

    /// An admitted request has been worked on; `served` says whether it was answered with success.
    pub fn finish(&mut self, request: Request, served: bool, now: Time) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(key) = self.keys.get_mut(request.key) {
            key.in_flight = key.in_flight.saturating_sub(1);
        }
        if served {
            self.counts.served(request.key, request.id, now);
        } else {
            self.counts.failed(request.key);
        }
    }

    /// How long a request on a key would have to wait to be admitted, if it would: zero when only
    /// the end of another request can help, the longest time for a key that is out of use.
    pub fn would_wait(&mut self, key: usize, tokens: f64, now: Time) -> Option<Duration> {
        let time = now.as_secs_f64();
        if self.keys.get(key).is_none_or(|key| key.is_out_of_use(time)) {
            return Some(Duration::MAX);
        }
        if let Some(index) = self.outage(time) {
            let outage = &self.law.outages[index];
            // Only who is turned away brings one with a number nearer to its end.
            let wait = outage.until.saturating_sub(now.since(Time::START));
            return outage.at_most.is_none().then_some(wait);
        }
        let shut = self.shut(key, tokens, time)?;
        Some(Duration::from_secs_f64(if shut.until_an_end {
            0.0
        } else {
            shut.wait
        }))
    }

    /// The moment of the next change of the limits, if one is to come.
    #[must_use]
    pub fn next_change(&self) -> Option<Time> {
        self.law
            .changes
            .get(self.changed)
            .map(|change| Time::START + change.at)
    }

    /// What it has served and refused so far.
    #[must_use]
    pub fn counts(&self) -> &Counted {
        &self.counts
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The limit that holds a request back for longest, if one does.
    fn shut(&mut self, key: usize, tokens: f64, now: f64) -> Option<Shut> {
        self.roll(key, now);
        let all_in_flight = self.in_flight;
        let key = &self.keys[key];
        let held = key.held_until - now;
        let of_key = key.meters.iter().map(|meter| (meter, key.in_flight));
        let of_account = self.account.iter().map(|meter| (meter, all_in_flight));
        let limits = key.meters.len() + self.account.len();
        let penalty = (held > 0.0).then_some(Shut {
            limit: limits,
            wait: held,
            until_an_end: false,
        });
        of_key
            .chain(of_account)
            .enumerate()
            .filter_map(|(limit, (meter, in_flight))| {
                let wait = meter.shut(tokens, in_flight, now)?;
                Some(Shut {
                    limit,
                    wait,
                    until_an_end: meter.counts_in_flight(),
                })
            })
            .chain(penalty)
            .max_by(|a, b| a.wait.total_cmp(&b.wait))
    }

    fn refuse(&mut self, request: Request, shut: Shut, now: f64) -> Reply {
        self.counts.refused(request.key, shut.limit);
        let key = &mut self.keys[request.key];
        if self.law.refusals_count {
            key.meters
                .iter_mut()
                .for_each(|meter| meter.spend(request.tokens, now));
        }
        let mut wait = shut.wait;
        key.streak += 1;
        if let Some(penalty) = self.law.penalty {
            wait = wait.max(penalty.wait_after(key.streak));
            key.held_until = now + wait;
        }
        if let Some(ban) = self.law.ban {
            key.on_refusal(ban, now);
            if ban.status == TOO_MANY {
                wait = wait.max(key.ban_left(now));
            }
        }
        let unknown = shut.until_an_end && wait <= 0.0;
        let told = if unknown {
            self.law.unknown_wait.map(|wait| wait.as_secs_f64())
        } else {
            Some(wait)
        };
        let headers = if self.law.refusals_bare {
            HeaderMap::new()
        } else {
            self.headers(request.key, told, now)
        };
        let body = refusal_body(self.law.headers);
        Reply {
            status: TOO_MANY,
            headers,
            body,
            delay: self.law.refusals_take,
            admitted: false,
        }
    }

    fn admit(&mut self, request: Request, now: f64) -> Reply {
        let key = &mut self.keys[request.key];
        for meter in key.meters.iter_mut().chain(&mut self.account) {
            meter.spend(request.tokens, now);
        }
        key.in_flight += 1;
        key.streak = 0;
        self.in_flight += 1;
        self.counts
            .admitted(request.key, key.in_flight, self.in_flight);
        let delay = Duration::from_secs_f64(self.latency(now));
        let draw = self.dice.unit();
        if draw < self.law.errors.share {
            // The draw is even below the share, so it also picks the status.
            let statuses = &self.law.errors.statuses;
            let pick = (draw / self.law.errors.share * statuses.len() as f64) as usize;
            let status = statuses.get(pick).copied().unwrap_or(503);
            let body = "The server had an error.";
            return Reply {
                status,
                headers: HeaderMap::new(),
                body,
                delay,
                admitted: true,
            };
        }
        let headers = self.headers(request.key, None, now);
        Reply {
            status: 200,
            headers,
            body: "",
            delay,
            admitted: true,
        }
    }

    /// Seconds of work for the request that was just admitted.
    fn latency(&mut self, now: f64) -> f64 {
        let base = self.law.latency.as_secs_f64();
        let tail = self.law.tail;
        let mut seconds = if tail > 0.0 {
            // Half the variance less in the exponent keeps the mean where it was.
            base * (tail * self.dice.normal() - 0.5 * tail * tail).exp()
        } else {
            base + self.law.jitter.as_secs_f64() * self.dice.between(-1.0, 1.0)
        };
        if let Some(knee) = self.law.knee {
            seconds *= (f64::from(self.in_flight) / knee).max(1.0);
        }
        if let Some(drift) = self.law.drift {
            let turn = now / drift.period.as_secs_f64() * std::f64::consts::TAU;
            seconds *= 1.0 + (drift.factor - 1.0) * 0.5 * (1.0 - turn.cos());
        }
        seconds.max(0.0)
    }

    /// Brings the counters that bind a key to `now`, in the order in which things happened.
    fn roll(&mut self, key: usize, now: f64) {
        while let Some(change) = self.law.changes.get(self.changed) {
            let at = change.at.as_secs_f64();
            if at > now {
                break;
            }
            for key in &mut self.keys {
                key.meters = key.own_or(&change.limits, at);
            }
            self.account = account_meters(&change.limits, at);
            self.changed += 1;
        }
        if let Some(others) = self.law.others {
            self.let_others_in(others, now);
        }
        let meters = self.keys[key].meters.iter_mut().chain(&mut self.account);
        meters.for_each(|meter| meter.roll(now));
    }

    fn let_others_in(&mut self, others: Others, now: f64) {
        let step = 1.0 / others.rate;
        while self.others_until + step <= now {
            self.others_until += step;
            let at = self.others_until;
            for key in &mut self.keys {
                for meter in key.meters.iter_mut().chain(&mut self.account) {
                    meter.roll(at);
                    if meter.shut(others.tokens, 0, at).is_none() {
                        meter.spend(others.tokens, at);
                    }
                }
            }
        }
    }

    fn headers(&mut self, key: usize, wait: Option<f64>, now: f64) -> HeaderMap {
        let style = self.law.headers;
        if style == Style::None {
            return HeaderMap::new();
        }
        let mut headers = HeaderMap::with_capacity(MOST_HEADERS);
        self.views.clear();
        let meters = self.keys[key].meters.iter().chain(&self.account);
        self.views
            .extend(meters.filter_map(|meter| meter.view(now)));
        let told = Told {
            style,
            views: &self.views,
            wait,
            wall: self.wall + now,
        };
        headers::write(&told, &mut headers, &mut self.text);
        headers
    }

    fn dated(&mut self, mut reply: Reply, now: f64) -> Reply {
        if self.law.without_date || reply.delay == Duration::MAX {
            return reply;
        }
        // Many answers go out in the same second.
        let second = (self.wall + now + reply.delay.as_secs_f64()).floor();
        if self
            .date
            .as_ref()
            .is_none_or(|(written, _)| *written != second)
        {
            self.date = Some((second, headers::date(second, &mut self.text)));
        }
        if let Some((_, date)) = &self.date {
            reply.headers.insert(DATE, date.clone());
        }
        reply
    }
}

impl Reply {
    fn at_once(status: u16, body: &'static str) -> Self {
        let headers = HeaderMap::new();
        Self {
            status,
            headers,
            body,
            delay: Duration::ZERO,
            admitted: false,
        }
    }
}

fn account_meters(limits: &[Limit], origin: f64) -> Vec<Meter> {
    let of_account = limits.iter().filter(|limit| limit.per() == Per::Account);
    of_account
        .map(|limit| Meter::new(limit.clone(), origin))
        .collect()
}

/// A refusal; a ban that is answered so says until when.
const TOO_MANY: u16 = 429;
/// What the styles put into the body of a 429, as far as clients read it.
fn refusal_body(style: Style) -> &'static str {
    match style {
        Style::OpenAi => {
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#
        }
        Style::Anthropic => {
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"Rate limit reached"}}"#
        }
        Style::GitHub => r#"{"message":"API rate limit exceeded"}"#,
        Style::Ietf | Style::Lists | Style::NamedWindows | Style::RetryAfter | Style::None => {
            "Too Many Requests"
        }
    }
}

/// Room for what the wordiest style writes: six quotas, two waits and the date.
const MOST_HEADERS: usize = 9;

#[cfg(test)]
mod tests;
