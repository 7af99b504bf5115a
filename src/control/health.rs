//! `GET health`: whether the emulator is ready, and what it serves.

use serde_json::json;

use super::{Control, Reply, ok};

pub(super) fn health(control: &Control) -> Reply {
    let generation = control.library.load();
    ok(&json!({
        "status": "ready",
        "version": env!("CARGO_PKG_VERSION"),
        "generation": generation.number,
    }))
}
