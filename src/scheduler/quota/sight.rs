//! A reading as an edge sees it, and what it says about the window.

use crate::scheduler::time::Time;

use super::reading::Span;

/// What a reading says about the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seeing {
    /// The same window as before.
    Same,
    /// A new one began, as was assumed.
    Confirmed,
    /// A new one began before it was assumed.
    Early,
    /// The old one goes on although a new one was assumed.
    Late,
    /// It is about a window that is over.
    Past,
}

/// What the count of a reading says about the window, where its reset leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// More is left than the window can have.
    New,
    /// As little is left as in the window before the assumed one.
    Old,
    /// Nothing is certain.
    Either,
}

/// A reading, as far as an edge needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight<'a> {
    pub(super) told: &'a Span,
    pub(super) count: Count,
    /// It was sent later than every other that was read.
    pub(super) newer: bool,
    pub(super) sent: Time,
    pub(super) jitter: f64,
}
