//! Events: which subscriptions an event goes to, and why not to the others. The envelope is serialised once, here; every
//! attempt signs and sends these bytes.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use rand::RngExt as _;
use rand::SeedableRng as _;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::{Origin, State};
use crate::clock::{Instant, Now};
use crate::contract::ids::IdKind;
use crate::contract::nearest;
use crate::contract::rules::unsupported;
use crate::contract::signature::Tamper;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{EventEnvelope, SubscriptionStatus};
use crate::contract::variation::{Outermost, vary};
use crate::memory::kept;
use crate::profile::Profile;
use crate::template::{Gap, render_map};

/// A request to fire an event.
#[derive(Clone, Debug, Default)]
pub struct FireRequest {
    /// The event type.
    pub event_type: String,
    /// The whole `data`; the profile's default for the type when absent.
    pub data: Option<Map<String, Value>>,
    /// Single fields of `data` to change, by dotted path; each must be there already.
    pub set: Vec<(String, Value)>,
    /// One subscription instead of every matching one.
    pub subscription: Option<String>,
    /// When the first attempts are due; at once when absent.
    pub due: Option<Instant>,
    /// What is falsified in each delivery.
    pub tamper: Option<Tamper>,
    /// Copies of each delivery beside the first; at least as many in all as the profile wants.
    pub extra_copies: u32,
    /// Whether events of one call or trigger go out in another order than the one in which they happen.
    pub shuffled: bool,
    /// Whether nothing is delivered at all, as if it were lost on the way.
    pub lost: bool,
    /// Who fires it: named wherever deliveries are shown that are damaged on purpose.
    pub origin: Origin,
}

/// An event that was fired.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// Form `evt_<id>`.
    pub id: String,
    /// The workspace it belongs to.
    pub workspace: Arc<str>,
    /// The event type.
    pub event_type: String,
    /// When it occurred.
    pub created_at: Timestamp,
    /// When it was handed over to be delivered: when it happened, or later if it is delivered again.
    pub handed_at: Timestamp,
    /// The envelope's bytes as signed and sent.
    pub body: Bytes,
    /// When first attempts are due.
    pub due: Instant,
    /// Where it goes.
    pub deliveries: Vec<Arc<PlannedDelivery>>,
    /// Where it does not go, and why.
    pub skipped: Vec<SkippedSubscription>,
    /// What is falsified in each delivery.
    pub tamper: Option<Tamper>,
    /// Whether nothing is delivered at all, as if it were lost on the way.
    pub lost: bool,
    /// What is deliberately wrong with the deliveries, and who asked for it.
    pub damage: Option<Arc<str>>,
    /// Who fired it.
    pub origin: Origin,
    /// What its data lacks that was meant to be there; a few short texts.
    pub warnings: Vec<String>,
}

/// One event on its way to one subscription.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedDelivery {
    /// Form `dlv_<id>`.
    pub id: String,
    /// The subscription.
    pub subscription: String,
    /// The subscription's URL as it is dialled.
    #[serde(serialize_with = "as_text")]
    pub url: Arc<str>,
    /// The same, read.
    #[serde(skip)]
    pub target: Arc<Url>,
    /// Attempts made before it was handed over, as after the load of a snapshot; usually none.
    #[serde(skip)]
    pub attempts_before: u32,
}

/// A subscription that an event does not go to.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedSubscription {
    /// The subscription.
    pub subscription: String,
    /// Its URL.
    #[serde(serialize_with = "as_text")]
    pub url: Arc<str>,
    /// Why.
    pub reason: SkipReason,
}

/// Why an event does not go to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The event type is not among the subscribed ones.
    TypeNotSubscribed,
    /// A receiver answered 410 Gone.
    Disabled,
    /// Another subscription was named.
    NotNamed,
}

/// Why an event could not be fired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FireProblem {
    /// The type is none of the profile's.
    #[error("{0}")]
    UnsupportedType(String),
    /// The subscription named is not there.
    #[error("there is no subscription `{0}` in this workspace")]
    UnknownSubscription(String),
    /// A data path that leads nowhere.
    #[error("`{path}` means nothing in the data of {event_type}{hint}")]
    UnknownPath {
        /// The path.
        path: String,
        /// The event type.
        event_type: String,
        /// The nearest path, as the end of the sentence.
        hint: String,
    },
    /// The data's template cannot be rendered.
    #[error("{0}")]
    Template(String),
    /// Too many deliveries are pending.
    #[error("{0}")]
    Full(String),
}

