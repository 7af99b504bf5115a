//! `GET clock`, `POST clock`: shows, freezes, sets, advances and resumes a clock: the emulator's, or that of a key, which follows the
//! emulator's until it is changed itself.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::call::{Body, Call, ControlCall, Query, Tag};
use super::command::CallCommand;
use super::context::{Context, duration, timeout};
use super::fields::{ClockOwner, DurationInput, Since, not_one_of};
use super::render::{Text, cell};
use crate::advice::Audience;
pub(crate) use crate::clock::ClockMode;
use crate::clock::{Now, check_wall, machine};
use crate::contract::error::ErrorKind;
use crate::redact::Redactor;
use crate::state::engine::ClockDriver;
use crate::state::journal::record::{Millis, Time, WorkspaceId, time};
use crate::util::duration::duration_text;

/// A clock.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields, rename = "Clock")]
pub(crate) struct ClockView {
    pub(crate) mode: ClockMode,
    pub(crate) now: Time,
    /// How far a running clock was moved ahead of the machine's, or back; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ahead_ms: Option<i64>,
    /// Whose it is, unless it is the emulator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// True if it shows the emulator's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<bool>,
    /// With `step`: how much of the move is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left_ms: Option<Millis>,
    /// With `step`: whole milliseconds until something is due next; absent if nothing is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due_in_ms: Option<u64>,
    /// With `step`: how many requests a scenario holds back, by a delay or in the middle of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<usize>,
}

/// Show the time of the emulator, or of one key.
///
/// The mode and the time; with a key, those of that key's clock.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowClock {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: ClockOwner,
}

impl ControlCall for Query<ShowClock> {
    type Answer = ClockView;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::STATE, "GET clock", show)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["clock show", "clock show --key sk_test_a --json"];
        let group = &["clock", "clock freeze", "clock advance 60s"];
        let command = CallCommand::new("clock show", examples, |query| Self { query }.sent());
        vec![command.leads("Show, stop or move the emulator's clock", group).after("check")]
    }
}

/// Stop, set, move or resume a clock; returns once everything due on the way is done.
///
/// Takes one of `mode`, `advance` and `set`. Moves from one due instant to the next, so that each retry and emission happens at its own
/// time. With a key, that key's clock, which keeps its own time until `follow`.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("not" = not_one_of(&["mode", "advance", "set"]), "examples" = [{ "advance": "60s" }]))]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveClock {
    #[serde(default)]
    pub(crate) key: ClockOwner,
    /// `frozen` stops the clock, `auto` lets calls that wait move it, `real` lets it run on, `follow` ties a key's clock to the emulator's again.
    pub(crate) mode: Option<NewMode>,
    /// How far, such as 60s, 1h30m or 72h.
    pub(crate) advance: Option<DurationInput>,
    /// The time to set, such as 2026-01-31T09:30:00Z, or `now` for the real time.
    pub(crate) set: Option<Since>,
    /// How far this call moves at most; `0` moves nothing. The answer says how much is left, and when something is due next: for callers
    /// that move another clock alongside.
    pub(crate) step: Option<DurationInput>,
    /// How long the call waits until everything due is done; 60s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

impl ControlCall for Body<MoveClock> {
    type Answer = ClockView;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::STATE, "POST clock", |Self { body }, cx| change(body, cx))
    }

    fn timeout(&self) -> Option<&DurationInput> {
        self.body.timeout.as_ref()
    }

    fn commands() -> Vec<CallCommand> {
        let mode = |name, about, examples, mode| {
            let sent = move |of: OfClock| Self { body: MoveClock { mode: Some(mode), ..of.into() } }.sent();
            CallCommand::new(name, examples, sent).about(about)
        };
        let advance =
            |Advance { advance, of }: Advance| Self { body: MoveClock { advance: Some(advance), ..of.into() } }.sent();
        let set = |Set { set, of }: Set| Self { body: MoveClock { set: Some(set), ..of.into() } }.sent();
        let advances = "Move the clock forward: windows open, retries and emissions happen, in order. Returns when everything due is done";
        let sets = "Set the time: a step forward lets time pass, a step back only changes the displayed time";
        let set_examples =
            &["clock set 2026-01-31T09:30:00Z", "clock set 2030-01-01T00:00:00Z --key sk_test_a", "clock set now"];
        let automates = "Let time pass by itself: while a command or a call waits, not while your client sleeps, the clock moves to the next retry or emission";
        let resumes = "Let the clock run again from its current time";
        let follows = "Let a key's clock follow the emulator's again";
        vec![
            mode("clock freeze", "Stop the clock", &["clock freeze"], NewMode::Frozen),
            mode("clock auto", automates, &["clock auto", "clock auto --key sk_test_a"], NewMode::Auto),
            CallCommand::new("clock advance", &["clock advance 60s", "clock advance 1h30m"], advance).about(advances),
            CallCommand::new("clock set", set_examples, set).about(sets),
            mode("clock resume", resumes, &["clock resume"], NewMode::Real),
            mode("clock follow", follows, &["clock follow --key sk_test_a"], NewMode::Follow),
        ]
    }
}

