//! The scenarios there are and which are active, as one generation that is swapped whole.
//!
//! Readers take the present generation without a lock. Every change parses and builds everything first and swaps once; if
//! anything is wrong, nothing changes. What a rule means is not known here; `files` handles files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard};

use super::content::{Activation, HeldBack, LibraryContent, MOST_ACTIVE, Start};
use super::effective_config::EffectiveConfig;
use super::kept_configs::{MOST_NAMED_TEXT, NamedConfigs, RetiredConfigs};
use super::setting_patch::SettingPatches;
use super::{Scenario, ScenarioOrigin, parse};
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;
use crate::profile::Layered;

/// A generation's number as people read it, with what it counts.
pub fn generation_text(number: u64) -> String {
    format!("generation {number} of settings and scenarios")
}

/// One consistent state of scenarios, activations and profile.
#[derive(Debug)]
pub struct Generation {
    /// Counts the swaps, from 1.
    pub number: u64,
    /// The profile without any scenario, with the settings that were changed for all keys.
    pub base: Layered,
    made_at: Instant,
    content: LibraryContent,
    config: Arc<EffectiveConfig>,
    key_configs: HashMap<Arc<str>, Arc<EffectiveConfig>>,
    named: Mutex<NamedConfigs>,
}

impl Generation {
    /// What is in force for a key: its own list of scenarios if it has one, else the global one, over its own settings. Cheap: it takes no lock
    /// and copies nothing.
    pub fn config_for(&self, key: Option<&str>) -> &Arc<EffectiveConfig> {
        match key {
            Some(key) if !self.key_configs.is_empty() => self.key_configs.get(key).unwrap_or(&self.config),
            _ => &self.config,
        }
    }

    /// Whether any key has a list or settings of its own.
    pub fn has_key_configs(&self) -> bool {
        !self.key_configs.is_empty()
    }

    /// What is in force for a request of a key that names its scenarios: these over the key's own settings. Times count from
    /// this generation's beginning.
    pub fn config_named(&self, key: Option<&str>, names: &[&str]) -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
        let patch = key.and_then(|key| self.content.patches.keys.get(key));
        let too_many = |message: String| {
            vec![Diagnostic::of_file("scenario/too-many", message, "activate them for the key with `scenarios use`")]
        };
        if names.len() > MOST_ACTIVE {
            return Err(too_many(format!("a request may name at most {MOST_ACTIVE} scenarios, found {}", names.len())));
        }
        // Keys with the same settings share what is built for them.
        let combination = (names.join(","), patch.map_or_else(String::new, |patch| patch.text()));
        if let Some(config) = self.named.lock().get(&combination) {
            return Ok(config);
        }
        let active = self.content.resolve(names.iter().copied())?;
        let text: usize = active.iter().map(|scenario| scenario.text.len()).sum();
        if active.len() > 1 && text > MOST_NAMED_TEXT {
            return Err(too_many(format!(
                "the scenarios that a request names may have at most {MOST_NAMED_TEXT} bytes together, found {text}"
            )));
        }
        let config = EffectiveConfig::build(&self.base, patch.map(Arc::as_ref), active, self.number, self.made_at, 0)?;
        let config = Arc::new(config);
        let left = self.named.lock().keep(combination, Arc::clone(&config));
        drop(left);
        Ok(config)
    }

    /// The scenario of this name: inline text before files before the shipped ones.
    pub fn find(&self, name: &str) -> Option<Arc<Scenario>> {
        self.content.find(name)
    }

    /// The names of all scenarios, sorted.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.content.names()
    }

    /// How many scenarios come from files.
    pub fn file_count(&self) -> usize {
        self.content.files.len()
    }

    /// Whether a scenario comes from a file in this folder.
    pub fn has_files_in(&self, folder: &Path) -> bool {
        let is_inside =
            |scenario: &Scenario| matches!(&scenario.origin, ScenarioOrigin::File(path) if path.starts_with(folder));
        self.content.files.values().any(|scenario| is_inside(scenario))
    }

    /// The list that is active for every key without one of its own.
    pub fn active(&self) -> &Activation {
        &self.content.global
    }

    /// The keys that have a list of their own.
    pub fn active_by_key(&self) -> &BTreeMap<Arc<str>, Activation> {
        &self.content.keys
    }

    /// The settings changed while running.
    pub fn patches(&self) -> &SettingPatches {
        &self.content.patches
    }

    /// Why the scenario of a file is not as the file is saved.
    pub fn held_back(&self, name: &str) -> Option<&HeldBack> {
        self.content.held.get(name)
    }

    /// What the generation was made from.
    pub(super) fn content(&self) -> &LibraryContent {
        &self.content
    }
}

