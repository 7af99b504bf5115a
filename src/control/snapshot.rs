//! `GET snapshot`, `PUT snapshot`, `POST reset`: saves the state of one key, or of everything, as a document, loads it, or restores
//! the state before the first request.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::{Call, Input, Scope, scope, scope_or_all, scope_soon, whose};
use super::endpoint::{Empty, Nothing};
use super::render::{Text, cell, joined};
use super::{Control, ControlError, Reply, scenarios};
use crate::http::answer::{JSON, answer};
use crate::scenario::generation_text;
use crate::state::engine::settle_for_a_moment;
use crate::state::journal::record::WorkspaceId;
use crate::state::workspace;
use crate::state::workspace::SnapshotProblem;
use crate::util::wording::counted;

/// Most bytes of a snapshot that is loaded over HTTP: some twenty thousand keys with a subscription each.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most keys named in the log line.
const MOST_NAMED: usize = 5;

/// A saved state. Only its frame is documented.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Snapshot {
    #[cfg_attr(test, schemars(extend("const" = crate::state::workspace::SNAPSHOT_FORMAT)))]
    format: String,
    #[cfg_attr(test, schemars(extend("const" = crate::state::workspace::SNAPSHOT_VERSION)))]
    version: u64,
    clock: Map<String, Value>,
    whole: Option<Map<String, Value>>,
    workspaces: Vec<WorkspaceFrame>,
}

/// The state of one key.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct WorkspaceFrame {
    key: String,
}

/// What was put in place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Loaded {
    /// Workspaces.
    pub(crate) loaded: usize,
    /// The keys of the first few.
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
    pub(crate) warnings: Vec<String>,
}

/// What was forgotten.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct WasReset {
    pub(crate) reset: Vec<WorkspaceId>,
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
}

impl Text for Loaded {
    fn text(&self) -> String {
        let more = if self.loaded > self.keys.len() { ", …" } else { "" };
        let names = if self.keys.is_empty() { String::new() } else { format!(": {}{more}", joined(&self.keys)) };
        let (loaded, generation) = (counted(self.loaded, "workspace"), generation_text(self.generation));
        let warnings: String = self.warnings.iter().map(|warning| format!("  but {}\n", cell(warning))).collect();
        format!("{loaded} loaded{names} ({generation})\n{warnings}")
    }
}

impl Text for WasReset {
    fn text(&self) -> String {
        match self.keys.as_slice() {
            [key] => format!("{} reset\n", cell(key)),
            keys => format!("{} reset\n", counted(keys.len(), "workspace")),
        }
    }
}

pub(super) async fn save(control: &Arc<Control>, call: &Call) -> Result<Reply, ControlError> {
    let scope = scope_soon(control, call.key()?).await?;
    settle_for_a_moment(&scope.workspaces(control)).await;
    let document = control.read(&call.is_disconnected, move |control| control.snapshot(scope.0).written()).await?;
    Ok(answer(StatusCode::OK, JSON, document))
}

pub(super) fn load(control: &Control, call: &Call, _: Nothing) -> Result<Reply, ControlError> {
    let scope = scope_or_all(control, call)?;
    let snapshot = workspace::Snapshot::read(&call.body).map_err(refused)?;
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
    Ok(call.reply(&Loaded { loaded, keys, generation, warnings }))
}

pub(super) fn reset(control: &Control, input: &Input<Nothing, Empty>) -> Result<WasReset, ControlError> {
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
    Ok(WasReset { reset, keys, generation: control.library.load().number })
}

fn refused(problem: SnapshotProblem) -> ControlError {
    ControlError::invalid(problem.to_string())
}
