//! What happened when, in a run: for a picture and for looking closely.

use crate::Time;

/// Counts in slices of the same length.
#[derive(Clone, Debug)]
pub struct Trace {
    slice: f64,
    slices: Vec<Slice>,
}

/// What happened in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slice {
    /// Requests that were admitted.
    pub admitted: u32,
    /// Answered 429.
    pub refused: u32,
    /// Answered otherwise.
    pub failed: u32,
    /// The most in flight at the provider.
    pub in_flight: u32,
    /// The most that waited at the client.
    pub waiting: u32,
}

impl Trace {
    /// Slices of so many seconds.
    #[must_use]
    pub fn new(slice: f64) -> Self {
        Self {
            slice,
            slices: Vec::new(),
        }
    }

    /// The length of a slice in seconds.
    #[must_use]
    pub fn slice(&self) -> f64 {
        self.slice
    }

    /// The slices from the start to the last request.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// A request has reached the provider and is answered with this status.
    pub(super) fn on_arrival(&mut self, status: u16, in_flight: u32, waiting: usize, now: Time) {
        let index = (now.as_secs_f64() / self.slice) as usize;
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        let slice = &mut self.slices[index];
        match status {
            200 => slice.admitted += 1,
            429 => slice.refused += 1,
            _ => slice.failed += 1,
        }
        slice.in_flight = slice.in_flight.max(in_flight);
        slice.waiting = slice
            .waiting
            .max(u32::try_from(waiting).unwrap_or(u32::MAX));
    }
}
