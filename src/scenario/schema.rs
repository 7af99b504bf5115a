//! The JSON Schema of the language, made from the table of keys, so that editors complete and check.
//!
//! What a schema cannot express (which keys exclude each other, what can never hold) the parser's diagnostics report.

use serde_json::{Map, Value, json};

use super::parse::words::{self, Key, Kind, Words};
use crate::contract::routes::ROUTES;
use crate::contract::types::EVENT_TYPES;
use crate::profile;

/// The JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    whole.insert("title".to_owned(), "Scenario of wrs-emulator".into());
    whole.insert("description".to_owned(), "One story: what happens to requests, and which events are fired".into());
    whole.extend(object(&words::FILE).as_object().cloned().unwrap_or_default());
    let mut definitions = Map::from_iter([
        ("duration".to_owned(), duration()),
        ("event".to_owned(), json!({"type": "string", "examples": EVENT_TYPES})),
        ("operation".to_owned(), operation()),
        ("condition".to_owned(), condition()),
        ("profile".to_owned(), profile::schema()),
    ]);
    let tables = words::ALL.iter().filter(|table| !["file", "delay"].contains(&table.definition));
    definitions.extend(tables.map(|table| (table.definition.to_owned(), object(table))));
    definitions["matcher"]["minProperties"] = 1.into();
    whole.insert("$defs".to_owned(), definitions.into());
    Value::Object(whole)
}

/// A table with these keys and no others.
fn object(words: &Words) -> Value {
    let property = |key: &Key| {
        let mut shape = if key.name == "event" { reference("event") } else { shape(key.kind) };
        if let Value::Object(fields) = &mut shape {
            fields.insert("description".to_owned(), key.meaning.into());
        }
        (key.name.to_owned(), shape)
    };
    let properties: Map<String, Value> = words.keys().map(property).collect();
    let mut object = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !words.required.is_empty() {
        object["required"] = words.required.into();
    }
    object
}

/// What the value of a key looks like.
fn shape(kind: Kind) -> Value {
    let by_name = |shape| json!({"type": "object", "additionalProperties": shape});
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Integer(least, u64::MAX) => json!({"type": "integer", "minimum": least}),
        Kind::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Number => json!({"type": "number"}),
        Kind::Chance => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::True => json!({"const": true}),
        Kind::Duration => reference("duration"),
        Kind::Delay => json!({"anyOf": [reference("duration"), spread("min", "max"), spread("median", "p99")]}),
        Kind::OneOf(names) => json!({"enum": names()}),
        Kind::Events => json!({"type": "array", "minItems": 1, "items": reference("event")}),
        Kind::Operations => reference("operation"),
        Kind::Pointers => json!({"anyOf": [pointer(), {"type": "array", "items": pointer()}]}),
        Kind::Condition => reference("condition"),
        Kind::Conditions => by_name(reference("condition")),
        Kind::BodyConditions => {
            json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": reference("condition")}})
        }
        Kind::Headers => by_name(json!({"type": ["string", "integer"]})),
        Kind::Any => json!({}),
        Kind::Array => json!({"type": "array"}),
        Kind::AnyTable => free_form(),
        Kind::AnyTables => json!({"type": "array", "items": free_form()}),
        Kind::Settings => reference("profile"),
        Kind::Table(table) => reference(table.definition),
        Kind::Steps => json!({"type": "array", "minItems": 1, "items": reference("step")}),
        Kind::Tables(table) => json!({"type": "array", "items": reference(table.definition)}),
        Kind::NameOr(names, table) => json!({"anyOf": [{"enum": names()}, reference(table.definition)]}),
        Kind::TextOr(table) => json!({"anyOf": [{"type": "string"}, reference(table.definition)]}),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// A table with any keys, which readers such as Tombi expect to be stated.
fn free_form() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

fn pointer() -> Value {
    json!({"type": "string", "pattern": "^/"})
}

fn duration() -> Value {
    json!({"type": "string", "examples": ["250ms", "30s", "1m30s", "24h"]})
}

fn spread(low: &str, high: &str) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": [low, high],
        "properties": {low: reference("duration"), high: reference("duration")},
    })
}

fn operation() -> Value {
    let known: Vec<&str> = ROUTES.iter().map(|route| route.operation.name()).collect();
    json!({"anyOf": [{"enum": known}, {"type": "array", "minItems": 1, "items": {"enum": known}}]})
}

fn condition() -> Value {
    json!({"anyOf": [{"type": ["string", "number", "boolean", "array"]}, reference("matcher")]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{built_in, built_in_names};

    fn validator() -> jsonschema::Validator {
        jsonschema::validator_for(&schema()).expect("the schema is one")
    }

    fn json_of(text: &str) -> Value {
        let table: toml::Table = toml::from_str(text).expect("the text is TOML");
        serde_json::to_value(table).expect("TOML fits into JSON")
    }

    #[test]
    fn shipped_scenarios_satisfy_the_schema() {
        let validator = validator();
        for name in built_in_names() {
            let text = built_in(name).expect("it is valid").text.clone();
            let errors: Vec<_> = validator.iter_errors(&json_of(&text)).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
    }

    #[test]
    fn the_schema_refuses_what_it_can() {
        let validator = validator();
        for (text, valid) in [
            ("title = 'x'\n[profile]\nrate_limit.requests = 3\nerrors.codes.not_found = 'x'\n", true),
            ("[[rule]]\nwhen = { query.x = { not = { lt = 3 } }, body.\"/a\" = [1] }\nfault = 'reset'\n", true),
            ("[[rule]]\npass = true\nnext = { step = 'b', status = 200 }\n[[rule]]\nnext = 'b'\n", true),
            ("[[rule]]\nnext = { status = 200 }\n", false),
            ("[[rule]]\ndelay = { min = '1s', max = '2s' }\nevery = 3\n", true),
            ("[[emit]]\nevent = 'workflow.completed'\non = { every = '3s' }\n", true),
            ("titel = 'x'\n", false),
            ("[profile]\nrate_limit.request = 3\n", false),
            ("[profile]\nrate_limit.algorithm = 'fixd'\n", false),
            ("[profile]\nrate_limit.header_names.limit = 'X-Limit'\nwebhooks.custom.hash = 'sha1'\n", true),
            ("[profile]\nwebhooks.scheme = ['github', 'standard']\nevents.data.x = { a = 1 }\n", true),
            ("[profile]\nwebhooks.scheme = 'githb'\n", false),
            ("[[rule]]\ntmes = 3\n", false),
            ("[[rule]]\ntimes = 0\n", false),
            ("[[rule]]\ndelay = 3\n", false),
            ("[[rule]]\nfault = 'rest'\n", false),
            ("[[rule]]\nwhen = { query.x = { equal = 3 } }\n", false),
            ("[[rule]]\nwhen = { body.url = 'x' }\n", false),
            ("[[rule]]\nreply = { error = 'x' }\n", false),
            ("[[emit]]\non = 'command'\n", false),
        ] {
            assert_eq!(validator.is_valid(&json_of(text)), valid, "{text}");
        }
    }

    /// Run with `UPDATE_EXPECTED=1` to write the file anew.
    #[test]
    fn the_file_beside_the_shipped_scenarios_is_this_schema() {
        let made = serde_json::to_string_pretty(&schema()).expect("it serialises") + "\n";
        crate::committed::compare("scenarios/scenario.schema.json", &made);
    }
}
