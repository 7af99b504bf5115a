//! One request of the emulated API end to end: route, authentication, quota, content, scenario, validation, effect, answer.
//!
//! Every request gets an answer, a request id and a journal entry here; a panic becomes a 500 in the envelope. What an operation
//! does is in `operations`, what a scenario rule does in `scripted`.

use std::mem::take;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::ext::ReasonPhrase;
use hyper::header::DATE;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use tokio::task::JoinHandle;

use crate::contract::error::ErrorKind;
use crate::contract::routes::{Credential, Lookup, Operation, RequestTarget, look_up};
use crate::http::answer::{Answer, REQUEST_ID, RequestRejection, SendFault, all_headers, http_date, id_value};
use crate::http::body::{BodyReader, RequestBody, ResponseBody, paced};
use crate::http::connection_state::{ConnectionFault, ConnectionState};
use crate::http::handler::{HandlerResponse, NO_HTTP_2, PLAIN_ON_TLS, Unreadable};
use crate::http::host::check_head;
use crate::http::operations::answer_operation;
use crate::http::request::{AuthenticatedKey, Identity, RequestContext, RequestHead, authenticate, draw_id};
use crate::scenario::{Decision, Emit, ScenarioSnapshot, after_answer};
use crate::state::engine::Engine;
use crate::state::journal::{ConnectionInfo, Entry, RawExchange, Reason, Transcript};
use crate::util::header_lines::{push_header, push_headers};
use crate::util::tasks::{catch_panic, catch_panic_now};

#[derive(Debug)]
pub struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) bodies: Arc<BodyReader>,
    pub(crate) uri_bytes: usize,
}

/// The events that an answer waits for.
enum Pending {
    /// Events that were due when the request came; then everything else.
    Events(JoinHandle<()>, Result<RequestTarget, RequestRejection>, RequestBody),
    Body(Operation, RequestBody),
    /// A scenario rule that is delayed or renders templates.
    Rule(Operation, Decision),
}

impl Api {
    /// Answers one request: at once unless something has to be waited for.
    pub fn handle(
        self: &Arc<Self>,
        request: hyper::Request<RequestBody>,
        connection: &Arc<ConnectionState>,
    ) -> HandlerResponse {
        let (head, body) = request.into_parts();
        let snapshot = self.engine.library.load();
        let now = connection.head_read_at().unwrap_or_else(|| self.engine.registry.clock().now());
        let identity = Identity::unknown(self.engine.registry.anonymous());
        let mut cx = RequestContext::new(RequestHead::new(head, now, &snapshot), identity);
        let answered = catch_panic_now(|| {
            let target = self.admit(&mut cx, &snapshot);
            Self::answer_now(&mut cx, target, body)
        });
        let answered = match answered {
            Ok(Err(remaining)) => {
                let (api, connection) = (Arc::clone(self), Arc::clone(connection));
                let mut waiting = PendingRequest { api, cx, connection, is_answered: false };
                return HandlerResponse::Later(Box::pin(async move {
                    let answered = catch_panic(waiting.api.continue_later(&mut waiting.cx, remaining)).await;
                    waiting.is_answered = true;
                    let PendingRequest { api, cx, connection, .. } = &mut waiting;
                    api.record(cx, answered, connection).fired(connection).await
                }));
            }
            Ok(Ok(answer)) => Ok(answer),
            Err(panic) => Err(panic),
        };
        let recorded = self.record(&mut cx, answered, connection);
        if recorded.due_after.is_none() {
            return HandlerResponse::Ready(recorded.into_response(connection));
        }
        let connection = Arc::clone(connection);
        HandlerResponse::Later(Box::pin(async move { recorded.fired(&connection).await }))
    }

    /// The answer, or the wait before it.
    fn answer_now(
        cx: &mut RequestContext,
        target: Result<RequestTarget, RequestRejection>,
        body: RequestBody,
    ) -> Result<Answer, Pending> {
        if let Some(firing) = cx.request.due_before.take() {
            return Err(Pending::Events(firing, target, body));
        }
        let operation = match target {
            Err(error) => return Ok(cx.early_refusal(error)),
            Ok(target) if target.has_body => return Err(Pending::Body(target.operation, body)),
            Ok(target) => target.operation,
        };
        match cx.decide_by_scenarios() {
            None => Ok(answer_operation(cx, operation)),
            Some(decision) if decision.is_immediate() => {
                let action = cx.record_rule(decision);
                Ok(Self::apply_action(cx, operation, action))
            }
            Some(decision) => Err(Pending::Rule(operation, decision)),
        }
    }

