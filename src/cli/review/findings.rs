//! `review findings`: what the traffic shows, in any format, without what has been accepted.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::accepted::Accepted;
use super::formats::{Format, render, sentence};
use super::report::{FailOn, Review};
use crate::cli::client::Call;
use crate::cli::failure::{Failure, colored, note};
use crate::cli::help::examples;
use crate::cli::output::print_as_is;
use crate::cli::target::Target;
use crate::control::api;
use crate::file;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review findings",
    "review findings --fail-on high --likely",
    "review findings --format sarif --output findings.sarif",
    "review findings --accept accepted.toml",
]) + ACCEPTED)]
pub(crate) struct FindingsArgs {
    #[command(flatten)]
    target: Target,
    /// Whose: a key, or a workspace `ws_…`; by default all keys and requests without one.
    // Not from WRS_API_KEY, as for `verdict`.
    #[arg(long, default_value = "*")]
    key: String,
    /// The format of the report.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print JSON; the same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write the report to this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Exit with 1 for certain findings of this severity and above.
    #[arg(long, value_enum, default_value = "medium", value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Exit with 1 for likely findings, too.
    #[arg(long)]
    likely: bool,
    /// Findings that have been accepted, with reasons and dates.
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
}

const ACCEPTED: &str = "

A file for --accept:

  [[accept]]
  code = \"unknown-field\"
  reason = \"removed with release 2.4\"
  expires = 2027-01-31

If an accepted finding no longer occurs, the review fails until its entry is removed.

Exit status: 0 nothing fails the review, 1 something does, 2 wrong usage, 3 the emulator cannot be reached.";

pub(super) fn run(args: &FindingsArgs) -> Result<ExitCode, Failure> {
    // Read first: a file that is wrong is found before anything is asked.
    let accepted = args.accept.as_deref().map(Accepted::read).transpose()?;
    let findings = Call::<api::ShowFindings>::to(&args.target).key(args.key.as_str()).send()?.body;
    let review = Review::new(findings, args.fail_on, args.likely, accepted.as_ref());
    let format = if args.json { Format::Json } else { args.format };
    let colors = args.output.is_none() && colored(&std::io::stdout());
    let text = render(&review, format, colors);
    match &args.output {
        None => print_as_is(&text),
        Some(path) => {
            file::write_whole(path, &[&text])
                .map_err(|error| Failure::io(format!("--output: cannot write `{}`: {error}", path.display())))?;
            note(&format!("{}; the report is in `{}`", sentence(&review), path.display()));
        }
    }
    Ok(if review.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
