//! Whose the problems of a verdict are: the keys, the tests that they belong to, how many requests and deliveries each has, and what was
//! refused.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::call::Scope;
use super::render::cell;
use super::snapshot::reset_notice;
use super::story::{self, AFTER_429};
use super::test_outcome::{Ending, TestOutcome, is_outcome, shown};
use crate::contract::routes::Operation;
use crate::redact::Redactor;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::record::{RequestId, WorkspaceId};
use crate::state::journal::{Entry, Reason, RequestRecord};
use crate::state::workspace::Workspace;
use crate::util::wording::counted;

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
    /// The first request that was refused, one that a scenario answered only if there is no other; if none had the test's key, the first
    /// that came without a valid key while the test ran.
    pub(crate) request: Option<String>,
    /// Why it was refused; without such a request, what the test's runner said.
    pub(crate) reason: String,
}

/// Requests to an endpoint that the API refused for one reason.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Refusal {
    /// The first of them.
    pub(crate) request: RequestId,
    /// Its key: a test key whole, any other masked.
    pub(crate) key: Option<String>,
    pub(crate) status: u16,
    /// How many there are.
    pub(crate) requests: usize,
    /// What was refused, and why.
    pub(crate) message: String,
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

impl Refusal {
    /// As a line of a verdict.
    pub(crate) fn line(&self) -> ProblemLine {
        let of = self.key.as_ref().map_or_else(|| "without a valid key".to_owned(), |key| format!("key {}", cell(key)));
        ProblemLine { id: cell(&self.request), message: cell(&self.message), of }
    }
}

/// A status, the operation where that makes a difference, and why it was refused.
type RefusalReason = (u16, Option<Operation>, String);

/// Refused requests by their reason: the first of each, and how many there are.
#[derive(Default)]
pub(super) struct Refusals(BTreeMap<RefusalReason, (Arc<RequestRecord>, usize)>);

impl Refusals {
    /// Counts a request if it was refused; the newest come first.
    pub(super) fn count(&mut self, request: &Arc<RequestRecord>) {
        if !story::is_refused_by_api(request) || story::no_endpoint(request).is_some() {
            return;
        }
        let reason = match &request.reason {
            // They differ in the time left.
            Reason::RateLimited => (request.status, None, String::new()),
            Reason::Unauthorized { advice, .. } => (request.status, None, advice.to_string()),
            // By field, because the messages quote the values.
            Reason::Invalid(problems) => {
                let fields: Vec<&str> = problems.iter().map(|problem| &*problem.field).collect();
                (request.status, request.operation, fields.join(", "))
            }
            _ => (request.status, request.operation, story::decision(request).1),
        };
        let (first, count) = self.0.entry(reason).or_insert_with(|| (Arc::clone(request), 0));
        (*first, *count) = (Arc::clone(request), *count + 1);
    }

    /// The oldest first.
    pub(super) fn shown(self, redactor: Redactor<'_>) -> Vec<Refusal> {
        let mut found: Vec<_> = self.0.into_values().collect();
        found.sort_by_key(|(first, _)| first.at);
        let shown = |(first, requests): (Arc<RequestRecord>, usize)| Refusal {
            request: first.transcript.id().into(),
            key: first.carried_key(redactor.key_settings()).map(|key| redactor.key(&key).into_owned()),
            status: first.status,
            requests,
            message: refusal(&first, redactor).reason,
        };
        found.into_iter().map(shown).collect()
    }
}

/// What came without a valid key while a failed test ran: between the last reset of its key and the report of its outcome.
#[derive(Default)]
struct Meanwhile {
    /// The notice that the key was reset.
    reset: String,
    /// False before the outcome, which is read first, and after the reset.
    is_running: bool,
    first: Option<Arc<RequestRecord>>,
    count: usize,
}

