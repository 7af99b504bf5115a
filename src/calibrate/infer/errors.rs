//! What errors show: codes, messages, details, further fields, and what a 422 says about URLs and event types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::evidence::{ApiError, Evidence, Found, Seen, Unclear, extra_fields, has_credential, hidden};
use crate::contract::error::ErrorKind;
use crate::contract::types::EVENT_TYPES;

/// The kinds of errors that harmless calls meet, and two calls for which a message that depends on the request differs.
const KINDS: [(ErrorKind, Option<[&str; 2]>); 7] = [
    (ErrorKind::Unauthorized, Some(["no-key", "other-scheme"])),
    (ErrorKind::ValidationError, Some(["bad-boolean", "no-events"])),
    (ErrorKind::NotFound, Some(["unknown-path", "unknown-path-2"])),
    (ErrorKind::MethodNotAllowed, Some(["wrong-method", "wrong-method-2"])),
    (ErrorKind::RateLimitExceeded, None),
    (ErrorKind::UriTooLong, None),
    (ErrorKind::UnsupportedMediaType, None),
];

/// Whether a name or a text says which kinds it stands for.
fn of_kind(errors: &[ApiError<'_>], kind: ErrorKind, field: &str) -> (BTreeSet<String>, Vec<usize>) {
    let found = errors.iter().filter(|error| error.status == kind.status());
    let texts = found.filter_map(|error| Some((error.text(field)?.to_owned(), error.number)));
    texts.unzip()
}

/// A note about the kinds of errors for which there is no value.
fn about(what: &[(&str, Vec<&str>)]) -> String {
    let parts = what.iter().filter(|(_, kinds)| !kinds.is_empty());
    parts.map(|(what, kinds)| format!("{what}: {}", kinds.join(", "))).collect::<Vec<_>>().join("; ")
}

pub(super) fn codes(evidence: &Evidence<'_>) -> Found {
    let errors = evidence.errors();
    let (mut codes, mut calls, mut unseen, mut several) = (Map::new(), Vec::new(), Vec::new(), Vec::new());
    for kind in ErrorKind::ALL {
        let (found, numbers) = of_kind(&errors, kind, "code");
        let is_known = KINDS.iter().any(|(known, _)| *known == kind);
        match (found.len(), found.into_iter().next()) {
            (1, Some(code)) if is_known && !code.is_empty() => {
                codes.insert(kind.name().to_owned(), code.into());
                calls.extend(numbers);
            }
            (0 | 1, _) => unseen.push(kind.name()),
            _ => several.push(kind.name()),
        }
    }
    if codes.is_empty() {
        let (_, answer) = evidence.one("no-key")?;
        return Err(Unclear::Contradicts(
            "Errors: one top-level key, error, with code, message and request_id",
            format!("errors such as the {} without a key have another form", answer.status),
        ));
    }
    let wrong = codes.get("unauthorized").is_some_and(|code| code != "unauthorized");
    let note = about(&[("not met", unseen), ("more than one code", several)]);
    Ok(Seen::new(codes, calls).noted(note).against("Authentication 4: 401 with error code unauthorized", wrong))
}

pub(super) fn messages(evidence: &Evidence<'_>) -> Found {
    let errors = evidence.errors();
    let (mut messages, mut calls, mut unseen, mut depends) = (Map::new(), Vec::new(), Vec::new(), Vec::new());
    let mut masked = Vec::new();
    for kind in ErrorKind::ALL {
        let pair = KINDS.iter().find(|(known, _)| *known == kind).and_then(|(_, pair)| *pair);
        let has = |name: &&str| errors.iter().any(|error| error.name == *name && error.status == kind.status());
        let (found, numbers) = of_kind(&errors, kind, "message");
        if !pair.is_some_and(|pair| pair.iter().all(has)) {
            unseen.push(kind.name());
            continue;
        }
        calls.extend(numbers);
        let fixed = found.first().filter(|_| found.len() == 1);
        if fixed.is_some_and(|text| has_credential(text)) {
            masked.push(kind.name());
            continue;
        }
        if fixed.is_none() {
            depends.push(kind.name());
        }
        messages.insert(kind.name().to_owned(), fixed.map_or(Value::Null, |text| text.as_str().into()));
    }
    if messages.is_empty() {
        return evidence.not_reached("unknown-path-2");
    }
    let notes =
        [("depends on the request", depends), ("not met twice", unseen), ("has a masked credential in it", masked)];
    Ok(Seen::new(messages, calls).noted(about(&notes)))
}

pub(super) fn extra(evidence: &Evidence<'_>) -> Found {
    let errors = evidence.errors();
    let numbers: Vec<usize> = errors.iter().map(|error| error.number).collect();
    // With fewer, fields that come and go may be in all of them by chance.
    if numbers.len() < 5 {
        return Err(Unclear::NotReached(evidence.cassette.stop().unwrap_or_else(|| "too few errors came".to_owned())));
    }
    Ok(Seen::new(extra_fields(evidence), numbers))
}

/// The errors of validation.
fn refusals<'c>(evidence: &Evidence<'c>) -> Vec<ApiError<'c>> {
    let mut errors = evidence.errors();
    errors.retain(|error| error.status == 422 && error.name != "subscribe-text");
    errors
}

