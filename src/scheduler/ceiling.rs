//! Hard rates and hard numbers in flight: the last local gate.
//!
//! Invariant: in every sliding window of its length at most the stated amount starts, whatever
//! else the scheduler has learned; it shares no state with what learns. An attempt counts from its
//! grant, and its window begins when it is really started, so that a grant that was taken up late
//! can never come too close to the next.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::feedback::Dimension;

use super::events::{Cost, Gate, Reason};
use super::reserve::Reserve;
use super::time::Time;

mod spent;

pub(super) use spent::Spent;

/// A hard rate: at most `amount` of a dimension in every sliding window of `per`, lengthened by
/// `margin`.
///
/// Written `"1/1s"`, `"1/1s+10%"`, `"500/min"`, `"30000 tokens/1m"`; the length is a duration such
/// as `1s`, `250ms`, `1m`, `1h 30m`, or a unit alone, of which it is one: `s`, `min`, `h`, `day`.
///
/// ```
/// let ceiling: paceline::Ceiling = "1/1s+10%".parse()?;
/// assert_eq!(ceiling.window().as_millis(), 1100);
/// # Ok::<(), paceline::CeilingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    amount: u64,
    dimension: Dimension,
    per: Duration,
    margin: f64,
}

impl Ceiling {
    /// At most `amount` requests in every window of `per`.
    ///
    /// # Errors
    ///
    /// If the amount is zero or the window is shorter than a microsecond or longer than 366 days.
    pub fn new(amount: u64, per: Duration) -> Result<Self, CeilingError> {
        if amount == 0 {
            return Err(CeilingError::Amount);
        }
        if per < SHORTEST || per > LONGEST {
            return Err(CeilingError::Window(per));
        }
        Ok(Self {
            amount,
            dimension: Dimension::Requests,
            per,
            margin: 0.0,
        })
    }

    /// Counts something else than requests.
    #[must_use]
    pub fn of(mut self, dimension: Dimension) -> Self {
        self.dimension = dimension;
        self
    }

    /// Lengthens the window by a share of it, 0 to 1: the network can bring two requests closer
    /// together than they left. 0.1 turns one second into 1,100 ms.
    ///
    /// # Errors
    ///
    /// If the share is not within 0 to 1.
    pub fn margin(mut self, margin: f64) -> Result<Self, CeilingError> {
        if !(0.0..=1.0).contains(&margin) {
            return Err(CeilingError::Margin);
        }
        self.margin = margin;
        Ok(self)
    }

    /// The amount.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// What is counted.
    #[must_use]
    pub const fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// The length of the window with its margin.
    #[must_use]
    pub fn window(&self) -> Duration {
        // To the nanosecond, upwards: a ceiling is kept to the letter.
        let nanos = (self.per.as_nanos() as f64 * (1.0 + self.margin)).ceil();
        Duration::from_nanos(nanos as u64)
    }
}

impl TryFrom<&str> for Ceiling {
    type Error = CeilingError;

    fn try_from(text: &str) -> Result<Self, CeilingError> {
        text.parse()
    }
}

impl FromStr for Ceiling {
    type Err = CeilingError;

