//! Sends one attempt: a pooled connection, one deadline over connect, TLS, send and read, and an answer read no further
//! than its limit. Redirects are answers like any other and are not followed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, Version};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::journal::{AttemptOutcome, FailureReason};
use crate::webhook::dial::{DialProblem, Reach, Sender, dial, resolve};
use crate::webhook::egress::Target;

/// At most this much of an answer's body is read.
pub const ANSWER_LIMIT: usize = 16 * 1024;
/// Most idle connections kept for one origin.
const IDLE_PER_ORIGIN: usize = 64;
/// Most idle connections kept in all.
pub const MOST_KEPT: usize = 512;

/// One request to a receiver.
#[derive(Clone, Debug)]
pub struct Post {
    /// Where it goes.
    pub target: Arc<Target>,
    /// Headers beside `host` and `content-length`.
    pub headers: HeaderMap,
    /// The bytes.
    pub body: Bytes,
    /// For the whole attempt, with its look-up.
    pub timeout: Duration,
    /// What the look-up took of it.
    pub looked_up: Duration,
    /// For the connect, and for the TLS handshake.
    pub connect_timeout: Duration,
    /// Where to connect to; `None` if [`Client::look_up`] found a kept connection.
    pub addresses: Option<Vec<SocketAddr>>,
    /// Bounds the look-ups of the workspace that posts.
    pub look_ups: Arc<Semaphore>,
}

/// Connections that wait for their next request, by origin.
#[derive(Debug, Default)]
struct Idle {
    by_origin: HashMap<Arc<str>, Vec<Sender>>,
    count: usize,
}

/// A client with a pool of connections.
#[derive(Debug)]
pub struct Client {
    reach: Reach,
    idle: Mutex<Idle>,
    most_kept: usize,
}

impl Client {
    /// A client that reaches what `reach` allows and keeps at most so many idle connections.
    pub fn new(reach: Reach, most_kept: usize) -> Arc<Self> {
        Arc::new(Self { reach, idle: Mutex::default(), most_kept })
    }

    /// The addresses that an attempt at `target` needs before it can be made; `None` if a kept connection may do. Never takes
    /// longer than `limit`, although the look-up may.
    pub async fn look_up(
        &self,
        target: &Target,
        look_ups: &Arc<Semaphore>,
        limit: Duration,
    ) -> Result<Option<Vec<SocketAddr>>, DialProblem> {
        if self.idle.lock().by_origin.get(&target.origin).is_some_and(|kept| !kept.is_empty()) {
            return Ok(None);
        }
        let found = timeout(limit, resolve(&target.url, &self.reach.resolver, look_ups)).await;
        found.unwrap_or_else(|_| {
            let host = target.url.host_str().unwrap_or_default();
            let detail = format!(
                "the look-up of the name `{host}` did not end within {} s (webhooks.timeout); to deliver to your own machine: --forward https://{host}=http://localhost:PORT",
                limit.as_secs_f64()
            );
            Err(DialProblem::new(FailureReason::Timeout, detail))
        }).map(Some)
    }

    /// Makes one attempt; never takes longer than its timeout.
    pub async fn post(&self, post: Post) -> AttemptOutcome {
        let limit = post.timeout;
        let result = match timeout(limit.saturating_sub(post.looked_up), self.exchange(post)).await {
            Ok(result) => result,
            Err(_) => Err(DialProblem::new(
                FailureReason::Timeout,
                format!("no answer within {} s (webhooks.timeout)", limit.as_secs_f64()),
            )),
        };
        result.unwrap_or_else(|problem| AttemptOutcome::Failed { reason: problem.reason, detail: problem.detail })
    }

    async fn exchange(&self, mut post: Post) -> Result<AttemptOutcome, DialProblem> {
        let (target, look_ups) = (Arc::clone(&post.target), Arc::clone(&post.look_ups));
        let (origin, connect_timeout, addresses) = (&target.origin, post.connect_timeout, post.addresses.take());
        let mut request = request(post);
        // A kept connection may have been closed by the receiver; then hyper hands the request back and the next is tried.
        while let Some(mut sender) = self.take_idle(origin) {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(origin, sender, response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(broken(error.error())),
                },
            }
        }
        let addresses = match addresses {
            Some(addresses) => addresses,
            None => resolve(&target.url, &self.reach.resolver, &look_ups).await?,
        };
        let mut sender = dial(&target.url, &addresses, &self.reach, connect_timeout).await?;
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        self.read(origin, sender, response).await
    }

    async fn read(
        &self,
        origin: &Arc<str>,
        sender: Sender,
        response: Response<Incoming>,
    ) -> Result<AttemptOutcome, DialProblem> {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut body = response.into_body();
        let mut read = Vec::new();
        let mut whole = true;
        while let Some(frame) = body.frame().await {
            // The status is what counts; a body that breaks off after it does not take the receipt back.
            let Ok(frame) = frame else {
                whole = false;
                break;
            };
            let Ok(data) = frame.into_data() else { continue };
            let room = ANSWER_LIMIT - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                whole = false;
                break;
            }
        }
        if whole {
            self.keep(origin, sender);
        }
        Ok(AttemptOutcome::Answered { status, retry_after, body: Bytes::from(read) })
    }

    fn take_idle(&self, origin: &str) -> Option<Sender> {
        let mut idle = self.idle.lock();
        let sender = idle.by_origin.get_mut(origin)?.pop()?;
        idle.count -= 1;
        Some(sender)
    }

    fn keep(&self, origin: &Arc<str>, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.count >= self.most_kept {
            *idle = Idle::default();
        }
        let Idle { by_origin, count } = &mut *idle;
        let kept = match by_origin.get_mut(origin) {
            Some(kept) => kept,
            None => by_origin.entry(Arc::clone(origin)).or_default(),
        };
        if kept.len() >= IDLE_PER_ORIGIN {
            *count -= kept.len();
            kept.retain(|sender| !sender.is_closed());
            *count += kept.len();
        }
        if kept.len() < IDLE_PER_ORIGIN {
            kept.push(sender);
            *count += 1;
        }
    }
}

fn request(post: Post) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(post.body));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = post.target.uri.clone();
    *request.headers_mut() = post.headers;
    request.headers_mut().insert(HOST, post.target.host.clone());
    request
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn broken(error: &hyper::Error) -> DialProblem {
    if error.is_parse() {
        return DialProblem::new(FailureReason::InvalidAnswer, format!("what came back is no HTTP answer: {error}"));
    }
    DialProblem::new(
        FailureReason::ConnectionReset,
        format!("the receiver closed the connection before it answered: {error}"),
    )
}
