//! Handles one delivery: reads it within limits, verifies, prints and answers it, itself or by the application that it is forwarded to.
//! Independent of the life cycle of the process.
//!
//! Deliveries are counted and printed under one lock, so that the lines are in the order of the scripted statuses.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use crate::advice::Advice;
use crate::cli::failure::{Failure, warn};
use crate::cli::output::{bytes_field, cell, compact, print};
use crate::cli::signatures::{ResolvedSigning, rejected};
use crate::cli::stream::Stream;
use crate::clock::{Instant, Now, machine};
use crate::contract::signature::{Evidence, Rejection, Remedy, TOLERANCE_SECONDS};
use crate::contract::timestamp::{Precision, format_timestamp};
use crate::contract::variation::HeaderLetters;
use crate::http::answer::answer;
use crate::http::body::ResponseBody;
use crate::http::body::{BodyProblem, BodyReader, RequestBody};
use crate::http::connection_state::ConnectionState;
use crate::http::handler::{Handler, HandlerResponse, NO_HTTP_2, PLAIN_ON_TLS, Unreadable};
use crate::http::tls::Trust;
use crate::redact::{Redactor, visible};
use crate::settings::{ForwardHost, Framing, target_url, with_rest};
use crate::state::workspace::{AttemptOutcome, FailureReason};
use crate::util::flag::Flag;
use crate::util::wording::shell_word;
use crate::webhook::client::{ANSWERED_BY, Client, Post};
use crate::webhook::dial::DialContext;
use crate::webhook::egress::{DialTarget, Egress};
use crate::webhook::resolve::{LookUp, Resolver};

const OF_THE_CONNECTION: [HeaderName; 8] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_KEPT: usize = 8;

pub(super) enum Answers {
    /// Statuses in order; the last one repeats. Without any, verification decides.
    Script(Vec<u16>),
    Application(Application),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeliveryCounts {
    pub(super) received: u64,
    pub(super) rejected: u64,
}

/// The subscription's part, which may be made after the receiver has begun.
#[derive(Clone, Default)]
pub(super) struct VerifiesWith {
    pub(super) secrets: Vec<String>,
    /// If it is not this receiver's. A scheme that signs the URL signs this one.
    pub(super) url: Option<String>,
}

pub(super) struct Receiver {
    pub(super) signing: ResolvedSigning,
    /// The URL of this receiver, without a path.
    pub(super) base: String,
    /// The URL that is signed, if the user names one.
    pub(super) webhook_url: Option<String>,
    pub(super) subscribed: Mutex<VerifiesWith>,
    pub(super) answers: Answers,
    pub(super) count: Option<u64>,
    pub(super) json: bool,
    pub(super) bodies: BodyReader,
    pub(super) tally: Mutex<DeliveryCounts>,
    pub(super) stop: Flag,
}

enum SignatureCheck {
    NotChecked,
    Verified,
    /// A change that makes it verify, or else a hint.
    Rejected(Rejection, Vec<Remedy>, Option<&'static str>),
    Unreadable(BodyProblem),
}

impl SignatureCheck {
    /// True if the delivery verified; `None` if that was not checked.
    fn verified(&self) -> Option<bool> {
        match self {
            Self::NotChecked => None,
            Self::Verified => Some(true),
            Self::Rejected(..) | Self::Unreadable(_) => Some(false),
        }
    }
}

impl Receiver {
    fn is_full(&self, tally: DeliveryCounts) -> bool {
        self.count.is_some_and(|count| tally.received >= count)
    }

    /// Verifies under every scheme and reports the first that fails.
    fn verify(&self, target: &str, headers: &HeaderMap, body: &[u8], now: Timestamp) -> SignatureCheck {
        let VerifiesWith { secrets, url } = self.subscribed.lock().clone();
        if secrets.is_empty() {
            return SignatureCheck::NotChecked;
        }
        let url = self.webhook_url.clone().or(url).unwrap_or_else(|| format!("{}{target}", self.base));
        let values =
            |name: &str| headers.get_all(name).iter().flat_map(|value| value.to_str()).map(str::to_owned).collect();
        for scheme in &self.signing.schemes {
            let evidence = Evidence {
                scheme,
                custom: &self.signing.custom,
                secrets: &secrets,
                reading: self.signing.reading,
                headers: &values,
                url: &url,
                body,
                now: now.as_second(),
                tolerance: TOLERANCE_SECONDS,
            };
            if let Err(rejection) = evidence.verify() {
                let remedies = evidence.remedies();
                let hint = evidence.hint().filter(|_| remedies.is_empty());
                return SignatureCheck::Rejected(rejection, remedies, hint);
            }
        }
        SignatureCheck::Verified
    }

