//! Verifies one delivery as the scheme's receiver libraries do, and returns why if it fails.
//!
//! The order of the checks, and which way a timestamp may be off, are those of the libraries:
//! most check the time first and in both directions; Stripe's check the signature first and accept
//! timestamps from the future. Signatures are compared in constant time, as text, every one against
//! every key. Must not know which clock `now` is from.

use subtle::{Choice, ConstantTimeEq as _};

use super::key::SigningKey;
use super::mac;
use super::scheme::{Form, Scheme, SchemeName, Values, render};
use super::sign::token;

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
         check the receiver's clock, or take it as a replay"
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
        /// What the newest key signs, as it would be in the header.
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

    let id = match scheme.id_header.as_deref() {
        Some(name) if scheme.id_required => Some(require(&header, name)?),
        Some(name) => header(name),
        None => None,
    };
    let separate_timestamp = match scheme.timestamp_header.as_deref() {
        Some(name) => Some(require(&header, name)?),
        None => None,
    };
    let signature = require(&header, &scheme.signature_header)?;
    let timestamp_text = match scheme.form {
        Form::Parts => Some(timestamp_part(scheme, &signature)?),
        Form::Tokens | Form::One { .. } => separate_timestamp,
    };
    let timestamp = timestamp_text.as_deref().map(parse_timestamp).transpose()?;

    let signature_first = scheme.form == Form::Parts;
    if let (Some(timestamp), false) = (timestamp, signature_first) {
        check_not_stale(timestamp, now, tolerance_seconds)?;
        check_not_ahead(timestamp, now, tolerance_seconds)?;
    }
    let content = render(
        &scheme.content,
        &Values {
            id: id.as_deref().unwrap_or_default(),
            timestamp: timestamp_text.as_deref().unwrap_or_default(),
            url,
            body,
        },
    );
    check_signature(scheme, keys, &content, &signature)?;
    if let (Some(timestamp), true) = (timestamp, signature_first && tolerance_seconds > 0) {
        check_not_stale(timestamp, now, tolerance_seconds)?;
    }
    Ok(Verified { id, timestamp })
}

/// The scheme, or the unbranded one where Svix's libraries fall back to it: all or nothing.
fn scheme_sent<'s>(scheme: &'s Scheme, header: &impl Fn(&str) -> Option<String>) -> &'s Scheme {
    const FALLBACK: &Scheme = &Scheme::STANDARD;
    let complete = |scheme: &Scheme| {
        let names = [scheme.id_header.as_deref(), scheme.timestamp_header.as_deref(), Some(&*scheme.signature_header)];
        names.into_iter().flatten().all(|name| header(name).is_some())
    };
    let falls_back = scheme.name == SchemeName::Svix && !complete(scheme) && complete(FALLBACK);
    if falls_back { FALLBACK } else { scheme }
}

fn require(header: &impl Fn(&str) -> Option<String>, name: &str) -> Result<String, Rejection> {
    header(name).ok_or_else(|| Rejection::MissingHeader { header: name.to_owned() })
}

/// Only the plain spelling is accepted: some libraries sign the text and others the number that
/// they read from it, and the two differ for any other spelling.
fn parse_timestamp(text: &str) -> Result<i64, Rejection> {
    text.parse::<i64>()
        .ok()
        .filter(|timestamp| timestamp.to_string() == text)
        .ok_or_else(|| Rejection::BadTimestamp { value: text.to_owned() })
}

fn check_not_stale(timestamp: i64, now: i64, tolerance: i64) -> Result<(), Rejection> {
    let seconds_old = now.saturating_sub(timestamp);
    if seconds_old > tolerance.max(0) {
        return Err(Rejection::Stale { seconds_old, tolerance });
    }
    Ok(())
}

fn check_not_ahead(timestamp: i64, now: i64, tolerance: i64) -> Result<(), Rejection> {
    let seconds_ahead = timestamp.saturating_sub(now);
    if seconds_ahead > tolerance.max(0) {
        return Err(Rejection::Future { seconds_ahead, tolerance });
    }
    Ok(())
}

