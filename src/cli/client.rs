//! The command line as a client of the control API: one call and its answer, and the event stream.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::Error as TlsError;
use rustls::pki_types::ServerName;
use serde::Deserialize as _;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use url::{Url, form_urlencoded};

use super::arguments::{Target, address, base, died, is_webhook_url, reachable};
use super::failure::{Failure, FailureCode};
use super::output::compact;
use crate::advice::{Advice, Audience, READER};
use crate::contract::DEFAULT_URL;
use crate::contract::variation::HeaderLetters;
use crate::control::api::{AskHealth, CallAnswer, ControlCall, FollowStream, KeyFilter, Query, Sent};
use crate::http::handler::PLAIN_ON_TLS;
use crate::http::tls::{Trust, is_about_the_issuer};
use crate::http::tls_problem::{certificate_problem, handshake_problem, tls_error};
use crate::util::expansion::{MOST, check_expansion};
use crate::util::wording::shell_word;
use crate::webhook::dial::{ClientTls, Sender, open};

/// How long a command waits before it repeats a call that the emulator was too busy for.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// Maximum bytes of an answer, and of an event of the stream. What answers may be another program, and JSON needs many times its size once it
/// is read.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Maximum bytes of an answer that refuses the call.
const MAX_REFUSAL: usize = 1024 * 1024;
/// Maximum bytes of a run document, and of a snapshot.
pub(super) const MAX_RUN: usize = 64 * 1024 * 1024;
pub(super) const MAX_SNAPSHOT: usize = 1024 * 1024 * 1024;

/// How long a call waits for an answer that needs no work.
pub(super) const SHORT: Duration = Duration::from_secs(10);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// How calls of the control API are made.
#[derive(Clone)]
pub(super) struct ControlClient<'a> {
    target: &'a Target,
    /// A body that is not fields of the request, and its media type.
    body: Option<(&'static str, Vec<u8>)>,
    limit: Duration,
    accepted: &'static str,
    reader: Audience,
    max_answer: usize,
    /// The only file of authorities that is trusted.
    trusted: Option<PathBuf>,
}

impl<'a> ControlClient<'a> {
    pub(super) fn new(target: &'a Target) -> Self {
        let reader = target.reader();
        Self { target, body: None, limit: SHORT, accepted: JSON, reader, max_answer: MAX_ANSWER, trusted: None }
    }

    /// Sets a body that is JSON already.
    pub(super) fn json(mut self, text: Vec<u8>) -> Self {
        self.body = Some((JSON, text));
        self
    }

