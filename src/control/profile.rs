//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: the settings, changes of them while running, and the
//! document that follows from them.

use std::sync::Arc;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Body, Call, ControlCall, Made, Query, Tag};
use super::command::CallCommand;
use super::context::Context;
use super::fields::{KeyFilter, KeyOrAll, List};
use super::render::{TableRow, Text, cell, for_key, joined, warnings};
use super::reply::json;
use super::scenarios::refused;
use super::{Control, ControlError};
use crate::advice::Audience;
use crate::redact::Redactor;
use crate::scenario::EffectiveConfig;
use crate::settings::api_document::document;
use crate::settings::{LedgerRow, PATCH_SOURCE, SettingPatch, ledger};
use crate::util::wording::{quoted, shorten};

/// The points that the contract leaves open, and the assumptions about them.
///
/// The ledger: for each setting the contract's words, the assumption, the values it may have, and the value in force.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetAssumptions {
    /// Only settings whose names contain this, such as `rate_limit` or `webhooks.retry`.
    pub(crate) about: Option<String>,
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Query<GetAssumptions> {
    type Answer = List<LedgerRow>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::PROFILE, "GET assumptions", |Self { query }, cx| {
            let name = query.key.scope(&cx.engine)?.key();
            let mut data = in_force(&cx.control, name.as_deref(), cx.redactor());
            data.retain(|row| query.about.as_ref().is_none_or(|about| row.setting.contains(about)));
            Ok(List { data })
        })
    }
}

/// Show every setting with its value and where it comes from.
///
/// Each setting in force; with a key, those of that key.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowProfile {
    /// Only settings whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// Only settings that differ from their default.
    #[arg(long)]
    #[schemars(with = "Option<String>", extend("enum" = ["true", "false"]))]
    #[serde(default)]
    pub(crate) changed: bool,
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyOrAll,
}

impl ControlCall for Query<ShowProfile> {
    type Answer = ProfileView;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::PROFILE, "GET profile", show)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["profile show", "profile show --key sk_test_a --json"];
        let group = &["profile set rate_limit.requests=5", "profile unset rate_limit.requests"];
        let command = CallCommand::new("profile show", examples, |query| Self { query }.sent());
        vec![command.leads("Show and change settings while the emulator runs", group)]
    }
}

/// The document of the emulated API.
///
/// It follows the settings in force; what the published contract does not state is marked with `x-assumed`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct GetEmulatedDocument {
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Query<GetEmulatedDocument> {
    type Answer = Made<Map<String, Value>>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::EMULATOR, "GET v1/openapi.json", |Self { query }, cx| {
            Ok(json(&document(&cx.engine.profile_for(query.key.scope(&cx.engine)?.key().as_deref()))).into())
        })
    }
}

/// The settings in force.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields, rename = "Profile")]
pub(crate) struct ProfileView {
    pub(crate) data: Vec<SettingView>,
    /// Changes for all keys, by dotted path.
    pub(crate) patch: Map<String, Value>,
    /// Changes for the key.
    pub(crate) key_patch: Map<String, Value>,
}

/// One setting.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Setting")]
pub(crate) struct SettingView {
    pub(crate) setting: String,
    pub(crate) value: Value,
    pub(crate) source: String,
}

/// Change settings, for all keys or one; null undoes a change.
///
/// Nested like a scenario's `[profile]`, by dotted path, or both. A change overrides `--set` and profile files; the `[profile]` of an
/// active scenario overrides the change. Nothing changes if any of it is invalid, or if a scenario given as text could no longer be read.
/// `changes` and `unchanged` list the effect on each setting named.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("minProperties" = 1, "propertyNames" = setting_names(), "examples" = [{ "rate_limit": { "requests": 5 } }]))]
pub(crate) struct ChangeSettings {
    #[serde(default)]
    pub(crate) key: KeyOrAll,
    #[serde(flatten)]
    pub(crate) settings: Map<String, Value>,
}

impl ControlCall for Body<ChangeSettings> {
    type Answer = Patched;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::PROFILE, "PATCH profile", patch)
    }

    fn commands() -> Vec<CallCommand> {
        let set = "Change settings: `rate_limit.requests=5`. A value that is not valid TOML is read as a string";
        let set_examples = &[
            "profile set rate_limit.requests=5 rate_limit.window=10s",
            "profile set webhooks.scheme=stripe --key sk_test_a",
        ];
        let unset = "Undo changes to a setting, or to a group of settings such as `rate_limit`";
        let sent = |key, settings| Self { body: ChangeSettings { key, settings } }.sent();
        vec![
            CallCommand::new("profile set", set_examples, move |Assignments { settings, key }| {
                sent(key, settings.into_iter().collect())
            })
            .about(set),
            CallCommand::new(
                "profile unset",
                &["profile unset rate_limit.requests"],
                move |Paths { settings, key }| {
                    sent(key, settings.into_iter().map(|path| (path, Value::Null)).collect())
                },
            )
            .about(unset),
        ]
    }
}

