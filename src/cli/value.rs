//! Parsers of flags whose values are sent to the control API as they were typed.

use std::path::Path;

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

/// The name of a scenario, from its name or its file: `scenarios/story.toml` is `story`.
pub(super) fn scenario(text: &str) -> Result<String, String> {
    let file = Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or(text);
    match file.strip_suffix(".toml").unwrap_or(text) {
        "" => Err("expected the name of a scenario, found nothing".to_owned()),
        name => Ok(name.to_owned()),
    }
}
