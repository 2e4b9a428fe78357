//! Agrees with other processes: one limit for all of them, through a store that all can reach.

mod agent;
mod circuit;
mod counts;
mod desk;
pub mod memory;
mod pace;
pub mod redis;
mod sharing;
pub mod store;

pub use memory::MemoryStore;
pub use redis::{LEAST_PRIVILEGES, RedisStore};
pub use sharing::{Counts, Mode, Sharing, WhenAway};
