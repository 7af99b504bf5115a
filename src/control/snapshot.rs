//! `GET snapshot`, `PUT snapshot`, `POST reset`: saves the state of one key, or of everything, as a document, loads it, or restores
//! the state before the first request.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{iter, unfold};
use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::{Deserializer, Map, Value};
use tokio::sync::mpsc;

use super::call::{Call, Input, Scope, scope, scope_or_all, scope_soon, whose};
use super::endpoint::{Empty, Nothing};
use super::render::{Text, cell, joined};
use super::stream::PIECE_BYTES;
use super::{Control, ControlError, Reply, scenarios};
use crate::http::answer::{JSON, answer};
use crate::http::body::ResponseBody;
use crate::scenario::generation_text;
use crate::state::engine::wait_idle_briefly;
use crate::state::journal::record::WorkspaceId;
use crate::state::workspace;
use crate::state::workspace::{SnapshotProblem, Workspace};
use crate::util::wording::counted;

/// Most bytes of a snapshot that is loaded over HTTP: some twenty thousand keys with a subscription each.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of a document that is made as a whole before it is sent.
const SHORT: usize = 1024 * 1024;
/// How long a document waits for others that are being sent: as long as a reader that has stopped reading is waited for.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Most keys named in the log line.
const MAX_NAMED: usize = 5;

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
    wait_idle_briefly(&scope.workspaces(control)).await;
    let Scope(only) = scope;
    let workspace = only.clone();
    let document = control.read(&call.is_disconnected, move |control| short(&control.snapshot(workspace))).await?;
    match document {
        Some(document) => Ok(answer(StatusCode::OK, JSON, document)),
        None => Ok(answer(StatusCode::OK, JSON, made_while_sent(control, only).await?)),
    }
}

/// The document, if it is short enough to be made before it is sent.
fn short(snapshot: &workspace::Snapshot) -> Option<Vec<u8>> {
    struct Short(Vec<u8>);
    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = self.0.len() + bytes.len() <= SHORT;
            if fits { self.0.write(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut document = Short(Vec::new());
    snapshot.write(&mut document).is_ok().then_some(document.0)
}

/// A long document, of which only a few pieces exist at a time. A few are sent at a time, as each keeps what it still has to show.
async fn made_while_sent(control: &Arc<Control>, only: Option<Arc<Workspace>>) -> Result<ResponseBody, ControlError> {
    let (pieces, mut made) = mpsc::channel(2);
    let (documents, engine) = (control.blocking.documents.clone(), Arc::clone(&control.engine));
    let make = move || {
        if !pieces.is_closed() {
            // An error means that the client has left.
            let _ = engine.snapshot(only).write(BufWriter::with_capacity(PIECE_BYTES, Pieces(pieces)));
        }
    };
    let making = tokio::spawn(async move { documents.run(make).await });
    let first = tokio::time::timeout(MAX_WAIT, made.recv())
        .await
        .map_err(|_| ControlError::busy("other snapshots are still being sent"))?;
    let rest = unfold((made, Some(making)), |(mut made, making)| async move {
        if let Some(piece) = made.recv().await {
            return Some((Ok(piece), (made, making)));
        }
        let has_failed = making?.await.is_err();
        has_failed.then(|| (Err(io::Error::other("the snapshot could not be made")), (made, None)))
    });
    Ok(ResponseBody::stream(iter(first.map(Ok)).chain(rest)))
}

/// Sends what is written to it as pieces of a body.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len().min(PIECE_BYTES);
        let sent = self.0.blocking_send(Bytes::copy_from_slice(&bytes[..size]));
        sent.map(|()| size).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn load(control: &Control, call: &Call, _: Nothing) -> Result<Reply, ControlError> {
    let scope = scope_or_all(control, call)?;
    let snapshot = control.read_snapshot(|| Ok(Deserializer::from_slice(&call.body))).map_err(refused)?;
    let names = || snapshot.workspaces.iter().map(|restored| restored.workspace.name());
    if let Scope(Some(workspace)) = scope {
        let only = snapshot.whole.is_none() && snapshot.workspaces.len() == 1;
        if !only || names().next() != Some(workspace.name()) {
            let message =
                format!("the snapshot is not one of the key `{}` alone", call.redactor().key(workspace.name()));
            return Err(ControlError::invalid(message));
        }
    }
    let loaded = snapshot.workspaces.len();
    let keys: Vec<String> = names().take(MAX_NAMED).map(|name| call.redactor().key(name).into_owned()).collect();
    let more = if loaded > keys.len() { format!(" and {} more", loaded - keys.len()) } else { String::new() };
    let whole = if snapshot.whole.is_some() { "everything, with " } else { "" };
    let warnings = control.load_snapshot(snapshot).map_err(refused)?;
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
