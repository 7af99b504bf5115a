//! Variations of every message that the contract permits: that JSON objects may gain fields, the order of their keys, and the letters of header
//! names. A body is varied once it is complete, as the settings `variation.*` specify; a client that relies on any of it fails here.
//!
//! Existing fields stay as they are: names, types and values. Chance is an argument.

use crate::contract::setting::settings;
use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

settings! {
    /// Variations of messages that the contract permits but does not publish.
    pub struct Variation {
        /// True if every object, answered or delivered, has unknown fields, of any type.
        pub unknown_fields: bool = false {
            contract: "the error shape may gain fields; compatibility guarantees are not shown",
            assumed: "objects have only the fields that the contract or another setting names",
            observed_by: "not by calls: a few answers show no rule of what varies",
        },
        /// The order of keys.
        pub key_order: KeyOrder = "fixed" {
            contract: "not shown",
            assumed: "as in the contract's tables",
            observed_by: "not by calls: a few answers show no rule of what varies",
        },
        /// Which bodies are varied.
        pub bodies: Bodies = "all" {
            contract: "not shown",
            assumed: "where variation.unknown_fields and variation.key_order apply: everywhere",
            observed_by: "not by calls: a few answers show no rule of what varies",
        },
        /// The letters of header names, in answers and deliveries: answers take those of all keys when the connection begins, deliveries
        /// those of their key.
        pub header_names: HeaderLetters = "lower" {
            contract: "HTTP: header names are compared without regard to letter case; which letters are sent is not shown",
            assumed: "lower case; letters exactly as a document writes them cannot be had",
            observed_by: "not by calls: recorders of calls and deliveries change the case of names",
        },
    }
}

impl Variation {
    /// True if bodies are varied at all; if not, nothing is drawn at random for it.
    pub fn is_on(&self) -> bool {
        self.unknown_fields || self.key_order != KeyOrder::Fixed
    }

    fn covers(&self, kind: BodyKind) -> bool {
        match self.bodies {
            Bodies::All => true,
            Bodies::Answers => kind == BodyKind::Answer,
            Bodies::Errors => kind == BodyKind::Error,
            Bodies::Events => kind == BodyKind::Event,
        }
    }
}

/// The order of the keys of JSON objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// As the contract's tables have them.
    Fixed,
    /// Another one each time.
    Shuffled,
    /// In reverse.
    Reversed,
}

/// The letters of header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeaderLetters {
    /// As in `content-type`.
    Lower,
    /// As in `Content-Type`.
    Title,
}

impl HeaderLetters {
    pub fn is_title(self) -> bool {
        self == Self::Title
    }

    /// A name in these letters, as hyper writes it.
    pub fn of(self, name: &str) -> String {
        let mut is_first = true;
        let letters = name.chars().map(|letter| {
            let is_capital = std::mem::replace(&mut is_first, letter == '-') && self.is_title();
            if is_capital { letter.to_ascii_uppercase() } else { letter }
        });
        letters.collect()
    }
}

/// Which bodies are varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bodies {
    /// All bodies that the API sends.
    All,
    /// Answers to requests that succeed.
    Answers,
    /// Errors.
    Errors,
    /// Events.
    Events,
}

/// Names of added fields: words that an API might well come to use.
const NAMES: [&str; 12] = [
    "attempt",
    "context",
    "expires_at",
    "flags",
    "href",
    "labels",
    "metadata",
    "owner",
    "parent",
    "region",
    "revision",
    "source",
];
/// Maximum number of fields added to one object.
const MAX_ADDED: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Answer,
    /// The error envelope, whose outermost object has one key and gains none (contract: Errors).
    Error,
    Event,
}

/// A JSON body with unknown fields in each of its objects and their keys in another order, as the profile requires.
pub fn vary(body: Vec<u8>, kind: BodyKind, variation: &Variation, random: &mut impl Rng) -> Vec<u8> {
    if !variation.covers(kind) {
        return body;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return body };
    match (&mut value, kind) {
        (Value::Object(fields), BodyKind::Error) => {
            fields.values_mut().for_each(|value| vary_value(value, variation, random));
        }
        (value, _) => vary_value(value, variation, random),
    }
    serde_json::to_vec(&value).expect("JSON values always serialise")
}

