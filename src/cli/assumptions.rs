//! `assumptions`: what the contract leaves open, without a running emulator.

use std::process::ExitCode;

use clap::Args;

use super::arguments::examples;
use super::failure::Failure;
use super::output::{print, show_list};
use super::profile::ProfileArgs;
use crate::control::api::List;
use crate::control::render::TableRow as _;
use crate::redact::Redactor;
use crate::settings::{LedgerRow, ledger, ledger_markdown};

#[derive(Debug, Args)]
#[command(after_help = examples([
    "assumptions",
    "assumptions --set rate_limit.requests=5 --json",
    "assumptions --profile hostile",
    "assumptions --markdown",
]))]
pub(super) struct AssumptionsArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the built-in ledger as a Markdown page.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &AssumptionsArgs) -> Result<ExitCode, Failure> {
    if args.markdown {
        print(&ledger_markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = ledger(&args.profile.load()?);
    for row in &mut rows {
        Redactor::default().setting(&row.setting, &mut row.value);
    }
    let ledger = List { data: rows };
    Ok(show_list(args.json, &ledger, || LedgerRow::table(&ledger.data)))
}
