//! What the API does with the preview's workflows and users: create, list, change, cancel, complete.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::workflows::{WORKFLOW, WorkflowRecord, id_text, user_bytes};
use super::{FireRequest, Origin, State};
use crate::clock::{Instant, Now};
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::preview::{Page, Workflow, WorkflowFields, WorkflowQuery, WorkflowStatus, bad_cursor};
use crate::contract::types::{REFERENCE_MATCHED, WORKFLOW_COMPLETED};
use crate::scenario::GivenWorkflow;
use crate::settings::Profile;
use crate::state::budget::Full;

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
        let known = placed.id.as_deref().and_then(|id| self.workflows.position(id));
        if known.is_none() {
            let full = |full: Full| Error::validation(vec![FieldProblem::new("body", full.to_string())]);
            self.workflows.charge.grow(WORKFLOW).map_err(full)?;
        }
        let id = placed.id.unwrap_or_else(|| self.make_id(IdKind::Workflow, profile, now));
        let run_time = profile.preview.run_time.get();
        let record = WorkflowRecord {
            id,
            name: placed.fields.name.flatten(),
            reference: placed.fields.reference.flatten(),
            status: placed.status,
            created_at: now.wall,
            updated_at: now.wall,
            completes: now.instant.plus(run_time),
            completes_at: later(now.wall, run_time),
            is_due: placed.status == WorkflowStatus::Running,
        };
        let view = record.view(profile);
        let workflows = &mut self.workflows.records;
        if let Some(known) = known {
            workflows.remove(known);
        }
        workflows.push(record);
        Ok(view)
    }

    /// When the next workflow completes whose event has not been fired.
    pub fn next_completion(&self) -> Option<Instant> {
        let due = self.workflows.records.iter().filter(|record| record.is_due);
        due.map(|record| record.completes).min()
    }

    pub fn list_workflows(
        &mut self,
        query: &WorkflowQuery,
        profile: &Profile,
        now: Now,
    ) -> Result<Listed<Workflow>, Error> {
        let before = match &query.page.cursor {
            None => self.workflows.records.len(),
            Some(cursor) => self.workflows.position(cursor).ok_or_else(|| bad_cursor(cursor))?,
        };
        let matching = self.workflows.records[..before].iter_mut().rev().filter_map(|record| {
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
        record.is_due = false;
        Some(Ok(record.view(profile)))
    }

    /// The events of workflows that have completed since the last call, oldest first: each completion, and the match of its
    /// reference. Fields that are absent from the profile's `events.data` are left out.
    pub fn take_completed(&mut self, profile: &Profile, now: Now) -> Vec<FireRequest> {
        let is_due = |record: &&mut WorkflowRecord| record.is_due && record.completes <= now.instant;
        let mut due: Vec<&mut WorkflowRecord> = self.workflows.records.iter_mut().filter(is_due).collect();
        due.sort_by_key(|record| record.completes);
        let mut events = Vec::new();
        for record in due {
            record.is_due = false;
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
        let at = self.workflows.position(id)?;
        let record = &mut self.workflows.records[at];
        record.settle(now);
        Some(record)
    }

    /// Adds a user or replaces the one with the same id. Does nothing if the budget is used up.
    pub fn place_user(&mut self, mut user: Map<String, Value>, profile: &Profile, now: Now) {
        let id = if let Some(id) = user.get("id") {
            id_text(id)
        } else {
            let id = self.make_id(IdKind::User, profile, now);
            user.shift_insert(0, "id".to_owned(), id.clone().into());
            id
        };
        let workflows = &mut self.workflows;
        match workflows.user_position(&id) {
            // The user that is replaced was charged already.
            Some(known) => workflows.users[known].1 = user,
            None if workflows.charge.grow(user_bytes(&user)).is_err() => {}
            None => workflows.users.push((id, user)),
        }
    }

    /// A page of users, in the order in which they were added.
    pub fn list_users(&self, page: &Page) -> Result<Listed<Map<String, Value>>, Error> {
        let after = match &page.cursor {
            None => 0,
            Some(cursor) => self.workflows.user_position(cursor).ok_or_else(|| bad_cursor(cursor))? + 1,
        };
        Ok(listed(self.workflows.users[after..].iter().cloned(), page))
    }

    pub fn read_user(&self, id: &str) -> Option<&Map<String, Value>> {
        self.workflows.user_position(id).map(|at| &self.workflows.users[at].1)
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
