//! The emulator itself: health, authority, profile, documents, clock, reset, snapshots.

use serde_json::{Value, json};

use super::shapes::{Described, call, count, data, duration, id, list, named, object, text, time};
use crate::control::route::Action;

pub(super) fn describe(action: Action) -> Option<Described> {
    let described = match action {
        Action::Health => call(
            "Whether the emulator is ready",
            object(&json!({
                "status": { "const": "ready" },
                "version": text(),
                "generation": count(),
                "scenarios": { "enum": ["as saved", "last good"] },
            })),
        ),
        Action::CaPem => call("The authority made for --tls self-signed", text())
            .media("application/x-pem-file")
            .error(404, "There is none without --tls self-signed."),
        Action::Assumptions => call("What the contract leaves open and what is assumed", data("LedgerRow")),
        Action::Profile => {
            let answer = object(&json!({ "data": list(named("Knob")), "patch": knobs(), "key_patch": knobs() }));
            call("Every knob in force and where it comes from", answer)
        }
        Action::PatchProfile => {
            let answer = object(&json!({
                "generation": count(),
                "key": { "type": ["string", "null"] },
                "patch": knobs(),
                "changes": list(text()),
                "unchanged": list(text()),
            }));
            call("Change knobs, for all keys or one; null takes a change back", answer)
                .body(json!({ "type": "object", "minProperties": 1 }))
        }
        Action::OpenApi => call("This document", json!({ "type": "object" })),
        Action::EmulatedOpenApi => call("The document of the emulated API", json!({ "type": "object" })),
        Action::ShowClock => call("The emulator's time, or that of one key", clock()),
        Action::MoveClock => {
            let body = object(&json!({
                "mode?": { "enum": ["real", "frozen", "follow", null] },
                "advance?": duration(),
                "set?": { "type": ["string", "null"], "format": "date-time" },
                "timeout?": duration(),
            }));
            let summary = "Stop, set, move or resume a clock; answers when what was due on the way is done";
            call(summary, clock()).body(body)
        }
        Action::Reset => {
            let answer = object(&json!({ "reset": list(id("ws")), "keys": list(text()), "generation": count() }));
            let body = object(&json!({}));
            call("Forget what a key did, or everything", answer).body(body)
        }
        Action::SaveSnapshot => call("The state of a key, or everything, as a document", named("Snapshot")),
        Action::LoadSnapshot => {
            let answer = object(&json!({ "loaded": count(), "generation": count(), "warnings": list(text()) }));
            call("Put a saved state in place", answer).body(named("Snapshot"))
        }
        _ => return None,
    };
    Some(described)
}

/// Knobs by dotted path.
fn knobs() -> Value {
    json!({ "type": "object" })
}

fn clock() -> Value {
    object(&json!({
        "mode": { "enum": ["real", "frozen"] },
        "now": time(),
        "workspace?": id("ws"),
        "key?": text(),
        "follows?": { "type": "boolean" },
    }))
}
