//! The command line as a client of the control API: one call with the types of its [`Endpoint`], and the event stream.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, Error as TlsError};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;
use url::{Url, form_urlencoded};

use super::failure::{Code, Failure};
use super::output::as_value;
use super::target::{DEFAULT_URL, Target, address, base, is_webhook_url, reachable};
use crate::control::api::{self, Endpoint};
use crate::http::handler::PLAIN_ON_TLS;
use crate::http::tls::Trust;
use crate::webhook::client::{Sender, open};

/// Why there was no answer, with a hint where starting the emulator would not help.
struct Problem {
    cause: String,
    hint: Option<String>,
    /// Whether an argument is wrong, so that no call was made.
    is_usage: bool,
}

impl<T: std::fmt::Display> From<T> for Problem {
    fn from(cause: T) -> Self {
        Self { cause: cause.to_string(), hint: None, is_usage: false }
    }
}

impl Problem {
    fn with_hint(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: Some(hint.into()), is_usage: false }
    }
}

/// A method, and a path below `/_emulator/` with at most one variable segment.
#[derive(Clone, Copy)]
pub(super) struct CallPath(pub(super) &'static str, pub(super) &'static str);

impl CallPath {
    pub(super) fn reads(self) -> bool {
        self.0 == "GET"
    }
}

/// A call of the control API; with an endpoint, its answer is read as the endpoint's.
pub(super) struct Call<'a, E = ()> {
    request: CallRequest<'a>,
    endpoint: PhantomData<E>,
}

/// What a call sends.
struct CallRequest<'a> {
    target: &'a Target,
    method: Method,
    path: &'static str,
    segment: String,
    query: Vec<(String, String)>,
    body: Vec<u8>,
    media: &'static str,
    limit: Duration,
    wants_text: bool,
}

/// The answer to a refused call, and the JSON that it was read from.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) error: api::Error,
    json: Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn at(target: &'a Target, route: CallPath) -> Self {
        Self::new(target, route.0.parse().expect("the tables name methods of HTTP"), route.1)
    }
}

impl<'a, E: Endpoint> Call<'a, E> {
    pub(super) fn to(target: &'a Target) -> Self {
        Self::new(target, E::METHOD, E::PATH)
    }

    /// The answer; a refused call is a failure.
    pub(super) fn send(self) -> Result<E::Answer, Failure> {
        self.outcome()?.map_err(Refusal::into_failure)
    }

    pub(super) fn outcome(self) -> Result<Result<E::Answer, Refusal>, Failure> {
        let bytes = match self.exchanged()? {
            Ok(bytes) => bytes,
            Err(refusal) => return Ok(Err(refusal)),
        };
        serde_json::from_slice(&bytes).map(Ok).map_err(|error| {
            let message = format!("the answer to `{}` has an unexpected form: {error}", E::PATH);
            Failure::new(2, Code::Failed, message).with_hint("is that the same version of wrs-emulator?")
        })
    }
}

impl<'a, E> Call<'a, E> {
    fn new(target: &'a Target, method: Method, path: &'static str) -> Self {
        let (segment, query, body, media) = (String::new(), Vec::new(), Vec::new(), "application/json");
        let (limit, wants_text) = (SHORT, false);
        let request = CallRequest { target, method, path, segment, query, body, media, limit, wants_text };
        Self { request, endpoint: PhantomData }
    }

    pub(super) fn key(self, key: impl Into<Option<&'a str>>) -> Self {
        match key.into() {
            Some(key) => self.parameter("key", key),
            None => self,
        }
    }

    pub(super) fn parameter(mut self, name: &str, value: &str) -> Self {
        self.request.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.request.segment);
        self
    }

    /// Adds the fields of an object that have a value, as parameters.
    pub(super) fn query(mut self, query: &impl Serialize) -> Self {
        if let Value::Object(fields) = as_value(query) {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.request.query.extend(fields.map(|(name, value)| (name, text(value))));
        }
        self
    }

    /// Sets the body, which must serialize like `E::Body`.
    pub(super) fn body(mut self, body: &impl Serialize) -> Self {
        self.request.body = as_value(body).to_string().into_bytes();
        self
    }

    /// Sets a body of TOML, where the call takes it.
    pub(super) fn toml(mut self, text: &str) -> Self {
        (self.request.body, self.request.media) = (text.as_bytes().to_vec(), "application/toml");
        self
    }

    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.request.limit = limit;
        self
    }

    /// Asks for text instead of JSON.
    pub(super) fn text(mut self) -> Self {
        self.request.wants_text = true;
        self
    }

    pub(super) fn exchanged(self) -> Result<Result<Bytes, Refusal>, Failure> {
        self.request.exchanged()
    }
}

