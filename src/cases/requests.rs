//! The requests of a case: the event's bytes, the headers that sign them, and the falsified part. Pure. Whether a forgery means anything
//! under a scheme, as some sign no timestamp, is found by verifying it the way the scheme's own libraries do.

use std::borrow::Cow;

use hyper::body::Bytes;
use rand::RngExt as _;
use serde_json::{Map, Value, json};

use super::table::{Case, EventShape, Expectation, Sending, SignatureVariant};
use crate::clock::Seed;
use crate::contract::ids::{IdKind, make_id};
use crate::contract::signature::{
    CustomScheme, Departure, KeyReading, Message, Scheme, SchemeName, Signed, SigningKey, TOLERANCE_SECONDS,
    another_key, rewrites, sign, sign_as, sign_forged, verify,
};
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{EventEnvelope, REFERENCE_MATCHED, WORKFLOW_COMPLETED};
use crate::contract::variation::HeaderLetters;
use crate::scenario::template::{Gap, render_map};
use crate::settings::Profile;

/// Maximum number of requests that try to find out what the receiver verifies instead of a valid delivery.
const MAX_VARIATIONS: usize = 48;
/// How many of them have a body in another form before the rarest differences are tried.
const COMMON_REWRITES: usize = 8;
/// The `User-Agent` of requests that are not deliveries; for deliveries a setting decides.
const USER_AGENT: &str = concat!("wrs-emulator/", env!("CARGO_PKG_VERSION"), " probe");

/// The secret and settings that sign every delivery of a probe.
#[derive(Clone, Debug)]
pub struct ProbeSigning {
    pub scheme: Scheme,
    /// The texts of the secrets, newest first; at least one, each a key under the scheme.
    pub secrets: Vec<String>,
    pub reading: KeyReading,
    /// The custom scheme of the settings, in use or not.
    pub custom: CustomScheme,
    /// The URL of the subscription, which a custom scheme may sign.
    pub url: String,
}

impl ProbeSigning {
    fn keys(&self) -> Vec<SigningKey> {
        let read = |secret: &String| SigningKey::read(secret, &self.scheme, self.reading).ok();
        self.secrets.iter().filter_map(read).collect()
    }
}

/// An event of a probe, and the time at which it is sent. Its forms are those of the settings, as in every delivery of the emulator: a
/// receiver may check each of them.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    pub profile: &'a Profile,
    /// Determines the event's id.
    pub event: &'a str,
    /// Determines what its data is about.
    pub subject: &'a str,
    pub created: jiff::Timestamp,
    pub now: jiff::Timestamp,
}

impl Occasion<'_> {
    fn event_id(&self) -> String {
        let mut random = Seed::from_number(0).source(self.event);
        let serial = random.random_range(1..100_000_000);
        let millis = u64::try_from(self.created.as_millisecond()).unwrap_or_default();
        make_id(IdKind::Event, self.profile.ids.style, millis, serial, &mut random)
    }

    fn data(&self, event_type: &str) -> Map<String, Value> {
        data(self.profile, event_type, self.subject, self.created).expect("it was rendered before the probe began")
    }
}

/// The usual data of an event type; the error says why its templates cannot be rendered.
fn data(
    profile: &Profile,
    event_type: &str,
    subject: &str,
    created: jiff::Timestamp,
) -> Result<Map<String, Value>, String> {
    let Some(template) = profile.events.data.get(event_type) else { return Ok(Map::new()) };
    let random = || Seed::from_number(0).source(subject);
    let (data, gaps) = render_map(template, &Map::new(), created, random)?;
    match gaps.iter().find_map(Gap::failure) {
        Some(failure) => Err(failure.to_owned()),
        None => Ok(data),
    }
}

/// Checks that the events of a probe can be made by these settings; the error names the setting.
pub fn check_events(profile: &Profile) -> Result<(), String> {
    [WORKFLOW_COMPLETED, REFERENCE_MATCHED].into_iter().try_for_each(|event_type| {
        let made = data(profile, event_type, "trial", jiff::Timestamp::UNIX_EPOCH);
        made.map(drop).map_err(|problem| format!("events.data.\"{event_type}\": {problem}"))
    })
}

