//! The preview's workflows and users of one workspace: create, list, change, cancel, complete, restore. Their form on the wire is in
//! `contract::preview`.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::events::{FireRequest, Origin};
use super::sources::RandomSources;
use crate::clock::{Instant, Now};
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::preview::{Page, Workflow, WorkflowFields, WorkflowQuery, WorkflowStatus, bad_cursor};
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{REFERENCE_MATCHED, WORKFLOW_COMPLETED};
use crate::scenario::GivenWorkflow;
use crate::settings::Profile;
use crate::state::budget::{Budget, Charged, Full};

/// One workflow as it is kept and saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkflowRecord {
    id: String,
    name: Option<String>,
    reference: Option<String>,
    status: WorkflowStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// When it completes unless it is cancelled, by the workspace's clock and as wall time.
    completes: Instant,
    completes_at: Timestamp,
    /// True if the events of its completion are still to be fired.
    #[serde(rename = "untold")]
    is_due: bool,
}

impl WorkflowRecord {
    fn view(&self, profile: &Profile) -> Workflow {
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

/// A workflow that is kept. A snapshot shares it.
pub(crate) type KeptWorkflow = Arc<Charged<WorkflowRecord>>;

fn complete_if_due(kept: &mut KeptWorkflow, now: Now) {
    if kept.status == WorkflowStatus::Running && kept.completes <= now.instant {
        let record = Arc::make_mut(kept);
        record.status = WorkflowStatus::Completed;
        record.updated_at = record.updated_at.max(record.completes_at);
    }
}

/// The workflows and users of one workspace, in the order in which they were created. They are few, so they are searched by id.
#[derive(Debug)]
pub(crate) struct Workflows {
    pub(super) records: Vec<KeptWorkflow>,
    pub(super) users: Vec<Arc<Charged<Map<String, Value>>>>,
    budget: Budget,
}

const WORKFLOW: usize = 1024;

fn user_bytes(user: &Map<String, Value>) -> usize {
    256 + 2 * serde_json::to_vec(user).map_or(0, |text| text.len())
}

/// A user's id, which may be of any type.
fn user_id(user: &Map<String, Value>) -> Option<String> {
    let id = user.get("id")?;
    Some(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

impl Workflows {
    pub(super) fn within(budget: &Budget) -> Self {
        Self { records: Vec::new(), users: Vec::new(), budget: budget.clone() }
    }

    pub(super) fn add(&mut self, record: WorkflowRecord) -> Result<(), Full> {
        self.records.push(Charged::new(record, WORKFLOW, &self.budget)?);
        Ok(())
    }

    pub(super) fn add_user(&mut self, user: Map<String, Value>) -> Result<(), Full> {
        let bytes = user_bytes(&user);
        self.users.push(Charged::new(user, bytes, &self.budget)?);
        Ok(())
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.records.iter().position(|record| record.id == id)
    }

    fn user_position(&self, id: &str) -> Option<usize> {
        self.users.iter().position(|user| user_id(user).as_deref() == Some(id))
    }

    /// Adds a workflow or replaces the one with the same id.
    pub(crate) fn place(
        &mut self,
        placed: GivenWorkflow,
        profile: &Profile,
        now: Now,
        sources: &mut RandomSources,
    ) -> Result<Workflow, Error> {
        let known = placed.id.as_deref().and_then(|id| self.position(id)).map(|at| self.records.remove(at));
        let run_time = profile.preview.run_time.get();
        let record = WorkflowRecord {
            id: placed.id.unwrap_or_else(|| sources.make_id(IdKind::Workflow, profile, now)),
            name: placed.fields.name.flatten(),
            reference: placed.fields.reference.flatten(),
            status: placed.status,
            created_at: now.wall,
            updated_at: now.wall,
            completes: now.instant.plus(run_time),
            completes_at: now.wall.saturating_add(run_time).unwrap_or(Timestamp::MAX),
            is_due: placed.status == WorkflowStatus::Running,
        };
        let view = record.view(profile);
        match known {
            // It inherits the charge.
            Some(mut known) => {
                **Arc::make_mut(&mut known) = record;
                self.records.push(known);
            }
            None => self.add(record).map_err(|full| invalid("body", full.to_string()))?,
        }
        Ok(view)
    }

    pub(crate) fn list(
        &mut self,
        query: &WorkflowQuery,
        profile: &Profile,
        now: Now,
    ) -> Result<Listed<Workflow>, Error> {
        let before = match &query.page.cursor {
            None => self.records.len(),
            Some(cursor) => self.position(cursor).ok_or_else(|| bad_cursor(cursor))?,
        };
        let matching = self.records[..before].iter_mut().rev().filter_map(|record| {
            complete_if_due(record, now);
            let matches = query.status.is_none_or(|status| status == record.status)
                && query.created_after.is_none_or(|after| record.created_at > after)
                && query.created_before.is_none_or(|before| record.created_at < before);
            matches.then(|| record.view(profile))
        });
        Ok(listed(matching, &query.page, |workflow| Some(workflow.id.clone())))
    }

    pub(crate) fn read(&mut self, id: &str, profile: &Profile, now: Now) -> Option<Workflow> {
        self.current(id, now).map(|record| record.view(profile))
    }

    pub(crate) fn update(&mut self, id: &str, fields: WorkflowFields, profile: &Profile, now: Now) -> Option<Workflow> {
        let kept = self.current(id, now)?;
        let name = fields.name.unwrap_or_else(|| kept.name.clone());
        let reference = fields.reference.unwrap_or_else(|| kept.reference.clone());
        if name != kept.name || reference != kept.reference {
            let record = Arc::make_mut(kept);
            (record.name, record.reference) = (name, reference);
            record.updated_at = now.wall;
        }
        Some(kept.view(profile))
    }

    /// Cancels a workflow. A cancelled one stays as it is; for a completed one, that is an error. `None` if there is none.
    pub(crate) fn cancel(&mut self, id: &str, profile: &Profile, now: Now) -> Option<Result<Workflow, Error>> {
        let kept = self.current(id, now)?;
        match kept.status {
            WorkflowStatus::Completed => {
                return Some(Err(invalid("status", "a completed workflow cannot be cancelled")));
            }
            WorkflowStatus::Running => {
                let record = Arc::make_mut(kept);
                record.status = WorkflowStatus::Cancelled;
                record.updated_at = now.wall;
            }
            WorkflowStatus::Cancelled => {}
        }
        Arc::make_mut(kept).is_due = false;
        Some(Ok(kept.view(profile)))
    }

    fn current(&mut self, id: &str, now: Now) -> Option<&mut KeptWorkflow> {
        let at = self.position(id)?;
        let kept = &mut self.records[at];
        complete_if_due(kept, now);
        Some(kept)
    }

    /// When the next workflow completes whose event has not been fired.
    pub(crate) fn next_completion(&self) -> Option<Instant> {
        self.records.iter().filter(|record| record.is_due).map(|record| record.completes).min()
    }

    /// The events of workflows that have completed since the last call, oldest first: each completion, and the match of its
    /// reference. Fields that are absent from the profile's `events.data` are left out.
    pub(crate) fn take_completed(&mut self, profile: &Profile, now: Now) -> Vec<FireRequest> {
        let is_due = |kept: &&mut KeptWorkflow| kept.is_due && kept.completes <= now.instant;
        let mut due: Vec<&mut KeptWorkflow> = self.records.iter_mut().filter(is_due).collect();
        due.sort_by_key(|kept| kept.completes);
        let mut events = Vec::new();
        for record in due {
            Arc::make_mut(record).is_due = false;
            complete_if_due(record, now);
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

    /// Adds a user or replaces the one with the same id. Does nothing if the budget is used up.
    pub(crate) fn place_user(
        &mut self,
        mut user: Map<String, Value>,
        profile: &Profile,
        now: Now,
        sources: &mut RandomSources,
    ) {
        let id = user_id(&user).unwrap_or_else(|| {
            let id = sources.make_id(IdKind::User, profile, now);
            user.shift_insert(0, "id".to_owned(), id.clone().into());
            id
        });
        match self.user_position(&id) {
            // The user that is replaced was charged already.
            Some(known) => **Arc::make_mut(&mut self.users[known]) = user,
            None => drop(self.add_user(user)),
        }
    }

    pub(crate) fn list_users(&self, page: &Page) -> Result<Listed<Map<String, Value>>, Error> {
        let after = match &page.cursor {
            None => 0,
            Some(cursor) => self.user_position(cursor).ok_or_else(|| bad_cursor(cursor))? + 1,
        };
        Ok(listed(self.users[after..].iter().map(|user| Map::clone(user)), page, user_id))
    }

    pub(crate) fn read_user(&self, id: &str) -> Option<&Map<String, Value>> {
        self.user_position(id).map(|at| &**self.users[at])
    }
}

#[derive(Clone, Debug)]
pub struct Listed<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

fn invalid(field: &'static str, reason: impl Into<String>) -> Error {
    Error::validation(vec![FieldProblem::new(field, reason.into())])
}

fn listed<T>(mut entries: impl Iterator<Item = T>, page: &Page, id_of: impl Fn(&T) -> Option<String>) -> Listed<T> {
    let data: Vec<T> = entries.by_ref().take(page.limit).collect();
    let has_more = entries.next().is_some();
    let next_cursor = data.last().filter(|_| has_more).and_then(id_of);
    Listed { data, next_cursor }
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
