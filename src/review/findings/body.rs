//! What the rules ask of a request's body.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::contract::keys::Keys;

/// A body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) is_json: bool,
    /// The names of its fields, if it is a JSON object.
    pub(super) names: Option<Vec<String>>,
    /// Its fields `url` and `secret`, if they are texts. The last of two counts.
    pub(super) url: Option<String>,
    pub(super) secret: Option<String>,
    /// The first name that one object has twice, at any depth.
    pub(super) doubled: Option<String>,
    /// Whether an API key is in it, besides in the secret, and whether that is a live one.
    pub(super) key: Option<bool>,
}

impl Body {
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

/// Whether a text has a live key in it, or else a test key, by their prefixes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Profile;

    #[test]
    fn one_reading_finds_what_rules_ask_for() {
        let profile = Profile::default();
        let read = |text: &str| Body::read(text.as_bytes(), &profile.keys);
        let body = read(r#"{"url":"u","a":[{"b":1,"b":2}],"secret":"sk_live_abc","url":"v"}"#);
        assert!(body.is_json && body.names.is_some_and(|names| names == ["url", "a", "secret", "url"]));
        assert_eq!((body.url.as_deref(), body.secret.as_deref()), (Some("v"), Some("sk_live_abc")));
        assert_eq!((body.doubled.as_deref(), body.key), (Some("b"), None));
        for (text, is_json, key) in [
            (r#"{"a":["x sk_test_a"],"b":"sk_live_b"}"#, true, Some(true)),
            (r#"{"sk_test_a":1}"#, true, Some(false)),
            (r#"{"secret":{"a":"sk_test_a"}}"#, true, None),
            (r#"["sk_test_a"]"#, true, Some(false)),
            ("a=sk_test_a", false, Some(false)),
            (r#"{"secret":"sk_test_a","#, false, Some(false)),
            ("", false, None),
        ] {
            let body = read(text);
            assert_eq!((body.is_json, body.key), (is_json, key), "{text}");
        }
        assert!(!read(&format!("{}1{}", "[".repeat(200), "]".repeat(200))).is_json, "too deep to be judged");
    }
}
