//! `GET scenarios`, `GET scenarios/{name}`, `PUT`/`DELETE scenarios/{name}`, `POST scenarios/active`, `POST scenarios/reload`.

use std::borrow::Cow;

use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::KeyField;
use super::reload::take;
use super::scope::{activate as activate_list, workspace_name};
use super::{Call, Control, ControlError, Reply, ok};
use crate::diagnostic::Diagnostic;
use crate::scenario::{Generation, HeldBack, Origin, Scenario, json_to_toml};

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let generation = control.library.load();
    let rows: Vec<Value> =
        generation.names().iter().map(|name| row(&generation, name, generation.find(name).as_deref())).collect();
    let by_key: Vec<Value> = generation
        .active_by_key()
        .iter()
        .map(|(key, activation)| json!({ "key": call.redactor().key(key), "active": names(&activation.names) }))
        .collect();
    Ok(ok(json!({
        "generation": generation.number,
        "active": names(&generation.active().names),
        "active_by_key": by_key,
        "data": rows,
        "diagnostics": control.library.diagnostics(),
    })))
}

fn names(names: &[std::sync::Arc<str>]) -> Value {
    names.iter().map(|name| Value::from(name.as_ref())).collect()
}

/// A scenario as the listing shows it; one whose file was never good has nothing but its problem.
fn row(generation: &Generation, name: &str, scenario: Option<&Scenario>) -> Value {
    let (state, problem) = match generation.held_back(name) {
        None => ("ok", None),
        Some(HeldBack::Deleted) => ("deleted", None),
        Some(HeldBack::Broken(problem)) => ("broken", Some(&**problem)),
    };
    let origin = match scenario.map(|scenario| &scenario.origin) {
        Some(Origin::BuiltIn) => "built-in".to_owned(),
        Some(Origin::File(path)) => path.display().to_string(),
        Some(Origin::Inline) => "inline".to_owned(),
        None => problem.and_then(|problem| problem.file.clone()).unwrap_or_default(),
    };
    json!({
        "name": name,
        "title": scenario.map(|scenario| &scenario.title),
        "origin": origin,
        "active": generation.active().names.iter().any(|active| **active == *name),
        "rules": scenario.map_or(0, |scenario| scenario.rules.len()),
        "emits": scenario.map_or(0, |scenario| scenario.emits.len()),
        "state": state,
        "problem": problem,
    })
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let generation = control.library.load();
    let scenario = generation.find(&call.segment).ok_or_else(|| unknown(&generation, &call.segment))?;
    let mut view = row(&generation, &scenario.name, Some(&scenario));
    view["description"] = json!(scenario.description);
    view["text"] = json!(scenario.text.as_ref());
    Ok(ok(view))
}

/// Adds or replaces a scenario from TOML or JSON text.
pub(super) fn put(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let text = std::str::from_utf8(&call.body).map_err(|_| ControlError::invalid("body: is not UTF-8"))?;
    let content_type = call.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = if content_type.trim_ascii_start().to_ascii_lowercase().starts_with("application/toml") {
        text.to_owned()
    } else {
        json_to_toml(&without_key(text)).map_err(|problem| ControlError::invalid(format!("body: {problem}")))?
    };
    let now = control.registry.clock().now().moment;
    let (generation, warnings) =
        control.library.put_inline(&call.segment, &text, now).map_err(|found| refused(&found))?;
    Ok(ok(json!({ "name": call.segment, "generation": generation, "diagnostics": warnings })))
}

/// A scenario as JSON, without the `key` that every body may have.
fn without_key(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(mut scenario) if scenario.contains_key("key") => {
            scenario.remove("key");
            Value::from(scenario).to_string().into()
        }
        _ => text.into(),
    }
}

