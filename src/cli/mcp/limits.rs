//! Limits of `mcp`, for the page `docs/limits.md`. Must not know what they are for.

pub(crate) use super::protocol::{LONGEST_LINE, MOST_BATCHED, MOST_TEXT as TEXT};
pub(crate) use super::session::LONGEST_WAIT;
