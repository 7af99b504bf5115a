//! Values of flags: parsers that check what will be sent to the control API. For a value of the wrong form, messages give what was
//! expected and what was most likely meant.

use std::num::ParseIntError;

use clap::Arg;
use clap::error::Error;
use jiff::{SignedDuration, Timestamp};

use crate::clock::machine;
use crate::duration::parse_duration;

/// A duration for the control API, checked before the call.
pub(super) fn duration(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned())
}

/// A timestamp for the control API, checked before the call.
pub(super) fn time(text: &str) -> Result<String, String> {
    let read = text.parse::<Timestamp>();
    read.map(|_| text.to_owned()).map_err(|_| "expected a timestamp such as 2026-01-31T09:30:00Z".to_owned())
}

/// `now`, or a timestamp.
pub(super) fn since(text: &str) -> Result<String, String> {
    if text == "now" { Ok(text.to_owned()) } else { time(text).map_err(|problem| format!("{problem}, or `now`")) }
}

/// What a flag expects, in words of this program instead of those of the parsing library.
pub(super) fn expected(error: &Error, value: &str) -> String {
    let Some(cause) = std::error::Error::source(error) else { return "expected another value".to_owned() };
    if cause.is::<ParseIntError>() {
        return "expected an integer".to_owned();
    }
    let text = cause.to_string();
    match text.split_once(" is not in ").and_then(|(_, range)| range.split_once("..")) {
        Some((least, "")) => format!("expected an integer of at least {least}"),
        Some((least, most)) => format!("expected an integer from {least} to {}", most.trim_start_matches('=')),
        None => text.trim_end_matches(&format!(", found \"{}\"", value.escape_debug())).to_owned(),
    }
}

/// The value that was most likely meant, or an example of a valid one.
pub(super) fn corrected(argument: &Arg, value: &str) -> String {
    let kind = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let meant = match kind {
        "DURATION" => value.parse::<u32>().ok().map(|seconds| format!("{seconds}s")),
        "TIME" => time_meant(value),
        _ => None,
    };
    let default = || Some(argument.get_default_values().first()?.to_str()?.to_owned());
    meant.or_else(default).unwrap_or_else(|| {
        match (kind, argument.get_id().as_str()) {
            ("DURATION", _) => "30s",
            ("TIME", _) => "2026-01-31T09:30:00Z",
            (_, "status") => "404",
            (_, "tls") => "self-signed",
            (_, "scheme") => "standard",
            _ => "1",
        }
        .to_owned()
    })
}

/// The time meant by a day or a duration before now, by this machine's clock, which the emulator's follows by default.
fn time_meant(value: &str) -> Option<String> {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    if value.parse::<jiff::civil::Date>().is_ok() && value.len() == "2026-01-31".len() {
        return Some(format!("{value}T00:00:00Z"));
    }
    let ago = match value {
        "now" | "today" => SignedDuration::ZERO,
        "yesterday" => DAY,
        "tomorrow" => -DAY,
        _ => SignedDuration::try_from(parse_duration(value.trim_start_matches('-')).ok()?).ok()?,
    };
    let time = Timestamp::from_second(machine::wall_time().checked_sub(ago).ok()?.as_second()).ok()?;
    Some(time.to_string())
}
