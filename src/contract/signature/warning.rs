//! Where libraries disagree on a secret: reported once, when the secret is accepted, instead of being found out from a
//! signature that never matches.
//!
//! Must not know how warnings reach a reader, and never repeats a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::key::{PREFIX, reads_base64};
use super::{KeyReading, Scheme, SchemeName, SigningKey};
use crate::wording::counted;

/// Keys below this many bytes are guessable.
const SHORT: usize = 16;

/// What Standard Webhooks asks of a key, in bytes; some of its libraries refuse any other.
const STANDARD_LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a receiver might read `secret` as another key than [`SigningKey::read`] does here.
///
/// Short sentences for people, without a final period, each naming the setting that decides; empty
/// for a secret that [`SigningKey::read`] refuses.
pub fn secret_warnings(secret: &str, scheme: &Scheme, reading: KeyReading) -> Vec<String> {
    let Ok(key) = SigningKey::read(secret, scheme, reading) else {
        return Vec::new();
    };
    let (reading, setting) = scheme.reading(reading);
    let mut warnings = Vec::new();
    warnings.extend(length_warning(key.as_bytes().len(), scheme, reading, setting));
    if secret.trim() != secret {
        warnings.push(format!(
            "the secret starts or ends with white space, which many receivers trim; \
             read by `{setting} = \"{reading}\"` it counts",
        ));
    }
    warnings.extend(match scheme.name {
        SchemeName::Custom => custom_warning(secret, &key, reading, setting),
        _ if reads_base64(scheme) => base64_warning(secret, &key, scheme, reading, setting),
        _ => whole_text_warning(secret, &key, scheme, reading, setting),
    });
    warnings
}

fn length_warning(length: usize, scheme: &Scheme, reading: KeyReading, setting: &str) -> Option<String> {
    if length < SHORT {
        let bytes = counted(length, "byte");
        Some(format!(
            "the secret makes a key of {bytes}, and fewer than {SHORT} can be guessed; \
             it was read by `{setting} = \"{reading}\"`",
        ))
    } else if reads_base64(scheme) && !STANDARD_LENGTHS.contains(&length) {
        Some(format!(
            "the secret makes a key of {length} bytes, and some {} libraries refuse all but {} to {}; \
             it was read by `{setting} = \"{reading}\"`",
            scheme.name(),
            STANDARD_LENGTHS.start(),
            STANDARD_LENGTHS.end(),
        ))
    } else {
        None
    }
}

/// For schemes whose libraries decode every secret, with or without `whsec_`.
fn base64_warning(
    secret: &str,
    key: &SigningKey,
    scheme: &Scheme,
    reading: KeyReading,
    setting: &str,
) -> Option<String> {
    let name = scheme.name();
    match STANDARD.decode(secret.strip_prefix(PREFIX).unwrap_or(secret)) {
        Ok(bytes) if bytes == key.as_bytes() => None,
        Ok(_) => Some(format!(
            "{name} libraries decode this secret as base64, with or without `whsec_`; \
             `{setting} = \"{reading}\"` takes its text, so set \"base64\" or hand the receiver \
             the raw key",
        )),
        Err(_) => Some(format!(
            "{name} libraries expect base64, which this secret is not; \
             `{setting} = \"{reading}\"` takes its text, so hand the receiver the raw key \
             or use `whsec_` and base64",
        )),
    }
}

/// For schemes whose libraries take every secret as it is written.
fn whole_text_warning(
    secret: &str,
    key: &SigningKey,
    scheme: &Scheme,
    reading: KeyReading,
    setting: &str,
) -> Option<String> {
    let name = scheme.name();
    if key.as_bytes() != secret.as_bytes() {
        Some(format!(
            "{name} libraries take the whole text of the secret as the key, and \
             `{setting} = \"{reading}\"` makes another key of it",
        ))
    } else if secret.starts_with(PREFIX) && scheme.name != SchemeName::Stripe {
        // Stripe's own secrets start with `whsec_` and all its libraries keep it.
        Some(format!(
            "`whsec_` marks a base64 secret, but {name} libraries take the whole text as the key, \
             and so does `{setting} = \"{reading}\"`; a receiver that decodes it will not agree",
        ))
    } else {
        None
    }
}

