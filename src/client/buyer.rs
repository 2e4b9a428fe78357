//! Whoever pays for grants outside the machine: the one hook that sharing with other processes
//! needs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::Time;
use crate::config::Settings;
use crate::error::Error;
use crate::scheduler::Scheduler;

use super::gate::Gate;

/// Pays for what the machine puts up for purchase.
///
/// [`Buyer::trade`] is called under the gate's lock after every event, so it waits for nothing: it
/// takes the purchases, answers those it can, and leaves the rest to its agent, which calls the
/// outside and then lets the gate trade again.
pub(crate) trait Buyer: fmt::Debug + Send {
    /// Takes what the machine puts up, and tells it what became of purchases.
    fn trade(&mut self, machine: &mut Scheduler, now: Time) -> Traded;

    /// Whether the outside knows that this limiter has left.
    fn is_settled(&self) -> bool;

    /// The limiter is being closed: everything is to be given back.
    fn close(&mut self);

    /// What calls the outside, if it does not run already and there is something to call for.
    fn agent(&mut self, gate: Weak<Gate>, now: Time) -> Option<Agent>;
}

/// What calls the outside.
pub(crate) type Agent = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Opens the buyer of a limiter, with its settings.
pub(crate) struct Opening(pub(crate) Open);

type Open = Box<dyn FnOnce(Settings, &mut Scheduler) -> Result<Box<dyn Buyer>, Error> + Send>;

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opening")
    }
}

/// What a trade left behind.
#[derive(Debug, Default)]
pub(crate) struct Traded {
    /// The machine was told something: it may grant more.
    pub(crate) told: bool,
    /// Wakes the agent: there is something to call for.
    pub(crate) bell: Option<Arc<Notify>>,
    /// There is something to call for, and no agent.
    pub(crate) wants_agent: bool,
}
