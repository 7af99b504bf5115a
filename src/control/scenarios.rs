//! `GET scenarios`, `GET scenarios/{name}`, `PUT`/`DELETE scenarios/{name}`, `POST scenarios/active`, `POST scenarios/reload`.

use std::borrow::Cow;
use std::slice;
use std::sync::Arc;

use hyper::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Call, Input, whose};
use super::endpoint::{Empty, KeyField, Nothing};
use super::render::{Text, cell, joined, of_key, optional, table};
use super::{Control, ControlError, Reply};
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::scenario::{
    Activation, Scenario, ScenarioOrigin, ScenarioSnapshot, Stale, generation_text, json_to_toml, read_file,
};
use crate::state::journal::record::name_of;
use crate::util::wording::{counted, shell_word};

/// All scenarios.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Scenarios {
    pub(crate) generation: u64,
    /// Active for every key without its own list, in order; for the key that the call names, those active for it.
    pub(crate) active: Vec<String>,
    pub(crate) active_by_key: Vec<KeyList>,
    pub(crate) data: Vec<ScenarioRow>,
    /// What is wrong with the files, and which active scenarios clash.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The list of one key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct KeyList {
    pub(crate) key: String,
    pub(crate) active: Vec<String>,
}

impl KeyList {
    fn line(&self) -> String {
        let names = if self.active.is_empty() { "none".to_owned() } else { joined(&self.active) };
        format!("{} has its own list: {names}", cell(&self.key))
    }
}

/// A scenario as a row of the listing; one whose file was never valid has nothing but its problem.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Scenario"))]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScenarioState {
    Ok,
    Broken,
    Deleted,
}

/// A scenario with its text.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct ScenarioWhole {
    #[serde(flatten)]
    pub(crate) row: ScenarioRow,
    pub(crate) description: Option<String>,
    pub(crate) text: String,
}

/// A scenario was added or replaced.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Added {
    pub(crate) name: String,
    pub(crate) generation: u64,
    /// Warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A scenario was removed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Removed {
    pub(crate) removed: String,
    pub(crate) generation: u64,
}

/// The folders were read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Reloaded {
    pub(crate) generation: u64,
    /// Files read.
    pub(crate) files: usize,
    /// What is new, one line each.
    pub(crate) changes: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The scenarios to activate.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Activate {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    /// Names in order; an empty list turns scenarios off. Absent, with a key: the key follows the list of all keys.
    pub(crate) active: Option<Vec<String>>,
}

