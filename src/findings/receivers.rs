//! Rules about receivers: the deliveries they accept, and how they answer.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use super::check::{Assessment, Check, Confidence, DELIVER, FindingRule, Judged, Occurrence, Severity};
use super::traffic::Traffic;
use crate::advice::Advice;
use crate::contract::clauses;
use crate::contract::signature::Tamper;
use crate::contract::types::WORKFLOW_COMPLETED;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::workspace::{AttemptOutcome, AttemptRecord, FailureReason, Forgery};

pub(super) const CHECKS: [Check; 7] = [
    Check::new("receiver-accepts-forged", Severity::Critical, "A receiver accepts a forged delivery")
        .why("Anybody who knows its URL can make it act.")
        .clause("Events: the body is signed with the subscription secret; Standard Webhooks: verify the signature")
        .remedy(
            "verify the signature over the bytes received, before anything else, and answer 401 if it does not match",
        )
        .cwe(345)
        .exercise("fire a forged event")
        .advice(|| vec![forged("signature")])
        .rule(FindingRule::Delivery(accepted_forged)),
    Check::new(
        "receiver-accepts-stale",
        Severity::High,
        "A receiver accepts a delivery with an old or future timestamp",
    )
    .why("A delivery that was recorded can be sent again.")
    .clause("Standard Webhooks: refuse timestamps more than five minutes off")
    .remedy("compare the signed timestamp with the clock, and refuse deliveries that are more than five minutes off")
    .cwe(294)
    .exercise("fire a forged event")
    .advice(|| vec![forged("timestamp")])
    .rule(FindingRule::Delivery(accepted_stale)),
    Check::new("receiver-accepts-unsigned", Severity::Critical, "A receiver accepts a delivery without a signature")
        .why("Anybody who knows its URL can make it act.")
        .clause(clauses::SIGNED)
        .remedy("refuse a delivery whose signature headers are missing")
        .cwe(306)
        .exercise("fire a forged event")
        .advice(|| vec![forged("headers")])
        .rule(FindingRule::Delivery(accepted_unsigned)),
    Check::new("receiver-refuses-valid", Severity::Medium, "A receiver refuses a delivery with a valid signature")
        .why("Events are lost once the retries are used up.")
        .clause(clauses::DELIVERY)
        .remedy("use the subscription's secret, and verify the raw bytes of the body before parsing it")
        .confidence("likely, because the receiver may have had another reason")
        .exercise(DELIVER)
        .advice(|| vec![Advice::fire(WORKFLOW_COMPLETED)])
        .rule(FindingRule::Delivery(refused_valid)),
    Check::new(
        "receiver-refuses-duplicate",
        Severity::Medium,
        "A receiver refuses an event that it has received before",
    )
    .why("Delivery is at least once: a refused delivery is sent again and again.")
    .clause("Standard Webhooks: the id is the same for every attempt, so that receivers can recognize it")
    .remedy("acknowledge a known event with 2xx, and do nothing else")
    .exercise("fire an event that is delivered twice")
    .advice(twice)
    .rule(FindingRule::All(refused_duplicate)),
    Check::new("receiver-redirects", Severity::Medium, "A receiver redirects")
        .why("Senders of webhooks do not follow redirects.")
        .clause(clauses::DELIVERY)
        .remedy("let the receiver answer at the registered URL itself, or register the URL that answers")
        .exercise(DELIVER)
        .advice(|| vec![Advice::fire(WORKFLOW_COMPLETED)])
        .rule(FindingRule::Delivery(redirected)),
    Check::new("receiver-slow", Severity::Medium, "A receiver is slow to acknowledge")
        .why("A delivery that times out is sent again, although it was received.")
        .clause("Events: delivery timeouts are not shown; Standard Webhooks: answer within seconds")
        .remedy("acknowledge first, and do the work afterwards")
        .confidence("certain if an attempt timed out; likely if it took three seconds")
        .exercise(DELIVER)
        .advice(|| vec![Advice::fire(WORKFLOW_COMPLETED)])
        .rule(FindingRule::Delivery(slow)),
];

fn forged(tamper: &str) -> Advice {
    Advice::Fire {
        event_type: WORKFLOW_COMPLETED.to_owned(),
        tamper: Some(tamper.to_owned()),
        duplicate: None,
        key: None,
    }
}

fn twice() -> Vec<Advice> {
    vec![Advice::Fire { event_type: WORKFLOW_COMPLETED.to_owned(), tamper: None, duplicate: Some(2), key: None }]
}

/// A slower receiver does its work before it acknowledges.
const SLOW: Duration = Duration::from_secs(3);

