//! Ties the watcher to the library: new texts in, one generation or its diagnostics out, told in the journal.

use std::sync::Arc;

use super::ControlHandle;
use crate::diagnostic::Diagnostic;
use crate::journal::{Entry, Notice};
use crate::scenario::FileTexts;

/// Takes new contents of the scenario folders; a broken edit changes nothing and is told.
pub(super) fn reload(handle: &ControlHandle, texts: FileTexts) {
    let now = handle.registry.clock().now();
    let before = handle.library.load().number;
    let was_broken = handle.library.diagnostics().iter().any(Diagnostic::is_error);
    let outcome = handle.library.replace_files(texts, now.moment);
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
    handle.journal.append(Entry::Notice(Arc::new(notice)));
}
