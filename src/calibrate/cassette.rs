//! The record of a calibration: each call and its answer, credentials masked before anything is inferred, so that a cassette read
//! from a file shows what the live run showed. JSON with a version.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redact::{Redactor, is_credential_header};

const FORMAT: &str = "wrs-emulator calibration 1";
/// In place of a secret that the service generated.
pub(super) const GENERATED: &str = "<generated secret>";
/// In place of the secret that the calibration supplied.
pub(super) const SUPPLIED: &str = "<supplied secret>";
/// The fields of a subscription that the contract publishes.
pub(super) const SUBSCRIPTION: [&str; 5] = ["id", "url", "events", "status", "created_at"];
/// A calibration ends when this many calls had no answer.
const MOST_FAILURES: usize = 2;
/// Most of a body of ours that is kept.
const LONGEST_BODY: usize = 1_000;
/// Most of a key that is kept as its prefix.
const LONGEST_PREFIX: usize = 24;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cassette {
    pub format: String,
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
    pub calls: Vec<Exchange>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub number: usize,
    pub name: String,
    pub method: String,
    pub target: String,
    pub key: CallKey,
    pub content_type: Option<String>,
    pub content_encoding: Option<String>,
    /// The body, cut if it is long.
    pub body: String,
    #[serde(default)]
    pub body_bytes: usize,
    pub at: Timestamp,
    pub took_ms: u64,
    pub answer: Option<RecordedAnswer>,
    /// Why there is no answer.
    pub failed: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Whether the whole body was read.
    pub whole: bool,
}

/// What a call carries in `Authorization`.
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

/// What must not be kept.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub key: String,
    pub supplied: String,
}

impl Secrets {
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

    /// A text without the keys that the call may have sent, the supplied secret, and any other credential.
    fn hide(&self, text: &str, key: CallKey) -> String {
        Redactor::default().text(&self.hide_own(text, key)).into_owned()
    }

    fn hide_own(&self, text: &str, key: CallKey) -> String {
        let known = text.replace(&self.supplied, SUPPLIED).replace(&self.key, "<key>");
        match (key, self.authorization(key)) {
            (CallKey::Altered(1..), Some(sent)) => known.replace(sent.trim_start_matches("Bearer "), "<altered key>"),
            _ => known,
        }
    }

    fn hide_in_body(&self, body: &str, is_subscription: bool, key: CallKey) -> String {
        let known = self.hide_own(body, key);
        let Ok(mut value) = serde_json::from_str::<Value>(&known) else { return self.hide(&known, key) };
        let before = value.clone();
        if let (true, Value::Object(fields)) = (is_subscription, &mut value) {
            for (_, field) in fields.iter_mut().filter(|(name, _)| !SUBSCRIPTION.contains(&name.as_str())) {
                if field.as_str().is_some_and(is_secret) {
                    *field = GENERATED.into();
                }
            }
        } else {
            Redactor::default().value(&mut value);
        }
        self.hide(&if value == before { known } else { value.to_string() }, key)
    }
}

impl Cassette {
    pub fn new(url: &str, key: &str, max_calls: usize, subscribes: bool, exhausts: bool) -> Self {
        Self {
            format: FORMAT.to_owned(),
            url: Redactor::default().text(url).into_owned(),
            max_calls,
            subscribes,
            exhausts,
            interrupted: false,
            key_length: key.len(),
            key_prefix: None,
            calls: Vec::new(),
        }
    }

