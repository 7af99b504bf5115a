//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: what is assumed, what follows from it, and knobs
//! changed while running.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::scenarios::refused;
use super::scope::workspace;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::openapi;
use crate::contract::profile::ledger;
use crate::scenario::{KnobPatch, Setup};

pub(super) fn assumptions(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    Ok(ok(json!({ "data": ledger(&setup(control, whose(control, call, None)?).layered) })))
}

pub(super) fn profile(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let name = whose(control, call, None)?;
    let settings = setup(control, name.clone()).layered.settings();
    let patches = control.library.patches();
    let own = name.and_then(|name| patches.keys.get(&name).cloned()).unwrap_or_default();
    Ok(ok(json!({ "data": settings, "patch": patches.global.entries(), "key_patch": own.entries() })))
}

/// Changes knobs for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` takes a
/// change back. `key`, beside the knobs or as query parameter, names one key.
pub(super) fn patch(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let mut wish: Map<String, Value> = call.json()?;
    // `keys` is a group of knobs, `key` is none.
    let named = match wish.remove("key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(ControlError::invalid("key: expected a string")),
    };
    if wish.is_empty() {
        return Err(ControlError::invalid("body: expected knobs, such as {\"rate_limit\": {\"requests\": 5}}"));
    }
    let name = whose(control, call, named)?;
    let now = control.registry.clock().now().moment;
    let number = control.library.patch_profile(name.as_deref(), &wish, now).map_err(|found| refused(&found))?;
    let patches = control.library.patches();
    let patch: Arc<KnobPatch> = match &name {
        None => patches.global,
        Some(name) => patches.keys.get(name).cloned().unwrap_or_default(),
    };
    Ok(ok(
        json!({ "generation": number, "key": name.as_deref().map(|name| call.redactor().key(name)), "patch": patch.entries() }),
    ))
}

/// The name of the workspace that a call means; `None` for all keys.
fn whose(control: &Control, call: &Call, named: Option<String>) -> Result<Option<Arc<str>>, ControlError> {
    match named.or_else(|| call.query("key")).as_deref() {
        None | Some("*") => Ok(None),
        Some(key) => Ok(Some(Arc::clone(workspace(control, Some(key))?.name()))),
    }
}

fn setup(control: &Control, name: Option<Arc<str>>) -> Arc<Setup> {
    Arc::clone(control.library.load().setup_for(name.as_deref()))
}

/// The document of the emulated API.
pub(super) fn openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let generation = control.library.load();
    Ok(Reply::plain(&openapi::document(&generation.setup_for(None).profile)))
}
