//! Parsers of flags whose values are sent to the control API as they were typed.

use jiff::Timestamp;

use crate::duration::parse_duration;

pub(super) fn duration(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned())
}

pub(super) fn time(text: &str) -> Result<String, String> {
    let read = text.parse::<Timestamp>();
    read.map(|_| text.to_owned()).map_err(|_| "expected a timestamp such as 2026-01-31T09:30:00Z".to_owned())
}

/// `now`, or a timestamp.
pub(super) fn since(text: &str) -> Result<String, String> {
    if text == "now" { Ok(text.to_owned()) } else { time(text).map_err(|problem| format!("{problem}, or `now`")) }
}