impl CallRequest<'_> {
    /// The path below `/_emulator/`, with the query.
    fn path(&self) -> String {
        let segment = utf8_percent_encode(&self.segment, NON_ALPHANUMERIC).to_string();
        let path = self.path.replace("{id}", &segment).replace("{name}", &segment);
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish();
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    fn exchanged(self) -> Result<Result<Bytes, Refusal>, Failure> {
        let (url, target, limit) = (base(&self.target.url)?, self.target, self.limit);
        let exchange = async { tokio::time::timeout(limit, self.exchange(&url)).await };
        let result = runtime(Builder::new_current_thread())?
            .block_on(exchange)
            .unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs()).into()));
        let (status, json) = result.map_err(|problem| unreachable(target, problem))?;
        if (200..300).contains(&status) {
            return Ok(Ok(json));
        }
        let error = serde_json::from_slice(&json).unwrap_or_default();
        Ok(Err(Refusal { status, error, json }))
    }

    async fn exchange(self, url: &Url) -> Result<(u16, Bytes), Problem> {
        let wants_text = self.wants_text;
        let response = self.open(url).await?;
        let status = response.status().as_u16();
        let is_text =
            response.headers().get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/plain"));
        let bytes = response.into_body().collect().await?.to_bytes();
        if wants_text && is_text && (200..300).contains(&status) {
            return Ok((status, bytes));
        }
        if serde_json::from_slice::<IgnoredAny>(&bytes).is_err() {
            return Err(format!("status {status} with a body that is not JSON; is that a wrs-emulator?").into());
        }
        if serde_json::from_slice::<api::Error>(&bytes).is_ok_and(|body| body.error.message == PLAIN_ON_TLS) {
            return Err(speaks_tls(url));
        }
        Ok((status, bytes))
    }

    /// Sends the call, up to the head of the answer.
    async fn open(self, url: &Url) -> Result<Response<Incoming>, Problem> {
        let path = self.path();
        let accepted = if self.wants_text { "text/plain" } else { "application/json" };
        let Self { target, method, body, media, .. } = self;
        let mut sender = connected(url, target).await?;
        // A reverse proxy may serve the emulator below a path.
        let uri = format!("{}/_emulator/{path}", url.path().trim_end_matches('/'));
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
            .header(ACCEPT, accepted)
            .header(CONTENT_TYPE, media);
        if let Some(token) = &target.control_token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let sent = sender.send_request(request.body(body.into())?).await;
        // A TLS server answers plain HTTP with a TLS alert, which does not parse as HTTP.
        sent.map_err(|error| if error.is_parse() && url.scheme() == "http" { speaks_tls(url) } else { error.into() })
    }
}

impl Call<'_, api::Stream> {
    /// Follows the event stream until the emulator ends it or `each` returns false; `each` gets the kind and JSON of an event.
    pub(super) fn follow(self, mut each: impl FnMut(&str, &str) -> bool) -> Result<(), Failure> {
        let (url, target) = (base(&self.request.target.url)?, self.request.target);
        runtime(Builder::new_current_thread())?.block_on(async {
            let response = self.request.open(&url).await;
            let mut response = response.map_err(|problem| unreachable(target, problem))?;
            let status = response.status();
            if !status.is_success() {
                let body = response.into_body().collect().await;
                let json = body.map_err(|error| unreachable(target, error.into()))?.to_bytes();
                let error = serde_json::from_slice(&json).unwrap_or_default();
                return Err(Refusal { status: status.as_u16(), error, json }.into_failure());
            }
            let mut text = Vec::new();
            while let Some(frame) = response.frame().await {
                let Ok(frame) = frame else { break };
                let Ok(data) = frame.into_data() else { continue };
                text.extend_from_slice(&data);
                while let Some(end) = text.windows(2).position(|window| window == b"\n\n") {
                    let block: Vec<u8> = text.drain(..end + 2).collect();
                    let block = String::from_utf8_lossy(&block);
                    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                    if let (Some(kind), Some(data)) = (field("event: "), field("data: "))
                        && !each(kind, data)
                    {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }
}

impl Refusal {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// A 404 exits with 1, unless the unknown thing is the key: that is wrong usage, like every other refusal.
    pub(super) fn into_failure(self) -> Failure {
        let answer = Some(Box::new(self.json()));
        let message = Some(self.error.error.message).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| "the emulator refused the call".to_owned());
        let (status, code) = match self.status {
            404 if self.error.parameter.as_deref() != Some("key") => (1, Code::NotFound),
            404 => (2, Code::NotFound),
            408 => (2, Code::TimedOut),
            _ => (2, Code::Refused),
        };
        let failure = Failure { answer, ..Failure::new(status, code, message) };
        match self.status {
            401 => failure.with_hint("set WRS_EMULATOR_CONTROL_TOKEN to that token, or give it as --control-token"),
            _ => failure,
        }
    }
}

/// Makes calls from an asynchronous task. The client blocks its thread, and the tasks of this process must continue.
pub(super) async fn in_background<T: Send + 'static>(
    calls: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(calls)
        .await
        .unwrap_or_else(|error| Err(Failure::io(format!("the emulator cannot be asked: {error}"))))
}

/// Runs the main task of a command on several threads, and then ends without waiting for what is still running.
pub(super) fn run_task<T>(task: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime(Builder::new_multi_thread())?;
    let result = runtime.block_on(task);
    runtime.shutdown_background();
    Ok(result)
}

pub(super) fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    builder.enable_all().build().map_err(|error| Failure::io(format!("cannot start: {error}")))
}

async fn connected(url: &Url, target: &Target) -> Result<Sender, Problem> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((host, port)).await?;
    if url.scheme() == "https" {
        let trust = Trust::new(&target.ca, target.trusts_any()).map_err(|problem| {
            let base = url.as_str().trim_end_matches('/');
            let hint = format!("save the emulator's authority first: curl -sk -o ca.pem {base}/_emulator/ca.pem");
            Problem { is_usage: true, ..Problem::with_hint(format!("--ca: {problem}"), hint) }
        })?;
        let name = ServerName::try_from(host.to_owned())?;
        let connected = TlsConnector::from(trust.config().await).connect(name, stream).await;
        Ok(open(Box::new(connected.map_err(|error| tls_problem(url, target, &error))?)).await?)
    } else {
        Ok(open(Box::new(stream)).await?)
    }
}

