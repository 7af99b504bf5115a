//! `POST events`: fires events at the matching subscriptions, and says what became of them if asked to wait.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::scope::workspace;
use super::view::{delivery_whole, event};
use super::whole::Whole;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::profile::parse_duration;
use crate::contract::signature::Tamper;
use crate::contract::types::SubscriptionStatus;
use crate::redact::Redactor;
use crate::scenario::emit_named;
use crate::webhook::book::MOST_PENDING;
use crate::webhook::deliver::hand_over;
use crate::workspace::{FireRequest, SkipReason, Workspace};

/// Most events fired by one call.
const MOST_EVENTS: usize = 10_000;
/// Longest a call waits for outcomes.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fire {
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// In place of a type: the name of an emission of the active scenarios.
    emit: Option<String>,
    /// The whole data; the profile's default for the type when absent.
    data: Option<Map<String, Value>>,
    /// Single fields of the data, by dotted path.
    #[serde(default)]
    set: Map<String, Value>,
    key: Option<String>,
    subscription: Option<String>,
    count: Option<Whole<usize>>,
    delay: Option<String>,
    /// What is falsified in each delivery.
    tamper: Option<String>,
    /// Copies of each delivery in all, 1 to 100.
    duplicate: Option<Whole<u32>>,
    /// Whether the events go out in another order.
    #[serde(default)]
    shuffle: bool,
    /// Whether nothing is delivered, as if it were lost on the way.
    #[serde(default)]
    drop: bool,
}

pub(super) async fn fire(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key", "wait"])?;
    let wish: Fire = call.json()?;
    let wait = call.query("wait").map(|text| wait_limit("wait", &text)).transpose()?;
    let count = wish.count.map_or(1, |Whole(count)| count);
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
    if let Some(name) = &wish.emit {
        return fire_emission(control, &workspace, name, &wish);
    }
    let profile = Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile);
    let template = fire_request(&wish)?;
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
        let request = FireRequest { due: delay.map(|delay| now.moment.plus(delay)), ..template.clone() };
        let event = workspace.lock().fire(workspace.name(), request, &profile, now);
        fired.push(Arc::new(event.map_err(|problem| ControlError::invalid(problem.to_string()))?));
        if !wish.shuffle {
            hand_over(&control.journal, &control.book, &workspace, Arc::clone(&fired[fired.len() - 1]));
        }
    }
    if wish.shuffle {
        let mut order = fired.clone();
        order.shuffle(workspace.lock().event_random());
        if order.len() > 1 && order.iter().zip(&fired).all(|(one, other)| Arc::ptr_eq(one, other)) {
            order.rotate_left(1);
        }
        for event in order {
            hand_over(&control.journal, &control.book, &workspace, event);
        }
    }
    let event_type = &template.event_type;
    let events: Value = fired.iter().map(|record| event(record, &control.registry, call.redactor())).collect();
    let ids: Vec<String> =
        fired.iter().flat_map(|event| &event.deliveries).map(|delivery| delivery.id.clone()).collect();
    if ids.is_empty() {
        let skipped = fired.first().map(|event| event.skipped.as_slice()).unwrap_or_default();
        let disabled = skipped.iter().filter(|skipped| skipped.reason == SkipReason::Disabled).count();
        let whose = format!("key `{}` (workspace {})", call.redactor().key(workspace.name()), workspace.id());
        let message = match (skipped.len(), disabled) {
            (0, _) => format!(
                "no subscription for {whose}; {}subscribe with POST /v1/events/subscribe first, or name another key",
                elsewhere(control, call.redactor(), &workspace, event_type)
            ),
            (all, 0) => format!("none of the {all} subscriptions for {whose} takes {event_type}"),
            (all, gone) => format!(
                "none of the {all} subscriptions for {whose} takes {event_type}: {gone} disabled by 410 Gone until subscribed again"
            ),
        };
        let id = fired.first().map_or("", |event| &event.id);
        let message = format!("{message}; `explain {id}` says why not, one by one");
        return Err(ControlError::not_found(message).coded("no_match").beside("events", events));
    }
    let mut answer = json!({ "events": events });
    if let Some(limit) = wait {
        let deliveries = control.book.wait_attempted(&ids, limit).await;
        answer["deliveries"] =
            deliveries.iter().map(|delivery| delivery_whole(delivery, &control.registry, call.redactor())).collect();
    }
    Ok(ok(answer))
}

