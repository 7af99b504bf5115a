//! Scenario files taken one by one: a broken one holds back only itself, and one that was deleted stays active as long as a
//! list names it. Reports what a reload changed.
//!
//! Knows texts and their paths; reading and watching folders is the work of `watch`.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::content::{ByName, Stale};
use super::library::ScenarioStore;
use super::parse::{MAX_WEIGHT, parse_scenario};
use super::snapshot::ScenarioSnapshot;
use super::watch::{FileTexts, leads_out};
use super::{Scenario, ScenarioOrigin};
use crate::clock::Instant;
use crate::diagnostic::Diagnostic;
use crate::util::wording::{counted, labelled};

/// Maximum number of problems kept of all files together; the first ones of each file come first.
const MAX_PROBLEMS: usize = 10_000;
/// Maximum number of files named as changed, and most changes named for each.
const MAX_FILES_NAMED: usize = 5;
const MAX_CHANGES: usize = 8;

/// The result of reading the scenario files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// The number of the snapshot in force after it.
    pub generation: u64,
    pub is_new: bool,
    /// The changes, a line for each file: its path, then its rules and emissions.
    pub changes: Vec<String>,
    /// The problems of the files now.
    pub found: Vec<Diagnostic>,
}

/// The files as they are accepted: in their present version, in the last good one, or not at all.
struct AcceptedFiles<'g> {
    before: &'g ScenarioSnapshot,
    listed: HashSet<Arc<str>>,
    files: ByName,
    held: BTreeMap<Arc<str>, Stale>,
    found: Vec<Diagnostic>,
    /// The warning about the first file that is one too many; none after it is accepted.
    full: Option<Diagnostic>,
}

impl<'g> AcceptedFiles<'g> {
    fn new(before: &'g ScenarioSnapshot, listed: HashSet<Arc<str>>, texts: FileTexts) -> Self {
        let mut accepted =
            Self { before, listed, files: ByName::new(), held: BTreeMap::new(), found: Vec::new(), full: None };
        let present: HashSet<String> = texts.iter().filter_map(|(path, text)| name_of(path, text.is_ok())).collect();
        for (name, scenario) in &before.content.files {
            if !present.contains(&**name) && accepted.listed.contains(name) {
                accepted.files.insert(Arc::clone(name), Arc::clone(scenario));
                accepted.held.insert(Arc::clone(name), Stale::Deleted);
            }
        }
        let mut seen = BTreeMap::new();
        for (path, text) in texts {
            let shown = path.display().to_string();
            let Some(name) = name_of(&path, text.is_ok()) else {
                accepted.found.extend(text.err().map(|problem| problem.in_file(shown)));
                continue;
            };
            if let Some(other) = seen.insert(name.clone(), shown.clone()) {
                let message = format!("two files are named `{name}`; the other is {other}");
                let hint = "rename one: a scenario is named by its file";
                let problem = Diagnostic::of_file("scenario/duplicate-name", message, hint);
                accepted.found.push(problem.in_file(shown));
                continue;
            }
            if let Some(problem) = accepted.full.clone() {
                accepted.hold_back_listed(&name, &problem.in_file(shown));
                continue;
            }
            let (scenario, found) = match text {
                Ok(text) => parse_scenario(&name, &text, ScenarioOrigin::File(path.clone()), &before.base),
                Err(problem) => (None, vec![*problem]),
            };
            let is_elsewhere = !found.is_empty() && leads_out(&path);
            let found = found.into_iter().map(|problem| if is_elsewhere { problem.without_source() } else { problem });
            accepted.add(&name, scenario, found.map(|problem| problem.in_file(shown.clone())).collect());
        }
        accepted
    }

