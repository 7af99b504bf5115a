//! The outcome of the test whose key a workspace belongs to, as its test runner reported it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkspaceState;
use crate::state::budget::NoRoom;
use crate::util::schema::integer;

/// How a test ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TestOutcome {
    /// The test's name.
    pub test: String,
    pub outcome: Ending,
    /// Why it failed, in one line.
    pub message: Option<String>,
    /// The end of what its runner shows of the failure.
    pub output: Option<String>,
    /// The control call of the test itself that was refused or timed out, if that is why the test failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedCall>,
}

/// A call of the control API that the emulator refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusedCall {
    /// Its method and path, below `/_emulator/`.
    pub call: String,
    #[serde(deserialize_with = "integer")]
    pub status: u16,
    pub code: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    #[default]
    Passed,
    Failed,
}

const MAX_LINE_BYTES: usize = 500;
const MAX_OUTPUT_BYTES: usize = 4096;

impl RefusedCall {
    /// The same with the start of its lines, where they are too long.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        for line in [&mut self.call, &mut self.code, &mut self.message] {
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
        }
        self
    }
}

impl TestOutcome {
    /// The same with the start of its lines and the end of its output, where they are too long.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        self.refused = self.refused.map(RefusedCall::shortened);
        for line in [Some(&mut self.test), self.message.as_mut()].into_iter().flatten() {
            line.truncate(line.floor_char_boundary(MAX_LINE_BYTES));
        }
        if let Some(output) = &mut self.output {
            let begin = output.len().saturating_sub(MAX_OUTPUT_BYTES);
            output.drain(..output.ceil_char_boundary(begin));
        }
        self
    }
}

impl WorkspaceState {
    pub fn set_test(&mut self, test: TestOutcome) -> Result<(), NoRoom> {
        self.budget().room()?;
        self.test = Some(test);
        Ok(())
    }

    pub fn test(&self) -> Option<&TestOutcome> {
        self.test.as_ref()
    }

    /// Counts events that were signed for a handler in the test's own process: such a test need not make a request.
    pub fn count_signed(&mut self, events: usize) {
        self.signed_in_process = self.signed_in_process.saturating_add(events);
    }

    pub fn signed_in_process(&self) -> usize {
        self.signed_in_process
    }
}
