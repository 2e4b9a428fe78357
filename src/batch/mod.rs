//! Many requests from a file: every line ends with exactly one record, with a kill at any moment.
//!
//! The walk of a line: [`input`] finds it, [`request`] reads it, [`source`] hands it over ahead of
//! its turn, [`send`] takes it through the limiter, [`mod@line`] says whether it goes
//! again, [`ending`] says what the answer means ([`content`]
//! whether it is one),
//! [`record`] writes that as a line, and [`output`] appends it. Beside that, [`ids`] knows every
//! line in 24 bytes ([`pieces`] holds them, [`slots`] finds them), [`resume`] what earlier runs did, [`inflight`] what was on its way when one
//! was killed, and [`rewrite`] puts the output in order at the end. [`packed`] unpacks an input, [`rows`] makes
//! lines of a table's rows, [`table`] reads that,
//! [`pipe`] takes records where the output is no file, [`usage`] counts what answers cost. [`run`](mod@run) is the loop
//! that holds it together.

mod board;
mod budget;
mod check;
mod closing;
mod content;
mod counted;
mod done;
mod door;
mod ending;
mod error;
mod fields;
mod forbidden;
mod holdup;
mod hosts;
mod ids;
mod inflight;
mod input;
mod line;
mod meaning;
mod options;
mod outage;
mod output;
mod packed;
mod pieces;
mod pipe;
mod progress;
mod record;
mod recording;
mod request;
mod resume;
mod rewrite;
mod rows;
mod run;
mod said;
mod screen;
mod secrets;
mod send;
mod signals;
mod slots;
mod source;
mod state;
mod streak;
mod summary;
mod table;
mod tally;
mod template;
mod transport;
mod turned_away;
mod usage;
mod watching;
mod weather;

pub use check::{Check, Share, check};
pub use error::Error;
pub use options::{Input, Options, Provider, Replays, Show};
pub use rows::{Rows, RowsError};
pub use run::run;
pub use screen::columns;
pub use signals::Signal;
pub use state::history;
pub use summary::{Cause, Outcome, Summary};
