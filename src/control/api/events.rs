//! Events fired on command.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Bytes, Delivery, DeliveryId, DeliveryWhole, DurationInput, EventId, Form, Integer, KeyField, SubscriptionId, Time,
    Wait, WorkspaceId, endpoint,
};

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
    Row(Delivery),
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

/// An event with where it goes and where it does not.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Event {
    pub(crate) id: EventId,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) created_at: Time,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) body: Bytes,
    pub(crate) deliveries: Vec<Destination>,
    pub(crate) skipped: Vec<Skipped>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// Where an event goes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Destination {
    pub(crate) id: DeliveryId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) url: String,
}

/// Where an event does not go, and why.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Skipped {
    pub(crate) subscription: SubscriptionId,
    pub(crate) url: String,
    #[cfg_attr(test, schemars(extend("enum" = ["type_not_subscribed", "disabled", "not_named"])))]
    pub(crate) reason: String,
}

/// What can be falsified in a delivery; null for nothing.
#[cfg(test)]
fn tamper_names() -> Vec<Option<&'static str>> {
    use crate::contract::signature::Tamper;
    Tamper::ALL.map(Tamper::name).into_iter().map(Some).chain([None]).collect()
}
