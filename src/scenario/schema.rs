//! The JSON Schema of the language, so that editors complete and check, and the page about it: both made from the tables of keys.
//!
//! The parser's diagnostics report the problems that a schema cannot express: duplicate names, templates, impossible conditions.

use serde_json::{Map, Value, json};

use super::Scenario;
use super::parse::kinds::{KeySpec, TableKeys, reference};
use super::parse::tables;
use crate::contract::error::ErrorKind;
use crate::contract::routes::{Operation, ROUTES, Route};
use crate::contract::types::EVENT_TYPES;
use crate::diagnostic::codes_markdown;
use crate::settings;
use crate::util::duration::DURATION_PATTERN;

/// The JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    whole.insert("title".to_owned(), "Scenario of wrs-emulator".into());
    whole.insert("description".to_owned(), "One story: what happens to requests, and which events are fired".into());
    whole.extend(object(&TableKeys::of::<Scenario>()).as_object().cloned().unwrap_or_default());
    let mut definitions = Map::from_iter([
        (
            "duration".to_owned(),
            json!({"type": "string", "pattern": DURATION_PATTERN, "examples": ["250ms", "30s", "1m30s", "24h"]}),
        ),
        ("event".to_owned(), json!({"type": "string", "examples": EVENT_TYPES})),
        ("operation".to_owned(), operation()),
        (
            "condition".to_owned(),
            json!({"anyOf": [{"type": ["string", "number", "boolean"]}, {"allOf": [reference("matcher"), one_value()]}]}),
        ),
        ("profile".to_owned(), settings::schema()),
    ]);
    let tables = tables().into_iter().filter(|table| !["file", "delay"].contains(&table.definition));
    definitions.extend(tables.map(|table| (table.definition.to_owned(), object(&table))));
    whole.insert("$defs".to_owned(), definitions.into());
    Value::Object(whole)
}

/// A table with these keys and no others.
fn object(keys: &TableKeys) -> Value {
    let property = |key: &KeySpec| {
        let mut shape = key.kind.schema();
        if let Value::Object(fields) = &mut shape {
            fields.insert("description".to_owned(), key.meaning.into());
        }
        (key.name.to_owned(), shape)
    };
    let properties: Map<String, Value> = keys.keys.iter().map(property).collect();
    let mut object = json!({"type": "object", "additionalProperties": false, "properties": properties});
    let required: Vec<&str> = keys.required().collect();
    if !required.is_empty() {
        object["required"] = required.into();
    }
    object
        .as_object_mut()
        .into_iter()
        .for_each(|object| object.extend(keys.rules_schema().map(|(name, rule)| (name.to_owned(), rule))));
    object
}

/// The comparisons of a matcher of anything but the body.
fn one_value() -> Value {
    let value = json!({"type": ["string", "number", "boolean"]});
    // Tombi expects it to be stated that the others are allowed.
    let negated = json!({"type": ["string", "number", "boolean", "object"]});
    let tests = json!({"equals": value, "contains": value, "one_of": {"items": value}, "not": negated});
    json!({"additionalProperties": true, "properties": tests})
}

fn operation() -> Value {
    let known: Vec<&str> = Operation::ALL.map(Operation::name).to_vec();
    json!({"anyOf": [{"enum": known}, {"type": "array", "minItems": 1, "items": {"enum": known}}]})
}

