//! Ties the watcher to the library: new texts in, one generation or its diagnostics out, told in the journal.

use std::sync::Arc;

use crate::control::Control;
use crate::diagnostic::Diagnostic;
use crate::journal::{Entry, Notice};
use crate::scenario::FileTexts;

/// Takes new contents of the scenario folders; a broken edit changes nothing and is told.
pub(super) fn reload(control: &Control, texts: FileTexts) {
    let now = control.registry.clock().now();
    let before = control.library.load().number;
    let was_broken = control.library.diagnostics().iter().any(Diagnostic::is_error);
    let outcome = control.library.replace_files(texts, now.moment);
    let (message, warning) = match outcome {
        Ok(number) if number == before && !was_broken => return,
        Ok(number) if number == before => (format!("scenarios are valid again, generation {number} serves on"), false),
        Ok(number) => (format!("scenarios reloaded, generation {number}"), false),
        Err(found) => {
            let first = found.iter().find(|problem| problem.is_error());
            let what = first.map_or_else(String::new, Diagnostic::one_line);
            (format!("scenarios not reloaded, generation {before} serves on: {what}"), true)
        }
    };
    let notice = Notice { at: now.wall, workspace: None, message, warning };
    control.journal.append(Entry::Notice(Arc::new(notice)));
}
