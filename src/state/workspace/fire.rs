//! Firing an event: which subscriptions it goes to, and why not to the others. The envelope is serialised once, here; every
//! attempt signs and sends these bytes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rand::RngExt as _;
use rand::SeedableRng as _;
use serde_json::{Map, Value};

use super::{EventRecord, FireRequest, PlannedDelivery, SkipReason, SkippedSubscription, WorkspaceState};
use crate::clock::Now;
use crate::contract::ids::IdKind;
use crate::contract::nearest;
use crate::contract::rules::unsupported;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::EventEnvelope;
use crate::contract::variation::{BodyKind, vary};
use crate::scenario::template::{Gap, render_map};
use crate::settings::Profile;
use crate::state::budget::Full;

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
    Full(#[from] Full),
}

impl WorkspaceState {
    /// Fires an event: serialises its envelope and plans a delivery to each matching subscription, oldest first.
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
        let (mut data, gaps) = render_map(&template, &Map::new(), now.wall, || self.sources.event_random.fork())
            .map_err(FireProblem::Template)?;
        // Events have no request whose data could be missing, so a failed template is the author's mistake.
        if let Some(failed) = gaps.iter().find_map(Gap::failure) {
            return Err(FireProblem::Template(format!("a template of the data cannot be rendered: {failed}")));
        }
        for (path, value) in request.set {
            set_path(&mut data, &path, value, &request.event_type)?;
        }
        let id = self.sources.make_id(IdKind::Event, profile, now);
        let created_at = timestamp_of(&id, now.wall, profile.time.precision);
        let envelope = EventEnvelope { id, event_type: request.event_type, created_at, data };
        let mut body = serde_json::to_vec(&envelope).expect("strings and JSON values always serialise");
        if profile.variation.is_on() {
            body = vary(body, BodyKind::Event, &profile.variation, &mut self.sources.event_random);
        }
        let mut targets = Vec::new();
        let mut skipped = Vec::new();
        for record in self.subscriptions.iter() {
            let reason = if request.subscription.as_ref().is_some_and(|id| *id != record.id) {
                Some(SkipReason::NotNamed)
            } else if record.disabled {
                Some(SkipReason::Disabled)
            } else if record.events.contains(&envelope.event_type) {
                None
            } else {
                Some(SkipReason::TypeNotSubscribed)
            };
            let subscription = record.id.clone();
            match reason {
                Some(reason) => {
                    let url = Arc::clone(&record.target);
                    skipped.push(SkippedSubscription { subscription, url, reason });
                }
                None => targets.push((subscription, Arc::clone(&record.target))),
            }
        }
        let deliveries = targets
            .into_iter()
            .flat_map(|target| std::iter::repeat_n(target, copies))
            .map(|(subscription, url)| {
                let id = self.sources.make_id(IdKind::Delivery, profile, now);
                Arc::new(PlannedDelivery { id, subscription, url, attempts_before: 0, serial: OnceLock::new() })
            })
            .collect();
        let event = EventRecord {
            id: envelope.id,
            workspace: Arc::clone(workspace),
            event_type: envelope.event_type,
            created_at: now.wall,
            handed_at: now.wall,
            body: body.into_boxed_slice().into(),
            due: request.due.unwrap_or(now.instant).plus(self.scatter(profile)).plus(self.swap(profile)),
            deliveries,
            skipped,
            tamper: request.tamper,
            lost: request.lost,
            damage,
            origin: request.origin,
            warnings: gaps.iter().map(|gap| gap.text("the event's data", "and an event has no request")).collect(),
            charge: None,
        };
        event.charged(self.budget()).map_err(FireProblem::Full)
    }

    /// The random delay of an event's first attempts. A number is drawn only if the profile sets a delay, so that the setting's
    /// default leaves other random values unchanged.
    fn scatter(&mut self, profile: &Profile) -> Duration {
        let longest = u64::try_from(profile.webhooks.scatter.get().as_millis()).unwrap_or(u64::MAX);
        if longest == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.sources.event_random.random_range(0..=longest))
    }

    /// How long an event waits so that the one after it overtakes it: every other one, beginning with the first.
    fn swap(&mut self, profile: &Profile) -> Duration {
        let wait = profile.webhooks.swap.get();
        self.held_back = !self.held_back && !wait.is_zero();
        if self.held_back { wait } else { Duration::ZERO }
    }
}

/// Changes one existing field. An unknown path is an error and does not add a field, as it is most likely misspelled.
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
        _ => Err(unknown(format!("; `{first}` is not an object"))),
    }
}
