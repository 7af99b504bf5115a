//! The control API's list of calls, and the path of one call through it: find its route, check who calls, read the body, run the
//! handler.

use std::cmp::{Ordering, Reverse};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{Answered, Body, Call, CallHandler, CallResult, ControlCall, Made, Query, Tag};
use super::command::CallCommand;
use super::context::Context;
use super::fields::KeyFilter;
use super::page::page;
use super::reply::json;
use super::{
    Control, ControlError, ControlReply, PREFIX, activation, clock, deliveries, delivery_wait, events, explain,
    findings, openapi, profile, report, request_wait, requests, run, scenarios, sign, snapshot, stream, subscriptions,
    system, test_outcome, verdict,
};
use crate::contract::error::ErrorKind;
use crate::contract::nearest;
use crate::contract::routes::allow;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::connection_state::ConnectionState;
use crate::redact::Redactor;
use crate::util::tasks::{Busy, MAX_READS};
use crate::util::wording::quoted;

macro_rules! calls {
    ($($request:ty),* $(,)?) => { vec![$(<$request as ControlCall>::call()),*] };
}

/// Every call. The `OpenAPI` document and the help list them and their commands in this order.
static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| {
    calls![
        system::AskHealth,
        system::GetAuthority,
        Query<profile::GetAssumptions>,
        Query<profile::ShowProfile>,
        Body<profile::ChangeSettings>,
        Query<GetDocument>,
        Query<profile::GetEmulatedDocument>,
        Query<requests::ListRequests>,
        Body<requests::ClearRequests>,
        requests::ShowRequest,
        Body<request_wait::WaitForRequests>,
        Query<verdict::GetVerdict>,
        Query<findings::GetFindings>,
        Query<run::GetRun>,
        Query<report::GetReport>,
        explain::Explain,
        Query<subscriptions::ListSubscriptions>,
        Body<subscriptions::Subscribe>,
        subscriptions::ShowSubscription,
        subscriptions::RotateSecret,
        subscriptions::DeleteSubscription,
        subscriptions::ChangeSubscription,
        events::Fire,
        Body<sign::SignEvent>,
        Body<sign::ListCases>,
        Query<deliveries::ListDeliveries>,
        deliveries::ShowDelivery,
        Body<delivery_wait::WaitForDeliveries>,
        Query<stream::FollowStream>,
        deliveries::Redeliver,
        Query<scenarios::ListScenarios>,
        scenarios::ShowScenario,
        scenarios::PutScenario,
        scenarios::RemoveScenario,
        Body<activation::Activate>,
        Body<scenarios::ReloadScenarios>,
        Query<clock::ShowClock>,
        Body<clock::MoveClock>,
        Body<test_outcome::ReportOutcome>,
        Body<snapshot::Reset>,
        Query<snapshot::SaveSnapshot>,
        Query<snapshot::LoadSnapshot>,
        Body<snapshot::Fork>,
        deliveries::ShowSink,
        deliveries::ScriptSink,
    ]
});

/// The commands that make one call each.
pub(crate) fn commands() -> Vec<CallCommand> {
    CALLS.iter().flat_map(|route| (route.commands)()).collect()
}

/// The `OpenAPI` document, made when it is first needed.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(&CALLS));

pub fn openapi_document() -> &'static Value {
    &DOCUMENT
}

/// The JSON Schema of run documents, by itself.
pub fn run_schema() -> Value {
    openapi::run_schema(&DOCUMENT)
}

/// The OpenAPI document of the control API.
///
/// Made from the list of calls that the emulator itself uses.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
struct GetDocument {
    #[serde(default)]
    key: KeyFilter,
}

impl ControlCall for Query<GetDocument> {
    type Answer = Made<Map<String, Value>>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::EMULATOR, "GET openapi.json", |_, _| Ok(json(openapi_document()).into()))
    }
}

