//! The control API's table of calls, and the path of one call through it: find its row, check who calls, read the body, run the
//! handler.

use std::cmp::{Ordering, Reverse};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::call::{Call, Input, check_key};
use super::endpoint::{Content, Described, Nothing, Query};
use super::guard::WRONG_TOKEN_PAUSE;
use super::page::page;
use super::render::Text;
use super::reply::json;
use super::{
    Control, ControlError, PREFIX, Reply, clock, deliveries, events, explain, findings, metrics, outcome, profile,
    requests, run, scenarios, snapshot, stream, subscriptions, system, verdict,
};
use crate::contract::error::ErrorKind;
use crate::contract::nearest;
use crate::contract::routes::allow;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::connection_state::ConnectionState;
use crate::redact::Redactor;
use crate::util::tasks::{Busy, MAX_READS, stopped};

type CallResult = Result<Reply, ControlError>;
type CallFuture = Pin<Box<dyn Future<Output = CallResult> + Send>>;
type AtOnce = dyn Fn(&Control, Call) -> CallResult + Send + Sync;
type Waiting = dyn Fn(Arc<Control>, Call) -> CallFuture + Send + Sync;

/// How a call is answered. The types of a call end here, so that the path to its handler is compiled once.
enum CallHandler {
    /// At once, on a blocking thread: calls that only read have a separate lane.
    AtOnce(Box<AtOnce>),
    /// By the async worker, because it waits for something.
    Waits(Box<Waiting>),
}

const JSON: &[&str] = &["application/json"];
const JSON_OR_TEXT: &[&str] = &["application/json", "text/plain"];

/// One call.
#[cfg_attr(not(test), allow(dead_code, reason = "some fields are for the `OpenAPI` document, which a test makes"))]
pub(super) struct CallRow {
    pub(super) method: Method,
    /// The path below `/_emulator/`.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    /// What it does, in a sentence or two.
    pub(super) about: &'static str,
    handler: CallHandler,
    /// Adds the schemas of the call to the `OpenAPI` document.
    #[cfg(test)]
    pub(super) describe: fn(&mut super::openapi_tests::Schemas) -> super::openapi_tests::Described,
    /// True if it requires no token: the health check of containers, and the certificate authority, which a client needs before it
    /// can connect.
    pub(super) is_open: bool,
    /// Most bytes of its body, if not the usual limit.
    most_bytes: Option<usize>,
    /// True if the body may be TOML instead of JSON.
    pub(super) takes_toml: bool,
    /// The media types of the answer; the caller chooses.
    pub(super) media: &'static [&'static str],
    /// True if the answer returns a secret, so that [`Call::reply`] masks nothing in it.
    shows_secrets: bool,
    /// Errors besides those that every call can return.
    pub(super) errors: &'static [(u16, &'static str)],
}

impl CallRow {
    fn new<Q: Query, B: Described, A: Described>(
        call: &'static str,
        summary: &'static str,
        handler: CallHandler,
    ) -> Self {
        let (method, path) = call.split_once(' ').expect("a call has a method and a path");
        Self {
            method: method.parse().expect("the table has methods of HTTP"),
            path,
            summary,
            about: "",
            handler,
            #[cfg(test)]
            describe: super::openapi_tests::describe::<Q, B, A>,
            is_open: false,
            most_bytes: None,
            takes_toml: false,
            media: JSON,
            shows_secrets: false,
            errors: &[],
        }
    }

    fn awaited<Q: Query, B: Described, A: Described>(
        call: &'static str,
        summary: &'static str,
        handler: impl Fn(Arc<Control>, Call) -> CallFuture + Send + Sync + 'static,
    ) -> Self {
        Self::new::<Q, B, A>(call, summary, CallHandler::Waits(Box::new(handler)))
    }

    fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// True if it changes anything.
    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The media types of the body; none if it changes nothing.
    fn accepted(&self) -> &'static [&'static str] {
        match (self.is_write(), self.takes_toml) {
            (false, _) => &[],
            (true, false) => JSON,
            (true, true) => &["application/json", "application/toml"],
        }
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

/// A call that answers at once.
fn at_once<Q: Query, B: Content, A: Text + Described + 'static>(
    call: &'static str,
    summary: &'static str,
    handler: fn(&Control, &Input<Q, B>) -> Result<A, ControlError>,
) -> CallRow {
    let answer = move |control: &Control, call: Call| {
        let input = Input::read(call)?;
        Ok(input.reply(&handler(control, &input)?))
    };
    CallRow { media: JSON_OR_TEXT, ..CallRow::new::<Q, B, A>(call, summary, CallHandler::AtOnce(Box::new(answer))) }
}