    /// Counts and prints the delivery and returns the status to answer; `None` if --count deliveries were received already.
    fn record(&self, delivery: &Delivery<'_>) -> Option<u16> {
        let mut tally = self.tally.lock();
        if self.is_full(*tally) {
            return None;
        }
        let status = match (&delivery.check, &delivery.forwarded, &self.answers) {
            (SignatureCheck::Unreadable(BodyProblem::TransferCoding), ..) => 400,
            (SignatureCheck::Unreadable(problem), ..) => problem.kind().status(),
            (_, Some(forwarded), _) => forwarded.status,
            (_, None, Answers::Script(statuses)) => {
                let at = usize::try_from(tally.received).unwrap_or(usize::MAX);
                let refused = if delivery.check.verified() == Some(false) { 401 } else { 200 };
                statuses.get(at).or(statuses.last()).copied().unwrap_or(refused)
            }
            (_, None, Answers::Application(_)) => 503,
        };
        tally.received += 1;
        tally.rejected += u64::from(delivery.check.verified() == Some(false));
        print(&if self.json { delivery.json(status) } else { delivery.line(status) });
        if self.count == Some(tally.received) || Stream::Out.is_lost() {
            self.stop.raise();
        }
        Some(status)
    }
}

struct Delivery<'a> {
    at: Timestamp,
    target: &'a str,
    headers: &'a HeaderMap,
    body: &'a [u8],
    check: SignatureCheck,
    forwarded: Option<Forwarded>,
}

impl Delivery<'_> {
    /// Time, path, event type and id, verification result, where it was forwarded to, status.
    fn line(&self, status: u16) -> String {
        let at = format_timestamp(self.at, Precision::Milliseconds);
        let event: Value = serde_json::from_slice(self.body).unwrap_or_default();
        let verified = match &self.check {
            SignatureCheck::NotChecked => "not checked".to_owned(),
            SignatureCheck::Verified => "verified".to_owned(),
            SignatureCheck::Unreadable(problem) => format!("not verified: {problem}"),
            SignatureCheck::Rejected(rejection, remedies, hint) => {
                let hint = || hint.map_or_else(String::new, |hint| format!("; {hint}"));
                let remedy = remedies.first().map_or_else(hint, |remedy| format!("; would verify: {remedy}"));
                format!("not verified: {rejection}{remedy}")
            }
        };
        let field = |name| match event.get(name).unwrap_or(&Value::Null) {
            Value::Null => "-".to_owned(),
            Value::String(text) => cell(text),
            other => compact(other),
        };
        let (kind, id) = (field("type"), field("id"));
        let passed = match &self.forwarded {
            None => String::new(),
            Some(Forwarded { to, problem: None, note: None, .. }) => format!(", forwarded to {to}"),
            Some(Forwarded { to, problem: None, note: Some(note), .. }) => format!(", forwarded to {to} ({note})"),
            Some(Forwarded { to, problem: Some(problem), .. }) => format!(", not forwarded to {to}: {problem}"),
        };
        let is_disputed = matches!((&self.check, &self.forwarded), (SignatureCheck::Verified, Some(_)));
        let conclusion = match status {
            401 | 403 if is_disputed => "; this signature holds, so the app's secret or its body differs",
            _ => "",
        };
        let line = format!("{at} {} {kind} {id} {verified}{passed}, answered {status}{conclusion}", self.target);
        format!("{}\n", visible(&Redactor::default().text(&line)))
    }

    fn json(&self, status: u16) -> String {
        let redactor = Redactor::default();
        let headers = self.headers.iter().map(|(name, value)| {
            json!([name.as_str(), redactor.header(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))])
        });
        let event: Value = serde_json::from_slice(self.body).unwrap_or_default();
        let mut shown = json!({
            "event": "delivery",
            "at": format_timestamp(self.at, Precision::Milliseconds),
            "target": self.target,
            "type": event.get("type"),
            "id": event.get("id"),
            "verified": self.check.verified(),
            "status": status,
        });
        let rejection = match &self.check {
            SignatureCheck::NotChecked | SignatureCheck::Verified => Value::Null,
            SignatureCheck::Unreadable(problem) => {
                json!({ "rejection": { "kind": "unreadable_body", "message": problem.to_string() } })
            }
            SignatureCheck::Rejected(rejection, remedies, hint) => rejected(rejection, remedies, *hint),
        };
        if let (Value::Object(shown), Value::Object(rejection)) = (&mut shown, rejection) {
            shown.extend(rejection);
        }
        if let Some(forwarded) = &self.forwarded {
            shown["forwarded"] = json!(forwarded);
        }
        shown["headers"] = headers.collect();
        let (field, body) = bytes_field("body", redactor.body(self.body).into_owned());
        shown[field] = body;
        format!("{}\n", compact(&redactor.shown(&shown)))
    }
}

