//! Rules about what is sent: paths, parameters, fields, content types.

use url::form_urlencoded;

use super::check::{ALWAYS, Check, Outcome, Rule, SEND_REQUESTS, SUBSCRIBE, Severity, Sighting};
use super::traffic::Subject;
use crate::contract::routes::Operation;
use crate::redact::visible;
use crate::state::journal::Reason;

pub(super) const CHECKS: [Check; 5] = [
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