    /// Reads a cassette that was saved.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let cassette: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if cassette.format == FORMAT {
            Ok(cassette)
        } else {
            Err(format!("expected the format `{FORMAT}`, found `{}`", cassette.format.escape_debug()))
        }
    }

    /// Adds an exchange, with everything masked that must not be kept.
    pub fn push(&mut self, mut exchange: Exchange, secrets: &Secrets) {
        exchange.number = self.calls.len() + 1;
        let key = exchange.key;
        exchange.body = secrets.hide(&exchange.body, key).chars().take(LONGEST_BODY).collect();
        if let Some(answer) = &mut exchange.answer {
            for (name, value) in &mut answer.headers {
                let known = secrets.hide(value, key);
                *value =
                    if is_credential_header(name) { Redactor::default().header(name, &known).into() } else { known };
            }
            answer.body = secrets.hide_in_body(&answer.body, exchange.name.starts_with("subscribe"), key);
        }
        exchange.failed = exchange.failed.map(|text| secrets.hide(&text, key));
        self.calls.push(exchange);
        let (invalid, valid) = self.prefix_bounds();
        if valid == invalid + 1 && valid <= LONGEST_PREFIX && 2 * valid <= self.key_length + 4 {
            self.key_prefix = secrets.key.get(..valid).map(str::to_owned);
        }
    }

    /// The longest kept part of the key that is known not to suffice, and the shortest that does.
    pub(super) fn prefix_bounds(&self) -> (usize, usize) {
        let (mut invalid, mut valid) = (0, self.key_length);
        for (exchange, answer) in self.answers("altered") {
            match exchange.key {
                CallKey::Altered(length) if answer.status == 200 => valid = valid.min(length),
                CallKey::Altered(length) => invalid = invalid.max(length),
                _ => {}
            }
        }
        (invalid, valid)
    }

    pub fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|exchange| exchange.name == name).count()
    }

    /// The calls of this name that were answered, with their answers.
    pub fn answers(&self, name: &str) -> impl Iterator<Item = (&Exchange, &RecordedAnswer)> {
        self.answered().filter(move |(exchange, _)| exchange.name == name)
    }

    pub fn answered(&self) -> impl Iterator<Item = (&Exchange, &RecordedAnswer)> {
        self.calls.iter().filter_map(|exchange| exchange.answer.as_ref().map(|answer| (exchange, answer)))
    }

    pub fn status_of(&self, name: &str) -> Option<u16> {
        self.answers(name).next().map(|(_, answer)| answer.status)
    }

    /// Why no further call is made; `None` while more may be.
    pub fn stop(&self) -> Option<String> {
        let number = |name: &str| self.answers(name).next().map_or(0, |(exchange, _)| exchange.number);
        if let Some((exchange, _)) = self.answered().find(|(_, answer)| answer.status == 429) {
            return Some(format!("call {} was answered 429", exchange.number));
        }
        // A service may hang up on a body that is too long.
        let failures = self.calls.iter().filter(|exchange| exchange.name != "long-body");
        let failures = failures.filter_map(|exchange| Some((exchange.number, exchange.failed.as_ref()?)));
        if let Some((number, why)) = failures.skip(MOST_FAILURES - 1).last() {
            return Some(format!("call {number} had no answer: {why}"));
        }
        if self.count("hello") > 0 && self.count("no-key") > 0 && !self.is_api() {
            return Some("this is not the Workflow Reference Service API, so the key was not sent".to_owned());
        }
        if let Some(status @ (401 | 403)) = self.status_of("status") {
            return Some(format!("the key was refused with {status} (call {})", number("status")));
        }
        if self.interrupted {
            return Some("it was interrupted".to_owned());
        }
        (self.calls.len() >= self.max_calls).then(|| format!("the {} calls allowed were made", self.max_calls))
    }

    /// Whether the first answers look like those of the API: a greeting, or an error in the envelope.
    pub fn is_api(&self) -> bool {
        let greets = self.answers("hello").any(|(_, answer)| answer.status == 200 && answer.object().is_some());
        greets || self.answers("no-key").any(|(_, answer)| answer.error().is_some())
    }
}

impl RecordedAnswer {
    pub fn object(&self) -> Option<Map<String, Value>> {
        serde_json::from_str(&self.body).ok()
    }

    /// What the error envelope holds.
    pub fn error(&self) -> Option<Map<String, Value>> {
        match self.object().filter(|_| self.status >= 400)?.remove("error")? {
            Value::Object(error) if error.get("code").is_some_and(Value::is_string) => Some(error),
            _ => None,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Whether a text in an answer may be a signing secret: long, without spaces, and neither a URL nor a time.
fn is_secret(text: &str) -> bool {
    let plain = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
    plain && text != SUPPLIED && !text.contains("://") && text.parse::<Timestamp>().is_err()
}
