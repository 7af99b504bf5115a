//! What the standard library and other crates leave to do: durations and wording in messages, files, processes, tasks.

pub mod duration;
pub mod file;
pub mod header_lines;
pub mod process;
pub mod tasks;
pub mod wording;
