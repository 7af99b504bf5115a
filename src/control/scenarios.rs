//! `GET scenarios`, `GET scenarios/{name}`, `PUT`/`DELETE scenarios/{name}`, `POST scenarios/active`, `POST scenarios/reload`.

use std::borrow::Cow;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use clap::Args;
use hyper::header::CONTENT_TYPE;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ControlError;
use super::call::{Body, Call, ControlCall, Options, Query, Tag, USUAL};
use super::command::CallCommand;
use super::context::Context;
use super::fields::{KeyFilter, KeyOrAll, NoFields};
use super::render::{Text, cell, joined, optional, table};
use crate::advice::Audience;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::scenario::{Activation, Scenario, ScenarioOrigin, ScenarioSnapshot, Stale, json_to_toml};
use crate::state::journal::record::name_of;
use crate::util::wording::{counted, quoted};

/// List all scenarios and which are active.
///
/// From folders, from text and built in, each with its state: `ok`, `broken` (with its `problem`) or `deleted`; the last two stay in force
/// in their last good version. With a key, which are active for it.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ListScenarios {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyOrAll,
}

impl ControlCall for Query<ListScenarios> {
    type Answer = Scenarios;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "GET scenarios", list)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["scenarios list", "scenarios list --key sk_test_mine --json"];
        let group = &["scenarios", "scenarios use rate-limit-burst"];
        let command = CallCommand::new("scenarios list", examples, |query| Self { query }.sent());
        vec![command.leads("List, show, choose, reload and write scenarios", group)]
    }
}

/// Show one scenario's text.
///
/// With its details, rules and emissions.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowScenario {
    #[command(flatten)]
    pub(crate) path: ScenarioPath,
    #[command(flatten)]
    pub(crate) query: NoFields,
}

#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ScenarioPath {
    /// The scenario's name.
    #[arg(value_parser = scenario_name)]
    #[schemars(length(min = 1), extend("examples" = ["rate-limit-burst"]))]
    pub(crate) name: String,
}

impl ControlCall for ShowScenario {
    type Answer = ScenarioWhole;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "GET scenarios/{name}", show)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["scenarios show rate-limit-burst > scenarios/mine.toml"];
        vec![CallCommand::new("scenarios show", examples, |request: Self| request.sent())]
    }
}

/// Add a scenario, or replace it.
///
/// As TOML, or as JSON with the same keys. A text with a problem is refused with every problem in it, and nothing changes; with
/// `dry_run=true` a valid one changes nothing either.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct PutScenario {
    pub(crate) path: ScenarioPath,
    pub(crate) query: PutQuery,
}

#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct PutQuery {
    /// Only check the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for PutScenario {
    type Answer = Added;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "PUT scenarios/{name}", put).with(Options {
            raw_body: Some(SchemaGenerator::subschema_for::<ScenarioFile>),
            takes_toml: true,
            ..USUAL
        })
    }
}

/// Remove a scenario that was added here.
///
/// Scenarios in folders and in the program stay.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct RemoveScenario {
    pub(crate) path: ScenarioPath,
    pub(crate) body: NoFields,
}

impl ControlCall for RemoveScenario {
    type Answer = Removed;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "DELETE scenarios/{name}", remove)
    }
}

/// Read the scenario folders again now.
///
/// Without waiting for the watcher. A broken file is a 422 with every problem; all others are loaded. `changes` names the files and
/// rules that changed.
#[derive(Args, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReloadScenarios {
    #[arg(skip)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Body<ReloadScenarios> {
    type Answer = Reloaded;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::SCENARIOS, "POST scenarios/reload", reload)
    }

    fn commands() -> Vec<CallCommand> {
        vec![CallCommand::new("scenarios reload", &["scenarios reload"], |body| Self { body }.sent())]
    }
}

