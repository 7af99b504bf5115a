//! `--follow`: prints what happens as it happens, until interrupted, from the control API's event stream.

use std::process::ExitCode;

use serde_json::Value;

use super::Target;
use super::client::events;
use super::failure::Failure;
use super::output::{cell, compact, print};

/// Prints each event of this kind: as a JSON object a line, or as the line that `line` makes of it.
pub(super) fn follow(
    target: &Target,
    key: &str,
    kind: &str,
    json: bool,
    line: impl Fn(&Value) -> Option<String>,
) -> Result<ExitCode, Failure> {
    events(target, key, |found, data| {
        if found == "skipped" {
            print(&format!("… {} records were missed\n", data["missed"]));
        } else if found == "restarted" {
            print(&format!("… {}\n", cell(data, "message")));
        } else if found == kind {
            let line = if json { Some(compact(data)) } else { line(data) };
            if let Some(line) = line {
                print(&format!("{line}\n"));
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
