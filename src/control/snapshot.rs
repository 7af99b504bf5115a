//! `POST reset`, `GET snapshot`, `PUT snapshot`: restores one key, or everything, to the state before the first request; saves that
//! state as a document, and loads it.

use std::sync::Arc;

use hyper::StatusCode;

use super::call::{Call, Input};
use super::scenarios;
use super::scope::{Scope, scope, scope_or_all, whose};
use super::{Control, ControlError, Reply, api};
use crate::http::answer::{JSON, answer};
use crate::state::engine::settle_for_a_moment;
use crate::state::workspace::{Snapshot, SnapshotProblem};

/// Most bytes of a snapshot that is loaded over HTTP: some twenty thousand keys with a subscription each.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most keys named in the log line.
const MOST_NAMED: usize = 5;

pub(super) fn reset(control: &Control, input: &Input<api::Reset>) -> Result<api::WasReset, ControlError> {
    let (forgotten, whose) = if let Scope(Some(workspace)) = scope(control, input)? {
        control.reset(&workspace);
        let whose = whose(input, Some(workspace.name()));
        (vec![workspace], whose)
    } else {
        let forgotten = control.reset_all().map_err(|found| scenarios::refused(&found))?;
        (forgotten, "all keys, with scenarios, settings and clock as at the start".to_owned())
    };
    // Logged for no key, as a workspace that was reset has no entries.
    control.note(None, format!("reset: {whose}"), false);
    let keys = forgotten.iter().map(|workspace| input.redactor().key(workspace.name()).into_owned()).collect();
    let reset = forgotten.iter().map(|workspace| workspace.id().into()).collect();
    Ok(api::WasReset { reset, keys, generation: control.library.load().number })
}

pub(super) async fn save(control: &Arc<Control>, call: &Call) -> Result<Reply, ControlError> {
    let scope = scope(control, call)?;
    settle_for_a_moment(&scope.workspaces(control)).await;
    let saving = Arc::clone(control);
    let document = control.read(&call.has_left, move || saving.snapshot(scope.0).written()).await?;
    Ok(Reply::of(answer(StatusCode::OK, JSON, document)))
}

pub(super) fn load(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    let scope = scope_or_all(control, call)?;
    let snapshot = Snapshot::read(&call.body).map_err(refused)?;
    if let Scope(Some(workspace)) = scope {
        let only = snapshot.whole.is_none() && snapshot.workspaces.len() == 1;
        if !only || snapshot.workspaces[0].key != **workspace.name() {
            let message =
                format!("the snapshot is not one of the key `{}` alone", call.redactor().key(workspace.name()));
            return Err(ControlError::invalid(message));
        }
    }
    let warnings = control.load_snapshot(&snapshot).map_err(refused)?;
    let loaded = snapshot.workspaces.len();
    let first = snapshot.workspaces.iter().take(MOST_NAMED);
    let keys: Vec<String> = first.map(|saved| call.redactor().key(&saved.key).into_owned()).collect();
    let more = if loaded > keys.len() { format!(" and {} more", loaded - keys.len()) } else { String::new() };
    let whole = if snapshot.whole.is_some() { "everything, with " } else { "" };
    control.note(None, format!("snapshot loaded: {whole}{}{more}", keys.join(", ")), false);
    let generation = control.library.load().number;
    Ok(Reply::masked(&api::Loaded { loaded, keys, generation, warnings }))
}

fn refused(problem: SnapshotProblem) -> ControlError {
    ControlError::invalid(problem.to_string())
}
