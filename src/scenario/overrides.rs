//! Settings changed while running and lists of active scenarios, for all keys or for single ones. Changes
//! them, takes them back, or puts them in place as a snapshot kept them; each is one swap of the generation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::ScenarioOrigin;
use super::library::{Library, LibraryContent};
use super::parse::parse_scenario;
use super::setting_patch::SettingPatch;
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::settings::Layered;

/// The lists and settings of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The scenarios given as text, if everything is restored; then the first of `lists` is that of all keys.
    pub inline: Option<BTreeMap<String, String>>,
    pub lists: Vec<RestoredList>,
}

/// The scenarios and settings of one key, or of all.
#[derive(Clone, Debug)]
pub struct RestoredList {
    pub key: Option<Arc<str>>,
    /// Its list of scenarios, if it has one, and how long that has been active.
    pub active: Option<(Vec<String>, Duration)>,
    pub settings: SettingPatch,
}

impl Library {
    /// Changes settings for all keys, or for the workspace of one; `null` takes a change back. Refused whole, with every reason,
    /// if a setting is unknown or a value wrong, also for a scenario that is active.
    pub fn patch_profile(
        &self,
        key: Option<&str>,
        changes: &Map<String, Value>,
        now: Instant,
    ) -> Result<u64, Vec<Diagnostic>> {
        self.change(now, |content, _| {
            let known = key.map_or(Some(&content.patches.global), |key| content.patches.keys.get(key));
            let patch = known.map_or_else(SettingPatch::default, |known| SettingPatch::clone(known)).with(changes)?;
            content.patches.set(key, patch);
            if key.is_none() {
                inline_still_valid(content, &self.unpatched)?;
            }
            content.patches.check_size()
        })
    }

    /// Takes back what a key has of its own: its list of scenarios and its changed settings.
    pub fn forget_key(&self, key: &str, now: Instant) -> u64 {
        let changed = self.change(now, |content, _| {
            content.keys.remove(key);
            content.patches.keys.remove(key);
            Ok(())
        });
        changed.unwrap_or_else(|_| self.load().number)
    }

    pub fn inline_texts(&self) -> BTreeMap<String, String> {
        let generation = self.load();
        let inline = generation.content.inline.values();
        inline.map(|scenario| (scenario.name.to_string(), scenario.text.to_string())).collect()
    }

    /// Puts in place what a snapshot kept. Every list that is restored is a new activation; with any error nothing changes.
    pub fn restore(&self, restored: Restored, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        let Restored { inline, lists } = restored;
        let is_whole = inline.is_some();
        // Scenarios given as text were valid with the settings that come back with them.
        let base = match lists.first().filter(|_| is_whole) {
            Some(list) => list.settings.over(&self.unpatched)?,
            None => self.load().base.clone(),
        };
        self.change(now, |content, now| {
            if let Some(inline) = inline {
                content.inline.clear();
                for (name, text) in &inline {
                    let (scenario, found) = parse_scenario(name, text, ScenarioOrigin::Inline, &base);
                    let scenario = scenario
                        .ok_or_else(|| found.into_iter().map(|problem| problem.in_file(name)).collect::<Vec<_>>())?;
                    content.put_inline(scenario, &self.budget)?;
                }
                content.keys.clear();
                content.patches.keys.clear();
            }
            for RestoredList { key, active, settings } in lists {
                let key = key.as_deref();
                content.patches.set(key, settings);
                if let Some((names, age)) = active {
                    let list = content.activate(key, names.iter().map(String::as_str), now.minus(age));
                    let whose = || match key {
                        Some(key) => format!("the key `{}`", Redactor::new(&base.profile().keys).key(key)),
                        None => "all keys".to_owned(),
                    };
                    list.map_err(|found| named_by(found, &whose()))?;
                } else if let Some(key) = key {
                    content.keys.remove(key);
                }
            }
            content.patches.check_size()
        })
        .inspect(|_| {
            if is_whole {
                self.forget_retired();
            }
        })
    }
}

/// Refuses settings with which a scenario given as text could not be read again: a saved state is loaded with the settings that
/// come with it.
fn inline_still_valid(content: &LibraryContent, unpatched: &Layered) -> Result<(), Vec<Diagnostic>> {
    if content.inline.is_empty() {
        return Ok(());
    }
    let base = content.patches.global.over(unpatched)?;
    for scenario in content.inline.values() {
        let (_, found) = parse_scenario(&scenario.name, &scenario.text, ScenarioOrigin::Inline, &base);
        if let Some(problem) = found.into_iter().find(Diagnostic::is_error) {
            let name = &scenario.name;
            let message =
                format!("the scenario `{name}`, which was given as text, needs another value: {}", problem.message);
            let hint = format!("remove it first with DELETE /_emulator/scenarios/{name}, or keep the setting");
            let mut problem = problem.in_file(&**name);
            (problem.message, problem.hint) = (message, hint);
            return Err(vec![problem]);
        }
    }
    Ok(())
}

/// The problems of the scenarios in a list that is to be restored.
fn named_by(mut found: Vec<Diagnostic>, whose: &str) -> Vec<Diagnostic> {
    for problem in &mut found {
        problem.message = format!("{}, and the list of {whose} names it", problem.message);
        if problem.code == "scenario/unknown-scenario" {
            "bring its file back, or take the name off that list in the snapshot".clone_into(&mut problem.hint);
        }
    }
    found
}
