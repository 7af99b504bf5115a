//! `clock show|freeze|advance|set|resume|follow`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::Target;
use super::client::call;
use super::failure::Failure;
use super::mistakes::value;
use super::output::{cell, print, print_json};
use crate::duration::parse_duration;

/// `clock …`
#[derive(Debug, Subcommand)]
pub(super) enum ClockCommand {
    /// Show the time of the emulator, or of one key.
    Show(ClockArgs),
    /// Stop the clock.
    Freeze(ClockArgs),
    /// Move the clock forward: windows open, retries and emissions happen, in order. Returns when all that was due is done.
    Advance(AdvanceArgs),
    /// Show another time: a step forward is time that passes, a step back only another label.
    Set(SetArgs),
    /// Let the clock run again from its current time.
    Resume(ClockArgs),
    /// Let a key's clock follow the emulator's again.
    Follow(ClockArgs),
}

/// Arguments of every clock command.
#[derive(Debug, Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    target: Target,
    /// The clock of this key, or workspace `ws_…`, alone; without it, the emulator's, which all keys follow.
    #[arg(long)]
    key: Option<String>,
    /// How long to wait until all that was due is done.
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = parse_duration)]
    timeout: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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
    match command {
        ClockCommand::Show(args) => change(&args, None),
        ClockCommand::Freeze(args) => change(&args, Some(json!({ "mode": "frozen" }))),
        ClockCommand::Resume(args) => change(&args, Some(json!({ "mode": "real" }))),
        ClockCommand::Follow(args) => change(&args, Some(json!({ "mode": "follow" }))),
        ClockCommand::Advance(args) => change(&args.common, Some(json!({ "advance": args.by }))),
        ClockCommand::Set(args) => change(&args.common, Some(json!({ "set": args.at }))),
    }
}

fn change(args: &ClockArgs, mut wish: Option<Value>) -> Result<ExitCode, Failure> {
    let method = if wish.is_some() { Method::POST } else { Method::GET };
    if let Some(wish) = &mut wish {
        wish["timeout"] = format!("{}ms", args.timeout.as_millis()).into();
    }
    let query: Vec<(&str, &str)> = args.key.iter().map(|key| ("key", key.as_str())).collect();
    let limit = args.timeout.saturating_add(Duration::from_secs(10));
    let body = call(&args.target, method, "clock", &query, wish.as_ref(), limit)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let whose = match (body["key"].as_str(), body["follows"].as_bool()) {
        (Some(key), Some(true)) => format!(", {key}, with the emulator's"),
        (Some(key), _) => format!(", {key} alone"),
        _ => String::new(),
    };
    print(&format!("{} ({}{whose})\n", cell(&body, "now"), cell(&body, "mode")));
    Ok(ExitCode::SUCCESS)
}
