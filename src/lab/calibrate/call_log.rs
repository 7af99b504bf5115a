//! The calls of a calibration, or of a recording of other traffic, and their answers: credentials are masked before anything is inferred, so
//! that a file shows what the live run showed. `har` writes and reads the files.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::promises::is_published;
use crate::redact::{Redactor, Secrets};

/// Maximum number of calls of a calibration.
pub const MAX_CALLS: usize = 40;
/// In place of the key, or of more than half of it.
pub(super) const KEY: &str = "<key>";
/// In place of an altered key.
pub(super) const ALTERED: &str = "<altered key>";
/// In place of another key or secret of recorded traffic than those of the call.
pub(super) const OTHER: &str = "<other credential>";
/// In place of a secret that the service generated.
pub(super) const GENERATED: &str = "<generated secret>";
/// In place of the secret that the calibration supplied.
pub(super) const SUPPLIED: &str = "<supplied secret>";
/// A calibration ends when this many calls had no answer.
const MAX_FAILURES: usize = 2;
/// Maximum characters of a body of ours that are kept.
pub(super) const MAX_BODY: usize = 1_000;
/// Most of a key that is kept as its prefix.
const MAX_PREFIX: usize = 24;

/// The calls so far. Its serde form is the part of a file besides the calls.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CallLog {
    pub url: String,
    pub max_calls: usize,
    /// True if a subscription may be made.
    pub subscribes: bool,
    /// True if the quota may be used up.
    pub exhausts: bool,
    pub interrupted: bool,
    pub key_length: usize,
    /// The beginning of the key that decides whether it is valid, if altered keys showed one.
    pub key_prefix: Option<String>,
    /// The assumed prefix with which the key begins; empty if it has none.
    #[serde(default)]
    pub assumed_prefix: String,
    #[serde(skip)]
    pub calls: Vec<Exchange>,
    /// True if the calls are not those of the plan, but a recording of whatever a client asked.
    #[serde(skip)]
    pub is_traffic: bool,
    /// Recorded calls that are not of the service: `GET https://other.example/`.
    #[serde(skip)]
    pub elsewhere: Vec<String>,
}

/// A call, from when it is planned until it has been answered.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub number: usize,
    pub name: String,
    pub method: String,
    pub target: String,
    pub key: CallKey,
    /// Without those that every call has.
    pub headers: Vec<(String, String)>,
    /// The body, cut if it is long.
    pub body: String,
    pub at: Timestamp,
    pub took_ms: u64,
    pub answer: Option<RecordedAnswer>,
    /// Why there is no answer.
    pub failed: Option<String>,
}

#[derive(Clone, Debug)]
pub struct RecordedAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// True if the body was longer than is read, broke off, or was not recorded.
    pub is_cut: bool,
}

/// The key that a call carries in `Authorization`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKey {
    None,
    /// Another scheme than Bearer.
    OtherScheme,
    Given,
    /// The first bytes of the key, then another text.
    Altered(usize),
    /// Another key than that of most calls of recorded traffic.
    Other,
    /// The recording does not have it: browsers leave `Authorization` out of saved files.
    Unrecorded,
}

/// Credentials and URL of a calibration. Neither key nor secret is kept.
#[derive(Clone, Debug)]
pub struct Caller {
    pub key: String,
    /// The URL that is subscribed.
    pub url: String,
    /// The secret that is supplied once.
    pub secret: String,
}

impl Caller {
    /// The value of `Authorization`.
    pub fn authorization(&self, key: CallKey) -> Option<String> {
        match key {
            CallKey::None | CallKey::Other | CallKey::Unrecorded => None,
            CallKey::OtherScheme => Some("Basic d3JzOmNhbGlicmF0ZQ==".to_owned()),
            CallKey::Given => Some(format!("Bearer {}", self.key)),
            CallKey::Altered(length) => {
                // The first character after the kept part must differ from that of the key.
                let (kept, rest) = self.key.split_at(length);
                let first = if rest.starts_with('w') { "x" } else { "w" };
                Some(format!("Bearer {kept}{first}rscalibrate"))
            }
        }
    }

    /// The redactor for an answer to a call with this key.
    pub(super) fn mask(&self, key: CallKey) -> Mask {
        let own = Secrets::default().and(&self.secret, SUPPLIED).and(&self.key, KEY);
        let altered = self.authorization(key).filter(|_| matches!(key, CallKey::Altered(1..)));
        Mask(match altered {
            Some(sent) => own.and(sent.trim_start_matches("Bearer "), ALTERED),
            None => own,
        })
    }
}

/// Masks what a call sent, and then whatever else may be a credential.
pub(super) struct Mask(Secrets);

impl Mask {
    /// Masks another credential as well.
    pub(super) fn and_other(self, credential: &str) -> Self {
        Self(self.0.and(credential, OTHER))
    }

    /// A text that is not a body, such as a target.
    pub(super) fn text(&self, text: &str) -> String {
        Redactor::default().text(&self.0.hide(text)).into_owned()
    }