/// A plain-text answer, without a body if the status does not allow one.
fn text_answer(status: u16, said: &str) -> Response<ResponseBody> {
    let status = StatusCode::from_u16(status).expect("statuses are checked when the flags are read");
    let body = match status {
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED => String::new(),
        // A 4xx without a body would be mistaken for one written by the HTTP library.
        _ => format!("{said}\n"),
    };
    answer(status, HeaderValue::from_static("text/plain"), body)
}

impl Forwarded {
    fn failed(to: String, problem: String) -> Self {
        Self { status: 502, body: Bytes::new(), headers: HeaderMap::new(), to, problem: Some(problem), note: None }
    }

    /// The parts of the application's answer that a sender of webhooks uses.
    fn into_answer(self) -> Response<ResponseBody> {
        let why = self.problem.map_or_else(String::new, |problem| format!("{} gave no answer: {problem}", self.to));
        let mut response = text_answer(self.status, &visible(&Redactor::default().text(&why)));
        response.headers_mut().extend(self.headers);
        if let (true, Ok(by)) = (why.is_empty(), HeaderValue::from_str(&Redactor::default().text(&self.to))) {
            response.headers_mut().insert(ANSWERED_BY, by);
        }
        if !self.body.is_empty() {
            *response.body_mut() = self.body.into();
        }
        response
    }
}

impl Handler for Arc<Receiver> {
    fn handle(&self, request: Request<RequestBody>, _: &Arc<ConnectionState>) -> HandlerResponse {
        let receiver = Arc::clone(self);
        HandlerResponse::Later(Box::pin(async move { receiver.receive(request).await }))
    }

    fn now(&self) -> Now {
        Now { instant: Instant::default(), wall: machine::wall_time() }
    }

    fn warn(&self, message: &str) {
        warn(message);
    }

    fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes {
        let body = match sent {
            Unreadable::Garbage => "the bytes sent are not an HTTP/1.1 request",
            Unreadable::Tls => "this is a TLS handshake: use http:// or listen with --tls self-signed",
            Unreadable::PlainHttp => PLAIN_ON_TLS,
            Unreadable::Http2 => NO_HTTP_2,
        };
        let length = body.len() + 1;
        format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}\n")
            .into()
    }
}

impl Receiver {
    async fn receive(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        if parts.method != Method::POST {
            let mut response = text_answer(405, "only POST is a delivery");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let read = self.bodies.read(&parts.headers, &body).await;
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let at = machine::wall_time();
        let (body, check) = match read {
            Ok(body) => {
                let check = self.verify(target, &parts.headers, &body, at);
                (body, check)
            }
            Err(problem) => (Bytes::new(), SignatureCheck::Unreadable(problem)),
        };
        let forwarded = match (&self.answers, &check) {
            (_, SignatureCheck::Unreadable(_)) | (Answers::Script(_), _) => None,
            (Answers::Application(_), _) if self.is_full(*self.tally.lock()) => None,
            (Answers::Application(application), _) => {
                Some(application.forward(target, &parts.headers, body.clone()).await)
            }
        };
        let delivery = Delivery { at, target, headers: &parts.headers, body: &body, check, forwarded };
        // The reason is printed here, but the sender must not learn it.
        let said = match delivery.check.verified() {
            None => "not checked",
            Some(true) => "verified",
            Some(false) => "not verified",
        };
        match (self.record(&delivery), delivery.forwarded) {
            (Some(_), Some(forwarded)) => forwarded.into_answer(),
            (Some(status), None) => text_answer(status, said),
            (None, _) => text_answer(503, "no more deliveries are accepted"),
        }
    }
}

pub(super) struct Application {
    client: Arc<Client>,
    url: Url,
    /// The URL of this receiver.
    from: String,
    look_ups: Arc<Semaphore>,
}

/// The outcome of a forwarded delivery. As JSON, where it went and the problem.
#[derive(Serialize)]
struct Forwarded {
    /// The status to answer: the application's, or 502.
    #[serde(skip)]
    status: u16,
    /// The body of the answer, possibly cut off.
    #[serde(skip)]
    body: Bytes,
    /// Those of the answer that a sender of webhooks reads.
    #[serde(skip)]
    headers: HeaderMap,
    to: String,
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Box<str>>,
}

/// Parses the application's address.
pub(super) fn application_url(text: &str) -> Result<Url, Failure> {
    target_url(text).map_err(|problem| {
        Failure::usage(format!("--forward-to: {problem}")).with_hint("for example `--forward-to localhost:3000/hooks`")
    })
}

impl Application {
    /// The application at `url`. Public hosts must be allowed, as for the emulator's own deliveries.
    pub(super) fn new(url: Url, from: String, allow_egress: &[String]) -> Self {
        let egress = Arc::new(Egress::new(allow_egress));
        // Deliveries are test data, so an impostor of the application would learn nothing.
        let trust = Arc::new(Trust::new(&[], true).expect("no file is read"));
        let resolver = Arc::new(Resolver::new(LookUp::default()));
        let client = Client::new(DialContext { egress, trust, resolver }, MAX_KEPT);
        Self { client, url, from, look_ups: Arc::new(Semaphore::new(MAX_KEPT)) }
    }

