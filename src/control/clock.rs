//! `GET clock`, `POST clock`: reads a clock, stops it, sets or moves it, lets it run. Without a key it is the emulator's; with
//! one it is that key's own, which follows the emulator's until it is moved by itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::advance::Mover;
use super::call::KeyField;
use super::events::wait_limit;
use super::scope::{Scope, scope_or_all};
use super::view::timestamp;
use super::{Call, Control, ControlError, Reply, ok};
use crate::clock::{ClockMode, Now};
use crate::contract::error::ErrorKind;
use crate::contract::profile::parse_duration;

/// Longest step, as for any duration.
const LONGEST_STEP: Duration = Duration::from_hours(24 * 3653);
/// How long a call waits until everything is done, unless it says otherwise.
const PATIENCE: &str = "60s";

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let mover = mover(control, call)?;
    Ok(ok(shown(&mover, mover.clock().now())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    mode: Option<Mode>,
    advance: Option<String>,
    set: Option<String>,
    #[serde(default, rename = "key")]
    _key: KeyField,
    timeout: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Running on from where it stands.
    Real,
    Frozen,
    /// A key's clock only: that of the emulator again.
    Follow,
}

pub(super) async fn change(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let change: Change = call.json()?;
    let limit = wait_limit("timeout", change.timeout.as_deref().unwrap_or(PATIENCE))?;
    // Everything is read before anything is changed.
    let step = match (&change.advance, &change.set, change.mode) {
        (None, None, None) => {
            return Err(ControlError::invalid(
                "expected `mode` (\"real\", \"frozen\" or \"follow\"), `advance` (a duration such as \"60s\") or `set` (a timestamp)",
            ));
        }
        (Some(by), None, None) => {
            Step::Advance(parse_duration(by).map_err(|problem| ControlError::invalid(format!("advance: {problem}")))?)
        }
        (None, Some(at), None) => Step::Set(instant(at)?),
        (None, None, Some(mode)) => Step::Mode(mode),
        _ => return Err(ControlError::invalid("`mode`, `advance` and `set` cannot be changed in one call")),
    };
    let mover = mover(control, call)?;
    if matches!((step, &mover), (Step::Mode(Mode::Follow), Mover::Emulator(_))) {
        return Err(ControlError::invalid("mode: the emulator's clock follows no other; name a key"));
    }
    let now = match step {
        Step::Mode(Mode::Follow) => {
            // What has passed for the emulator passes for the key too, in order.
            let ahead = control.registry.clock().now().wall.duration_since(mover.clock().now().wall);
            advance(&mover, Duration::try_from(ahead).unwrap_or_default(), limit).await?;
            mover.clock().follow()
        }
        step => step.take(&mover, limit).await?,
    };
    if let Mover::Workspace(workspace) = &mover {
        // Whatever else waits for this key is told by its clock; what time sets off may have to be looked for.
        control.emissions.look(workspace);
    }
    Ok(ok(shown(&mover, now)))
}

/// What is done with a clock.
#[derive(Clone, Copy)]
enum Step {
    Mode(Mode),
    Advance(Duration),
    Set(Timestamp),
}

impl Step {
    async fn take(self, mover: &Mover, limit: Duration) -> Result<Now, ControlError> {
        let clock = mover.clock();
        match self {
            Self::Mode(Mode::Real) => Ok(clock.resume()),
            Self::Mode(Mode::Frozen) => Ok(clock.freeze()),
            Self::Mode(Mode::Follow) => Ok(clock.follow()),
            Self::Advance(by) => advance(mover, by, limit).await,
            Self::Set(at) => match Duration::try_from(at.duration_since(clock.now().wall)) {
                // A step forward is time that passes.
                Ok(by) if by > LONGEST_STEP => Err(ControlError::invalid(format!(
                    "set: {} is more than ten years ahead of the clock",
                    timestamp(at)
                ))),
                Ok(by) => {
                    advance(mover, by, limit).await?;
                    // What is left is how long a running clock took.
                    Ok(clock.now())
                }
                // A step back shows another time; nothing that has happened is undone.
                Err(_) => Ok(clock.relabel(at)),
            },
        }
    }
}

/// Moves a clock and answers when everything that was due is done. The step continues if nobody waits for it any longer, so that
/// a clock never stays halfway.
async fn advance(mover: &Mover, by: Duration, limit: Duration) -> Result<Now, ControlError> {
    let step = tokio::spawn({
        let mover = mover.clone();
        async move { mover.advance(by).await }
    });
    match tokio::time::timeout(limit, step).await {
        Ok(Ok(now)) => Ok(now),
        Ok(Err(_)) => Err(ControlError::new(ErrorKind::InternalError, ErrorKind::InternalError.message())),
        Err(_) => {
            let message = format!(
                "the clock is at {} and keeps moving: not everything due was done within {} s; a receiver may be slow (see `deliveries list --status pending`), or the call needs a longer `timeout`",
                timestamp(mover.clock().now().wall),
                limit.as_secs_f64()
            );
            Err(ControlError::new(ErrorKind::RequestTimeout, message).coded("not_settled"))
        }
    }
}

fn instant(text: &str) -> Result<Timestamp, ControlError> {
    text.parse().map_err(|_| {
        let found = text.escape_debug();
        ControlError::invalid(format!("set: expected a timestamp such as 2026-01-31T09:30:00Z, found `{found}`"))
    })
}

/// Whose clock is meant: a key's own, or without one, or with `*`, the emulator's.
fn mover(control: &Control, call: &Call) -> Result<Mover, ControlError> {
    Ok(match scope_or_all(control, call)? {
        Scope::All => Mover::Emulator(Arc::clone(&control.registry)),
        Scope::One(workspace) => Mover::Workspace(workspace),
    })
}

fn shown(mover: &Mover, now: Now) -> Value {
    let mode = match mover.clock().mode() {
        ClockMode::Real => "real",
        ClockMode::Frozen => "frozen",
    };
    let mut view = json!({ "mode": mode, "now": timestamp(now.wall) });
    if let Mover::Workspace(workspace) = mover {
        view["workspace"] = workspace.id().into();
        view["follows"] = workspace.clock().follows().into();
    }
    view
}
