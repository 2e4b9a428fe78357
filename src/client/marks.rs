//! Which attempt loops a request is in: what keeps a limiter that stands twice in a chain from
//! acting twice, and one that stands under another from repeating.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use http::Extensions;
use smallvec::SmallVec;

use super::limiter::Limiter;

/// The limiters whose attempt loops a request is running in.
///
/// Extensions outlive an attempt when a retry layer stands outside, so each mark is a weak handle
/// to its loop: a mark whose loop has ended means nothing but that there is such a layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(SmallVec<[Mark; 2]>);

#[derive(Clone, Debug)]
struct Mark {
    limiter: u64,
    running: Weak<Running>,
}

/// An attempt loop that is running.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// A limiter further in holds the attempt back.
    waits_below: AtomicBool,
    /// It has done so since this was last asked.
    waited_below: AtomicBool,
}

impl Running {
    /// Whether a limiter further in holds the attempt back.
    pub(super) fn waits_below(&self) -> bool {
        self.waits_below.load(Ordering::Relaxed)
    }

    /// Whether one does, or has since this was last asked.
    pub(super) fn has_waited_below(&self) -> bool {
        self.waited_below.swap(false, Ordering::Relaxed) || self.waits_below()
    }
}

/// Where a limiter stands in the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// No limiter stands outside.
    Outermost,
    /// Another limiter stands outside.
    Under,
    /// The same limiter stands outside.
    Inside,
}

impl Marks {
    /// Where a limiter stands among those that run.
    pub(super) fn standing(extensions: &Extensions, limiter: &Limiter) -> Standing {
        let mut standing = Standing::Outermost;
        for mark in extensions
            .get::<Self>()
            .into_iter()
            .flat_map(|marks| &marks.0)
        {
            let is_running = mark.running.strong_count() > 0;
            match (is_running, mark.limiter == limiter.id()) {
                (true, true) => return Standing::Inside,
                (true, false) => standing = Standing::Under,
                (false, true) => limiter.on_retried_outside(),
                (false, false) => {}
            }
        }
        standing
    }

    /// A limiter begins its attempt loop, which lasts as long as the answer.
    pub(super) fn enter(extensions: &mut Extensions, limiter: &Limiter) -> Arc<Running> {
        let running = Arc::new(Running::default());
        let marks = extensions.get_or_insert_default::<Self>();
        marks.0.retain(|mark| mark.running.strong_count() > 0);
        marks.0.push(Mark {
            limiter: limiter.id(),
            running: Arc::downgrade(&running),
        });
        running
    }

    /// Tells the loops further out that this one waits, or does not any more.
    pub(super) fn waits(extensions: &Extensions, own: &Arc<Running>, waits: bool) {
        let marks = extensions
            .get::<Self>()
            .into_iter()
            .flat_map(|marks| &marks.0);
        for mark in marks.filter(|mark| mark.running.as_ptr() != Arc::as_ptr(own)) {
            if let Some(outer) = mark.running.upgrade() {
                outer.waits_below.store(waits, Ordering::Relaxed);
                outer.waited_below.store(true, Ordering::Relaxed);
            }
        }
    }
}
