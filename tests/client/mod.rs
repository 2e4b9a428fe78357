//! The async shell: what a program sees of a limiter.

mod chain;
mod provider;
