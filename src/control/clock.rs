//! `GET clock`, `POST clock`: reads the emulator's clock, stops it, moves it, lets it run.

use serde::Deserialize;
use serde_json::json;

use super::view::timestamp;
use super::{Call, Control, ControlError, Reply, ok};
use crate::clock::{ClockMode, Now};
use crate::contract::profile::parse_duration;

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    Ok(shown(control, control.registry.clock().now()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    mode: Option<Mode>,
    advance: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Real,
    Frozen,
}

pub(super) fn change(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let change: Change = call.json()?;
    let clock = control.registry.clock();
    let now = match (change.mode, change.advance) {
        (None, None) => {
            return Err(ControlError::invalid(
                "expected `mode` (\"real\" or \"frozen\") or `advance` (a duration such as \"60s\")",
            ));
        }
        (Some(_), Some(_)) => return Err(ControlError::invalid("`mode` and `advance` cannot be changed in one call")),
        (Some(Mode::Real), None) => clock.resume(),
        (Some(Mode::Frozen), None) => clock.freeze(),
        (None, Some(by)) => {
            let by = parse_duration(&by).map_err(|problem| ControlError::invalid(format!("advance: {problem}")))?;
            clock.advance(by)
        }
    };
    Ok(shown(control, now))
}

fn shown(control: &Control, now: Now) -> Reply {
    let mode = match control.registry.clock().mode() {
        ClockMode::Real => "real",
        ClockMode::Frozen => "frozen",
    };
    ok(&json!({ "mode": mode, "now": timestamp(now.wall) }))
}