impl Occurrence {
    /// A sighting in a delivery; the detail begins with its URL.
    fn in_delivery(confidence: Confidence, delivery: &DeliveryRecord, what: impl Display) -> Self {
        Self::new(confidence, &delivery.planned.id, format!("{} {what}", delivery.planned.url))
    }
}

/// Judges a delivery that was forged in one of these ways and answered.
fn accepted(delivery: &DeliveryRecord, forgeries: &[Tamper]) -> Assessment {
    let tamper = delivery.event.tamper.filter(|tamper| forgeries.contains(tamper))?;
    let forgery = delivery.forgery()?;
    let status = delivery.attempts.last().and_then(|attempt| attempt.outcome.status()).unwrap_or_default();
    let what = || format!("answered {status} to a delivery forged by `{}`", tamper.name());
    Some((forgery == Forgery::Accepted).then(|| Occurrence::in_delivery(Confidence::Certain, delivery, what())))
}

fn accepted_forged(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Assessment {
    accepted(delivery, &[Tamper::Body, Tamper::Signature, Tamper::Secret, Tamper::OldSecret])
}

fn accepted_stale(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Assessment {
    accepted(delivery, &[Tamper::Timestamp, Tamper::FutureTimestamp])
}

fn accepted_unsigned(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Assessment {
    accepted(delivery, &[Tamper::Headers])
}

/// The statuses with which receivers outside the emulator answered genuine deliveries.
fn answers(delivery: &DeliveryRecord) -> impl Iterator<Item = u16> + '_ {
    let is_true = delivery.event.tamper.is_none();
    delivery.attempts.iter().filter(move |_| is_true).filter_map(|attempt| attempt.outcome.status())
}

fn refused_valid(delivery: &DeliveryRecord, traffic: &Traffic<'_>) -> Assessment {
    // A receiver has to refuse a signature of another time, as that of a clock that was moved.
    let has_time = traffic.profile.schemes().iter().any(|scheme| Tamper::Timestamp.is_detectable(scheme));
    if has_time && delivery.attempts.first()?.is_of_another_time() {
        return None;
    }
    let status = answers(delivery).next()?;
    let what = || format!("answered {status} to a delivery with a valid signature");
    Some(matches!(status, 400 | 401 | 403).then(|| Occurrence::in_delivery(Confidence::Likely, delivery, what())))
}

fn refused_duplicate(traffic: &Traffic<'_>) -> Judged {
    let mut accepted: HashMap<(&str, &str), &str> = HashMap::new();
    let mut judged = Judged::default();
    for delivery in traffic.deliveries() {
        let Some(status) = answers(delivery).last() else { continue };
        let same = (delivery.event.id.as_str(), delivery.planned.subscription.as_str());
        if let Some(before) = accepted.get(&same) {
            let what = || format!("answered {status} to the event that it had accepted as {before}");
            let is_refused = (400..600).contains(&status);
            judged.count(Some(is_refused.then(|| Occurrence::in_delivery(Confidence::Certain, delivery, what()))));
        } else if (200..300).contains(&status) {
            accepted.insert(same, &delivery.planned.id);
        }
    }
    judged
}

fn redirected(delivery: &DeliveryRecord, _: &Traffic<'_>) -> Assessment {
    let mut statuses = answers(delivery).peekable();
    statuses.peek()?;
    let redirect = statuses.find(|status| (300..400).contains(status));
    Some(redirect.map(|status| Occurrence::in_delivery(Confidence::Certain, delivery, format!("answered {status}"))))
}

fn slow(delivery: &DeliveryRecord, traffic: &Traffic<'_>) -> Assessment {
    if delivery.event.tamper.is_some() {
        return None;
    }
    let judge = |attempt: &AttemptRecord| match attempt.outcome {
        AttemptOutcome::Answered { .. } if traffic.clock_runs && attempt.latency >= SLOW => {
            Some(Some((Confidence::Likely, format!("took {:.1} s", attempt.latency.as_secs_f64()))))
        }
        AttemptOutcome::Answered { .. } => Some(None),
        AttemptOutcome::Failed { reason: FailureReason::Timeout, .. } => {
            Some(Some((Confidence::Certain, "did not answer in time".to_owned())))
        }
        AttemptOutcome::Failed { .. } => None,
    };
    let mut judged = delivery.attempts.iter().filter_map(|attempt| judge(attempt)).peekable();
    judged.peek()?;
    let worst = judged.flatten().min_by_key(|(confidence, _)| *confidence);
    Some(worst.map(|(confidence, what)| Occurrence::in_delivery(confidence, delivery, what)))
}
