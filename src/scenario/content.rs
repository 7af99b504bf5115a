//! The content of a snapshot: all scenarios, which are active for whom, and the settings changed while running. A change is worked
//! out on a copy of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{Scenario, ScenarioOrigin, built_in, built_in_names};
use crate::clock::Instant;
use crate::contract::nearest;
use crate::diagnostic::Diagnostic;
use crate::settings::{MAX_PATCH_BYTES, SettingPatch};
use crate::state::budget::Budget;
use crate::util::wording::{any_of, shorten};

/// Maximum number of keys with their own settings: each has its own profile in memory.
const MAX_PATCHES: usize = 1_000;
/// Maximum bytes of all patches together.
const MAX_BYTES_OF_PATCHES: usize = 4 * 1024 * 1024;
/// Maximum number of keys with their own list.
pub(crate) const MAX_KEYS: usize = 10_000;
/// Maximum number of scenarios that may be active at a time.
pub(crate) const MAX_ACTIVE: usize = 32;

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
pub enum Stale {
    /// The file has this problem, and maybe others; the last good version stays if there is one.
    Broken(Arc<Diagnostic>),
    /// The file was deleted; the last good version stays active as long as a list names it.
    Deleted,
}

/// The state to which a reset returns. Scenarios from files are not part of it: they stay as their files are saved.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) inline: ByName,
    pub(super) active: Vec<Arc<str>>,
}

pub(super) type ByName = BTreeMap<Arc<str>, Arc<Scenario>>;

#[derive(Clone, Debug, Default)]
pub(super) struct ScenarioSet {
    pub(super) files: ByName,
    /// Names whose file is broken or gone.
    pub(super) held: BTreeMap<Arc<str>, Stale>,
    pub(super) inline: ByName,
    pub(super) global: Activation,
    pub(super) keys: BTreeMap<Arc<str>, Activation>,
    pub(super) activations: u64,
    pub(super) patches: SettingPatches,
}

/// The settings changed while running.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingPatches {
    pub global: Arc<SettingPatch>,
    /// For single keys, by the name of their workspace; lies over the one for all.
    pub keys: BTreeMap<Arc<str>, Arc<SettingPatch>>,
}

impl SettingPatches {
    fn bytes(&self) -> usize {
        self.keys.values().chain([&self.global]).map(|patch| patch.text().len()).sum()
    }

    /// True if there may be no room for the settings of one more key.
    pub(super) fn may_be_full(&self) -> bool {
        self.keys.len() >= MAX_PATCHES || self.bytes() > MAX_BYTES_OF_PATCHES - MAX_PATCH_BYTES
    }

    /// Refuses more patches than may be kept.
    pub(super) fn check_size(&self) -> Result<(), Vec<Diagnostic>> {
        let bytes = self.bytes();
        let message = if self.keys.len() > MAX_PATCHES {
            format!("at most {MAX_PATCHES} keys can have their own settings")
        } else if bytes > MAX_BYTES_OF_PATCHES {
            format!("the patches of all keys together hold more than {} MiB", MAX_BYTES_OF_PATCHES / (1024 * 1024))
        } else {
            return Ok(());
        };
        Err(vec![Diagnostic::of_file("profile/bad-value", message, "undo the changes of other keys")])
    }

    pub(super) fn set(&mut self, key: Option<&str>, patch: SettingPatch) {
        match key {
            None => self.global = Arc::new(patch),
            Some(key) if patch.is_empty() => drop(self.keys.remove(key)),
            Some(key) => drop(self.keys.insert(Arc::from(key), Arc::new(patch))),
        }
    }
}

impl ScenarioSet {
    pub(super) fn find(&self, name: &str) -> Option<Arc<Scenario>> {
        self.inline.get(name).or_else(|| self.files.get(name)).cloned().or_else(|| built_in(name))
    }

