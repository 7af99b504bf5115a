//! Rules about single requests: API keys (where they are sent, by whom, and which), what is sent (paths, parameters, fields, content
//! types), and signing secrets, of which no text leaves this file.

use std::collections::HashMap;

use url::form_urlencoded;

use super::check::{ALWAYS, Check, Judged, OWN_SECRET, Outcome, Rule, SEND_REQUESTS, SUBSCRIBE, Severity, Sighting};
use super::traffic::{Request, Subject, Traffic};
use crate::contract::keys::KeyRefusal;
use crate::contract::routes::Operation;
use crate::contract::signature::{SigningKey, secret_warnings};
use crate::redact::visible;
use crate::settings::Profile;
use crate::state::journal::Reason;

pub(super) const KEY_CHECKS: [Check; 6] = [
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

pub(super) const CONTENT_CHECKS: [Check; 5] = [
    Check {
        code: "wrong-path",
        title: "A request matches no endpoint",
        why: "It does nothing, here and in production.",
        clause: "Endpoints; Versioning: the version is part of the path",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "correct the path or the method; the answer names the nearest endpoint",
        cwe: None,
        exercise: SEND_REQUESTS,
        rule: Rule::Request(wrong_path),
    },
    Check {
        code: "unknown-parameter",
        title: "A query parameter is unknown",
        why: "It is ignored today, and may be refused tomorrow; most often it is a typing error.",
        clause: "Endpoints: the query parameters of each",
        severity: Severity::Low,
        confidence: ALWAYS,
        remedy: "remove or correct the parameter",
        cwe: None,
        exercise: "send a request with a query, such as include_checks=true",
        rule: Rule::Request(unknown_parameter),
    },
    Check {
        code: "unknown-field",
        title: "A body has an unknown field",
        why: "It is ignored today, and may be refused tomorrow; most often it is a typing error.",
        clause: "POST /v1/events/subscribe: the fields of the body",
        severity: Severity::Low,
        confidence: ALWAYS,
        remedy: "remove or correct the field",
        cwe: None,
        exercise: SUBSCRIBE,
        rule: Rule::Request(unknown_field),
    },
    Check {
        code: "duplicate-json-key",
        title: "An object of the body has a key twice",
        why: "Parsers disagree on which of the two counts.",
        clause: "RFC 8259 section 4: the names within an object should be unique",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "write each key once; build JSON with a library",
        cwe: Some(436),
        exercise: SUBSCRIBE,
        rule: Rule::Request(duplicate_key),
    },
    Check {
        code: "wrong-content-type",
        title: "A JSON body is not declared as JSON",
        why: "A service may refuse or misread it.",
        clause: "POST /v1/events/subscribe: the content type is application/json",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "send `Content-Type: application/json`",
        cwe: None,
        exercise: SUBSCRIBE,
        rule: Rule::Request(wrong_content_type),
    },
];

/// The fields of a subscribe request, by the contract.
const SUBSCRIBE_FIELDS: [&str; 4] = ["url", "events", "secret", "description"];
/// Most names that a text repeats, and most characters of each.
const MOST_NAMES: usize = 3;
const LONGEST_NAME: usize = 40;

/// The first few of these names, quoted.
fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let short = |name: &str| format!("`{}`", visible(&name.chars().take(LONGEST_NAME).collect::<String>()));
    names.take(MOST_NAMES).map(short).collect::<Vec<_>>().join(", ")
}

fn wrong_path(it: &Subject<'_>) -> Outcome {
    let why = match &it.request.0.reason {
        Reason::NotFound(_) => "no endpoint has this path".to_owned(),
        Reason::MethodNotAllowed(allow) => format!("this path takes {allow}"),
        Reason::Announced(path) => format!("{path} is announced and not open yet"),
        _ => return Some(None),
    };
    Some(Some(Sighting::certain(it.request.id(), format!("{}: {why}", visible(&it.request.line())))))
}

fn unknown_parameter(it: &Subject<'_>) -> Outcome {
    let known: &[&str] = match it.request.0.operation? {
        Operation::SystemStatus => &["include_checks"],
        Operation::EventsSubscribe | Operation::Hello => &[],
        _ => return None,
    };
    if it.request.query().is_empty() {
        return None;
    }
    let names: Vec<String> = form_urlencoded::parse(it.request.query().as_bytes())
        .map(|(name, _)| name.into_owned())
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    let detail = || format!("{}: {} in the query", it.request.line(), quoted(names.iter().map(String::as_str)));
    Some((!names.is_empty()).then(|| Sighting::certain(it.request.id(), detail())))
}

fn unknown_field(it: &Subject<'_>) -> Outcome {
    it.only(Operation::EventsSubscribe)?;
    let names = it.body.names.as_ref()?;
    let unknown = || names.iter().map(String::as_str).filter(|name| !SUBSCRIBE_FIELDS.contains(name));
    let detail = || format!("{}: {} in the body", it.request.line(), quoted(unknown()));
    Some(unknown().next().map(|_| Sighting::certain(it.request.id(), detail())))
}

fn duplicate_key(it: &Subject<'_>) -> Outcome {
    it.only(Operation::EventsSubscribe).filter(|()| it.body.is_json)?;
    let detail = |name: &str| format!("{}: {} twice in one object", it.request.line(), quoted([name].into_iter()));
    Some(it.body.doubled.as_deref().map(|name| Sighting::certain(it.request.id(), detail(name))))
}