    fn from_str(text: &str) -> Result<Self, CeilingError> {
        let malformed = || CeilingError::Malformed(text.to_owned());
        let (amount, rest) = text.split_once('/').ok_or_else(malformed)?;
        let (per, margin) = match rest.split_once('+') {
            Some((per, margin)) => {
                let percent = margin.trim().strip_suffix('%').ok_or_else(malformed)?;
                let percent: f64 = percent.trim().parse().map_err(|_| malformed())?;
                (per, percent / 100.0)
            }
            None => (rest, 0.0),
        };
        let amount = amount.trim();
        let (number, dimension) = match amount.split_once(char::is_whitespace) {
            None => (amount, Dimension::Requests),
            Some((number, unit)) => {
                let dimension = match unit.trim() {
                    "requests" => Dimension::Requests,
                    "tokens" => Dimension::Tokens,
                    "input tokens" => Dimension::InputTokens,
                    "output tokens" => Dimension::OutputTokens,
                    "points" => Dimension::Points,
                    "bytes" => Dimension::Bytes,
                    _ => return Err(malformed()),
                };
                (number, dimension)
            }
        };
        let number = number.parse().map_err(|_| malformed())?;
        let per = per.trim();
        let is_unit = per.starts_with(|sign: char| sign.is_ascii_alphabetic());
        let per = humantime::parse_duration(&format!("{}{per}", if is_unit { "1" } else { "" }));
        let per = per.map_err(|_| malformed())?;
        Self::new(number, per)?.of(dimension).margin(margin)
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.dimension {
            Dimension::Tokens => " tokens",
            Dimension::InputTokens => " input tokens",
            Dimension::OutputTokens => " output tokens",
            Dimension::Points => " points",
            Dimension::Bytes => " bytes",
            _ => "",
        };
        write!(
            f,
            "{}{unit}/{}",
            self.amount,
            humantime::format_duration(self.per)
        )?;
        if self.margin > 0.0 {
            write!(f, "+{}%", self.margin * 100.0)?;
        }
        Ok(())
    }
}

/// What is wrong with a ceiling.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingError {
    /// It is not of the form "1/1s+10%".
    #[error(
        "rate {0:?} is not of the form AMOUNT/DURATION, such as \"500/min\", \"1/1s+10%\" or \
         \"30000 tokens/1m\""
    )]
    Malformed(String),
    /// The amount is zero.
    #[error("a rate of 0 lets nothing through: use an amount of at least 1")]
    Amount,
    /// The window is too short or too long.
    #[error("a rate over {0:?} cannot be kept: use a duration from 1us to 366days")]
    Window(Duration),
    /// The margin is not a share.
    #[error("the margin of a rate must be between 0% and 100%")]
    Margin,
}

/// The ceilings of one key, or of the provider as a whole, and what counts against them.
#[derive(Debug, Default)]
pub(crate) struct Ceilings {
    rates: Vec<Rate>,
    max_in_flight: Option<u32>,
    in_flight: u32,
}

impl Ceilings {
    pub(crate) fn new(rates: &[Ceiling], max_in_flight: Option<u32>) -> Self {
        Self {
            rates: rates.iter().copied().map(Rate::new).collect(),
            max_in_flight,
            in_flight: 0,
        }
    }

    /// Changes the ceilings. What was sent stays in the windows: a rate goes on with the longest
    /// log of its dimension that there is.
    pub(crate) fn set(&mut self, rates: &[Ceiling], max_in_flight: Option<u32>) {
        self.max_in_flight = max_in_flight;
        let old = std::mem::take(&mut self.rates);
        self.rates = rates
            .iter()
            .map(|&ceiling| {
                let same = old
                    .iter()
                    .filter(|rate| rate.ceiling.dimension == ceiling.dimension);
                let mut rate = Rate::new(ceiling);
                if let Some(longest) = same.max_by_key(|rate| rate.window) {
                    rate.pending = longest.pending;
                    rate.in_window = longest.in_window;
                    rate.started.clone_from(&longest.started);
                    rate.earlier = longest.earlier_within(rate.window);
                }
                rate
            })
            .collect();
    }

    /// Whether one more may be in flight.
    pub(crate) fn has_slot(&self) -> bool {
        self.max_in_flight.is_none_or(|max| self.in_flight < max)
    }

    pub(crate) fn gate(&self, cost: &Cost, now: Time) -> Gate {
        if !self.has_slot() {
            return Gate::Shut {
                until: Time::NEVER,
                reason: Reason::Slots,
            };
        }
        let until = self
            .rates
            .iter()
            .map(|rate| rate.ready(rate.cost(cost), now))
            .max();
        Gate::at(until.unwrap_or(now), Reason::Ceiling, now)
    }

