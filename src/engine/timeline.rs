//! The timeline of one workspace: the events that emissions have planned in it, and when each happens. What is fired and how
//! it goes out is in `emissions`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::agenda::{Agenda, Slot};
use crate::clock::{Instant, Random};
use crate::scenario::Emit;
use crate::webhook::per_workspace::PerWorkspace;
use crate::workspace::Workspace;

/// One event to be fired.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What it comes from.
    pub emit: Arc<Emit>,
    /// The activation that it belongs to; with another one it is off.
    pub activation: u64,
    /// When it happens.
    pub at: Instant,
    /// When it goes out, if not as soon as it happens.
    pub leaves: Option<Instant>,
}

/// Most events planned at a time, over all workspaces.
pub const MOST_PLANNED: usize = 100_000;

/// The timelines of all workspaces.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    by_workspace: Mutex<PerWorkspace<Arc<Timeline>>>,
    /// How many events are planned.
    planned: Arc<AtomicUsize>,
    /// How many were left out so far, because too many were planned or too many deliveries pending.
    pub(super) left_out: AtomicU64,
}

impl Timelines {
    /// The timeline of a workspace, which gets one if it has none.
    pub(super) fn of(&self, workspace: &Arc<Workspace>) -> Arc<Timeline> {
        let make = || Arc::new(Timeline::new(workspace.agenda(), Arc::clone(&self.planned)));
        Arc::clone(self.by_workspace.lock().of(workspace, |_| false, make))
    }

    /// The timeline of a workspace, if it has one.
    pub(super) fn find(&self, workspace: &Arc<Workspace>) -> Option<Arc<Timeline>> {
        self.by_workspace.lock().get(workspace).cloned()
    }
}

/// The plans of one workspace, shared by whoever makes them and the task that carries them out.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) plans: Mutex<Plans>,
    /// Notified when there is something new.
    pub(super) changed: Notify,
}

#[derive(Debug)]
pub(super) struct Plans {
    planned: BTreeMap<(Instant, u64), Planned>,
    serial: u64,
    /// How many are planned in all workspaces.
    all: Arc<AtomicUsize>,
    slot: Slot,
    /// Whether a task carries the plans out; there is none while nothing is planned.
    pub(super) is_carried_out: bool,
}

impl Timeline {
    fn new(agenda: &Agenda, all: Arc<AtomicUsize>) -> Self {
        let plans = Plans { planned: BTreeMap::new(), serial: 0, all, slot: agenda.slot(), is_carried_out: false };
        Self { plans: Mutex::new(plans), changed: Notify::new() }
    }
}

impl Plans {
    /// Plans the events of one trigger, which came at `at`. Shuffled ones happen in their order like any others; when the
    /// last has happened they begin to go out, in another order, so that none is sent before it happened. Says how many were
    /// left out because too many are planned.
    pub(super) fn plan(&mut self, emit: &Arc<Emit>, activation: u64, at: Instant, random: &mut Random) -> usize {
        let outgoing: Vec<Duration> = emit.plan(random);
        let mut happening = outgoing.clone();
        happening.sort_unstable();
        let first = happening.first().copied().unwrap_or_default();
        let span = happening.last().copied().unwrap_or_default().saturating_sub(first);
        let mut left_out = 0;
        for (happens, leaves) in happening.into_iter().zip(outgoing) {
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            let planned = Planned { emit: Arc::clone(emit), activation, at: at.plus(happens), leaves };
            left_out += usize::from(!self.add(planned));
        }
        left_out
    }

    /// Adds one event behind those of the same moment, unless too many are planned.
    pub(super) fn add(&mut self, planned: Planned) -> bool {
        if self.all.load(Ordering::Relaxed) >= MOST_PLANNED {
            return false;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        self.serial += 1;
        self.planned.insert((planned.at, self.serial), planned);
        true
    }

    /// Drops everything that is planned.
    pub(super) fn clear(&mut self) {
        self.all.fetch_sub(self.planned.len(), Ordering::Relaxed);
        self.planned.clear();
        self.note(None);
    }

    /// Takes the next event that has happened by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Planned> {
        let entry = self.planned.first_entry().filter(|entry| entry.key().0 <= now)?;
        self.all.fetch_sub(1, Ordering::Relaxed);
        Some(entry.remove())
    }

    /// When the next event happens.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.planned.keys().next().map(|(at, _)| *at)
    }

    /// Everything planned, in the order in which it happens.
    pub(super) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.planned.values()
    }

    /// Notes on the workspace's agenda when something has to be done next.
    pub(super) fn note(&mut self, next: Option<Instant>) {
        self.slot.set(next);
    }
}

impl Drop for Plans {
    fn drop(&mut self) {
        self.clear();
    }
}
