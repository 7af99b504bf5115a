//! One state of scenarios and settings: its content, and what follows from it for each key.
//!
//! A snapshot never changes. Readers load it without a lock; `library` makes the changes and swaps it. What a rule means is not
//! known here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::content::{Activation, MAX_ACTIVE, MAX_KEYS, ScenarioSet, SettingPatches, Stale, no_room, resolve};
use super::decide::RuleSet;
use super::emit::Emit;
use super::{Scenario, ScenarioOrigin};
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;
use crate::settings::{Draft, Layer, Layered, Profile, ProfileProblem, SettingPatch};
use crate::state::budget::Budget;

/// Maximum number of combinations of scenarios kept for requests that name them, and most bytes of text of the scenarios of one.
pub(crate) const MAX_NAMED: usize = 64;
pub(crate) const MAX_NAMED_TEXT: usize = 2 * 1024 * 1024;

/// One consistent state of scenarios, activations and profile.
#[derive(Debug)]
pub struct ScenarioSnapshot {
    /// Counts the swaps, from 1.
    pub number: u64,
    /// The profile without any scenario, with the settings that were changed for all keys.
    pub base: Layered,
    pub(super) made_at: Instant,
    pub(super) content: ScenarioSet,
    config: Arc<EffectiveConfig>,
    key_configs: HashMap<Arc<str>, Arc<EffectiveConfig>>,
    /// Configurations that requests have named: by their scenarios, and the settings of the key.
    named: Mutex<HashMap<(String, String), Arc<EffectiveConfig>>>,
}