    /// Whether an ask of this cost that starts now leaves enough for one of the cost `claimed` at
    /// `until`, as far as it takes of it at all.
    pub(crate) fn leaves(&self, claimed: &Cost, cost: &Cost, until: Time, now: Time) -> bool {
        self.rates.iter().all(|rate| {
            let cost = rate.cost(cost);
            let both = rate.cost(claimed).saturating_add(cost);
            let is_back = now + rate.window <= until;
            let fits = || both <= rate.ceiling.amount && rate.ready(both, now) <= until;
            cost == 0 || (until != Time::NEVER && (is_back || fits()))
        })
    }

    /// The moment before which an ask of this cost surely cannot pass: a request that has started
    /// stays in its windows. What was granted and has not started may still be given back, and so
    /// may tokens that were not used.
    pub(crate) fn opens(&self, cost: &Cost, now: Time) -> Time {
        let is_certain = |rate: &&Rate| rate.counts_requests() && rate.pending == 0;
        let certain = self.rates.iter().filter(is_certain);
        let opens = certain.map(|rate| rate.ready(rate.cost(cost), now));
        opens.max().unwrap_or(now).max(now)
    }

    /// Whether any rate counts requests.
    pub(crate) fn has_request_rates(&self) -> bool {
        self.rates.iter().any(Rate::counts_requests)
    }

    /// The least time after which one more than `before` requests have been sent by so many keys of
    /// which each keeps these rates, if nothing was sent before.
    pub(crate) fn least_time_for(&self, before: u64, keys: u64) -> Duration {
        let times = self.rates.iter().filter(|rate| rate.counts_requests());
        let times = times.map(|rate| {
            let at_once = rate.ceiling.amount.saturating_mul(keys.max(1));
            let windows = u32::try_from(before / at_once).unwrap_or(u32::MAX);
            rate.window.saturating_mul(windows)
        });
        times.max().unwrap_or_default()
    }

    /// What is kept from an ask of this cost that all gates let pass.
    pub(crate) fn reserve_gate(
        &self,
        cost: &Cost,
        reserve: &Reserve,
        usual: Option<Duration>,
        now: Time,
    ) -> Gate {
        let slots = self.max_in_flight.map_or(Gate::Open, |most| {
            reserve.slots(most, self.in_flight, usual)
        });
        let free = self.rates.iter().map(|rate| {
            let kept = reserve.of(rate.ceiling.amount as f64) as u64;
            rate.ready(rate.cost(cost).saturating_add(kept), now)
        });
        slots.and(reserve.gate(free.max().unwrap_or(now), now))
    }

    /// The most that may be in flight, if that is bounded.
    pub(crate) fn most_in_flight(&self) -> Option<u32> {
        self.max_in_flight
    }

