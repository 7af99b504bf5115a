//! The API's public errors: kind, status, body. The envelope has one key, `error`, with `code`, `message` and
//! `request_id` (contract: Errors). Internal causes never appear here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::advice::Advice;
use crate::contract::named::named;
use crate::contract::setting::settings;

named! {
    /// The kind of error, on which clients may branch. The setting `errors.codes` has the text sent for each kind.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ErrorKind {
        /// 401: Bearer token missing or invalid. The one code the contract publishes.
        Unauthorized = "unauthorized",
        /// 422: query parameters or body failed validation.
        ValidationError = "validation_error",
        /// 429: the key's quota is used up.
        RateLimitExceeded = "rate_limit_exceeded",
        /// 404: no such path.
        NotFound = "not_found",
        /// 405: the path exists, the method does not.
        MethodNotAllowed = "method_not_allowed",
        /// 400: not a valid HTTP request.
        BadRequest = "bad_request",
        /// 408: the request did not arrive in time.
        RequestTimeout = "request_timeout",
        /// 413: the body is larger than the limit.
        PayloadTooLarge = "payload_too_large",
        /// 414: the target is longer than the limit.
        UriTooLong = "uri_too_long",
        /// 415: a content coding, which the emulator does not decode.
        UnsupportedMediaType = "unsupported_media_type",
        /// 501: a transfer coding other than chunked (RFC 9112 §6.1).
        NotImplemented = "not_implemented",
        /// 431: the header block is larger than the limit.
        HeadersTooLarge = "headers_too_large",
        /// 500: a fault of the emulator itself; never sent on purpose.
        InternalError = "internal_error",
    }
}

impl ErrorKind {
    const fn row(self) -> (u16, &'static str) {
        match self {
            Self::Unauthorized => (401, "the Bearer token is missing or invalid"),
            Self::ValidationError => (422, "the request failed validation"),
            Self::RateLimitExceeded => (429, "too many requests; back off before retrying"),
            Self::NotFound => (404, "there is no such endpoint"),
            Self::MethodNotAllowed => (405, "the endpoint does not accept this method"),
            Self::BadRequest => (400, "the request is malformed"),
            Self::RequestTimeout => (408, "the request did not arrive in time"),
            Self::PayloadTooLarge => (413, "the body is too large"),
            Self::UriTooLong => (414, "the request target is too long"),
            Self::UnsupportedMediaType => (415, "the coding of the body is not supported"),
            Self::NotImplemented => (501, "the transfer coding is not supported"),
            Self::HeadersTooLarge => (431, "the header block is too large"),
            Self::InternalError => (500, "an internal error occurred"),
        }
    }

    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// The kind that has this status.
    pub fn from_status(status: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.status() == status)
    }

    /// A message for the kind when nothing more is known, used by errors of scenarios.
    pub const fn message(self) -> &'static str {
        self.row().1
    }
}

settings! {
    /// The error envelope.
    pub struct Errors {
        /// Where the reasons of a 422 are given, in addition to `message`.
        pub details: ErrorDetails = "off" {
            contract: "the shape may gain fields before public launch",
            assumed: "reasons are in `message` only, each naming its field",
            observed_by: "`details` in the errors of several 422s",
        },
        /// The status of a body that is not JSON: 400 or 422.
        #[schemars(extend("enum" = [400, 422]))]
        pub malformed_json_status: u16 = 422 {
            contract: "422 for validation; a body that is not JSON is not shown",
            assumed: "422",
            observed_by: "a subscription whose body is cut off",
        },
        /// The `code` of each kind of error. `unauthorized` is the only one that the contract publishes.
        pub codes: BTreeMap<ErrorKind, String> = (BTreeMap::from(ErrorKind::ALL.map(|kind| (kind, kind.name())))) {
            contract: "unauthorized accompanies 401; other codes are not shown",
            assumed: "validation_error, rate_limit_exceeded, not_found, method_not_allowed and others named after their status",
            values: "kind of error = code, such as not_found = \"missing\"",
            observed_by: "`code` of 401, 404, 405, 413, 414, 415, 422, and of a 429 if one comes; others cannot be provoked \
                harmlessly",
        },
        /// The `message` of kinds of errors, instead of the emulator's or a scenario's.
        pub messages: BTreeMap<ErrorKind, String> = {} {
            contract: "message is text for people; its wording is not shown",
            assumed: "a description of the problem",
            values: "kind of error = text, such as not_found = \"no such thing\"",
            observed_by: "`message` of two different 401s, 404s, 405s and 422s: fixed if they are equal; others are met once \
                or not at all",
        },
        /// Fields added to every `error` object.
        pub extra: Map<String, Value> = {} {
            contract: "the shape may gain fields before public launch",
            assumed: "exactly code, message and request_id",
            values: "field = any value, such as docs = \"https://docs.example.com\"",
            observed_by: "fields that every error has, with the same value",
        },
    }
}

