//! Rules about receivers: what they accept, and how they answer.

use std::collections::HashMap;
use std::time::Duration;

use super::check::{ALWAYS, Check, Confidence, DELIVER, Judged, Outcome, Rule, Severity, Sighting};
use super::traffic::Traffic;
use crate::contract::signature::Tamper;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::workspace::{AttemptOutcome, FailureReason, Forgery};

pub(super) const CHECKS: [Check; 7] = [
    Check {
        code: "receiver-accepts-forged",
        title: "A receiver accepts a forged delivery",
        why: "Anybody who knows its URL can make it act.",
        clause: "Events: the body is signed with the subscription secret; Standard Webhooks: verify the signature",
        severity: Severity::Critical,
        confidence: ALWAYS,
        remedy: "verify the signature over the bytes received, before anything else, and answer 401 if it does not match",
        cwe: Some(345),
        exercise: "wrs-emulator trigger workflow.completed --tamper signature",
        rule: Rule::Delivery(accepted_forged),
    },
    Check {
        code: "receiver-accepts-stale",
        title: "A receiver accepts a delivery with an old or future timestamp",
        why: "A delivery that was recorded can be sent again.",
        clause: "Standard Webhooks: refuse timestamps more than five minutes off",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "compare the signed timestamp with the clock, and refuse what is more than five minutes off",
        cwe: Some(294),
        exercise: "wrs-emulator trigger workflow.completed --tamper timestamp",
        rule: Rule::Delivery(accepted_stale),
    },
    Check {
        code: "receiver-accepts-unsigned",
        title: "A receiver accepts a delivery without a signature",
        why: "Anybody who knows its URL can make it act.",
        clause: "Events: the body is signed with the subscription secret",
        severity: Severity::Critical,
        confidence: ALWAYS,
        remedy: "refuse a delivery whose signature headers are missing",
        cwe: Some(306),
        exercise: "wrs-emulator trigger workflow.completed --tamper headers",
        rule: Rule::Delivery(accepted_unsigned),
    },
    Check {
        code: "receiver-refuses-valid",
        title: "A receiver refuses a delivery with a valid signature",
        why: "Events are lost once the retries are used up.",
        clause: "Events: the service sends an HTTP POST to the subscription url",
        severity: Severity::Medium,
        confidence: "likely, as the receiver may have had another reason",
        remedy: "see why: wrs-emulator explain DELIVERY, and wrs-emulator verify",
        cwe: None,
        exercise: DELIVER,
        rule: Rule::Delivery(refused_valid),
    },
    Check {
        code: "receiver-refuses-duplicate",
        title: "A receiver refuses an event that it has received before",
        why: "Delivery is at least once: what it refuses is sent again and again.",
        clause: "Standard Webhooks: the id is the same for every attempt, so that receivers can recognize it",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "acknowledge a known event with 2xx, and do nothing else",
        cwe: None,
        exercise: "wrs-emulator trigger workflow.completed --duplicate 2",
        rule: Rule::All(refused_duplicate),
    },
    Check {
        code: "receiver-redirects",
        title: "A receiver redirects",
        why: "Senders of webhooks do not follow redirects.",
        clause: "Events: the service sends an HTTP POST to the subscription url",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "register the URL that the redirect leads to",
        cwe: None,
        exercise: DELIVER,
        rule: Rule::Delivery(redirected),
    },
    Check {
        code: "receiver-slow",
        title: "A receiver is slow to acknowledge",
        why: "A delivery that times out is sent again, although it was received.",
        clause: "Events: delivery timeouts are not shown; Standard Webhooks: answer within seconds",
        severity: Severity::Medium,
        confidence: "certain if an attempt timed out; likely if it took three seconds",
        remedy: "acknowledge first, and do the work afterwards",
        cwe: None,
        exercise: DELIVER,
        rule: Rule::Delivery(slow),
    },
];

/// A receiver that takes longer does its work before it acknowledges.
const SLOW: Duration = Duration::from_secs(3);