    pub fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes {
        let kind = match status {
            StatusCode::URI_TOO_LONG => ErrorKind::UriTooLong,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ErrorKind::HeadersTooLarge,
            StatusCode::PAYLOAD_TOO_LARGE => ErrorKind::PayloadTooLarge,
            _ => ErrorKind::BadRequest,
        };
        let text = match sent {
            _ if kind != ErrorKind::BadRequest => kind.message(),
            Unreadable::Garbage => "the bytes sent are not an HTTP/1.1 request",
            Unreadable::Tls => "this is a TLS handshake: use http:// or start with --tls self-signed",
            Unreadable::PlainHttp => PLAIN_ON_TLS,
            Unreadable::Http2 => NO_HTTP_2,
        };
        let (head, ()) = hyper::Request::new(()).into_parts();
        let request = RequestHead::new(head, self.engine.registry.clock().now(), &self.engine.library.load());
        let identity = self.anonymous(&request);
        let mut cx = RequestContext::new(request, identity);
        let Answer { body, reason, .. } = cx.refusal(kind, text);
        let clock = cx.workspace().clock();
        let date = http_date(clock.shared_time(cx.request.now));
        let (id, profile) = (&cx.identity.id, cx.profile());
        let (length, own_id, further) = (body.len().to_string(), REQUEST_ID, profile.ids.request_header.as_ref());
        let mut headers = vec![("content-type", "application/json"), ("content-length", &length)];
        headers.extend(date.as_ref().and_then(|date| date.to_str().ok()).map(|date| ("date", date)));
        headers.push((own_id.as_str(), id));
        headers.extend(further.map(|name| (name.name().as_str(), id.as_str())));
        headers.push(("connection", "close"));
        let letters = profile.variation.header_names;
        let lines = headers.iter().map(|(name, value)| format!("{}: {value}\r\n", letters.of(name)));
        let head = format!("HTTP/1.1 {status}\r\n{}\r\n", lines.collect::<String>());
        let bytes = [head.as_bytes(), &body].concat().into();
        // Headers that hyper adds to other answers are not in the journal.
        headers.retain(|(name, _)| !["content-length", "date"].contains(name));
        let transcript = Transcript::new(&RawExchange {
            id: id.as_bytes(),
            request: None,
            headers: &cx.request.head.headers,
            body: &[],
            answer_headers: &|bytes| {
                for (name, value) in &headers {
                    push_header(bytes, name, value.as_bytes());
                }
            },
            answer_body: &body,
        });
        let record = cx.take_record(transcript, status.as_u16(), None, reason, ConnectionInfo::default());
        self.engine.journal.append(Entry::Request(Arc::new(record)));
        bytes
    }

    /// Identifies the sender of a request and counts the request; returns its target, or why it is refused.
    fn admit(&self, cx: &mut RequestContext, snapshot: &ScenarioSnapshot) -> Result<RequestTarget, RequestRejection> {
        let RequestContext { request, identity, .. } = cx;
        let target = self.find_target(request, snapshot);
        let needs_key = target.as_ref().is_ok_and(|target| target.credential == Credential::Bearer);
        let recognized = match &target {
            Ok(_) if needs_key => self.admit_key(request, true),
            // 404, 405 and what a scenario answers without a key belong to the key that was sent, if it is valid, and cost it nothing.
            Ok(RequestTarget { operation: Operation::Stub, .. }) | Err(RequestRejection::NotFound(_)) => {
                self.admit_key(request, false)
            }
            _ => {
                *identity = self.anonymous(request);
                return target;
            }
        };
        let refused = match recognized {
            Ok(known) => {
                *identity = known;
                identity.quota().filter(|quota| !quota.allowed).map(|quota| RequestRejection::RateLimited(*quota))
            }
            Err(refusal) => {
                *identity = self.anonymous(request);
                needs_key.then_some(refusal)
            }
        };
        refused.map_or(target, Err)
    }

