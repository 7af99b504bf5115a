//! A run document as an HTTP Archive (HAR 1.2), which browsers, proxies and load tools read.
//!
//! Requests are entries, and so is each attempt at a delivery, oldest first. Everything is taken from the document, which is masked; what
//! only the emulator knows is in fields that begin with `_`, as the format asks.

use hyper::StatusCode;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::control::api::{
    Attempt, Bytes, Connection, DOCUMENT_BOUND, DeliveryWhole, Explanation, Headers, Outcome, Request, RequestWhole,
    Run, RunExplanation,
};
use crate::redact::Redactor;
use crate::wording::counted;

/// An archive, and how much is in it.
pub(super) struct Archive {
    pub(super) json: String,
    pub(super) requests: usize,
    pub(super) attempts: usize,
}

/// Makes the archive of the chosen requests and attempts. Fails if a record of the document is not as this version writes it.
pub(super) fn archive(
    run: &Run,
    mut takes_request: impl FnMut(&Request) -> bool,
    takes_attempt: impl Fn(&DeliveryWhole, &Attempt) -> bool,
) -> serde_json::Result<Archive> {
    let mut entries = Vec::new();
    for record in &run.requests {
        let request: RequestWhole = record.read_as()?;
        if takes_request(&request.row) {
            let RunExplanation { explanation } = record.read_as()?;
            entries.push(request_entry(run, request, &explanation));
        }
    }
    let requests = entries.len();
    entries.reverse();
    for record in &run.deliveries {
        let mut delivery: DeliveryWhole = record.read_as()?;
        // As in the document: newest first.
        for attempt in std::mem::take(&mut delivery.attempts.0).into_iter().rev() {
            if takes_attempt(&delivery, &attempt) {
                entries.push(attempt_entry(&delivery, attempt));
            }
        }
    }
    let attempts = entries.len() - requests;
    entries[requests..].reverse();
    // Times have one form, which sorts as text. At the same time, requests come before what followed from them.
    entries.sort_by(|a, b| a.started_date_time.cmp(&b.started_date_time));
    let omitted = run.omitted.requests + run.omitted.deliveries;
    let comment = (omitted > 0).then(|| format!("without {}, as {DOCUMENT_BOUND}", counted(omitted, "older record")));
    let creator = Creator { name: "wrs-emulator", version: &run.emulator.version };
    let json = serde_json::to_string(&Har { log: Log { version: "1.2", creator, entries, comment } })? + "\n";
    Ok(Archive { json, requests, attempts })
}

#[derive(Serialize)]
struct Har<'a> {
    log: Log<'a>,
}

#[derive(Serialize)]
struct Log<'a> {
    version: &'static str,
    creator: Creator<'a>,
    entries: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

#[derive(Serialize)]
struct Creator<'a> {
    name: &'static str,
    version: &'a str,
}

/// One exchange.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    time: f64,
    request: Sent,
    response: Answered,
    cache: Cache,
    timings: Timings,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// The fields that begin with `_`, named as the control API names them.
    #[serde(flatten)]
    own: Map<String, Value>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    method: String,
    url: String,
    http_version: &'static str,
    cookies: [Pair; 0],
    headers: Vec<Pair>,
    query_string: Vec<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post_data: Option<Content>,
    headers_size: i8,
    body_size: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    status: u16,
    status_text: &'static str,
    http_version: &'static str,
    cookies: [Pair; 0],
    headers: Vec<Pair>,
    content: Content,
    #[serde(rename = "redirectURL")]
    redirect_url: String,
    headers_size: i8,
    body_size: usize,
    /// The reason for a missing answer. Browsers use this field too.
    #[serde(rename = "_error", skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Pair {
    name: String,
    value: String,
}

/// A body. The size of a masked body is that of the text shown.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    /// Absent in a request, which has its own field for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    mime_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
}

#[derive(Serialize)]
struct Cache {}

/// Only how long the answer took is known.
#[derive(Default, Serialize)]
struct Timings {
    send: f64,
    wait: f64,
    receive: f64,
}

const HTTP: &str = "HTTP/1.1";
/// A size that is not known.
const UNKNOWN: i8 = -1;

fn request_entry(run: &Run, request: RequestWhole, explanation: &Explanation) -> Entry {
    let RequestWhole { row, headers, body, answer, connection, .. } = request;
    let rule = explanation.rules.iter().flatten().find(|rule| rule.applied);
    Entry {
        started_date_time: row.at.0.clone(),
        time: row.latency_ms.0,
        timings: Timings { wait: row.latency_ms.0, ..Timings::default() },
        request: sent(&row.method, &url(run, &row, &headers), row.query.as_deref(), headers, &body),
        response: answered(row.status, answer.headers, &answer.body, row.broken),
        cache: Cache {},
        connection: connection.map(|Connection { number, .. }| number.to_string()),
        own: own([
            ("_id", row.id.0.into()),
            ("_key", row.key.into()),
            ("_operation", row.operation.into()),
            ("_reason", row.reason.into()),
            ("_summary", explanation.summary.clone().into()),
            ("_scenario", row.scenario.into()),
            ("_rule", rule.map(|rule| rule.rule.clone()).into()),
            ("_line", rule.map(|rule| rule.line).into()),
        ]),
    }
}

