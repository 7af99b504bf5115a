//! Scenario files taken one by one: a broken one holds back only itself, and one that was deleted stays active as long as a
//! list names it.
//!
//! Knows texts and their paths; reading and watching folders is the work of `watch`.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::changes::{Reload, changes};
use super::content::{ByName, HeldBack};
use super::library::{Generation, Library};
use super::parse::{MOST_WEIGHT, parse_scenario};
use super::watch::{FileTexts, leads_out};
use super::{Scenario, ScenarioOrigin};
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;

/// Most problems kept of all files together; the first ones of each file come first.
const MOST_PROBLEMS: usize = 10_000;

/// The files as they are accepted: in their present version, in the last good one, or not at all.
#[derive(Default)]
struct Taken {
    files: ByName,
    held: BTreeMap<Arc<str>, HeldBack>,
    found: Vec<Diagnostic>,
}

impl Taken {
    /// Keeps the last good version of a scenario.
    fn hold_back(&mut self, current: &Generation, name: &str, problem: Diagnostic) {
        let name: Arc<str> = Arc::from(name);
        match current.content().files.get(&name) {
            Some(good) => drop(self.files.insert(Arc::clone(&name), Arc::clone(good))),
            None => drop(self.files.remove(&name)),
        }
        self.held.insert(name, HeldBack::Broken(Arc::new(problem)));
    }

    /// Holds back scenarios that are valid alone but clash with other active ones; returns whether that changes anything.
    fn hold_back_clashing(
        &mut self,
        current: &Generation,
        listed: &HashSet<Arc<str>>,
        problems: &[Diagnostic],
    ) -> bool {
        let known = &current.content().files;
        let is_new = |scenario: &&Arc<Scenario>| {
            let same = known.get(&scenario.name).is_some_and(|known| Arc::ptr_eq(known, scenario));
            !same && listed.contains(&scenario.name)
        };
        let problem_of = |scenario: &Scenario| {
            problems.iter().find(|problem| problem.file.as_deref() == Some(scenario.file_name().as_str()))
        };
        let new: Vec<Arc<Scenario>> = self.files.values().filter(is_new).cloned().collect();
        let named = new.iter().any(|scenario| problem_of(scenario).is_some());
        for scenario in &new {
            // A clash reported for an unchanged file may come from any of those that changed.
            let problem = problem_of(scenario).or_else(|| problems.first().filter(|_| !named));
            if let Some(problem) = problem {
                self.hold_back(current, &scenario.name, problem.clone());
            }
        }
        !new.is_empty()
    }
}

impl Library {
    /// Replaces the previous contents of all scenario files by these. A file with an error leaves its scenario at the last
    /// good version; so does a deleted file, as long as a list names the scenario. Files that did not change keep everything,
    /// and if none changed, the generation stays.
    pub fn reload_files(&self, files: FileTexts, now: Instant) -> Reload {
        let changing = self.changing();
        let current = self.load();
        let listed = current.content().listed(&self.start.load());
        let mut taken = self.read_files(files, &current, &listed);
        let generation = loop {
            let (files, held) = (taken.files.clone(), taken.held.clone());
            let swapped = self.change_while(&changing, now, |content, _| {
                (content.files, content.held) = (files, held);
                Ok(())
            });
            match swapped {
                Ok(number) => break number,
                Err(problems) => {
                    taken.found.extend(problems.iter().cloned());
                    if !taken.hold_back_clashing(&current, &listed, &problems) {
                        break current.number;
                    }
                }
            }
        };
        taken.found.truncate(MOST_PROBLEMS);
        self.found.store(Arc::new(taken.found));
        let changes = changes(&current.content().files, &self.load().content().files);
        let is_new = generation > current.number;
        drop(changing);
        Reload { generation, is_new, changes, found: self.diagnostics() }
    }

