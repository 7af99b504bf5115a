//! The verdict: the problems found, by kind, and which kinds fail a run; as text, JSON, `JUnit` XML or Markdown. `exec` prints the same
//! after its command has ended.
//!
//! The control API finds the problems; `--fail-on` decides which kinds fail a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::arguments::{LAST, Target, examples};
use super::client::{Call, SHORT};
use super::failure::{Failure, colored};
use super::findings::{Accepted, Review};
use super::output::{cell, pretty, print_as_is};
use super::report::{Case, Report};
use crate::control::api::{DurationInput, GetFindings, GetVerdict, Unused, Verification, name_of};
use crate::review::findings::Severity;
use crate::util::duration::parse_duration;
use crate::util::wording::counted;

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

impl VerdictFormat {
    /// The format that the ending of a file's name means.
    pub(super) fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "xml" => Some(Self::Junit),
            "json" => Some(Self::Json),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }
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
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_wait)]
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
pub(super) fn parse_wait(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text)?;
    if wait > Duration::from_mins(5) { Err(format!("expected at most 300s, found {text}")) } else { Ok(wait) }
}

/// The verdict in a format, ending with a line end.
pub(super) fn render(verdict: &Verdict, format: VerdictFormat, colors: bool) -> String {
    match format {
        VerdictFormat::Text => verdict.report().text(colors),
        VerdictFormat::Json => pretty(&verdict.judged()) + "\n",
        VerdictFormat::Junit => verdict.report().junit(),
        VerdictFormat::Markdown => verdict.report().markdown(&verdict.title()),
    }
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A request matched no endpoint.
    Unmatched,
    /// A delivery did not arrive.
    Undelivered,
    /// A deliberately forged delivery was accepted: the receiver does not verify.
    Forged,
    /// A scenario was not played to its end.
    Unfinished,
    /// `review findings` would fail: a finding is certain and at least medium. Judged only if it is named.
    Findings,
    /// No request was made, or another kind named here had nothing to judge.
    Unused,
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    pub(super) fn name(self) -> String {
        name_of(self)
    }

    pub(super) fn sentence(self, count: usize) -> String {
        let (one, many, none) = match self {
            Self::Unmatched => {
                ("request matched no endpoint", "requests matched no endpoint", "every request matched an endpoint")
            }
            Self::Undelivered => ("delivery did not arrive", "deliveries did not arrive", "every delivery arrived"),
            Self::Forged => (
                "forged delivery was accepted (2xx): your receiver does not verify it; see `explain ID`, or Deliveries in a --report",
                "forged deliveries were accepted (2xx): your receiver does not verify them; see `explain ID`, or Deliveries in a --report",
                "no forged delivery was accepted",
            ),
            Self::Unfinished => (
                "part of a scenario was not played",
                "parts of scenarios were not played",
                "nothing of a scenario is left to play",
            ),
            Self::Findings => (
                "problem was found by the review; see `review findings`, or Review in a --report",
                "problems were found by the review; see `review findings`, or Review in a --report",
                "the review found nothing that is certain and at least medium",
            ),
            Self::Unused => {
                ("check had nothing to judge", "checks had nothing to judge", "there was something to judge")
            }
        };
        match count {
            0 => none.to_owned(),
            1 => format!("1 {one}"),
            count => format!("{count} {many}"),
        }
    }
}

/// Reads the file of `--accept`, which is about findings alone.
pub(super) fn accepted(path: Option<&Path>, fail_on: &[Kind]) -> Result<Option<Accepted>, Failure> {
    if path.is_some() && !fail_on.contains(&Kind::Findings) {
        return Err(Failure::usage("--accept: findings are not judged").with_hint("add --fail-on findings"));
    }
    path.map(Accepted::read).transpose()
}

pub(super) struct Verdict {
    body: Verification,
    /// If the kind `findings` is named.
    review: Option<Review>,
    fail_on: Vec<Kind>,
}

#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    body: &'a Verification,
    #[serde(skip_serializing_if = "Option::is_none")]
    review: &'a Option<Review>,
    falls_short: Vec<Kind>,
    fail_on: &'a [Kind],
    failed: bool,
}

impl Verdict {
    pub(super) fn ask(
        target: &Target,
        key: &str,
        wait: Duration,
        fail_on: &[Kind],
        accepted: Option<&Accepted>,
    ) -> Result<Self, Failure> {
        let asked = DurationInput(format!("{}ms", wait.as_millis()));
        let request = GetVerdict { key: key.into(), wait: Some(asked) };
        let body = Call::new(target).limit(wait + SHORT).send(&request)?;
        let review = if fail_on.contains(&Kind::Findings) {
            let findings = Call::new(target).send(&GetFindings { key: key.into() })?;
            Some(Review::new(findings, Some(Severity::Medium), false, accepted))
        } else {
            None
        };
        Ok(Self { body, review, fail_on: fail_on.to_vec() })
    }

