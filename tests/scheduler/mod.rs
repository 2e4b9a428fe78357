//! The machine as a whole: events and times in, grants out.

mod order;
mod properties;
mod verdicts;