fn vary_value(value: &mut Value, variation: &Variation, random: &mut impl Rng) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| vary_value(value, variation, random)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| vary_value(value, variation, random));
            if variation.unknown_fields {
                add_fields(fields, random);
            }
            if variation.key_order != KeyOrder::Fixed {
                let mut entries: Vec<(String, Value)> = std::mem::take(fields).into_iter().collect();
                match variation.key_order {
                    KeyOrder::Reversed => entries.reverse(),
                    _ => entries.shuffle(random),
                }
                fields.extend(entries);
            }
        }
        _ => {}
    }
}

/// Adds at least one field; existing fields are not replaced.
fn add_fields(fields: &mut Map<String, Value>, random: &mut impl Rng) {
    let mut free: Vec<&str> = NAMES.into_iter().filter(|name| !fields.contains_key(*name)).collect();
    free.shuffle(random);
    free.truncate(random.random_range(1..=MAX_ADDED));
    for name in free {
        fields.insert(name.to_owned(), any_value(random));
    }
}

/// A value of any type, among them those that a reader trips over: numbers past what a double holds, text that has to be
/// escaped, and objects with the keys of the object around them.
fn any_value(random: &mut impl Rng) -> Value {
    match random.random_range(0..10) {
        0 => Value::Null,
        1 => true.into(),
        2 => 0.into(),
        3 => 9_007_199_254_740_993_u64.into(),
        4 => json!(-0.5),
        5 => "".into(),
        6 => "\"quoted\" \\ Grüße, 世界 🌍\n".into(),
        7 => json!([]),
        8 => json!([1, "two", null, { "three": 3 }]),
        _ => json!({ "id": 1, "status": false, "code": null, "data": { "type": [] } }),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn varied(body: &Value, kind: BodyKind, variation: &Variation, seed: u64) -> String {
        let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
        String::from_utf8(vary(body.to_string().into_bytes(), kind, variation, &mut random)).expect("JSON is UTF-8")
    }

    #[test]
    fn each_object_grows_and_keeps_what_it_has() {
        let variation = Variation { unknown_fields: true, ..Variation::default() };
        let body = json!({ "id": "sub_1", "owner": 3, "checks": { "a": { "ok": true } }, "list": [{ "x": 1 }, 2] });
        for seed in 0..200 {
            let grown: Value = serde_json::from_str(&varied(&body, BodyKind::Answer, &variation, seed)).expect("JSON");
            for (pointer, fields) in [("", 4), ("/checks", 1), ("/checks/a", 1), ("/list/0", 1)] {
                let object = grown.pointer(pointer).and_then(Value::as_object).expect("an object");
                assert!((fields + 1..=fields + MAX_ADDED).contains(&object.len()), "{pointer} in {grown}");
                let before = body.pointer(pointer).and_then(Value::as_object).expect("an object");
                assert!(object.keys().take(fields).eq(before.keys()), "the order is another setting: {grown}");
            }
            assert_eq!(
                (&grown["id"], &grown["owner"], &grown["checks"]["a"]["ok"], &grown["list"][0]["x"], &grown["list"][1]),
                (&json!("sub_1"), &json!(3), &json!(true), &json!(1), &json!(2))
            );
        }
    }

    #[test]
    fn keys_are_reversed_in_the_bodies_chosen_and_in_no_others() {
        let body = json!({ "a": 1, "b": { "c": 2, "d": 3 } });
        let bodies = [Bodies::All, Bodies::Answers, Bodies::Errors, Bodies::Events];
        let kinds = [BodyKind::Answer, BodyKind::Error, BodyKind::Event];
        for (at, bodies) in bodies.into_iter().enumerate() {
            let variation = Variation { key_order: KeyOrder::Reversed, bodies, ..Variation::default() };
            for (kind, place) in kinds.into_iter().zip(1..) {
                let reversed = match kind {
                    BodyKind::Error => r#"{"a":1,"b":{"d":3,"c":2}}"#,
                    _ => r#"{"b":{"d":3,"c":2},"a":1}"#,
                };
                let expected = if at == 0 || at == place { reversed.to_owned() } else { body.to_string() };
                assert_eq!(varied(&body, kind, &variation, 1), expected, "{bodies:?} {kind:?}");
            }
        }
    }
}