#[derive(Args)]
struct Assignments {
    /// The settings to change.
    #[arg(value_name = "PATH=VALUE", required = true, value_parser = assignment)]
    settings: Vec<(String, Value)>,
    #[command(flatten)]
    key: KeyOrAll,
}

#[derive(Args)]
struct Paths {
    /// The settings, or groups of them, to restore.
    #[arg(value_name = "PATH", required = true)]
    settings: Vec<String>,
    #[command(flatten)]
    key: KeyOrAll,
}

/// A setting's path and its value: TOML, or else a string.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let Some((path, value)) = text.split_once('=') else {
        return Err("expected PATH=VALUE, for example rate_limit.requests=5".to_owned());
    };
    let (path, text) = (path.trim(), value.trim());
    let as_toml = toml::from_str::<toml::Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1);
    // JSON has no dates: they stay strings.
    let value = as_toml
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !value.is_datetime())
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or_else(|| Value::from(text));
    Ok((path.to_owned(), value))
}

/// The prefix of the names of changes.
fn setting_names() -> Value {
    let groups: std::collections::BTreeSet<&str> =
        crate::settings::SETTINGS.iter().filter_map(|setting| setting.path.split('.').next()).collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    serde_json::json!({ "pattern": format!(r"^(key|({})(\..+)?)$", groups.join("|")) })
}

/// The changes in force.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Patched {
    pub(crate) generation: u64,
    pub(crate) key: Option<String>,
    pub(crate) patch: Map<String, Value>,
    /// The settings with a new value or origin, in words.
    pub(crate) changes: Vec<String>,
    /// The named settings that did not change.
    pub(crate) unchanged: Vec<String>,
    /// Settings without effect, such as a forward that no subscription can need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

impl From<LedgerRow> for SettingView {
    fn from(LedgerRow { setting, value, source, .. }: LedgerRow) -> Self {
        Self { setting: setting.into_owned(), value, source }
    }
}

impl TableRow for LedgerRow {
    fn table(rows: &[Self]) -> String {
        let paragraph = |row: &Self| {
            let from = if row.source == "default" { String::new() } else { format!("   (from {})", cell(&row.source)) };
            format!(
                "{} = {}{from}\n    contract: {}\n    assumed:  {}\n    may be:   {}\n    observed: {}\n",
                row.setting, row.value, row.contract, row.assumed, row.values, row.observed_by
            )
        };
        rows.iter().map(paragraph).collect()
    }
}

impl Text for ProfileView {
    fn text(&self, _: &Audience) -> String {
        let line = |SettingView { setting, value, source }: &SettingView| {
            let from = if source == "default" { String::new() } else { format!("   (from {})", cell(source)) };
            format!("{} = {value}{from}\n", cell(setting))
        };
        self.data.iter().map(line).collect()
    }
}

impl Text for Patched {
    fn text(&self, _: &Audience) -> String {
        let changes = if self.changes.is_empty() { "nothing".to_owned() } else { joined(&self.changes) };
        let unchanged =
            if self.unchanged.is_empty() { String::new() } else { format!("; {}", joined(&self.unchanged)) };
        let whose = for_key(self.key.as_deref());
        let changed = format!("changed{whose}: {changes}{unchanged}\n");
        changed + &warnings(&self.warnings)
    }
}

/// The ledger under the settings of a key, or of every key without its own.
pub(super) fn in_force(control: &Control, name: Option<&str>, redactor: Redactor<'_>) -> Vec<LedgerRow> {
    let mut rows = ledger(&control.engine.config_for(name).layered);
    for row in &mut rows {
        redactor.setting(&row.setting, &mut row.value);
    }
    rows
}

fn show(Query { query: request }: Query<ShowProfile>, cx: &Context) -> Result<ProfileView, ControlError> {
    let mut profile = settings(&cx.control, request.key.scope(&cx.engine)?.key().as_deref(), cx.redactor());
    let prefix = request.prefix.as_deref().unwrap_or_default();
    profile.data.retain(|row| row.setting.starts_with(prefix));
    if profile.data.is_empty() {
        return Err(ControlError::not_found(format!("no setting begins with `{}`", quoted(prefix))));
    }
    profile.data.retain(|row| !request.changed || row.source != "default");
    Ok(profile)
}

