//! The driver of emissions: fires what scenarios plan and workflows tell, when the workspace's clock says so.
//!
//! What is due is the scenario's business, where an event goes the workspace's; this file only waits and hands over. One task
//! a workspace, and none while nothing is planned in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, watch};

use super::Engine;
use super::timeline::{MOST_PLANNED, Planned, Plans, Timeline};
use crate::clock::Instant;
use crate::http::emissions::EmissionOrder;
use crate::http::stopped;
use crate::profile::Profile;
use crate::scenario::Emit;
use crate::workspace::{FireProblem, FireRequest, Origin, Workspace};

/// Most events made before others may look at the plans.
const MOST_AT_A_TIME: usize = 16;

/// What an emission fires, each time.
pub fn emitted(emit: &Emit) -> FireRequest {
    FireRequest {
        event_type: emit.event.clone(),
        data: emit.data.clone(),
        tamper: emit.delivery.tamper,
        extra_copies: emit.delivery.duplicate.saturating_sub(1),
        shuffled: emit.delivery.shuffle,
        lost: emit.delivery.drop,
        origin: Origin::emission(&emit.scenario, emit.name.as_deref(), &emit.label),
        ..FireRequest::default()
    }
}

impl Engine {
    /// Events of emissions that were left out so far, because too many were planned or too many deliveries pending.
    pub fn emissions_left_out(&self) -> u64 {
        self.timelines.left_out.load(Ordering::Relaxed)
    }

