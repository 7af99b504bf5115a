//! The differential run: a client's own test command under settings that differ in one thing that the contract does not promise.
//!
//! `table` has the changes as data, `compare` compares what the client saw in two runs. Both pure; `cli/review` runs the command.

mod compare;
mod table;

pub(crate) use compare::{Aspect, Difference, Record, Sight, compare, is_exercised};
pub(crate) use table::{CHANGES, Part, UnpromisedChange};
