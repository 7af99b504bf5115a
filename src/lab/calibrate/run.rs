//! Makes the calls, one after the other, by the client of deliveries: redirects are not followed, and the addresses are looked up
//! once, so that the key goes to no other host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use url::Url;

use super::call_log::{CallLog, Caller, Exchange, RecordedAnswer};
use super::plan::next;
use crate::clock::machine;
use crate::contract::variation::HeaderLetters;
use crate::http::body::ResponseBody;
use crate::state::workspace::AttemptOutcome;
use crate::webhook::client::{Progress, send_once};
use crate::webhook::dial::DialContext;
use crate::webhook::egress::DialTarget;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const CALL_LIMIT: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("wrs-emulator/", env!("CARGO_PKG_VERSION"), " calibrate");

#[derive(Debug)]
pub struct Calibration {
    /// The service; its path, if it has one, precedes those of the API.
    pub url: Url,
    pub reach: DialContext,
    pub caller: Caller,
    /// Between two calls.
    pub pause: Duration,
}

impl Calibration {
    /// Makes calls until there are none left; `each` learns of every one. The error, without advice for deliveries: the first call had
    /// no answer.
    pub async fn run(&self, call_log: &mut CallLog, mut each: impl FnMut(&Exchange)) -> Result<(), String> {
        let share = Arc::new(Semaphore::new(1));
        let host = self.target("/")?;
        let looked_up = timeout(CONNECT_LIMIT, self.reach.resolver.addresses(&host, &share)).await;
        let addresses = looked_up
            .map_err(|_| "the name was not looked up in time")?
            .map_err(|problem| first_clause(&problem.detail))?;
        while let Some(mut exchange) = next(call_log, &self.caller) {
            if !call_log.calls.is_empty() {
                sleep(self.pause).await;
            }
            let began = machine::monotonic();
            exchange.at = machine::wall_time();
            match self.send(&exchange, &addresses).await {
                Ok(answer) => exchange.answer = Some(answer),
                Err(problem) if call_log.calls.is_empty() => return Err(problem),
                Err(problem) => exchange.failed = Some(problem),
            }
            exchange.took_ms =
                u64::try_from(machine::monotonic().duration_since(began).as_millis()).unwrap_or(u64::MAX);
            call_log.push(exchange, &self.caller);
            each(call_log.calls.last().expect("one was added"));
        }
        Ok(())
    }

    fn target(&self, target: &str) -> Result<DialTarget, String> {
        let base = self.url.as_str().trim_end_matches('/');
        let url = Url::parse(&format!("{base}{target}")).ok();
        url.and_then(|url| DialTarget::new(url, None)).ok_or_else(|| format!("no request can be made for `{base}`"))
    }

    async fn send(&self, call: &Exchange, addresses: &[SocketAddr]) -> Result<RecordedAnswer, String> {
        let target = self.target(&call.target)?;
        let mut request = Request::builder().method(call.method.as_str()).uri(target.uri.clone());
        request =
            request.header(HOST, target.host.clone()).header(USER_AGENT, AGENT).header(ACCEPT, "application/json");
        if let Some(authorization) = self.caller.authorization(call.key) {
            request = request.header(AUTHORIZATION, authorization);
        }
        request = call.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let body = ResponseBody::from(Bytes::from(call.body.clone()));
        let request = request.body(body).expect("the key was checked, and the rest is plain");
        let progress = Progress::default();
        let sent =
            send_once(&target, addresses, &self.reach, CONNECT_LIMIT, (request, HeaderLetters::Lower), &progress);
        let sent = timeout(CALL_LIMIT, sent).await;
        let late = |_| format!("no whole answer within {} s", CALL_LIMIT.as_secs());
        let answered = sent.map_err(late)?.map_err(|problem| first_clause(&problem.detail))?;
        match answered.outcome {
            AttemptOutcome::Answered { status, body, .. } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = answered.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
                Ok(RecordedAnswer { status, headers: headers.collect(), body: text(&body), is_cut: !answered.is_whole })
            }
            AttemptOutcome::Failed { detail, .. } => Err(first_clause(&detail)),
        }
    }
}

/// The outcome, without the advice for deliveries.
fn first_clause(detail: &str) -> String {
    detail.split("; ").next().unwrap_or_default().to_owned()
}
