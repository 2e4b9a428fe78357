//! What a call cost, and how fast a bucket refills, as bodies tell it.

use std::time::Duration;

use super::Dimension;
use super::draft::seconds;
use super::findings::Findings;
use super::values::{Delay, Span, Unit, Written, count};
use super::vendors::Key;

/// What a body has told so far.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    /// Tokens in, out, in all, and those read from or written to a cache beside those in.
    usage: [f64; 4],
    /// The bucket that refills, and how much a second.
    refill: Option<(Key<'static>, f64)>,
}

impl Spending {
    /// Takes what a language model's answer says that it used.
    pub(crate) fn usage(&mut self, name: &[u8], outer: &[&[u8]], value: &[u8]) {
        if !matches!(outer.last(), Some(&(b"usage" | b"usageMetadata"))) {
            return;
        }
        let place = match name {
            b"prompt_tokens" | b"input_tokens" | b"promptTokenCount" => 0,
            b"completion_tokens" | b"output_tokens" | b"candidatesTokenCount" => 1,
            b"total_tokens" | b"totalTokenCount" => 2,
            b"cache_read_input_tokens" | b"cache_creation_input_tokens" => 3,
            _ => return,
        };
        let tokens = count(value).filter(|tokens| *tokens >= 0.0).unwrap_or(0.0);
        let told = &mut self.usage[place];
        // A cache is told in two parts, everything else once.
        *told = if place == 3 { *told + tokens } else { tokens };
    }

    /// Takes how fast a bucket refills, per second.
    pub(crate) fn refill(&mut self, key: Key<'static>, value: &[u8]) {
        self.refill = count(value)
            .filter(|rate| *rate > 0.0)
            .map(|rate| (key, rate));
    }

    /// Adds what follows: the cost, when the bucket is full, and when there is enough in it for
    /// what was refused.
    pub(crate) fn settle(self, found: &mut Findings<'_>) {
        let [input, output, total, cached] = self.usage;
        if input + output + total + cached > 0.0 {
            found.costs(Dimension::InputTokens, input + cached);
            found.costs(Dimension::OutputTokens, output);
            found.costs(Dimension::Tokens, total.max(input + cached + output));
        }
        let Some((key, rate)) = self.refill else {
            return;
        };
        let cost = found
            .cost
            .iter()
            .find(|(dimension, _)| *dimension == key.dimension);
        let cost = cost.map_or(0.0, |(_, cost)| *cost);
        let mut drafts = found.tally.drafts.iter_mut();
        let Some(draft) = drafts.find(|draft| draft.dimension == key.dimension) else {
            return;
        };
        let (Some(limit), Some(left)) = (draft.limit, draft.remaining) else {
            return;
        };
        draft.reset = Some(after(limit - left, rate).into());
        if found.evidence.code.is_some() && cost > left {
            found.body_wait = Some(after(cost - left, rate));
        }
    }
}

/// When so much has refilled.
fn after(amount: f64, rate: f64) -> Delay {
    let length = seconds(amount / rate).unwrap_or_default();
    Written::Span(Span {
        length,
        grain: Duration::from_millis(1),
    })
    .wait(Unit::Seconds, 0)
}
