//! Verifies one delivery as the scheme's receiver libraries do, and returns why if it fails.
//!
//! The order of the checks, and which way a timestamp may be off, are those of the libraries:
//! most check the time first and in both directions; Stripe's check the signature first and accept
//! timestamps from the future. Signatures are compared in constant time, as text, every one against
//! every key. Independent of which clock `now` is from.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq as _};

use super::key::SigningKey;
use super::scheme::{Hash, HeaderForm, Scheme, SchemeName, Values, render};

/// How far off a timestamp may be, as in every scheme's libraries.
pub const TOLERANCE_SECONDS: i64 = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The event's id, if the scheme has a header for it; `github` and `shopify` do not sign it.
    pub id: Option<String>,
    /// Unix seconds of the attempt, if the scheme sends them.
    pub timestamp: Option<i64>,
}

/// Why a delivery was rejected; the text names what to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("no signing secret to verify with: give the receiver the subscription's secret")]
    NoKey,
    /// A header that the scheme needs is absent or empty.
    #[error("no `{header}` header: check the scheme, and that nothing on the way drops the header")]
    MissingHeader { header: String },
    #[error("expected the timestamp in whole Unix seconds, found `{}`", value.escape_debug())]
    BadTimestamp { value: String },
    #[error(
        "the timestamp is {seconds_old} s old and {tolerance} s are tolerated: \
         check the receiver's clock; it may be a replay"
    )]
    Stale { seconds_old: i64, tolerance: i64 },
    #[error(
        "the timestamp is {seconds_ahead} s ahead and {tolerance} s are tolerated: {}",
        ahead_hint(*seconds_ahead)
    )]
    Future { seconds_ahead: i64, tolerance: i64 },
    #[error(
        "the `{header}` header `{}` does not have the scheme's form: \
         check the scheme, and that all of the header is passed on", value.escape_debug()
    )]
    MalformedSignature { header: String, value: String },
    #[error(
        "expected `{expected}`, found `{}`: check that the body is the raw bytes received, \
         that the secret is the subscription's, and how it is read (`webhooks.secret_key`)",
        got.join(" ").escape_debug()
    )]
    Mismatch {
        /// The signature by the newest key, as in the header.
        expected: String,
        got: Vec<String>,
    },
}

fn ahead_hint(seconds_ahead: i64) -> &'static str {
    // Three thousand years ahead is a present time in milliseconds.
    if seconds_ahead > 100_000_000_000 {
        "it looks like milliseconds, expected seconds"
    } else {
        "check the receiver's clock"
    }
}

/// Checks a delivery: its headers, its time and its signature under any of `keys`.
///
/// `header` looks a header up by its lower-case name; `url` is the one the delivery was addressed
/// to and matters to `custom` schemes only; `body` is the raw bytes; `now` is Unix seconds.
/// A timestamp may be up to `tolerance_seconds` off; `i64::MAX` tolerates any. As in its libraries,
/// `stripe` accepts any timestamp from the future, and any at all with a tolerance of zero or less;
/// `svix` falls back to the `webhook-` headers; `github` and `shopify` have no timestamp.
pub fn verify(
    scheme: &Scheme,
    keys: &[SigningKey],
    header: &dyn Fn(&str) -> Option<String>,
    url: &str,
    body: &[u8],
    now: i64,
    tolerance_seconds: i64,
) -> Result<Verified, Rejection> {
    // An empty header counts as missing: every library tests for truth or for content.
    let header = |name: &str| header(name).filter(|value| !value.is_empty());
    let scheme = scheme_sent(scheme, &header);

    let required = |name: &str| header(name).ok_or_else(|| Rejection::MissingHeader { header: name.to_owned() });
    let id = match scheme.id_header.as_deref() {
        Some(name) if scheme.id_required => Some(required(name)?),
        Some(name) => header(name),
        None => None,
    };
    let separate_timestamp = scheme.timestamp_header.as_deref().map(required).transpose()?;
    let signature = scheme.wrapping.unwrap(required(&scheme.signature_header)?);
    let timestamp_text = match scheme.form {
        HeaderForm::Parts => Some(timestamp_part(scheme, &signature)?),
        HeaderForm::Tokens | HeaderForm::One => separate_timestamp,
    };
    let timestamp = timestamp_text.as_deref().map(parse_timestamp).transpose()?;
    let is_time_last = scheme.checks_time_last();
    if let (Some(timestamp), false) = (timestamp, is_time_last) {
        check_time(timestamp, now, tolerance_seconds)?;
    }
    let (id_text, timestamp_text) = (id.as_deref().unwrap_or_default(), timestamp_text.unwrap_or_default());
    let values = Values { id: id_text, timestamp: &timestamp_text, url, body };
    check_signature(scheme, keys, &render(&scheme.content, &values), &signature)?;
    if let (Some(timestamp), true) = (timestamp, is_time_last && tolerance_seconds > 0) {
        // A timestamp from the future counts as the present.
        check_time(timestamp.min(now), now, tolerance_seconds)?;
    }
    Ok(Verified { id, timestamp })
}