fn attempt_entry(delivery: &DeliveryWhole, attempt: Attempt) -> Entry {
    let (status, body, error) = match attempt.outcome {
        Outcome::Answered { status, body, .. } => (status, body, None),
        Outcome::Failed { failure, detail, .. } => {
            (0, Bytes::Text(String::new()), Some(format!("{failure}: {detail}")))
        }
    };
    let url = attempt.url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map(|(_, query)| query);
    Entry {
        started_date_time: attempt.at.0,
        time: attempt.latency_ms.0,
        timings: Timings { wait: attempt.latency_ms.0, ..Timings::default() },
        request: sent("POST", url, query, attempt.request.headers, &attempt.request.body),
        response: answered(status, Vec::new(), &body, error),
        cache: Cache {},
        connection: None,
        own: own([
            ("_id", delivery.id.0.clone().into()),
            ("_event", delivery.event.0.clone().into()),
            ("_type", delivery.event_type.clone().into()),
            ("_subscription", delivery.subscription.0.clone().into()),
            ("_attempt", attempt.number.into()),
            ("_dialled", attempt.dialled.into()),
            ("_damage", attempt.damage.into()),
        ]),
    }
}

/// The fields that have a value.
fn own<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn sent(method: &str, url: &str, query: Option<&str>, headers: Headers, body: &Bytes) -> Sent {
    let mut body = content(&headers, body);
    let size = body.size.take().unwrap_or_default();
    Sent {
        method: method.to_owned(),
        url: as_uri(url),
        http_version: HTTP,
        query_string: query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .filter(|pair| !pair.is_empty())
            .map(parameter)
            .collect(),
        headers: pairs(headers),
        headers_size: UNKNOWN,
        body_size: size,
        post_data: (size > 0).then_some(body),
        ..Sent::default()
    }
}

fn answered(status: u16, headers: Headers, body: &Bytes, error: Option<String>) -> Answered {
    let content = content(&headers, body);
    Answered {
        status,
        status_text: StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default(),
        http_version: HTTP,
        redirect_url: value_of(&headers, "location").unwrap_or_default().to_owned(),
        headers: pairs(headers),
        headers_size: UNKNOWN,
        body_size: content.size.unwrap_or_default(),
        content,
        error,
        ..Answered::default()
    }
}

/// The URL that the client used, with the host that it addressed, or else the one where the emulator listens.
fn url(run: &Run, row: &Request, headers: &Headers) -> String {
    let query = row.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
    if row.path.starts_with("http://") || row.path.starts_with("https://") {
        return row.path.clone() + &query;
    }
    let (scheme, own) = run.emulator.base_url.split_once("://").unwrap_or(("http", &run.emulator.base_url));
    let is_authority = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    };
    let host = value_of(headers, "host").filter(is_authority).unwrap_or(own);
    let slash = if row.path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}{slash}{}{query}", row.path)
}

/// A URL as it was sent, as a replay of the archive compares it. Characters that no URL contains, such as the `…` of a masked part,
/// are encoded.
fn as_uri(url: &str) -> String {
    const HIDDEN: &AsciiSet = &CONTROLS.add(b' ');
    utf8_percent_encode(url, HIDDEN).to_string()
}

/// A parameter of a query, decoded. Decoding must not bring back what is masked.
fn parameter(pair: &str) -> Pair {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let text = percent_decode_str(&text).decode_utf8_lossy();
        Redactor::default().text(&text).into_owned()
    };
    Pair { name: decoded(name), value: decoded(value) }
}

fn pairs(headers: Headers) -> Vec<Pair> {
    headers.into_iter().map(|(name, value)| Pair { name, value }).collect()
}

fn value_of<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// A body, with its type from the headers.
fn content(headers: &Headers, body: &Bytes) -> Content {
    // The name that browsers use for a type that is not known.
    let mime_type = value_of(headers, "content-type").unwrap_or("x-unknown").to_owned();
    match body {
        Bytes::Text(text) => Content { size: Some(text.len()), mime_type, text: text.clone(), encoding: None },
        Bytes::Binary { base64 } => {
            let size = Some(base64.trim_end_matches('=').len() * 3 / 4);
            Content { size, mime_type, text: base64.clone(), encoding: Some("base64") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_ascii_and_otherwise_as_sent() {
        for (url, expected) in [
            ("http://h:1/v1/a?b=c%20d&e=[1]", "http://h:1/v1/a?b=c%20d&e=[1]"),
            ("http://h/sk_live_…1234", "http://h/sk_live_%E2%80%A61234"),
            ("http://h/a b{}\n", "http://h/a%20b{}%0A"),
        ] {
            assert_eq!(as_uri(url), expected);
        }
    }

    #[test]
    fn decoding_a_parameter_brings_no_credential_back() {
        for (pair, name, value) in [
            ("a=b+c%21", "a", "b c!"),
            ("a", "a", ""),
            ("k=sk%5Flive%5Fabcdefgh", "k", "sk_live_…efgh"),
            ("k=sk%255Flive%255Fabcdefgh", "k", "sk_live_…efgh"),
        ] {
            let found = parameter(pair);
            assert_eq!((found.name.as_str(), found.value.as_str()), (name, value), "{pair}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_keep_their_size() {
        for length in 0..5 {
            let bytes = vec![0xff; length];
            let found = content(&Vec::new(), &Bytes::from(&*bytes));
            assert_eq!((found.size, found.encoding.is_some()), (Some(length), length > 0));
        }
    }
}