impl Errors {
    pub fn code(&self, kind: ErrorKind) -> &str {
        self.codes.get(&kind).map_or(kind.name(), String::as_str)
    }

    /// The `message` sent for `kind`: `text` unless the settings have another.
    pub fn message<'t>(&'t self, kind: ErrorKind, text: &'t str) -> &'t str {
        self.messages.get(&kind).map_or(text, String::as_str)
    }
}

/// Where validation reasons appear in addition to `message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorDetails {
    /// Nowhere else.
    Off,
    /// `details: [{field, reason}]`.
    List,
    /// `details: {field: [reason]}`.
    Map,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// The field: a body field, a query parameter, `body` or `Content-Type`; list entries as `events[1]`.
    pub field: String,
    /// The problem, without a final period.
    pub reason: String,
    /// How to make the emulator accept it.
    #[serde(skip)]
    pub advice: Option<Box<Advice>>,
}

impl FieldProblem {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), advice: None }
    }
}

/// An error as it is sent, before it has a request id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// The status; the kind's own unless a setting gives another.
    pub status: u16,
    pub message: String,
    pub problems: Vec<FieldProblem>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, status: kind.status(), message: message.into(), problems: Vec::new() }
    }

    /// A validation error; its message names each field and reason: `url: must use https; events: must not be empty`.
    pub fn validation(problems: Vec<FieldProblem>) -> Self {
        let texts: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.field, problem.reason)).collect();
        Self { problems, ..Self::new(ErrorKind::ValidationError, texts.join("; ")) }
    }

    pub fn body(&self, settings: &Errors, request_id: &str) -> Vec<u8> {
        let message = settings.message(self.kind, &self.message);
        envelope(settings, settings.code(self.kind), message, &self.problems, request_id)
    }
}

/// The error envelope as it is sent (contract: Errors).
#[derive(Serialize)]
pub struct Envelope<'e> {
    error: EnvelopeError<'e>,
}

/// The fields of every error, or of some; settings cannot add fields with these names.
pub const ERROR_FIELDS: [&str; 4] = ["code", "message", "request_id", "details"];

#[derive(Serialize)]
struct EnvelopeError<'e> {
    /// Machine-readable; clients branch on this.
    code: &'e str,
    /// For people.
    message: &'e str,
    /// Form `req_<id>`.
    request_id: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    #[serde(flatten)]
    extra: &'e Map<String, Value>,
}

/// The error envelope around any code and message.
pub fn envelope(settings: &Errors, code: &str, message: &str, problems: &[FieldProblem], request_id: &str) -> Vec<u8> {
    let details = match settings.details {
        _ if problems.is_empty() => None,
        ErrorDetails::Off => None,
        ErrorDetails::List => Some(json!(problems)),
        ErrorDetails::Map => {
            let mut map = Map::new();
            for problem in problems {
                let reasons = map.entry(problem.field.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(reasons) = reasons {
                    reasons.push(Value::String(problem.reason.clone()));
                }
            }
            Some(Value::Object(map))
        }
    };
    let body = EnvelopeError { code, message, request_id, details, extra: &settings.extra };
    serde_json::to_vec(&Envelope { error: body }).expect("strings and JSON values always serialise")
}
