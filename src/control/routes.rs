//! The control API's table of calls, and which of them a method and path mean.

use std::cmp::{Ordering, Reverse};
use std::sync::{Arc, LazyLock};

use hyper::Method;

use super::api;
use super::call::Call;
use super::route::{Handler, Route, Waiting, at_once, raw, reply, waits};
use super::{Control, ControlError, PREFIX};
use super::{
    clock, deliveries, events, explain, findings, metrics, profile, requests, run, scenarios, snapshot, stream,
    subscriptions, system, verification,
};
use crate::contract::nearest;
use crate::contract::routes::allow;

/// Every call; `openapi.json` describes them in this order.
pub(super) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let health = |control: &Control, call: Call| Ok(reply::<api::Health>(&system::health(control), &call));
    let snapshot = |control: Arc<Control>, call: Call| -> Waiting {
        Box::pin(async move {
            call.query_as::<api::Nothing>()?;
            snapshot::save(&control, &call).await
        })
    };
    let no_authority = &[(404, "There is none without --tls self-signed.")];
    vec![
        Route { is_open: true, has_text: true, ..Route::new::<api::Health>(Handler::Here(Box::new(health))) },
        Route { is_open: true, errors: no_authority, ..raw::<api::CaPem>(|control, _| system::ca_pem(control)) },
        at_once(profile::assumptions),
        at_once(profile::show),
        at_once(profile::patch),
        at_once::<api::OpenApi>(|_, _| Ok(system::openapi_document())),
        raw::<api::EmulatedOpenApi>(profile::emulated_openapi),
        at_once(requests::list),
        at_once(requests::clear),
        waits(requests::wait),
        at_once(requests::show),
        waits(verification::verify),
        at_once(findings::show),
        raw::<api::ShowRun>(run::show),
        raw::<api::ShowReport>(run::report),
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
        Route { errors: &[(429, "Too many viewers follow the stream already.")], ..raw::<api::Stream>(stream::stream) },
        raw::<api::Metrics>(|control, _| Ok(metrics::metrics(control))),
        waits(deliveries::redeliver),
        at_once::<api::ListScenarios>(|control, input| Ok(scenarios::list(control, input.redactor()))),
        at_once(scenarios::show),
        Route { takes_toml: true, has_text: true, ..raw::<api::PutScenario>(scenarios::put) },
        at_once(scenarios::remove),
        at_once(scenarios::reload),
        at_once(scenarios::activate),
        at_once(clock::show),
        waits(clock::change),
        at_once(snapshot::reset),
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

/// Finds a call. A path that is in the table literally never matches a variable segment; HEAD counts as GET.
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
pub(super) fn unknown_path(path: &str) -> ControlError {
    let shown: String = path.chars().take(80).collect();
    let way_out = match nearest_path(path) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "`{PREFIX}openapi.json` describes every call, and `{PREFIX}health` shows whether the emulator is ready"
        ),
    };
    ControlError::not_found(format!("there is no {PREFIX}{}; {way_out}", shown.escape_debug()))
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