impl Meanwhile {
    fn failure(&self, redactor: Redactor<'_>) -> Option<TestFailure> {
        let TestFailure { request, reason } = refusal(self.first.as_ref()?, redactor);
        let which = match self.count {
            1 => "it came".to_owned(),
            count => format!("the first of {} that came", counted(count, "request")),
        };
        Some(TestFailure { request, reason: format!("{reason}; {which} without a valid key while the test ran") })
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
    let workspaces = scope.workspaces(control);
    let has_failed = |it: &&Arc<Workspace>| it.lock().test().is_some_and(|test| test.outcome == Ending::Failed);
    let mut meanwhile: HashMap<&str, Meanwhile> = HashMap::new();
    for workspace in workspaces.iter().filter(has_failed) {
        let reset = reset_notice(&redactor.key(workspace.name()));
        meanwhile.insert(workspace.name(), Meanwhile { reset, ..Meanwhile::default() });
    }
    // The newest entry comes first.
    control.journal.search(None, usize::MAX, |_, entry| -> Option<()> {
        if let Entry::Notice(notice) = entry {
            match notice.workspace.as_ref().and_then(|name| meanwhile.get_mut(&**name)) {
                Some(test) if is_outcome(notice) => test.is_running = true,
                Some(_) => {}
                None => meanwhile
                    .values_mut()
                    .filter(|test| test.reset == notice.message)
                    .for_each(|test| test.is_running = false),
            }
        }
        if let Entry::Request(request) = entry
            && request.workspace.is_none()
            && matches!(request.reason, Reason::Unauthorized { .. })
        {
            for test in meanwhile.values_mut().filter(|test| test.is_running) {
                (test.first, test.count) = (Some(Arc::clone(request)), test.count + 1);
            }
        }
        if let Entry::Request(request) = entry
            && let Some(owner) = request.owner(redactor.key_settings())
        {
            if request.status >= 400 && !request.is_incidental() {
                let is_scripted = !story::is_refused_by_api(request);
                let first = &mut refused.entry(owner.to_string()).or_default()[usize::from(is_scripted)];
                // So the first request stays.
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
    let key = |workspace: &Arc<Workspace>| {
        let test = workspace.lock().test().map(|test| shown(test, redactor));
        let by_runner = |test: &TestOutcome| TestFailure {
            request: None,
            reason: test.message.clone().unwrap_or_else(|| "it failed".to_owned()),
        };
        // What a scenario refused may be as the test planned, and what came without a key of another test, so what its runner said
        // comes first.
        let with_runner = |met: TestFailure, test: &TestOutcome| TestFailure {
            reason: format!("{}; {}", by_runner(test).reason, met.reason),
            ..met
        };
        let failed = test.as_ref().filter(|test| test.outcome == Ending::Failed);
        let name = &**workspace.name();
        let requests = requests.get(name).copied().unwrap_or_default();
        let by_others = meanwhile.get(name).filter(|_| requests == 0).and_then(|test| test.failure(redactor));
        let why = |test: &TestOutcome| match refused.remove(name).unwrap_or_default() {
            [Some(refused), _] => refused,
            [None, Some(met)] => with_runner(met, test),
            [None, None] => by_others.map_or_else(|| by_runner(test), |met| with_runner(met, test)),
        };
        JudgedKey {
            key: redactor.key(workspace.name()).into_owned(),
            workspace: workspace.id().into(),
            requests,
            deliveries: delivered.get(name).copied().unwrap_or_default(),
            failure: failed.map(why),
            test: test.map(|test| test.test),
        }
    };
    workspaces.iter().map(key).collect()
}

fn refusal(request: &RequestRecord, redactor: Redactor<'_>) -> TestFailure {
    let (method, target) = request.transcript.request_line();
    let (line, answer) = (story::request_line(method, target), story::answer_text(request));
    let remedy = if request.status == 429 { format!("; {AFTER_429}") } else { String::new() };
    let reason = format!("{line} was refused with {answer}: {}{remedy}", story::decision(request).1);
    TestFailure { request: Some(request.transcript.id().to_owned()), reason: redactor.text(&reason).into_owned() }
}
