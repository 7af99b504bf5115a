//! What fires without being asked for: emissions of scenarios, from their start, from answers and in time, and what the preview's
//! workflows do when they complete. The scenario decides what is due. A workspace has one task that fires what is planned in it,
//! while anything is planned.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Engine, FireProblem};
use crate::clock::{Clock, Instant, Now};
use crate::contract::rules::{CheckedSubscribe, check_webhook_url};
use crate::contract::types::SubscribeRequest;
use crate::scenario::{EffectiveConfig, Emit, RequestView, after_answer, due_emits};
use crate::settings::Profile;
use crate::state::workspace::{FireRequest, Origin, PlannedEvent, Workspace, WorkspaceState};
use crate::util::tasks::stopped;

/// Most events fired before the lock and the thread are released for others.
const MOST_AT_A_TIME: usize = 16;
/// Most events that the timed emissions of a workspace fire at once, and then in each second of the machine's time. Moving a clock
/// past an endless emission could otherwise occupy the machine for hours.
const MOST_AT_ONCE: u64 = 200_000;
const PER_SECOND: u64 = 1_000;

struct FiringBudget {
    left: u64,
    /// Up to when `left` has been refilled.
    at: Instant,
}

impl FiringBudget {
    /// Counts fired events; returns how long to pause by the machine's time.
    fn spend(&mut self, fired: usize, now: Instant) -> Duration {
        let refill = now.since(self.at).as_millis() * u128::from(PER_SECOND) / 1_000;
        if refill > 0 {
            self.left = self.left.saturating_add(u64::try_from(refill).unwrap_or(MOST_AT_ONCE)).min(MOST_AT_ONCE);
            self.at = now;
        }
        let fired = fired as u64;
        let lacking = fired.saturating_sub(self.left);
        self.left = self.left.saturating_sub(fired);
        Duration::from_secs(lacking) / u32::try_from(PER_SECOND).unwrap_or(u32::MAX)
    }
}

