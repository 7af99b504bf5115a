//! Sends requests to receivers and keeps connections. One deadline covers connect, TLS, send and read, and the answer's size is
//! limited. Redirects are answers like any other and are not followed.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, DATE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use hyper::http::response;
use hyper::{Method, Request, Version};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::advice::Hint;
use crate::clock::machine;
use crate::contract::variation::HeaderLetters;
use crate::http::body::ResponseBody;
use crate::http::host::host_name;
use crate::http::tls::Trust;
use crate::http::tls_problem::{tls_error, tls_problem};
use crate::settings::{ForwardHost, Framing};
use crate::state::workspace::{AttemptOutcome, FailureReason};
use crate::util::wording::counted;
use crate::webhook::dial::{DialContext, Link, connect, dial, without_certificate};
use crate::webhook::egress::{DialProblem, DialTarget, Egress, FORWARDED_HOST, FORWARDED_PROTO};
use crate::webhook::resolve::{LookUp, Resolver};

pub const ANSWER_LIMIT: usize = 16 * 1024;
pub const MAX_KEPT: usize = 512;

#[derive(Clone, Debug)]
pub struct Post {
    pub target: Arc<DialTarget>,
    /// Headers without `host` and `content-length`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Limit for the whole attempt, its look-up included.
    pub timeout: Duration,
    pub looked_up: Duration,
    pub letters: HeaderLetters,
    pub framing: Framing,
    /// The `Host` of a forwarded request.
    pub host: ForwardHost,
    /// Limit for the connect, and again for the TLS handshake.
    pub connect_timeout: Duration,
    /// Where to connect to; `None` if [`Client::look_up`] found a kept connection.
    pub addresses: Option<Vec<SocketAddr>>,
    pub look_ups: Arc<Semaphore>,
}

/// How often idle connections are swept. One that was already idle at the last sweep is closed, so each is kept for at most twice
/// as long: less than the 5 s after which Node and uvicorn close it.
/// What to ask about a receiver that keeps a connection and sends nothing.
pub const NO_ANSWER: &str = "does the receiver's handler always send an answer, also when it throws?";
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct IdleConnection {
    origin: Arc<str>,
    letters: HeaderLetters,
    link: Link,
    was_swept: bool,
}

#[derive(Debug)]
pub struct Client {
    dial_context: DialContext,
    idle: Mutex<Vec<IdleConnection>>,
    most_kept: usize,
    sweep_interval: Duration,
    sweeper: OnceLock<()>,
}

impl Client {
    pub fn new(dial_context: DialContext, most_kept: usize) -> Arc<Self> {
        let (idle, sweeper) = (Mutex::default(), OnceLock::new());
        Arc::new(Self { dial_context, idle, most_kept, sweep_interval: SWEEP_INTERVAL, sweeper })
    }

    /// The addresses that an attempt at `target` needs; `None` if a kept connection may be used. Never lasts longer than `limit`,
    /// although the look-up itself may.
    pub async fn look_up(
        &self,
        target: &DialTarget,
        look_ups: &Arc<Semaphore>,
        limit: Duration,
    ) -> Result<Option<Vec<SocketAddr>>, DialProblem> {
        if self.idle.lock().iter().any(|kept| *kept.origin == *target.origin) {
            return Ok(None);
        }
        let found = timeout(limit, self.dial_context.resolver.addresses(target, look_ups)).await.unwrap_or_else(|_| {
            let (host, limit) = (target.host_text(), limit.as_secs_f64());
            let detail = format!("the look-up of the name `{host}` did not end within {limit} s (webhooks.timeout)");
            let problem = DialProblem::new(FailureReason::Timeout, detail);
            Err(problem.with_hint(target.elsewhere()))
        });
        found.map(Some)
    }

    /// True if a target may be dialled, without dialling it.
    pub async fn check(
        &self,
        target: &DialTarget,
        look_ups: &Arc<Semaphore>,
        limit: Duration,
    ) -> Result<(), DialProblem> {
        let addresses = self.look_up(target, look_ups, limit).await?.unwrap_or_default();
        self.dial_context.egress.choose(target, &addresses).map(drop)
    }