/// The name of a scenario as typed: its name or its file, so that `scenarios/story.toml` is `story`.
pub(super) fn scenario_name(text: &str) -> Result<String, String> {
    let file = Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or(text);
    match file.strip_suffix(".toml").unwrap_or(text) {
        "" => Err("expected the name of a scenario, found nothing".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// All scenarios.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Scenarios {
    pub(crate) generation: u64,
    /// Active for every key without its own list, in order; for the key that the call names, those active for it.
    pub(crate) active: Vec<String>,
    pub(crate) active_by_key: Vec<KeyList>,
    pub(crate) data: Vec<ScenarioRow>,
    /// The problems of the files.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The list of one key.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct KeyList {
    pub(crate) key: String,
    /// True if the key is masked, and so names nothing.
    #[serde(skip)]
    pub(super) is_masked: bool,
    pub(crate) active: Vec<String>,
}

impl KeyList {
    pub(super) fn line(&self) -> String {
        let names = if self.active.is_empty() { "none".to_owned() } else { joined(&self.active) };
        format!("{} has its own list: {names}", cell(&self.key))
    }
}

/// A scenario as a row of the listing; one whose file was never valid has nothing but its problem.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Scenario")]
pub(crate) struct ScenarioRow {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    /// `built-in`, `inline`, or the path of its file.
    pub(crate) origin: String,
    pub(crate) active: bool,
    pub(crate) rules: usize,
    pub(crate) emits: usize,
    /// True if it matches its saved file; if not, its last valid version stays.
    pub(crate) state: ScenarioState,
    pub(crate) problem: Option<Diagnostic>,
}

/// True if a scenario is as its file is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScenarioState {
    Ok,
    Broken,
    Deleted,
}

/// A scenario with its text.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ScenarioWhole {
    #[serde(flatten)]
    pub(crate) row: ScenarioRow,
    pub(crate) description: Option<String>,
    pub(crate) text: String,
}

/// A scenario was added or replaced, or would have been.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Added {
    pub(crate) name: String,
    pub(crate) dry_run: bool,
    pub(crate) generation: u64,
    /// Warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A scenario was removed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Removed {
    pub(crate) removed: String,
    pub(crate) generation: u64,
}

/// The folders were read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Reloaded {
    pub(crate) generation: u64,
    /// Files read.
    pub(crate) files: usize,
    /// The changes, one line each.
    pub(crate) changes: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Text for Scenarios {
    fn text(&self, _: &Audience) -> String {
        let rows = self.data.iter().map(|row| {
            let active = if row.active { "*" } else { "" };
            let held_back = match row.state {
                ScenarioState::Ok => String::new(),
                state => format!(" ({})", name_of(state)),
            };
            [active.to_owned(), cell(&row.name), optional(row.title.as_ref()), cell(&row.origin) + &held_back]
        });
        let mut text = table(["", "NAME", "TITLE", "ORIGIN"], rows);
        text.extend(self.active_by_key.iter().map(|own| own.line() + "\n"));
        text.extend(self.diagnostics.iter().map(|problem| "\n".to_owned() + &lines(slice::from_ref(problem))));
        text
    }
}

/// Diagnostics, one a line, each with its hint below.
pub(super) fn lines(found: &[Diagnostic]) -> String {
    let hint = |hint: &str| if hint.is_empty() { String::new() } else { format!("  hint: {}\n", cell(hint)) };
    let line = |problem: &Diagnostic| {
        let (severity, place) = (name_of(problem.severity), problem.place());
        format!("{severity}: {}{}\n{}", cell(place), cell(&problem.message), hint(&problem.hint))
    };
    found.iter().map(line).collect()
}

impl Text for ScenarioWhole {
    fn text(&self, _: &Audience) -> String {
        self.text.clone()
    }
}

impl Text for Added {
    fn text(&self, _: &Audience) -> String {
        let what = if self.dry_run { "is valid" } else { "added" };
        format!("{} {what}\n{}", cell(&self.name), lines(&self.diagnostics))
    }
}

impl Text for Removed {
    fn text(&self, _: &Audience) -> String {
        format!("{} removed\n", cell(&self.removed))
    }
}

impl Text for Reloaded {
    fn text(&self, _: &Audience) -> String {
        let changes: String = self.changes.iter().map(|change| format!("{}\n", cell(change))).collect();
        format!("{} read\n{changes}{}", counted(self.files, "file"), lines(&self.diagnostics))
    }
}

