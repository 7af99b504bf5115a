//! `GET explain/{id}`: why a request was answered so, where an event went and where not, how a delivery came about.
//!
//! An explanation is a list of checks in the order in which they were made; one of them decided.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::requests;
use super::trace::{RULES_NOTE, rules_of};
use super::view::{delivery_whole, event, request_whole};
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::profile::Profile;
use crate::contract::routes::Operation;
use crate::journal::{AttemptOutcome, Entry, Reason, RequestRecord};
use crate::rate_limit::Verdict;
use crate::redact::Redactor;
use crate::webhook::book::{DeliveryRecord, DeliveryStatus};
use crate::workspace::{EventRecord, SkipReason};

/// One check on the way to an answer.
#[derive(Debug, Serialize)]
struct Step {
    /// What was looked at.
    check: &'static str,
    /// How it went.
    verdict: StepVerdict,
    /// What was found, in words.
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum StepVerdict {
    /// The check let the request through.
    Passed,
    /// The check made the answer.
    Decided,
    /// An earlier check had decided.
    NotReached,
}

pub(super) fn explain(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let id = call.segment.as_str();
    let registry = &control.registry;
    match id.split_once('_').map(|(prefix, _)| prefix) {
        Some("req") => {
            let request = requests::find(control, id)?;
            let profile = Arc::clone(&control.library.load().setup_for(None).profile);
            let steps = request_steps(&request, &profile, call.redactor());
            let decided = steps.iter().find(|step| step.verdict == StepVerdict::Decided);
            let summary = format!(
                "{} because {}",
                status_text(request.status),
                decided.map_or("all checks passed", |step| &step.detail)
            );
            let mut view = json!({ "id": id, "kind": "request", "summary": summary, "steps": steps, "request": request_whole(&request, call.redactor()) });
            if let Some(rules) = rules_of(control, &request) {
                view["rules"] = json!(rules);
                view["note"] = RULES_NOTE.into();
            }
            Ok(ok(view))
        }
        Some("evt") => {
            let found = control.journal.search(None, 1, |_, entry| match entry {
                Entry::Event(event) if event.id == id => Some(Arc::clone(event)),
                _ => None,
            });
            let Some(record) = found.into_iter().next() else { return Err(unknown(id)) };
            Ok(ok(
                json!({ "id": id, "kind": "event", "summary": event_summary(&record), "steps": event_steps(&record), "event": event(&record, registry, call.redactor()) }),
            ))
        }
        Some("dlv") => {
            let delivery = super::deliveries::find(control, id)?;
            Ok(ok(json!({
                "id": id,
                "kind": "delivery",
                "summary": delivery_summary(&delivery),
                "steps": delivery_steps(&delivery),
                "delivery": delivery_whole(&delivery, registry, call.redactor()),
            })))
        }
        _ => Err(unknown(id)),
    }
}

fn unknown(id: &str) -> ControlError {
    let message = format!(
        "nothing is known of `{}`; expected the id of a request (req_…), an event (evt_…) or a delivery (dlv_…)",
        id.escape_debug()
    );
    ControlError::not_found(message)
}

fn status_text(status: u16) -> String {
    match hyper::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()) {
        Some(words) => format!("{status} {words}"),
        None => "a broken connection".to_owned(),
    }
}

/// Why a request led to no endpoint; `None` if it led to one.
pub(super) fn no_endpoint(request: &RequestRecord) -> Option<String> {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    match &request.reason {
        Reason::Refused(_, text) if request.operation.is_none() => Some(text.clone()),
        Reason::NotFound => Some(format!("no endpoint has the path `{path}`")),
        Reason::Announced(entry) => {
            Some(format!("`{entry}` is announced by the contract as upcoming and not open yet"))
        }
        Reason::MethodNotAllowed(allow) => Some(format!("`{path}` takes {allow}, not {method}")),
        _ => None,
    }
}