impl Control {
    /// Answers one call. `host` is the host that the request names, already validated.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<RequestBody>,
        host: &str,
        connection: &ConnectionState,
    ) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        let refused = |error: ControlError| error.into_response(Redactor::new(&self.profile().keys));
        if let Some(answered) = page(&self.access, &parts, host) {
            return answered.unwrap_or_else(refused);
        }
        let has_token = parts.headers.contains_key(AUTHORIZATION);
        let call = format!("{} {}", parts.method, parts.uri.path().strip_prefix(PREFIX).unwrap_or_default());
        let answered = self.dispatch(parts, body, host, connection).await;
        if has_token && answered.as_ref().is_err_and(ControlError::is_unauthorized) {
            if let Some(line) = self.wrong_tokens.line(connection.peer()) {
                self.engine.note(None, line, true);
            }
            tokio::time::sleep(self.wrong_tokens.pause).await;
        }
        match answered {
            Ok(mut reply) => {
                // Every answer may be out of date at once, and may contain secrets.
                reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                reply
            }
            Err(error) => {
                if let Some(call) = error.as_refused(call, Redactor::new(&self.profile().keys)) {
                    *self.last_refused.lock() = Some(call);
                }
                refused(error)
            }
        }
    }

    async fn dispatch(
        self: &Arc<Self>,
        parts: Parts,
        body: RequestBody,
        host: &str,
        connection: &ConnectionState,
    ) -> Result<ControlReply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let found = find(&parts.method, &path);
        let (accepted, is_open) =
            found.as_ref().map_or((&[][..], false), |(route, _)| (route.accepted(), route.options.is_open));
        self.access.check_origin(&parts, host, accepted, !body.is_empty())?;
        if !is_open {
            self.access.check_token(&parts)?;
        }
        // Which paths exist is only shown to those who may call.
        let (route, segment) = found?;
        let read = self.bodies.read_content(route.options.max_bytes, &parts.headers, &body).await;
        let body = read.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let is_disconnected = Arc::clone(connection.is_disconnected());
        let (control, shows_secrets, profile) = (Arc::clone(self), route.options.shows_secrets, self.profile());
        let engine = Arc::clone(&self.engine);
        let cx = Context { control, engine, parts, body, segment, shows_secrets, profile, is_disconnected };
        // Every call refuses an invalid key. The one with a large body checks it itself, because parsing that body is slow.
        if !route.options.is_open && route.options.max_bytes.is_none() {
            cx.check_key()?;
        }
        let reply = tokio::select! {
            biased;
            reply = self.call_handler(route, cx) => reply?,
            // A stop does not wait for calls that are waiting for something.
            () = self.stopping.raised() => {
                return Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"));
            }
        };
        // A change that was made is confirmed in any case, and its answer is small.
        if route.is_write() {
            return Ok(reply);
        }
        self.charged(reply)
    }

    /// Counts a large answer against the memory for bodies until its client has read it.
    pub(super) fn charged(&self, reply: ControlReply) -> Result<ControlReply, ControlError> {
        let (head, body) = reply.into_parts();
        let charged = self.bodies.charge(body);
        let charged =
            charged.map_err(|Busy| ControlError::busy("large answers are waiting for their clients to read them"));
        charged.map(|body| Response::from_parts(head, body))
    }

    async fn call_handler(self: &Arc<Self>, call: &'static Call, cx: Context) -> CallResult<ControlReply> {
        match &call.handler {
            CallHandler::Waits(answer) => {
                let _writing = call.is_write().then(|| self.engine.begin_write());
                let cx = Arc::new(cx);
                match answer(call.parts(&cx)?, Arc::clone(&cx)).await? {
                    Answered::Reply(reply) => Ok(reply),
                    // Serializing a large answer is slow.
                    Answered::Record(record) => Ok(self.run_to_end(move |_| cx.reply(&*record)).await),
                }
            }
            CallHandler::AtOnce(answer) if call.is_write() => {
                // Released after the change, even if the caller has hung up.
                let writing = self.engine.begin_write();
                let change = move |control: &Self| {
                    let _writing = writing;
                    let reply = call.parts(&cx).and_then(|parts| Ok(written(answer(parts, &cx)?, &cx)));
                    control.engine.fire_changed();
                    reply
                };
                self.run_to_end(change).await
            }
            CallHandler::AtOnce(answer) => {
                let is_disconnected = Arc::clone(&cx.is_disconnected);
                let read = move |_: &Self| Ok(written(answer(call.parts(&cx)?, &cx)?, &cx));
                self.read(&is_disconnected, read).await?
            }
        }
    }

    /// Does work that changes nothing on another thread, unless the caller leaves before it has begun.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        is_disconnected: &Arc<AtomicBool>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let control = Arc::clone(self);
        let read = self.engine.blocking.read(is_disconnected, move || work(&control)).await;
        read.map_err(|Busy| ControlError::busy(&format!("{MAX_READS} reads of the control API are waiting already")))
    }

    /// Does work on another thread, to its end even if the caller leaves.
    pub(super) async fn run_to_end<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let control = Arc::clone(self);
        self.engine.blocking.changes.run(move || work(&control)).await
    }
}

