//! Deliveries of events to subscriptions: listed, shown, awaited, repeated; and what built-in receivers got.

use serde::{Deserialize, Serialize};

use super::{
    Bytes, DeliveryId, DurationInput, Empty, EventId, Form, Headers, Integer, KeyField, List, Millis, Nothing, Page,
    SubscriptionId, Time, Wait, WorkspaceId, endpoint,
};

endpoint! {
    /// Deliveries, newest first.
    ListDeliveries: GET "deliveries", Form::Masked, DeliveriesQuery, Nothing => Page<Delivery>;
    /// One delivery with each attempt.
    ShowDelivery: GET "deliveries/{id}", Form::Masked, Nothing, Nothing => DeliveryWhole;
    /// Wait until so many deliveries match.
    WaitDeliveries: POST "deliveries/wait", Form::Masked, Nothing, WaitForDeliveries => List<Delivery>;
    /// Send the same event to the same subscription again.
    Redeliver: POST "deliveries/{id}/redeliver", Form::Masked, Wait, Empty => Redelivered;
    /// What a built-in receiver got.
    ShowSink: GET "sink/{name}", Form::Masked, Nothing, Nothing => List<Receipt>;
    /// What a built-in receiver answers next.
    ScriptSink: POST "sink/{name}", Form::Masked, Nothing, SinkScript => Scripted;
}

/// Which deliveries are listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct DeliveriesQuery {
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<u16>", extend("default" = 20)))]
    pub(crate) limit: Option<String>,
    /// The `next_cursor` of another page.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9]{1,18}$")))]
    pub(crate) cursor: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<DeliveryStatus>"))]
    pub(crate) status: Option<String>,
    pub(crate) event: Option<String>,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    pub(crate) subscription: Option<String>,
}

/// Which deliveries are awaited, and how many.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForDeliveries {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(with = "Option<DeliveryStatus>"))]
    pub(crate) status: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) subscription: Option<String>,
    #[serde(rename = "type")]
    pub(crate) event_type: Option<String>,
    /// 1 if absent.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) count: Option<Integer<usize>>,
    /// 10s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The status of a delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryStatus {
    Pending,
    Delivered,
    Exhausted,
    Cancelled,
}

/// A delivery, with the number of its attempts in a listing, or with all of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Delivery{A}"))]
pub(crate) struct DeliveryWith<A> {
    pub(crate) id: DeliveryId,
    pub(crate) event: EventId,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) subscription: SubscriptionId,
    pub(crate) url: String,
    pub(crate) workspace: Option<WorkspaceId>,
    /// When the event happened.
    pub(crate) created_at: Time,
    pub(crate) status: DeliveryStatus,
    pub(crate) attempts: A,
    /// How the last attempt ended.
    pub(crate) last: Option<Outcome>,
    pub(crate) next_attempt_in_ms: Option<Millis>,
    pub(crate) note: Option<String>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    /// What became of a forged delivery.
    pub(crate) forgery: Option<Forgery>,
}

/// What a receiver did with a forged delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Forgery {
    Accepted,
    Refused,
}

/// A delivery as a row of a listing.
pub(crate) type Delivery = DeliveryWith<AttemptCount>;
/// A delivery with each attempt.
pub(crate) type DeliveryWhole = DeliveryWith<Attempts>;

/// How many attempts were made.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, rename = ""))]
#[serde(transparent)]
pub(crate) struct AttemptCount(pub(crate) u64);

/// Each attempt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, rename = "Whole"))]
#[serde(transparent)]
pub(crate) struct Attempts(pub(crate) Vec<Attempt>);

/// One attempt: what was signed and sent, what came back.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Attempt {
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(crate) number: u32,
    pub(crate) at: Time,
    pub(crate) url: String,
    /// Where it really went.
    pub(crate) dialled: String,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    pub(crate) request: Sent,
    pub(crate) signed_content: Bytes,
    pub(crate) outcome: Outcome,
    pub(crate) latency_ms: Millis,
}

/// What was sent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Sent {
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

/// How an attempt ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(untagged)]
pub(crate) enum Outcome {
    Answered { accepted: bool, status: u16, body: Bytes },
    Failed { accepted: bool, failure: String, detail: String },
}

/// The new delivery.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Redelivered {
    pub(crate) delivery: Option<DeliveryWhole>,
}

/// What a built-in receiver got.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Receipt {
    pub(crate) at: Time,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
    /// Whether the signature was right.
    pub(crate) verified: bool,
    /// Why it was not.
    pub(crate) problem: Option<String>,
    /// What the receiver answered.
    pub(crate) status: u16,
}

/// What a built-in receiver answers next.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SinkScript {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    /// Statuses, one for each answer.
    #[cfg_attr(test, schemars(length(max = 1000), inner(range(min = 200, max = 599))))]
    pub(crate) respond: Vec<Integer<u16>>,
}

/// The receiver is scripted.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Scripted {
    #[cfg_attr(test, schemars(extend("const" = true)))]
    pub(crate) scripted: bool,
}