fn check_signature(scheme: &Scheme, keys: &[SigningKey], content: &[u8], header_value: &str) -> Result<(), Rejection> {
    let got = signatures(scheme, header_value)?;
    let macs = keys.iter().map(|key| mac::expected(scheme.hash, key.as_bytes(), content));
    let expected: Vec<String> = macs.map(|mac| token(scheme, &mac)).collect();
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

/// The signatures a header carries, as written in it; at least one of them well-formed.
///
/// Tokens and parts of other versions are skipped: that is how schemes evolve.
fn signatures(scheme: &Scheme, value: &str) -> Result<Vec<String>, Rejection> {
    let candidates: Vec<&str> = match scheme.form {
        Form::Tokens => value.split(' ').collect(),
        Form::Parts => value.split(',').collect(),
        Form::One { .. } => vec![value],
    };
    let length = scheme.hash.length();
    let mut well_formed = false;
    let mut found = Vec::new();
    for candidate in candidates {
        if let Some(signature) = candidate.strip_prefix(scheme.form.prefix()) {
            well_formed |= scheme.encoding.looks_like(signature, length);
            found.push(candidate.to_owned());
        }
    }
    if well_formed { Ok(found) } else { Err(malformed(scheme, value)) }
}

/// The only `t=` part of Stripe's header; two are refused, as some libraries take the first and some the last.
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

    use super::*;
    use crate::contract::signature::{CustomScheme, KeyReading, Message, SchemeName, sign};

    const NOW: i64 = 1_700_000_000;
    const URL: &str = "https://receiver.example/";
    const BODY: &[u8] = br#"{"type":"workflow.completed"}"#;

    /// Signs a genuine delivery, applies `tamper` to its headers and body, and verifies it.
    fn check(name: SchemeName, tamper: impl FnOnce(&mut Headers, &mut Vec<u8>), now: i64, expected: Result<(), &str>) {
        let scheme = Scheme::new(name, &CustomScheme::default());
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let key = SigningKey::read(secret, &scheme, KeyReading::Auto).unwrap();
        let message = Message { id: "evt_1", timestamp: NOW, url: URL, body: BODY };
        let mut headers = sign(&scheme, std::slice::from_ref(&key), &message).headers;
        let mut body = BODY.to_vec();
        tamper(&mut headers, &mut body);
        let header = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone())
        };
        let found = verify(&scheme, &[key], &header, URL, &body, now, 300)
            .map(|_| ())
            .map_err(|rejection| rejection.to_string());
        match (&found, expected) {
            (Ok(()), Ok(())) => {}
            (Err(rejection), Err(part)) if rejection.contains(part) => {}
            _ => panic!("{name}: expected {expected:?}, found {found:?}"),
        }
    }

    type Headers = Vec<(Cow<'static, str>, String)>;

    /// Replaces `from` in the value of the header at `at`.
    fn replace(at: usize, from: &str, to: &str) -> impl FnOnce(&mut Headers, &mut Vec<u8>) {
        move |headers, _| {
            let value = &mut headers[at].1;
            assert!(value.contains(from), "{value:?} has no {from:?}");
            *value = value.replacen(from, to, 1);
        }
    }

    fn last(headers: &mut Headers) -> &mut String {
        &mut headers.last_mut().unwrap().1
    }

    #[test]
    fn every_scheme_rejects_a_tampered_delivery() {
        for name in SchemeName::ALL {
            check(name, |_, _| {}, NOW, Ok(()));
            check(name, |_, body| body.push(b'\n'), NOW, Err("raw bytes"));
            check(name, |_, body| body[0] ^= 1, NOW, Err("raw bytes"));
            let change_signature = |headers: &mut Headers, _: &mut Vec<u8>| {
                // The digit before the padding, if any: still well-formed.
                let value = last(headers);
                let at = value.trim_end_matches('=').len() - 1;
                let digit = if value[at..].starts_with('0') { "1" } else { "0" };
                value.replace_range(at..=at, digit);
            };
            check(name, change_signature, NOW, Err("found `"));
            let cut_signature = |headers: &mut Headers, _: &mut Vec<u8>| {
                last(headers).pop();
            };
            check(name, cut_signature, NOW, Err("scheme's form"));
            let clear_signature = |headers: &mut Headers, _: &mut Vec<u8>| last(headers).clear();
            check(name, clear_signature, NOW, Err("no `"));
            let drop_signature = |headers: &mut Headers, _: &mut Vec<u8>| {
                headers.pop();
            };
            check(name, drop_signature, NOW, Err("no `"));
        }
    }

    #[test]
    fn time_is_checked_as_the_libraries_do() {
        use SchemeName::{Custom, Github, Shopify, Slack, Standard, Stripe, Svix};
        for name in [Standard, Svix, Slack, Custom] {
            check(name, |_, _| {}, NOW + 300, Ok(()));
            check(name, |_, _| {}, NOW + 301, Err("301 s old and 300 s"));
            check(name, |_, _| {}, NOW - 300, Ok(()));
            check(name, |_, _| {}, NOW - 301, Err("301 s ahead and 300 s"));
            check(name, |_, _| {}, i64::MIN, Err("ahead"));
            check(name, |_, _| {}, i64::MAX, Err("old"));
            // A replay is refused for its age; with a fresh timestamp instead, its signature no longer matches.
            let at = usize::from(name != Slack);
            check(name, replace(at, "17", "18"), NOW, Err("s ahead"));
            check(name, replace(at, "1700000000", "1700000001"), NOW, Err("raw bytes"));
            check(name, replace(at, "1700000000", "1700000000000"), NOW, Err("milliseconds"));
            for text in ["soon", "+1700000000", "01700000000", " 1700000000", "1.7e9", "9".repeat(30).as_str()] {
                check(name, replace(at, "1700000000", text), NOW, Err("whole Unix seconds"));
            }
        }
        check(Stripe, |_, _| {}, NOW + 300, Ok(()));
        check(Stripe, |_, _| {}, NOW + 301, Err("301 s old and 300 s"));
        check(Stripe, |_, _| {}, NOW - 1_000_000, Ok(()));
        check(Stripe, replace(0, "t=17", "t=18"), NOW, Err("raw bytes"));
        check(Stripe, replace(0, "t=17", "t=x"), NOW, Err("whole Unix seconds"));
        for name in [Github, Shopify] {
            check(name, |_, _| {}, i64::MAX, Ok(()));
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
        for (name, at, expected) in [
            (Standard, 0, Err("no `webhook-id`")),
            (Standard, 1, Err("no `webhook-timestamp`")),
            (Svix, 0, Err("no `svix-id`")),
            (Slack, 0, Err("no `x-slack-request-timestamp`")),
            (Github, 0, Ok(())),
            (Shopify, 0, Ok(())),
        ] {
            let remove = |headers: &mut Headers, _: &mut Vec<u8>| drop(headers.remove(at));
            check(name, remove, NOW, expected);
        }
        let unbrand = |headers: &mut Headers, _: &mut Vec<u8>| {
            for (name, _) in headers {
                *name = name.replace("svix-", "webhook-").into();
            }
        };
        check(Svix, unbrand, NOW, Ok(()));
    }
}