/// All scenarios of one emulator.
#[derive(Debug)]
pub struct Library {
    current: ArcSwap<Generation>,
    /// The profile that the emulator was started with.
    pub(super) unpatched: Layered,
    /// Held while a change is worked out, so that none is lost.
    changing: Mutex<()>,
    /// What was found in the files at the last reading, whether or not they were taken.
    pub(super) found: ArcSwap<Vec<Diagnostic>>,
    pub(super) retired: RetiredConfigs,
    /// What was there when the emulator had started.
    pub(super) start: ArcSwap<Start>,
}

impl Library {
    /// A library with the shipped scenarios, none active.
    pub fn new(base: Layered) -> Self {
        let unpatched = base.clone();
        let config = EffectiveConfig::build(&base, None, Vec::new(), 1, Instant::default(), 0);
        let first = Generation {
            number: 1,
            base,
            made_at: Instant::default(),
            content: LibraryContent::default(),
            config: Arc::new(config.expect("a valid profile with nothing on top is valid")),
            key_configs: HashMap::new(),
            named: Mutex::default(),
        };
        Self {
            current: ArcSwap::from_pointee(first),
            unpatched,
            changing: Mutex::default(),
            found: ArcSwap::default(),
            retired: RetiredConfigs::default(),
            start: ArcSwap::default(),
        }
    }

    /// The present generation. Take it once for a request, so that one request sees one state.
    pub fn load(&self) -> Guard<Arc<Generation>> {
        self.current.load()
    }

    /// Held while a change is worked out.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Adds a scenario from a text, or replaces it. The warnings come with the number of the new generation.
    pub fn put_inline(&self, name: &str, text: &str, now: Instant) -> Result<(u64, Vec<Diagnostic>), Vec<Diagnostic>> {
        let changing = self.changing.lock();
        let (scenario, found) = parse::parse_scenario(name, text, ScenarioOrigin::Inline, &self.load().base);
        let found: Vec<_> = found.into_iter().map(|problem| problem.in_file(name)).collect();
        let Some(scenario) = scenario else { return Err(found) };
        let number = self.change_while(&changing, now, |content, _| content.put_inline(scenario))?;
        Ok((number, found))
    }

    /// Removes a scenario that was added as text. One that is active must be deactivated first, unless a file or a shipped
    /// scenario of the same name takes its place.
    pub fn remove_inline(&self, name: &str, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        self.change(now, |content, _| match content.inline.remove(name) {
            Some(_) => Ok(()),
            None => Err(vec![content.unknown(name)]),
        })
    }

    /// Makes these scenarios, in order, the active ones: for one key, or for every key without a list of its own. Their
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

    /// Works a change out and swaps once; a change that changes nothing makes no generation.
    pub(super) fn change(
        &self,
        now: Instant,
        edit: impl FnOnce(&mut LibraryContent, Instant) -> Result<(), Vec<Diagnostic>>,
    ) -> Result<u64, Vec<Diagnostic>> {
        self.change_while(&self.changing.lock(), now, edit)
    }

