//! The workspaces of keys: finds the one of a key, of a group of keys or of an id `ws_…`, opens it if it does not exist yet, sets
//! which scenarios are active for it, and resets one key, or everything, to the state before the first request.
//!
//! A workspace is not emptied but replaced: tasks that still work for the old one see that it is gone, and the next request of
//! its key gets a new one. So nothing from before the reset can appear after it.

use std::sync::Arc;

use super::Engine;
use crate::contract::keys::{SAMPLE_KEY, judge, not_a_key, workspace_of};
use crate::diagnostic::Diagnostic;
use crate::state::workspace::Workspace;

#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// `*`, which names all of them.
    #[error("key: `*` cannot be meant here; name one key")]
    All,
    #[error("there is no workspace `{}`", .0.escape_debug())]
    UnknownId(String),
    #[error("{0}")]
    Invalid(String),
}

impl Engine {
    /// The workspace of a key, or of the sample key if there is none. It is created for a valid key that has made no request yet.
    pub fn workspace(self: &Arc<Self>, key: Option<&str>) -> Result<Arc<Workspace>, KeyProblem> {
        let name = self.workspace_name(key)?;
        Ok(self.registry.find(&name).unwrap_or_else(|| self.begin(&name)))
    }

    /// The name of that workspace, whether or not it exists yet.
    pub fn workspace_name(&self, key: Option<&str>) -> Result<Arc<str>, KeyProblem> {
        let key = key.unwrap_or(SAMPLE_KEY);
        if key == "*" {
            return Err(KeyProblem::All);
        }
        if let Some(workspace) = self.registry.find(key) {
            return Ok(Arc::clone(workspace.name()));
        }
        let profile = self.profile_for(Some(key));
        let is_group = profile.keys.workspaces.contains_key(key);
        if !is_group && let Err(refusal) = judge(key, profile.key_rules()) {
            return Err(match key.strip_prefix("ws_") {
                Some(_) => KeyProblem::UnknownId(key.to_owned()),
                None => KeyProblem::Invalid(not_a_key(key, refusal, profile.key_rules())),
            });
        }
        Ok(Arc::from(workspace_of(key, &profile.keys)))
    }

    /// Opens a workspace, within the bound on their number, and starts the scenarios that are active for it.
    fn begin(self: &Arc<Self>, name: &str) -> Arc<Workspace> {
        let workspace = self.registry.open(name, self.registry.clock().now());
        {
            let mut state = workspace.lock();
            // Read under the lock, so that of two activations the later one is applied last.
            let generation = self.library.load();
            let now = workspace.clock().now();
            self.start_scenarios(&workspace, &mut state, generation.config_for(Some(name)), now);
        }
        workspace
    }

    /// Activates these scenarios in this order, for every key or for one, whose list starts at once. Without names, a key follows
    /// the list of all keys again.
    pub fn activate(self: &Arc<Self>, key: Option<&str>, names: Option<&[&str]>) -> Result<u64, Vec<Diagnostic>> {
        let now = self.registry.clock().instant();
        let number = match (names, key) {
            (Some(names), key) => self.library.activate(key, names, now)?,
            (None, Some(key)) => self.library.follow_global(key, now),
            (None, None) => self.library.load().number,
        };
        if let Some(key) = key {
            self.begin(key);
        }
        Ok(number)
    }
}

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