fn speaks_tls(url: &Url) -> Problem {
    Problem::with_hint("it speaks TLS", format!("use --url {}", other_scheme(url)))
}

/// Distinguishes the ways in which a handshake fails.
fn tls_problem(url: &Url, target: &Target, error: &std::io::Error) -> Problem {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidMessage(_)) => {
            let hint = format!("use --url {}, or start it with --tls self-signed", other_scheme(url));
            Problem::with_hint("it does not speak TLS", hint)
        }
        Some(TlsError::InvalidCertificate(problem)) => {
            Problem::with_hint(format!("its certificate is not trusted: {problem}"), distrusted(url, target, problem))
        }
        _ => format!("the TLS handshake failed: {error}").into(),
    }
}

/// The same address with `http` for `https`, or the other way round.
fn other_scheme(url: &Url) -> String {
    let scheme = if url.scheme() == "https" { "http" } else { "https" };
    let text = format!("{scheme}{}", &url[url::Position::AfterScheme..]);
    text.trim_end_matches('/').to_owned()
}

/// How to make the emulator's certificate trusted.
fn distrusted(url: &Url, target: &Target, problem: &CertificateError) -> String {
    let base = url.as_str().trim_end_matches('/');
    let is_known = !matches!(problem, CertificateError::UnknownIssuer | CertificateError::BadSignature);
    if is_known {
        "use a name that the certificate is for, renew it if it has expired, or skip the check with --insecure"
            .to_owned()
    } else if target.ca.is_empty() {
        format!("pass its authority with --ca FILE (from {base}/_emulator/ca.pem), or skip the check with --insecure")
    } else {
        format!("no authority in the file given signed it; the present one is at {base}/_emulator/ca.pem")
    }
}

fn unreachable(target: &Target, problem: Problem) -> Failure {
    let Problem { cause, hint, is_usage } = problem;
    if is_usage {
        return Failure::usage(cause).with_hint(hint.unwrap_or_default());
    }
    let hint = hint.unwrap_or_else(|| {
        let listen = target.url.split("//").last().unwrap_or_default().trim_end_matches('/');
        let tls = if target.url.starts_with("https:") { " --tls self-signed" } else { "" };
        if target.url == DEFAULT_URL {
            "start it with `wrs-emulator`, or name another with --url or WRS_EMULATOR_URL".to_owned()
        } else if is_webhook_url(&target.url) {
            "--url is the emulator's address, not the URL of a webhook".to_owned()
        } else if address("--listen", listen).is_ok() {
            format!("start it with `wrs-emulator --listen {listen}{tls}`")
        } else {
            "start it, or correct the address".to_owned()
        }
    });
    Failure::unreachable(format!("cannot reach the emulator at {}: {cause}", target.url)).with_hint(hint)
}

/// The URL of an emulator that answers at this address; `None` if none does.
pub(super) fn emulator_at(address: SocketAddr) -> Option<String> {
    ["http", "https"].into_iter().find_map(|scheme| {
        let url = reachable(&format!("{scheme}://{address}"));
        let target = Target { url: url.clone(), control_token: None, ca: Vec::new(), insecure: true };
        let call = Call::<api::Health>::to(&target).limit(Duration::from_secs(1));
        let is_one = match call.outcome().ok()? {
            Ok(health) => health.status == "ready",
            // Where the control API has a port of its own, the emulated one refuses the path.
            Err(refusal) => refusal.json().pointer("/error/request_id").is_some_and(Value::is_string),
        };
        is_one.then_some(url)
    })
}

/// How long a call waits for an answer that takes no work.
pub(super) const SHORT: Duration = Duration::from_secs(10);
