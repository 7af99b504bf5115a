//! The timeline of one workspace: the events that emissions have planned in it, and when each happens. The engine fires and
//! delivers them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::agenda::{Agenda, Slot};
use crate::clock::{Instant, Random};
use crate::scenario::Emit;
use crate::state::budget::{Budget, Charge};

const PLANNED: usize = 256;

#[derive(Clone, Debug)]
pub struct PlannedEvent {
    pub emit: Arc<Emit>,
    /// The activation of scenarios that it belongs to; it is dropped once another is in force.
    pub activation: u64,
    pub at: Instant,
    /// When it is sent, if later than it happens.
    pub leaves: Option<Instant>,
}

/// The planned events of one workspace, and the state of the task that fires them.
#[derive(Debug)]
pub struct Timeline {
    planned: BTreeMap<(Instant, u64), PlannedEvent>,
    serial: u64,
    charge: Charge,
    slot: Slot,
    changed: Arc<Notify>,
    /// Whether a task runs that fires planned events. There is none while nothing is planned.
    has_task: bool,
    /// Whether the task was called since it began its last look.
    called: bool,
    /// Whether timed emissions were too many, and are slowed.
    pub is_slowed: bool,
}

impl Timeline {
    pub(super) fn new(agenda: &Agenda, budget: &Budget) -> Self {
        Self {
            planned: BTreeMap::new(),
            serial: 0,
            charge: Charge::empty(budget),
            slot: agenda.slot(),
            changed: Arc::default(),
            has_task: false,
            called: false,
            is_slowed: false,
        }
    }

    /// Calls the task that fires planned events. Returns true if the caller has to start one.
    #[must_use]
    pub fn wake(&mut self) -> bool {
        self.called = true;
        // Due at once: the task looks at the timeline and then sets the slot to the next due time.
        self.slot.set(Some(Instant::default()));
        self.changed.notify_one();
        !std::mem::replace(&mut self.has_task, true)
    }

    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub fn begin_round(&mut self) {
        self.called = false;
    }

    pub fn is_awake(&self) -> bool {
        self.called
    }

    /// The task has looked. Returns when it has to look again: at once if it was called meanwhile, otherwise at `next`. On `None` it
    /// ends.
    pub fn end_round(&mut self, next: Option<Instant>) -> Option<Instant> {
        let next = if self.called { Some(Instant::default()) } else { next };
        self.slot.set(next);
        self.has_task = next.is_some();
        next
    }

    pub fn clear(&mut self) {
        self.planned.clear();
        self.charge.shrink(self.charge.bytes());
    }

    /// Adds one event after those at the same instant. Returns false if the budget is used up.
    pub fn add(&mut self, planned: PlannedEvent) -> bool {
        let is_added = self.charge.grow(PLANNED).is_ok();
        if is_added {
            self.serial += 1;
            self.planned.insert((planned.at, self.serial), planned);
        }
        is_added
    }

    pub fn take_due(&mut self, now: Instant) -> Option<PlannedEvent> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= now)?;
        self.charge.shrink(PLANNED);
        Some(entry.remove())
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.planned.keys().next().map(|(at, _)| *at)
    }

    pub fn count(&self) -> usize {
        self.planned.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &PlannedEvent> {
        self.planned.values()
    }

    /// The events planned under this activation, in the order in which they happen.
    pub fn planned(&self, activation: u64) -> impl Iterator<Item = &PlannedEvent> {
        self.planned.values().filter(move |planned| planned.activation == activation)
    }

    /// Plans the events of one trigger, which happened at `at`. If they are shuffled, they happen in order and are sent in
    /// another order after the last has happened, so that none is sent before it happens. Returns how many were dropped because
    /// the budget is used up.
    pub fn plan(&mut self, emit: &Arc<Emit>, activation: u64, at: Instant, random: &mut Random) -> usize {
        let outgoing: Vec<Duration> = emit.plan(random);
        let mut happening = outgoing.clone();
        happening.sort_unstable();
        let first = happening.first().copied().unwrap_or_default();
        let span = happening.last().copied().unwrap_or_default().saturating_sub(first);
        let mut dropped = 0;
        for (happens, leaves) in happening.into_iter().zip(outgoing) {
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            let planned = PlannedEvent { emit: Arc::clone(emit), activation, at: at.plus(happens), leaves };
            dropped += usize::from(!self.add(planned));
        }
        dropped
    }
}
