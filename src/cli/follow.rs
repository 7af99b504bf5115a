//! `--follow`: prints what happens as it happens, until interrupted, from the control API's event stream.

use std::process::ExitCode;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Target;
use super::client::Call;
use super::failure::Failure;
use super::output::{cell, compact, print};
use crate::control::api::{Missed, Restarted, Stream};

/// Prints each event of this kind: as a JSON object a line, or as the line that `line` makes of it.
pub(super) fn follow<T: DeserializeOwned>(
    target: &Target,
    key: &str,
    kind: &str,
    json: bool,
    line: impl Fn(&T) -> String,
) -> Result<ExitCode, Failure> {
    Call::<Stream>::to(target).key(key).follow(|found, data| {
        let line = match found {
            "skipped" => read(data).map(|Missed { missed }| format!("… {missed} records were missed")),
            "restarted" => read(data).map(|Restarted { message }| format!("… {message}")),
            _ if found != kind => None,
            _ if json => read::<Value>(data).map(|data| compact(&data)),
            // One of another form than this program knows is shown as it came.
            _ => Some(read(data).map_or_else(|| cell(data), |data| line(&data))),
        };
        if let Some(line) = line {
            print(&format!("{line}\n"));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn read<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).ok()
}
