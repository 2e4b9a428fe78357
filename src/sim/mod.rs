//! Virtual providers in virtual time.
//!
//! A [`Scenario`] is a small TOML file that describes a provider, the load on it and what is
//! expected. The same provider machine runs under the simulator, where a million requests take
//! seconds, and behind real HTTP in `paceline mock`. Nothing here reads a clock, sleeps, locks or
//! draws from ambient randomness: the same seed gives the same run.

mod dice;
pub mod provider;
mod scenario;
mod span;

pub use provider::{Provider, Reply, Request};
pub use scenario::{Arrival, Expect, Load, Network, Scenario, ScenarioError};
