//! The control API's table of calls, and the path of one call through it: find its route, check who calls, read the body, run the
//! handler.

use std::cmp::{Ordering, Reverse};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use percent_encoding::percent_decode_str;

use super::call::{Call, Input, check_key};
use super::endpoint::{Endpoint, Form, Nothing};
use super::guard::WRONG_TOKEN_PAUSE;
use super::page::page;
use super::{
    Control, ControlError, PREFIX, Reply, clock, deliveries, events, explain, findings, outcome, profile, requests,
    run, scenarios, snapshot, stream, subscriptions, system, verdict,
};
use crate::contract::error::ErrorKind;
use crate::contract::nearest;
use crate::contract::routes::allow;
use crate::http::body::Outgoing;
use crate::http::handler::Progress;
use crate::redact::Redactor;
use crate::util::tasks::{Busy, MOST_READS, stopped};

type CallFuture = Pin<Box<dyn Future<Output = Result<Reply, ControlError>> + Send>>;
type CallHandler = Box<dyn Fn(Arc<Control>, Call) -> CallFuture + Send + Sync>;

/// One call.
#[cfg_attr(not(test), allow(dead_code, reason = "some fields are for the `OpenAPI` document, which a test makes"))]
pub(super) struct Route {
    pub(super) method: Method,
    /// The path below `/_emulator/`.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) form: Form,
    handler: CallHandler,
    /// Adds the schemas of the call to the `OpenAPI` document.
    #[cfg(test)]
    pub(super) describe: fn(&mut super::openapi_tests::Schemas) -> super::openapi_tests::Described,
    /// Whether it requires no token: the health check of containers, and the certificate authority, which a client needs before it
    /// can connect.
    pub(super) is_open: bool,
    /// Most bytes of its body, if not the usual limit.
    most_bytes: Option<usize>,
    /// Whether the body may be TOML instead of JSON.
    pub(super) takes_toml: bool,
    /// Whether the document of the API says that the answer may be text instead of JSON.
    pub(super) has_text: bool,
    /// Errors besides those that every call can return.
    pub(super) errors: &'static [(u16, &'static str)],
}

impl Route {
    fn new<E: Endpoint>(handler: impl Fn(Arc<Control>, Call) -> CallFuture + Send + Sync + 'static) -> Self {
        Self {
            method: E::METHOD,
            path: E::PATH,
            summary: E::SUMMARY.trim().trim_end_matches('.'),
            form: E::FORM,
            handler: Box::new(handler),
            #[cfg(test)]
            describe: super::openapi_tests::describe::<E>,
            is_open: false,
            most_bytes: None,
            takes_toml: false,
            has_text: false,
            errors: &[],
        }
    }

    /// Whether it changes anything.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The parts of the path before and after its variable segment, and the segment's name; `None` if it has none.
    pub(super) fn segment(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let (before, rest) = self.path.split_once('{')?;
        let (name, after) = rest.split_once('}')?;
        Some((before, name, after))
    }

    /// The variable segment if the path matches; empty if there is none.
    fn matches(&self, path: &str) -> Option<String> {
        let Some((before, _, after)) = self.segment() else {
            return (self.path == path).then(String::new);
        };
        let segment = path.strip_prefix(before)?.strip_suffix(after)?;
        let decoded = percent_decode_str(segment).decode_utf8().ok()?;
        (!segment.is_empty() && !segment.contains('/')).then(|| decoded.into_owned())
    }
}

/// A call that answers at once, on a blocking thread: calls that only read have a lane of their own.
fn on_thread<E: Endpoint>(
    answer: impl Fn(&Control, Call) -> Result<Reply, ControlError> + Copy + Send + Sync + 'static,
) -> Route {
    Route::new::<E>(move |control, call| {
        Box::pin(async move {
            if E::METHOD == Method::GET {
                let has_left = Arc::clone(&call.has_left);
                return control.read(&has_left, move |control| answer(control, call)).await?;
            }
            // Released after the change, even if the caller has hung up.
            let writing = control.begin_write();
            let change = move |control: &Control| {
                let _writing = writing;
                answer(control, call)
            };
            control.change(change).await
        })
    })
}

