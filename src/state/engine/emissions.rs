//! Events fired automatically: emissions of scenarios, from their start, from answers and in time. The scenario
//! decides when.
//!
//! A call or a request that makes events due fires them before it is answered, by [`Engine::fire_due`] or [`Engine::fire_soon`]; later
//! ones are fired by a task that runs while a workspace has planned events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Engine, FireProblem};
use crate::clock::{Instant, Now};
use crate::contract::rules::{CheckedSubscribe, check_webhook_url};
use crate::contract::types::SubscribeRequest;
use crate::scenario::{EffectiveConfig, Emit, EmitEffect, Rotation, due_emits};
use crate::settings::Profile;
use crate::state::workspace::{
    FireRequest, FiringBudget, MAX_AT_ONCE, Origin, PER_SECOND, PlannedEvent, Secret, Workspace, WorkspaceState,
};
use crate::util::duration::duration_text;

/// Maximum number of events fired before the lock and the thread are released for others.
const MAX_AT_A_TIME: usize = 16;

pub fn fire_request_of(emit: &Emit) -> FireRequest {
    FireRequest {
        event_type: emit.event().unwrap_or_default().to_owned(),
        data: emit.data.clone(),
        tamper: emit.delivery.tamper,
        extra_copies: emit.delivery.duplicate.unwrap_or(1).saturating_sub(1),
        shuffled: emit.delivery.shuffle,
        lost: emit.delivery.drop,
        origin: Origin::emission(&emit.scenario, &emit.label),
        ..FireRequest::default()
    }
}

impl Engine {
    /// Starts the active scenarios in a workspace, unless they have been started there before. Returns whether something may be due,
    /// which the caller then has fired.
    #[must_use]
    pub fn start_scenarios(
        workspace: &Workspace,
        state: &mut WorkspaceState,
        config: &EffectiveConfig,
        now: Now,
    ) -> bool {
        // On its own clock, the activation is as long ago as on the emulator's.
        let clock = workspace.clock();
        let since = if clock.is_plain() {
            config.activated_at
        } else {
            now.instant.minus(clock.base_instant().since(config.activated_at))
        };
        if !state.record_activation(config.activation, since) {
            return state.timeline.has_due();
        }
        for given in config.active.iter().flat_map(|scenario| &scenario.given.subscriptions) {
            if let Some(checked) = checked(given, config) {
                // A full workspace stays as it is; the same limit applies to clients.
                let _ = state.subscribe(checked, &config.profile, now);
            }
        }
        if has_timed(config) {
            // Deliveries due at this instant come after its events.
            workspace.agenda().set_next_firing(Some(Instant::default()));
            state.timeline.mark_due();
        }
        state.timeline.has_due()
    }

    /// Plans the events of an emission that was set off. The caller then fires due events.
    pub fn plan_emission(&self, workspace: &Workspace, emit: &Arc<Emit>, at: Instant) {
        let activation = self.config_for(Some(workspace.name())).activation;
        let mut state = workspace.lock();
        // The number of a timed one says when it is due next.
        if !emit.is_timed() {
            state.counters.switch_to(activation);
            state.counters.of(emit.fingerprint).applied += 1;
        }
        let dropped = state.plan(emit, activation, at);
        drop(state);
        self.note_dropped_emissions(workspace, dropped);
    }

    /// Fires what a change of scenarios or settings has made due in the workspaces in which the scenarios have started.
    pub fn fire_changed(self: &Arc<Self>) {
        let mut last_checked_generation = self.last_checked_generation.lock();
        let snapshot = self.library.load();
        if std::mem::replace(&mut *last_checked_generation, snapshot.number) == snapshot.number {
            return;
        }
        for workspace in self.registry.all() {
            let config = snapshot.config_for(Some(workspace.name()));
            if has_timed(config) && workspace.lock().started_at(config.activation).is_some() {
                self.fire_due(&workspace);
            }
        }
    }

    /// Fires the events due in a workspace by now, in order. Returns once all are fired, whichever task fires them.
    pub fn fire_due(self: &Arc<Self>, workspace: &Arc<Workspace>) {
        let until = Self::mark_due(workspace);
        while self.fire_some(workspace, until) {}
    }

