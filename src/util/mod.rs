//! Captured messages, durations, the memory that JSON takes, and wording in messages, files, pipes, HTTP Archives, processes, the network and tasks, without knowledge of the emulator.

pub mod captured;
pub mod duration;
pub mod expansion;
pub mod file;
pub mod flag;
pub mod har;
pub mod header_lines;
pub mod html;
pub mod net;
pub mod pipe;
pub mod process;
pub(crate) mod schema;
pub mod tasks;
pub(crate) mod toml_messages;
pub mod wording;
