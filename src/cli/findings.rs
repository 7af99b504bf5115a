//! `review findings`: what the traffic shows, and which of it fails the review. Accepted findings do not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::arguments::{OutputFile, Target, examples};
use super::client::ControlClient;
use super::failure::{Failure, colored, note};
use super::output::{YELLOW, cell, mark, painted, pretty, print_as_is};
use super::report::{ReportCase, RunReport};
use crate::advice::Audience;
use crate::contract::nearest;
use crate::control::api::{Finding, Findings, GetFindings, Query};
use crate::findings::{Check, Confidence, Severity, ShownGroup, check, checks};
use crate::redact::visible_lines;
use crate::util::file;
use crate::util::wording::{counted, quoted};

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review findings",
    "review findings --fail-on high --likely",
    "review findings --format junit --output findings.xml",
    "review findings --accept accepted.txt",
]) + ACCEPTED)]
pub(super) struct FindingsArgs {
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
    /// Also exit with 1 for likely findings.
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
    // A file that is wrong is found before anything is asked.
    let accepted = args.accept.as_deref().map(Accepted::read).transpose()?;
    let output = args.output.as_deref().map(|path| OutputFile::at("--output", path)).transpose()?;
    let request = Query { query: GetFindings { key: args.key.as_str().into() } };
    let findings: Findings = ControlClient::new(&args.target).send(&request)?;
    let review = Review::new(findings, Severity::from_name(&args.fail_on), args.likely, accepted.as_ref());
    let text = match if args.json { Format::Json } else { args.format } {
        Format::Text => text(&review, &args.target.reader(), args.output.is_none() && colored(&std::io::stdout())),
        Format::Json => pretty(&review) + "\n",
        Format::Junit => report(&review, &args.target.reader()).junit(),
    };
    match (output, &args.output) {
        (Some(file), Some(path)) => {
            file.write_shared(text)?;
            note(&format!("{}; the report is in `{}`", sentence(&review), path.display()));
        }
        _ => print_as_is(&text),
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
fn text(review: &Review, reader: &Audience, colors: bool) -> String {
    let mut text = String::new();
    for (number, finding) in (1..).zip(&review.findings.data) {
        let is_failing = review.failing.contains(&finding.code);
        let mark = if is_failing { mark(false, colors) } else { painted(YELLOW, '!', colors) };
        let Finding { title, code, severity, confidence, .. } = finding;
        let (severity, confidence) = (severity.name(), confidence.name());
        let (title, code, details) = (cell(title), cell(code), finding.details());
        text += &format!("{mark} {number}. {title} ({code}, {severity}, {confidence})\n{}", visible_lines(&details));
        for accepted in review.accepted.iter().filter(|accepted| accepted.code == finding.code) {
            text += &format!("    accepted: {}\n", cell(&accepted.reason));
        }
    }
    for accepted in review.stale() {
        text += &format!("{} {}\n", mark(false, colors), accepted.line());
    }
    text += &visible_lines(&review.findings.unproven(reader));
    let forgotten = review.findings.forgotten_entries;
    if forgotten > 0 {
        text += &format!(
            "note: {forgotten} entries were evicted from the journal and not judged; --max-journal-entries keeps more\n"
        );
    }
    let is_idle = !review.failed && review.findings.judged_requests + review.findings.judged_deliveries == 0;
    let mark = if is_idle { "·".to_owned() } else { mark(!review.failed, colors) };
    text + &format!("{mark} {}\n", sentence(review))
}

/// A case for each check, and one for each accepted finding that fails. What does not fail the review is a note.
fn report(review: &Review, reader: &Audience) -> RunReport {
    let lines = |check: &Check| -> Vec<String> {
        let found = review.findings.data.iter().filter(|finding| finding.code == check.code);
        found.flat_map(|finding| finding.groups.iter()).map(ShownGroup::line).collect()
    };
    let idle = |check: &Check| review.findings.not_exercised.iter().find(|idle| idle.code == check.code);
    let fails = |check: &Check| review.failing.iter().any(|code| code == check.code);
    let of_check = |check: &Check| match (check, idle(check)) {
        (Check { code, .. }, Some(idle)) => ReportCase::skipped(*code, format!("not exercised: {}", idle.line(reader))),
        (Check { code, title, remedy, severity, .. }, None) if fails(check) => {
            ReportCase::failed(*code, severity.name(), format!("{title}; {remedy}"), lines(check))
        }
        (Check { code, .. }, None) => ReportCase::passed(*code),
    };
    let of_accepted = |Acceptance { code, reason, outcome, .. }: &Acceptance| {
        ReportCase::failed(format!("accepted {code}"), "accepted", *outcome, vec![reason.clone()])
    };
    let passed = checks().filter(|check| !fails(check));
    let notes = passed.flat_map(|check| lines(check).into_iter().map(move |line| format!("{}: {line}", check.code)));
    let cases = checks().map(of_check).chain(review.stale().map(of_accepted)).collect();
    RunReport { name: "review", cases, warnings: Vec::new(), notes: notes.collect(), all_causes: String::new() }
}

/// The file of `--accept`: the code of a finding and the reason, one a line.
#[derive(Debug)]
pub(super) struct Accepted(Vec<(String, String)>);

impl Accepted {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        const MAX_BYTES: u64 = 1024 * 1024;
        let shown = path.display();
        let bytes = file::read_input(path, MAX_BYTES)
            .map_err(|problem| Failure::io(format!("--accept: cannot read `{shown}`: {problem}")))?;
        let mut accepted: Vec<(String, String)> = Vec::new();
        for (number, line) in (1..).zip(String::from_utf8_lossy(&bytes).lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (code, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let code_shown = quoted(code);
            let problem = if check(code).is_none() {
                let near = nearest(code, checks().map(|check| check.code));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                format!("there is no finding `{code_shown}`{hint}")
            } else if reason.is_empty() {
                format!("`{code_shown}` has no reason")
            } else if accepted.iter().any(|(earlier, _)| earlier == code) {
                format!("`{code_shown}` is given twice")
            } else {
                accepted.push((code.to_owned(), reason.trim().to_owned()));
                continue;
            };
            return Err(Failure::invalid_file(format!("--accept: `{shown}`: line {number}: {problem}"))
                .with_hint("each line is the code of a finding and a reason: unknown-field removed with release 2.4"));
        }
        Ok(Self(accepted))
    }

    fn judge(&self, findings: &Findings) -> Vec<Acceptance> {
        let of = |(code, reason): &(String, String)| {
            let is_found = findings.data.iter().any(|finding| finding.code == *code);
            let is_idle = findings.not_exercised.iter().any(|idle| idle.code == *code);
            let (outcome, fails) = match (is_found, is_idle) {
                (true, _) => ("found, and accepted", false),
                (false, false) => ("no longer found: remove it from the file", true),
                (false, true) => ("not judged, because nothing exercised it", false),
            };
            Acceptance { code: code.clone(), reason: reason.clone(), outcome, fails }
        };
        self.0.iter().map(of).collect()
    }
}

/// An accepted finding with what became of it.
#[derive(Debug, Serialize)]
struct Acceptance {
    code: String,
    reason: String,
    outcome: &'static str,
    /// True if the entry itself fails the review.
    fails: bool,
}

/// A review as it is reported.
#[derive(Serialize)]
pub(super) struct Review {
    #[serde(flatten)]
    pub(super) findings: Findings,
    accepted: Vec<Acceptance>,
    /// The codes of findings that fail the review.
    failing: Vec<String>,
    /// The places of these in `data`.
    #[serde(skip)]
    failing_at: Vec<usize>,
    failed: bool,
}

impl Review {
    /// Judges findings: those of at least this severity fail the review, if they are certain or `likely` is set.
    pub(super) fn new(
        findings: Findings,
        fail_on: Option<Severity>,
        likely: bool,
        accepted: Option<&Accepted>,
    ) -> Self {
        let accepted = accepted.map(|accepted| accepted.judge(&findings)).unwrap_or_default();
        let fails = |finding: &Finding| {
            (likely || finding.confidence == Confidence::Certain)
                && fail_on.is_some_and(|least| finding.severity <= least)
                && accepted.iter().all(|accepted| accepted.code != finding.code)
        };
        let (failing_at, failing): (Vec<usize>, Vec<String>) = findings
            .data
            .iter()
            .enumerate()
            .filter(|(_, finding)| fails(finding))
            .map(|(at, finding)| (at, finding.code.clone()))
            .unzip();
        let failed = !failing.is_empty() || accepted.iter().any(|accepted| accepted.fails);
        Self { findings, accepted, failing, failing_at, failed }
    }

    /// The findings that fail the review.
    pub(super) fn failing(&self) -> impl Iterator<Item = &Finding> {
        self.failing_at.iter().map(|at| &self.findings.data[*at])
    }

    /// The accepted findings that fail it, a line each.
    pub(super) fn stale_lines(&self) -> Vec<String> {
        self.stale().map(Acceptance::line).collect()
    }

    /// Likely findings that do not fail the review and were not accepted, a line each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let failing: HashSet<&String> = self.failing.iter().collect();
        let is_shown = |finding: &&Finding| {
            finding.confidence == Confidence::Likely
                && !failing.contains(&finding.code)
                && self.accepted.iter().all(|accepted| accepted.code != finding.code)
        };
        let line = |finding: &Finding| {
            let first = finding.shown_by().next().map_or_else(String::new, |id| format!("{} ", cell(id)));
            format!("findings: likely: {first}{}", finding.sentence())
        };
        self.findings.data.iter().filter(is_shown).map(line).collect()
    }

    /// Accepted findings that fail the review.
    fn stale(&self) -> impl Iterator<Item = &Acceptance> {
        self.accepted.iter().filter(|accepted| accepted.fails)
    }
}

impl Acceptance {
    fn line(&self) -> String {
        format!("accepted `{}`: {}", self.code, self.outcome)
    }
}
