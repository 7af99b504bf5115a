//! Who may call: reads the `Authorization` header and judges the key (contract: Authentication).
//!
//! A refusal keeps its reason, which `explain` shows; the wire shows `unauthorized` and a short message.

use std::borrow::Cow;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::contract::named::named;
use crate::contract::setting::settings;
use crate::contract::types::Environment;
use crate::util::wording::shorten;

/// The key of the examples, and the default of the control API.
pub const SAMPLE_KEY: &str = "sk_test_local";

/// Longest key accepted. Longer tokens are refused, as every new key creates a workspace.
pub const MAX_KEY: usize = 256;

settings! {
    /// Which API keys are valid.
    pub struct Keys {
        /// How a key is judged.
        pub mode: KeyMode = "prefix" {
            contract: "keys are issued on request; what makes one valid is not shown",
            assumed: "any key with the environment's prefix and at least one of A-Z a-z 0-9 _ - after it is valid",
            observed_by: "a key of another text, then the key with another end: which are valid",
        },
        /// The prefix of test keys.
        pub test_prefix: String = "sk_test_" {
            contract: "test keys have a fixed prefix; the string is not given",
            assumed: "sk_test_",
            observed_by: "keys with the first part of a sandbox key: the shortest that is valid, if a prefix decides",
        },
        /// The prefix of live keys.
        pub live_prefix: String = "sk_live_" {
            contract: "live keys have a fixed prefix; the string is not given",
            assumed: "sk_live_",
            observed_by: "as keys.test_prefix, with a production key; not with a sandbox key",
        },
        /// The valid keys if `mode` is `list`.
        pub list: Vec<String> = [] {
            contract: "not shown",
            assumed: "no list: the prefix decides",
            values: "a list of keys such as [\"sk_test_a\", \"sk_test_b\"], read when keys.mode = \"list\"",
            observed_by: "not by calls: other keys must not be tried",
        },
    }
}

/// How a key is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyMode {
    /// By the environment's prefix and the characters after it.
    Prefix,
    /// By membership in `keys.list`.
    List,
    /// Any non-empty token is valid.
    Any,
}

#[derive(Clone, Copy, Debug)]
pub struct KeyRules<'p> {
    pub environment: Environment,
    pub keys: &'p Keys,
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum KeyRefusal {
        #[error("the Authorization header is missing; send `Authorization: Bearer <API_KEY>`")]
        Missing = "missing",
        #[error("the key is in X-Api-Key, and the Authorization header is missing; send `Authorization: Bearer <API_KEY>`")]
        InApiKeyHeader = "in_api_key_header",
        #[error("there is more than one Authorization header")]
        Doubled = "doubled",
        #[error("the Authorization scheme is not Bearer")]
        OtherScheme = "other_scheme",
        #[error("the Bearer token is empty")]
        Empty = "empty",
        /// Characters that no key has, or nothing after the prefix.
        #[error("the Bearer token is malformed: after its prefix come one or more of A-Z a-z 0-9 _ -")]
        Malformed = "malformed",
        #[error("the Bearer token is malformed: it is longer than 256 characters")]
        TooLong = "too_long",
        #[error("the Bearer token is a live key, and the sandbox accepts test keys")]
        LiveKey = "live_key",
        #[error("the Bearer token is a test key, and production accepts live keys")]
        TestKey = "test_key",
        #[error("the Bearer token does not have the prefix of an API key")]
        UnknownPrefix = "unknown_prefix",
        #[error("the Bearer token is not a known API key")]
        NotListed = "not_listed",
    }
}

impl KeyRefusal {
    /// Decides `error="invalid_token"` in the challenge (RFC 6750 §3).
    pub fn has_token(self) -> bool {
        !matches!(self, Self::Missing | Self::InApiKeyHeader | Self::OtherScheme | Self::Empty)
    }

