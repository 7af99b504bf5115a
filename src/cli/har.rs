//! A run document as an HTTP Archive (HAR 1.2), which browsers, proxies and load tools read.
//!
//! Requests are entries, and so is each attempt at a delivery, oldest first. Everything is taken from the document, which is masked; what
//! only the emulator knows is in fields that begin with `_`, as the format asks.

use hyper::StatusCode;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::control::api::{
    Attempt, AttemptResult, Bytes, Connection, DOCUMENT_BOUND, DeliveryWhole, Headers, Millis, Request, RequestWhole,
    Run, RunRequest,
};
use crate::redact::Redactor;
use crate::util::wording::counted;

/// An archive, and how much is in it.
pub(super) struct Archive {
    pub(super) json: String,
    pub(super) requests: usize,
    pub(super) attempts: usize,
}

/// Makes the archive of the chosen requests and attempts. Requests are offered newest first.
pub(super) fn archive(
    run: &Run,
    mut takes_request: impl FnMut(&Request) -> bool,
    takes_attempt: impl Fn(&DeliveryWhole, &Attempt) -> bool,
) -> Archive {
    let chosen = run.requests.iter().filter(|record| takes_request(&record.request.row));
    let mut entries: Vec<Entry<'_>> = chosen.map(|record| request_entry(run, record)).collect();
    entries.reverse();
    let requests = entries.len();
    for delivery in run.deliveries.iter().rev() {
        let attempts = delivery.attempts.0.iter().filter(|attempt| takes_attempt(delivery, attempt));
        entries.extend(attempts.map(|attempt| attempt_entry(delivery, attempt)));
    }
    let attempts = entries.len() - requests;
    // Times have one form, which sorts as text. At the same time, requests come before what followed from them.
    entries.sort_by_key(|entry| entry.started_date_time);
    let omitted = run.omitted.requests + run.omitted.deliveries;
    let comment = (omitted > 0).then(|| format!("without {}, as {DOCUMENT_BOUND}", counted(omitted, "older record")));
    let creator = Creator { name: "wrs-emulator", version: &run.emulator.version };
    let har = Har { log: Log { version: "1.2", creator, entries, comment } };
    let json = serde_json::to_string(&har).expect("texts and numbers always serialise") + "\n";
    Archive { json, requests, attempts }
}

#[derive(Serialize)]
struct Har<'a> {
    log: Log<'a>,
}

#[derive(Serialize)]
struct Log<'a> {
    version: &'static str,
    creator: Creator<'a>,
    entries: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

#[derive(Serialize)]
struct Creator<'a> {
    name: &'static str,
    version: &'a str,
}

/// A request or an attempt with its answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    started_date_time: &'a str,
    time: Millis,
    request: Sent<'a>,
    response: Answered<'a>,
    cache: Cache,
    timings: Timings,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// The fields that begin with `_`, named as the control API names them.
    #[serde(flatten)]
    own: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    method: &'a str,
    url: String,
    query_string: Vec<Pair<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_data: Option<Content<'a>>,
    #[serde(flatten)]
    message: Message<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    status: u16,
    status_text: &'static str,
    content: Content<'a>,
    #[serde(rename = "redirectURL")]
    redirect_url: &'a str,
    #[serde(flatten)]
    message: Message<'a>,
    /// The reason for a missing answer. Browsers use this field too.
    #[serde(rename = "_error", skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The fields that requests and answers have in common.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    http_version: &'static str,
    cookies: [(); 0],
    headers: Vec<Pair<&'a str>>,
    headers_size: i8,
    body_size: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct Pair<T> {
    name: T,
    value: T,
}

/// A body. The size of a masked body is that of the text shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content<'a> {
    /// Absent in a request, which has its own field for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    mime_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
}

#[derive(Serialize)]
struct Cache {}

/// Only how long the answer took is known.
#[derive(Serialize)]
struct Timings {
    send: f64,
    wait: Millis,
    receive: f64,
}

fn request_entry<'a>(run: &'a Run, record: &'a RunRequest) -> Entry<'a> {
    let RunRequest { request, explanation } = record;
    let RequestWhole { row, headers, body, answer, connection, .. } = request;
    let rule = explanation.rules.iter().flatten().find(|rule| rule.applied);
    Entry {
        started_date_time: &row.at.0,
        time: row.latency_ms,
        request: sent(&row.method, &url(run, row, headers), row.query.as_deref(), headers, body),
        response: answered(row.status, &answer.headers, Some(&answer.body), row.broken.clone()),
        cache: Cache {},
        timings: Timings { send: 0.0, wait: row.latency_ms, receive: 0.0 },
        connection: connection.as_ref().map(|Connection { number, .. }| number.to_string()),
        own: own([
            ("_id", row.id.0.clone().into()),
            ("_key", row.key.clone().into()),
            ("_operation", row.operation.clone().into()),
            ("_reason", row.reason.clone().into()),
            ("_summary", explanation.summary.clone().into()),
            ("_scenario", row.scenario.clone().into()),
            ("_rule", rule.map(|rule| rule.rule.clone()).into()),
            ("_line", rule.map(|rule| rule.line).into()),
        ]),
    }
}