fn list(Query { query: request }: Query<ListScenarios>, cx: &Context) -> Result<Scenarios, ControlError> {
    let snapshot = cx.engine.library.load();
    let key = named(cx, &request.key)?;
    let active: Vec<String> = match key.as_deref() {
        None => names(&snapshot.active().names),
        key => snapshot.config_for(key).active.iter().map(|scenario| scenario.name.to_string()).collect(),
    };
    let row = |name: &Arc<str>| ScenarioRow {
        active: active.iter().any(|active| **active == **name),
        ..row(&snapshot, name, snapshot.find(name).as_deref())
    };
    Ok(Scenarios {
        generation: snapshot.number,
        data: snapshot.names().iter().map(row).collect(),
        active_by_key: own_lists(&snapshot, cx.redactor()),
        diagnostics: cx.engine.library.diagnostics(),
        active,
    })
}

/// The name of the workspace that is meant, which is not opened, as that would start the list of all keys in it.
pub(super) fn named(cx: &Context, key: &KeyOrAll) -> Result<Option<Arc<str>>, ControlError> {
    let key = key.meant().filter(|key| *key != "*");
    Ok(key.map(|key| cx.engine.workspace_name(Some(key))).transpose()?)
}

pub(super) fn own_lists(snapshot: &ScenarioSnapshot, redactor: Redactor<'_>) -> Vec<KeyList> {
    let list = |(key, own): (&Arc<str>, &Activation)| KeyList {
        is_masked: redactor.masks(key),
        key: redactor.key(key).into_owned(),
        active: names(&own.names),
    };
    snapshot.active_by_key().iter().map(list).collect()
}

