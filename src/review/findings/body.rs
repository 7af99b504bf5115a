//! What the rules ask of a request's body, read in one pass that makes no copy of it: bodies are large, and there are thousands.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::contract::keys::Keys;

/// A body.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) is_json: bool,
    /// The names of its fields, if it is a JSON object.
    pub(super) names: Option<Vec<String>>,
    /// Its fields `url` and `secret`, if they are texts.
    pub(super) url: Option<String>,
    pub(super) secret: Option<String>,
    /// The first name that one object has twice, at any depth.
    pub(super) doubled: Option<String>,
    /// Whether an API key is in it, besides in the secret, and whether that is a live one.
    pub(super) key: Option<bool>,
}

impl Body {
    pub(super) fn read(bytes: &[u8], keys: &Keys) -> Self {
        let mut body = Self::default();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let walk = Walk { body: &mut body, keys, place: Place::Top };
        let is_json = walk.deserialize(&mut reader).and_then(|()| reader.end()).is_ok();
        if is_json && body.names.is_some() {
            return Self { is_json, ..body };
        }
        // Without fields there is no secret to be left out.
        Self { is_json, doubled: body.doubled, key: key_in(&String::from_utf8_lossy(bytes), keys), ..Self::default() }
    }
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Url,
    Secret,
    InSecret,
    Elsewhere,
}

impl Place {
    fn within(self) -> Self {
        if matches!(self, Self::Secret | Self::InSecret) { Self::InSecret } else { Self::Elsewhere }
    }

    fn of_field(self, name: &str) -> Self {
        match (self, name) {
            (Self::Top, "url") => Self::Url,
            (Self::Top, "secret") => Self::Secret,
            _ => self.within(),
        }
    }
}

/// Walks through a value.
struct Walk<'b> {
    body: &'b mut Body,
    keys: &'b Keys,
    place: Place,
}

impl Walk<'_> {
    fn at(&mut self, place: Place) -> Walk<'_> {
        Walk { body: &mut *self.body, keys: self.keys, place }
    }

    fn look_for_key(&mut self, text: &str) {
        if !matches!(self.place, Place::Secret | Place::InSecret) && self.body.key != Some(true) {
            self.body.key = key_in(text, self.keys).or(self.body.key);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.look_for_key(text);
        match self.place {
            Place::Url => self.body.url = Some(text.to_owned()),
            Place::Secret => self.body.secret = Some(text.to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let place = self.place.within();
        while items.next_element_seed(self.at(place))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        let mut in_order = Vec::new();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            let place = self.place.of_field(&name);
            self.at(place).look_for_key(&name);
            if self.place == Place::Top {
                // The last of two counts.
                match place {
                    Place::Url => self.body.url = None,
                    Place::Secret => self.body.secret = None,
                    _ => {}
                }
                in_order.push(name.clone().into_owned());
            }
            if names.contains(&name) {
                self.body.doubled.get_or_insert_with(|| name.clone().into_owned());
            }
            names.insert(name);
            fields.next_value_seed(self.at(place))?;
        }
        if self.place == Place::Top {
            self.body.names = Some(in_order);
        }
        Ok(())
    }
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
    use crate::profile::Profile;

    #[test]
    fn one_pass_finds_what_rules_ask_for() {
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