    fn own_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.0.hide(text).into_owned(),
            // A key may consist of digits.
            Value::Number(number) => {
                if let Cow::Owned(hidden) = self.0.hide(&number.to_string()) {
                    *value = hidden.into();
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.own_in(value)),
            Value::Object(fields) => {
                let named = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                    self.own_in(&mut value);
                    (self.0.hide(&name).into_owned(), value)
                });
                *fields = named.collect();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn header(&self, (name, value): &(String, String)) -> (String, String) {
        let value = self.0.hide(value);
        (self.0.hide(name).into_owned(), Redactor::default().header(name, &value).into_owned())
    }

    /// A body without any credential: JSON is read before its texts are masked, and is kept as it was read. In a subscription it stays
    /// visible whose secret each field has.
    fn body(&self, text: &str, call: &str) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else {
            return String::from_utf8_lossy(&Redactor::default().body(self.0.hide(text).as_bytes())).into_owned();
        };
        self.own_in(&mut value);
        let whose = match &value {
            Value::Object(fields) if call.starts_with("subscribe") => {
                let others = fields.iter().filter(|(name, _)| !is_published(name));
                others.filter_map(|(name, field)| Some((name.clone(), whose_secret(field.as_str()?)?))).collect()
            }
            _ => Vec::new(),
        };
        Redactor::default().value(&mut value);
        for (name, secret) in whose {
            value.get_mut(name).into_iter().for_each(|field| *field = secret.into());
        }
        value.to_string()
    }
}

/// The signing secret that a text in an answer is or may be: the one that was supplied, or a long text without spaces that is neither a
/// URL nor a time.
fn whose_secret(text: &str) -> Option<&'static str> {
    let plain = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_generated = plain && !text.contains("://") && text.parse::<Timestamp>().is_err();
    if text == SUPPLIED { Some(SUPPLIED) } else { is_generated.then_some(GENERATED) }
}

impl CallLog {
    pub fn new(url: &str, key: &str, max_calls: usize, subscribes: bool, exhausts: bool) -> Self {
        let assumed = ["sk_test_", "sk_live_"].into_iter().find(|prefix| key.starts_with(prefix));
        Self {
            url: Redactor::default().text(&Secrets::default().and(key, KEY).hide(url)).into_owned(),
            max_calls,
            subscribes,
            exhausts,
            interrupted: false,
            key_length: key.len(),
            key_prefix: None,
            assumed_prefix: assumed.unwrap_or_default().to_owned(),
            calls: Vec::new(),
            is_traffic: false,
            elsewhere: Vec::new(),
        }
    }

    /// Adds an exchange, with everything masked that must not be kept.
    pub fn push(&mut self, exchange: Exchange, caller: &Caller) {
        let mask = caller.mask(exchange.key);
        self.push_masked(exchange, &mask);
        let (invalid, valid) = self.prefix_bounds();
        if valid == invalid + 1 && valid <= MAX_PREFIX && 2 * valid <= self.key_length + 4 {
            self.key_prefix = caller.key.get(..valid).map(str::to_owned);
        }
    }

    pub(super) fn push_masked(&mut self, mut exchange: Exchange, mask: &Mask) {
        // Of a long body only the beginning is masked, because no more is kept.
        let body: String = exchange.body.chars().take(2 * MAX_BODY).collect();
        exchange.body = mask.body(&body, &exchange.name).chars().take(MAX_BODY).collect();
        exchange.failed = exchange.failed.map(|text| mask.body(&text, &exchange.name));
        if let Some(answer) = &mut exchange.answer {
            answer.headers = answer.headers.iter().map(|header| mask.header(header)).collect();
            answer.body = mask.body(&answer.body, &exchange.name);
        }
        self.calls.push(exchange);
    }