fn names(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A scenario as a row of the listing. One whose file was never valid has only its problem.
fn row(snapshot: &ScenarioSnapshot, name: &str, scenario: Option<&Scenario>) -> ScenarioRow {
    let (state, problem) = match snapshot.held_back(name) {
        None => (ScenarioState::Ok, None),
        Some(Stale::Deleted) => (ScenarioState::Deleted, None),
        Some(Stale::Broken(problem)) => (ScenarioState::Broken, Some(&**problem)),
    };
    let origin = match scenario.map(|scenario| &scenario.origin) {
        Some(ScenarioOrigin::BuiltIn) => "built-in".to_owned(),
        Some(ScenarioOrigin::File(path)) => path.display().to_string(),
        Some(ScenarioOrigin::Inline) => "inline".to_owned(),
        None => problem.and_then(|problem| problem.file.clone()).unwrap_or_default(),
    };
    ScenarioRow {
        name: name.to_owned(),
        title: scenario.map(|scenario| scenario.title.clone()),
        origin,
        active: snapshot.active().names.iter().any(|active| **active == *name),
        rules: scenario.map_or(0, |scenario| scenario.rules.len()),
        emits: scenario.map_or(0, |scenario| scenario.emits.len()),
        state,
        problem: problem.cloned(),
    }
}

fn show(ShowScenario { path, .. }: ShowScenario, cx: &Context) -> Result<ScenarioWhole, ControlError> {
    let snapshot = cx.engine.library.load();
    let scenario = snapshot.find(&path.name).ok_or_else(|| unknown(&snapshot, &path.name))?;
    Ok(whole(&snapshot, &scenario.name))
}

/// A scenario with its text, which is empty if its file was never valid.
pub(super) fn whole(snapshot: &ScenarioSnapshot, name: &str) -> ScenarioWhole {
    let scenario = snapshot.find(name);
    ScenarioWhole {
        row: row(snapshot, name, scenario.as_deref()),
        description: scenario.as_ref().and_then(|scenario| scenario.description.clone()),
        text: scenario.map(|scenario| scenario.text.to_string()).unwrap_or_default(),
    }
}

/// A scenario as JSON; `scenarios schema` prints the schema of all of it.
#[derive(JsonSchema)]
#[schemars(inline, extend("minProperties" = 1, "propertyNames" = file_keys(), "examples" = [file_example()]))]
struct ScenarioFile(#[allow(dead_code, reason = "for the schema")] Map<String, Value>);

/// The keys of a scenario, and the field of every body.
fn file_keys() -> Value {
    let schema = crate::scenario::schema();
    let keys = schema["properties"].as_object().expect("it has keys").keys().map(String::as_str);
    serde_json::json!({ "enum": keys.chain(["key"]).collect::<Vec<_>>() })
}

fn file_example() -> Value {
    serde_json::json!({ "rule": [{ "times": 3, "reply": { "error": "rate_limit_exceeded" } }] })
}

fn put(PutScenario { path, query }: PutScenario, cx: &Context) -> Result<Added, ControlError> {
    let (name, dry_run) = (path.name, query.dry_run);
    let text = std::str::from_utf8(&cx.body).map_err(|_| ControlError::invalid("body: is not UTF-8"))?;
    let content_type = cx.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = if content_type.trim_ascii_start().to_ascii_lowercase().starts_with("application/toml") {
        text.to_owned()
    } else {
        json_to_toml(&without_key(text)).map_err(|problem| ControlError::invalid(format!("body: {problem}")))?
    };
    let added = if dry_run {
        cx.engine.library.check_inline(&name, &text).map(|(_, found)| (cx.engine.library.load().number, found))
    } else {
        cx.engine.library.put_inline(&name, &text, cx.engine.registry.clock().now().instant)
    };
    let (generation, diagnostics) = added.map_err(|found| refused(&found))?;
    Ok(Added { name, dry_run, generation, diagnostics })
}

/// A scenario as JSON, without the `key` that every body may contain.
fn without_key(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(mut scenario) if scenario.contains_key("key") => {
            scenario.remove("key");
            Value::from(scenario).to_string().into()
        }
        _ => text.into(),
    }
}

fn remove(RemoveScenario { path, .. }: RemoveScenario, cx: &Context) -> Result<Removed, ControlError> {
    let name = path.name;
    let present = cx.engine.library.load().find(&name);
    if let Some(scenario) = present.filter(|scenario| scenario.origin != ScenarioOrigin::Inline) {
        let message = format!("`{}` was not added over the control API, so it cannot be removed here", scenario.name);
        return Err(ControlError::invalid(message));
    }
    let now = cx.engine.registry.clock().now().instant;
    let generation = cx.engine.library.remove_inline(&name, now).map_err(|found| refused(&found))?;
    Ok(Removed { removed: name, generation })
}

/// Reads the folders again now. If a file is broken, the answer is a 422 and all others are loaded.
fn reload(_: Body<ReloadScenarios>, cx: &Context) -> Result<Reloaded, ControlError> {
    let files = cx.engine.scenario_folders.read();
    let count = files.iter().filter(|(_, text)| text.as_ref().err().is_none_or(|problem| problem.is_error())).count();
    let reload = cx.engine.reload_changed(files);
    let generation = reload.generation;
    if reload.found.iter().any(Diagnostic::is_error) {
        let more = reload.found.iter().filter(|problem| problem.is_error()).count() - 1;
        let more = if more > 0 { format!("{more} more; `wrs-emulator check` shows all; ") } else { String::new() };
        let loaded = format!("{more}files without an error are loaded");
        let refused = refused(&reload.found).and(Some(loaded));
        return Err(refused.with(|error| error.generation = Some(generation)));
    }
    Ok(Reloaded { generation, files: count, changes: reload.changes, diagnostics: reload.found })
}

fn unknown(snapshot: &ScenarioSnapshot, name: &str) -> ControlError {
    if let Some(Stale::Broken(problem)) = snapshot.held_back(name) {
        return ControlError::not_found(format!("`{name}` was never valid: {}", problem.one_line()));
    }
    let names = snapshot.names();
    let hint = match crate::contract::nearest(name, names.iter().map(AsRef::as_ref)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    ControlError::not_found(format!("there is no scenario `{}`{hint}", quoted(name)))
}

/// A refused change, with the first problem as message and all as diagnostics. An unknown scenario is a 404.
pub(super) fn refused(found: &[Diagnostic]) -> ControlError {
    let first = found.iter().find(|problem| problem.is_error()).or(found.first());
    let message = first.map_or_else(String::new, Diagnostic::one_line);
    let unknown = first.is_some_and(|problem| problem.code == "scenario/unknown-scenario");
    let error = if unknown { ControlError::not_found(message) } else { ControlError::invalid(message) };
    error.with(|error| error.diagnostics = Some(found.to_vec()))
}
