//! The grammars of single values: counts, delays and moments as servers write them.
//!
//! A value is matched as a whole or not at all, as bytes, with ASCII digits only. Nothing here
//! uses floating point for time: a delay that reads as one nanosecond too much still rounds up.

use std::time::Duration;

use super::dates;
use super::durations::compound;

/// A number as it was written: digits, and perhaps a point and more digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// Before the point.
    pub(crate) whole: u64,
    /// After the point, in billionths, rounded up.
    pub(crate) nanos: u32,
    /// How many digits stood after the point.
    pub(crate) places: u8,
}

/// A delay or a moment as it was written, before anything is known about clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Written {
    /// A bare number: seconds, milliseconds or an epoch.
    Number(Decimal),
    /// A duration with its units.
    Span(Span),
    /// An instant: nanoseconds since 1970, and how coarsely it was written.
    Instant(i64, Duration),
}

/// A duration, and how coarsely it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) length: Duration,
    pub(crate) grain: Duration,
}

/// What a bare number of time counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Unit {
    /// Seconds, or an epoch if its size says so.
    #[default]
    Seconds,
    /// Milliseconds, or an epoch if its size says so.
    Millis,
    /// Minutes.
    Minutes,
}

/// A delay from the moment of the response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delay {
    /// Rounded up to a millisecond.
    pub(crate) after: Duration,
    pub(crate) grain: Duration,
    /// The server's instant in nanoseconds since 1970, if it wrote one.
    pub(crate) instant: Option<i64>,
}

impl Decimal {
    /// Reads a whole value; surrounding blanks do not count.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = trim(text);
        if let Some(whole) = small(text) {
            return Some(Self {
                whole,
                nanos: 0,
                places: 0,
            });
        }
        let (decimal, rest) = Self::split(text)?;
        rest.is_empty().then_some(decimal)
    }

    /// Reads the number at the start of `text`, and gives back what follows it.
    pub(crate) fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let (whole, digits) = digits(text)?;
        let rest = &text[digits..];
        let Some((&b'.', fraction)) = rest.split_first() else {
            return Some((
                Self {
                    whole,
                    nanos: 0,
                    places: 0,
                },
                rest,
            ));
        };
        let places = fraction
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if places == 0 || places > MAX_DIGITS {
            return None;
        }
        let (kept, cut) = fraction[..places].split_at(places.min(9));
        let mut nanos = kept
            .iter()
            .fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        nanos *= 10_u32.pow(9 - kept.len() as u32);
        nanos += u32::from(cut.iter().any(|&digit| digit != b'0'));
        let carried = Self {
            whole: whole.saturating_add(u64::from(nanos / NANOS)),
            nanos: nanos % NANOS,
            places: places as u8,
        };
        Some((carried, &fraction[places..]))
    }

    /// As a duration in a unit of `unit` nanoseconds: a whole number of seconds, or a part of one.
    /// Saturates.
    pub(crate) fn span(self, unit: u64) -> Span {
        const SECOND: u64 = NANOS as u64;
        let length = if unit >= SECOND {
            let seconds = unit / SECOND;
            let part = u64::from(self.nanos) * seconds;
            let whole = self
                .whole
                .saturating_mul(seconds)
                .saturating_add(part / SECOND);
            Duration::new(whole, (part % SECOND) as u32)
        } else {
            let part = (u64::from(self.nanos) * unit).div_ceil(SECOND);
            match self
                .whole
                .checked_mul(unit)
                .and_then(|nanos| nanos.checked_add(part))
            {
                Some(nanos) => Duration::from_nanos(nanos),
                None => Duration::from_secs(self.whole / (SECOND / unit)),
            }
        };
        // A unit coarser than a second stands for a count of seconds that came out even.
        let grain = match self.places {
            0 => unit.min(SECOND),
            places => (unit / POWERS[usize::from(places.min(9))]).clamp(1, SECOND),
        };
        Span {
            length,
            grain: Duration::from_nanos(grain),
        }
    }

    /// The instant that this number means as an epoch in s, ms, µs or ns: the first of them that
    /// lies within ten years of `now`.
    fn epoch(self, now: i64) -> Option<(i64, Duration)> {
        if self.whole < LEAST_EPOCH {
            return None;
        }
        [u64::from(NANOS), 1_000_000, 1_000, 1]
            .into_iter()
            .find_map(|unit| {
                let part = u64::from(self.nanos) * unit / u64::from(NANOS);
                let nanos = self.whole.checked_mul(unit)?.checked_add(part)?;
                let nanos = i64::try_from(nanos).ok()?;
                (nanos.abs_diff(now) <= TEN_YEARS).then(|| (nanos, self.span(unit).grain))
            })
    }
}