#[derive(Clone, Debug)]
pub struct ProbeRequest {
    pub method: &'static str,
    /// Names in lower case, without `host`.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub is_slow: bool,
    pub is_chunked: bool,
    pub letters: HeaderLetters,
}

impl ProbeRequest {
    /// True if the libraries of the scheme accept it.
    fn verifies(&self, signing: &ProbeSigning, now: i64) -> bool {
        let header =
            |sought: &str| self.headers.iter().find(|(name, _)| name == sought).map(|(_, value)| value.clone());
        let keys = signing.keys();
        verify(&signing.scheme, &keys, &header, &signing.url, &self.body, now, TOLERANCE_SECONDS).is_ok()
    }
}

/// True if a case means anything under the scheme: what must be refused can be detected, what must be accepted verifies.
pub fn is_applicable(case: &Case, signing: &ProbeSigning, occasion: Occasion<'_>) -> bool {
    if case.needs_two_secrets() && signing.secrets.len() < 2 {
        return false;
    }
    let verifies = |sending| make(sending, signing, occasion).verifies(signing, occasion.now.as_second());
    match case.expects {
        Expectation::Refused => !case.requests.iter().any(verifies),
        Expectation::Accepted | Expectation::Either | Expectation::OneEffect | Expectation::IfSubscribed => {
            case.requests.iter().all(verifies)
        }
        Expectation::NoEffect => true,
    }
}

pub fn make(sending: &Sending, signing: &ProbeSigning, occasion: Occasion<'_>) -> ProbeRequest {
    match sending.event {
        EventShape::None => request(sending, vec![("user-agent".to_owned(), USER_AGENT.to_owned())], Vec::new()),
        event => delivery(sending, signing, occasion, body(event, occasion).into_bytes()),
    }
}

