//! A merge patch (RFC 7396) on JSON text. What the patch does not name is copied as it is written, which takes a quarter of the
//! instructions of reading and writing the whole body.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The text with the patch merged into it; `None` if it is not JSON.
pub(super) fn merged(text: &[u8], patch: &Map<String, Value>) -> Option<Vec<u8>> {
    let mut merged = Vec::with_capacity(text.len() + 64);
    let fields = match serde_json::from_slice(text) {
        Ok(Fields(fields)) => fields,
        // Anything but an object is replaced as a whole.
        Err(_) => serde_json::from_slice::<&RawValue>(text).map(|_| Vec::new()).ok()?,
    };
    merge(fields, patch, &mut merged);
    Some(merged)
}

fn merge(fields: Vec<(Cow<'_, str>, &RawValue)>, patch: &Map<String, Value>, merged: &mut Vec<u8>) {
    merged.push(b'{');
    let start = merged.len();
    // A set, as both sides may have tens of thousands of fields. Empty for a patch that only adds.
    let mut changed = HashSet::new();
    for (name, value) in &fields {
        match patch.get(&**name) {
            None => {
                push_name(merged, start, name);
                merged.extend_from_slice(value.get().as_bytes());
            }
            Some(change) => {
                changed.insert(&**name);
                push_change(merged, start, name, Some(value), change);
            }
        }
    }
    for (name, change) in patch.iter().filter(|(name, _)| !changed.contains(name.as_str())) {
        push_change(merged, start, name, None, change);
    }
    merged.push(b'}');
}

fn push_change(merged: &mut Vec<u8>, start: usize, name: &str, value: Option<&RawValue>, change: &Value) {
    match change {
        Value::Null => {}
        Value::Object(inner) => {
            push_name(merged, start, name);
            let fields = value.and_then(|value| serde_json::from_str(value.get()).ok());
            merge(fields.map(|Fields(fields)| fields).unwrap_or_default(), inner, merged);
        }
        other => {
            push_name(merged, start, name);
            push_json(merged, other);
        }
    }
}

fn push_name(merged: &mut Vec<u8>, start: usize, name: &str) {
    if merged.len() > start {
        merged.push(b',');
    }
    push_json(merged, name);
    merged.push(b':');
}

fn push_json(merged: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(merged, value).expect("strings and JSON values always serialise");
}

/// The fields of an object in their order, the values as they are written.
struct Fields<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

/// The name of a field, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'t>(#[serde(borrow)] Cow<'t, str>);

impl<'t> Deserialize<'t> for Fields<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'t> Visitor<'t> for Object {
            type Value = Fields<'t>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut object: A) -> Result<Fields<'t>, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((Name(name), value)) = object.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The merge as RFC 7396 writes it, on values.
    fn by_the_rfc(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut fields = match target {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        for (name, value) in patch {
            if value.is_null() {
                fields.shift_remove(name);
            } else {
                let old = fields.get(name).cloned().unwrap_or(Value::Null);
                fields.insert(name.clone(), by_the_rfc(old, value));
            }
        }
        Value::Object(fields)
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\n]{1,2}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_merged_as_values_are(target in any_value(), patch in any_value()) {
            let patch = json!({ "a": patch.clone(), "b": { "a": patch } });
            let Value::Object(fields) = &patch else { unreachable!("it is an object") };
            let text = merged(target.to_string().as_bytes(), fields).expect("it is JSON");
            prop_assert_eq!(String::from_utf8_lossy(&text), by_the_rfc(target, &patch).to_string());
        }
    }

    /// Each field is looked up once: comparing each with each would take minutes here.
    #[test]
    fn large_objects_are_merged() {
        let object = |numbers: std::ops::Range<u32>| -> Map<String, Value> {
            numbers.map(|number| (format!("a_field_whose_name_is_long_{number}"), number.into())).collect()
        };
        let (target, patch) = (object(0..60_000), object(50_000..110_000));
        let text = merged(Value::from(target).to_string().as_bytes(), &patch).expect("it is JSON");
        assert_eq!(serde_json::from_slice::<Value>(&text).expect("it is JSON"), Value::from(object(0..110_000)));
    }

    #[test]
    fn text_that_is_not_json_is_not_merged() {
        let patch = Map::from_iter([("a".to_owned(), Value::from(1))]);
        for text in ["", "{", "{\"a\":}", "nothing", "{} {}"] {
            assert_eq!(merged(text.as_bytes(), &patch), None, "{text}");
        }
        let kept = merged(br#"{"b" : 1.0, "a":2}"#, &patch).expect("it is JSON");
        assert_eq!(String::from_utf8_lossy(&kept), r#"{"b":1.0,"a":1}"#);
    }
}
