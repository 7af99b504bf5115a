//! Fires events: makes an event under its workspace's lock, which decides where it goes and where not, and queues its deliveries. The
//! envelope is serialised once, here; every attempt signs and sends these bytes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Bytes;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value};

use super::Engine;
use super::deliveries::{Cancellation, DeliveryRecord};
use crate::clock::{Now, Random};
use crate::contract::ids::IdKind;
use crate::contract::nearest;
use crate::contract::rules::unsupported;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::EventEnvelope;
use crate::contract::variation::{BodyKind, vary};
use crate::scenario::template::{Gap, render_map};
use crate::settings::Profile;
use crate::state::budget::NoRoom;
use crate::state::journal::Entry;
use crate::state::workspace::{
    EventRecord, FireRequest, HookUrl, PlannedDelivery, RandomSources, SkipReason, SkippedSubscription,
    SubscriptionRecord, Workspace, WorkspaceState,
};
use crate::util::wording::quoted;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FireProblem {
    #[error("{0}")]
    UnsupportedType(String),
    #[error("there is no subscription `{0}` in this workspace")]
    UnknownSubscription(String),
    #[error("`{path}` means nothing in the data of {event_type}{hint}")]
    UnknownPath {
        path: String,
        event_type: String,
        /// The nearest path, as the end of the sentence.
        hint: String,
    },
    #[error("{0}")]
    Template(String),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl Engine {
    pub fn fire(
        &self,
        workspace: &Arc<Workspace>,
        request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let event = self.make_event(workspace, request, profile)?;
        self.dispatch(workspace, Arc::clone(&event))?;
        Ok(event)
    }

    /// Makes an event with a planned delivery to each matching subscription, oldest first.
    pub fn make_event(
        &self,
        workspace: &Workspace,
        mut request: FireRequest,
        profile: &Profile,
    ) -> Result<Arc<EventRecord>, FireProblem> {
        let now = workspace.clock().now();
        let mut state = workspace.lock();
        if let Some(id) = request.subscription.as_ref().filter(|id| state.subscriptions.get(id).is_none()) {
            return Err(FireProblem::UnknownSubscription(quoted(id)));
        }
        let (id, body, gaps) = event_content(&mut request, profile, now, &mut state.sources)?;
        let (damage, copies) = (request.damage(profile), request.copies(profile) as usize);
        let (mut deliveries, mut skipped) = (Vec::new(), Vec::new());
        let WorkspaceState { subscriptions, sources, was_delayed, .. } = &mut *state;
        for record in subscriptions.iter() {
            let (subscription, url) = (&record.id, HookUrl::new(&record.url, Arc::clone(&record.target)));
            if let Some(reason) = skip_reason(record, &request) {
                skipped.push(SkippedSubscription { subscription: subscription.clone(), url, reason });
                continue;
            }
            deliveries.extend((0..copies).map(|_| {
                let id = sources.make_id(IdKind::Delivery, profile, now);
                let (subscription, url) = (subscription.clone(), url.clone());
                Arc::new(PlannedDelivery {
                    id,
                    subscription,
                    url,
                    attempts_before: 0,
                    due: None,
                    serial: OnceLock::new(),
                })
            }));
        }
        let delay = scatter(profile, &mut sources.event_random) + swap(profile, was_delayed);
        let event = EventRecord {
            id,
            workspace: Arc::clone(workspace.name()),
            event_type: request.event_type,
            created_at: now.wall,
            handed_at: now.wall,
            body,
            due: request.due.unwrap_or(now.instant).plus(delay),
            deliveries,
            skipped,
            tamper: request.tamper,
            lost: request.lost,
            damage,
            origin: request.origin,
            warnings: gaps.iter().map(|gap| gap.text("the event's data", "and an event has no request")).collect(),
        };
        self.room()?;
        Ok(Arc::new(event))
    }

    /// Delivers an event: enters its deliveries in the store, appends it to the journal and puts the deliveries into the
    /// workspace's queue. Does nothing if there is no room.
    pub fn dispatch(&self, workspace: &Arc<Workspace>, event: Arc<EventRecord>) -> Result<(), NoRoom> {
        self.room()?;
        self.put(workspace, event);
        Ok(())
    }

    /// The same for an event of a snapshot, for which there was room when it was read.
    pub(super) fn put(&self, workspace: &Arc<Workspace>, event: Arc<EventRecord>) {
        self.deliveries.enter(workspace, &event);
        self.journal.append_of(Some(workspace), Entry::Event(Arc::clone(&event)));
        if event.lost {
            let note = event.damage.as_deref().unwrap_or("dropped deliberately").to_owned();
            self.deliveries.cancel_all(&event, &Cancellation::Dropped(note));
        } else if workspace.is_gone() {
            self.deliveries.cancel_all(&event, &Cancellation::WorkspaceGone);
        } else if !event.deliveries.is_empty() && workspace.enqueue(&event) {
            // The receiver is closed once the emulator stops.
            let _ = self.to_deliver.send(Arc::clone(workspace));
        }
    }

    /// Sends the same event, with the same id and body but a new signature, to the same subscription again. Returns the new
    /// delivery's id.
    pub fn redeliver(&self, workspace: &Arc<Workspace>, old: &DeliveryRecord) -> Result<String, NoRoom> {
        let (now, profile) = (workspace.clock().now(), self.profile_for(Some(workspace.name())));
        let id = workspace.lock().sources.make_id(IdKind::Delivery, &profile, now);
        let (copied, serial) = (PlannedDelivery::clone(&old.planned), OnceLock::new());
        let planned = PlannedDelivery { id: id.clone(), attempts_before: 0, due: None, serial, ..copied };
        let event = EventRecord {
            deliveries: vec![Arc::new(planned)],
            skipped: Vec::new(),
            due: now.instant,
            handed_at: now.wall,
            ..EventRecord::clone(&old.event)
        };
        self.dispatch(workspace, Arc::new(event)).map(|()| id)
    }
}

/// The id and the bytes of an event, and what a template of its data lacked.
pub fn event_content(
    request: &mut FireRequest,
    profile: &Profile,
    now: Now,
    sources: &mut RandomSources,
) -> Result<(String, Bytes, Vec<Gap>), FireProblem> {
    if !profile.events.types().any(|known| known == request.event_type) {
        return Err(FireProblem::UnsupportedType(unsupported(&request.event_type, &profile.events)));
    }
    let (data, gaps) = event_data(request, profile, now, &mut sources.event_random)?;
    let id = sources.make_id(IdKind::Event, profile, now);
    let created_at = timestamp_of(&id, now.wall, profile.time.precision);
    let envelope = EventEnvelope { id, event_type: request.event_type.clone(), created_at, data };
    let mut body = serde_json::to_vec(&envelope).expect("strings and JSON values always serialise");
    if profile.variation.is_on() {
        body = vary(body, BodyKind::Event, &profile.variation, &mut sources.event_random);
    }
    Ok((envelope.id, body.into_boxed_slice().into(), gaps))
}

/// The data of an event, its templates rendered and single fields set, and what a template lacked.
fn event_data(
    request: &mut FireRequest,
    profile: &Profile,
    now: Now,
    random: &mut Random,
) -> Result<(Map<String, Value>, Vec<Gap>), FireProblem> {
    let usual = || profile.events.data.get(&request.event_type).cloned().unwrap_or_default();
    let template = request.data.take().unwrap_or_else(usual);
    let (mut data, gaps) =
        render_map(&template, &Map::new(), now.wall, || random.fork()).map_err(FireProblem::Template)?;
    // Events have no request whose data could be missing, so a failed template is the author's mistake.
    if let Some(failed) = gaps.iter().find_map(Gap::failure) {
        return Err(FireProblem::Template(format!("a template of the data cannot be rendered: {failed}")));
    }
    for (path, value) in std::mem::take(&mut request.set) {
        set_path(&mut data, &path, value, &request.event_type)?;
    }
    Ok((data, gaps))
}

/// Why an event does not go to a subscription; `None` if it does.
fn skip_reason(record: &SubscriptionRecord, request: &FireRequest) -> Option<SkipReason> {
    if request.subscription.as_ref().is_some_and(|id| *id != record.id) {
        Some(SkipReason::NotNamed)
    } else if record.disabled {
        Some(SkipReason::Disabled)
    } else if !record.events.contains(&request.event_type) {
        Some(SkipReason::TypeNotSubscribed)
    } else {
        None
    }
}

/// The random delay of an event's first attempts. A number is drawn only if the profile sets a delay, so that the setting's default
/// leaves other random values unchanged.
fn scatter(profile: &Profile, random: &mut Random) -> Duration {
    match u64::try_from(profile.webhooks.scatter.get().as_millis()).unwrap_or(u64::MAX) {
        0 => Duration::ZERO,
        longest => Duration::from_millis(random.random_range(0..=longest)),
    }
}

/// How long an event waits so that the one after it overtakes it: every other one, beginning with the first.
fn swap(profile: &Profile, was_delayed: &mut bool) -> Duration {
    let wait = profile.webhooks.swap.get();
    *was_delayed = !*was_delayed && !wait.is_zero();
    if *was_delayed { wait } else { Duration::ZERO }
}

/// Changes one existing field. An unknown path is an error and does not add a field, because it is most likely misspelled.
fn set_path(data: &mut Map<String, Value>, path: &str, value: Value, event_type: &str) -> Result<(), FireProblem> {
    let unknown =
        |hint: String| FireProblem::UnknownPath { path: quoted(path), event_type: event_type.to_owned(), hint };
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    if !data.contains_key(first) {
        let known = data.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        return Err(unknown(match nearest(first, data.keys().map(String::as_str)) {
            Some(name) => format!("; did you mean `{name}`?"),
            None if known.is_empty() => "; it has no fields".to_owned(),
            None => format!("; it has {known}"),
        }));
    }
    match (data.get_mut(first), rest) {
        (Some(place), None) => {
            *place = value;
            Ok(())
        }
        (Some(Value::Object(inner)), Some(rest)) => set_path(inner, rest, value, event_type),
        _ => Err(unknown(format!("; `{first}` is not an object"))),
    }
}
