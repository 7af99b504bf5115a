//! Loads new contents of the scenario folders as one generation, and reports in the journal what changed, which files are
//! held back and which active scenarios clash. Called by the watcher and by requests to read the folders again.

use std::path::PathBuf;

use super::Engine;
use crate::diagnostic::Diagnostic;
use crate::scenario::{FileTexts, HeldBack, Reload, generation_text};

/// Most files reported at a time; `GET scenarios` lists all.
const MOST_REPORTED: usize = 10;

impl Engine {
    /// Loads the contents of all scenario files, and reports changes and files that are newly held back or not read. A broken file
    /// does not affect other files.
    pub fn take_files(&self, mut texts: FileTexts) -> Reload {
        let _reload = self.reload.lock();
        let now = self.registry.clock().now();
        let known = self.problems();
        let had_held_back = !known[0].0.is_empty();
        texts.extend(self.gone_folder());
        let reload = self.library.reload_files(texts, now.instant);
        let generation = generation_text(reload.generation);
        if reload.is_new {
            self.note(None, format!("scenarios reloaded, {generation}: {}", reload.changes.join("; ")), false);
        } else if had_held_back && self.held_back().is_empty() {
            self.note(
                None,
                format!("no scenario file is broken or missing any more, {generation} stays active"),
                false,
            );
        }
        self.log_problems(&known.map(|(lines, _)| lines).concat());
        reload
    }

    /// Logs the problems found in the files at the start, and the clashes of the scenarios that are active from then on.
    pub fn log_start(&self) {
        self.log_problems(&[]);
    }

    /// Logs the problems that were not known before.
    fn log_problems(&self, known: &[String]) {
        for (found, what) in self.problems() {
            let new: Vec<String> = found.into_iter().filter(|problem| !known.contains(problem)).collect();
            let more = new.len().saturating_sub(MOST_REPORTED);
            for problem in new.into_iter().take(MOST_REPORTED) {
                self.note(None, problem, true);
            }
            if more > 0 {
                self.note(None, format!("{more} more {what}; `wrs-emulator scenarios list` shows all"), true);
            }
        }
    }

    /// All problems by kind, one line each, and what more of a kind are called.
    fn problems(&self) -> [(Vec<String>, &'static str); 3] {
        let clashes = self.library.load().clashes().iter().map(|clash| clash.warning.one_line()).collect();
        [
            (self.held_back(), "scenario files are held back"),
            (self.not_read(), "files or folders are not read"),
            (clashes, "clashes of active scenarios"),
        ]
    }

    /// A warning if the usual folder has disappeared since it was read.
    fn gone_folder(&self) -> Option<(PathBuf, Result<String, Box<Diagnostic>>)> {
        let folder = self.scenario_folders.usual.as_ref().filter(|folder| !folder.is_dir())?;
        let had_files = self.library.load().has_files_in(folder);
        let problem = || {
            let message = "the folder is gone, and with it its scenarios; what a list names stays active";
            let hint = "bring the folder back, or choose other scenarios";
            Box::new(Diagnostic::of_file("file/folder-gone", message, hint).as_warning())
        };
        had_files.then(|| (folder.clone(), Err(problem())))
    }

    /// Warnings about what is not read in the scenario folders or about a missing folder, one line each.
    fn not_read(&self) -> Vec<String> {
        let found = self.library.diagnostics();
        let warnings = found.iter().filter(|problem| !problem.is_error() && problem.code.starts_with("file/"));
        warnings.map(Diagnostic::one_line).collect()
    }

    /// Why scenarios differ from their saved files, one line each.
    fn held_back(&self) -> Vec<String> {
        let generation = self.library.load();
        let mut named = Vec::new();
        let mut held: Vec<String> = Vec::new();
        for name in generation.names() {
            held.extend(generation.held_back(&name).map(|why| match why {
                HeldBack::Deleted => {
                    format!("the file of scenario `{name}` was deleted, but an active list still names it; its last good version stays active")
                }
                HeldBack::Broken(problem) => {
                    named.push(problem.file.clone());
                    let stays = if generation.find(&name).is_some() { ", and its last good version stays" } else { "" };
                    format!("scenario `{name}` is broken{stays}: {}", problem.one_line())
                }
            }));
        }
        let others = self.library.diagnostics();
        let others = others.iter().filter(|problem| problem.is_error() && !named.contains(&problem.file));
        held.extend(others.map(Diagnostic::one_line));
        held
    }
}
