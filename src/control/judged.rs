//! Whose the problems of a verdict are: the keys, the tests that they belong to, and how many requests and deliveries each has.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::call::Scope;
use super::render::cell;
use crate::redact::Redactor;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::Entry;
use crate::state::journal::record::WorkspaceId;
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
    /// The test and the key in a line.
    pub(crate) fn text(&self) -> String {
        let test = self.test.as_ref().map_or_else(String::new, |test| format!("test {}, ", cell(test)));
        format!("{test}key {}", cell(&self.key))
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
    control.journal.search(None, usize::MAX, |_, entry| -> Option<()> {
        if let Entry::Request(request) = entry
            && let Some(owner) = request.owner(redactor.key_settings())
        {
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
    let key = |workspace: Arc<Workspace>| JudgedKey {
        key: redactor.key(workspace.name()).into_owned(),
        workspace: workspace.id().into(),
        test: workspace.lock().test().map(|test| redactor.text(&test.test).into_owned()),
        requests: requests.get(&**workspace.name()).copied().unwrap_or_default(),
        deliveries: delivered.get(&**workspace.name()).copied().unwrap_or_default(),
    };
    scope.workspaces(control).into_iter().map(key).collect()
}
