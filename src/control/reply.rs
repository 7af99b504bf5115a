//! Answers of the control API: JSON, and errors in the same envelope as the emulated API, without a request id.

use hyper::header::{ALLOW, HeaderValue};
use hyper::{Response, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields::Due;
use crate::advice::Advice;
use crate::contract::error::ErrorKind;
use crate::diagnostic::Diagnostic;
use crate::http::answer::{EMULATOR_FAILED, JSON, answer, header_value};
use crate::http::body::ResponseBody;
use crate::redact::{Redactor, visible_lines};
use crate::state::budget::NoRoom;
use crate::state::journal::record::{DeliveryRow, Event, EventId, Request};
use crate::state::workspace::RefusedCall;
use crate::util::wording::quoted;

/// A refused call: the error envelope of the emulated API without a request id, and further fields that help.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Error")]
pub(crate) struct ErrorView {
    pub(crate) error: ErrorText,
    /// The advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) advice: Vec<Advice>,
    /// The requests or deliveries nearest to the awaited one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nearest: Option<Vec<Nearest>>,
    /// The entries that are due, if a call asked for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Vec<Due>>,
    /// The problems of a scenario or setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) diagnostics: Option<Vec<Diagnostic>>,
    /// Events that were fired but matched no subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<FiredEvent>>,
    /// The number of the generation of scenarios and settings in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
    /// The wrong parameter, if it is `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
}

/// The problem.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct ErrorText {
    /// Stable.
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A request or delivery that nearly matched the awaited one.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Nearest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Request>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<DeliveryRow>,
    /// Field by field.
    pub(crate) differs: Vec<String>,
}

/// An event, or its id alone.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub(crate) enum FiredEvent {
    Whole(Event),
    Id(EventIdOnly),
}

/// An event of which only the id is shown.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventIdOnly {
    pub(crate) id: EventId,
}

/// The code of a 409.
pub(super) const NOT_NONE: &str = "not_none";

pub(super) type ControlReply = Response<ResponseBody>;

pub(super) fn json(body: &Value) -> ControlReply {
    response(StatusCode::OK, body)
}

pub(super) fn text(text: &str) -> ControlReply {
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    answer(StatusCode::OK, media, visible_lines(text).into_owned())
}

/// A refused call: a status and a body. Boxed, to keep results small.
#[derive(Debug)]
pub struct ControlError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    body: ErrorView,
    allow: Option<String>,
}

impl ControlError {
    /// An error with the status and code of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = ErrorText { code: kind.name().to_owned(), message: message.into() };
        Self(Box::new(Refusal { status, body: ErrorView { error, ..ErrorView::default() }, allow: None }))
    }

    /// 422: a value in the call is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ValidationError, message)
    }

    /// 422: a text in the call has another form than expected.
    pub(super) fn unexpected(field: &str, expected: &str, found: &str) -> Self {
        Self::invalid(format!("{field}: expected {expected}, found `{}`", quoted(found)))
    }

    /// 404: what the call names does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// 429: the call has not begun, and may be repeated.
    pub(super) fn busy(why: &str) -> Self {
        Self::new(ErrorKind::RateLimitExceeded, format!("{why}; try again")).coded("busy")
    }

    /// 500: the emulator failed.
    pub fn internal() -> Self {
        Self::new(ErrorKind::InternalError, EMULATOR_FAILED)
    }

    /// 409: something matches, though the call asked for none.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        let mut error = Self::invalid(message).coded(NOT_NONE);
        error.0.status = StatusCode::CONFLICT;
        error
    }

    /// 421: the request names a host that is not this one.
    pub(super) fn other_host(message: impl Into<String>) -> Self {
        let mut error = Self::invalid(message).coded("misdirected_request");
        error.0.status = StatusCode::MISDIRECTED_REQUEST;
        error
    }

    pub(super) fn method(allow: String) -> Self {
        let mut error = Self::new(ErrorKind::MethodNotAllowed, format!("this path accepts {allow}"));
        error.0.allow = Some(allow);
        error
    }

    /// Refuses what would make too many deliveries pending.
    pub(super) fn too_many_pending(full: NoRoom) -> Self {
        let hint = "wait until some are delivered, or drop them with POST /_emulator/reset";
        Self::invalid(format!("{full}; {hint}")).coded("too_many_pending")
    }

    pub(super) fn is_unauthorized(&self) -> bool {
        self.0.status == StatusCode::UNAUTHORIZED
    }

    /// The call that was refused, if its caller has to change something: one that came too early or waited too long has not.
    pub(super) fn as_refused(&self, call: String, redactor: Redactor<'_>) -> Option<RefusedCall> {
        let Refusal { status, body, .. } = &*self.0;
        if !status.is_client_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(status) {
            return None;
        }
        let ErrorText { code, message } = &body.error;
        let [call, message] = [&call, message].map(|text| redactor.text(text).into_owned());
        Some(RefusedCall { call, status: status.as_u16(), code: code.clone(), message }.shortened())
    }

    #[must_use]
    pub(super) fn with(mut self, add: impl FnOnce(&mut ErrorView)) -> Self {
        add(&mut self.0.body);
        self
    }

    /// Adds what to do.
    #[must_use]
    pub(super) fn advising(self, advice: Vec<Advice>) -> Self {
        self.with(|error| error.advice = advice)
    }

    /// Appends a further sentence to the message, if there is one.
    #[must_use]
    pub(super) fn and(mut self, more: Option<String>) -> Self {
        if let Some(more) = more {
            self.0.body.error.message.push_str(&format!("; {more}"));
        }
        self
    }

    /// Changes the code to one of the control API's own.
    #[must_use]
    pub(super) fn coded(mut self, code: &'static str) -> Self {
        code.clone_into(&mut self.0.body.error.code);
        self
    }

    pub fn into_response(self, redactor: Redactor<'_>) -> Response<ResponseBody> {
        let refusal = *self.0;
        let mut refused = response(refusal.status, &redactor.shown(&refusal.body));
        if let Some(allow) = refusal.allow {
            refused.headers_mut().insert(ALLOW, header_value(&allow));
        }
        if refusal.status == StatusCode::UNAUTHORIZED {
            refused.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        refused
    }
}

fn response(status: StatusCode, body: &Value) -> Response<ResponseBody> {
    let mut text = serde_json::to_vec(body).expect("a value always serialises");
    text.push(b'\n');
    // A large answer may be kept for a while.
    text.shrink_to_fit();
    answer(status, JSON, text)
}
