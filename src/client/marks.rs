//! Which attempt loops a request is in: what keeps a limiter that stands twice in a chain from
//! acting twice, and one that stands under another from repeating.

use std::sync::{Arc, Weak};

use http::Extensions;
use smallvec::SmallVec;

use super::limiter::Limiter;
use super::running::Running;

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
        let own = Arc::as_ptr(own);
        if let Some(marks) = extensions.get::<Self>() {
            let outer = marks
                .running()
                .filter(|running| Arc::as_ptr(running) != own);
            outer.for_each(|outer| outer.set_waits_below(waits));
        }
    }

    /// Tells all loops that the service that is to send the attempt is ready, or is not.
    #[cfg(feature = "tower")]
    pub(super) fn set_ready(&self, is_ready: bool) {
        self.running()
            .for_each(|running| running.set_ready(is_ready));
    }

    fn running(&self) -> impl Iterator<Item = Arc<Running>> + '_ {
        self.0.iter().filter_map(|mark| mark.running.upgrade())
    }
}
