//! What scenarios put in place and want fired: `given` state when a key first meets an activation, and orders to the driver
//! of emissions. The service decides that something is to be fired; when and how is the driver's business.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::agenda::{Agenda, Task};
use crate::clock::{Instant, Now};
use crate::contract::preview::{WorkflowFields, WorkflowStatus};
use crate::contract::rules::CheckedSubscribe;
use crate::contract::types::SubscribeRequest;
use crate::contract::webhook_url::check_webhook_url;
use crate::scenario::{EffectiveConfig, Emit, GivenSubscription, RequestView, after_answer};
use crate::workspace::{PlacedWorkflow, State, Workspace};

/// An order to the driver of emissions.
#[derive(Debug)]
pub struct EmissionOrder {
    /// Where to look for what time sets off: emissions of an activation that was met, workflows that complete.
    pub workspace: Arc<Workspace>,
    /// What else was set off, and when by the workspace's clock.
    pub set_off: Option<(Arc<Emit>, Instant)>,
    /// Under way until the driver knows when it has to act.
    pub task: Task,
}

/// The way to the driver of emissions.
#[derive(Clone, Debug)]
pub struct Emissions {
    orders: mpsc::UnboundedSender<EmissionOrder>,
}

impl Emissions {
    /// A way, and its end for the driver.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<EmissionOrder>) {
        let (orders, driver) = mpsc::unbounded_channel();
        (Self { orders }, driver)
    }

    /// Lets a workspace meet what is active for it; only the first time does anything.
    pub fn meet(&self, workspace: &Arc<Workspace>, state: &mut State, config: &EffectiveConfig, now: Now) {
        // On a clock of its own the activation lies as far back as on the emulator's.
        let clock = workspace.clock();
        let since = if clock.is_plain() {
            config.activated_at
        } else {
            now.instant.minus(clock.base_moment().since(config.activated_at))
        };
        if !state.meets(config.activation, since) {
            return;
        }
        for given in config.active.iter().flat_map(|scenario| &scenario.given.subscriptions) {
            if let Some(checked) = checked(given, config) {
                // A full workspace keeps what it has; the same limit stops a client.
                let _ = state.subscribe(checked, &config.profile, now);
            }
        }
        if config.profile.preview.enabled {
            self.place_announced(workspace, state, config, now);
        }
        if config.emits.iter().any(|emit| emit.is_timed()) {
            self.look(workspace);
        }
    }

    /// Workflows and users, which only the preview shows.
    fn place_announced(&self, workspace: &Arc<Workspace>, state: &mut State, config: &EffectiveConfig, now: Now) {
        for given in config.active.iter().map(|scenario| &scenario.given) {
            for user in &given.users {
                state.place_user(user.clone(), &config.profile, now);
            }
            for workflow in &given.workflows {
                let (name, reference) = (Some(workflow.name.clone()), Some(workflow.reference.clone()));
                let status = WorkflowStatus::from_name(&workflow.status).unwrap_or(WorkflowStatus::Running);
                let placed =
                    PlacedWorkflow { id: workflow.id.clone(), fields: WorkflowFields { name, reference }, status };
                // A full workspace keeps what it has.
                let _ = state.place_workflow(placed, &config.profile, now);
            }
        }
        self.look(workspace);
    }

    /// Orders the emissions that an answer sets off at `at`.
    pub fn answered(
        &self,
        workspace: &Arc<Workspace>,
        config: &EffectiveConfig,
        view: &RequestView<'_>,
        status: u16,
        at: Instant,
    ) {
        for emit in after_answer(config.emits.iter(), view, status) {
            self.fire(workspace, emit, at);
        }
    }

    /// Orders an emission that was set off at `at`.
    pub fn fire(&self, workspace: &Arc<Workspace>, emit: Arc<Emit>, at: Instant) {
        self.order(workspace, Some((emit, at)));
    }

    /// Lets the driver look when time has something to do in a workspace. It draws from the source of events there, so whoever
    /// fires one waits for its first look.
    pub fn look(&self, workspace: &Arc<Workspace>) {
        workspace.agenda().fires_at(Some(Instant::default()));
        self.order(workspace, None);
    }

    fn order(&self, workspace: &Arc<Workspace>, set_off: Option<(Arc<Emit>, Instant)>) {
        let order = EmissionOrder { workspace: Arc::clone(workspace), set_off, task: workspace.agenda().begin() };
        if self.orders.send(order).is_err() {
            // The driver ends only with the emulator.
            workspace.agenda().fires_at(None);
        }
    }
}

/// Waits until the events are made that time has set off by now. They come before what is sent or commanded then, so that the
/// same run is the same again: the answer to an attempt may disable a subscription that they go to.
pub async fn events_made(workspace: &Workspace) {
    wait_until(workspace, |agenda, now| !agenda.is_firing(now)).await;
}

/// Waits until a workspace's agenda says so, or the workspace leaves.
pub async fn wait_until(workspace: &Workspace, is_done: impl Fn(&Agenda, Instant) -> bool) {
    let agenda = workspace.agenda();
    loop {
        let mut changed = std::pin::pin!(agenda.changed());
        changed.as_mut().enable();
        if workspace.has_left() || is_done(agenda, workspace.clock().instant()) {
            return;
        }
        changed.await;
    }
}

/// A given subscription as a client's request; it was checked when the scenario was read.
fn checked(given: &GivenSubscription, config: &EffectiveConfig) -> Option<CheckedSubscribe> {
    let url = check_webhook_url(&given.url, config.profile.webhooks.allow_http).ok()?;
    let request = SubscribeRequest {
        url: given.url.clone(),
        events: given.events.clone(),
        secret: given.secret.clone(),
        description: given.description.clone(),
    };
    Some(CheckedSubscribe { request, url })
}
