//! The verdict: the problems found, by kind, and which kinds fail a run; as text, JSON, `JUnit` XML or Markdown. `exec` prints the same
//! after its command has ended.
//!
//! The control API decides what is a problem; `--fail-on` decides which kinds of problems fail a run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::arguments::{LAST, Target, examples};
use super::client::{Call, SHORT};
use super::failure::{Failure, colored};
use super::findings::{Accepted, Review};
use super::junit::{Suite, TestCase, TestResult, junit};
use super::output::{cell, mark, pretty, print_as_is};
use crate::control::api::{self, DurationInput, Unused, Verification, name_of};
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
        VerdictFormat::Text => verdict.text(colors),
        VerdictFormat::Json => pretty(&verdict.judged()) + "\n",
        VerdictFormat::Junit => junit(&verdict.suite()),
        VerdictFormat::Markdown => verdict.markdown(),
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

/// Most lines of each kind in Markdown.
const MOST_LINES: usize = 20;

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

/// What was found of a kind.
struct Section {
    kind: Kind,
    count: usize,
    lines: Vec<String>,
}

impl Verdict {
    pub(super) fn ask(
        target: &Target,
        key: &str,
        wait: Duration,
        fail_on: &[Kind],
        accepted: Option<&Accepted>,
    ) -> Result<Self, Failure> {
        let query = api::Wait { wait: Some(DurationInput(format!("{}ms", wait.as_millis()))) };
        let call = Call::new(target).key(key).query(&query).limit(wait + SHORT);
        let body = call.send::<api::Verify>()?;
        let review = if fail_on.contains(&Kind::Findings) {
            let findings = Call::new(target).key(key).send::<api::ShowFindings>()?;
            Some(Review::new(findings, Some(Severity::Medium), false, accepted))
        } else {
            None
        };
        Ok(Self { body, review, fail_on: fail_on.to_vec() })
    }

    fn section(&self, kind: Kind) -> Section {
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
        Section { kind, count, lines }
    }

    /// What was found of each kind that is reported: those named by --fail-on, or all but findings if none is named.
    fn sections(&self) -> Vec<Section> {
        Kind::all().filter(|kind| self.judges(*kind)).map(|kind| self.section(kind)).collect()
    }

    fn judges(&self, kind: Kind) -> bool {
        self.fail_on.contains(&kind) || (self.fail_on.is_empty() && kind != Kind::Findings)
    }

    /// The kinds of --fail-on that were found.
    pub(super) fn failed_by(&self) -> impl Iterator<Item = Kind> {
        self.fail_on.iter().copied().filter(|kind| self.section(*kind).count > 0)
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
            falls_short: Kind::all().filter(|kind| self.section(*kind).count > 0).collect(),
            fail_on: &self.fail_on,
            failed: self.fails(),
        }
    }

    fn suite(&self) -> Suite {
        let case = |kind: Kind| {
            let Section { count, lines, .. } = self.section(kind);
            let result = match count {
                _ if !self.judges(kind) => TestResult::Skipped("not named by --fail-on".to_owned()),
                0 => TestResult::Passed,
                count => TestResult::Failed { kind: kind.name(), message: kind.sentence(count), lines },
            };
            TestCase { name: kind.name(), result }
        };
        Suite { name: "verdict", cases: Kind::all().map(case).collect(), notes: self.notes() }
    }

    fn text(&self, colors: bool) -> String {
        let mut text = String::new();
        for Section { kind, count, lines } in self.sections() {
            let mark = mark(count == 0, colors);
            let refused = self.body.refused_forgeries;
            let refused = match (kind, refused) {
                (Kind::Undelivered, 1) => "; 1 forged delivery was refused, as intended".to_owned(),
                (Kind::Undelivered, 2..) => format!("; {refused} forged deliveries were refused, as intended"),
                _ => String::new(),
            };
            text.push_str(&format!("{mark} {}: {}{refused}\n", kind.name(), kind.sentence(count)));
            text.extend(lines.iter().map(|line| format!("    {line}\n")));
        }
        text.extend(self.notes().iter().map(|note| format!("note: {note}\n")));
        text
    }

    /// The whole document.
    fn markdown(&self) -> String {
        let sections = self.sections();
        let (mark, word) = match (self.fails(), sections.iter().any(|section| section.count > 0)) {
            (true, _) => ("❌", "failed"),
            (false, true) => ("⚠️", "problems were found, none of them named by --fail-on"),
            (false, false) => ("✅", "no problem was found"),
        };
        let mut text = format!("### {mark} Verdict: {word}\n\n");
        for Section { kind, count, lines } in sections {
            let mark = if count == 0 { "✅" } else { "❌" };
            text.push_str(&format!("- {mark} **{}**: {}\n", kind.name(), inert(&kind.sentence(count))));
            text.extend(lines.iter().take(MOST_LINES).map(|line| format!("  - {}\n", inert(line))));
            let more = lines.len().saturating_sub(MOST_LINES);
            if more > 0 {
                text.push_str(&format!("  - … and {more} more\n"));
            }
        }
        text.extend(self.notes().iter().map(|note| format!("\n{}\n", inert(note))));
        text
    }
}

