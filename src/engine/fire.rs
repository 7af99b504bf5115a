//! Firing: an event is made under its workspace's lock, then handed over to be delivered.

use std::sync::Arc;

use super::Engine;
use super::deliveries::{DeliveryRecord, Full};
use crate::contract::ids::IdKind;
use crate::profile::Profile;
use crate::workspace::{EventRecord, FireProblem, FireRequest, PlannedDelivery, Workspace};

impl Engine {
    /// Fires an event at the matching subscriptions of a workspace.
    pub fn fire(
        &self,
        workspace: &Arc<Workspace>,
        request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let event = self.make_event(workspace, request, profile)?;
        let handed = self.hand_over(workspace, Arc::clone(&event));
        handed.map(|()| event).map_err(|full| FireProblem::Full(full.to_string()))
    }

    /// Makes an event without handing it over.
    pub fn make_event(
        &self,
        workspace: &Workspace,
        request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let now = workspace.clock().now();
        workspace.lock().fire(workspace.name(), request, profile, now).map(Arc::new)
    }

    /// Hands an event over to be delivered: enters its deliveries in the store, then appends it to the journal. Nothing happens if
    /// there is no room for them.
    pub fn hand_over(&self, workspace: &Arc<Workspace>, event: Arc<EventRecord>) -> Result<(), Full> {
        self.deliveries.enter(workspace, &event)?;
        self.journal.hand_over(workspace, event);
        Ok(())
    }

    /// Sends the same event, with the same id and body, to the same subscription again, signed afresh. Gives the new delivery's id.
    pub fn redeliver(&self, workspace: &Arc<Workspace>, old: &DeliveryRecord) -> Result<String, Full> {
        let (now, profile) = (workspace.clock().now(), self.profile_for(Some(workspace.name())));
        let id = workspace.lock().make_id(IdKind::Delivery, &profile, now);
        let planned = PlannedDelivery { id: id.clone(), attempts_before: 0, ..PlannedDelivery::clone(&old.planned) };
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
