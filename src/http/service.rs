//! One request of the emulated API end to end: route, authentication, quota, content, scenario, validation, effect, answer.
//!
//! Every request gets an answer, a request id and a journal entry here, whatever happens on the way; a panic becomes a 500
//! in the envelope. What an operation does stands in `handlers`.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

use crate::contract::error::{Error, ErrorKind};
use crate::contract::keys::{KeyRefusal, authenticate, bearer_token, judge, workspace_of};
use crate::contract::routes::{Announced, Credential, Lookup, Route, look_up, look_up_announced};
use crate::engine::Engine;
use crate::http::Answering;
use crate::http::answer::{AnswerBody, GENERATION, REQUEST_ID, id_value, number_value};
use crate::http::body::BodyReader;
use crate::http::connection::Progress;
use crate::http::exchange::{Exchange, Outcome, draw};
use crate::http::guard::{caught, caught_now};
use crate::http::handlers::perform;
use crate::http::host::check_host;
use crate::http::limits::Limits;
use crate::http::preview::{MARKED, PREVIEW};
use crate::http::quota::push_quota_headers;
use crate::http::refusal::{PLAIN_ON_TLS, Sent};
use crate::http::scripted::scripted_or_ordinary;
use crate::journal::{Entry, Reason, RequestRecord, Transcript, Wire};
use crate::scenario::Generation;
use crate::workspace::Alias;

/// The emulated API.
#[derive(Debug)]
pub struct Api {
    engine: Arc<Engine>,
    bodies: Arc<BodyReader>,
    uri_bytes: usize,
}

impl Api {
    /// The API over an engine.
    pub fn new(engine: Arc<Engine>, bodies: Arc<BodyReader>, limits: &Limits) -> Self {
        Self { engine, bodies, uri_bytes: limits.uri_bytes }
    }

    /// Answers one request: at once where nothing has to be waited for.
    pub fn handle(self: &Arc<Self>, request: Request<Incoming>, progress: &Arc<Progress>) -> Answering {
        let (parts, body) = request.into_parts();
        let generation = self.engine.library.load();
        let mut exchange = Exchange::begin(parts, self.engine.registry.clock().now(), &generation);
        let begun = caught_now(|| match self.admit(&mut exchange, &generation) {
            Err(outcome) => Begun::Answered(*outcome),
            Ok(route) if route.has_body() || !exchange.config.rules.is_empty() => Begun::Waits(route),
            Ok(route) => Begun::Answered(perform(&exchange, route.operation)),
        });
        match begun {
            Ok(Begun::Waits(route)) => {
                let (api, progress) = (Arc::clone(self), Arc::clone(progress));
                Answering::Later(Box::pin(async move {
                    let responded = caught(api.respond(&mut exchange, route, body)).await;
                    api.conclude(&mut exchange, responded, &progress)
                }))
            }
            Ok(Begun::Answered(outcome)) => Answering::Ready(self.conclude(&mut exchange, Ok(outcome), progress)),
            Err(panic) => Answering::Ready(self.conclude(&mut exchange, Err(panic), progress)),
        }
    }

    /// The answer to a request that was responded to, or whose response panicked.
    fn conclude(
        &self,
        exchange: &mut Exchange,
        responded: Result<Outcome, String>,
        progress: &Progress,
    ) -> Response<AnswerBody> {
        let outcome = responded.unwrap_or_else(|panic| exchange.panicked(panic, &self.engine.registry.anonymous()));
        let broken = exchange.broken.take().map(|how| {
            let name = how.name();
            progress.break_off(how);
            name
        });
        self.finish(exchange, outcome, broken)
    }

