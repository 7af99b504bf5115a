//! Sends one attempt over a pooled connection, with one deadline over connect, TLS, send and read, and a limit on the answer's
//! size. Redirects are answers like any other and are not followed.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use hyper::header::{DATE, HOST, HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, Version};
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::clock::machine;
use crate::http::outgoing::Outgoing;
use crate::state::workspace::{AttemptOutcome, FailureReason};
use crate::util::tasks::spawn;
use crate::webhook::dial::{DialContext, DialProblem, Link, Sender, dial, permitted, resolve};
use crate::webhook::egress::Target;

pub const ANSWER_LIMIT: usize = 16 * 1024;
pub const IDLE_PER_ORIGIN: usize = 64;
pub const MOST_KEPT: usize = 512;

#[derive(Clone, Debug)]
pub struct Post {
    pub target: Arc<Target>,
    /// Headers without `host` and `content-length`.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Limit for the whole attempt, its look-up included.
    pub timeout: Duration,
    pub looked_up: Duration,
    /// Limit for the connect, and again for the TLS handshake.
    pub connect_timeout: Duration,
    /// Where to connect to; `None` if [`Client::look_up`] found a kept connection.
    pub addresses: Option<Vec<SocketAddr>>,
    pub look_ups: Arc<Semaphore>,
}

/// How often idle connections are swept. One that was idle at the last sweep, too, is closed, so each is kept for at most twice
/// as long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Debug)]
struct IdleConnection {
    origin: Arc<str>,
    link: Box<Link>,
    was_swept: bool,
}

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<IdleConnection>,
    has_sweeper: bool,
}

impl Idle {
    fn of<'i>(&'i self, origin: &str) -> impl Iterator<Item = &'i IdleConnection> {
        self.connections.iter().filter(move |kept| *kept.origin == *origin)
    }

    /// Closes connections not used since the last sweep; returns whether any are left.
    fn sweep(&mut self) -> bool {
        self.connections.retain_mut(|kept| !std::mem::replace(&mut kept.was_swept, true));
        self.has_sweeper = !self.connections.is_empty();
        self.has_sweeper
    }
}

#[derive(Debug)]
pub struct Client {
    reach: DialContext,
    idle: Mutex<Idle>,
    most_kept: usize,
    sweep_interval: Duration,
}

impl Client {
    pub fn new(reach: DialContext, most_kept: usize) -> Arc<Self> {
        Arc::new(Self { reach, idle: Mutex::default(), most_kept, sweep_interval: SWEEP_INTERVAL })
    }

    /// The addresses that an attempt at `target` needs; `None` if a kept connection may be used. Never takes longer than `limit`,
    /// although the look-up itself may.
    pub async fn look_up(
        &self,
        target: &Target,
        look_ups: &Arc<Semaphore>,
        limit: Duration,
    ) -> Result<Option<Vec<SocketAddr>>, DialProblem> {
        if self.idle.lock().of(&target.origin).next().is_some() {
            return Ok(None);
        }
        let found = timeout(limit, resolve(target, &self.reach.resolver, look_ups)).await;
        found
            .unwrap_or_else(|_| {
                let (host, limit) = (target.host_text(), limit.as_secs_f64());
                let detail = format!(
                    "the look-up of the name `{host}` did not end within {limit} s (webhooks.timeout); {}",
                    target.elsewhere()
                );
                Err(DialProblem::new(FailureReason::Timeout, detail))
            })
            .map(Some)
    }

    /// Whether a target may be dialled, without dialling it.
    pub async fn check(&self, target: &Target, look_ups: &Arc<Semaphore>, limit: Duration) -> Result<(), DialProblem> {
        let addresses = self.look_up(target, look_ups, limit).await?.unwrap_or_default();
        permitted(target, &addresses, &self.reach).map(drop)
    }

    /// Makes one attempt; never takes longer than its timeout.
    pub async fn post(self: &Arc<Self>, post: Post) -> AttemptOutcome {
        let limit = post.timeout;
        let time_left = limit.saturating_sub(post.looked_up);
        // Boxed, as it is large and would be copied into the timeout.
        let result = match timeout(time_left, Box::pin(self.exchange(post))).await {
            Ok(result) => result,
            Err(_) => Err(DialProblem::new(
                FailureReason::Timeout,
                format!("no answer within {} s (webhooks.timeout)", limit.as_secs_f64()),
            )),
        };
        result.unwrap_or_else(AttemptOutcome::from)
    }

    async fn exchange(self: &Arc<Self>, mut post: Post) -> Result<AttemptOutcome, DialProblem> {
        let (target, look_ups) = (Arc::clone(&post.target), Arc::clone(&post.look_ups));
        let (origin, connect_timeout, addresses) = (&target.origin, post.connect_timeout, post.addresses.take());
        let mut request = request(post);
        // A kept connection may have been closed by the receiver; then hyper hands the request back and the next is tried.
        while let Some(mut link) = self.take_idle(origin) {
            match link.run(async |sender| exchange(sender, request).await).await {
                Err(Unanswered { unsent: Some(unsent), .. }) => request = *unsent,
                done => return self.end(origin, link, done),
            }
        }
        let addresses = match addresses {
            Some(addresses) => addresses,
            None => resolve(&target, &self.reach.resolver, &look_ups).await?,
        };
        let mut link = Box::new(dial(&target, &addresses, &self.reach, connect_timeout).await?);
        let done = link.run(async |sender| exchange(sender, request).await).await;
        self.end(origin, link, done)
    }

