//! Durations in calls: of fields and parameters, and how long a call waits on the machine's time.

use std::time::Duration;

use super::{Call, ControlError};
use crate::contract::profile::parse_duration;

/// Longest a call waits.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The duration in a field of a call.
pub(super) fn duration(field: &str, text: &str) -> Result<Duration, ControlError> {
    parse_duration(text).map_err(|problem| ControlError::invalid(format!("{field}: {problem}")))
}

/// How long a call waits by its field `timeout`, or for as long as usual.
pub(super) fn timeout(text: Option<&str>, usual: &str) -> Result<Duration, ControlError> {
    wait_limit("timeout", text.unwrap_or(usual))
}

/// How long a call waits by its parameter `wait`, if it has one.
pub(super) fn wait_of(call: &Call) -> Result<Option<Duration>, ControlError> {
    call.query("wait").map(|text| wait_limit("wait", &text)).transpose()
}

fn wait_limit(field: &str, text: &str) -> Result<Duration, ControlError> {
    let limit = duration(field, text)?;
    if limit > LONGEST_WAIT { Err(ControlError::invalid(format!("{field}: at most 300s"))) } else { Ok(limit) }
}