    /// Makes one attempt, which never lasts longer than its timeout.
    pub async fn post(self: &Arc<Self>, post: Post) -> Exchanged {
        let (limit, progress) = (post.timeout, Progress::default());
        let time_left = limit.saturating_sub(post.looked_up);
        // Boxed because it is large and would be copied into the timeout.
        let result = timeout(time_left, Box::pin(self.exchange(post, &progress))).await.unwrap_or_else(|_| {
            let detail = progress.late(&format!("{} s (webhooks.timeout)", limit.as_secs_f64()));
            Err(DialProblem::new(FailureReason::Timeout, detail))
        });
        result.unwrap_or_else(Exchanged::failed)
    }

    async fn exchange(self: &Arc<Self>, mut post: Post, progress: &Progress) -> Result<Exchanged, DialProblem> {
        let (target, look_ups) = (Arc::clone(&post.target), Arc::clone(&post.look_ups));
        let (origin, connect_timeout, addresses) = (&target.origin, post.connect_timeout, post.addresses.take());
        let letters = post.letters;
        let mut request = request(post);
        // A kept connection may have been closed by the receiver; then hyper hands the request back and the next is tried.
        while let Some(mut link) = self.take_idle(origin, letters) {
            match exchange(&target, &mut link, request, progress).await {
                Err(Unanswered { unsent: Some(unsent), .. }) => request = *unsent,
                done => return self.end(origin, letters, link, done),
            }
        }
        let addresses = match addresses {
            Some(addresses) => addresses,
            None => self.dial_context.resolver.addresses(&target, &look_ups).await?,
        };
        let mut link = dial(&target, &addresses, &self.dial_context, connect_timeout, letters).await?;
        let done = exchange(&target, &mut link, request, progress).await;
        self.end(origin, letters, link, done)
    }

    fn take_idle(&self, origin: &str, letters: HeaderLetters) -> Option<Link> {
        let mut idle = self.idle.lock();
        let latest = idle.iter().rposition(|kept| *kept.origin == *origin && kept.letters == letters)?;
        Some(idle.remove(latest).link)
    }

    /// Keeps the connection of an exchange if it can serve another. Not after a failure: some servers close it then without saying so,
    /// as uvicorn does once it has logged an exception, and a POST that was lost with it may not be sent again.
    fn end(
        self: &Arc<Self>,
        origin: &Arc<str>,
        letters: HeaderLetters,
        link: Link,
        exchanged: Result<Exchanged, Unanswered>,
    ) -> Result<Exchanged, DialProblem> {
        let exchanged = exchanged.map_err(|unanswered| unanswered.problem)?;
        if exchanged.is_whole && exchanged.outcome.is_success() && link.sender.is_ready() {
            let mut idle = self.idle.lock();
            if idle.len() >= self.most_kept {
                idle.clear();
            }
            idle.push(IdleConnection { origin: Arc::clone(origin), letters, link, was_swept: false });
            self.sweeper.get_or_init(|| drop(tokio::spawn(Self::sweep(Arc::downgrade(self), self.sweep_interval))));
        }
        Ok(exchanged)
    }

    async fn sweep(client: Weak<Self>, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let Some(client) = client.upgrade() else { return };
            client.idle.lock().retain_mut(|kept| !std::mem::replace(&mut kept.was_swept, true));
        }
    }
}

/// Sends a request on its own connection and reads the answer. The error: there was no connection. The caller limits how long
/// this may take.
pub async fn send_once(
    target: &DialTarget,
    addresses: &[SocketAddr],
    dial_context: &DialContext,
    connect_timeout: Duration,
    (request, letters): (Request<ResponseBody>, HeaderLetters),
    progress: &Progress,
) -> Result<Exchanged, DialProblem> {
    let mut link = dial(target, addresses, dial_context, connect_timeout, letters).await?;
    let exchanged = exchange(target, &mut link, request, progress).await;
    Ok(exchanged.unwrap_or_else(|unanswered| Exchanged::failed(unanswered.problem)))
}

