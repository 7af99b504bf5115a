//! A call log as an HTTP Archive. What the plan knows of its calls is in `_calibration`; an archive without it is other traffic.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::form_urlencoded;

use super::call_log::{ALTERED, CallKey, CallLog, Exchange, KEY, OTHER, RecordedAnswer};
use crate::util::har::{Archive, ArchiveEntry, ArchivedRequest, ArchivedResponse, Content, Pair, as_uri, pairs};
use crate::util::wording::quoted;

#[derive(Debug, Deserialize, Serialize)]
struct OwnLog<C> {
    #[serde(rename = "_calibration")]
    calibration: C,
}

/// The fields of an entry that the format does not know.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct OwnEntry {
    #[serde(rename = "_calibration", skip_serializing_if = "Option::is_none")]
    call: Option<OwnCall>,
    /// In browsers: the answer is not the service's.
    #[serde(rename = "_fromCache", skip_serializing)]
    pub(super) from_cache: Option<IgnoredAny>,
}

/// A call as the plan describes it.
#[derive(Debug, Deserialize, Serialize)]
struct OwnCall {
    name: String,
    key: CallKey,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

pub(super) type Recorded = ArchiveEntry<OwnEntry>;

impl CallLog {
    /// The call log as an archive.
    pub fn to_har(&self) -> String {
        let base = self.url.trim_end_matches('/');
        let entries = self.calls.iter().map(|call| entry(base, call)).collect();
        let archive = Archive::new(env!("CARGO_PKG_VERSION"), entries, OwnLog { calibration: self });
        format!("{:#}\n", json!(archive))
    }
}

/// The content of an archive.
pub(super) enum Recording {
    /// The calls of a calibration, as [`CallLog::to_har`] writes them.
    Calibration(CallLog),
    /// The calls that a browser or a proxy recorded.
    Traffic(Vec<Recorded>),
}

impl Recording {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let archive: Archive<OwnLog<Option<CallLog>>, OwnEntry> = serde_json::from_slice(bytes)
            .map_err(|problem| format!("it is not an HTTP Archive (HAR 1.2): {problem}"))?;
        let log = archive.log;
        let Some(mut call_log) = log.own.calibration else { return Ok(Self::Traffic(log.entries)) };
        let base = as_uri(call_log.url.trim_end_matches('/'));
        for (at, entry) in log.entries.iter().enumerate() {
            let call = entry.own.call.as_ref().ok_or_else(|| format!("log.entries[{at}] has no `_calibration`"))?;
            let target = entry.request.url.strip_prefix(&base);
            let target = target.ok_or_else(|| format!("log.entries[{at}].request.url does not begin with `{base}`"))?;
            let mut exchange = exchange(at, entry, &call.name, target, call.key)?;
            exchange.answer.iter_mut().for_each(|answer| answer.is_cut = call.is_cut);
            call_log.calls.push(exchange);
        }
        Ok(Self::Calibration(call_log))
    }
}

fn entry(base: &str, call: &Exchange) -> Recorded {
    let authorization = match call.key {
        CallKey::None | CallKey::Unrecorded => None,
        CallKey::OtherScheme => Some("Basic …".to_owned()),
        CallKey::Given => Some(format!("Bearer {KEY}")),
        CallKey::Altered(_) => Some(format!("Bearer {ALTERED}")),
        CallKey::Other => Some(format!("Bearer {OTHER}")),
    };
    let authorization = authorization.map(|value| Pair { name: "authorization".to_owned(), value });
    let headers = authorization.into_iter().chain(pairs(&call.headers)).collect::<Vec<_>>();
    let (_, query) = call.target.split_once('?').unwrap_or_default();
    let parameter = |(name, value): (Cow<'_, str>, Cow<'_, str>)| Pair { name: name.into(), value: value.into() };
    let query = form_urlencoded::parse(query.as_bytes()).map(parameter).collect();
    let body = Content::new(&headers, &call.body, false);
    let answer_headers = pairs(call.answer.as_ref().map_or(&[][..], |answer| &answer.headers));
    let content = Content::new(&answer_headers, call.answer.as_ref().map_or("", |answer| &answer.body), false);
    let response = ArchivedResponse::new(call.status(), answer_headers, content);
    let own = OwnCall { name: call.name.clone(), key: call.key, is_cut: call.is_cut() };
    ArchiveEntry::new(
        &call.at.to_string(),
        f64::from(u32::try_from(call.took_ms).unwrap_or(u32::MAX)),
        ArchivedRequest::new(&call.method, &format!("{base}{}", call.target), query, headers, body),
        ArchivedResponse { error: call.failed.clone(), ..response },
        OwnEntry { call: Some(own), from_cache: None },
    )
}

/// An entry as a call.
pub(super) fn exchange(
    at: usize,
    entry: &Recorded,
    name: &str,
    target: &str,
    key: CallKey,
) -> Result<Exchange, String> {
    let began: Result<Timestamp, _> = entry.started_date_time.parse();
    let began = began.map_err(|_| {
        let found = quoted(&entry.started_date_time);
        format!("log.entries[{at}].startedDateTime: expected a time such as 2026-01-31T09:30:00.000Z, found `{found}`")
    })?;
    let took = Duration::try_from_secs_f64(entry.time / 1000.0).unwrap_or_default();
    let posted = entry.request.post_data.as_ref().and_then(Content::body);
    let headers = headers(&entry.request.headers).filter(|(name, _)| name != "authorization").collect();
    let answer = u16::try_from(entry.response.status).ok().filter(|status| (100..1000).contains(status));
    let answer = answer.map(|status| {
        let body = entry.response.content.body();
        let headers = self::headers(&entry.response.headers).collect();
        RecordedAnswer { status, headers, is_cut: body.is_none(), body: body.unwrap_or_default() }
    });
    let why = || entry.response.error.clone().unwrap_or_else(|| "the recording has no answer".to_owned());
    Ok(Exchange {
        number: at + 1,
        name: name.to_owned(),
        method: entry.request.method.clone(),
        target: target.to_owned(),
        key,
        headers,
        body: posted.unwrap_or_default(),
        at: began,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        failed: answer.is_none().then(why),
        answer,
    })
}

/// Headers by their names in lower case, without what HTTP/2 has instead of a request line.
fn headers(pairs: &[Pair]) -> impl Iterator<Item = (String, String)> {
    let headers = pairs.iter().filter(|pair| !pair.name.starts_with(':'));
    headers.map(|pair| (pair.name.to_ascii_lowercase(), pair.value.clone()))
}
