//! Whose things a call means: `key` names a workspace by key, by group name or by its id `ws_…`; left out it is the
//! sample key's; `*` means all.

use std::sync::Arc;

use super::call::Call;
use super::{Control, ControlError};
use crate::contract::keys::{SAMPLE_KEY, judge, not_a_key, workspace_of};
use crate::diagnostic::Diagnostic;
use crate::http::preview::open_workspace;
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

    /// Says of something that was not found whose things were looked through.
    pub(super) fn owner(&self) -> &'static str {
        match self {
            Self::All => "",
            Self::One(_) => " of the key named",
        }
    }

    /// The name of the one workspace meant; `None` for all.
    pub(super) fn key(&self) -> Option<Arc<str>> {
        match self {
            Self::All => None,
            Self::One(workspace) => Some(Arc::clone(workspace.name())),
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

/// Whose things a call means; without a key those of the sample key.
pub(super) fn scope(control: &Control, call: &Call) -> Result<Scope, ControlError> {
    read(control, call.key()?.as_deref())
}

/// The same for calls that mean everybody's things without a key. So do those that name one thing by its id: a key beside it
/// must own it.
pub(super) fn scope_or_all(control: &Control, call: &Call) -> Result<Scope, ControlError> {
    read(control, Some(call.key()?.as_deref().unwrap_or("*")))
}

/// Refuses a call whose key is none. Opens no workspace.
pub(super) fn check_key(control: &Control, call: &Call) -> Result<(), ControlError> {
    let key = call.key()?.filter(|key| key != "*");
    key.map_or(Ok(()), |key| workspace_name(control, Some(&key)).map(drop))
}

fn read(control: &Control, key: Option<&str>) -> Result<Scope, ControlError> {
    match key {
        Some("*") => Ok(Scope::All),
        key => workspace(control, key).map(Scope::One),
    }
}

/// The one workspace that a call's `key` means. A valid key that made no request yet has an empty one.
pub fn workspace(control: &Control, key: Option<&str>) -> Result<Arc<Workspace>, ControlError> {
    let name = workspace_name(control, key)?;
    Ok(control.registry.find(&name).unwrap_or_else(|| begin(control, &name)))
}

/// The name of that workspace, whether or not it is there yet.
pub fn workspace_name(control: &Control, key: Option<&str>) -> Result<Arc<str>, ControlError> {
    let key = key.unwrap_or(SAMPLE_KEY);
    if key == "*" {
        return Err(ControlError::invalid("key: `*` cannot be meant here; name one key"));
    }
    if let Some(workspace) = control.registry.find(key) {
        return Ok(Arc::clone(workspace.name()));
    }
    let generation = control.library.load();
    let profile = &generation.setup_for(Some(key)).profile;
    let is_group = profile.keys.workspaces.contains_key(key);
    if !is_group && let Err(refusal) = judge(key, profile.key_rules()) {
        return Err(match key.strip_prefix("ws_") {
            Some(_) => ControlError::not_found(format!("there is no workspace `{}`", key.escape_debug())),
            None => ControlError::not_found(not_a_key(key, refusal, profile.key_rules()))
                .with(|error| error.parameter = Some("key".to_owned())),
        });
    }
    Ok(Arc::from(workspace_of(key, &profile.keys)))
}

/// Opens a workspace, within the bound on their number, and starts in it what is active for it.
pub(super) fn begin(control: &Control, name: &str) -> Arc<Workspace> {
    let now = control.registry.clock().now();
    let workspace = open_workspace(&control.registry, &control.journal, name, now);
    {
        let mut state = workspace.lock();
        // Read under the lock, so that of two activations the later one is met last.
        let generation = control.library.load();
        let now = workspace.clock().now();
        control.emissions.meet(&workspace, &mut state, generation.setup_for(Some(name)), now);
    }
    workspace
}

/// Makes these scenarios, in order, the active ones: for every key, or for the workspace of one, whose list starts at once. `None` lets a key
/// follow the list of all keys again.
pub fn activate(control: &Control, key: Option<&str>, names: Option<&[&str]>) -> Result<u64, Vec<Diagnostic>> {
    let now = control.registry.clock().moment();
    let number = match (names, key) {
        (Some(names), key) => control.library.activate(key, names, now)?,
        (None, Some(key)) => control.library.follow_global(key, now),
        (None, None) => control.library.load().number,
    };
    if let Some(key) = key {
        begin(control, key);
    }
    Ok(number)
}