impl Written {
    /// Reads a delay or a moment in any known form. `now` only settles two-digit years.
    #[inline]
    pub(crate) fn read(text: &[u8], now: i64) -> Option<Self> {
        if let Some(whole) = small(text) {
            return Some(Self::Number(Decimal {
                whole,
                nanos: 0,
                places: 0,
            }));
        }
        Self::form(trim(text), now)
    }

    /// Reads what is no short run of digits.
    #[inline(never)]
    fn form(text: &[u8], now: i64) -> Option<Self> {
        if text.first()?.is_ascii_digit() {
            if text.get(4) == Some(&b'-') {
                let (nanos, grain) = dates::rfc3339(text)?;
                return Some(Self::Instant(nanos, grain));
            }
            let (decimal, rest) = Decimal::split(text)?;
            if rest.is_empty() {
                return Some(Self::Number(decimal));
            }
            return compound(decimal, rest).map(Self::Span);
        }
        let secs = dates::read(text, now / i64::from(NANOS))?;
        Some(Self::Instant(
            secs.saturating_mul(i64::from(NANOS)),
            Duration::from_secs(1),
        ))
    }

    /// The delay that this means for a quota's reset: what is absurd is unknown.
    #[inline(always)]
    pub(crate) fn reset(self, unit: Unit, now: i64) -> Option<Delay> {
        match self {
            Self::Number(decimal) => {
                if let Some((nanos, grain)) = decimal.epoch(now) {
                    return Some(Delay::until(nanos, grain, now));
                }
                let span = decimal.span(unit.nanos());
                (span.length <= LONGEST_RESET).then(|| Delay::of(span))
            }
            Self::Span(span) => (span.length <= LONGEST_RESET).then(|| Delay::of(span)),
            Self::Instant(nanos, grain) => {
                (nanos.abs_diff(now) <= TEN_YEARS).then(|| Delay::until(nanos, grain, now))
            }
        }
    }

    /// The delay that this means as the server's word on when to come back: never discarded for
    /// its length, only cut at [`LONGEST_WAIT`].
    pub(crate) fn wait(self, unit: Unit, now: i64) -> Delay {
        let delay = match self {
            Self::Number(decimal) => match decimal.epoch(now) {
                Some((nanos, grain)) => Delay::until(nanos, grain, now),
                None => Delay::of(decimal.span(unit.nanos())),
            },
            Self::Span(span) => Delay::of(span),
            Self::Instant(nanos, grain) => Delay::until(nanos, grain, now),
        };
        Delay {
            after: delay.after.min(LONGEST_WAIT),
            ..delay
        }
    }
}

impl Delay {
    #[inline]
    fn of(span: Span) -> Self {
        Self {
            after: round_up(span.length),
            grain: span.grain,
            instant: None,
        }
    }

    #[inline]
    fn until(nanos: i64, grain: Duration, now: i64) -> Self {
        let ahead = if nanos > now { nanos.abs_diff(now) } else { 0 };
        Self {
            after: round_up(Duration::from_nanos(ahead)),
            grain,
            instant: Some(nanos),
        }
    }
}

impl Unit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Seconds => NANOS as u64,
            Self::Millis => 1_000_000,
            Self::Minutes => 60 * NANOS as u64,
        }
    }
}

/// A count: digits, perhaps a fraction, perhaps a minus sign.
#[inline]
pub(crate) fn count(text: &[u8]) -> Option<f64> {
    match small(text) {
        Some(whole) => Some(whole as f64),
        None => fraction(text),
    }
}

