//! `POST events`: fires events at the matching subscriptions, and returns the outcome of their deliveries if asked to wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Call, ControlCall, Tag};
use super::context::{Context, duration, wait_limit};
use super::diagnosis::key_to_name;
use super::fields::{DurationInput, Integer, KeyOrSample, not_one_of};
use super::render::{Text, cell};
use super::reply::{EventIdOnly, FiredEvent};
use super::requests::shown_body;
use super::story::{damage_text, destination, forgery_text, outcome_text};
use super::{Control, ControlError, deliveries};
use crate::advice::{Advice, Audience, BUILT_IN_RECEIVER};
use crate::contract::keys::SAMPLE_KEY;
use crate::contract::signature::Tamper;
use crate::redact::Redactor;
use crate::scenario::emit_named;
use crate::state::budget::NoRoom;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::engine::{FireProblem, fire_request_of, wait_for_events};
use crate::state::journal::record::{
    Attempt, AttemptResult, DeliveryWith, Event, EventTarget, Millis, Skipped, name_of, time,
};
use crate::state::workspace::{
    DeliveryStatus, EventRecord, FireRequest, Origin, Registry, SkipReason, SkippedSubscription, Workspace,
};
use crate::util::duration::duration_text;
use crate::util::tasks::spawn_blocking;
use crate::util::wording::{counted, quoted};

/// Fire events at the matching subscriptions.
///
/// Names an event type, or with `emit` an emission of the active scenarios. With `wait`, the answer has what each receiver answered.
/// `damage` names the deliberate fault and who asked for it. Events that match no subscription are a 404 `no_match`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Fire {
    pub(crate) query: FireQuery,
    pub(crate) body: FireBody,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct FireQuery {
    /// How long the call waits for each first attempt before it answers, at most 300s; for the end of each delivery if the clock is
    /// automatic, because retries then need no time.
    pub(crate) wait: Option<DurationInput>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[schemars(extend("not" = not_one_of(&["type", "emit"]), "examples" = [{ "type": "workflow.completed" }]))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FireBody {
    pub(crate) key: KeyOrSample,
    /// The event type, such as workflow.completed. Either this or `emit` is needed.
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// The name of an emission of the active scenarios, instead of a type.
    pub(crate) emit: Option<String>,
    /// The whole data; the profile's default for the type if absent.
    pub(crate) data: Option<Map<String, Value>>,
    /// Single fields of the data, by dotted path.
    pub(crate) set: Map<String, Value>,
    /// Only this subscription, sub_….
    pub(crate) subscription: Option<String>,
    /// How many events.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) count: Option<Integer<usize>>,
    /// Delay of the first attempts by the emulator's clock, such as 5s.
    pub(crate) delay: Option<DurationInput>,
    /// The falsified part of each delivery, which a receiver must refuse: body, signature, secret, timestamp, …
    #[schemars(extend("enum" = tamper_names()))]
    pub(crate) tamper: Option<String>,
    /// Copies of each delivery in all.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) duplicate: Option<Integer<u32>>,
    /// True if the events go out in another order.
    pub(crate) shuffle: bool,
    /// True if nothing is delivered, as if the delivery were lost.
    pub(crate) drop: bool,
}

impl ControlCall for Fire {
    type Answer = Fired;

    fn call() -> Call {
        Call::waits::<Self, _>(Tag::WEBHOOKS, "POST events", fire)
    }
}

/// The fired events.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Fired {
    /// Whose subscriptions: a test key whole, any other masked.
    pub(crate) key: String,
    /// If there are many, only their ids.
    pub(crate) events: Vec<FiredEvent>,
    /// The deliveries and their outcomes, if the call waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<DeliverySchema>>")]
    pub(crate) deliveries: Option<Vec<DeliveryShown>>,
    /// The limit of the wait, if the call waited; each delivery may have taken longer than its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waited_for: Option<WaitedFor>,
    /// The emission set off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) emit: Option<String>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
}

/// The point in each delivery that a call that fires events waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitedFor {
    FirstAttempt,
    /// While the clock is automatic.
    End,
}

/// A delivery with its attempts, or, if there are many deliveries, with the number of its attempts.
pub(crate) type DeliveryShown = DeliveryWith<AttemptsShown>;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum AttemptsShown {
    Each(Vec<Attempt>),
    Count(u64),
}

