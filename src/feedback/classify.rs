//! What kind of answer a response was.
//!
//! The order is that of trust: an error code says more than a header that names a limit, that more
//! than a spent reading, that more than a sentence, and the status says least. What a code says of
//! the kind does not say for how long: a spent day makes a quota of a rate.

use std::time::Duration;

use super::draft::Draft;
use super::findings::{Evidence, Findings};
use super::vendors::{Anchor, Own, Says};
use super::{Cause, Class, Dimension, Fault, dates};

/// The class, the fault of the key and the cause of a refusal.
pub(crate) fn classify(
    status: u16,
    own: &Own,
    found: &Findings<'_>,
) -> (Class, Option<Fault>, Option<Cause>) {
    let evidence = &found.evidence;
    let drafts = &found.tally.drafts[..];
    let Some(says) = verdict(status, own, found) else {
        return (Class::Ok, None, None);
    };
    let class = match says {
        Says::Rate if long(evidence, drafts) => Class::QuotaExhausted,
        Says::Rate | Says::Concurrency => Class::RateLimited,
        Says::Overloaded => Class::Overloaded,
        Says::Transient => Class::Transient,
        Says::Quota | Says::Funds => Class::QuotaExhausted,
        Says::Unauthorized | Says::Revoked | Says::Fatal => Class::Fatal,
    };
    (class, says.fault(), cause(class, says, evidence, drafts))
}

/// What speaks loudest; none if it was served.
fn verdict(status: u16, own: &Own, found: &Findings<'_>) -> Option<Says> {
    let evidence = &found.evidence;
    if evidence.too_large && status >= 400 {
        return Some(Says::Fatal);
    }
    // A size is too large for good; only a 413 may speak of a moment, and says so by a hint.
    let refused = status >= 400 || own.ok_bodies || evidence.outcome.is_some();
    if evidence.oversized && status != 413 && refused {
        return Some(Says::Fatal);
    }
    if status < 400 {
        return served(own, evidence);
    }
    let hinted = found
        .vendor_wait
        .or(found.retry_after)
        .or(found.body_wait)
        .is_some();
    let spent = found.tally.drafts.iter().any(Draft::spent);
    if let Some(code) = evidence.code.and_then(|code| at(code, status)) {
        return Some(with_words(code, evidence, &found.tally.drafts));
    }
    if let Some(reason) = evidence.reason {
        return Some(reason);
    }
    if let Some((_, says)) = own.statuses.iter().find(|(known, _)| *known == status) {
        return Some(*says);
    }
    if let Some(text) = evidence.text.and_then(|text| at(text, status)) {
        return Some(text);
    }
    if let Some(guess) = evidence.guess.and_then(|guess| at(guess, status)) {
        return Some(guess);
    }
    // What people sell by the call is asked about with these statuses; with others words for money
    // speak of what the caller deals in.
    if matches!(status, 401..=403 | 429) && empty_purse(found, hinted) {
        return Some(Says::Funds);
    }
    // A gateway that passes on what it was told.
    if let (400 | 403 | 500.., Some(told)) = (status, evidence.status.and_then(passed_on)) {
        return Some(told);
    }
    if let (503, false, Some(shows)) = (status, spent, evidence.shows) {
        return Some(shows);
    }
    Some(match status {
        429 | 420 => match evidence.shows {
            Some(says) => says,
            None => Says::Rate,
        },
        402 => Says::Funds,
        // A refusal that looks like a denial needs a sign: nothing left, a time to come back, or a
        // gateway's word that it was one of a rate.
        403 if spent || hinted || evidence.shows == Some(Says::Rate) => Says::Rate,
        503 if spent => Says::Rate,
        503 if hinted => Says::Overloaded,
        // Refused with an odd status, with nothing left, and with a time to come back.
        400 | 406 | 409 | 418 if spent && hinted => Says::Rate,
        409 | 423 if evidence.contended => Says::Transient,
        498 | 529 => Says::Overloaded,
        401 if evidence.taken_away => Says::Revoked,
        401 => evidence.key.unwrap_or(Says::Unauthorized),
        403 => match evidence.key {
            Some(key) => key,
            // Nothing is said, so the key is the first suspect; a page or a permission is not it.
            None if !evidence.spoke => Says::Unauthorized,
            None => Says::Fatal,
        },
        // What the server cannot do it will not do the next time.
        501 | 505 => Says::Fatal,
        408 | 425 | 500.. => Says::Transient,
        _ if hinted => Says::Transient,
        _ => Says::Fatal,
    })
}

