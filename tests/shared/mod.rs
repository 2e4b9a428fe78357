//! Limits that several processes share, on real servers.

mod faults;
mod laws;
mod limiters;
mod server;
mod suite;
