//! Fires events: an event is made under its workspace's lock, which decides where it goes, then its deliveries are queued.

use std::sync::{Arc, OnceLock};

use super::Engine;
use super::deliveries::DeliveryRecord;
use crate::contract::ids::IdKind;
use crate::settings::Profile;
use crate::state::budget::Full;
use crate::state::journal::Entry;
use crate::state::workspace::{EventRecord, FireProblem, FireRequest, PlannedDelivery, Workspace};

/// Why the deliveries of a workspace that is gone are cancelled.
pub const WORKSPACE_GONE: &str = "the workspace was reset or evicted";
impl Engine {
    pub fn fire(
        &self,
        workspace: &Arc<Workspace>,
        request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let event = self.make_event(workspace, request, profile)?;
        let handed = self.hand_over(workspace, Arc::clone(&event));
        handed.map(|()| event).map_err(FireProblem::Full)
    }

    pub fn make_event(
        &self,
        workspace: &Workspace,
        request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let now = workspace.clock().now();
        workspace.lock().fire(workspace.name(), request, profile, now).map(Arc::new)
    }

    /// Delivers an event: enters its deliveries in the store, appends it to the journal and puts the deliveries into the
    /// workspace's queue. Does nothing if they do not fit.
    pub fn hand_over(&self, workspace: &Arc<Workspace>, event: Arc<EventRecord>) -> Result<(), Full> {
        self.deliveries.enter(workspace, &event)?;
        self.journal.append_of(Some(workspace), Entry::Event(Arc::clone(&event)));
        if event.lost {
            self.deliveries.cancel_all(&event, event.damage.as_deref().unwrap_or("dropped deliberately"));
        } else if workspace.is_gone() {
            self.deliveries.cancel_all(&event, WORKSPACE_GONE);
        } else if !event.deliveries.is_empty() && workspace.enqueue(&event) {
            // The receiver is closed once the emulator stops.
            let _ = self.to_deliver.send(Arc::clone(workspace));
        }
        Ok(())
    }

    /// Sends the same event, with the same id and body but a new signature, to the same subscription again. Returns the new
    /// delivery's id.
    pub fn redeliver(&self, workspace: &Arc<Workspace>, old: &DeliveryRecord) -> Result<String, Full> {
        let (now, profile) = (workspace.clock().now(), self.profile_for(Some(workspace.name())));
        let id = workspace.lock().sources.make_id(IdKind::Delivery, &profile, now);
        let (copied, serial) = (PlannedDelivery::clone(&old.planned), OnceLock::new());
        let planned = PlannedDelivery { id: id.clone(), attempts_before: 0, serial, ..copied };
        let event = EventRecord {
            deliveries: vec![Arc::new(planned)],
            skipped: Vec::new(),
            due: now.instant,
            handed_at: now.wall,
            ..EventRecord::clone(&old.event)
        };
        self.hand_over(workspace, Arc::new(event)).map(|()| id)
    }
}