/// The scheme, or the unbranded one where Svix's libraries fall back to it: all or nothing.
fn scheme_sent<'s>(scheme: &'s Scheme, header: &impl Fn(&str) -> Option<String>) -> &'s Scheme {
    const FALLBACK: &Scheme = &Scheme::STANDARD;
    let complete = |scheme: &Scheme| scheme.header_names().all(|name| header(name).is_some());
    let falls_back = scheme.name == SchemeName::Svix && !complete(scheme) && complete(FALLBACK);
    if falls_back { FALLBACK } else { scheme }
}

/// Only the plain spelling is accepted: some libraries sign the text and others the number that
/// they read from it, and the two differ for any other spelling.
fn parse_timestamp(text: &str) -> Result<i64, Rejection> {
    text.parse::<i64>()
        .ok()
        .filter(|timestamp| timestamp.to_string() == text)
        .ok_or_else(|| Rejection::BadTimestamp { value: text.to_owned() })
}

fn check_time(timestamp: i64, now: i64, tolerance: i64) -> Result<(), Rejection> {
    let (seconds_old, seconds_ahead) = (now.saturating_sub(timestamp), timestamp.saturating_sub(now));
    if seconds_old > tolerance.max(0) {
        return Err(Rejection::Stale { seconds_old, tolerance });
    }
    if seconds_ahead > tolerance.max(0) {
        return Err(Rejection::Future { seconds_ahead, tolerance });
    }
    Ok(())
}

fn check_signature(scheme: &Scheme, keys: &[SigningKey], content: &[u8], header_value: &str) -> Result<(), Rejection> {
    let got = signatures(scheme, header_value)?;
    let expected: Vec<String> = keys.iter().map(|key| scheme.token(&expected(key, scheme.hash, content))).collect();
    // Every pair is compared, so that the time taken reveals neither which key nor which signature.
    let mut found = Choice::from(0);
    for expected in &expected {
        for got in &got {
            found |= expected.as_bytes().ct_eq(got.as_bytes());
        }
    }
    if bool::from(found) {
        return Ok(());
    }
    Err(match expected.into_iter().next() {
        Some(expected) => Rejection::Mismatch { expected, got },
        None => Rejection::NoKey,
    })
}

/// The HMAC that a signature is compared with, with the hashes in use today from another library than the one that
/// signs, so that our tests notice an error in either.
fn expected(key: &SigningKey, hash: Hash, content: &[u8]) -> Vec<u8> {
    fn by<M: KeyInit + Mac>(key: &[u8], content: &[u8]) -> Vec<u8> {
        let keyed = <M as KeyInit>::new_from_slice(key).expect("HMAC hashes or pads a key of any length");
        keyed.chain_update(content).finalize().into_bytes().to_vec()
    }
    match hash {
        Hash::Sha1 => key.sign(hash, content).as_ref().to_vec(),
        Hash::Sha256 => by::<Hmac<Sha256>>(key.as_bytes(), content),
        Hash::Sha512 => by::<Hmac<Sha512>>(key.as_bytes(), content),
    }
}

