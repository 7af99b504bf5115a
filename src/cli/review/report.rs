//! A review as it is reported: the findings, what was accepted, and what fails.

use clap::ValueEnum;
use serde::Serialize;

use super::accepted::{Acceptance, Accepted};
use crate::cli::output::cell;
use crate::control::api::{Finding, Findings};
use crate::review::findings::{Confidence, Severity};

/// What fails a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Critical,
    High,
    Medium,
    Low,
    Info,
    Never,
}

impl FailOn {
    /// Whether a finding of this severity fails the review.
    fn includes(self, severity: &str) -> bool {
        let least = match self {
            Self::Critical => Severity::Critical,
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
            Self::Info => Severity::Info,
            Self::Never => return false,
        };
        Severity::from_name(severity).is_some_and(|severity| severity <= least)
    }
}

/// A review as it is reported.
#[derive(Serialize)]
pub(crate) struct Review {
    #[serde(flatten)]
    pub(crate) findings: Findings,
    /// Findings that were accepted, by code.
    pub(super) accepted: Vec<Acceptance>,
    /// The codes of findings that fail the review, and what is wrong with the accepted ones.
    pub(super) failing: Vec<String>,
    pub(super) failed: bool,
}

impl Review {
    /// Judges findings.
    pub(crate) fn new(findings: Findings, fail_on: FailOn, likely: bool, accepted: Option<&Accepted>) -> Self {
        let outcomes = accepted.map(|accepted| accepted.judge(&findings)).unwrap_or_default();
        let is_accepted = |finding: &Finding| outcomes.iter().any(|outcome| outcome.covers(finding));
        let fails = |finding: &&Finding| {
            let sure = likely || finding.confidence == Confidence::Certain.name();
            sure && fail_on.includes(&finding.severity) && !is_accepted(finding)
        };
        let failing: Vec<String> = findings.data.iter().filter(fails).map(|finding| finding.code.clone()).collect();
        let failed = !failing.is_empty() || outcomes.iter().any(|outcome| outcome.fails);
        Self { findings, accepted: outcomes, failing, failed }
    }

    /// What fails the review, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let stale = self.accepted.iter().filter(|accepted| accepted.fails);
        let is_stale = |code: &str| stale.clone().any(|accepted| accepted.code == code);
        // Of two findings with the same code, the certain one comes first.
        let failing = self.failing.iter().filter(|code| !is_stale(code));
        let failing = failing.filter_map(|code| self.findings.data.iter().find(|finding| finding.code == *code));
        let line = |finding: &Finding| {
            let first = finding.evidence.first().map(|shown| format!("{} {}", shown.id(), shown.detail));
            let times = if finding.count > 1 { format!(", {} times", finding.count) } else { String::new() };
            let (code, severity) = (&finding.code, &finding.severity);
            cell(format!("{}: {} ({code}, {severity}{times})", first.unwrap_or_default(), finding.title))
        };
        let of_accepted = |accepted: &Acceptance| format!("accepted `{}`: {}", accepted.code, accepted.outcome);
        failing.map(line).chain(stale.clone().map(of_accepted)).collect()
    }

    /// The accepted finding's reason, if it was accepted.
    pub(super) fn acceptance(&self, finding: &Finding) -> Option<&Acceptance> {
        self.accepted.iter().find(|outcome| outcome.covers(finding))
    }
}