    /// Like `fire_due`, on blocking threads; it finishes even if the caller stops waiting.
    pub fn fire_soon(self: &Arc<Self>, workspace: &Arc<Workspace>) -> JoinHandle<()> {
        let (engine, workspace, until) = (Arc::clone(self), Arc::clone(workspace), Self::mark_due(workspace));
        self.runtime.spawn(async move {
            loop {
                let (firing, of) = (Arc::clone(&engine), Arc::clone(&workspace));
                if !engine.blocking.answers.run(move || firing.fire_some(&of, until)).await {
                    return;
                }
            }
        })
    }

    /// Asks for the events due by now to be fired, and returns that instant.
    fn mark_due(workspace: &Workspace) -> Instant {
        workspace.lock().timeline.mark_due();
        workspace.clock().instant()
    }

    /// Waits for later events, and fires them.
    async fn emitter(self: Arc<Self>, workspace: Arc<Workspace>, changed: Arc<Notify>) {
        loop {
            let Some((next, pause)) = workspace.lock().timeline.next_look() else { return };
            tokio::select! {
                biased;
                () = self.stopping.raised() => {
                    workspace.agenda().set_next_firing(None);
                    return;
                }
                () = workspace.gone() => {}
                () = changed.notified(), if pause.is_zero() => continue,
                () = async {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    workspace.clock().sleep_until(next).await;
                } => {}
            }
            if self.fire_soon(&workspace).await.is_err() {
                return;
            }
        }
    }

    /// Fires some of the events due by `until`. Returns whether the caller has to go on.
    fn fire_some(self: &Arc<Self>, workspace: &Arc<Workspace>, until: Instant) -> bool {
        // Held until all that is taken is fired. Otherwise events of two callers would mix, and one would return before all are fired.
        let mut budget = workspace.firing();
        let (now, config) = (workspace.clock().now(), self.config_for(Some(workspace.name())));
        let mut state = workspace.lock();
        state.timeline.begin_look();
        if workspace.is_gone() {
            state.timeline.clear();
            workspace.agenda().set_next_firing(None);
            let _ = state.timeline.end_look(None, Duration::ZERO);
            return false;
        }
        let (timed, dropped) = plan_timed(&mut state, &config, now.instant);
        let happened: Vec<PlannedEvent> =
            std::iter::from_fn(|| state.timeline.pop_due(now.instant)).take(MAX_AT_A_TIME).collect();
        let count = happened.iter().filter(|planned| planned.emit.is_timed()).count();
        drop(state);
        self.note_dropped_emissions(workspace, dropped);
        for PlannedEvent { emit, leaves, .. } in
            happened.into_iter().filter(|planned| planned.activation == config.activation)
        {
            if let EmitEffect::Rotation(rotation) = &emit.effect {
                self.rotate_secrets(workspace, &emit, rotation, &config.profile);
                continue;
            }
            let request = FireRequest { due: leaves, ..fire_request_of(&emit) };
            self.fire_planned(workspace, request, &config.profile, || {
                format!("scenario {}, {}", emit.scenario, emit.label)
            });
        }
        let pause = budget.spend(count, self.machine.instant());
        let mut state = workspace.lock();
        let next = [timed, state.timeline.next_due()].into_iter().flatten().min();
        if next.is_none() {
            *budget = FiringBudget::default();
        }
        // `set_next_firing` holds deliveries back. An instant that is due already is left out, so that they do not wait for a long burst.
        if !state.timeline.has_due() {
            workspace.agenda().set_next_firing(next.filter(|next| *next > now.instant));
        }
        let begins_slowed = !pause.is_zero() && !std::mem::replace(&mut state.timeline.is_slowed, true);
        // A stop does not wait for a long burst.
        let goes_on = pause.is_zero() && next.is_some_and(|next| next <= until) && !self.stopping.is_raised();
        if !goes_on && state.timeline.end_look(next, pause) {
            let waiting = Arc::clone(self).emitter(Arc::clone(workspace), state.timeline.changed());
            self.runtime.spawn(waiting);
        }
        drop(state);
        if begins_slowed {
            let message = format!(
                "timed emissions are slowed to {PER_SECOND} events a second of real time: more than {MAX_AT_ONCE} were due; a reset ends them"
            );
            self.note(Some(workspace.name()), message, true);
        }
        goes_on
    }

