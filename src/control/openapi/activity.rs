//! What happened: requests, explanations, the event stream, metrics.

use serde_json::{Value, json};

use super::shapes::{
    Described, call, count, data, duration, list, named, object, or_null, page, text, time, wait, wanted_count, wish,
};
use crate::contract::routes::{Operation, ROUTES};
use crate::control::route::Action;

pub(super) fn describe(action: Action) -> Option<Described> {
    let described = match action {
        Action::ListRequests => call("Requests, newest first", page("Request"))
            .paged()
            .query("operation", operations())
            .query("status", status(&json!("integer")))
            .query("since", json!({ "anyOf": [{ "const": "now" }, time()] }))
            .query("method", text())
            .query("path", text()),
        Action::WaitRequests => call("Wait until so many requests fit", data("Request")).body(object(&json!({
            "operation?": or_null(operations()),
            "method?": wish(),
            "path?": wish(),
            "status?": status(&json!(["integer", "null"])),
            "count?": wanted_count(),
            "since?": { "anyOf": [{ "const": "now" }, time(), { "type": "null" }] },
            "timeout?": duration(),
        }))),
        Action::ShowRequest => call("One request and its answer, whole", named("RequestWhole")),
        Action::ClearRequests => {
            call("Forget what happened", object(&json!({ "cleared": { "const": true } }))).empty_body()
        }
        Action::Explain => call(
            "Why a request was answered so, or where an event or delivery went; `latest` is the newest",
            explanation(),
        ),
        Action::Stream => call("Everything that happens, as server-sent events", text())
            .media("text/event-stream")
            .query("kind", json!({ "type": "string", "description": "Kinds of events, joined by commas." }))
            .endless()
            .error(429, "So many viewers follow the stream already."),
        Action::Metrics => call("Counters and gauges in the text format of Prometheus", text()).media("text/plain"),
        Action::Verdict => {
            let kinds =
                json!({ "unmatched": count(), "undelivered": count(), "unfinished": count(), "unused": count() });
            let answer = object(&json!({
                "unmatched": list(named("Unmatched")),
                "undelivered": list(named("Undelivered")),
                "unfinished": list(json!({ "type": "object", "required": ["scenario", "message"] })),
                "unused": list(object(&json!({
                    "kind": { "enum": ["unmatched", "undelivered", "unfinished"] },
                    "message": text(),
                }))),
                "counts": object(&kinds),
                "active_scenarios": list(text()),
                "forgotten_entries": count(),
                "judged_requests": count(),
                "judged_deliveries": count(),
                "forgotten_deliveries": count(),
            }));
            call("Problems found so far", answer).query("wait", wait())
        }
        _ => return None,
    };
    Some(described)
}

/// The operations of the emulated API.
fn operations() -> Value {
    let names: Vec<&str> = ROUTES.iter().map(|route| route.operation).map(Operation::name).collect();
    json!({ "type": "string", "enum": names })
}

/// An answer's status, or 0 for a broken connection.
fn status(kind: &Value) -> Value {
    json!({ "type": kind, "anyOf": [{ "not": { "type": "integer" } }, { "const": 0 }, { "minimum": 100, "maximum": 599 }] })
}

fn explanation() -> Value {
    object(&json!({
        "id": text(),
        "kind": { "enum": ["request", "event", "delivery"] },
        "summary": text(),
        "steps": list(named("Step")),
        "advice?": list(named("Advice")),
        "request?": named("RequestWhole"),
        "event?": named("Event"),
        "delivery?": named("DeliveryWhole"),
        "rules?": list(named("RuleTrace")),
        "note?": text(),
    }))
}
