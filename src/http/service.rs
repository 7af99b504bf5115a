//! One request of the emulated API end to end: route, authentication, quota, content, scenario, validation, effect, answer.
//!
//! Every request gets an answer, a request id and a journal entry here, whatever happens on the way; a panic becomes a 500
//! in the envelope. What an operation does stands in `handlers`.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

use crate::clock::Now;
use crate::contract::error::{Error, ErrorKind};
use crate::contract::ids::IdKind;
use crate::contract::keys::{KeyRefusal, authenticate, bearer_token, workspace_of};
use crate::contract::routes::{Credential, Lookup, Operation, Route, look_up};
use crate::http::answer::{AnswerBody, GENERATION, JSON, REQUEST_ID, answer, header_value};
use crate::http::body::{BodyProblem, BodyReader};
use crate::http::connection::Progress;
use crate::http::emissions::Emissions;
use crate::http::fault::Break;
use crate::http::guard::caught;
use crate::http::handlers;
use crate::http::host::check_host;
use crate::http::limits::Limits;
use crate::http::quota::push_quota_headers;
use crate::http::scripted::scripted_or_ordinary;
use crate::journal::{Entry, Head, Journal, Notice, Reason, RequestRecord, Scripted, kept};
use crate::rate_limit::Verdict;
use crate::scenario::{Generation, Library, RequestView, Setup};
use crate::workspace::{Registry, Workspace};

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

/// What is known of a request while it is being answered.
pub struct Exchange {
    /// The request without its body.
    pub parts: Parts,
    /// When it arrived.
    pub now: Now,
    /// The profile and scenarios that answer it.
    pub setup: Arc<Setup>,
    /// Whose it is; the anonymous workspace until a valid key was seen.
    pub workspace: Arc<Workspace>,
    /// Its id; made as soon as it is known whose source it draws from.
    pub id: String,
    /// The body, once read.
    pub body: Bytes,
    key: Option<Arc<str>>,
    operation: Option<Operation>,
    quota: Option<Verdict>,
    scripted: Option<Scripted>,
    broken: Option<Break>,
    generation: u64,
}

/// An answer before ids and headers are added.
pub struct Outcome {
    /// Status, content type and body.
    pub response: Response<AnswerBody>,
    /// The body's bytes, for the journal.
    pub body: Bytes,
    /// Why.
    pub reason: Reason,
}

