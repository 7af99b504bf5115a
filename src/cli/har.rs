//! A run document as an HTTP Archive (HAR 1.2), which browsers, proxies and load tools read.
//!
//! Requests are entries, and so is each attempt at a delivery, oldest first. Everything is taken from the document, which is masked; what
//! only the emulator knows is in fields that begin with `_`, as the format asks.

use std::path::Path;

use hyper::StatusCode;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

use super::document::{ExplainedRequest, RunDocument, RunRecords};
use crate::control::api::{
    Attempt, AttemptResult, Bytes, DeliveryWhole, Headers, Millis, Request, RequestWhole, document_bound,
};
use crate::redact::Redactor;
use crate::util::wording::counted;

const UNKNOWN_SIZE: i8 = -1;

/// The archive of a run's requests and attempts.
pub(super) fn archive(run: &RunRecords) -> String {
    let mut entries: Vec<(&str, Value)> = run.requests.iter().rev().map(|record| request_entry(run, record)).collect();
    for delivery in run.deliveries.iter().rev() {
        entries.extend(delivery.attempts.0.iter().map(|attempt| attempt_entry(delivery, attempt)));
    }
    // Times have one form, which sorts as text. At the same time, requests come before what followed from them.
    entries.sort_by_key(|(started, _)| *started);
    let omitted = run.omitted.requests + run.omitted.deliveries;
    let comment =
        (omitted > 0).then(|| format!("without {}, because {}", counted(omitted, "older record"), document_bound()));
    let mut log = present(json!({
        "version": "1.2",
        "creator": { "name": "wrs-emulator", "version": run.emulator.version },
        "entries": [],
        "comment": comment,
    }));
    log["entries"] = entries.into_iter().map(|(_, entry)| entry).collect();
    format!("{{\"log\":{log}}}\n")
}

/// For the fuzz targets, which need something public: reads a document as if from a file, and makes an archive of it. The error is
/// what a command prints.
#[doc(hidden)]
pub fn try_document(bytes: Vec<u8>) -> Result<(), String> {
    let run = RunDocument::parse(Path::new("fuzz"), bytes).map_err(|failure| failure.message)?;
    archive(&run.records);
    Ok(())
}

fn request_entry<'a>(run: &RunRecords, record: &'a ExplainedRequest) -> (&'a str, Value) {
    let ExplainedRequest { request, explanation } = record;
    let RequestWhole { row, headers, body, answer, connection, .. } = request;
    let rule = explanation.rules.iter().flatten().find(|rule| rule.applied);
    let entry = json!({
        "startedDateTime": row.at,
        "time": row.latency_ms,
        "request": sent(&row.method, &url(run, row, headers), row.query.as_deref(), headers, body),
        "response": answered(row.status, &answer.headers, value_of(&answer.headers, "location"), Some(&answer.body), row.broken.clone()),
        "cache": {},
        "timings": timings(row.latency_ms),
        "connection": connection.as_ref().map(|connection| connection.number.to_string()),
        "_id": row.id,
        "_key": row.key,
        "_operation": row.operation,
        "_reason": row.reason,
        "_summary": explanation.summary,
        "_scenario": row.scenario,
        "_rule": rule.map(|rule| &rule.rule),
        "_line": rule.map(|rule| rule.line),
    });
    (&row.at.0, present(entry))
}

fn attempt_entry<'a>(delivery: &DeliveryWhole, attempt: &'a Attempt) -> (&'a str, Value) {
    let (status, body, note, error) = match &attempt.outcome {
        AttemptResult::Answered { status, body, note, .. } => (*status, Some(body), note.as_deref(), None),
        AttemptResult::Failed { failure, detail, .. } => (0, None, None, Some(format!("{failure}: {detail}"))),
    };
    // Of the answer's headers only what the note says is kept.
    let location = note.and_then(|note| note.strip_prefix("Location: ")?.split("; Retry-After: ").next());
    let url = attempt.url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map(|(_, query)| query);
    let entry = json!({
        "startedDateTime": attempt.at,
        "time": attempt.latency_ms,
        "request": sent("POST", url, query, &attempt.request.headers, &attempt.request.body),
        "response": answered(status, &[], location, body, error),
        "cache": {},
        "timings": timings(attempt.latency_ms),
        "_id": delivery.id,
        "_event": delivery.event,
        "_type": delivery.event_type,
        "_subscription": delivery.subscription,
        "_attempt": attempt.number,
        "_dialled": attempt.dialled,
        "_damage": attempt.damage,
    });
    (&attempt.at.0, present(entry))
}

