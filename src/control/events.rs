//! `POST events`: fires events at the matching subscriptions, and says what became of them if asked to wait.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::KeyField;
use super::scope::workspace;
use super::view::{delivery_row, delivery_whole, event};
use super::whole::Whole;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::profile::parse_duration;
use crate::contract::signature::Tamper;
use crate::contract::types::SubscriptionStatus;
use crate::redact::Redactor;
use crate::scenario::emit_named;
use crate::webhook::book::{DeliveryRecord, Full};
use crate::webhook::deliver::hand_over;
use crate::webhook::emitter::fire_request as emitted;
use crate::webhook::held;
use crate::workspace::{EventRecord, FireRequest, Origin, SkipReason, Workspace};

/// Most events fired by one call.
pub(crate) const MOST_EVENTS: usize = 10_000;
/// Longest a call waits for outcomes.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(5);

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
    #[serde(default, rename = "key")]
    _key: KeyField,
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

/// Most events whose deliveries and bodies are shown in the answer, and most bytes of those bodies; of more only the ids are.
pub(crate) const MOST_SHOWN: usize = 100;
pub(crate) const MOST_SHOWN_BYTES: usize = 1024 * 1024;

pub(super) async fn fire(control: &Arc<Control>, call: Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["wait"])?;
    let wait = call.query("wait").map(|text| wait_limit("wait", &text)).transpose()?;
    let (call, firing) = (Arc::new(call), Arc::clone(control));
    let fired = control.blocking.run({
        let call = Arc::clone(&call);
        move || fire_all(&firing, &call)
    });
    let fired = fired.await?;
    let deliveries = match wait {
        Some(limit) => Some(control.book.wait_attempted(&fired.deliveries, limit).await),
        None => None,
    };
    let showing = Arc::clone(control);
    let shown = move || ok(fired.with_outcomes(deliveries, &showing, call.redactor())).written(call.redactor());
    Ok(control.blocking.run(shown).await)
}

/// What a call has fired.
struct Fired {
    answer: Value,
    /// The ids of all deliveries.
    deliveries: Vec<String>,
    /// Whether there are few enough to show them with their attempts.
    is_shown: bool,
}

impl Fired {
    /// The answer with what became of the deliveries, if somebody waited for that.
    fn with_outcomes(
        self,
        deliveries: Option<Vec<DeliveryRecord>>,
        control: &Control,
        redactor: Redactor<'_>,
    ) -> Value {
        let mut answer = self.answer;
        if let Some(deliveries) = deliveries {
            let show = if self.is_shown && deliveries.len() <= MOST_SHOWN { delivery_whole } else { delivery_row };
            let shown = deliveries.iter().map(|delivery| show(delivery, &control.registry, redactor));
            answer["deliveries"] = shown.collect();
        }
        answer
    }
}

