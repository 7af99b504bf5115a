//! Moves a clock forward so that everything happens in order: from one due instant to the next, each time waiting until what
//! was due is done. A retry schedule of three days lasts only as long as its attempts.
//!
//! Each workspace's agenda knows what is due next; this file only moves clocks and waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::clock::agenda::Agenda;
use crate::clock::{Clock, Instant, Now};
use crate::state::workspace::{Registry, Workspace};

/// Moves a clock: the emulator's, together with every workspace's that follows it, or that of one workspace alone.
#[derive(Clone, Debug)]
pub struct ClockDriver {
    registry: Arc<Registry>,
    pub workspace: Option<Arc<Workspace>>,
}

impl ClockDriver {
    pub fn clock(&self) -> &Clock {
        self.workspace.as_ref().map_or_else(|| self.registry.clock(), |workspace| workspace.clock())
    }

    /// Moves the clock forward by `by`. Returns when everything that became due is done, or as soon as the workspace or the
    /// emulator is reset: an advance from before a reset does not move the clock after it.
    pub async fn advance(&self, by: Duration) -> Now {
        let clock = self.clock();
        // In this order: a reset first removes the workspaces and then restarts the clock, so an advance of the restarted clock
        // never runs events that were due before.
        let life = clock.life();
        let owner = self.workspace.clone().unwrap_or_else(|| self.registry.anonymous());
        let _moving = owner.agenda().moving().lock_owned().await;
        let mut remaining = by;
        let moved = self.moved();
        for workspace in &moved {
            settle(workspace).await;
        }
        let next = |at: usize| Some(Reverse((self.due(&moved[at])?, at)));
        let mut waiting: BinaryHeap<_> = (0..moved.len()).filter_map(next).collect();
        while let Some(Reverse((due, _))) = waiting.peek().filter(|_| !owner.is_gone()) {
            let step = due.since(clock.instant());
            if step > remaining {
                break;
            }
            remaining -= step;
            let reached = clock.instant().plus(step);
            let mut called = Vec::new();
            while waiting.peek().is_some_and(|Reverse((due, _))| *due <= reached) {
                called.extend(waiting.pop().map(|Reverse((_, at))| at));
            }
            called.sort_unstable();
            self.step(life, step, called.iter().map(|at| &moved[*at])).await;
            for at in called {
                settle(&moved[at]).await;
                waiting.extend(next(at));
            }
        }
        if owner.is_gone() {
            return clock.now();
        }
        let now = clock.advance_in(life, remaining);
        for workspace in &moved {
            settle(workspace).await;
        }
        now
    }

    /// Moves the clock by one step. What is due is done in one workspace after the other, so that runs are reproducible; attempts
    /// at external receivers are not waited for here.
    async fn step<'w>(&self, life: u64, step: Duration, called: impl Iterator<Item = &'w Arc<Workspace>> + Clone) {
        let follows = |workspace: &&Arc<Workspace>| !workspace.clock().is_same(self.clock());
        called.clone().filter(follows).for_each(|workspace| workspace.clock().hold());
        self.clock().advance_in(life, step);
        for workspace in called {
            workspace.clock().release();
            wait_until(workspace, Agenda::is_settled_inside).await;
        }
    }

    fn moved(&self) -> Vec<Arc<Workspace>> {
        if let Some(workspace) = &self.workspace {
            return vec![Arc::clone(workspace)];
        }
        let running = self.registry.all().into_iter().filter(|workspace| !workspace.clock().is_frozen_itself());
        running.chain([self.registry.anonymous()]).collect()
    }

    /// When something is due next in a workspace, by the clock that is moved; `None` for a workspace that was evicted or reset.
    fn due(&self, workspace: &Workspace) -> Option<Instant> {
        if workspace.is_gone() {
            return None;
        }
        let wait = workspace.agenda().next_due()?.since(workspace.clock().instant());
        Some(self.clock().instant().plus(wait))
    }
}

impl Engine {
    pub fn mover(&self, workspace: Option<Arc<Workspace>>) -> ClockDriver {
        ClockDriver { registry: Arc::clone(&self.registry), workspace }
    }

    pub async fn settle(&self) {
        for workspace in self.registry.all() {
            settle(&workspace).await;
        }
    }
}

/// Waits until all events due by now are fired. They come before attempts and calls at the same instant, so that runs are
/// reproducible: the answer to an attempt may disable a subscription that an event goes to.
pub async fn wait_for_events(workspace: &Workspace) {
    wait_until(workspace, |agenda, now| !agenda.is_firing(now)).await;
}

/// Waits until `is_done` is true of a workspace's agenda, or the workspace is evicted or reset.
async fn wait_until(workspace: &Workspace, is_done: impl Fn(&Agenda, Instant) -> bool) {
    let agenda = workspace.agenda();
    loop {
        let mut changed = std::pin::pin!(agenda.changed());
        changed.as_mut().enable();
        if workspace.is_gone() || is_done(agenda, workspace.clock().instant()) {
            return;
        }
        changed.await;
    }
}

pub async fn settle(workspace: &Workspace) {
    wait_until(workspace, Agenda::is_settled).await;
}

/// Waits until nothing is running and nothing is due within `ahead` in a workspace. `ahead` is called for each check.
pub async fn wait_idle_ahead(workspace: &Workspace, ahead: impl Fn() -> Duration) {
    wait_until(workspace, |agenda, now| agenda.is_settled(now.plus(ahead()))).await;
}
