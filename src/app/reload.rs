//! Ties the watcher to the library: new texts in, one generation or its diagnostics out, told in the journal.

use std::sync::Arc;

use super::ControlHandle;
use crate::journal::{Entry, Notice};
use crate::scenario::FileTexts;

/// Takes new contents of the scenario folders; a broken edit changes nothing and is told.
pub(super) fn reload(handle: &ControlHandle, texts: FileTexts) {
    let now = handle.registry.clock().now();
    let before = handle.library.load().number;
    let outcome = handle.library.replace_files(texts, now.moment);
    let (message, warning) = match outcome {
        Ok(number) if number == before => return,
        Ok(number) => (format!("scenarios reloaded, generation {number}"), false),
        Err(found) => {
            let first = found.iter().find(|problem| problem.is_error());
            let what = first.map_or_else(String::new, |problem| {
                let file = problem.file.as_deref().unwrap_or_default();
                format!("{file}:{}:{}: {} [{}]", problem.line, problem.column, problem.message, problem.code)
            });
            (format!("scenarios not reloaded, generation {before} serves on: {what}"), true)
        }
    };
    let notice = Notice { at: now.wall, workspace: None, message, warning };
    handle.journal.append(Entry::Notice(Arc::new(notice)));
}
