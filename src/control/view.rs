//! How requests, events and attempts are shown: JSON for the control API, credentials masked, bodies as text or base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::contract::profile::Precision;
use crate::contract::routes::Operation;
use crate::contract::timestamp::format_timestamp;
use crate::journal::{AttemptOutcome, AttemptRecord, Reason, RequestRecord};
use crate::redact::Redactor;
use crate::webhook::book::DeliveryRecord;
use crate::workspace::{EventRecord, Registry};

/// A timestamp; listings always show milliseconds, whatever the profile says of the emulated API.
pub(super) fn timestamp(at: Timestamp) -> String {
    format_timestamp(at, Precision::Milliseconds)
}

/// Bytes as text where they are UTF-8, else as `{"base64": …}`.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn workspace_id(registry: &Registry, name: &str) -> Option<String> {
    registry.find(name).map(|workspace| workspace.id().to_owned())
}

/// A body without the credentials in it.
fn body(redactor: Redactor<'_>, body: &[u8]) -> Value {
    bytes(&redactor.body(body))
}

/// A request as a row of the listing.
pub(super) fn request_row(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let (method, target) = request.transcript.request_line();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    json!({
        "id": request.transcript.id(),
        "at": timestamp(request.at),
        "workspace": request.workspace.as_ref().map(|workspace| workspace.id()),
        "key": request.key().map(|key| redactor.key(key)),
        "method": method,
        "path": redactor.text(path),
        "query": query.map(|query| redactor.text(query)),
        "operation": request.operation.map(super::super::contract::routes::Operation::name),
        "status": request.status,
        "broken": request.broken,
        "reason": reason_name(&request.reason),
        "latency_ms": millis(request.latency),
        "generation": request.generation,
        "scenario": request.scripted.as_ref().map(|scripted| scripted.scenario.to_string()),
    })
}

/// A request whole.
pub(super) fn request_whole(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let mut view = request_row(request, redactor);
    let quota = request.quota.map(|quota| {
        json!({
            "limit": quota.limit,
            "remaining": quota.remaining,
            "window_ms": millis(quota.window),
            "opens_in_ms": millis(quota.wait),
            "resets_in_ms": millis(quota.reset),
        })
    });
    view["headers"] = headers(redactor, request.transcript.headers());
    view["body"] = request_body(request, redactor);
    view["answer"] = json!({ "status": request.status, "headers": headers(redactor, request.transcript.answer_headers()), "body": answer_body(request, redactor) });
    view["quota"] = json!(quota);
    view["warnings"] = json!(request.warnings);
    view
}

/// The request's body. One that cannot be read as JSON may hold a signing secret anywhere.
fn request_body(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let sent = request.transcript.body();
    if request.operation == Some(Operation::OauthToken) && !sent.is_empty() {
        return "… (not shown: it holds a client's secret)".into();
    }
    let may_hold_secret = || sent.windows(6).any(|window| window.eq_ignore_ascii_case(b"secret"));
    let is_object = || serde_json::from_slice::<Map<String, Value>>(sent).is_ok();
    if request.operation == Some(Operation::EventsSubscribe) && may_hold_secret() && !is_object() {
        return "… (not shown: it is no JSON object and may hold a secret)".into();
    }
    body(redactor, sent)
}

/// The answer's body; a secret that it carried was shown once, to the client, and is not shown again.
fn answer_body(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let issued = request.operation == Some(Operation::OauthToken) && request.status == 200;
    let hides = issued || matches!(request.reason, Reason::Subscribed { .. });
    match serde_json::from_slice::<Map<String, Value>>(request.transcript.answer_body()) {
        Ok(mut fields) if hides => {
            const PUBLISHED: [&str; 5] = ["id", "url", "events", "status", "created_at"];
            for (name, value) in &mut fields {
                if !PUBLISHED.contains(&name.as_str()) {
                    *value = Value::String("…".to_owned());
                }
            }
            body(redactor, Value::Object(fields).to_string().as_bytes())
        }
        _ => body(redactor, request.transcript.answer_body()),
    }
}

