//! Settings changed while the emulator runs, for all keys or for one: a layer between the profile it was started with and the
//! `[profile]` of the active scenarios.
//!
//! A patch is kept as it was requested, setting by setting, so that it can be undone, shown, saved and restored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::diagnostic::Diagnostic;
use crate::settings::{Draft, Layered, ProfileProblem, SETTINGS, setting_path};

/// How listings name the origin of a patched setting.
pub const PATCH_SOURCE: &str = "control API";
/// Most keys with their own patch: each has its own profile in memory.
pub(crate) const MAX_KEYS: usize = 1_000;
/// Most settings, or entries below settings, in one patch.
pub(crate) const MAX_ENTRIES: usize = 256;
/// Most bytes of a patch as text, and of all patches together: a profile made of them needs several times as much.
pub(crate) const MAX_BYTES: usize = 64 * 1024;
pub(crate) const MAX_BYTES_IN_ALL: usize = 4 * 1024 * 1024;

/// Changed settings: dotted paths to values, in the order in which they were set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingPatch(Map<String, Value>);

/// Every patch there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingPatches {
    pub global: Arc<SettingPatch>,
    /// For single keys, by the name of their workspace; lies over the one for all.
    pub keys: BTreeMap<Arc<str>, Arc<SettingPatch>>,
}

impl SettingPatch {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patch as JSON text, as [`Self::from_text`] reads it.
    pub fn text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    pub fn entries(&self) -> &Map<String, Value> {
        &self.0
    }

    /// A patch from its JSON text: an object as `PATCH profile` accepts it.
    pub fn from_text(text: &str) -> Result<Self, Vec<Diagnostic>> {
        let changes: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            vec![Diagnostic::of_file("profile/syntax", format!("expected a JSON object of settings: {error}"), "")]
        })?;
        Self::default().with(&changes)
    }

    /// The dotted paths of the settings, or groups of them, that a call names.
    pub fn paths(patch: &Map<String, Value>) -> Vec<String> {
        let mut found = Vec::new();
        collect(patch, "", &mut found, &mut Vec::new());
        found.into_iter().map(|(path, _)| path).collect()
    }

    /// This patch with another on top: nested like a scenario's `[profile]`, by dotted names, or both. `null` undoes a change.
    pub(super) fn with(&self, changes: &Map<String, Value>) -> Result<Self, Vec<Diagnostic>> {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        collect(changes, "", &mut found, &mut problems);
        if !problems.is_empty() {
            return Err(problems.into_iter().map(diagnostic).collect());
        }
        // More than any patch has, even one that undoes everything and sets as much.
        if found.len() > 2 * MAX_ENTRIES {
            return Err(too_many());
        }
        let mut entries = self.0.clone();
        for (path, value) in found {
            let below = format!("{path}.");
            // What was set below is covered by the new value, or undone with it.
            entries.retain(|known, _| *known != path && !known.starts_with(&below));
            if !value.is_null() {
                entries.insert(path, value);
            }
        }
        let patch = Self(entries);
        if patch.0.len() > MAX_ENTRIES || patch.text().len() > MAX_BYTES {
            return Err(too_many());
        }
        Ok(patch)
    }

    pub(super) fn over(&self, base: &Layered) -> Result<Layered, Vec<Diagnostic>> {
        if self.is_empty() {
            return Ok(base.clone());
        }
        let made = base.with(|draft| self.add_to(draft));
        made.map_err(|problems| problems.into_iter().map(diagnostic).collect())
    }

    pub(super) fn add_to(&self, draft: &mut Draft) {
        self.0.iter().for_each(|(path, value)| draft.value(path, value, PATCH_SOURCE));
    }
}

impl SettingPatches {
    fn bytes(&self) -> usize {
        self.keys.values().chain([&self.global]).map(|patch| patch.text().len()).sum()
    }

    /// True if there may be no room for the settings of one more key.
    pub(super) fn may_be_full(&self) -> bool {
        self.keys.len() >= MAX_KEYS || self.bytes() > MAX_BYTES_IN_ALL - MAX_BYTES
    }