    pub fn advice(self, rules: KeyRules<'_>) -> String {
        let example = match (rules.keys.mode, rules.environment) {
            // The list is secret: the setting is named, its keys are never quoted.
            (KeyMode::List, _) => None,
            (KeyMode::Any, _) => Some(("any key", SAMPLE_KEY.to_owned())),
            (KeyMode::Prefix, Environment::Sandbox) => Some(("a test key", format!("{}local", rules.keys.test_prefix))),
            (KeyMode::Prefix, Environment::Production) => {
                Some(("a live key", format!("{}local", rules.keys.live_prefix)))
            }
        };
        let remedy = match (self, example) {
            (Self::Missing | Self::InApiKeyHeader, _) => return self.to_string(),
            (Self::Doubled, _) => "send one".to_owned(),
            (Self::OtherScheme | Self::Empty, Some((_, key))) => format!("send `Authorization: Bearer {key}`"),
            (Self::OtherScheme | Self::Empty, None) => "send `Authorization: Bearer <API_KEY>`".to_owned(),
            (_, Some((kind, key))) => format!("send {kind}, for example {key}"),
            (_, None) => "send one listed in the setting `keys.list`".to_owned(),
        };
        format!("{self}; {remedy}")
    }
}

/// The values of a request's headers of this name. A request has few headers: comparing names costs less than hashing one.
pub fn values_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h HeaderValue> {
    headers.iter().filter_map(move |(found, value)| (*found == *name).then_some(value))
}

/// The token of the one `Authorization: Bearer` header; the scheme's case does not matter.
pub fn bearer_token(headers: &HeaderMap) -> Result<&str, KeyRefusal> {
    let mut values = values_of(headers, &AUTHORIZATION);
    let value = values.next().ok_or_else(|| {
        if headers.contains_key("x-api-key") { KeyRefusal::InApiKeyHeader } else { KeyRefusal::Missing }
    })?;
    if values.next().is_some() {
        return Err(KeyRefusal::Doubled);
    }
    let bytes = value.as_bytes();
    let (scheme, token) = match bytes.iter().position(|byte| *byte == b' ') {
        Some(end) => (&bytes[..end], bytes[end..].trim_ascii()),
        None => (bytes, &[][..]),
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(KeyRefusal::OtherScheme);
    }
    if token.is_empty() {
        return Err(KeyRefusal::Empty);
    }
    if token.len() > MAX_KEY {
        return Err(KeyRefusal::TooLong);
    }
    let token = std::str::from_utf8(token).map_err(|_| KeyRefusal::Malformed)?;
    check_token(token).map(|()| token)
}

/// Rules for every key, whatever the settings and wherever it comes in.
pub fn check_token(key: &str) -> Result<(), KeyRefusal> {
    match key {
        "" => Err(KeyRefusal::Empty),
        _ if key.len() > MAX_KEY => Err(KeyRefusal::TooLong),
        _ if !key.bytes().all(|byte| byte.is_ascii_graphic()) => Err(KeyRefusal::Malformed),
        _ => Ok(()),
    }
}

pub fn check_key(key: &str, rules: KeyRules<'_>) -> Result<(), KeyRefusal> {
    check_token(key)?;
    let keys = rules.keys;
    match keys.mode {
        KeyMode::Any => Ok(()),
        KeyMode::List => keys.list.iter().any(|known| known == key).then_some(()).ok_or(KeyRefusal::NotListed),
        KeyMode::Prefix => {
            let (wanted, other, refusal) = match rules.environment {
                Environment::Sandbox => (&keys.test_prefix, &keys.live_prefix, KeyRefusal::LiveKey),
                Environment::Production => (&keys.live_prefix, &keys.test_prefix, KeyRefusal::TestKey),
            };
            match key.strip_prefix(wanted.as_str()) {
                Some(rest) if is_key_text(rest) => Ok(()),
                Some(_) => Err(KeyRefusal::Malformed),
                None if key.starts_with(other.as_str()) => Err(refusal),
                None => Err(KeyRefusal::UnknownPrefix),
            }
        }
    }
}

/// Longest text that is shown in full although it is not a key: a secret of any kind is longer.
const MAX_UNMASKED: usize = 20;

