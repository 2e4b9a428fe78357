//! Shorthand: how rows are written, so that each stands on a line or two.

use super::*;

pub(super) const REQUESTS: Key<'static> = Key::of(Dimension::Requests);
pub(super) const TOKENS: Key<'static> = Key::of(Dimension::Tokens);
pub(super) const INPUT: Key<'static> = Key::of(Dimension::InputTokens);
pub(super) const OUTPUT: Key<'static> = Key::of(Dimension::OutputTokens);
pub(super) const POINTS: Key<'static> = Key::of(Dimension::Points);
pub(super) const CONCURRENT: Key<'static> = Key::of(Dimension::Concurrent);
pub(super) const MONEY: Key<'static> = Key::of(Dimension::Cost);

/// Limits per model, and nothing else of its own.
pub(super) const BY_MODEL: Own = Own {
    bucket: Bucketing::Model,
    ..Own::NONE
};

/// The paths of generation calls in the form that most vendors share.
pub(super) const CHAT: &[&str] = &[
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/messages",
];

pub(super) const SECOND: u32 = 1;
pub(super) const MINUTE: u32 = 60;
pub(super) const HOUR: u32 = 3600;
pub(super) const DAY: u32 = 86_400;
pub(super) const WEEK: u32 = 7 * DAY;
/// Thirty days: what a month is counted as where a window has no calendar.
pub(super) const MONTH: u32 = 30 * DAY;

/// A row of headers: a name, and what it says.
pub(super) const fn header(name: &'static str, means: Meaning<'static>) -> Header {
    Header { name, means }
}

pub(super) const fn limit(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Part(key, Part::Limit))
}

pub(super) const fn remaining(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Part(key, Part::Remaining))
}

pub(super) const fn used(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Part(key, Part::Used))
}

pub(super) const fn reset(name: &'static str, key: Key<'static>) -> Header {
    header(name, Meaning::Part(key, Part::Reset(Unit::Seconds)))
}

pub(super) const fn wait(name: &'static str) -> Header {
    header(name, Meaning::Wait(Unit::Seconds))
}

/// A reason that only says what kind of refusal it was.
pub(super) const fn reason(word: &'static str, says: Says) -> Reason {
    Reason {
        word,
        says,
        names: None,
        spent: false,
        resets_with_wait: false,
    }
}

/// A reason that names the reading that is spent.
pub(super) const fn spent(word: &'static str, says: Says, names: Key<'static>) -> Reason {
    Reason {
        word,
        says,
        names: Some(names),
        spent: true,
        resets_with_wait: false,
    }
}

/// A sentence that tells a wait.
pub(super) const fn says(words: &'static str) -> Text {
    Text {
        words,
        says: None,
        names: REQUESTS,
        spent: false,
        floor: 0,
    }
}

/// A sentence that tells a reading.
pub(super) const fn tells(words: &'static str, names: Key<'static>) -> Text {
    Text {
        words,
        says: None,
        names,
        spent: false,
        floor: 0,
    }
}

/// A sentence that tells what kind of refusal it was.
pub(super) const fn means(words: &'static str, says: Says) -> Text {
    Text {
        words,
        says: Some(says),
        names: REQUESTS,
        spent: false,
        floor: 0,
    }
}