    /// Adds a scenario given as text, or replaces it.
    pub(super) fn put_inline(&mut self, scenario: Scenario, budget: &Budget) -> Result<(), Vec<Diagnostic>> {
        budget.room().map_err(|full| no_room(format!("there is no room for `{}`: {full}", scenario.name)))?;
        self.inline.insert(Arc::clone(&scenario.name), Arc::new(scenario));
        Ok(())
    }

    /// Begins a new activation of these scenarios: for one key, or for every key without its own list.
    pub(super) fn activate<'n>(
        &mut self,
        key: Option<&str>,
        names: impl Iterator<Item = &'n str>,
        at: Instant,
    ) -> Result<(), Vec<Diagnostic>> {
        let active = self.resolve(names)?;
        if key.is_some_and(|key| self.keys.len() >= MAX_KEYS && !self.keys.contains_key(key)) {
            let message = format!("at most {MAX_KEYS} keys can have their own scenarios");
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
    pub(super) fn names(&self) -> Vec<Arc<str>> {
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
    pub(super) fn resolve<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<Arc<Scenario>>, Vec<Diagnostic>> {
        resolve(names, |name| match (self.find(name), self.held.get(name)) {
            (Some(found), held) if found.origin != ScenarioOrigin::BuiltIn || held.is_none() => Ok(found),
            (_, Some(Stale::Broken(problem))) => Err(Box::new(Diagnostic::clone(problem))),
            (Some(found), _) => Ok(found),
            (None, _) => Err(Box::new(self.unknown(name))),
        })
    }

    pub(super) fn unknown(&self, name: &str) -> Diagnostic {
        let names = self.names();
        // A file's name, or one in another case, is meant to be that scenario.
        let plain = name.strip_suffix(".toml").unwrap_or(name);
        let plain = plain.rsplit(['/', '\\']).next().unwrap_or(plain);
        let same = names.iter().find(|known| known.eq_ignore_ascii_case(plain)).map(AsRef::as_ref);
        let hint = match same.or_else(|| nearest(plain, names.iter().map(AsRef::as_ref))) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected {}", any_of(&names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>())),
        };
        let name = shorten(name, 80);
        Diagnostic::of_file("scenario/unknown-scenario", format!("there is no scenario `{name}`"), hint)
    }

    /// True if every answer is the same.
    pub(super) fn answers_as(&self, other: &Self) -> bool {
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
    pub(super) fn drop_deleted(&mut self, start: &Start) {
        let listed = self.listed(start);
        let Self { held, files, inline, .. } = self;
        held.retain(|name, held| {
            let stays = *held != Stale::Deleted || listed.contains(name) && !inline.contains_key(name);
            if !stays {
                files.remove(name);
            }
            stays
        });
    }
}

/// The refusal for lack of memory.
pub(super) fn no_room(message: String) -> Vec<Diagnostic> {
    let hint = "remove some scenarios or settings of keys, or keep scenarios as files in a folder";
    vec![Diagnostic::of_file("scenario/too-many", message, hint)]
}

pub(super) fn resolve<'n>(
    names: impl Iterator<Item = &'n str>,
    find: impl Fn(&str) -> Result<Arc<Scenario>, Box<Diagnostic>>,
) -> Result<Vec<Arc<Scenario>>, Vec<Diagnostic>> {
    let mut active: Vec<Arc<Scenario>> = Vec::new();
    let mut problems = Vec::new();
    for name in names {
        match find(name) {
            // A scenario named twice is active once.
            Ok(scenario) if active.iter().any(|known| known.name == scenario.name) => {}
            Ok(_) if active.len() == MAX_ACTIVE => {
                let message = format!("at most {MAX_ACTIVE} scenarios can be active at a time");
                return Err(vec![Diagnostic::of_file("scenario/too-many", message, "")]);
            }
            Ok(scenario) => active.push(scenario),
            // The first few are enough.
            Err(_) if problems.len() == MAX_ACTIVE => break,
            Err(problem) => problems.push(*problem),
        }
    }
    if problems.is_empty() { Ok(active) } else { Err(problems) }
}
