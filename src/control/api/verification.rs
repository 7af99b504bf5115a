//! The problems found so far, by which a test run is judged.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::{DeliveryRow, Form, Nothing, Request, Wait, WorkspaceId, endpoint};
use crate::control::render::{Text, cell};
use crate::util::wording::counted;

endpoint! {
    /// The problems found so far.
    Verify: GET "verdict", Form::Masked, Wait, Nothing => Verification;
}

/// The problems found, by kind, the oldest first; `counts` has the number of all.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Verification {
    /// Requests that matched no endpoint.
    pub(crate) unmatched: Vec<ProblemWith<Request>>,
    /// Deliveries that were not accepted.
    pub(crate) undelivered: Vec<ProblemWith<DeliveryRow>>,
    /// Forged deliveries that were accepted.
    pub(crate) forged: Vec<ProblemWith<DeliveryRow>>,
    /// Scenarios that were not played to their end.
    pub(crate) unfinished: Vec<Unfinished>,
    /// The kinds that had nothing to judge: an empty list of them proves nothing.
    pub(crate) unused: Vec<Unused>,
    pub(crate) counts: ProblemCounts,
    pub(crate) active_scenarios: Vec<String>,
    pub(crate) judged_requests: usize,
    pub(crate) judged_deliveries: usize,
    /// Forged deliveries that were refused, as they should be; they are not undelivered.
    pub(crate) refused_forgeries: usize,
    /// Entries that were evicted from the journal.
    pub(crate) forgotten_entries: u64,
    /// Finished deliveries that were evicted.
    pub(crate) forgotten_deliveries: u64,
}

/// How many problems there are of each kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct ProblemCounts {
    pub(crate) unmatched: usize,
    pub(crate) undelivered: usize,
    pub(crate) forged: usize,
    pub(crate) unfinished: usize,
    pub(crate) unused: usize,
}

/// A request or delivery with a problem.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "ProblemWith{T}"))]
pub(crate) struct ProblemWith<T> {
    #[serde(flatten)]
    pub(crate) row: T,
    /// What the problem is.
    pub(crate) message: String,
}

/// A rule with turns left, or a story before its end.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Unfinished {
    pub(crate) scenario: String,
    #[serde(flatten)]
    pub(crate) what: UnfinishedPart,
    /// Absent for requests without a key, and for what no request has reached.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) message: String,
}

/// What of a scenario is unfinished.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
pub(crate) enum UnfinishedPart {
    /// A rule that applied less often than it says.
    Rule { rule: String, applied: u64, turns: u64, left: u64 },
    /// An emission with events that are yet to come.
    Emission { emission: String, planned: u64 },
    /// A story that did not reach one of its ends.
    Story { step: String, ends: Vec<String> },
}

/// A kind of problem that had nothing to judge.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Unused {
    #[cfg_attr(test, schemars(extend("enum" = ["unmatched", "undelivered", "forged", "unfinished"])))]
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Verification {
    /// Each kind of problem: how many there are, and a line for each that is listed.
    pub(crate) fn kinds(&self) -> [(&'static str, usize, Vec<String>); 5] {
        let line = |id: &dyn Display, message: &str| format!("{} {}", cell(id), cell(message));
        let requests = self.unmatched.iter().map(|problem| line(&problem.row.id, &problem.message)).collect();
        let deliveries = |found: &[ProblemWith<DeliveryRow>]| {
            found.iter().map(|problem| line(&problem.row.id, &problem.message)).collect()
        };
        [
            ("unmatched", self.counts.unmatched, requests),
            ("undelivered", self.counts.undelivered, deliveries(&self.undelivered)),
            ("forged", self.counts.forged, deliveries(&self.forged)),
            ("unfinished", self.counts.unfinished, self.unfinished.iter().map(|part| cell(&part.message)).collect()),
            ("unused", self.counts.unused, self.unused.iter().map(|unused| cell(&unused.message)).collect()),
        ]
    }
}

impl Text for Verification {
    fn text(&self) -> String {
        let mut text = String::new();
        for (kind, count, lines) in self.kinds() {
            let mark = if count == 0 { '✓' } else { '✗' };
            text.push_str(&format!("{mark} {kind}: {count}\n"));
            text.extend(lines.iter().map(|line| format!("    {line}\n")));
        }
        let (requests, deliveries) = (self.judged_requests, self.judged_deliveries);
        text + &format!("judged: {} and {}\n", counted(requests, "request"), counted(deliveries, "delivery"))
    }
}
