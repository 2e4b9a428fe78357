//! What keeps a test at three lines.

pub(crate) mod machine;
pub(crate) mod service;
