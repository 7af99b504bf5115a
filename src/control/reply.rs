//! Answers of the control API: JSON, and errors in the same envelope as the emulated API, without a request id.

use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::api::{self, ErrorText};
use crate::contract::error::ErrorKind;
use crate::http::answer::{JSON, answer, header_value};
use crate::http::outgoing::Outgoing;
use crate::redact::{Redactor, visible_lines};
use crate::state::budget::Full;

/// Why serializing cannot fail.
const SERIALISES: &str = "texts and numbers always serialise";

/// A successful answer.
#[derive(Debug)]
pub struct Reply(Content);

#[derive(Debug)]
enum Content {
    /// A value, in which credentials will be masked unless `is_plain`.
    Shown { body: Value, is_plain: bool },
    /// An answer that is sent as it is: a document, a stream, a secret that is returned once.
    Plain(Response<Outgoing>),
}

impl Reply {
    /// JSON in which credentials are masked, with status 200.
    pub(super) fn masked<T: Serialize>(body: &T) -> Self {
        Self::shown(body, false)
    }

    /// JSON with status 200, in which credentials are masked unless `is_plain`.
    pub(super) fn shown<T: Serialize>(body: &T, is_plain: bool) -> Self {
        Self(Content::Shown { body: serde_json::to_value(body).expect(SERIALISES), is_plain })
    }

    /// Text with status 200.
    pub(super) fn text(text: &str) -> Self {
        let media = HeaderValue::from_static("text/plain; charset=utf-8");
        Self::of(answer(StatusCode::OK, media, visible_lines(text).into_owned()))
    }

    /// JSON in which nothing is masked, with status 200. Written at once: for what is large.
    pub(super) fn plain<T: Serialize>(body: &T) -> Self {
        Self::of(response(StatusCode::OK, body))
    }

    /// An answer that is not JSON, or a stream.
    pub(super) fn of(response: Response<Outgoing>) -> Self {
        Self(Content::Plain(response))
    }

    /// Serializes the answer, which takes a while if it is large.
    pub(super) fn written(self, redactor: Redactor<'_>) -> Self {
        Self(Content::Plain(self.into_response(redactor)))
    }

    pub fn into_response(self, redactor: Redactor<'_>) -> Response<Outgoing> {
        let mut response = match self.0 {
            Content::Shown { mut body, is_plain } => {
                if !is_plain {
                    redactor.value(&mut body);
                }
                response(StatusCode::OK, &body)
            }
            Content::Plain(response) => response,
        };
        // Every answer may be out of date at once, and may contain secrets.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A refused call: a status and a body. Boxed, to keep results small.
#[derive(Debug)]
pub struct ControlError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    body: api::Error,
    allow: Option<String>,
}

impl ControlError {
    /// An error with the status and code of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = ErrorText { code: kind.name().to_owned(), message: message.into() };
        Self(Box::new(Refusal { status, body: api::Error { error, ..api::Error::default() }, allow: None }))
    }

    /// 422: a value in the call is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ValidationError, message)
    }

    /// 404: what the call names does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn message(&self) -> &str {
        &self.0.body.error.message
    }

    pub(super) fn method(allow: String) -> Self {
        let mut error = Self::new(ErrorKind::MethodNotAllowed, format!("this path takes {allow}"));
        error.0.allow = Some(allow);
        error
    }

    /// Refuses what would make too many deliveries pending.
    pub(super) fn too_many_pending(full: Full) -> Self {
        let hint = "wait until some are delivered, or drop them with POST /_emulator/reset";
        Self::invalid(format!("{full}; {hint}")).coded("too_many_pending")
    }

    pub(super) fn is_unauthorized(&self) -> bool {
        self.0.status == StatusCode::UNAUTHORIZED
    }

    #[must_use]
    pub(super) fn with(mut self, add: impl FnOnce(&mut api::Error)) -> Self {
        add(&mut self.0.body);
        self
    }

    /// Appends a further sentence to the message, if there is one.
    #[must_use]
    pub(super) fn and(mut self, more: impl FnOnce() -> Option<String>) -> Self {
        if let Some(more) = more() {
            self.0.body.error.message = format!("{}; {more}", self.message());
        }
        self
    }

    /// Changes the code to one of the control API's own.
    #[must_use]
    pub(super) fn coded(mut self, code: &'static str) -> Self {
        code.clone_into(&mut self.0.body.error.code);
        self
    }

    pub fn into_response(self, redactor: Redactor<'_>) -> Response<Outgoing> {
        let refusal = *self.0;
        let mut body = serde_json::to_value(&refusal.body).expect(SERIALISES);
        redactor.value(&mut body);
        let mut refused = response(refusal.status, &body);
        if let Some(allow) = refusal.allow {
            refused.headers_mut().insert(ALLOW, header_value(&allow));
        }
        if refusal.status == StatusCode::UNAUTHORIZED {
            refused.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        refused
    }
}

/// A response with a JSON body.
fn response<T: Serialize>(status: StatusCode, body: &T) -> Response<Outgoing> {
    let mut text = serde_json::to_vec(body).expect(SERIALISES);
    text.push(b'\n');
    answer(status, JSON, text)
}