    /// What was found in the files at the last reading, and a warning for each scenario whose file is gone.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let generation = self.load();
        let content = generation.content();
        let deleted = content.held.iter().filter(|(_, held)| **held == HeldBack::Deleted).filter_map(|(name, _)| {
            let message = format!("the file of `{name}` was deleted, but an active list still names it; its last good version stays active");
            let hint = "bring the file back, or choose other scenarios";
            let problem = Diagnostic::of_file("scenario/active-missing", message, hint).as_warning();
            Some(problem.in_file(content.files.get(name)?.file_name()))
        });
        self.found.load().iter().cloned().chain(deleted).collect()
    }

    /// Whether every scenario is as its file is saved.
    pub fn is_as_saved(&self) -> bool {
        self.load().content().held.is_empty() && !self.found.load().iter().any(Diagnostic::is_error)
    }

    fn read_files(&self, files: FileTexts, current: &Generation, listed: &HashSet<Arc<str>>) -> Taken {
        let known = &current.content().files;
        let mut taken = Taken::default();
        let present: HashSet<String> = files.iter().filter_map(|(path, text)| name_of(path, text.is_ok())).collect();
        for (name, scenario) in known {
            if !present.contains(&**name) && listed.contains(name) {
                taken.files.insert(Arc::clone(name), Arc::clone(scenario));
                taken.held.insert(Arc::clone(name), HeldBack::Deleted);
            }
        }
        let mut weight: usize = taken.files.values().map(|scenario| scenario.weight).sum();
        // Warnings must be reported again, so only a file without any is taken over unread.
        let before = self.found.load();
        let reported: HashSet<&str> = before.iter().filter_map(|problem| problem.file.as_deref()).collect();
        let (mut seen, mut full) = (BTreeMap::new(), None);
        for (path, text) in files {
            let shown = path.display().to_string();
            let Some(name) = name_of(&path, text.is_ok()) else {
                taken.found.extend(text.err().map(|problem| problem.in_file(shown)));
                continue;
            };
            if let Some(other) = seen.insert(name.clone(), shown.clone()) {
                let message = format!("two files are named `{name}`; the other is {other}");
                let hint = "rename one: a scenario is named by its file";
                taken.found.push(Diagnostic::of_file("scenario/duplicate-name", message, hint).in_file(shown));
                continue;
            }
            if let Some(problem) = &full {
                // A scenario that no list names need not stay.
                if listed.contains(name.as_str()) {
                    taken.hold_back(current, &name, Diagnostic::clone(problem).in_file(shown));
                }
                continue;
            }
            let same = |text: &str| {
                known
                    .get(name.as_str())
                    .filter(|known| *known.text == *text && known.origin == ScenarioOrigin::File(path.clone()))
            };
            let mut found = Vec::new();
            let scenario = match text {
                Err(problem) => {
                    found.push(*problem);
                    None
                }
                Ok(text) => {
                    let unread = same(&text).filter(|_| !reported.contains(shown.as_str())).cloned();
                    unread.or_else(|| {
                        let origin = ScenarioOrigin::File(path.clone());
                        let (scenario, problems) = parse_scenario(&name, &text, origin, &current.base);
                        found.extend(problems);
                        scenario.map(|scenario| same(&text).cloned().unwrap_or_else(|| Arc::new(scenario)))
                    })
                }
            };
            let is_elsewhere = !found.is_empty() && leads_out(&path);
            let found = found.into_iter().map(|problem| if is_elsewhere { problem.without_source() } else { problem });
            let found: Vec<_> = found.map(|problem| problem.in_file(shown.clone())).collect();
            if let Some(scenario) = scenario {
                if weight + scenario.weight > MOST_WEIGHT {
                    let problem = too_heavy();
                    if listed.contains(name.as_str()) {
                        taken.hold_back(current, &name, problem.clone().in_file(shown.clone()));
                    }
                    taken.found.push(problem.clone().in_file(shown));
                    full = Some(problem);
                    continue;
                }
                weight += scenario.weight;
                taken.files.insert(Arc::clone(&scenario.name), scenario);
            } else if let Some(problem) = found.iter().find(|problem| problem.is_error()) {
                taken.hold_back(current, &name, problem.clone());
                weight += known.get(name.as_str()).map_or(0, |good| good.weight);
            }
            taken.found.extend(found);
        }
        taken
    }
}

/// The name of the scenario in a file; `None` for a problem of a folder.
fn name_of(path: &Path, was_read: bool) -> Option<String> {
    let is_file = path.extension().is_some_and(|extension| extension == "toml") || was_read;
    let stem = path.file_stem().filter(|_| is_file)?;
    Some(stem.to_string_lossy().into_owned())
}

fn too_heavy() -> Diagnostic {
    let message =
        format!("this file is not taken: together the files would take more than {MOST_WEIGHT} bytes once read");
    Diagnostic::of_file("scenario/too-many", message, "remove what is not needed").as_warning()
}