pub(super) fn remove(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    call.no_body()?;
    let present = control.library.load().find(&call.segment);
    if let Some(scenario) = present.filter(|scenario| scenario.origin != Origin::Inline) {
        let message = format!("`{}` was not added over the control API, so it cannot be removed here", scenario.name);
        return Err(ControlError::invalid(message));
    }
    let now = control.registry.clock().now().moment;
    let generation = control.library.remove_inline(&call.segment, now).map_err(|found| refused(&found))?;
    Ok(ok(json!({ "removed": call.segment, "generation": generation })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Activate {
    /// Scenario names in order; an empty list turns scenarios off. Absent, with a key: the key follows the global list.
    active: Option<Vec<String>>,
    #[serde(default, rename = "key")]
    _key: KeyField,
}

pub(super) fn activate(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Activate = call.json()?;
    // Its workspace is not opened yet: the list of all keys would begin in it.
    let key = call.key()?.filter(|key| key != "*");
    let key = key.map(|key| workspace_name(control, Some(&key))).transpose()?;
    let names: Option<Vec<&str>> = wish.active.as_ref().map(|names| names.iter().map(String::as_str).collect());
    if names.is_none() && key.is_none() {
        return Err(ControlError::invalid("expected `active`, a list of scenario names"));
    }
    let activate = || activate_list(control, key.as_deref(), names.as_deref());
    let activated = activate().or_else(|found| {
        if !names_nobody(&found) && found.iter().all(|problem| problem.file.is_none()) {
            return Err(found);
        }
        // A file that was saved a moment ago may not have been seen yet. What is wrong with files is told elsewhere.
        take(control, control.scenario_folders.read());
        activate()
    });
    let generation = activated.map_err(|found| refused(&found).told_further(|| read_from(control, &found)))?;
    Ok(ok(
        json!({ "generation": generation, "active": wish.active, "key": key.as_deref().map(|key| call.redactor().key(key)) }),
    ))
}

/// Reads the folders again now, whether or not a change was seen. With a broken file it is a 422, and all others are loaded.
pub(super) fn reload(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    call.no_body()?;
    let files = control.scenario_folders.read();
    let count = files.len();
    let reload = take(control, files);
    let generation = reload.generation;
    if reload.found.iter().any(Diagnostic::is_error) {
        let loaded = format!("everything else is loaded, generation {generation}");
        return Err(refused(&reload.found).told_further(|| Some(loaded)).beside("generation", json!(generation)));
    }
    Ok(ok(json!({
        "generation": generation,
        "files": count,
        "changes": reload.changes,
        "diagnostics": reload.found,
    })))
}

/// Whether a scenario was named that is not there.
fn names_nobody(found: &[Diagnostic]) -> bool {
    found.iter().any(|problem| problem.code == "scenario/unknown-scenario")
}

/// Where scenarios come from, for whoever names one that is not there.
fn read_from(control: &Control, found: &[Diagnostic]) -> Option<String> {
    if !names_nobody(found) {
        return None;
    }
    let folders = control.scenario_folders.paths().map(|path| {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let missing = if path.is_dir() { "" } else { " (not there)" };
        format!("{}{missing}", place.display())
    });
    let folders: Vec<String> = folders.collect();
    match folders.as_slice() {
        [] => Some("no folder of scenario files is read; see --scenarios".to_owned()),
        folders => Some(format!("files are read from {}", folders.join(", "))),
    }
}

fn unknown(generation: &Generation, name: &str) -> ControlError {
    if let Some(HeldBack::Broken(problem)) = generation.held_back(name) {
        return ControlError::not_found(format!("`{name}` was never valid: {}", problem.one_line()));
    }
    let names = generation.names();
    let hint = match crate::contract::nearest(name, names.iter().map(AsRef::as_ref)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    ControlError::not_found(format!("there is no scenario `{}`{hint}", name.escape_debug()))
}

/// A refused change: the first problem as the message, all beside it. A scenario that is not there is a 404.
pub(super) fn refused(found: &[Diagnostic]) -> ControlError {
    let first = found.iter().find(|problem| problem.is_error()).or(found.first());
    let message = first.map_or_else(String::new, Diagnostic::one_line);
    let unknown = first.is_some_and(|problem| problem.code == "scenario/unknown-scenario");
    let error = if unknown { ControlError::not_found(message) } else { ControlError::invalid(message) };
    error.beside("diagnostics", json!(found))
}
