//! The driver of emissions: fires what scenarios plan, when the clock says so.
//!
//! What is due is the scenario's business, where an event goes the workspace's; this file only waits and hands over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::Moment;
use crate::http::emissions::EmissionOrder;
use crate::http::stopped;
use crate::journal::{Entry, Journal, Notice};
use crate::scenario::{Emit, Library, Setup};
use crate::webhook::book::{Book, MOST_PENDING};
use crate::webhook::deliver::hand_over;
use crate::workspace::{FireRequest, Registry, Workspace};

/// Fires the emissions of all workspaces.
#[derive(Debug)]
pub struct Emitter {
    library: Arc<Library>,
    registry: Arc<Registry>,
    journal: Arc<Journal>,
    book: Arc<Book>,
    planned: BTreeMap<(Moment, u64), Planned>,
    /// Workspaces with emissions that time sets off, and the activation they met.
    timed: Vec<(Arc<Workspace>, u64)>,
    /// When workflows complete, by workspace.
    completing: BTreeMap<(Moment, u64), Arc<Workspace>>,
    serial: u64,
}

/// One event to be fired.
#[derive(Debug)]
struct Planned {
    workspace: Arc<Workspace>,
    emit: Arc<Emit>,
    /// The activation that it belongs to; with another one it is off.
    activation: u64,
    /// When it goes out, if not as soon as it happens.
    leaves: Option<Moment>,
}

impl Emitter {
    /// A driver over these parts.
    pub fn new(library: Arc<Library>, registry: Arc<Registry>, journal: Arc<Journal>, book: Arc<Book>) -> Self {
        let (planned, timed, completing) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { library, registry, journal, book, planned, timed, completing, serial: 0 }
    }

    /// Fires until `stop` becomes true.
    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<EmissionOrder>, mut stop: watch::Receiver<bool>) {
        let clock = self.registry.clock().clone();
        loop {
            let next = self.work_off(clock.now().moment);
            let wait = async {
                match next {
                    Some(next) => clock.sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => return,
                order = orders.recv() => match order {
                    Some(order) => self.take(order),
                    None => return,
                },
                () = wait => {}
            }
        }
    }

    fn take(&mut self, order: EmissionOrder) {
        match order {
            EmissionOrder::Met(workspace) => {
                let activation = self.setup_of(&workspace).activation;
                self.timed.retain(|(known, _)| known.name() != workspace.name());
                self.timed.push((workspace, activation));
            }
            EmissionOrder::Fire(workspace, emit, at) => {
                let activation = self.setup_of(&workspace).activation;
                self.plan(&workspace, &emit, activation, at);
            }
            EmissionOrder::Completes(workspace, due) => {
                self.serial += 1;
                self.completing.insert((due, self.serial), workspace);
            }
        }
    }

    /// Does what is due at `now`; says when there is more to do.
    fn work_off(&mut self, now: Moment) -> Option<Moment> {
        let mut next = self.set_off(now);
        while let Some(entry) = self.completing.first_entry() {
            let (due, _) = *entry.key();
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                break;
            }
            let workspace = entry.remove();
            self.complete(&workspace);
        }
        while let Some(entry) = self.planned.first_entry() {
            let (due, _) = *entry.key();
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                break;
            }
            let planned = entry.remove();
            if self.setup_of(&planned.workspace).activation == planned.activation {
                self.fire(&planned.workspace, &planned.emit, planned.leaves);
            }
        }
        next
    }

    /// Plans what time has set off; says when it sets off more.
    fn set_off(&mut self, now: Moment) -> Option<Moment> {
        let mut next: Option<Moment> = None;
        for (workspace, activation) in std::mem::take(&mut self.timed) {
            let setup = self.setup_of(&workspace);
            if setup.activation != activation {
                continue;
            }
            let found = {
                let mut state = workspace.lock();
                let (turns, _) = state.turns_and_random();
                turns.begin(activation);
                let found = setup.due_emits(now, |fingerprint| turns.get(fingerprint).applied);
                for (emit, _) in &found.due {
                    turns.of(emit.fingerprint).applied += 1;
                }
                found
            };
            for (emit, _) in &found.due {
                self.plan(&workspace, emit, activation, now);
            }
            if let Some(at) = found.next {
                let at = setup.activated_at.plus(at);
                next = Some(next.map_or(at, |next| next.min(at)));
                self.timed.push((workspace, activation));
            }
        }
        next
    }

    /// Plans the events of one trigger, which came at `at`. Shuffled ones happen in their order like any others; when the
    /// last has happened they begin to go out, in another order, so that none is told before it happened.
    fn plan(&mut self, workspace: &Arc<Workspace>, emit: &Arc<Emit>, activation: u64, at: Moment) {
        let outgoing: Vec<Duration> = emit.plan(workspace.lock().event_random());
        let mut happening = outgoing.clone();
        happening.sort_unstable();
        let first = happening.first().copied().unwrap_or_default();
        let span = happening.last().copied().unwrap_or_default().saturating_sub(first);
        for (happens, leaves) in happening.into_iter().zip(outgoing) {
            self.serial += 1;
            let leaves = emit.delivery.shuffle.then(|| at.plus(span).plus(leaves));
            let planned = Planned { workspace: Arc::clone(workspace), emit: Arc::clone(emit), activation, leaves };
            self.planned.insert((at.plus(happens), self.serial), planned);
        }
    }

    /// Tells of the workflows that have completed, as long as their workspace is kept.
    fn complete(&self, workspace: &Arc<Workspace>) {
        if !self.registry.find(workspace.name()).is_some_and(|kept| Arc::ptr_eq(&kept, workspace)) {
            return;
        }
        let (setup, now) = (self.setup_of(workspace), workspace.clock().now());
        let events = workspace.lock().tell_completed(&setup.profile, now);
        for request in events {
            self.hand_in(workspace, &setup, request, "a workflow completed");
        }
    }

    fn fire(&self, workspace: &Arc<Workspace>, emit: &Emit, due: Option<Moment>) {
        let setup = self.setup_of(workspace);
        let request = FireRequest {
            event_type: emit.event.clone(),
            data: emit.data.clone(),
            due,
            tamper: emit.delivery.tamper,
            extra_copies: emit.delivery.duplicate.saturating_sub(1),
            lost: emit.delivery.drop,
            ..FireRequest::default()
        };
        self.hand_in(workspace, &setup, request, &format!("scenario {}, {}", emit.scenario, emit.label));
    }

    fn hand_in(&self, workspace: &Arc<Workspace>, setup: &Setup, request: FireRequest, why: &str) {
        if self.book.pending() >= MOST_PENDING {
            return self.notice(workspace, format!("an emission was left out: {MOST_PENDING} deliveries are pending"));
        }
        let now = workspace.clock().now();
        let fired = workspace.lock().fire(workspace.name(), request, &setup.profile, now);
        match fired {
            Ok(event) => hand_over(&self.journal, &self.book, Arc::new(event)),
            Err(problem) => self.notice(workspace, format!("{why}: not fired: {problem}")),
        }
    }

    fn notice(&self, workspace: &Workspace, message: String) {
        let at = workspace.clock().now().wall;
        let notice = Notice { at, workspace: Some(Arc::clone(workspace.name())), message, warning: true };
        self.journal.append(Entry::Notice(Arc::new(notice)));
    }

    fn setup_of(&self, workspace: &Workspace) -> Arc<Setup> {
        Arc::clone(self.library.load().setup_for(Some(workspace.name())))
    }
}
