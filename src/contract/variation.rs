//! What the contract leaves open about every JSON object: that it may gain fields, and the order of its keys. A body is
//! varied once it is complete, as the settings `variation.*` specify; a client that relies on either fails here.
//!
//! Existing fields stay as they are: names, types and values. Chance is an argument.

use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What a JSON body may be like beyond its published fields: answers and events alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Whether each object has fields that nobody knows, of any type.
    pub unknown_fields: bool,
    /// The order of keys.
    pub key_order: KeyOrder,
    /// Which bodies are varied.
    pub bodies: Bodies,
}

impl Variation {
    /// Whether bodies are varied at all; if not, nothing is drawn at random for it.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// As the contract's tables have them.
    Fixed,
    /// Another one each time.
    Shuffled,
    /// In reverse.
    Reversed,
}

/// Which bodies are varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bodies {
    /// Whatever the API sends.
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
/// Most fields added to one object.
const MOST_ADDED: usize = 3;

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
    free.truncate(random.random_range(1..=MOST_ADDED));
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

    fn varied(body: &Value, kind: BodyKind, unknown_fields: bool, key_order: KeyOrder, seed: u64) -> String {
        let variation = Variation { unknown_fields, key_order, bodies: Bodies::All };
        let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(seed);
        String::from_utf8(vary(body.to_string().into_bytes(), kind, &variation, &mut random)).expect("JSON is UTF-8")
    }

    /// Whether everything in `part` is in `whole` as well, with the same value.
    fn holds(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| holds(whole, part)))
            }
            (Value::Array(whole), Value::Array(part)) => {
                whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| holds(whole, part))
            }
            (whole, part) => whole == part,
        }
    }

    #[test]
    fn each_object_grows_and_keeps_what_it_has() {
        let body = json!({ "id": "sub_1", "owner": 3, "checks": { "a": { "ok": true } }, "list": [{ "x": 1 }, 2] });
        for seed in 0..200 {
            let grown: Value =
                serde_json::from_str(&varied(&body, BodyKind::Answer, true, KeyOrder::Fixed, seed)).expect("JSON");
            assert!(holds(&grown, &body), "{grown}");
            for (pointer, fields) in [("", 4), ("/checks", 1), ("/checks/a", 1), ("/list/0", 1)] {
                let object = grown.pointer(pointer).and_then(Value::as_object).expect("an object");
                assert!((fields + 1..=fields + MOST_ADDED).contains(&object.len()), "{pointer} in {grown}");
            }
            let keys: Vec<&String> = grown.as_object().expect("an object").keys().take(4).collect();
            assert_eq!(keys, ["id", "owner", "checks", "list"], "the order is another setting");
        }
    }

    #[test]
    fn keys_take_any_order_without_growing() {
        let body = json!({ "a": 1, "b": 2, "c": { "d": 3, "e": 4 } });
        let orders: std::collections::BTreeSet<String> =
            (0..200).map(|seed| varied(&body, BodyKind::Answer, false, KeyOrder::Shuffled, seed)).collect();
        assert_eq!(orders.len(), 12, "6 orders outside times 2 inside");
        for text in orders {
            assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), body);
        }
    }

    #[test]
    fn keys_are_reversed_in_the_bodies_chosen_and_in_no_others() {
        let body = json!({ "a": 1, "b": { "c": 2, "d": 3 } });
        let bodies = [Bodies::All, Bodies::Answers, Bodies::Errors, Bodies::Events];
        let kinds = [BodyKind::Answer, BodyKind::Error, BodyKind::Event];
        for (at, bodies) in bodies.into_iter().enumerate() {
            let variation = Variation { unknown_fields: false, key_order: KeyOrder::Reversed, bodies };
            for (kind, place) in kinds.into_iter().zip(1..) {
                let mut random = rand::rngs::ChaCha8Rng::seed_from_u64(1);
                let varied = vary(body.to_string().into_bytes(), kind, &variation, &mut random);
                let reversed = match kind {
                    BodyKind::Error => r#"{"a":1,"b":{"d":3,"c":2}}"#,
                    _ => r#"{"b":{"d":3,"c":2},"a":1}"#,
                };
                let expected = if at == 0 || at == place { reversed.to_owned() } else { body.to_string() };
                assert_eq!(String::from_utf8(varied).expect("JSON is UTF-8"), expected, "{bodies:?} {kind:?}");
            }
        }
    }

    #[test]
    fn the_envelope_keeps_its_one_key() {
        let body = json!({ "error": { "code": "unauthorized" } });
        let grown: Value =
            serde_json::from_str(&varied(&body, BodyKind::Error, true, KeyOrder::Shuffled, 1)).expect("JSON");
        assert_eq!(grown.as_object().map(Map::len), Some(1));
        assert!(grown["error"].as_object().is_some_and(|error| error.len() > 1), "{grown}");
    }

    #[test]
    fn all_types_come_up_and_nothing_else_decides_but_the_source() {
        let body = json!({});
        let grow = |seed| varied(&body, BodyKind::Answer, true, KeyOrder::Fixed, seed);
        let all: String = (0..200).map(grow).collect();
        for text in
            ["null", "true", ":0", "9007199254740993", "-0.5", "\"\"", "世界", "[]", "\"two\"", "\"status\":false"]
        {
            assert!(all.contains(text), "{text} never came up");
        }
        assert_eq!(grow(5), grow(5));
    }
}