/// Connects to a target and sends nothing. As in a delivery, the addresses pass the guard.
pub async fn connects(target: &DialTarget, limit: Duration) -> Result<(), DialProblem> {
    let resolver = Resolver::new(LookUp::default());
    let connected = async {
        let addresses = resolver.addresses(target, &Arc::new(Semaphore::new(1))).await?;
        connect(target, &Egress::default().choose(target, &addresses)?, limit).await.map(drop)
    };
    let late = || DialProblem::new(FailureReason::Timeout, format!("no connection within {} s", limit.as_secs_f64()));
    timeout(limit, connected).await.map_err(|_| late())?
}

/// Asks a target for its head: any answer will do, and any certificate. As in a delivery, the addresses pass the guard.
pub async fn head(target: &DialTarget, limit: Duration) -> Result<(), DialProblem> {
    let trust = Arc::new(Trust::new(&[], true).expect("no file is read"));
    let context = DialContext { egress: Arc::default(), trust, resolver: Arc::new(Resolver::new(LookUp::default())) };
    let mut request = Request::new(ResponseBody::from(Bytes::new()));
    *request.method_mut() = Method::HEAD;
    *request.uri_mut() = target.uri.clone();
    request.headers_mut().insert(HOST, target.host.clone());
    let answer = async {
        let addresses = context.resolver.addresses(target, &Arc::new(Semaphore::new(1))).await?;
        send_once(target, &addresses, &context, limit, (request, HeaderLetters::Lower), &Progress::default()).await
    };
    let late = || DialProblem::new(FailureReason::Timeout, format!("no answer within {} s", limit.as_secs_f64()));
    match timeout(limit, answer).await.map_err(|_| late())??.outcome {
        AttemptOutcome::Answered { .. } => Ok(()),
        AttemptOutcome::Failed { reason, detail, hint } => Err(DialProblem { reason, detail, hint }),
    }
}

/// How far an exchange is: the status, once it was received.
#[derive(Debug, Default)]
pub struct Progress(AtomicU16);

impl Progress {
    /// The part of the answer still missing when `limit` is over.
    pub fn late(&self, limit: &str) -> String {
        match self.0.load(Ordering::Relaxed) {
            0 => format!("no answer within {limit}"),
            status => format!("the receiver answered {status}, but its body did not end within {limit}"),
        }
    }
}

#[derive(Debug)]
pub struct Exchanged {
    pub outcome: AttemptOutcome,
    /// Unless its body was too long or broke off.
    pub is_whole: bool,
    pub headers: HeaderMap,
}

impl Exchanged {
    fn failed(problem: DialProblem) -> Self {
        Self { outcome: problem.into(), is_whole: false, headers: HeaderMap::new() }
    }

    /// Explains in the note a redirect to https on the receiver's own address: the receiver believes that the request came by plain HTTP.
    fn explain_redirect(&mut self, own: &OwnAddress) {
        let AttemptOutcome::Answered { note, location: Some(location), .. } = &mut self.outcome else { return };
        let Ok(location) = Url::parse(location) else { return };
        let host = location.host_str().map(str::to_ascii_lowercase);
        if location.scheme() != "https" || !host.is_some_and(|host| own.hosts.contains(&host)) {
            return;
        }
        let why = if own.is_forwarded_from_https {
            "its own address: it believes that the request came by plain HTTP, although X-Forwarded-Proto is https; many frameworks read \
             that header only once the proxy is trusted, so trust it, or forward to an https address"
        } else {
            "its own address: it refuses plain HTTP; turn that redirect off for tests, or use its https address"
        };
        *note = Some(format!("{} ({why})", note.as_deref().unwrap_or_default()).into());
    }
}

/// The names by which a receiver knows itself, from a request over plain HTTP.
struct OwnAddress {
    hosts: Vec<String>,
    is_forwarded_from_https: bool,
}

impl OwnAddress {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let hosts = [text(&HOST), text(&FORWARDED_HOST)].into_iter().flatten().map(name_of);
        Self { hosts: hosts.collect(), is_forwarded_from_https: text(&FORWARDED_PROTO) == Some("https") }
    }
}

/// A host without its port.
fn name_of(host: &str) -> String {
    host_name(host).unwrap_or(host).to_ascii_lowercase()
}

