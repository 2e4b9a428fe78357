//! How many may be in flight.
//!
//! Every controller keeps the same promises, and one test holds them all to it: the limit stays
//! within its bounds; one episode cuts once; only signs of load count; a limit that is not the brake
//! does not grow; endless refusal brings it to the minimum and its end back to the maximum, both in
//! bounded time.

use std::fmt;
use std::sync::Arc;

use super::events::{Because, What};
use super::time::Time;

mod aimd;
mod cap;
mod contained;
mod fixed;
mod gradient;
mod stats;
mod window;

pub use aimd::AimdSettings;
pub use fixed::FixedSettings;
pub use gradient::GradientSettings;

pub(crate) use aimd::Aimd;
pub(crate) use cap::{Cap, Room};
pub(crate) use fixed::Fixed;
pub(crate) use gradient::Gradient;
pub(crate) use stats::Latencies;
pub(crate) use window::VerifiedWindow;

/// What sets how many requests may be in flight per key.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
#[non_exhaustive]
pub enum Concurrency {
    /// As many as quotas and pace need, within a window that was seen to do no harm, and below a cap
    /// if refusals show one. The default.
    #[default]
    Adaptive,
    /// promptfoo's three layers.
    Aimd(AimdSettings),
    /// Always the same.
    Fixed(FixedSettings),
    /// Follows latency.
    Gradient(GradientSettings),
    /// A controller of your own. Not in files.
    #[cfg_attr(feature = "serde", serde(skip))]
    Custom(CustomController),
}

/// Makes a controller of your own for each key.
///
/// ```
/// use paceline::Time;
/// use paceline::scheduler::concurrency::{Concurrency, Controller, CustomController, Sample};
/// use paceline::scheduler::events::What;
///
/// #[derive(Debug)]
/// struct Seven;
///
/// impl Controller for Seven {
///     fn on_sample(&mut self, _sample: &Sample, _now: Time) -> Option<What> {
///         None
///     }
///     fn limit(&self) -> u32 {
///         7
///     }
/// }
///
/// let limiter = paceline::Limiter::builder()
///     .concurrency(Concurrency::Custom(CustomController::new(|| Seven)))
///     .build()?;
/// # Ok::<(), paceline::Error>(())
/// ```
#[derive(Clone)]
pub struct CustomController(Arc<dyn Fn() -> Box<dyn Controller> + Send + Sync>);

impl CustomController {
    /// Called once for each key. A controller that panics is not called again: its last limit
    /// stands, and a change says so. Whatever the controller says, at least one request may be in
    /// flight, and the bounds of the settings hold.
    pub fn new<C: Controller + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    pub(crate) fn make(&self) -> Box<dyn Controller> {
        Box::new(contained::Contained::new((self.0)()))
    }
}

impl PartialEq for CustomController {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for CustomController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomController")
    }
}

/// Sets how many requests may be in flight, from how requests ended.
pub trait Controller: Send + fmt::Debug {
    /// A request ended. Answers the change of the limit, if any, with its reason.
    fn on_sample(&mut self, sample: &Sample, now: Time) -> Option<What>;

    /// How many may be in flight. At least one.
    fn limit(&self) -> u32;
}

/// How one attempt ended, as far as load is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// When it was sent.
    pub sent: Time,
    /// From the send to its end, in seconds.
    pub latency: f64,
    /// Requests in flight when it was sent, itself included.
    pub in_flight: u32,
    /// The limit was what held others back when it was sent.
    pub limit_was_reached: bool,
    /// What it says about load.
    pub sign: Sign,
    /// The smallest share left of any reported quota, from 0 to 1; none if nothing was reported.
    pub share_left: Option<f64>,
}

/// What the end of an attempt says about load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sign {
    /// It was served.
    Served,
    /// It was refused for going too fast.
    RateLimited,
    /// The server named its own overload, or took too long.
    Overloaded,
    /// Nothing: a fault of the request, of the key, or a connection that failed.
    Nothing,
}

impl Sample {
    /// A request that was served, alone.
    #[must_use]
    pub fn served(sent: Time, latency: f64) -> Self {
        Self {
            sent,
            latency,
            in_flight: 1,
            limit_was_reached: false,
            sign: Sign::Served,
            share_left: None,
        }
    }
}

/// From a cut until every request sent before it has ended, and at least a while: all its refusals
/// are one.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    cut_at: Option<Time>,
}

impl Episode {
    /// Whether a request sent then belongs to an episode that was cut for. A refusal of a request
    /// sent after the cut is new evidence, but not within [`SHORTEST_EPISODE`] of it.
    fn covers(&self, sent: Time, now: Time) -> bool {
        self.cut_at
            .is_some_and(|cut| sent <= cut || now.secs_since(cut) < SHORTEST_EPISODE)
    }

    /// Whether a request was sent after the last cut, so that its success says something about it.
    fn is_over_for(&self, sent: Time) -> bool {
        self.cut_at.is_none_or(|cut| sent > cut)
    }

    fn begin(&mut self, now: Time) {
        self.cut_at = Some(now);
    }
}

/// A change of the limit, if it is one.
fn changed(from: u32, to: u32, why: Because) -> Option<What> {
    (from != to).then_some(What::Limit { from, to, why })
}

/// In seconds. The refusals of one burst come within it; it is our own constant, and no hint of a
/// server moves it: a hint longer than the gap between refusals would freeze the limit for a run.
const SHORTEST_EPISODE: f64 = 1.0;
