//! Answers: the body type, how answers are put together, and those that any operation of the emulated API may give.

use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::stream::{iter, unfold};
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use rand::SeedableRng as _;
use serde::Serialize;

use crate::agenda::Slot;
use crate::clock::{Clock, Random};
use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::KeyRefusal;
use crate::contract::not_found::no_endpoint;
use crate::contract::routes::Lookup;
use crate::contract::variation::{BodyKind, vary};
use crate::http::connection::ConnectionFault;
use crate::http::outgoing::Outgoing;
use crate::http::request::Admitted;
use crate::journal::Reason;
use crate::rate_limit::Verdict;
use crate::workspace::Workspace;

/// JSON, as every body of the contract is.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// Whether an answer with this status ends the connection: the rest of such a request may still be on its way, and will not be
/// read.
pub(super) fn ends_connection(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
    )
}

/// Headers besides those that every answer has; one that is given twice has its last value.
pub(super) type Further = Vec<(HeaderName, HeaderValue)>;

/// The headers of this answer alone: its content type, and any others.
pub(super) fn own_headers(status: StatusCode, content_type: HeaderValue, further: Further) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type);
    if ends_connection(status) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    for (name, value) in further {
        headers.insert(name, value);
    }
    headers
}

pub fn answer(status: StatusCode, content_type: HeaderValue, body: impl Into<Outgoing>) -> Response<Outgoing> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = own_headers(status, content_type, Further::new());
    response
}

/// An answer whose body comes in pieces: a long one needs no large buffer.
pub fn answer_in_pieces(status: StatusCode, content_type: HeaderValue, pieces: Vec<Bytes>) -> Response<Outgoing> {
    if let [only] = &pieces[..] {
        return answer(status, content_type, only.clone());
    }
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let mut response = answer(status, content_type, Outgoing::stream(iter(pieces.into_iter().map(Ok))));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length as u64));
    response
}

/// An answer of the emulated API, before the headers that every answer has.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: HeaderValue,
    pub(super) headers: Further,
    pub(super) body: Bytes,
    pub(super) reason: Reason,
    /// What goes wrong while it is sent, if a scenario says so.
    pub(super) fault: Option<SendFault>,
}

/// What goes wrong while an answer is sent.
pub(super) enum SendFault {
    Paced(Pace),
    Connection(ConnectionFault),
}

impl Answer {
    pub(super) fn json(status: StatusCode, body: Vec<u8>, reason: Reason) -> Self {
        Self::new(status, JSON, body.into(), reason)
    }

    pub(super) fn new(status: StatusCode, content_type: HeaderValue, body: Bytes, reason: Reason) -> Self {
        Self { status, content_type, headers: Further::new(), body, reason, fault: None }
    }
}

/// Why a request is answered without looking at its content.
pub(super) enum AdmissionError {
    Invalid(ErrorKind, String),
    NotFound(Lookup),
    Unauthorized(KeyRefusal),
    RateLimited(Verdict),
    Panicked(String),
}

impl Admitted {
    /// A 200 with this body, varied as the profile says.
    pub(super) fn answered(&self, body: &impl Serialize, reason: Reason) -> Answer {
        self.answered_json(json_bytes(body), reason)
    }

    pub(super) fn answered_json(&self, body: Vec<u8>, reason: Reason) -> Answer {
        Answer::json(StatusCode::OK, self.varied(body, BodyKind::Answer), reason)
    }

    /// A body of the API, varied as the profile says.
    pub(super) fn varied(&self, body: Vec<u8>, kind: BodyKind) -> Vec<u8> {
        match self.identity.variety {
            None => body,
            Some(seed) => vary(body, kind, &self.profile().variation, &mut Random::seed_from_u64(seed)),
        }
    }

    pub(super) fn error(&self, error: &Error, reason: Reason) -> Answer {
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = error.body(&self.profile().errors, &self.identity.id);
        let mut answer = Answer::json(status, self.varied(body, BodyKind::Error), reason);
        if error.kind == ErrorKind::Unauthorized {
            // A valid key is refused only by a scenario.
            let is_valid = self.identity.key.is_some();
            let challenge = if is_valid { INVALID_TOKEN } else { HeaderValue::from_static("Bearer") };
            answer.headers.push((WWW_AUTHENTICATE, challenge));
        }
        answer
    }

    pub(super) fn refused(&self, kind: ErrorKind, text: &str) -> Answer {
        self.error(&Error::new(kind, text), Reason::Refused(kind, text.to_owned()))
    }

    pub(super) fn invalid(&self, error: Error) -> Answer {
        let answer = self.error(&error, Reason::Invalid(Vec::new()));
        Answer { reason: Reason::Invalid(error.problems), ..answer }
    }