/// A call that answers at once, and whose handler reads the body and makes the answer itself, as one of them is not JSON of its type.
fn at_once_reply<Q: Query, B: Described, A: Described>(
    call: &'static str,
    summary: &'static str,
    handler: fn(&Control, &Call, Q) -> CallResult,
) -> CallRow {
    let answer = move |control: &Control, call: Call| handler(control, &call, call.query_as()?);
    CallRow::new::<Q, B, A>(call, summary, CallHandler::AtOnce(Box::new(answer)))
}

/// A call that waits for something.
fn waits<Q: Query, B: Content, A: Text + Described + Send + Sync + 'static, F>(
    call: &'static str,
    summary: &'static str,
    handler: fn(Arc<Control>, Arc<Input<Q, B>>) -> F,
) -> CallRow
where
    F: Future<Output = Result<A, ControlError>> + Send + 'static,
{
    let row = CallRow::awaited::<Q, B, A>(call, summary, move |control, call| {
        Box::pin(async move {
            let input = Arc::new(Input::read(call)?);
            let answer = handler(Arc::clone(&control), Arc::clone(&input)).await?;
            // Serializing a large answer takes a while.
            Ok(control.run_to_end(move |_| input.reply(&answer)).await)
        })
    });
    CallRow { media: JSON_OR_TEXT, ..row }
}

