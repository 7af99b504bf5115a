//! Arguments that several commands share: how to reach the emulator, whether to print JSON, a file for results; and parsers of flags
//! whose values are sent to the control API as they were typed.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use super::client::Call;
use super::failure::Failure;
use super::help::LAST;
use super::output::show;
use super::target::Target;
use crate::control::api::Endpoint;
use crate::control::render::Text;
use crate::util::duration::parse_duration;
use crate::util::file;

/// Arguments of every command that prints an answer of the control API.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    pub(super) target: Target,
    /// Print JSON.
    #[arg(long, display_order = LAST)]
    pub(super) json: bool,
}

impl CallArgs {
    /// Prints an answer as text or JSON.
    pub(super) fn show(&self, answer: &impl Text) -> ExitCode {
        show(self.json, answer, || answer.text())
    }

    pub(super) fn call<E: Endpoint>(&self) -> Call<'_, E> {
        Call::to(&self.target)
    }
}

/// Creates the results file that a flag names, or empties it. Done before any work, so that an unwritable path fails at once
/// and no older results remain.
pub(super) fn created(flag: &str, path: &Path) -> Result<File, Failure> {
    file::create(path).map_err(|problem| Failure::io(format!("{flag}: cannot write `{}`: {problem}", path.display())))
}

pub(super) fn duration(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned())
}

/// A duration above 0.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    if period.is_zero() { Err("expected more than 0".to_owned()) } else { Ok(period) }
}

/// A whole number of at least this much.
pub(super) fn at_least(least: usize) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| match text.parse::<usize>() {
        Ok(number) if number < least => Err(format!("expected at least {least}")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
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
