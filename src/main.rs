//! The command `paceline`: arguments only.

fn main() {}
