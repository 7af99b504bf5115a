//! `health`: exit 0 when the emulator is ready.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;

use super::arguments::CallArgs;
use super::failure::Failure;
use super::help::examples;
use super::verdict::parse_wait;
use crate::clock::machine;
use crate::control::api;

/// How often an emulator that cannot be reached yet is called again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = examples(["health", "health --wait 10s", "health --url http://emulator:9770"]))]
pub(super) struct HealthArgs {
    #[command(flatten)]
    common: CallArgs,
    /// Wait this long for the emulator to be reachable.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_wait)]
    wait: Duration,
}

pub(super) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let began = machine::monotonic();
    let ready = loop {
        match args.common.call::<api::Health>().send() {
            Err(failure) if failure.is_unreachable() && began.elapsed() < args.wait => sleep(POLL_INTERVAL),
            answered => break answered?,
        }
    };
    Ok(args.common.show(&ready))
}
