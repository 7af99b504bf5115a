//! `POST reset`: restores one key, or everything, to the state before the first request.

use super::call::Input;
use super::scenarios::refused;
use super::scope::{Scope, scope, whose};
use super::{Control, ControlError, api};

pub(super) fn reset(control: &Control, input: &Input<api::Reset>) -> Result<api::WasReset, ControlError> {
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
    Ok(api::WasReset { reset, keys, generation: control.library.load().number })
}
