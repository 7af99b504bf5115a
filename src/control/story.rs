//! The story of a request, an event or a delivery, in words: told once, for listings, explanations, the verdict, the run document,
//! the stream and the log. Independent of who shows it.

use std::collections::BTreeSet;

use hyper::StatusCode;

use super::render::cell;
use crate::contract::signature::Tamper;
use crate::redact::Redactor;
use crate::state::engine::deliveries::{DeliveryRecord, DeliveryStatus};
use crate::state::journal::record::{AttemptResult, Bytes};
use crate::state::journal::{DecidingRule, Reason, RequestRecord};
use crate::state::quota::QuotaCheck;
use crate::state::workspace::{AttemptOutcome, AttemptRecord, EventRecord, Forgery, is_elsewhere, status_text};
use crate::util::duration::duration_text;
use crate::util::wording::counted;

/// Advice for a client after any 429.
pub(super) const AFTER_429: &str =
    "after a 429, a client waits as long as `Retry-After` says, or else with growing pauses";

/// The check that decided the answer to a request, and why.
pub(crate) fn decision(request: &RequestRecord) -> (&'static str, String) {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    match &request.reason {
        Reason::Refused(_, text) if request.operation.is_none() => ("http", text.clone()),
        Reason::Refused(_, text) => ("content", text.clone()),
        Reason::NotFound(message) => ("route", message.to_string()),
        Reason::Announced(entry, _) => {
            ("route", format!("`{entry}` is announced in the contract but not available yet"))
        }
        Reason::MethodNotAllowed(allow) => ("route", format!("`{path}` accepts {allow}, not {method}")),
        Reason::Unauthorized { advice, .. } => ("authentication", advice.to_string()),
        Reason::RateLimited => {
            let used = request.quota.as_ref().map(quota_text).unwrap_or_default();
            ("quota", format!("the quota is used up: {used}"))
        }
        Reason::Scripted => ("scenario", request.scripted.as_ref().map(rule_text).unwrap_or_default()),
        Reason::Invalid(problems) => {
            let texts = problems.iter().map(|problem| format!("`{}` {}", problem.field, problem.reason));
            ("operation", texts.collect::<Vec<_>>().join("; "))
        }
        Reason::Answered => ("operation", "every check passed".to_owned()),
        Reason::Subscribed { id, created, warnings } => {
            let made = if *created { "was created" } else { "had the same URL, so it was updated" };
            let warned: String = warnings.iter().map(|warning| format!("; warning: {warning}")).collect();
            ("operation", format!("every check passed and {id} {made}{warned}"))
        }
        Reason::Panicked(text) => ("operation", format!("the emulator failed: {text}")),
        Reason::ClientLeft => {
            let left = format!("the client closed the connection after {}", duration_text(request.latency));
            match &request.scripted {
                Some(rule) => ("scenario", format!("{left}, before the answer: {}", rule_text(rule))),
                None => ("content", format!("{left}, before it was answered")),
            }
        }
    }
}

/// Why a request matched no endpoint; `None` if it matched one.
pub(super) fn no_endpoint(request: &RequestRecord) -> Option<String> {
    is_unmatched(request).then(|| decision(request).1)
}

/// True if a request matched no endpoint.
pub(super) fn is_unmatched(request: &RequestRecord) -> bool {
    match &request.reason {
        Reason::Refused(..) => request.operation.is_none(),
        reason => matches!(reason, Reason::NotFound(_) | Reason::Announced(..) | Reason::MethodNotAllowed(_)),
    }
}

/// True if the API itself refused a request, by its own rules. A scenario's rule that only delays or changes an answer leaves the refusal
/// to the API.
pub(super) fn is_refused_by_api(request: &RequestRecord) -> bool {
    request.status >= 400 && request.broken.is_none() && !matches!(request.reason, Reason::Scripted)
}

/// The rule that had a part in an answer which the API itself gave.
pub(super) fn rule_beside_api(request: &RequestRecord) -> Option<&DecidingRule> {
    let is_own = !matches!(request.reason, Reason::Scripted | Reason::ClientLeft);
    request.scripted.as_ref().filter(|_| is_own)
}

/// The method and target of a request.
pub(crate) fn request_line(method: &str, target: &str) -> String {
    if method.is_empty() { "bytes that are not an HTTP request".to_owned() } else { format!("{method} {target}") }
}

/// The answer, as the beginning of a sentence.
pub(super) fn answer_text(request: &RequestRecord) -> String {
    let status = request.status;
    let words = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    match (request.broken, words) {
        (Some("reset"), _) => "connection reset".to_owned(),
        (Some("empty"), _) => "connection closed without an answer".to_owned(),
        (Some("client_left"), _) => "no answer".to_owned(),
        (Some(broken), _) => format!("{broken} instead of an answer"),
        (None, Some(words)) => format!("{status} {words}"),
        (None, None) => status.to_string(),
    }
}

