//! A merge patch (RFC 7396) on JSON text. What the patch does not name is copied as it is written: reading and writing the whole
//! body would take many times the instructions.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The text with the patch merged into it; `None` if it is not JSON. An object is not checked any further: the emulator wrote it.
pub(super) fn merged(text: &[u8], patch: &Map<String, Value>) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let fields = match Fields::of(text) {
        Some(fields) => fields,
        // Anything but an object is replaced as a whole.
        None => serde_json::from_str::<&RawValue>(text).map(|_| Fields::default()).ok()?,
    };
    let mut merged = Vec::with_capacity(text.len() + 64);
    merge(fields, patch, &mut merged);
    Some(merged)
}

fn merge(fields: Fields<'_>, patch: &Map<String, Value>, merged: &mut Vec<u8>) {
    let text = fields.text;
    merged.push(b'{');
    let start = merged.len();
    // What is left of the text begins at `left`.
    let (mut left, mut changed, mut has_deleted) = (0, Vec::new(), false);
    for Field { name, start, value, next } in fields {
        let Some(change) = patch.get(&*name) else { continue };
        changed.push(name);
        let kept = if change.is_null() { start } else { value.start };
        merged.extend_from_slice(&text.as_bytes()[left..kept]);
        push_change(merged, text.get(value.clone()), change);
        left = if change.is_null() { next } else { value.end };
        has_deleted |= change.is_null();
    }
    merged.extend_from_slice(&text.as_bytes()[left..]);
    if has_deleted {
        // The comma before the last field, if that is gone.
        let end = merged[start..].trim_ascii_end();
        merged.truncate(start + end.strip_suffix(b",").unwrap_or(end).len());
    }
    // Sorted, as both sides may have tens of thousands of fields.
    changed.sort_unstable();
    for (name, change) in patch.iter().filter(|(_, change)| !change.is_null()) {
        if changed.binary_search_by(|known| known.as_ref().cmp(name)).is_err() {
            if merged.len() > start {
                merged.push(b',');
            }
            push_text(merged, name);
            merged.push(b':');
            push_change(merged, None, change);
        }
    }
    merged.push(b'}');
}

/// Writes a value with a change applied; nothing if the change deletes the value.
fn push_change(merged: &mut Vec<u8>, value: Option<&str>, change: &Value) {
    match change {
        Value::Null => {}
        Value::Object(inner) => merge(value.and_then(Fields::of).unwrap_or_default(), inner, merged),
        Value::String(text) => push_text(merged, text),
        other => push_json(merged, other),
    }
}

/// Writes a string. Most need no escapes.
fn push_text(merged: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return push_json(merged, text);
    }
    merged.push(b'"');
    merged.extend_from_slice(text.as_bytes());
    merged.push(b'"');
}

fn push_json(merged: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(merged, value).expect("strings and JSON values always serialise");
}

/// A field of an object in JSON text.
pub(crate) struct Field<'t> {
    /// Its name, without escapes.
    pub(crate) name: Cow<'t, str>,
    /// Where it begins.
    start: usize,
    /// Where its value is.
    value: Range<usize>,
    /// Where the next field begins: after the comma, or at the end of the text.
    next: usize,
}

/// The fields of an object in JSON text, in their order. The text must be JSON: it is cut, not checked.
#[derive(Clone, Default)]
pub(crate) struct Fields<'t> {
    /// What is between the braces.
    text: &'t str,
    /// Where the next field begins.
    at: usize,
}

impl<'t> Fields<'t> {
    /// The fields of this text; `None` if it is not an object.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        let text = text.trim_ascii().strip_prefix('{')?.strip_suffix('}')?;
        Some(Self { text, at: 0 })
    }
}

impl<'t> Iterator for Fields<'t> {
    type Item = Field<'t>;

    fn next(&mut self) -> Option<Field<'t>> {
        let bytes = self.text.as_bytes();
        let start = after_spaces(bytes, self.at);
        let (name_end, has_escapes) = end_of_string(bytes, start);
        let value_start = after_spaces(bytes, after_spaces(bytes, name_end) + 1);
        let end = end_of_value(bytes, value_start);
        self.at = end + 1;
        let value = value_start..value_start + bytes.get(value_start..end)?.trim_ascii_end().len();
        let name = if has_escapes {
            Cow::Owned(serde_json::from_str(&self.text[start..name_end]).ok()?)
        } else {
            Cow::Borrowed(self.text.get(start + 1..name_end - 1)?)
        };
        Some(Field { name, start, value, next: self.at.min(bytes.len()) })
    }
}

fn after_spaces(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The place after the string that starts here, and whether it has escapes.
fn end_of_string(text: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut has_escapes) = (start + 1, false);
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return (at, has_escapes);
        }
        (at, has_escapes) = (at + 1, true);
    }
    (text.len(), has_escapes)
}

/// The place of the next comma that is in no string, list or object; the end of the text if there is none.
fn end_of_value(text: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b',' if depth == 0 => return at,
            b'"' => {
                (at, _) = end_of_string(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    text.len()
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
            "[a-c\"\\\\é\n]{0,3}".prop_map(Value::from),
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
            let expected = by_the_rfc(target.clone(), &patch);
            prop_assert_eq!(String::from_utf8_lossy(&text), expected.to_string());
            let spacious = format!(" {target:#} ").replace(',', " ,");
            let text = merged(spacious.as_bytes(), fields).expect("it is JSON");
            prop_assert_eq!(serde_json::from_slice::<Value>(&text).expect("it is JSON"), expected);
        }
    }

    proptest! {
        #[test]
        fn text_that_is_not_json_is_cut_somehow(text in "[{]([{},:\\[\\]\"\\\\aé ]|\"a\":){0,12}[}]") {
            let patch = Map::from_iter([("a".to_owned(), Value::Null), ("é".to_owned(), Value::from(1))]);
            drop(merged(text.as_bytes(), &patch));
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
        for text in ["", "{", "nothing", "[] []"] {
            assert_eq!(merged(text.as_bytes(), &patch), None, "{text}");
        }
        let kept = merged(br#"{"b" : 1.0, "a":2}"#, &patch).expect("it is JSON");
        assert_eq!(String::from_utf8_lossy(&kept), r#"{"b" : 1.0, "a":1}"#);
    }
}
