//! Rules about API keys: where they are sent, by whom, and which.

use super::check::{ALWAYS, Check, Outcome, Rule, SEND_REQUESTS, SUBSCRIBE, Severity, Sighting};
use super::traffic::Subject;
use crate::contract::keys::KeyRefusal;
use crate::contract::routes::Operation;
use crate::state::journal::Reason;

pub(super) const CHECKS: [Check; 6] = [
    Check {
        code: "key-in-url",
        title: "An API key is part of a URL",
        why: "URLs end up in logs, histories and the Referer header of other requests, and the key with them.",
        clause: "Authentication 1: the key is carried in the header Authorization",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "send the key as `Authorization: Bearer KEY` only, and replace the key that was exposed",
        cwe: Some(598),
        exercise: SEND_REQUESTS,
        rule: Rule::Request(in_url),
    },
    Check {
        code: "key-in-body",
        title: "An API key is part of a body",
        why: "Bodies are logged and stored where headers with credentials are not.",
        clause: "Authentication 1: the key is carried in the header Authorization",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "send the key as `Authorization: Bearer KEY` only",
        cwe: Some(522),
        exercise: SUBSCRIBE,
        rule: Rule::Request(in_body),
    },
    Check {
        code: "key-in-another-header",
        title: "An API key is in a header other than Authorization",
        why: "Proxies and log filters hide Authorization, and pass other headers on.",
        clause: "Authentication 1: the key is carried in the header Authorization",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "send the key as `Authorization: Bearer KEY` only",
        cwe: Some(522),
        exercise: SEND_REQUESTS,
        rule: Rule::Request(in_other_header),
    },
    Check {
        code: "key-sent-to-hello",
        title: "A key is sent to the endpoint that needs none",
        why: "A credential that is not needed is one more that can be seen.",
        clause: "Authentication 6: GET /v1/hello needs no token",
        severity: Severity::Low,
        confidence: ALWAYS,
        remedy: "leave Authorization out of GET /v1/hello",
        cwe: None,
        exercise: "call GET /v1/hello",
        rule: Rule::Request(sent_to_hello),
    },
    Check {
        code: "called-from-a-browser",
        title: "A key is used in a browser",
        why: "Whoever opens the page can read the key.",
        clause: "Authentication 5: keys must not be embedded in client-side code",
        severity: Severity::High,
        confidence: "certain if a header that only browsers send shows it; likely if only Origin does",
        remedy: "call the API from a server, and replace the key that was exposed",
        cwe: Some(522),
        exercise: SEND_REQUESTS,
        rule: Rule::Request(from_browser),
    },
    Check {
        code: "live-key-in-the-sandbox",
        title: "A live key is sent to the sandbox",
        why: "A production credential has left production.",
        clause: "Authentication 3: test keys and live keys have prefixes of their own",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "use a test key here, and replace the live key that was exposed",
        cwe: Some(522),
        exercise: "send a request with a key",
        rule: Rule::Request(live_key),
    },
];

/// The finding that a key is somewhere.
fn key_found(it: &Subject<'_>, is_live: bool, place: &str) -> Sighting {
    let kind = if is_live { "a live key" } else { "a test key" };
    Sighting::certain(it.request.id(), format!("{}: {kind} in {place}", it.request.line()))
}

fn in_url(it: &Subject<'_>) -> Outcome {
    Some(it.key_in(&it.request.target()).map(|is_live| key_found(it, is_live, "the URL")))
}

fn in_body(it: &Subject<'_>) -> Outcome {
    // A secret that is a key is a finding of its own, and a client's secret belongs in its body.
    if it.request.0.transcript.body().is_empty() || it.request.0.operation == Some(Operation::OauthToken) {
        return None;
    }
    Some(it.body.key.map(|is_live| key_found(it, is_live, "the body")))
}

fn in_other_header(it: &Subject<'_>) -> Outcome {
    let mut others = it.request.0.transcript.headers().filter(|(name, _)| *name != "authorization");
    let found = others.find_map(|(name, value)| Some((name, it.key_in(&value)?)));
    Some(found.map(|(name, is_live)| key_found(it, is_live, &format!("the header `{name}`"))))
}

fn sent_to_hello(it: &Subject<'_>) -> Outcome {
    it.only(Operation::Hello)?;
    let sent = it.request.header("authorization");
    Some(sent.map(|_| Sighting::certain(it.request.id(), "GET /v1/hello with an Authorization header")))
}

fn from_browser(it: &Subject<'_>) -> Outcome {
    let request = it.request;
    let carries_key = request.header("authorization").is_some();
    let asked = request.header("access-control-request-headers");
    // Node's own fetch sends `sec-fetch-mode` alone.
    let found = match (request.header("sec-fetch-site"), request.header("origin")) {
        _ if asked.is_some_and(|names| names.to_ascii_lowercase().contains("authorization")) => {
            let detail = format!("{}: a browser asks whether it may send Authorization", request.line());
            Some(Sighting::certain(request.id(), detail))
        }
        (Some(site), _) if carries_key => Some(Sighting::certain(
            request.id(),
            format!("{}: `sec-fetch-site: {site}` beside a key, which only browsers send", request.line()),
        )),
        (None, Some(origin)) if carries_key => {
            Some(Sighting::likely(request.id(), format!("{}: `origin: {origin}` beside a key", request.line())))
        }
        _ => None,
    };
    Some(found)
}

fn live_key(it: &Subject<'_>) -> Outcome {
    it.request.header("authorization")?;
    let is_live = matches!(it.request.0.reason, Reason::Unauthorized { refusal: KeyRefusal::LiveKey, .. });
    let detail = || format!("{}: a live key, refused by the sandbox", it.request.line());
    Some(is_live.then(|| Sighting::certain(it.request.id(), detail())))
}
