//! The control API's table of calls: which handler answers a method and path, and how.

use std::cmp::{Ordering, Reverse};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::api::{self, Endpoint, Form};
use super::call::{Call, Input};
use super::openapi::Schemas;
use super::{Control, ControlError, PREFIX, Reply};
use super::{
    clock, deliveries, events, explain, health, metrics, openapi, profile, requests, reset, scenarios, snapshot,
    stream, subscriptions, verification,
};
use crate::contract::nearest;
use crate::contract::routes::allow;

/// The future of a call that waits.
pub(super) type Waiting = Pin<Box<dyn Future<Output = Result<Reply, ControlError>> + Send>>;
/// A handler that answers at once.
pub(super) type AtOnce = dyn Fn(&Control, Call) -> Result<Reply, ControlError> + Send + Sync;
/// A handler that waits.
type Waits = dyn Fn(Arc<Control>, Call) -> Waiting + Send + Sync;

/// Who answers a call, and where.
pub(super) enum Handler {
    /// On the worker that read it, as it takes no time.
    Here(Box<AtOnce>),
    /// On a thread beside the workers.
    Beside(Box<AtOnce>),
    /// On the worker, as it waits.
    Waits(Box<Waits>),
}

/// One call.
pub(super) struct Route {
    pub(super) method: Method,
    /// The path below `/_emulator/`.
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) form: Form,
    pub(super) handler: Handler,
    /// Adds what the call takes and answers to the document.
    pub(super) describe: fn(&mut Schemas) -> openapi::Described,
    /// Whether anybody may call it without a token: what a container's health check uses, and the authority without which
    /// nobody could speak to a TLS port.
    pub(super) is_open: bool,
    /// Most bytes of its body, where that is more than elsewhere.
    pub(super) most_bytes: Option<usize>,
    /// Whether a TOML body is taken beside JSON.
    pub(super) takes_toml: bool,
    /// Errors beside those that every call can have.
    pub(super) errors: &'static [(u16, &'static str)],
}

impl Route {
    fn new<E: Endpoint>(handler: Handler) -> Self {
        Self {
            method: E::METHOD,
            path: E::PATH,
            summary: E::SUMMARY.trim().trim_end_matches('.'),
            form: E::FORM,
            handler,
            describe: openapi::describe::<E>,
            is_open: false,
            most_bytes: None,
            takes_toml: false,
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

/// A call that answers at once.
fn at_once<E: Endpoint>(handler: fn(&Control, &Input<E>) -> Result<E::Answer, ControlError>) -> Route {
    let answer = move |control: &Control, call: Call| {
        let input = Input::read(call)?;
        Ok(reply::<E>(handler(control, &input)?).written(input.redactor()))
    };
    Route::new::<E>(Handler::Beside(Box::new(answer)))
}

/// A call that waits for something.
fn waits<E: Endpoint, F: Future<Output = Result<E::Answer, ControlError>> + Send + 'static>(
    handler: fn(Arc<Control>, Arc<Input<E>>) -> F,
) -> Route {
    let answer = move |control: Arc<Control>, call: Call| -> Waiting {
        Box::pin(async move {
            let input = Arc::new(Input::read(call)?);
            let answer = handler(Arc::clone(&control), Arc::clone(&input)).await?;
            // A large answer takes a while.
            Ok(control.blocking.run(move || reply::<E>(answer).written(input.redactor())).await)
        })
    };
    Route::new::<E>(Handler::Waits(Box::new(answer)))
}

/// A call whose body or answer is not JSON of its type, and which answers at once.
fn raw<E: Endpoint>(handler: fn(&Control, &Call) -> Result<Reply, ControlError>) -> Route {
    let answer = move |control: &Control, call: Call| {
        call.query_as::<E::Query>()?;
        Ok(handler(control, &call)?.written(call.redactor()))
    };
    Route::new::<E>(Handler::Beside(Box::new(answer)))
}

/// An answer of a typed call.
fn reply<E: Endpoint>(answer: E::Answer) -> Reply {
    match E::FORM {
        Form::Plain => Reply::plain(&answer),
        _ => Reply::masked(&answer),
    }
}

/// Every call; `openapi.json` describes them in this order.
pub(super) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let health = |control: &Control, _: Call| Ok(Reply::masked(&health::health(control)));
    let snapshot = |control: Arc<Control>, call: Call| -> Waiting {
        Box::pin(async move {
            call.query_as::<api::Nothing>()?;
            snapshot::save(&control, &call).await
        })
    };
    let no_authority = &[(404, "There is none without --tls self-signed.")];
    vec![
        Route { is_open: true, ..Route::new::<api::Health>(Handler::Here(Box::new(health))) },
        Route { is_open: true, errors: no_authority, ..raw::<api::CaPem>(|control, _| health::ca_pem(control)) },
        at_once(profile::assumptions),
        at_once(profile::show),
        at_once(profile::patch),
        at_once::<api::OpenApi>(|_, _| Ok(openapi::document())),
        raw::<api::EmulatedOpenApi>(profile::emulated_openapi),
        at_once(requests::list),
        at_once(requests::clear),
        waits(requests::wait),
        at_once(requests::show),
        waits(verification::verify),
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
        Route { errors: &[(429, "So many viewers follow the stream already.")], ..raw::<api::Stream>(stream::stream) },
        raw::<api::Metrics>(|control, _| Ok(metrics::metrics(control))),
        waits(deliveries::redeliver),
        at_once::<api::ListScenarios>(|control, input| Ok(scenarios::list(control, input.redactor()))),
        at_once(scenarios::show),
        Route { takes_toml: true, ..raw::<api::PutScenario>(scenarios::put) },
        at_once(scenarios::remove),
        at_once(scenarios::reload),
        at_once(scenarios::activate),
        at_once(clock::show),
        waits(clock::change),
        at_once(reset::reset),
        Route::new::<api::SaveSnapshot>(Handler::Waits(Box::new(snapshot))),
        Route { most_bytes: Some(snapshot::MOST_BYTES), ..raw::<api::LoadSnapshot>(snapshot::load) },
        at_once::<api::ShowSink>(|control, input| Ok(deliveries::sink(control, input))),
        at_once(deliveries::script),
    ]
});

