//! The workflows and users of one workspace, as they are stored, saved and restored. What the API does with them is in
//! `preview`; their form on the wire is in `contract::preview`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::budget::{Budget, Charge};
use crate::clock::{Instant, Now};
use crate::contract::preview::{Workflow, WorkflowStatus};
use crate::contract::timestamp::timestamp_of;
use crate::profile::Profile;
use crate::snapshot::text;

/// One workflow as it is kept and saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowRecord {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) status: WorkflowStatus,
    #[serde(with = "text")]
    pub(super) created_at: Timestamp,
    #[serde(with = "text")]
    pub(super) updated_at: Timestamp,
    /// When it completes unless it is cancelled, by the workspace's clock and as wall time.
    pub(super) completes: Instant,
    #[serde(with = "text")]
    pub(super) completes_at: Timestamp,
    /// Whether the event of its completion is still to be fired; if so, it is in [`Workflows::due`].
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

/// The workflows and users of one workspace, in the order in which they were created.
#[derive(Debug)]
pub(crate) struct Workflows {
    pub(super) by_serial: BTreeMap<u64, WorkflowRecord>,
    pub(super) serial_by_id: HashMap<String, u64>,
    pub(super) made: u64,
    /// Workflows whose completion has not been fired as an event yet, by the time of completion.
    pub(super) due: BTreeSet<(Instant, u64)>,
    pub(super) users: BTreeMap<u64, Map<String, Value>>,
    pub(super) user_by_id: HashMap<String, u64>,
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
        Self {
            by_serial: BTreeMap::new(),
            serial_by_id: HashMap::new(),
            made: 0,
            due: BTreeSet::new(),
            users: BTreeMap::new(),
            user_by_id: HashMap::new(),
            charge: Charge::empty(budget),
        }
    }

    /// The workflows and users of a snapshot, oldest first. The error names the one that cannot be restored.
    pub(crate) fn restore(
        saved: &[WorkflowRecord],
        users: &[Map<String, Value>],
        budget: &Budget,
    ) -> Result<Self, String> {
        let mut workflows = Self::within(budget);
        for record in saved {
            workflows.made += 1;
            if workflows.serial_by_id.insert(record.id.clone(), workflows.made).is_some() {
                return Err(format!("workflow {} is there twice", record.id));
            }
            if record.is_due {
                workflows.due.insert((record.completes, workflows.made));
            }
            workflows.charge.grow(WORKFLOW).map_err(|full| full.to_string())?;
            workflows.by_serial.insert(workflows.made, record.clone());
        }
        for (serial, user) in (1..).zip(users) {
            workflows.charge.grow(user_bytes(user)).map_err(|full| full.to_string())?;
            workflows.user_by_id.insert(user_id(user), serial);
            workflows.users.insert(serial, user.clone());
        }
        Ok(workflows)
    }
}

/// The id of a user, as text.
pub(super) fn user_id(user: &Map<String, Value>) -> String {
    match user.get("id") {
        Some(Value::String(id)) => id.clone(),
        other => other.map(Value::to_string).unwrap_or_default(),
    }
}