    /// The answer to bytes that hyper could not read as a request.
    pub fn refuse(&self, status: StatusCode, sent: Sent) -> Bytes {
        let kind = match status {
            StatusCode::URI_TOO_LONG => ErrorKind::UriTooLong,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ErrorKind::HeadersTooLarge,
            _ => ErrorKind::BadRequest,
        };
        let (parts, ()) = Request::new(()).into_parts();
        let mut exchange = Exchange::begin(parts, self.engine.registry.clock().now(), &self.engine.library.load());
        exchange.identify(&self.engine.registry.anonymous());
        let text = match kind {
            ErrorKind::BadRequest => match sent {
                Sent::Garbage => "the bytes sent are not an HTTP/1.1 request",
                Sent::Tls => "this is a TLS handshake: use http:// or start with --tls self-signed",
                Sent::PlainHttp => PLAIN_ON_TLS,
            },
            kind => kind.message(),
        };
        let outcome = exchange.refused(kind, text);
        let id = &exchange.id;
        let further = exchange.config.profile.ids.request_header.get();
        let further = further.map_or_else(String::new, |name| format!("{}: {id}\r\n", name.name()));
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{REQUEST_ID}: {id}\r\n{further}connection: close\r\n\r\n",
            outcome.body.len(),
        );
        let answer = [head.as_bytes(), &outcome.body].concat().into();
        let transcript = Transcript::new(&Wire {
            id: &exchange.id,
            request: None,
            headers: &exchange.parts.headers,
            body: &[],
            answer_headers: outcome.response.headers(),
            answer_body: &outcome.body,
        });
        let record =
            exchange.record(transcript, status.as_u16(), outcome.reason, self.engine.registry.clock().instant());
        self.engine.journal.append(Entry::Request(Arc::new(record)));
        answer
    }

    /// What has to be waited for: a body, a scenario's delay.
    async fn respond(&self, exchange: &mut Exchange, route: &Route, body: Incoming) -> Outcome {
        if let Err(outcome) = self.read_content(exchange, route, body).await {
            return *outcome;
        }
        if exchange.owner().is_none() {
            exchange.anonymous = Some(self.engine.registry.anonymous());
        }
        scripted_or_ordinary(exchange, route.operation, &self.engine.blocking).await
    }

    /// Everything before the content: a proper request, a route, a key, quota.
    fn admit(&self, exchange: &mut Exchange, generation: &Generation) -> Result<&'static Route, Box<Outcome>> {
        let Parts { method, uri, version, headers, .. } = &exchange.parts;
        let host = check_host(method, uri, *version, headers).map(|_| ());
        let target_bytes = uri.path_and_query().map_or(0, |target| target.as_str().len());
        let route = match host {
            Err(problem) => {
                exchange.identify(&self.engine.registry.anonymous());
                return Err(Box::new(exchange.refused(ErrorKind::BadRequest, &problem.to_string())));
            }
            Ok(()) if target_bytes > self.uri_bytes => {
                exchange.identify(&self.engine.registry.anonymous());
                let text = format!("the request target is longer than {} bytes", self.uri_bytes);
                return Err(Box::new(exchange.refused(ErrorKind::UriTooLong, &text)));
            }
            Ok(()) => match look_up(method, uri.path()) {
                Lookup::Found(route) => route,
                Lookup::Announced(entry) => self.admit_announced(exchange, generation, entry)?,
                other => return Err(self.not_found(exchange, generation, &other)),
            },
        };
        exchange.operation = Some(route.operation);
        if let Err(message) = exchange.choose_config(generation, self.engine.registry.tokens()) {
            exchange.identify(&self.engine.registry.anonymous());
            return Err(Box::new(exchange.refused(ErrorKind::BadRequest, &message)));
        }
        match route.credential {
            Credential::None => exchange.identify(&self.engine.registry.anonymous()),
            Credential::Bearer => self.authenticate_and_count(exchange)?,
        }
        Ok(route)
    }

    /// An announced endpoint, if the profile of whoever asks has the preview on.
    fn admit_announced(
        &self,
        exchange: &mut Exchange,
        generation: &Generation,
        entry: &'static Announced,
    ) -> Result<&'static Route, Box<Outcome>> {
        let chosen = exchange.choose_config(generation, self.engine.registry.tokens());
        let found = if chosen.is_ok() && exchange.config.profile.preview.enabled {
            exchange.preview = Some(Arc::clone(&self.engine));
            look_up_announced(&exchange.parts.method, exchange.parts.uri.path())
        } else {
            Lookup::Announced(entry)
        };
        match found {
            Lookup::Found(route) => Ok(route),
            other => Err(self.not_found(exchange, generation, &other)),
        }
    }

    /// 404 and 405. They belong to the key that was sent, if it is valid, and cost it nothing.
    fn not_found(&self, exchange: &mut Exchange, generation: &Generation, found: &Lookup) -> Box<Outcome> {
        // Scenarios named by the request have nothing to say here, not even that they are unknown.
        let _ = exchange.choose_config(generation, self.engine.registry.tokens());
        if self.recognize(exchange, false).is_err() {
            exchange.identify(&self.engine.registry.anonymous());
        }
        Box::new(exchange.not_found(found))
    }

    fn authenticate_and_count(&self, exchange: &mut Exchange) -> Result<(), Box<Outcome>> {
        if let Err(refusal) = self.recognize(exchange, true) {
            exchange.identify(&self.engine.registry.anonymous());
            return Err(Box::new(exchange.unauthorized(refusal)));
        }
        let Some(verdict) = exchange.quota.filter(|verdict| !verdict.allowed) else { return Ok(()) };
        let message = format!(
            "the quota of {} requests in {} s is used up; back off before retrying",
            verdict.limit,
            verdict.window.as_secs_f64()
        );
        Err(Box::new(exchange.error(&Error::new(ErrorKind::RateLimitExceeded, message), Reason::RateLimited)))
    }

    /// Finds the workspace of a valid key and draws the request's id there; counts the request if it is one that counts.
    fn recognize(&self, exchange: &mut Exchange, counts: bool) -> Result<(), KeyRefusal> {
        let config = &exchange.config;
        let alias = self.alias(exchange);
        let key = match &alias {
            Some(Alias { key, .. }) => judge(key, config.profile.key_rules()).map(|()| &**key)?,
            None => authenticate(&exchange.parts.headers, config.profile.key_rules())?,
        };
        let name = workspace_of(key, &config.profile.keys);
        let workspace = self.engine.open(name, exchange.now);
        // From here on it is the workspace's time.
        let now = if workspace.clock().is_plain() { exchange.now } else { workspace.clock().now() };
        if alias.as_ref().is_some_and(|alias| alias.expires <= now.instant) {
            return Err(KeyRefusal::Expired);
        }
        let (verdict, drawn) = {
            let mut state = workspace.lock();
            self.engine.meet(&workspace, &mut state, config, now);
            let verdict = counts.then(|| state.count_request(key, &config.profile, now));
            (verdict, draw(&mut state, &config.profile, now))
        };
        let group_key = (workspace.name().as_ref() != key).then(|| Arc::from(key));
        exchange.belong_to(workspace, group_key);
        exchange.now = now;
        exchange.take_drawn(drawn);
        exchange.quota = verdict;
        Ok(())
    }

    /// What the access token that came stands for; only the preview has such tokens.
    fn alias(&self, exchange: &Exchange) -> Option<Alias> {
        if !exchange.config.profile.preview.enabled {
            return None;
        }
        let token = bearer_token(&exchange.parts.headers).ok()?;
        self.engine.registry.tokens().find(token)
    }

    async fn read_content(&self, exchange: &mut Exchange, route: &Route, body: Incoming) -> Result<(), Box<Outcome>> {
        if !route.has_body() {
            return Ok(());
        }
        let read = self.bodies.read_content(None, &exchange.parts.headers, body).await;
        exchange.body = read.map_err(|problem| Box::new(exchange.refused(problem.kind(), &problem.to_string())))?;
        Ok(())
    }

    /// Adds what every answer has, and writes the journal entry.
    fn finish(&self, exchange: &mut Exchange, outcome: Outcome, broken: Option<&'static str>) -> Response<AnswerBody> {
        let Outcome { mut response, body, reason } = outcome;
        let status = response.status();
        exchange.refund(status);
        if let Some(unsettled) = exchange.unsettled.take() {
            unsettled.answered(if broken.is_some() { 0 } else { status.as_u16() });
        }
        let headers = response.headers_mut();
        let id = id_value(std::mem::take(&mut exchange.id));
        headers.insert(GENERATION, number_value(exchange.generation));
        if let Some(verdict) = &exchange.quota {
            push_quota_headers(headers, verdict, &exchange.config.profile, exchange.now);
        }
        // Rules and emissions see requests that led to an endpoint.
        let seen = exchange.operation.is_some() && !exchange.config.emits.is_empty();
        if let Some(owner) = exchange.owner().filter(|_| seen) {
            let at = owner.clock().instant();
            self.engine.answered(owner, &exchange.config, &exchange.view(), status.as_u16(), at);
        }
        if exchange.preview.is_some() {
            headers.insert(PREVIEW, MARKED);
        }
        headers.insert(REQUEST_ID, id.clone());
        if let Some(name) = exchange.config.profile.ids.request_header.get() {
            headers.insert(name.name().clone(), id.clone());
        }
        let transcript = Transcript::new(&Wire {
            id: id.to_str().unwrap_or_default(),
            request: Some((&exchange.parts.method, &exchange.parts.uri)),
            headers: &exchange.parts.headers,
            body: &exchange.body,
            answer_headers: headers,
            answer_body: &body,
        });
        let status = if broken.is_some() { 0 } else { status.as_u16() };
        let ended =
            exchange.owner().map_or_else(|| self.engine.registry.clock().instant(), |owner| owner.clock().instant());
        // What the clock has waited for ends when the journal has it.
        let _task = exchange.task.take();
        let record = RequestRecord { broken, ..exchange.record(transcript, status, reason, ended) };
        self.engine.journal.append(Entry::Request(Arc::new(record)));
        response
    }
}

/// How far a request came without waiting.
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Begun {
    /// It has its answer.
    Answered(Outcome),
    /// Something has to be waited for.
    Waits(&'static Route),
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
