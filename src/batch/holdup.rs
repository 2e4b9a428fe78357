//! What holds all lines up for long: told once, so that a run that stands still in a log says why
//! and until when.

use std::time::{Duration, SystemTime};

use crate::Time;
use crate::feedback::Fault;
use crate::scheduler::events::Reason;
use crate::scheduler::explain::Explanation;

use super::counted::counted;
use super::summary::Rounded;

/// What holds all lines up.
#[derive(Debug, Default)]
pub(crate) struct HoldUp {
    next: Time,
    /// What was told last: where, why, and when that ends.
    told: Option<(String, Reason, Time)>,
}

impl HoldUp {
    /// Whether it is time to look.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + OFTEN;
        }
        due
    }

    /// What is to be told of a provider on which nothing is on the wire.
    pub(crate) fn news(
        &mut self,
        name: &str,
        why: &Explanation,
        now: Time,
        wall: SystemTime,
    ) -> Option<String> {
        let head = why.head()?;
        let (reason, opens) = (head.waits_for?, head.opens?);
        let until = now + opens;
        let known = self.told.as_ref().is_some_and(|(at, said, ends)| {
            at == name
                && *said == reason
                && (now < *ends || until.since(*ends) < WORTH_TELLING_AGAIN)
        });
        if opens < WORTH_TELLING || known {
            return None;
        }
        self.told = Some((name.to_owned(), reason, until));
        let (moment, left) = (
            humantime::format_rfc3339_seconds(wall + opens),
            Rounded(opens),
        );
        Some(format!(
            "{name}: {} {reason}, until {moment} ({left})",
            counted(why.waiting as u64, "[waits|wait] for")
        ))
    }

    /// Whether no key of a provider has credit left.
    pub(crate) fn is_broke(why: &Explanation) -> bool {
        let broke = |fault: Fault| fault == Fault::OutOfFunds;
        !why.keys.is_empty()
            && why
                .keys
                .iter()
                .all(|key| key.fault.is_some_and(|report| broke(report.fault)))
    }

    /// What to do then.
    pub(crate) fn broke(has_keys: bool) -> String {
        let which = if has_keys {
            "no key has"
        } else {
            "there is no"
        };
        format!(
            "{which} credit left: top it up or give other keys, and run the same command again; \
             --keep-going waits for it"
        )
    }
}

/// How often it is looked at: seconds do not matter where minutes are waited.
const OFTEN: Duration = Duration::from_secs(1);

/// Shorter waits are the everyday work of a limiter.
const WORTH_TELLING: Duration = Duration::from_secs(30);

/// The same wait is told again only if it has become so much longer.
const WORTH_TELLING_AGAIN: Duration = Duration::from_secs(600);
