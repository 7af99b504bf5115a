//! Makes the calls, one after the other, by the client of deliveries: redirects are not followed, and the addresses are looked up
//! once, so that the key goes to no other host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use url::Url;

use super::cassette::{Cassette, Exchange, RecordedAnswer, Secrets};
use super::plan::{Call, Subscriber, next};
use crate::clock::machine;
use crate::http::body::Outgoing;
use crate::state::workspace::{AttemptOutcome, FailureReason};
use crate::webhook::client::DialContext;
use crate::webhook::client::send_once;
use crate::webhook::egress::{DialProblem, Target};

/// Limits for connecting, and for a whole call.
const LIMITS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];

#[derive(Debug)]
pub struct Calibration {
    /// The service; its path, if it has one, precedes those of the API.
    pub url: Url,
    pub reach: DialContext,
    pub secrets: Secrets,
    pub subscriber: Subscriber,
    /// Between two calls.
    pub pause: Duration,
}

impl Exchange {
    /// A call that was made, before it has an answer and a number.
    pub fn new(call: &Call, at: jiff::Timestamp) -> Self {
        Self {
            number: 0,
            name: call.name.to_owned(),
            method: call.method.to_owned(),
            target: call.target.clone(),
            key: call.key,
            content_type: call.content_type.map(str::to_owned),
            content_encoding: call.content_encoding.map(str::to_owned),
            body: call.body.clone(),
            body_bytes: call.body.len(),
            at,
            took_ms: 0,
            answer: None,
            failed: None,
        }
    }
}

impl Calibration {
    /// Makes calls until there are none left; `each` learns of every one.
    pub async fn run(&self, cassette: &mut Cassette, mut each: impl FnMut(&Exchange)) -> Result<(), DialProblem> {
        let share = Arc::new(Semaphore::new(1));
        let host = self.target("/").ok_or_else(|| no_host(&self.url))?;
        let looked_up = timeout(LIMITS[0], self.reach.resolver.addresses(&host, &share)).await;
        let late =
            || DialProblem { reason: FailureReason::Timeout, detail: "the name was not looked up in time".to_owned() };
        let addresses = looked_up.map_err(|_| late())??;
        while let Some(call) = next(cassette, &self.subscriber) {
            if !cassette.calls.is_empty() {
                sleep(self.pause).await;
            }
            let (began, mut exchange) = (machine::monotonic(), Exchange::new(&call, machine::wall_time()));
            match self.send(&call, &addresses).await {
                Ok(answer) => exchange.answer = Some(answer),
                Err(problem) if cassette.calls.is_empty() => return Err(problem),
                Err(problem) => exchange.failed = Some(first_clause(&problem).to_owned()),
            }
            exchange.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            cassette.push(exchange, &self.secrets);
            each(cassette.calls.last().expect("one was added"));
        }
        Ok(())
    }

    fn target(&self, target: &str) -> Option<Target> {
        let base = self.url.as_str().trim_end_matches('/');
        Target::new(Url::parse(&format!("{base}{target}")).ok()?, None)
    }

    async fn send(&self, call: &Call, addresses: &[SocketAddr]) -> Result<RecordedAnswer, DialProblem> {
        let target = self.target(&call.target).ok_or_else(|| no_host(&self.url))?;
        let method = Method::from_bytes(call.method.as_bytes()).expect("the plan has plain methods");
        let mut request = Request::builder().method(method).uri(target.uri.clone()).header(HOST, target.host.clone());
        let agent = concat!("wrs-emulator/", env!("CARGO_PKG_VERSION"), " calibrate");
        request = request.header(USER_AGENT, agent).header(ACCEPT, "application/json");
        let authorization = self.secrets.authorization(call.key);
        for (name, value) in [
            (AUTHORIZATION, authorization.as_deref()),
            (CONTENT_TYPE, call.content_type),
            (CONTENT_ENCODING, call.content_encoding),
        ] {
            request = value.into_iter().fold(request, |request, value| request.header(&name, value));
        }
        let body = Outgoing::from(Bytes::from(call.body.clone()));
        let request = request.body(body).expect("the key was checked, and the rest is plain");
        let sent = timeout(LIMITS[1], send_once(&target, addresses, &self.reach, LIMITS[0], request)).await;
        let late = || format!("no whole answer within {} s", LIMITS[1].as_secs());
        let answered = sent.map_err(|_| DialProblem { reason: FailureReason::Timeout, detail: late() })??;
        match answered.outcome {
            AttemptOutcome::Answered { status, body, .. } => {
                let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
                let headers = answered.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
                let body = String::from_utf8_lossy(&body).into_owned();
                Ok(RecordedAnswer { status, headers, body, whole: answered.is_whole })
            }
            AttemptOutcome::Failed { reason, detail } => Err(DialProblem { reason, detail }),
        }
    }
}

fn no_host(url: &Url) -> DialProblem {
    DialProblem { reason: FailureReason::NameNotFound, detail: format!("no request can be made for `{url}`") }
}

/// What happened, without the advice for deliveries.
pub fn first_clause(problem: &DialProblem) -> &str {
    problem.detail.split("; ").next().unwrap_or_default()
}
