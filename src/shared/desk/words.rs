//! How facts are written down for others, and read.

use std::fmt::Display;
use std::time::Duration;

use crate::Time;
use crate::feedback::{Clock, Dimension, Fault, Reading, Reset};
use crate::scheduler::events::{Fingerprint, Name};
use crate::scheduler::pace::Rate;
use crate::scheduler::told::Told;

use super::super::sharing::unit;
use super::super::store::{Fact, Known, Owner};

/// What a fact is about.
pub(super) fn subject(told: &Told) -> String {
    let of = |kind: &str, key: Fingerprint, bucket: Option<&Name>| match bucket {
        Some(bucket) => format!("{kind}.{key}.{bucket}"),
        None => format!("{kind}.{key}"),
    };
    match told {
        Told::Parked { key, bucket, .. } => of("park", *key, bucket.as_ref()),
        Told::Overloaded { .. } => "rest".to_owned(),
        Told::Retired { key, .. } | Told::Restored { key } => of("fault", *key, None),
        Told::Paced { key, .. } => of("pace", *key, None),
        Told::Read { key, bucket, .. } => of("quota", *key, bucket.as_ref()),
    }
}

/// The fact for others; none if it no longer holds.
pub(super) fn write(told: &Told, owner: Owner, observed: Time, now: Time) -> Option<Fact> {
    let (value, lasts) = match told {
        Told::Parked { until, .. } | Told::Overloaded { until } => {
            (String::new(), until.since(now))
        }
        Told::Retired { fault, .. } => (name(*fault).to_owned(), FAULT_LASTS),
        Told::Restored { .. } => ("none".to_owned(), FAULT_LASTS),
        Told::Paced { rate, .. } => {
            let value = format!("{owner} {} {} {}", rate.pace, rate.low, rate.high);
            (value, RATE_LASTS)
        }
        Told::Read { readings, .. } => {
            let resets = readings.iter().filter_map(|reading| reading.reset);
            let longest = resets.map(|reset| reset.after).max();
            let lasts = longest.unwrap_or(UNTOLD_RESET);
            let value = format!("{owner} {}", write_readings(readings));
            (value, lasts.saturating_sub(now.since(observed)))
        }
    };
    let extends = matches!(told, Told::Parked { .. } | Told::Overloaded { .. });
    (!lasts.is_zero()).then(|| Fact {
        subject: subject(told),
        value,
        age: now.since(observed),
        lasts,
        extends,
    })
}

/// What a fact says to a process that is not the one that learned it.
pub(super) fn read(fact: &Known, owner: Owner, until: Time) -> Option<Told> {
    if fact.subject == "rest" {
        return Some(Told::Overloaded { until });
    }
    let (kind, whose) = fact.subject.split_once('.')?;
    let (key, bucket) = match whose.split_once('.') {
        Some((key, bucket)) => (key, Some(bucket.to_owned().into())),
        None => (whose, None),
    };
    let key = fingerprint(key)?;
    match kind {
        "park" => Some(Told::Parked { key, bucket, until }),
        "pace" => {
            let mut numbers = by_another(&fact.value, owner)?
                .split(' ')
                .map(|number| number.parse().ok());
            let mut next = || numbers.next().flatten();
            let rate = Rate::new(next()?, next()?, next()?)?;
            Some(Told::Paced { key, rate })
        }
        "quota" => Some(Told::Read {
            key,
            bucket,
            readings: read_readings(by_another(&fact.value, owner)?)?,
        }),
        "fault" if fact.value == "none" => Some(Told::Restored { key }),
        "fault" => FAULTS
            .into_iter()
            .find(|fault| name(*fault) == fact.value)
            .map(|fault| Told::Retired { key, fault }),
        // A newer paceline may say more.
        _ => None,
    }
}

/// What was learned, if somebody else did.
fn by_another(value: &str, owner: Owner) -> Option<&str> {
    let (by, learned) = value.split_once(' ')?;
    (by != owner.to_string()).then_some(learned)
}

