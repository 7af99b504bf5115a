//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: what is assumed, what follows from it, and knobs
//! changed while running.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::notice::{note, whose};
use super::scenarios::refused;
use super::scope::scope_or_all;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::openapi;
use crate::contract::profile::{KnobSetting, ledger};
use crate::redact::Redactor;
use crate::scenario::{KnobPatch, PATCH_SOURCE, Setup};

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
    let before = setup(control, name.clone()).layered.settings();
    let number = control.library.patch_profile(name.as_deref(), &wish, now).map_err(|found| refused(&found))?;
    let after = setup(control, name.clone()).layered.settings();
    let patches = control.library.patches();
    let patch: Arc<KnobPatch> = match &name {
        None => patches.global,
        Some(name) => patches.keys.get(name).cloned().unwrap_or_default(),
    };
    let name = name.as_deref();
    let (changes, unchanged) = compared(&before, &after, &KnobPatch::paths(&wish), call.redactor());
    if !changes.is_empty() {
        let message = format!("settings changed for {}: {}", whose(call, name), changes.join(", "));
        note(control, name, message, false);
    }
    Ok(ok(json!({
        "generation": number,
        "key": name.map(|name| call.redactor().key(name)),
        "patch": patch.entries(),
        "changes": changes,
        "unchanged": unchanged,
    })))
}

/// What a change did to the settings that it names, in words: those that have another value or origin now, and those that were
/// named one by one and have not.
fn compared(
    before: &[KnobSetting],
    after: &[KnobSetting],
    paths: &[String],
    redactor: Redactor<'_>,
) -> (Vec<String>, Vec<String>) {
    let (mut changes, mut unchanged) = (Vec::new(), Vec::new());
    let is_below = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    for (before, after) in before.iter().zip(after) {
        let knob = after.knob;
        let is_named = paths.iter().any(|path| path == knob || is_below(path, knob));
        if !is_named && !paths.iter().any(|path| is_below(knob, path)) {
            continue;
        }
        let text = |setting: &KnobSetting| {
            let mut value = setting.value.clone();
            redactor.setting(knob, &mut value);
            shortened(&value.to_string())
        };
        let value = text(after);
        match (before.value == after.value, before.source == after.source) {
            (true, true) if is_named => unchanged.push(format!("{knob} = {value} (from {})", after.source)),
            (true, true) => {}
            (true, false) if after.source == PATCH_SOURCE => {
                changes.push(format!("{knob} = {value} (as it was from {})", before.source));
            }
            _ if after.source == PATCH_SOURCE => changes.push(format!("{knob} = {value} (was {})", text(before))),
            _ => changes.push(format!("{knob} = {value} again (from {})", after.source)),
        }
    }
    (changes, unchanged)
}

/// A value as a line can hold it.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 100;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn setup(control: &Control, name: Option<Arc<str>>) -> Arc<Setup> {
    Arc::clone(control.library.load().setup_for(name.as_deref()))
}

/// The document of the emulated API, as the profile of the key named makes it.
pub(super) fn openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    Ok(Reply::plain(&openapi::document(&setup(control, scope_or_all(control, call)?.key()).profile)))
}