fn fire_all(control: &Control, call: &Call) -> Result<Fired, ControlError> {
    let wish: Fire = call.json()?;
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
    let workspace = workspace(control, call.key()?.as_deref())?;
    if let Some(name) = &wish.emit {
        let answer = fire_emission(control, &workspace, name, &wish)?;
        return Ok(Fired { answer, deliveries: Vec::new(), is_shown: true });
    }
    let profile = Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile);
    let template = fire_request(&wish)?;
    // An answer or a shuffle keeps events that would otherwise be gone when their deliveries are.
    let (mut events, mut kept, mut ids, mut deliveries, mut bytes) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..count {
        let now = workspace.clock().now();
        let request = FireRequest { due: delay.map(|delay| now.moment.plus(delay)), ..template.clone() };
        let event = workspace.lock().fire(workspace.name(), request, &profile, now);
        let event = Arc::new(event.map_err(|problem| ControlError::invalid(problem.to_string()))?);
        bytes += event.body.len();
        if wish.shuffle {
            if bytes > held::MOST_BYTES {
                return Err(too_many_pending(Full::Bytes));
            }
            events.push(Arc::clone(&event));
        } else {
            let handed = hand_over(&control.journal, &control.book, &workspace, Arc::clone(&event));
            handed.map_err(|full| partly_fired(full, ids.len(), count))?;
        }
        ids.push(event.id.clone());
        deliveries.extend(event.deliveries.iter().map(|delivery| delivery.id.clone()));
        if kept.len() < MOST_SHOWN && bytes <= MOST_SHOWN_BYTES {
            kept.push(event);
        }
    }
    if wish.shuffle {
        let in_order = events.clone();
        events.shuffle(workspace.lock().event_random());
        if events.len() > 1 && events.iter().zip(&in_order).all(|(one, other)| Arc::ptr_eq(one, other)) {
            events.rotate_left(1);
        }
        for (done, event) in events.into_iter().enumerate() {
            let handed = hand_over(&control.journal, &control.book, &workspace, event);
            handed.map_err(|full| partly_fired(full, done, count))?;
        }
    }
    let is_shown = kept.len() == count;
    let events: Value = if is_shown {
        kept.iter().map(|record| event(record, &control.registry, call.redactor())).collect()
    } else {
        ids.iter().map(|id| json!({ "id": id })).collect()
    };
    if deliveries.is_empty() {
        return Err(
            no_match(control, call.redactor(), &workspace, kept.first(), &template.event_type).beside("events", events)
        );
    }
    let answer = json!({ "events": events, "damage": template.damage().as_deref() });
    Ok(Fired { answer, deliveries, is_shown })
}

/// Refuses what would make too many deliveries pending.
pub(super) fn too_many_pending(full: Full) -> ControlError {
    let hint = "let some arrive, or drop them with POST /_emulator/reset";
    ControlError::invalid(format!("{full}; {hint}")).coded("too_many_pending")
}

fn partly_fired(full: Full, fired: usize, count: usize) -> ControlError {
    ControlError::invalid(format!("{full}; {fired} of {count} events were fired")).coded("too_many_pending")
}

/// Says why an event goes to nobody.
fn no_match(
    control: &Control,
    redactor: Redactor<'_>,
    workspace: &Arc<Workspace>,
    event: Option<&Arc<EventRecord>>,
    event_type: &str,
) -> ControlError {
    let skipped = event.map(|event| event.skipped.as_slice()).unwrap_or_default();
    let disabled = skipped.iter().filter(|skipped| skipped.reason == SkipReason::Disabled).count();
    let whose = format!("key `{}` (workspace {})", redactor.key(workspace.name()), workspace.id());
    let message = match (skipped.len(), disabled) {
        (0, _) => format!(
            "no subscription for {whose}; {}subscribe with POST /v1/events/subscribe first, or name another key",
            elsewhere(control, redactor, workspace, event_type)
        ),
        (all, 0) => format!("none of the {all} subscriptions for {whose} takes {event_type}"),
        (all, gone) => format!(
            "none of the {all} subscriptions for {whose} takes {event_type}: {gone} disabled by 410 Gone until subscribed again"
        ),
    };
    let id = event.map_or("", |event| &event.id);
    ControlError::not_found(format!("{message}; `explain {id}` says why not, one by one")).coded("no_match")
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
        shuffled: wish.shuffle && wish.count.is_some_and(|Whole(count)| count > 1),
        lost: wish.drop,
        origin: Origin::Command,
    })
}

/// Sets off a named emission of the active scenarios: the driver fires it as the scenario says.
fn fire_emission(
    control: &Control,
    workspace: &Arc<Workspace>,
    name: &str,
    wish: &Fire,
) -> Result<Value, ControlError> {
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
    let damage = emitted(&emit).damage();
    control.emissions.fire(workspace, emit, workspace.clock().moment());
    Ok(json!({ "emit": name, "events": [], "damage": damage.as_deref() }))
}

/// How long a call waits, on the machine's time; `field` is what the call names it.
pub(super) fn wait_limit(field: &str, text: &str) -> Result<Duration, ControlError> {
    match parse_duration(text) {
        Ok(limit) if limit <= LONGEST_WAIT => Ok(limit),
        Ok(_) => Err(ControlError::invalid(format!("{field}: at most 300s"))),
        Err(problem) => Err(ControlError::invalid(format!("{field}: {problem}"))),
    }
}