    fn end(
        self: &Arc<Self>,
        origin: &Arc<str>,
        link: Box<Link>,
        exchange: Result<Answered, Unanswered>,
    ) -> Result<AttemptOutcome, DialProblem> {
        let Answered { outcome, is_whole, .. } = exchange.map_err(|unanswered| unanswered.problem)?;
        if is_whole && link.is_ready() {
            self.keep(origin, link);
        }
        Ok(outcome)
    }

    fn take_idle(&self, origin: &str) -> Option<Box<Link>> {
        let connections = &mut self.idle.lock().connections;
        let latest = connections.iter().rposition(|kept| *kept.origin == *origin)?;
        Some(connections.remove(latest).link)
    }

    fn keep(self: &Arc<Self>, origin: &Arc<str>, link: Box<Link>) {
        let mut idle = self.idle.lock();
        if idle.connections.len() >= self.most_kept {
            idle.connections.clear();
        }
        if idle.of(origin).count() < IDLE_PER_ORIGIN {
            idle.connections.push(IdleConnection { origin: Arc::clone(origin), link, was_swept: false });
        }
        if !std::mem::replace(&mut idle.has_sweeper, true) {
            spawn(Self::sweep(Arc::downgrade(self), self.sweep_interval));
        }
    }

    /// Sweeps until no connection is kept, or the client is dropped.
    async fn sweep(client: Weak<Self>, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let Some(client) = client.upgrade() else { return };
            if !client.idle.lock().sweep() {
                return;
            }
        }
    }
}

/// Sends a request on a connection of its own and reads the answer. The error: there was no connection. The caller limits how long
/// this may take.
pub async fn send_once(
    target: &Target,
    addresses: &[SocketAddr],
    reach: &DialContext,
    connect_timeout: Duration,
    request: Request<Outgoing>,
) -> Result<Answered, DialProblem> {
    let mut link = Box::new(dial(target, addresses, reach, connect_timeout).await?);
    Ok(link.run(async |sender| exchange(sender, request).await).await.unwrap_or_else(|unanswered| Answered {
        outcome: unanswered.problem.into(),
        is_whole: false,
        headers: HeaderMap::new(),
    }))
}

/// How an exchange ended.
#[derive(Debug)]
pub struct Answered {
    pub outcome: AttemptOutcome,
    /// Unless its body was too long or broke off.
    pub is_whole: bool,
    pub headers: HeaderMap,
}

impl Answered {
    /// Where a redirect leads.
    pub fn location(&self) -> Option<String> {
        let AttemptOutcome::Answered { status: 300..400, .. } = self.outcome else { return None };
        self.headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }
}

struct Unanswered {
    problem: DialProblem,
    /// The request, if the connection was closed before it was sent.
    unsent: Option<Box<Request<Outgoing>>>,
}

async fn exchange(sender: &mut Sender, request: Request<Outgoing>) -> Result<Answered, Unanswered> {
    if let Err(error) = sender.ready().await {
        return Err(Unanswered { problem: broken(&error), unsent: Some(Box::new(request)) });
    }
    let sent = sender.try_send_request(request).await;
    let response = sent.map_err(|mut error| {
        let unsent = error.take_message().map(Box::new);
        Unanswered { problem: broken(error.error()), unsent }
    })?;
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let (head, mut body) = response.into_parts();
    let (mut read, mut is_whole) = (Vec::new(), true);
    while let Some(frame) = body.frame().await {
        // Only the status counts; an incomplete body does not change the outcome.
        let Ok(frame) = frame else {
            is_whole = false;
            break;
        };
        let Ok(data) = frame.into_data() else { continue };
        let room = ANSWER_LIMIT - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            is_whole = false;
            break;
        }
    }
    let outcome = AttemptOutcome::Answered { status, retry_after, body: Bytes::from(read) };
    Ok(Answered { outcome, is_whole, headers: head.headers })
}

fn request(post: Post) -> Request<Outgoing> {
    let mut request = Request::new(Outgoing::from(post.body));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = post.target.uri.clone();
    *request.headers_mut() = post.headers;
    request.headers_mut().insert(HOST, post.target.host.clone());
    request
}

/// How long the receiver asks to wait: seconds, or an HTTP date, relative to the receiver's own `Date` if it sent one.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let date = |text: &str| DateTimeParser::new().parse_timestamp(text).ok();
    let requested = text(RETRY_AFTER)?;
    if let Ok(seconds) = requested.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = date(requested)?;
    let now = text(DATE).and_then(date).unwrap_or_else(machine::wall_time);
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

