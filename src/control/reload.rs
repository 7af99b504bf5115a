//! New contents of the scenario folders: one generation or its diagnostics, reported in the journal. The watcher brings
//! them, and calls that read the folders again.

use std::sync::Arc;

use super::Control;
use crate::clock::Now;
use crate::diagnostic::Diagnostic;
use crate::journal::{Entry, Notice};
use crate::scenario::{FileTexts, Reload};

/// Takes what the watcher has seen; a broken edit changes nothing and is reported.
pub fn take_seen(control: &Control, texts: FileTexts) {
    if let Err(found) = take(control, texts) {
        let first = found.iter().find(|problem| problem.is_error());
        let what = first.map_or_else(String::new, Diagnostic::one_line);
        let generation = control.library.load().number;
        let message = format!("scenarios not reloaded, generation {generation} stays active: {what}");
        report(control, control.registry.clock().now(), message, true);
    }
}

/// Takes the contents of all scenario files. What changed is reported; what is wrong is left to whoever asked.
pub(super) fn take(control: &Control, texts: FileTexts) -> Result<Reload, Vec<Diagnostic>> {
    let now = control.registry.clock().now();
    let was_broken = control.library.diagnostics().iter().any(Diagnostic::is_error);
    let reload = control.library.reload_files(texts, now.moment)?;
    let generation = reload.generation;
    if reload.is_new {
        let changes = reload.changes.join("; ");
        report(control, now, format!("scenarios reloaded, generation {generation}: {changes}"), false);
    } else if was_broken {
        report(control, now, format!("scenarios are valid again, generation {generation} stays active"), false);
    }
    Ok(reload)
}

fn report(control: &Control, now: Now, message: String, warning: bool) {
    let notice = Notice { at: now.wall, workspace: None, message, warning };
    control.journal.append(Entry::Notice(Arc::new(notice)));
}
