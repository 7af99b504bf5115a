//! Time that passes by itself: while a call waits, a clock in the mode `auto` jumps to the next due instant whenever nothing is in flight.
//!
//! A call about one key moves the clock of that key alone, so that tests with different keys do not disturb each other; a call about all
//! keys moves the emulator's clock, and each key's that is automatic by itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::Notify;

use super::advance::wait_idle;
use super::movers::Scope;
use super::{ClockDriver, Engine};
use crate::clock::ClockMode;
use crate::state::journal::record::time;
use crate::state::workspace::Workspace;
use crate::util::duration::duration_text;

/// Maximum number of jumps of each clock for each call that waits: an emission that repeats for ever would never let it end.
const MAX_JUMPS: usize = 1_000;

impl Engine {
    /// Completes with `awaited`. Until then, automatic clocks jump: that of the workspace, or all of them.
    pub async fn while_time_passes<T>(
        self: &Arc<Self>,
        workspace: Option<Arc<Workspace>>,
        awaited: impl Future<Output = T>,
    ) -> T {
        let waiter = self.movers.join(workspace.as_ref().map(|workspace| Arc::clone(workspace.name())));
        let mut awaited = pin!(awaited);
        let moves = async {
            let mut jumps = waiter.mover.jumps.lock().await;
            self.jump_while_idle(workspace, &waiter.mover.joined, &mut jumps).await
        };
        tokio::select! {
            // First, so that no further jump follows the one that completed the wait.
            biased;
            done = &mut awaited => done,
            never = moves => match never {},
        }
    }

    async fn jump_while_idle(
        self: &Arc<Self>,
        mut workspace: Option<Arc<Workspace>>,
        joined: &Notify,
        jumps: &mut HashMap<Scope, usize>,
    ) -> Infallible {
        loop {
            // Made before anything is read, so that no change is missed.
            let mut due_changed = pin!(self.registry.due_changed());
            let mut mode_changed = pin!(self.registry.clock().mode_changed());
            due_changed.as_mut().enable();
            mode_changed.as_mut().enable();
            if let Some(known) = workspace.as_mut().filter(|known| known.is_gone()) {
                let Some(new) = self.registry.find(known.name()) else {
                    // A key that was reset or evicted may get a new workspace, whose first due time is noticed.
                    due_changed.await;
                    continue;
                };
                *known = new;
            }
            let drivers = self.automatic(workspace.as_ref());
            // While no clock is automatic, waiting costs nothing.
            if drivers.is_empty() {
                tokio::select! {
                    () = mode_changed => {}
                    () = gone(workspace.as_ref()) => {}
                }
                continue;
            }
            if let Some(busy) = drivers.iter().find_map(ClockDriver::busy) {
                tokio::select! {
                    () = wait_idle(&busy) => {}
                    () = mode_changed => {}
                    () = gone(workspace.as_ref()) => {}
                }
                continue;
            }
            let made = |driver: &ClockDriver| jumps.get(&driver.name()).copied().unwrap_or_default();
            let next = drivers.into_iter().filter(|driver| made(driver) < MAX_JUMPS).filter_map(|driver| {
                let from = driver.clock().instant();
                Some((driver.next_step()?, from, driver))
            });
            // Of equally near instants the first, so that runs are reproducible.
            let Some((step, from, driver)) = next.min_by_key(|(step, ..)| *step) else {
                tokio::select! {
                    () = due_changed => {}
                    () = mode_changed => {}
                    () = gone(workspace.as_ref()) => {}
                    () = joined.notified() => jumps.clear(),
                }
                continue;
            };
            let (engine, moved) = (Arc::clone(self), driver.clone());
            // A separate task: if the caller hangs up, the clock does not stop halfway.
            let jump = tokio::spawn(async move {
                let to = driver.clock().now().wall.saturating_add(step).unwrap_or(jiff::Timestamp::MAX);
                let log = || {
                    let did = format!("moved by {}, to {}, because a call waits", duration_text(step), time(to));
                    engine.note_jump(&driver, did, false);
                };
                driver.jump(from, step, log).await
            });
            if jump.await.is_ok_and(|has_moved| has_moved) {
                let made = jumps.entry(moved.name()).or_default();
                *made += 1;
                if *made == MAX_JUMPS {
                    self.note_jump(
                        &moved,
                        format!("stands still: it moved {MAX_JUMPS} times while a call waited"),
                        true,
                    );
                }
            }
            // Lets the caller see what has happened.
            tokio::task::yield_now().await;
        }
    }

    /// The automatic clocks that a call about this workspace, or about all, moves.
    fn automatic(&self, workspace: Option<&Arc<Workspace>>) -> Vec<ClockDriver> {
        let own = match workspace {
            Some(workspace) => vec![Arc::clone(workspace)],
            None => self.registry.filtered(|workspace| workspace.clock().is_stopped_itself()),
        };
        let all = workspace.is_none().then(|| self.clock_driver(None));
        let drivers = all.into_iter().chain(own.into_iter().map(|workspace| self.clock_driver(Some(workspace))));
        drivers.filter(|driver| driver.clock().mode() == ClockMode::Auto).collect()
    }

    fn note_jump(&self, driver: &ClockDriver, did: String, is_warning: bool) {
        let (wall, name) = (driver.clock().now().wall, driver.name());
        let whose = if name.is_some() { "the key's clock" } else { "the emulator's clock" };
        self.journal.note(wall, name, format!("{whose} {did}"), is_warning);
    }
}

/// Completes once the workspace is gone; never for all.
async fn gone(workspace: Option<&Arc<Workspace>>) {
    match workspace {
        Some(workspace) => workspace.gone().await,
        None => std::future::pending().await,
    }
}
