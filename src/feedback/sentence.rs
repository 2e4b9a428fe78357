//! What the sentences of a body tell: a cause, a wait, a count, in a vendor's own words or in those
//! that many share.

use super::body::LONGEST_CODE;
use super::codes::{code, contains};
use super::draft::{Draft, Source, seconds};
use super::findings::Findings;
use super::prose::Prose;
use super::text;
use super::values::{Unit, Written};
use super::vendors::{Text, Vendor, all};
use super::wordings;
use super::{Dimension, Reset};

/// Reads a message into findings; `own_only` believes no templates but the vendor's own.
pub(super) fn read(found: &mut Findings<'_>, vendor: &Vendor, message: &[u8], own_only: bool) {
    let own = vendor.own.texts.iter();
    let shared = all().flat_map(|vendor| vendor.texts).filter(|_| !own_only);
    let any = templates(found, own.chain(shared), message);
    if own_only && !any {
        return;
    }
    // A few codes are whole sentences: "Limit Exceeded".
    if message.len() <= LONGEST_CODE
        && let Some(says) = code(vendor, message, own_only)
    {
        found.evidence.code = found.evidence.code.max(Some(says));
    }
    let evidence = &mut found.evidence;
    evidence.window = evidence.window.or_else(|| text::window(message));
    let message = &message[..message.len().min(text::LONGEST)];
    wordings::hear(evidence, message);
    evidence.concurrency |= contains(message, b"simultaneous");
    evidence.key = evidence.key.max(wordings::about_key(message));
    evidence.oversized |= wordings::too_large(message);
}

/// Looks for templates in a message; tells whether there is one.
pub(super) fn templates<'t>(
    found: &mut Findings<'_>,
    templates: impl Iterator<Item = &'t Text>,
    message: &[u8],
) -> bool {
    let now = found.tally.now;
    let mut any = false;
    for template in templates {
        if let Some(told) = text::find(template.words, message, now) {
            any = true;
            take(found, template, &told);
        }
    }
    any
}

fn take(found: &mut Findings<'_>, template: &Text, told: &text::Found) {
    let now = found.tally.now;
    if told
        .cost
        .zip(told.limit)
        .is_some_and(|(cost, limit)| cost > limit)
        && told.remaining.is_none()
    {
        found.evidence.too_large = true;
    }
    found.evidence.text = found.evidence.text.max(template.says);
    found.floor = found.floor.max(template.floor);
    let wait = told.wait.or_else(|| told.reset.map(Written::Span));
    if found.text_wait.is_none() {
        found.text_wait = wait.map(|wait| wait.wait(Unit::Seconds, now));
    }
    let crowded = template.names.dimension == Dimension::Concurrent;
    let counts = told.used.is_some() || told.remaining.is_some() || told.window.is_some();
    let counts = counts || crowded && told.limit.is_some();
    if !counts {
        return;
    }
    let mut draft = Draft::new(&template.names, Source::Words);
    draft.dimension = told.dimension.unwrap_or(draft.dimension);
    (draft.limit, draft.used) = (told.limit, told.used);
    draft.remaining = if template.spent {
        Some(0.0)
    } else {
        told.remaining
    };
    draft.window = told
        .window
        .and_then(|window| seconds(window as f64))
        .or(draft.window);
    let reset = told
        .reset
        .and_then(|reset| Written::Span(reset).reset(Unit::Seconds, now));
    draft.reset = reset.map(Reset::from);
    found.tally.push(draft);
}

/// The delay that a plain text tells people. It is the only thing in it that is believed.
pub(super) fn prose(found: &mut Findings<'_>, text: &[u8]) {
    let plain = Prose::read(text);
    let now = found.tally.now;
    let wait = all()
        .flat_map(|vendor| vendor.texts)
        .filter(|template| template.words.contains("{wait}"))
        .find_map(|template| text::find(template.words, plain.as_bytes(), now)?.wait);
    if let Some(wait) = wait {
        found.text_wait = Some(wait.wait(Unit::Seconds, now));
    }
}