    /// How many problems of a kind there are, and a line for each that is listed.
    fn problems(&self, kind: Kind) -> (usize, Vec<String>) {
        let (count, mut lines) = match kind {
            Kind::Findings => {
                let lines = self.review.as_ref().map(Review::problems).unwrap_or_default();
                (lines.len(), lines)
            }
            Kind::Unused => {
                // The check of requests is reported always, any other only if --fail-on names it.
                let concerns = |name: &str| {
                    name == Kind::Unmatched.name() || self.fail_on.iter().any(|named| name == named.name())
                };
                let unused = self.body.unused.iter().filter(|entry| concerns(&entry.kind));
                let lines: Vec<String> = unused.map(|entry| cell(&entry.message)).collect();
                (lines.len(), lines)
            }
            _ => {
                let found = self.body.kinds().into_iter().find(|(name, ..)| *name == kind.name());
                found.map(|(_, count, lines)| (count, lines)).unwrap_or_default()
            }
        };
        let more = count.saturating_sub(lines.len());
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        (count, lines)
    }

    /// True if a kind is reported: it is named by --fail-on, or none is and it is not `findings`.
    fn judges(&self, kind: Kind) -> bool {
        self.fail_on.contains(&kind) || (self.fail_on.is_empty() && kind != Kind::Findings)
    }

    fn has(&self, kind: Kind) -> bool {
        self.problems(kind).0 > 0
    }

    /// The kinds of --fail-on that were found.
    pub(super) fn failed_by(&self) -> impl Iterator<Item = Kind> {
        self.fail_on.iter().copied().filter(|kind| self.has(*kind))
    }

    pub(super) fn fails(&self) -> bool {
        self.failed_by().next().is_some()
    }

    /// Notes about why a list without problems may prove little.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let forgotten = self.body.forgotten_entries;
        if forgotten > 0 && self.judges(Kind::Unmatched) {
            notes.push(format!(
                "{forgotten} entries were evicted from the journal, and requests among them are not judged; \
                 --max-journal-entries keeps more"
            ));
        }
        let forgotten = self.body.forgotten_deliveries;
        if forgotten > 0 && (self.judges(Kind::Undelivered) || self.judges(Kind::Forged)) {
            notes
                .push(format!("{forgotten} finished deliveries were evicted, and problems with them are not reported"));
        }
        let forged = self.body.counts.forged;
        if forged > 0 && !self.judges(Kind::Forged) {
            notes.push(format!("{}; --fail-on forged makes a run fail for it", Kind::Forged.sentence(forged)));
        }
        let idle = self.review.as_ref().map_or(0, |review| review.findings.not_exercised.len());
        if idle > 0 {
            let them = "`review findings` lists them, and so does Review in a --report";
            notes.push(format!("{} of the review had nothing to judge; {them}", counted(idle, "rule")));
        }
        // A check that had nothing to judge passes, but probably not on purpose.
        if !self.fail_on.contains(&Kind::Unused) {
            // Most test suites name deliveries even if they have none.
            let named = |entry: &&Unused| {
                let mut kinds = self.fail_on.iter().filter(|kind| **kind != Kind::Undelivered);
                kinds.any(|kind| entry.kind == kind.name())
            };
            notes.extend(self.body.unused.iter().filter(named).map(|entry| cell(&entry.message)));
        }
        notes
    }

    pub(super) fn judged(&self) -> impl Serialize {
        Judged {
            body: &self.body,
            review: &self.review,
            falls_short: Kind::all().filter(|kind| self.has(*kind)).collect(),
            fail_on: &self.fail_on,
            failed: self.fails(),
        }
    }

    fn report(&self) -> Report {
        let case = |kind: Kind| {
            let (count, lines) = self.problems(kind);
            let refused = match (kind, self.body.refused_forgeries) {
                (Kind::Undelivered, 1) => "; 1 forged delivery was refused, as intended".to_owned(),
                (Kind::Undelivered, 2..) => {
                    format!("; {} forged deliveries were refused, as intended", self.body.refused_forgeries)
                }
                _ => String::new(),
            };
            let message = format!("{}{refused}", kind.sentence(count));
            match count {
                _ if !self.judges(kind) => Case::skipped(kind.name(), "not named by --fail-on"),
                0 => Case { message, ..Case::passed(kind.name()) },
                _ => Case::failed(kind.name(), kind.name(), message, lines),
            }
        };
        Report { name: "verdict", cases: Kind::all().map(case).collect(), notes: self.notes() }
    }

    fn title(&self) -> String {
        let has_problems = Kind::all().any(|kind| self.judges(kind) && self.has(kind));
        let (mark, word) = match (self.fails(), has_problems) {
            (true, _) => ("❌", "failed"),
            (false, true) => ("⚠️", "problems were found, none of them named by --fail-on"),
            (false, false) => ("✅", "no problem was found"),
        };
        format!("{mark} Verdict: {word}")
    }
}