/// The signatures a header carries, as written in it; at least one of them well-formed.
///
/// Tokens and parts of other versions are skipped: that is how schemes evolve.
fn signatures(scheme: &Scheme, value: &str) -> Result<Vec<String>, Rejection> {
    let candidates: Vec<&str> = match scheme.form {
        HeaderForm::Tokens => value.split(' ').collect(),
        HeaderForm::Parts => value.split(',').collect(),
        HeaderForm::One => vec![value],
    };
    let length = scheme.hash.length();
    let mut well_formed = false;
    let mut found = Vec::new();
    for candidate in candidates {
        if let Some(signature) = candidate.strip_prefix(&*scheme.prefix) {
            well_formed |= scheme.encoding.looks_like(signature, length);
            found.push(candidate.to_owned());
        }
    }
    if well_formed { Ok(found) } else { Err(malformed(scheme, value)) }
}

/// The only `t=` part of Stripe's header; two are refused because some libraries use the first and some the last.
fn timestamp_part(scheme: &Scheme, value: &str) -> Result<String, Rejection> {
    let mut parts = value.split(',').filter_map(|part| part.strip_prefix("t="));
    match (parts.next(), parts.next()) {
        (Some(timestamp), None) => Ok(timestamp.to_owned()),
        _ => Err(malformed(scheme, value)),
    }
}

