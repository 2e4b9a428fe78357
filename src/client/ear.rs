//! Listens to a stream of events on its way to the application, for errors and for what the call
//! used. It changes nothing, and forgets an event at its end.

use std::fmt;

use smallvec::SmallVec;

use crate::feedback::{self, Class, Dimension, Feedback, Profile};

use super::clock::Clock;

/// Hears the events of one stream.
pub(super) struct Ear {
    profile: Profile,
    clock: Clock,
    /// The data of the event that is being heard.
    event: Vec<u8>,
    /// The line that is being heard.
    line: Vec<u8>,
    /// The event is longer than any error.
    too_long: bool,
    /// What the call used so far: input is told at the start, output at the end.
    used: SmallVec<[(Dimension, f64); 3]>,
}

impl Ear {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            clock: Clock::new(),
            event: Vec::new(),
            line: Vec::new(),
            too_long: false,
            used: SmallVec::new(),
        }
    }

    /// Hears a piece of the stream; tells what its events say.
    pub(super) fn hear(&mut self, mut piece: &[u8], mut tell: impl FnMut(&Feedback)) {
        while let Some(end) = piece.iter().position(|&byte| byte == b'\n') {
            self.take(&piece[..end]);
            piece = &piece[end + 1..];
            if let Some(said) = self.end_line() {
                tell(&said);
            }
        }
        self.take(piece);
    }

    fn take(&mut self, piece: &[u8]) {
        if self.line.len() + piece.len() > LONGEST {
            self.too_long = true;
            self.line.clear();
        } else if !self.too_long {
            self.line.extend_from_slice(piece);
        }
    }

    /// A line has ended; where it was empty, the event has.
    fn end_line(&mut self) -> Option<Feedback> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let ended = line.is_empty() && !self.too_long;
        if let Some(data) = line.strip_prefix(b"data:") {
            if self.event.len() + data.len() > LONGEST {
                self.too_long = true;
            } else {
                self.event.extend_from_slice(data.trim_ascii_start());
            }
        }
        self.line.clear();
        if self.too_long {
            // The next line may be a short one of the same event, which says nothing by itself.
            self.event.clear();
            self.too_long = false;
            return None;
        }
        if !ended {
            return None;
        }
        let said = feedback::read_event(&self.profile, &self.event, self.clock.wall());
        self.event.clear();
        said.map(|said| self.whole(said))
    }

    /// What was told, with the cost of the whole call so far.
    fn whole(&mut self, mut said: Feedback) -> Feedback {
        if said.class != Class::Ok {
            return said;
        }
        for &(dimension, amount) in &said.cost {
            match self.used.iter_mut().find(|used| used.0 == dimension) {
                Some(used) => used.1 = used.1.max(amount),
                None => self.used.push((dimension, amount)),
            }
        }
        let of = |wanted| {
            let used = self.used.iter().find(|used| used.0 == wanted);
            used.map_or(0.0, |used| used.1)
        };
        let sum = of(Dimension::InputTokens) + of(Dimension::OutputTokens);
        if let Some(total) = self
            .used
            .iter_mut()
            .find(|used| used.0 == Dimension::Tokens)
        {
            total.1 = total.1.max(sum);
        }
        said.cost = self.used.iter().copied().collect();
        said
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it hears is the application's.
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}

/// Longer events are words of an answer: errors and usage have some hundred bytes.
const LONGEST: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&str]) -> Vec<Feedback> {
        let mut ear = Ear::new(Profile::ANTHROPIC);
        let mut all = Vec::new();
        for piece in pieces {
            ear.hear(piece.as_bytes(), |said| all.push(said.clone()));
        }
        all
    }

    const ERROR: &str = "event: error\r\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\r\n\r\n";

    #[test]
    fn an_error_is_heard_wherever_the_stream_was_cut() {
        for cut in 0..ERROR.len() {
            let said = heard(&["data: {\"a\":1}\n\n", &ERROR[..cut], &ERROR[cut..]]);
            assert_eq!(said.len(), 1, "cut at {cut}");
            assert_eq!(said[0].class, Class::Overloaded);
        }
    }

    #[test]
    fn a_long_event_is_passed_over_and_the_next_one_heard() {
        let long = format!("data: {{\"error\":\"{}\"}}\n\n", "x".repeat(100_000));
        let said = heard(&[&long, ERROR]);
        assert_eq!(said.len(), 1);
    }

    #[test]
    fn usage_is_gathered_over_the_stream() {
        let said = heard(&[
            "data: {\"message\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}}\n\n",
            "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":50}}\n\n",
        ]);
        let cost = &said.last().expect("it is told").cost;
        for expected in [
            (Dimension::InputTokens, 100.0),
            (Dimension::OutputTokens, 50.0),
            (Dimension::Tokens, 150.0),
        ] {
            assert!(cost.contains(&expected), "{cost:?}");
        }
    }
}
