//! The traffic: the journal's requests with their bodies, and the deliveries, with what several rules ask of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::contract::keys::Keys;
use crate::contract::routes::Operation;
use crate::settings::Profile;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::RequestRecord;

/// From this difference on, the key's clock was moved; smaller ones are delays within the emulator.
const MOVED: Duration = Duration::from_millis(100);

/// The records to judge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic<'a> {
    /// Requests, oldest first.
    pub(crate) requests: &'a [Arc<RequestRecord>],
    /// Deliveries, oldest first.
    pub(crate) deliveries: &'a [DeliveryRecord],
    /// The settings in force.
    pub(crate) profile: &'a Profile,
    /// True if the clock runs. While it is frozen, how long a client waited is not known.
    pub(crate) clock_runs: bool,
}

impl<'a> Traffic<'a> {
    /// The requests themselves.
    pub(super) fn requests(&self) -> impl Iterator<Item = RecordedRequest<'a>> {
        self.requests.iter().map(|record| RecordedRequest(record))
    }

    /// The deliveries to receivers of one's own: a built-in one answers by its script.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = &'a DeliveryRecord> {
        let is_built_in = |delivery: &&DeliveryRecord| delivery.attempts.iter().any(|attempt| attempt.is_by_sink());
        self.deliveries.iter().filter(move |delivery| !is_built_in(delivery))
    }
}

/// A request that rules judge by itself, with its body read once for all of them.
pub(super) struct JudgedRequest<'a> {
    pub(super) request: RecordedRequest<'a>,
    pub(super) body: BodyFacts,
    pub(super) profile: &'a Profile,
}

impl<'a> JudgedRequest<'a> {
    pub(super) fn read(request: RecordedRequest<'a>, profile: &'a Profile) -> Self {
        Self { request, body: BodyFacts::read(request.0.transcript.body(), &profile.keys), profile }
    }

    /// `None` for a request of another operation.
    pub(super) fn only(&self, operation: Operation) -> Option<()> {
        (self.request.0.operation == Some(operation)).then_some(())
    }

    /// Says if a text has a live key in it, or else a test key.
    pub(super) fn key_in(&self, text: &str) -> Option<bool> {
        key_in(text, &self.profile.keys)
    }
}

/// A request with what rules ask of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedRequest<'a>(pub(super) &'a RequestRecord);

impl<'a> RecordedRequest<'a> {
    pub(super) fn id(self) -> &'a str {
        self.0.transcript.id()
    }

    /// Its method and path, for people.
    pub(super) fn line(self) -> String {
        let (method, target) = self.0.transcript.request_line();
        format!("{method} {}", target.split('?').next().unwrap_or_default())
    }

    /// Its target, percent-decoded.
    pub(super) fn target(self) -> Cow<'a, str> {
        percent_decode_str(self.0.transcript.request_line().1).decode_utf8_lossy()
    }

    /// The query, as sent.
    pub(super) fn query(self) -> &'a str {
        self.0.transcript.request_line().1.split_once('?').map_or("", |(_, query)| query)
    }

    /// The value of a header, by its name in lower case.
    pub(super) fn header(self, name: &str) -> Option<Cow<'a, str>> {
        self.0.transcript.headers().find(|(sent, _)| *sent == name).map(|(_, value)| value)
    }

    /// How long the answer's `Retry-After` asks to wait, in seconds or until a date; none if it has neither form.
    pub(super) fn retry_after(self) -> Option<Duration> {
        let mut headers = self.0.transcript.answer_headers();
        let (_, value) = headers.find(|(name, _)| *name == "retry-after")?;
        let value = value.trim();
        if let Ok(seconds) = value.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let until = DateTimeParser::new().parse_timestamp(value).ok()?;
        // A date is by the machine's clock while the clock runs, and a wait is judged only then.
        Duration::try_from(until.duration_since(self.0.written.at()?)).ok().or(Some(Duration::ZERO))
    }

    /// The credentials that it carries.
    pub(super) fn credentials(self) -> Option<Cow<'a, str>> {
        self.header("authorization")
    }

    /// The parts of a request that a repetition without a change has in common with it: target, body and credentials.
    pub(super) fn parts(self) -> ((&'a str, &'a str), &'a [u8], Option<Cow<'a, str>>) {
        (self.0.transcript.request_line(), self.0.transcript.body(), self.credentials())
    }

    /// How long after the answer to `earlier` its first byte was read. `None` if it was under way before, or that is not known. The
    /// second value is whether both came on one connection: in that case its sender had read that answer.
    pub(super) fn after(self, earlier: Self) -> Option<(Duration, bool)> {
        let (own, other) = (self.0.arrival, earlier.0.arrival);
        let same = own.connection == other.connection && own.connection > 0;
        if same && own.sequence <= other.sequence {
            return None;
        }
        let between = |begun: Timestamp, ended: Timestamp| Duration::try_from(ended.duration_since(begun)).ok();
        let waited = between(earlier.0.written.at()?, own.first_byte?)?;
        Some((waited + self.skipped(earlier), same))
    }

    /// By how much the key's clock was moved forward since `earlier`: a test that advances it has also waited.
    fn skipped(self, earlier: Self) -> Duration {
        let machine = self.0.arrival.first_byte.zip(earlier.0.arrival.first_byte);
        let machine = machine.map(|(own, other)| own.duration_since(other));
        let moved = machine.map(|machine| self.0.at.duration_since(earlier.0.at) - machine);
        moved.and_then(|moved| Duration::try_from(moved).ok()).filter(|moved| *moved >= MOVED).unwrap_or_default()
    }
}

