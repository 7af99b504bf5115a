//! One request of the emulated API end to end: route, authentication, quota, content, scenario, validation, effect, answer.
//!
//! Every request gets an answer, a request id and a journal entry here, whatever happens on the way; a panic becomes a 500
//! in the envelope. What an operation does stands in `handlers`.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

use crate::contract::error::{Error, ErrorKind};
use crate::contract::ids::IdKind;
use crate::contract::keys::{authenticate, workspace_of};
use crate::contract::routes::{Credential, Lookup, Route, look_up};
use crate::http::answer::{AnswerBody, GENERATION, REQUEST_ID, header_value, number_value};
use crate::http::body::{BodyProblem, BodyReader};
use crate::http::connection::Progress;
use crate::http::emissions::Emissions;
use crate::http::exchange::{Exchange, Outcome};
use crate::http::guard::caught;
use crate::http::host::check_host;
use crate::http::limits::Limits;
use crate::http::quota::push_quota_headers;
use crate::http::scripted::scripted_or_ordinary;
use crate::journal::{Entry, Heads, Journal, Notice, Reason};
use crate::scenario::{Generation, Library};
use crate::workspace::Registry;

/// The emulated API.
#[derive(Debug)]
pub struct Api {
    library: Arc<Library>,
    registry: Arc<Registry>,
    journal: Arc<Journal>,
    bodies: Arc<BodyReader>,
    emissions: Emissions,
    uri_bytes: usize,
}

impl Api {
    /// The API over these parts.
    pub fn new(
        library: Arc<Library>,
        registry: Arc<Registry>,
        journal: Arc<Journal>,
        bodies: Arc<BodyReader>,
        emissions: Emissions,
        limits: &Limits,
    ) -> Self {
        Self { library, registry, journal, bodies, emissions, uri_bytes: limits.uri_bytes }
    }

    /// Answers one request.
    pub async fn handle(&self, request: Request<Incoming>, progress: &Progress) -> Response<AnswerBody> {
        let (parts, body) = request.into_parts();
        let generation = self.library.load();
        let mut exchange = self.begin(parts, &generation);
        let responded = caught(self.respond(&mut exchange, body, &generation)).await;
        self.conclude(exchange, responded, progress)
    }

    /// The answer to a request that was responded to, or whose response panicked.
    fn conclude(
        &self,
        mut exchange: Exchange<'_>,
        responded: Result<Outcome, String>,
        progress: &Progress,
    ) -> Response<AnswerBody> {
        let outcome = responded.unwrap_or_else(|panic| exchange.panicked(panic));
        let broken = exchange.broken.take().map(|how| progress.break_off(how)).is_some();
        self.finish(exchange, outcome, broken)
    }

    /// The answer to bytes that hyper could not read as a request.
    pub fn refuse(&self, status: StatusCode) -> Bytes {
        let kind = match status {
            StatusCode::URI_TOO_LONG => ErrorKind::UriTooLong,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ErrorKind::HeadersTooLarge,
            _ => ErrorKind::BadRequest,
        };
        let (parts, ()) = Request::new(()).into_parts();
        let generation = self.library.load();
        let mut exchange = self.begin(parts, &generation);
        exchange.identify();
        let text = match kind {
            ErrorKind::BadRequest => "the bytes sent are no HTTP/1.1 request",
            kind => kind.message(),
        };
        let outcome = exchange.refused(kind, text);
        let id = exchange.id.clone();
        let body = outcome.body.clone();
        let ended = self.registry.clock().moment();
        let record = exchange.record(Heads::default(), status.as_u16(), &body, outcome.reason, ended);
        self.journal.append(Entry::Request(Arc::new(record)));
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{REQUEST_ID}: {id}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat().into()
    }

