//! `GET snapshot`, `PUT snapshot`, `POST snapshot/fork`, `POST reset`: saves the state of one key, or of everything, as a document, loads
//! it, copies that of a key, or restores the state before the first request.

use std::io::Cursor;
use std::sync::Arc;

use clap::Args;
use hyper::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Body, Call, ControlCall, Made, Options, Query, Tag, USUAL};
use super::command::CallCommand;
use super::context::{Context, KeyScope};
use super::fields::{KeyFilter, KeyOrSample};
use super::render::{Text, cell, joined};
use super::{Control, ControlError, document, scenarios};
use crate::advice::Audience;
use crate::http::answer::{JSON, answer};
use crate::http::body::ResponseBody;
use crate::state::engine::wait_idle_briefly;
use crate::state::journal::NoticeKind;
use crate::state::journal::record::WorkspaceId;
use crate::state::workspace::SnapshotProblem;
use crate::util::wording::counted;

/// Maximum bytes of a snapshot that is loaded over HTTP: some twenty thousand keys with a subscription each.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of keys named in the log line.
const MAX_NAMED: usize = 5;

/// The state of a key, or everything, as a document.
///
/// Contains secrets, because it has everything needed to continue.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct SaveSnapshot {
    #[serde(default)]
    pub(crate) key: KeyOrSample,
}

impl ControlCall for Query<SaveSnapshot> {
    type Answer = Made<SnapshotDocument>;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::STATE, "GET snapshot", |Self { query }, cx| save(query, cx))
    }
}

/// Put a saved state in place.
///
/// The emulator continues as if it had not stopped. A snapshot that cannot be loaded is refused, and nothing changes.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct LoadSnapshot {
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Query<LoadSnapshot> {
    type Answer = Loaded;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::STATE, "PUT snapshot", load).with(Options {
            raw_body: Some(SchemaGenerator::subschema_for::<SnapshotDocument>),
            max_bytes: Some(MAX_BYTES),
            ..USUAL
        })
    }
}

/// Copy the state of a key to a new one.
///
/// The new key has what the other one has now: subscriptions with their secrets, quota, settings, the clock, scenarios
/// with their steps and planned emissions. Its subscriptions have their own ids, and its random values differ. Deliveries that
/// are under way and the journal stay with the other key.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The key, or workspace `ws_…`, that is copied.
    #[arg(long, value_name = "KEY")]
    from: String,
    /// The new key, which must have no state yet.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    key: String,
}

impl ControlCall for Body<Fork> {
    type Answer = Forked;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::STATE, "POST snapshot/fork", fork)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["snapshot fork --from sk_test_prepared --key sk_test_a"];
        vec![CallCommand::new("snapshot fork", examples, |body| Self { body }.sent())]
    }
}

/// The copy.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Forked {
    pub(crate) key: String,
    pub(crate) workspace: WorkspaceId,
    /// The parts that could not be copied.
    pub(crate) warnings: Vec<String>,
}

impl Text for Forked {
    fn text(&self, _: &Audience) -> String {
        let warnings: String = self.warnings.iter().map(|warning| format!("  but {}\n", cell(warning))).collect();
        format!("{} is a copy\n{warnings}", cell(&self.key))
    }
}

fn fork(Body { body }: Body<Fork>, cx: &Context) -> Result<Forked, ControlError> {
    let Fork { from, key } = body;
    let (from, new) = (cx.engine.workspace(Some(&from))?, cx.engine.workspace_name(Some(&key))?);
    let shown = cx.redactor().key(&new).into_owned();
    if cx.engine.registry.find(&new).is_some() {
        let message = format!("key: `{shown}` has state already; reset it first, or name another");
        return Err(ControlError::invalid(message));
    }
    let warnings = cx.engine.fork(&from, &new).map_err(refused)?;
    cx.engine.note(Some(&new), format!("{shown} is a copy of {}", cx.whose(Some(from.name()))), false);
    Ok(Forked { key: shown, workspace: cx.engine.workspace(Some(&new))?.id().into(), warnings })
}

/// Forget what a key did, or everything.
///
/// Puts the key back to its state before the first request: state, quota, clock, random source, its own scenarios, journal and deliveries.
/// With `*`, as
/// after the start. `keys` names those that were reset.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reset {
    #[serde(default)]
    pub(crate) key: KeyOrSample,
}

impl ControlCall for Body<Reset> {
    type Answer = WasReset;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::STATE, "POST reset", reset)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &[
            "reset --key sk_test_a  # forget what one key did",
            "reset --all  # as after the start: every key, the journal, the clock, scenarios",
        ];
        let sent = |ResetArgs { key, all }| Self { body: Reset { key: if all { "*".into() } else { key } } }.sent();
        let excludes = (["all", "key"], "leave one out: `--all` resets every key, `--key KEY` one");
        let command = CallCommand { excludes: Some(excludes), ..CallCommand::new("reset", examples, sent) };
        vec![command.about("Forget what a key did, or everything").after("run")]
    }
}

#[derive(Args)]
struct ResetArgs {
    #[command(flatten)]
    key: KeyOrSample,
    /// Every workspace, the journal, the clock, and everything changed over the control API.
    #[arg(long)]
    all: bool,
}