/// One quota a line: the dimension, limit, remaining and used, the milliseconds of reset, grain
/// and window (`-` for what was not told), and the scope.
fn write_readings(readings: &[Reading]) -> String {
    fn field(value: Option<impl Display>) -> String {
        value.map_or_else(|| "-".to_owned(), |value| value.to_string())
    }
    let lines = readings.iter().map(|reading| {
        let reset = reading.reset.map(|reset| reset.after.as_millis());
        let grain = reading.reset.map(|reset| reset.grain.as_millis());
        [
            unit(reading.dimension).to_owned(),
            field(reading.limit),
            field(reading.remaining),
            field(reading.used),
            field(reset),
            field(grain),
            field(reading.window.map(|window| window.as_millis())),
            reading.scope.as_deref().unwrap_or("").replace('\n', " "),
        ]
        .join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn read_readings(value: &str) -> Option<Vec<Reading>> {
    fn number(field: Option<&str>) -> Option<f64> {
        let number: f64 = field?.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }
    fn millis(field: Option<&str>) -> Option<Duration> {
        field?.parse().ok().map(Duration::from_millis)
    }
    let reading = |line: &str| {
        let mut fields = line.splitn(8, ' ');
        let word = fields.next()?;
        let dimension = DIMENSIONS.into_iter().find(|&of| unit(of) == word)?;
        let (limit, remaining) = (number(fields.next()), number(fields.next()));
        let used = number(fields.next());
        let (after, grain) = (millis(fields.next()), millis(fields.next()));
        let window = millis(fields.next());
        let scope = fields.next().filter(|scope| !scope.is_empty());
        Some(Reading {
            dimension,
            limit,
            remaining,
            used,
            // A duration from one's own past: whatever clock the server used, it was read already.
            reset: after.map(|after| Reset {
                after,
                grain: grain.unwrap_or_default(),
                clock: Clock::Delta,
            }),
            window,
            scope: scope.map(|scope| scope.to_owned().into()),
        })
    };
    value.lines().take(MOST_READINGS).map(reading).collect()
}

fn fingerprint(text: &str) -> Option<Fingerprint> {
    if text == Fingerprint::ANONYMOUS.to_string() {
        return Some(Fingerprint::ANONYMOUS);
    }
    let mut hash = [0; 6];
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(Fingerprint::from_hash(hash))
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Unauthorized => "unauthorized",
        Fault::Revoked => "revoked",
        Fault::OutOfFunds => "out of funds",
    }
}

const DIMENSIONS: [Dimension; 8] = [
    Dimension::Requests,
    Dimension::Tokens,
    Dimension::InputTokens,
    Dimension::OutputTokens,
    Dimension::Concurrent,
    Dimension::Points,
    Dimension::Bytes,
    Dimension::Cost,
];
const FAULTS: [Fault; 3] = [Fault::Unauthorized, Fault::Revoked, Fault::OutOfFunds];
/// A fault is probed meanwhile, and its end is told.
const FAULT_LASTS: Duration = Duration::from_secs(24 * 3600);
/// A learned rate is found to be wrong soon enough.
const RATE_LASTS: Duration = Duration::from_secs(24 * 3600);
/// What is left of a quota says little after that, where the server did not tell when it ends.
const UNTOLD_RESET: Duration = Duration::from_secs(60);
/// No server tells as many quotas at once.
const MOST_READINGS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    #[test]
    fn what_is_told_is_heard_as_it_was() {
        let key = Fingerprint::from_hash([0xa, 0, 0xff, 7, 8, 9]);
        let until = at(90.0);
        let bucket = Some("gpt-5.mini: a b".to_owned().into());
        let mut all = vec![
            Told::Parked {
                key,
                bucket: None,
                until,
            },
            Told::Parked { key, bucket, until },
            Told::Parked {
                key: Fingerprint::ANONYMOUS,
                bucket: None,
                until,
            },
            Told::Overloaded { until },
            Told::Restored { key },
        ];
        let rate = Rate::new(12.5, 10.0, f64::INFINITY).unwrap();
        all.push(Told::Paced { key, rate });
        let requests = Reading {
            dimension: Dimension::Requests,
            limit: Some(100.0),
            remaining: Some(0.5),
            used: None,
            reset: None,
            window: None,
            scope: None,
        };
        let tokens = Reading {
            dimension: Dimension::Tokens,
            reset: Some(Reset {
                after: Duration::from_secs(60),
                grain: Duration::from_secs(1),
                clock: Clock::Delta,
            }),
            window: Some(Duration::from_secs(60)),
            scope: Some("user of a b".into()),
            ..requests.clone()
        };
        all.push(Told::Read {
            key,
            bucket: Some("gpt-5.mini: a b".to_owned().into()),
            readings: vec![requests, tokens],
        });
        all.extend(FAULTS.map(|fault| Told::Retired { key, fault }));
        for told in all {
            let fact = write(&told, Owner::new(1), at(29.0), at(30.0)).expect("it still holds");
            assert_eq!(fact.age, Duration::from_secs(1));
            let known = Known {
                subject: fact.subject,
                value: fact.value,
                age: fact.age,
                lasts: fact.lasts,
            };
            assert_eq!(read(&known, Owner::new(2), until), Some(told));
        }
    }

    #[test]
    fn what_somebody_else_wrote_there_is_passed_over() {
        for subject in [
            "",
            "park",
            "park.",
            "park.zz",
            "fault.0102030405é6",
            "mood.010203040506",
            "quota.010203040506",
            "pace.010203040506",
        ] {
            let known = Known {
                subject: subject.to_owned(),
                value: "x".to_owned(),
                age: Duration::ZERO,
                lasts: Duration::from_secs(1),
            };
            assert_eq!(read(&known, Owner::new(1), at(1.0)), None, "{subject}");
        }
    }
}
