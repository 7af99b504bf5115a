//! Events fired on command.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    AttemptResult, DeliveryRow, DeliveryStatus, DeliveryWhole, DurationInput, Event, EventId, Forgery, Form, Integer,
    KeyField, Wait, damage_text, destination, endpoint, name_of, outcome_text,
};
use crate::control::render::{Text, cell};
use crate::util::wording::counted;

endpoint! {
    /// Fire events at the matching subscriptions.
    FireEvents: POST "events", Form::Masked, Wait, Fire => Fired;
}

/// What is fired.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fire {
    #[serde(skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// In place of a type: the name of an emission of the active scenarios.
    pub(crate) emit: Option<String>,
    /// The whole data; the profile's default for the type if absent.
    pub(crate) data: Option<Map<String, Value>>,
    /// Single fields of the data, by dotted path.
    pub(crate) set: Map<String, Value>,
    pub(crate) subscription: Option<String>,
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) count: Option<Integer<usize>>,
    pub(crate) delay: Option<DurationInput>,
    /// What is falsified in each delivery.
    #[cfg_attr(test, schemars(extend("enum" = tamper_names())))]
    pub(crate) tamper: Option<String>,
    /// Copies of each delivery in all.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    pub(crate) duplicate: Option<Integer<u32>>,
    /// Whether the events go out in another order.
    pub(crate) shuffle: bool,
    /// Whether nothing is delivered, as if it were lost on the way.
    pub(crate) drop: bool,
}

/// What was fired.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Fired {
    /// If there are many, only their ids.
    pub(crate) events: Vec<FiredEvent>,
    /// What became of the deliveries, if the call waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deliveries: Option<Vec<DeliveryShown>>,
    /// The emission set off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) emit: Option<String>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
}

/// A delivery with its attempts, or, if there are many deliveries, with the number of its attempts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
pub(crate) enum DeliveryShown {
    Whole(DeliveryWhole),
    Row(DeliveryRow),
}

/// An event, or its id alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
pub(crate) enum FiredEvent {
    Whole(Event),
    Id(EventIdOnly),
}

/// An event of which only the id is shown.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(deny_unknown_fields)]
pub(crate) struct EventIdOnly {
    pub(crate) id: EventId,
}

impl DeliveryShown {
    pub(crate) fn status(&self) -> DeliveryStatus {
        match self {
            Self::Whole(whole) => whole.status,
            Self::Row(row) => row.status,
        }
    }

    pub(crate) fn forgery(&self) -> Option<Forgery> {
        match self {
            Self::Whole(whole) => whole.forgery,
            Self::Row(row) => row.forgery,
        }
    }

    pub(crate) fn last(&self) -> Option<&AttemptResult> {
        match self {
            Self::Whole(whole) => whole.last.as_ref(),
            Self::Row(row) => row.last.as_ref(),
        }
    }

    fn line(&self) -> String {
        let (id, url, dialled, note) = match self {
            Self::Whole(whole) => (&whole.id, &whole.url, whole.dialled(), &whole.note),
            Self::Row(row) => (&row.id, &row.url, None, &row.note),
        };
        let judged = match self.forgery() {
            Some(Forgery::Accepted) => "; accepted, but must be refused",
            Some(Forgery::Refused) => "; refused, as it should be",
            None => "",
        };
        let (status, to) = (name_of(self.status()), destination(url, dialled));
        let came = match (self.last(), note) {
            (None, Some(note)) => cell(note),
            (last, _) => outcome_text(last),
        };
        format!("  {id} {status} {to}: {came}{judged}\n")
    }
}

/// The fired events, and their deliveries if the call waited.
impl Text for Fired {
    fn text(&self) -> String {
        if let Some(name) = &self.emit {
            let damage = self.damage.as_ref().map_or_else(String::new, |damage| format!(": {}", cell(damage)));
            return format!("emission {} set off{damage}\n", cell(name));
        }
        let mut text = String::new();
        // For many events the answer has only their ids.
        if let [FiredEvent::Id(first), .., FiredEvent::Id(last)] = self.events.as_slice() {
            let (count, damage) = (counted(self.events.len(), "event"), damage_text(self.damage.as_deref()));
            text = format!("{count} fired, {} to {}{damage}\n", first.id, last.id);
        }
        for event in &self.events {
            let FiredEvent::Whole(event) = event else { continue };
            // One subscription may get several copies.
            let subscriptions: BTreeSet<&str> = event.deliveries.iter().map(|to| &*to.subscription.0).collect();
            let (kind, to) = (cell(&event.event_type), counted(subscriptions.len(), "subscription"));
            text.push_str(&format!("{} {kind} fired at {to}{}\n", event.id, damage_text(event.damage.as_deref())));
        }
        text.extend(self.deliveries.iter().flatten().map(DeliveryShown::line));
        text
    }
}

/// What can be falsified in a delivery; null for nothing.
#[cfg(test)]
fn tamper_names() -> Vec<Option<&'static str>> {
    use crate::contract::signature::Tamper;
    Tamper::ALL.map(Tamper::name).into_iter().map(Some).chain([None]).collect()
}