/// A saved state. Only its frame is documented.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct SnapshotDocument {
    #[schemars(extend("const" = crate::state::workspace::SNAPSHOT_FORMAT))]
    format: String,
    #[schemars(extend("const" = crate::state::workspace::SNAPSHOT_VERSION))]
    version: u64,
    clock: Map<String, Value>,
    whole: Option<Map<String, Value>>,
    workspaces: Vec<WorkspaceFrame>,
}

/// The state of one key.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct WorkspaceFrame {
    key: String,
}

/// The restored state.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Loaded {
    /// Workspaces.
    pub(crate) loaded: usize,
    /// The keys of the first few.
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
    pub(crate) warnings: Vec<String>,
}

/// The keys that were reset.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct WasReset {
    pub(crate) reset: Vec<WorkspaceId>,
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
}

impl Text for Loaded {
    fn text(&self, _: &Audience) -> String {
        let more = if self.loaded > self.keys.len() { ", …" } else { "" };
        let names = if self.keys.is_empty() { String::new() } else { format!(": {}{more}", joined(&self.keys)) };
        let loaded = counted(self.loaded, "workspace");
        let warnings: String = self.warnings.iter().map(|warning| format!("  but {}\n", cell(warning))).collect();
        format!("{loaded} loaded{names}\n{warnings}")
    }
}

impl Text for WasReset {
    fn text(&self, _: &Audience) -> String {
        match self.keys.as_slice() {
            [key] => format!("{} reset\n", cell(key)),
            keys => format!("{} reset\n", counted(keys.len(), "workspace")),
        }
    }
}

async fn save(request: SaveSnapshot, cx: Arc<Context>) -> Result<Made<SnapshotDocument>, ControlError> {
    let control = &cx.control;
    let scope = request.key.scope_soon(control).await?;
    wait_idle_briefly(&scope.workspaces(&control.engine)).await;
    let KeyScope(only) = scope;
    let workspace = only.clone();
    let short = move |control: &Control| document::short(|out| control.engine.snapshot(workspace).write(out));
    let body = if let Some(document) = control.read(&cx.is_disconnected, short).await? {
        ResponseBody::from(document)
    } else {
        let engine = Arc::clone(&control.engine);
        let documents = &control.engine.blocking.documents;
        document::made_while_sent(documents, move |out| engine.snapshot(only).write(out)).await?
    };
    Ok(answer(StatusCode::OK, JSON, body).into())
}

fn load(Query { query: request }: Query<LoadSnapshot>, cx: &Context) -> Result<Loaded, ControlError> {
    let scope = request.key.scope(&cx.engine)?;
    let snapshot = cx.engine.read_snapshot(Cursor::new(&cx.body)).map_err(refused)?;
    let names = || snapshot.workspaces.iter().map(|saved| &saved.key);
    if let KeyScope(Some(workspace)) = scope {
        let only = snapshot.whole.is_none() && snapshot.workspaces.len() == 1;
        if !only || names().next() != Some(workspace.name()) {
            let message = format!("the snapshot is not one of the key `{}` alone", cx.redactor().key(workspace.name()));
            return Err(ControlError::invalid(message));
        }
    }
    let loaded = snapshot.workspaces.len();
    let keys: Vec<String> = names().take(MAX_NAMED).map(|name| cx.redactor().key(name).into_owned()).collect();
    let more = if loaded > keys.len() { format!(" and {} more", loaded - keys.len()) } else { String::new() };
    let whole = if snapshot.whole.is_some() { "everything, with " } else { "" };
    let warnings = cx.engine.load_snapshot(snapshot).map_err(refused)?;
    cx.engine.notify(
        NoticeKind::SnapshotLoaded,
        None,
        format!("snapshot loaded: {whole}{}{more}", keys.join(", ")),
        false,
    );
    let generation = cx.engine.library.load().number;
    Ok(Loaded { loaded, keys, generation, warnings })
}

fn reset(Body { body: request }: Body<Reset>, cx: &Context) -> Result<WasReset, ControlError> {
    let (forgotten, whose, name) = if let KeyScope(Some(workspace)) = request.key.scope(&cx.engine)? {
        cx.engine.reset(&workspace);
        let (whose, name) = (cx.whose(Some(workspace.name())), Arc::clone(workspace.name()));
        (vec![workspace], whose, Some(name))
    } else {
        let forgotten = cx.engine.reset_all().map_err(|found| scenarios::refused(&found))?;
        *cx.control.last_refused.lock() = None;
        (forgotten, "all keys, with scenarios, settings and clock as at the start".to_owned(), None)
    };
    // Logged for no key, because a workspace that was reset has no entries.
    cx.engine.notify(NoticeKind::Reset(name), None, format!("reset: {whose}"), false);
    let keys = forgotten.iter().map(|workspace| cx.redactor().key(workspace.name()).into_owned()).collect();
    let reset = forgotten.iter().map(|workspace| workspace.id().into()).collect();
    Ok(WasReset { reset, keys, generation: cx.engine.library.load().number })
}

fn refused(problem: SnapshotProblem) -> ControlError {
    ControlError::invalid(problem.to_string())
}
