//! What fails a run: the kinds of problems, and which of them `--fail-on` names.

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use super::failure::Failure;
use super::findings::{Accepted, Review};
use crate::control::api::{CauseKind, Findings, name_of};
use crate::findings::Severity;

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProblemKind {
    /// A request matched no endpoint.
    Unmatched,
    /// A delivery failed.
    Undelivered,
    /// A deliberately forged delivery was accepted.
    Forged,
    /// A scenario was not played to its end.
    Unfinished,
    /// `review findings` would fail: a finding is certain and at least medium. Judged only if it is named.
    Findings,
    /// Like `findings`, and likely findings fail as well.
    #[value(name = "findings=likely")]
    #[serde(rename = "findings")]
    LikelyFindings,
    /// No request was made, or another kind named here had nothing to judge.
    Unused,
}

impl ProblemKind {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied().filter(|kind| *kind != Self::LikelyFindings)
    }

    pub(super) fn name(self) -> String {
        name_of(self)
    }

    /// The causes that it has, besides those of failed tests.
    pub(super) fn cause(self) -> Option<CauseKind> {
        match self {
            Self::Unmatched => Some(CauseKind::Unmatched),
            Self::Undelivered => Some(CauseKind::Undelivered),
            Self::Forged => Some(CauseKind::Forged),
            Self::Unfinished => Some(CauseKind::Unfinished),
            Self::Findings | Self::LikelyFindings => Some(CauseKind::Finding),
            Self::Unused => None,
        }
    }

    pub(super) fn sentence(self, count: usize) -> String {
        let (one, many, none) = match self {
            Self::Unmatched => {
                ("request matched no endpoint", "requests matched no endpoint", "every request matched an endpoint")
            }
            Self::Undelivered => ("delivery failed", "deliveries failed", "every delivery arrived"),
            Self::Forged => (
                "forged delivery was accepted (2xx), which your receiver must refuse",
                "forged deliveries were accepted (2xx), which your receiver must refuse",
                "no forged delivery was accepted",
            ),
            Self::Unfinished => (
                "part of a scenario was not played",
                "parts of scenarios were not played",
                "nothing of a scenario is left to play",
            ),
            Self::Findings | Self::LikelyFindings => (
                "problem was found by the review",
                "problems were found by the review",
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

/// The conditions under which a run fails.
pub(super) struct Judging {
    /// Without `LikelyFindings`.
    pub(super) fail_on: Vec<ProblemKind>,
    likely: bool,
    accepted: Option<Accepted>,
    pub(super) allows_unused: bool,
}

impl Judging {
    /// Reads the file of `--accept`, which is about findings alone.
    pub(super) fn new(named: &[ProblemKind], accept: Option<&Path>, allows_unused: bool) -> Result<Self, Failure> {
        let likely = named.contains(&ProblemKind::LikelyFindings);
        let mut fail_on: Vec<ProblemKind> = Vec::new();
        for kind in named {
            let kind = if *kind == ProblemKind::LikelyFindings { ProblemKind::Findings } else { *kind };
            if !fail_on.contains(&kind) {
                fail_on.push(kind);
            }
        }
        if accept.is_some() && !fail_on.contains(&ProblemKind::Findings) {
            return Err(Failure::usage("--accept: findings are not judged").with_hint("add --fail-on findings"));
        }
        if allows_unused && fail_on.contains(&ProblemKind::Unused) {
            return Err(Failure::usage("--allow-unused contradicts --fail-on unused"));
        }
        Ok(Self { fail_on, likely, accepted: accept.map(Accepted::read).transpose()?, allows_unused })
    }

    pub(super) fn review(&self, findings: Findings) -> Review {
        Review::new(findings, Some(Severity::Medium), self.likely, self.accepted.as_ref())
    }

    /// The names of the kinds that fail the run.
    pub(super) fn names(&self) -> Vec<String> {
        self.fail_on.iter().map(|kind| kind.name()).collect()
    }
}
