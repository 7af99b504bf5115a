//! Sends one attempt: a pooled connection, one deadline over connect, TLS, send and read, and an answer read no further
//! than its limit. Redirects are answers like any other and are not followed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, Version};
use parking_lot::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::journal::{AttemptOutcome, FailureReason};
use crate::webhook::dial::{DialProblem, Reach, Sender, dial};

/// At most this much of an answer's body is read.
pub const ANSWER_LIMIT: usize = 16 * 1024;
/// Most idle connections kept for one origin.
const IDLE_PER_ORIGIN: usize = 64;
/// Most idle connections kept in all.
const IDLE_IN_ALL: usize = 512;

/// One request to a receiver.
#[derive(Clone, Debug)]
pub struct Post {
    /// Where it goes.
    pub url: Url,
    /// Headers beside `host` and `content-length`.
    pub headers: HeaderMap,
    /// The bytes.
    pub body: Bytes,
    /// For the whole attempt.
    pub timeout: Duration,
    /// For the connect, and for the TLS handshake.
    pub connect_timeout: Duration,
}

/// A client with a pool of connections.
#[derive(Debug)]
pub struct Client {
    reach: Reach,
    idle: Mutex<HashMap<String, Vec<Sender>>>,
}

impl Client {
    /// A client that reaches what `reach` allows.
    pub fn new(reach: Reach) -> Arc<Self> {
        Arc::new(Self { reach, idle: Mutex::default() })
    }

    /// Makes one attempt; never takes longer than its timeout.
    pub async fn post(&self, post: Post) -> AttemptOutcome {
        let limit = post.timeout;
        let result = match timeout(limit, self.exchange(post)).await {
            Ok(result) => result,
            Err(_) => Err(DialProblem::new(
                FailureReason::Timeout,
                format!("no answer within {} s (webhooks.timeout)", limit.as_secs_f64()),
            )),
        };
        result.unwrap_or_else(|problem| AttemptOutcome::Failed { reason: problem.reason, detail: problem.detail })
    }

    async fn exchange(&self, post: Post) -> Result<AttemptOutcome, DialProblem> {
        let origin = post.url.origin().ascii_serialization();
        let mut request = request(&post)?;
        // A kept connection may have been closed by the receiver; then hyper hands the request back and the next is tried.
        while let Some(mut sender) = self.take_idle(&origin) {
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
        let mut sender = dial(&post.url, &self.reach.egress, &self.reach.trust, post.connect_timeout).await?;
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        self.read(origin, sender, response).await
    }

    async fn read(
        &self,
        origin: String,
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
        self.idle.lock().get_mut(origin)?.pop()
    }

    fn keep(&self, origin: String, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_IN_ALL {
            idle.clear();
        }
        let kept = idle.entry(origin).or_default();
        kept.retain(|sender| !sender.is_closed());
        if kept.len() < IDLE_PER_ORIGIN {
            kept.push(sender);
        }
    }
}

fn request(post: &Post) -> Result<Request<Full<Bytes>>, DialProblem> {
    let invalid = |what: &str| {
        DialProblem::new(FailureReason::InvalidAnswer, format!("the {what} of `{}` cannot be sent", post.url))
    };
    let target = &post.url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut request = Request::new(Full::new(post.body.clone()));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = target.parse().map_err(|_| invalid("path"))?;
    *request.headers_mut() = post.headers.clone();
    request.headers_mut().insert(
        HOST,
        HeaderValue::from_str(&post.url[url::Position::BeforeHost..url::Position::AfterPort])
            .map_err(|_| invalid("host"))?,
    );
    Ok(request)
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
