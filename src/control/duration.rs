//! Durations in calls: of fields and parameters, and how long a call waits on the machine's time.

use std::time::Duration;

use super::ControlError;
use super::api::{DurationInput, Wait};
use crate::duration::parse_duration;

/// How long a call waits that does not say.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest a call waits.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The duration in a field of a call.
pub(super) fn duration(field: &str, DurationInput(text): &DurationInput) -> Result<Duration, ControlError> {
    parse_duration(text).map_err(|problem| ControlError::invalid(format!("{field}: {problem}")))
}

/// How long a call waits by its field `timeout`, or for as long as usual.
pub(super) fn timeout(given: Option<&DurationInput>, usual: Duration) -> Result<Duration, ControlError> {
    given.map_or(Ok(usual), |given| wait_limit("timeout", given))
}

/// How long a call waits by its parameter `wait`, if it has one.
pub(super) fn wait_of(Wait { wait }: &Wait) -> Result<Option<Duration>, ControlError> {
    wait.as_ref().map(|wait| wait_limit("wait", wait)).transpose()
}

fn wait_limit(field: &str, given: &DurationInput) -> Result<Duration, ControlError> {
    let limit = duration(field, given)?;
    if limit > LONGEST_WAIT { Err(ControlError::invalid(format!("{field}: at most 300s"))) } else { Ok(limit) }
}