fn attempt_entry<'a>(delivery: &DeliveryWhole, attempt: &'a Attempt) -> Entry<'a> {
    let (status, body, error) = match &attempt.outcome {
        AttemptResult::Answered { status, body, .. } => (*status, Some(body), None),
        AttemptResult::Failed { failure, detail, .. } => (0, None, Some(format!("{failure}: {detail}"))),
    };
    let url = attempt.url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map(|(_, query)| query);
    Entry {
        started_date_time: &attempt.at.0,
        time: attempt.latency_ms,
        request: sent("POST", url, query, &attempt.request.headers, &attempt.request.body),
        response: answered(status, &[], body, error),
        cache: Cache {},
        timings: Timings { send: 0.0, wait: attempt.latency_ms, receive: 0.0 },
        connection: None,
        own: own([
            ("_id", delivery.id.0.clone().into()),
            ("_event", delivery.event.0.clone().into()),
            ("_type", delivery.event_type.clone().into()),
            ("_subscription", delivery.subscription.0.clone().into()),
            ("_attempt", attempt.number.into()),
            ("_dialled", attempt.dialled.clone().into()),
            ("_damage", attempt.damage.clone().into()),
        ]),
    }
}

/// The fields that have a value.
fn own<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn sent<'a>(method: &'a str, url: &str, query: Option<&str>, headers: &'a Headers, body: &'a Bytes) -> Sent<'a> {
    let mut body = content(headers, Some(body));
    let size = body.size.take().unwrap_or_default();
    let pairs = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
    Sent {
        method,
        url: as_uri(url),
        query_string: pairs.map(parameter).collect(),
        post_data: (size > 0).then_some(body),
        message: message(headers, size),
    }
}

fn answered<'a>(
    status: u16,
    headers: &'a [(String, String)],
    body: Option<&'a Bytes>,
    error: Option<String>,
) -> Answered<'a> {
    let content = content(headers, body);
    Answered {
        status,
        status_text: StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default(),
        redirect_url: value_of(headers, "location").unwrap_or_default(),
        message: message(headers, content.size.unwrap_or_default()),
        content,
        error,
    }
}

fn message(headers: &[(String, String)], body_size: usize) -> Message<'_> {
    let headers = headers.iter().map(|(name, value)| Pair { name: name.as_str(), value: value.as_str() }).collect();
    // A size of -1 is one that is not known.
    Message { http_version: "HTTP/1.1", cookies: [], headers, headers_size: -1, body_size }
}

/// The URL that the client used, with the host that it addressed, or else the one where the emulator listens.
fn url(run: &Run, row: &Request, headers: &Headers) -> String {
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

/// A parameter of a query, decoded. Decoding must not bring back what is masked.
fn parameter(pair: &str) -> Pair<String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let text = percent_decode_str(&text).decode_utf8_lossy();
        Redactor::default().text(&text).into_owned()
    };
    Pair { name: decoded(name), value: decoded(value) }
}

fn value_of<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A body, with its type from the headers.
fn content<'a>(headers: &'a [(String, String)], body: Option<&'a Bytes>) -> Content<'a> {
    // The name that browsers use for a type that is not known.
    let mime_type = value_of(headers, "content-type").unwrap_or("x-unknown");
    match body {
        Some(Bytes::Binary { base64 }) => {
            let size = Some(base64.trim_end_matches('=').len() * 3 / 4);
            Content { size, mime_type, text: base64, encoding: Some("base64") }
        }
        Some(Bytes::Text(text)) => Content { size: Some(text.len()), mime_type, text, encoding: None },
        None => Content { size: Some(0), mime_type, text: "", encoding: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_a_parameter_brings_no_credential_back() {
        for (pair, name, value) in [
            ("a=b+c%21", "a", "b c!"),
            ("a", "a", ""),
            ("k=sk%5Flive%5Fabcdefgh", "k", "sk_live_…efgh"),
            ("k=sk%255Flive%255Fabcdefgh", "k", "sk_live_…efgh"),
        ] {
            assert_eq!(parameter(pair), Pair { name: name.to_owned(), value: value.to_owned() }, "{pair}");
        }
    }
}