    fn begin(&self, parts: Parts, generation: &Generation) -> Exchange<'_> {
        Exchange::begin(parts, self.registry.clock().now(), generation, self.registry.anonymous())
    }

    async fn respond(&self, exchange: &mut Exchange<'_>, body: Incoming, generation: &Generation) -> Outcome {
        let route = match self.admit(exchange, generation) {
            Ok(route) => route,
            Err(outcome) => return *outcome,
        };
        if let Err(outcome) = self.read_content(exchange, route, body).await {
            return *outcome;
        }
        scripted_or_ordinary(exchange, route.operation).await
    }

    /// Everything before the content: a proper request, a route, a key, quota.
    fn admit(&self, exchange: &mut Exchange<'_>, generation: &Generation) -> Result<&'static Route, Box<Outcome>> {
        let Parts { method, uri, version, headers, .. } = &exchange.parts;
        let host = check_host(method, uri, *version, headers).map(|_| ());
        let target_bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
        let route = match host {
            Err(problem) => {
                exchange.identify();
                return Err(Box::new(exchange.refused(ErrorKind::BadRequest, &problem.to_string())));
            }
            Ok(()) if target_bytes > self.uri_bytes => {
                exchange.identify();
                let text = format!("the request target is longer than {} bytes", self.uri_bytes);
                return Err(Box::new(exchange.refused(ErrorKind::UriTooLong, &text)));
            }
            Ok(()) => match look_up(method, uri.path()) {
                Lookup::Found(route) => route,
                nowhere => {
                    exchange.identify();
                    return Err(Box::new(exchange.nowhere(&nowhere)));
                }
            },
        };
        exchange.operation = Some(route.operation);
        if let Err(message) = exchange.choose_setup(generation) {
            exchange.identify();
            return Err(Box::new(exchange.refused(ErrorKind::BadRequest, &message)));
        }
        match route.credential {
            Credential::None => exchange.identify(),
            Credential::Bearer => self.authenticate_and_count(exchange)?,
        }
        Ok(route)
    }

    fn authenticate_and_count(&self, exchange: &mut Exchange<'_>) -> Result<(), Box<Outcome>> {
        let (setup, now) = (&exchange.setup, exchange.now);
        let key = match authenticate(&exchange.parts.headers, &setup.profile) {
            Ok(key) => key,
            Err(refusal) => {
                exchange.identify();
                return Err(Box::new(exchange.unauthorized(refusal)));
            }
        };
        let (workspace, left) = self.registry.open(workspace_of(key, &setup.profile), now);
        let (verdict, id) = {
            let mut state = workspace.lock();
            self.emissions.meet(&workspace, &mut state, setup, now);
            let verdict = state.count_request(key, &setup.profile, now);
            (verdict, state.make_id(IdKind::Request, &setup.profile, now))
        };
        let group_key = (workspace.name().as_ref() != key).then(|| Arc::from(key));
        exchange.belong_to(workspace, group_key);
        exchange.id = id;
        exchange.quota = Some(verdict);
        if let Some(left) = left {
            let message =
                format!("workspace {} was forgotten: there are more keys than workspaces are kept", left.id());
            let notice =
                Notice { at: exchange.now.wall, workspace: Some(Arc::clone(left.name())), message, warning: true };
            self.journal.append(Entry::Notice(Arc::new(notice)));
        }
        if verdict.allowed {
            return Ok(());
        }
        let message = format!(
            "the quota of {} requests in {} s is used up; back off before retrying",
            verdict.limit,
            verdict.window.as_secs_f64()
        );
        Err(Box::new(exchange.error(&Error::new(ErrorKind::RateLimitExceeded, message), Reason::RateLimited)))
    }

    async fn read_content(
        &self,
        exchange: &mut Exchange<'_>,
        route: &Route,
        body: Incoming,
    ) -> Result<(), Box<Outcome>> {
        if route.method != hyper::Method::POST {
            return Ok(());
        }
        exchange.body = self.bodies.read(&exchange.parts.headers, body).await.map_err(|problem| {
            let kind = match problem {
                BodyProblem::TooLarge(_) => ErrorKind::PayloadTooLarge,
                BodyProblem::TooSlow(_) => ErrorKind::RequestTimeout,
                BodyProblem::Malformed => ErrorKind::BadRequest,
                BodyProblem::TransferCoding => ErrorKind::UnsupportedMediaType,
            };
            Box::new(exchange.refused(kind, &problem.to_string()))
        })?;
        Ok(())
    }

    /// Adds what every answer has, and writes the journal entry.
    fn finish(&self, mut exchange: Exchange<'_>, outcome: Outcome, broken: bool) -> Response<AnswerBody> {
        let Outcome { mut response, body, reason } = outcome;
        let status = response.status();
        exchange.refund(status);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, header_value(&exchange.id));
        headers.insert(GENERATION, number_value(exchange.generation));
        if let Some(verdict) = &exchange.quota {
            push_quota_headers(headers, verdict, &exchange.setup.profile, exchange.now);
        }
        if !exchange.setup.emits.is_empty() && exchange.key().is_some() {
            self.emissions.answered(exchange.workspace(), &exchange.setup, &exchange.view(), status.as_u16());
        }
        let heads = Heads::new(&exchange.parts.method, &exchange.parts.uri, &exchange.parts.headers, headers);
        let status = if broken { 0 } else { status.as_u16() };
        let record = exchange.record(heads, status, &body, reason, self.registry.clock().moment());
        self.journal.append(Entry::Request(Arc::new(record)));
        response
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