    /// Sets a body of TOML, where the call accepts it.
    pub(super) fn toml(mut self, text: &str) -> Self {
        self.body = Some(("application/toml", text.as_bytes().to_vec()));
        self
    }

    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Reads at most this many bytes of the answer.
    pub(super) fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = bytes;
        self
    }

    /// Trusts the certificates in this file alone, whatever the machine and the target trust.
    pub(super) fn trusting_only(mut self, file: PathBuf) -> Self {
        self.trusted = Some(file);
        self
    }

    /// Asks for text instead of JSON.
    pub(super) fn text(mut self) -> Self {
        self.accepted = TEXT;
        self
    }

    /// Words advice for an agent instead of a person.
    pub(super) fn for_agent(mut self) -> Self {
        self.reader = Audience::agent(&self.target.url);
        self
    }

    /// Makes a call and reads its answer; a refused call is a failure.
    pub(super) fn send<C: ControlCall>(self, request: &C) -> Result<<C::Answer as CallAnswer>::Schema, Failure>
    where
        <C::Answer as CallAnswer>::Schema: DeserializeOwned,
    {
        let sent = request.sent();
        parsed(sent.path, &self.exchange(&sent)?)
    }

    /// Makes a call and returns its answer as it was received.
    pub(super) fn exchange(self, sent: &Sent) -> Result<Bytes, Failure> {
        let url = base(&self.target.url)?;
        let exchange = async {
            loop {
                let response = self.open(&url, sent).await?;
                match self.read(&url, response).await {
                    // The call has not begun.
                    Err(failure) if failure.is_busy() => tokio::time::sleep(BUSY_PAUSE).await,
                    answer => return answer,
                }
            }
        };
        runtime(Builder::new_current_thread())?.block_on(self.in_time(exchange))
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let late = |_| Err(self.unreachable(format!("no answer within {} s", self.limit.as_secs())));
        tokio::time::timeout(self.limit, answer).await.unwrap_or_else(late)
    }

    /// Sends the call, up to the head of the answer.
    async fn open(&self, url: &Url, sent: &Sent) -> Result<Response<Incoming>, Failure> {
        let mut path = sent.path.to_owned();
        if let Some((name, value)) = &sent.segment {
            path = path.replace(&format!("{{{name}}}"), &utf8_percent_encode(value, NON_ALPHANUMERIC).to_string());
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let parameters = sent.query.iter().map(|(name, value)| (name, text(value)));
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let mut sender = self.connected(url).await?;
        let fields = || (JSON, if sent.method == "GET" { Vec::new() } else { compact(&sent.body).into_bytes() });
        let (media, body) = self.body.clone().unwrap_or_else(fields);
        // A reverse proxy may serve the emulator below a path.
        let uri = format!("{}/_emulator/{path}{query}", url.path().trim_end_matches('/'));
        let mut request = Request::builder()
            .method(sent.method)
            .uri(uri)
            .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
            .header(ACCEPT, self.accepted)
            .header(READER, self.reader.header(&self.target.url))
            .header(CONTENT_TYPE, media);
        if let Some(token) = self.target.token() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(body.into()).map_err(|error| self.unreachable(error))?;
        sender.send_request(request).await.map_err(|error| {
            match url.scheme() {
                _ if error.is_parse_too_large() => self.unreachable("its answer has too many or too long headers"),
                // A TLS server answers plain HTTP with a TLS alert, which does not parse as HTTP.
                "http" if error.is_parse() => self.speaks_tls(url),
                _ => self.unreachable(error),
            }
        })
    }

    async fn read(&self, url: &Url, response: Response<Incoming>) -> Result<Bytes, Failure> {
        let status = response.status();
        let media = response.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let is_text = self.accepted == TEXT && media.starts_with(TEXT);
        let most = if status.is_success() { self.max_answer } else { MAX_REFUSAL };
        let body = Limited::new(response.into_body(), most).collect().await;
        let bytes = body.map_err(|error| self.unreachable(error_of_body(&*error, most)))?.to_bytes();
        if status.is_success() && (is_text || serde_json::from_slice::<IgnoredAny>(&bytes).is_ok()) {
            // Of a snapshot, the longest answer, nothing is read but how many workspaces it has.
            if !is_text && self.max_answer != MAX_SNAPSHOT {
                self.check(&bytes)?;
            }
            return Ok(bytes);
        }
        let Ok(answer) = serde_json::from_slice::<Value>(&bytes) else {
            let status = status.as_u16();
            return Err(
                self.unreachable(format!("status {status} with a body that is not JSON; is that a wrs-emulator?"))
            );
        };
        let is_tls = answer.pointer("/error/message").is_some_and(|message| message == PLAIN_ON_TLS);
        Err(if is_tls { self.speaks_tls(url) } else { refused(status, answer, &self.reader) })
    }

    /// Refuses an answer, or an event of the stream, that expands.
    fn check(&self, json: &[u8]) -> Result<(), Failure> {
        check_expansion(json, MOST).map_err(|cause| self.unreachable(format!("its answer cannot be read: {cause}")))
    }

    /// Follows the event stream until the emulator ends it or `each` returns false; `each` gets the kind and JSON of an event.
    pub(super) fn follow(self, key: KeyFilter, mut each: impl FnMut(&str, &str) -> bool) -> Result<(), Failure> {
        let (url, sent) = (base(&self.target.url)?, Query { query: FollowStream { key, kind: None } }.sent());
        runtime(Builder::new_current_thread())?.block_on(async {
            let mut response = self.in_time(self.open(&url, &sent)).await?;
            if !response.status().is_success() {
                return self.in_time(self.read(&url, response)).await.map(drop);
            }
            let mut text = Vec::new();
            while let Some(Ok(frame)) = response.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                // An end may have begun with the last byte before.
                let mut searched = text.len().saturating_sub(1);
                text.extend_from_slice(&data);
                if text.len() > self.max_answer {
                    return Err(self.unreachable(too_long(self.max_answer)));
                }
                while let Some(end) = text[searched..].windows(2).position(|window| window == b"\n\n") {
                    let block: Vec<u8> = text.drain(..searched + end + 2).collect();
                    searched = 0;
                    let block = String::from_utf8_lossy(&block);
                    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                    if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
                        self.check(data.as_bytes())?;
                        if !each(kind, data) {
                            return Ok(());
                        }
                    }
                }
            }
            Ok(())
        })
    }

    async fn connected(&self, url: &Url) -> Result<Sender, Failure> {
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(80);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| self.unreachable(error))?;
        if url.scheme() != "https" {
            return open(Box::new(stream), HeaderLetters::Lower).await.map_err(|error| self.unreachable(error));
        }
        let trust = match &self.trusted {
            Some(file) => Trust::only(file),
            None => Trust::new(&self.target.ca, self.target.trusts_any()),
        };
        let trust = trust.map_err(|problem| {
            let base = url.as_str().trim_end_matches('/');
            let authority = format!("{base}/_emulator/ca.pem");
            let hint = format!("save the emulator's authority first: curl -sk -o ca.pem {}", shell_word(&authority));
            Failure::usage(format!("--ca: {problem}")).with_hint(hint)
        })?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| self.unreachable(error))?;
        let connected = ClientTls::connect(name, stream, &trust).await;
        let stream = connected.map_err(|error| self.tls_failure(url, &error))?;
        open(Box::new(stream), HeaderLetters::Lower).await.map_err(|error| self.unreachable(error))
    }

    fn speaks_tls(&self, url: &Url) -> Failure {
        self.unreachable("it speaks TLS").with_hint(format!("use --url {}", other_scheme(url)))
    }

    /// Distinguishes the ways in which a handshake fails.
    fn tls_failure(&self, url: &Url, error: &std::io::Error) -> Failure {
        match tls_error(error) {
            Some(TlsError::InvalidMessage(_)) => {
                let hint = format!("use --url {}, or start it with --tls self-signed", other_scheme(url));
                self.unreachable("it does not speak TLS").with_hint(hint)
            }
            Some(TlsError::InvalidCertificate(problem)) => {
                let base = url.as_str().trim_end_matches('/');
                let is_unknown = is_about_the_issuer(problem);
                let hint = match (is_unknown, self.target.ca.is_empty()) {
                    (true, true) => format!(
                        "pass its authority with --ca FILE (from {base}/_emulator/ca.pem), or skip the check with \
                         --insecure"
                    ),
                    (true, false) => format!(
                        "no authority in the file given signed it; the present one is at {base}/_emulator/ca.pem"
                    ),
                    (false, _) => "use a name that the certificate is for, renew it if it has expired, or skip the \
                                   check with --insecure"
                        .to_owned(),
                };
                let problem = certificate_problem(problem);
                self.unreachable(format!("its certificate is not trusted: it {problem}")).with_hint(hint)
            }
            _ => self.unreachable(format!("the TLS handshake failed: {}", handshake_problem(error))),
        }
    }

    fn unreachable(&self, cause: impl Display) -> Failure {
        let url = &self.target.url;
        let listen = url.split("//").last().unwrap_or_default().trim_end_matches('/');
        let tls = if url.starts_with("https:") { " --tls self-signed" } else { "" };
        let hint = if let (DEFAULT_URL, Some(process)) = (&**url, died()) {
            format!(
                "the one that was started here (process {process}) has ended; `wrs-emulator logs` shows its log, and `wrs-emulator start` \
                 starts it again"
            )
        } else if url == DEFAULT_URL {
            "start it with `wrs-emulator`, or in the background with `wrs-emulator start`; or name another with --url or WRS_EMULATOR_URL".to_owned()
        } else if is_webhook_url(url) {
            "--url is the emulator's address, not the URL of a webhook".to_owned()
        } else if address("--listen", listen).is_ok() {
            format!("start it with `wrs-emulator --listen {listen}{tls}`")
        } else {
            "start it, or correct the address".to_owned()
        };
        Failure::new(3, FailureCode::Unreachable, format!("cannot reach the emulator at {url}: {cause}"))
            .with_hint(hint)
    }
}

