//! The machine as a whole: events and times in, grants out.

mod explain;
mod failures;
mod fairness;
mod groups;
mod mode;
mod order;
mod properties;
mod scopes;
mod verdicts;
