//! Settings changed while the emulator runs, for all keys or for one: a layer between the profile it was started with and the `[profile]`
//! of the active scenarios.

use serde_json::{Map, Value as Json};

use super::layers::{Draft, Layered};
use super::paths::{ProfileProblem, below, entry_path, first_problems, setting_at, setting_path};
use crate::contract::setting::path_of;

/// How listings name the origin of a patched setting.
pub const PATCH_SOURCE: &str = "control API";
/// Maximum number of settings, or entries below settings, in one patch.
const MAX_ENTRIES: usize = 256;
/// Maximum number of settings that one change names: as many as undo a whole patch and set another.
const MAX_CHANGES: usize = 2 * MAX_ENTRIES;
/// Maximum bytes of a patch as text: a profile made of it needs several times as much.
pub(crate) const MAX_PATCH_BYTES: usize = 64 * 1024;

/// Dotted paths to values as they were requested, in the order in which they were set, so that each can be
/// undone, shown, saved and restored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingPatch(Map<String, Json>);

impl SettingPatch {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The patch as JSON text, as [`Self::from_text`] reads it.
    pub fn text(&self) -> String {
        Json::Object(self.0.clone()).to_string()
    }

    pub fn entries(&self) -> &Map<String, Json> {
        &self.0
    }

    /// A patch from its JSON text: an object as `PATCH profile` accepts it.
    pub fn from_text(text: &str) -> Result<Self, Vec<ProfileProblem>> {
        let changes: Map<String, Json> = serde_json::from_str(text).map_err(|error| {
            let message = format!("expected a JSON object of settings: {error}");
            vec![ProfileProblem::new("profile/syntax", 0..0, message, String::new())]
        })?;
        Self::default().with(&changes)
    }

    /// The dotted paths of the settings, or groups of them, that a call names.
    pub fn paths(changes: &Map<String, Json>) -> Vec<String> {
        let mut found = Vec::new();
        flatten(changes, "", &mut found, &mut Vec::new());
        found.into_iter().map(|(path, _)| path).collect()
    }

    /// This patch with another on top: nested like a scenario's `[profile]`, by dotted names, or both. `null` undoes a change.
    pub(crate) fn with(&self, changes: &Map<String, Json>) -> Result<Self, Vec<ProfileProblem>> {
        let too_many = || {
            let message = format!("a patch has at most {MAX_ENTRIES} settings and {MAX_PATCH_BYTES} bytes");
            let hint = "undo some with null".to_owned();
            Err(vec![ProfileProblem::new("profile/bad-value", 0..0, message, hint)])
        };
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        flatten(changes, "", &mut found, &mut problems);
        if found.len() + problems.len() > MAX_CHANGES {
            return too_many();
        }
        if !problems.is_empty() {
            return Err(first_problems(problems, 0));
        }
        let mut entries = self.0.clone();
        for (path, value) in found {
            let below = format!("{path}.");
            // Changes below are covered by the new value, or undone with it.
            entries.retain(|known, _| *known != path && !known.starts_with(&below));
            if !value.is_null() {
                entries.insert(path, value);
            }
        }
        let patch = Self(entries);
        if patch.0.len() > MAX_ENTRIES || patch.text().len() > MAX_PATCH_BYTES {
            return too_many();
        }
        Ok(patch)
    }

    pub(crate) fn over(&self, base: &Layered) -> Result<Layered, Vec<ProfileProblem>> {
        if self.is_empty() { Ok(base.clone()) } else { base.with(|draft| self.add_to(draft)) }
    }

    pub(crate) fn add_to(&self, draft: &mut Draft) {
        self.0.iter().for_each(|(path, value)| draft.value(path, value, PATCH_SOURCE));
    }
}

/// Walks changes down to the settings, at most one more than [`MAX_CHANGES`] allows. Entries of settings that are merged entry by entry are kept one by one, so that each can be
/// undone alone.
fn flatten(
    changes: &Map<String, Json>,
    above: &str,
    found: &mut Vec<(String, Json)>,
    problems: &mut Vec<ProfileProblem>,
) {
    for (name, value) in changes {
        if found.len() + problems.len() > MAX_CHANGES {
            return;
        }
        let path = path_of(above, name);
        let (setting, is_group) = (setting_at(&path), below(&path).next().is_some());
        let mut push = |path: &str, value: &Json| match setting_path(path) {
            Ok(path) => found.push((path, value.clone())),
            Err(problem) => problems.push(problem),
        };
        match value {
            Json::Object(entries) if setting.is_some_and(|setting| setting.merges) => {
                for (entry, value) in entries.iter().take(MAX_CHANGES + 1) {
                    push(&entry_path(&path, entry), value);
                }
            }
            Json::Object(entries) if is_group => flatten(entries, &path, found, problems),
            // A whole group of settings is undone.
            Json::Null if is_group => found.push((path, Json::Null)),
            _ => push(&path, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The settings of a patch after these changes, or the code of the first problem.
    fn check(changes: &[Json], expected: Result<Json, &str>) {
        let patched = changes
            .iter()
            .try_fold(SettingPatch::default(), |patch, changes| patch.with(changes.as_object().expect("an object")));
        let found = patched.map(|patch| Json::from(patch.entries().clone()));
        assert_eq!(
            found.as_ref().map_err(|problems| problems[0].code),
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
        let many: Map<String, Json> = (0..300).map(|n| (format!("type{n}"), json!({ "a": 1 }))).collect();
        check(&[json!({ "events": { "data": many } })], Err("profile/bad-value"));
    }
}
