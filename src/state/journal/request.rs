//! A request as the journal keeps it: the bytes received, the answer, and the reason for it.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use jiff::Timestamp;

use crate::advice::Advice;
use crate::contract::error::{ErrorKind, FieldProblem};
use crate::contract::keys::{KeyRefusal, KeyRules, Keys, bearer_token, check_key};
use crate::contract::routes::{Operation, is_poll};
use crate::contract::types::Environment;
use crate::scenario::TriedRules;
use crate::state::quota::QuotaCheck;
use crate::state::workspace::Workspace;
use crate::util::header_lines::{fields, push_headers};
use crate::util::wording::labelled;

/// Maximum bytes of a body that the journal keeps.
pub const KEPT_BODY: usize = 64 * 1024;

#[derive(Debug)]
pub struct RequestRecord {
    pub transcript: Transcript,
    pub at: Timestamp,
    /// The workspace of its key; `None` without a valid key.
    pub workspace: Option<Arc<Workspace>>,
    pub operation: Option<Operation>,
    /// The answer's status; 0 if the connection was broken instead.
    pub status: u16,
    /// The event that replaced an answer: the fault `reset`, `empty` or `garbage`, or `client_left`.
    pub broken: Option<&'static str>,
    /// From arrival to answer, by the workspace's clock.
    pub latency: Duration,
    pub reason: Reason,
    pub quota: Option<QuotaCheck>,
    pub scripted: Option<DecidingRule>,
    /// The rules that did not apply; `None` if none was active, or it did not come to them.
    pub tried_rules: Option<Box<TriedRules>>,
    /// Parts of the answer that could not be produced, such as a template that failed; a few short texts.
    pub warnings: Vec<String>,
    pub generation: u64,
    pub arrival: ConnectionInfo,
    pub written: WrittenAt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The number of the connection, from 1 in the order accepted; 0 for bytes that are not a request.
    pub connection: u64,
    pub sequence: u64,
    /// When its first byte was read; `None` if it came together with the request before it.
    pub first_byte: Option<Timestamp>,
}

/// When the last bytes of an answer were written, which is after the answer's entry in the journal was made.
#[derive(Debug, Default)]
pub struct WrittenAt(AtomicI64);

impl WrittenAt {
    /// The time in microseconds; `None` if the answer is not written yet, or never was.
    pub fn at(&self) -> Option<Timestamp> {
        let micros = self.0.load(Ordering::Relaxed);
        if micros == 0 { None } else { Timestamp::from_microsecond(micros).ok() }
    }

    pub fn note(&self, at: Timestamp) {
        self.0.store(at.as_microsecond(), Ordering::Relaxed);
    }
}

impl RequestRecord {
    /// True if it matched no endpoint and asks nothing of the API: an icon that a browser requests by itself, a CORS preflight, or a poll
    /// that waits for a server to be ready.
    pub fn is_incidental(&self) -> bool {
        let (method, target) = self.transcript.request_line();
        let is_preflight = || {
            let mut headers = self.transcript.headers();
            headers.any(|(name, _)| name.eq_ignore_ascii_case("access-control-request-method"))
        };
        let path = target.split('?').next().unwrap_or_default();
        self.operation.is_none()
            && match (method, path) {
                ("GET", "/favicon.ico") => true,
                ("OPTIONS", _) => is_preflight(),
                _ => is_poll(method, path),
            }
    }
}

/// Whose request it is: [`Self::checked_key`] for what followed from the key, [`Self::carried_key`] to show it to people, and
/// [`Self::owner`] to choose the requests of a workspace. The first two must pass through `redact` before they are shown.
impl RequestRecord {
    /// The key that was found valid; `None` if there was none, or it was never checked.
    pub fn checked_key(&self) -> Option<&str> {
        self.workspace.as_ref().map(|workspace| workspace.name().as_ref())
    }

