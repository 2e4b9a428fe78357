//! promptfoo's adaptive scheduler: a number in flight that is halved at each 429, cut ahead of
//! time when little is left, raised after five successes in a row; a queue that stops while a
//! quota is spent until the one reset it knows.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};

use crate::Time;
use crate::feedback::{self, Dimension, Feedback, Profile};
use crate::sim::client::End;
use crate::sim::dice::Dice;

use super::{CALLERS, Rule, is_refusal};

pub(super) struct Promptfoo {
    in_flight: usize,
    current: f64,
    streak: u32,
    /// What is left and the limit: of requests, and of tokens.
    quotas: [Option<(f64, f64)>; 2],
    reset: Option<Time>,
    /// The seconds that the server asked to wait at the last refusal.
    hint: Option<f64>,
}

impl Promptfoo {
    pub(super) fn new() -> Self {
        let current = CALLERS as f64;
        Self {
            in_flight: 0,
            current,
            streak: 0,
            quotas: [None; 2],
            reset: None,
            hint: None,
        }
    }

    /// Whether the queue is stopped, and until when. A reset that has passed clears what it was
    /// about.
    fn stopped_until(&mut self, now: Time) -> Option<Time> {
        let reset = self.reset?;
        if reset <= now {
            self.reset = None;
            self.quotas = [None; 2];
            return None;
        }
        let spent = self
            .quotas
            .iter()
            .flatten()
            .any(|&(remaining, _)| remaining <= 0.0);
        spent.then_some(reset)
    }

    fn learn(&mut self, told: &Feedback, now: Time) {
        let places = [(0, Dimension::Requests), (1, Dimension::Tokens)];
        for (place, dimension) in places {
            let reading = told
                .readings
                .iter()
                .find(|reading| reading.dimension == dimension);
            if let Some(reading) = reading
                && let (Some(remaining), Some(limit)) = (reading.remaining, reading.limit)
            {
                self.quotas[place] = Some((remaining, limit));
            }
        }
        // One reset for both dimensions: the first that can be read, requests first.
        let first = places.iter().find_map(|&(_, dimension)| {
            let reading = told
                .readings
                .iter()
                .find(|reading| reading.dimension == dimension)?;
            reading.reset
        });
        if let Some(reset) = first {
            self.reset = Some(now + reset.after);
        }
        let ratio = self.quotas.iter().flatten().filter(|quota| quota.1 > 0.0);
        let ratio = ratio
            .map(|&(remaining, limit)| remaining / limit)
            .fold(1.0, f64::min);
        if ratio < WARNING && self.current > 1.0 {
            let factor = 0.2 + ratio.max(0.0) / WARNING * 0.4;
            self.current = (self.current * factor).floor().max(1.0);
        }
    }

    fn on_refusal(&mut self, now: Time) {
        self.streak = 0;
        self.current = (self.current * 0.5).floor().max(1.0);
        for quota in &mut self.quotas {
            *quota = Some((0.0, quota.map_or(0.0, |quota| quota.1)));
        }
        self.reset = match (self.hint, self.reset) {
            (Some(hint), reset) => Some(now.plus_secs(hint).max(reset.unwrap_or(Time::START))),
            (None, Some(reset)) => Some(reset),
            (None, None) => Some(now.plus_secs(UNHINTED)),
        };
    }

    fn on_success(&mut self) {
        self.streak += 1;
        let most = CALLERS as f64;
        if self.streak >= 5 && self.current < most {
            self.current = (self.current * 1.5).ceil().min(most);
            self.streak = 0;
        }
    }
}

impl Rule for Promptfoo {
    const HOLDS: bool = false;

    fn gate(&mut self, now: Time) -> Time {
        if let Some(reset) = self.stopped_until(now) {
            return reset;
        }
        if (self.in_flight as f64) < self.current {
            now
        } else {
            Time::NEVER
        }
    }

    fn on_sent(&mut self, _again: bool, _now: Time) {
        self.in_flight += 1;
    }

    fn on_left(&mut self, _first_sent: Time, _end: End<'_>, _now: Time) {
        self.in_flight -= 1;
    }

    fn on_answer(&mut self, _sent: Time, end: End<'_>, now: Time) {
        let End::Answer(reply) = end else { return };
        let status = StatusCode::from_u16(reply.status).expect("providers answer statuses");
        // It knows no structured fields.
        let readable = !reply.headers.contains_key("ratelimit");
        let none = HeaderMap::new();
        let headers = if readable { &reply.headers } else { &none };
        let received = SystemTime::UNIX_EPOCH;
        let told = feedback::read(&Profile::NONE, status, headers, None, received);
        self.hint = told.wait.map(|wait| wait.delay.as_secs_f64());
        self.learn(&told, now);
        if is_refusal(end) {
            self.on_refusal(now);
        } else {
            // Whatever is no 429 counts as a success for the streak.
            self.on_success();
        }
    }

    fn retry(&mut self, attempts: u16, end: End<'_>, dice: &mut Dice) -> Option<f64> {
        let transient = match end {
            End::Broken => true,
            End::Answer(reply) => matches!(reply.status, 429 | 502 | 503 | 504),
        };
        if !transient || attempts > RETRIES {
            return None;
        }
        let jitter = 1.0 + 0.2 * dice.unit();
        let wait = match self.hint.filter(|_| is_refusal(end)) {
            Some(hint) => hint * jitter,
            None => 2f64.powi(i32::from(attempts)) * jitter,
        };
        Some(wait.min(LONGEST))
    }
}

/// Its share of the limit below which it slows down ahead of time.
const WARNING: f64 = 0.1;
/// How long a refusal without any hint stops the whole key, in seconds.
const UNHINTED: f64 = 60.0;
/// Its default number of retries.
const RETRIES: u16 = 3;
/// Its longest delay, in seconds.
const LONGEST: f64 = 60.0;
