//! Resets one key, or everything, to the state before the first request.
//!
//! A workspace is not emptied but replaced: tasks that still work for the old one see that it is gone, and the next request of
//! its key gets a new one. So nothing from before the reset can appear after it.

use std::sync::Arc;

use super::Engine;
use crate::contract::keys::workspace_of;
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

impl Engine {
    /// Forgets one workspace: its state, quota, clock and random source, its own scenarios and settings, its journal entries and
    /// its deliveries.
    pub fn reset(&self, workspace: &Workspace) {
        let name = workspace.name();
        self.library.forget_key(name, self.registry.clock().instant());
        self.clear(name);
    }

    /// Forgets everything: all workspaces, all changes by the control API, what the built-in receivers received. The clock returns
    /// to the time of the start, or to the machine's time.
    pub fn reset_all(&self) -> Result<Vec<Arc<Workspace>>, Vec<Diagnostic>> {
        self.library.restart(self.registry.clock().instant())?;
        // In this order: a task that moves the restarted clock must not find a workspace from before.
        let forgotten = self.clear_all();
        self.registry.clock().restart();
        Ok(forgotten)
    }

    /// Forgets a workspace with its access tokens, deliveries and journal entries. The workspace is forgotten first, so that no
    /// entry is added after they are cleared.
    pub(super) fn clear(&self, name: &Arc<str>) {
        self.registry.forget(name);
        let profile = self.profile_for(Some(name));
        self.registry.tokens().forget(|key| workspace_of(key, &profile.keys) == name.as_ref());
        self.deliveries.clear(|of| of == name);
        self.journal.clear(|of| of == name);
    }

    /// Forgets every workspace with its access tokens, deliveries and journal entries, and what the built-in receivers received.
    pub(super) fn clear_all(&self) -> Vec<Arc<Workspace>> {
        let forgotten = self.registry.forget_all();
        self.registry.tokens().forget(|_| true);
        self.deliveries.clear(|_| true);
        self.journal.clear_all();
        self.sinks.clear();
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use crate::Emulator;

    #[tokio::test]
    async fn a_restarted_clock_does_not_move_earlier_workspaces() {
        let emulator = Emulator::builder().frozen_at(jiff::Timestamp::UNIX_EPOCH).start().await.expect("it starts");
        let registry = emulator.control().registry();
        for _ in 0..10 {
            for number in 0..1_000 {
                registry.open(&format!("sk_test_{number}"), registry.clock().now());
            }
            let (clock, before) = (registry.clock().clone(), registry.anonymous());
            let life = clock.life();
            let seen = std::thread::spawn(move || {
                while clock.life() == life {
                    std::hint::spin_loop();
                }
                before.has_left()
            });
            emulator.control().reset_all().expect("it is reset");
            assert!(seen.join().expect("the clock was restarted"), "the clock was restarted too early");
        }
    }
}
