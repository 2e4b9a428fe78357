//! What error codes say by the table, and which names in bodies hold them.

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

/// Whether a name may hold a code or a sentence about the response.
pub(crate) fn may_tell(name: &[u8]) -> bool {
    NAMES.iter().any(|known| known.as_bytes() == name)
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
    let Some(first) = word.first().map(u8::to_ascii_lowercase) else {
        return true;
    };
    // Nearly every place is sent away by its first letter.
    text.windows(word.len())
        .filter(|window| window[0].to_ascii_lowercase() == first)
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
