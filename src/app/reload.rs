//! Ties the watcher to the library: new texts in, one generation or its diagnostics out, told in the journal.

use std::path::PathBuf;
use std::sync::Arc;

use super::{ControlHandle, StartError};
use crate::journal::{Entry, Notice};
use crate::scenario::{Watcher, read_directories};

/// Starts watching the folders; nothing to watch is no watcher.
pub(super) fn watch(folders: &[PathBuf], handle: &ControlHandle) -> Result<Option<Watcher>, StartError> {
    if folders.is_empty() {
        return Ok(None);
    }
    let (watched, handle) = (folders.to_vec(), handle.clone());
    let watcher = Watcher::start(folders.to_vec(), move || reload(&watched, &handle));
    watcher.map(Some).map_err(|error| StartError::Setting(format!("cannot watch the scenario folders: {error}")))
}

fn reload(folders: &[PathBuf], handle: &ControlHandle) {
    let now = handle.registry.clock().now();
    let before = handle.library.load().number;
    let outcome = handle.library.replace_files(read_directories(folders), now.moment);
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
