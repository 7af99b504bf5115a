//! New contents of the scenario folders: one generation, with what changed and what is held back reported in the journal. The
//! watcher brings them, and calls that read the folders again.

use std::path::PathBuf;

use super::Control;
use super::notice::note;
use crate::diagnostic::Diagnostic;
use crate::scenario::{FileTexts, HeldBack, ReadProblem, Reload, generation_text};

/// Most files reported at a time; `GET scenarios` lists all.
const MOST_REPORTED: usize = 10;

/// Takes what the watcher has seen. A broken file holds back only itself.
pub fn take_seen(control: &Control, texts: FileTexts) {
    take(control, texts);
}

/// Takes the contents of all scenario files, and reports what changed and what is newly held back or not read.
pub(super) fn take(control: &Control, mut texts: FileTexts) -> Reload {
    let now = control.registry.clock().now();
    let (known, not_read) = (held_back(control), not_read(control));
    texts.extend(gone_folder(control));
    let reload = control.library.reload_files(texts, now.moment);
    let generation = reload.generation;
    if reload.is_new {
        let changes = reload.changes.join("; ");
        note(control, None, format!("scenarios reloaded, {}: {changes}", generation_text(generation)), false);
    } else if !known.is_empty() && held_back(control).is_empty() {
        note(
            control,
            None,
            format!("no scenario file is broken or missing any more, {} stays active", generation_text(generation)),
            false,
        );
    }
    log_new(control, held_back(control), &known, "scenario files are held back");
    log_new(control, self::not_read(control), &not_read, "files or folders are not read");
    reload
}

/// Logs what is wrong with the files at the start.
pub fn log_held_back(control: &Control) {
    log_new(control, held_back(control), &[], "scenario files are held back");
    log_new(control, not_read(control), &[], "files or folders are not read");
}

/// Logs what is wrong beside what was `known`.
fn log_new(control: &Control, found: Vec<String>, known: &[String], what: &str) {
    let new: Vec<String> = found.into_iter().filter(|held| !known.contains(held)).collect();
    let more = new.len().saturating_sub(MOST_REPORTED);
    for held in new.into_iter().take(MOST_REPORTED) {
        note(control, None, held, true);
    }
    if more > 0 {
        note(control, None, format!("{more} more {what}; `wrs-emulator scenarios list` shows all"), true);
    }
}

/// A warning where the usual folder is gone since it was read.
fn gone_folder(control: &Control) -> Option<(PathBuf, Result<String, ReadProblem>)> {
    let folder = control.scenario_folders.usual.as_ref().filter(|folder| !folder.is_dir())?;
    let had_files = control.library.load().has_files_in(folder);
    had_files.then(|| (folder.clone(), Err(ReadProblem::folder_gone())))
}

/// What the scenario folders contain that is not read, and which of them is gone, one line each.
fn not_read(control: &Control) -> Vec<String> {
    let found = control.library.diagnostics();
    let warnings = found.iter().filter(|problem| !problem.is_error() && problem.code.starts_with("file/"));
    warnings.map(Diagnostic::one_line).collect()
}

/// What keeps a scenario from being as its file is saved, one line each.
fn held_back(control: &Control) -> Vec<String> {
    let generation = control.library.load();
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
    let others = control.library.diagnostics();
    let others = others.iter().filter(|problem| problem.is_error() && !named.contains(&problem.file));
    held.extend(others.map(Diagnostic::one_line));
    held
}