fn wrong_content_type(it: &Subject<'_>) -> Outcome {
    it.only(Operation::EventsSubscribe)?;
    let sent = it.request.header("content-type");
    let essence = sent.as_deref().map(|value| value.split(';').next().unwrap_or_default().trim());
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Some(None);
    }
    let sent = essence.map_or("no content type".to_owned(), |essence| quoted([essence].into_iter()));
    Some(Some(Sighting::certain(it.request.id(), format!("{}: {sent}", it.request.line()))))
}

pub(super) const SECRET_CHECKS: [Check; 4] = [
    Check {
        code: "secret-weak",
        title: "A signing secret can be guessed",
        why: "Whoever guesses it can forge events.",
        clause: "Events: the body is signed with the subscription secret",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "leave the secret out, so that the service generates one, or use 32 random bytes",
        cwe: Some(521),
        exercise: OWN_SECRET,
        rule: Rule::Request(weak),
    },
    Check {
        code: "secret-reused",
        title: "Two URLs have the same signing secret",
        why: "Whoever runs one receiver can forge events for the other.",
        clause: "Events: the body is signed with the subscription secret",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "give each subscription a secret of its own",
        cwe: Some(323),
        exercise: OWN_SECRET,
        rule: Rule::All(reused),
    },
    Check {
        code: "secret-is-a-key",
        title: "A signing secret is an API key",
        why: "A receiver that knows its secret then knows the key, and the other way round.",
        clause: "Authentication 5; Events: the body is signed with the subscription secret",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "use a secret that is nothing else, and replace the key",
        cwe: Some(323),
        exercise: OWN_SECRET,
        rule: Rule::Request(is_key),
    },
    Check {
        code: "secret-ambiguous",
        title: "Libraries read a signing secret in different ways",
        why: "A receiver in another language would refuse every delivery.",
        clause: "Events: signature header name and signing algorithm are not shown",
        severity: Severity::Low,
        confidence: "likely, as it depends on the receiver's library",
        remedy: "leave the secret out, so that the service generates one, or use `whsec_` and 24 to 64 random bytes in base64",
        cwe: None,
        exercise: OWN_SECRET,
        rule: Rule::Request(ambiguous),
    },
];

/// Keys of fewer bytes are guessable.
const SHORT: usize = 16;
/// Words that people put where a secret belongs.
const WORDS: [&str; 8] = ["secret", "password", "changeme", "change-me", "test", "example", "dummy", "placeholder"];

/// The secret of a subscribe request.
fn secret_of<'s>(it: &'s Subject<'_>) -> Option<&'s str> {
    it.only(Operation::EventsSubscribe)?;
    it.body.secret.as_deref().filter(|secret| !secret.is_empty())
}

/// Why a secret can be guessed.
fn weakness(secret: &str, profile: &Profile) -> Option<String> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    let is_word = |word: &str| {
        let rest = text.to_ascii_lowercase().replace(word, "");
        rest.len() < text.len() && rest.bytes().all(|byte| !byte.is_ascii_alphabetic())
    };
    if WORDS.into_iter().any(is_word) {
        return Some("a secret made of a common word".to_owned());
    }
    let mut kinds: Vec<u8> = text.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < 5 {
        return Some(format!("a secret of {} different characters", kinds.len()));
    }
    let scheme = profile.schemes().into_iter().next()?;
    let key = SigningKey::read(secret, &scheme, profile.webhooks.secret_key).ok()?;
    let length = key.as_bytes().len();
    (length < SHORT).then(|| format!("a key of {length} bytes, fewer than {SHORT}"))
}

fn weak(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    Some(weakness(secret, it.profile).map(|why| Sighting::certain(it.request.id(), why)))
}

fn reused(traffic: &Traffic<'_>) -> Judged {
    let mut first_url: HashMap<String, String> = HashMap::new();
    let mut judged = Judged::default();
    let subscribes = |request: &Request<'_>| request.0.operation == Some(Operation::EventsSubscribe);
    for request in traffic.requests().filter(subscribes) {
        let it = Subject::read(request, traffic.profile);
        let Some(secret) = secret_of(&it) else { continue };
        let url = it.body.url.as_deref().unwrap_or_default();
        let first = first_url.entry(secret.to_owned()).or_insert_with(|| url.to_owned());
        let detail = || format!("{url} has the secret of {first}");
        judged.count(Some((first != url).then(|| Sighting::certain(request.id(), detail()))));
    }
    judged
}

fn is_key(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    let sent = it.request.header("authorization");
    let own = sent.as_deref().and_then(|value| value.split_once(' ')).is_some_and(|(_, key)| key.trim() == secret);
    let found = own || it.key_in(secret).is_some();
    let whose = if own { "the key of the same request" } else { "an API key" };
    Some(found.then(|| Sighting::certain(it.request.id(), format!("the signing secret is {whose}"))))
}

fn ambiguous(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    let reading = it.profile.webhooks.secret_key;
    let warnings = it.profile.schemes().into_iter().flat_map(|scheme| secret_warnings(secret, &scheme, reading));
    let mut doubtful = warnings.filter(|warning| !warning.contains("makes a key of"));
    Some(doubtful.next().map(|warning| Sighting::likely(it.request.id(), warning)))
}
