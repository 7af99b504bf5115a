//! The timeline of one workspace: the events that emissions have planned in it, and when each happens. When they are fired and
//! how they go out is the engine's business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::State;
use super::room::{Room, Share};
use crate::agenda::{Agenda, Slot};
use crate::clock::Instant;
use crate::scenario::Emit;

/// One event to be fired.
#[derive(Clone, Debug)]
pub struct PlannedEvent {
    /// What it comes from.
    pub emit: Arc<Emit>,
    /// The activation that it belongs to; with another one it is off.
    pub activation: u64,
    /// When it happens.
    pub at: Instant,
    /// When it goes out, if not as soon as it happens.
    pub leaves: Option<Instant>,
}

/// The planned events of one workspace, and the state of the task that fires them.
#[derive(Debug)]
pub struct Timeline {
    planned: BTreeMap<(Instant, u64), PlannedEvent>,
    serial: u64,
    room: Share,
    slot: Slot,
    changed: Arc<Notify>,
    /// Whether a task fires what is planned; there is none while nothing is.
    has_task: bool,
    /// Whether the task has to look again.
    called: bool,
}

impl Timeline {
    pub(super) fn new(agenda: &Agenda, room: &Room) -> Self {
        Self {
            planned: BTreeMap::new(),
            serial: 0,
            room: room.share(),
            slot: agenda.slot(),
            changed: Arc::default(),
            has_task: false,
            called: false,
        }
    }

    /// Calls the task that fires what is planned. Returns whether one has to be started.
    #[must_use]
    pub fn call(&mut self) -> bool {
        self.called = true;
        // Due at once: the task looks what there is to do, and notes when there is more.
        self.slot.set(Some(Instant::default()));
        self.changed.notify_one();
        !std::mem::replace(&mut self.has_task, true)
    }

    /// Notified when the task is called.
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// The task begins to look what there is to do.
    pub fn begin_look(&mut self) {
        self.called = false;
    }

    /// Whether the task was called since it began to look.
    pub fn is_called(&self) -> bool {
        self.called
    }

    /// The task has looked, and has to look again at `next` or, if it was called meanwhile, at once. Without a moment it ends.
    pub fn end_look(&mut self, next: Option<Instant>) -> Option<Instant> {
        let next = if self.called { Some(Instant::default()) } else { next };
        self.slot.set(next);
        self.has_task = next.is_some();
        next
    }

    /// Drops everything that is planned.
    pub fn clear(&mut self) {
        while self.take_due(Instant::from_nanos(u64::MAX)).is_some() {}
    }

    /// Adds one event behind those of the same moment, unless the workspaces together have too many.
    pub fn add(&mut self, planned: PlannedEvent) -> bool {
        let is_added = self.room.take(0).is_ok();
        if is_added {
            self.serial += 1;
            self.planned.insert((planned.at, self.serial), planned);
        }
        is_added
    }

    /// Takes the next event that has happened by `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<PlannedEvent> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= now)?;
        self.room.give_back(0);
        Some(entry.remove())
    }

    /// When the next event happens.
    pub fn next_due(&self) -> Option<Instant> {
        self.planned.keys().next().map(|(at, _)| *at)
    }

    /// What is planned under this activation, in the order in which it happens.
    pub fn planned(&self, activation: u64) -> impl Iterator<Item = &PlannedEvent> {
        self.planned.values().filter(move |planned| planned.activation == activation)
    }
}

impl State {
    /// Plans the events of one trigger, which came at `at`. Shuffled ones happen in their order like any others; when the
    /// last has happened they begin to go out, in another order, so that none is sent before it happened. Returns how many were
    /// left out because too many are planned.
    pub fn plan(&mut self, emit: &Arc<Emit>, activation: u64, at: Instant) -> usize {
        let outgoing: Vec<Duration> = emit.plan(&mut self.event_random);
        let mut happening = outgoing.clone();
        happening.sort_unstable();
        let first = happening.first().copied().unwrap_or_default();
        let span = happening.last().copied().unwrap_or_default().saturating_sub(first);
        let mut left_out = 0;
        for (happens, leaves) in happening.into_iter().zip(outgoing) {
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            let planned = PlannedEvent { emit: Arc::clone(emit), activation, at: at.plus(happens), leaves };
            left_out += usize::from(!self.timeline.add(planned));
        }
        left_out
    }
}
