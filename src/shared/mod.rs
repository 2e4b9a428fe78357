//! Agrees with other processes: one limit for all of them, through a store that all can reach.

pub mod memory;
pub mod redis;
pub mod store;

pub use memory::MemoryStore;
pub use redis::{LEAST_PRIVILEGES, RedisStore};
