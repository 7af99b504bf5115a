//! The timeline of one workspace: the events that emissions have planned in it, and when each happens. The engine fires and
//! delivers them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::agenda::{Agenda, Slot};
use crate::clock::{Instant, Random};
use crate::scenario::Emit;
use crate::state::budget::Budget;

/// Maximum number of events that the timed emissions of a workspace fire at once, and then in each second of the machine's time. Moving a clock
/// past an endless emission could otherwise occupy the machine for hours.
pub const MAX_AT_ONCE: u64 = 200_000;
pub const PER_SECOND: u64 = 1_000;

/// How many events the timed emissions of a workspace may still fire.
#[derive(Debug)]
pub struct FiringBudget {
    left: u64,
    /// The machine's time of the last refill of `left`.
    at: Instant,
}

impl Default for FiringBudget {
    fn default() -> Self {
        Self { left: MAX_AT_ONCE, at: Instant::default() }
    }
}

impl FiringBudget {
    /// Counts fired events; returns how long to pause by the machine's time.
    pub fn spend(&mut self, fired: usize, now: Instant) -> Duration {
        let refill = now.since(self.at).as_millis() * u128::from(PER_SECOND) / 1_000;
        if refill > 0 {
            self.left = self.left.saturating_add(u64::try_from(refill).unwrap_or(MAX_AT_ONCE)).min(MAX_AT_ONCE);
            self.at = now;
        }
        let fired = fired as u64;
        let lacking = fired.saturating_sub(self.left);
        self.left = self.left.saturating_sub(fired);
        Duration::from_secs(lacking) / u32::try_from(PER_SECOND).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Debug)]
pub struct PlannedEvent {
    pub emit: Arc<Emit>,
    /// The activation of scenarios that it belongs to; it is dropped once another is in force.
    pub activation: u64,
    pub at: Instant,
    /// When it is sent, if later than it happens.
    pub leaves: Option<Instant>,
}

/// The planned events of one workspace, and the state of the task that waits for the next.
#[derive(Debug)]
pub struct Timeline {
    planned: BTreeMap<(Instant, u64), PlannedEvent>,
    serial: u64,
    budget: Budget,
    slot: Slot,
    changed: Arc<Notify>,
    /// When to look next, and how long to wait by the machine's time before that.
    next: Option<(Instant, Duration)>,
    /// True if a task waits for `next`. There is none while nothing is planned.
    has_task: bool,
    /// True if something became due since the last look began.
    has_due: bool,
    /// True if timed emissions were too many, and are slowed.
    pub is_slowed: bool,
}

impl Timeline {
    pub(super) fn new(agenda: &Agenda, budget: &Budget) -> Self {
        Self {
            planned: BTreeMap::new(),
            serial: 0,
            budget: budget.clone(),
            slot: agenda.slot(),
            changed: Arc::default(),
            next: None,
            has_task: false,
            has_due: false,
            is_slowed: false,
        }
    }

    /// Records that something may be due now. The caller then fires it.
    pub fn mark_due(&mut self) {
        self.has_due = true;
        // Due at once: the next reader of the timeline sets the slot to the next due time.
        self.slot.set(Some(Instant::default()));
    }

    pub fn has_due(&self) -> bool {
        self.has_due
    }

    pub fn begin_look(&mut self) {
        self.has_due = false;
    }

    /// Records when to look again. Returns true if the caller has to start the task that waits until then.
    #[must_use]
    pub fn end_look(&mut self, next: Option<Instant>, pause: Duration) -> bool {
        // A mark set in the meantime makes its caller look again.
        if !self.has_due {
            self.slot.set(next);
        }
        self.next = next.map(|next| (next, pause));
        self.changed.notify_one();
        next.is_some() && !std::mem::replace(&mut self.has_task, true)
    }

    /// For the task: when to look again, by the clock and after which pause. On `None` it ends.
    pub fn next_look(&mut self) -> Option<(Instant, Duration)> {
        self.has_task = self.next.is_some();
        self.next
    }

    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    pub fn clear(&mut self) {
        self.planned.clear();
    }

    /// Adds one event after those at the same instant.
    pub fn add(&mut self, planned: PlannedEvent) {
        self.serial += 1;
        self.planned.insert((planned.at, self.serial), planned);
    }

    pub fn pop_due(&mut self, now: Instant) -> Option<PlannedEvent> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= now)?;
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
            if self.budget.room().is_err() {
                dropped += 1;
                continue;
            }
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            let planned = PlannedEvent { emit: Arc::clone(emit), activation, at: at.plus(happens), leaves };
            self.add(planned);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_fired_at_once_and_more_at_a_pace() {
        let at = |millis: u64| Instant::after_start(Duration::from_millis(millis));
        let mut budget = FiringBudget::default();
        for _ in 0..MAX_AT_ONCE / 16 {
            assert_eq!(budget.spend(16, at(0)), Duration::ZERO);
        }
        assert_eq!(budget.spend(16, at(0)), Duration::from_millis(16));
        assert_eq!(budget.spend(16, at(16)), Duration::ZERO);
        assert_eq!(budget.spend(20, at(16)), Duration::from_millis(20));
        // As fast as an emission on a running clock may be for ever.
        for second in 1..1_000 {
            assert_eq!(budget.spend(1_000, at(16 + second * 1_000)), Duration::ZERO, "{second}");
        }
        assert_eq!(budget.spend(1, at(1_000_000_000)), Duration::ZERO);
        assert_eq!(budget.left, MAX_AT_ONCE - 1);
    }
}