/// A call that answers at once.
fn at_once<E: Endpoint>(handler: fn(&Control, &Input<E>) -> Result<E::Answer, ControlError>) -> Route {
    let answer = move |control: &Control, call: Call| {
        let input = Input::read(call)?;
        Ok(input.reply::<E>(&handler(control, &input)?))
    };
    Route { has_text: E::PATH != "openapi.json", ..on_thread::<E>(answer) }
}

/// A call that answers at once, and whose body or answer is not JSON of its type.
fn raw<E: Endpoint>(handler: fn(&Control, &Call, E::Query) -> Result<Reply, ControlError>) -> Route {
    on_thread::<E>(move |control, call| handler(control, &call, call.query_as()?))
}

/// A call that waits for something.
fn waits<E: Endpoint, F: Future<Output = Result<E::Answer, ControlError>> + Send + 'static>(
    handler: fn(Arc<Control>, Arc<Input<E>>) -> F,
) -> Route {
    let route = Route::new::<E>(move |control, call| {
        Box::pin(async move {
            let _writing = (E::METHOD != Method::GET).then(|| control.begin_write());
            let input = Arc::new(Input::read(call)?);
            let answer = handler(Arc::clone(&control), Arc::clone(&input)).await?;
            // Serializing a large answer takes a while.
            Ok(control.change(move |_| input.reply::<E>(&answer)).await)
        })
    });
    Route { has_text: true, ..route }
}

/// Every call; `openapi.json` describes them in this order.
pub(super) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    // Answered by the async worker, so that it tells whether that one is there, however busy the other threads are.
    let health = Route::new::<system::Health>(|control, call| {
        Box::pin(async move { Ok(call.reply::<system::Health>(&system::health(&control))) })
    });
    let snapshot = Route::new::<snapshot::SaveSnapshot>(|control, call| {
        Box::pin(async move {
            call.query_as::<Nothing>()?;
            snapshot::save(&control, &call).await
        })
    });
    let no_authority = &[(404, "There is none without --tls self-signed.")];
    vec![
        Route { is_open: true, has_text: true, ..health },
        Route { is_open: true, errors: no_authority, ..raw::<system::CaPem>(|control, _, _| system::ca_pem(control)) },
        at_once(profile::assumptions),
        at_once(profile::show),
        at_once(profile::patch),
        at_once::<system::OpenApi>(|_, _| Ok(system::openapi_document())),
        raw::<profile::EmulatedOpenApi>(profile::emulated_openapi),
        at_once(requests::list),
        at_once(requests::clear),
        waits(requests::wait),
        at_once(requests::show),
        waits(verdict::verify),
        at_once(findings::show),
        raw::<run::ShowRun>(run::show),
        raw::<run::ShowReport>(run::report),
        at_once(explain::explain),
        at_once(subscriptions::list),
        at_once(subscriptions::create),
        at_once(subscriptions::show),
        at_once(subscriptions::change),
        at_once(subscriptions::delete),
        at_once(subscriptions::rotate),
        waits(events::fire),
        at_once(deliveries::list),
        at_once(deliveries::show),
        waits(deliveries::wait),
        Route {
            errors: &[(429, "Too many viewers follow the stream already.")],
            ..raw::<stream::Stream>(stream::stream)
        },
        raw::<system::Metrics>(|control, _, _| Ok(system::metrics(control))),
        waits(deliveries::redeliver),
        at_once(scenarios::list),
        at_once(scenarios::show),
        Route { takes_toml: true, has_text: true, ..raw::<scenarios::PutScenario>(scenarios::put) },
        at_once(scenarios::remove),
        at_once(scenarios::reload),
        at_once(scenarios::activate),
        at_once(clock::show),
        waits(clock::change),
        at_once(outcome::report),
        at_once(snapshot::reset),
        snapshot,
        Route { most_bytes: Some(snapshot::MOST_BYTES), ..raw::<snapshot::LoadSnapshot>(snapshot::load) },
        at_once::<deliveries::ShowSink>(|control, input| Ok(deliveries::sink(control, input))),
        at_once(deliveries::script),
    ]
});