/// A delivery with its attempts, or, if there are many deliveries, with the number of its attempts.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "a schema")]
enum DeliverySchema {
    Whole(crate::state::journal::record::DeliveryWhole),
    Row(crate::state::journal::record::DeliveryRow),
}

fn delivery_line(delivery: &DeliveryShown, reader: &Audience) -> String {
    let DeliveryShown { id, url, attempts, last, note, .. } = delivery;
    let dialled = match attempts {
        AttemptsShown::Each(attempts) => attempts.last().map(|attempt| attempt.dialled.as_str()),
        AttemptsShown::Count(_) => None,
    };
    let judged = forgery_text(delivery.forgery);
    let came = match (last, note) {
        (None, Some(note)) => cell(note),
        (Some(AttemptResult::Failed { hint: Some(hint), .. }), _) => {
            format!("{}; {}", outcome_text(last.as_ref()), cell(hint.line(reader)))
        }
        (last, _) => outcome_text(last.as_ref()),
    };
    let made = match attempts {
        AttemptsShown::Each(attempts) => attempts.len() as u64,
        AttemptsShown::Count(made) => *made,
    };
    let next = delivery.next_attempt_in_ms.filter(|_| made > 0 && delivery.status == DeliveryStatus::Pending);
    let next = next.map_or_else(String::new, |Millis(wait)| {
        let wait = duration_text(Duration::from_secs_f64(wait.max(0.0) / 1000.0));
        format!("; attempt {made} failed, the next is due in {wait}")
    });
    format!("  {id} {} {}: {came}{judged}{next}\n", name_of(delivery.status), destination(url, dialled))
}

/// The fired events, and their deliveries if the call waited.
impl Text for Fired {
    fn text(&self, reader: &Audience) -> String {
        if let Some(name) = &self.emit {
            let damage = self.damage.as_ref().map_or_else(String::new, |damage| format!(": {}", cell(damage)));
            return format!("emission {} set off{damage}\n", cell(name));
        }
        let mut text = String::new();
        // For many events the answer has only their ids.
        if let [FiredEvent::Id(first), .., FiredEvent::Id(last)] = self.events.as_slice() {
            let (count, damage) = (counted(self.events.len(), "event"), damage_text(self.damage.as_deref()));
            text = format!("{count} fired for {}, {} to {}{damage}\n", cell(&self.key), first.id, last.id);
        }
        for event in &self.events {
            let FiredEvent::Whole(event) = event else { continue };
            // One subscription may get several copies.
            let subscriptions: BTreeSet<&str> = event.deliveries.iter().map(|to| &*to.subscription.0).collect();
            let (kind, to) = (cell(&event.event_type), counted(subscriptions.len(), "subscription"));
            let (key, damage) = (cell(&self.key), damage_text(event.damage.as_deref()));
            text.push_str(&format!("{} {kind} fired for {key} at {to}{damage}\n", event.id));
        }
        text.extend(self.deliveries.iter().flatten().map(|delivery| delivery_line(delivery, reader)));
        text
    }
}

/// The part to falsify in a delivery; null for none.
pub(super) fn tamper_names() -> Vec<Option<&'static str>> {
    Tamper::ALL.map(Tamper::name).into_iter().map(Some).chain([None]).collect()
}

pub(super) fn tamper_named(name: Option<&str>) -> Result<Option<Tamper>, ControlError> {
    let known = |name: &str| {
        Tamper::from_name(name).ok_or_else(|| {
            let known = Tamper::ALL.map(Tamper::name).join(", ");
            ControlError::unexpected("tamper", &format!("one of {known}"), name)
        })
    };
    name.map(known).transpose()
}

const MAX_EVENTS: usize = 10_000;

/// Maximum number of events, and bytes of their bodies, that are returned in full; beyond that the answer has only ids.
const MAX_SHOWN: usize = 100;
const MAX_SHOWN_BYTES: usize = 1024 * 1024;