    /// The key the request carried, even if it was never checked because the operation is public or an earlier check
    /// refused the request. Unresolved access tokens do not count.
    pub fn carried_key(&self, keys: &Keys) -> Option<Cow<'_, str>> {
        if self.workspace.is_some() {
            return self.checked_key().map(Cow::Borrowed);
        }
        let is_meant = |(name, _): &(&str, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        let headers = map_of(self.transcript.headers().filter(is_meant));
        let key = bearer_token(&headers).ok()?;
        let is_key = |environment| check_key(key, KeyRules { environment, keys }).is_ok();
        [Environment::Sandbox, Environment::Production].into_iter().any(is_key).then(|| Cow::Owned(key.to_owned()))
    }

    /// The name of the workspace of the key that it carries.
    pub fn owner<'r>(&'r self, keys: &'r Keys) -> Option<Cow<'r, str>> {
        match &self.workspace {
            Some(workspace) => Some(Cow::Borrowed(workspace.name())),
            None => self.carried_key(keys),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Reason {
    Answered,
    Subscribed {
        id: String,
        /// False if an existing one was updated.
        created: bool,
        /// Ways in which receivers' libraries may read its secret differently.
        warnings: Vec<String>,
    },
    Unauthorized {
        refusal: KeyRefusal,
        /// The advice that the answer gave, by the settings at that time.
        advice: Box<str>,
    },
    /// The quota was used up; the details are in `quota`.
    RateLimited,
    Invalid(Vec<FieldProblem>),
    NotFound(Box<str>),
    /// An operation that the contract announces and that is switched off.
    /// With the scenario that answers it, unless that is active.
    Announced(&'static str, Option<Advice>),
    /// The path exists with other methods: the `Allow` value.
    MethodNotAllowed(String),
    /// Refused before the contract's rules: not a valid HTTP request, too large, too slow.
    Refused(ErrorKind, String),
    /// A scenario rule answered, or broke the connection; it is in `scripted`. A rule that only delays, patches or slows an answer
    /// leaves the reason for it.
    Scripted,
    Panicked(String),
    /// The client was gone before it was answered: it reset the connection, or closed its side and did not read for too long.
    ClientLeft,
}

/// The scenario rule that decided a request. Whether the answer is its own is for [`Reason`] to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingRule {
    pub scenario: Arc<str>,
    /// The rule's name, or its position as `rule 2`.
    pub rule: Arc<str>,
    /// Where it begins in the scenario's text; from 1.
    pub line: usize,
    /// How often the rule has applied, this request included.
    pub turn: u64,
    pub action: Arc<str>,
}

impl DecidingRule {
    /// In a sentence: `rule 2`, or by its name.
    pub fn name(&self) -> String {
        labelled("rule", "rule ", &self.rule)
    }
}

/// A request and its answer in one allocation: id, request line and headers, the answer's headers, both bodies. Credentials are
/// kept unmasked; code that shows a part of it masks them with `redact`.
///
/// The bytes are copied because hyper's types keep its whole read buffer alive, and in one allocation because freeing several
/// for each of ten thousand records costs more than writing them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    bytes: Vec<u8>,
    /// Where the id, the request's head, the answer's head and the request's body end; the answer's body follows.
    ends: [usize; 4],
}

/// Maximum bytes of a transcript that are allocated and not used.
const SLACK: usize = 64;
/// Maximum bytes that are allocated before it is known how many are needed.
const MAX_GUESSED: usize = 4096;

thread_local! {
    /// How long the last transcript of the thread was, rounded up: the next one is often as long.
    static GUESS: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Copy)]
pub struct RawExchange<'a> {
    /// Form `req_<id>`, in ASCII.
    pub id: &'a [u8],
    /// Method and target; `None` for bytes that are not a valid request.
    pub request: Option<(&'a Method, &'a Uri)>,
    pub headers: &'a HeaderMap,
    /// The request's body, as far as it was read.
    pub body: &'a [u8],
    /// Writes the answer's headers, a line each.
    pub answer_headers: &'a dyn Fn(&mut Vec<u8>),
    pub answer_body: &'a [u8],
}

