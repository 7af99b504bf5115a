//! The preview's workflows and users of one workspace: how they are kept, saved and restored, and what the API does with them.
//! Their form on the wire is in `contract::preview`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::{FireRequest, Origin, State};
use crate::budget::{Budget, Charge, Full};
use crate::clock::{Instant, Now};
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::preview::{Page, Workflow, WorkflowFields, WorkflowQuery, WorkflowStatus, bad_cursor};
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{REFERENCE_MATCHED, WORKFLOW_COMPLETED};
use crate::profile::Profile;
use crate::scenario::GivenWorkflow;
use crate::snapshot::SavedWorkflow;

#[derive(Clone, Debug)]
pub(super) struct WorkflowRecord {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) status: WorkflowStatus,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    /// When it completes unless it is cancelled, by the workspace's clock and as wall time.
    pub(super) completes: (Instant, Timestamp),
}

impl WorkflowRecord {
    /// Completes the workflow once its time has come, whether or not its event has been fired yet.
    pub(super) fn settle(&mut self, now: Now) {
        if self.status == WorkflowStatus::Running && self.completes.0 <= now.instant {
            self.status = WorkflowStatus::Completed;
            self.updated_at = self.updated_at.max(self.completes.1);
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

    /// The workflows for a snapshot, oldest first.
    pub(crate) fn save(&self) -> Vec<SavedWorkflow> {
        let saved = |(serial, record): (&u64, &WorkflowRecord)| SavedWorkflow {
            id: record.id.clone(),
            name: record.name.clone(),
            reference: record.reference.clone(),
            status: record.status.name().to_owned(),
            created_at: record.created_at,
            updated_at: record.updated_at,
            completes: record.completes.0.nanos(),
            completes_at: record.completes.1,
            untold: self.due.contains(&(record.completes.0, *serial)),
        };
        self.by_serial.iter().map(saved).collect()
    }

    /// The users for a snapshot, in order.
    pub(crate) fn save_users(&self) -> Vec<Box<RawValue>> {
        self.users.values().map(|user| to_raw_value(user).expect("JSON always serialises")).collect()
    }

    /// The workflows and users of a snapshot. The error names the one that cannot be restored.
    pub(crate) fn restore(saved: &[SavedWorkflow], users: &[Box<RawValue>], budget: &Budget) -> Result<Self, String> {
        let mut workflows = Self::within(budget);
        for saved in saved {
            let status = WorkflowStatus::from_name(&saved.status);
            let status = status.ok_or_else(|| format!("workflow {}: no status `{}`", saved.id, saved.status))?;
            workflows.made += 1;
            let serial = workflows.made;
            if workflows.serial_by_id.insert(saved.id.clone(), serial).is_some() {
                return Err(format!("workflow {} is there twice", saved.id));
            }
            let completes = (Instant::from_nanos(saved.completes), saved.completes_at);
            if saved.untold {
                workflows.due.insert((completes.0, serial));
            }
            let record = WorkflowRecord {
                id: saved.id.clone(),
                name: saved.name.clone(),
                reference: saved.reference.clone(),
                status,
                created_at: saved.created_at,
                updated_at: saved.updated_at,
                completes,
            };
            workflows.charge.grow(WORKFLOW).map_err(|full| full.to_string())?;
            workflows.by_serial.insert(serial, record);
        }
        for (serial, user) in (1..).zip(users) {
            let user: Map<String, Value> =
                serde_json::from_str(user.get()).map_err(|error| format!("users[{}]: {error}", serial - 1))?;
            workflows.charge.grow(user_bytes(&user)).map_err(|full| full.to_string())?;
            workflows.user_by_id.insert(user_id(&user), serial);
            workflows.users.insert(serial, user);
        }
        Ok(workflows)
    }
}

pub(super) fn user_id(user: &Map<String, Value>) -> String {
    match user.get("id") {
        Some(Value::String(id)) => id.clone(),
        other => other.map(Value::to_string).unwrap_or_default(),
    }
}

#[derive(Clone, Debug)]
pub struct Listed<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

impl State {
    pub fn create_workflow(&mut self, fields: WorkflowFields, profile: &Profile, now: Now) -> Result<Workflow, Error> {
        self.place_workflow(GivenWorkflow { id: None, fields, status: WorkflowStatus::Running }, profile, now)
    }

    /// Adds a workflow or replaces the one with the same id.
    pub fn place_workflow(&mut self, placed: GivenWorkflow, profile: &Profile, now: Now) -> Result<Workflow, Error> {
        let known = placed.id.as_ref().and_then(|id| self.workflows.serial_by_id.get(id).copied());
        if known.is_none() {
            let full = |full: Full| Error::validation(vec![FieldProblem::new("body", full.to_string())]);
            self.workflows.charge.grow(WORKFLOW).map_err(full)?;
        }
        let id = placed.id.unwrap_or_else(|| self.make_id(IdKind::Workflow, profile, now));
        let run_time = profile.preview.run_time.get();
        let record = WorkflowRecord {
            id: id.clone(),
            name: placed.fields.name.flatten(),
            reference: placed.fields.reference.flatten(),
            status: placed.status,
            created_at: now.wall,
            updated_at: now.wall,
            completes: (now.instant.plus(run_time), later(now.wall, run_time)),
        };
        let (view, completes) = (record.view(profile), record.completes.0);
        let workflows = &mut self.workflows;
        workflows.made += 1;
        if let Some(old) = known.and_then(|serial| Some((serial, workflows.by_serial.remove(&serial)?))) {
            workflows.due.remove(&(old.1.completes.0, old.0));
        }
        workflows.serial_by_id.insert(id, workflows.made);
        if record.status == WorkflowStatus::Running {
            workflows.due.insert((completes, workflows.made));
        }
        workflows.by_serial.insert(workflows.made, record);
        Ok(view)
    }

    /// When the next workflow completes whose event has not been fired.
    pub fn next_completion(&self) -> Option<Instant> {
        self.workflows.due.first().map(|(at, _)| *at)
    }

    pub fn list_workflows(
        &mut self,
        query: &WorkflowQuery,
        profile: &Profile,
        now: Now,
    ) -> Result<Listed<Workflow>, Error> {
        let before = match &query.page.cursor {
            None => u64::MAX,
            Some(cursor) => *self.workflows.serial_by_id.get(cursor).ok_or_else(|| bad_cursor(cursor))?,
        };
        let matching = self.workflows.by_serial.range_mut(..before).rev().filter_map(|(_, record)| {
            record.settle(now);
            let matches = query.status.is_none_or(|status| status == record.status)
                && query.created_after.is_none_or(|after| record.created_at > after)
                && query.created_before.is_none_or(|before| record.created_at < before);
            matches.then(|| (record.id.clone(), record.view(profile)))
        });
        Ok(listed(matching, &query.page))
    }

    pub fn read_workflow(&mut self, id: &str, profile: &Profile, now: Now) -> Option<Workflow> {
        self.workflow(id, now).map(|record| record.view(profile))
    }

    pub fn update_workflow(
        &mut self,
        id: &str,
        fields: WorkflowFields,
        profile: &Profile,
        now: Now,
    ) -> Option<Workflow> {
        let record = self.workflow(id, now)?;
        let changed = WorkflowFields { name: Some(record.name.clone()), reference: Some(record.reference.clone()) };
        record.name = fields.name.unwrap_or_else(|| record.name.take());
        record.reference = fields.reference.unwrap_or_else(|| record.reference.take());
        if changed.name.as_ref() != Some(&record.name) || changed.reference.as_ref() != Some(&record.reference) {
            record.updated_at = now.wall;
        }
        Some(record.view(profile))
    }

    /// Cancels a workflow. A cancelled one stays as it is; for a completed one, that is an error. `None` if there is none.
    pub fn cancel_workflow(&mut self, id: &str, profile: &Profile, now: Now) -> Option<Result<Workflow, Error>> {
        let record = self.workflow(id, now)?;
        if record.status == WorkflowStatus::Completed {
            let problem = FieldProblem::new("status", "a completed workflow cannot be cancelled");
            return Some(Err(Error::validation(vec![problem])));
        }
        if record.status == WorkflowStatus::Running {
            record.status = WorkflowStatus::Cancelled;
            record.updated_at = now.wall;
        }
        let (view, completes) = (record.view(profile), record.completes.0);
        if let Some(serial) = self.workflows.serial_by_id.get(id) {
            self.workflows.due.remove(&(completes, *serial));
        }
        Some(Ok(view))
    }

    /// The events of workflows that have completed since the last call, oldest first: each completion, and the match of its
    /// reference. Fields that are absent from the profile's `events.data` are left out.
    pub fn take_completed(&mut self, profile: &Profile, now: Now) -> Vec<FireRequest> {
        let mut events = Vec::new();
        while let Some((completes, serial)) = self.workflows.due.first().copied().filter(|(at, _)| *at <= now.instant) {
            self.workflows.due.remove(&(completes, serial));
            let Some(record) = self.workflows.by_serial.get_mut(&serial) else { continue };
            record.settle(now);
            let id = Value::from(record.id.clone());
            let completed = [("workflow_id", id.clone()), ("status", WorkflowStatus::Completed.name().into())];
            events.push(event(WORKFLOW_COMPLETED, completed, profile));
            if let Some(reference) = &record.reference {
                let matched = [("reference_id", reference.clone().into()), ("workflow_id", id)];
                events.push(event(REFERENCE_MATCHED, matched, profile));
            }
        }
        events
    }

    fn workflow(&mut self, id: &str, now: Now) -> Option<&mut WorkflowRecord> {
        let record = self.workflows.by_serial.get_mut(self.workflows.serial_by_id.get(id)?)?;
        record.settle(now);
        Some(record)
    }

    /// Adds a user or replaces the one with the same id. Does nothing if the budget is used up.
    pub fn place_user(&mut self, mut user: Map<String, Value>, profile: &Profile, now: Now) {
        let id = match user.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(other) => other.to_string(),
            None => {
                let id = self.make_id(IdKind::User, profile, now);
                user.shift_insert(0, "id".to_owned(), id.clone().into());
                id
            }
        };
        let users = &mut self.workflows;
        let serial = match users.user_by_id.get(&id) {
            // The user that is replaced was charged already.
            Some(serial) => *serial,
            None if users.charge.grow(user_bytes(&user)).is_err() => return,
            None => users.users.len() as u64 + 1,
        };
        users.user_by_id.insert(id, serial);
        users.users.insert(serial, user);
    }

    /// A page of users, in the order in which they were added.
    pub fn list_users(&self, page: &Page) -> Result<Listed<Map<String, Value>>, Error> {
        let after = match &page.cursor {
            None => 0,
            Some(cursor) => *self.workflows.user_by_id.get(cursor).ok_or_else(|| bad_cursor(cursor))?,
        };
        let users = self.workflows.users.range(after + 1..).map(|(_, user)| (user_id(user), user.clone()));
        Ok(listed(users, page))
    }

    pub fn read_user(&self, id: &str) -> Option<&Map<String, Value>> {
        self.workflows.users.get(self.workflows.user_by_id.get(id)?)
    }
}

fn listed<T>(mut entries: impl Iterator<Item = (String, T)>, page: &Page) -> Listed<T> {
    let (mut data, mut last) = (Vec::new(), None);
    for (id, entry) in entries.by_ref().take(page.limit) {
        data.push(entry);
        last = Some(id);
    }
    Listed { data, next_cursor: last.filter(|_| entries.next().is_some()) }
}

fn event(event_type: &str, fields: [(&str, Value); 2], profile: &Profile) -> FireRequest {
    let template = profile.events.data.get(event_type);
    let has = |name: &str| template.is_some_and(|template| template.contains_key(name));
    let set = fields.into_iter().filter(|(name, _)| has(name)).map(|(name, value)| (name.to_owned(), value));
    FireRequest {
        event_type: event_type.to_owned(),
        set: set.collect(),
        origin: Origin::Workflow,
        ..FireRequest::default()
    }
}

fn later(wall: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| wall.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}