/// The settings of a key, or of every key without its own.
pub(super) fn settings(control: &Control, name: Option<&str>, redactor: Redactor<'_>) -> ProfileView {
    let patches = control.engine.library.load().patches().clone();
    let own = name.and_then(|name| patches.keys.get(name).cloned()).unwrap_or_default();
    ProfileView {
        data: in_force(control, name, redactor).into_iter().map(SettingView::from).collect(),
        patch: patches.global.entries().clone(),
        key_patch: own.entries().clone(),
    }
}

/// The settings of a configuration that are other than in another one.
pub(super) fn differing(config: &EffectiveConfig, other: &EffectiveConfig) -> Vec<SettingView> {
    let pairs = ledger(&config.layered).into_iter().zip(ledger(&other.layered));
    pairs.filter(|(own, other)| own.value != other.value).map(|(own, _)| own.into()).collect()
}

/// Changes settings for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` undoes a
/// change.
fn patch(Body { body }: Body<ChangeSettings>, cx: &Context) -> Result<Patched, ControlError> {
    let ChangeSettings { key, settings } = body;
    if settings.is_empty() {
        return Err(ControlError::invalid("body: expected settings, such as {\"rate_limit\": {\"requests\": 5}}"));
    }
    let name = key.scope(&cx.engine)?.key();
    let now = cx.engine.registry.clock().now().instant;
    let before = ledger(&cx.engine.config_for(name.as_deref()).layered);
    let idle_before = cx.engine.profile_for(name.as_deref()).idle_forwards();
    if let Some(name) = &name {
        cx.engine.make_room_for_key(name);
    }
    let generation =
        cx.engine.library.patch_profile(name.as_deref(), &settings, now).map_err(|found| refused(&found))?;
    let after = ledger(&cx.engine.config_for(name.as_deref()).layered);
    let patches = cx.engine.library.load().patches().clone();
    let patch: Arc<SettingPatch> = match &name {
        None => patches.global,
        Some(name) => patches.keys.get(name).cloned().unwrap_or_default(),
    };
    let name = name.as_deref();
    let (changes, unchanged) = compared(&before, &after, &SettingPatch::paths(&settings), cx.redactor());
    if !changes.is_empty() {
        let message = format!("settings changed for {}: {}", cx.whose(name), changes.join(", "));
        cx.engine.note(name, message, false);
    }
    let key = name.map(|name| cx.redactor().key(name).into_owned());
    let mut idle = cx.engine.profile_for(name).idle_forwards();
    idle.retain(|idle| !idle_before.contains(idle));
    let warnings = idle.iter().map(|idle| cx.redactor().text(&idle.to_string()).into_owned()).collect();
    Ok(Patched { generation, key, patch: patch.entries().clone(), changes, unchanged, warnings })
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
        let path = &*after.setting;
        let is_named = paths.iter().any(|named| named == path || is_below(named, path));
        if !is_named && !paths.iter().any(|named| is_below(path, named)) {
            continue;
        }
        let text = |setting: &LedgerRow| {
            let mut value = setting.value.clone();
            redactor.setting(path, &mut value);
            value.to_string()
        };
        let (was, value) = shortened(&text(before), &text(after));
        match (before.value == after.value, before.source == after.source) {
            (true, true) if is_named => unchanged.push(format!("{path} = {value} (from {})", after.source)),
            (true, true) => {}
            (true, false) if after.source == PATCH_SOURCE => {
                changes.push(format!("{path} = {value} (as it was from {})", before.source));
            }
            _ if after.source == PATCH_SOURCE => changes.push(format!("{path} = {value} (was {was})")),
            _ => changes.push(format!("{path} = {value} again (from {})", after.source)),
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
        let rest: String = text.chars().skip(start).collect();
        format!("{head}{}", shorten(&rest, MAX))
    };
    (part(before), part(after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_toml_or_plain_strings() {
        for (setting, path, value) in [
            ("rate_limit.requests=5", "rate_limit.requests", json!(5)),
            ("rate_limit.window = 30s", "rate_limit.window", json!("30s")),
            ("keys.list=[\"a\"]", "keys.list", json!(["a"])),
            ("a.b={ c = 1 }", "a.b", json!({ "c": 1 })),
            ("a=2026-01-31", "a", json!("2026-01-31")),
            ("a=1\nb = 2", "a", json!("1\nb = 2")),
            ("a=", "a", json!("")),
        ] {
            assert_eq!(assignment(setting).ok(), Some((path.to_owned(), value)), "{setting}");
        }
        assert!(assignment("rate_limit.requests").is_err());
    }
}
