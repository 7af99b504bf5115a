//! Whose things a call means: `key` names a workspace by key, by group name or by its id `ws_…`; left out it is the
//! sample key's; `*` means all.

use std::sync::Arc;

use super::{Control, ControlError};
use crate::contract::keys::{SAMPLE_KEY, judge, not_a_key, workspace_of};
use crate::workspace::Workspace;

/// One workspace, or all.
pub(super) enum Scope {
    /// Every workspace, and what belongs to none.
    All,
    /// One.
    One(Arc<Workspace>),
}

impl Scope {
    /// Whether something that belongs to `workspace` is meant.
    pub(super) fn covers(&self, workspace: Option<&Arc<str>>) -> bool {
        match self {
            Self::All => true,
            Self::One(meant) => workspace.is_some_and(|name| name == meant.name()),
        }
    }

    /// The workspaces meant.
    pub(super) fn workspaces(&self, control: &Control) -> Vec<Arc<Workspace>> {
        match self {
            Self::All => control.registry.all(),
            Self::One(workspace) => vec![Arc::clone(workspace)],
        }
    }
}

/// Reads a call's `key`.
pub(super) fn scope(control: &Control, key: Option<&str>) -> Result<Scope, ControlError> {
    match key {
        Some("*") => Ok(Scope::All),
        key => workspace(control, key).map(Scope::One),
    }
}

/// The one workspace that a call's `key` means. A valid key that made no request yet has an empty one.
pub fn workspace(control: &Control, key: Option<&str>) -> Result<Arc<Workspace>, ControlError> {
    let key = key.unwrap_or(SAMPLE_KEY);
    if key == "*" {
        return Err(ControlError::invalid("key: `*` cannot be meant here; name one key"));
    }
    if let Some(workspace) = control.registry.find(key) {
        return Ok(workspace);
    }
    let generation = control.library.load();
    let profile = &generation.setup_for(Some(key)).profile;
    let is_group = profile.keys.workspaces.contains_key(key);
    if !is_group && let Err(refusal) = judge(key, profile) {
        let message = match key.strip_prefix("ws_") {
            Some(_) => format!("there is no workspace `{}`", key.escape_debug()),
            None => not_a_key(key, refusal, profile),
        };
        return Err(ControlError::not_found(message));
    }
    let now = control.registry.clock().now();
    let (workspace, _) = control.registry.open(workspace_of(key, profile), now);
    let setup = generation.setup_for(Some(workspace.name()));
    control.emissions.meet(&workspace, &mut workspace.lock(), setup, now);
    Ok(workspace)
}
