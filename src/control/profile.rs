//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: what is assumed, what follows from it, and knobs
//! changed while running.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::scenarios::refused;
use super::scope::scope_or_all;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::openapi;
use crate::contract::profile::ledger;
use crate::scenario::{KnobPatch, Setup};

pub(super) fn assumptions(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    Ok(ok(json!({ "data": ledger(&setup(control, scope_or_all(control, call)?.key()).layered) })))
}

pub(super) fn profile(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let name = scope_or_all(control, call)?.key();
    let settings = setup(control, name.clone()).layered.settings();
    let patches = control.library.patches();
    let own = name.and_then(|name| patches.keys.get(&name).cloned()).unwrap_or_default();
    Ok(ok(json!({ "data": settings, "patch": patches.global.entries(), "key_patch": own.entries() })))
}

/// Changes knobs for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` takes a
/// change back. `key`, beside the knobs or as query parameter, names one key.
pub(super) fn patch(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let mut wish: Map<String, Value> = call.json()?;
    // `keys` is a group of knobs, `key` is none.
    wish.remove("key");
    if wish.is_empty() {
        return Err(ControlError::invalid("body: expected knobs, such as {\"rate_limit\": {\"requests\": 5}}"));
    }
    let name = scope_or_all(control, call)?.key();
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

fn setup(control: &Control, name: Option<Arc<str>>) -> Arc<Setup> {
    Arc::clone(control.library.load().setup_for(name.as_deref()))
}

/// The document of the emulated API, as the profile of the key named makes it.
pub(super) fn openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    Ok(Reply::plain(&openapi::document(&setup(control, scope_or_all(control, call)?.key()).profile)))
}
