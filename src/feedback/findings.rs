//! What headers and body told, before it is decided what it means.

use smallvec::SmallVec;

use super::tally::Tally;
use super::values::Delay;
use super::vendors::{Key, Reason, Says};
use super::{Dimension, Wait, WaitSource};

/// Everything that was found in one response.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    pub(crate) tally: Tally<'a>,
    pub(crate) evidence: Evidence,
    /// Hints by where they stood: the first that is there counts, or a field of the body that wants
    /// more than the headers.
    pub(crate) vendor_wait: Option<Delay>,
    pub(crate) retry_after: Option<Delay>,
    pub(crate) body_wait: Option<Delay>,
    pub(crate) text_wait: Option<Delay>,
    /// The reading that comes back with the hint.
    pub(crate) resets_with_wait: Option<Key<'a>>,
    /// The policies that a problem document names as violated.
    pub(crate) violated: SmallVec<[&'a str; 2]>,
    pub(crate) should_retry: Option<bool>,
    /// The answer came from a cache: its counts are somebody else's.
    pub(crate) cached: bool,
    pub(crate) cost: SmallVec<[(Dimension, f64); 2]>,
    /// Seconds that a sentence's vendor asks for where the wire is silent.
    pub(crate) floor: u32,
}

/// What speaks for a class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// An error code.
    pub(crate) code: Option<Says>,
    /// A header that names the limit that was hit.
    pub(crate) reason: Option<Says>,
    /// A header that tells how the call ended, beside a status that says nothing of it.
    pub(crate) outcome: Option<Says>,
    /// A header that stands on such refusals only.
    pub(crate) shows: Option<Says>,
    /// A sentence.
    pub(crate) text: Option<Says>,
    /// A code that no table lists, by the words in it.
    pub(crate) guess: Option<Says>,
    /// The first window that a sentence names, in seconds.
    pub(crate) window: Option<u64>,
    /// A status that the body tells.
    pub(crate) status: Option<u16>,
    /// It asked for more than the whole limit.
    pub(crate) too_large: bool,
    /// Words for a request that is larger than any that is taken.
    pub(crate) oversized: bool,
    /// Words for an empty purse.
    pub(crate) no_money: bool,
    /// Words for used-up credits, which come back by themselves at some vendors.
    pub(crate) no_credits: bool,
    /// Words for something that somebody lost for good, whatever it was.
    pub(crate) taken_away: bool,
    /// Google's own words for a quota, whose days end at midnight in California.
    pub(crate) of_google: bool,
    /// The words "concurrent" or "at once".
    pub(crate) concurrency: bool,
    /// Words for somebody else at work on the same thing.
    pub(crate) contended: bool,
    /// What the words say about the key.
    pub(crate) key: Option<Says>,
    /// The body said something that can be read.
    pub(crate) spoke: bool,
}

impl<'a> Findings<'a> {
    #[inline]
    pub(crate) fn new(now: i64) -> Self {
        Self {
            tally: Tally::new(now),
            evidence: Evidence::default(),
            vendor_wait: None,
            retry_after: None,
            body_wait: None,
            text_wait: None,
            resets_with_wait: None,
            violated: SmallVec::new(),
            should_retry: None,
            cached: false,
            cost: SmallVec::new(),
            floor: 0,
        }
    }

    /// The hint that counts.
    pub(crate) fn wait(&self) -> Option<Wait> {
        let wait = |delay: Delay, source| Wait {
            delay: delay.after,
            grain: delay.grain,
            source,
        };
        // A vendor's own delay of 0 beside a longer `Retry-After` is a rounding error (seen at
        // Azure: `retry-after-ms: 0` with `retry-after: 1`).
        let vendors = self
            .vendor_wait
            .filter(|delay| !delay.after.is_zero() || self.retry_after.is_none());
        let header = vendors
            .map(|delay| wait(delay, WaitSource::VendorHeader))
            .or_else(|| Some(wait(self.retry_after?, WaitSource::RetryAfter)));
        let body = self.body_wait.map(|delay| wait(delay, WaitSource::Body));
        match (header, body) {
            // An edge and the server behind it: both want to be waited for.
            (Some(header), Some(body)) if body.delay > header.delay => Some(body),
            _ => header
                .or(body)
                .or_else(|| Some(wait(self.text_wait?, WaitSource::Text))),
        }
    }

    /// What a reason header or a field names, and what that says of the refusal.
    pub(crate) fn reason(&mut self, reasons: &'static [Reason], value: &[u8]) -> Option<Says> {
        let value = value.trim_ascii();
        let matches = |reason: &&Reason| match reason.word.strip_prefix('*') {
            Some(end) => value
                .len()
                .checked_sub(end.len())
                .is_some_and(|from| value[from..].eq_ignore_ascii_case(end.as_bytes())),
            None => value.eq_ignore_ascii_case(reason.word.as_bytes()),
        };
        let reason = reasons.iter().find(matches)?;
        self.evidence.reason = Some(reason.says);
        if let Some(key) = reason.names {
            self.tally.reason(&key, reason.spent);
            if reason.resets_with_wait {
                self.resets_with_wait = Some(key);
            }
        }
        Some(reason.says)
    }

    /// Adds to what the call cost.
    pub(crate) fn costs(&mut self, dimension: Dimension, amount: f64) {
        if !(0.0..=MOST).contains(&amount) {
            return;
        }
        match self.cost.iter_mut().find(|(known, _)| *known == dimension) {
            Some((_, known)) => *known = amount,
            None => self.cost.push((dimension, amount)),
        }
    }
}

/// No call costs more than this of anything; what claims to is a mistake.
const MOST: f64 = 1e15;