/// What a method and path mean.
pub(super) enum Match {
    /// A call, with the variable segment decoded.
    Found(&'static Route, String),
    /// The path takes these methods instead.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

/// Looks a call up. A path that is written out in the table is that one only, and no name for a variable segment; HEAD is
/// taken for GET.
pub(super) fn find(method: &Method, path: &str) -> Match {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let is_literal = ROUTES.iter().any(|route| route.path == path);
    let mut allowed: Vec<&Method> = Vec::new();
    for route in ROUTES.iter().filter(|route| !is_literal || route.path == path) {
        let Some(segment) = route.matches(path) else { continue };
        if route.method == method {
            return Match::Found(route, segment);
        }
        allowed.push(&route.method);
    }
    if allowed.is_empty() {
        return Match::Nothing;
    }
    Match::OtherMethods(allow(allowed.into_iter()))
}

/// The path that was probably meant by one that leads to no call, as the document writes it.
pub(super) fn nearest_path(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let first_of = |pattern: &'static str| pattern.split('/').next().unwrap_or_default();
    let first = nearest(segments.first()?, ROUTES.iter().map(|route| first_of(route.path)))?;
    let likeness = |route: &Route| {
        let distance = route.path.split('/').count().abs_diff(segments.len());
        // The name of a variable segment is like nothing that stands for it.
        let pattern =
            route.segment().map_or_else(|| route.path.to_owned(), |(before, _, after)| format!("{before}{after}"));
        (Reverse(distance), strsim::normalized_damerau_levenshtein(&segments.join("/"), &pattern))
    };
    let found = ROUTES.iter().filter(|route| first_of(route.path) == first);
    let found = found.max_by(|one, other| likeness(one).partial_cmp(&likeness(other)).unwrap_or(Ordering::Equal))?;
    Some(format!("{PREFIX}{}", found.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "health", "health "),
            (Method::HEAD, "health", "health "),
            (Method::POST, "health", "other methods: GET, HEAD"),
            (Method::GET, "requests/req_1", "requests/{id} req_1"),
            (Method::GET, "requests/a%20b", "requests/{id} a b"),
            (Method::POST, "deliveries/dlv_1/redeliver", "deliveries/{id}/redeliver dlv_1"),
            (Method::POST, "scenarios/reload", "scenarios/reload "),
            (Method::GET, "scenarios/reload", "other methods: POST"),
            (Method::DELETE, "deliveries/wait", "other methods: POST"),
            (Method::GET, "requests/", "nothing"),
            (Method::GET, "requests/a/b", "nothing"),
            (Method::GET, "requests/%ff", "nothing"),
            (Method::GET, "", "nothing"),
        ] {
            let found = match find(&method, path) {
                Match::Found(route, segment) => format!("{} {segment}", route.path),
                Match::OtherMethods(methods) => format!("other methods: {methods}"),
                Match::Nothing => "nothing".to_owned(),
            };
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}
