//! A run document as an HTTP Archive (HAR 1.2), which browsers, proxies and load tools read.
//!
//! Requests are entries, and so is each attempt at a delivery, oldest first. Everything is taken from the document, which is masked; what
//! only the emulator knows is in fields that begin with `_`, as the format asks.

use std::path::Path;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::control::api::{
    Attempt, AttemptResult, Bytes, DeliveryWhole, Headers, RecordedRun, Request, RequestWhole, RunRequest,
    document_bound,
};
use crate::redact::Redactor;
use crate::util::har::{self, Archive, ArchivedResponse, Content, Pair, pairs, value_of};
use crate::util::wording::counted;

type RunEntry = har::ArchiveEntry<Map<String, Value>>;

/// The archive of a run's requests and attempts.
pub(super) fn archive(run: &RecordedRun) -> String {
    let mut entries: Vec<RunEntry> = run.requests.iter().rev().map(|record| request_entry(run, record)).collect();
    for delivery in run.deliveries.iter().map(|delivery| &delivery.record).rev() {
        entries.extend(delivery.attempts.0.iter().map(|attempt| attempt_entry(delivery, attempt)));
    }
    // Times have one form, which sorts as text. At the same time, requests come before what followed from them.
    entries.sort_by(|one, other| one.started_date_time.cmp(&other.started_date_time));
    let omitted = run.omitted.requests + run.omitted.deliveries;
    let mut archive = Archive::new(&run.emulator.version, entries, Map::new());
    archive.log.comment =
        (omitted > 0).then(|| format!("without {}, because {}", counted(omitted, "older record"), document_bound()));
    format!("{}\n", json!(archive))
}

/// For the fuzz targets, which need something public: reads a document as if from a file, and makes an archive of it. The error is
/// what a command prints.
#[doc(hidden)]
pub fn try_document(bytes: Vec<u8>) -> Result<(), String> {
    let run = RecordedRun::parse(Path::new("fuzz"), bytes).map_err(|failure| failure.message)?;
    archive(&run);
    Ok(())
}

fn request_entry(run: &RecordedRun, record: &RunRequest) -> RunEntry {
    let RunRequest { request, explanation, .. } = record;
    let RequestWhole { row, headers, body, answer, connection, .. } = request;
    let rule = explanation.rules.iter().flatten().find(|rule| rule.applied);
    let own = json!({
        "_id": row.id,
        "_key": row.key,
        "_operation": row.operation,
        "_reason": row.reason,
        "_summary": explanation.summary,
        "_scenario": row.scenario,
        "_rule": rule.map(|rule| &rule.rule),
        "_line": rule.map(|rule| rule.line),
    });
    let answer_headers = pairs(&answer.headers);
    let location = value_of(&answer_headers, "location").unwrap_or_default().to_owned();
    let body_of_answer = body_of(&answer_headers, Some(&answer.body));
    let response = ArchivedResponse::new(row.status, answer_headers, body_of_answer);
    RunEntry {
        connection: connection.as_ref().map(|connection| connection.number.to_string()),
        ..RunEntry::new(
            &row.at.0,
            row.latency_ms.0,
            sent(&row.method, &url(run, row, headers), row.query.as_deref(), headers, body),
            ArchivedResponse { redirect_url: location, error: row.broken.clone(), ..response },
            present(own),
        )
    }
}

fn attempt_entry(delivery: &DeliveryWhole, attempt: &Attempt) -> RunEntry {
    let (status, body, location, error) = match &attempt.outcome {
        AttemptResult::Answered { status, body, location, .. } => (*status, Some(body), location.clone(), None),
        AttemptResult::Failed { failure, detail, .. } => (0, None, None, Some(format!("{failure}: {detail}"))),
    };
    let url = attempt.url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map(|(_, query)| query);
    let own = json!({
        "_id": delivery.id,
        "_event": delivery.event,
        "_type": delivery.event_type,
        "_subscription": delivery.subscription,
        "_attempt": attempt.number,
        "_dialled": attempt.dialled,
        "_damage": attempt.damage,
    });
    let response = ArchivedResponse::new(status, Vec::new(), body_of(&[], body));
    RunEntry::new(
        &attempt.at.0,
        attempt.latency_ms.0,
        sent("POST", url, query, &attempt.request.headers, &attempt.request.body),
        ArchivedResponse { redirect_url: location.unwrap_or_default(), error, ..response },
        present(own),
    )
}

/// The fields of an object that have a value.
fn present(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

fn sent(method: &str, url: &str, query: Option<&str>, headers: &Headers, body: &Bytes) -> har::ArchivedRequest {
    let parameters = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty());
    let headers = pairs(headers);
    let body = body_of(&headers, Some(body));
    har::ArchivedRequest::new(method, url, parameters.map(parameter).collect(), headers, body)
}

fn body_of(headers: &[Pair], body: Option<&Bytes>) -> Content {
    let text = body.map(Bytes::as_text).unwrap_or_default();
    Content::new(headers, text, matches!(body, Some(Bytes::Binary { .. })))
}

/// The URL that the client used, with the host that it addressed, or else the one where the emulator listens.
fn url(run: &RecordedRun, row: &Request, headers: &Headers) -> String {
    let target = row.target();
    if target.starts_with("http://") || target.starts_with("https://") {
        return target;
    }
    let (scheme, own) = run.emulator.base_url.split_once("://").unwrap_or(("http", &run.emulator.base_url));
    let is_authority = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    };
    let host = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, host)| host.as_str());
    let host = host.filter(is_authority).unwrap_or(own);
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}{slash}{target}")
}

/// A parameter of a query, decoded. Decoding must not reveal a masked value.
fn parameter(pair: &str) -> Pair {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let text = percent_decode_str(&text).decode_utf8_lossy();
        Redactor::default().text(&text).into_owned()
    };
    Pair { name: decoded(name), value: decoded(value) }
}
