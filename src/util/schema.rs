//! JSON Schemas: made from types, in one plain form, which validators and generators of clients read alike; whole numbers as they mean them.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Number, Value, json};

/// Reads what a schema calls an `integer`. JSON has one kind of number, so `5.0` is accepted as 5.
pub(crate) fn integer<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let from_fraction = || number.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok();
    let whole: Option<u64> = number.as_u64().or_else(from_fraction);
    let matching = whole.and_then(|whole| T::try_from(whole).ok());
    matching.ok_or_else(|| D::Error::custom(format!("expected a whole number, found {number}")))
}

/// The schema (draft 2020-12) of a type that is read or written, with nothing to be looked up elsewhere.
pub(crate) fn schema_of<T: JsonSchema>(contract: Contract) -> Value {
    let mut made = inlining(contract).into_root_schema_for::<T>().to_value();
    plain(&mut made);
    made
}

/// The schema that `make` makes, without a title and with nothing to be looked up elsewhere.
pub(crate) fn inlined(make: fn(&mut SchemaGenerator) -> Schema, contract: Contract) -> Value {
    let mut made = make(&mut inlining(contract)).to_value();
    plain(&mut made);
    made
}

fn inlining(contract: Contract) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract;
    });
    settings.into_generator()
}

/// Rewrites the schema of a parameter, which is never null: it is present or absent.
pub(crate) fn present(schema: &mut Map<String, Value>) {
    for keyword in ["type", "enum", "anyOf"] {
        let Some(kinds) = schema.get_mut(keyword).and_then(Value::as_array_mut) else { continue };
        kinds.retain(|kind| !kind.is_null() && kind != "null" && kind.get("type").is_none_or(|kind| kind != "null"));
        let [one] = &kinds[..] else { continue };
        let one = one.clone();
        match (keyword, one) {
            ("anyOf", Value::Object(fields)) => {
                schema.shift_remove(keyword);
                for (name, part) in fields {
                    schema.entry(name).or_insert(part);
                }
            }
            ("type", one) => drop(schema.insert(keyword.to_owned(), one)),
            _ => {}
        }
    }
}

/// Rewrites a generated schema and those in it: names as `enum` instead of `const` and of a choice between them, ranges instead of
/// formats that JSON Schema does not have, and `{}` instead of `true`.
pub(crate) fn plain(schema: &mut Value) {
    if *schema == true {
        *schema = json!({});
    }
    let Value::Object(fields) = schema else { return };
    fields.shift_remove("$schema");
    if fields.get("title").is_some_and(|title| title == "string") {
        fields.shift_remove("title");
    }
    for (keyword, part) in fields.iter_mut() {
        match keyword.as_str() {
            "items" | "not" | "propertyNames" | "contains" => plain(part),
            "additionalProperties" if part.is_object() => plain(part),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => part.as_array_mut().into_iter().flatten().for_each(plain),
            "properties" | "patternProperties" | "$defs" => {
                part.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(plain);
            }
            _ => {}
        }
    }
    if let Some(value) = fields.shift_remove("const") {
        fields.shift_remove("pattern");
        // Generators know no list of booleans.
        let (keyword, value) = if value.is_boolean() { ("type", "boolean".into()) } else { ("enum", json!([value])) };
        fields.insert(keyword.to_owned(), value);
    }
    // Pairs of one type: what reads no types by position reads these.
    if let Some([first, rest @ ..]) = fields.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice)
        && rest.iter().all(|part| part == first)
    {
        fields.insert("items".to_owned(), first.clone());
    }
    plain_range(fields);
    for keyword in ["oneOf", "anyOf"] {
        plain_choice(fields, keyword);
    }
    // Generators know one kind of choice.
    if let Some(parts) = fields.shift_remove("oneOf") {
        fields.insert("anyOf".to_owned(), parts);
    }
}

/// The range of an integer instead of its name in Rust.
fn plain_range(fields: &mut Map<String, Value>) {
    let most = match fields.get("format").and_then(Value::as_str) {
        Some("uint8") => Some(u64::from(u8::MAX)),
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint" | "uint64" | "int" | "int32" | "int64" | "float" | "double") => None,
        _ => return,
    };
    fields.shift_remove("format");
    if let Some(most) = most {
        fields.entry("maximum").or_insert_with(|| most.into());
    }
}

/// A choice between names as one list of names, whose meanings go into the description. Where only the parts of a choice say more
/// than its type, each part gets the type.
fn plain_choice(fields: &mut Map<String, Value>, keyword: &str) {
    let Some(Value::Array(parts)) = fields.get(keyword).cloned() else { return };
    if parts.iter().all(|part| part.get("type").is_none() && part.get("$ref").is_none()) {
        let Some(kind) = fields.shift_remove("type") else { return };
        for part in fields[keyword].as_array_mut().into_iter().flatten() {
            part["type"] = kind.clone();
        }
        return;
    }
    let (mut names, mut kinds, mut meanings) = (Vec::new(), Vec::new(), String::new());
    for part in &parts {
        let kind = part["type"].clone();
        let null = [Value::Null];
        let values: &[Value] = match part["enum"].as_array() {
            Some(values) => values,
            None if kind == "null" => &null,
            None => return,
        };
        if let (Some(meaning), [name]) = (part["description"].as_str(), values) {
            meanings += &format!("\n- `{}`: {meaning}", name.as_str().unwrap_or_default());
        } else if let Some((_, more)) = part["description"].as_str().and_then(|text| text.split_once("\n\n")) {
            meanings += &format!("\n{more}");
        }
        names.extend(values.iter().cloned());
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    fields.shift_remove(keyword);
    fields.insert("type".to_owned(), if let [one] = &kinds[..] { one.clone() } else { kinds.into() });
    fields.insert("enum".to_owned(), names.into());
    if !meanings.is_empty() {
        let above = fields.get("description").and_then(Value::as_str).unwrap_or_default();
        let whole = format!("{above}\n{meanings}");
        fields.insert("description".to_owned(), whole.trim().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_schemas_become_plain() {
        for (mut schema, expected) in [
            (json!(true), json!({})),
            (
                json!({"properties": {"const": true, "x": {"const": 1}}}),
                json!({"properties": {"const": {}, "x": {"enum": [1]}}}),
            ),
            (
                json!({"type": "integer", "format": "uint16", "minimum": 1}),
                json!({"type": "integer", "minimum": 1, "maximum": 65535}),
            ),
            (json!({"type": "string", "pattern": "^a", "const": "a"}), json!({"type": "string", "enum": ["a"]})),
            (
                json!({
                    "anyOf": [
                        {"description": "Which.", "oneOf": [
                            {"type": "string", "const": "a", "description": "One."},
                            {"type": "string", "enum": ["b", "c"]},
                        ]},
                        {"type": "null"},
                    ],
                    "description": "The choice.",
                }),
                json!({"description": "The choice.\n\n- `a`: One.", "type": ["string", "null"], "enum": ["a", "b", "c", null]}),
            ),
            (
                json!({"type": "string", "anyOf": [{"const": "now"}, {"format": "date-time"}]}),
                json!({"anyOf": [{"enum": ["now"], "type": "string"}, {"format": "date-time", "type": "string"}]}),
            ),
        ] {
            plain(&mut schema);
            assert_eq!(schema, expected);
        }
    }
}
