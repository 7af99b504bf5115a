//! All scenarios of one emulator: what changes them, the active ones and the settings, for all keys or single ones.
//!
//! Every change parses and builds everything first and swaps the snapshot once; if anything is wrong, nothing changes. `files`
//! handles files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};

use super::content::{Activation, ScenarioSet, SettingPatches, Start};
use super::parse::parse_scenario;
use super::snapshot::ScenarioSnapshot;
use super::{Scenario, ScenarioOrigin, without_text};
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::settings::{Layered, SettingPatch};
use crate::state::budget::Budget;

/// The lists and settings of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The scenarios given as text, if everything is restored; then the first of `lists` is that of all keys.
    pub inline: Option<BTreeMap<Arc<str>, Arc<str>>>,
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

/// All scenarios of one emulator.
#[derive(Debug)]
pub struct ScenarioStore {
    budget: Budget,
    current: ArcSwap<ScenarioSnapshot>,
    /// The profile that the emulator was started with.
    unpatched: Layered,
    /// Held while a change is worked out, so that none is lost.
    pub(super) changing: Mutex<()>,
    /// The problems of the files at the last reading, whether or not they were accepted.
    pub(super) found: ArcSwap<Vec<Diagnostic>>,
    pub(super) start: ArcSwap<Start>,
}

impl ScenarioStore {
    /// A library with the shipped scenarios, none active.
    pub fn new(base: Layered) -> Self {
        let budget = Budget::default();
        let first = ScenarioSnapshot::build(1, base.clone(), Instant::default(), ScenarioSet::default(), None, &budget);
        Self {
            budget,
            current: ArcSwap::from_pointee(first.expect("a valid profile with nothing on top is valid")),
            unpatched: base,
            changing: Mutex::default(),
            found: ArcSwap::default(),
            start: ArcSwap::default(),
        }
    }

    /// Keeps scenarios and settings of keys within this budget.
    #[must_use]
    pub fn within(self, budget: &Budget) -> Self {
        Self { budget: budget.clone(), ..self }
    }

    /// The present snapshot. Take it once for a request, so that one request sees one state.
    pub fn load(&self) -> Guard<Arc<ScenarioSnapshot>> {
        self.current.load()
    }

    /// Adds a scenario from a text, or replaces it. The warnings come with the number of the new snapshot.
    pub fn put_inline(&self, name: &str, text: &str, now: Instant) -> Result<(u64, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut warnings = Vec::new();
        let number = self.change(now, |content, _| {
            let (scenario, found) = self.check_inline(name, text)?;
            warnings = found;
            content.put_inline(scenario, &self.budget)
        })?;
        Ok((number, warnings))
    }

    /// Reads a scenario given as text, and changes nothing: the scenario with its warnings, or every problem.
    pub fn check_inline(&self, name: &str, text: &str) -> Result<(Scenario, Vec<Diagnostic>), Vec<Diagnostic>> {
        let (scenario, found) = parse_scenario(name, text, ScenarioOrigin::Inline, &self.load().base);
        let found: Vec<_> = found.into_iter().map(|problem| problem.in_file(name)).collect();
        match scenario {
            Some(scenario) => Ok((scenario, found)),
            None => Err(found),
        }
    }

    /// Removes a scenario that was added as text. One that is active must be deactivated first, unless a file or a shipped
    /// scenario of the same name replaces it.
    pub fn remove_inline(&self, name: &str, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        self.change(now, |content, _| match content.inline.remove(name) {
            Some(_) => Ok(()),
            None => Err(vec![content.unknown(name)]),
        })
    }

    /// Makes these scenarios, in order, the active ones: for one key, or for every key without its own list. Their
    /// rules and stories start afresh. An empty list for a key turns the global one off for it; see [`Self::follow_global`].
    pub fn activate(&self, key: Option<&str>, names: &[&str], now: Instant) -> Result<u64, Vec<Diagnostic>> {
        self.change(now, |content, now| content.activate(key, names.iter().copied(), now))
    }

    /// Lets a key follow the global list again.
    pub fn follow_global(&self, key: &str, now: Instant) -> u64 {
        let changed = self.change(now, |content, _| {
            content.keys.remove(key);
            Ok(())
        });
        changed.unwrap_or_else(|_| self.load().number)
    }

    /// Remembers the scenarios that are active and those given as text: what [`Self::restart`] goes back to.
    pub fn mark_start(&self) {
        let snapshot = self.load();
        let ScenarioSet { inline, global, .. } = &snapshot.content;
        self.start.store(Arc::new(Start { inline: inline.clone(), active: global.names.clone() }));
    }

