//! The differential run: a client's own test command under settings that differ in one thing that the contract does not promise.
//!
//! `table` has the changes as data, `record` what a client saw in a run, `judge` compares two runs. All pure; `cli/review` runs
//! the command.

mod judge;
mod record;
mod table;

pub use judge::{Difference, Sight, compare, is_exercised};
pub use record::{Aspect, Delivered, Exchange, Record};
pub use table::{CHANGES, Part, UnpromisedChange};