impl State {
    /// Fires an event: makes its envelope and plans a delivery to each matching subscription, oldest first.
    pub fn fire(
        &mut self,
        workspace: &Arc<str>,
        request: FireRequest,
        profile: &Profile,
        now: Now,
    ) -> Result<EventRecord, FireProblem> {
        if !profile.events.types().any(|known| known == request.event_type) {
            return Err(FireProblem::UnsupportedType(unsupported(&request.event_type, &profile.events)));
        }
        if let Some(id) = request.subscription.as_ref().filter(|id| self.subscriptions.get(id).is_none()) {
            return Err(FireProblem::UnknownSubscription(id.clone()));
        }
        let (damage, copies) = (request.damage(profile), request.copies(profile) as usize);
        let template = match request.data {
            Some(data) => data,
            None => profile.events.data.get(&request.event_type).cloned().unwrap_or_default(),
        };
        let (mut data, gaps) = render_map(&template, &Map::new(), now.wall, || self.event_random().fork())
            .map_err(|problem| FireProblem::Template(problem.to_string()))?;
        // Without a request there is no data but the author's own.
        if let Some(failed) = gaps.iter().find_map(Gap::failure) {
            return Err(FireProblem::Template(format!("a template of the data cannot be rendered: {failed}")));
        }
        for (path, value) in request.set {
            set_path(&mut data, &path, value, &request.event_type)?;
        }
        let id = self.make_id(IdKind::Event, profile, now);
        let created_at = timestamp_of(&id, now.wall, profile.time.precision);
        let envelope = EventEnvelope { id, event_type: request.event_type, created_at, data };
        let mut body = serde_json::to_vec(&envelope).expect("strings and JSON values always serialise");
        if profile.variation.is_on() {
            body = vary(body, Outermost::Grows, &profile.variation, self.event_random());
        }
        let mut targets = Vec::new();
        let mut skipped = Vec::new();
        for record in self.subscriptions.iter() {
            let reason = if request.subscription.as_ref().is_some_and(|id| *id != record.id) {
                Some(SkipReason::NotNamed)
            } else if record.status == SubscriptionStatus::Disabled {
                Some(SkipReason::Disabled)
            } else if record.events.contains(&envelope.event_type) {
                None
            } else {
                Some(SkipReason::TypeNotSubscribed)
            };
            let subscription = record.id.clone();
            match reason {
                Some(reason) => {
                    let url = Arc::clone(&record.target_text);
                    skipped.push(SkippedSubscription { subscription, url, reason });
                }
                None => targets.push((subscription, Arc::clone(&record.target_text), Arc::clone(&record.target))),
            }
        }
        let deliveries = targets
            .into_iter()
            .flat_map(|target| std::iter::repeat_n(target, copies))
            .map(|(subscription, url, target)| {
                let id = self.make_id(IdKind::Delivery, profile, now);
                Arc::new(PlannedDelivery { id, subscription, url, target, attempts_before: 0 })
            })
            .collect();
        Ok(EventRecord {
            id: envelope.id,
            workspace: Arc::clone(workspace),
            event_type: envelope.event_type,
            created_at: now.wall,
            handed_at: now.wall,
            body: kept(body),
            due: request.due.unwrap_or(now.instant).plus(self.scatter(profile)),
            deliveries,
            skipped,
            tamper: request.tamper,
            lost: request.lost,
            damage,
            origin: request.origin,
            warnings: gaps.iter().map(|gap| gap.text("the event's data", "and an event has no request")).collect(),
        })
    }

    /// How long an event's first attempts wait; chance is drawn only if the profile lets them wait.
    fn scatter(&mut self, profile: &Profile) -> Duration {
        let longest = u64::try_from(profile.webhooks.scatter.get().as_millis()).unwrap_or(u64::MAX);
        if longest == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.event_random().random_range(0..=longest))
    }
}

fn as_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// Changes one field that is there already; a path that leads nowhere is a typing error, not a new field.
fn set_path(data: &mut Map<String, Value>, path: &str, value: Value, event_type: &str) -> Result<(), FireProblem> {
    let unknown =
        |hint: String| FireProblem::UnknownPath { path: path.to_owned(), event_type: event_type.to_owned(), hint };
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
        _ => Err(unknown(format!("; `{first}` is no object"))),
    }
}
