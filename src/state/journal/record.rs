//! Requests, events, deliveries, attempts and notices as they are shown: the one form that the control API, the run document, HAR, the
//! review and the command line write and read.
//!
//! The journal keeps another form for a reason: it has the bytes as received, credentials included, in as little memory as
//! possible, and is masked by the settings in force when it is shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::advice::Hint;
use crate::contract::timestamp::{Precision, format_timestamp};
use crate::state::workspace::{DeliveryStatus, Forgery};

/// Declares string types, each with a keyword of its schema.
macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident, $key:literal: $value:literal;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, Deserialize, PartialEq, Eq, Hash, Serialize, JsonSchema)]
            #[schemars(inline)]
            #[serde(transparent)]
            pub(crate) struct $name(#[schemars(extend($key = $value))] pub(crate) String);

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl<T: Into<String>> From<T> for $name {
                fn from(text: T) -> Self {
                    Self(text.into())
                }
            }
        )+
    };
}

texts! {
    /// A request's id.
    RequestId, "pattern": "^req_";
    /// An event's id.
    EventId, "pattern": "^evt_";
    /// A delivery's id.
    DeliveryId, "pattern": "^dlv_";
    /// A subscription's id.
    SubscriptionId, "pattern": "^sub_";
    /// A workspace's id.
    WorkspaceId, "pattern": "^ws_";
    /// A time, UTC with milliseconds.
    Time, "format": "date-time";
}

/// A time as the control API shows it: always with milliseconds, whatever the profile says of the emulated API.
pub(crate) fn time(at: Timestamp) -> Time {
    Time(format_timestamp(at, Precision::Milliseconds))
}

/// Milliseconds with their fraction, to the microsecond.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(transparent)]
pub(crate) struct Millis(#[schemars(range(min = 0.0))] pub(crate) f64);

impl fmt::Display for Millis {
    /// As JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl From<std::time::Duration> for Millis {
    fn from(duration: std::time::Duration) -> Self {
        Self((duration.as_secs_f64() * 1_000_000.0).round() / 1000.0)
    }
}

/// Bytes: as text where they are UTF-8, else as base64.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Binary { base64: String },
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: STANDARD.encode(bytes) },
        }
    }
}

impl Bytes {
    /// The text, or else the base64.
    pub(crate) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Binary { base64: text } => text,
        }
    }
}

/// The JSON name of an enum's value.
pub(crate) fn name_of<T: Serialize>(value: T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Headers in the order in which they were sent: name and value.
pub(crate) type Headers = Vec<(String, String)>;

/// A request as a row of a listing.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) at: Time,
    pub(crate) workspace: Option<WorkspaceId>,
    /// A test key whole, any other masked.
    pub(crate) key: Option<String>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) operation: Option<String>,
    /// 0 if the connection was broken instead.
    pub(crate) status: u16,
    /// The event that replaced an answer.
    #[schemars(extend("enum" = ["reset", "empty", "garbage", "client_left", null]))]
    pub(crate) broken: Option<String>,
    /// The stable name of the reason for the answer.
    pub(crate) reason: String,
    /// The message of the error that was answered, shortened.
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) latency_ms: Millis,
    /// The number of the generation of scenarios and settings that answered it.
    pub(crate) generation: u64,
    /// The scenario that decided.
    pub(crate) scenario: Option<String>,
    /// True if it matched no endpoint and is no problem: a browser's own request for an icon or for leave, or a poll of `/`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) incidental: bool,
    /// The quota after it, where it was counted.
    #[serde(default)]
    pub(crate) quota: Option<QuotaState>,
}

impl Request {
    /// The status, or what the connection did instead of an answer.
    pub(crate) fn status_text(&self) -> String {
        self.broken.clone().unwrap_or_else(|| self.status.to_string())
    }

    /// The path with the query.
    pub(crate) fn target(&self) -> String {
        self.query.as_ref().map_or_else(|| self.path.clone(), |query| format!("{}?{query}", self.path))
    }
}

/// A request in full.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RequestWhole {
    #[serde(flatten)]
    pub(crate) row: Request,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
    pub(crate) answer: AnswerView,
    /// How it came; null for bytes that are not a request.
    pub(crate) connection: Option<Connection>,
    /// The intended parts that the answer lacks.
    pub(crate) warnings: Vec<String>,
}