/// The page `docs/scenario-language.md`: `reference.md`, with a table instead of each line that names one in braces.
pub fn language_markdown() -> String {
    let mut page = String::from(include_str!("reference.md"));
    let mut insert = |name: &str, head: &str, rows: String| {
        page = page.replace(&format!("{{{name}}}\n"), &format!("{head}\n{rows}"));
    };
    for table in tables() {
        let row = |key: &KeySpec| {
            let needed = if key.required { " (required)" } else { "" };
            format!("| `{}`{needed} | {} | {} |\n", key.name, key.kind.text(), key.meaning.replace('|', "\\|"))
        };
        let head = "| key | value | meaning |\n| --- | --- | --- |";
        insert(&format!("keys of {}", table.definition), head, table.keys.iter().map(row).collect());
    }
    let row = |route: &Route| format!("| `{}` | `{} {}` |\n", route.operation.name(), route.method, route.path);
    insert("operations", "| operation | request |\n| --- | --- |", ROUTES.iter().map(row).collect());
    let row = |error: ErrorKind| format!("| `{}` | {} |\n", error.name(), error.status());
    insert("errors", "| error | status |\n| --- | ---: |", ErrorKind::ALL.into_iter().map(row).collect());
    page + &codes_markdown()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostic;
    use crate::scenario::{built_in, built_in_names, check_text};

    fn validator() -> jsonschema::Validator {
        jsonschema::options().should_validate_formats(true).build(&schema()).expect("the schema is one")
    }

    fn json_of(text: &str) -> Value {
        let table: toml::Table = toml::from_str(text).expect("the text is TOML");
        serde_json::to_value(table).expect("TOML fits into JSON")
    }

    #[test]
    fn shipped_scenarios_and_examples_satisfy_the_schema() {
        let validator = validator();
        let shipped = built_in_names().map(|name| built_in(name).expect("it is valid").text.to_string());
        let examples = include_str!("reference.md").split("```").skip(1).step_by(2);
        let further = "[profile]\nrate_limit.header_names.limit = 'X-Limit'\nwebhooks.custom.hash = 'sha1'\n\
                       webhooks.scheme = ['github', 'standard']\nevents.data.\"workflow.completed\" = { a = 1 }\n";
        let texts = shipped.chain(examples.map(|example| example.replacen("toml", "", 1)));
        for text in texts.chain([further.to_owned()]) {
            let (_, problems) = check_text("example", &text);
            assert!(problems.is_empty(), "{text}: {problems:?}");
            let errors: Vec<_> = validator.iter_errors(&json_of(&text)).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{text}: {errors:?}");
        }
    }

    #[test]
    fn the_schema_refuses_what_it_can() {
        let validator = validator();
        for text in [
            "titel = 'x'\n",
            "[profile]\nrate_limit.request = 3\n",
            "[profile]\nrate_limit.algorithm = 'fixd'\n",
            "[profile]\nwebhooks.scheme = 'githb'\n",
            "[[rule]]\nnext = { status = 200 }\n",
            "[[rule]]\ntmes = 3\n",
            "[[rule]]\ntimes = 0\n",
            "[[rule]]\ndelay = 3\n",
            "[[rule]]\nfault = 'rest'\n",
            "[[rule]]\nwhen = { query.x = { equal = 3 } }\n",
            "[[rule]]\nwhen = { body.url = 'x' }\n",
            "[[rule]]\nreply = { error = 'x' }\n",
            "[[emit]]\non = 'command'\n",
            "[[rule]]\ndelay = '5 seconds'\n",
            "[[rule]]\nreply.status = 500\nfault = 'reset'\n",
            "[[rule]]\nwhen.path.matches = '('\npass = true\n",
            "",
        ] {
            assert!(!validator.is_valid(&json_of(text)), "{text}");
        }
    }

    /// Problems of the files below that the schema cannot show, by code or by a part of the message, and why it cannot.
    const HIDDEN: &[(&str, &str)] = &[
        ("JSON has no such number", "infinity and NaN"),
        ("`every` must be at least 10ms", "how long a duration is"),
        ("is longer than", "how long a duration is"),
        ("scenario/bad-template", "the language of templates"),
        ("scenario/unknown-event", "the profile in force may add types"),
        ("must use https", "the profile in force may allow http"),
        ("`secret`", "the profile in force says how secrets are read"),
        ("too large when compiled", "what an expression takes"),
        ("nested more than", "the depth of `not`"),
        ("begins no parameter", "the names of parameters in a path"),
        ("has two parameters", "the names of parameters in a path"),
    ];

    /// Each entry of the lists of a file, by itself; a file without lists is one.
    fn entries(table: toml::Table) -> Vec<toml::Table> {
        let (lists, rest): (Vec<_>, Vec<_>) = table
            .into_iter()
            .partition(|(key, value)| ["rule", "emit", "rotate"].contains(&key.as_str()) && value.is_array());
        let each = lists.into_iter().flat_map(|(key, list)| {
            let list = list.as_array().cloned().unwrap_or_default();
            list.into_iter().map(move |entry| toml::Table::from_iter([(key.clone(), toml::Value::Array(vec![entry]))]))
        });
        let rest = rest.into_iter().map(|(key, value)| toml::Table::from_iter([(key, value)]));
        each.chain(rest).collect()
    }

    #[test]
    fn the_schema_and_the_parser_agree_on_every_entry_of_the_broken_files() {
        let validator = validator();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
        let (mut valid, mut refused, mut unused, mut wrong) = (0, 0, HIDDEN.to_vec(), Vec::new());
        for file in std::fs::read_dir(folder).expect("the folder is there") {
            let path = file.expect("it can be read").path();
            let text = std::fs::read_to_string(&path).expect("it is text");
            let Some(table) =
                text.parse::<toml::Table>().ok().filter(|_| path.extension().is_some_and(|end| end == "toml"))
            else {
                continue;
            };
            for entry in if table.is_empty() { vec![table] } else { entries(table) } {
                let text = entry.to_string();
                let (_, problems) = check_text("entry", &text);
                let errors: Vec<_> = problems.iter().filter(|problem| problem.is_error()).collect();
                let is = |error: &Diagnostic, part: &str| error.code == part || error.message.contains(part);
                let is_hidden = |error: &&Diagnostic| HIDDEN.iter().any(|(part, _)| is(error, part));
                unused.retain(|(part, _)| !errors.iter().any(|error| is(error, part)));
                match (errors.is_empty(), validator.is_valid(&json_of(&text))) {
                    (true, accepted) => {
                        assert!(accepted, "the schema refuses a valid scenario: {text}");
                        valid += 1;
                    }
                    (false, true) => {
                        wrong.extend(
                            errors
                                .into_iter()
                                .filter(|error| !is_hidden(error))
                                .map(|error| format!("{}: {text}{error:?}", path.display())),
                        );
                    }
                    (false, false) => refused += 1,
                }
            }
        }
        assert!(wrong.is_empty(), "the schema accepts these:\n{}", wrong.join("\n"));
        assert!(valid > 50 && refused > 50, "{valid} valid entries, {refused} refused");
        assert_eq!(unused, [], "no file has these");
    }

    /// Run with `UPDATE_EXPECTED=1` to write the files anew.
    #[test]
    fn the_schema_and_the_page_are_in_step() {
        let made = serde_json::to_string_pretty(&schema()).expect("it serialises") + "\n";
        for (name, made) in
            [("scenarios/scenario.schema.json", made), ("docs/scenario-language.md", language_markdown())]
        {
            let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            if std::env::var_os("UPDATE_EXPECTED").is_some() {
                std::fs::write(&place, &made).expect("the file can be written");
            }
            let text = std::fs::read_to_string(&place).unwrap_or_default();
            assert!(text == made, "{name} has changed: run the tests once with UPDATE_EXPECTED=1");
        }
    }
}