    /// Each hard rate and what is left of it now.
    pub(crate) fn rates(&self, now: Time) -> impl Iterator<Item = (Ceiling, u64)> + '_ {
        self.rates.iter().map(move |rate| {
            let old = rate.ends().take_while(|&(end, _)| end <= now);
            let gone: u64 = old.map(|(_, amount)| amount).sum();
            let taken = rate.pending + rate.in_window - gone;
            (rate.ceiling, rate.ceiling.amount.saturating_sub(taken))
        })
    }

    /// The dimension of which `cost` takes more than a whole ceiling, and that ceiling.
    pub(crate) fn too_large(&self, cost: &Cost) -> Option<(Dimension, f64)> {
        self.rates.iter().find_map(|rate| {
            let amount = rate.ceiling.amount;
            (rate.cost(cost) > amount).then_some((rate.ceiling.dimension, amount as f64))
        })
    }

    /// An attempt was granted.
    pub(crate) fn on_granted(&mut self, cost: &Cost) {
        self.in_flight += 1;
        for rate in &mut self.rates {
            rate.pending += rate.cost(cost);
        }
    }

    /// A granted attempt starts: its windows begin now.
    pub(crate) fn on_started(&mut self, cost: &Cost, now: Time) {
        for rate in &mut self.rates {
            let cost = rate.cost(cost);
            rate.pending = rate.pending.saturating_sub(cost);
            rate.log(cost, now);
        }
    }

    /// A granted attempt will not start: nothing was sent.
    pub(crate) fn on_refunded(&mut self, cost: &Cost) {
        self.in_flight = self.in_flight.saturating_sub(1);
        for rate in &mut self.rates {
            let cost = rate.cost(cost);
            rate.pending = rate.pending.saturating_sub(cost);
        }
    }

    /// An attempt that was started then was not sent: it counts as granted and not started.
    pub(crate) fn on_unstarted(&mut self, cost: &Cost, started: Time, now: Time) {
        for rate in &mut self.rates {
            let cost = rate.cost(cost);
            rate.settle(started, cost, 0, now);
            rate.pending += cost;
        }
    }

    /// Something was sent that passed no gate (a redirect hop): charged afterwards.
    pub(crate) fn charge(&mut self, cost: &Cost, now: Time) {
        for rate in &mut self.rates {
            let cost = rate.cost(cost);
            rate.log(cost, now);
        }
    }

    /// What was charged as `reckoned` at `started` has taken this in truth.
    pub(crate) fn settle(
        &mut self,
        reckoned: &Cost,
        told: &[(Dimension, f64)],
        started: Time,
        now: Time,
    ) {
        for rate in &mut self.rates {
            let told = told.iter().find(|told| told.0 == rate.ceiling.dimension);
            if let Some(&(dimension, actual)) = told {
                let mut cost = *reckoned;
                cost.set(dimension, actual);
                rate.settle(started, rate.cost(reckoned), rate.cost(&cost), now);
            }
        }
    }

    /// An attempt that was started has ended, or its slot is lent.
    pub(crate) fn on_ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// An attempt whose slot was lent counts again.
    pub(crate) fn on_reclaimed(&mut self) {
        self.in_flight += 1;
    }
}

/// One hard rate with its log.
#[derive(Debug)]
struct Rate {
    ceiling: Ceiling,
    window: Duration,
    /// Granted and not started: in the window for as long as it takes.
    pending: u64,
    /// Starts within the last window, oldest first.
    started: VecDeque<(Time, u64)>,
    /// What another scheduler had started, and when it leaves the window.
    earlier: VecDeque<(Time, u64)>,
    /// The sum of both.
    in_window: u64,
}

impl Rate {
    fn new(ceiling: Ceiling) -> Self {
        Self {
            ceiling,
            window: ceiling.window(),
            pending: 0,
            started: VecDeque::new(),
            earlier: VecDeque::new(),
            in_window: 0,
        }
    }

    fn counts_requests(&self) -> bool {
        self.ceiling.dimension == Dimension::Requests
    }

    fn cost(&self, cost: &Cost) -> u64 {
        cost.of(self.ceiling.dimension) as u64
    }

    /// The first moment at which so much fits.
    fn ready(&self, cost: u64, now: Time) -> Time {
        // What takes more than everything was refused at submit; a ceiling lowered since then
        // must not hold it for ever.
        let cost = cost.min(self.ceiling.amount);
        let mut excess = (self.pending + self.in_window + cost).saturating_sub(self.ceiling.amount);
        if excess == 0 {
            return now;
        }
        for (end, amount) in self.ends() {
            if amount >= excess {
                return end.max(now);
            }
            excess -= amount;
        }
        // Only grants that have not started hold it up.
        Time::NEVER
    }

    /// What is in the window, and when it leaves it, in that order: what came from before began
    /// earlier than everything here.
    fn ends(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        let started = self.started.iter();
        let started = started.map(|&(at, amount)| (at + self.window, amount));
        self.earlier.iter().copied().chain(started)
    }

    fn settle(&mut self, started: Time, reckoned: u64, actual: u64, now: Time) {
        let owed = actual.saturating_sub(reckoned);
        if started + self.window <= now {
            // What was charged has left the window; what was not is owed all the same.
            if owed > 0 {
                self.log(owed, now);
            }
            return;
        }
        let index = self.started.partition_point(|entry| entry.0 < started);
        let Some((_, amount)) = self.started.get_mut(index) else {
            return;
        };
        let back = reckoned.saturating_sub(actual).min(*amount);
        *amount = *amount + owed - back;
        self.in_window = self.in_window + owed - back;
    }

