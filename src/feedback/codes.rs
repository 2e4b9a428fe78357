//! What error codes say, those of the table and others, and what words say about the key.

use super::Dimension;
use super::vendors::{Code, Key, Says, Vendor, all};

/// What a code says: in the vendor's own words first, then in those that all share.
pub(crate) fn code(vendor: &Vendor, text: &[u8], own_only: bool) -> Option<Says> {
    let is = |code: &&Code| code.0.as_bytes() == text;
    let own = vendor.own.codes.iter().find(is);
    let found = own.or_else(|| {
        (!own_only)
            .then(|| all().flat_map(|vendor| vendor.codes).find(is))
            .flatten()
    });
    found.map(|code| code.1)
}

/// What a code that no table lists says by the words in it.
pub(crate) fn guess(text: &[u8]) -> Option<Says> {
    let has = |word: &str| contains(text, word.as_bytes());
    let rate = [
        "ratelimit",
        "rate_limit",
        "rate-limit",
        "throttl",
        "toomanyrequests",
        "too_many_requests",
    ];
    if rate.iter().any(|word| has(word)) {
        Some(Says::Rate)
    } else if has("overload") || has("queue_full") {
        Some(Says::Overloaded)
    } else {
        None
    }
}

/// Whether a name may hold a code or a sentence about the response.
pub(crate) fn may_tell(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.as_bytes() == name)
}

/// What a message says about the key that was sent.
pub(crate) fn about_key(message: &[u8]) -> Option<Says> {
    let has = |words: &[&str]| words.iter().any(|word| contains(message, word.as_bytes()));
    let key = has(&[
        "api key",
        "api_key",
        "apikey",
        "access key",
        "token",
        "credential",
        "secret",
    ]);
    if (key || has(&["account"]))
        && has(&[
            "revoked",
            "disabled",
            "deleted",
            "deactivated",
            "suspended",
            "terminated",
        ])
    {
        return Some(Says::Revoked);
    }
    let bad = has(&[
        "invalid",
        "incorrect",
        "not valid",
        "expired",
        "missing",
        "unauthorized",
        "unauthenticated",
        "not recognized",
        "bad credentials",
    ]);
    (key && bad).then_some(Says::Unauthorized)
}

/// Whether a message says that somebody else was at work on the same thing.
pub(crate) fn contended(message: &[u8]) -> bool {
    [
        "lock",
        "contention",
        "collision",
        "in progress",
        "in-progress",
        "in_progress",
        "in_use",
        "try again",
        "retry",
    ]
    .iter()
    .any(|word| contains(message, word.as_bytes()))
}

/// Which quota a violation's id names: `GenerateRequestsPerDayPerProjectPerModel-FreeTier`.
pub(crate) fn violated(id: &str) -> Key<'_> {
    let has = |word: &str| id.contains(word);
    let dimension = match () {
        () if has("InputToken") => Dimension::InputTokens,
        () if has("OutputToken") => Dimension::OutputTokens,
        () if has("Token") => Dimension::Tokens,
        () => Dimension::Requests,
    };
    let window = [
        ("PerDay", 86_400),
        ("PerHour", 3600),
        ("PerMinute", 60),
        ("PerSecond", 1),
    ]
    .iter()
    .find_map(|(word, seconds)| has(word).then_some(*seconds));
    Key {
        family: "",
        dimension,
        window: window.unwrap_or(0),
        scope: "",
        plain: false,
        id: 0,
    }
}

/// Whether a text holds a word to the letter.
pub(crate) fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Whether a text holds a word, in any case.
pub(crate) fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

/// The names under which bodies keep codes and sentences about the response.
const NAMES: [&str; 48] = [
    "code",
    "type",
    "error",
    "errors",
    "message",
    "msg",
    "detail",
    "details",
    "description",
    "status",
    "reason",
    "name",
    "id",
    "title",
    "info",
    "result",
    "text",
    "kind",
    "label",
    "period",
    "error_code",
    "error_type",
    "error_name",
    "error_message",
    "error_msg",
    "error_summary",
    "error_description",
    "error_id",
    "errorCode",
    "errorType",
    "errorMessage",
    "errorSummary",
    "errorClass",
    "errorcode",
    "faultstring",
    "retCode",
    "retMsg",
    "__type",
    ".tag",
    "Code",
    "Message",
    "CODE",
    "TEXT",
    "Reason",
    "Type",
    "Information",
    "Note",
    "err",
];
