//! Other traffic than that of the plan as a call log: which calls are of the service, with which key, and which are like one of the plan. A
//! call is only given the name of a step if its answer shows what that step is made for.

use std::collections::BTreeSet;

use serde_json::Value;
use url::{Host, Position, Url, form_urlencoded};

use super::call_log::{CallKey, CallLog, Caller, MAX_BODY, MAX_CALLS};
use super::har::{Recorded, Recording, exchange};
use super::promises::{HELLO, STATUS, SUBSCRIBE};
use crate::contract::types::EVENT_TYPES;
use crate::util::har::{Content, value_of};

/// Maximum number of calls of the service that are used.
const MAX_USED: usize = 1_000;
/// Maximum number of keys and secrets of a recording, and the length of the shortest.
const MAX_CREDENTIALS: usize = 32;
const MIN_CREDENTIAL: usize = 8;
const NO_CALL: &str = "it has no call of the API: expected requests such as `GET https://…/v1/system/status`";

/// An entry of the archive that is a call of the service.
struct RecordedCall<'e> {
    /// Its place in the archive.
    at: usize,
    entry: &'e Recorded,
    target: String,
    credential: CallCredential<'e>,
    body: String,
}

/// The content of a call's `Authorization`.
#[derive(Clone, Copy, PartialEq)]
enum CallCredential<'e> {
    None,
    OtherScheme,
    Key(&'e str),
    /// A key that the recording masks.
    Masked,
}

/// The subscriptions so far, as far as they decide what a further one shows.
#[derive(Default)]
struct SubscriptionHistory {
    /// The URL of the first.
    first: Option<String>,
    /// True if something was deleted since.
    is_over: bool,
}

impl CallLog {
    /// Reads an archive: one of [`Self::to_har`], or a recording by a browser or a proxy.
    pub fn from_har(bytes: &[u8]) -> Result<Self, String> {
        match Recording::read(bytes)? {
            Recording::Calibration(call_log) => Ok(call_log),
            Recording::Traffic(entries) => call_log(&entries),
        }
    }
}

/// The call log of these entries. The service is the one that most calls of the API are made to, the key the one that most of them have.
fn call_log(entries: &[Recorded]) -> Result<CallLog, String> {
    let service = service(entries).ok_or(NO_CALL)?;
    let (mut calls, mut elsewhere) = (Vec::new(), Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        match place(&entry.request.url).filter(|(base, _)| *base == service) {
            Some((_, target)) if entry.own.from_cache.is_none() && calls.len() < MAX_USED => {
                let credential = credential(entry);
                let body = entry.request.post_data.as_ref().and_then(Content::body).unwrap_or_default();
                calls.push(RecordedCall { at, entry, target, credential, body });
            }
            _ => elsewhere.push(entry),
        }
    }
    let key = most_used_key(&calls);
    let is_keyless = calls.iter().all(|call| matches!(call.credential, CallCredential::None));
    let secrets = calls.iter().filter_map(|call| secret(&call.body));
    let keys = calls.iter().filter_map(|call| match call.credential {
        CallCredential::Key(key) => Some(key.to_owned()),
        _ => None,
    });
    let credentials: BTreeSet<String> =
        keys.chain(secrets).filter(|text| text.len() >= MIN_CREDENTIAL && *text != key).collect();
    if credentials.len() > MAX_CREDENTIALS {
        return Err(format!("it has more than {MAX_CREDENTIALS} keys and secrets; record fewer at a time"));
    }
    let mask = |own: &str| {
        let caller = Caller { key: key.clone(), url: String::new(), secret: own.to_owned() };
        let others = credentials.iter().filter(|text| *text != own);
        others.fold(caller.mask(CallKey::Given), |mask, text| mask.and_other(text))
    };
    // Of those that are accepted as JSON.
    let accepted: BTreeSet<&str> =
        calls.iter().filter(|call| call.is_json() && call.status() == 200).map(|call| call.body.as_str()).collect();
    let mut call_log = CallLog::new(&service, &key, MAX_CALLS, true, true);
    call_log.is_traffic = true;
    let redacted = |entry: &&Recorded| {
        let url = entry.request.url.split(['?', '#']).next().unwrap_or_default();
        mask("").text(&format!("{} {url}", entry.request.method))
    };
    call_log.elsewhere = elsewhere.iter().map(redacted).collect();
    let mut subscriptions = SubscriptionHistory::default();
    let mut in_time = Vec::new();
    for call in &calls {
        in_time.push((exchange(call.at, call.entry, "", &call.target, call.key(&key, is_keyless))?, call));
    }
    in_time.sort_by_key(|(exchange, _)| exchange.at);
    for (mut exchange, call) in in_time {
        let own = secret(&call.body).filter(|secret| secret.len() >= MIN_CREDENTIAL);
        let mask = mask(&own.unwrap_or_default());
        exchange.target = mask.text(&exchange.target);
        let name = call.name(exchange.key, &accepted, &mut subscriptions);
        let path = exchange.target.split('?').next().unwrap_or_default();
        exchange.name = name.map_or_else(|| format!("{} {path}", exchange.method), str::to_owned);
        // Only whether the type is JSON is of use.
        exchange.headers.retain(|(name, _)| name == "content-type");
        call_log.push_masked(exchange, &mask);
    }
    Ok(call_log)
}

