//! Rules about signing secrets. No text of a secret leaves this file.

use std::collections::HashMap;

use super::body::Body;
use super::check::{ALWAYS, Check, Judged, OWN_SECRET, Outcome, OwnSecret, Rule, Severity, Sighting};
use super::traffic::Subject;
use crate::contract::routes::Operation;
use crate::contract::signature::{SigningKey, secret_warnings};
use crate::settings::Profile;

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
        rule: Rule::Request(weak),
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
        rule: Rule::Secrets(reused),
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
        rule: Rule::Request(is_key),
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
        rule: Rule::Request(ambiguous),
    },
];

/// Keys of fewer bytes are guessable.
const SHORT: usize = 16;
/// Words that people put where a secret belongs.
const WORDS: [&str; 8] = ["secret", "password", "changeme", "change-me", "test", "example", "dummy", "placeholder"];

/// The secret of a subscribe request.
fn secret_of<'s>(it: &'s Subject<'_>) -> Option<&'s str> {
    it.only(Operation::EventsSubscribe)?;
    it.body.secret.as_deref().filter(|secret| !secret.is_empty())
}

/// A subscribe request with its secret, for the rules that compare them.
pub(super) fn own_secret(it: Subject<'_>) -> Option<OwnSecret> {
    secret_of(&it)?;
    let Body { url, secret, .. } = it.body;
    Some(OwnSecret { request: it.request.id().to_owned(), url: url.unwrap_or_default(), secret: secret? })
}

/// Why a secret can be guessed.
fn weakness(secret: &str, profile: &Profile) -> Option<String> {
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
    let scheme = profile.schemes().into_iter().next()?;
    let key = SigningKey::read(secret, &scheme, profile.webhooks.secret_key).ok()?;
    let length = key.as_bytes().len();
    (length < SHORT).then(|| format!("a key of {length} bytes, fewer than {SHORT}"))
}

fn weak(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    Some(weakness(secret, it.profile).map(|why| Sighting::certain(it.request.id(), why)))
}

fn reused(all: &[OwnSecret]) -> Judged {
    let mut first_url: HashMap<&str, &str> = HashMap::new();
    let mut judged = Judged::default();
    for OwnSecret { request, url, secret } in all {
        let first = *first_url.entry(secret).or_insert(url);
        let detail = || format!("{url} has the secret of {first}");
        judged.count(Some((first != url).then(|| Sighting::certain(request, detail()))));
    }
    judged
}

fn is_key(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    let sent = it.request.header("authorization");
    let own = sent.as_deref().and_then(|value| value.split_once(' ')).is_some_and(|(_, key)| key.trim() == secret);
    let found = own || it.key_in(secret).is_some();
    let whose = if own { "the key of the same request" } else { "an API key" };
    Some(found.then(|| Sighting::certain(it.request.id(), format!("the signing secret is {whose}"))))
}

fn ambiguous(it: &Subject<'_>) -> Outcome {
    let secret = secret_of(it)?;
    let reading = it.profile.webhooks.secret_key;
    let warnings = it.profile.schemes().into_iter().flat_map(|scheme| secret_warnings(secret, &scheme, reading));
    let mut doubtful = warnings.filter(|warning| !warning.contains("makes a key of"));
    Some(doubtful.next().map(|warning| Sighting::likely(it.request.id(), warning)))
}