    /// Returns to the scenarios of the start: only those are active or given as text, and their rules start afresh.
    pub fn restart(&self, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        let start = self.start.load_full();
        self.change(now, |content, now| {
            content.inline.clone_from(&start.inline);
            content.keys.clear();
            content.patches = SettingPatches::default();
            content.activations += 1;
            content.global = Activation { names: start.active.clone(), at: now, serial: content.activations };
            Ok(())
        })
    }

    /// Changes settings for all keys, or for the workspace of one; `null` undoes a change. Refused whole, with every reason,
    /// if a setting is unknown or a value wrong, also for a scenario that is active.
    pub fn patch_profile(
        &self,
        key: Option<&str>,
        changes: &Map<String, Value>,
        now: Instant,
    ) -> Result<u64, Vec<Diagnostic>> {
        self.change(now, |content, _| {
            let known = key.map_or(Some(&content.patches.global), |key| content.patches.keys.get(key));
            let patch = known.map_or_else(SettingPatch::default, |known| SettingPatch::clone(known));
            let patch = patch.with(changes).map_err(without_text)?;
            content.patches.set(key, patch);
            if key.is_none() {
                inline_still_valid(content, &self.unpatched)?;
            }
            content.patches.check_size()
        })
    }

    /// Removes a key's own list of scenarios and its changed settings.
    pub fn forget_key(&self, key: &str, now: Instant) -> u64 {
        self.forget_keys(now, |known| known == key)
    }

    /// The same for each key for which `is_over` is true.
    pub fn forget_keys(&self, now: Instant, is_over: impl Fn(&str) -> bool) -> u64 {
        let changed = self.change(now, |content, _| {
            content.keys.retain(|key, _| !is_over(key));
            content.patches.keys.retain(|key, _| !is_over(key));
            Ok(())
        });
        changed.unwrap_or_else(|_| self.load().number)
    }

    pub fn inline_texts(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let snapshot = self.load();
        let inline = snapshot.content.inline.values();
        inline.map(|scenario| (Arc::clone(&scenario.name), Arc::clone(&scenario.text))).collect()
    }