/// A count with a fraction, a sign, or blanks around it.
#[inline(never)]
fn fraction(text: &[u8]) -> Option<f64> {
    let text = trim(text);
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let decimal = Decimal::read(digits)?;
    let size = if decimal.nanos == 0 {
        decimal.whole as f64
    } else {
        // The grammar has passed, so this cannot read "inf" or an exponent.
        std::str::from_utf8(digits).ok()?.parse().ok()?
    };
    Some(if negative { -size } else { size })
}

/// A count with commas between groups of three digits: `1,199.46`.
pub(crate) fn grouped(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii();
    let mut plain = [0_u8; 32];
    let mut length = 0;
    let whole = text
        .iter()
        .position(|&byte| byte == b'.')
        .unwrap_or(text.len());
    for (at, &byte) in text.iter().enumerate() {
        if byte == b',' {
            let group = whole.checked_sub(at).filter(|_| at > 0)?;
            if group % 4 != 0 {
                return None;
            }
        } else {
            *plain.get_mut(length)? = byte;
            length += 1;
        }
    }
    count(&plain[..length])
}

/// Without the blanks around it, which are seldom there.
#[inline]
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => text.trim_ascii(),
        _ => text,
    }
}

/// A short run of digits and nothing else: nearly all that servers write.
#[inline]
fn small(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut sum = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + u64::from(digit);
    }
    Some(sum)
}

/// The digits at the start: their value, saturated, and how many they are.
fn digits(text: &[u8]) -> Option<(u64, usize)> {
    let mut sum = 0_u64;
    let mut length = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        sum = sum.saturating_mul(10).saturating_add(u64::from(digit));
        length += 1;
    }
    (1..=MAX_DIGITS).contains(&length).then_some((sum, length))
}

/// Up to the next whole millisecond: the unit in which paceline waits.
pub(crate) fn round_up(length: Duration) -> Duration {
    let over = length.subsec_nanos() % 1_000_000;
    if over == 0 {
        length
    } else {
        length.saturating_add(Duration::from_nanos(u64::from(1_000_000 - over)))
    }
}

/// Nanoseconds in a second.
pub(crate) const NANOS: u32 = 1_000_000_000;

/// The powers of ten, by their exponent.
const POWERS: [u64; 10] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// No server writes more digits on purpose: an epoch in nanoseconds has 19.
const MAX_DIGITS: usize = 20;

/// Below it, a number is never an epoch: 2001 in seconds, and every longer delta is absurd.
const LEAST_EPOCH: u64 = 1_000_000_000;

/// How far from now an epoch may lie to be believed (research/vendors, rule 1), in nanoseconds.
const TEN_YEARS: u64 = 10 * 31_557_600 * NANOS as u64;

/// The longest reset that is believed: a yearly quota and a month of grace (rule 1).
pub(crate) const LONGEST_RESET: Duration = Duration::from_secs(400 * 86_400);

/// What an absurd `Retry-After` is cut to: the overflow value of RFC 9111, 1.2.2.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1 << 31);

#[cfg(test)]
mod tests {
    use super::super::durations::duration;
    use super::*;

    const NOW: i64 = 1_773_144_000 * 1_000_000_000;

    fn reset(text: &str) -> Option<u128> {
        let written = Written::read(text.as_bytes(), NOW)?;
        written
            .reset(Unit::Seconds, NOW)
            .map(|delay| delay.after.as_millis())
    }

    fn wait(text: &str) -> Option<u128> {
        let written = Written::read(text.as_bytes(), NOW)?;
        Some(written.wait(Unit::Seconds, NOW).after.as_millis())
    }