    fn add(&mut self, name: &str, scenario: Option<Scenario>, mut found: Vec<Diagnostic>) {
        let weight: usize = self.files.values().map(|scenario| scenario.weight).sum();
        match scenario {
            Some(scenario) if weight + scenario.weight > MAX_WEIGHT => {
                let message = format!("skipped: the scenario files together exceed {MAX_WEIGHT} bytes in memory");
                let hint = "remove files that are not needed";
                let problem = Diagnostic::of_file("scenario/too-many", message, hint).as_warning();
                let problem = problem.in_file(scenario.file_name());
                self.hold_back_listed(name, &problem);
                self.full = Some(problem.clone());
                found.push(problem);
            }
            Some(scenario) => drop(self.files.insert(Arc::clone(&scenario.name), Arc::new(scenario))),
            None => {
                let errors: Vec<&Diagnostic> = found.iter().filter(|problem| problem.is_error()).collect();
                if let [first, more @ ..] = errors.as_slice() {
                    let mut problem = Diagnostic::clone(first);
                    if !more.is_empty() {
                        problem.message.push_str(&format!(" (and {})", counted(more.len(), "more error")));
                    }
                    self.hold_back(name, &problem);
                }
            }
        }
        self.found.append(&mut found);
    }

    /// Keeps the last good version of a scenario for which there is no room; one that no list names need not stay.
    fn hold_back_listed(&mut self, name: &str, problem: &Diagnostic) {
        if self.listed.contains(name) {
            self.hold_back(name, problem);
        }
    }

    /// Keeps the last good version of a scenario.
    fn hold_back(&mut self, name: &str, problem: &Diagnostic) {
        let name: Arc<str> = Arc::from(name);
        match self.before.content.files.get(&name) {
            Some(good) => drop(self.files.insert(Arc::clone(&name), Arc::clone(good))),
            None => drop(self.files.remove(&name)),
        }
        self.held.insert(name, Stale::Broken(Arc::new(problem.clone())));
    }

    /// Holds back scenarios whose settings are valid alone but not with those of other active ones; returns whether that changes anything.
    fn hold_back_contradicting(&mut self, problems: &[Diagnostic]) -> bool {
        let before = &self.before.content.files;
        let is_new = |scenario: &&Arc<Scenario>| {
            let is_same = before.get(&scenario.name).is_some_and(|before| before.is_same_as(scenario));
            !is_same && self.listed.contains(&scenario.name)
        };
        let new: Vec<Arc<Scenario>> = self.files.values().filter(is_new).cloned().collect();
        let problem_of = |scenario: &Scenario| {
            problems.iter().find(|problem| problem.file.as_deref() == Some(scenario.file_name().as_str()))
        };
        // A problem reported for an unchanged file may come from any of those that changed.
        let is_named = new.iter().any(|scenario| problem_of(scenario).is_some());
        for scenario in &new {
            if let Some(problem) = problem_of(scenario).or_else(|| problems.first().filter(|_| !is_named)) {
                self.hold_back(&scenario.name, problem);
            }
        }
        !new.is_empty()
    }
}

impl ScenarioStore {
    /// Replaces the previous contents of all scenario files by these. A file with an error leaves its scenario at the last
    /// good version; so does a deleted file, as long as a list names the scenario. If none changed, the snapshot stays.
    pub fn reload_files(&self, texts: FileTexts, now: Instant) -> Reload {
        let changing = self.changing.lock();
        let before = self.load();
        let mut listed = before.content.listed(&self.start.load());
        // A list that names one that was given as text means that.
        listed.retain(|name| !before.content.inline.contains_key(name));
        let mut accepted = AcceptedFiles::new(&before, listed, texts);
        let generation = loop {
            let (files, held) = (accepted.files.clone(), accepted.held.clone());
            let swapped = self.change_while(&changing, now, |content, _| {
                (content.files, content.held) = (files, held);
                Ok(())
            });
            match swapped {
                Ok(number) => break number,
                Err(problems) => {
                    accepted.found.extend(problems.iter().cloned());
                    if !accepted.hold_back_contradicting(&problems) {
                        break before.number;
                    }
                }
            }
        };
        accepted.found.truncate(MAX_PROBLEMS);
        self.found.store(Arc::new(accepted.found));
        let changes = changes(&before.content.files, &self.load().content.files);
        let is_new = generation > before.number;
        drop(changing);
        Reload { generation, is_new, changes, found: self.diagnostics() }
    }

