//! What answers of the control API hold: requests, events, deliveries, subscriptions, knobs, diagnostics, errors.

use serde_json::{Value, json};

use super::shapes::{count, id, list, named, object, or_null, text, time};

/// The schemas by name.
pub(super) fn schemas() -> Value {
    let row = request_row();
    json!({
        "Error": error(),
        "Bytes": { "anyOf": [text(), object(&json!({ "base64": text() }))] },
        "Headers": list(json!({ "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "string" } })),
        "Request": object(&row),
        "RequestWhole": object(&merged(&row, &request_rest())),
        "Event": event(),
        "Delivery": object(&delivery()),
        "DeliveryWhole": object(&merged(&delivery(), &json!({ "attempts": list(named("Attempt")) }))),
        "Attempt": attempt(),
        "Outcome": outcome(),
        "Subscription": subscription(),
        "Step": object(&json!({
            "check": text(),
            "verdict": { "enum": ["passed", "failed", "decided", "not_reached"] },
            "detail": text(),
        })),
        "Advice": object(&json!({ "text": text(), "command": { "type": ["string", "null"] } })),
        "RuleTrace": object(&json!({ "scenario": text(), "rule": text(), "applied": { "type": "boolean" }, "outcome": text() })),
        "Knob": object(&json!({ "knob": text(), "value": true, "source": text() })),
        "LedgerRow": object(&json!({
            "knob": text(), "contract": text(), "assumed": text(), "values": text(), "default": true, "value": true, "source": text(),
        })),
        "Scenario": object(&scenario()),
        "ScenarioWhole": object(&merged(&scenario(), &json!({ "description": { "type": ["string", "null"] }, "text": text() }))),
        "Diagnostic": diagnostic(),
        "Receipt": receipt(),
        "Unmatched": verdict_entry(&json!({ "id": id("req"), "at": time(), "method": text(), "path": text(), "status": count(), "reason": text() })),
        "Undelivered": verdict_entry(&json!({
            "id": id("dlv"), "event": id("evt"), "type": text(), "subscription": text(), "url": text(),
            "workspace": or_null(id("ws")), "status": text(), "attempts": count(),
        })),
        "Snapshot": snapshot(),
    })
}

fn merged(fields: &Value, more: &Value) -> Value {
    let mut all = fields.clone();
    for (name, schema) in more.as_object().into_iter().flatten() {
        all[name] = schema.clone();
    }
    all
}

/// A problem that was found, with a sentence.
fn verdict_entry(fields: &Value) -> Value {
    object(&merged(fields, &json!({ "message": text() })))
}

/// The frame of a snapshot; what stands in it is the emulator's own.
fn snapshot() -> Value {
    json!({
        "type": "object",
        "required": ["format", "version", "clock", "workspaces"],
        "properties": {
            "format": { "const": crate::snapshot::FORMAT },
            "version": { "const": crate::snapshot::VERSION },
            "clock": { "type": "object" },
            "whole": { "type": ["object", "null"] },
            "workspaces": list(json!({ "type": "object", "required": ["key"] })),
        },
    })
}

fn error() -> Value {
    object(&json!({
        "error": object(&json!({ "code": text(), "message": text() })),
        "nearest?": list(json!({ "type": "object", "required": ["differs"], "properties": { "differs": list(text()) } })),
        "diagnostics?": list(named("Diagnostic")),
        "events?": list(named("Event")),
        "generation?": count(),
    }))
}

fn request_row() -> Value {
    json!({
        "id": id("req"),
        "at": time(),
        "workspace": or_null(id("ws")),
        "key": { "type": ["string", "null"], "description": "A test key whole, any other masked." },
        "method": text(),
        "path": text(),
        "query": { "type": ["string", "null"] },
        "operation": { "type": ["string", "null"] },
        "status": { "type": "integer", "description": "0 if the connection was broken instead." },
        "broken": { "enum": ["reset", "empty", "garbage", null], "description": "What the connection did in place of an answer." },
        "reason": text(),
        "latency_ms": { "type": "number", "minimum": 0 },
        "generation": count(),
        "scenario": { "type": ["string", "null"] },
    })
}

fn request_rest() -> Value {
    let millis = json!({ "type": "number", "minimum": 0 });
    let quota = object(&json!({
        "limit": count(), "remaining": count(), "window_ms": millis, "opens_in_ms": millis, "resets_in_ms": millis,
    }));
    json!({
        "headers": named("Headers"),
        "body": named("Bytes"),
        "answer": object(&json!({ "status": count(), "headers": named("Headers"), "body": named("Bytes") })),
        "quota": or_null(quota),
        "warnings": list(text()),
    })
}

fn event() -> Value {
    object(&json!({
        "id": id("evt"),
        "type": text(),
        "created_at": time(),
        "workspace": or_null(id("ws")),
        "body": named("Bytes"),
        "deliveries": list(object(&json!({ "id": id("dlv"), "subscription": id("sub"), "url": text() }))),
        "skipped": list(object(&json!({ "subscription": id("sub"), "url": text(), "reason": text() }))),
        "damage": damage(),
        "warnings": list(text()),
    }))
}

/// What is deliberately wrong with an event, a delivery or an attempt.
pub(super) fn damage() -> Value {
    json!({ "type": ["string", "null"], "description": "What is deliberately wrong, and who asked for it." })
}

fn delivery() -> Value {
    json!({
        "id": id("dlv"),
        "event": id("evt"),
        "type": text(),
        "subscription": id("sub"),
        "url": text(),
        "workspace": or_null(id("ws")),
        "status": { "enum": ["pending", "delivered", "exhausted", "cancelled"] },
        "attempts": count(),
        "last": or_null(named("Outcome")),
        "next_attempt_in_ms": { "type": ["number", "null"] },
        "note": { "type": ["string", "null"] },
        "damage": damage(),
    })
}

fn attempt() -> Value {
    object(&json!({
        "number": { "type": "integer", "minimum": 1 },
        "at": time(),
        "url": text(),
        "dialled": text(),
        "damage": damage(),
        "request": object(&json!({ "headers": named("Headers"), "body": named("Bytes") })),
        "signed_content": named("Bytes"),
        "outcome": named("Outcome"),
        "latency_ms": { "type": "number", "minimum": 0 },
    }))
}

fn outcome() -> Value {
    json!({
        "oneOf": [
            object(&json!({ "accepted": { "type": "boolean" }, "status": count(), "body": named("Bytes") })),
            object(&json!({ "accepted": { "const": false }, "failure": text(), "detail": text() })),
        ],
    })
}

fn subscription() -> Value {
    object(&json!({
        "id": id("sub"),
        "url": text(),
        "events": list(text()),
        "description": { "type": ["string", "null"] },
        "status": { "enum": ["active", "disabled"] },
        "created_at": time(),
        "signing_secrets": { "type": "integer", "minimum": 1, "maximum": 2 },
        "workspace?": id("ws"),
    }))
}

fn scenario() -> Value {
    json!({
        "name": text(),
        "title": { "type": ["string", "null"] },
        "origin": text(),
        "active": { "type": "boolean" },
        "rules": count(),
        "emits": count(),
        "state": { "enum": ["ok", "broken", "deleted"], "description": "Whether it is as its file is saved; if not, its last good version stays." },
        "problem": or_null(named("Diagnostic")),
    })
}

fn diagnostic() -> Value {
    object(&json!({
        "severity": { "enum": ["warning", "error"] },
        "code": text(),
        "message": text(),
        "file": { "type": ["string", "null"] },
        "span": object(&json!({ "start": count(), "end": count() })),
        "line": count(),
        "column": count(),
        "source_line": text(),
        "hint": text(),
    }))
}

fn receipt() -> Value {
    object(&json!({
        "at": time(),
        "target": text(),
        "headers": named("Headers"),
        "body": named("Bytes"),
        "verified": { "type": "boolean" },
        "problem": { "type": ["string", "null"] },
        "status": count(),
    }))
}
