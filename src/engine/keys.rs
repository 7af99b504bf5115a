//! Finds the workspace of a key, of a group of keys or of a workspace's id `ws_…`, and opens it if it does not exist yet; sets
//! which scenarios are active for it.

use std::sync::Arc;

use super::Engine;
use crate::contract::keys::{SAMPLE_KEY, judge, not_a_key, workspace_of};
use crate::diagnostic::Diagnostic;
use crate::workspace::Workspace;

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
