//! A review without the findings that have been accepted: the file of `--accept` has one a line, its code and then the reason.

use std::path::Path;

use serde::Serialize;

use crate::cli::failure::Failure;
use crate::cli::output::cell;
use crate::contract::nearest;
use crate::control::api::{Finding, Findings};
use crate::file;
use crate::review::findings::{Confidence, Severity, check, checks};

/// Most bytes of the file.
const MOST_BYTES: u64 = 1024 * 1024;

/// The file.
#[derive(Debug)]
pub(crate) struct Accepted(Vec<(String, String)>);

impl Accepted {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let bytes = file::read_input(path, MOST_BYTES)
            .map_err(|problem| Failure::io(format!("--accept: cannot read `{shown}`: {problem}")))?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|problem| {
            Failure::invalid_file(format!("--accept: `{shown}`: {problem}"))
                .with_hint("each line is the code of a finding and a reason: unknown-field removed with release 2.4")
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut accepted: Vec<(String, String)> = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (code, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let shown = code.escape_debug();
            if check(code).is_none() {
                let near = nearest(code, checks().map(|check| check.code));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(format!("line {number}: there is no finding `{shown}`{hint}"));
            }
            if reason.is_empty() {
                return Err(format!("line {number}: `{shown}` has no reason"));
            }
            if accepted.iter().any(|(earlier, _)| earlier == code) {
                return Err(format!("line {number}: `{shown}` is there twice"));
            }
            accepted.push((code.to_owned(), reason.trim().to_owned()));
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
                (false, true) => ("not judged, as nothing exercised it", false),
            };
            Acceptance { code: code.clone(), reason: reason.clone(), outcome: outcome.to_owned(), fails }
        };
        self.0.iter().map(of).collect()
    }
}

/// An accepted finding with what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Acceptance {
    pub(super) code: String,
    pub(super) reason: String,
    pub(super) outcome: String,
    /// Whether the entry itself fails the review.
    pub(super) fails: bool,
}

/// A review as it is reported.
#[derive(Serialize)]
pub(crate) struct Review {
    #[serde(flatten)]
    pub(crate) findings: Findings,
    pub(super) accepted: Vec<Acceptance>,
    /// The codes of findings that fail the review.
    pub(super) failing: Vec<String>,
    pub(super) failed: bool,
}

impl Review {
    /// Judges findings: those of at least this severity fail the review, if they are certain or `likely` is set.
    pub(crate) fn new(
        findings: Findings,
        fail_on: Option<Severity>,
        likely: bool,
        accepted: Option<&Accepted>,
    ) -> Self {
        let accepted = accepted.map(|accepted| accepted.judge(&findings)).unwrap_or_default();
        let fails = |finding: &&Finding| {
            let severity = Severity::from_name(&finding.severity);
            (likely || finding.confidence == Confidence::Certain.name())
                && severity.zip(fail_on).is_some_and(|(severity, least)| severity <= least)
                && accepted.iter().all(|accepted| accepted.code != finding.code)
        };
        let failing: Vec<String> = findings.data.iter().filter(fails).map(|finding| finding.code.clone()).collect();
        let failed = !failing.is_empty() || accepted.iter().any(|accepted| accepted.fails);
        Self { findings, accepted, failing, failed }
    }

    /// What fails the review, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        // Of two findings with the same code, the certain one comes first.
        let found = |code: &String| self.findings.data.iter().find(|finding| finding.code == *code);
        let line = |finding: &Finding| {
            let first = finding.evidence.first().map(|shown| format!("{} {}", shown.id(), shown.detail));
            let times = if finding.count > 1 { format!(", {} times", finding.count) } else { String::new() };
            let (code, severity) = (&finding.code, &finding.severity);
            cell(format!("{}: {} ({code}, {severity}{times})", first.unwrap_or_default(), finding.title))
        };
        self.failing.iter().filter_map(found).map(line).chain(self.stale().map(Acceptance::line)).collect()
    }

    /// Accepted findings that fail the review.
    pub(super) fn stale(&self) -> impl Iterator<Item = &Acceptance> {
        self.accepted.iter().filter(|accepted| accepted.fails)
    }
}

impl Acceptance {
    pub(super) fn line(&self) -> String {
        format!("accepted `{}`: {}", self.code, self.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::api::NotExercised;

    #[test]
    fn files_that_are_wrong_say_where() {
        for (text, expected) in [
            ("\n[[accept]]", "line 2: there is no finding `[[accept]]`"),
            (
                "# known\nunknown-fields x",
                "line 2: there is no finding `unknown-fields`; did you mean `unknown-field`?",
            ),
            ("unknown-field", "line 1: `unknown-field` has no reason"),
            ("unknown-field x\nunknown-field y", "line 2: `unknown-field` is there twice"),
        ] {
            assert_eq!(Accepted::parse(text).expect_err("it is wrong"), expected);
        }
        let accepted = Accepted::parse("# soon\n\n  unknown-field  gone with 2.4 \n").expect("it is right");
        assert_eq!(accepted.0, [("unknown-field".to_owned(), "gone with 2.4".to_owned())]);
    }

    #[test]
    fn an_entry_ends_with_its_finding() {
        let accepted = Accepted::parse("unknown-field x").expect("it is right");
        let finding: Finding = serde_json::from_value(serde_json::json!({
            "code": "unknown-field", "title": "", "severity": "low", "confidence": "certain", "clause": "", "why": "",
            "remedy": "", "cwe": null, "count": 1, "evidence": [],
        }))
        .expect("a finding");
        let idle = NotExercised { code: finding.code.clone(), title: String::new(), exercise: String::new() };
        let found = Findings { data: vec![finding], ..Findings::default() };
        let idle = Findings { not_exercised: vec![idle], ..Findings::default() };
        for (findings, fails) in [(&found, false), (&idle, false), (&Findings::default(), true)] {
            let review = Review::new(findings.clone(), Some(Severity::Info), false, Some(&accepted));
            assert_eq!((review.failed, review.failing.is_empty()), (fails, true), "{:?}", review.accepted);
        }
        assert!(Review::new(found, Some(Severity::Info), false, None).failed);
    }
}
