//! `health`: exit 0 when the emulator is ready.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::Target;
use super::client::{SHORT, call};
use super::failure::Failure;
use super::output::{cell, generation, print, print_json};

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
    let body = call(&args.target, Method::GET, "health", &[], None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
    } else {
        print(&format!(
            "{} (version {}, {}, scenarios {})\n",
            cell(&body, "status"),
            cell(&body, "version"),
            generation(&body),
            cell(&body, "scenarios")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