impl Outcome {
    /// A JSON answer.
    pub fn json(status: StatusCode, body: Vec<u8>, reason: Reason) -> Self {
        let body = Bytes::from(body);
        Self { response: answer(status, JSON, body.clone()), body, reason }
    }
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
        mut exchange: Exchange,
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
        let unread = Head::default();
        self.journal.append(Entry::Request(Arc::new(exchange.record(outcome, unread, self.registry.clock().now()))));
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{REQUEST_ID}: {id}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat().into()
    }

    fn begin(&self, parts: Parts, generation: &Generation) -> Exchange {
        Exchange {
            parts,
            now: self.registry.clock().now(),
            setup: Arc::clone(generation.setup_for(None)),
            workspace: Arc::clone(self.registry.anonymous()),
            id: String::new(),
            body: Bytes::new(),
            key: None,
            operation: None,
            quota: None,
            scripted: None,
            broken: None,
            generation: generation.number,
        }
    }

    async fn respond(&self, exchange: &mut Exchange, body: Incoming, generation: &Generation) -> Outcome {
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
    fn admit(&self, exchange: &mut Exchange, generation: &Generation) -> Result<&'static Route, Box<Outcome>> {
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

    fn authenticate_and_count(&self, exchange: &mut Exchange) -> Result<(), Box<Outcome>> {
        let setup = Arc::clone(&exchange.setup);
        let key = match authenticate(&exchange.parts.headers, &setup.profile) {
            Ok(key) => key,
            Err(refusal) => {
                exchange.identify();
                return Err(Box::new(exchange.unauthorized(refusal)));
            }
        };
        let (workspace, left) = self.registry.open(workspace_of(key, &setup.profile), exchange.now);
        let (verdict, id) = {
            let mut state = workspace.lock();
            self.emissions.meet(&workspace, &mut state, &setup, exchange.now);
            let verdict = state.count_request(key, &setup.profile, exchange.now);
            (verdict, state.make_id(IdKind::Request, &setup.profile, exchange.now))
        };
        exchange.key =
            Some(if workspace.name().as_ref() == key { Arc::clone(workspace.name()) } else { Arc::from(key) });
        exchange.workspace = workspace;
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

    async fn read_content(&self, exchange: &mut Exchange, route: &Route, body: Incoming) -> Result<(), Box<Outcome>> {
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
    fn finish(&self, mut exchange: Exchange, mut outcome: Outcome, broken: bool) -> Response<AnswerBody> {
        exchange.refund(&outcome);
        let headers = outcome.response.headers_mut();
        headers.insert(REQUEST_ID, header_value(&exchange.id));
        headers.insert(GENERATION, HeaderValue::from(exchange.generation));
        if let Some(verdict) = &exchange.quota {
            push_quota_headers(headers, verdict, &exchange.setup.profile, exchange.now);
        }
        let head = Head::of_request(&exchange.parts.method, &exchange.parts.uri, &exchange.parts.headers);
        if exchange.key.is_some() && !exchange.setup.emits.is_empty() {
            let status = outcome.response.status().as_u16();
            self.emissions.answered(&exchange.workspace, &exchange.setup, &exchange.view(), status);
        }
        let response = std::mem::replace(&mut outcome.response, answer(StatusCode::OK, JSON, Bytes::new()));
        let answer_head = Head::of_answer(response.headers());
        let status = if broken { 0 } else { response.status().as_u16() };
        let record =
            RequestRecord { status, answer_head, ..exchange.record(outcome, head, self.registry.clock().now()) };
        self.journal.append(Entry::Request(Arc::new(record)));
        response
    }
}

impl Exchange {
    /// Draws the request's id from its workspace's source.
    fn identify(&mut self) {
        self.id = self.workspace.lock().make_id(IdKind::Request, &self.setup.profile, self.now);
    }

    /// Takes the setup of the key that the request carries, or the one that it asks for by header.
    fn choose_setup(&mut self, generation: &Generation) -> Result<(), String> {
        let headers = &self.parts.headers;
        if let Some(wanted) = headers.get(handlers::SCENARIO) {
            let text = wanted
                .to_str()
                .map_err(|_| "X-Emulator-Scenario: expected scenario names, joined by commas".to_owned())?;
            let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            self.setup = generation.setup_named(&names).map_err(|problems| {
                let texts: Vec<String> =
                    problems.iter().map(|problem| format!("{}; {}", problem.message, problem.hint)).collect();
                format!("X-Emulator-Scenario: {}", texts.join("; "))
            })?;
        } else if let Ok(token) = bearer_token(headers) {
            let workspace = workspace_of(token, generation.base.profile());
            self.setup = Arc::clone(generation.setup_for(Some(workspace)));
        }
        Ok(())
    }

    /// An error in the envelope.
    pub fn error(&self, error: &Error, reason: Reason) -> Outcome {
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut outcome = Outcome::json(status, error.body(&self.setup.profile, &self.id), reason);
        let headers = outcome.response.headers_mut();
        match error.kind {
            ErrorKind::Unauthorized => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            // The rest of the request may still be on its way; nobody will read it.
            ErrorKind::PayloadTooLarge
            | ErrorKind::RequestTimeout
            | ErrorKind::BadRequest
            | ErrorKind::UnsupportedMediaType => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        outcome
    }

    /// A refusal that is none of the contract's own errors.
    pub fn refused(&self, kind: ErrorKind, text: &str) -> Outcome {
        self.error(&Error::new(kind, text), Reason::Refused(kind, text.to_owned()))
    }

    /// What is answered in place of an answer that a panic ended. What the scenario wanted of it is forgotten.
    fn panicked(&mut self, text: String) -> Outcome {
        self.broken = None;
        if self.id.is_empty() {
            self.identify();
        }
        let error = Error::new(ErrorKind::InternalError, ErrorKind::InternalError.message());
        self.error(&error, Reason::Panicked(text))
    }

    fn unauthorized(&self, refusal: KeyRefusal) -> Outcome {
        let error = Error::new(ErrorKind::Unauthorized, refusal.to_string());
        let mut outcome = self.error(&error, Reason::Unauthorized(refusal));
        if refusal.token_came() {
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            outcome.response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        outcome
    }

    /// 404 and 405.
    fn nowhere(&self, lookup: &Lookup) -> Outcome {
        match lookup {
            Lookup::MethodNotAllowed(allow) => {
                let message = format!("this endpoint takes {allow}");
                let mut outcome =
                    self.error(&Error::new(ErrorKind::MethodNotAllowed, message), Reason::MethodNotAllowed(allow));
                outcome.response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
                outcome
            }
            Lookup::Announced(entry) => {
                let message = format!(
                    "{} ({}) are announced by the contract as upcoming and not open yet",
                    entry.path, entry.what
                );
                self.error(&Error::new(ErrorKind::NotFound, message), Reason::Announced(entry.path))
            }
            _ => self.error(&Error::new(ErrorKind::NotFound, ErrorKind::NotFound.message()), Reason::NotFound),
        }
    }

    /// Notes the scenario rule that decides this request.
    pub fn note_scripted(&mut self, scripted: Scripted) {
        self.scripted = Some(scripted);
    }

    /// Lets the connection do something else in place of writing the answer.
    pub fn break_connection(&mut self, how: Break) {
        self.broken = Some(how);
    }

    /// Leaves the quota headers out, as on any 401.
    pub fn forget_quota(&mut self) {
        self.quota = None;
    }

    /// Shows the quota as used up, as on any 429.
    pub fn show_quota_used_up(&mut self) {
        if let Some(verdict) = &mut self.quota {
            *verdict = Verdict { allowed: false, remaining: 0, wait: verdict.reset, ..*verdict };
        }
    }

    /// What scenarios see of the request.
    pub fn view(&self) -> RequestView<'_> {
        RequestView {
            operation: self.operation,
            method: &self.parts.method,
            path: self.parts.uri.path(),
            query: self.parts.uri.query(),
            headers: &self.parts.headers,
            body: &self.body,
            key: self.key.as_deref(),
        }
    }

    fn refund(&mut self, outcome: &Outcome) {
        if outcome.response.status() == StatusCode::OK {
            return;
        }
        if let (Some(verdict), Some(key)) = (self.quota.as_mut().filter(|verdict| verdict.allowed), &self.key) {
            self.workspace.lock().refund_request(key, &self.setup.profile, verdict);
        }
    }

    /// The journal's record of the whole exchange.
    fn record(self, outcome: Outcome, head: Head, ended: Now) -> RequestRecord {
        RequestRecord {
            id: self.id,
            at: self.now.wall,
            workspace: self.key.is_some().then(|| Arc::clone(self.workspace.name())),
            key: self.key,
            operation: self.operation,
            head,
            body: kept(&self.body),
            status: outcome.response.status().as_u16(),
            answer_head: Head::default(),
            answer_body: kept(&outcome.body),
            latency: ended.moment.since(self.now.moment),
            reason: outcome.reason,
            quota: self.quota,
            scripted: self.scripted,
            generation: self.generation,
        }
    }
}

/// The `Content-Type` headers of a request, as bytes.
pub fn content_types(parts: &Parts) -> Vec<&[u8]> {
    parts.headers.get_all(CONTENT_TYPE).iter().map(HeaderValue::as_bytes).collect()
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
