//! `clock show|freeze|advance|resume`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::Target;
use super::client::{SHORT, call};
use super::failure::Failure;
use super::output::{cell, print, print_json};

/// `clock …`
#[derive(Debug, Subcommand)]
pub(super) enum ClockCommand {
    /// Show the emulator's time.
    Show(ClockArgs),
    /// Stop the clock where it stands.
    Freeze(ClockArgs),
    /// Move the clock forward: windows open, retries become due.
    Advance(AdvanceArgs),
    /// Let the clock run on from where it stands.
    Resume(ClockArgs),
}

/// Arguments of every clock command.
#[derive(Debug, Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `clock advance`.
#[derive(Debug, Args)]
pub(super) struct AdvanceArgs {
    /// How far, such as 60s.
    by: String,
    #[command(flatten)]
    common: ClockArgs,
}

pub(super) fn run(command: ClockCommand) -> Result<ExitCode, Failure> {
    match command {
        ClockCommand::Show(args) => change(&args, None),
        ClockCommand::Freeze(args) => change(&args, Some(json!({ "mode": "frozen" }))),
        ClockCommand::Resume(args) => change(&args, Some(json!({ "mode": "real" }))),
        ClockCommand::Advance(args) => change(&args.common, Some(json!({ "advance": args.by }))),
    }
}

fn change(args: &ClockArgs, wish: Option<Value>) -> Result<ExitCode, Failure> {
    let method = if wish.is_some() { Method::POST } else { Method::GET };
    let body = call(&args.target, method, "clock", &[], wish.as_ref(), SHORT)?.success()?;
    if args.json {
        print_json(&body);
    } else {
        print(&format!("{} ({})\n", cell(&body, "now"), cell(&body, "mode")));
    }
    Ok(ExitCode::SUCCESS)
}
