//! Answers of the emulated API: how they are put together, those that any operation may give, and their headers.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use rand::SeedableRng as _;
use serde::Serialize;

use crate::advice::Advice;
use crate::clock::Random;
use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::KeyRefusal;
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::routes::{Lookup, Operation, no_endpoint};
use crate::contract::variation::{BodyKind, vary};
use crate::http::body::{Pace, ResponseBody};
use crate::http::connection_state::ConnectionFault;
use crate::http::request::RequestContext;
use crate::settings::Profile;
use crate::state::journal::Reason;
use crate::state::quota::QuotaCheck;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The message of a 500 that no scenario asked for.
pub const EMULATOR_FAILED: &str = "the emulator failed; please report this";
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// Headers besides those that every answer has; of a duplicate, the last value wins.
pub(super) type ExtraHeaders = Vec<(HeaderName, HeaderValue)>;

/// The headers that belong to the status and the body.
pub(super) fn body_headers(status: StatusCode, content_type: HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type);
    // Bytes after a malformed request may not be a request.
    if status == StatusCode::BAD_REQUEST {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    headers
}

pub fn answer(status: StatusCode, content_type: HeaderValue, body: impl Into<ResponseBody>) -> Response<ResponseBody> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = body_headers(status, content_type);
    response
}

/// An answer of the emulated API, before the headers that every answer has.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: HeaderValue,
    pub(super) headers: ExtraHeaders,
    pub(super) body: Bytes,
    pub(super) reason: Reason,
    pub(super) fault: Option<SendFault>,
}

pub(super) enum SendFault {
    Paced(Pace),
    Connection(ConnectionFault),
}

impl Answer {
    pub(super) fn json(status: StatusCode, body: Vec<u8>, reason: Reason) -> Self {
        Self::new(status, JSON, body.into(), reason)
    }

    pub(super) fn new(status: StatusCode, content_type: HeaderValue, body: Bytes, reason: Reason) -> Self {
        Self { status, content_type, headers: ExtraHeaders::new(), body, reason, fault: None }
    }
}

/// Why a request is answered without looking at its content.
pub(super) enum RequestRejection {
    Invalid(ErrorKind, String),
    NotFound(Lookup),
    Unauthorized(KeyRefusal),
    RateLimited(QuotaCheck),
    Panicked(String),
}

impl RequestContext {
    /// A 200 with this body, varied as the profile says.
    pub(super) fn ok(&self, body: &impl Serialize, reason: Reason) -> Answer {
        self.ok_json(json_bytes(body), reason)
    }

    pub(super) fn ok_json(&self, body: Vec<u8>, reason: Reason) -> Answer {
        Answer::json(StatusCode::OK, self.vary_body(body, BodyKind::Answer), reason)
    }

    pub(super) fn vary_body(&self, body: Vec<u8>, kind: BodyKind) -> Vec<u8> {
        match self.identity.variation_seed {
            None => body,
            Some(seed) => vary(body, kind, &self.profile().variation, &mut Random::seed_from_u64(seed)),
        }
    }

    pub(super) fn error(&self, error: &Error, reason: Reason) -> Answer {
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = error.body(&self.profile().errors, &self.identity.id);
        let mut answer = Answer::json(status, self.vary_body(body, BodyKind::Error), reason);
        if error.kind == ErrorKind::Unauthorized {
            // A valid key is refused only by a scenario.
            let is_valid = self.identity.key.is_some();
            let challenge = if is_valid { INVALID_TOKEN } else { HeaderValue::from_static("Bearer") };
            answer.headers.push((WWW_AUTHENTICATE, challenge));
        }
        answer
    }

    pub(super) fn refusal(&self, kind: ErrorKind, text: &str) -> Answer {
        self.error(&Error::new(kind, text), Reason::Refused(kind, text.to_owned()))
    }