    fn find_target(
        &self,
        request: &mut RequestHead,
        snapshot: &ScenarioSnapshot,
    ) -> Result<RequestTarget, RequestRejection> {
        let Parts { method, uri, version, headers, .. } = &request.head;
        if let Err(problem) = check_head(method, uri, *version, headers) {
            return Err(RequestRejection::Invalid(problem.kind(), problem.to_string()));
        }
        if uri.path_and_query().is_some_and(|target| target.as_str().len() > self.uri_bytes) {
            let text = format!("the request target is longer than {} bytes", self.uri_bytes);
            return Err(RequestRejection::Invalid(ErrorKind::UriTooLong, text));
        }
        let found = look_up(method, request.path());
        let chosen = request.choose_config(snapshot);
        let target = match found {
            Lookup::Found(route) => route.target(),
            Lookup::Unknown | Lookup::Announced(_) if let Some(stub) = request.stub() => stub,
            // Unknown scenario names are irrelevant for a 404.
            other => return Err(RequestRejection::NotFound(other)),
        };
        request.operation = Some(target.operation);
        chosen.map(|()| target).map_err(|text| RequestRejection::Invalid(ErrorKind::BadRequest, text))
    }

    fn anonymous(&self, request: &RequestHead) -> Identity {
        let workspace = self.engine.registry.anonymous();
        let (id, variation_seed) = draw_id(&mut workspace.lock(), &request.config.profile, request.now);
        let running = workspace.clock().is_auto().then(|| workspace.agenda().begin_request());
        Identity { id, variation_seed, workspace, key: None, running }
    }

    /// The identity of a request with a valid key; counts the request if it is one that counts.
    fn admit_key(&self, request: &mut RequestHead, counts: bool) -> Result<Identity, RequestRejection> {
        let key = authenticate(request).map_err(RequestRejection::Unauthorized)?;
        if let Err(full) = self.engine.room() {
            // A request that would keep nothing more than its entry in the journal is answered all the same.
            let known = self.engine.registry.find(key);
            if known.is_none_or(|known| known.lock().may_grow(&request.config)) {
                return Err(RequestRejection::Invalid(ErrorKind::ValidationError, full.to_string()));
            }
        }
        let workspace = self.engine.registry.open(key, request.now);
        // From here on, times are by the workspace's clock.
        let now = if workspace.clock().is_plain() { request.now } else { workspace.clock().now() };
        let (config, profile) = (&request.config, &request.config.profile);
        let (is_due, quota, (id, variation_seed)) = {
            let mut state = workspace.lock();
            let is_due = Engine::start_scenarios(&workspace, &mut state, config, now);
            let quota = counts.then(|| state.count_request(profile, now));
            (is_due, quota, draw_id(&mut state, profile, now))
        };
        request.due_before = is_due.then(|| self.engine.fire_soon(&workspace));
        request.now = now;
        let running = workspace.clock().is_auto().then(|| workspace.agenda().begin_request());
        Ok(Identity { id, variation_seed, workspace, key: Some(AuthenticatedKey { quota }), running })
    }

    async fn continue_later(&self, cx: &mut RequestContext, mut remaining: Pending) -> Answer {
        if let Pending::Events(firing, route, body) = remaining {
            // A panic there is the scenario's matter, not this request's.
            let _ = firing.await;
            remaining = match Self::answer_now(cx, route, body) {
                Ok(answer) => return answer,
                Err(remaining) => remaining,
            };
        }
        let (operation, decision) = match remaining {
            Pending::Events(..) => unreachable!("they are waited for once"),
            Pending::Body(operation, body) => {
                match self.bodies.read_content(None, &cx.request.head.headers, &body).await {
                    Ok(body) => cx.body = body,
                    Err(problem) => return cx.refusal(problem.kind(), &problem.to_string()),
                }
                (operation, cx.decide_by_scenarios())
            }
            Pending::Rule(operation, decision) => (operation, Some(decision)),
        };
        match decision {
            None => answer_operation(cx, operation),
            Some(decision) => self.apply_rule(cx, operation, decision).await,
        }
    }

