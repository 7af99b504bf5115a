//! What the contract promises of every field of an answer or event, in one table, and how what came breaks it. Independent of how it came.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

use crate::contract::ids::IdKind;

pub(super) const STATUS: &str = "/v1/system/status";
pub(super) const SUBSCRIBE: &str = "/v1/events/subscribe";

/// A promise about one field.
#[derive(Debug)]
pub(super) struct Promise {
    /// Where it is: a JSON pointer.
    pub(super) field: &'static str,
    form: Form,
    /// What the contract says.
    pub(super) clause: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// The boolean true.
    True,
    Text,
    Texts,
    Object,
    /// An id with this prefix.
    Id(IdKind),
    Timestamp,
    /// `v<major>.<minor>`.
    Version,
    OneOf(&'static [&'static str]),
}

const fn promise(field: &'static str, form: Form, clause: &'static str) -> Promise {
    Promise { field, form, clause }
}

/// The fields of the system status.
pub(super) const SYSTEM_STATUS: &[Promise] = &[
    promise("/ok", Form::True, "System status: ok, a boolean, true when the service is reachable and the key is valid"),
    promise(
        "/environment",
        Form::OneOf(&["sandbox", "production"]),
        "System status: environment, for example the value sandbox; two environments exist",
    ),
    promise("/version", Form::Version, "System status: version, form v<major>.<minor>"),
    promise("/version", Form::OneOf(&["v1.0"]), "Versioning: the status response field version carries the label v1.0"),
    promise("/checked_at", Form::Timestamp, "System status: checked_at, an ISO 8601 UTC timestamp"),
];

/// The fields of a subscription.
pub(super) const SUBSCRIPTION: &[Promise] = &[
    promise("/id", Form::Id(IdKind::Subscription), "Subscription: id, form sub_<id>"),
    promise("/url", Form::Text, "Subscription: url, a string"),
    promise("/events", Form::Texts, "Subscription: events, a list of strings"),
    promise("/status", Form::Text, "Subscription: status, a string"),
    promise("/created_at", Form::Timestamp, "Subscription: created_at, an ISO 8601 UTC timestamp"),
];

/// The fields of a failed response.
pub(super) const ERROR: &[Promise] = &[
    promise("/error", Form::Object, "Errors: failed responses carry a JSON object with the key error"),
    promise("/error/code", Form::Text, "Errors: code, a string"),
    promise("/error/message", Form::Text, "Errors: message, a string"),
    promise("/error/request_id", Form::Id(IdKind::Request), "Errors: request_id, form req_<id>"),
];

/// The further promise about a 401.
pub(super) const UNAUTHORIZED: &[Promise] =
    &[promise("/error/code", Form::OneOf(&["unauthorized"]), "Authentication 4: 401 with error code unauthorized")];

/// The fields of an event.
pub(super) const EVENT: &[Promise] = &[
    promise("/id", Form::Id(IdKind::Event), "Event envelope: id, form evt_<id>"),
    promise("/type", Form::Text, "Event envelope: type, a string"),
    promise("/created_at", Form::Timestamp, "Event envelope: created_at, an ISO 8601 UTC timestamp"),
    promise("/data", Form::Object, "Event envelope: data, an object"),
];

/// The further fields of the event `workflow.completed`.
pub(super) const COMPLETED: &[Promise] = &[
    promise(
        "/data/workflow_id",
        Form::Id(IdKind::Workflow),
        "Events: workflow.completed has workflow_id, form wf_<id>",
    ),
    promise("/data/status", Form::OneOf(&["completed"]), "Events: workflow.completed has status, value completed"),
];

static VERSION: LazyLock<Regex> = LazyLock::new(|| Regex::new("^v[0-9]+[.][0-9]+$").expect("a valid expression"));

impl Form {
    fn has(self, value: &Value) -> bool {
        match (self, value) {
            (Self::True, value) => *value == true,
            (Self::Object, value) => value.is_object(),
            (Self::Texts, value) => value.as_array().is_some_and(|texts| texts.iter().all(Value::is_string)),
            (Self::Text, value) => value.is_string(),
            (Self::Id(kind), Value::String(text)) => text.strip_prefix(kind.prefix()).is_some_and(|id| !id.is_empty()),
            (Self::Timestamp, Value::String(text)) => is_timestamp(text),
            (Self::Version, Value::String(text)) => VERSION.is_match(text),
            (Self::OneOf(known), Value::String(text)) => known.contains(&text.as_str()),
            _ => false,
        }
    }
}

/// True if a text is an ISO 8601 timestamp in UTC.
fn is_timestamp(text: &str) -> bool {
    let is_utc = ["Z", "+00:00"].iter().any(|zone| text.ends_with(zone));
    is_utc && text.contains('T') && text.parse::<Timestamp>().is_ok()
}

impl Promise {
    /// How a body breaks it.
    pub(super) fn broken_by(&self, body: &Value) -> Option<String> {
        let name = self.field.trim_start_matches('/').replace('/', ".");
        match body.pointer(self.field) {
            None => Some(format!("there is no `{name}`")),
            Some(value) if self.form.has(value) => None,
            Some(value) => Some(format!("`{name}` is {}", value.to_string().chars().take(60).collect::<String>())),
        }
    }

    /// True if it is about a time.
    pub(super) fn is_time(&self) -> bool {
        matches!(self.form, Form::Timestamp)
    }
}

/// True if the contract publishes a field of a subscription.
pub(super) fn is_published(field: &str) -> bool {
    SUBSCRIPTION.iter().any(|promise| promise.field.trim_start_matches('/') == field)
}