    /// Puts in place what a snapshot kept. Every list that is restored is a new activation; with any error nothing changes.
    pub fn restore(&self, restored: Restored, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        let Restored { inline, lists } = restored;
        let is_whole = inline.is_some();
        // Scenarios given as text were valid with the settings that come back with them.
        let base = match lists.first().filter(|_| is_whole) {
            Some(list) => list.settings.over(&self.unpatched).map_err(without_text)?,
            None => self.load().base.clone(),
        };
        self.change(now, |content, now| {
            if let Some(inline) = inline {
                content.inline.clear();
                // Each text is dropped once it is read.
                for (name, text) in inline {
                    let (scenario, found) = parse_scenario(&name, &text, ScenarioOrigin::Inline, &base);
                    let scenario = scenario
                        .ok_or_else(|| found.into_iter().map(|problem| problem.in_file(&*name)).collect::<Vec<_>>())?;
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
    }

    /// Works a change out and swaps once; a change that changes nothing makes no snapshot.
    fn change(
        &self,
        now: Instant,
        edit: impl FnOnce(&mut ScenarioSet, Instant) -> Result<(), Vec<Diagnostic>>,
    ) -> Result<u64, Vec<Diagnostic>> {
        self.change_while(&self.changing.lock(), now, edit)
    }

    pub(super) fn change_while(
        &self,
        _changing: &MutexGuard<'_, ()>,
        now: Instant,
        edit: impl FnOnce(&mut ScenarioSet, Instant) -> Result<(), Vec<Diagnostic>>,
    ) -> Result<u64, Vec<Diagnostic>> {
        let current = self.current.load_full();
        let mut content = current.content.clone();
        edit(&mut content, now)?;
        content.drop_deleted(&self.start.load());
        // That a file is held back changes no answer, so the number stays.
        let is_same = content.answers_as(&current.content);
        if is_same && content.held == current.content.held {
            return Ok(current.number);
        }
        let (number, made_at) = if is_same { (current.number, current.made_at) } else { (current.number + 1, now) };
        let base = if Arc::ptr_eq(&content.patches.global, &current.content.patches.global) {
            current.base.clone()
        } else {
            content.patches.global.over(&self.unpatched).map_err(without_text)?
        };
        let next = ScenarioSnapshot::build(number, base, made_at, content, Some(&current), &self.budget)?;
        self.current.store(Arc::new(next));
        Ok(number)
    }
}

/// Refuses settings with which a scenario given as text could not be read again: a saved state is loaded with the settings that
/// come with it.
fn inline_still_valid(content: &ScenarioSet, unpatched: &Layered) -> Result<(), Vec<Diagnostic>> {
    if content.inline.is_empty() {
        return Ok(());
    }
    let base = content.patches.global.over(unpatched).map_err(without_text)?;
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
            "bring its file back, or remove the name from that list in the snapshot".clone_into(&mut problem.hint);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::content::MAX_ACTIVE;

    const NOW: Instant = Instant::after_start(std::time::Duration::from_secs(1));

    #[test]
    fn inline_comes_before_files_before_shipped() {
        let library = ScenarioStore::new(Layered::default());
        let name = "rate-limit-burst";
        let title = |library: &ScenarioStore| library.load().find(name).map(|found| found.title.clone());
        let file =
            |title: &str| vec![("dir/rate-limit-burst.toml".into(), Ok(format!("title = '{title}'\n[profile]\n")))];
        let shipped = title(&library);
        library.reload_files(file("file"), NOW);
        assert_eq!(title(&library).as_deref(), Some("file"));
        library.put_inline(name, "title = 'inline'\n[profile]\n", NOW).expect("valid");
        assert_eq!(title(&library).as_deref(), Some("inline"));
        library.activate(None, &[name], NOW).expect("known");
        let said = library.diagnostics().pop().map(|problem| problem.message).unwrap_or_default();
        assert!(said.starts_with("not used: the scenario `rate-limit-burst` that was given as text"), "{said}");
        library.reload_files(Vec::new(), NOW);
        assert_eq!(
            (title(&library).as_deref(), library.diagnostics()),
            (Some("inline"), Vec::new()),
            "no file was played"
        );
        library.reload_files(file("file"), NOW);
        library.remove_inline(name, NOW).expect("the file replaces it");
        library.activate(None, &[], NOW).expect("none");
        library.reload_files(Vec::new(), NOW);
        assert_eq!(title(&library), shipped);
        library.put_inline("mine", "[profile]\n", NOW).expect("valid");
        library.activate(None, &["mine"], NOW).expect("known");
        assert!(library.remove_inline("mine", NOW).is_err(), "it is active");
    }

    #[test]
    fn a_change_for_one_key_builds_nothing_of_another_again() {
        let library = ScenarioStore::new(Layered::default());
        let set = |key: Option<&str>, requests: u32| {
            let changes = Map::from_iter([("rate_limit.requests".to_owned(), requests.into())]);
            library.patch_profile(key, &changes, NOW).expect("valid");
        };
        (1..=3).for_each(|number| set(Some(&format!("sk_test_{number}")), number));
        let kept = |change: &dyn Fn()| {
            let before = library.load();
            change();
            let after = library.load();
            let keys = [None, Some("sk_test_1"), Some("sk_test_2"), Some("sk_test_3")];
            keys.map(|key| Arc::ptr_eq(before.config_for(key), after.config_for(key)))
        };
        assert_eq!(kept(&|| set(Some("sk_test_2"), 9)), [true, true, false, true]);
        assert_eq!(
            kept(&|| drop(library.activate(Some("sk_test_3"), &["always-429"], NOW))),
            [true, true, true, false]
        );
        assert_eq!(kept(&|| assert!(library.forget_key("sk_test_1", NOW) > 0)), [true, false, true, true]);
        assert_eq!(kept(&|| set(None, 5)), [false; 4], "of a change for all, everything");
    }

    #[test]
    fn what_a_request_may_name_is_bounded() {
        let library = ScenarioStore::new(Layered::default());
        for name in ["a", "b", "c"] {
            let text = format!("[profile]\n# {}\n", "x".repeat(900_000));
            library.put_inline(name, &text, NOW).expect("valid");
        }
        let snapshot = library.load();
        let problem =
            |names: &[&str]| snapshot.config_named(None, names).err().map(|problems| problems[0].code.clone());
        assert_eq!(problem(&["a", "b"]), None);
        assert_eq!(problem(&["a", "b", "c"]), Some("scenario/too-many".into()));
        assert_eq!(problem(&["a"; MAX_ACTIVE]), None, "one that is named twice counts once");
        assert_eq!(problem(&["nope"; MAX_ACTIVE + 1]), Some("scenario/too-many".into()));
    }
}