/// The fields of an object that have a value.
fn present(mut object: Value) -> Value {
    object.as_object_mut().into_iter().for_each(|fields| fields.retain(|_, value| !value.is_null()));
    object
}

/// Only how long the answer took is known.
fn timings(latency: Millis) -> Value {
    json!({ "send": 0.0, "wait": latency, "receive": 0.0 })
}

fn sent(method: &str, url: &str, query: Option<&str>, headers: &[(String, String)], body: &Bytes) -> Value {
    let (content, size) = content(headers, Some(body), false);
    let parameters = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
    present(json!({
        "method": method,
        "url": as_uri(url),
        "queryString": parameters.map(parameter).collect::<Vec<_>>(),
        "postData": (size > 0).then_some(content),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": pairs(headers),
        "headersSize": UNKNOWN_SIZE,
        "bodySize": size,
    }))
}

/// A response; if there was none, `error` is the reason, in a field that browsers use too.
fn answered(
    status: u16,
    headers: &[(String, String)],
    location: Option<&str>,
    body: Option<&Bytes>,
    error: Option<String>,
) -> Value {
    let (content, size) = content(headers, body, true);
    present(json!({
        "status": status,
        "statusText": StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default(),
        "content": content,
        "redirectURL": location.unwrap_or_default(),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": pairs(headers),
        "headersSize": UNKNOWN_SIZE,
        "bodySize": size,
        "_error": error,
    }))
}

fn pairs(headers: &[(String, String)]) -> Vec<Value> {
    headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// The URL that the client used, with the host that it addressed, or else the one where the emulator listens.
fn url(run: &RunRecords, row: &Request, headers: &Headers) -> String {
    let target = row.target();
    if target.starts_with("http://") || target.starts_with("https://") {
        return target;
    }
    let (scheme, own) = run.emulator.base_url.split_once("://").unwrap_or(("http", &run.emulator.base_url));
    let is_authority = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    };
    let host = value_of(headers, "host").filter(is_authority).unwrap_or(own);
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}{slash}{target}")
}

/// A URL as it was sent, as a replay of the archive compares it. Characters that no URL contains, such as the `…` of a masked part,
/// are encoded.
fn as_uri(url: &str) -> String {
    const HIDDEN: &AsciiSet = &CONTROLS.add(b' ');
    utf8_percent_encode(url, HIDDEN).to_string()
}

/// A parameter of a query, decoded. Decoding must not reveal a masked value.
fn parameter(pair: &str) -> Value {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let text = percent_decode_str(&text).decode_utf8_lossy();
        Redactor::default().text(&text).into_owned()
    };
    json!({ "name": decoded(name), "value": decoded(value) })
}

fn value_of<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A body with its type from the headers, and its size. The size of a masked body is that of the text shown.
fn content(headers: &[(String, String)], body: Option<&Bytes>, shows_size: bool) -> (Value, usize) {
    let (size, text, encoding) = match body {
        Some(Bytes::Binary { base64 }) => (base64.trim_end_matches('=').len() * 3 / 4, base64.as_str(), Some("base64")),
        Some(Bytes::Text(text)) => (text.len(), text.as_str(), None),
        None => (0, "", None),
    };
    let content = json!({
        "size": shows_size.then_some(size),
        // The name that browsers use for a type that is not known.
        "mimeType": value_of(headers, "content-type").unwrap_or("x-unknown"),
        "text": Some(text).filter(|text| !text.is_empty()),
        "encoding": encoding,
    });
    (present(content), size)
}