    pub(super) fn denied(&self, error: AdmissionError) -> Answer {
        match error {
            AdmissionError::Invalid(kind, text) => self.refused(kind, &text),
            AdmissionError::NotFound(lookup) => self.not_found(lookup),
            AdmissionError::Unauthorized(refusal) => {
                let error = Error::new(ErrorKind::Unauthorized, refusal.advice(self.profile().key_rules()));
                let advice = error.message.clone().into_boxed_str();
                let mut answer = self.error(&error, Reason::Unauthorized { refusal, advice });
                if refusal.token_came() {
                    answer.headers.push((WWW_AUTHENTICATE, INVALID_TOKEN));
                }
                answer
            }
            AdmissionError::RateLimited(verdict) => {
                let (limit, seconds) = (verdict.limit, verdict.window.as_secs_f64());
                let message =
                    format!("the quota of {limit} requests in {seconds} s is used up; back off before retrying");
                self.error(&Error::new(ErrorKind::RateLimitExceeded, message), Reason::RateLimited)
            }
            AdmissionError::Panicked(text) => {
                let kind = ErrorKind::InternalError;
                self.error(&Error::new(kind, kind.message()), Reason::Panicked(text))
            }
        }
    }

    fn not_found(&self, lookup: Lookup) -> Answer {
        match lookup {
            Lookup::MethodNotAllowed(allow) => {
                let error = Error::new(ErrorKind::MethodNotAllowed, format!("this endpoint takes {allow}"));
                let header = header_value(&allow);
                let mut answer = self.error(&error, Reason::MethodNotAllowed(allow));
                answer.headers.push((ALLOW, header));
                answer
            }
            Lookup::Announced(entry) => {
                let message = format!(
                    "{} ({}) are announced by the contract as upcoming and not open yet; --preview serves them in assumed shapes",
                    entry.path, entry.what
                );
                self.error(&Error::new(ErrorKind::NotFound, message), Reason::Announced(entry.path))
            }
            Lookup::Found(_) | Lookup::Unknown => {
                let is_preview_on = self.profile().preview.enabled;
                let message = no_endpoint(&self.request.head.method, self.request.path(), is_preview_on);
                self.error(&Error::new(ErrorKind::NotFound, message.as_str()), Reason::NotFound(message.into()))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Truncate(usize),
    Stall(usize, Option<Duration>),
    /// This many bytes at a time with this interval between them, until the body is complete.
    Drip(usize, Duration),
}

pub(super) fn paced(body: Bytes, pace: Pace, workspace: &Workspace) -> Outgoing {
    let (clock, slot) = (workspace.clock().clone(), workspace.agenda().slot());
    let paced = PacedBody { rest: body, has_begun: false, pace, clock, slot };
    Outgoing::stream(unfold(paced, PacedBody::next))
}

struct PacedBody {
    rest: Bytes,
    has_begun: bool,
    pace: Pace,
    clock: Clock,
    /// When the present wait ends. The slot stays due until the next wait or the end of the body.
    slot: Slot,
}

impl PacedBody {
    /// The next piece with what follows it; `None` at the end.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let piece = match self.pace {
            Pace::Truncate(most) | Pace::Stall(most, _) if !self.has_begun && most > 0 && !self.rest.is_empty() => {
                Ok(self.take(most))
            }
            Pace::Truncate(_) => {
                // Lets hyper flush what was sent so far.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(self.broken_off())
            }
            Pace::Stall(_, pause) => {
                match pause {
                    Some(pause) => self.wait(pause).await,
                    None => pending().await,
                }
                Err(self.broken_off())
            }
            Pace::Drip(..) if self.rest.is_empty() => return None,
            Pace::Drip(size, interval) => {
                if self.has_begun {
                    self.wait(interval).await;
                }
                let part = self.take(size.max(1));
                if self.rest.is_empty() {
                    self.slot.set(None);
                }
                Ok(part)
            }
        };
        Some((piece, self))
    }

    async fn wait(&mut self, pause: Duration) {
        let until = self.clock.instant().plus(pause);
        self.slot.set(Some(until));
        self.clock.sleep_until(until).await;
    }

    fn take(&mut self, most: usize) -> Bytes {
        self.has_begun = true;
        self.rest.split_to(most.min(self.rest.len()))
    }

    fn broken_off(&mut self) -> io::Error {
        self.slot.set(None);
        io::Error::new(io::ErrorKind::ConnectionAborted, "a scenario broke this answer off")
    }
}

/// A body as JSON. Written straight into bytes: `Value::to_string` takes three times the instructions.
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