/// The part of a URL before the path of the API, and the target from there on.
fn place(url: &str) -> Option<(String, String)> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let (before, _) = url.path().split_once("/v1/")?;
    let target = &url[Position::BeforePath..Position::AfterQuery][before.len()..];
    Some((format!("{}{before}", url.origin().ascii_serialization()), target.to_owned()))
}

/// Where most calls of the published operations are made to, the first of several.
fn service(entries: &[Recorded]) -> Option<String> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for (base, target) in entries.iter().filter_map(|entry| place(&entry.request.url)) {
        if [HELLO, STATUS, SUBSCRIBE].contains(&path_of(&target)) {
            count(&mut found, base);
        }
    }
    most(found)
}

/// The key with which most calls succeed.
fn most_used_key(calls: &[RecordedCall<'_>]) -> String {
    let mut found = Vec::new();
    for call in calls.iter().filter(|call| matches!(call.status(), 200 | 422 | 429)) {
        if let CallCredential::Key(key) = call.credential {
            count(&mut found, key.to_owned());
        }
    }
    most(found).unwrap_or_default()
}

fn count(found: &mut Vec<(String, usize)>, text: String) {
    match found.iter_mut().find(|(known, _)| *known == text) {
        Some((_, times)) => *times += 1,
        None => found.push((text, 1)),
    }
}

fn most(found: Vec<(String, usize)>) -> Option<String> {
    // `max_by_key` takes the last of several.
    found.into_iter().rev().max_by_key(|(_, times)| *times).map(|(text, _)| text)
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

fn credential(entry: &Recorded) -> CallCredential<'_> {
    let Some(value) = value_of(&entry.request.headers, "authorization") else { return CallCredential::None };
    match value.trim().split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => {
            let key = key.trim();
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
            let is_whole = key.len() >= MIN_CREDENTIAL && key.bytes().all(is_key);
            if is_whole { CallCredential::Key(key) } else { CallCredential::Masked }
        }
        _ => CallCredential::OtherScheme,
    }
}

/// The secret that a subscription supplies.
fn secret(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    Some(body.get("secret")?.as_str()?.to_owned())
}

/// True if nothing but its scheme can be wrong with a URL.
fn is_public(url: &Url) -> bool {
    matches!(url.host(), Some(Host::Domain(name)) if name.contains('.') && !name.ends_with(".localhost"))
}

