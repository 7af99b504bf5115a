//! Lines of the log about what a call changed, so that whoever reads it sees why the emulator behaves differently from then on.
//! What is worth a line is the business of each call.

use std::sync::Arc;

use super::{Call, Control};

/// Puts a line into the journal, at the time of the workspace that it is about if it is about one.
pub(super) fn note(control: &Control, workspace: Option<&str>, message: String, warning: bool) {
    let found = workspace.and_then(|name| control.registry.find(name));
    let now = found.as_ref().map_or_else(|| control.registry.clock().now(), |found| found.clock().now());
    let workspace = workspace.map(Arc::from);
    if warning {
        control.journal.warn(now.wall, workspace.as_ref(), message);
    } else {
        control.journal.note(now.wall, workspace.as_ref(), message);
    }
}

/// Whose things a call changes, as its line says it.
pub(super) fn whose(call: &Call, workspace: Option<&str>) -> String {
    workspace.map_or_else(|| "all keys".to_owned(), |name| call.redactor().key(name).into_owned())
}
