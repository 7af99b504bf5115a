//! Accounts for the memory that deliveries take. An event's body is shared by its deliveries and attempts, so it counts once,
//! for as long as any delivery of it is kept.

use std::collections::HashMap;
use std::sync::Arc;

use crate::workspace::EventRecord;

/// Most bytes of all deliveries, pending and finished.
pub const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of a delivery, without the event's body and its attempts.
pub(super) const DELIVERY: usize = 512;
/// Bytes of an event without its body, and those for each skipped subscription.
const EVENT: usize = 512;
const SKIPPED: usize = 64;

/// Bytes of all deliveries, and how many of them belong to pending ones.
#[derive(Debug, Default)]
pub(super) struct Held {
    all: usize,
    pending: usize,
    /// How many deliveries of an event are kept, and how many of them are pending; by the event's address.
    events: HashMap<usize, (usize, usize)>,
}

impl Held {
    /// Bytes of all deliveries kept.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Whether an event with this many deliveries has room if all finished deliveries are evicted.
    pub(super) fn has_room(&self, event: &EventRecord, deliveries: usize) -> bool {
        self.pending + event_bytes(event) + deliveries * DELIVERY <= MOST_BYTES
    }

    /// Counts the new, pending deliveries of an event.
    pub(super) fn keep(&mut self, event: &Arc<EventRecord>, deliveries: usize) {
        let bytes = event_bytes(event) + deliveries * DELIVERY;
        self.events.insert(address(event), (deliveries, deliveries));
        self.all += bytes;
        self.pending += bytes;
    }

    /// Counts a delivery as pending.
    pub(super) fn begin(&mut self, event: &Arc<EventRecord>, own: usize) {
        let (_, pending) = self.events.entry(address(event)).or_default();
        *pending += 1;
        self.pending += own;
        if *pending == 1 {
            self.pending += event_bytes(event);
        }
    }

    /// Counts a delivery as no longer pending.
    pub(super) fn end(&mut self, event: &Arc<EventRecord>, own: usize) {
        let Some((_, pending)) = self.events.get_mut(&address(event)) else { return };
        *pending -= 1;
        self.pending -= own;
        if *pending == 0 {
            self.pending -= event_bytes(event);
        }
    }

    /// Removes a delivery that is not pending.
    pub(super) fn release(&mut self, event: &Arc<EventRecord>, own: usize) {
        let Some((kept, _)) = self.events.get_mut(&address(event)) else { return };
        *kept -= 1;
        self.all -= own;
        if *kept == 0 {
            self.all -= event_bytes(event);
            self.events.remove(&address(event));
        }
    }

    /// Changes the size of a kept delivery. A pending one needs [`Self::end`] before and [`Self::begin`] after it.
    pub(super) fn resize(&mut self, before: usize, after: usize) {
        self.all = self.all - before + after;
    }
}

fn event_bytes(event: &EventRecord) -> usize {
    let damage = event.damage.as_ref().map_or(0, |damage| damage.len());
    EVENT + event.body.len() + damage + SKIPPED * event.skipped.len()
}

fn address(event: &Arc<EventRecord>) -> usize {
    Arc::as_ptr(event).addr()
}
