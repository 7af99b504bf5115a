//! Resetting: one key, or everything, as it was before the first request.
//!
//! A workspace is not emptied but left behind: whoever still works for it sees that, and its key's next request finds a fresh
//! one. So nothing of before can come through later.

use std::sync::Arc;

use super::Engine;
use crate::contract::keys::workspace_of;
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

impl Engine {
    /// Forgets one workspace: its state, quota, clock and random source, the scenarios and knobs of its own, its part of the journal
    /// and its deliveries.
    pub fn reset(&self, workspace: &Workspace) {
        let name = workspace.name();
        self.library.forget_key(name, self.registry.clock().instant());
        self.clear(name);
    }

    /// Forgets everything: all workspaces, what was said over the control API, what the built-in receivers got. The clock shows what
    /// it showed at the start, or the machine's time.
    pub fn reset_all(&self) -> Result<Vec<Arc<Workspace>>, Vec<Diagnostic>> {
        self.library.restart(self.registry.clock().instant())?;
        // In this order: whoever moves the clock that was restarted finds no workspace of before.
        let forgotten = self.clear_all();
        self.registry.clock().restart();
        Ok(forgotten)
    }

    /// Forgets a workspace with its access tokens and its traces. It leaves before its traces are cleared, so that none comes late.
    pub(super) fn clear(&self, name: &Arc<str>) {
        self.registry.forget(name);
        let profile = self.profile_for(Some(name));
        self.registry.tokens().forget(|key| workspace_of(key, &profile.keys) == name.as_ref());
        self.deliveries.clear(|of| of == name);
        self.journal.clear(|of| of == name);
    }

    /// Forgets every workspace with its access tokens and its traces, and what the built-in receivers got.
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
    async fn a_clock_that_was_restarted_moves_no_workspace_of_before() {
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
