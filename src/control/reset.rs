//! `POST reset`: restores one key, or everything, to the state before the first request.

use serde::{Deserialize, Serialize};

use super::call::{Input, Scope, scope, whose};
use super::endpoint::{Empty, Form, Nothing, endpoint};
use super::render::{Text, cell};
use super::scenarios::refused;
use super::{Control, ControlError};
use crate::state::journal::record::WorkspaceId;
use crate::util::wording::counted;

endpoint! {
    /// Forget what a key did, or everything.
    Reset: POST "reset", Form::Masked, Nothing, Empty => WasReset;
}

/// What was forgotten.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct WasReset {
    pub(crate) reset: Vec<WorkspaceId>,
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
}

impl Text for WasReset {
    fn text(&self) -> String {
        match self.keys.as_slice() {
            [key] => format!("{} reset\n", cell(key)),
            keys => format!("{} reset\n", counted(keys.len(), "workspace")),
        }
    }
}

pub(super) fn reset(control: &Control, input: &Input<Reset>) -> Result<WasReset, ControlError> {
    let (forgotten, whose) = if let Scope(Some(workspace)) = scope(control, input)? {
        control.reset(&workspace);
        let whose = whose(input, Some(workspace.name()));
        (vec![workspace], whose)
    } else {
        let forgotten = control.reset_all().map_err(|found| refused(&found))?;
        (forgotten, "all keys, with scenarios, settings and clock as at the start".to_owned())
    };
    // Logged for no key, as a workspace that was reset has no entries.
    control.note(None, format!("reset: {whose}"), false);
    let keys = forgotten.iter().map(|workspace| input.redactor().key(workspace.name()).into_owned()).collect();
    let reset = forgotten.iter().map(|workspace| workspace.id().into()).collect();
    Ok(WasReset { reset, keys, generation: control.library.load().number })
}