fn written(answered: Answered, cx: &Context) -> ControlReply {
    match answered {
        Answered::Record(record) => cx.reply(&*record),
        Answered::Reply(reply) => reply,
    }
}

/// The call that a method and path mean, and its variable segment, decoded. A path that is in the table literally never matches a
/// variable segment; HEAD counts as GET.
fn find(method: &Method, path: &str) -> Result<(&'static Call, String), ControlError> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let is_literal = CALLS.iter().any(|route| route.path == path);
    let mut allowed: Vec<&Method> = Vec::new();
    for route in CALLS.iter().filter(|route| !is_literal || route.path == path) {
        let Some(segment) = route.matches(path) else { continue };
        if route.method == method {
            return Ok((route, segment));
        }
        allowed.push(&route.method);
    }
    if allowed.is_empty() { Err(unknown_path(path)) } else { Err(ControlError::method(allow(allowed.into_iter()))) }
}

/// The path that an unknown one probably means, as the document writes it.
fn nearest_path(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let first_of = |pattern: &'static str| pattern.split('/').next().unwrap_or_default();
    let first = nearest(segments.first()?, CALLS.iter().map(|route| first_of(route.path)))?;
    let likeness = |route: &Call| {
        let distance = route.path.split('/').count().abs_diff(segments.len());
        // The name of a variable segment resembles no value of it.
        let pattern =
            route.segment().map_or_else(|| route.path.to_owned(), |(before, _, after)| format!("{before}{after}"));
        (Reverse(distance), strsim::normalized_damerau_levenshtein(&segments.join("/"), &pattern))
    };
    let found = CALLS.iter().filter(|route| first_of(route.path) == first);
    let found = found.max_by(|one, other| likeness(one).partial_cmp(&likeness(other)).unwrap_or(Ordering::Equal))?;
    Some(format!("{PREFIX}{}", found.path))
}

/// The 404 for an unknown path, with the one that was probably meant.
fn unknown_path(path: &str) -> ControlError {
    let way_out = match nearest_path(path) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "`{PREFIX}openapi.json` describes every call, and `{PREFIX}health` shows whether the emulator is ready"
        ),
    };
    ControlError::not_found(format!("there is no {PREFIX}{}; {way_out}", quoted(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_the_parts_that_its_call_reads() {
        for call in CALLS.iter() {
            let path = call.path;
            let has = |part: &str, name: &str| call.fields(part).any(|(known, _)| known == name);
            let segment: Vec<&str> = call.segment().into_iter().map(|(_, name, _)| name).collect();
            assert_eq!(call.fields("path").map(|(name, _)| name).collect::<Vec<_>>(), segment, "{path}");
            let has_body = call.part("body").is_some();
            assert_eq!(has_body || call.options.raw_body.is_some(), call.is_write(), "{path}");
            assert_ne!(has(if has_body { "body" } else { "query" }, "key"), call.options.is_open, "{path}");
            assert!(!call.about().0.is_empty(), "{path}");
        }
    }
}
