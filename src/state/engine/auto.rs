//! Time that passes by itself: while a call waits, a clock in the mode `auto` jumps to the next due instant whenever nothing is in flight.
//!
//! A call about one key moves the clock of that key alone, so that tests with different keys do not disturb each other; a call about all
//! keys moves the emulator's clock, and each key's that is automatic by itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use super::{ClockDriver, Engine};
use crate::clock::ClockMode;
use crate::state::journal::record::time;
use crate::state::workspace::Workspace;
use crate::util::duration::duration_text;

/// Most jumps of each clock during one wait: an emission that repeats for ever would never let it end.
const MAX_JUMPS: usize = 1_000;

impl Engine {
    /// Completes with `awaited`. Until then, automatic clocks jump: that of the workspace, or all of them.
    pub async fn while_time_passes<T>(
        self: &Arc<Self>,
        workspace: Option<Arc<Workspace>>,
        awaited: impl Future<Output = T>,
    ) -> T {
        let mut awaited = pin!(awaited);
        tokio::select! {
            // First, so that no further jump follows the one that completed the wait.
            biased;
            done = &mut awaited => done,
            never = self.jump_while_idle(workspace) => match never {},
        }
    }

    async fn jump_while_idle(self: &Arc<Self>, workspace: Option<Arc<Workspace>>) -> Infallible {
        let mut jumps: HashMap<Option<Arc<str>>, usize> = HashMap::new();
        loop {
            let (mut changed, mut switched) =
                (pin!(self.registry.agendas_changed()), pin!(self.registry.mode_changed()));
            changed.as_mut().enable();
            switched.as_mut().enable();
            let drivers = self.automatic(workspace.as_ref());
            // While no clock is automatic, waiting costs nothing. A key that was reset or evicted may get a new workspace.
            if drivers.is_empty() && workspace.as_ref().is_none_or(|workspace| !workspace.is_gone()) {
                switched.await;
                continue;
            }
            let is_idle = drivers.iter().all(ClockDriver::is_idle);
            let made = |driver: &ClockDriver| jumps.get(&driver.name()).copied().unwrap_or_default();
            let next = drivers.into_iter().filter(|driver| made(driver) < MAX_JUMPS).filter_map(|driver| {
                let from = driver.clock().instant();
                Some((driver.next_step()?, from, driver))
            });
            // Of equally near instants the first, so that runs are reproducible.
            let Some((step, from, driver)) = next.min_by_key(|(step, ..)| *step).filter(|_| is_idle) else {
                tokio::select! {
                    () = changed => {}
                    () = switched => {}
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
                    self.note_jump(&moved, format!("stands still: one call moved it {MAX_JUMPS} times"), true);
                }
            }
            // Lets the caller see what has happened.
            tokio::task::yield_now().await;
        }
    }

    /// The automatic clocks that a call about this workspace, or about all, moves.
    fn automatic(&self, workspace: Option<&Arc<Workspace>>) -> Vec<ClockDriver> {
        let is_automatic = |driver: &ClockDriver| driver.clock().mode() == ClockMode::Auto;
        let of = |workspace: &Arc<Workspace>| self.mover(Some(Arc::clone(workspace)));
        match workspace {
            Some(workspace) if workspace.is_gone() => {
                self.registry.find(workspace.name()).iter().map(of).filter(is_automatic).collect()
            }
            Some(workspace) => Some(of(workspace)).into_iter().filter(is_automatic).collect(),
            None => {
                let all = self.registry.all();
                let own = all.iter().filter(|workspace| workspace.clock().is_stopped_itself()).map(of);
                [self.mover(None)].into_iter().chain(own).filter(is_automatic).collect()
            }
        }
    }

    fn note_jump(&self, driver: &ClockDriver, did: String, is_warning: bool) {
        let (wall, name) = (driver.clock().now().wall, driver.name());
        let whose = if name.is_some() { "the key's clock" } else { "the emulator's clock" };
        self.journal.note(wall, name, format!("{whose} {did}"), is_warning);
    }
}