/// Arguments of the commands that change a clock.
#[derive(Args)]
struct OfClock {
    #[command(flatten)]
    key: ClockOwner,
    /// How long to wait until everything due is done.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    timeout: DurationInput,
}

impl From<OfClock> for MoveClock {
    fn from(OfClock { key, timeout }: OfClock) -> Self {
        Self { key, timeout: Some(timeout), ..Self::default() }
    }
}

#[derive(Args)]
struct Advance {
    /// How far, such as 60s, 5m or 72h.
    #[arg(value_name = "DURATION")]
    advance: DurationInput,
    #[command(flatten)]
    of: OfClock,
}

#[derive(Args)]
struct Set {
    /// The time to show, such as 2026-01-31T09:30:00Z; `now` goes back to real time.
    #[arg(value_name = "TIME")]
    set: Since,
    #[command(flatten)]
    of: OfClock,
}

/// The requested mode of a clock.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewMode {
    Real,
    Frozen,
    Auto,
    Follow,
}

impl Text for ClockView {
    fn text(&self, _: &Audience) -> String {
        let whose = match (&self.key, self.follows) {
            (Some(key), Some(true)) => format!(", {}, with the emulator's", cell(key)),
            (Some(key), _) => format!(", {} alone", cell(key)),
            (None, _) => String::new(),
        };
        let mode = match self.mode {
            ClockMode::Real => "running",
            ClockMode::Frozen => "frozen",
            ClockMode::Auto => "auto",
        };
        format!("{} ({mode}{whose})\n", self.now)
    }
}

/// Longest step, as for any duration.
const MAX_STEP: Duration = Duration::from_hours(24 * 3653);
/// How long a call waits by default until everything due is done.
const TIMEOUT: Duration = Duration::from_mins(1);

fn show(Query { query: request }: Query<ShowClock>, cx: &Context) -> Result<ClockView, ControlError> {
    // The emulator's clock without a key or with `*`.
    let mover = cx.engine.clock_driver(request.key.scope(&cx.engine)?.0);
    Ok(to_view(&mover, mover.clock().now(), cx.redactor()))
}