/// A body.
#[derive(Debug, Default)]
pub(super) struct BodyFacts {
    pub(super) is_json: bool,
    /// The names of its fields, if it is a JSON object.
    pub(super) names: Option<Vec<String>>,
    /// Its fields `url` and `secret`, if they are texts. The last of two counts.
    pub(super) url: Option<String>,
    pub(super) secret: Option<String>,
    /// The first name that one object has twice, at any depth.
    pub(super) doubled: Option<String>,
    /// True if an API key is in it, besides in the secret, and whether that is a live one.
    pub(super) key: Option<bool>,
}

impl BodyFacts {
    pub(super) fn read(bytes: &[u8], keys: &Keys) -> Self {
        let key = || key_in(&String::from_utf8_lossy(bytes), keys);
        let Ok(json) = serde_json::from_slice::<Json>(bytes) else { return Self { key: key(), ..Self::default() } };
        let doubled = json.doubled().map(str::to_owned);
        let Json::Object(fields) = &json else { return Self { is_json: true, doubled, key: key(), ..Self::default() } };
        let last = |name: &str| match fields.iter().rev().find(|(field, _)| field == name) {
            Some((_, Json::Text(text))) => Some(text.clone()),
            _ => None,
        };
        let public = fields.iter().filter(|(name, _)| name != "secret");
        let texts = public.flat_map(|(name, value)| std::iter::once(name.as_str()).chain(value.texts()));
        Self {
            is_json: true,
            names: Some(fields.iter().map(|(name, _)| name.clone()).collect()),
            url: last("url"),
            secret: last("secret"),
            doubled,
            // A live one comes before a test key.
            key: texts.filter_map(|text| key_in(text, keys)).max(),
        }
    }
}

/// JSON that keeps every field of an object, also two of one name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Json {
    Text(String),
    Array(Vec<Self>),
    #[serde(deserialize_with = "all_fields")]
    Object(Vec<(String, Self)>),
    Other(IgnoredAny),
}

impl Json {
    /// Every text in it, names of fields included.
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::Array(items) => items.iter().flat_map(Self::texts).collect(),
            Self::Object(fields) => {
                fields.iter().flat_map(|(name, value)| std::iter::once(name.as_str()).chain(value.texts())).collect()
            }
            Self::Other(_) => Vec::new(),
        }
    }

    fn doubled(&self) -> Option<&str> {
        match self {
            Self::Array(items) => items.iter().find_map(Self::doubled),
            Self::Object(fields) => {
                let mut names = HashSet::new();
                fields.iter().find_map(|(name, value)| if names.insert(name) { value.doubled() } else { Some(name) })
            }
            Self::Text(_) | Self::Other(_) => None,
        }
    }
}

fn all_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Json)>, D::Error> {
    struct AllFields;

    impl<'de> Visitor<'de> for AllFields {
        type Value = Vec<(String, Json)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(field) = fields.next_entry()? {
                all.push(field);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_map(AllFields)
}

/// Says if a text has a live key in it, or else a test key, by their prefixes.
pub(super) fn key_in(text: &str, keys: &Keys) -> Option<bool> {
    let prefixes = [(keys.live_prefix.as_str(), true), (keys.test_prefix.as_str(), false)];
    let found = prefixes.into_iter().filter(|(prefix, _)| prefix.len() > 2).find(|(prefix, _)| {
        text.match_indices(prefix).any(|(at, _)| {
            let starts = text[..at].chars().next_back().is_none_or(|before| !before.is_ascii_alphanumeric());
            starts && text[at + prefix.len()..].bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        })
    });
    found.map(|(_, is_live)| is_live)
}
