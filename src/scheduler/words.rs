//! Changes in words, for logs and printouts.

use std::fmt;

use super::events::{Because, Change, Loan, What};
use super::time::Time;

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = self.key {
            write!(f, "key {key}: ")?;
        }
        match &self.what {
            What::Parked { until, why } if *until == Time::NEVER => write!(f, "rests: {why}"),
            What::Parked { until, why } => {
                let rest = until.since(self.at);
                write!(f, "rests {:.1} s: {why}", rest.as_secs_f64())
            }
            what => what.fmt(f),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { from, to, why } => write!(f, "{from} to {to} in flight: {why}"),
            Self::Pace { from, to, why } if from.is_infinite() => {
                write!(f, "paced at {to:.2} per second: {why}")
            }
            Self::Pace { from, to, why } => {
                write!(f, "{from:.2} to {to:.2} per second: {why}")
            }
            Self::Parked { until, why } => write!(f, "rests until {until:?}: {why}"),
            Self::Apart { bucket } => write!(
                f,
                "{bucket:?} is refused while others are served: it has a pace of its own now"
            ),
            Self::Suspected(fault) => write!(f, "the server may refuse it ({})", fault.words()),
            Self::Retired(fault) => {
                write!(f, "out of use: the server refuses it ({})", fault.words())
            }
            Self::Restored => f.write_str("in use again"),
            Self::Lent(loan) => f.write_str(match loan {
                Loan::Grant => "a grant that nobody takes up goes to the next",
                Loan::Woken => "a slot whose answer nobody takes is lent",
                Loan::Body => {
                    "a slot whose body nobody reads is lent, but none of `max_concurrency` or \
                     `key_concurrency`"
                }
            }),
            Self::BeyondLimit => f.write_str(
                "a request whose slot was lent goes on beyond the limit in flight: no slot came free",
            ),
            Self::PassedBy { host } => {
                write!(
                    f,
                    "requests to {host} pass by, without key and without gates"
                )
            }
            Self::RetriedOutside => f.write_str("a retry layer stands outside"),
            Self::HookPanicked { hook } => write!(f, "the hook {hook} panicked"),
            Self::StoreAway { why } => write!(f, "the shared store is away: {why}"),
            Self::StoreBack { after } => {
                write!(
                    f,
                    "the shared store is back after {:.1} s",
                    after.as_secs_f64()
                )
            }
            Self::LimitsDiffer { own, other } => {
                let named = |limits: &str| match limits {
                    "" => "none".to_owned(),
                    limits => format!("({limits})"),
                };
                let (own, other) = (named(own), named(other));
                write!(
                    f,
                    "another process shares other limits in this scope, or did half a minute ago: \
                     {other}; here they are {own}"
                )
            }
            Self::StoreLost => f.write_str("the shared store has lost what it knew"),
            Self::SlotsLost(slots) => {
                write!(f, "{slots} requests in flight are beyond the shared limit")
            }
            Self::Suspended(slept) => {
                write!(
                    f,
                    "the machine was suspended for {:.0} s",
                    slept.as_secs_f64()
                )
            }
            Self::Mode(mode) => write!(f, "limits: {mode}"),
            Self::SettingsChanged => f.write_str("the settings were changed"),
            Self::Quota {
                dimension,
                limit,
                law,
            } => write!(f, "a quota of {limit:.0} {} ({law})", dimension.words()),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proactive => "little is left of a quota",
            Self::RateLimited => "a request was refused",
            Self::Overloaded => "the server is overloaded",
            Self::Recovered => "enough successes in a row",
            Self::Probed => "the rate held, and a higher one is tried",
            Self::ProbeRefused => "a higher rate was refused",
            Self::Crowded => "answers got slower",
            Self::NotACap => "the number in flight is not what is limited",
            Self::Hint => "the server said how long",
            Self::Streak => "refusals in a row",
            Self::Unanswered => "nobody answers",
            Self::Shared => "another process said so",
            Self::Settings => "the settings were changed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::Fault;
    use crate::scheduler::events::Fingerprint;

    #[test]
    fn a_change_says_which_key_what_and_why() {
        let change = |what| Change {
            at: Time::from_secs_f64(10.0),
            key: Some(Fingerprint::from_hash([7; 6])),
            what,
        };
        let until = Time::from_secs_f64(13.0);
        let parked = change(What::Parked {
            until,
            why: Because::Streak,
        });
        assert_eq!(
            parked.to_string(),
            "key 070707070707: rests 3.0 s: refusals in a row"
        );
        let retired = change(What::Retired(Fault::Revoked)).to_string();
        assert!(
            retired.ends_with("the server refuses it (revoked)"),
            "{retired}"
        );
        let paced = change(What::Pace {
            from: f64::INFINITY,
            to: 2.5,
            why: Because::RateLimited,
        });
        assert!(
            paced
                .to_string()
                .ends_with("paced at 2.50 per second: a request was refused")
        );
    }
}