pub(super) fn details(evidence: &Evidence<'_>) -> Found {
    let errors = refusals(evidence);
    let numbers = errors.iter().map(|error| error.number);
    let form = |error: &ApiError<'_>| match error.fields.get("details") {
        None => "off",
        Some(Value::Array(_)) => "list",
        Some(Value::Object(_)) => "map",
        Some(_) => "other",
    };
    let forms: BTreeSet<&str> = errors.iter().map(form).collect();
    match forms.into_iter().collect::<Vec<_>>().as_slice() {
        [] => evidence.not_reached("bad-boolean"),
        ["other"] => hidden("`details` is neither a list nor an object"),
        [form] => Ok(Seen::new(*form, numbers)),
        _ => hidden("some refusals have details, some have none"),
    }
}

pub(super) fn malformed_status(evidence: &Evidence<'_>) -> Found {
    let (exchange, answer) = evidence.one("malformed")?;
    match answer.status {
        status @ (400 | 422) => Ok(Seen::new(status, [exchange.number])),
        status => Err(Unclear::Contradicts(
            "POST /v1/events/subscribe: 200, 401 and 422",
            format!("a body that is not JSON was answered {status}"),
        )),
    }
}

/// The reasons of a refusal: message and details as one text, and by field where details have them.
fn reasons(error: &ApiError<'_>) -> (String, Option<BTreeMap<String, String>>) {
    let by_field = match error.fields.get("details") {
        Some(Value::Array(entries)) => {
            let entry =
                |entry: &Value| Some((entry.get("field")?.as_str()?.to_owned(), entry.get("reason")?.to_string()));
            Some(entries.iter().filter_map(entry).collect())
        }
        // Further fields of the map may come and go; reasons are lists.
        Some(Value::Object(fields)) => {
            let reasons = fields
                .iter()
                .filter(|(_, value)| value.as_array().is_some_and(|list| list.iter().all(Value::is_string)));
            Some(reasons.map(|(field, value)| (field.clone(), value.to_string())).collect())
        }
        _ => None,
    };
    (error.text("message").unwrap_or_default().to_owned(), by_field)
}

pub(super) fn allow_http(evidence: &Evidence<'_>) -> Found {
    const CLAUSE: &str = "Events: the subscription url must be HTTPS";
    let errors = refusals(evidence);
    let mut found = Vec::new();
    for name in ["no-events", "http-url", "ftp-url"] {
        evidence.one(name)?;
        let Some(error) = errors.iter().find(|error| error.name == name) else {
            return hidden(format!("the call `{name}` was not answered 422"));
        };
        let (message, by_field) = reasons(error);
        let names_url = by_field.map(|fields| fields.contains_key("url"));
        found.push((error.number, names_url.map_or(message, |names| names.to_string())));
    }
    let [(_, https), (_, http), (_, ftp)] = found.as_slice() else { unreachable!("three calls") };
    if https == ftp {
        return hidden("a 422 with two reasons does not show whether the URL is one of them");
    }
    let allows = https == http;
    Ok(Seen::new(allows, found.iter().map(|(number, _)| *number)).against(CLAUSE, allows))
}

static LISTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9._-]+(?:, [A-Za-z0-9._-]+)+").expect("a valid expression"));

/// The event types that a refusal lists.
pub(super) fn event_types(evidence: &Evidence<'_>) -> Found {
    evidence.one("unknown-event")?;
    let errors = refusals(evidence);
    let Some(error) = errors.iter().find(|error| error.name == "unknown-event") else {
        return hidden("an unknown event type was not answered 422");
    };
    let (message, by_field) = reasons(error);
    let texts: Vec<String> = match by_field {
        Some(fields) => fields.into_values().collect(),
        // A message that every refusal has lists nothing in particular.
        None if errors.iter().any(|other| other.name != error.name && other.text("message") != Some(&message)) => {
            vec![message]
        }
        None => Vec::new(),
    };
    let list = |text: &String| {
        let lists = LISTS.find_iter(text).map(|list| list.as_str().split(", ").map(str::to_owned).collect::<Vec<_>>());
        lists.into_iter().find(|list| EVENT_TYPES.iter().all(|known| list.iter().any(|entry| entry == known)))
    };
    match texts.iter().find_map(list) {
        None => hidden("no message lists the event types"),
        Some(mut types) => {
            types.retain(|name| !EVENT_TYPES.contains(&name.as_str()));
            Ok(Seen::new(types, [error.number]))
        }
    }
}
