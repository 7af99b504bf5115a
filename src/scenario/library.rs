//! The scenarios there are and which are active, as one generation that is swapped whole.
//!
//! Readers take the present generation without a lock. Every change parses and builds everything first and swaps once; if
//! anything is wrong, nothing changes. What a rule means is not known here; `files` handles files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::{Mutex, MutexGuard};

use super::clashes::Clash;
use super::effective_config::EffectiveConfig;
use super::parse::parse_scenario;
use super::setting_patch::SettingPatches;
use super::{Scenario, ScenarioOrigin, built_in, built_in_names};
use crate::clock::Instant;
use crate::contract::nearest;
use crate::diagnostic::Diagnostic;
use crate::settings::Layered;
use crate::state::budget::Budget;

/// Most keys with a list of their own.
pub(crate) const MOST_KEYS: usize = 10_000;
/// Most scenarios that may be active at a time.
pub(crate) const MOST_ACTIVE: usize = 32;
/// Most keys of which the lists are looked at for clashes whenever all problems are listed; activating one looks at it in any case.
const MOST_KEYS_JUDGED: usize = 100;
/// Most combinations of scenarios kept for requests that name them, and most bytes of text of the scenarios of one.
pub(crate) const MOST_NAMED: usize = 64;
pub(crate) const MOST_NAMED_TEXT: usize = 2 * 1024 * 1024;
/// Most replaced generations kept, and about how many bytes their scenarios and configurations may take.
pub(crate) const MOST_RETIRED: usize = 64;
pub(crate) const MOST_RETIRED_BYTES: usize = 16 * 1024 * 1024;
/// About what one configuration takes without its scenarios, most of it the profile.
const CONFIG_BYTES: usize = 16 * 1024;

/// A generation's number as people read it, with what it counts.
pub fn generation_text(number: u64) -> String {
    format!("generation {number} of settings and scenarios")
}

/// Which scenarios are active, for all keys or for one.
#[derive(Clone, Debug, Default)]
pub struct Activation {
    pub names: Vec<Arc<str>>,
    pub at: Instant,
    /// Which activation this is; 0 before the first.
    pub serial: u64,
}

/// Why a scenario is not as its file is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// The file has this problem, and maybe others; the last good version stays if there is one.
    Broken(Arc<Diagnostic>),
    /// The file was deleted; the last good version stays active as long as a list names it.
    Deleted,
}

/// The state to which a reset returns. Scenarios from files are not part of it: they stay as their files are saved.
#[derive(Debug, Default)]
pub(super) struct Start {
    inline: ByName,
    active: Vec<Arc<str>>,
}

pub(super) type ByName = BTreeMap<Arc<str>, Arc<Scenario>>;

/// The content of a generation: all scenarios, which are active, and the settings changed while running. A change is
/// worked out on a copy of it.
#[derive(Clone, Debug, Default)]
pub(super) struct LibraryContent {
    pub(super) files: ByName,
    /// Names of which the file is broken or gone.
    pub(super) held: BTreeMap<Arc<str>, HeldBack>,
    pub(super) inline: ByName,
    pub(super) global: Activation,
    pub(super) keys: BTreeMap<Arc<str>, Activation>,
    pub(super) activations: u64,
    pub(super) patches: SettingPatches,
}

impl LibraryContent {
    fn find(&self, name: &str) -> Option<Arc<Scenario>> {
        self.inline.get(name).or_else(|| self.files.get(name)).cloned().or_else(|| built_in(name))
    }

    /// Adds a scenario given as text, or replaces it.
    pub(super) fn put_inline(&mut self, mut scenario: Scenario, budget: &Budget) -> Result<(), Vec<Diagnostic>> {
        let charge = budget.charge(scenario.weight).map_err(|full| {
            let message = format!("`{}` takes {} bytes once read, and {full}", scenario.name, scenario.weight);
            let hint = "remove some scenarios, or keep them as files in a folder";
            vec![Diagnostic::of_file("scenario/too-many", message, hint)]
        })?;
        scenario.charge = Some(Arc::new(charge));
        self.inline.insert(Arc::clone(&scenario.name), Arc::new(scenario));
        Ok(())
    }

