//! `review …`: checks an integration before the service does. One file a command.

mod probe;
mod probe_text;

use std::process::ExitCode;

use clap::Subcommand;

use super::failure::Failure;
use super::help::examples;

/// `review …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["review probe http://localhost:3000/hooks", "review probe --list"]))]
pub(super) enum ReviewCommand {
    /// Send a receiver deliveries, genuine and forged, and judge its answers. Needs no running emulator.
    Probe(Box<probe::ProbeArgs>),
}

pub(super) fn run(command: ReviewCommand) -> Result<ExitCode, Failure> {
    match command {
        ReviewCommand::Probe(args) => probe::run(*args),
    }
}
