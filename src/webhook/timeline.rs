//! The timeline of one workspace: the events that emissions have planned in it, and when each happens. What is fired and how
//! it goes out is the emitter's business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::agenda::{Agenda, Slot};
use crate::clock::{Moment, Random};
use crate::scenario::Emit;

/// One event to be fired.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it comes from.
    pub emit: Arc<Emit>,
    /// The activation that it belongs to; with another one it is off.
    pub activation: u64,
    /// When it happens.
    pub at: Moment,
    /// When it goes out, if not as soon as it happens.
    pub leaves: Option<Moment>,
}

/// The plans of one workspace, shared by whoever makes them and the task that carries them out.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) plans: Mutex<Plans>,
    /// Told when there is something new.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct Plans {
    planned: BTreeMap<(Moment, u64), Planned>,
    serial: u64,
    slot: Slot,
    /// Whether a task carries the plans out; there is none while nothing is planned.
    pub(super) is_carried_out: bool,
}

impl Timeline {
    pub(super) fn new(agenda: &Agenda) -> Self {
        let plans = Plans { planned: BTreeMap::new(), serial: 0, slot: agenda.slot(), is_carried_out: false };
        Self { plans: Mutex::new(plans), changed: Notify::new() }
    }
}

impl Plans {
    /// Plans the events of one trigger, which came at `at`. Shuffled ones happen in their order like any others; when the
    /// last has happened they begin to go out, in another order, so that none is told before it happened.
    pub(super) fn plan(&mut self, emit: &Arc<Emit>, activation: u64, at: Moment, random: &mut Random) {
        let outgoing: Vec<Duration> = emit.plan(random);
        let mut happening = outgoing.clone();
        happening.sort_unstable();
        let first = happening.first().copied().unwrap_or_default();
        let span = happening.last().copied().unwrap_or_default().saturating_sub(first);
        for (happens, leaves) in happening.into_iter().zip(outgoing) {
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            self.add(Planned { emit: Arc::clone(emit), activation, at: at.plus(happens), leaves });
        }
    }

    /// Adds one event behind those of the same moment.
    pub(super) fn add(&mut self, planned: Planned) {
        self.serial += 1;
        self.planned.insert((planned.at, self.serial), planned);
    }

    /// Takes the next event that has happened by `now`.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Planned> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the next event happens.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.planned.keys().next().map(|(at, _)| *at)
    }

    /// Everything planned, in the order in which it happens.
    pub(super) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.planned.values()
    }

    /// Notes on the workspace's agenda when something has to be done next.
    pub(super) fn note(&mut self, next: Option<Moment>) {
        self.slot.set(next);
    }
}
