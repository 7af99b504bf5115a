//! `health`: exit 0 when the emulator is ready.

use std::process::ExitCode;

use clap::Args;

use super::arguments::CallArgs;
use super::failure::Failure;
use super::help::examples;
use crate::control::api;
use crate::scenario::generation_text;

/// Arguments of `health`.
#[derive(Debug, Args)]
#[command(after_help = examples(["health", "health --url http://emulator:9770"]))]
pub(super) struct HealthArgs {
    #[command(flatten)]
    common: CallArgs,
}

pub(super) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    args.common.call::<api::Health>().show(|ready| {
        let api::Ready { status, version, scenarios, generation } = ready;
        format!("{status} (version {version}, {}, scenarios {scenarios})\n", generation_text(*generation))
    })
}