/// The scenarios that are active now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Activated {
    pub(crate) generation: u64,
    pub(crate) active: Option<Vec<String>>,
    pub(crate) key: Option<String>,
    /// The keys that keep their own list, after a change for all keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own_lists: Vec<KeyList>,
    /// A warning for each that is active in an earlier version than its file has, and for those that clash.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Text for Scenarios {
    fn text(&self) -> String {
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
fn lines(found: &[Diagnostic]) -> String {
    let hint = |hint: &str| if hint.is_empty() { String::new() } else { format!("  hint: {}\n", cell(hint)) };
    let line = |problem: &Diagnostic| {
        let (severity, place) = (name_of(problem.severity), problem.place());
        format!("{severity}: {}{}\n{}", cell(place), cell(&problem.message), hint(&problem.hint))
    };
    found.iter().map(line).collect()
}

impl Text for ScenarioWhole {
    fn text(&self) -> String {
        self.text.clone()
    }
}

impl Text for Added {
    fn text(&self) -> String {
        format!("{} added ({})\n{}", cell(&self.name), generation_text(self.generation), lines(&self.diagnostics))
    }
}

impl Text for Removed {
    fn text(&self) -> String {
        format!("{} removed ({})\n", cell(&self.removed), generation_text(self.generation))
    }
}

impl Text for Reloaded {
    fn text(&self) -> String {
        let changes: String = self.changes.iter().map(|change| format!("{}\n", cell(change))).collect();
        let (files, generation) = (counted(self.files, "file"), generation_text(self.generation));
        format!("{files} read, {generation}\n{changes}{}", lines(&self.diagnostics))
    }
}

/// How many keys with their own lists are named.
const MAX_NAMED: usize = 5;

impl Text for Activated {
    fn text(&self) -> String {
        let whose = of_key(self.key.as_deref());
        let active = match self.active.as_deref() {
            None => format!("the list of all keys is active{whose}"),
            Some([]) => format!("no scenario is active{whose}"),
            Some(names) => format!("active{whose}: {}", joined(names)),
        };
        let mut text = format!("{active} ({})\n", generation_text(self.generation));
        for own in self.own_lists.iter().take(MAX_NAMED) {
            // A masked key names nothing.
            let key = if own.key.contains('…') { "KEY".into() } else { cell(shell_word(&own.key)) };
            text.push_str(&format!("{}; `wrs-emulator scenarios follow --key {key}` ends that\n", own.line()));
        }
        if let Some(more @ 1..) = self.own_lists.len().checked_sub(MAX_NAMED) {
            let more = counted(more, "more list");
            text.push_str(&format!("{more} of keys, which `wrs-emulator scenarios list` shows\n"));
        }
        text + &lines(&self.diagnostics)
    }
}

pub(super) fn list(control: &Control, input: &Input) -> Result<Scenarios, ControlError> {
    let generation = control.library.load();
    let key = input.key()?.filter(|key| key != "*").map(|key| control.workspace_name(Some(&key))).transpose()?;
    let active: Vec<String> = match key.as_deref() {
        None => names(&generation.active().names),
        key => generation.config_for(key).active.iter().map(|scenario| scenario.name.to_string()).collect(),
    };
    let row = |name: &Arc<str>| ScenarioRow {
        active: active.iter().any(|active| **active == **name),
        ..row(&generation, name, generation.find(name).as_deref())
    };
    Ok(Scenarios {
        generation: generation.number,
        data: generation.names().iter().map(row).collect(),
        active_by_key: own_lists(&generation, input.redactor()),
        diagnostics: control.library.diagnostics(),
        active,
    })
}

fn own_lists(generation: &ScenarioSnapshot, redactor: Redactor<'_>) -> Vec<KeyList> {
    let list = |(key, own): (&Arc<str>, &Activation)| KeyList {
        key: redactor.key(key).into_owned(),
        active: names(&own.names),
    };
    generation.active_by_key().iter().map(list).collect()
}

fn names(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A scenario as a row of the listing. One whose file was never valid has only its problem.
fn row(generation: &ScenarioSnapshot, name: &str, scenario: Option<&Scenario>) -> ScenarioRow {
    let (state, problem) = match generation.held_back(name) {
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
        active: generation.active().names.iter().any(|active| **active == *name),
        rules: scenario.map_or(0, |scenario| scenario.rules.len()),
        emits: scenario.map_or(0, |scenario| scenario.emits.len()),
        state,
        problem: problem.cloned(),
    }
}

pub(super) fn show(control: &Control, input: &Input) -> Result<ScenarioWhole, ControlError> {
    let generation = control.library.load();
    let scenario = generation.find(&input.segment).ok_or_else(|| unknown(&generation, &input.segment))?;
    Ok(whole(&generation, &scenario.name))
}

/// A scenario with its text, which is empty if its file was never valid.
pub(super) fn whole(generation: &ScenarioSnapshot, name: &str) -> ScenarioWhole {
    let scenario = generation.find(name);
    ScenarioWhole {
        row: row(generation, name, scenario.as_deref()),
        description: scenario.as_ref().and_then(|scenario| scenario.description.clone()),
        text: scenario.map(|scenario| scenario.text.to_string()).unwrap_or_default(),
    }
}

/// A scenario as JSON; `scenarios schema` prints the schema of all of it.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, extend("minProperties" = 1, "propertyNames" = file_keys(), "examples" = [file_example()])))]
pub(super) struct ScenarioFile(#[allow(dead_code, reason = "for the schema")] Map<String, Value>);

/// The keys of a scenario, and the field of every body.
#[cfg(test)]
fn file_keys() -> Value {
    let schema = crate::scenario::schema();
    let keys = schema["properties"].as_object().expect("it has keys").keys().map(String::as_str);
    serde_json::json!({ "enum": keys.chain(["key"]).collect::<Vec<_>>() })
}

#[cfg(test)]
fn file_example() -> Value {
    serde_json::json!({ "rule": [{ "times": 3, "reply": { "error": "rate_limit_exceeded" } }] })
}

pub(super) fn put(control: &Control, call: &Call, _: Nothing) -> Result<Reply, ControlError> {
    let text = std::str::from_utf8(&call.body).map_err(|_| ControlError::invalid("body: is not UTF-8"))?;
    let content_type = call.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = if content_type.trim_ascii_start().to_ascii_lowercase().starts_with("application/toml") {
        text.to_owned()
    } else {
        json_to_toml(&without_key(text)).map_err(|problem| ControlError::invalid(format!("body: {problem}")))?
    };
    let now = control.registry.clock().now().instant;
    let (generation, warnings) =
        control.library.put_inline(&call.segment, &text, now).map_err(|found| refused(&found))?;
    let added = Added { name: call.segment.clone(), generation, diagnostics: warnings };
    Ok(call.reply(&added))
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

pub(super) fn remove(control: &Control, input: &Input<Nothing, Empty>) -> Result<Removed, ControlError> {
    let name = &input.segment;
    let present = control.library.load().find(name);
    if let Some(scenario) = present.filter(|scenario| scenario.origin != ScenarioOrigin::Inline) {
        let message = format!("`{}` was not added over the control API, so it cannot be removed here", scenario.name);
        return Err(ControlError::invalid(message));
    }
    let now = control.registry.clock().now().instant;
    let generation = control.library.remove_inline(name, now).map_err(|found| refused(&found))?;
    Ok(Removed { removed: name.clone(), generation })
}

pub(super) fn activate(control: &Control, input: &Input<Nothing, Activate>) -> Result<Activated, ControlError> {
    let active = &input.body.active;
    // The workspace is not opened yet, as that would start the list of all keys in it.
    let key = input.key()?.filter(|key| key != "*");
    let key = key.map(|key| control.workspace_name(Some(&key))).transpose()?;
    let names: Option<Vec<&str>> = active.as_ref().map(|names| names.iter().map(String::as_str).collect());
    if names.is_none() && key.is_none() {
        return Err(ControlError::invalid("expected `active`, a list of scenario names"));
    }
    // The watcher may not have seen a file that was just saved. Problems with other files are reported elsewhere.
    if names.iter().flatten().any(|name| !is_as_saved(&control.library.load(), name)) {
        control.reload_changed(control.scenario_folders.read());
    }
    let listed = match names.as_deref() {
        None => "those of all keys are active".to_owned(),
        Some([]) => "none is active".to_owned(),
        Some([name]) => format!("{name} is active"),
        Some(names) => format!("{} are active", names.join(", ")),
    };
    let key = key.as_deref();
    let log = || control.note(key, format!("scenarios changed for {}: {listed}", whose(input, key)), false);
    let generation = control
        .activate(key, names.as_deref(), log)
        .map_err(|found| refused(&found).and(refusal_details(control, &found)))?;
    let present = control.library.load();
    let mut diagnostics = names.map(|names| not_as_saved(&present, &names)).unwrap_or_default();
    diagnostics.extend(present.config_for(key).clashes().iter().map(|clash| clash.warning.clone()));
    Ok(Activated {
        generation,
        active: active.clone(),
        key: key.map(|key| input.redactor().key(key).into_owned()),
        own_lists: if key.is_none() { own_lists(&present, input.redactor()) } else { Vec::new() },
        diagnostics,
    })
}

/// True if a scenario exists and, if it comes from a file, matches the present text of the file.
fn is_as_saved(generation: &ScenarioSnapshot, name: &str) -> bool {
    let found = generation.find(name).filter(|_| generation.held_back(name).is_none());
    found.is_some_and(|scenario| match &scenario.origin {
        ScenarioOrigin::File(path) => read_file(path).is_ok_and(|text| *text == *scenario.text),
        ScenarioOrigin::BuiltIn | ScenarioOrigin::Inline => true,
    })
}

/// A warning for each of these scenarios whose active version is older than its file.
fn not_as_saved(generation: &ScenarioSnapshot, names: &[&str]) -> Vec<Diagnostic> {
    let earlier = names.iter().filter_map(|name| match generation.held_back(name)? {
        Stale::Broken(problem) => {
            let mut warning = Diagnostic::clone(problem).as_warning();
            warning.message =
                format!("`{name}` is broken, so its last valid version stays active: {}", problem.message);
            Some(warning)
        }
        Stale::Deleted => {
            let file = generation.find(name)?.file_name();
            let message = format!("the file of `{name}` is gone, so its last valid version stays active");
            let warning = Diagnostic::of_file("scenario/active-missing", message, "restore the file");
            Some(warning.as_warning().in_file(file))
        }
    });
    earlier.collect()
}

/// What to add to the refusal of a scenario that cannot be used: the folders that are read, if it is unknown.
fn refusal_details(control: &Control, found: &[Diagnostic]) -> Option<String> {
    if !found.iter().any(|problem| problem.code == "scenario/unknown-scenario") {
        let broken = found.iter().any(|problem| problem.is_error() && problem.file.is_some());
        return broken.then(|| "no earlier version of it was valid".to_owned());
    }
    let folders = control.scenario_folders.paths().map(|path| {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let missing = if path.is_dir() { "" } else { " (not there)" };
        format!("{}{missing}", place.display())
    });
    Some(match folders.collect::<Vec<_>>().as_slice() {
        [] => "no folder of scenario files is read; start with --scenarios FOLDER, or add a scenario now with PUT /_emulator/scenarios/NAME".to_owned(),
        folders => format!("files are read from {}", folders.join(", ")),
    })
}

/// Reads the folders again now. If a file is broken, the answer is a 422 and all others are loaded.
pub(super) fn reload(control: &Control, _: &Input<Nothing, Empty>) -> Result<Reloaded, ControlError> {
    let files = control.scenario_folders.read();
    let count = files.iter().filter(|(_, text)| text.as_ref().err().is_none_or(|problem| problem.is_error())).count();
    let reload = control.reload_changed(files);
    let generation = reload.generation;
    if reload.found.iter().any(Diagnostic::is_error) {
        let more = reload.found.iter().filter(|problem| problem.is_error()).count() - 1;
        let more = if more > 0 { format!("{more} more; `wrs-emulator check` shows all; ") } else { String::new() };
        let loaded = format!("{more}files without an error are loaded, {}", generation_text(generation));
        let refused = refused(&reload.found).and(Some(loaded));
        return Err(refused.with(|error| error.generation = Some(generation)));
    }
    Ok(Reloaded { generation, files: count, changes: reload.changes, diagnostics: reload.found })
}

fn unknown(generation: &ScenarioSnapshot, name: &str) -> ControlError {
    if let Some(Stale::Broken(problem)) = generation.held_back(name) {
        return ControlError::not_found(format!("`{name}` was never valid: {}", problem.one_line()));
    }
    let names = generation.names();
    let hint = match crate::contract::nearest(name, names.iter().map(AsRef::as_ref)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    ControlError::not_found(format!("there is no scenario `{}`{hint}", name.escape_debug()))
}

/// A refused change, with the first problem as message and all as diagnostics. An unknown scenario is a 404.
pub(super) fn refused(found: &[Diagnostic]) -> ControlError {
    let first = found.iter().find(|problem| problem.is_error()).or(found.first());
    let message = first.map_or_else(String::new, Diagnostic::one_line);
    let unknown = first.is_some_and(|problem| problem.code == "scenario/unknown-scenario");
    let error = if unknown { ControlError::not_found(message) } else { ControlError::invalid(message) };
    error.with(|error| error.diagnostics = Some(found.to_vec()))
}