/// Where a redirect leads.
fn location(head: &response::Parts) -> Option<Box<str>> {
    let location = head.headers.get(LOCATION).filter(|_| head.status.is_redirection())?;
    Some(String::from_utf8_lossy(location.as_bytes()).into())
}

struct Unanswered {
    problem: DialProblem,
    /// The request, if the connection was closed before it was sent.
    unsent: Option<Box<Request<ResponseBody>>>,
}

async fn exchange(
    target: &DialTarget,
    link: &mut Link,
    request: Request<ResponseBody>,
    progress: &Progress,
) -> Result<Exchanged, Unanswered> {
    let own = link.is_plain.then(|| OwnAddress::of(request.headers()));
    let mut exchanged = send(target, link, request, progress).await;
    if let (Some(own), Ok(exchanged)) = (own, &mut exchanged) {
        exchanged.explain_redirect(&own);
    }
    exchanged.map_err(|Unanswered { problem, unsent }| Unanswered {
        problem: if link.asked_for_certificate { without_certificate(problem) } else { problem },
        unsent,
    })
}

async fn send(
    target: &DialTarget,
    link: &mut Link,
    request: Request<ResponseBody>,
    progress: &Progress,
) -> Result<Exchanged, Unanswered> {
    if let Err(error) = link.sender.ready().await {
        return Err(Unanswered {
            problem: broken(&error, target, link, Duration::ZERO),
            unsent: Some(Box::new(request)),
        });
    }
    let began = machine::monotonic();
    let sent = link.sender.try_send_request(request).await;
    let response = sent.map_err(|mut error| {
        let unsent = error.take_message().map(Box::new);
        let held = machine::monotonic().duration_since(began);
        Unanswered { problem: broken(error.error(), target, link, held), unsent }
    })?;
    let (head, mut body) = response.into_parts();
    let status = head.status.as_u16();
    progress.0.store(status, Ordering::Relaxed);
    let (mut read, mut is_whole, mut broken_off) = (Vec::new(), true, None);
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            // The status decides whether the delivery succeeded, whatever follows it.
            Err(error) => {
                is_whole = false;
                broken_off = Some(missing_body(&head.headers, read.len(), &error));
                break;
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        let room = ANSWER_LIMIT - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            is_whole = false;
            break;
        }
    }
    let location = location(&head);
    let (retry_after, note) = remarks(&head, location.as_deref(), broken_off);
    let date = date_of(&head.headers);
    let outcome = AttemptOutcome::Answered { status, retry_after, date, location, note, body: Bytes::from(read) };
    Ok(Exchanged { outcome, is_whole, headers: head.headers })
}

/// What does not speak HTTP closes a connection sooner.
const HANDLED: Duration = Duration::from_secs(1);

/// The header by which `listen` says which URL of the application an answer is from, because the sender dialled `listen` alone.
pub const ANSWERED_BY: HeaderName = HeaderName::from_static("x-emulator-answered-by");

/// How long a receiver asks to wait, and what else of its answer is worth knowing: where a redirect leads, a wait that cannot be read,
/// a body that broke off, and whose a refusal is.
fn remarks(
    head: &response::Parts,
    location: Option<&str>,
    broken_off: Option<String>,
) -> (Option<Duration>, Option<Box<str>>) {
    let location = location.map(|location| format!("Location: {location}"));
    let (wait, unreadable) = match retry_after(&head.headers) {
        None => (None, None),
        Some(Ok(wait)) => (Some(wait), None),
        Some(Err(text)) => {
            (None, Some(format!("Retry-After: {text}, which is neither a number of seconds nor an HTTP date")))
        }
    };
    let by = head.headers.get(ANSWERED_BY).filter(|_| !head.status.is_success());
    let by = by.map(|by| format!("by {}", String::from_utf8_lossy(by.as_bytes())));
    let notes: Vec<String> = location.into_iter().chain(unreadable).chain(broken_off).chain(by).collect();
    (wait, (!notes.is_empty()).then(|| notes.join("; ").into()))
}

