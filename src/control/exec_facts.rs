//! The facts that `exec` adds to a run document: its command, how it ended, and why the run failed. The emulator knows none of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::findings::Confidence;

/// A command that was run with an emulator, and how it ended.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ExecFacts {
    /// The command and its arguments, credentials masked.
    pub(crate) command: Vec<String>,
    /// Its exit status, by the rules of shells: 128 and the number of a signal, 127 if it is not there, 126 if it cannot be run.
    pub(crate) exit_status: u8,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Why it could not be run.
    pub(crate) problem: Option<String>,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    /// The end of its output, at most 64 KiB, credentials masked. Output to a terminal is not in it.
    #[serde(default)]
    pub(crate) output: Option<String>,
    /// The kinds of problems that were to fail the run.
    #[serde(default)]
    pub(crate) fail_on: Vec<String>,
    /// Those of them that were found.
    #[serde(default)]
    pub(crate) failed_by: Vec<String>,
    /// A sentence about each of these.
    #[serde(default)]
    pub(crate) failed_because: Vec<String>,
    /// The findings among them.
    #[serde(default)]
    pub(crate) failed_findings: Vec<FailedFinding>,
    /// How it ended under each reading of `exec --under`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) under: Option<ReadingGrid>,
}

impl ExecFacts {
    /// True if the command failed, or the verdict did.
    pub(crate) fn has_failed(&self) -> bool {
        self.exit_status != 0 || !self.failed_by.is_empty()
    }
}

/// A finding that failed the run: certain, or likely where that was asked for, and not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct FailedFinding {
    pub(crate) code: String,
    pub(crate) confidence: Confidence,
}

/// A command under several readings of what the contract leaves open.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ReadingGrid {
    /// The reading of this document: the first under which the command failed, or `contract`.
    pub(crate) reading: String,
    /// The conclusion from the rows.
    pub(crate) sentence: String,
    /// In the order in which they were requested, `contract` first.
    pub(crate) readings: Vec<ReadingRow>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ReadingRow {
    pub(crate) reading: String,
    /// The command's, or 1 if it succeeded and the verdict failed the run.
    pub(crate) exit_status: u8,
    /// The problems in its verdict.
    pub(crate) problems: usize,
    /// The first test that failed, if its runner reported any.
    pub(crate) failed_test: Option<String>,
}
