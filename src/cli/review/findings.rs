//! `review findings`: what the traffic shows, without what has been accepted.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::accepted::{Acceptance, Accepted, Review};
use crate::cli::client::Call;
use crate::cli::failure::{Failure, colored, note};
use crate::cli::help::examples;
use crate::cli::junit::{Suite, TestCase, TestResult, junit};
use crate::cli::output::{cell, pretty, print_as_is};
use crate::cli::target::Target;
use crate::control::api::{self, Finding};
use crate::file;
use crate::review::findings::{Check, Severity, checks};
use crate::wording::counted;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review findings",
    "review findings --fail-on high --likely",
    "review findings --format junit --output findings.xml",
    "review findings --accept accepted.txt",
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
    #[arg(long, value_parser = ["critical", "high", "medium", "low", "info", "never"], default_value = "medium",
        value_name = "SEVERITY")]
    fail_on: String,
    /// Exit with 1 for likely findings, too.
    #[arg(long)]
    likely: bool,
    /// Findings that have been accepted, one a line with its reason.
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
}

/// The format of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// XML as test runners write it: a test case for each rule.
    Junit,
}

const ACCEPTED: &str = "

A file for --accept, in which lines that begin with # are comments:

  unknown-field removed with release 2.4

If an accepted finding no longer occurs, the review fails until its line is removed.

Exit status: 0 nothing fails the review, 1 something does, 2 wrong usage, 3 the emulator cannot be reached.";

pub(super) fn run(args: &FindingsArgs) -> Result<ExitCode, Failure> {
    // Read first: a file that is wrong is found before anything is asked.
    let accepted = args.accept.as_deref().map(Accepted::read).transpose()?;
    let findings = Call::<api::ShowFindings>::to(&args.target).key(args.key.as_str()).send()?.body;
    let review = Review::new(findings, Severity::from_name(&args.fail_on), args.likely, accepted.as_ref());
    let text = match if args.json { Format::Json } else { args.format } {
        Format::Text => text(&review, args.output.is_none() && colored(&std::io::stdout())),
        Format::Json => pretty(&review) + "\n",
        Format::Junit => junit(&suite(&review)),
    };
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

/// The outcome in a sentence.
fn sentence(review: &Review) -> String {
    let (requests, deliveries) = (review.findings.judged_requests, review.findings.judged_deliveries);
    let judged = format!("{} and {} judged", counted(requests, "request"), counted(deliveries, "delivery"));
    let found = match (review.failing.len(), review.findings.data.len()) {
        (0, 0) if requests + deliveries == 0 => {
            return "nothing to judge: no request was made and nothing was delivered".to_owned();
        }
        (0, 0) => "no finding".to_owned(),
        (0, all) => format!("{}, none of which fails the review", counted(all, "finding")),
        (failing, all) => format!("{}, {failing} of them failing the review", counted(all, "finding")),
    };
    format!("{found}; {judged}")
}

/// The report for people.
pub(super) fn text(review: &Review, colors: bool) -> String {
    let (red, yellow, green, plain) =
        if colors { ("\u{1b}[31m", "\u{1b}[33m", "\u{1b}[32m", "\u{1b}[0m") } else { ("", "", "", "") };
    let mut text = String::new();
    for (number, finding) in (1..).zip(&review.findings.data) {
        let (color, mark) = if review.failing.contains(&finding.code) { (red, "✗") } else { (yellow, "!") };
        let Finding { title, code, severity, confidence, why, remedy, clause, .. } = finding;
        text += &format!("{color}{mark}{plain} {number}. {title} ({code}, {severity}, {confidence})\n");
        for shown in &finding.evidence {
            text += &format!("    {} {}\n", cell(shown.id()), cell(&shown.detail));
        }
        let more = finding.count.saturating_sub(finding.evidence.len());
        if more > 0 {
            text += &format!("    … and {more} more\n");
        }
        text += &format!("    why:  {why}\n    do:   {remedy}\n    by:   {clause}\n");
        for accepted in review.accepted.iter().filter(|accepted| accepted.code == *code) {
            text += &format!("    accepted: {}\n", cell(&accepted.reason));
        }
    }
    for accepted in review.stale() {
        text += &format!("{red}✗{plain} {}\n", accepted.line());
    }
    if !review.findings.not_exercised.is_empty() {
        text += "not exercised, so unproven:\n";
        for idle in &review.findings.not_exercised {
            text += &format!("    {}: {}\n", idle.code, idle.exercise);
        }
    }
    text += &format!("no traffic can show: {}\n", review.findings.beyond.join("; "));
    let forgotten = review.findings.forgotten_entries;
    if forgotten > 0 {
        text += &format!(
            "note: {forgotten} entries were evicted from the journal and not judged; --max-journal-entries keeps more\n"
        );
    }
    let (color, mark) = if review.failed { (red, "✗") } else { (green, "✓") };
    text + &format!("{color}{mark}{plain} {}\n", sentence(review))
}

/// A test case for each check, and one for each accepted finding that fails. What does not fail the review is a note.
fn suite(review: &Review) -> Suite {
    let lines = |check: &Check| -> Vec<String> {
        let found = review.findings.data.iter().filter(|finding| finding.code == check.code);
        let evidence = found.flat_map(|finding| finding.evidence.iter());
        evidence.map(|shown| cell(format!("{} {}", shown.id(), shown.detail))).collect()
    };
    let is_idle = |check: &Check| review.findings.not_exercised.iter().any(|idle| idle.code == check.code);
    let fails = |check: &Check| review.failing.iter().any(|code| code == check.code);
    let of_check = |check: &'static Check| TestCase {
        name: check.code.to_owned(),
        result: if is_idle(check) {
            TestResult::Skipped(format!("not exercised: {}", check.exercise))
        } else if fails(check) {
            let message = format!("{}; {}", check.title, check.remedy);
            TestResult::Failed { kind: check.severity.name().to_owned(), message, lines: lines(check) }
        } else {
            TestResult::Passed
        },
    };
    let of_accepted = |Acceptance { code, reason, outcome, .. }: &Acceptance| TestCase {
        name: format!("accepted {code}"),
        result: TestResult::Failed {
            kind: "accepted".to_owned(),
            message: outcome.clone(),
            lines: vec![reason.clone()],
        },
    };
    let passed = checks().filter(|check| !fails(check));
    let notes = passed.flat_map(|check| lines(check).into_iter().map(move |line| format!("{}: {line}", check.code)));
    let cases = checks().map(of_check).chain(review.stale().map(of_accepted)).collect();
    Suite { name: "review", cases, notes: notes.collect() }
}
