//! The JSON Schema of the language, made from the parser's own tables of words, so that editors complete and check.
//!
//! What a schema cannot say (which keys exclude each other, what can never hold) the parser's diagnostics say.

use serde_json::{Map, Value, json};

use super::action::Fault;
use super::parse::words::{self, Words};
use crate::contract::error::ErrorKind;
use crate::contract::routes::ROUTES;
use crate::contract::signature::Tamper;
use crate::contract::types::EVENT_TYPES;
use crate::profile;

/// The JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let mut schema = object(&words::FILE);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario of wrs-emulator",
        "description": "One story: what happens to requests, and which events are fired",
    });
    let mut whole = Map::new();
    whole.extend(head.as_object().cloned().unwrap_or_default());
    whole.extend(schema.as_object_mut().map(std::mem::take).unwrap_or_default());
    let definitions = [
        ("duration", duration()),
        ("delay", json!({"anyOf": [reference("duration"), spread("min", "max"), spread("median", "p99")]})),
        ("error", names(ErrorKind::ALL.map(ErrorKind::name))),
        ("event", json!({"type": "string", "examples": EVENT_TYPES})),
        ("operation", operation()),
        ("matcher", matcher()),
        ("condition", json!({"anyOf": [{"type": ["string", "number", "boolean", "array"]}, reference("matcher")]})),
        ("when", object(&words::WHEN)),
        ("on", object(&words::ON)),
        ("next", json!({"anyOf": [{"type": "string"}, required(object(&words::NEXT), &["step"])]})),
        ("reply", object(&words::REPLY)),
        ("step", object(&words::STEP)),
        ("fault", json!({"anyOf": [names(Fault::NAMES), required(object(&words::FAULT), &["kind"])]})),
        ("rule", object(&words::RULE)),
        ("emit", required(object(&words::EMIT), &["event", "on"])),
        ("delivery", object(&words::DELIVERY)),
        ("given", object(&words::GIVEN)),
        ("subscription", required(object(&words::SUBSCRIPTION), &["url", "events"])),
        ("workflow", object(&words::WORKFLOW)),
        ("profile", profile::schema()),
    ];
    let definitions = definitions.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    whole.insert("$defs".to_owned(), Value::Object(definitions.collect()));
    Value::Object(whole)
}

/// A table with the keys of `words` and no others.
fn object(words: &Words) -> Value {
    let properties: Map<String, Value> = words
        .keys()
        .map(|key| {
            let mut shape = shape(words.place, key.name);
            if let Value::Object(fields) = &mut shape {
                fields.insert("description".to_owned(), key.meaning.into());
            }
            (key.name.to_owned(), shape)
        })
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// What the value of a key looks like. Most keys mean the same wherever they stand.
fn shape(place: &str, key: &str) -> Value {
    match key {
        "profile" | "given" | "when" | "next" | "reply" | "fault" | "delivery" => reference(key),
        "on" => {
            json!({"anyOf": [{"enum": ["activation", "command"]}, reference("on")]})
        }
        "rule" | "emit" | "subscription" | "workflow" => json!({"type": "array", "items": reference(key)}),
        "user" => json!({"type": "array", "items": {"type": "object"}}),
        "sequence" => json!({"type": "array", "minItems": 1, "items": reference("step")}),
        "delay" => reference("delay"),
        "every" if place == words::RULE.place => count(1),
        "every" | "after" | "from" | "to" | "interval" | "duration" | "min" | "max" | "median" | "p99" => {
            reference("duration")
        }
        "skip" | "bytes" => count(0),
        "times" => count(1),
        "duplicate" => json!({"type": "integer", "minimum": 1, "maximum": 100}),
        "chance" => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        "status" if place == words::WORKFLOW.place => names(["running", "completed", "cancelled"]),
        "status" => json!({"type": "integer", "minimum": 200, "maximum": 599}),
        "pass" => json!({"const": true}),
        "shuffle" | "drop" | "present" => json!({"type": "boolean"}),
        "then" => names(["end", "stay", "repeat"]),
        "kind" => names(Fault::NAMES),
        "tamper" => names(Tamper::ALL.map(Tamper::name)),
        "error" => reference("error"),
        "event" => reference("event"),
        "events" => json!({"type": "array", "minItems": 1, "items": reference("event")}),
        "operation" => reference("operation"),
        "method" | "path" | "key" => reference("condition"),
        "query" | "header" => json!({"type": "object", "additionalProperties": reference("condition")}),
        "body" if place == words::WHEN.place || place == words::ON.place => {
            json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": reference("condition")}})
        }
        "headers" => json!({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
        "patch" | "data" => json!({"type": "object"}),
        "remove" => json!({"anyOf": [pointer(), {"type": "array", "items": pointer()}]}),
        "body" | "equals" | "contains" | "not" => json!({}),
        "one_of" => json!({"type": "array"}),
        "lt" | "gt" => json!({"type": "number"}),
        _ => json!({"type": "string"}),
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

fn names<const N: usize>(names: [&str; N]) -> Value {
    json!({"enum": names.as_slice()})
}

fn count(least: u64) -> Value {
    json!({"type": "integer", "minimum": least})
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

fn matcher() -> Value {
    let mut matcher = object(&words::MATCHER);
    matcher["minProperties"] = 1.into();
    matcher["properties"]["not"]["anyOf"] =
        json!([{"type": ["string", "number", "boolean", "array"]}, reference("matcher")]);
    matcher
}

fn required(mut schema: Value, keys: &[&str]) -> Value {
    schema["required"] = keys.into();
    schema
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/scenario.schema.json");
        let made = serde_json::to_string_pretty(&schema()).expect("it serialises") + "\n";
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(path, &made).expect("the file can be written");
        }
        let text = std::fs::read_to_string(path).expect("the file is there");
        assert!(text == made, "the schema has changed: run the tests once with UPDATE_EXPECTED=1");
    }
}