async fn change(request: MoveClock, cx: Arc<Context>) -> Result<ClockView, ControlError> {
    // The whole call is validated before anything changes.
    let limit = timeout(request.timeout.as_ref(), TIMEOUT)?;
    let change = ClockChange::of(&request)?;
    let step = request.step.as_ref().map(|step| duration("step", step)).transpose()?;
    let mover = cx.engine.clock_driver(request.key.scope_soon(&cx.control).await?.0);
    let (now, left) = match change {
        ClockChange::Mode(_) if step.is_some() => {
            return Err(ControlError::invalid("step: goes with `advance` or `set`, and not with `mode`"));
        }
        ClockChange::Mode(mode) => (take_mode(mode, &cx, &mover, limit).await?, Duration::ZERO),
        ClockChange::Advance(by) => {
            let did = |by| format!("advanced by {}, to", duration_text(by));
            forward(by, step, did, &cx, &mover, limit).await?
        }
        ClockChange::Set(at) => set(at, step, &cx, &mover, limit).await?,
    };
    if let Some(workspace) = &mover.workspace {
        // Following the emulator's clock again may have moved it.
        let _ = cx.engine.fire_soon(workspace).await;
    }
    let mut clock = to_view(&mover, now, cx.redactor());
    if step.is_some() {
        (clock.left_ms, clock.held) = (Some(left.into()), Some(mover.held()));
        // Rounded up, so that it is due after a step of that length.
        let millis = |next: Duration| u64::try_from(next.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        clock.due_in_ms = mover.next_step().map(millis);
    }
    Ok(clock)
}

#[derive(Clone, Copy)]
enum ClockChange {
    Mode(NewMode),
    Advance(Duration),
    Set(Timestamp),
}

impl ClockChange {
    fn of(change: &MoveClock) -> Result<Self, ControlError> {
        match (&change.advance, &change.set, change.mode) {
            (None, None, None) => Err(ControlError::invalid(
                "expected `mode` (\"real\", \"frozen\", \"auto\" or \"follow\"), `advance` (a duration such as \"60s\") or `set` (a timestamp)",
            )),
            (Some(by), None, None) => Ok(Self::Advance(duration("advance", by)?)),
            (None, Some(Since(at)), None) => Ok(Self::Set(instant(at)?)),
            (None, None, Some(mode)) => Ok(Self::Mode(mode)),
            _ => Err(ControlError::invalid("`mode`, `advance` and `set` cannot be changed in one call")),
        }
    }
}

async fn take_mode(mode: NewMode, cx: &Context, mover: &ClockDriver, limit: Duration) -> Result<Now, ControlError> {
    let (clock, wall) = (mover.clock(), mover.clock().now().wall);
    Ok(match mode {
        NewMode::Real => {
            log(cx, mover, format!("runs again from {}", time(wall)));
            clock.resume()
        }
        NewMode::Frozen => {
            log(cx, mover, format!("frozen at {}", time(wall)));
            clock.freeze()
        }
        NewMode::Auto => {
            log(cx, mover, format!("stands at {}, and moves while a call waits", time(wall)));
            clock.automate()
        }
        NewMode::Follow if mover.workspace.is_none() => {
            return Err(ControlError::invalid("mode: the emulator's clock follows no other; name a key"));
        }
        NewMode::Follow => {
            log(cx, mover, "follows the emulator's again".to_owned());
            // The key first catches up with the emulator's time, so that due events happen in order.
            let ahead = cx.engine.registry.clock().now().wall.duration_since(wall);
            advance(mover, Duration::try_from(ahead).unwrap_or_default(), limit).await?;
            clock.follow()
        }
    })
}

async fn set(
    at: Timestamp,
    step: Option<Duration>,
    cx: &Context,
    mover: &ClockDriver,
    limit: Duration,
) -> Result<(Now, Duration), ControlError> {
    let (clock, wall) = (mover.clock(), mover.clock().now().wall);
    // As far ahead as back, so that each step can be undone.
    if at.duration_since(wall).unsigned_abs() > MAX_STEP {
        return Err(ControlError::invalid(format!("set: {} is more than ten years from the clock", time(at))));
    }
    // A step back only changes the time shown; nothing is undone.
    if at < wall {
        log(cx, mover, format!("set back to {}", time(at)));
        return Ok((clock.set_wall_time(at), Duration::ZERO));
    }
    // A step forward is time that passes.
    let by = Duration::try_from(at.duration_since(wall)).unwrap_or_default();
    let (_, left) = forward(by, step, |_| "set forward to".to_owned(), cx, mover, limit).await?;
    // A running clock is later than `at` by the time that the step took.
    Ok((clock.now(), left))
}

/// Moves a clock forward, at most by `step`; returns its time when everything due on the way is done, and the rest of the move.
async fn forward(
    by: Duration,
    step: Option<Duration>,
    did: impl FnOnce(Duration) -> String,
    cx: &Context,
    mover: &ClockDriver,
    limit: Duration,
) -> Result<(Now, Duration), ControlError> {
    let moved = step.map_or(by, |step| step.min(by));
    if !moved.is_zero() || step.is_none() {
        let to = mover.clock().now().wall.saturating_add(moved).unwrap_or(Timestamp::MAX);
        log(cx, mover, format!("{} {}", did(moved), time(to)));
    }
    Ok((advance(mover, moved, limit).await?, by.saturating_sub(moved)))
}

/// Logged before a change takes effect, so that its line comes first.
fn log(cx: &Context, mover: &ClockDriver, did: String) {
    let key = mover.workspace.as_ref().map(|workspace| &**workspace.name());
    cx.engine.note(key, format!("clock of {} {did}", cx.whose(key)), false);
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
                "the clock is at {} and keeps moving: not everything due was done within {} s; a receiver may be slow, whose delivery is then `pending`, or the call needs a longer `timeout`",
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

pub(super) fn to_view(mover: &ClockDriver, now: Now, redactor: Redactor<'_>) -> ClockView {
    let (workspace, mode) = (mover.workspace.as_ref(), mover.clock().mode());
    let ahead_ms = now.wall.as_millisecond() - machine::wall_time().as_millisecond();
    ClockView {
        mode,
        now: time(now.wall),
        // The rest is what the call took.
        ahead_ms: Some(ahead_ms).filter(|ahead| mode == ClockMode::Real && ahead.abs() >= 1_000),
        workspace: workspace.map(|workspace| workspace.id().into()),
        key: workspace.map(|workspace| redactor.key(workspace.name()).into_owned()),
        follows: workspace.map(|workspace| workspace.clock().follows()),
        left_ms: None,
        due_in_ms: None,
        held: None,
    }
}