    fn log(&mut self, cost: u64, now: Time) {
        while let Some(&(_, amount)) = self.earlier.front().filter(|entry| entry.0 <= now) {
            self.earlier.pop_front();
            self.in_window -= amount;
        }
        while let Some(&(at, amount)) = self.started.front() {
            if at + self.window > now {
                break;
            }
            self.started.pop_front();
            self.in_window -= amount;
        }
        self.in_window += cost;
        let resolution = self.window / LOG as u32;
        let is_full = self.started.len() >= LOG;
        match self.started.back_mut() {
            // One entry a moment, so that whatever is given back of that moment is found there; and
            // counting an older start as a newer one can only make it wait longer.
            Some(last) if last.0 == now || is_full && now.since(last.0) < resolution => {
                *last = (now, last.1 + cost);
            }
            _ => self.started.push_back((now, cost)),
        }
    }
}

/// Shorter windows are below what timers and networks keep.
const SHORTEST: Duration = Duration::from_micros(1);
/// Longer ones are a budget, not a rate.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// Entries of a log before neighbours are merged: 1 MiB at most, an error of 1/65,536 of the
/// window at most, and on the safe side.
const LOG: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ceilings(text: &str) -> Ceilings {
        Ceilings::new(&[text.parse().unwrap()], None)
    }

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn send(ceilings: &mut Ceilings, now: Time) {
        ceilings.on_granted(&Cost::ONE);
        ceilings.on_started(&Cost::ONE, now);
        ceilings.on_ended();
    }

    fn shut(until: Time) -> Gate {
        Gate::Shut {
            until,
            reason: Reason::Ceiling,
        }
    }

    #[test]
    fn one_a_second_with_a_margin_is_one_in_1100_ms() {
        let mut one = ceilings("1/1s+10%");
        assert_eq!(one.gate(&Cost::ONE, at(0)), Gate::Open);
        send(&mut one, at(0));
        assert_eq!(one.gate(&Cost::ONE, at(1)), shut(at(1100)));
        assert_eq!(one.gate(&Cost::ONE, at(1100)), Gate::Open);
    }

    #[test]
    fn a_window_begins_when_the_attempt_starts_and_not_at_its_grant() {
        let mut one = ceilings("1/1s");
        one.on_granted(&Cost::ONE);
        assert_eq!(one.gate(&Cost::ONE, at(5000)), shut(Time::NEVER));
        one.on_started(&Cost::ONE, at(700));
        assert_eq!(one.gate(&Cost::ONE, at(1000)), shut(at(1700)));
    }

    #[test]
    fn what_never_started_is_given_back() {
        let mut one = ceilings("1/1s");
        one.on_granted(&Cost::ONE);
        one.on_refunded(&Cost::ONE);
        assert_eq!(one.gate(&Cost::ONE, at(0)), Gate::Open);
    }

    #[test]
    fn a_number_in_flight_holds_until_one_ends() {
        let mut two = Ceilings::new(&[], Some(2));
        two.on_granted(&Cost::ONE);
        two.on_granted(&Cost::ONE);
        let full = Gate::Shut {
            until: Time::NEVER,
            reason: Reason::Slots,
        };
        assert_eq!(two.gate(&Cost::ONE, at(0)), full);
        two.on_started(&Cost::ONE, at(0));
        two.on_ended();
        assert_eq!(two.gate(&Cost::ONE, at(0)), Gate::Open);
    }

    #[test]
    fn what_a_request_really_took_is_given_back_or_owed() {
        let (mut tokens, cost) = (ceilings("1000 tokens/1m"), Cost::tokens(600));
        tokens.on_granted(&cost);
        tokens.on_started(&cost, at(0));
        tokens.settle(&cost, &[(Dimension::Tokens, 20.0)], at(0), at(500));
        assert_eq!(tokens.gate(&Cost::tokens(980), at(500)), Gate::Open);
        tokens.settle(
            &Cost::tokens(20),
            &[(Dimension::Tokens, 5000.0)],
            at(0),
            at(600),
        );
        assert_eq!(tokens.gate(&Cost::tokens(1), at(600)), shut(at(60_000)));
        // An answer that is longer than the window owes what was not charged.
        tokens.settle(&cost, &[(Dimension::Tokens, 1600.0)], at(0), at(70_000));
        assert_eq!(tokens.gate(&Cost::tokens(1), at(70_000)), shut(at(130_000)));
    }

    #[test]
    fn tokens_are_counted_by_cost() {
        let mut tokens = ceilings("1000 tokens/1m");
        let cost = Cost::tokens(600);
        tokens.on_granted(&cost);
        tokens.on_started(&cost, at(0));
        assert_eq!(tokens.gate(&Cost::tokens(400), at(1)), Gate::Open);
        assert_eq!(tokens.gate(&cost, at(1)), shut(at(60_000)));
        assert_eq!(
            tokens.too_large(&Cost::tokens(1001)),
            Some((Dimension::Tokens, 1000.0))
        );
    }

    #[test]
    fn text_is_read_whole_or_refused_with_the_text_in_the_error() {
        for good in [
            "1/1s",
            "500/1m",
            "1/1s+10%",
            "30000 tokens/1m",
            "5 / 250ms",
            "2/1s+2.5%",
            "500/min",
            "1 / s + 10%",
            "30000 tokens/hour",
        ] {
            let ceiling: Ceiling = good.parse().unwrap();
            assert_eq!(ceiling.to_string().parse(), Ok(ceiling), "{good}");
        }
        for bad in [
            "",
            "1",
            "1/",
            "/1s",
            "x/1s",
            "1/1s+10",
            "-1/1s",
            "1.5/1s",
            "1 cows/1s",
            "1/moment",
            "1/.5s",
            "500rpm",
        ] {
            let error = bad.parse::<Ceiling>().unwrap_err();
            assert_eq!(error, CeilingError::Malformed(bad.to_owned()));
        }
        assert_eq!("500/min".parse::<Ceiling>(), "500/1m".parse());
        assert_eq!("0/1s".parse::<Ceiling>(), Err(CeilingError::Amount));
        assert_eq!(
            "1/0s".parse::<Ceiling>(),
            Err(CeilingError::Window(Duration::ZERO))
        );
        assert_eq!("1/1s+200%".parse::<Ceiling>(), Err(CeilingError::Margin));
    }

    proptest! {
        #[test]
        fn no_sliding_window_ever_holds_more_than_the_ceiling(
            amount in 1u64..8,
            window in 5u64..50,
            gaps in proptest::collection::vec((0u64..20, 0u64..10), 1..200),
        ) {
            let ceiling = Ceiling::new(amount, Duration::from_millis(window)).unwrap();
            let mut ceilings = Ceilings::new(&[ceiling], None);
            let (mut now, mut starts) = (0, Vec::new());
            for (gap, late) in gaps {
                now += gap;
                match ceilings.gate(&Cost::ONE, at(now)) {
                    Gate::Open => {}
                    Gate::Shut { until, .. } => {
                        // Refused before the stated moment, granted at it.
                        let before = Time::from_nanos(until.as_nanos() - 1);
                        prop_assert!(ceilings.gate(&Cost::ONE, before) != Gate::Open);
                        prop_assert_eq!(ceilings.gate(&Cost::ONE, until), Gate::Open);
                        now = now.max(until.as_nanos().div_ceil(1_000_000));
                    }
                }
                ceilings.on_granted(&Cost::ONE);
                now += late;
                ceilings.on_started(&Cost::ONE, at(now));
                ceilings.on_ended();
                starts.push(now);
            }
            for (index, &start) in starts.iter().enumerate() {
                let inside = starts[index..].iter().take_while(|&&s| s < start + window).count();
                prop_assert!(inside as u64 <= amount, "{} in {} ms", inside, window);
            }
        }
    }
}
