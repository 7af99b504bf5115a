//! The problems in a verdict. Of each kind the first are shown, and all are counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::render::bytes_of;

/// Maximum number of entries shown of each kind, the oldest first; `counts` counts all.
pub(crate) const MAX_SHOWN: usize = 1_000;
/// Once the entries of a kind have so many bytes of JSON, no further one is shown.
pub(super) const MAX_SHOWN_BYTES: usize = 1024 * 1024;

/// How many problems there are of each kind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ProblemCounts {
    pub(crate) unmatched: usize,
    pub(crate) undelivered: usize,
    pub(crate) forged: usize,
    pub(crate) unfinished: usize,
    pub(crate) unused: usize,
}

/// A kind of problem that had nothing to judge.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Unused {
    #[schemars(extend("enum" = ["unmatched", "undelivered", "forged", "unfinished"]))]
    pub(crate) kind: String,
    pub(crate) message: String,
}

/// A request or delivery with a problem.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "ProblemWith{T}")]
pub(crate) struct ProblemWith<T> {
    #[serde(flatten)]
    pub(crate) row: T,
    /// The problem.
    pub(crate) message: String,
    /// The first thing to check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

/// The problems of a kind: the first, as they are shown, and how many there are. A full journal has ten times as many as are shown.
pub(super) struct CountedProblems<T> {
    pub(super) shown: Vec<T>,
    bytes: usize,
    pub(super) count: usize,
}

impl<T: Serialize> CountedProblems<T> {
    pub(super) fn none() -> Self {
        Self { shown: Vec::new(), bytes: 0, count: 0 }
    }

    pub(super) fn of<R>(records: impl Iterator<Item = R>, shown: impl Fn(R) -> T) -> Self {
        let mut problems = Self::none();
        records.for_each(|record| problems.add(|| shown(record)));
        problems
    }

    /// Counts one, and shows it if there is room.
    pub(super) fn add(&mut self, shown: impl FnOnce() -> T) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN && self.bytes < MAX_SHOWN_BYTES {
            let problem = shown();
            self.bytes += bytes_of(&problem);
            self.shown.push(problem);
        }
    }
}