impl RecordedCall<'_> {
    fn status(&self) -> i64 {
        self.entry.response.status
    }

    /// True if the type of the body is JSON.
    fn is_json(&self) -> bool {
        let posted = self.entry.request.post_data.as_ref().map(|body| body.mime_type.as_str());
        let content_type = value_of(&self.entry.request.headers, "content-type").or(posted);
        content_type.is_some_and(|content_type| content_type.starts_with("application/json"))
    }

    fn key(&self, key: &str, is_keyless: bool) -> CallKey {
        match self.credential {
            CallCredential::Key(own) if own == key => CallKey::Given,
            CallCredential::Key(_) => CallKey::Other,
            CallCredential::OtherScheme => CallKey::OtherScheme,
            CallCredential::Masked => CallKey::Unrecorded,
            // An answer that needs a key shows that there was one.
            CallCredential::None if is_keyless && self.status() != 401 && path_of(&self.target) != HELLO => {
                CallKey::Unrecorded
            }
            CallCredential::None => CallKey::None,
        }
    }

    /// The step of the plan that it is like.
    fn name(
        &self,
        key: CallKey,
        accepted: &BTreeSet<&str>,
        subscriptions: &mut SubscriptionHistory,
    ) -> Option<&'static str> {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        let has_key = matches!(key, CallKey::Given | CallKey::Unrecorded);
        match (self.entry.request.method.as_str(), path, self.status()) {
            ("GET", HELLO, 200) => Some("hello"),
            ("GET", STATUS, 401) if key == CallKey::None => Some("no-key"),
            ("GET", STATUS, 401) if key == CallKey::OtherScheme => Some("other-scheme"),
            ("GET", STATUS, status) if has_key => match (&parameters[..], status) {
                ([], 200) => Some("status"),
                ([("include_checks", "true")], 200) => Some("checks"),
                ([("include_checks", "1")], 200 | 422) => Some("number-boolean"),
                ([("include_checks", _)], 422) => Some("bad-boolean"),
                ([(name, _)], 200 | 422) if *name != "include_checks" => Some("unknown-parameter"),
                _ => None,
            },
            ("POST", SUBSCRIBE, _) if has_key && self.body.len() <= MAX_BODY => {
                self.subscribes(accepted, subscriptions)
            }
            ("DELETE", ..) => {
                subscriptions.is_over = true;
                None
            }
            _ => None,
        }
    }

    fn subscribes(&self, accepted: &BTreeSet<&str>, subscriptions: &mut SubscriptionHistory) -> Option<&'static str> {
        let (is_json, status) = (self.is_json(), self.status());
        let Ok(body) = serde_json::from_str::<Value>(&self.body) else {
            return (is_json && !self.body.is_empty() && matches!(status, 400 | 422)).then_some("malformed");
        };
        let (url, events) = (body["url"].as_str()?, body["events"].as_array()?);
        match status {
            200 if subscriptions.is_over => Some("subscribe-other"),
            200 => match &subscriptions.first {
                None => {
                    subscriptions.first = Some(url.to_owned());
                    Some(if is_json { "subscribe" } else { "subscribe-text" })
                }
                Some(first) if first != url => Some("subscribe-other"),
                Some(_) if secret(&self.body).is_some_and(|secret| secret.len() >= MIN_CREDENTIAL) => {
                    Some("subscribe-again")
                }
                Some(_) => Some("subscribe-repeat"),
            },
            400 | 415 | 422 if !is_json && accepted.contains(self.body.as_str()) => Some("subscribe-text"),
            // Nothing else may be wrong with it.
            422 if is_json && body.as_object().is_some_and(|fields| fields.len() == 2) => {
                let url = Url::parse(url).ok().filter(is_public)?;
                match (url.scheme(), &events[..]) {
                    ("https", []) => Some("no-events"),
                    ("http", []) => Some("http-url"),
                    ("ftp", []) => Some("ftp-url"),
                    ("https", [Value::String(one)]) if !EVENT_TYPES.contains(&one.as_str()) => Some("unknown-event"),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
