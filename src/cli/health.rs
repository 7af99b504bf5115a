//! `health`: exit 0 when the emulator is ready.

use std::process::ExitCode;

use clap::Args;

use super::Target;
use super::client::Call;
use super::failure::Failure;
use crate::control::api;
use crate::scenario::generation_text;

/// Arguments of `health`.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &HealthArgs) -> Result<ExitCode, Failure> {
    let answer = Call::<api::Health>::to(&args.target).send()?;
    Ok(answer.print(args.json, |ready| {
        let api::Ready { status, version, scenarios, generation } = ready;
        format!("{status} (version {version}, {}, scenarios {scenarios})\n", generation_text(*generation))
    }))
}
