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
    /// Tokens in, out, in all; those in beside the first (a cache's, a tool's), those out beside the
    /// second (thoughts).
    usage: [f64; 5],
    /// The bucket that refills, and how much a second.
    refill: Option<(Key<'static>, f64)>,
}

impl Spending {
    /// Takes what a language model's answer says that it used.
    pub(crate) fn usage(&mut self, name: &[u8], outer: &[&[u8]], value: &[u8]) {
        let told_as = |names: &[&[u8]]| outer.last().is_some_and(|outer| names.contains(outer));
        // Cohere tells what it counts beside what it bills.
        let inside = told_as(&[b"tokens"]) && matches!(outer, [.., b"usage" | b"meta", _]);
        if !inside && !told_as(&[b"usage", b"usageMetadata"]) {
            return;
        }
        let place = match name {
            b"prompt_tokens" | b"input_tokens" | b"promptTokenCount" | b"inputTokens" => 0,
            b"completion_tokens" | b"output_tokens" | b"candidatesTokenCount" | b"outputTokens" => {
                1
            }
            b"total_tokens" | b"totalTokenCount" | b"totalTokens" => 2,
            b"cache_read_input_tokens"
            | b"cache_creation_input_tokens"
            | b"cacheReadInputTokens"
            | b"cacheWriteInputTokens"
            | b"toolUsePromptTokenCount" => 3,
            b"thoughtsTokenCount" => 4,
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
        let [input, output, total, beside, thoughts] = self.usage;
        let (input, output) = (input + beside, output + thoughts);
        // Some tell the sum alone, which says of neither part that it was nothing.
        if input + output > 0.0 {
            found.costs(Dimension::InputTokens, input);
            found.costs(Dimension::OutputTokens, output);
        }
        if input + output + total > 0.0 {
            found.costs(Dimension::Tokens, total.max(input + output));
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