pub(super) fn headers<'h>(redactor: Redactor<'_>, headers: impl Iterator<Item = (&'h str, Cow<'h, str>)>) -> Value {
    headers.map(|(name, value)| json!([name, redactor.header(name, &value)])).collect()
}

/// A stable word for why a request was answered so.
pub(super) fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::Answered => "answered",
        Reason::Subscribed { created: true, .. } => "subscription_created",
        Reason::Subscribed { created: false, .. } => "subscription_updated",
        Reason::Unauthorized { .. } => "unauthorized",
        Reason::RateLimited => "rate_limited",
        Reason::Invalid(_) => "invalid",
        Reason::NotFound(_) => "not_found",
        Reason::Announced(_) => "announced",
        Reason::MethodNotAllowed(_) => "method_not_allowed",
        Reason::Refused(kind, _) => kind.name(),
        Reason::Scripted => "scripted",
        Reason::Panicked(_) => "panicked",
    }
}

/// An event with where it goes and where it does not.
pub(super) fn event(event: &EventRecord, registry: &Registry, redactor: Redactor<'_>) -> Value {
    json!({
        "id": event.id,
        "type": event.event_type,
        "created_at": timestamp(event.created_at),
        "workspace": workspace_id(registry, &event.workspace),
        "body": body(redactor, &event.body),
        "deliveries": event.deliveries.iter().map(|delivery| json!(**delivery)).collect::<Value>(),
        "skipped": event.skipped,
        "damage": event.damage.as_deref(),
        "warnings": event.warnings,
    })
}

/// A delivery as a row of the listing.
pub(super) fn delivery_row(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> Value {
    let last = delivery.attempts.last();
    let workspace = registry.find(&delivery.event.workspace);
    let moment = workspace.as_ref().map_or_else(|| registry.clock().moment(), |workspace| workspace.clock().moment());
    json!({
        "id": delivery.planned.id,
        "event": delivery.event.id,
        "type": delivery.event.event_type,
        "subscription": delivery.planned.subscription,
        "url": delivery.planned.url.as_ref(),
        "workspace": workspace.as_ref().map(|workspace| workspace.id()),
        "status": delivery.status,
        "attempts": delivery.made,
        "last": last.map(|attempt| outcome(&attempt.outcome, redactor)),
        "next_attempt_in_ms": delivery.next.map(|due| millis(due.since(moment))),
        "note": delivery.note,
        "damage": delivery.event.damage.as_deref(),
        "forgery": delivery.forgery(),
    })
}

/// A delivery with each attempt.
pub(super) fn delivery_whole(delivery: &DeliveryRecord, registry: &Registry, redactor: Redactor<'_>) -> Value {
    let mut view = delivery_row(delivery, registry, redactor);
    view["attempts"] = delivery.attempts.iter().map(|record| attempt(record, redactor)).collect();
    view
}

/// One attempt: what was signed and sent, what came back.
pub(super) fn attempt(attempt: &AttemptRecord, redactor: Redactor<'_>) -> Value {
    let sent = attempt.headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())));
    json!({
        "number": attempt.number,
        "at": timestamp(attempt.at),
        "url": attempt.url.as_ref(),
        "dialled": attempt.dialled.as_ref(),
        "damage": attempt.damage.as_deref(),
        "request": {
            "headers": headers(redactor, sent),
            "body": body(redactor, &attempt.body),
        },
        "signed_content": bytes(&redactor.signed(&attempt.signed.to_vec(), &attempt.body)),
        "outcome": outcome(&attempt.outcome, redactor),
        "latency_ms": millis(attempt.latency),
    })
}

/// How an attempt ended.
pub(super) fn outcome(outcome: &AttemptOutcome, redactor: Redactor<'_>) -> Value {
    match outcome {
        AttemptOutcome::Answered { status, body: answered, .. } => {
            json!({ "accepted": outcome.is_success(), "status": status, "body": body(redactor, answered) })
        }
        AttemptOutcome::Failed { reason, detail } => json!({ "accepted": false, "failure": reason, "detail": detail }),
    }
}

/// Milliseconds with their fraction.
pub(super) fn millis(duration: std::time::Duration) -> f64 {
    // Microseconds are as fine as anyone reads.
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