fn request(post: Post) -> Request<ResponseBody> {
    let mut request = Request::new(match post.framing {
        Framing::Length => ResponseBody::from(post.body),
        Framing::Chunked => ResponseBody::chunked(post.body),
    });
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = post.target.uri.clone();
    *request.headers_mut() = post.headers;
    let original = post.target.original.as_ref().filter(|_| post.host == ForwardHost::Original);
    let host = original.map_or(&post.target.host, |original| &original.host);
    request.headers_mut().insert(HOST, host.clone());
    if let Some(authorization) = &post.target.authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization.clone());
    }
    request
}

/// How long the receiver asks to wait: seconds, also with a fraction, or an HTTP date, relative to the receiver's own `Date` if it
/// sent one. The error is a text of another form.
fn retry_after(headers: &HeaderMap) -> Option<Result<Duration, String>> {
    let requested = text(headers.get(RETRY_AFTER)?);
    let is_number = requested.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = requested.parse().ok().filter(|_| is_number);
    if let Some(wait) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        return Some(Ok(wait));
    }
    let Some(at) = date(&requested) else { return Some(Err(requested)) };
    let now = date_of(headers).unwrap_or_else(machine::wall_time);
    Some(Ok(Duration::try_from(at.duration_since(now)).unwrap_or_default()))
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).trim().to_owned()
}

fn date(text: &str) -> Option<Timestamp> {
    httpdate::parse_http_date(text).ok().and_then(|time| Timestamp::try_from(time).ok())
}

fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    date(&text(headers.get(DATE)?))
}

/// Why a request got no answer. The receiver kept the connection open for `held` after the request was sent.
fn broken(error: &hyper::Error, target: &DialTarget, link: &Link, held: Duration) -> DialProblem {
    if let Some(problem) = link.first.other_protocol(target) {
        return problem;
    }
    let (reason, detail) = if error.is_parse() {
        let begin = link.first.quoted();
        (FailureReason::InvalidAnswer, format!("the answer is not valid HTTP: {error}; it begins with {begin}"))
    } else if let Some(problem) = tls_error(error) {
        let problem = tls_problem(problem);
        (FailureReason::TlsFailed, format!("the receiver ended the connection before it answered: {problem}"))
    } else if link.first.is_empty() && held >= HANDLED {
        let detail = "the receiver took the request, and closed the connection without an answer after a while";
        let problem = DialProblem::new(FailureReason::ConnectionReset, detail);
        return problem.with_hint(Some(Hint::from(NO_ANSWER)));
    } else if link.first.is_empty() {
        let detail = "the receiver closed the connection before it answered, without a byte: did it crash, or does it not speak HTTP there?";
        let problem = DialProblem::new(FailureReason::ConnectionReset, detail);
        return problem.with_hint(link.is_plain.then(|| target.over_other_scheme()));
    } else {
        (FailureReason::ConnectionReset, format!("the receiver closed the connection before it answered: {error}"))
    };
    DialProblem::new(reason, detail)
}

/// How much of a body that broke off came, and why no more did.
fn missing_body(headers: &HeaderMap, received: usize, error: &hyper::Error) -> String {
    let cause = match (tls_error(error), error.source()) {
        (Some(problem), _) => tls_problem(problem),
        // Its own text names no length.
        (None, _) if error.is_incomplete_message() || is_end(error) => "the connection ended".to_owned(),
        (None, Some(cause)) => cause.to_string(),
        (None, None) => error.to_string(),
    };
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match declared {
        Some(length) => format!("its body broke off after {received} of {length} bytes: {cause}"),
        None => format!("its body broke off after {}: {cause}", counted(received, "byte")),
    }
}