    #[test]
    fn durations_are_read_whole_or_not_at_all() {
        let millis = [
            ("500ms", 500),
            ("45s", 45_000),
            ("1m30s", 90_000),
            ("1h30m", 5_400_000),
            ("2h15m30s", 8_130_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("6m0s", 360_000),
            ("2m59.56s", 179_560),
            ("1m0.5s", 60_500),
            ("23h47m36.648s", 85_656_648),
            ("17ms", 17),
            ("9ms", 9),
            ("732µs", 1),
            ("500us", 1),
            ("1ns", 1),
            ("0s", 0),
            ("1d", 86_400_000),
            ("1d2h", 93_600_000),
            (" 30s ", 30_000),
            ("34.074824224s", 34_075),
            ("4h17m", 15_420_000),
        ];
        for (text, expected) in millis {
            assert_eq!(reset(text), Some(expected), "{text}");
        }
        for text in [
            "1S", "120abc", "1e3s", "s", "5", "-4s", "infs", "1s1s", "1s2m", "1 s", "1.s", ".5s",
            "",
        ] {
            assert_eq!(duration(text.as_bytes()), None, "{text}");
        }
        // The micro sign in Latin-1, as some servers send it.
        assert_eq!(
            duration(b"732\xb5s").map(|span| span.length),
            Some(Duration::from_micros(732))
        );
    }

    #[test]
    fn a_bare_number_is_an_epoch_only_near_now() {
        let millis = [
            ("30", 30_000),
            ("0", 0),
            ("1.5", 1_500),
            ("588.42", 588_420),
            ("1773144060", 60_000),
            ("1773144030.250", 30_250),
            ("1773144060000", 60_000),
            ("1773145800000000", 1_800_000),
            ("1773145800000000000", 1_800_000),
            ("1773143940", 0),
            ("2163603", 2_163_603_000),
        ];
        for (text, expected) in millis {
            assert_eq!(reset(text), Some(expected), "{text}");
        }
        for text in [
            "4102444800",
            "1000000000",
            "99999999",
            "9999999999",
            "-1",
            "+5",
            "1e3",
            "Infinity",
            "nan",
            "0x10",
        ] {
            assert_eq!(reset(text), None, "{text}");
        }
    }

    #[test]
    fn a_wait_is_cut_and_never_dropped_for_its_length() {
        let millis = [
            ("120", 120_000),
            ("30.5", 30_500),
            (" 30 ", 30_000),
            ("00120", 120_000),
            ("4294967295", 1000 << 31),
            ("99999999999999999999", 1000 << 31),
            ("1773144045", 45_000),
            ("1773144045000", 45_000),
            ("1m0s", 60_000),
            ("2026-03-10T12:05:00Z", 300_000),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
            ("Tue, 10 Mar 2099 12:00:00 GMT", 1000 << 31),
        ];
        for (text, expected) in millis {
            assert_eq!(wait(text), Some(expected), "{text}");
        }
        let nines = "9".repeat(400);
        for text in [
            "-5",
            "30 seconds",
            "30x",
            "soon",
            "",
            "1e400",
            "３０",
            &nines,
        ] {
            assert_eq!(wait(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_tells_how_coarsely_it_was_written() {
        let grain = |text: &str| {
            let written = Written::read(text.as_bytes(), NOW).expect("it is a value");
            written.wait(Unit::Seconds, NOW).grain.as_nanos()
        };
        assert_eq!(grain("30"), 1_000_000_000);
        assert_eq!(grain("30.25"), 10_000_000);
        assert_eq!(grain("12ms"), 1_000_000);
        assert_eq!(grain("6m"), 1_000_000_000);
        assert_eq!(grain("1773144060000"), 1_000_000);
        assert_eq!(grain("2026-03-10T12:01Z"), 60_000_000_000);
        assert_eq!(grain("2026-03-10T12:01:00.250Z"), 1_000_000);
    }

    #[test]
    fn counts_may_be_fractions_and_nothing_else_may_stand_with_them() {
        assert_eq!(count(b"1199.91"), Some(1199.91));
        assert_eq!(count(b" 599.0 "), Some(599.0));
        assert_eq!(count(b"-3"), Some(-3.0));
        for text in [
            "12.9x",
            "100 per min",
            "1,199",
            "1e5",
            "inf",
            "--1",
            "-",
            "",
            "1..2",
        ] {
            assert_eq!(count(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn thousands_are_grouped_in_threes() {
        assert_eq!(grouped(b"1,199.46"), Some(1199.46));
        assert_eq!(grouped(b"1,234,567"), Some(1_234_567.0));
        for text in ["1,19", "1, 199", ",199", "1,,199", "1199,1"] {
            assert_eq!(grouped(text.as_bytes()), None, "{text}");
        }
    }
}