impl ScenarioSnapshot {
    /// Unchanged parts of the `previous` snapshot are reused.
    pub(super) fn build(
        number: u64,
        base: Layered,
        made_at: Instant,
        content: ScenarioSet,
        previous: Option<&Self>,
        budget: &Budget,
    ) -> Result<Self, Vec<Diagnostic>> {
        let previous =
            previous.filter(|previous| Arc::ptr_eq(&previous.content.patches.global, &content.patches.global));
        // Keys with the same list and the same settings share one configuration.
        let mut built: HashMap<(&[Arc<str>], String), EffectiveConfig> = HashMap::new();
        let mut config = |key: Option<&Arc<str>>| -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
            let patch = key.and_then(|key| content.patches.keys.get(key));
            let activation = key.and_then(|key| content.keys.get(key)).unwrap_or(&content.global);
            if let Some(same) = previous.and_then(|previous| previous.unchanged(key, patch, activation, &content)) {
                return Ok(same);
            }
            let kind = (activation.names.as_slice(), patch.map_or_else(String::new, |patch| patch.text()));
            let shared = if let Some(shared) = built.get(&kind) {
                shared.clone()
            } else {
                let names = activation.names.iter().map(AsRef::as_ref);
                // A file that has become invalid since does not shorten a list that is in force.
                let active = resolve(names, |name| content.find(name).ok_or_else(|| content.unknown(name).into()));
                let active = active.map_err(still_active)?;
                if key.is_some() {
                    budget
                        .room()
                        .map_err(|full| no_room(format!("there is no room for settings of one more key: {full}")))?;
                }
                let fresh = EffectiveConfig::build(&base, patch.map(Arc::as_ref), active)?;
                built.insert(kind, fresh.clone());
                fresh
            };
            Ok(Arc::new(EffectiveConfig { activated_at: activation.at, activation: activation.serial, ..shared }))
        };
        let global = config(None)?;
        let keys: BTreeSet<&Arc<str>> = content.keys.keys().chain(content.patches.keys.keys()).collect();
        let key_configs = keys
            .into_iter()
            .map(|key| Ok((Arc::clone(key), config(Some(key))?)))
            .collect::<Result<_, Vec<Diagnostic>>>()?;
        drop(built);
        Ok(Self { number, base, made_at, content, config: global, key_configs, named: Mutex::default() })
    }

    /// The configuration of a key, or of all, if it is the same in the next snapshot, in which nothing has changed for all.
    fn unchanged(
        &self,
        key: Option<&Arc<str>>,
        patch: Option<&Arc<SettingPatch>>,
        activation: &Activation,
        next: &ScenarioSet,
    ) -> Option<Arc<EffectiveConfig>> {
        let known = match key {
            Some(key) => self.key_configs.get(key)?,
            None => &self.config,
        };
        let had = key.and_then(|key| self.content.patches.keys.get(key));
        let has_same_patch = match (had, patch) {
            (Some(had), Some(patch)) => Arc::ptr_eq(had, patch),
            (had, patch) => had.is_none() && patch.is_none(),
        };
        let is_same = |(name, known): (&Arc<str>, &Arc<Scenario>)| {
            next.find(name).is_some_and(|scenario| Arc::ptr_eq(&scenario, known))
        };
        let names = &activation.names;
        let has_same_scenarios =
            names.len() == known.active.len() && names.iter().zip(known.active.iter()).all(is_same);
        if !has_same_patch || !has_same_scenarios {
            return None;
        }
        if known.activation == activation.serial && known.activated_at == activation.at {
            return Some(Arc::clone(known));
        }
        let (activated_at, activation) = (activation.at, activation.serial);
        Some(Arc::new(EffectiveConfig { activated_at, activation, ..EffectiveConfig::clone(known) }))
    }

    /// The configuration of a key: its own list of scenarios if it has one, else the global one, over its own settings. Cheap: it
    /// needs no lock and copies nothing.
    pub fn config_for(&self, key: Option<&str>) -> &Arc<EffectiveConfig> {
        match key {
            Some(key) if !self.key_configs.is_empty() => self.key_configs.get(key).unwrap_or(&self.config),
            _ => &self.config,
        }
    }

    pub fn has_key_configs(&self) -> bool {
        !self.key_configs.is_empty()
    }

    /// The configuration of a request that names its scenarios: these over the key's own settings. Times count from
    /// this snapshot's beginning.
    pub fn config_named(&self, key: Option<&str>, names: &[&str]) -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
        let patch = key.and_then(|key| self.content.patches.keys.get(key));
        let too_many = |message: String| {
            vec![Diagnostic::of_file("scenario/too-many", message, "activate them for the key with `scenarios use`")]
        };
        if names.len() > MAX_ACTIVE {
            return Err(too_many(format!("a request may name at most {MAX_ACTIVE} scenarios, found {}", names.len())));
        }
        let combination = (names.join(","), patch.map_or_else(String::new, |patch| patch.text()));
        if let Some(config) = self.named.lock().get(&combination) {
            return Ok(Arc::clone(config));
        }
        let active = self.content.resolve(names.iter().copied())?;
        let text: usize = active.iter().map(|scenario| scenario.text.len()).sum();
        if active.len() > 1 && text > MAX_NAMED_TEXT {
            return Err(too_many(format!(
                "the scenarios that a request names may have at most {MAX_NAMED_TEXT} bytes together, found {text}"
            )));
        }
        let config = EffectiveConfig::build(&self.base, patch.map(Arc::as_ref), active)?;
        let config = Arc::new(EffectiveConfig { activated_at: self.made_at, ..config });
        let mut named = self.named.lock();
        // A client that names so many combinations waits for each to be built again.
        if named.len() >= MAX_NAMED {
            named.clear();
        }
        named.insert(combination, Arc::clone(&config));
        Ok(config)
    }

    /// The scenario of this name: inline text before files before the shipped ones.
    pub fn find(&self, name: &str) -> Option<Arc<Scenario>> {
        self.content.find(name)
    }

    pub fn names(&self) -> Vec<Arc<str>> {
        self.content.names()
    }

    pub fn file_count(&self) -> usize {
        self.content.files.len()
    }

    pub fn has_files_in(&self, folder: &Path) -> bool {
        let is_inside =
            |scenario: &Scenario| matches!(&scenario.origin, ScenarioOrigin::File(path) if path.starts_with(folder));
        self.content.files.values().any(|scenario| is_inside(scenario))
    }

    /// The list that is active for every key without its own.
    pub fn active(&self) -> &Activation {
        &self.content.global
    }

    pub fn active_by_key(&self) -> &BTreeMap<Arc<str>, Activation> {
        &self.content.keys
    }

    pub fn patches(&self) -> &SettingPatches {
        &self.content.patches
    }

    /// True if there may be no room for the scenarios or settings of one more key.
    pub fn may_be_full_of_keys(&self) -> bool {
        self.content.keys.len() >= MAX_KEYS || self.content.patches.may_be_full()
    }

    /// Why the scenario of a file is not as the file is saved.
    pub fn held_back(&self, name: &str) -> Option<&Stale> {
        self.content.held.get(name)
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

/// Everything in force for one key, or for one request that names its scenarios.
#[derive(Clone, Debug)]
pub struct EffectiveConfig {
    pub layered: Layered,
    pub profile: Arc<Profile>,
    pub rules: Arc<RuleSet>,
    pub emits: Arc<[Arc<Emit>]>,
    pub active: Arc<[Arc<Scenario>]>,
    /// When the scenarios were activated, by the emulator's clock; a reload does not change it.
    pub activated_at: Instant,
    /// Which activation this is: each has its own counters (`RuleCounters::switch_to`), and `given` state is put in place once for
    /// each. Zero for scenarios named by a request, which are never activated.
    pub activation: u64,
}

impl EffectiveConfig {
    /// The effective configuration of these scenarios over a profile and the key's changes. All are merged before
    /// anything is validated: a setting that is valid alone may contradict one of another scenario, and one that
    /// is invalid alone may be valid with it. They are not activated yet.
    fn build(
        base: &Layered,
        patch: Option<&SettingPatch>,
        active: Vec<Arc<Scenario>>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let overlays = active.iter().filter_map(|scenario| Some((scenario, scenario.overlay.as_ref()?)));
        let placed = |problem: ProfileProblem| match overlays
            .clone()
            .find(|(_, overlay)| overlay.source() == &*problem.source)
        {
            Some((scenario, _)) => problem.in_text(&scenario.text).in_file(scenario.file_name()),
            None => problem.without_text(),
        };
        let layered = if patch.is_none() && overlays.clone().next().is_none() {
            base.clone()
        } else {
            let add = |draft: &mut Draft| {
                if let Some(patch) = patch {
                    patch.add_to(draft);
                }
                overlays.clone().for_each(|(_, overlay)| draft.layer(Layer::clone(overlay)));
            };
            base.with(add).map_err(|problems| problems.into_iter().map(placed).collect::<Vec<_>>())?
        };
        Ok(Self {
            profile: Arc::clone(layered.profile()),
            layered,
            rules: Arc::new(RuleSet::new(active.iter().map(Arc::as_ref))),
            emits: active.iter().flat_map(|scenario| scenario.emits.iter().cloned()).collect(),
            active: active.into(),
            activated_at: Instant::default(),
            activation: 0,
        })
    }
}