fn error_of_body(error: &(dyn std::error::Error + 'static), most: usize) -> String {
    if error.is::<LengthLimitError>() { too_long(most) } else { error.to_string() }
}

fn too_long(most: usize) -> String {
    format!("it answers with more than {} MiB; is that a wrs-emulator?", most / (1024 * 1024))
}

/// The answer to a call, read as a type.
pub(super) fn parsed<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer).map_err(|error| {
        let message = format!("the answer to `{path}` has an unexpected form: {error}");
        Failure::new(2, FailureCode::Failed, message).with_hint("is that the same version of wrs-emulator?")
    })
}

/// The failure for a refused call. A 404 exits with 1, unless the unknown thing is the key: that is wrong usage, like every other
/// refusal.
fn refused(status: StatusCode, answer: Value, reader: &Audience) -> Failure {
    let field = |pointer| answer.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = field("/error/message").unwrap_or("the emulator refused the call");
    let (exit, code) = match status {
        StatusCode::NOT_FOUND if field("/parameter") != Some("key") => (1, FailureCode::NotFound),
        StatusCode::NOT_FOUND => (2, FailureCode::NotFound),
        StatusCode::REQUEST_TIMEOUT => (2, FailureCode::TimedOut),
        // Something matches, though the call asked for none.
        StatusCode::CONFLICT => (1, FailureCode::Failed),
        _ => (2, FailureCode::Refused),
    };
    let advice = answer.get("advice").and_then(|advice| Vec::<Advice>::deserialize(advice).ok()).unwrap_or_default();
    let advice: Vec<String> = advice.iter().map(|advice| format!("`{}`", advice.worded(reader))).collect();
    let hint = match status {
        StatusCode::UNAUTHORIZED => {
            Some("set WRS_EMULATOR_CONTROL_TOKEN to that token, or give it as --control-token".to_owned())
        }
        _ => (!advice.is_empty()).then(|| advice.join(", or ")),
    };
    let failure = Failure::new(exit, code, message);
    Failure { hint, answer: Some(Box::new(answer)), ..failure }
}