/// Every call; `openapi.json` describes them in this order.
pub(super) static CALLS: LazyLock<Vec<CallRow>> = LazyLock::new(|| {
    // Answered by the async worker, so that it tells whether that one is alive, however busy the other threads are.
    let health = CallRow::awaited::<Nothing, Nothing, system::Ready>(
        "GET health",
        "Whether the emulator is ready",
        |control, call| Box::pin(async move { Ok(call.reply(&system::health(&control))) }),
    )
    .about(
        "Answered as soon as the emulator serves requests, without a token. `scenarios` is `last good` \
                 while a broken or deleted file is kept in its last valid version.",
    );
    let summary = "The state of a key, or everything, as a document";
    let snapshot =
        CallRow::awaited::<Nothing, Nothing, snapshot::Snapshot>("GET snapshot", summary, |control, call| {
            Box::pin(async move {
                call.query_as::<Nothing>()?;
                snapshot::save(&control, &call).await
            })
        })
        .about("Contains secrets, because it has everything that is needed to continue.");
    let no_authority = &[(404, "There is none without --tls self-signed.")];
    let too_many_viewers = &[(429, "Too many viewers follow the stream already.")];
    vec![
        CallRow { is_open: true, media: JSON_OR_TEXT, ..health },
        CallRow {
            is_open: true,
            errors: no_authority,
            media: &["application/x-pem-file"],
            ..at_once_reply::<_, Nothing, String>(
                "GET ca.pem",
                "The authority made for --tls self-signed",
                system::ca_pem,
            )
            .about(
                "The certificate that clients must trust to call an emulator that was started with `--tls self- \
                 signed`. Needs no token.",
            )
        },
        at_once("GET assumptions", "What the contract leaves open and what is assumed", profile::assumptions).about(
            "The ledger: for each setting what the contract says, what is assumed, which values it may have, \
                 and the value in force.",
        ),
        at_once("GET profile", "Every setting in force and where it comes from", profile::show).about(
            "Each setting with its value, its origin and the comment above its assignment in a profile file; \
                 with a key, those of that key.",
        ),
        at_once("PATCH profile", "Change settings, for all keys or one; null undoes a change", profile::patch).about(
            "A change overrides `--set` and profile files; the `[profile]` of an active scenario overrides the \
                 change. Nothing changes if any of it is invalid.",
        ),
        at_once_reply::<_, Nothing, Map<String, Value>>("GET openapi.json", "This document", |_, _, _: Nothing| {
            Ok(json(&system::openapi_document()))
        })
        .about("Made from the table of calls that the emulator itself uses."),
        at_once_reply::<_, Nothing, Map<String, Value>>(
            "GET v1/openapi.json",
            "The document of the emulated API",
            profile::emulated_openapi,
        )
        .about(
            "Made from the routes, the types and the settings in force; what the published contract does not \
                 state is marked with `x-assumed`.",
        ),
        at_once("GET requests", "Requests, newest first", requests::list)
            .about("A page of the journal. Each parameter restricts it; `next_cursor` leads to the next page."),
        at_once("DELETE requests", "Clear the journal", requests::clear)
            .about("Deletes the requests of the key, or with `*` all of them."),
        waits("POST requests/wait", "Wait until so many requests match", requests::wait).about(
            "Answers as soon as `count` requests match. After `timeout` it is a 408, which shows the nearest \
                 requests and what differs.",
        ),
        at_once("GET requests/{id}", "One request and its answer, whole", requests::show)
            .about("The request with its headers and body, the answer with its own, and the rule that decided."),
        waits("GET verdict", "The problems found so far", verdict::verify).about(
            "Requests that matched no endpoint, deliveries that failed, forgeries that were accepted, and rules \
                 that were not used up. With `wait`, what is due within that time is done first.",
        ),
        at_once("GET findings", "What the traffic shows about the client and its receivers", findings::show)
            .about("Each finding with its evidence and how sure it is, and the checks that had nothing to judge."),
        at_once_reply::<_, Nothing, run::Run>(
            "GET run",
            "What happened so far and the present state, as one document",
            run::show,
        )
        .about(
            "The problems found, requests with their explanations, deliveries with their attempts, events, \
                 keys, subscriptions, scenarios and settings.",
        ),
        CallRow {
            media: &["text/html"],
            ..at_once_reply::<_, Nothing, String>(
                "GET report.html",
                "The same as one HTML file, which any browser shows without a network",
                run::report,
            )
            .about("The run document in a separate page, to be saved as an artefact of a build.")
        },
        at_once(
            "GET explain/{id}",
            "Why a request was answered as it was, or where an event or delivery went; `latest` is the newest",
            explain::explain,
        )
        .about(
            "Step by step, with advice on what to check next. The id is that of a request, an event or a \
                 delivery.",
        ),
        at_once("GET subscriptions", "Subscriptions, oldest first", subscriptions::list)
            .about("All subscriptions of the key, without their secrets."),
        CallRow {
            shows_secrets: true,
            ..at_once(
                "POST subscriptions",
                "Subscribe a URL for a key; the answer has the secret if one was generated",
                subscriptions::create,
            )
            .about(
                "With the validation of a client's subscribe, but without counting a request. A URL that is \
                 subscribed already is updated, if the profile says so.",
            )
        },
        CallRow {
            shows_secrets: true,
            ..at_once("GET subscriptions/{id}", "One subscription; its secret only on request", subscriptions::show)
                .about("With `secret=true` the answer has the secret that signs at present.")
        },
        at_once("PUT subscriptions/{id}", "Change a subscription; what is left out stays", subscriptions::change)
            .about("With the validation of a client's subscribe. Deliveries under way keep their URL."),
        at_once("DELETE subscriptions/{id}", "Delete a subscription", subscriptions::delete)
            .about("Later events no longer go to its URL."),
        CallRow {
            shows_secrets: true,
            ..at_once(
                "POST subscriptions/{id}/rotate",
                "Give a subscription a new secret; the old one keeps signing for a while",
                subscriptions::rotate,
            )
            .about("The new secret is shown here alone. The old one keeps signing for `webhooks.rotation_grace`.")
        },
        waits("POST events", "Fire events at the matching subscriptions", events::fire).about(
            "Names an event type, or with `emit` an emission of the active scenarios. With `wait`, the answer \
                 has what each receiver answered.",
        ),
        at_once("GET deliveries", "Deliveries, newest first", deliveries::list)
            .about("A page of deliveries. Each parameter restricts it; `next_cursor` leads to the next page."),
        at_once("GET deliveries/{id}", "One delivery with each attempt", deliveries::show)
            .about("Each attempt with what was sent, what the receiver answered, and when the next one is due."),
        waits("POST deliveries/wait", "Wait until so many deliveries match", deliveries::wait).about(
            "Answers as soon as `count` deliveries match. After `timeout` it is a 408, which shows the nearest \
                 deliveries and what differs.",
        ),
        CallRow {
            errors: too_many_viewers,
            media: &[stream::EVENT_STREAM],
            ..at_once_reply::<_, Nothing, String>(
                "GET stream",
                "Everything that happens, as server-sent events",
                stream::stream,
            )
            .about(
                "Requests, events, attempts and notices, each as an event of that name. Resumes after the id in \
                 `Last-Event-ID`.",
            )
        },
        CallRow {
            media: &["text/plain"],
            ..at_once_reply::<_, Nothing, String>(
                "GET metrics",
                "Counters and gauges in the text format of Prometheus",
                |control, _, _: Nothing| Ok(metrics::show(control)),
            )
            .about(
                "Requests, refusals, deliveries, attempts and their latency, and what is kept in memory. No labels \
                 contain keys.",
            )
        },
        waits(
            "POST deliveries/{id}/redeliver",
            "Send the same event to the same subscription again",
            deliveries::redeliver,
        )
        .about("With the same body and id, and a new signature."),
        at_once("GET scenarios", "All scenarios, with what is active and what is broken", scenarios::list)
            .about("Those in folders, those given as text and those in the program, each with its state."),
        at_once("GET scenarios/{name}", "One scenario with its text", scenarios::show)
            .about("The text with what is known about it, its rules and emissions."),
        CallRow {
            takes_toml: true,
            media: JSON_OR_TEXT,
            ..at_once_reply::<_, scenarios::ScenarioFile, scenarios::Added>(
                "PUT scenarios/{name}",
                "Add a scenario, or replace it",
                scenarios::put,
            )
            .about(
                "As TOML, or as JSON with the same keys. A text with a problem is refused with every problem in it, \
                 and nothing changes.",
            )
        },
        at_once("DELETE scenarios/{name}", "Remove a scenario that was added here", scenarios::remove)
            .about("Scenarios in folders and in the program stay."),
        at_once("POST scenarios/reload", "Read the folders again now", scenarios::reload).about(
            "Without waiting for the watcher. A broken file is a 422 with every problem; all others are loaded.",
        ),
        at_once("POST scenarios/active", "Choose the active scenarios, for all keys or one", scenarios::activate)
            .about("The list replaces the one in force, and each scenario starts at its beginning."),
        at_once("GET clock", "The emulator's time, or that of one key", clock::show)
            .about("The mode and the time; with a key, those of that key's clock."),
        waits(
            "POST clock",
            "Stop, set, move or resume a clock; answers when what was due on the way is done",
            clock::change,
        )
        .about("Moves from one due instant to the next, so that each retry and emission happens at its own time."),
        at_once("POST outcome", "Report how the test with this key ended", outcome::report)
            .about("Shown with the key in run documents; the last report counts."),
        at_once("POST reset", "Forget what a key did, or everything", snapshot::reset).about(
            "As before the key's first request: state, quota, clock, scenarios of its own, journal and \
                 deliveries. With `*`, as after the start.",
        ),
        snapshot,
        CallRow {
            most_bytes: Some(snapshot::MAX_BYTES),
            media: JSON_OR_TEXT,
            ..at_once_reply::<_, snapshot::Snapshot, snapshot::Loaded>(
                "PUT snapshot",
                "Put a saved state in place",
                snapshot::load,
            )
            .about(
                "The emulator continues as if it had not stopped. A snapshot that cannot be loaded is refused, and \
                 nothing changes.",
            )
        },
        at_once("GET sink/{name}", "What a built-in receiver got", |control, input: &Input| {
            Ok(deliveries::sink(control, input))
        })
        .about("What arrived at `https://NAME.sink.localhost`, and whether its signature was right."),
        at_once("POST sink/{name}", "What a built-in receiver answers next", deliveries::script)
            .about("One status for each request that arrives, in this order."),
    ]
});

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
        let answered = self.dispatch(parts, body, host, connection).await;
        if has_token && answered.as_ref().is_err_and(ControlError::is_unauthorized) {
            if let Some(line) = self.wrong_tokens.line(connection.peer()) {
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
            Err(error) => refused(error),
        }
    }

    async fn dispatch(
        self: &Arc<Self>,
        parts: Parts,
        body: RequestBody,
        host: &str,
        connection: &ConnectionState,
    ) -> Result<Reply, ControlError> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default().to_owned();
        let found = find(&parts.method, &path);
        let (accepted, is_open) = found.as_ref().map_or((&[][..], false), |(row, _)| (row.accepted(), row.is_open));
        self.access.check_origin(&parts, host, accepted, !body.is_empty())?;
        if !is_open {
            self.access.check_token(&parts)?;
        }
        // Which paths exist is only shown to those who may call.
        let (row, segment) = found?;
        let read = self.bodies.read_content(row.most_bytes, &parts.headers, &body).await;
        let body = read.map_err(|problem| ControlError::new(problem.kind(), problem.to_string()))?;
        let is_disconnected = Arc::clone(connection.is_disconnected());
        let call =
            Call { parts, body, segment, shows_secrets: row.shows_secrets, profile: self.profile(), is_disconnected };
        // Every call refuses an invalid key. The one with a large body checks it itself, as parsing that body takes a while.
        if !row.is_open && row.most_bytes.is_none() {
            check_key(self, &call)?;
        }
        let mut stopping = self.stopping.clone();
        let reply = tokio::select! {
            biased;
            reply = self.call_handler(row, call) => reply?,
            // A stop does not wait for calls that are waiting for something.
            () = stopped(&mut stopping) => {
                return Err(ControlError::new(ErrorKind::RequestTimeout, "the emulator is stopping").coded("stopping"));
            }
        };
        // A change that was made is confirmed in any case, and its answer is small.
        if row.is_write() {
            return Ok(reply);
        }
        let (head, body) = reply.into_parts();
        let charged = self.bodies.charge(body);
        let charged =
            charged.map_err(|Busy| ControlError::busy("large answers are waiting for their clients to read them"));
        charged.map(|body| Response::from_parts(head, body))
    }

    async fn call_handler(self: &Arc<Self>, row: &'static CallRow, call: Call) -> CallResult {
        match &row.handler {
            CallHandler::Waits(answer) => {
                let _writing = row.is_write().then(|| self.begin_write());
                answer(Arc::clone(self), call).await
            }
            CallHandler::AtOnce(answer) if row.is_write() => {
                // Released after the change, even if the caller has hung up.
                let writing = self.begin_write();
                let change = move |control: &Self| {
                    let _writing = writing;
                    let reply = answer(control, call);
                    control.fire_changed();
                    reply
                };
                self.run_to_end(change).await
            }
            CallHandler::AtOnce(answer) => {
                let is_disconnected = Arc::clone(&call.is_disconnected);
                self.read(&is_disconnected, move |control| answer(control, call)).await?
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
        let read = self.blocking.read(is_disconnected, move || work(&control)).await;
        read.map_err(|Busy| ControlError::busy(&format!("{MAX_READS} reads of the control API are waiting already")))
    }

    /// Does work on another thread, to its end even if the caller leaves.
    pub(super) async fn run_to_end<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let control = Arc::clone(self);
        self.blocking.changes.run(move || work(&control)).await
    }
}

