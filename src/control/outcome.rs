//! `POST outcome`: a test runner reports how the test with this key ended, so that a report puts failed tests first.

use serde::Deserialize;

use super::call::Input;
use super::endpoint::{KeyField, Nothing};
use super::render::{Text, cell};
use super::{Control, ControlError};
use crate::redact::Redactor;
use crate::state::journal::record::name_of;
pub(crate) use crate::state::workspace::{Ending, TestOutcome};

/// How a test ended.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NewOutcome {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    /// The test's name; of this and of `message`, 500 bytes are kept.
    pub(crate) test: String,
    pub(crate) outcome: Ending,
    /// Why it failed, in one line.
    pub(crate) message: Option<String>,
    /// What its runner shows of the failure, of which the last 4 KiB are kept.
    pub(crate) output: Option<String>,
}

impl Text for TestOutcome {
    fn text(&self) -> String {
        let message = self.message.as_ref().map_or_else(String::new, |message| format!(": {}", cell(message)));
        format!("{} {}{message}\n", cell(&self.test), name_of(self.outcome))
    }
}

pub(super) fn report(control: &Control, input: &Input<Nothing, NewOutcome>) -> Result<TestOutcome, ControlError> {
    let NewOutcome { test, outcome, message, output, .. } = &input.body;
    let new = TestOutcome { test: test.clone(), outcome: *outcome, message: message.clone(), output: output.clone() };
    // Masked first, because a credential that was cut is no longer recognised.
    let new = shown(&new, input.redactor()).shortened();
    let workspace = control.workspace(input.key()?.as_deref())?;
    workspace.lock().set_test(new.clone()).map_err(|full| ControlError::invalid(full.to_string()))?;
    Ok(new)
}

/// The outcome without the credentials in it.
pub(super) fn shown(test: &TestOutcome, redactor: Redactor<'_>) -> TestOutcome {
    serde_json::from_value(redactor.shown(test)).expect("its texts stay texts")
}
