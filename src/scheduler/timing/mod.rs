//! How long a provider takes to answer and to refuse, and how unevenly requests reach it.
//!
//! Every estimator asks here instead of carrying a constant of the network: what is a refusal's
//! way back on one link is a rounding error on another.

use super::time::Time;

mod server_clock;

pub(crate) use server_clock::ServerClock;

/// Measured times of one provider, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    answer: Option<f64>,
    refusal: f64,
    fastest_refusal: f64,
    jitter: Jitter,
    /// Its clock, as far as its `Date` headers tell.
    pub(crate) clock: ServerClock,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer: None,
            refusal: FIRST_REFUSAL,
            fastest_refusal: f64::INFINITY,
            jitter: Jitter::default(),
            clock: ServerClock::default(),
        }
    }
}

impl Timing {
    /// A request was served after `took` seconds.
    pub(crate) fn on_success(&mut self, took: f64) {
        self.answer = Some(match self.answer {
            None => took,
            Some(usual) => usual + ANSWER_WEIGHT * (took - usual),
        });
    }

    /// A request was refused after `took` seconds.
    pub(crate) fn on_refusal(&mut self, took: f64, now: Time) {
        // Up at once: a send that seems accepted because its refusal is late makes a false bound.
        let weight = if took > self.refusal {
            1.0
        } else {
            REFUSAL_WEIGHT
        };
        self.refusal += weight * (took - self.refusal);
        self.fastest_refusal = self.fastest_refusal.min(took);
        // A fast refusal does no work, so what it varies by is the network. A slow one was worked
        // on, and its spread says nothing about arrivals.
        if self.answer.is_none_or(|usual| took < FAST * usual) {
            self.jitter.raise(took - self.fastest_refusal, now);
        }
    }

    /// Requests sent `spread` seconds apart were seen to arrive in the other order.
    pub(crate) fn on_disorder(&mut self, spread: f64, now: Time) {
        self.jitter.raise(spread, now);
    }

    /// A request was refused that the model of a told quota had room for.
    pub(crate) fn on_surprise(&mut self, now: Time) {
        self.jitter
            .raise((1.5 * self.jitter()).min(SURPRISE_AT_MOST), now);
    }

    /// The usual time of an answer; none before the first.
    pub(crate) fn answer(&self) -> Option<f64> {
        self.answer
    }

    /// As long as one must wait to have heard of a refusal: a send older than this and not refused
    /// was accepted. Half a second at most, for refusals that take as long as answers.
    pub(crate) fn hearing(&self) -> f64 {
        2.0 * self.refusal.min(SLOWEST_REFUSAL)
    }

    /// The same without that bound, for what must not be mistaken.
    pub(crate) fn heard_after(&self) -> f64 {
        2.0 * self.refusal
    }

    /// Whether a refusal is heard well before an answer would be.
    pub(crate) fn refuses_fast(&self) -> bool {
        self.answer.is_none_or(|usual| self.refusal < FAST * usual)
    }

    /// Whether a question that may be refused is heard soon: it then stops others for no longer than a
    /// stall would.
    pub(crate) fn hears_soon(&self) -> bool {
        self.hearing() <= SOON || self.refuses_fast()
    }

    /// The share of an answer's time that is spent on the network, as a fast refusal tells.
    pub(crate) fn on_the_way(&self) -> f64 {
        match self.answer {
            Some(usual) if self.refuses_fast() && self.fastest_refusal.is_finite() => {
                self.refusal / usual.max(self.refusal)
            }
            _ => 0.0,
        }
    }

    /// By how much two requests may swap on their way.
    pub(crate) fn jitter(&self) -> f64 {
        self.jitter.seconds()
    }
}

/// The largest spread of arrivals seen of late.
///
/// A spread is remembered for one to two [`Jitter::MEMORY`]s, so that the slow first requests on
/// new connections do not widen every margin for the rest of a run.
#[derive(Clone, Debug)]
struct Jitter {
    recent: f64,
    before: f64,
    since: Time,
}

impl Default for Jitter {
    fn default() -> Self {
        Self {
            recent: LEAST_JITTER,
            before: LEAST_JITTER,
            since: Time::START,
        }
    }
}

impl Jitter {
    /// Long against a window of a minute's first second, short against a run: a spread that is
    /// real is seen again within it.
    const MEMORY: f64 = 20.0;

    fn raise(&mut self, spread: f64, now: Time) {
        if now.secs_since(self.since) > Self::MEMORY {
            self.before = self.recent;
            self.recent = LEAST_JITTER;
            self.since = now;
        }
        // A tenth more: the largest of a few samples lies below the largest there is.
        self.recent = self
            .recent
            .max((1.1 * spread).clamp(LEAST_JITTER, MOST_JITTER));
    }

    fn seconds(&self) -> f64 {
        self.recent.max(self.before)
    }
}

/// Before a refusal was seen: what one takes on a near network, whole way. Too long costs a few
/// milliseconds per surprise, too short lets a second request into the same surprise.
const FIRST_REFUSAL: f64 = 0.005;
/// Falls within three refusals; they are rare.
const REFUSAL_WEIGHT: f64 = 0.3;
/// TCP's weight for its smoothed round trip is 1/8; answers vary more.
const ANSWER_WEIGHT: f64 = 0.1;
/// Refusals that take a full answer of a slow model must not stop a key for seconds.
const SLOWEST_REFUSAL: f64 = 0.5;
/// A refusal counts as fast, and so as a measure of the network, below this share of an answer.
const FAST: f64 = 0.3;
/// In seconds.
const SOON: f64 = 0.05;
/// Real networks reorder requests by a few milliseconds at least (separate connections).
const LEAST_JITTER: f64 = 0.005;
/// More is not disorder of a network: a new connection's handshake is the largest real cause.
const MOST_JITTER: f64 = 0.1;
/// Surprises have other causes too (another client): they alone do not widen the margins further.
const SURPRISE_AT_MOST: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn jitter_is_the_spread_of_fast_refusals_and_never_below_five_milliseconds() {
        let mut timing = Timing::default();
        assert_eq!(timing.jitter(), 0.005);
        timing.on_refusal(0.001, at(1.0));
        timing.on_refusal(0.011, at(1.1));
        assert!((timing.jitter() - 0.011).abs() < 1e-9);
    }

    #[test]
    fn a_spread_is_forgotten_when_it_is_not_seen_again() {
        let mut timing = Timing::default();
        timing.on_disorder(0.08, at(0.0));
        assert!(timing.jitter() > 0.08);
        timing.on_disorder(0.001, at(30.0));
        assert!(timing.jitter() > 0.08, "kept for at least one memory");
        timing.on_disorder(0.001, at(60.0));
        assert_eq!(timing.jitter(), LEAST_JITTER);
    }

    #[test]
    fn slow_refusals_say_nothing_about_the_network() {
        let mut timing = Timing::default();
        timing.on_success(0.1);
        timing.on_refusal(0.07, at(1.0));
        timing.on_refusal(0.13, at(1.1));
        assert_eq!(timing.jitter(), LEAST_JITTER);
        assert!(timing.hearing() > 0.05);
    }
}