    pub(super) fn validation_error(&self, error: Error) -> Answer {
        let answer = self.error(&error, Reason::Invalid(Vec::new()));
        Answer { reason: Reason::Invalid(error.problems), ..answer }
    }

    pub(super) fn early_refusal(&self, error: RequestRejection) -> Answer {
        match error {
            RequestRejection::Invalid(kind, text) => self.refusal(kind, &text),
            RequestRejection::NotFound(lookup) => self.not_found(lookup),
            RequestRejection::Unauthorized(refusal) => {
                let error = Error::new(ErrorKind::Unauthorized, refusal.advice(self.profile().key_rules()));
                let advice = error.message.clone().into_boxed_str();
                let mut answer = self.error(&error, Reason::Unauthorized { refusal, advice });
                if refusal.has_token() {
                    answer.headers.push((WWW_AUTHENTICATE, INVALID_TOKEN));
                }
                answer
            }
            RequestRejection::RateLimited(quota) => {
                let (limit, seconds) = (quota.limit, quota.window.as_secs_f64());
                let message =
                    format!("the quota of {limit} requests in {seconds} s is used up; back off before retrying");
                self.error(&Error::new(ErrorKind::RateLimitExceeded, message), Reason::RateLimited)
            }
            RequestRejection::Panicked(text) => {
                self.error(&Error::new(ErrorKind::InternalError, EMULATOR_FAILED), Reason::Panicked(text))
            }
        }
    }

    pub(super) fn not_found(&self, lookup: Lookup) -> Answer {
        match lookup {
            Lookup::MethodNotAllowed(allow) => {
                let error = Error::new(ErrorKind::MethodNotAllowed, format!("this endpoint accepts {allow}"));
                let header = header_value(&allow);
                let mut answer = self.error(&error, Reason::MethodNotAllowed(allow));
                answer.headers.push((ALLOW, header));
                answer
            }
            Lookup::Server(allow) => {
                let mut answer = Answer::json(StatusCode::NO_CONTENT, Vec::new(), Reason::Answered);
                answer.headers.push((ALLOW, header_value(&allow)));
                answer
            }
            Lookup::Announced(entry) => {
                let is_active = self.request.config.active.iter().any(|scenario| *scenario.name == *ASSUMED_SHAPES);
                let advice = (!is_active).then(|| Advice::use_scenario(ASSUMED_SHAPES));
                let help = if is_active {
                    format!(
                        "no rule of the active scenario `{ASSUMED_SHAPES}` answers {} here now",
                        self.request.head.method
                    )
                } else {
                    format!("the scenario `{ASSUMED_SHAPES}` answers them in assumed shapes")
                };
                let message = format!(
                    "{} ({}) are announced in the contract but not available yet; {help}",
                    entry.path, entry.what
                );
                self.error(&Error::new(ErrorKind::NotFound, message), Reason::Announced(entry.path, advice))
            }
            Lookup::Found(_) | Lookup::Unknown => {
                let message = no_endpoint(&self.request.head.method, self.request.path());
                self.error(&Error::new(ErrorKind::NotFound, message.as_str()), Reason::NotFound(message.into()))
            }
        }
    }
}

/// The shipped scenario that answers the announced endpoints.
const ASSUMED_SHAPES: &str = "announced-endpoints";

/// A body as JSON. Written straight into bytes: `Value::to_string` costs three times the instructions.
pub(super) fn json_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("strings and JSON values always serialise")
}

pub fn id_value(id: String) -> HeaderValue {
    HeaderValue::try_from(id).expect("ids are letters, digits, `_` and `-`")
}

/// A text that goes into a header: what a header cannot contain is escaped.
pub fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| {
        HeaderValue::from_str(&text.escape_default().to_string()).expect("escaped text is printable ASCII")
    })
}

/// The header that names the request in the journal; the same id as `request_id` in an error body.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-emulator-request-id");
pub const GENERATION: HeaderName = HeaderName::from_static("x-emulator-generation");
/// Names the scenario that answers a path without an endpoint.
const STUB: HeaderName = HeaderName::from_static("x-emulator-stub");

