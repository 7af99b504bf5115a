//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: the settings, changes of them while running, and the
//! document that follows from them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Call, Input, flag, scope_or_all, whose};
use super::endpoint::{List, Nothing};
use super::render::{Row, Text, cell, joined, of_key};
use super::reply::json;
use super::scenarios::refused;
use super::{Control, ControlError, Reply};
use crate::redact::Redactor;
use crate::scenario::{EffectiveConfig, PATCH_SOURCE, SettingPatch, generation_text};
use crate::settings::{LedgerRow, ledger, openapi};

/// Which settings are shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProfileQuery {
    /// Only settings whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// True if only settings that differ from their default are shown.
    #[cfg_attr(test, schemars(extend("enum" = ["true", "false"])))]
    pub(crate) changed: Option<String>,
}

/// The settings in force.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Profile {
    pub(crate) data: Vec<Setting>,
    /// Changes for all keys, by dotted path.
    pub(crate) patch: Map<String, Value>,
    /// Changes for the key.
    pub(crate) key_patch: Map<String, Value>,
}

/// One setting.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Setting {
    pub(crate) knob: String,
    pub(crate) value: Value,
    pub(crate) source: String,
    /// The comment above its assignment in a profile file, at most 500 characters; absent without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

/// Settings to change: nested like a scenario's `[profile]`, by dotted path, or both.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, extend("minProperties" = 1, "propertyNames" = setting_names(), "examples" = [{ "rate_limit": { "requests": 5 } }])))]
#[serde(transparent)]
pub(crate) struct Patch(pub(crate) Map<String, Value>);

/// What the names of changes begin with.
#[cfg(test)]
fn setting_names() -> Value {
    let groups: std::collections::BTreeSet<&str> =
        crate::settings::SETTINGS.iter().filter_map(|setting| setting.path.split('.').next()).collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    serde_json::json!({ "pattern": format!(r"^(key|({})(\..+)?)$", groups.join("|")) })
}

/// The changes in force.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Patched {
    pub(crate) generation: u64,
    pub(crate) key: Option<String>,
    pub(crate) patch: Map<String, Value>,
    /// What has another value or origin now, in words.
    pub(crate) changes: Vec<String>,
    /// What was named but did not change.
    pub(crate) unchanged: Vec<String>,
}

impl From<LedgerRow> for Setting {
    fn from(LedgerRow { setting, value, source, note, .. }: LedgerRow) -> Self {
        Self { knob: setting.to_owned(), value, source, note }
    }
}

impl Row for LedgerRow {
    fn table(rows: &[Self]) -> String {
        let paragraph = |row: &Self| {
            let from = if row.source == "default" { String::new() } else { format!("   (from {})", cell(&row.source)) };
            let note = if row.note.is_empty() { String::new() } else { format!("    note:     {}\n", cell(&row.note)) };
            format!(
                "{} = {}{from}\n{note}    contract: {}\n    assumed:  {}\n    may be:   {}\n    observed: {}\n",
                row.setting, row.value, row.contract, row.assumed, row.values, row.observed_by
            )
        };
        rows.iter().map(paragraph).collect()
    }
}

impl Text for Profile {
    fn text(&self) -> String {
        let line = |Setting { knob, value, source, .. }: &Setting| {
            let from = if source == "default" { String::new() } else { format!("   (from {})", cell(source)) };
            format!("{} = {value}{from}\n", cell(knob))
        };
        self.data.iter().map(line).collect()
    }
}

impl Text for Patched {
    fn text(&self) -> String {
        let changes = if self.changes.is_empty() { "nothing".to_owned() } else { joined(&self.changes) };
        let unchanged =
            if self.unchanged.is_empty() { String::new() } else { format!("; {}", joined(&self.unchanged)) };
        let whose = of_key(self.key.as_deref());
        format!("changed{whose}: {changes}{unchanged} ({})\n", generation_text(self.generation))
    }
}

pub(super) fn assumptions(control: &Control, input: &Input) -> Result<List<LedgerRow>, ControlError> {
    Ok(List { data: in_force(control, scope_or_all(control, input)?.key().as_deref(), input.redactor()) })
}

/// The ledger under the settings of a key, or of every key without its own.
pub(super) fn in_force(control: &Control, name: Option<&str>, redactor: Redactor<'_>) -> Vec<LedgerRow> {
    let mut rows = ledger(&control.config_for(name).layered);
    for row in &mut rows {
        redactor.setting(row.setting, &mut row.value);
    }
    rows
}

pub(super) fn show(control: &Control, input: &Input<ProfileQuery>) -> Result<Profile, ControlError> {
    let query = &input.query;
    let is_changed = flag("changed", query.changed.as_deref())?;
    let mut profile = settings(control, scope_or_all(control, input)?.key().as_deref(), input.redactor());
    let prefix = query.prefix.as_deref().unwrap_or_default();
    profile.data.retain(|row| row.knob.starts_with(prefix));
    if profile.data.is_empty() {
        return Err(ControlError::not_found(format!("no setting begins with `{}`", prefix.escape_debug())));
    }
    profile.data.retain(|row| !is_changed || row.source != "default");
    Ok(profile)
}

/// The settings of a key, or of every key without its own.
pub(super) fn settings(control: &Control, name: Option<&str>, redactor: Redactor<'_>) -> Profile {
    let patches = control.library.load().patches().clone();
    let own = name.and_then(|name| patches.keys.get(name).cloned()).unwrap_or_default();
    Profile {
        data: in_force(control, name, redactor).into_iter().map(Setting::from).collect(),
        patch: patches.global.entries().clone(),
        key_patch: own.entries().clone(),
    }
}

/// The settings of a configuration that are other than in another one.
pub(super) fn differing(config: &EffectiveConfig, other: &EffectiveConfig) -> Vec<Setting> {
    let pairs = ledger(&config.layered).into_iter().zip(ledger(&other.layered));
    pairs.filter(|(own, other)| own.value != other.value).map(|(own, _)| own.into()).collect()
}

/// Changes settings for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` undoes a
/// change.
pub(super) fn patch(control: &Control, input: &Input<Nothing, Patch>) -> Result<Patched, ControlError> {
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
    const MAX: usize = 100;
    const CONTEXT: usize = 20;
    let same = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let start = if before.chars().count().max(after.chars().count()) > MAX { same.saturating_sub(CONTEXT) } else { 0 };
    let part = |text: &str| {
        let head = if start > 0 { "…" } else { "" };
        let shown: String = text.chars().skip(start).take(MAX).collect();
        let tail = if text.chars().count() > start + MAX { "…" } else { "" };
        format!("{head}{shown}{tail}")
    };
    (part(before), part(after))
}

/// The `OpenAPI` document of the emulated API under the profile of the named key.
pub(super) fn emulated_openapi(control: &Control, call: &Call, _: Nothing) -> Result<Reply, ControlError> {
    Ok(json(&openapi::document(&control.profile_for(scope_or_all(control, call)?.key().as_deref()))))
}