    /// Begins a new activation of these scenarios: for one key, or for every key without a list of its own.
    pub(super) fn activate<'n>(
        &mut self,
        key: Option<&str>,
        names: impl Iterator<Item = &'n str>,
        at: Instant,
    ) -> Result<(), Vec<Diagnostic>> {
        let active = self.resolve(names)?;
        if key.is_some_and(|key| self.keys.len() >= MOST_KEYS && !self.keys.contains_key(key)) {
            let message = format!("at most {MOST_KEYS} keys can have scenarios of their own");
            let hint = "let keys follow the global list again";
            return Err(vec![Diagnostic::of_file("scenario/too-many", message, hint)]);
        }
        self.activations += 1;
        let names = active.iter().map(|scenario| Arc::clone(&scenario.name)).collect();
        let activation = Activation { names, at, serial: self.activations };
        match key {
            Some(key) => drop(self.keys.insert(Arc::from(key), activation)),
            None => self.global = activation,
        }
        Ok(())
    }

    /// The names of all scenarios and of files that are broken, sorted.
    fn names(&self) -> Vec<Arc<str>> {
        let own = self.inline.keys().chain(self.files.keys()).chain(self.held.keys());
        let all: BTreeSet<Arc<str>> = own.cloned().chain(built_in_names().map(Arc::from)).collect();
        all.into_iter().collect()
    }

    /// Every name that a list of active scenarios has, or that a reset goes back to.
    pub(super) fn listed(&self, start: &Start) -> HashSet<Arc<str>> {
        let lists = self.keys.values().chain([&self.global]).map(|activation| &activation.names);
        lists.chain([&start.active]).flatten().cloned().collect()
    }

    /// The scenarios of these names, in order, each once. A shipped one does not stand in for a file that is broken.
    fn resolve<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<Arc<Scenario>>, Vec<Diagnostic>> {
        resolve(names, |name| match (self.find(name), self.held.get(name)) {
            (Some(found), held) if found.origin != ScenarioOrigin::BuiltIn || held.is_none() => Ok(found),
            (_, Some(HeldBack::Broken(problem))) => Err(Box::new(Diagnostic::clone(problem))),
            (Some(found), _) => Ok(found),
            (None, _) => Err(Box::new(self.unknown(name))),
        })
    }

    fn unknown(&self, name: &str) -> Diagnostic {
        let names = self.names();
        let hint = match nearest(name, names.iter().map(AsRef::as_ref)) {
            Some(near) => format!("did you mean `{near}`? `wrs-emulator scenarios list` shows all"),
            None => "`wrs-emulator scenarios list` shows all".to_owned(),
        };
        let name: String = name.chars().take(80).collect();
        Diagnostic::of_file("scenario/unknown-scenario", format!("there is no scenario `{name}`"), hint)
    }

    /// Whether every answer is the same.
    fn answers_as(&self, other: &Self) -> bool {
        let same = |left: &ByName, right: &ByName| {
            left.len() == right.len() && left.values().zip(right.values()).all(|(one, other)| one.is_same_as(other))
        };
        same(&self.files, &other.files)
            && same(&self.inline, &other.inline)
            && self.activations == other.activations
            && self.keys.len() == other.keys.len()
            && self.patches == other.patches
    }

    /// Drops the scenarios whose files are gone and that no list names any more.
    fn drop_deleted(&mut self, start: &Start) {
        let listed = self.listed(start);
        let Self { held, files, .. } = self;
        held.retain(|name, held| {
            let stays = *held != HeldBack::Deleted || listed.contains(name);
            if !stays {
                files.remove(name);
            }
            stays
        });
    }
}