    /// Makes the journal's entry and the response, and fires the events that follow from the answer.
    fn record(
        &self,
        cx: &mut RequestContext,
        answered: Result<Answer, String>,
        connection: &ConnectionState,
    ) -> JournaledResponse {
        let answered = answered.unwrap_or_else(|panic| {
            if cx.identity.id.is_empty() {
                cx.identity = self.anonymous(&cx.request);
            }
            cx.early_refusal(RequestRejection::Panicked(panic))
        });
        let Answer { status: answer_status, content_type, headers, body, reason, fault } = answered;
        let (pace, fault) = match fault {
            None => (None, None),
            Some(SendFault::Paced(pace)) => (Some(pace), None),
            Some(SendFault::Connection(fault)) => (None, Some(fault)),
        };
        let broken = fault.as_ref().map(ConnectionFault::name);
        // 0: the connection breaks off instead of an answer.
        let status = if broken.is_some() { 0 } else { answer_status.as_u16() };
        cx.refund_if_free(answer_status);
        if let Some(mut unsettled) = cx.rule.as_mut().and_then(|rule| rule.unsettled.take()) {
            // Dropped here, and so settled; with status 0 if the client left before.
            unsettled.status = status;
        }
        let emits = Self::emits_after(cx, answer_status);
        let id = id_value(take(&mut cx.identity.id));
        let headers = all_headers(cx, &id, answer_status, content_type, headers);
        let Parts { method, uri, headers: request_headers, .. } = &cx.request.head;
        let transcript = Transcript::new(&RawExchange {
            id: id.as_bytes(),
            request: Some((method, uri)),
            headers: request_headers,
            body: &cx.body,
            answer_headers: &|bytes| push_headers(bytes, &headers),
            answer_body: &body,
        });
        let mut response = Response::new(match pace {
            None => ResponseBody::from(body),
            Some(pace) => paced(body, pace, cx.workspace()),
        });
        *response.status_mut() = answer_status;
        *response.headers_mut() = headers;
        let clock = cx.workspace().clock();
        if clock.is_stopped() {
            // Otherwise hyper adds the machine's.
            let date = http_date(clock.shared_time(clock.now()));
            date.map(|date| response.headers_mut().entry(DATE).or_insert(date));
        }
        if answer_status.canonical_reason().is_none() {
            response.extensions_mut().insert(ReasonPhrase::from_static(b""));
        }
        // A scenario's delay is over for the clock once the journal has the request.
        let _running = cx.identity.running.take();
        let record = Arc::new(cx.take_record(transcript, status, broken, reason, connection.arrival()));
        connection.set_record(&record);
        self.engine.journal.append(Entry::Request(record));
        let due_after = self.fire_after(cx, &emits);
        JournaledResponse { response, fault, due_after }
    }

    /// Makes the journal's entry of a request whose client has left.
    fn record_unanswered(&self, cx: &mut RequestContext, connection: &ConnectionState) {
        // Such a request was not answered with a 200 either.
        cx.refund_if_free(StatusCode::REQUEST_TIMEOUT);
        let Parts { method, uri, headers, .. } = &cx.request.head;
        let transcript = Transcript::new(&RawExchange {
            id: cx.identity.id.as_bytes(),
            request: Some((method, uri)),
            headers,
            body: &cx.body,
            answer_headers: &|_| (),
            answer_body: &[],
        });
        let record = cx.take_record(transcript, 0, Some("client_left"), Reason::ClientLeft, connection.arrival());
        self.engine.journal.append(Entry::Request(Arc::new(record)));
    }

    /// The emissions that an answer sets off. They follow from requests that led to an endpoint.
    fn emits_after(cx: &RequestContext, status: StatusCode) -> Vec<Arc<Emit>> {
        let emits = &cx.request.config.emits;
        if emits.is_empty() || cx.owner().is_none() || cx.request.operation.is_none() {
            return Vec::new();
        }
        after_answer(emits.iter(), &cx.view(), status.as_u16())
    }

    /// Fires the events due after a request; `None` if there are none.
    fn fire_after(&self, cx: &RequestContext, emits: &[Arc<Emit>]) -> Option<JoinHandle<()>> {
        if emits.is_empty() {
            return None;
        }
        let workspace = cx.owner()?;
        let at = workspace.clock().instant();
        for emit in emits {
            self.engine.plan_emission(workspace, emit, at);
        }
        Some(self.engine.fire_soon(workspace))
    }
}

