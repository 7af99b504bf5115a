//! Moves a clock forward so that everything happens in order: from one due instant to the next, each time waiting until what
//! was due is done. A retry schedule of three days lasts only as long as its attempts.
//!
//! Each workspace's agenda knows the next due instant; this file only moves clocks and waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::clock::agenda::Agenda;
use crate::clock::{Clock, ClockMode, Instant, Now};
use crate::state::workspace::{Registry, Workspace};

/// The next due instant of each workspace that has one, by its position.
type Waiting = BinaryHeap<Reverse<(Instant, usize)>>;

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
        let moved = self.driven_workspaces();
        for workspace in &moved {
            settle(workspace).await;
        }
        let mut waiting = self.all_due(&moved);
        while let Some(step) = self.next_of(&waiting).filter(|step| *step <= remaining && !owner.is_gone()) {
            remaining -= step;
            for at in self.step(life, step, &moved, &mut waiting).await {
                settle(&moved[at]).await;
                waiting.extend(self.due(&moved[at]).map(|due| Reverse((due, at))));
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

    /// Moves an automatic clock from `from` by `step`, if the next instant at which something is due is exactly that far and nothing is in
    /// flight; `log` is called before. Returns once everything due then is done, or false if something has changed in the meantime.
    pub async fn jump(&self, from: Instant, step: Duration, log: impl FnOnce()) -> bool {
        let life = self.clock().life();
        let owner = self.workspace.clone().unwrap_or_else(|| self.registry.anonymous());
        let _moving = owner.agenda().moving().lock_owned().await;
        let moved = self.driven_workspaces();
        let called = {
            // A key's clock may be moved by a call about the key and, with the emulator's, by one about all keys.
            let _one_at_a_time = self.registry.lock_jumps();
            let mut waiting = self.all_due(&moved);
            let stands = self.clock().mode() == ClockMode::Auto && self.clock().instant() == from;
            if owner.is_gone() || !stands || self.busy().is_some() || self.next_of(&waiting) != Some(step) {
                return false;
            }
            log();
            self.begin_step(life, step, &moved, &mut waiting)
        };
        self.finish_step(&moved, &called).await;
        for at in called {
            settle(&moved[at]).await;
        }
        true
    }

    /// The name of the workspace; `None` for the emulator's clock.
    pub fn name(&self) -> Option<Arc<str>> {
        self.workspace.as_ref().map(|workspace| Arc::clone(workspace.name()))
    }

    /// A workspace in which something is running that an automatic clock must not overtake, or something due is not done.
    pub fn busy(&self) -> Option<Arc<Workspace>> {
        let is_busy = |workspace: &&Arc<Workspace>| !workspace.agenda().is_idle(workspace.clock().instant());
        self.driven_workspaces().iter().find(is_busy).cloned()
    }

    /// How far the next instant is at which something is due.
    pub fn next_step(&self) -> Option<Duration> {
        let next = self.driven_workspaces().iter().filter_map(|workspace| self.due(workspace)).min()?;
        Some(next.since(self.clock().instant()))
    }

    /// How many requests scenarios hold back.
    pub fn held(&self) -> usize {
        self.driven_workspaces().iter().map(|workspace| workspace.agenda().held()).sum()
    }

    fn next_of(&self, waiting: &Waiting) -> Option<Duration> {
        waiting.peek().map(|Reverse((due, _))| due.since(self.clock().instant()))
    }

    fn all_due(&self, moved: &[Arc<Workspace>]) -> Waiting {
        moved.iter().enumerate().filter_map(|(at, workspace)| Some(Reverse((self.due(workspace)?, at)))).collect()
    }

    /// Moves the clock by one step, and returns the workspaces in which something was due then. They do it one after the other, so that
    /// runs are reproducible; attempts at external receivers are not waited for here.
    async fn step(&self, life: u64, step: Duration, moved: &[Arc<Workspace>], waiting: &mut Waiting) -> Vec<usize> {
        let called = self.begin_step(life, step, moved, waiting);
        self.finish_step(moved, &called).await;
        called
    }

    fn begin_step(&self, life: u64, step: Duration, moved: &[Arc<Workspace>], waiting: &mut Waiting) -> Vec<usize> {
        let reached = self.clock().instant().plus(step);
        let mut called = Vec::new();
        while waiting.peek().is_some_and(|Reverse((due, _))| *due <= reached) {
            called.extend(waiting.pop().map(|Reverse((_, at))| at));
        }
        called.sort_unstable();
        let follows = |workspace: &&Arc<Workspace>| !workspace.clock().is_same(self.clock());
        called.iter().map(|at| &moved[*at]).filter(follows).for_each(|workspace| workspace.clock().hold());
        self.clock().advance_in(life, step);
        called
    }

    async fn finish_step(&self, moved: &[Arc<Workspace>], called: &[usize]) {
        for at in called {
            moved[*at].clock().release();
            wait_until(&moved[*at], Agenda::is_settled_inside).await;
        }
    }

    fn driven_workspaces(&self) -> Vec<Arc<Workspace>> {
        if let Some(workspace) = &self.workspace {
            return vec![Arc::clone(workspace)];
        }
        let mut running = self.registry.filtered(|workspace| !workspace.clock().is_stopped_itself());
        running.push(self.registry.anonymous());
        running
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
    pub fn clock_driver(&self, workspace: Option<Arc<Workspace>>) -> ClockDriver {
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

/// Waits until nothing runs, everything due is done, and no request is in flight: an automatic clock may move then.
pub async fn wait_idle(workspace: &Workspace) {
    tokio::select! {
        () = wait_until(workspace, Agenda::is_idle) => {}
        () = workspace.gone() => {}
    }
}

/// Waits until nothing is running and nothing is due within `ahead` in a workspace. `ahead` is called for each check.
pub async fn wait_idle_ahead(workspace: &Workspace, ahead: impl Fn() -> Duration) {
    wait_until(workspace, |agenda, now| agenda.is_settled(now.plus(ahead()))).await;
}
