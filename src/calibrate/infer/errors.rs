//! What errors show: codes, messages, details, further fields, and what a 422 says about URLs and event types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::super::cassette::Cassette;
use super::evidence::{ApiError, Found, Seen, Unclear, has_credential, hidden};
use crate::contract::error::ErrorKind;
use crate::contract::types::EVENT_TYPES;

/// Two calls for which a message that depends on the request differs.
const DIFFERENT: [(ErrorKind, [&str; 2]); 4] = [
    (ErrorKind::Unauthorized, ["no-key", "other-scheme"]),
    (ErrorKind::ValidationError, ["bad-boolean", "no-events"]),
    (ErrorKind::NotFound, ["unknown-path", "unknown-path-2"]),
    (ErrorKind::MethodNotAllowed, ["wrong-method", "wrong-method-2"]),
];
/// Kinds whose status says nothing else.
const OF_STATUS: [ErrorKind; 8] = [
    ErrorKind::Unauthorized,
    ErrorKind::ValidationError,
    ErrorKind::NotFound,
    ErrorKind::MethodNotAllowed,
    ErrorKind::RateLimitExceeded,
    ErrorKind::PayloadTooLarge,
    ErrorKind::UriTooLong,
    ErrorKind::UnsupportedMediaType,
];

/// The different texts in a field of the errors of a kind, and their calls.
fn texts(errors: &[ApiError<'_>], kind: ErrorKind, field: &str) -> (BTreeSet<String>, Vec<usize>) {
    let found = errors.iter().filter(|error| error.status == kind.status());
    found.filter_map(|error| Some((error.text(field)?.to_owned(), error.number))).unzip()
}

/// A note about the kinds of errors for which there is no value, by reason.
fn about(kinds: &BTreeMap<&str, Vec<&str>>) -> String {
    kinds.iter().map(|(why, kinds)| format!("{why}: {}", kinds.join(", "))).collect::<Vec<_>>().join("; ")
}

pub(super) fn codes(cassette: &Cassette) -> Found {
    let errors = cassette.errors();
    let (mut codes, mut calls, mut without) = (Map::new(), Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for kind in ErrorKind::ALL {
        let (found, numbers) = texts(&errors, kind, "code");
        match (found.len(), found.into_iter().next()) {
            (1, Some(code)) if OF_STATUS.contains(&kind) && !code.is_empty() => {
                codes.insert(kind.name().to_owned(), code.into());
                calls.extend(numbers);
            }
            (0 | 1, _) => without.entry("not met").or_default().push(kind.name()),
            _ => without.entry("more than one code").or_default().push(kind.name()),
        }
    }
    if codes.is_empty() {
        let (_, answer) = cassette.one("no-key")?;
        return Err(Unclear::Contradicts(
            "Errors: one top-level key, error, with code, message and request_id",
            format!("errors such as the {} without a key have another form", answer.status),
        ));
    }
    let wrong = codes.get("unauthorized").is_some_and(|code| code != "unauthorized");
    let seen = Seen::new(codes, calls).noted(about(&without));
    Ok(seen.against("Authentication 4: 401 with error code unauthorized", wrong))
}

pub(super) fn messages(cassette: &Cassette) -> Found {
    let errors = cassette.errors();
    let (mut messages, mut calls, mut without) = (Map::new(), Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for kind in ErrorKind::ALL {
        let pair = DIFFERENT.iter().find(|(known, _)| *known == kind).map(|(_, pair)| pair);
        let has = |name: &&str| errors.iter().any(|error| error.name == *name && error.status == kind.status());
        let (found, numbers) = texts(&errors, kind, "message");
        let (fixed, why) = match found.first() {
            _ if !pair.is_some_and(|pair| pair.iter().all(has)) => (None, "not met twice"),
            Some(text) if found.len() == 1 && has_credential(text) => (None, "has a masked credential in it"),
            Some(text) if found.len() == 1 => (Some(Value::from(text.as_str())), ""),
            _ => (Some(Value::Null), "depends on the request"),
        };
        if !why.is_empty() {
            without.entry(why).or_default().push(kind.name());
        }
        if let Some(fixed) = fixed {
            messages.insert(kind.name().to_owned(), fixed);
            calls.extend(numbers);
        }
    }
    if messages.is_empty() {
        return cassette.not_reached("unknown-path-2");
    }
    Ok(Seen::new(messages, calls).noted(about(&without)))
}

/// Fields that every error has, always with the same value.
pub(super) fn extra(cassette: &Cassette) -> Found {
    const OTHERS: [&str; 4] = ["code", "message", "request_id", "details"];
    let errors = cassette.errors();
    let Some((first, others)) = errors.split_first().filter(|(_, others)| others.len() >= 4) else {
        // Fields that come and go may be in all of a few by chance.
        return cassette.ended("too few errors came");
    };
    let mut fields = first.fields.clone();
    fields.retain(|name, _| {
        !OTHERS.contains(&name.as_str()) && others.iter().all(|error| error.fields.contains_key(name))
    });
    let changing = fields.iter().find(|(name, value)| others.iter().any(|error| error.fields[*name] != **value));
    if let Some((name, _)) = changing {
        return hidden(format!("`{name}` of errors changes from call to call"));
    }
    Ok(Seen::new(fields, errors.iter().map(|error| error.number)))
}

/// The errors of validation.
fn refusals(cassette: &Cassette) -> Vec<ApiError<'_>> {
    let mut errors = cassette.errors();
    errors.retain(|error| error.status == 422 && error.name != "subscribe-text");
    errors
}

pub(super) fn details(cassette: &Cassette) -> Found {
    let errors = refusals(cassette);
    let form = |error: &ApiError<'_>| match error.fields.get("details") {
        None => "off",
        Some(Value::Array(_)) => "list",
        Some(Value::Object(_)) => "map",
        Some(_) => "other",
    };
    let forms: BTreeSet<&str> = errors.iter().map(form).collect();
    match forms.into_iter().collect::<Vec<_>>().as_slice() {
        [] => cassette.not_reached("bad-boolean"),
        ["other"] => hidden("`details` is neither a list nor an object"),
        [form] => Ok(Seen::new(*form, errors.iter().map(|error| error.number))),
        _ => hidden("some refusals have details, some have none"),
    }
}

/// The reasons of a refusal by field, if its details have them.
fn reasons(error: &ApiError<'_>) -> Option<BTreeMap<String, String>> {
    let text = |reason: &Value| reason.to_string();
    match error.fields.get("details")? {
        Value::Array(entries) => {
            let entry = |entry: &Value| Some((entry.get("field")?.as_str()?.to_owned(), text(entry.get("reason")?)));
            Some(entries.iter().filter_map(entry).collect())
        }
        // Further fields of the map may come and go; reasons are lists.
        Value::Object(fields) => {
            let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            let reasons = fields.iter().filter(|(_, value)| is_list(value));
            Some(reasons.map(|(field, value)| (field.clone(), text(value))).collect())
        }
        _ => None,
    }
}

/// What tells whether a refusal has a field among its reasons: that itself if details say so, else the message.
pub(in crate::calibrate) fn reason(cassette: &Cassette, call: &str, field: &str) -> Result<(usize, String), Unclear> {
    cassette.one(call)?;
    let errors = refusals(cassette);
    let Some(error) = errors.iter().find(|error| error.name == call) else {
        return hidden(format!("the call `{call}` was not answered 422"));
    };
    let named = reasons(error).map(|reasons| reasons.contains_key(field).to_string());
    Ok((error.number, named.unwrap_or_else(|| error.text("message").unwrap_or_default().to_owned())))
}

pub(super) fn allow_http(cassette: &Cassette) -> Found {
    const CLAUSE: &str = "Events: the subscription url must be HTTPS";
    let (first, https) = reason(cassette, "no-events", "url")?;
    let (second, http) = reason(cassette, "http-url", "url")?;
    let (third, ftp) = reason(cassette, "ftp-url", "url")?;
    if https == ftp {
        return hidden("a 422 with two reasons does not show whether the URL is one of them");
    }
    Ok(Seen::new(https == http, [first, second, third]).against(CLAUSE, https == http))
}

static LISTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9._-]+(?:, [A-Za-z0-9._-]+)+").expect("a valid expression"));

/// The event types that a refusal lists.
pub(super) fn event_types(cassette: &Cassette) -> Found {
    cassette.one("unknown-event")?;
    let errors = refusals(cassette);
    let Some(error) = errors.iter().find(|error| error.name == "unknown-event") else {
        return hidden("an unknown event type was not answered 422");
    };
    let message = error.text("message").unwrap_or_default();
    // A message that every refusal has lists nothing in particular.
    let is_own = errors.iter().any(|other| other.name != error.name && other.text("message") != Some(message));
    let by_message = || Vec::from_iter(is_own.then(|| message.to_owned()));
    let texts = reasons(error).map_or_else(by_message, |reasons| reasons.into_values().collect());
    let list = |text: &String| {
        let mut lists = LISTS.find_iter(text).map(|list| list.as_str().split(", ").collect::<Vec<_>>());
        let list = lists.find(|list| EVENT_TYPES.iter().all(|known| list.contains(known)))?;
        Some(list.into_iter().filter(|name| !EVENT_TYPES.contains(name)).map(str::to_owned).collect::<Vec<_>>())
    };
    match texts.iter().find_map(list) {
        None => hidden("no message lists the event types"),
        Some(types) => Ok(Seen::new(types, [error.number])),
    }
}