/// Who else would have got the event: whoever fires for another key than the one that subscribed sees which was meant.
fn elsewhere(control: &Control, redactor: Redactor<'_>, workspace: &Arc<Workspace>, event_type: &str) -> String {
    const MOST_NAMED: usize = 3;
    let now = control.registry.clock().now();
    let generation = control.library.load();
    let takes = |other: &Arc<Workspace>| {
        let profile = &generation.setup_for(Some(other.name())).profile;
        let views = other.lock().subscription_views(profile, now);
        let active = views.iter().filter(|view| view.status == SubscriptionStatus::Active);
        active.flat_map(|view| &view.events).any(|event| event == event_type)
    };
    let others: Vec<Arc<Workspace>> =
        control.registry.all().into_iter().filter(|other| !Arc::ptr_eq(other, workspace) && takes(other)).collect();
    let named: Vec<String> = others
        .iter()
        .take(MOST_NAMED)
        .map(|other| format!("`{}` (workspace {})", redactor.key(other.name()), other.id()))
        .collect();
    match others.len().saturating_sub(MOST_NAMED) {
        _ if named.is_empty() => String::new(),
        0 => format!("there is one for {}; ", named.join(", ")),
        more => format!("there is one for {} and {more} more; ", named.join(", ")),
    }
}

/// What each event of the call has in common.
fn fire_request(wish: &Fire) -> Result<FireRequest, ControlError> {
    let Some(event_type) = wish.event_type.clone() else {
        return Err(ControlError::invalid("body: missing field `type`"));
    };
    let tamper = match &wish.tamper {
        None => None,
        Some(name) => Some(Tamper::from_name(name).ok_or_else(|| {
            let known = Tamper::ALL.map(Tamper::name).join(", ");
            ControlError::invalid(format!("tamper: expected one of {known}, found `{}`", name.escape_debug()))
        })?),
    };
    let duplicate = wish.duplicate.map_or(1, |Whole(copies)| copies);
    if !(1..=100).contains(&duplicate) {
        return Err(ControlError::invalid(format!("duplicate: expected 1 to 100 copies in all, found {duplicate}")));
    }
    Ok(FireRequest {
        event_type,
        data: wish.data.clone(),
        set: wish.set.clone().into_iter().collect(),
        subscription: wish.subscription.clone(),
        due: None,
        tamper,
        extra_copies: duplicate - 1,
        lost: wish.drop,
    })
}

/// Sets off a named emission of the active scenarios: the driver fires it as the scenario says.
fn fire_emission(
    control: &Control,
    workspace: &Arc<Workspace>,
    name: &str,
    wish: &Fire,
) -> Result<Reply, ControlError> {
    if wish.event_type.is_some() || wish.data.is_some() || !wish.set.is_empty() || wish.count.is_some() {
        return Err(ControlError::invalid(
            "emit: the scenario says what is fired; leave type, data, set and count out",
        ));
    }
    let setup = Arc::clone(control.library.load().setup_for(Some(workspace.name())));
    let Some(emit) = emit_named(setup.emits.iter(), name) else {
        let names: Vec<&str> = setup.emits.iter().filter_map(|emit| emit.name.as_deref()).collect();
        let known =
            if names.is_empty() { "none is named".to_owned() } else { format!("there are: {}", names.join(", ")) };
        let message = format!("no emission of the active scenarios is named `{}`; {known}", name.escape_debug());
        return Err(ControlError::not_found(message));
    };
    control.emissions.fire(workspace, emit, workspace.clock().moment());
    Ok(ok(json!({ "emit": name, "events": [] })))
}

/// How long a call waits, on the machine's time; `field` is what the call names it.
pub(super) fn wait_limit(field: &str, text: &str) -> Result<Duration, ControlError> {
    match parse_duration(text) {
        Ok(limit) if limit <= LONGEST_WAIT => Ok(limit),
        Ok(_) => Err(ControlError::invalid(format!("{field}: at most 300s"))),
        Err(problem) => Err(ControlError::invalid(format!("{field}: {problem}"))),
    }
}