    /// The problems of the files at the last reading, and warnings about scenarios whose files are gone.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let snapshot = self.load();
        let content = &snapshot.content;
        let deleted = content.held.iter().filter(|(_, held)| **held == Stale::Deleted).filter_map(|(name, _)| {
            let message = format!("the file of `{name}` was deleted, but an active list still names it; its last good version stays active");
            let hint = "bring the file back, or choose other scenarios";
            let problem = Diagnostic::of_file("scenario/active-missing", message, hint).as_warning();
            Some(problem.in_file(content.files.get(name)?.file_name()))
        });
        let hidden = content.files.iter().filter(|(name, _)| content.inline.contains_key(*name)).map(|(name, file)| {
            let message =
                format!("not used: the scenario `{name}` that was given as text has its name, and comes first");
            let hint = format!("rename the file, or remove that one with DELETE /_emulator/scenarios/{name}");
            Diagnostic::of_file("scenario/hidden", message, &hint).as_warning().in_file(file.file_name())
        });
        self.found.load().iter().cloned().chain(deleted).chain(hidden).collect()
    }

    /// True if every scenario is as its file is saved.
    pub fn is_as_saved(&self) -> bool {
        self.load().content.held.is_empty() && !self.found.load().iter().any(Diagnostic::is_error)
    }
}

/// The name of the scenario in a file; `None` for a problem of a folder.
fn name_of(path: &Path, was_read: bool) -> Option<String> {
    let is_file = path.extension().is_some_and(|extension| extension == "toml") || was_read;
    let stem = path.file_stem().filter(|_| is_file)?;
    Some(stem.to_string_lossy().into_owned())
}

/// The differences between the scenario files of two snapshots, a line for each file.
fn changes(before: &ByName, after: &ByName) -> Vec<String> {
    let of = |scenario: &Scenario, what: &str| format!("{}: {what}", scenario.file_name());
    let known = after.values().filter_map(|new| match before.get(&new.name) {
        Some(old) if old.is_same_as(new) => None,
        Some(old) => Some(of(new, &first(changed_parts(old, new), MAX_CHANGES, "").join(", "))),
        None => Some(of(new, "added")),
    });
    let gone = before.values().filter(|old| !after.contains_key(&old.name)).map(|old| of(old, "removed"));
    first(known.chain(gone).collect(), MAX_FILES_NAMED, " files")
}

/// The first `most` of these, and how many more there are.
fn first(mut parts: Vec<String>, most: usize, what: &str) -> Vec<String> {
    if parts.len() > most {
        let more = parts.len() - most;
        parts.truncate(most);
        parts.push(format!("and {more} more{what}"));
    }
    parts
}

fn changed_parts(old: &Scenario, new: &Scenario) -> Vec<String> {
    let (before, after) = (parts_of(old), parts_of(new));
    let missing_in = |those: &[(String, u64)], these: &[(String, u64)]| -> Vec<String> {
        let is_missing = |text: u64| !those.iter().any(|(_, other)| *other == text);
        these.iter().filter(|(_, text)| is_missing(*text)).map(|(label, _)| label.clone()).collect()
    };
    let mut removed = missing_in(&after, &before);
    let mut parts = Vec::new();
    for label in missing_in(&before, &after) {
        let place = removed.iter().position(|other| *other == label);
        let what = if place.map(|place| removed.remove(place)).is_some() { "changed" } else { "added" };
        parts.push(format!("{label} {what}"));
    }
    parts.extend(removed.into_iter().map(|label| format!("{label} removed")));
    if old.given != new.given {
        parts.push("given state changed".to_owned());
    }
    let same_profile = match (&old.overlay, &new.overlay) {
        (Some(old), Some(new)) => old.same_values(new),
        (old, new) => old.is_none() && new.is_none(),
    };
    if !same_profile {
        parts.push("[profile] changed".to_owned());
    }
    if parts.is_empty() {
        let in_order = before.iter().map(|(_, text)| text).eq(after.iter().map(|(_, text)| text));
        parts.push(if in_order { "no rule changed" } else { "the order of rules changed" }.to_owned());
    }
    parts
}