    pub(super) fn change_while(
        &self,
        _changing: &MutexGuard<'_, ()>,
        now: Instant,
        edit: impl FnOnce(&mut LibraryContent, Instant) -> Result<(), Vec<Diagnostic>>,
    ) -> Result<u64, Vec<Diagnostic>> {
        let current = self.current.load_full();
        let mut content = current.content.clone();
        edit(&mut content, now)?;
        content.forget_deleted(|content| content.listed(&self.start.load()));
        if content.same_as(&current.content) && content.held == current.content.held {
            return Ok(current.number);
        }
        self.swap(&current, content, now)
    }

    fn swap(&self, current: &Generation, content: LibraryContent, now: Instant) -> Result<u64, Vec<Diagnostic>> {
        // That a file is held back changes no answer.
        let is_same = content.same_as(&current.content);
        let (number, made_at) = if is_same { (current.number, current.made_at) } else { (current.number + 1, now) };
        let (patches, old_patches) = (&content.patches, &current.content.patches);
        let base = if patches.global == old_patches.global {
            current.base.clone()
        } else {
            patches.global.over(&self.unpatched)?
        };
        let same_base = Arc::ptr_eq(current.base.profile(), base.profile());
        // Keys with the same list and the same settings share what is built for them.
        let mut built: HashMap<(Vec<Arc<str>>, String), EffectiveConfig> = HashMap::new();
        let mut config = |key: Option<&Arc<str>>| -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
            let own = |patches: &SettingPatches| key.and_then(|key| patches.keys.get(key)).cloned();
            let (patch, old_patch) = (own(patches), own(old_patches));
            let activation = key.and_then(|key| content.keys.get(key)).unwrap_or(&content.global);
            let active = content.resolve_listed(activation).map_err(still_active)?;
            let old = key.map_or(Some(&current.config), |key| current.key_configs.get(key));
            let is_same = |old: &&Arc<EffectiveConfig>| {
                same_base
                    && patch == old_patch
                    && old.active.len() == active.len()
                    && old.active.iter().zip(&active).all(|(old, new)| Arc::ptr_eq(old, new))
            };
            let old = old.filter(is_same);
            if let Some(old) = old.filter(|old| old.activation == activation.serial) {
                return Ok(Arc::clone(old));
            }
            let kind = (activation.names.clone(), patch.as_ref().map_or_else(String::new, |patch| patch.text()));
            let shared = if let Some(old) = old {
                // Activated again: only times and counters differ.
                EffectiveConfig { generation: number, ..EffectiveConfig::clone(old) }
            } else if let Some(shared) = built.get(&kind) {
                shared.clone()
            } else {
                let fresh = EffectiveConfig::build(&base, patch.as_deref(), active, number, Instant::default(), 0)?;
                built.insert(kind, fresh.clone());
                fresh
            };
            Ok(Arc::new(EffectiveConfig { activated_at: activation.at, activation: activation.serial, ..shared }))
        };
        let global = config(None)?;
        let keys: BTreeSet<&Arc<str>> = content.keys.keys().chain(patches.keys.keys()).collect();
        let key_configs = keys
            .into_iter()
            .map(|key| Ok((Arc::clone(key), config(Some(key))?)))
            .collect::<Result<_, Vec<Diagnostic>>>()?;
        let next = Generation { number, base, made_at, content, config: global, key_configs, named: Mutex::default() };
        let in_force: HashSet<*const EffectiveConfig> =
            next.key_configs.values().chain([&next.config]).map(Arc::as_ptr).collect();
        self.current.store(Arc::new(next));
        let old = current.key_configs.values().chain([&current.config]);
        old.filter(|old| !in_force.contains(&Arc::as_ptr(old))).for_each(|old| self.retired.keep(Arc::clone(old)));
        Ok(number)
    }
}

/// Names that were known when they were activated and are not any more.
fn still_active(problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let missing = |problem: Diagnostic| {
        let message = format!("{}, and it is active", problem.message);
        Diagnostic::of_file("scenario/active-missing", message, "bring it back, or choose other scenarios first")
    };
    problems.into_iter().map(missing).collect()
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