    /// The emissions, of those that are meant, that time has yet to set off in a workspace, each with the instant at which it does so next.
    pub fn timed_ahead(&self, workspace: &Workspace, is_meant: &dyn Fn(&Emit) -> bool) -> Vec<(Instant, Arc<Emit>)> {
        let (config, now) = (self.config_for(Some(workspace.name())), workspace.clock().instant());
        let mut state = workspace.lock();
        let Some(began) = state.started_at(config.activation) else { return Vec::new() };
        state.counters.switch_to(config.activation);
        let next = |emit: &Arc<Emit>| {
            let found = due_emits([emit], now.since(began), |fingerprint| state.counters.get(fingerprint).applied);
            Some((began.plus(found.next?), Arc::clone(emit)))
        };
        config.emits.iter().filter(|emit| is_meant(emit)).filter_map(next).collect()
    }

    /// Replaces the secrets of the subscriptions that a rotation is for.
    fn rotate_secrets(&self, workspace: &Workspace, emit: &Emit, rotation: &Rotation, profile: &Profile) {
        let Rotation { subscription, grace, secret } = rotation;
        let (grace, now) = (grace.unwrap_or(profile.webhooks.rotation_grace.get()), workspace.clock().now());
        let by = format!("scenario `{}`, {}", emit.scenario, emit.label);
        let is_meant = |url: &str| subscription.as_ref().is_none_or(|(_, pattern)| pattern.is_match(url));
        let mut state = workspace.lock();
        let meant = state.subscriptions.iter().filter(|record| is_meant(&record.url));
        let meant: Vec<(String, String)> = meant.map(|record| (record.id.clone(), record.url.clone())).collect();
        let mut notes = Vec::new();
        for (id, url) in meant {
            let secret = secret.clone().map_or_else(|| state.new_secret(profile), Secret::new);
            let rotated = state.subscriptions.rotate(&id, &secret, grace, now, Some(&by));
            notes.push(if let Some(Err(problem)) = rotated {
                (format!("{by}: the secret of {id} was not replaced: {}", problem.message), true)
            } else {
                let grace = duration_text(grace);
                (format!("{by}: the secret of {id} for {url} was replaced; the old one signs for {grace}"), false)
            });
        }
        drop(state);
        if notes.is_empty() {
            let which = subscription.as_ref().map_or_else(String::new, |(glob, _)| format!(" for `{glob}`"));
            notes.push((format!("{by}: no secret was replaced: there is no subscription{which}"), true));
        }
        for (message, is_warning) in notes {
            self.note(Some(workspace.name()), message, is_warning);
        }
    }

    fn fire_planned(
        &self,
        workspace: &Arc<Workspace>,
        request: FireRequest,
        profile: &Profile,
        what: impl FnOnce() -> String,
    ) {
        match self.fire(workspace, request, profile) {
            Ok(_) => {}
            Err(FireProblem::NoRoom(_)) => self.note_dropped_emissions(workspace, 1),
            Err(problem) => self.note(Some(workspace.name()), format!("{}: not fired: {problem}", what()), true),
        }
    }

    pub(super) fn note_dropped_emissions(&self, workspace: &Workspace, count: usize) {
        if count > 0 {
            let why = self.journal.budget().no_room();
            self.note(Some(workspace.name()), format!("{count} events of emissions were left out: {why}"), true);
        }
    }
}

fn has_timed(config: &EffectiveConfig) -> bool {
    config.emits.iter().any(|emit| emit.is_timed())
}

/// Plans the timed emissions due by now. Returns when the next are due, and how many events were dropped.
fn plan_timed(state: &mut WorkspaceState, config: &EffectiveConfig, now: Instant) -> (Option<Instant>, usize) {
    let Some(began) = state.started_at(config.activation) else { return (None, 0) };
    let counters = &mut state.counters;
    counters.switch_to(config.activation);
    let found = due_emits(config.emits.iter(), now.since(began), |fingerprint| counters.get(fingerprint).applied);
    let mut dropped = 0;
    for (emit, _) in &found.due {
        state.counters.of(emit.fingerprint).applied += 1;
        dropped += state.plan(emit, config.activation, now);
    }
    (found.next.map(|next| began.plus(next)), dropped)
}

/// A given subscription as a client's request. It was validated when the scenario was read.
fn checked(given: &SubscribeRequest, config: &EffectiveConfig) -> Option<CheckedSubscribe> {
    let url = check_webhook_url(&given.url, config.profile.webhooks.allow_http).ok()?;
    Some(CheckedSubscribe { request: given.clone(), url })
}