fn resolve<'n>(
    names: impl Iterator<Item = &'n str>,
    find: impl Fn(&str) -> Result<Arc<Scenario>, Box<Diagnostic>>,
) -> Result<Vec<Arc<Scenario>>, Vec<Diagnostic>> {
    let mut active: Vec<Arc<Scenario>> = Vec::new();
    let mut problems = Vec::new();
    for name in names {
        match find(name) {
            // A scenario named twice is active once.
            Ok(scenario) if active.iter().any(|known| known.name == scenario.name) => {}
            Ok(_) if active.len() == MOST_ACTIVE => {
                let message = format!("at most {MOST_ACTIVE} scenarios can be active at a time");
                return Err(vec![Diagnostic::of_file("scenario/too-many", message, "")]);
            }
            Ok(scenario) => active.push(scenario),
            // The first few are enough.
            Err(_) if problems.len() == MOST_ACTIVE => break,
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() { Ok(active) } else { Err(problems) }
}

/// One consistent state of scenarios, activations and profile.
#[derive(Debug)]
pub struct Generation {
    /// Counts the swaps, from 1.
    pub number: u64,
    /// The profile without any scenario, with the settings that were changed for all keys.
    pub base: Layered,
    made_at: Instant,
    pub(super) content: LibraryContent,
    config: Arc<EffectiveConfig>,
    key_configs: HashMap<Arc<str>, Arc<EffectiveConfig>>,
    /// Configurations that requests have named: by their scenarios, and the settings of the key.
    named: Mutex<HashMap<(String, String), Arc<EffectiveConfig>>>,
}

impl Generation {
    fn build(number: u64, base: Layered, made_at: Instant, content: LibraryContent) -> Result<Self, Vec<Diagnostic>> {
        // Keys with the same list and the same settings share what is built for them.
        let mut built: HashMap<(&[Arc<str>], String), EffectiveConfig> = HashMap::new();
        let mut config = |key: Option<&Arc<str>>| -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
            let patch = key.and_then(|key| content.patches.keys.get(key));
            let activation = key.and_then(|key| content.keys.get(key)).unwrap_or(&content.global);
            let kind = (activation.names.as_slice(), patch.map_or_else(String::new, |patch| patch.text()));
            let shared = if let Some(shared) = built.get(&kind) {
                shared.clone()
            } else {
                let names = activation.names.iter().map(AsRef::as_ref);
                // A file that has become invalid since takes nothing from a list that is in force.
                let active = resolve(names, |name| content.find(name).ok_or_else(|| content.unknown(name).into()));
                let active = active.map_err(still_active)?;
                let fresh = EffectiveConfig::build(&base, patch.map(Arc::as_ref), active, Instant::default(), 0)?;
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

    /// The configuration of a key: its own list of scenarios if it has one, else the global one, over its own settings. Cheap: it
    /// takes no lock and copies nothing.
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
    /// this generation's beginning.
    pub fn config_named(&self, key: Option<&str>, names: &[&str]) -> Result<Arc<EffectiveConfig>, Vec<Diagnostic>> {
        let patch = key.and_then(|key| self.content.patches.keys.get(key));
        let too_many = |message: String| {
            vec![Diagnostic::of_file("scenario/too-many", message, "activate them for the key with `scenarios use`")]
        };
        if names.len() > MOST_ACTIVE {
            return Err(too_many(format!("a request may name at most {MOST_ACTIVE} scenarios, found {}", names.len())));
        }
        let combination = (names.join(","), patch.map_or_else(String::new, |patch| patch.text()));
        if let Some(config) = self.named.lock().get(&combination) {
            return Ok(Arc::clone(config));
        }
        let active = self.content.resolve(names.iter().copied())?;
        let text: usize = active.iter().map(|scenario| scenario.text.len()).sum();
        if active.len() > 1 && text > MOST_NAMED_TEXT {
            return Err(too_many(format!(
                "the scenarios that a request names may have at most {MOST_NAMED_TEXT} bytes together, found {text}"
            )));
        }
        let config = EffectiveConfig::build(&self.base, patch.map(Arc::as_ref), active, self.made_at, 0)?;
        let config = Arc::new(config);
        let mut named = self.named.lock();
        // A client that names so many combinations waits for each to be built again.
        let old = if named.len() >= MOST_NAMED { std::mem::take(&mut *named) } else { HashMap::new() };
        named.insert(combination, Arc::clone(&config));
        drop(named);
        // Freed without the lock.
        drop(old);
        Ok(config)
    }

    /// The scenario of this name: inline text before files before the shipped ones.
    pub fn find(&self, name: &str) -> Option<Arc<Scenario>> {
        self.content.find(name)
    }

    pub fn names(&self) -> Vec<Arc<str>> {
        self.content.names()
    }

    /// The clashes of scenarios that are active together: for every key without a list of its own, and for the first keys with one.
    pub fn clashes(&self) -> Vec<Clash> {
        let own = self.content.keys.keys().take(MOST_KEYS_JUDGED).map(|key| self.config_for(Some(key)));
        let mut found: Vec<Clash> = Vec::new();
        for clash in [&self.config].into_iter().chain(own).flat_map(|config| config.clashes()) {
            if !found.contains(clash) {
                found.push(clash.clone());
            }
        }
        found
    }

    pub fn file_count(&self) -> usize {
        self.content.files.len()
    }

    pub fn has_files_in(&self, folder: &Path) -> bool {
        let is_inside =
            |scenario: &Scenario| matches!(&scenario.origin, ScenarioOrigin::File(path) if path.starts_with(folder));
        self.content.files.values().any(|scenario| is_inside(scenario))
    }

    /// The list that is active for every key without one of its own.
    pub fn active(&self) -> &Activation {
        &self.content.global
    }

    pub fn active_by_key(&self) -> &BTreeMap<Arc<str>, Activation> {
        &self.content.keys
    }

    pub fn patches(&self) -> &SettingPatches {
        &self.content.patches
    }

    /// Why the scenario of a file is not as the file is saved.
    pub fn held_back(&self, name: &str) -> Option<&HeldBack> {
        self.content.held.get(name)
    }

    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let scenarios = self.content.files.values().chain(self.content.inline.values());
        scenarios.map(|scenario| scenario.weight).sum::<usize>() + (1 + self.key_configs.len()) * CONFIG_BYTES
    }
}

/// All scenarios of one emulator.
#[derive(Debug)]
pub struct Library {
    pub(super) budget: Budget,
    current: ArcSwap<Generation>,
    /// The profile that the emulator was started with.
    pub(super) unpatched: Layered,
    /// Held while a change is worked out, so that none is lost.
    pub(super) changing: Mutex<()>,
    /// The problems of the files at the last reading, whether or not they were accepted.
    pub(super) found: ArcSwap<Vec<Diagnostic>>,
    /// Generations that were replaced, oldest first: requests that they answered can still be explained by them.
    retired: Mutex<VecDeque<Arc<Generation>>>,
    pub(super) start: ArcSwap<Start>,
}

impl Library {
    /// A library with the shipped scenarios, none active.
    pub fn new(base: Layered) -> Self {
        let first = Generation::build(1, base.clone(), Instant::default(), LibraryContent::default());
        Self {
            budget: Budget::default(),
            current: ArcSwap::from_pointee(first.expect("a valid profile with nothing on top is valid")),
            unpatched: base,
            changing: Mutex::default(),
            found: ArcSwap::default(),
            retired: Mutex::default(),
            start: ArcSwap::default(),
        }
    }

    /// Charges scenarios given as text to this budget.
    #[must_use]
    pub fn within(self, budget: &Budget) -> Self {
        Self { budget: budget.clone(), ..self }
    }

    /// The present generation. Take it once for a request, so that one request sees one state.
    pub fn load(&self) -> Guard<Arc<Generation>> {
        self.current.load()
    }

    /// Adds a scenario from a text, or replaces it. The warnings come with the number of the new generation.
    pub fn put_inline(&self, name: &str, text: &str, now: Instant) -> Result<(u64, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut warnings = Vec::new();
        let number = self.change(now, |content, _| {
            let (scenario, found) = parse_scenario(name, text, ScenarioOrigin::Inline, &self.load().base);
            let found: Vec<_> = found.into_iter().map(|problem| problem.in_file(name)).collect();
            let Some(scenario) = scenario else { return Err(found) };
            warnings = found;
            content.put_inline(scenario, &self.budget)
        })?;
        Ok((number, warnings))
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

    /// Remembers the scenarios that are active and those given as text: what [`Self::restart`] goes back to.
    pub fn mark_start(&self) {
        let generation = self.load();
        let LibraryContent { inline, global, .. } = &generation.content;
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
        .inspect(|_| self.forget_retired())
    }

    /// Drops the generations kept for explanations, as when the requests that they answered are forgotten.
    pub(super) fn forget_retired(&self) {
        self.retired.lock().clear();
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
        content.drop_deleted(&self.start.load());
        // That a file is held back changes no answer, so the number stays.
        let is_same = content.answers_as(&current.content);
        if is_same && content.held == current.content.held {
            return Ok(current.number);
        }
        let (number, made_at) = if is_same { (current.number, current.made_at) } else { (current.number + 1, now) };
        let base = content.patches.global.over(&self.unpatched)?;
        let next = Generation::build(number, base, made_at, content)?;
        self.current.store(Arc::new(next));
        let mut retired = self.retired.lock();
        retired.push_back(current);
        while retired.len() > MOST_RETIRED || retired.iter().map(|old| old.weight()).sum::<usize>() > MOST_RETIRED_BYTES
        {
            retired.pop_front();
        }
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
mod tests {
    use super::*;

    const NOW: Instant = Instant::after_start(std::time::Duration::from_secs(1));

    #[test]
    fn inline_comes_before_files_before_shipped() {
        let library = Library::new(Layered::default());
        let name = "rate-limit-burst";
        let title = |library: &Library| library.load().find(name).map(|found| found.title.clone());
        let file =
            |title: &str| vec![("dir/rate-limit-burst.toml".into(), Ok(format!("title = '{title}'\n[profile]\n")))];
        let shipped = title(&library);
        library.reload_files(file("file"), NOW);
        assert_eq!(title(&library).as_deref(), Some("file"));
        library.put_inline(name, "title = 'inline'\n[profile]\n", NOW).expect("valid");
        assert_eq!(title(&library).as_deref(), Some("inline"));
        library.activate(None, &[name], NOW).expect("known");
        library.remove_inline(name, NOW).expect("the file takes its place");
        library.activate(None, &[], NOW).expect("none");
        library.reload_files(Vec::new(), NOW);
        assert_eq!(title(&library), shipped);
        library.put_inline("mine", "[profile]\n", NOW).expect("valid");
        library.activate(None, &["mine"], NOW).expect("known");
        assert!(library.remove_inline("mine", NOW).is_err(), "it is active");
    }

    #[test]
    fn what_a_request_may_name_is_bounded() {
        let library = Library::new(Layered::default());
        for name in ["a", "b", "c"] {
            let text = format!("[profile]\n# {}\n", "x".repeat(900_000));
            library.put_inline(name, &text, NOW).expect("valid");
        }
        let generation = library.load();
        let problem = |names: &[&str]| generation.config_named(None, names).err().map(|problems| problems[0].code);
        assert_eq!(problem(&["a", "b"]), None);
        assert_eq!(problem(&["a", "b", "c"]), Some("scenario/too-many"));
        assert_eq!(problem(&["a"; MOST_ACTIVE]), None, "one that is named twice counts once");
        assert_eq!(problem(&["nope"; MOST_ACTIVE + 1]), Some("scenario/too-many"));
    }
}