    /// The longest kept part of the key that is known not to suffice, and the shortest that does.
    pub(super) fn prefix_bounds(&self) -> (usize, usize) {
        let (mut invalid, mut valid) = (0, self.key_length);
        for call in self.answers("altered") {
            match call.key {
                CallKey::Altered(length) if call.status() == 200 => valid = valid.min(length),
                CallKey::Altered(length) => invalid = invalid.max(length),
                _ => {}
            }
        }
        (invalid, valid)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|call| call.name == name).count()
    }

    pub fn answered(&self) -> impl Iterator<Item = &Exchange> {
        self.calls.iter().filter(|call| call.answer.is_some())
    }

    /// The calls of this name that were answered.
    pub(super) fn answers(&self, name: &str) -> impl Iterator<Item = &Exchange> {
        self.answered().filter(move |call| call.name == name)
    }

    /// The status of the first answer to a call of this name; 0 without one.
    pub(super) fn status_of(&self, name: &str) -> u16 {
        self.answers(name).next().map_or(0, Exchange::status)
    }

    /// Why no further call is made; `None` while more may be, and of traffic.
    pub fn stop(&self) -> Option<String> {
        if self.is_traffic {
            return None;
        }
        if let Some(call) = self.answered().find(|call| call.status() == 429) {
            return Some(format!("call {} was answered 429", call.number));
        }
        // A service may hang up on a body that is too long.
        let mut failed = self.calls.iter().filter(|call| call.failed.is_some() && call.name != "long-body");
        if let Some(Exchange { number, failed: Some(why), .. }) = failed.nth(MAX_FAILURES - 1) {
            return Some(format!("call {number} had no answer: {why}"));
        }
        if self.count("hello") > 0 && self.count("no-key") > 0 && !self.is_api() {
            return Some("this is not the Workflow Reference Service API, so the key was not sent".to_owned());
        }
        if self.is_key_refused() {
            return Some(format!("the key was refused with {}", self.status_of("status")));
        }
        if self.interrupted {
            return Some("it was interrupted".to_owned());
        }
        let limit = if self.max_calls < MAX_CALLS { "calls of --max-calls" } else { "calls of a calibration" };
        (self.calls.len() >= self.max_calls).then(|| format!("the {} {limit} were made", self.max_calls))
    }

    pub fn is_key_refused(&self) -> bool {
        !self.is_traffic && matches!(self.status_of("status"), 401 | 403)
    }

    /// True if the first answers look like those of the API, of traffic any: a greeting, or an error in the envelope.
    pub fn is_api(&self) -> bool {
        if self.is_traffic {
            return self
                .answered()
                .any(|call| call.error().is_some() || call.status() == 200 && call.json().is_object());
        }
        let greets = self.answers("hello").any(|call| call.status() == 200 && call.json().is_object());
        greets || self.answers("no-key").any(|call| call.error().is_some())
    }
}

/// True if a text was masked when it was recorded.
pub(super) fn is_masked(text: &str) -> bool {
    text.contains('…') || [KEY, ALTERED, OTHER, GENERATED, SUPPLIED].iter().any(|mark| text.contains(mark))
}

impl Exchange {
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The status of the answer; 0 without one.
    pub(super) fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |answer| answer.status)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.is_cut)
    }

    /// The headers of the answer.
    pub(super) fn answer_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.answer.iter().flat_map(|answer| &answer.headers);
        headers.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.answer_headers().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body of the answer; null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        self.answer.as_ref().and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default()
    }

    /// A field of the body; null if it is absent or the body is not an object.
    pub(super) fn field(&self, name: &str) -> Value {
        self.json().get_mut(name).map(Value::take).unwrap_or_default()
    }

    /// The contents of the answer's error envelope.
    pub(super) fn error(&self) -> Option<Value> {
        let error = self.field("error");
        (self.status() >= 400 && error["code"].is_string()).then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPPLIED_SECRET: &str = "whsec_a+/b==c0d1E2f3";

    fn caller(key: &str) -> Caller {
        let url = "https://a.example/".to_owned();
        Caller { key: key.to_owned(), url, secret: SUPPLIED_SECRET.to_owned() }
    }

    /// The parts of a call with this answer that are kept.
    fn kept(key: &str, name: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut call_log = CallLog::new("https://a.example", key, 40, true, false);
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let exchange = Exchange {
            number: 1,
            name: name.to_owned(),
            method: "GET".to_owned(),
            target: "/".to_owned(),
            key: CallKey::Given,
            headers: Vec::new(),
            body: String::new(),
            at: Timestamp::UNIX_EPOCH,
            took_ms: 0,
            answer: Some(RecordedAnswer { status: 400, headers, body: body.to_owned(), is_cut: false }),
            failed: None,
        };
        call_log.push(exchange, &caller(key));
        let answer = call_log.calls[0].answer.as_ref().expect("an answer");
        serde_json::to_string(&(&answer.headers, &answer.body)).expect("JSON")
    }

    #[test]
    fn the_key_and_the_secrets_are_masked_and_the_rest_is_kept() {
        let key = "wrs_sandbox_4f1d9a";
        for (body, shows) in [
            (format!("{{\"a\":\"key {key}.\"}}"), "key <key>."),
            (format!("{{\"{key}\":{{\"a\":[\"b\"]}}}}"), r#"{\"<key>\":{\"a\":[\"b\"]}}"#),
            (format!("key {key}"), "key <key>"),
            (format!("{{\"a\":\"{}\"}}", key.replace('_', "\\u005f")), "<key>"),
            (format!("{{\"a\":\"{SUPPLIED_SECRET}\"}}"), "<supplied secret>"),
            (r#"{"secret":"abcdef0123456789abcd","n":{"secret":"abc"}}"#.to_owned(), "<generated secret>"),
        ] {
            let kept = kept(key, "subscribe", &[("x-echo", key), (key, "1")], &body);
            assert!(kept.contains(shows), "{body}: {kept}");
            assert!(!kept.contains("9a") && !kept.contains("\"abc\\\""), "{body}: {kept}");
        }
        let digits = kept("1234567890", "status", &[], "{\"a\":1234567890,\"b\":[71234567890.5]}");
        assert!(!digits.contains("1234567890"), "{digits}");
        let url = CallLog::new(&format!("https://a.example/{key}"), key, 40, true, false).url;
        assert_eq!(url, "https://a.example/<key>");
    }
}
