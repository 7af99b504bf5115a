//! `verdict`: the problems found, as text, JSON or `JUnit` XML. `exec` prints the same after its command has ended.
//!
//! The control API decides what is a problem; `--fail-on` decides which kinds of problems fail a run.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::failure::{Failure, colored};
use super::help::{LAST, examples};
use super::junit::junit;
use super::markdown::markdown;
use super::output::{pretty, print_as_is};
use super::problems::{Kind, Verdict, accepted};
use super::target::Target;
use crate::duration::parse_duration;

/// The longest wait of the control API.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// The format of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum VerdictFormat {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// XML as test runners write it: a test case for each kind.
    Junit,
    /// For the summary of a CI job.
    Markdown,
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "verdict",
    "verdict --fail-on unmatched,undelivered --wait 10s",
    "verdict --fail-on unfinished --format junit > verdict.xml",
]) + "\n\nExit status: 0 nothing named by --fail-on was found, 1 something was, 2 wrong usage, 3 the emulator cannot be reached.")]
pub(super) struct VerdictArgs {
    #[command(flatten)]
    target: Target,
    /// Whose: a key, or a workspace `ws_…`; by default all keys and requests without one.
    // Not from WRS_API_KEY: that is the key of the client under test, and a verdict that ignored other requests would pass by
    // mistake.
    #[arg(long, default_value = "*")]
    key: String,
    /// Exit with 1 if one of these was found; separated by commas. Without it everything but findings is reported and the exit status
    /// is 0.
    #[arg(long, env, value_enum, value_delimiter = ',', value_name = "KINDS")]
    fail_on: Vec<Kind>,
    /// Findings that have been accepted, as for `review findings`; with --fail-on findings.
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
    /// The format of the verdict.
    #[arg(long, value_enum, default_value = "text")]
    format: VerdictFormat,
    /// Print JSON; the same as --format json.
    #[arg(long, conflicts_with = "format", display_order = LAST)]
    json: bool,
    /// First wait for planned events, deliveries and retries that are due within this time.
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = wait)]
    wait: Duration,
}

pub(super) fn run(args: &VerdictArgs) -> Result<ExitCode, Failure> {
    let accepted = accepted(args.accept.as_deref(), &args.fail_on)?;
    let verdict = Verdict::ask(&args.target, &args.key, args.wait, &args.fail_on, accepted.as_ref())?;
    let format = if args.json { VerdictFormat::Json } else { args.format };
    print_as_is(&render(&verdict, format, colored(&std::io::stdout())));
    Ok(if verdict.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Parses a duration that the control API can wait.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text)?;
    if wait > LONGEST_WAIT { Err(format!("expected at most 300s, found {text}")) } else { Ok(wait) }
}

/// The whole verdict, ending with a line end.
pub(super) fn render(verdict: &Verdict, format: VerdictFormat, colors: bool) -> String {
    match format {
        VerdictFormat::Text => verdict.text(colors),
        VerdictFormat::Json => pretty(&verdict.judged()) + "\n",
        VerdictFormat::Junit => junit(&verdict.suite()),
        VerdictFormat::Markdown => markdown(verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded() {
        assert_eq!(wait("5m"), Ok(LONGEST_WAIT));
        assert!(wait("301s").is_err_and(|problem| problem.contains("at most 300s")));
        assert!(wait("soon").is_err());
    }
}
