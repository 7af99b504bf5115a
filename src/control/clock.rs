//! `GET clock`, `POST clock`: shows, freezes, sets, advances and resumes a clock: the emulator's, or that of a key, which follows the
//! emulator's until it is changed itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::call::{Call, Input, duration, key_or_all, scope_or_all, scope_soon, timeout, whose};
use super::endpoint::{DurationInput, KeyField, Nothing};
use super::render::{Text, cell};
use super::{Control, ControlError};
pub(crate) use crate::clock::ClockMode;
use crate::clock::{Now, check_wall, machine};
use crate::contract::error::ErrorKind;
use crate::redact::Redactor;
use crate::state::engine::ClockDriver;
use crate::state::journal::record::{Time, WorkspaceId, time};
use crate::util::duration::duration_text;

/// A clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Clock {
    pub(crate) mode: ClockMode,
    pub(crate) now: Time,
    /// Whose it is, unless it is the emulator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// True if it shows the emulator's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<bool>,
}

/// A change of a clock: one of `mode`, `advance` and `set`.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(extend("not" = super::endpoint::not_one_of(&["mode", "advance", "set"]), "examples" = [{ "advance": "60s" }]))
)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockChange {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    pub(crate) mode: Option<NewMode>,
    pub(crate) advance: Option<DurationInput>,
    /// A timestamp, or `now` for the real time.
    #[cfg_attr(test, schemars(with = "Option<super::requests::Since>"))]
    pub(crate) set: Option<String>,
    /// How long the call waits until everything due is done; 60s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The requested mode of a clock.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewMode {
    /// Running from the time at which it was frozen.
    Real,
    Frozen,
    /// Only for a key's clock: it follows the emulator's again.
    Follow,
}

impl Text for Clock {
    fn text(&self) -> String {
        let whose = match (&self.key, self.follows) {
            (Some(key), Some(true)) => format!(", {}, with the emulator's", cell(key)),
            (Some(key), _) => format!(", {} alone", cell(key)),
            (None, _) => String::new(),
        };
        let mode = match self.mode {
            ClockMode::Real => "running",
            ClockMode::Frozen => "frozen",
        };
        format!("{} ({mode}{whose})\n", self.now)
    }
}

/// Longest step, as for any duration.
const MAX_STEP: Duration = Duration::from_hours(24 * 3653);
/// How long a call waits by default until everything due is done.
const TIMEOUT: Duration = Duration::from_mins(1);

pub(super) fn show(control: &Control, input: &Input) -> Result<Clock, ControlError> {
    let mover = mover(control, input)?;
    Ok(shown(&mover, mover.clock().now(), input.redactor()))
}

pub(super) async fn change(
    control: Arc<Control>,
    input: Arc<Input<Nothing, ClockChange>>,
) -> Result<Clock, ControlError> {
    // The whole call is validated before anything changes.
    let limit = timeout(input.body.timeout.as_ref(), TIMEOUT)?;
    let step = Step::of(&input.body)?;
    let mover = control.mover(scope_soon(&control, key_or_all(&input)?).await?.0);
    let now = take(step, &control, &input, &mover, limit).await?;
    if let Some(workspace) = &mover.workspace {
        // Following the emulator's clock again may have moved it.
        let _ = control.fire_soon(workspace).await;
    }
    Ok(shown(&mover, now, input.redactor()))
}

#[derive(Clone, Copy)]
enum Step {
    Mode(NewMode),
    Advance(Duration),
    Set(Timestamp),
}

impl Step {
    fn of(change: &ClockChange) -> Result<Self, ControlError> {
        match (&change.advance, &change.set, change.mode) {
            (None, None, None) => Err(ControlError::invalid(
                "expected `mode` (\"real\", \"frozen\" or \"follow\"), `advance` (a duration such as \"60s\") or `set` (a timestamp)",
            )),
            (Some(by), None, None) => Ok(Self::Advance(duration("advance", by)?)),
            (None, Some(at), None) => Ok(Self::Set(instant(at)?)),
            (None, None, Some(mode)) => Ok(Self::Mode(mode)),
            _ => Err(ControlError::invalid("`mode`, `advance` and `set` cannot be changed in one call")),
        }
    }
}

