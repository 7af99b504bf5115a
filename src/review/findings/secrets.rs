//! Rules about signing secrets. No text of a secret leaves this file.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::check::{ALWAYS, Check, Judged, OWN_SECRET, Severity, Sighting, requests, subscribe};
use super::traffic::{Request, Traffic, key_in};
use crate::contract::routes::Operation;
use crate::contract::signature::{SigningKey, secret_warnings};

/// A subscription with a secret as it should be.
const SOUND_SECRET: &str = subscribe!(r#""secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#);

/// The checks of this subject.
pub(super) const CHECKS: [Check; 4] = [
    Check {
        code: "secret-weak",
        title: "A signing secret can be guessed",
        why: "Whoever guesses it can forge events.",
        clause: "Events: the body is signed with the subscription secret",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "leave the secret out, so that the service generates one, or use 32 random bytes",
        cwe: Some(521),
        exercise: OWN_SECRET,
        judge: weak,
        example: requests(&[subscribe!(r#""secret":"mysecret123""#)], &[SOUND_SECRET]),
    },
    Check {
        code: "secret-reused",
        title: "Two URLs have the same signing secret",
        why: "Whoever runs one receiver can forge events for the other.",
        clause: "Events: the body is signed with the subscription secret",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "give each subscription a secret of its own",
        cwe: Some(323),
        exercise: OWN_SECRET,
        judge: reused,
        example: requests(
            &[
                SOUND_SECRET,
                subscribe!(
                    "sk_test_local",
                    "application/json",
                    r#""url":"https://b.sink.localhost/""#,
                    r#","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#
                ),
            ],
            &[SOUND_SECRET; 2],
        ),
    },
    Check {
        code: "secret-is-a-key",
        title: "A signing secret is an API key",
        why: "A receiver that knows its secret then knows the key, and the other way round.",
        clause: "Authentication 5; Events: the body is signed with the subscription secret",
        severity: Severity::High,
        confidence: ALWAYS,
        remedy: "use a secret that is nothing else, and replace the key",
        cwe: Some(323),
        exercise: OWN_SECRET,
        judge: is_key,
        example: requests(
            &[subscribe!(
                "sk_test_local_abcdefgh",
                "application/json",
                r#""url":"https://a.sink.localhost/""#,
                r#","secret":"sk_test_local_abcdefgh""#
            )],
            &[SOUND_SECRET],
        ),
    },
    Check {
        code: "secret-ambiguous",
        title: "Libraries read a signing secret in different ways",
        why: "A receiver in another language would refuse every delivery.",
        clause: "Events: signature header name and signing algorithm are not shown",
        severity: Severity::Low,
        confidence: "likely, as it depends on the receiver's library",
        remedy: "leave the secret out, so that the service generates one, or use `whsec_` and 24 to 64 random bytes in base64",
        cwe: None,
        exercise: OWN_SECRET,
        judge: ambiguous,
        example: requests(&[subscribe!(r#""secret":"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#)], &[SOUND_SECRET]),
    },
];

/// Keys of fewer bytes are guessable.
const SHORT: usize = 16;
/// Words that people put where a secret belongs.
const WORDS: [&str; 8] = ["secret", "password", "changeme", "change-me", "test", "example", "dummy", "placeholder"];

/// The URL and the secret of a subscribe request that has one.
fn secret_of(request: Request<'_>) -> Option<(String, String)> {
    let fields: Map<String, Value> = serde_json::from_slice(request.0.transcript.body()).ok()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("url").unwrap_or_default(), text("secret").filter(|secret| !secret.is_empty())?))
}

/// Why a secret can be guessed.
fn weakness(secret: &str, traffic: &Traffic<'_>) -> Option<String> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    let is_word = |word: &str| {
        let rest = text.to_ascii_lowercase().replace(word, "");
        rest.len() < text.len() && rest.bytes().all(|byte| !byte.is_ascii_alphabetic())
    };
    if WORDS.into_iter().any(is_word) {
        return Some("a secret made of a common word".to_owned());
    }
    let mut kinds: Vec<u8> = text.bytes().collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < 5 {
        return Some(format!("a secret of {} different characters", kinds.len()));
    }
    let scheme = traffic.profile.schemes().into_iter().next()?;
    let key = SigningKey::read(secret, &scheme, traffic.profile.webhooks.secret_key).ok()?;
    let length = key.as_bytes().len();
    (length < SHORT).then(|| format!("a key of {length} bytes, fewer than {SHORT}"))
}

pub(super) fn weak(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let (_, secret) = secret_of(*request)?;
        Some(weakness(&secret, traffic).map(|why| Sighting::certain(request.id(), why)))
    })
}

pub(super) fn reused(traffic: &Traffic<'_>) -> Judged {
    let mut first_url: HashMap<String, String> = HashMap::new();
    let mut judged = Judged::default();
    for request in traffic.of(Operation::EventsSubscribe) {
        let Some((url, secret)) = secret_of(request) else { continue };
        judged.judged += 1;
        let first = first_url.entry(secret).or_insert_with(|| url.clone());
        if *first != url {
            judged.found.push(Sighting::certain(request.id(), format!("{url} has the secret of {first}")));
        }
    }
    judged
}

pub(super) fn is_key(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let (_, secret) = secret_of(*request)?;
        let sent = request.header("authorization");
        let own = sent.as_deref().and_then(|value| value.split_once(' ')).is_some_and(|(_, key)| key.trim() == secret);
        let found = own || key_in(&secret, traffic.keys()).is_some();
        let whose = if own { "the key of the same request" } else { "an API key" };
        Some(found.then(|| Sighting::certain(request.id(), format!("the signing secret is {whose}"))))
    })
}

pub(super) fn ambiguous(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let (_, secret) = secret_of(*request)?;
        let reading = traffic.profile.webhooks.secret_key;
        let warnings =
            traffic.profile.schemes().into_iter().flat_map(|scheme| secret_warnings(&secret, &scheme, reading));
        let mut doubtful = warnings.filter(|warning| !warning.contains("makes a key of"));
        Some(doubtful.next().map(|warning| Sighting::likely(request.id(), warning)))
    })
}
