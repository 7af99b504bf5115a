//! Whose the problems of a verdict are: the keys, the tests that they belong to, and how many requests and deliveries each has.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::call::Scope;
use super::render::cell;
use super::story::{self, AFTER_429};
use super::test_outcome::{Ending, TestOutcome, shown};
use crate::redact::Redactor;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::record::WorkspaceId;
use crate::state::journal::{Entry, RequestRecord};
use crate::state::workspace::Workspace;

/// A key, and the test that it belongs to.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct JudgedKey {
    /// A test key whole, any other masked.
    pub(crate) key: String,
    pub(crate) workspace: WorkspaceId,
    /// The test, if its runner reported how it ended.
    pub(crate) test: Option<String>,
    /// Requests in the journal.
    pub(crate) requests: usize,
    pub(crate) deliveries: usize,
    /// Absent unless its test failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<TestFailure>,
}

/// Why a test failed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct TestFailure {
    /// The first request that was refused; one that a scenario answered only if there is no other.
    pub(crate) request: Option<String>,
    /// Why it was refused; without such a request, what the test's runner said.
    pub(crate) reason: String,
}

/// A problem as it is printed.
pub(crate) struct ProblemLine {
    /// The request or delivery; empty for another kind of problem.
    pub(crate) id: String,
    pub(crate) message: String,
    /// The test and the key.
    pub(crate) of: String,
}

impl ProblemLine {
    /// About something that is neither a request nor a delivery.
    pub(crate) fn of_no_record(message: &str) -> Self {
        Self { id: String::new(), message: cell(message), of: String::new() }
    }
}

impl Display for ProblemLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { id, message, of } = self;
        let (before, after) = (if id.is_empty() { "" } else { " " }, if of.is_empty() { "" } else { "; " });
        write!(f, "{id}{before}{message}{after}{of}")
    }
}

impl JudgedKey {
    /// Why its test failed, as a line of a verdict.
    pub(crate) fn failure(&self) -> Option<ProblemLine> {
        let TestFailure { request, reason } = self.failure.as_ref()?;
        let id = request.clone().unwrap_or_default();
        Some(ProblemLine { id, message: cell(reason), of: self.text() })
    }

    /// The test and the key in a line.
    pub(crate) fn text(&self) -> String {
        let test = self.test_text().map_or_else(String::new, |test| format!("{test}, "));
        format!("{test}key {}", cell(&self.key))
    }

    pub(super) fn test_text(&self) -> Option<String> {
        self.test.as_ref().map(|test| format!("test {}", cell(test)))
    }
}

/// The keys of a scope with what belongs to them.
pub(super) fn judged_keys(
    control: &Control,
    scope: &Scope,
    deliveries: &[DeliveryRecord],
    redactor: Redactor<'_>,
) -> Vec<JudgedKey> {
    let mut requests: HashMap<String, usize> = HashMap::new();
    // Per key, its first request that was refused: by the emulated API, and by a scenario.
    let mut refused: HashMap<String, [Option<TestFailure>; 2]> = HashMap::new();
    control.journal.search(None, usize::MAX, |_, entry| -> Option<()> {
        if let Entry::Request(request) = entry
            && let Some(owner) = request.owner(redactor.key_settings())
        {
            if request.status >= 400 {
                let first = &mut refused.entry(owner.to_string()).or_default()[usize::from(request.scripted.is_some())];
                // The newest entry comes first, so the first request stays.
                *first = Some(refusal(request, redactor));
            }
            match requests.get_mut(&*owner) {
                Some(count) => *count += 1,
                None => drop(requests.insert(owner.into_owned(), 1)),
            }
        }
        None
    });
    let mut delivered: HashMap<&str, usize> = HashMap::new();
    for delivery in deliveries {
        *delivered.entry(&delivery.event.workspace).or_default() += 1;
    }
    let key = |workspace: Arc<Workspace>| {
        let test = workspace.lock().test().map(|test| shown(test, redactor));
        let by_runner = |test: &TestOutcome| TestFailure {
            request: None,
            reason: test.message.clone().unwrap_or_else(|| "it failed".to_owned()),
        };
        // What a scenario refused may be as the test planned, so what its runner said comes first.
        let with_runner = |met: TestFailure, test: &TestOutcome| TestFailure {
            reason: format!("{}; {}", by_runner(test).reason, met.reason),
            ..met
        };
        let mut why = |test: &TestOutcome| match refused.remove(&**workspace.name()).unwrap_or_default() {
            [Some(refused), _] => refused,
            [None, Some(met)] => with_runner(met, test),
            [None, None] => by_runner(test),
        };
        let failed = test.as_ref().filter(|test| test.outcome == Ending::Failed);
        JudgedKey {
            key: redactor.key(workspace.name()).into_owned(),
            workspace: workspace.id().into(),
            requests: requests.get(&**workspace.name()).copied().unwrap_or_default(),
            deliveries: delivered.get(&**workspace.name()).copied().unwrap_or_default(),
            failure: failed.map(&mut why),
            test: test.map(|test| test.test),
        }
    };
    scope.workspaces(control).into_iter().map(key).collect()
}

fn refusal(request: &RequestRecord, redactor: Redactor<'_>) -> TestFailure {
    let (method, target) = request.transcript.request_line();
    let (line, answer) = (story::request_line(method, target), story::answer_text(request));
    let remedy = if request.status == 429 { format!("; {AFTER_429}") } else { String::new() };
    let reason = format!("{line} was refused with {answer}: {}{remedy}", story::decision(request).1);
    TestFailure { request: Some(request.transcript.id().to_owned()), reason: redactor.text(&reason).into_owned() }
}
