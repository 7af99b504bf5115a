//! Ties the watcher to the library: new texts in, one generation out, with what is held back told in the journal.

use std::sync::Arc;

use crate::control::Control;
use crate::diagnostic::Diagnostic;
use crate::journal::{Entry, Notice};
use crate::scenario::{FileTexts, HeldBack};

/// Most files told of at a time; `GET scenarios` lists all.
const MOST_TOLD: usize = 10;

/// Takes new contents of the scenario folders; a broken file holds back only itself and is told.
pub(super) fn reload(control: &Control, texts: FileTexts) {
    let now = control.registry.clock().now();
    let (before, known) = (control.library.load().number, held_back(control));
    let (number, _) = control.library.replace_files(texts, now.moment);
    if number != before {
        note(control, format!("scenarios reloaded, generation {number}"), false);
    } else if !known.is_empty() && held_back(control).is_empty() {
        note(control, format!("scenarios are as saved again, generation {number} stays active"), false);
    }
    log_held_back(control, &known);
}

/// Logs what is held back beside what was `known`.
pub(super) fn log_held_back(control: &Control, known: &[String]) {
    let new: Vec<String> = held_back(control).into_iter().filter(|held| !known.contains(held)).collect();
    let more = new.len().saturating_sub(MOST_TOLD);
    for held in new.into_iter().take(MOST_TOLD) {
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
                format!("the file of scenario `{name}` was deleted; its last good version stays, as a list names it")
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
