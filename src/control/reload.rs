//! New contents of the scenario folders: one generation, with what changed and what is held back reported in the journal. The
//! watcher brings them, and calls that read the folders again.

use std::sync::Arc;

use super::Control;
use crate::diagnostic::Diagnostic;
use crate::journal::{Entry, Notice};
use crate::scenario::{FileTexts, HeldBack, Reload};

/// Most files reported at a time; `GET scenarios` lists all.
const MOST_REPORTED: usize = 10;

/// Takes what the watcher has seen. A broken file holds back only itself.
pub fn take_seen(control: &Control, texts: FileTexts) {
    take(control, texts);
}

/// Takes the contents of all scenario files, and reports what changed and what is newly held back.
pub(super) fn take(control: &Control, texts: FileTexts) -> Reload {
    let now = control.registry.clock().now();
    let known = held_back(control);
    let reload = control.library.reload_files(texts, now.moment);
    let generation = reload.generation;
    if reload.is_new {
        let changes = reload.changes.join("; ");
        note(control, format!("scenarios reloaded, generation {generation}: {changes}"), false);
    } else if !known.is_empty() && held_back(control).is_empty() {
        note(control, format!("scenarios are as saved again, generation {generation} stays active"), false);
    }
    log_held_back(control, &known);
    reload
}

/// Logs what is held back beside what was `known`.
pub fn log_held_back(control: &Control, known: &[String]) {
    let new: Vec<String> = held_back(control).into_iter().filter(|held| !known.contains(held)).collect();
    let more = new.len().saturating_sub(MOST_REPORTED);
    for held in new.into_iter().take(MOST_REPORTED) {
        note(control, held, true);
    }
    if more > 0 {
        note(
            control,
            format!("{more} more scenario files are held back; `wrs-emulator scenarios list` shows all"),
            true,
        );
    }
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

fn note(control: &Control, message: String, warning: bool) {
    let at = control.registry.clock().now().wall;
    control.journal.append(Entry::Notice(Arc::new(Notice { at, workspace: None, message, warning })));
}
