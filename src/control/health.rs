//! `GET health`: whether the emulator is ready, and what it serves.

use serde_json::json;

use super::{Control, Reply, ok};
use crate::diagnostic::Diagnostic;

pub(super) fn health(control: &Control) -> Reply {
    let generation = control.library.load();
    // A broken edit changes nothing; this says that there is one.
    let broken = control.library.diagnostics().iter().any(Diagnostic::is_error);
    ok(&json!({
        "status": "ready",
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation.number,
        "scenarios": if broken { "last good" } else { "as saved" },
    }))
}
