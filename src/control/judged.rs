//! Whose the problems of a verdict are: the keys, the tests that they belong to, and how many requests and deliveries each has.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::context::KeyScope;
use super::render::cell;
use super::test_outcome::masked_without_output;
use super::test_runs::TestRuns;
use crate::redact::Redactor;
use crate::state::engine::deliveries::DeliveryRecord;
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

impl JudgedKey {
    /// True if it is of a test that called nothing.
    pub(crate) fn is_silent(&self) -> bool {
        self.test.is_some() && self.requests == 0 && self.deliveries == 0
    }

    /// The test and the key in a line.
    pub(crate) fn text(&self) -> String {
        let test = self.test.as_ref().map_or_else(String::new, |test| format!("test {}, ", cell(test)));
        format!("{test}key {}", cell(&self.key))
    }
}

/// The keys of a scope with what belongs to them.
pub(super) fn judged_keys(
    control: &Control,
    scope: &KeyScope,
    runs: &TestRuns,
    deliveries: &[DeliveryRecord],
    redactor: Redactor<'_>,
) -> Vec<JudgedKey> {
    let mut delivered: HashMap<&str, usize> = HashMap::new();
    for delivery in deliveries {
        *delivered.entry(&delivery.event.workspace).or_default() += 1;
    }
    let key = |workspace: &Arc<Workspace>| {
        let name = &**workspace.name();
        JudgedKey {
            key: redactor.key(workspace.name()).into_owned(),
            workspace: workspace.id().into(),
            requests: runs.counts.get(name).copied().unwrap_or_default(),
            deliveries: delivered.get(name).copied().unwrap_or_default(),
            test: workspace.lock().test().map(|test| masked_without_output(test, redactor).test),
        }
    };
    scope.workspaces(&control.engine).iter().map(key).collect()
}