pub(super) fn all_headers(
    cx: &RequestContext,
    id: &HeaderValue,
    status: StatusCode,
    content_type: HeaderValue,
    extra: ExtraHeaders,
) -> HeaderMap {
    let (request, profile) = (&cx.request, cx.profile());
    let mut headers = body_headers(status, content_type);
    headers.insert(GENERATION, HeaderValue::from(request.generation));
    if let Some(quota) = cx.identity.quota() {
        let clock = cx.workspace().clock();
        push_quota_headers(&mut headers, quota, profile, || clock.shared_time(request.now));
    }
    if let (Some(Operation::Stub), Some(rule)) = (request.operation, &cx.rule) {
        headers.insert(STUB, header_value(&rule.scripted.scenario));
    }
    headers.insert(REQUEST_ID, id.clone());
    if let Some(name) = &profile.ids.request_header {
        headers.insert(name.name().clone(), id.clone());
    }
    // Last, so that a scenario's headers win.
    for (name, value) in extra {
        headers.insert(name, value);
    }
    headers
}

const IETF: HeaderName = HeaderName::from_static("ratelimit");
const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// `now` is the time that clients compare with their own.
pub(super) fn push_quota_headers(
    headers: &mut HeaderMap,
    quota: &QuotaCheck,
    profile: &Profile,
    now: impl Fn() -> Timestamp,
) {
    let rate_limit = &profile.rate_limit;
    headers.insert(rate_limit.header_names.limit.name().clone(), HeaderValue::from(quota.limit));
    headers.insert(rate_limit.header_names.remaining.name().clone(), HeaderValue::from(quota.remaining));
    if !quota.allowed {
        push_retry_after(headers, quota.wait, rate_limit.retry_after, &now);
    }
    let reset = match rate_limit.reset {
        ResetForm::Off => None,
        ResetForm::Delta => Some(HeaderValue::from(whole_seconds(quota.reset))),
        ResetForm::Epoch => Some(HeaderValue::from(epoch(now(), quota.reset))),
    };
    headers.extend(reset.map(|reset| (rate_limit.reset_header.name().clone(), reset)));
    if rate_limit.ietf {
        let (limit, window) = (quota.limit, whole_seconds(quota.window));
        headers.insert(IETF_POLICY, header_value(&format!("\"default\";q={limit};w={window}")));
        let (left, reset) = (quota.remaining, whole_seconds(quota.reset));
        headers.insert(IETF, header_value(&format!("\"default\";r={left};t={reset}")));
    }
}

fn push_retry_after(headers: &mut HeaderMap, wait: Duration, form: RetryAfterForm, now: impl Fn() -> Timestamp) {
    match form {
        RetryAfterForm::Off => {}
        RetryAfterForm::Seconds => drop(headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)))),
        RetryAfterForm::Date => {
            let now = now();
            let at = Timestamp::from_second(epoch(now, wait)).unwrap_or(now);
            headers.extend(http_date(at).map(|date| (RETRY_AFTER, date)));
        }
    }
}

/// A time as HTTP writes it; `None` after the year 9999.
pub(super) fn http_date(at: Timestamp) -> Option<HeaderValue> {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok().map(|date| header_value(&date))
}

/// Rounded up: a client that waits this long is let through.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn epoch(now: Timestamp, after: Duration) -> i64 {
    let at = now.saturating_add(after).unwrap_or(now);
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_their_ends_are_rounded_up_to_whole_seconds() {
        for (wall, wait, seconds, end) in [(5_000, 3_000, 3, 8), (5_000, 3_001, 4, 9), (5_001, 3_000, 3, 9)] {
            let now = Timestamp::from_millisecond(wall).expect("a time");
            let wait = Duration::from_millis(wait);
            assert_eq!((whole_seconds(wait), epoch(now, wait)), (seconds, end), "{wall} {wait:?}");
        }
    }
}
