//! What messages and codes say by the words in them, where no table lists them.
//!
//! Words are weaker than codes: each list holds what vendors were seen to write, as narrow as it
//! can be, so that talk of the caller's own data is not taken for talk of the caller.

use super::codes::contains;
use super::findings::Evidence;
use super::vendors::Says;

/// What a code that no table lists says by the words in it.
pub(crate) fn guess(code: &[u8]) -> Option<Says> {
    if has(code, &RATE) {
        Some(Says::Rate)
    } else if has(code, &["overload", "queue_full"]) {
        Some(Says::Overloaded)
    } else {
        None
    }
}

/// What a message says about the key that was sent.
pub(crate) fn about_key(message: &[u8]) -> Option<Says> {
    let key = has(message, &KEY);
    let taken = taken_from_somebody(message)
        || has(message, &TAKEN_AWAY)
        || has(message, &TAKEN_AWAY_IN_WORDS);
    if taken && (key || has(message, &OWNER)) {
        Some(Says::Revoked)
    } else {
        (key && has(message, &NOT_ACCEPTED)).then_some(Says::Unauthorized)
    }
}

/// Whether a code says that the key was taken away: `session_invalidated`, `OrgDeactivated`.
pub(crate) fn key_taken_away(code: &[u8]) -> bool {
    let taken = taken_from_somebody(code) || has(code, &TAKEN_AWAY);
    taken && (has(code, &KEY) || has(code, &OWNER) || has(code, &OWNER_IN_CODES))
}

/// Takes in what words say that mean the same in a code and in a sentence.
pub(crate) fn hear(evidence: &mut Evidence, text: &[u8]) {
    evidence.concurrency |= contains(text, b"concurren");
    evidence.contended |= has(text, &CONTENDED);
    evidence.no_money |= no_money(text);
    evidence.no_credits |= no_credits(text);
    evidence.taken_away |= taken_from_somebody(text);
}

/// Whether somebody lost something for good. Where the caller is not let in it is the key, whatever
/// it is called: `user_deactivated`.
fn taken_from_somebody(message: &[u8]) -> bool {
    has(message, &TAKEN_FROM_SOMEBODY)
}

/// Whether no money is left, by a word that is used of nothing else.
fn no_money(text: &[u8]) -> bool {
    has(text, &DEBT) || has(text, &["balance", "fund", "wallet", "money", "余额"]) && empty(text)
}

/// Whether credits are used up, or a plan is: that is money, unless they come back by themselves.
fn no_credits(text: &[u8]) -> bool {
    has(text, &["credit"]) && empty(text) || has(text, &["check your plan and billing"])
}

fn empty(text: &[u8]) -> bool {
    has(text, &EMPTY) && !has(text, &["balancer"])
}

/// Whether a message says that the request is larger than any that is taken.
pub(crate) fn too_large(message: &[u8]) -> bool {
    has(message, &TOO_LARGE)
}

/// The same of a code: `context_length_exceeded`, `EntityTooLarge`. A rate that is too large passes.
pub(crate) fn too_large_code(code: &[u8]) -> bool {
    has(code, &["toolarge", "too_large", "context_length"]) && !has(code, &["rate"])
}

fn has(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| contains(text, word.as_bytes()))
}

const RATE: [&str; 6] = [
    "ratelimit",
    "rate_limit",
    "rate-limit",
    "throttl",
    "toomanyrequests",
    "too_many_requests",
];

/// What a key is called.
const KEY: [&str; 9] = [
    "api key",
    "api_key",
    "apikey",
    "api-key",
    "access key",
    "token",
    "credential",
    "secret",
    "session",
];

/// Whom it belongs to.
const OWNER: [&str; 5] = [
    "account",
    "organization",
    "organisation",
    "workspace",
    "your access",
];

/// The same in codes, where it cannot be somebody in the caller's data: `disabled_client`.
const OWNER_IN_CODES: [&str; 4] = ["access_key", "_client", "client_", "consumer"];

/// What is never said of a mode or a setting.
const TAKEN_FROM_SOMEBODY: [&str; 6] = [
    "revoked",
    "invalidated",
    "deactivated",
    "suspended",
    "terminated",
    "banned",
];

const TAKEN_AWAY: [&str; 4] = ["disabled", "deleted", "blacklisted", "inactive"];

/// Words that in a code could speak of something else: `API_KEY_SERVICE_BLOCKED` is a restriction.
const TAKEN_AWAY_IN_WORDS: [&str; 17] = [
    "been blocked",
    "is blocked",
    "been closed",
    "is closed",
    "been cancelled",
    "been canceled",
    "been removed",
    "been withdrawn",
    "been rotated",
    "been reset",
    "been compromised",
    "as leaked",
    "been leaked",
    "no longer active",
    "been frozen",
    "is frozen",
    "has ended",
];

const NOT_ACCEPTED: [&str; 9] = [
    "invalid",
    "incorrect",
    "not valid",
    "expired",
    "missing",
    "unauthorized",
    "unauthenticated",
    "not recognized",
    "bad credentials",
];