pub fn fire_request_of(emit: &Emit) -> FireRequest {
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
    /// Events of emissions dropped so far, because too many were planned or too many deliveries were pending.
    pub fn dropped_emissions(&self) -> u64 {
        self.dropped_emissions.load(Ordering::Relaxed)
    }

    /// Starts the active scenarios in a workspace. Does nothing if they have been started there before.
    pub fn start_scenarios(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        state: &mut WorkspaceState,
        config: &EffectiveConfig,
        now: Now,
    ) {
        // On its own clock, the activation is as long ago as on the emulator's.
        let clock = workspace.clock();
        let since = if clock.is_plain() {
            config.activated_at
        } else {
            now.instant.minus(clock.base_instant().since(config.activated_at))
        };
        if !state.record_activation(config.activation, since) {
            return;
        }
        for given in config.active.iter().flat_map(|scenario| &scenario.given.subscriptions) {
            if let Some(checked) = checked(given, config) {
                // A full workspace stays as it is; the same limit applies to clients.
                let _ = state.subscribe(checked, &config.profile, now);
            }
        }
        if config.profile.preview.enabled {
            place_announced(state, config, now);
        }
        if config.profile.preview.enabled || config.emits.iter().any(|emit| emit.is_timed()) {
            self.wake_emitter_of(workspace, state);
        }
    }

    pub fn plan_emissions_after(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        config: &EffectiveConfig,
        view: &RequestView<'_>,
        status: u16,
        at: Instant,
    ) {
        for emit in after_answer(config.emits.iter(), view, status) {
            self.plan_emission(workspace, &emit, at);
        }
    }

    pub fn plan_emission(self: &Arc<Self>, workspace: &Arc<Workspace>, emit: &Arc<Emit>, at: Instant) {
        let activation = self.config_for(Some(workspace.name())).activation;
        let mut state = workspace.lock();
        let dropped = state.plan(emit, activation, at);
        self.start_emitter(workspace, &mut state);
        drop(state);
        self.note_dropped_emissions(workspace, dropped);
    }

    pub fn wake_emitter(self: &Arc<Self>, workspace: &Arc<Workspace>) {
        self.wake_emitter_of(workspace, &mut workspace.lock());
    }

    fn wake_emitter_of(self: &Arc<Self>, workspace: &Arc<Workspace>, state: &mut WorkspaceState) {
        workspace.agenda().set_next_firing(Some(Instant::default()));
        self.start_emitter(workspace, state);
    }

    fn start_emitter(self: &Arc<Self>, workspace: &Arc<Workspace>, state: &mut WorkspaceState) {
        if state.timeline.wake() {
            let task = Arc::clone(self).emitter(Arc::clone(workspace), state.timeline.changed());
            self.runtime.spawn(task);
        }
    }

    async fn emitter(self: Arc<Self>, workspace: Arc<Workspace>, changed: Arc<Notify>) {
        let (mut gone, mut stop) = (workspace.gone(), self.stopping.clone());
        let machine = Clock::real();
        let mut budget = FiringBudget { left: MOST_AT_ONCE, at: machine.instant() };
        loop {
            let (engine, of) = (Arc::clone(&self), Arc::clone(&workspace));
            let Some((next, timed)) = self.blocking.answers.run(move || engine.fire_due_events(&of)).await else {
                return;
            };
            let pause = budget.spend(timed, machine.instant());
            if !pause.is_zero() && !std::mem::replace(&mut workspace.lock().timeline.is_slowed, true) {
                let message = format!(
                    "timed emissions are slowed to {PER_SECOND} events a second of real time: more than {MOST_AT_ONCE} were due; a reset ends them"
                );
                self.note(Some(workspace.name()), message, true);
            }
            tokio::select! {
                () = stopped(&mut stop) => {
                    workspace.agenda().set_next_firing(None);
                    return;
                }
                () = stopped(&mut gone) => {}
                () = changed.notified(), if pause.is_zero() => {}
                () = async {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    workspace.clock().sleep_until(next).await;
                } => {}
            }
        }
    }

    /// Fires some of the due events. Returns when to continue, and how many were those of timed emissions; `None` ends the task.
    fn fire_due_events(&self, workspace: &Arc<Workspace>) -> Option<(Instant, usize)> {
        let (now, config) = (workspace.clock().now(), self.config_for(Some(workspace.name())));
        let mut state = workspace.lock();
        state.timeline.begin_round();
        if workspace.is_gone() {
            state.timeline.clear();
            workspace.agenda().set_next_firing(None);
            return state.timeline.end_round(None).map(|next| (next, 0));
        }
        let (timed, dropped) = plan_timed(&mut state, &config, now.instant);
        let completed = state.workflows.take_completed(&config.profile, now);
        let happened: Vec<PlannedEvent> =
            std::iter::from_fn(|| state.timeline.take_due(now.instant)).take(MOST_AT_A_TIME).collect();
        let count = happened.iter().filter(|planned| planned.emit.is_timed()).count();
        drop(state);
        self.note_dropped_emissions(workspace, dropped);
        for request in completed {
            self.fire_due(workspace, request, &config.profile, || "a workflow completed".to_owned());
        }
        for PlannedEvent { emit, leaves, .. } in
            happened.into_iter().filter(|planned| planned.activation == config.activation)
        {
            let request = FireRequest { due: leaves, ..fire_request_of(&emit) };
            self.fire_due(workspace, request, &config.profile, || {
                format!("scenario {}, {}", emit.scenario, emit.label)
            });
        }
        let mut state = workspace.lock();
        let next = [timed, state.workflows.next_completion(), state.timeline.next_due()].into_iter().flatten().min();
        // `set_next_firing` holds deliveries back. An instant that is due already is left out, so that they do not wait for a long burst.
        if !state.timeline.is_awake() {
            workspace.agenda().set_next_firing(next.filter(|next| *next > now.instant));
        }
        state.timeline.end_round(next).map(|next| (next, count))
    }

    fn fire_due(
        &self,
        workspace: &Arc<Workspace>,
        request: FireRequest,
        profile: &Profile,
        what: impl FnOnce() -> String,
    ) {
        match self.fire(workspace, request, profile) {
            Ok(_) => {}
            Err(FireProblem::Full(_)) => self.note_dropped_emissions(workspace, 1),
            Err(problem) => self.note(Some(workspace.name()), format!("{}: not fired: {problem}", what()), true),
        }
    }

    pub(super) fn note_dropped_emissions(&self, workspace: &Workspace, count: usize) {
        if count > 0 {
            let why = self.journal.budget().full();
            self.dropped_emissions.fetch_add(count as u64, Ordering::Relaxed);
            self.note(Some(workspace.name()), format!("{count} events of emissions were left out: {why}"), true);
        }
    }
}

/// Plans the timed emissions due by now. Returns when the next are due, and how many events were dropped.
fn plan_timed(state: &mut WorkspaceState, config: &EffectiveConfig, now: Instant) -> (Option<Instant>, usize) {
    let Some(began) = state.started_at(config.activation) else { return (None, 0) };
    let counters = &mut state.counters;
    counters.begin(config.activation);
    let found = due_emits(config.emits.iter(), now.since(began), |fingerprint| counters.get(fingerprint).applied);
    let mut dropped = 0;
    for (emit, _) in &found.due {
        state.counters.of(emit.fingerprint).applied += 1;
        dropped += state.plan(emit, config.activation, now);
    }
    (found.next.map(|next| began.plus(next)), dropped)
}

fn place_announced(state: &mut WorkspaceState, config: &EffectiveConfig, now: Now) {
    for given in config.active.iter().map(|scenario| &scenario.given) {
        for user in &given.users {
            state.workflows.place_user(user.clone(), &config.profile, now, &mut state.sources);
        }
        for workflow in &given.workflows {
            // A full workspace stays as it is.
            let _ = state.workflows.place(workflow.clone(), &config.profile, now, &mut state.sources);
        }
    }
}

/// A given subscription as a client's request. It was validated when the scenario was read.
fn checked(given: &SubscribeRequest, config: &EffectiveConfig) -> Option<CheckedSubscribe> {
    let url = check_webhook_url(&given.url, config.profile.webhooks.allow_http).ok()?;
    Some(CheckedSubscribe { request: given.clone(), url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_fired_at_once_and_more_at_a_pace() {
        let at = |millis: u64| Instant::after_start(Duration::from_millis(millis));
        let mut budget = FiringBudget { left: MOST_AT_ONCE, at: at(0) };
        for _ in 0..MOST_AT_ONCE / 16 {
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
        assert_eq!(budget.left, MOST_AT_ONCE - 1);
    }
}