async fn fire(Fire { query, body: request }: Fire, cx: Arc<Context>) -> Result<Fired, ControlError> {
    let wait = query.wait.as_ref().map(|wait| wait_limit("wait", wait)).transpose()?;
    if let Some(name) = &request.emit {
        if wait.is_some() {
            let message = "wait: an emission may fire later; leave it out, and follow `GET deliveries`";
            return Err(ControlError::invalid(message));
        }
        return fire_emission(&request, &cx, name).await;
    }
    let firing = Firing::of(&request)?;
    let workspace = opened(&cx.control, &request.key).await?;
    wait_for_events(&workspace).await;
    // Not in the lane of changes, as other changes would wait for thousands of events.
    let fired = {
        let (cx, shuffle, workspace) = (Arc::clone(&cx), request.shuffle, Arc::clone(&workspace));
        spawn_blocking(move || fire_all(&cx, shuffle, &workspace, firing)).await
    };
    let (mut answer, deliveries) = fired.map_err(|_| ControlError::internal())??;
    let Some(limit) = wait else { return Ok(answer) };
    let clock = workspace.clock().clone();
    let tried = cx.engine.deliveries.wait_tried(&deliveries, limit, &clock);
    let records = cx.engine.while_time_passes(Some(workspace), tried).await;
    answer.waited_for = Some(if clock.is_auto() { WaitedFor::End } else { WaitedFor::FirstAttempt });
    let control = Arc::clone(&cx.control);
    let show = move |control: &Control| {
        let (registry, redactor) = (&control.engine.registry, cx.redactor());
        let is_shown = records.len() <= MAX_SHOWN && !matches!(answer.events.first(), Some(FiredEvent::Id(_)));
        let shown = |record: &DeliveryRecord| {
            let attempts = if is_shown {
                AttemptsShown::Each(deliveries::attempts(record, redactor))
            } else {
                AttemptsShown::Count(record.made.into())
            };
            deliveries::with(record, attempts, registry, redactor)
        };
        answer.deliveries = Some(records.iter().map(shown).collect());
        answer
    };
    Ok(control.run_to_end(show).await)
}

/// The workspace of a key, as for `scope_soon`.
async fn opened(control: &Arc<Control>, key: &KeyOrSample) -> Result<Arc<Workspace>, ControlError> {
    let key = key.clone();
    Ok(control.run_to_end(move |control| control.engine.workspace(key.meant())).await?)
}

/// Fires the events of a call. Returns the answer and the ids of all deliveries.
fn fire_all(
    cx: &Context,
    shuffle: bool,
    workspace: &Arc<Workspace>,
    Firing { template, count, delay }: Firing,
) -> Result<(Fired, Vec<String>), ControlError> {
    let profile = cx.engine.profile_for(Some(workspace.name()));
    let (mut ids, mut deliveries, mut bytes) = (Vec::new(), Vec::new(), 0);
    // Of the other events only the ids are kept, because the store drops events with their deliveries.
    let (mut shown_events, mut to_shuffle) = (Vec::new(), Vec::new());
    while ids.len() < count && !cx.control.stopping.is_raised() {
        let now = workspace.clock().now();
        let next = FireRequest { due: delay.map(|delay| now.instant.plus(delay)), ..template.clone() };
        let made = if shuffle {
            cx.engine.make_event(workspace, next, &profile)
        } else {
            cx.engine.fire(workspace, next, &profile)
        };
        let event = made.map_err(|problem| match problem {
            FireProblem::NoRoom(full) => partly_fired(full, ids.len(), count),
            problem => ControlError::invalid(problem.to_string()),
        })?;
        bytes += event.body.len();
        ids.push(event.id.clone());
        deliveries.extend(event.deliveries.iter().map(|delivery| delivery.id.clone()));
        if shown_events.len() < MAX_SHOWN && bytes <= MAX_SHOWN_BYTES {
            shown_events.push(Arc::clone(&event));
        }
        if shuffle {
            to_shuffle.push(event);
        }
    }
    deliver_shuffled(&cx.control, workspace, to_shuffle)?;
    let redactor = cx.redactor();
    let events: Vec<FiredEvent> = if shown_events.len() == count {
        shown_events.iter().map(|event| FiredEvent::Whole(to_view(event, &cx.engine.registry, redactor))).collect()
    } else {
        ids.into_iter().map(|id| FiredEvent::Id(EventIdOnly { id: id.into() })).collect()
    };
    if deliveries.is_empty() {
        let problem = no_match(&cx.control, redactor, workspace, shown_events.first(), &template.event_type);
        return Err(problem.with(|error| error.events = Some(events)));
    }
    let damage = template.damage(&profile).as_deref().map(str::to_owned);
    let key = redactor.key(workspace.name()).into_owned();
    Ok((Fired { key, events, damage, ..Fired::default() }, deliveries))
}