/// An empty purse; the last is Chinese for "not sufficient".
const EMPTY: [&str; 25] = [
    "insufficient",
    "not sufficient",
    "not enough",
    "too low",
    "exhausted",
    "depleted",
    "ran out",
    "run out",
    "out of",
    "used up",
    "no remaining",
    "no available",
    "no more",
    "have no",
    "has no",
    "t have any",
    "t have enough",
    "not have any",
    "not have enough",
    "negative",
    "is zero",
    "is empty",
    "recharge",
    "top up",
    "不足",
];

/// What is owed, or may not be spent; the last is Chinese for "in arrears".
const DEBT: [&str; 14] = [
    "payment required",
    "past due",
    "overdue",
    "unpaid",
    "arrear",
    "billing hard limit",
    "billing is not active",
    "billing not active",
    "spending limit",
    "spend limit",
    "spending cap",
    "insufficient_user_quota",
    "insufficient_account_balance",
    "欠费",
];

const TOO_LARGE: [&str; 38] = [
    "larger than max",
    "larger than the max",
    "request too large",
    "request is too large",
    "request was too large",
    "request entity too large",
    "request entity is too large",
    "request body too large",
    "request body is too large",
    "payload too large",
    "payload is too large",
    "message too large",
    "message is too large",
    "content too large",
    "content is too large",
    "payload size exceed",
    "message size exceed",
    "request size exceed",
    "body size exceed",
    "content length exceed",
    "request body exceed",
    "request payload exceed",
    "exceeds the maximum size",
    "exceeds maximum size",
    "maximum allowed size",
    "maximum request size",
    "maximum payload size",
    "maximum message size",
    "maximum context length",
    "exceed context limit",
    "exceeds the context window",
    "exceeded the context window",
    "context length exceeded",
    "context window exceeded",
    "exceeds the maximum number of tokens",
    "prompt is too long",
    "input is too long",
    "reduce the length of",
];

/// That somebody else was at work on the same thing.
const CONTENDED: [&str; 9] = [
    "lock",
    "contention",
    "collision",
    "in progress",
    "in-progress",
    "in_progress",
    "in_use",
    "try again",
    "retry",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_taken_away_is_told_from_one_that_is_wrong() {
        for message in [
            "Your authentication token has been invalidated. Please try signing in again.",
            "Your API key was reported as leaked. Please use another API key.",
            "This organization has been disabled.",
            "Your account has been banned for abuse",
            "Your session was terminated",
            "The API key is inactive",
            "Your account has been closed",
        ] {
            assert_eq!(
                about_key(message.as_bytes()),
                Some(Says::Revoked),
                "{message}"
            );
        }
        for message in [
            "Invalid API key",
            "The access token expired",
            "Incorrect API key provided",
        ] {
            assert_eq!(
                about_key(message.as_bytes()),
                Some(Says::Unauthorized),
                "{message}"
            );
        }
        for code in [
            "session_invalidated",
            "token_invalidated",
            "disabled_client",
            "CONSUMER_SUSPENDED",
        ] {
            assert!(key_taken_away(code.as_bytes()), "{code}");
        }
        for code in [
            "API_KEY_SERVICE_BLOCKED",
            "SERVICE_DISABLED",
            "commentsDisabled",
            "invalid_token",
        ] {
            assert!(!key_taken_away(code.as_bytes()), "{code}");
        }
    }

    #[test]
    fn an_empty_purse_has_many_words_and_an_empty_server_is_none() {
        for message in [
            "Insufficient balance, please recharge",
            "Your account is past due",
            "Sorry, your account balance is insufficient",
            "You have run out of funds",
            "Spending limit reached",
            "账户余额不足，请充值",
        ] {
            assert!(no_money(message.as_bytes()), "{message}");
        }
        for message in [
            "Your credit balance is too low to access the API.",
            "You don't have any credits left",
            "Not enough credits",
            "You exceeded your current quota, please check your plan and billing details.",
        ] {
            assert!(no_credits(message.as_bytes()), "{message}");
        }
        for message in [
            "the load balancer has no available upstream",
            "invalid credentials",
            "balance of load",
        ] {
            assert!(
                !no_money(message.as_bytes()) && !no_credits(message.as_bytes()),
                "{message}"
            );
        }
    }

    #[test]
    fn a_size_is_no_rate() {
        for message in [
            "Received message larger than max (5243000 vs. 4194304)",
            "grpc: trying to send message larger than max (6 vs. 4)",
            "Request payload size exceeds the limit: 20971520 bytes.",
            "This model's maximum context length is 8192 tokens.",
        ] {
            assert!(too_large(message.as_bytes()), "{message}");
        }
        for message in [
            "Request rate is too large",
            "Daily message quota exceeded.",
            "The number of input tokens exceeds your rate limit",
        ] {
            assert!(!too_large(message.as_bytes()), "{message}");
        }
        assert!(too_large_code(b"RequestTooLarge") && !too_large_code(b"RequestRateTooLarge"));
    }
}
