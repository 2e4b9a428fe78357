//! The machine as a whole: events and times in, grants out.

mod admission;
mod explain;
mod failures;
mod fairness;
mod groups;
mod mode;
mod order;
mod properties;
mod reserve;
mod scopes;
mod verdicts;
mod windows;