/// The rule that decided a request, and its effect.
pub(crate) fn rule_text(by: &DecidingRule) -> String {
    format!("scenario `{}`, {}, turn {}: {}", by.scenario, by.name(), by.turn, by.action)
}

/// How much of a quota a request found used.
pub(super) fn quota_text(quota: &QuotaCheck) -> String {
    let used = quota.limit - quota.remaining.min(quota.limit);
    let mut text = format!("{used} of {} requests used in a window of {}", quota.limit, duration_text(quota.window));
    if !quota.allowed {
        text.push_str(&format!("; the next is allowed in {}", duration_text(quota.wait)));
    }
    text
}

/// How large a quota is that was used up.
pub(super) fn quota_limit(quota: &QuotaCheck) -> String {
    format!("the quota of {} in {} is used up", counted(quota.limit, "request"), duration_text(quota.window))
}

/// Where an event went.
pub(super) fn event_summary(event: &EventRecord) -> String {
    // One subscription may get several copies.
    let reached: BTreeSet<&str> = event.deliveries.iter().map(|delivery| &*delivery.subscription).collect();
    match (reached.len(), reached.len() + event.skipped.len()) {
        (_, 0) => "no receiver got it: there was no subscription".to_owned(),
        (reached, all) => format!("it went to {reached} of {}", counted(all, "subscription")),
    }
}

/// The state of a delivery so far.
pub(super) fn delivery_summary(delivery: &DeliveryRecord, redactor: Redactor<'_>) -> String {
    let attempts = delivery.attempts_made();
    let deciding = delivery.deciding_attempt();
    let last = || match deciding {
        Some(attempt) => format!("{}{}", attempt_summary(attempt, redactor), since(delivery, attempt)),
        None if attempts == 0 => "no attempt was made".to_owned(),
        None if delivery.made == 0 => "what the receiver answered is not in the snapshot".to_owned(),
        None => "the receiver's answer was evicted, because the pending deliveries use too much memory".to_owned(),
    };
    match delivery.status {
        _ if delivery.forgery() == Some(Forgery::Accepted) => format!("accepted, although it is forged: {}", last()),
        _ if delivery.forgery() == Some(Forgery::Refused) => format!("refused, as a forgery should be: {}", last()),
        DeliveryStatus::Delivered => format!("delivered at attempt {attempts}"),
        DeliveryStatus::Exhausted => format!("given up after {}: {}", counted(attempts, "attempt"), last()),
        DeliveryStatus::Cancelled => {
            // The last attempt may be the one that led to the note.
            let reached = deciding.filter(|attempt| !attempt.outcome.is_unreached());
            let before = reached.or_else(|| delivery.attempts.iter().rev().nth(1));
            match (&delivery.note, before) {
                (Some(note), Some(attempt)) => {
                    format!("{}; then cancelled: {note}", attempt_summary(attempt, redactor))
                }
                (Some(note), None) => format!("cancelled: {note}"),
                (None, _) => format!("cancelled: {}", last()),
            }
        }
        DeliveryStatus::Pending if attempts == 0 => "no attempt has ended yet".to_owned(),
        DeliveryStatus::Pending => {
            let failed = deciding.map_or(attempts, |attempt| attempt.number);
            format!("attempt {failed} failed and another is due: {}", last())
        }
    }
}

/// Why a delivery failed, without how often it was tried and what came of that, so that it stays the same while it is retried.
pub(super) fn failure_of(delivery: &DeliveryRecord, redactor: Redactor<'_>) -> String {
    match delivery.deciding_attempt() {
        Some(attempt) if delivery.status != DeliveryStatus::Cancelled || !attempt.outcome.is_unreached() => {
            attempt_summary(attempt, redactor)
        }
        _ => delivery_summary(delivery, redactor),
    }
}

/// The later outcome of a failed delivery.
pub(super) fn outcome_of(delivery: &DeliveryRecord) -> Option<String> {
    let attempts = delivery.attempts_made();
    let deciding = delivery.deciding_attempt()?;
    let after = since(delivery, deciding);
    match (delivery.status, &delivery.note) {
        (DeliveryStatus::Exhausted, _) => Some(format!("given up after {}{after}", counted(attempts, "attempt"))),
        (DeliveryStatus::Pending, _) => Some(format!("attempt {} failed and another is due{after}", deciding.number)),
        (DeliveryStatus::Cancelled, Some(note)) => {
            Some(format!("cancelled after {}: {note}", counted(attempts, "attempt")))
        }
        _ => None,
    }
}

/// The later state of the receiver, after the attempt by which a delivery is judged.
fn since(delivery: &DeliveryRecord, deciding: &AttemptRecord) -> String {
    let next = delivery.attempts.iter().find(|attempt| attempt.number > deciding.number);
    next.map_or_else(String::new, |next| format!("; attempt {} found no receiver", next.number))
}