/// The checks in the order of the contract's implementation: route, authentication, quota, content, scenario, operation.
fn request_steps(request: &RequestRecord, profile: &Profile, redactor: Redactor<'_>) -> Vec<Step> {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    let needs_key =
        request.operation.is_some_and(|operation| ![Operation::Hello, Operation::OauthToken].contains(&operation));
    let mut steps = Vec::new();
    let mut decided = false;
    let mut push = |check: &'static str, decides: Option<String>, passed: String| {
        let (verdict, detail) = match decides {
            _ if decided => (StepVerdict::NotReached, "an earlier check had decided".to_owned()),
            Some(detail) => (StepVerdict::Decided, detail),
            None => (StepVerdict::Passed, passed),
        };
        decided |= verdict == StepVerdict::Decided;
        steps.push(Step { check, verdict, detail });
    };
    let before_route = no_endpoint(request).filter(|_| matches!(request.reason, Reason::Refused(..)));
    push("http", before_route, "a proper HTTP/1.1 request".to_owned());
    let no_route = no_endpoint(request).filter(|_| !matches!(request.reason, Reason::Refused(..)));
    push(
        "route",
        no_route,
        format!("{method} {path} is the operation {}", request.operation.map_or("-", |operation| operation.name())),
    );
    let no_key = match &request.reason {
        Reason::Unauthorized(refusal) => Some(refusal.advice(profile)),
        _ => None,
    };
    let key = match request.key() {
        Some(key) => format!("the key {} is valid", redactor.key(key)),
        None if needs_key => "no key was looked at".to_owned(),
        None => "the operation needs no key".to_owned(),
    };
    push("authentication", no_key, key);
    let no_quota = match (&request.reason, &request.quota) {
        (Reason::RateLimited, Some(quota)) => Some(format!("the quota is used up: {}", quota_text(quota))),
        _ => None,
    };
    push(
        "quota",
        no_quota,
        match (&request.reason, &request.quota) {
            (_, None) => "the operation is not counted".to_owned(),
            // A quota that refuses decides, so that a later check has changed what the client is shown.
            (reason, Some(quota)) if !quota.allowed && !matches!(reason, Reason::RateLimited) => format!(
                "the request was let through; the scenario then shows the quota as used up: 0 of {} requests left",
                quota.limit
            ),
            (_, Some(quota)) => quota_text(quota),
        },
    );
    let no_content = match &request.reason {
        Reason::Refused(_, text) => Some(text.clone()),
        _ => None,
    };
    push("content", no_content, "the content could be read".to_owned());
    let scripted = request.scripted.as_ref().map(|scripted| {
        format!("scenario `{}`, {}, turn {}: {}", scripted.scenario, scripted.rule, scripted.turn, scripted.action)
    });
    let by_rule = matches!(request.reason, Reason::Scripted);
    let (decides, passed) = if by_rule { (scripted.clone(), None) } else { (None, scripted) };
    push("scenario", decides, passed.unwrap_or_else(|| "no scenario rule applied".to_owned()));
    let by_operation = match &request.reason {
        Reason::Invalid(problems) => {
            let texts: Vec<String> =
                problems.iter().map(|problem| format!("`{}` {}", problem.field, problem.reason)).collect();
            Some(texts.join("; "))
        }
        Reason::Answered => Some("every check passed".to_owned()),
        Reason::Subscribed { id, created, warnings } => {
            let made = if *created { "was created" } else { "had the same URL, so it was updated" };
            let warned: String = warnings.iter().map(|warning| format!("; warning: {warning}")).collect();
            Some(format!("every check passed and {id} {made}{warned}"))
        }
        Reason::Panicked(text) => Some(format!("the emulator failed: {text}")),
        _ => None,
    };
    push("operation", by_operation, String::new());
    steps
}

fn quota_text(quota: &Verdict) -> String {
    let used = quota.limit - quota.remaining.min(quota.limit);
    let mut text = format!("{used} of {} requests used in a window of {}", quota.limit, duration_text(quota.window));
    if !quota.allowed {
        text.push_str(&format!("; the next is allowed in {}", duration_text(quota.wait)));
    }
    text
}

/// A length of time as people say it, to a tenth of its unit.
fn duration_text(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    let (amount, unit) = match millis {
        ..1000.0 => (millis, "ms"),
        ..120_000.0 => (millis / 1000.0, "s"),
        ..7_200_000.0 => (millis / 60_000.0, "min"),
        _ => (millis / 3_600_000.0, "h"),
    };
    format!("{} {unit}", (amount * 10.0).round() / 10.0)
}