/// A request that waits for its answer. If its client leaves first, hyper drops this, and it is recorded without an answer.
struct PendingRequest {
    api: Arc<Api>,
    cx: RequestContext,
    connection: Arc<ConnectionState>,
    is_answered: bool,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        // At a stop it is the emulator that leaves.
        if !self.is_answered && !self.api.engine.is_stopping() {
            self.api.record_unanswered(&mut self.cx, &self.connection);
        }
    }
}

/// A response whose request is in the journal.
struct JournaledResponse {
    response: Response<ResponseBody>,
    /// The fault that breaks the connection off instead of the response.
    fault: Option<ConnectionFault>,
    /// The firing of events that follow from it. They are in the journal before the answer is sent.
    due_after: Option<JoinHandle<()>>,
}

impl JournaledResponse {
    async fn fired(mut self, connection: &ConnectionState) -> Response<ResponseBody> {
        if let Some(firing) = self.due_after.take() {
            let _ = firing.await;
        }
        self.into_response(connection)
    }

    fn into_response(self, connection: &ConnectionState) -> Response<ResponseBody> {
        if let Some(fault) = self.fault {
            connection.record_fault(fault);
        }
        self.response
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use serde_json::Value;

    use super::*;
    use crate::clock::{Clock, Seed};
    use crate::contract::routes::Operation;
    use crate::http::handler::Limits;
    use crate::scenario::{Folders, ScenarioStore};
    use crate::settings::Layered;
    use crate::state::journal::Journal;
    use crate::state::workspace::Registry;
    use crate::util::flag::Flag;

    fn api() -> Api {
        let (journal, limits) =
            (Arc::new(Journal::new(10, &crate::state::budget::Budget::default())), Limits::default());
        let registry = Registry::new(Seed::from_number(7), Clock::real(), 10, Arc::clone(&journal));
        let stopping = Flag::default();
        let (engine, _) =
            Engine::new(ScenarioStore::new(Layered::default()), registry, journal, Folders::default(), stopping);
        Api { engine, bodies: Arc::new(limits.body_reader()), uri_bytes: limits.uri_bytes }
    }

    fn cx(api: &Api) -> RequestContext {
        let head = hyper::Request::get("/v1/hello").header("host", "localhost").body(()).expect("a request");
        let request =
            RequestHead::new(head.into_parts().0, api.engine.registry.clock().now(), &api.engine.library.load());
        let identity = api.anonymous(&request);
        RequestContext::new(request, identity)
    }

    #[tokio::test]
    async fn a_panic_is_a_500_and_the_next_request_works() {
        let api = api();
        let mut first = cx(&api);
        let connection = ConnectionState::default();
        let responded = catch_panic(async {
            let anonymous = api.engine.registry.anonymous();
            let _held = anonymous.lock();
            panic!("by the test")
        })
        .await;
        let response = api.record(&mut first, responded, &connection).into_response(&connection);
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let id = response.headers()[REQUEST_ID].to_str().expect("text").to_owned();
        let body = response.into_body().collect().await.expect("bytes at hand").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("the body is JSON");
        assert_eq!(body["error"]["code"], "internal_error");
        assert_eq!(body["error"]["request_id"], id);
        assert!(!body.to_string().contains("by the test"), "{body}");
        let entries = api.engine.journal.read(0, 10);
        let recorded = entries.iter().any(|(_, entry)| match entry {
            Entry::Request(record) => {
                record.transcript.id() == id
                    && record.status == 500
                    && matches!(&record.reason, Reason::Panicked(text) if text == "by the test")
            }
            _ => false,
        });
        assert!(recorded, "{entries:?}");

        // The workspace's lock was held by the one that panicked.
        let mut next = cx(&api);
        let answer = answer_operation(&mut next, Operation::Hello);
        let response = api.record(&mut next, Ok(answer), &connection).into_response(&connection);
        assert_eq!(response.status(), StatusCode::OK);
        assert_ne!(response.headers()[REQUEST_ID].to_str().expect("text"), id);
    }
}
