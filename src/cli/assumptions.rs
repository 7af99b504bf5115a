//! `assumptions`: what the contract leaves open, and every clause of it, without a running emulator.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::arguments::examples;
use super::calibrate::cassette;
use super::failure::Failure;
use super::output::{print, show_list};
use super::profile::ProfileArgs;
use crate::calibrate::matrix::Matrix;
use crate::control::api::List;
use crate::control::render::Row as _;
use crate::redact::Redactor;
use crate::settings::{LedgerRow, ledger, ledger_markdown};

#[derive(Debug, Args)]
#[command(after_help = examples([
    "assumptions",
    "assumptions --set rate_limit.requests=5 --json",
    "assumptions --profile hostile",
    "assumptions --markdown",
    "assumptions --matrix --profile sandbox.toml --cassette sandbox.cassette.json",
]))]
pub(super) struct AssumptionsArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Show every clause of the contract instead: what serves it, the tests that prove it, and where `calibrate` saw it on the real
    /// service.
    #[arg(long)]
    matrix: bool,
    /// The calls and answers that `calibrate` wrote, for --matrix.
    #[arg(long, value_name = "CASSETTE", requires = "matrix")]
    cassette: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the built-in ledger as a Markdown page; with --matrix, its table.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &AssumptionsArgs) -> Result<ExitCode, Failure> {
    if args.matrix {
        let cassette = args.cassette.as_deref().map(|path| cassette("--cassette", path)).transpose()?;
        let mut matrix = Matrix::new(&args.profile.load()?, cassette.as_ref());
        for seen in matrix.data.iter_mut().flat_map(|row| &mut row.seen) {
            *seen = Redactor::default().text(seen).into_owned();
        }
        return Ok(show_list(args.json, &matrix, || if args.markdown { matrix.markdown() } else { matrix.text() }));
    }
    if args.markdown {
        print(&ledger_markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = ledger(&args.profile.load()?);
    for row in &mut rows {
        Redactor::default().setting(&row.setting, &mut row.value);
        row.note = Redactor::default().text(&row.note).into_owned();
    }
    let ledger = List { data: rows };
    Ok(show_list(args.json, &ledger, || LedgerRow::table(&ledger.data)))
}