/// A refusal that came with the status of a success.
fn served(own: &Own, evidence: &Evidence) -> Option<Says> {
    if !own.ok_bodies {
        return evidence.outcome;
    }
    let told = evidence.code.or(evidence.reason).or(evidence.text);
    let told = told.or(evidence.guess);
    told.or_else(|| match evidence.status? {
        429 => Some(Says::Rate),
        402 => Some(Says::Funds),
        401 => Some(Says::Unauthorized),
        503 | 529 => Some(Says::Overloaded),
        408 | 500.. => Some(Says::Transient),
        400.. => Some(Says::Fatal),
        _ => None,
    })
}

/// Whether words say that no money is left. Credits that come back by themselves are a rate.
fn empty_purse(found: &Findings<'_>, hinted: bool) -> bool {
    let evidence = &found.evidence;
    let comes_back = hinted
        || found.text_wait.is_some()
        || evidence.window.is_some()
        || found.tally.drafts.iter().any(Draft::spent);
    evidence.no_money || evidence.no_credits && !comes_back
}

/// What a status says that a body tells beside another one of the response.
fn passed_on(status: u16) -> Option<Says> {
    match status {
        429 => Some(Says::Rate),
        529 => Some(Says::Overloaded),
        _ => None,
    }
}

/// What a word says at this status. A rate can be refused with nearly any status, but "overloaded"
/// in a complaint about the caller's input is about the input, and a 413 is about its size.
fn at(says: Says, status: u16) -> Option<Says> {
    let fits = match says {
        Says::Overloaded => matches!(status, 429 | 498 | 500..),
        Says::Rate | Says::Concurrency => !matches!(status, 401 | 404 | 413),
        Says::Transient => matches!(status, 400 | 408 | 409 | 423 | 425 | 429 | 500..),
        Says::Unauthorized | Says::Revoked => matches!(status, 400 | 401 | 403),
        // A payment that somebody cannot make is no matter of the key.
        Says::Funds => !matches!(status, 404 | 409 | 422),
        _ => true,
    };
    fits.then_some(says)
}

/// A code with the words beside it, where one code stands for two things.
fn with_words(code: Says, evidence: &Evidence, drafts: &[Draft<'_>]) -> Says {
    match code {
        Says::Unauthorized if evidence.key == Some(Says::Revoked) || evidence.taken_away => {
            Says::Revoked
        }
        // A protection of the server stands before the limit that its code names.
        Says::Rate if evidence.shows == Some(Says::Overloaded) => Says::Overloaded,
        // One code for the day and for too many at once (Salesforce).
        Says::Quota if evidence.concurrency && !drafts.iter().any(Draft::spent) => {
            Says::Concurrency
        }
        code => code,
    }
}

/// Whether what was hit does not come back within hours.
fn long(evidence: &Evidence, drafts: &[Draft<'_>]) -> bool {
    let day = Duration::from_secs(86_400);
    drafts
        .iter()
        // A limit of nothing is no limit, so nothing of it can be spent.
        .filter(|draft| draft.spent() && draft.limit != Some(0.0))
        .any(|draft| draft.window.is_some_and(|window| window >= day))
        || evidence
            .window
            .is_some_and(|window| window >= day.as_secs())
        || evidence.reason == Some(Says::Quota)
}

fn cause(class: Class, says: Says, evidence: &Evidence, drafts: &[Draft<'_>]) -> Option<Cause> {
    if !matches!(class, Class::RateLimited | Class::QuotaExhausted) || says == Says::Funds {
        return None;
    }
    let mut spent = drafts.iter().filter(|draft| draft.spent());
    let crowded = spent
        .clone()
        .any(|draft| draft.dimension == Dimension::Concurrent);
    let reason = evidence.reason == Some(Says::Concurrency);
    if says == Says::Concurrency || reason || evidence.concurrency || crowded {
        return Some(Cause::Concurrency);
    }
    let named = evidence.window.is_some() || evidence.reason == Some(Says::Rate);
    let coded = [evidence.code, evidence.text, evidence.guess].contains(&Some(Says::Rate));
    (named || coded || spent.next().is_some()).then_some(Cause::Rate)
}

/// When a long quota comes back by the vendor's own calendar: seconds from `now`, both since 1970.
pub(crate) fn returns_at(anchor: Anchor, now: i64) -> Option<Duration> {
    const DAY: i64 = 86_400;
    let midnight = |offset: i64| DAY - (now - offset).rem_euclid(DAY);
    let seconds = match anchor {
        Anchor::None => return None,
        Anchor::MidnightUtc | Anchor::QuarterHour => midnight(0),
        Anchor::MidnightPacific => midnight(
            if dates::summer_in_california(now) {
                7
            } else {
                8
            } * 3600,
        ),
    };
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// When the short quota of a vendor with an anchor comes back.
pub(crate) fn next_quarter(anchor: Anchor, now: i64) -> Option<Duration> {
    (anchor == Anchor::QuarterHour).then(|| Duration::from_secs(900 - now.rem_euclid(900) as u64))
}
