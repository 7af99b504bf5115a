//! What a tool is, and its definition in the protocol: its schemas are those of the control API's `OpenAPI` document.

use serde::Serialize;
use serde_json::{Map, Value};

use super::session::{Arguments, Session};
use crate::cli::failure::Failure;
use crate::control::PREFIX;

/// One tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// In plain English, for a model.
    pub(super) description: &'static str,
    pub(super) effect: Effect,
    /// The calls, as `METHOD path`, whose parameters and body it takes.
    pub(super) takes: &'static [&'static str],
    /// Arguments that the document does not describe well, or that are the tool's own texts.
    pub(super) fields: &'static [(&'static str, &'static str)],
    pub(super) required: &'static [&'static str],
    /// The parts of its answer: for each its name, the call whose answer it comes from, and its place in that answer's schema.
    pub(super) parts: &'static [(&'static str, &'static str, &'static str)],
    pub(super) run: fn(&Session, Arguments) -> Result<Outcome, Failure>,
}

/// What a tool may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// It adds something, or changes what can be changed back; a second call may change more.
    Adds,
    /// It changes what can be changed back; a second call changes nothing more.
    Sets,
    /// It cannot be undone.
    Destroys,
}

/// What a tool found or did.
pub(super) struct Outcome {
    /// The key that it is about.
    pub(super) key: String,
    /// The answers, in the order of [`Tool::parts`].
    pub(super) parts: Vec<Value>,
    /// The same in short, for people and models.
    pub(super) text: String,
}

/// A tool as the protocol lists it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Definition {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input_schema: Map<String, Value>,
    output_schema: Map<String, Value>,
    annotations: Annotations,
}

/// Hints about a tool's effects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    title: &'static str,
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

impl Tool {
    /// Its definition, by the document of the control API.
    pub(super) fn definition(&self, document: &Value) -> Definition {
        let effect = self.effect;
        Definition {
            name: self.name,
            title: self.title,
            description: self.description,
            input_schema: object(self.arguments(document), self.required.iter().copied(), Map::new()),
            output_schema: self.answer(document),
            annotations: Annotations {
                title: self.title,
                read_only_hint: effect == Effect::Reads,
                destructive_hint: effect == Effect::Destroys,
                idempotent_hint: matches!(effect, Effect::Reads | Effect::Sets),
                open_world_hint: false,
            },
        }
    }

    /// The arguments that it takes, with their schemas.
    pub(super) fn arguments(&self, document: &Value) -> Map<String, Value> {
        let mut found: Map<String, Value> = Map::new();
        for call in self.takes {
            let operation = operation(document, call);
            let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
            found.extend(
                parameters.filter_map(|one| Some((one.get("name")?.as_str()?.to_owned(), one.get("schema")?.clone()))),
            );
            let body = operation.pointer("/requestBody/content/application~1json/schema/properties");
            found.extend(body.and_then(Value::as_object).cloned().unwrap_or_default());
        }
        for schema in found.values_mut() {
            never_null(schema);
            rewrite(schema, &mut Vec::new());
        }
        found.remove("key");
        for (name, description) in self.fields {
            let text = || Value::from(Map::from_iter([("type".to_owned(), "string".into())]));
            let schema = found.entry(*name).or_insert_with(text);
            if let Some(schema) = schema.as_object_mut() {
                schema.insert("description".to_owned(), (*description).into());
            }
        }
        found
    }

    /// The schema of its answer.
    fn answer(&self, document: &Value) -> Map<String, Value> {
        let text = |description: &str| {
            Map::from_iter([("type".to_owned(), "string".into()), ("description".to_owned(), description.into())])
        };
        let mut shortened = text("What was left out, as the answer would be too long; empty if it is complete.");
        shortened.insert("type".to_owned(), "array".into());
        shortened.insert("items".to_owned(), Value::from(Map::from_iter([("type".to_owned(), "string".into())])));
        let mut properties = Map::from_iter([
            ("key".to_owned(), text("The key that this is about; `*` is all.").into()),
            ("shortened".to_owned(), shortened.into()),
        ]);
        let mut open = Vec::new();
        for (name, call, place) in self.parts {
            let place = format!("/responses/200/content/application~1json/schema{place}");
            let mut schema = operation(document, call).pointer(&place).cloned().unwrap_or_default();
            rewrite(&mut schema, &mut open);
            properties.insert((*name).to_owned(), schema);
        }
        let mut definitions = Map::new();
        while let Some(name) = open.pop() {
            if definitions.contains_key(&name) {
                continue;
            }
            let mut schema = document.pointer(&format!("/components/schemas/{name}")).cloned().unwrap_or_default();
            rewrite(&mut schema, &mut open);
            definitions.insert(name, schema);
        }
        let required = ["key", "shortened"].into_iter().chain(self.parts.iter().map(|(name, ..)| *name));
        object(properties, required, definitions)
    }
}

/// The operation of a call such as `GET explain/{id}`.
fn operation<'a>(document: &'a Value, call: &str) -> &'a Value {
    let (method, path) = call.split_once(' ').unwrap_or_default();
    let path = format!("{PREFIX}{path}").replace('/', "~1");
    let found = document.pointer(&format!("/paths/{path}/{}", method.to_ascii_lowercase()));
    found.unwrap_or(&Value::Null)
}

/// The schema of an object with these fields and no others.
fn object<'a>(
    properties: Map<String, Value>,
    required: impl Iterator<Item = &'a str>,
    definitions: Map<String, Value>,
) -> Map<String, Value> {
    let mut schema = Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.map(Value::from).collect()),
        ("additionalProperties".to_owned(), false.into()),
    ]);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), definitions.into());
    }
    schema
}

/// Points references at `$defs` and collects their names; drops formats that validators do not know.
fn rewrite(schema: &mut Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                name != "format" || !value.as_str().is_some_and(|format| format.starts_with("uint"))
            });
            for (name, value) in fields {
                match value
                    .as_str()
                    .filter(|_| name == "$ref")
                    .and_then(|path| path.strip_prefix("#/components/schemas/"))
                {
                    Some(target) => {
                        found.push(target.to_owned());
                        *value = format!("#/$defs/{target}").into();
                    }
                    None => rewrite(value, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                rewrite(item, found);
            }
        }
        _ => {}
    }
}

/// An argument is there or not; it is never null.
fn never_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.retain(|name, value| name != "default" || !value.is_null());
    for name in ["type", "enum", "anyOf"] {
        let Some(Value::Array(kinds)) = fields.get_mut(name) else { continue };
        kinds.retain(|kind| !kind.is_null() && kind != "null" && kind.get("type").is_none_or(|kind| kind != "null"));
        if kinds.len() > 1 {
            continue;
        }
        match (name, kinds.pop()) {
            ("type", Some(only)) => drop(fields.insert(name.to_owned(), only)),
            ("anyOf", Some(Value::Object(only))) => {
                fields.remove(name);
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            }
            _ => {}
        }
    }
}