    /// Fires what is set off until `stop` becomes true.
    pub async fn run_emissions(
        self: Arc<Self>,
        mut orders: mpsc::UnboundedReceiver<EmissionOrder>,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                order = orders.recv() => match order {
                    Some(order) => self.take_order(order, &stop),
                    None => return,
                },
            }
        }
    }

    /// Plans what was set off, and sees to it that a task carries it out.
    fn take_order(self: &Arc<Self>, order: EmissionOrder, stop: &watch::Receiver<bool>) {
        let EmissionOrder { workspace, set_off, task } = order;
        if workspace.has_left() {
            return;
        }
        let timeline = self.timelines.of(&workspace);
        let mut plans = timeline.plans.lock();
        if let Some((emit, at)) = set_off {
            let activation = self.config_for(Some(workspace.name())).activation;
            let left_out = plans.plan(&emit, activation, at, workspace.lock().event_random());
            self.too_many_planned(&workspace, left_out);
        }
        // Due at once: the task looks what there is to do, and notes when there is more.
        plans.note(Some(Instant::default()));
        drop(task);
        if plans.is_carried_out {
            timeline.changed.notify_one();
        } else {
            plans.is_carried_out = true;
            tokio::spawn(Arc::clone(self).carry_out(workspace, Arc::clone(&timeline), stop.clone()));
        }
    }

    /// Works off the plans of one workspace until there are none.
    async fn carry_out(
        self: Arc<Self>,
        workspace: Arc<Workspace>,
        timeline: Arc<Timeline>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut leaving = workspace.leaving();
        loop {
            // Making many events takes a while.
            let (engine, of, plans) = (Arc::clone(&self), Arc::clone(&workspace), Arc::clone(&timeline));
            let next = self.blocking.run(move || engine.look(&of, &mut plans.plans.lock())).await;
            let Some(next) = next else { return };
            tokio::select! {
                () = stopped(&mut stop) => {
                    workspace.agenda().fires_at(None);
                    return;
                }
                () = stopped(&mut leaving) => {}
                () = timeline.changed.notified() => {}
                () = workspace.clock().sleep_until(next) => {}
            }
        }
    }

    /// Does what is due, and notes when there is more to do; `None` ends the task.
    fn look(&self, workspace: &Arc<Workspace>, plans: &mut Plans) -> Option<Instant> {
        if workspace.has_left() {
            plans.clear();
            workspace.agenda().fires_at(None);
            return None;
        }
        let now = workspace.clock().instant();
        let next = self.work_off(workspace, plans, now);
        plans.note(next);
        // Deliveries wait for the first look at a moment, not for thousands of events.
        workspace.agenda().fires_at(next.filter(|next| *next > now));
        plans.is_carried_out = next.is_some();
        next
    }

    /// Does some of what is due; says when there is more to do.
    fn work_off(&self, workspace: &Arc<Workspace>, plans: &mut Plans, now: Instant) -> Option<Instant> {
        let emission = self.set_off(workspace, plans, now);
        let mut completion = workspace.lock().next_completion();
        if completion.is_some_and(|at| at <= now) {
            let profile = self.profile_for(Some(workspace.name()));
            let events = workspace.lock().tell_completed(&profile, workspace.clock().now());
            for request in events {
                self.fire_due(workspace, request, &profile, "a workflow completed");
            }
            completion = workspace.lock().next_completion();
        }
        for _ in 0..MOST_AT_A_TIME {
            let Some(planned) = plans.take_due(now) else { break };
            let (emit, config) = (&planned.emit, self.config_for(Some(workspace.name())));
            if config.activation == planned.activation {
                let request = FireRequest { due: planned.leaves, ..emitted(emit) };
                self.fire_due(
                    workspace,
                    request,
                    &config.profile,
                    &format!("scenario {}, {}", emit.scenario, emit.label),
                );
            }
        }
        [emission, completion, plans.next_due()].into_iter().flatten().min()
    }

    /// Plans what time has set off; says when it sets off more.
    fn set_off(&self, workspace: &Workspace, plans: &mut Plans, now: Instant) -> Option<Instant> {
        let config = self.config_for(Some(workspace.name()));
        let mut state = workspace.lock();
        let began = state.began(config.activation)?;
        let (counters, _) = state.counters_and_random();
        counters.begin(config.activation);
        let found = config.due_emits(now.since(began), |fingerprint| counters.get(fingerprint).applied);
        let mut left_out = 0;
        for (emit, _) in &found.due {
            state.counters_and_random().0.of(emit.fingerprint).applied += 1;
            left_out += plans.plan(emit, config.activation, now, state.event_random());
        }
        drop(state);
        self.too_many_planned(workspace, left_out);
        found.next.map(|next| began.plus(next))
    }

    /// Fires what time has brought about; what cannot be fired is logged.
    fn fire_due(&self, workspace: &Arc<Workspace>, request: FireRequest, profile: &Profile, why: &str) {
        match self.fire(workspace, request, profile) {
            Ok(_) => {}
            Err(FireProblem::Full(full)) => self.left_out(workspace, 1, &full),
            Err(problem) => self.note(Some(workspace.name()), format!("{why}: not fired: {problem}"), true),
        }
    }

    fn too_many_planned(&self, workspace: &Workspace, count: usize) {
        self.left_out(workspace, count, &format!("{MOST_PLANNED} are planned, which is the most"));
    }

    fn left_out(&self, workspace: &Workspace, count: usize, why: &str) {
        if count > 0 {
            self.timelines.left_out.fetch_add(count as u64, Ordering::Relaxed);
            self.note(Some(workspace.name()), format!("{count} events of emissions were left out: {why}"), true);
        }
    }

    /// What is planned in a workspace under its present scenarios, in the order in which it happens.
    pub fn planned(&self, workspace: &Arc<Workspace>) -> Vec<Planned> {
        let Some(timeline) = self.timelines.find(workspace) else { return Vec::new() };
        let activation = self.config_for(Some(workspace.name())).activation;
        let plans = timeline.plans.lock();
        plans.all().filter(|planned| planned.activation == activation).cloned().collect()
    }

    /// Puts plans in place that a snapshot kept. They are carried out once the driver is ordered to look.
    pub(super) fn restore_plans(&self, workspace: &Arc<Workspace>, planned: impl IntoIterator<Item = Planned>) {
        let timeline = self.timelines.of(workspace);
        let mut plans = timeline.plans.lock();
        let left_out = planned.into_iter().filter(|planned| !plans.add(planned.clone())).count();
        drop(plans);
        self.too_many_planned(workspace, left_out);
    }
}
