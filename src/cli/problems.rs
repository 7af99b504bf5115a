//! The problems found, by kind, and which kinds fail a run. `verdict` and `exec` print them, as XML through `junit`.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::client::{Call, SHORT};
use super::failure::Failure;
use super::junit::{Suite, TestCase, TestResult};
use super::output::cell;
use super::review::findings::{Accepted, Review};
use super::target::Target;
use crate::control::api::{self, DeliveryRow, DurationInput, ProblemWith, Unused, Verification, name_of};
use crate::review::findings::Severity;
use crate::wording::counted;

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
    pub(super) const ALL: [Self; 6] =
        [Self::Unmatched, Self::Undelivered, Self::Forged, Self::Unfinished, Self::Findings, Self::Unused];

    /// The name in flags and in the control API's answer.
    pub(super) fn name(self) -> String {
        name_of(self)
    }

    /// A sentence about `count` problems of this kind.
    pub(super) fn sentence(self, count: usize) -> String {
        let (one, many, none) = match self {
            Self::Unmatched => {
                ("request matched no endpoint", "requests matched no endpoint", "every request matched an endpoint")
            }
            Self::Undelivered => ("delivery did not arrive", "deliveries did not arrive", "every delivery arrived"),
            Self::Forged => (
                "forged delivery was accepted (2xx): your receiver does not verify it; see `explain ID`",
                "forged deliveries were accepted (2xx): your receiver does not verify them; see `explain ID`",
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

/// The problems found, and the kinds that fail the run.
pub(super) struct Verdict {
    body: Verification,
    /// If the kind `findings` is named.
    review: Option<Review>,
    fail_on: Vec<Kind>,
}

/// A verdict as JSON.
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
    pub(super) fn new(body: Verification, fail_on: &[Kind]) -> Self {
        Self { body, review: None, fail_on: fail_on.to_vec() }
    }

    /// Asks the control API.
    pub(super) fn ask(
        target: &Target,
        key: &str,
        wait: Duration,
        fail_on: &[Kind],
        accepted: Option<&Accepted>,
    ) -> Result<Self, Failure> {
        let query = api::Wait { wait: Some(DurationInput(format!("{}ms", wait.as_millis()))) };
        let call = Call::<api::Verify>::to(target).key(key).query(&query).limit(wait + SHORT);
        let mut verdict = Self::new(call.send()?.body, fail_on);
        if fail_on.contains(&Kind::Findings) {
            let findings = Call::<api::ShowFindings>::to(target).key(key).send()?.body;
            verdict.review = Some(Review::new(findings, Some(Severity::Medium), false, accepted));
        }
        Ok(verdict)
    }

    /// How many entries there are of a kind.
    pub(super) fn count(&self, kind: Kind) -> usize {
        let counts = &self.body.counts;
        match kind {
            Kind::Unmatched => counts.unmatched,
            Kind::Undelivered => counts.undelivered,
            Kind::Forged => counts.forged,
            Kind::Unfinished => counts.unfinished,
            Kind::Findings => self.review.as_ref().map_or(0, |review| review.problems().len()),
            Kind::Unused => self.unused().count(),
        }
    }

    /// The checks that had nothing to judge and are reported: the one of requests always, any other only if --fail-on names it.
    fn unused(&self) -> impl Iterator<Item = &Unused> {
        let concerns = |entry: &&Unused| {
            entry.kind == Kind::Unmatched.name() || self.fail_on.iter().any(|named| entry.kind == named.name())
        };
        self.body.unused.iter().filter(concerns)
    }

    /// A sentence about the problems of a kind.
    fn sentence(&self, kind: Kind) -> String {
        let sentence = kind.sentence(self.count(kind));
        match self.body.refused_forgeries {
            1 if kind == Kind::Undelivered => format!("{sentence}; 1 forged delivery was refused, as intended"),
            2.. if kind == Kind::Undelivered => {
                format!("{sentence}; {} forged deliveries were refused, as intended", self.body.refused_forgeries)
            }
            _ => sentence,
        }
    }

    /// The problems of a kind, a line each.
    pub(super) fn lines(&self, kind: Kind) -> Vec<String> {
        let with_id = |id: &dyn Display, message: &str| format!("{} {}", cell(id), cell(message));
        let deliveries = |entries: &[ProblemWith<DeliveryRow>]| -> Vec<String> {
            entries.iter().map(|entry| with_id(&entry.row.id, &entry.message)).collect()
        };
        let mut lines: Vec<String> = match kind {
            Kind::Unmatched => self.body.unmatched.iter().map(|entry| with_id(&entry.row.id, &entry.message)).collect(),
            Kind::Undelivered => deliveries(&self.body.undelivered),
            Kind::Forged => deliveries(&self.body.forged),
            Kind::Unfinished => self.body.unfinished.iter().map(|entry| cell(&entry.message)).collect(),
            Kind::Findings => self.review.as_ref().map(Review::problems).unwrap_or_default(),
            Kind::Unused => self.unused().map(|entry| cell(&entry.message)).collect(),
        };
        let more = self.count(kind).saturating_sub(lines.len());
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        lines
    }

    /// Whether a kind is reported: those named by --fail-on, or all but findings if none is named.
    pub(super) fn judges(&self, kind: Kind) -> bool {
        self.fail_on.contains(&kind) || (self.fail_on.is_empty() && kind != Kind::Findings)
    }

    /// Whether a problem of a kind to fail on was found.
    pub(super) fn fails(&self) -> bool {
        self.fail_on.iter().any(|kind| self.count(*kind) > 0)
    }

    /// The verdict as test cases, one for each kind of problem.
    pub(super) fn suite(&self) -> Suite {
        let case = |kind: Kind| TestCase {
            name: kind.name(),
            result: match self.count(kind) {
                _ if !self.judges(kind) => TestResult::Skipped("not named by --fail-on".to_owned()),
                0 => TestResult::Passed,
                count => {
                    TestResult::Failed { kind: kind.name(), message: kind.sentence(count), lines: self.lines(kind) }
                }
            },
        };
        Suite { name: "verdict", cases: Kind::ALL.map(case).into(), notes: self.notes() }
    }

    /// Notes about why a list without problems may prove little.
    pub(super) fn notes(&self) -> Vec<String> {
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
        let forged = self.count(Kind::Forged);
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

    /// The verdict as it is printed as JSON.
    pub(super) fn judged(&self) -> impl Serialize {
        let found = Kind::ALL.into_iter().filter(|kind| self.count(*kind) > 0);
        Judged {
            body: &self.body,
            review: &self.review,
            falls_short: found.collect(),
            fail_on: &self.fail_on,
            failed: self.fails(),
        }
    }

    /// The verdict as lines for people.
    pub(super) fn text(&self, colors: bool) -> String {
        let (red, green, plain) = if colors { ("\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m") } else { ("", "", "") };
        let mut text = String::new();
        for kind in Kind::ALL.into_iter().filter(|kind| self.judges(*kind)) {
            let count = self.count(kind);
            let mark = if count == 0 { format!("{green}✓{plain}") } else { format!("{red}✗{plain}") };
            text.push_str(&format!("{mark} {}: {}\n", kind.name(), self.sentence(kind)));
            for line in self.lines(kind) {
                text.push_str(&format!("    {line}\n"));
            }
        }
        for note in self.notes() {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }
}

#[cfg(test)]
impl Verification {
    /// An answer of the control API about one request, and how many problems there are of two kinds.
    pub(super) fn of(message: &str, unmatched: usize, unfinished: usize) -> Self {
        let row = serde_json::json!({
            "id": "req_1", "at": "2026-01-31T09:30:00.000Z", "method": "GET", "path": "/a", "status": 404,
            "reason": "not_found", "latency_ms": 1.0, "generation": 1,
        });
        let row = serde_json::from_value(row).expect("a request");
        let request = api::ProblemWith { row, message: message.to_owned() };
        let counts = api::ProblemCounts { unmatched, unfinished, ..Default::default() };
        Self { unmatched: vec![request], counts, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Verification {
        Verification::of("GET /a\u{1b}: no endpoint", 3, 0)
    }

    #[test]
    fn text_has_a_line_for_each_kind_that_is_judged() {
        let all = Verdict::new(body(), &[]).text(false);
        assert_eq!(
            all,
            "✗ unmatched: 3 requests matched no endpoint\n    req_1 GET /a\\u{1b}: no endpoint\n    … and 2 more\n\
             ✓ undelivered: every delivery arrived\n✓ forged: no forged delivery was accepted\n\
             ✓ unfinished: nothing of a scenario is left to play\n\
             ✓ unused: there was something to judge\n"
        );
        let one = Verdict::new(body(), &[Kind::Undelivered]).text(true);
        assert_eq!(one, "\u{1b}[32m✓\u{1b}[0m undelivered: every delivery arrived\n");
        let mut forgetful = body();
        forgetful.forgotten_entries = 7;
        let text = Verdict::new(forgetful.clone(), &[Kind::Unmatched]).text(false);
        assert!(text.contains("note: 7 entries were evicted from the journal"), "{text}");
        let mut short = body();
        short.forgotten_deliveries = 3;
        for (kind, expected) in [(Kind::Undelivered, true), (Kind::Forged, true), (Kind::Unmatched, false)] {
            let notes = Verdict::new(short.clone(), &[kind]).notes();
            assert_eq!(
                notes.iter().any(|note| note.starts_with("3 finished deliveries")),
                expected,
                "{kind:?}: {notes:?}"
            );
        }
    }

    #[test]
    fn what_had_nothing_to_judge_concerns_those_who_rely_on_it() {
        let entry = |kind: &str| Unused { kind: kind.to_owned(), message: format!("no {kind}") };
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let mut idle = body();
        idle.unused = vec![entry("undelivered"), entry("unfinished")];
        for (fail_on, notes, lines) in [
            (&[][..], &[][..], &[][..]),
            (&[Kind::Unmatched], &[], &[]),
            (&[Kind::Undelivered], &[], &["no undelivered"]),
            (&[Kind::Unfinished], &["no unfinished"], &["no unfinished"]),
            (&[Kind::Unused], &[], &[]),
            (&[Kind::Unused, Kind::Undelivered], &[], &["no undelivered"]),
        ] {
            let verdict = Verdict::new(idle.clone(), fail_on);
            assert_eq!((verdict.notes(), verdict.lines(Kind::Unused)), (owned(notes), owned(lines)), "{fail_on:?}");
            assert_eq!(verdict.count(Kind::Unused), lines.len());
        }
        idle.unused = vec![entry("unmatched")];
        for fail_on in [&[][..], &[Kind::Unused], &[Kind::Unfinished]] {
            assert_eq!(Verdict::new(idle.clone(), fail_on).lines(Kind::Unused), ["no unmatched"], "{fail_on:?}");
        }
    }
}
