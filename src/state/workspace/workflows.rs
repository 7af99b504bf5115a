//! The workflows and users of one workspace, as they are stored, saved and restored. What the API does with them is in
//! `preview`; their form on the wire is in `contract::preview`.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clock::{Instant, Now};
use crate::contract::preview::{Workflow, WorkflowStatus};
use crate::contract::timestamp::timestamp_of;
use crate::settings::Profile;
use crate::state::budget::{Budget, Charge};

/// One workflow as it is kept and saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowRecord {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) status: WorkflowStatus,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// When it completes unless it is cancelled, by the workspace's clock and as wall time.
    pub(super) completes: Instant,
    pub(super) completes_at: Timestamp,
    /// Whether the events of its completion are still to be fired.
    #[serde(rename = "untold")]
    pub(super) is_due: bool,
}

impl WorkflowRecord {
    /// Completes the workflow once its time has come, whether or not its event has been fired yet.
    pub(super) fn settle(&mut self, now: Now) {
        if self.status == WorkflowStatus::Running && self.completes <= now.instant {
            self.status = WorkflowStatus::Completed;
            self.updated_at = self.updated_at.max(self.completes_at);
        }
    }

    pub(super) fn view(&self, profile: &Profile) -> Workflow {
        let shown = |instant| timestamp_of(&self.id, instant, profile.time.precision);
        Workflow {
            id: self.id.clone(),
            name: self.name.clone(),
            status: self.status,
            reference: self.reference.clone(),
            created_at: shown(self.created_at),
            updated_at: shown(self.updated_at),
        }
    }
}

/// The workflows and users of one workspace, in the order in which they were created. They are few, so they are searched by id.
#[derive(Debug)]
pub(crate) struct Workflows {
    pub(super) records: Vec<WorkflowRecord>,
    /// With their ids.
    pub(super) users: Vec<(String, Map<String, Value>)>,
    pub(super) charge: Charge,
}

/// Bytes that a workflow takes in memory, with its name and reference.
pub(super) const WORKFLOW: usize = 1024;

/// Roughly the bytes that a user takes in memory.
pub(super) fn user_bytes(user: &Map<String, Value>) -> usize {
    256 + 2 * serde_json::to_vec(user).map_or(0, |text| text.len())
}

impl Workflows {
    pub(super) fn within(budget: &Budget) -> Self {
        Self { records: Vec::new(), users: Vec::new(), charge: Charge::empty(budget) }
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.records.iter().position(|record| record.id == id)
    }

    pub(super) fn user_position(&self, id: &str) -> Option<usize> {
        self.users.iter().position(|(known, _)| known == id)
    }

    /// The workflows and users of a snapshot. The error names the one that cannot be restored.
    pub(crate) fn restore(
        saved: &[WorkflowRecord],
        users: &[Map<String, Value>],
        budget: &Budget,
    ) -> Result<Self, String> {
        let (mut workflows, mut ids) = (Self::within(budget), HashSet::new());
        for record in saved {
            if !ids.insert(&record.id) {
                return Err(format!("workflow {} is there twice", record.id));
            }
            workflows.charge.grow(WORKFLOW).map_err(|full| full.to_string())?;
            workflows.records.push(record.clone());
        }
        for user in users {
            workflows.charge.grow(user_bytes(user)).map_err(|full| full.to_string())?;
            let id = user.get("id").map(id_text).unwrap_or_default();
            workflows.users.push((id, user.clone()));
        }
        Ok(workflows)
    }
}

/// A user's id may be of any type.
pub(super) fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