/// The same address with `http` for `https`, or the other way round.
fn other_scheme(url: &Url) -> String {
    let scheme = if url.scheme() == "https" { "http" } else { "https" };
    let text = format!("{scheme}{}", &url[url::Position::AfterScheme..]);
    text.trim_end_matches('/').to_owned()
}

/// The URL of an emulator that answers at this address; `None` if none does.
pub(super) fn emulator_at(address: SocketAddr) -> Option<String> {
    ["http", "https"].into_iter().find_map(|scheme| {
        let url = reachable(&format!("{scheme}://{address}"));
        let target = Target { url: url.clone(), control_token: None, ca: Vec::new(), insecure: true };
        let is_one = match ControlClient::new(&target).limit(Duration::from_secs(1)).send(&AskHealth {}) {
            Ok(health) => health.status == "ready",
            // Where the control API has its own port, the emulated one refuses the path.
            Err(failure) => {
                failure.answer.is_some_and(|answer| answer.pointer("/error/request_id").is_some_and(Value::is_string))
            }
        };
        is_one.then_some(url)
    })
}

/// Makes calls from an asynchronous task. The client blocks its thread, and the tasks of this process must continue.
pub(super) async fn in_background<T: Send + 'static>(
    calls: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(calls)
        .await
        .unwrap_or_else(|error| Err(Failure::io(format!("the emulator cannot be asked: {error}"))))
}

/// Runs the main task of a command on several threads, and then ends without waiting for other tasks.
pub(crate) fn run_task<T>(task: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime(Builder::new_multi_thread())?;
    let result = runtime.block_on(task);
    runtime.shutdown_background();
    Ok(result)
}

pub(super) fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(|error| Failure::io(format!("cannot start: {error}")))
}
