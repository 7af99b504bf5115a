//! The content of one attempt: the event's bytes, unchanged unless they are to be forged, with headers signed with the secrets and the
//! time of the attempt. The built-in receiver's verification of it is also here.

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use jiff::Timestamp;

use crate::clock::{Clock, Now, machine};
use crate::contract::signature::{Message, Scheme, SigningKey, TOLERANCE_SECONDS, Tamper, sign, sign_forged, verify};
use crate::settings::{Profile, SignatureTime};
use crate::state::workspace::{Job, Secret, SignedContent};
use crate::util::header_lines::{HeaderLines, push_header};

/// Names the delivery in the request that carries it.
pub const DELIVERY: HeaderName = HeaderName::from_static("x-emulator-delivery");

#[derive(Default)]
pub struct SignedDelivery {
    /// Headers in sending order, without `host` and `content-length`.
    pub headers: HeaderMap,
    /// The same as lines.
    pub(super) lines: HeaderLines,
    /// The event's bytes, unless the delivery is forged.
    pub body: Bytes,
    pub(super) signed: SignedContent,
}

/// The input of signing: an event on its way to one receiver.
#[derive(Clone, Copy, Debug)]
pub struct Unsigned<'a> {
    pub id: &'a str,
    pub event_type: &'a str,
    pub body: &'a Bytes,
    pub url: &'a str,
    pub tamper: Option<Tamper>,
    /// The id of the delivery; `None` for one that is not sent.
    pub delivery: Option<&'a str>,
}

impl<'a> From<&'a Job> for Unsigned<'a> {
    fn from(Job { delivery, event, .. }: &'a Job) -> Self {
        Self {
            id: &event.id,
            event_type: &event.event_type,
            body: &event.body,
            url: delivery.url.as_str(),
            tamper: event.tamper,
            delivery: Some(&delivery.id),
        }
    }
}

pub fn sign_delivery(
    unsigned: Unsigned<'_>,
    secrets: &[Secret],
    profile: &Profile,
    at: Timestamp,
) -> Result<SignedDelivery, String> {
    let Unsigned { id, event_type, body, url, tamper, delivery } = unsigned;
    let message = Message { id, timestamp: at.as_second(), url, body };
    let mut content = None;
    let mut lines = Vec::with_capacity(384);
    let mut names = Vec::with_capacity(8);
    let mut push = |name: HeaderName, value: &str| {
        push_header(&mut lines, name.as_str(), value.as_bytes());
        let end = lines.len() - "\r\n".len();
        names.push((name, end - value.len()..end));
    };
    push(CONTENT_TYPE, "application/json");
    if !profile.webhooks.user_agent.is_empty() {
        push(USER_AGENT, &profile.webhooks.user_agent);
    }
    for (name, value) in &profile.webhooks.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
        push(name, value);
    }
    if let Some(delivery) = delivery {
        push(DELIVERY, delivery);
    }
    for scheme in profile.schemes() {
        let keys = signing_keys(secrets, &scheme, profile).map_err(|problem| format!("the secret {problem}"))?;
        let signed = match tamper {
            None => sign(&scheme, &keys, &message),
            Some(tamper) => sign_forged(&scheme, &keys, &message, tamper),
        };
        for (name, value) in scheme.event_headers(event_type) {
            push(HeaderName::from_static(name), value);
        }
        for (name, value) in signed.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            push(name, &value);
        }
        content.get_or_insert(signed.content);
    }
    // With room for the two that are added when it is sent. The values are parts of the lines.
    let (mut headers, lines, mut is_twice) = (HeaderMap::with_capacity(8), Bytes::from(lines), false);
    for (name, value) in names {
        let value = HeaderValue::from_maybe_shared(lines.slice(value)).map_err(|error| error.to_string())?;
        is_twice |= headers.insert(name, value).is_some();
    }
    let lines = if is_twice { HeaderLines::of(&headers) } else { HeaderLines::from_lines(lines) };
    let signed = content.map(|content| SignedContent::new(content, body)).unwrap_or_default();
    let forged = tamper.and_then(|tamper| tamper.falsify_body(body));
    let body = forged.map_or_else(|| body.clone(), Bytes::from);
    Ok(SignedDelivery { headers, lines, body, signed })
}

pub fn signing_keys(secrets: &[Secret], scheme: &Scheme, profile: &Profile) -> Result<Vec<SigningKey>, String> {
    let read = |secret: &Secret| secret.signing_key(scheme, profile.webhooks.secret_key);
    secrets.iter().map(read).collect::<Result<_, _>>().map_err(|problem| problem.to_string())
}

/// The timestamp of a signature, by the setting `webhooks.timestamp`: receivers compare it with their own clock.
pub fn signature_time(clock: &Clock, now: Now, profile: &Profile) -> Timestamp {
    match profile.webhooks.timestamp {
        SignatureTime::Real => machine::wall_time(),
        SignatureTime::Clock => now.wall,
        SignatureTime::Auto => clock.shared_time(now),
    }
}

pub fn signs_by_clock(clock: &Clock, profile: &Profile) -> bool {
    match profile.webhooks.timestamp {
        SignatureTime::Real => false,
        SignatureTime::Clock => true,
        SignatureTime::Auto => clock.is_stopped(),
    }
}

/// Verifies a delivery with every scheme of the profile, as the built-in receiver does.
pub(super) fn verify_delivery(
    job: &Job,
    sent: &SignedDelivery,
    secrets: &[Secret],
    profile: &Profile,
    now: Timestamp,
) -> Result<(), String> {
    let header = |name: &str| sent.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    for scheme in profile.schemes() {
        let keys = signing_keys(secrets, &scheme, profile)?;
        let (url, at) = (job.delivery.url.as_str(), now.as_second());
        verify(&scheme, &keys, &header, url, &sent.body, at, TOLERANCE_SECONDS)
            .map_err(|rejection| rejection.to_string())?;
    }
    Ok(())
}