fn event_summary(event: &EventRecord) -> String {
    match (event.deliveries.len(), event.skipped.len()) {
        (0, 0) => "nobody got it: there was no subscription".to_owned(),
        (0, skipped) => format!("nobody got it: {skipped} subscriptions did not match"),
        (deliveries, skipped) => format!("it went to {deliveries} of {} subscriptions", deliveries + skipped),
    }
}

fn event_steps(event: &EventRecord) -> Vec<Value> {
    let went = event.deliveries.iter().map(|delivery| json!({ "check": delivery.subscription, "verdict": "passed", "detail": format!("delivery {} to {}", delivery.id, delivery.url) }));
    let skipped = event.skipped.iter().map(|skipped| {
        let detail = match skipped.reason {
            SkipReason::TypeNotSubscribed => format!("{} is not subscribed to {}", skipped.url, event.event_type),
            SkipReason::Disabled => {
                format!("{} is disabled, as its receiver answered 410; subscribe again to make it active", skipped.url)
            }
            SkipReason::NotNamed => "another subscription was named".to_owned(),
        };
        json!({ "check": skipped.subscription, "verdict": "not_reached", "detail": detail })
    });
    went.chain(skipped).chain(damage_step(event)).collect()
}

/// What is deliberately wrong with an event's deliveries, as a step.
fn damage_step(event: &EventRecord) -> Option<Value> {
    let damage = event.damage.as_deref()?;
    Some(json!({ "check": "damage", "verdict": "decided", "detail": damage }))
}

pub(super) fn delivery_summary(delivery: &DeliveryRecord) -> String {
    let attempts = delivery.made;
    match delivery.status {
        DeliveryStatus::Delivered => format!("delivered at attempt {attempts}"),
        DeliveryStatus::Exhausted => format!("given up after {attempts} attempts: {}", last_outcome(delivery)),
        DeliveryStatus::Cancelled => {
            format!("cancelled: {}", delivery.note.clone().unwrap_or_else(|| last_outcome(delivery)))
        }
        DeliveryStatus::Pending if attempts == 0 => "the first attempt has not ended yet".to_owned(),
        DeliveryStatus::Pending => format!("attempt {attempts} failed and another is due: {}", last_outcome(delivery)),
    }
}

fn last_outcome(delivery: &DeliveryRecord) -> String {
    match delivery.attempts.last() {
        Some(attempt) => outcome_text(&attempt.outcome),
        None if delivery.made == 0 => "no attempt was made".to_owned(),
        None => "what the receiver answered was evicted, as the pending deliveries hold too much memory".to_owned(),
    }
}

fn outcome_text(outcome: &AttemptOutcome) -> String {
    match outcome {
        AttemptOutcome::Answered { status, .. } if outcome.is_success() => format!("the receiver answered {status}"),
        AttemptOutcome::Answered { status: status @ 300..=399, .. } => {
            format!("the receiver answered {status}; redirects are failures and not followed")
        }
        AttemptOutcome::Answered { status, .. } => format!("the receiver answered {status}; only 2xx accepts an event"),
        AttemptOutcome::Failed { detail, .. } => detail.clone(),
    }
}

fn delivery_steps(delivery: &DeliveryRecord) -> Vec<Value> {
    let attempts = delivery.attempts.iter().map(|attempt| {
        let verdict = if attempt.outcome.is_success() { "decided" } else { "passed" };
        json!({ "check": format!("attempt {}", attempt.number), "verdict": verdict, "detail": outcome_text(&attempt.outcome) })
    });
    attempts.chain(damage_step(&delivery.event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_rounded_for_people() {
        for (micros, shown) in [
            (0, "0 ms"),
            (1_234, "1.2 ms"),
            (250_000, "250 ms"),
            (30_000_000, "30 s"),
            (59_755_807, "59.8 s"),
            (90_000_000, "90 s"),
            (150_000_000, "2.5 min"),
            (86_400_000_000, "24 h"),
        ] {
            assert_eq!(duration_text(Duration::from_micros(micros)), shown);
        }
    }
}
