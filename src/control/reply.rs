//! Answers of the control API: JSON, and errors in the same envelope as the emulated API, without a request id.

use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::response;
use crate::contract::error::ErrorKind;
use crate::http::answer::{AnswerBody, header_value};
use crate::redact::Redactor;

/// A successful answer.
#[derive(Debug)]
pub struct Reply(Content);

#[derive(Debug)]
enum Content {
    /// A value for display: credentials in it are masked on its way out.
    Shown(StatusCode, Value),
    /// What goes out as it is: a document, a stream, a secret that is handed over.
    Plain(Response<AnswerBody>),
}

impl Reply {
    pub(super) fn new(status: StatusCode, body: Value) -> Self {
        Self(Content::Shown(status, body))
    }

    /// JSON in which nothing is masked, with status 200.
    pub(super) fn plain(body: &Value) -> Self {
        Self::of(response(StatusCode::OK, body))
    }

    /// An answer that is not JSON, or a stream.
    pub(super) fn of(response: Response<AnswerBody>) -> Self {
        Self(Content::Plain(response))
    }

    /// The same with its bytes made: what takes a while for a large answer.
    pub(super) fn written(self, redactor: Redactor<'_>) -> Self {
        Self(Content::Plain(self.into_response(redactor)))
    }

    /// The answer as it is sent.
    pub fn into_response(self, redactor: Redactor<'_>) -> Response<AnswerBody> {
        let mut response = match self.0 {
            Content::Shown(status, mut body) => {
                redactor.value(&mut body);
                response(status, &body)
            }
            Content::Plain(response) => response,
        };
        // Everything here changes from one moment to the next, and may be secret.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A refused call: `{"error": {"code", "message"}}`, with what else helps beside it.
///
/// Boxed, as it travels through every function here and is rarely made.
#[derive(Debug)]
pub struct ControlError(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    beside: Vec<(&'static str, Value)>,
    allow: Option<String>,
}

impl ControlError {
    /// An error with the status and code of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self(Box::new(Refusal { status, code: kind.name(), message: message.into(), beside: Vec::new(), allow: None }))
    }

    /// 422: the call says something that cannot be.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ValidationError, message)
    }

    /// 404: the thing named is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// What was wrong, in words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(super) fn unknown_path(path: &str) -> Self {
        let message = format!(
            "there is no /_emulator/{}; /_emulator/health answers whether the emulator is ready",
            path.escape_debug()
        );
        Self::not_found(message)
    }

    pub(super) fn method(allow: String) -> Self {
        let mut error = Self::new(ErrorKind::MethodNotAllowed, format!("this path takes {allow}"));
        error.0.allow = Some(allow);
        error
    }

    /// Whether the call's token was missing or wrong.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.0.status == StatusCode::UNAUTHORIZED
    }

    /// Puts a value beside `error`.
    #[must_use]
    pub(super) fn beside(mut self, name: &'static str, value: Value) -> Self {
        self.0.beside.push((name, value));
        self
    }

    /// Adds to what was wrong whatever `more` says, if it says something.
    #[must_use]
    pub(super) fn told_further(mut self, more: impl FnOnce() -> Option<String>) -> Self {
        if let Some(more) = more() {
            self.0.message = format!("{}; {more}", self.0.message);
        }
        self
    }

    /// Changes the code to one of the control API's own.
    #[must_use]
    pub(super) fn coded(mut self, code: &'static str) -> Self {
        self.0.code = code;
        self
    }

    /// The answer as it is sent.
    pub fn into_response(self, redactor: Redactor<'_>) -> Response<AnswerBody> {
        let refusal = *self.0;
        let mut body = json!({ "error": { "code": refusal.code, "message": refusal.message } });
        for (name, value) in refusal.beside {
            body[name] = value;
        }
        redactor.value(&mut body);
        let mut answer = response(refusal.status, &body);
        if let Some(allow) = refusal.allow {
            answer.headers_mut().insert(ALLOW, header_value(&allow));
        }
        if refusal.status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}
