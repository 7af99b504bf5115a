//! `review …`: is this integration ready for production keys? One file a command.

pub(super) mod differential;
mod differential_report;
mod differential_run;
pub(super) mod findings;
pub(super) mod probe;

use clap::Subcommand;

use super::help::examples;

#[derive(Debug, Subcommand)]
#[command(after_help = examples([
    "review findings",
    "review findings --accept accepted.txt",
    "review probe http://localhost:3000/hooks",
    "review differential -- npm test",
]))]
pub(super) enum ReviewCommand {
    /// Report what the traffic shows about the client and its receivers.
    Findings(findings::FindingsArgs),
    /// Send a receiver deliveries, genuine and forged, and judge its answers. Needs no running emulator.
    Probe(Box<probe::ProbeArgs>),
    /// Run a test command under changes that the contract does not rule out, and name what makes it fail.
    Differential(Box<differential::DifferentialArgs>),
}
