//! `POST events`: fires events at the matching subscriptions, and says what became of them if asked to wait.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::scope::workspace;
use super::view::{delivery_whole, event};
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::profile::parse_duration;
use crate::webhook::book::MOST_PENDING;
use crate::webhook::deliver::hand_over;
use crate::workspace::FireRequest;

/// Most events fired by one call.
const MOST_EVENTS: usize = 10_000;
/// Longest a call waits for outcomes.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fire {
    #[serde(rename = "type")]
    event_type: String,
    /// The whole data; the profile's default for the type when absent.
    data: Option<Map<String, Value>>,
    /// Single fields of the data, by dotted path.
    #[serde(default)]
    set: Map<String, Value>,
    key: Option<String>,
    subscription: Option<String>,
    count: Option<usize>,
    delay: Option<String>,
}

pub(super) async fn fire(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key", "wait"])?;
    let wish: Fire = call.json()?;
    let wait = call.query("wait").map(|text| wait_limit(&text)).transpose()?;
    let count = wish.count.unwrap_or(1);
    if !(1..=MOST_EVENTS).contains(&count) {
        return Err(ControlError::invalid(format!("count: expected 1 to {MOST_EVENTS}, found {count}")));
    }
    let delay = wish
        .delay
        .as_deref()
        .map(parse_duration)
        .transpose()
        .map_err(|problem| ControlError::invalid(format!("delay: {problem}")))?;
    let key = wish.key.clone().or_else(|| call.query("key"));
    let workspace = workspace(control, key.as_deref())?;
    let profile = Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile);
    let mut fired = Vec::new();
    for _ in 0..count {
        if control.book.pending() >= MOST_PENDING {
            let message = format!(
                "{MOST_PENDING} deliveries are pending, which is the most; {} of {count} events were fired",
                fired.len()
            );
            return Err(ControlError::invalid(message).coded("too_many_pending"));
        }
        let now = workspace.clock().now();
        let request = FireRequest {
            event_type: wish.event_type.clone(),
            data: wish.data.clone(),
            set: wish.set.clone().into_iter().collect(),
            subscription: wish.subscription.clone(),
            due: delay.map(|delay| now.moment.plus(delay)),
        };
        let event = workspace.lock().fire(workspace.name(), request, &profile, now);
        let event = Arc::new(event.map_err(|problem| ControlError::invalid(problem.to_string()))?);
        hand_over(&control.journal, &control.book, Arc::clone(&event));
        fired.push(event);
    }
    let events: Value = fired.iter().map(|record| event(record, &control.registry)).collect();
    let ids: Vec<String> =
        fired.iter().flat_map(|event| &event.deliveries).map(|delivery| delivery.id.clone()).collect();
    if ids.is_empty() {
        let known = fired.first().map_or(0, |event| event.skipped.len());
        let message = match known {
            0 => format!(
                "no subscription in workspace {}; subscribe with POST /v1/events/subscribe first",
                workspace.id()
            ),
            _ => format!("none of the {known} subscriptions in workspace {} takes {}", workspace.id(), wish.event_type),
        };
        return Err(ControlError::not_found(message).coded("no_match").beside("events", events));
    }
    let mut answer = json!({ "events": events });
    if let Some(limit) = wait {
        let deliveries = control.book.wait_attempted(&ids, limit).await;
        answer["deliveries"] = deliveries.iter().map(|delivery| delivery_whole(delivery, &control.registry)).collect();
    }
    Ok(ok(&answer))
}

pub(super) fn wait_limit(text: &str) -> Result<Duration, ControlError> {
    match parse_duration(text) {
        Ok(limit) if limit <= LONGEST_WAIT => Ok(limit),
        Ok(_) => Err(ControlError::invalid("wait: at most 300s")),
        Err(problem) => Err(ControlError::invalid(format!("wait: {problem}"))),
    }
}
