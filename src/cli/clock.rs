//! `clock show|freeze|advance|set|resume|follow`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::arguments::CallArgs;
use super::failure::Failure;
use super::help::examples;
use super::value;
use crate::control::api::{self, ClockChange, DurationInput, NewMode};
use crate::duration::parse_duration;

/// `clock …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["clock", "clock freeze", "clock advance 60s"]))]
pub(super) enum ClockCommand {
    /// Show the time of the emulator, or of one key.
    #[command(after_help = examples(["clock show", "clock show --key sk_test_a --json"]))]
    Show(ClockArgs),
    /// Stop the clock.
    #[command(after_help = examples(["clock freeze"]))]
    Freeze(ClockArgs),
    /// Move the clock forward: windows open, retries and emissions happen, in order. Returns when everything due is done.
    #[command(after_help = examples(["clock advance 60s", "clock advance 1h30m"]))]
    Advance(AdvanceArgs),
    /// Set the time: a step forward lets time pass, a step back only changes what is shown.
    #[command(after_help = examples([
        "clock set 2026-01-31T09:30:00Z",
        "clock set 2030-01-01T00:00:00Z --key sk_test_a",
    ]))]
    Set(SetArgs),
    /// Let the clock run again from its current time.
    #[command(after_help = examples(["clock resume"]))]
    Resume(ClockArgs),
    /// Let a key's clock follow the emulator's again.
    #[command(after_help = examples(["clock follow --key sk_test_a"]))]
    Follow(ClockArgs),
}

/// Arguments of every clock command.
#[derive(Debug, Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    common: CallArgs,
    /// Only the clock of this key, or workspace `ws_…`; by default the emulator's, which all keys follow.
    #[arg(long)]
    key: Option<String>,
    /// How long to wait until everything due is done.
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = parse_duration)]
    timeout: Duration,
}

/// Arguments of `clock advance`.
#[derive(Debug, Args)]
pub(super) struct AdvanceArgs {
    /// How far, such as 60s, 5m or 72h.
    #[arg(value_name = "DURATION", value_parser = value::duration)]
    by: String,
    #[command(flatten)]
    common: ClockArgs,
}

/// Arguments of `clock set`.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The time to show, such as 2026-01-31T09:30:00Z.
    #[arg(value_name = "TIME", value_parser = value::time)]
    at: String,
    #[command(flatten)]
    common: ClockArgs,
}

pub(super) fn run(command: ClockCommand) -> Result<ExitCode, Failure> {
    let mode = |mode| ClockChange { mode: Some(mode), ..Default::default() };
    match command {
        ClockCommand::Show(args) => {
            args.common.call::<api::ShowClock>().key(args.key.as_deref()).limit(args.limit()).show(line)
        }
        ClockCommand::Freeze(args) => change(&args, mode(NewMode::Frozen)),
        ClockCommand::Resume(args) => change(&args, mode(NewMode::Real)),
        ClockCommand::Follow(args) => change(&args, mode(NewMode::Follow)),
        ClockCommand::Advance(AdvanceArgs { by, common }) => {
            change(&common, ClockChange { advance: Some(DurationInput(by)), ..Default::default() })
        }
        ClockCommand::Set(SetArgs { at, common }) => {
            change(&common, ClockChange { set: Some(at), ..Default::default() })
        }
    }
}

impl ClockArgs {
    /// A little longer than the emulator waits, so that its own timeout is reported.
    fn limit(&self) -> Duration {
        self.timeout.saturating_add(Duration::from_secs(10))
    }
}

fn change(args: &ClockArgs, change: ClockChange) -> Result<ExitCode, Failure> {
    let timeout = DurationInput(format!("{}ms", args.timeout.as_millis()));
    let change = ClockChange { timeout: Some(timeout), ..change };
    let call = args.common.call::<api::MoveClock>().key(args.key.as_deref());
    call.body(&change).limit(args.limit()).show(line)
}

/// A clock on one line.
pub(super) fn line(clock: &api::Clock) -> String {
    let whose = match (&clock.key, clock.follows) {
        (Some(key), Some(true)) => format!(", {key}, with the emulator's"),
        (Some(key), _) => format!(", {key} alone"),
        (None, _) => String::new(),
    };
    let mode = match clock.mode {
        api::ClockMode::Real => "running",
        api::ClockMode::Frozen => "frozen",
    };
    format!("{} ({mode}{whose})\n", clock.now)
}