impl Control {
    /// Answers one call. `host` is the host that the request names, already validated.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        host: &str,
        progress: &Progress,
    ) -> Response<Outgoing> {
        let (parts, body) = request.into_parts();
        if let Some(answered) = page(&self.access, &parts, host) {
            return answered.unwrap_or_else(|error| error.into_response(Redactor::new(&self.profile().keys)));
        }
        let has_token = parts.headers.contains_key(AUTHORIZATION);
        let answered = self.dispatch(parts, body, host, progress).await;
        if has_token && answered.as_ref().is_err_and(ControlError::is_unauthorized) {
            if let Some(line) = self.wrong_tokens.line(progress.peer()) {
                self.note(None, line, true);
            }
            tokio::time::sleep(WRONG_TOKEN_PAUSE).await;
        }
        match answered {
            Ok(mut reply) => {
                // Every answer may be out of date at once, and may contain secrets.
                reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                reply
            }
            Err(error) => error.into_response(Redactor::new(&self.profile().keys)),
        }
    }

    async fn dispatch(
        self: &Arc<Self>,
        parts: Parts,
        body: Incoming,
        host: &str,
        progress: &Progress,
    ) -> Result<Reply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let (route, segment) = match find(&parts.method, &path) {
            Ok(found) => found,
            // Which paths exist is only shown to those who may call.
            Err(refusal) => {
                self.access.check_origin(&parts, host, &[], false)?;
                self.access.check_token(&parts)?;
                return Err(refusal);
            }
        };
        let accepted: &[&str] = match (route.is_write(), route.takes_toml) {
            (false, _) => &[],
            (true, false) => &["application/json"],
            (true, true) => &["application/json", "application/toml"],
        };
        self.access.check_origin(&parts, host, accepted, !body.is_end_stream())?;
        if !route.is_open {
            self.access.check_token(&parts)?;
        }
        let read = self.bodies.read_content(route.most_bytes, &parts.headers, body).await;
        let body = read.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let has_left = Arc::clone(progress.half_closed());
        let call = Call { parts, body, segment, profile: self.profile(), has_left };
        // Every call refuses an invalid key. The one with a large body checks it itself, as parsing that body takes a while.
        if !route.is_open && route.most_bytes.is_none() {
            check_key(self, &call)?;
        }
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            reply = (route.handler)(Arc::clone(self), call) => reply,
            // A stop does not wait for calls that are waiting for something.
            () = stopped(&mut stopping) => {
                Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"))
            }
        }
    }

    /// Does work that changes nothing on another thread, unless the caller leaves before it has begun.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        has_left: &Arc<AtomicBool>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        let control = Arc::clone(self);
        self.blocking.read(has_left, move || work(&control)).await.map_err(|Busy| {
            let message = format!("{MOST_READS} reads of the control API are waiting already; try again");
            ControlError::new(ErrorKind::RateLimitExceeded, message).coded("busy")
        })
    }

    /// Does work on another thread, to its end even if the caller leaves.
    pub(super) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let control = Arc::clone(self);
        self.blocking.changes.run(move || work(&control)).await
    }
}

/// The call that a method and path mean, and its variable segment, decoded. A path that is in the table literally never matches a
/// variable segment; HEAD counts as GET.
fn find(method: &Method, path: &str) -> Result<(&'static Route, String), ControlError> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let is_literal = ROUTES.iter().any(|route| route.path == path);
    let mut allowed: Vec<&Method> = Vec::new();
    for route in ROUTES.iter().filter(|route| !is_literal || route.path == path) {
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
    let first = nearest(segments.first()?, ROUTES.iter().map(|route| first_of(route.path)))?;
    let likeness = |route: &Route| {
        let distance = route.path.split('/').count().abs_diff(segments.len());
        // The name of a variable segment resembles no value of it.
        let pattern =
            route.segment().map_or_else(|| route.path.to_owned(), |(before, _, after)| format!("{before}{after}"));
        (Reverse(distance), strsim::normalized_damerau_levenshtein(&segments.join("/"), &pattern))
    };
    let found = ROUTES.iter().filter(|route| first_of(route.path) == first);
    let found = found.max_by(|one, other| likeness(one).partial_cmp(&likeness(other)).unwrap_or(Ordering::Equal))?;
    Some(format!("{PREFIX}{}", found.path))
}

/// The 404 for an unknown path, with the one that was probably meant.
fn unknown_path(path: &str) -> ControlError {
    let shown: String = path.chars().take(80).collect();
    let way_out = match nearest_path(path) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "`{PREFIX}openapi.json` describes every call, and `{PREFIX}health` shows whether the emulator is ready"
        ),
    };
    ControlError::not_found(format!("there is no {PREFIX}{}; {way_out}", shown.escape_debug()))
}