/// True if a body ended before the length that was declared.
fn is_end(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);
    const ANSWER: [&str; 1] = ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"];

    fn client(sweep_interval: Duration) -> Arc<Client> {
        let (egress, resolver) = (Arc::default(), Arc::new(Resolver::new(LookUp::default())));
        let client = Client::new(DialContext { egress, trust: Arc::default(), resolver }, 8);
        let client = Arc::into_inner(client).expect("the only reference");
        Arc::new(Client { sweep_interval, ..client })
    }

    /// Posts to a receiver at the listener's address.
    fn post(client: &Arc<Client>, listener: &TcpListener) -> tokio::task::JoinHandle<AttemptOutcome> {
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/")).expect("a URL");
        let post = Post {
            target: Arc::new(DialTarget::new(url, None).expect("a server")),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: TIMEOUT,
            looked_up: Duration::ZERO,
            letters: HeaderLetters::Lower,
            framing: Framing::Length,
            host: ForwardHost::Target,
            connect_timeout: TIMEOUT,
            addresses: None,
            look_ups: Arc::new(Semaphore::new(1)),
        };
        let client = Arc::clone(client);
        tokio::spawn(async move { client.post(post).await.outcome })
    }

    async fn accept(listener: &TcpListener) -> TcpStream {
        timeout(TIMEOUT, listener.accept()).await.expect("in time").expect("a connection").0
    }

    async fn answer(stream: &mut TcpStream, pieces: &[&str]) {
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0, "the connection was closed");
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.expect("an open connection");
            // The client reads this piece before the next one.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_kept_connection_is_used_again_and_closed_when_it_is_idle() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = client(Duration::from_hours(1));
        let first = post(&client, &listener);
        let mut stream = accept(&listener).await;
        answer(&mut stream, &ANSWER).await;
        assert!(first.await.expect("no panic").is_success());
        let second = post(&client, &listener);
        answer(&mut stream, &ANSWER).await;
        assert!(second.await.expect("no panic").is_success());
        // Nothing else is pending, so the runtime's time moves on to the next timer.
        tokio::time::pause();
        let end = timeout(Duration::from_hours(10), stream.read(&mut [0; 1])).await.expect("the end in time");
        assert_eq!(end.expect("an orderly end"), 0);
    }

    #[tokio::test]
    async fn after_a_failure_the_next_attempt_has_a_connection_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = client(TIMEOUT);
        let first = post(&client, &listener);
        let mut stream = accept(&listener).await;
        answer(&mut stream, &["HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"]).await;
        assert!(!first.await.expect("no panic").is_success());
        // The receiver still holds the first connection open.
        let second = post(&client, &listener);
        answer(&mut accept(&listener).await, &ANSWER).await;
        assert!(second.await.expect("no panic").is_success());
    }

    #[tokio::test]
    async fn an_answer_in_pieces_is_read_and_a_closed_connection_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = client(TIMEOUT);
        let first = post(&client, &listener);
        let mut stream = accept(&listener).await;
        let pieces =
            ["HTTP/1.1 200 OK\r\ntransfer-enc", "oding: chunked\r\n\r\n3\r\nabc\r", "\n3\r\ndef\r\n", "0\r\n\r\n"];
        answer(&mut stream, &pieces).await;
        let AttemptOutcome::Answered { status: 200, body, .. } = first.await.expect("no panic") else {
            panic!("an answer is expected")
        };
        assert_eq!(body, "abcdef");
        // The receiver has closed the kept connection.
        for _ in 0..2 {
            drop(stream);
            // The runtime learns of it when it has nothing else to do: only then does stopped time move on.
            tokio::time::pause();
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::time::resume();
            let next = post(&client, &listener);
            stream = accept(&listener).await;
            answer(&mut stream, &ANSWER).await;
            assert!(next.await.expect("no panic").is_success());
        }
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        let (date, later) = ("Fri, 31 Jan 2025 09:30:00 GMT", "Fri, 31 Jan 2025 09:30:07 GMT");
        for (requested, date, expected) in [
            ("5", None, Some(5_000)),
            ("15.5", None, Some(15_500)),
            (later, Some(date), Some(7_000)),
            ("Friday, 31-Jan-25 09:30:07 GMT", Some(date), Some(7_000)),
            ("Fri Jan 31 09:30:07 2025", Some(date), Some(7_000)),
            (date, Some(later), Some(0)),
            // Long ago by the machine's time.
            (later, None, Some(0)),
            ("soon", Some(date), None),
            ("-5", Some(date), None),
            ("1.2.3", None, None),
            ("1e3", None, None),
            ("", None, None),
            ("99999999999999999999999999", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, requested.parse().expect("a header"));
            date.map(|date| headers.insert(DATE, date.parse().expect("a header")));
            let read = retry_after(&headers).expect("the header is there");
            assert_eq!(read, expected.map(Duration::from_millis).ok_or(requested.to_owned()), "{requested}");
        }
    }
}