    /// Refuses more patches than may be kept.
    pub(super) fn check_size(&self) -> Result<(), Vec<Diagnostic>> {
        let bytes = self.bytes();
        let message = if self.keys.len() > MAX_KEYS {
            format!("at most {MAX_KEYS} keys can have their own settings")
        } else if bytes > MAX_BYTES_IN_ALL {
            format!("the patches of all keys together hold more than {} MiB", MAX_BYTES_IN_ALL / (1024 * 1024))
        } else {
            return Ok(());
        };
        Err(vec![Diagnostic::of_file("profile/bad-value", message, "take the patches of other keys back")])
    }

    pub(super) fn set(&mut self, key: Option<&str>, patch: SettingPatch) {
        match key {
            None => self.global = Arc::new(patch),
            Some(key) if patch.is_empty() => drop(self.keys.remove(key)),
            Some(key) => drop(self.keys.insert(Arc::from(key), Arc::new(patch))),
        }
    }
}

fn too_many() -> Vec<Diagnostic> {
    let message = format!("a patch has at most {MAX_ENTRIES} settings and {MAX_BYTES} bytes");
    vec![Diagnostic::of_file("profile/bad-value", message, "take some back with null")]
}

/// Walks changes down to the settings. Entries of settings that are merged entry by entry are kept one by one, so that each can be
/// undone alone.
fn collect(
    changes: &Map<String, Value>,
    above: &str,
    found: &mut Vec<(String, Value)>,
    problems: &mut Vec<ProfileProblem>,
) {
    for (name, value) in changes {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let below = format!("{path}.");
        let setting = SETTINGS.iter().find(|setting| setting.path == path);
        let on_the_way = SETTINGS.iter().any(|setting| setting.path.starts_with(&below));
        match value {
            Value::Object(entries) if setting.is_some_and(|setting| setting.merges) => {
                for (entry, value) in entries {
                    // A JSON string is a TOML key.
                    push(format!("{path}.{}", Value::from(entry.as_str())), value, found, problems);
                }
            }
            Value::Object(entries) if setting.is_none() && on_the_way => collect(entries, &path, found, problems),
            // A whole group of settings is undone.
            Value::Null if on_the_way => found.push((path, Value::Null)),
            _ => push(path, value, found, problems),
        }
    }
}

fn push(path: String, value: &Value, found: &mut Vec<(String, Value)>, problems: &mut Vec<ProfileProblem>) {
    match setting_path(&path) {
        Ok(path) => found.push((path, value.clone())),
        Err(problem) => problems.push(problem),
    }
}

pub(super) fn diagnostic(problem: ProfileProblem) -> Diagnostic {
    Diagnostic::of_file(problem.code, problem.message, problem.hint)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The settings of a patch after these changes, or the code of the first problem.
    fn check(changes: &[Value], expected: Result<Value, &str>) {
        let patched = changes
            .iter()
            .try_fold(SettingPatch::default(), |patch, changes| patch.with(changes.as_object().expect("an object")));
        let found = patched.map(|patch| Value::from(patch.entries().clone()));
        assert_eq!(
            found.as_ref().map_err(|problems| &*problems[0].code),
            expected.as_ref().map_err(|code| *code),
            "{changes:?}"
        );
    }

    #[test]
    fn entries_are_set_and_taken_back_one_by_one() {
        let codes = json!({ "errors": { "codes": { "not_found": "gone", "unauthorized": "who" } } });
        let left = json!({ "errors.codes.unauthorized": "who" });
        check(&[codes, json!({ "errors.codes.not_found": null })], Ok(left));
        let data = json!({ "events.data": { "workflow.completed": { "a": 1 } } });
        check(&[data], Ok(json!({ "events.data.\"workflow.completed\"": { "a": 1 } })));
        let (below, above) = (json!({ "hello.body.b": 2 }), json!({ "hello.body": { "a": 1 } }));
        check(&[above.clone(), below.clone()], Ok(json!({ "hello.body": { "a": 1 }, "hello.body.b": 2 })));
        check(&[below.clone(), above.clone()], Ok(above));
        check(&[below, json!({ "hello": null })], Ok(json!({})));
        check(&[json!({ "rate_limit": 5 })], Err("profile/unknown-setting"));
        check(&[json!({ "rate_limit.request": null })], Err("profile/unknown-setting"));
        check(&[json!({ "a b": 1 })], Err("profile/syntax"));
        let many: Map<String, Value> = (0..300).map(|n| (format!("type{n}"), json!({ "a": 1 }))).collect();
        check(&[json!({ "events": { "data": many } })], Err("profile/bad-value"));
    }
}