    /// Refuses an application that may not be called. One that does not answer yet may start later.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        let Some(target) = DialTarget::new(self.url.clone(), Some(&self.from)) else { return Ok(()) };
        match self.client.check(&target, &self.look_ups, CONNECT_TIMEOUT).await {
            Err(problem) if problem.reason == FailureReason::EgressRefused => {
                Err(Failure::usage(format!("--forward-to: {}", problem.detail)))
            }
            Err(problem) if problem.reason == FailureReason::NameNotFound => {
                warn(&format!("--forward-to: {}", problem.detail));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Forwards a delivery: to the application's URL, or, if that has no path, with the delivery's own path.
    async fn forward(&self, target: &str, headers: &HeaderMap, body: Bytes) -> Forwarded {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let path = if self.url.path() == "/" { path } else { self.url.path() };
        let Some(target) = DialTarget::new(with_rest(&self.url, path, query), Some(&self.from)) else {
            return Forwarded::failed(self.from.clone(), "no request can be made for this URL".to_owned());
        };
        let to = target.text.to_string();
        let is_chunked = headers.contains_key(TRANSFER_ENCODING);
        let mut headers = headers.clone();
        for name in OF_THE_CONNECTION {
            headers.remove(name);
        }
        let post = Post {
            target: Arc::new(target),
            headers,
            body,
            timeout: TIMEOUT,
            looked_up: Duration::ZERO,
            letters: HeaderLetters::Lower,
            framing: if is_chunked { Framing::Chunked } else { Framing::Length },
            host: ForwardHost::Target,
            connect_timeout: CONNECT_TIMEOUT,
            addresses: None,
            look_ups: Arc::clone(&self.look_ups),
        };
        let mut exchanged = self.client.post(post).await;
        match exchanged.outcome {
            AttemptOutcome::Answered { status: status @ 200..=599, body, note, .. } => {
                let passed = [LOCATION, RETRY_AFTER].into_iter();
                let passed = passed.filter_map(|name| exchanged.headers.remove(&name).map(|value| (name, value)));
                Forwarded { status, body, headers: passed.collect(), to, problem: None, note }
            }
            AttemptOutcome::Answered { status, .. } => Forwarded::failed(to, format!("it answered {status}")),
            AttemptOutcome::Failed { detail, hint, .. } => {
                let hint = hint.map_or_else(String::new, |hint| match hint.advice {
                    Some(Advice::Forward { to, .. }) => format!("; {} `--forward-to {}`", hint.text, shell_word(&to)),
                    _ => format!("; {}", hint.text),
                });
                Forwarded::failed(to, detail + &hint)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guard is asked for each delivery, not only at the start: a name may lead elsewhere by then.
    #[tokio::test]
    async fn each_delivery_is_dialled_by_the_guard() {
        for (url, why) in [
            ("http://169.254.169.254/hooks", "never dialled"),
            ("http://0.0.0.0:9", "never dialled"),
            ("http://8.8.8.8", "is on the internet"),
        ] {
            let application =
                Application::new(Url::parse(url).expect("a URL"), "http://127.0.0.1:9780".to_owned(), &[]);
            for _ in 0..2 {
                let forwarded = application.forward("/", &HeaderMap::new(), Bytes::new()).await;
                let problem = forwarded.problem.unwrap_or_default();
                assert!(forwarded.status == 502 && problem.contains(why), "{url}: {problem}");
            }
        }
    }
}
