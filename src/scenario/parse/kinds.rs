//! The forms of tables and their values: as the page about the language shows it, as JSON Schema, and as the reader checks it.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use toml::de::DeValue;

use crate::contract::error::ErrorKind;
use crate::contract::headers::{FRAMING, OWN_PREFIX};
use crate::contract::nearest;
use crate::contract::rules::url_schema;
use crate::util::duration::parse_duration;
use crate::util::wording::quoted;

#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) kind: ValueKind,
    pub(crate) meaning: &'static str,
}

/// A kind of table: its name in messages, and its keys.
#[derive(Clone, Debug)]
pub(crate) struct TableKeys {
    /// The name of its definition in the schema.
    pub(crate) definition: &'static str,
    /// As in "unknown key in …".
    pub(crate) place: &'static str,
    pub(crate) keys: Vec<KeySpec>,
    /// Which of its keys go together.
    pub(crate) rules: Vec<KeyRule>,
}

/// The description of a kind of table.
pub(crate) type Described = fn() -> TableKeys;

/// Constraints between the keys of a table. The reader reports the first three and `Requires`; what depends on more than the keys is
/// reported by what reads the table, and is here for the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyRule {
    /// The first of these keys that is present excludes the others; reason and hint.
    Excludes(Names, Names, &'static str, &'static str),
    /// The one key needs the other; hint.
    Needs(&'static str, &'static str, &'static str),
    /// The value of a key decides which others there may be.
    Takes(&'static str, &'static [(&'static str, Names)]),
    /// One of these must be there.
    AnyOf(Names),
    /// The same, reported by the reader; hint.
    Requires(Names, &'static str),
    /// It has a key.
    NotEmpty,
    /// These are sought here, but are decided elsewhere; hint where.
    Elsewhere(Names, &'static str),
    /// A schema that this table must not match.
    Never(MakeSchema),
}

pub(crate) type Names = &'static [&'static str];

impl KeyRule {
    /// The schemas that a table must not match.
    fn refused(self, table: &TableKeys) -> Vec<Value> {
        match self {
            Self::Excludes(firsts, others, ..) => vec![json!({"allOf": [any_of(firsts), any_of(others)]})],
            Self::Needs(key, needed, _) => vec![json!({"required": [key], "not": {"required": [needed]}})],
            Self::Takes(by, kinds) => {
                let refused = |(kind, taken): &(&str, Names)| {
                    let mut others = table.names();
                    others.retain(|key| *key != by && !taken.contains(key));
                    json!({"required": [by], "properties": {by: {"enum": [kind]}}, "allOf": [any_of(&others)]})
                };
                kinds.iter().map(refused).collect()
            }
            Self::Never(schema) => vec![schema()],
            Self::AnyOf(_) | Self::Requires(..) | Self::NotEmpty | Self::Elsewhere(..) => Vec::new(),
        }
    }
}

impl TableKeys {
    /// The keywords of its schema that say which of its keys go together.
    pub(crate) fn rules_schema(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let refused: Vec<Value> = self.rules.iter().flat_map(|rule| rule.refused(self)).collect();
        let needed = self.rules.iter().filter_map(|rule| match rule {
            KeyRule::AnyOf(keys) | KeyRule::Requires(keys, _) => Some(("allOf", json!([any_of(keys)]))),
            KeyRule::NotEmpty => Some(("minProperties", 1.into())),
            _ => None,
        });
        let refused = (!refused.is_empty()).then(|| ("not", json!({"anyOf": refused})));
        needed.chain(refused)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// The names of the keys that must be there.
    pub(crate) fn required(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().filter(|key| key.required).map(|key| key.name)
    }

    /// The keys of the table, or of the tables, at a key.
    pub(crate) fn inner(&self, name: &str) -> Option<Self> {
        match self.find(name)?.kind {
            ValueKind::Table(described)
            | ValueKind::Tables(described)
            | ValueKind::Steps(described)
            | ValueKind::Delay(described)
            | ValueKind::NameOr(_, described)
            | ValueKind::TextOr(described) => Some(described()),
            _ => None,
        }
    }
}

/// The names that a value may be.
pub(crate) type Choices = fn() -> Vec<&'static str>;

type MakeSchema = fn() -> Value;

pub(crate) const ANY: u64 = u64::MAX;
const A_DURATION: &str = "a duration such as \"250ms\" or \"30s\"";

#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueKind {
    Text,
    /// A text with its own schema. What reads it checks it.
    TextOf(MakeSchema),
    /// A text that must not be empty.
    Name,
    /// An integer from the first to the second.
    Integer(u64, u64),
    Number,
    /// A number above 0, at most 1.
    Chance,
    Boolean,
    True,
    Duration,
    /// One of these names.
    OneOf(Choices),
    /// A duration, or a table of two between which it lies.
    Delay(Described),
    Table(Described),
    Tables(Described),
    /// Tables, at least one.
    Steps(Described),
    /// One of these names, or a table.
    NameOr(Choices, Described),
    /// Any name, or a table.
    TextOr(Described),
    /// A table with any keys: the meaning of its values, for the page about the language, and their schema.
    Fields(&'static str, &'static str, MakeSchema),
    /// An array: the meaning of its items, for that page, and their schema.
    Array(&'static str, &'static str, MakeSchema),
    /// Any other form: as the page shows it, and its schema. What reads it checks it.
    Form(&'static str, MakeSchema),
}

/// The pattern of a header's name (RFC 9110).
const HEADER_NAME: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

pub(crate) const EVENTS: ValueKind = ValueKind::Array(
    "an array of event types",
    "array of event types",
    || json!({"type": "array", "minItems": 1, "items": reference("event")}),
);
pub(crate) const EVENT: ValueKind = ValueKind::TextOf(|| reference("event"));
pub(crate) const OPERATIONS: ValueKind = ValueKind::Form("operation, or array of them", || reference("operation"));
pub(crate) const POINTERS: ValueKind = ValueKind::Form("JSON pointer, or array of them", || {
    let pointer = json!({"type": "string", "pattern": "^/"});
    json!({"anyOf": [pointer, {"type": "array", "items": pointer}]})
});
pub(crate) const CONDITION: ValueKind = ValueKind::Form("value, or a matcher", || reference("condition"));
pub(crate) const NEGATED: ValueKind = ValueKind::Form("value, or a matcher", any_condition);
pub(crate) const CONDITIONS: ValueKind = ValueKind::Fields(
    "a table of names",
    "table: name to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": reference("condition")}),
);
pub(crate) const HEADER_CONDITIONS: ValueKind = ValueKind::Fields(
    "a table of names",
    "table: name to value, or to a matcher",
    || json!({"type": "object", "propertyNames": {"pattern": HEADER_NAME}, "additionalProperties": reference("condition")}),
);
pub(crate) const BODY_CONDITIONS: ValueKind = ValueKind::Fields(
    "a table of names",
    "table: JSON pointer to value, or to a matcher",
    || json!({"type": "object", "additionalProperties": false, "patternProperties": {"^(/|$)": any_condition()}}),
);
pub(crate) const HEADERS: ValueKind = ValueKind::Fields(
    "a table of names and strings",
    "table: name to string or integer",
    || {
        let scripted = format!("^({}|{}.*)$", FRAMING.map(in_any_case).join("|"), in_any_case(OWN_PREFIX));
        let names = json!({"pattern": HEADER_NAME, "not": {"pattern": scripted}});
        // Visible ASCII, and no template.
        let text = json!({"type": "string", "pattern": r"^[\t -~]*$", "not": {"pattern": r"\{[{%]"}});
        json!({"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": [text, {"type": "integer"}]}})
    },
);
pub(crate) const STATUS: RangeInclusive<u64> = 200..=599;
pub(crate) const PATTERN: ValueKind = ValueKind::TextOf(|| {
    // The format knows only the expressions of JavaScript, which has neither flags in the middle nor this form of named groups.
    json!({"type": "string", "anyOf": [{"format": "regex"}, {"pattern": r"\(\?(P<|[a-zA-Z-]+[:)])"}]})
});
pub(crate) const URL: ValueKind = ValueKind::TextOf(|| url_schema(true));
pub(crate) const ANYTHING: ValueKind = ValueKind::Form("any value", || json!({}));
pub(crate) const ARRAY: ValueKind = ValueKind::Array("an array of values", "array", || json!({"type": "array"}));
pub(crate) const ANY_TABLE: ValueKind = ValueKind::Fields("a table of fields", "table", free_form);
pub(crate) const SETTINGS: ValueKind =
    ValueKind::Fields("a table of settings", "table of settings", || reference("profile"));

/// The value with which a place in a body is compared.
fn any_condition() -> Value {
    json!({"anyOf": [{"type": ["string", "number", "boolean", "array"]}, reference("matcher")]})
}

/// A table with any keys, which readers such as Tombi expect to be stated.
fn free_form() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// A pattern of a name in upper case, lower case or both: the patterns of JSON Schema have no flags.
fn in_any_case(name: &str) -> String {
    let both = |c: char| match c {
        'a'..='z' => format!("[{}{c}]", c.to_ascii_uppercase()),
        _ => c.to_string(),
    };
    name.chars().map(both).collect()
}

/// The hint where two keys exclude each other.
pub(crate) const KEEP_ONE: &str = "keep one of the two";

/// The problem of a value.
pub(crate) struct ValueProblem {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// How to mend it; the meaning of the key if absent.
    pub(crate) hint: Option<String>,
}

impl ValueKind {
    /// As the page about the language shows it.
    pub(crate) fn text(self) -> String {
        let names = |names: Choices| names().iter().map(|name| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", ");
        match self {
            Self::Text | Self::TextOf(_) | Self::Name => "string".to_owned(),
            Self::Integer(least, ANY) => format!("integer, at least {least}"),
            Self::Integer(least, most) => format!("integer, {least} to {most}"),
            Self::Number => "number".to_owned(),
            Self::Chance => "number, above 0, at most 1".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::True => "`true`".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::OneOf(choices) => names(choices),
            Self::Delay(table) => format!("duration, or table {}", table().place),
            Self::Table(table) => format!("table {}", table().place),
            Self::Tables(table) | Self::Steps(table) => format!("array, each {}", table().place),
            Self::NameOr(choices, table) => format!("{}, or table {}", names(choices), table().place),
            Self::TextOr(table) => format!("string, or table {}", table().place),
            Self::Fields(_, text, _) | Self::Array(_, text, _) | Self::Form(text, _) => text.to_owned(),
        }
    }

    /// Its JSON Schema.
    pub(crate) fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Name => name(),
            Self::Integer(least, ANY) => json!({"type": "integer", "minimum": least}),
            Self::Integer(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::Number => json!({"type": "number"}),
            Self::Chance => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::True => json!({"enum": [true]}),
            Self::Duration => reference("duration"),
            Self::OneOf(names) => json!({"enum": names()}),
            Self::Delay(_) => json!({"anyOf": [reference("duration"), spread("min", "max"), spread("median", "p99")]}),
            Self::Table(table) => reference(table().definition),
            Self::Tables(table) => json!({"type": "array", "items": reference(table().definition)}),
            Self::Steps(table) => json!({"type": "array", "minItems": 1, "items": reference(table().definition)}),
            Self::NameOr(names, table) => json!({"anyOf": [{"enum": names()}, reference(table().definition)]}),
            Self::TextOr(table) => json!({"anyOf": [name(), reference(table().definition)]}),
            Self::Fields(_, _, schema) | Self::Array(_, _, schema) | Self::Form(_, schema) | Self::TextOf(schema) => {
                schema()
            }
        }
    }

    /// The problem of a key's value. The content of tables and arrays is checked by their own readers.
    pub(crate) fn problem(self, key: &str, value: &DeValue<'_>) -> Option<ValueProblem> {
        let wrong_type = |expected: &str| Some(ValueProblem::wrong_type(key, expected, value));
        let without_hint = |expected: &str| {
            Some(ValueProblem { hint: Some(String::new()), ..ValueProblem::wrong_type(key, expected, value) })
        };
        match (self, value) {
            (Self::Text | Self::TextOf(_), DeValue::String(_))
            | (Self::Boolean, DeValue::Boolean(_))
            | (Self::True, DeValue::Boolean(true))
            | (
                Self::Delay(_) | Self::NameOr(..) | Self::TextOr(_) | Self::Table(_) | Self::Fields(..),
                DeValue::Table(_),
            )
            | (Self::Tables(_) | Self::Steps(_) | Self::Array(..), DeValue::Array(_))
            | (Self::Form(..), _) => None,
            (Self::Name | Self::TextOr(_) | Self::OneOf(_) | Self::NameOr(..), DeValue::String(text)) => {
                self.problem_of_name(key, text)
            }
            (Self::Text | Self::TextOf(_) | Self::Name | Self::TextOr(_), _) => wrong_type("a string"),
            (Self::OneOf(_), _) => wrong_type("a name"),
            (Self::NameOr(_, table), _) => match table().required().next() {
                Some(key) => without_hint(&format!("a name, or a table with `{key}`")),
                None => without_hint("a name or a table"),
            },
            (Self::Integer(least, most), DeValue::Integer(number)) => {
                let read = i128::from_str_radix(number.as_str(), number.radix()).ok();
                match most {
                    _ if read.is_some_and(|read| (i128::from(least)..=i128::from(most)).contains(&read)) => None,
                    ANY => Some(ValueProblem::bad(format!("`{key}` must be at least {least}, found {number}"), None)),
                    most => {
                        Some(ValueProblem::bad(format!("`{key}` must be from {least} to {most}, found {number}"), None))
                    }
                }
            }
            (Self::Integer(..), _) => wrong_type("an integer"),
            (Self::Number | Self::Chance, DeValue::Integer(_) | DeValue::Float(_)) => match number(value) {
                None => Some(ValueProblem::bad(format!("`{key}` must be a finite decimal number"), Some(""))),
                Some(number) if matches!(self, Self::Chance) && !(number > 0.0 && number <= 1.0) => {
                    let message = format!("`{key}` must be greater than 0 and at most 1, found {number}");
                    Some(ValueProblem::bad(message, Some("0.25 is one request in four")))
                }
                Some(_) => None,
            },
            (Self::Number | Self::Chance, _) => wrong_type("a number"),
            (Self::True, DeValue::Boolean(false)) => Some(ValueProblem::bad(
                format!("`{key}` can only be true"),
                Some("leave `pass` out, or say `pass = true`"),
            )),
            (Self::Boolean | Self::True, _) => wrong_type("a boolean"),
            (Self::Duration | Self::Delay(_), DeValue::String(text)) => {
                let message = parse_duration(text).err()?;
                let hint = Some("units are ms, s, m, h and d".to_owned());
                Some(ValueProblem { code: "scenario/bad-duration", message, hint })
            }
            (Self::Duration | Self::Delay(_), DeValue::Integer(number)) => Some(ValueProblem {
                code: "scenario/bad-duration",
                message: format!("expected {A_DURATION} for `{key}`, found the bare number {number}"),
                hint: Some(with_unit(key, number)),
            }),
            (Self::Duration | Self::Delay(_), _) => wrong_type(A_DURATION),
            (Self::Table(_), _) => wrong_type("a table"),
            (Self::Fields(what, ..), _) => wrong_type(what),
            (Self::Array(what, ..), _) => without_hint(what),
            (Self::Tables(table), DeValue::Table(_)) => Some(ValueProblem {
                code: "scenario/wrong-type",
                message: format!("expected an array of tables for `{key}`, found one table"),
                hint: Some(format!("write {}, with double brackets: there may be several", table().place)),
            }),
            (Self::Tables(_) | Self::Steps(_), _) => wrong_type("an array of tables"),
        }
    }

    fn problem_of_name(self, key: &str, text: &str) -> Option<ValueProblem> {
        // Every string that names or labels something must have content.
        if text.trim().is_empty() {
            return Some(ValueProblem::bad(
                format!("`{key}` must not be empty"),
                Some("leave it out, or write a string"),
            ));
        }
        let (Self::OneOf(names) | Self::NameOr(names, _)) = self else { return None };
        let names = names();
        if names.contains(&text) {
            return None;
        }
        let (code, message) = match key {
            "error" => ("scenario/unknown-error", format!("unknown error `{}`", quoted(text))),
            "fault" | "kind" => ("scenario/bad-value", format!("unknown fault `{}`", quoted(text))),
            _ => ("scenario/bad-value", format!("unknown value \"{}\" for `{key}`", quoted(text))),
        };
        Some(ValueProblem { code, message, hint: Some(nearest_hint(text, &names)) })
    }
}

impl ValueProblem {
    fn bad(message: String, hint: Option<&str>) -> Self {
        Self { code: "scenario/bad-value", message, hint: hint.map(str::to_owned) }
    }

    pub(crate) fn wrong_type(key: &str, expected: &str, found: &DeValue<'_>) -> Self {
        let kind = match found {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let is_bare = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite) || matches!(text, "true" | "false");
        let in_quotes = |value: &dyn std::fmt::Display| Some(format!("write it in quotes: {key} = \"{value}\""));
        let hint = match (expected, found) {
            ("a string", DeValue::Integer(number)) => in_quotes(number),
            ("a string", DeValue::Float(number)) => in_quotes(number),
            ("a string", DeValue::Boolean(flag)) => in_quotes(flag),
            (A_DURATION, DeValue::Float(number)) => Some(with_unit(key, number)),
            ("a name", DeValue::Integer(number)) if key == "error" => {
                let kind = number.as_str().parse().ok().and_then(ErrorKind::from_status);
                kind.map(|kind| format!("the error with this status: error = \"{}\"", kind.name()))
            }
            ("an integer" | "a number" | "a boolean", DeValue::String(text)) if is_bare(text) => {
                Some(format!("write it without quotes: {key} = {text}"))
            }
            _ => None,
        };
        let message = format!("expected {expected} for `{}`, found {kind}", quoted(key));
        Self { code: "scenario/wrong-type", message, hint }
    }
}

fn with_unit(key: &str, number: &dyn std::fmt::Display) -> String {
    format!("write the unit: `{key} = \"{number}s\"` or `{key} = \"{number}ms\"`")
}

/// A finite number, with or without a fraction.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    let digits = match value {
        DeValue::Integer(number) => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => return None,
    };
    digits.parse().ok().filter(|number: &f64| number.is_finite())
}

pub(crate) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// A table with one of these keys.
pub(crate) fn any_of(keys: &[&str]) -> Value {
    let required: Vec<Value> = keys.iter().map(|key| json!({"required": [key]})).collect();
    if let [one] = &required[..] { one.clone() } else { json!({"anyOf": required}) }
}

/// A text with content.
fn name() -> Value {
    json!({"type": "string", "pattern": "\\S"})
}

fn spread(low: &str, high: &str) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": [low, high],
        "properties": {low: reference("duration"), high: reference("duration")},
    })
}

/// "did you mean", or the whole list.
pub(crate) fn nearest_hint(typed: &str, names: &[&str]) -> String {
    match nearest(typed, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
    }
}