/// Why a text is not a key, for a person who typed it instead of one.
pub fn not_a_key(text: &str, refusal: KeyRefusal, rules: KeyRules<'_>) -> String {
    let keys = rules.keys;
    let prefix = match rules.environment {
        Environment::Sandbox => &keys.test_prefix,
        Environment::Production => &keys.live_prefix,
    };
    let reason = match refusal {
        KeyRefusal::NotListed => "`keys.list` does not have it".to_owned(),
        KeyRefusal::TooLong => format!("keys have at most {MAX_KEY} characters"),
        KeyRefusal::Empty => "it is empty".to_owned(),
        KeyRefusal::Malformed if keys.mode != KeyMode::Prefix => "keys have visible ASCII characters alone".to_owned(),
        KeyRefusal::Malformed => format!("after `{prefix}` come one or more of A-Z a-z 0-9 _ -"),
        _ => format!("keys begin with `{prefix}`"),
    };
    // A typing error must be visible; what may be a secret is masked.
    let is_slip = text.len() <= MAX_UNMASKED || text.starts_with(&keys.test_prefix);
    let slip = || shorten(text, 80).escape_debug().to_string();
    let shown = if is_slip && !text.starts_with(&keys.live_prefix) { slip().into() } else { mask_key(text, keys) };
    format!("`{shown}` is not an API key: {reason}")
}

fn is_key_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// A key as it is shown: test keys in full: they protect nothing, and users need to tell them apart; any other key by its prefix and
/// last four characters.
pub fn mask_key<'k>(key: &'k str, keys: &Keys) -> Cow<'k, str> {
    if is_test_key(key, keys) {
        return Cow::Borrowed(key);
    }
    let prefix = if key.starts_with(&keys.live_prefix) { keys.live_prefix.len() } else { 0 };
    Cow::Owned(masked(key, prefix))
}

/// True if a text is a test key and nothing else. Of two prefixes that match the longer one counts.
pub fn is_test_key(key: &str, keys: &Keys) -> bool {
    let is_live = keys.live_prefix.len() > keys.test_prefix.len() && key.starts_with(&keys.live_prefix);
    !is_live && key.strip_prefix(&keys.test_prefix).is_some_and(is_key_text)
}

/// A key by its first `prefix` bytes and its last four characters; the last four are left out if nothing else follows the prefix.
pub fn masked(key: &str, prefix: usize) -> String {
    let (prefix, rest) = key.split_at_checked(prefix).unwrap_or(("", key));
    let last = rest.char_indices().rev().nth(3).filter(|(at, _)| *at > 0).map_or("", |(at, _)| &rest[at..]);
    format!("{prefix}…{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_gives_an_example_that_is_valid_under_the_profile_in_force() {
        let (sandbox, production) = (Environment::Sandbox, Environment::Production);
        let keys = Keys::default;
        for (environment, keys, example) in [
            (sandbox, keys(), "a test key, for example sk_test_local"),
            (sandbox, Keys { test_prefix: "tk-".to_owned(), ..keys() }, "a test key, for example tk-local"),
            (production, keys(), "a live key, for example sk_live_local"),
            (sandbox, Keys { mode: KeyMode::Any, ..keys() }, "any key, for example sk_test_local"),
            // A listed key is secret.
            (
                sandbox,
                Keys { mode: KeyMode::List, list: vec!["hidden".to_owned()], ..keys() },
                "one listed in the setting `keys.list`",
            ),
        ] {
            let advice = KeyRefusal::Malformed.advice(KeyRules { environment, keys: &keys });
            assert!(advice.ends_with(&format!("; send {example}")), "{advice}");
        }
    }

    #[test]
    fn test_keys_are_shown_whole_and_others_by_prefix_and_last_four() {
        let keys = Keys::default();
        for (key, expected) in [
            ("sk_test_local", "sk_test_local"),
            ("sk_live_abcdefghij", "sk_live_…ghij"),
            ("sk_live_a_b_c_d", "sk_live_…_c_d"),
            ("sk_live_abcd", "sk_live_…"),
            ("sk_test_a\u{202e}b, secret", "…cret"),
            ("plain", "…lain"),
            ("abcd", "…"),
            ("", "…"),
        ] {
            assert_eq!(mask_key(key, &keys), expected);
        }
    }
}