impl Transcript {
    /// Copies what went over the wire; of a body at most 64 KiB.
    pub fn new(wire: &RawExchange<'_>) -> Self {
        let (body, answer_body) = (kept(wire.body), kept(wire.answer_body));
        let target =
            wire.request.map_or("", |(_, uri)| uri.path_and_query().map_or(uri.path(), |target| target.as_str()));
        let method = wire.request.map_or("", |(method, _)| method.as_str());
        let mut bytes = Vec::with_capacity(GUESS.get());
        bytes.extend_from_slice(wire.id);
        let id_end = bytes.len();
        for part in [method, " ", target, "\r\n"] {
            bytes.extend_from_slice(part.as_bytes());
        }
        push_headers(&mut bytes, wire.headers);
        let head_end = bytes.len();
        (wire.answer_headers)(&mut bytes);
        let answer_head_end = bytes.len();
        bytes.extend_from_slice(body);
        let body_end = bytes.len();
        bytes.extend_from_slice(answer_body);
        if bytes.capacity() > bytes.len() + SLACK {
            bytes.shrink_to_fit();
        }
        GUESS.set(bytes.len().next_multiple_of(SLACK).min(MAX_GUESSED));
        Self { bytes, ends: [id_end, head_end, answer_head_end, body_end] }
    }

    /// Form `req_<id>`: the `X-Emulator-Request-Id` of the answer.
    pub fn id(&self) -> &str {
        text(&self.bytes[..self.ends[0]])
    }

    /// The method and target of the request; empty where there was none.
    pub fn request_line(&self) -> (&str, &str) {
        let line = self.bytes[self.ends[0]..self.ends[1]].split(|byte| *byte == b'\r').next().unwrap_or_default();
        text(line).split_once(' ').unwrap_or_default()
    }

    /// The request's headers as received; values that are not UTF-8 are escaped.
    pub fn header_map(&self) -> HeaderMap {
        map_of(self.headers())
    }

    /// The request's header names and values in the order received.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        fields(&self.bytes[self.ends[0]..self.ends[1]])
    }

    pub fn answer_headers(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        fields(&self.bytes[self.ends[1]..self.ends[2]])
    }

    /// The request's body, as far as it was read and is kept.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.ends[2]..self.ends[3]]
    }

    pub fn answer_body(&self) -> &[u8] {
        &self.bytes[self.ends[3]..]
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn kept(body: &[u8]) -> &[u8] {
    &body[..body.len().min(KEPT_BODY)]
}

fn map_of<'t>(fields: impl Iterator<Item = (&'t str, Cow<'t, str>)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcripts_keep_the_headers_in_order() {
        let (mut headers, mut answer_headers) = (HeaderMap::new(), HeaderMap::new());
        headers.insert("x-a", HeaderValue::from_static("1: 2"));
        headers.insert("x-b", HeaderValue::from_bytes(b"\xff").expect("opaque bytes are allowed"));
        answer_headers.insert("x-c", HeaderValue::from_static("3"));
        let uri = Uri::from_static("/v1/hello?a=b");
        let wire = RawExchange {
            id: b"req_1",
            request: Some((&Method::GET, &uri)),
            headers: &headers,
            body: b"sent\r\nx: y",
            answer_headers: &|bytes| push_headers(bytes, &answer_headers),
            answer_body: b"got",
        };
        let transcript = Transcript::new(&wire);
        assert_eq!((transcript.id(), transcript.request_line()), ("req_1", ("GET", "/v1/hello?a=b")));
        let shown: Vec<_> = transcript.headers().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(shown, ["x-a: 1: 2", "x-b: \\xff"]);
        let map = transcript.header_map();
        assert!(map.len() == 2 && map["x-a"] == "1: 2", "{map:?}");
        assert_eq!(transcript.answer_headers().map(|(name, _)| name).collect::<Vec<_>>(), ["x-c"]);
        assert_eq!((transcript.body(), transcript.answer_body()), (&b"sent\r\nx: y"[..], &b"got"[..]));
        let none = Transcript::new(&RawExchange { id: b"req_2", request: None, ..wire });
        assert_eq!((none.id(), none.request_line()), ("req_2", ("", "")));
    }
}
