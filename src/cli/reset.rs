//! `reset`: restores one key, or everything, to the state before the first request.

use std::process::ExitCode;

use clap::Args;

use super::arguments::{CallArgs, is_typed};
use super::failure::Failure;
use super::help::examples;
use super::output::cell;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api;
use crate::wording::counted;

/// Arguments of `reset`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "reset --key sk_test_a  # forget what one key did",
    "reset --all  # as after the start: every key, the journal, the clock, scenarios",
]))]
pub(super) struct ResetArgs {
    #[command(flatten)]
    common: CallArgs,
    /// Whose workspace: a key, or `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    key: String,
    /// Every workspace, the journal, the clock, and everything changed over the control API.
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: &ResetArgs) -> Result<ExitCode, Failure> {
    // Only a typed key conflicts: a key in the environment is set for all commands.
    if args.all && is_typed("--key") {
        let hint = "leave one out: `--all` resets every key, `--key KEY` one";
        return Err(Failure::usage("`--all` and `--key` exclude each other").with_hint(hint));
    }
    let key = if args.all { "*" } else { args.key.as_str() };
    args.common.call::<api::Reset>().key(key).show(|api::WasReset { keys, .. }| {
        if key == "*" {
            let count = counted(keys.len(), "workspace");
            return format!("{count} reset, with scenarios, settings and clock as at the start\n");
        }
        let keys: Vec<String> = keys.iter().map(cell).collect();
        format!("{} reset; `wrs-emulator reset --all` resets every key\n", keys.join(", "))
    })
}
