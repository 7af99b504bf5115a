//! `POST outcome`: a test runner reports how the test with this key ended, so that a report puts failed tests first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlError;
use super::call::{Body, Call, ControlCall, Tag};
use super::context::Context;
use super::fields::KeyOrSample;
use super::render::{Text, cell};
use crate::advice::Audience;
use crate::redact::Redactor;
use crate::state::journal::NoticeKind;
use crate::state::journal::record::name_of;
pub(crate) use crate::state::workspace::{Ending, RefusedCall, TestOutcome};

/// Report how the test with this key ended.
///
/// As the pytest plugin and `withEmulator` report it: shown with the key in run documents, where failed tests come first. The last
/// report counts, until a reset.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportOutcome {
    #[serde(default)]
    pub(crate) key: KeyOrSample,
    /// The test's name; of this and of `message`, 500 bytes are kept.
    pub(crate) test: String,
    pub(crate) outcome: Ending,
    /// Why it failed, in one line.
    pub(crate) message: Option<String>,
    /// The runner's output about the failure; the last 4 KiB are kept.
    pub(crate) output: Option<String>,
    /// The control call of the test itself that was refused or timed out, if that is why the test failed.
    pub(crate) refused: Option<RefusedCall>,
}

impl ControlCall for Body<ReportOutcome> {
    type Answer = TestOutcome;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::RESULTS, "POST outcome", report)
    }
}

impl Text for TestOutcome {
    fn text(&self, _: &Audience) -> String {
        line(self) + "\n"
    }
}

fn line(TestOutcome { test, outcome, message, .. }: &TestOutcome) -> String {
    let message = message.as_ref().map_or_else(String::new, |message| format!(": {}", cell(message)));
    format!("{} {}{message}", cell(test), name_of(*outcome))
}

fn report(Body { body }: Body<ReportOutcome>, cx: &Context) -> Result<TestOutcome, ControlError> {
    let ReportOutcome { key, test, outcome, message, output, refused } = body;
    let new = TestOutcome { test, outcome, message, output, refused };
    // Masked first, because a credential that was cut is no longer recognised.
    let new = masked(&new, cx.redactor()).shortened();
    let workspace = cx.engine.workspace(key.meant())?;
    workspace.lock().set_test(new.clone()).map_err(|full| ControlError::invalid(full.to_string()))?;
    // Viewers of the stream learn it at once.
    let has_failed = new.outcome == Ending::Failed;
    cx.engine.notify(NoticeKind::TestEnded, Some(workspace.name()), format!("test {}", line(&new)), has_failed);
    Ok(new)
}

/// The outcome without the credentials in it.
fn masked(test: &TestOutcome, redactor: Redactor<'_>) -> TestOutcome {
    serde_json::from_value(redactor.shown(test)).expect("its texts stay texts")
}

/// The same without its output, which is most of it: masking that of thousands of tests would last seconds.
pub(super) fn masked_without_output(test: &TestOutcome, redactor: Redactor<'_>) -> TestOutcome {
    masked(
        &TestOutcome {
            output: None,
            test: test.test.clone(),
            message: test.message.clone(),
            refused: test.refused.clone(),
            ..*test
        },
        redactor,
    )
}