/// A text with all markup escaped, also for the cell of a table.
fn inert(text: &str) -> String {
    let mut escaped = String::new();
    for c in cell(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' => escaped.extend(['\\', c]),
            // A bare address would become a link.
            ':' => escaped.push_str("&#58;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::api::ProblemWith;

    /// One request that is listed of three that are unmatched, and what follows from the rest of the answer.
    fn verdict(message: &str, fail_on: &[Kind], change: impl Fn(&mut Verification)) -> Verdict {
        let row = serde_json::json!({
            "id": "req_1", "at": "2026-01-31T09:30:00.000Z", "method": "GET", "path": "/a", "status": 404,
            "reason": "not_found", "latency_ms": 1.0, "generation": 1,
        });
        let row = serde_json::from_value(row).expect("a request");
        let unmatched = vec![ProblemWith { row, message: message.to_owned() }];
        let counts = api::ProblemCounts { unmatched: 3, ..Default::default() };
        let mut body = Verification { unmatched, counts, ..Verification::default() };
        change(&mut body);
        Verdict { body, review: None, fail_on: fail_on.to_vec() }
    }

    #[test]
    fn text_has_a_line_for_each_kind_that_is_judged_and_notes_of_what_is_missing() {
        let shown = |fail_on: &[Kind], change: fn(&mut Verification)| {
            verdict("GET /a\u{1b}: no endpoint", fail_on, change).text(false)
        };
        assert_eq!(
            shown(&[], |_| ()),
            "✗ unmatched: 3 requests matched no endpoint\n    req_1 GET /a\\u{1b}: no endpoint\n    … and 2 more\n\
             ✓ undelivered: every delivery arrived\n✓ forged: no forged delivery was accepted\n\
             ✓ unfinished: nothing of a scenario is left to play\n\
             ✓ unused: there was something to judge\n"
        );
        let entry = |kind: &str| Unused { kind: kind.to_owned(), message: format!("no {kind}") };
        let idle = move |body: &mut Verification| body.unused = ["undelivered", "unfinished"].map(entry).into();
        let text = |fail_on: &[Kind]| verdict("", fail_on, idle).text(false);
        for (found, expected) in [
            (shown(&[Kind::Unmatched], |body| body.forgotten_entries = 7), "note: 7 entries were evicted"),
            (shown(&[Kind::Forged], |body| body.forgotten_deliveries = 3), "note: 3 finished deliveries were evicted"),
            (text(&[Kind::Unfinished]), "note: no unfinished\n"),
            (text(&[Kind::Unused, Kind::Unfinished]), "✗ unused: 1 check had nothing to judge\n    no unfinished\n"),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        for quiet in [text(&[]), text(&[Kind::Undelivered]), text(&[Kind::Unused])] {
            assert!(!quiet.contains("note:") && !quiet.contains("✗ unused"), "{quiet}");
        }
    }

    #[test]
    fn nothing_that_a_client_sent_is_markup() {
        let text = verdict("GET /<img src=x>|`**[a](b)` #1 https://a", &[Kind::Unmatched], |_| ()).markdown();
        assert!(text.starts_with("### ❌ Verdict: failed"), "{text}");
        assert_eq!(
            text.lines().nth(3),
            Some("  - req\\_1 GET /&lt;img src=x&gt;\\|\\`\\*\\*\\[a\\](b)\\` \\#1 https&#58;//a"),
            "{text}"
        );
    }
}