/// The connection that a request came on, and when its bytes went over it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Connection {
    /// The connections of the emulated API, counted from 1 in the order accepted.
    pub(crate) number: u64,
    /// The requests on the connection, counted from 1.
    pub(crate) sequence: u64,
    /// When its first byte was read; null if that came together with the request before it.
    pub(crate) first_byte_at: Option<Time>,
    /// When the last bytes of the answer were written; null if that has not happened.
    pub(crate) answered_at: Option<Time>,
}

/// The answer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct AnswerView {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

/// The quota of a key after a request.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct QuotaState {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) window_ms: Millis,
    /// When the next request is allowed.
    pub(crate) opens_in_ms: Millis,
    /// When the whole quota is back.
    pub(crate) resets_in_ms: Millis,
}

/// An event with where it goes and where it does not.
#[expect(clippy::struct_field_names, reason = "`type` is a keyword")]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) id: EventId,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) created_at: Time,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) body: Bytes,
    pub(crate) deliveries: Vec<EventTarget>,
    pub(crate) skipped: Vec<Skipped>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    pub(crate) warnings: Vec<String>,
}

/// Where an event goes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct EventTarget {
    pub(crate) id: DeliveryId,
    pub(crate) subscription: SubscriptionId,
    pub(crate) url: String,
}

/// Where an event does not go, and why.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Skipped {
    pub(crate) subscription: SubscriptionId,
    pub(crate) url: String,
    #[schemars(extend("enum" = ["type_not_subscribed", "disabled", "not_named"]))]
    pub(crate) reason: String,
}

/// A delivery, with the number of its attempts in a listing, or with all of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Delivery{A}")]
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
    pub(crate) last: Option<AttemptResult>,
    pub(crate) next_attempt_in_ms: Option<Millis>,
    pub(crate) note: Option<String>,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    /// The outcome of a forged delivery.
    pub(crate) forgery: Option<Forgery>,
}

/// A delivery as a row of a listing.
pub(crate) type DeliveryRow = DeliveryWith<AttemptCount>;
/// A delivery with each attempt.
pub(crate) type DeliveryWhole = DeliveryWith<Attempts>;

impl DeliveryWhole {
    /// Where the last attempt went.
    pub(crate) fn dialled(&self) -> Option<&str> {
        self.attempts.0.last().map(|attempt| attempt.dialled.as_str())
    }
}

/// How many attempts were made.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, rename = "")]
#[serde(transparent)]
pub(crate) struct AttemptCount(pub(crate) u64);

/// Each attempt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, rename = "Whole")]
#[serde(transparent)]
pub(crate) struct Attempts(pub(crate) Vec<Attempt>);

/// One attempt: signed content, request and answer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Attempt {
    #[schemars(range(min = 1))]
    pub(crate) number: u32,
    pub(crate) at: Time,
    pub(crate) url: String,
    /// Where it really went.
    pub(crate) dialled: String,
    /// The deliberate damage, and what requested it.
    pub(crate) damage: Option<String>,
    /// True if it was falsified, so that a receiver that verifies must refuse it.
    #[serde(default)]
    pub(crate) forged: bool,
    pub(crate) request: AttemptRequest,
    pub(crate) signed_content: Bytes,
    pub(crate) outcome: AttemptResult,
    pub(crate) latency_ms: Millis,
}

/// The bytes that were sent.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct AttemptRequest {
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

/// How an attempt ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Outcome")]
#[serde(untagged)]
pub(crate) enum AttemptResult {
    Answered {
        accepted: bool,
        status: u16,
        body: Bytes,
        /// Where a redirect leads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        location: Option<String>,
        /// The same in words; a `Retry-After` that cannot be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    Failed {
        accepted: bool,
        failure: String,
        detail: String,
        /// The remedy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<Hint>,
    },
}

/// A line of the log.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Notice")]
pub(crate) struct LogLine {
    #[schemars(extend("enum" = ["reset", "snapshot_loaded", "test_ended", "other"]))]
    pub(crate) kind: String,
    pub(crate) at: Time,
    /// The key that it is about, if it is about one; a test key whole, any other masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    pub(crate) message: String,
    pub(crate) warning: bool,
}
