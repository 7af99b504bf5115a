//! The record of a calibration: each call and its answer, credentials masked before anything is inferred, so that a cassette read
//! from a file shows what the live run showed. JSON with a version.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redact::Redactor;

/// Most calls of a calibration.
pub const MOST_CALLS: usize = 40;
/// In place of a secret that the service generated.
pub(super) const GENERATED: &str = "<generated secret>";
/// In place of the secret that the calibration supplied.
pub(super) const SUPPLIED: &str = "<supplied secret>";
/// The fields of a subscription that the contract publishes.
pub(super) const SUBSCRIPTION: [&str; 5] = ["id", "url", "events", "status", "created_at"];
/// A calibration ends when this many calls had no answer.
const MOST_FAILURES: usize = 2;
/// Most characters of a body of ours that are kept.
const LONGEST_BODY: usize = 1_000;
/// Most of a key that is kept as its prefix.
const LONGEST_PREFIX: usize = 24;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cassette {
    pub format: Format,
    pub url: String,
    pub max_calls: usize,
    /// Whether a subscription may be made.
    pub subscribes: bool,
    /// Whether the quota may be used up.
    pub exhausts: bool,
    pub interrupted: bool,
    pub key_length: usize,
    /// The beginning of the key that decides whether it is valid, if altered keys showed one.
    pub key_prefix: Option<String>,
    /// The assumed prefix with which the key begins; empty if it has none.
    #[serde(default)]
    pub assumed_prefix: String,
    pub calls: Vec<Exchange>,
}

/// The version of the file.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Format {
    #[serde(rename = "wrs-emulator calibration 1")]
    One,
}

/// A call, from when it is planned until it has been answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Exchange {
    pub number: usize,
    pub name: String,
    pub method: String,
    pub target: String,
    pub key: CallKey,
    /// Without those that every call has.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body, cut if it is long.
    pub body: String,
    pub at: Timestamp,
    pub took_ms: u64,
    pub answer: Option<RecordedAnswer>,
    /// Why there is no answer.
    pub failed: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RecordedAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
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
            CallKey::None => None,
            CallKey::OtherScheme => Some("Basic d3JzOmNhbGlicmF0ZQ==".to_owned()),
            CallKey::Given => Some(format!("Bearer {}", self.key)),
            CallKey::Altered(length) => {
                // The first character after what is kept must differ from that of the key.
                let (kept, rest) = self.key.split_at(length);
                let first = if rest.starts_with('w') { "x" } else { "w" };
                Some(format!("Bearer {kept}{first}rscalibrate"))
            }
        }
    }

    /// A text without the keys that the call may have sent and the supplied secret.
    fn hide_own(&self, text: &str, key: CallKey) -> String {
        let known = text.replace(&self.secret, SUPPLIED).replace(&self.key, "<key>");
        match (key, self.authorization(key)) {
            (CallKey::Altered(1..), Some(sent)) => known.replace(sent.trim_start_matches("Bearer "), "<altered key>"),
            _ => known,
        }
    }

    /// A body without any credential. In a subscription it stays visible whose secret each field has.
    fn hide(&self, text: &str, call: &str, key: CallKey) -> String {
        let known = self.hide_own(text, key);
        match serde_json::from_str::<Map<String, Value>>(&known) {
            Ok(mut fields) if call.starts_with("subscribe") => {
                for (_, field) in fields.iter_mut().filter(|(name, _)| !SUBSCRIPTION.contains(&name.as_str())) {
                    if field.as_str().is_some_and(is_secret) {
                        *field = GENERATED.into();
                    }
                }
                Redactor::default().text(&Value::from(fields).to_string()).into_owned()
            }
            _ => String::from_utf8_lossy(&Redactor::default().body(known.as_bytes())).into_owned(),
        }
    }
}

/// Whether a text in an answer may be a signing secret: long, without spaces, and neither a URL nor a time.
fn is_secret(text: &str) -> bool {
    let plain = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
    plain && !text.contains("://") && text.parse::<Timestamp>().is_err()
}

impl Cassette {
    pub fn new(url: &str, key: &str, max_calls: usize, subscribes: bool, exhausts: bool) -> Self {
        let assumed = ["sk_test_", "sk_live_"].into_iter().find(|prefix| key.starts_with(prefix));
        Self {
            format: Format::One,
            url: Redactor::default().text(url).into_owned(),
            max_calls,
            subscribes,
            exhausts,
            interrupted: false,
            key_length: key.len(),
            key_prefix: None,
            assumed_prefix: assumed.unwrap_or_default().to_owned(),
            calls: Vec::new(),
        }
    }

    /// Adds an exchange, with everything masked that must not be kept.
    pub fn push(&mut self, mut exchange: Exchange, caller: &Caller) {
        let (name, key) = (exchange.name.as_str(), exchange.key);
        exchange.body = caller.hide(&exchange.body, name, key).chars().take(LONGEST_BODY).collect();
        exchange.failed = exchange.failed.map(|text| caller.hide(&text, name, key));
        if let Some(answer) = &mut exchange.answer {
            for (name, value) in &mut answer.headers {
                *value = Redactor::default().header(name, &caller.hide_own(value, key)).into_owned();
            }
            answer.body = caller.hide(&answer.body, name, key);
        }
        self.calls.push(exchange);
        let (invalid, valid) = self.prefix_bounds();
        if valid == invalid + 1 && valid <= LONGEST_PREFIX && 2 * valid <= self.key_length + 4 {
            self.key_prefix = caller.key.get(..valid).map(str::to_owned);
        }
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

    /// Why no further call is made; `None` while more may be.
    pub fn stop(&self) -> Option<String> {
        if let Some(call) = self.answered().find(|call| call.status() == 429) {
            return Some(format!("call {} was answered 429", call.number));
        }
        // A service may hang up on a body that is too long.
        let mut failed = self.calls.iter().filter(|call| call.failed.is_some() && call.name != "long-body");
        if let Some(Exchange { number, failed: Some(why), .. }) = failed.nth(MOST_FAILURES - 1) {
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
        let limit = if self.max_calls < MOST_CALLS { "calls of --max-calls" } else { "calls of a calibration" };
        (self.calls.len() >= self.max_calls).then(|| format!("the {} {limit} were made", self.max_calls))
    }

    pub fn is_key_refused(&self) -> bool {
        matches!(self.status_of("status"), 401 | 403)
    }

    /// Whether the first answers look like those of the API: a greeting, or an error in the envelope.
    pub fn is_api(&self) -> bool {
        let greets = self.answers("hello").any(|call| call.status() == 200 && call.json().is_object());
        greets || self.answers("no-key").any(|call| call.error().is_some())
    }
}

impl Exchange {
    /// The status of the answer; 0 without one.
    pub(super) fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |answer| answer.status)
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
