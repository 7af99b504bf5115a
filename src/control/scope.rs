//! The scope of a call: `key` names a workspace by key, by group name or by its id `ws_…`; the default is the sample key's, and `*`
//! means all.

use std::sync::Arc;

use super::ControlError;
use super::call::Call;
use crate::state::engine::{Engine, KeyProblem};
use crate::state::workspace::Workspace;

/// One workspace, or with `None` all of them and what belongs to none.
pub(super) struct Scope(pub(super) Option<Arc<Workspace>>);

impl Scope {
    /// Whether the scope includes what belongs to `workspace`.
    pub(super) fn covers(&self, workspace: Option<&Arc<str>>) -> bool {
        self.0.as_ref().is_none_or(|meant| workspace == Some(meant.name()))
    }

    /// The end of a message about something not found: whose things were searched.
    pub(super) fn owner(&self) -> &'static str {
        if self.0.is_some() { " of the key named" } else { "" }
    }

    /// The name of the workspace; `None` for all.
    pub(super) fn key(&self) -> Option<Arc<str>> {
        self.0.as_ref().map(|workspace| Arc::clone(workspace.name()))
    }

    pub(super) fn workspaces(&self, engine: &Arc<Engine>) -> Vec<Arc<Workspace>> {
        self.0.as_ref().map_or_else(|| engine.registry.all(), |workspace| vec![Arc::clone(workspace)])
    }
}

/// The scope of a call; without a key that of the sample key.
pub(super) fn scope(engine: &Arc<Engine>, call: &Call) -> Result<Scope, ControlError> {
    read(engine, call.key()?.as_deref())
}

/// The scope of a call that means all keys by default. If the call names one thing by its id, a key restricts it to that key's things.
pub(super) fn scope_or_all(engine: &Arc<Engine>, call: &Call) -> Result<Scope, ControlError> {
    read(engine, Some(call.key()?.as_deref().unwrap_or("*")))
}

/// Refuses a call with an invalid key. Opens no workspace.
pub(super) fn check_key(engine: &Arc<Engine>, call: &Call) -> Result<(), ControlError> {
    let key = call.key()?.filter(|key| key != "*");
    key.map_or(Ok(()), |key| Ok(engine.workspace_name(Some(&key)).map(drop)?))
}

fn read(engine: &Arc<Engine>, key: Option<&str>) -> Result<Scope, ControlError> {
    let one = if key == Some("*") { None } else { Some(engine.workspace(key)?) };
    Ok(Scope(one))
}

impl From<KeyProblem> for ControlError {
    fn from(problem: KeyProblem) -> Self {
        let message = problem.to_string();
        match problem {
            KeyProblem::All => Self::invalid(message),
            KeyProblem::UnknownId(_) => Self::not_found(message),
            KeyProblem::Invalid(_) => Self::not_found(message).with(|error| error.parameter = Some("key".to_owned())),
        }
    }
}

/// The key of a call, masked for a log line.
pub(super) fn whose(call: &Call, workspace: Option<&str>) -> String {
    workspace.map_or_else(|| "all keys".to_owned(), |name| call.redactor().key(name).into_owned())
}