/// For schemes whose receivers are unknown: only texts that can be read in two ways are reported.
fn custom_warning(secret: &str, key: &SigningKey, reading: KeyReading, setting: &str) -> Option<String> {
    let taken = if matches!(reading, KeyReading::Base64) {
        "decodes it"
    } else if key.as_bytes() == secret.as_bytes() {
        "takes its whole text"
    } else {
        "takes the text after `whsec_`"
    };
    // Most hexadecimal texts would pass for base64 as well, and nobody means them as base64.
    let hexadecimal = secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    if secret.starts_with(PREFIX) {
        Some(format!(
            "receivers read a secret that starts with `whsec_` in three ways; \
             `{setting} = \"{reading}\"` {taken}",
        ))
    } else if !hexadecimal && secret.len() >= SHORT && STANDARD.decode(secret).is_ok() {
        Some(format!("the secret could be base64 or plain text; `{setting} = \"{reading}\"` {taken}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::{CustomScheme, SchemeName};

    /// 32 bytes in base64.
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const HEX: &str = "8f742231b10e8888abcd99aaabbb85a5";
    const PHRASE: &str = "a long phrase that is no base64";

    #[test]
    fn warnings() {
        use KeyReading::{Auto, Base64, Utf8, Utf8WithPrefix};
        use SchemeName::{Custom, Github, Shopify, Slack, Standard, Stripe, Svix};
        let check = |secret: &str, scheme: SchemeName, reading: KeyReading, expected: &[&str]| {
            let scheme = Scheme::new(scheme, &CustomScheme::default());
            let warnings = secret_warnings(secret, &scheme, reading);
            let context = format!("{scheme:?} {reading}: {warnings:#?}");
            assert_eq!(warnings.len(), expected.len(), "{context}");
            for (warning, expected) in warnings.iter().zip(expected) {
                assert!(warning.contains(expected), "{expected:?} in {context}");
                assert!(warning.contains("webhooks.secret_key"), "{context}");
                assert!(!warning.contains(secret), "{context}");
            }
        };
        let marked = &format!("{PREFIX}{BASE64}");

        for scheme in [Standard, Svix] {
            check(marked, scheme, Auto, &[]);
            check(marked, scheme, Base64, &[]);
            check(BASE64, scheme, Base64, &[]);
            check(BASE64, scheme, Auto, &["with or without `whsec_`"]);
            check(marked, scheme, Utf8, &["libraries decode this secret"]);
            check(PHRASE, scheme, Auto, &["which this secret is not"]);
            check(HEX, scheme, Auto, &["libraries decode this secret"]);
            check("whsec_a2V5", scheme, Auto, &["a key of 3 bytes"]);
            check("whsec_AAECAwQFBgcICQoLDA0ODw==", scheme, Auto, &["all but 24 to 64"]);
        }
        check(marked, Stripe, Auto, &[]);
        for scheme in [Github, Slack, Shopify] {
            check(marked, scheme, Auto, &["`whsec_` marks a base64 secret"]);
        }
        for scheme in [Stripe, Github, Slack, Shopify] {
            check(PHRASE, scheme, Auto, &[]);
            check(BASE64, scheme, Auto, &[]);
            check(HEX, scheme, Auto, &[]);
            check(marked, scheme, Base64, &["makes another key of it"]);
            check(marked, scheme, Utf8, &["makes another key of it"]);
            check(" x", scheme, Auto, &["a key of 2 bytes", "white space"]);
            check("", scheme, Auto, &[]);
            check("!", scheme, Base64, &[]);
        }
        check(marked, Custom, Auto, &["takes its whole text"]);
        check(marked, Custom, Utf8WithPrefix, &["takes its whole text"]);
        check(marked, Custom, Utf8, &["takes the text after `whsec_`"]);
        check(marked, Custom, Base64, &["decodes it"]);
        check(BASE64, Custom, Auto, &["could be base64 or plain text"]);
        check(HEX, Custom, Auto, &[]);
        check(PHRASE, Custom, Auto, &[]);
    }

    #[test]
    fn a_custom_schemes_own_setting_is_named() {
        let scheme =
            Scheme::new(SchemeName::Custom, &CustomScheme { key: KeyReading::Utf8, ..CustomScheme::default() });
        let warnings = secret_warnings("short", &scheme, KeyReading::Auto);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("`webhooks.custom.key = \"utf8\"`"));
    }
}