impl From<DialProblem> for AttemptOutcome {
    fn from(DialProblem { reason, detail }: DialProblem) -> Self {
        Self::Failed { reason, detail }
    }
}

fn broken(error: &hyper::Error) -> DialProblem {
    if error.is_parse() {
        return DialProblem::new(FailureReason::InvalidAnswer, format!("the answer is not valid HTTP: {error}"));
    }
    DialProblem::new(
        FailureReason::ConnectionReset,
        format!("the receiver closed the connection before it answered: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use url::Url;

    use super::*;
    use crate::settings::Forwards;
    use crate::webhook::egress::{Destination, Egress};
    use crate::webhook::resolve::{LookUp, Resolver};
    use crate::webhook::tls::Trust;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn client(sweep_interval: Duration) -> Arc<Client> {
        let (egress, resolver) = (Arc::default(), Arc::new(Resolver::new(LookUp::default())));
        let trust = Arc::new(Trust::new(&[], false).expect("no files"));
        let client = Client::new(DialContext { egress, trust, resolver }, 8);
        let mut client = Arc::into_inner(client).expect("the only reference");
        client.sweep_interval = sweep_interval;
        Arc::new(client)
    }

    /// Posts to a receiver at the listener's address.
    fn post(client: &Arc<Client>, listener: &TcpListener) -> tokio::task::JoinHandle<AttemptOutcome> {
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/")).expect("a URL");
        let Some(Destination::Dial(target)) = Egress::default().destination(&Forwards::default(), &Arc::new(url))
        else {
            panic!("it is a server");
        };
        let post = Post {
            target,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: PATIENCE,
            looked_up: Duration::ZERO,
            connect_timeout: PATIENCE,
            addresses: None,
            look_ups: Arc::new(Semaphore::new(1)),
        };
        let client = Arc::clone(client);
        tokio::spawn(async move { client.post(post).await })
    }

    async fn answer(stream: &mut TcpStream) {
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0, "the connection was closed");
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("an open connection");
    }

    #[tokio::test]
    async fn a_kept_connection_is_used_again_and_closed_when_it_is_idle() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = client(Duration::from_secs(1));
        let first = post(&client, &listener);
        let mut stream = timeout(PATIENCE, listener.accept()).await.expect("in time").expect("a connection").0;
        answer(&mut stream).await;
        assert!(first.await.expect("no panic").is_success());
        let second = post(&client, &listener);
        answer(&mut stream).await;
        assert!(second.await.expect("no panic").is_success());
        let end = timeout(PATIENCE, stream.read(&mut [0; 1])).await.expect("the end in time");
        assert_eq!(end.expect("an orderly end"), 0);
        assert!(!client.idle.lock().has_sweeper, "no sweeper without kept connections");
        // The next kept connection starts a new sweeper.
        let again = post(&client, &listener);
        let mut stream = timeout(PATIENCE, listener.accept()).await.expect("in time").expect("a connection").0;
        answer(&mut stream).await;
        assert!(again.await.expect("no panic").is_success());
        assert!(client.idle.lock().has_sweeper);
        drop(client);
        let end = timeout(PATIENCE, stream.read(&mut [0; 1])).await.expect("the end in time");
        assert_eq!(end.expect("an orderly end"), 0, "it ends with the client");
    }

    #[tokio::test]
    async fn an_answer_in_pieces_is_read_and_a_closed_connection_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = client(PATIENCE);
        let first = post(&client, &listener);
        let mut stream = timeout(PATIENCE, listener.accept()).await.expect("in time").expect("a connection").0;
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0, "the connection was closed");
        for piece in
            ["HTTP/1.1 200 OK\r\ntransfer-enc", "oding: chunked\r\n\r\n3\r\nabc\r", "\n3\r\ndef\r\n", "0\r\n\r\n"]
        {
            stream.write_all(piece.as_bytes()).await.expect("an open connection");
            // The client reads this piece before the next one.
            tokio::task::yield_now().await;
        }
        let AttemptOutcome::Answered { status: 200, body, .. } = first.await.expect("no panic") else {
            panic!("an answer is expected")
        };
        assert_eq!(body, "abcdef");
        // The receiver has closed what was kept.
        for _ in 0..2 {
            drop(stream);
            // The runtime learns of it when it has nothing else to do.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let next = post(&client, &listener);
            stream = timeout(PATIENCE, listener.accept()).await.expect("in time").expect("a connection").0;
            answer(&mut stream).await;
            assert!(next.await.expect("no panic").is_success());
        }
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        let (date, later) = ("Fri, 31 Jan 2025 09:30:00 GMT", "Fri, 31 Jan 2025 09:30:07 GMT");
        for (requested, date, expected) in [
            ("5", None, Some(5)),
            (later, Some(date), Some(7)),
            (date, Some(later), Some(0)),
            // Long ago by the machine's time.
            (later, None, Some(0)),
            ("soon", Some(date), None),
            ("-5", Some(date), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, requested.parse().expect("a header"));
            date.map(|date| headers.insert(DATE, date.parse().expect("a header")));
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{requested}");
        }
    }
}