/// Delivers events in another order than that in which they were made.
fn deliver_shuffled(
    control: &Control,
    workspace: &Arc<Workspace>,
    mut events: Vec<Arc<EventRecord>>,
) -> Result<(), ControlError> {
    let (count, in_order) = (events.len(), events.clone());
    events.shuffle(&mut workspace.lock().sources.event_random);
    if count > 1 && events.iter().zip(&in_order).all(|(one, other)| Arc::ptr_eq(one, other)) {
        events.rotate_left(1);
    }
    for (done, event) in events.into_iter().enumerate() {
        control.engine.dispatch(workspace, event).map_err(|full| partly_fired(full, done, count))?;
    }
    Ok(())
}

fn partly_fired(full: NoRoom, fired: usize, count: usize) -> ControlError {
    ControlError::invalid(format!("{full}; {fired} of {count} events were fired")).coded("too_many_pending")
}

/// Maximum number of types that the refusal of an event names.
const MAX_TYPES: usize = 5;
/// Maximum number of disabled subscriptions that the refusal of an event names.
const MAX_ENABLED: usize = 3;

/// The 404 for an event without a receiver, with the reason.
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
    let key = (workspace.name().as_ref() != SAMPLE_KEY).then(|| key_to_name(workspace, redactor));
    let (message, advice) = match (skipped.len(), disabled) {
        (0, _) => {
            let others = subscribed_elsewhere(control, workspace, event_type);
            let there = named_elsewhere(&others, redactor);
            let message = format!(
                "no subscription for {whose}; {there}subscribe first, or let a program of your own listen, or name another key"
            );
            let of_other = others.first().map(|other| Advice::Fire {
                event_type: event_type.to_owned(),
                tamper: None,
                duplicate: None,
                key: Some(key_to_name(other, redactor)),
            });
            let subscribe = Advice::Subscribe { url: BUILT_IN_RECEIVER.to_owned(), key: key.clone() };
            let listen = Advice::Listen { url: "localhost:3000/hooks".to_owned(), key };
            (message, of_other.into_iter().chain([subscribe, listen]).collect())
        }
        (_, 0) => {
            let for_others = types_instead(workspace, skipped);
            let message =
                format!("{for_others} of {whose}: fire one of these types, or subscribe for {event_type} as well");
            (message, Vec::new())
        }
        (all, gone) => (
            format!(
                "none of the {all} subscriptions for {whose} is for {event_type}: {gone} disabled, by a 410 of the receiver or by a call"
            ),
            skipped
                .iter()
                .filter(|skipped| skipped.reason == SkipReason::Disabled)
                .take(MAX_ENABLED)
                .map(|skipped| Advice::EnableSubscription { id: skipped.subscription.clone() })
                .collect(),
        ),
    };
    let why = event.filter(|_| !skipped.is_empty()).map(|event| Advice::explain(&*event.id));
    ControlError::not_found(message).coded("no_match").advising(why.into_iter().chain(advice).collect())
}

/// The subscriptions that were skipped because of the event's type, and the types that they are for.
fn types_instead(workspace: &Workspace, skipped: &[SkippedSubscription]) -> String {
    let others: Vec<_> = skipped
        .iter()
        .filter(|skipped| skipped.reason == SkipReason::TypeNotSubscribed)
        .map(|it| &it.subscription)
        .collect();
    let state = workspace.lock();
    let records = others.iter().filter_map(|id| state.subscriptions.get(id));
    let types: BTreeSet<&str> = records.flat_map(|record| record.events.iter().map(String::as_str)).collect();
    let mut named = types.iter().take(MAX_TYPES).copied().collect::<Vec<_>>().join(" and ");
    if let Some(more @ 1..) = types.len().checked_sub(MAX_TYPES) {
        named.push_str(&format!(" and {more} more"));
    }
    let go = if types.len() == 1 { "goes" } else { "go" };
    match others.as_slice() {
        [one] => format!("only {named} {go} to the subscription {one}"),
        all => format!("only {named} {go} to the {} subscriptions", all.len()),
    }
}

/// Other keys that would have received the event: the caller may have named the wrong one.
fn subscribed_elsewhere(control: &Control, workspace: &Arc<Workspace>, event_type: &str) -> Vec<Arc<Workspace>> {
    let subscribes = |other: &Arc<Workspace>| {
        let state = other.lock();
        let mut active = state.subscriptions.iter().filter(|record| !record.disabled);
        active.any(|record| record.events.iter().any(|event| event == event_type))
    };
    let all = control.engine.registry.all().into_iter();
    all.filter(|other| !Arc::ptr_eq(other, workspace) && subscribes(other)).collect()
}

