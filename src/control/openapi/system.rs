//! The emulator itself: health, authority, profile, documents, clock.

use serde_json::{Value, json};

use super::shapes::{Described, call, count, data, list, named, object, text, time};
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
        Action::CaPem => {
            call("The authority made for --tls self-signed", text()).media("application/x-pem-file").not_found()
        }
        Action::Assumptions => {
            call("What the contract leaves open and what is assumed", data("LedgerRow")).keyed().not_found()
        }
        Action::Profile => {
            let answer = object(&json!({ "data": list(named("Knob")), "patch": knobs(), "key_patch": knobs() }));
            call("Every knob in force and where it comes from", answer).keyed().not_found()
        }
        Action::PatchProfile => {
            let answer =
                object(&json!({ "generation": count(), "key": { "type": ["string", "null"] }, "patch": knobs() }));
            call("Change knobs, for all keys or one; null takes a change back", answer)
                .keyed()
                .body(json!({ "type": "object", "minProperties": 1, "properties": { "key": { "type": ["string", "null"] } } }))
                .not_found()
        }
        Action::OpenApi => call("This document", json!({ "type": "object" })),
        Action::EmulatedOpenApi => call("The document of the emulated API", json!({ "type": "object" })),
        Action::ShowClock => call("The emulator's time", clock()).keyed(),
        Action::MoveClock => call("Stop, move or resume the emulator's time", clock()).keyed().body(object(&json!({
            "mode?": { "enum": ["real", "frozen", null] },
            "advance?": { "type": ["string", "null"], "description": "A duration such as 60s." },
        }))),
        _ => return None,
    };
    Some(described)
}

/// Knobs by dotted path.
fn knobs() -> Value {
    json!({ "type": "object" })
}

fn clock() -> Value {
    object(&json!({ "mode": { "enum": ["real", "frozen"] }, "now": time() }))
}
