//! Virtual providers in virtual time.
//!
//! A [`Scenario`] is a small TOML file that describes a provider, the load on it and what is
//! expected. The same provider machine runs under the simulator, where a million requests take
//! seconds, and behind real HTTP in `paceline mock`. Nothing here reads a clock, sleeps, locks or
//! draws from ambient randomness: the same seed gives the same run.

mod baseline;
mod client;
mod dice;
mod load;
mod oracle;
pub mod provider;
mod report;
mod run;
mod scenario;
mod settling;
mod span;
mod trace;

pub use baseline::{Rival, UnknownRival};
pub use client::{Attempt, Client, End, Next, Paceline};
pub use load::Job;
pub use provider::{Provider, Reply, Request};
pub use report::{Miss, Run, Spread, Summary};
pub use run::run;
pub use scenario::{Arrival, Expect, Load, Network, Scenario, ScenarioError};
pub use trace::{Slice, Trace};