fn named_elsewhere(others: &[Arc<Workspace>], redactor: Redactor<'_>) -> String {
    const MAX_NAMED: usize = 3;
    let named: Vec<String> = others
        .iter()
        .take(MAX_NAMED)
        .map(|other| format!("`{}` (workspace {})", redactor.key(other.name()), other.id()))
        .collect();
    match others.len().saturating_sub(MAX_NAMED) {
        _ if named.is_empty() => String::new(),
        0 => format!("there is one for {}; ", named.join(", ")),
        more => format!("there is one for {} and {more} more; ", named.join(", ")),
    }
}

/// The events that a call fires, validated.
struct Firing {
    /// Each event, without the time at which it is due.
    template: FireRequest,
    count: usize,
    delay: Option<Duration>,
}

impl Firing {
    fn of(request: &FireBody) -> Result<Self, ControlError> {
        let count = request.count.map_or(1, |Integer(count)| count);
        if !(1..=MAX_EVENTS).contains(&count) {
            return Err(ControlError::invalid(format!("count: expected 1 to {MAX_EVENTS}, found {count}")));
        }
        let Some(event_type) = request.event_type.clone() else {
            return Err(ControlError::invalid("body: missing field `type`"));
        };
        let tamper = tamper_named(request.tamper.as_deref())?;
        let duplicate = request.duplicate.map_or(1, |Integer(copies)| copies);
        if !(1..=100).contains(&duplicate) {
            return Err(ControlError::invalid(format!(
                "duplicate: expected 1 to 100 copies in all, found {duplicate}"
            )));
        }
        let delay = request.delay.as_ref().map(|delay| duration("delay", delay)).transpose()?;
        let template = FireRequest {
            event_type,
            data: request.data.clone(),
            set: request.set.clone().into_iter().collect(),
            subscription: request.subscription.clone(),
            due: None,
            tamper,
            extra_copies: duplicate - 1,
            shuffled: request.shuffle && count > 1,
            lost: request.drop,
            origin: Origin::Command,
        };
        Ok(Self { template, count, delay })
    }
}

/// Triggers a named emission of the active scenarios, which fires as the scenario defines.
async fn fire_emission(request: &FireBody, cx: &Context, name: &str) -> Result<Fired, ControlError> {
    let rest = FireBody { key: KeyOrSample::default(), emit: None, ..request.clone() };
    if rest != FireBody::default() {
        return Err(ControlError::invalid(
            "emit: the scenario defines the events; only `key` may be given with `emit`",
        ));
    }
    let workspace = opened(&cx.control, &request.key).await?;
    let config = cx.engine.config_for(Some(workspace.name()));
    let Some(emit) = emit_named(config.emits.iter(), name) else {
        let names: Vec<&str> = config.emits.iter().filter_map(|emit| emit.name.as_deref()).collect();
        let known =
            if names.is_empty() { "none is named".to_owned() } else { format!("there are: {}", names.join(", ")) };
        let message = format!("no emission of the active scenarios is named `{}`; {known}", quoted(name));
        return Err(ControlError::not_found(message));
    };
    let damage = emit.event().and_then(|_| fire_request_of(&emit).damage(&config.profile));
    cx.engine.plan_emission(&workspace, &emit, workspace.clock().instant());
    let _ = cx.engine.fire_soon(&workspace).await;
    let damage = damage.as_deref().map(str::to_owned);
    Ok(Fired { emit: Some(name.to_owned()), damage, ..Fired::default() })
}

/// An event with where it goes and where it does not.
pub(super) fn to_view(event: &EventRecord, registry: &Registry, redactor: Redactor<'_>) -> Event {
    let skipped = |skipped: &SkippedSubscription| Skipped {
        subscription: skipped.subscription.as_str().into(),
        url: skipped.url.to_string(),
        reason: name_of(skipped.reason),
    };
    Event {
        id: event.id.as_str().into(),
        event_type: event.event_type.clone(),
        created_at: time(event.created_at),
        workspace: registry.find(&event.workspace).map(|workspace| workspace.id().into()),
        body: shown_body(redactor, &event.body),
        deliveries: event
            .deliveries
            .iter()
            .map(|delivery| EventTarget {
                id: delivery.id.as_str().into(),
                subscription: delivery.subscription.as_str().into(),
                url: delivery.url.to_string(),
            })
            .collect(),
        skipped: event.skipped.iter().map(skipped).collect(),
        damage: event.damage.as_deref().map(str::to_owned),
        warnings: event.warnings.clone(),
    }
}
