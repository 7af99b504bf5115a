//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: the settings, changes of them while running, and the
//! document that follows from them.

use std::sync::Arc;

use super::api::{self, Assumption, List, Patched, Setting};
use super::call::{Call, Input};
use super::scenarios::refused;
use super::scope::{scope_or_all, whose};
use super::{Control, ControlError, Reply};
use crate::redact::Redactor;
use crate::scenario::{PATCH_SOURCE, SettingPatch};
use crate::settings::{LedgerRow, ledger, openapi};

pub(super) fn assumptions(
    control: &Control,
    input: &Input<api::Assumptions>,
) -> Result<List<Assumption>, ControlError> {
    Ok(assumed(control, scope_or_all(control, input)?.key().as_deref()))
}

/// The ledger under the settings of a key, or of every key without its own.
pub(super) fn assumed(control: &Control, name: Option<&str>) -> List<Assumption> {
    List { data: ledger(&control.config_for(name).layered).into_iter().map(Assumption::from).collect() }
}

pub(super) fn show(control: &Control, input: &Input<api::ShowProfile>) -> Result<api::Profile, ControlError> {
    let query = &input.query;
    let is_changed = match query.changed.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let found = other.escape_debug();
            return Err(ControlError::invalid(format!("changed: expected true or false, found `{found}`")));
        }
    };
    let mut profile = settings(control, scope_or_all(control, input)?.key().as_deref());
    let prefix = query.prefix.as_deref().unwrap_or_default();
    profile.data.retain(|row| row.knob.starts_with(prefix));
    if profile.data.is_empty() {
        return Err(ControlError::not_found(format!("no setting begins with `{}`", prefix.escape_debug())));
    }
    profile.data.retain(|row| !is_changed || row.source != "default");
    Ok(profile)
}

/// The settings of a key, or of every key without its own.
pub(super) fn settings(control: &Control, name: Option<&str>) -> api::Profile {
    let settings = ledger(&control.config_for(name).layered);
    let setting =
        |setting: LedgerRow| Setting { knob: setting.setting.to_owned(), value: setting.value, source: setting.source };
    let patches = control.library.load().patches().clone();
    let own = name.and_then(|name| patches.keys.get(name).cloned()).unwrap_or_default();
    api::Profile {
        data: settings.into_iter().map(setting).collect(),
        patch: patches.global.entries().clone(),
        key_patch: own.entries().clone(),
    }
}

/// Changes settings for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` undoes a
/// change.
pub(super) fn patch(control: &Control, input: &Input<api::PatchProfile>) -> Result<Patched, ControlError> {
    let mut settings = input.body.0.clone();
    // `key` names the key; it is not a setting, unlike `keys`.
    settings.remove("key");
    if settings.is_empty() {
        return Err(ControlError::invalid("body: expected settings, such as {\"rate_limit\": {\"requests\": 5}}"));
    }
    let name = scope_or_all(control, input)?.key();
    let now = control.registry.clock().now().instant;
    let before = ledger(&control.config_for(name.as_deref()).layered);
    let generation = control.library.patch_profile(name.as_deref(), &settings, now).map_err(|found| refused(&found))?;
    let after = ledger(&control.config_for(name.as_deref()).layered);
    let patches = control.library.load().patches().clone();
    let patch: Arc<SettingPatch> = match &name {
        None => patches.global,
        Some(name) => patches.keys.get(name).cloned().unwrap_or_default(),
    };
    let name = name.as_deref();
    let (changes, unchanged) = compared(&before, &after, &SettingPatch::paths(&settings), input.redactor());
    if !changes.is_empty() {
        let message = format!("settings changed for {}: {}", whose(input, name), changes.join(", "));
        control.note(name, message, false);
    }
    let key = name.map(|name| input.redactor().key(name).into_owned());
    Ok(Patched { generation, key, patch: patch.entries().clone(), changes, unchanged })
}

/// The effect of a change, in words: settings with a new value or origin, and settings that were named but did not change.
fn compared(
    before: &[LedgerRow],
    after: &[LedgerRow],
    paths: &[String],
    redactor: Redactor<'_>,
) -> (Vec<String>, Vec<String>) {
    let (mut changes, mut unchanged) = (Vec::new(), Vec::new());
    let is_below = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    for (before, after) in before.iter().zip(after) {
        let knob = after.setting;
        let is_named = paths.iter().any(|path| path == knob || is_below(path, knob));
        if !is_named && !paths.iter().any(|path| is_below(knob, path)) {
            continue;
        }
        let text = |setting: &LedgerRow| {
            let mut value = setting.value.clone();
            redactor.setting(knob, &mut value);
            value.to_string()
        };
        let (was, value) = shortened(&text(before), &text(after));
        match (before.value == after.value, before.source == after.source) {
            (true, true) if is_named => unchanged.push(format!("{knob} = {value} (from {})", after.source)),
            (true, true) => {}
            (true, false) if after.source == PATCH_SOURCE => {
                changes.push(format!("{knob} = {value} (as it was from {})", before.source));
            }
            _ if after.source == PATCH_SOURCE => changes.push(format!("{knob} = {value} (was {was})")),
            _ => changes.push(format!("{knob} = {value} again (from {})", after.source)),
        }
    }
    (changes, unchanged)
}

/// Shortens two values for one line, to the part in which they begin to differ.
fn shortened(before: &str, after: &str) -> (String, String) {
    const LONGEST: usize = 100;
    const CONTEXT: usize = 20;
    let same = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let start =
        if before.chars().count().max(after.chars().count()) > LONGEST { same.saturating_sub(CONTEXT) } else { 0 };
    let part = |text: &str| {
        let head = if start > 0 { "…" } else { "" };
        let shown: String = text.chars().skip(start).take(LONGEST).collect();
        let tail = if text.chars().count() > start + LONGEST { "…" } else { "" };
        format!("{head}{shown}{tail}")
    };
    (part(before), part(after))
}

/// The `OpenAPI` document of the emulated API under the profile of the named key.
pub(super) fn emulated_openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    Ok(Reply::plain(&openapi::document(&control.profile_for(scope_or_all(control, call)?.key().as_deref()))))
}