fn malformed(scheme: &Scheme, value: &str) -> Rejection {
    Rejection::MalformedSignature { header: scheme.signature_header.to_string(), value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::contract::signature::{CustomScheme, Encoding, KeyReading, Message, sign};

    const NOW: i64 = 1_700_000_000;
    const URL: &str = "https://receiver.example/";
    const BODY: &[u8] = br#"{"type":"workflow.completed"}"#;

    type HeaderPairs = Vec<(Cow<'static, str>, String)>;

    fn key(bytes: &[u8]) -> SigningKey {
        SigningKey::from_bytes(bytes.to_vec()).unwrap()
    }

    fn look_up(headers: &HeaderPairs) -> impl Fn(&str) -> Option<String> {
        |sought| headers.iter().find(|(name, _)| name == sought).map(|(_, value)| value.clone())
    }

    /// Signs a genuine delivery, applies `tamper` to its headers, and verifies it.
    fn check(name: SchemeName, tamper: impl FnOnce(&mut HeaderPairs), now: i64, expected: Result<(), &str>) {
        let scheme = Scheme::new(name, &CustomScheme::default());
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let key = SigningKey::read(secret, &scheme, KeyReading::Auto).unwrap();
        let message = Message { id: "evt_1", timestamp: NOW, url: URL, body: BODY };
        let mut headers = sign(&scheme, std::slice::from_ref(&key), &message).headers;
        tamper(&mut headers);
        let found = verify(&scheme, &[key], &look_up(&headers), URL, BODY, now, 300);
        match (found.map_err(|rejection| rejection.to_string()), expected) {
            (Ok(_), Ok(())) => {}
            (Err(rejection), Err(part)) if rejection.contains(part) => {}
            (found, _) => panic!("{name}: expected {expected:?}, found {found:?}"),
        }
    }

    /// Replaces `from` in the value of the header at `at`.
    fn replace(at: usize, from: &str, to: &str) -> impl FnOnce(&mut HeaderPairs) {
        move |headers| {
            let value = &mut headers[at].1;
            assert!(value.contains(from), "{value:?} has no {from:?}");
            *value = value.replacen(from, to, 1);
        }
    }

    #[test]
    fn time_is_checked_as_the_libraries_do() {
        use SchemeName::{Custom, Github, Shopify, Slack, Standard, Stripe, Svix};
        for name in [Standard, Svix, Slack, Custom] {
            check(name, |_| {}, NOW + 300, Ok(()));
            check(name, |_| {}, NOW + 301, Err("301 s old and 300 s"));
            check(name, |_| {}, NOW - 300, Ok(()));
            check(name, |_| {}, NOW - 301, Err("301 s ahead and 300 s"));
            check(name, |_| {}, i64::MIN, Err("ahead"));
            check(name, |_| {}, i64::MAX, Err("old"));
            // A replay is refused for its age; with a fresh timestamp instead, its signature no longer matches.
            let at = usize::from(name != Slack);
            check(name, replace(at, "17", "18"), NOW, Err("s ahead"));
            check(name, replace(at, "1700000000", "1700000001"), NOW, Err("raw bytes"));
            check(name, replace(at, "1700000000", "1700000000000"), NOW, Err("milliseconds"));
            for text in ["soon", "+1700000000", "01700000000", " 1700000000", "1.7e9", "9".repeat(30).as_str()] {
                check(name, replace(at, "1700000000", text), NOW, Err("whole Unix seconds"));
            }
        }
        check(Stripe, |_| {}, NOW + 300, Ok(()));
        check(Stripe, |_| {}, NOW + 301, Err("301 s old and 300 s"));
        check(Stripe, |_| {}, NOW - 1_000_000, Ok(()));
        check(Stripe, replace(0, "t=17", "t=18"), NOW, Err("raw bytes"));
        check(Stripe, replace(0, "t=17", "t=x"), NOW, Err("whole Unix seconds"));
        for name in [Github, Shopify] {
            check(name, |_| {}, i64::MAX, Ok(()));
        }
    }

    #[test]
    fn signature_headers_are_read_as_the_libraries_do() {
        use SchemeName::{Github, Shopify, Slack, Standard, Stripe, Svix};
        let malformed = Err("scheme's form");
        for (name, at, from, to, expected) in [
            (Standard, 2, "v1,", "v1a,x v2, v1,x v1,", Ok(())),
            (Standard, 2, "=", "= v1,x", Ok(())),
            (Standard, 2, "v1,", "v2,", malformed),
            (Standard, 0, "evt_1", "evt_2", Err("raw bytes")),
            (Stripe, 0, ",v1=", ",v0=aa,v1=bb,v1=", Ok(())),
            (Stripe, 0, "v1=", "v0=", malformed),
            (Stripe, 0, "t=", "s=", malformed),
            (Stripe, 0, "t=", "t=1,t=", malformed),
            (Github, 1, "sha256=", "sha1=", malformed),
            (Github, 1, "sha256=", "", malformed),
            (Slack, 1, "v0=", "v1=", malformed),
        ] {
            check(name, replace(at, from, to), NOW, expected);
        }
        for name in SchemeName::ALL {
            check(name, |headers| _ = headers.last_mut().unwrap().1.pop(), NOW, malformed);
            check(name, |headers| headers.last_mut().unwrap().1.clear(), NOW, Err("no `"));
        }
        for (name, at, expected) in [
            (Standard, 0, Err("no `webhook-id`")),
            (Standard, 1, Err("no `webhook-timestamp`")),
            (Svix, 0, Err("no `svix-id`")),
            (Slack, 0, Err("no `x-slack-request-timestamp`")),
            (Github, 0, Ok(())),
            (Shopify, 0, Ok(())),
        ] {
            check(name, |headers| drop(headers.remove(at)), NOW, expected);
        }
        // A signature that is sent twice is as good as one.
        let double = |headers: &mut HeaderPairs| {
            let value = &mut headers[2].1;
            *value = format!("{value} {value}");
        };
        check(Standard, double, NOW, Ok(()));
        let unbrand = |headers: &mut HeaderPairs| {
            for (name, _) in headers {
                *name = name.replace("svix-", "webhook-").into();
            }
        };
        check(Svix, unbrand, NOW, Ok(()));
    }

    #[test]
    fn rotation_is_followed_from_either_side() {
        let (old, new, other) = (&key(b"old"), &key(b"new"), &key(b"other"));
        for name in SchemeName::ALL {
            let scheme = Scheme::new(name, &CustomScheme::default());
            let two_tokens = matches!(name, SchemeName::Standard | SchemeName::Svix | SchemeName::Stripe);
            for (sender, receiver, accepted) in [
                (&[new, old][..], &[new][..], true),
                (&[new, old], &[old], two_tokens),
                (&[new], &[new, old], true),
                (&[old], &[new, old], true),
                (&[new, old], &[other], false),
                (&[new, old], &[], false),
            ] {
                let owned = |keys: &[&SigningKey]| keys.iter().copied().cloned().collect::<Vec<_>>();
                let message = Message { id: "evt_1", timestamp: 5, url: "u", body: b"{}" };
                let headers = sign(&scheme, &owned(sender), &message).headers;
                let verdict = verify(&scheme, &owned(receiver), &look_up(&headers), "u", b"{}", 5, 300);
                assert_eq!(verdict.is_ok(), accepted, "{scheme:?}: {verdict:?}");
            }
        }
    }

    #[test]
    fn svix_takes_its_own_headers_before_the_unbranded_ones() {
        let message = Message { id: "evt_1", timestamp: 5, url: "", body: b"{}" };
        for (branded, unbranded, accepted) in [(b"good", b"evil", true), (b"evil", b"good", false)] {
            let mut headers = sign(&Scheme::SVIX, &[key(branded)], &message).headers;
            headers.extend(sign(&Scheme::STANDARD, &[key(unbranded)], &message).headers);
            let verdict = verify(&Scheme::SVIX, &[key(b"good")], &look_up(&headers), "", b"{}", 5, 300);
            assert_eq!(verdict.is_ok(), accepted);
        }
    }

    #[test]
    fn a_tolerance_of_zero_lifts_stripes_time_check_and_no_others() {
        let message = Message { id: "evt_1", timestamp: 5, url: "", body: b"{}" };
        for (scheme, now, accepted) in
            [(Scheme::STRIPE, i64::MAX, true), (Scheme::STANDARD, 5, true), (Scheme::STANDARD, 6, false)]
        {
            let headers = sign(&scheme, &[key(b"key")], &message).headers;
            let verdict = verify(&scheme, &[key(b"key")], &look_up(&headers), "", b"{}", now, 0);
            assert_eq!(verdict.is_ok(), accepted, "{scheme:?} at {now}");
        }
    }

    fn any_scheme() -> impl Strategy<Value = Scheme> {
        let contents = vec![
            "{body}",
            "{timestamp}.{body}",
            "{id}.{timestamp}.{url}.{body}",
            "v0:{url}{{}}{body}{body}",
            "é{id}{body}",
        ];
        let hashes = vec![Hash::Sha1, Hash::Sha256, Hash::Sha512];
        let encodings = Encoding::ALL.to_vec();
        let prefixes = vec!["", "sha256=", "HMAC ", "v1,"];
        let custom = (select(contents), select(hashes), select(encodings), select(prefixes));
        (select(SchemeName::ALL.to_vec()), custom).prop_map(|(name, (content, hash, encoding, prefix))| {
            let (content, prefix) = (content.to_owned(), prefix.to_owned());
            let custom = CustomScheme { content, hash, encoding, prefix, ..CustomScheme::default() };
            assert_eq!(custom.check(), Ok(()));
            Scheme::new(name, &custom)
        })
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies_and_nothing_near_it(
            scheme in any_scheme(),
            keys in vec(vec(any::<u8>(), 1..100), 1..3),
            id in "[!-~]{1,40}",
            timestamp in any::<i64>(),
            url in "[!-~]{0,60}",
            body in vec(any::<u8>(), 0..600),
            flipped in any::<Index>(),
        ) {
            let keys: Vec<_> = keys.iter().map(|bytes| key(bytes)).collect();
            let headers = sign(&scheme, &keys, &Message { id: &id, timestamp, url: &url, body: &body }).headers;
            let verified = |body: &[u8]| verify(&scheme, &keys, &look_up(&headers), &url, body, timestamp, 0);

            let genuine = verified(&body);
            prop_assert!(genuine.is_ok(), "{:?}", genuine);
            let genuine = genuine.unwrap();
            prop_assert_eq!(genuine.timestamp.unwrap_or(timestamp), timestamp);
            prop_assert_eq!(genuine.id.unwrap_or(id.clone()), id);
            let mut other = body.clone();
            other.push(0);
            prop_assert!(verified(&other).is_err());
            if !body.is_empty() {
                other.pop();
                other[flipped.index(body.len())] ^= 1;
                prop_assert!(verified(&other).is_err());
            }
        }
    }
}