/// The call that a method and path mean, and its variable segment, decoded. A path that is in the table literally never matches a
/// variable segment; HEAD counts as GET.
fn find(method: &Method, path: &str) -> Result<(&'static CallRow, String), ControlError> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let is_literal = CALLS.iter().any(|row| row.path == path);
    let mut allowed: Vec<&Method> = Vec::new();
    for row in CALLS.iter().filter(|row| !is_literal || row.path == path) {
        let Some(segment) = row.matches(path) else { continue };
        if row.method == method {
            return Ok((row, segment));
        }
        allowed.push(&row.method);
    }
    if allowed.is_empty() { Err(unknown_path(path)) } else { Err(ControlError::method(allow(allowed.into_iter()))) }
}

/// The path that an unknown one probably means, as the document writes it.
fn nearest_path(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let first_of = |pattern: &'static str| pattern.split('/').next().unwrap_or_default();
    let first = nearest(segments.first()?, CALLS.iter().map(|row| first_of(row.path)))?;
    let likeness = |row: &CallRow| {
        let distance = row.path.split('/').count().abs_diff(segments.len());
        // The name of a variable segment resembles no value of it.
        let pattern =
            row.segment().map_or_else(|| row.path.to_owned(), |(before, _, after)| format!("{before}{after}"));
        (Reverse(distance), strsim::normalized_damerau_levenshtein(&segments.join("/"), &pattern))
    };
    let found = CALLS.iter().filter(|row| first_of(row.path) == first);
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