/// Forged deliveries of these kinds that receivers answered.
fn accepted(delivery: &DeliveryRecord, is_meant: impl Fn(Tamper) -> bool) -> Outcome {
    let tamper = delivery.event.tamper.filter(|tamper| is_meant(*tamper))?;
    let forgery = delivery.forgery()?;
    let status = delivery.attempts.last().and_then(|attempt| attempt.outcome.status()).unwrap_or_default();
    let detail = || format!("{} answered {status} to a delivery forged by `{}`", delivery.planned.url, tamper.name());
    Some((forgery == Forgery::Accepted).then(|| Sighting::certain(&delivery.planned.id, detail())))
}

fn accepted_forged(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Outcome {
    accepted(delivery, |tamper| matches!(tamper, Tamper::Body | Tamper::Signature | Tamper::Secret))
}

fn accepted_stale(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Outcome {
    accepted(delivery, |tamper| matches!(tamper, Tamper::Timestamp | Tamper::FutureTimestamp))
}

fn accepted_unsigned(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Outcome {
    accepted(delivery, |tamper| tamper == Tamper::Headers)
}

/// The statuses with which receivers outside the emulator answered genuine deliveries.
fn answers(delivery: &DeliveryRecord) -> impl Iterator<Item = u16> + '_ {
    let is_true = delivery.event.tamper.is_none();
    delivery.attempts.iter().filter(move |_| is_true).filter_map(|attempt| attempt.outcome.status())
}

fn refused_valid(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Outcome {
    let status = answers(delivery).next()?;
    let detail = || format!("{} answered {status} to a delivery with a valid signature", delivery.planned.url);
    Some(matches!(status, 400 | 401 | 403).then(|| Sighting::likely(&delivery.planned.id, detail())))
}

fn refused_duplicate(traffic: &Traffic<'_>) -> Judged {
    let mut first: HashMap<(&str, &str), &DeliveryRecord> = HashMap::new();
    let mut judged = Judged::default();
    for delivery in traffic.deliveries.iter().filter(|delivery| delivery.event.tamper.is_none()) {
        let Some(status) = answers(delivery).last() else { continue };
        let same = (delivery.event.id.as_str(), delivery.planned.subscription.as_str());
        match first.get(&same) {
            None if (200..300).contains(&status) => drop(first.insert(same, delivery)),
            None => {}
            Some(before) => {
                judged.judged += 1;
                if (400..600).contains(&status) {
                    let (url, before) = (&delivery.planned.url, &before.planned.id);
                    let detail = format!("{url} answered {status} to the event that it had accepted as {before}");
                    judged.found.push(Sighting::certain(&delivery.planned.id, detail));
                }
            }
        }
    }
    judged
}

fn redirected(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Outcome {
    let mut statuses = answers(delivery).peekable();
    statuses.peek()?;
    let redirect = statuses.find(|status| (300..400).contains(status));
    let detail = |status| format!("{} answered {status}", delivery.planned.url);
    Some(redirect.map(|status| Sighting::certain(&delivery.planned.id, detail(status))))
}

fn slow(delivery: &DeliveryRecord, traffic: &Traffic<'_>) -> Outcome {
    if delivery.event.tamper.is_some() {
        return None;
    }
    let outcomes = delivery.attempts.iter().filter_map(|attempt| match attempt.outcome {
        AttemptOutcome::Answered { .. } if traffic.clock_runs && attempt.latency >= SLOW => {
            let seconds = attempt.latency.as_secs_f64();
            Some(Some((Confidence::Likely, format!("{} took {seconds:.1} s", delivery.planned.url))))
        }
        AttemptOutcome::Answered { .. } => Some(None),
        AttemptOutcome::Failed { reason: FailureReason::Timeout, .. } => {
            Some(Some((Confidence::Certain, format!("{} did not answer in time", delivery.planned.url))))
        }
        AttemptOutcome::Failed { .. } => None,
    });
    let outcomes: Vec<_> = outcomes.collect();
    if outcomes.is_empty() {
        return None;
    }
    let worst = outcomes.into_iter().flatten().min_by_key(|(confidence, _)| *confidence);
    Some(worst.map(|(confidence, detail)| Sighting::new(confidence, &delivery.planned.id, detail)))
}