/// How an attempt ended, and why it failed.
pub(super) fn attempt_summary(attempt: &AttemptRecord, redactor: Redactor<'_>) -> String {
    let ending = ending(&attempt.outcome, redactor);
    let Some(status) = attempt.outcome.status() else { return ending };
    let why = match status {
        200..=299 => "",
        _ if attempt.forgery().is_some() => "",
        _ if attempt.forged => "; a receiver refuses a forged delivery with a 4xx",
        300..=399 => "; redirects are failures and not followed",
        _ => "; only 2xx accepts an event",
    };
    format!("the receiver {ending}{why}")
}

/// A receiver's answer, with the first line of its body, or why it did not answer.
pub(crate) fn ending(outcome: &AttemptOutcome, redactor: Redactor<'_>) -> String {
    match outcome {
        AttemptOutcome::Answered { status, body, note, .. } => {
            let note = note.as_deref().map(|note| redactor.text(note));
            answered(*status, note.as_deref(), redactor.first_line(body))
        }
        AttemptOutcome::Failed { detail, .. } => redactor.text(detail).into_owned(),
    }
}

/// [`ending`] of an attempt as the control API shows it.
pub(crate) fn outcome_text(outcome: Option<&AttemptResult>) -> String {
    match outcome {
        Some(AttemptResult::Answered { status, body, note, .. }) => {
            let line = match body {
                Bytes::Text(body) => Redactor::default().first_line(body.as_bytes()),
                Bytes::Binary { .. } => None,
            };
            answered(*status, note.as_deref(), line)
        }
        Some(AttemptResult::Failed { detail, .. }) => cell(detail),
        None => "not tried yet".to_owned(),
    }
}

fn answered(status: u16, note: Option<&str>, line: Option<String>) -> String {
    let answered = format!("answered {}", cell(status_text(status, note)));
    line.map_or_else(|| answered.clone(), |line| format!("{answered}: {}", cell(line)))
}

/// The meaning of a receiver's answer to a forged delivery, as the end of a line.
pub(crate) fn forgery_text(forgery: Option<Forgery>) -> &'static str {
    match forgery {
        Some(Forgery::Accepted) => "; accepted, but must be refused",
        Some(Forgery::Refused) => "; refused, as it should be",
        None => "",
    }
}

/// True if a receiver answered correctly: it accepted a delivery, or refused a forged one.
pub(crate) fn went_well(is_accepted: bool, forgery: Option<Forgery>) -> bool {
    forgery.map_or(is_accepted, |forgery| forgery == Forgery::Refused)
}

/// A forged delivery that its receiver accepted.
pub(super) fn accepted_forgery(delivery: &DeliveryRecord) -> String {
    let status = delivery.attempts.last().and_then(|attempt| attempt.outcome.status()).unwrap_or_default();
    format!("answered {status}; {}", delivery.event.damage.as_deref().unwrap_or("forged"))
}

/// How many events were signed for handlers that a test calls itself.
pub(super) fn signed_text(events: usize) -> String {
    format!("{} signed in process", counted(events, "event"))
}

/// True if the only thing wrong with a forged delivery is its time.
pub(super) fn is_of_time(delivery: &DeliveryRecord) -> bool {
    matches!(delivery.event.tamper, Some(Tamper::Timestamp | Tamper::FutureTimestamp))
}

/// What a receiver that accepted this forged delivery has to do.
pub(super) fn after_accepted(delivery: &DeliveryRecord) -> &'static str {
    if is_of_time(delivery) {
        "the signature is right and the time is not: compare the timestamp with the clock, and answer 401 if it is more than five minutes off"
    } else {
        "verify the signature over the bytes received, before anything else, and answer 401 if it does not match"
    }
}

/// True if a delivery failed as intended: it was dropped on purpose, or forged and refused.
pub(super) fn is_on_purpose(delivery: &DeliveryRecord) -> bool {
    let refused =
        delivery.deciding_attempt().is_some_and(|attempt| matches!(attempt.outcome, AttemptOutcome::Answered { .. }));
    delivery.event.lost || (delivery.event.tamper.is_some() && refused)
}

/// Where a delivery or an attempt goes: the subscription's URL, and the forward's target if there is one.
pub(crate) fn destination(url: &str, dialled: Option<&str>) -> String {
    match dialled {
        Some(dialled) if is_elsewhere(url, dialled) => format!("{}, sent to {}", cell(url), cell(dialled)),
        _ => cell(url),
    }
}

/// The deliberate damage of an event or a delivery, as the end of a line.
pub(crate) fn damage_text(damage: Option<&str>) -> String {
    damage.map_or_else(String::new, |damage| format!("; {}", cell(damage)))
}