/// Takes a step of a clock, and returns its time when everything due on the way is done.
async fn take(
    step: Step,
    control: &Control,
    call: &Call,
    mover: &ClockDriver,
    limit: Duration,
) -> Result<Now, ControlError> {
    let (clock, wall) = (mover.clock(), mover.clock().now().wall);
    // Logged before the step takes effect, so that its line comes first.
    let log = |did: String| {
        let key = mover.workspace.as_ref().map(|workspace| &**workspace.name());
        control.note(key, format!("clock of {} {did}", whose(call, key)), false);
    };
    Ok(match step {
        Step::Mode(NewMode::Real) => {
            log(format!("runs again from {}", time(wall)));
            clock.resume()
        }
        Step::Mode(NewMode::Frozen) => {
            log(format!("frozen at {}", time(wall)));
            clock.freeze()
        }
        Step::Mode(NewMode::Follow) if mover.workspace.is_none() => {
            return Err(ControlError::invalid("mode: the emulator's clock follows no other; name a key"));
        }
        Step::Mode(NewMode::Follow) => {
            log("follows the emulator's again".to_owned());
            // The key first catches up with the emulator's time, so that what is due happens in order.
            let ahead = control.registry.clock().now().wall.duration_since(wall);
            advance(mover, Duration::try_from(ahead).unwrap_or_default(), limit).await?;
            clock.follow()
        }
        Step::Advance(by) => {
            let to = wall.saturating_add(by).unwrap_or(Timestamp::MAX);
            log(format!("advanced by {}, to {}", duration_text(by), time(to)));
            advance(mover, by, limit).await?
        }
        // As far ahead as back, so that each step can be undone.
        Step::Set(at) if at.duration_since(wall).unsigned_abs() > MAX_STEP => {
            return Err(ControlError::invalid(format!("set: {} is more than ten years from the clock", time(at))));
        }
        // A step back only changes the time shown; nothing is undone.
        Step::Set(at) if at < wall => {
            log(format!("set back to {}", time(at)));
            clock.relabel(at)
        }
        Step::Set(at) => {
            log(format!("set forward to {}", time(at)));
            // A step forward is time that passes.
            advance(mover, Duration::try_from(at.duration_since(wall)).unwrap_or_default(), limit).await?;
            // A running clock is later than `at` by the time that the step took.
            clock.now()
        }
    })
}

/// Advances a clock and returns when everything due is done. If the caller hangs up, the step continues, so that a clock never stops
/// halfway.
async fn advance(mover: &ClockDriver, by: Duration, limit: Duration) -> Result<Now, ControlError> {
    let mover_of_task = mover.clone();
    let step = tokio::spawn(async move { mover_of_task.advance(by).await });
    match tokio::time::timeout(limit, step).await {
        Ok(Ok(now)) => Ok(now),
        Ok(Err(_)) => Err(ControlError::internal()),
        Err(_) => {
            let message = format!(
                "the clock is at {} and keeps moving: not everything due was done within {} s; a receiver may be slow (see `deliveries list --status pending`), or the call needs a longer `timeout`",
                time(mover.clock().now().wall),
                limit.as_secs_f64()
            );
            Err(ControlError::new(ErrorKind::RequestTimeout, message).coded("not_settled"))
        }
    }
}

fn instant(text: &str) -> Result<Timestamp, ControlError> {
    if text == "now" {
        return Ok(machine::wall_time());
    }
    let expected = "a timestamp such as 2026-01-31T09:30:00Z, or `now`";
    let at = text.parse().map_err(|_| ControlError::unexpected("set", expected, text))?;
    check_wall(at).map_err(|problem| ControlError::invalid(format!("set: {problem}")))
}

/// The clock that the call is about: a key's own, or the emulator's without a key or with `*`.
fn mover(control: &Control, call: &Call) -> Result<ClockDriver, ControlError> {
    Ok(control.mover(scope_or_all(control, call)?.0))
}

pub(super) fn shown(mover: &ClockDriver, now: Now, redactor: Redactor<'_>) -> Clock {
    let workspace = mover.workspace.as_ref();
    Clock {
        mode: mover.clock().mode(),
        now: time(now.wall),
        workspace: workspace.map(|workspace| workspace.id().into()),
        key: workspace.map(|workspace| redactor.key(workspace.name()).into_owned()),
        follows: workspace.map(|workspace| workspace.clock().follows()),
    }
}
