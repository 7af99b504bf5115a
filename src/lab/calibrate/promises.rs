//! The contract's promises about every field of an answer or event, in one table, and how a received one breaks them. Independent of its origin.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

use crate::contract::clauses;
use crate::contract::ids::IdKind;
use crate::util::wording::shorten;

pub(super) const HELLO: &str = "/v1/hello";
pub(super) const STATUS: &str = "/v1/system/status";
pub(super) const SUBSCRIBE: &str = "/v1/events/subscribe";

/// A promise about one field.
#[derive(Debug)]
pub(super) struct Promise {
    /// Where it is: a JSON pointer.
    pub(super) field: &'static str,
    form: Form,
    /// The contract's words.
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
    promise("/ok", Form::True, clauses::STATUS_OK),
    promise("/environment", Form::OneOf(&["sandbox", "production"]), clauses::STATUS_ENVIRONMENT),
    promise("/version", Form::Version, clauses::STATUS_VERSION),
    promise("/version", Form::OneOf(&["v1.0"]), clauses::VERSION_LABEL),
    promise("/checked_at", Form::Timestamp, clauses::STATUS_CHECKED_AT),
];

/// The fields of a subscription.
pub(super) const SUBSCRIPTION: &[Promise] = &[
    promise("/id", Form::Id(IdKind::Subscription), clauses::SUBSCRIPTION_ID),
    promise("/url", Form::Text, clauses::SUBSCRIPTION_URL),
    promise("/events", Form::Texts, clauses::SUBSCRIPTION_EVENTS),
    promise("/status", Form::Text, clauses::SUBSCRIPTION_STATUS),
    promise("/created_at", Form::Timestamp, clauses::SUBSCRIPTION_CREATED_AT),
];

/// The fields of a failed response.
pub(super) const ERROR: &[Promise] = &[
    promise("/error", Form::Object, clauses::ERROR),
    promise("/error/code", Form::Text, clauses::ERROR_CODE),
    promise("/error/message", Form::Text, clauses::ERROR_MESSAGE),
    promise("/error/request_id", Form::Id(IdKind::Request), clauses::ERROR_REQUEST_ID),
];

/// The further promise about a 401.
pub(super) const UNAUTHORIZED: &[Promise] =
    &[promise("/error/code", Form::OneOf(&["unauthorized"]), clauses::UNAUTHORIZED)];

/// The fields of an event.
pub(super) const EVENT: &[Promise] = &[
    promise("/id", Form::Id(IdKind::Event), clauses::EVENT_ID),
    promise("/type", Form::Text, clauses::EVENT_TYPE),
    promise("/created_at", Form::Timestamp, clauses::EVENT_CREATED_AT),
    promise("/data", Form::Object, clauses::EVENT_DATA),
];

/// The further fields of the event `workflow.completed`.
pub(super) const COMPLETED: &[Promise] = &[
    promise("/data/workflow_id", Form::Id(IdKind::Workflow), clauses::COMPLETED_ID),
    promise("/data/status", Form::OneOf(&["completed"]), clauses::COMPLETED_STATUS),
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
            Some(value) => Some(format!("`{name}` is {}", shorten(&value.to_string(), 60))),
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