/// The rules and emissions of a scenario, each as it is named and with the fingerprint of its text.
fn parts_of(scenario: &Scenario) -> Vec<(String, u64)> {
    let rules = scenario.rules.iter().map(|rule| (labelled("rule", "rule ", &rule.label), rule.fingerprint));
    let emits = scenario.emits.iter().map(|emit| {
        let (kind, short) = if emit.event().is_some() { ("emission", "emit ") } else { ("rotation", "rotate ") };
        (labelled(kind, short, &emit.label), emit.fingerprint)
    });
    rules.chain(emits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Layered;

    const NOW: Instant = Instant::after_start(std::time::Duration::from_secs(1));
    const RULE: &str = "[[rule]]\nname = 'a'\nreply = { status = 500 }\n";
    const NONE: &str = "title = 't'\n";

    fn reload(library: &ScenarioStore, files: &[(&str, &str)]) -> Reload {
        let file = |(name, text): &(&str, &str)| (format!("dir/{name}.toml").into(), Ok((*text).to_owned()));
        library.reload_files(files.iter().map(file).collect(), NOW)
    }

    fn codes(reload: &Reload) -> Vec<&str> {
        reload.found.iter().map(|problem| &*problem.code).collect()
    }

    #[test]
    fn files_that_stay_out_leave_the_last_good_version() {
        let library = ScenarioStore::new(Layered::default());
        let header = |name: &str, value: &str| format!("[profile]\nrate_limit.header_names.{name} = '{value}'\n");
        let (a, b) = (header("limit", "x-a"), header("remaining", "x-b"));
        reload(&library, &[("a", &a), ("b", &b), ("c", RULE)]);
        library.activate(None, &["a", "b"], NOW).expect("they go together");
        library.mark_start();
        let number = library.load().number;
        assert_eq!(reload(&library, &[("a", &a), ("b", &b), ("c", RULE)]).generation, number, "nothing changed");
        assert_eq!(codes(&reload(&library, &[("a", &a), ("a", &b), ("b", &b)])), ["scenario/duplicate-name"]);
        let text = |name: &str| library.load().find(name).map(|found| found.text.to_string());
        assert_eq!((text("a"), text("c")), (Some(a.clone()), None));
        // Valid alone, but not together with another that is active.
        reload(&library, &[("a", &header("limit", "x-b")), ("b", &b), ("c", NONE)]);
        assert!(matches!(library.load().held_back("a"), Some(Stale::Broken(_))));
        assert_eq!((text("a"), text("c")), (Some(a.clone()), Some(NONE.to_owned())));
        // A reset goes back to the list of the start.
        library.activate(None, &[], NOW).expect("none");
        assert_eq!(codes(&reload(&library, &[])), ["scenario/active-missing"; 2]);
        assert_eq!((text("a"), text("c")), (Some(a), None));
    }

    #[test]
    fn a_reload_names_the_changes() {
        for (old, new, expected) in [
            (RULE, &*format!("# a note\n{RULE}"), "no rule changed"),
            (
                &format!("{RULE}[[rule]]\npass = true\n"),
                &format!("[[rule]]\npass = true\n{RULE}"),
                "the order of rules changed",
            ),
            ("profile.rate_limit.requests = 3\n", "profile.rate_limit.requests = 4\n", "[profile] changed"),
            (
                NONE,
                "[[given.subscription]]\nurl = 'https://a.example/'\nevents = ['workflow.completed']\n",
                "given state changed",
            ),
            (NONE, "[[emit]]\nevent = 'workflow.completed'\non = 'command'\n", "emission 1 added"),
        ] {
            let library = ScenarioStore::new(Layered::default());
            assert_eq!(reload(&library, &[("s", old)]).changes, ["dir/s.toml: added"]);
            assert_eq!(reload(&library, &[("s", new)]).changes, [format!("dir/s.toml: {expected}")], "{old}\n{new}");
            assert_eq!(reload(&library, &[]).changes, ["dir/s.toml: removed"]);
        }
        let names: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), NONE)).collect();
        let changes = reload(&ScenarioStore::new(Layered::default()), &files).changes;
        assert_eq!((changes.len(), changes[5].as_str()), (6, "and 15 more files"));
    }
}