fn delivery(sending: &Sending, signing: &ProbeSigning, occasion: Occasion<'_>, body: Vec<u8>) -> ProbeRequest {
    let id = occasion.event_id();
    let message = Message { id: &id, timestamp: occasion.now.as_second(), url: &signing.url, body: &body };
    let signed = signed(sending.signing, signing, &message);
    let body = match sending.signing {
        SignatureVariant::BodyDropped => Vec::new(),
        SignatureVariant::Tampered(tamper) => tamper.falsify_body(&body).unwrap_or(body),
        _ => body,
    };
    let webhooks = &occasion.profile.webhooks;
    let mut headers = vec![("content-type".to_owned(), sending.content_type.to_owned())];
    if !webhooks.user_agent.is_empty() {
        headers.push(("user-agent".to_owned(), webhooks.user_agent.clone()));
    }
    headers.extend(webhooks.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
    headers.push(if sending.is_chunked {
        ("transfer-encoding".to_owned(), "chunked".to_owned())
    } else {
        ("content-length".to_owned(), body.len().to_string())
    });
    let more =
        signing.scheme.event_headers("workflow.completed").map(|(name, value)| (name.to_owned(), value.to_owned()));
    headers.extend(more);
    headers.extend(signed.headers.into_iter().map(|(name, value)| (name.into_owned(), value)));
    request(sending, headers, body)
}

fn request(sending: &Sending, headers: Vec<(String, String)>, body: Vec<u8>) -> ProbeRequest {
    let Sending { method, is_slow, is_chunked, letters, .. } = *sending;
    ProbeRequest { method, headers, body: body.into(), is_slow, is_chunked, letters }
}

/// Valid deliveries signed with the secret read in another way, signed by another scheme or by hand, or with a body in another form.
/// Each comes with an explanation: what a receiver does wrong if it accepts this one but not the usual delivery.
pub fn variations(signing: &ProbeSigning, occasion: Occasion<'_>) -> Vec<(String, ProbeRequest)> {
    let mut found = Vec::new();
    let readings = readings(signing);
    for (what, other) in &readings {
        found.push((what.clone(), make(&Sending::VALID, other, occasion)));
    }
    for name in SchemeName::ALL {
        let other = ProbeSigning { scheme: Scheme::new(name, &signing.custom), ..signing.clone() };
        if other.scheme != signing.scheme && name != SchemeName::Custom && !other.keys().is_empty() {
            let what = format!("it verifies the scheme `{name}` (--scheme {name})");
            found.push((what, make(&Sending::VALID, &other, occasion)));
        }
    }
    let mut departures = signing.scheme.departures();
    departures.retain(|(departures, _)| departures.iter().all(|departure| departure.is_by_hand()));
    let departing = |(departures, scheme): &(Vec<Departure>, Scheme), other: &ProbeSigning| {
        let request = make(&Sending::VALID, &ProbeSigning { scheme: scheme.clone(), ..other.clone() }, occasion);
        let departures: Vec<String> = departures.iter().map(Departure::to_string).collect();
        let (scheme, departures) = (&signing.scheme, departures.join(" and "));
        let (name, content, form) = (scheme.name(), scheme.content(), scheme.written());
        (format!("it expects a signature {departures}; the scheme `{name}` signs `{content}`, {form}"), request)
    };
    found.extend(departures.iter().map(|departure| departing(departure, signing)));
    let mut rewritten = rewrites(body(EventShape::Plain, occasion).as_bytes())
        .map(|(form, body)| {
            let what = format!(
                "it always verifies the body {form}: verify the bytes as received, not a body that was parsed and serialised again"
            );
            (what, delivery(&Sending::VALID, signing, occasion, body))
        })
        .take(MAX_VARIATIONS)
        .collect::<Vec<_>>();
    let rare = rewritten.split_off(rewritten.len().min(COMMON_REWRITES));
    found.extend(rewritten);
    for (reading, other) in &readings {
        found.extend(
            departures
                .iter()
                .map(|departure| departing(departure, other))
                .map(|(what, request)| (format!("{reading}, and {what}"), request)),
        );
    }
    found.extend(rare);
    found.truncate(MAX_VARIATIONS);
    found
}

/// The other ways to read the secret that give other keys, and what a receiver does that reads it so.
fn readings(signing: &ProbeSigning) -> Vec<(String, ProbeSigning)> {
    let mut seen: Vec<Vec<u8>> = first_key(signing).into_iter().collect();
    let is_text = signing.secrets.first().is_some_and(|secret| seen.iter().any(|key| key == secret.as_bytes()));
    let right = if is_text { "use the text as it is" } else { "decode the base64 after `whsec_`" };
    let mut others: Vec<(String, ProbeSigning)> = KeyReading::ALL
        .into_iter()
        .map(|reading| {
            let what = match reading {
                KeyReading::Utf8 => "it reads the secret as text",
                KeyReading::Utf8WithPrefix => "it reads the whole secret as text",
                KeyReading::Auto | KeyReading::Base64 => "it decodes the secret from base64",
                KeyReading::Hex => "it decodes the secret from hex",
            };
            let what = format!("{what}; {right} (it accepts --secret-key {})", reading.name());
            (what, ProbeSigning { reading, ..signing.clone() })
        })
        .collect();
    others.retain(|(_, other)| match first_key(other) {
        Some(key) if !seen.contains(&key) => {
            seen.push(key);
            true
        }
        _ => false,
    });
    others
}

fn first_key(signing: &ProbeSigning) -> Option<Vec<u8>> {
    signing.keys().first().map(|key| key.as_bytes().to_vec())
}

fn signed(how: SignatureVariant, signing: &ProbeSigning, message: &Message<'_>) -> Signed {
    let (scheme, mut keys) = (&signing.scheme, signing.keys());
    let mut signed = match how {
        SignatureVariant::Tampered(tamper) => sign_forged(scheme, &keys, message, tamper),
        SignatureVariant::TimestampText => sign_as(scheme, &keys, message, "soon".to_owned()),
        SignatureVariant::RotationFirst => {
            keys.insert(0, another_key(&keys[0]));
            sign(scheme, &keys, message)
        }
        SignatureVariant::RotationLast => {
            keys.push(another_key(&keys[0]));
            sign(scheme, &keys, message)
        }
        SignatureVariant::NewestAlone => sign(scheme, &keys[..1], message),
        SignatureVariant::OldestAlone => sign(scheme, &keys[keys.len() - 1..], message),
        _ => sign(scheme, &keys, message),
    };
    let signatures = std::mem::take(&mut signed.signatures);
    let is_signature = |value: &str| signatures.iter().any(|signature| value.contains(signature.as_str()));
    match how {
        SignatureVariant::NoSignature => signed.headers.retain(|(_, value)| !is_signature(value)),
        SignatureVariant::EmptySignature => {
            for (_, value) in signed.headers.iter_mut().filter(|(_, value)| is_signature(value)) {
                value.clear();
            }
        }
        SignatureVariant::OtherVersion => rewrite(&mut signed.headers, &signatures, under_another_version),
        SignatureVariant::Cut(characters) => rewrite(&mut signed.headers, &signatures, |signature| {
            let version = version_of(signature).map_or(0, |version| version.len() + 1);
            signature[..version + characters].to_owned()
        }),
        SignatureVariant::TimestampChanged => {
            let (before, after) = (message.timestamp.to_string(), (message.timestamp + 1).to_string());
            for (_, value) in &mut signed.headers {
                *value = if *value == before {
                    after.clone()
                } else {
                    value.replace(&format!("t={before}"), &format!("t={after}"))
                };
            }
        }
        SignatureVariant::IdChanged => {
            for (_, value) in signed.headers.iter_mut().filter(|(_, value)| value == message.id) {
                value.push('0');
            }
        }
        SignatureVariant::Genuine
        | SignatureVariant::Tampered(_)
        | SignatureVariant::TimestampText
        | SignatureVariant::BodyDropped
        | SignatureVariant::RotationFirst
        | SignatureVariant::RotationLast
        | SignatureVariant::NewestAlone
        | SignatureVariant::OldestAlone => {}
    }
    signed
}

/// Replaces each signature in the headers.
fn rewrite(headers: &mut [(Cow<'static, str>, String)], signatures: &[String], change: impl Fn(&str) -> String) {
    for (_, value) in headers {
        for signature in signatures {
            *value = value.replace(signature.as_str(), &change(signature));
        }
    }
}

/// The word in front of a signature, if there is one: not in `shopify`.
fn version_of(signature: &str) -> Option<&str> {
    // Everything after the first `=` of bare base64 is its padding.
    signature.split_once([',', '=']).filter(|(_, rest)| rest.len() > 8).map(|(version, _)| version)
}

/// The signature with `v9` instead of the word in front of it.
fn under_another_version(signature: &str) -> String {
    version_of(signature).map_or_else(|| signature.to_owned(), |version| format!("v9{}", &signature[version.len()..]))
}

fn body(event: EventShape, occasion: Occasion<'_>) -> String {
    let id = occasion.event_id();
    let created = match event {
        EventShape::Older => occasion.created - jiff::SignedDuration::from_hours(1),
        _ => occasion.created,
    };
    let event_type = match event {
        EventShape::UnknownType => "workflow.probed",
        EventShape::Matched | EventShape::EmptyData => REFERENCE_MATCHED,
        _ => WORKFLOW_COMPLETED,
    };
    let mut data = match event {
        EventShape::EmptyData => Map::new(),
        EventShape::UnknownType => occasion.data(WORKFLOW_COMPLETED),
        _ => occasion.data(event_type),
    };
    let unknown_field = match event {
        EventShape::UnknownFields => Some(json!({ "by": ["wrs-emulator", null, 1.5, true] })),
        EventShape::Large => Some(json!("0123456789abcdef".repeat(64 * 1024 / 16))),
        EventShape::Unicode => Some(json!("Grüße, 東京, e\u{301}, \u{1f469}\u{200d}\u{1f52c}, \u{2028}, </script>")),
        _ => None,
    };
    data.extend(unknown_field.map(|value| ("probed".to_owned(), value)));
    let created_at = timestamp_of(&id, created, occasion.profile.time.precision);
    let envelope = EventEnvelope { id, event_type: event_type.to_owned(), created_at, data };
    let mut value = serde_json::to_value(&envelope).expect("strings and JSON values always serialise");
    match event {
        EventShape::None => String::new(),
        EventShape::Spaced => {
            let fields = value.as_object().into_iter().flatten().rev();
            let reversed: Map<String, Value> = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
            // Line ends are between values alone: those within a text are escaped.
            format!("{:#}\n", Value::Object(reversed)).replace('\n', "\n ")
        }
        EventShape::UnknownFields => {
            value["probe_version"] = json!(2);
            value.to_string()
        }
        _ => value.to_string(),
    }
}
