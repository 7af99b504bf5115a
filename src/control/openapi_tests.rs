//! The `OpenAPI` 3.1 document of the control API, made from its table of calls and their types; built for tests only, which compare
//! it with the file that is served.

use std::collections::BTreeMap;

use hyper::Method;
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::PREFIX;
use super::reply::Error;
use super::routes::{CALLS, CallRow};
use super::stream::EVENT_STREAM;
use crate::committed;

/// The document of these calls.
fn document(calls: &[CallRow]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for row in calls {
        let described = (row.describe)(&mut schemas);
        let path = paths.entry(format!("{PREFIX}{}", row.path)).or_insert_with(|| json!({}));
        let name = row.method.as_str().to_ascii_lowercase();
        path[&name] = operation(row, &described, &name, true);
        if row.method == Method::GET && row.media != [EVENT_STREAM] {
            path["head"] = operation(row, &described, "head", false);
        }
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "wrs-emulator control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that the command line can do with a running emulator. `key` names a workspace by key, \
                            group name or id; absent, it is the sample key's; `*` is all.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The control token, where the emulator was given one or made one.",
                },
            },
            "responses": shared_responses(&schemas.answers.subschema_for::<Error>()),
            "schemas": schemas.answers.take_definitions(true),
        },
    })
}

fn operation(row: &CallRow, described: &Described, method: &str, has_bodies: bool) -> Value {
    let mut parameters = Vec::new();
    if let Some((_, name, _)) = row.segment() {
        let schema = json!({ "type": "string", "minLength": 1 });
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    let queries = described.query.get("properties").and_then(Value::as_object).into_iter().flatten();
    let query = |name: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "schema": schema });
    parameters.extend(queries.map(|(name, schema)| query(name, present(schema.clone()))));
    if !row.is_open {
        parameters.push(query("key", json!(schemars::schema_for!(String))));
    }
    let mut operation = json!({
        "operationId": format!("{method} {}", row.path.replace(['{', '}'], "")),
        "summary": row.summary,
        "parameters": parameters,
    });
    if row.is_write() {
        operation["requestBody"] = body(row, &described.body);
    }
    operation["responses"] = responses(row, described, has_bodies);
    operation["security"] = if row.is_open { json!([]) } else { json!([{ "token": [] }]) };
    operation
}

/// The schema of a parameter, which is never null: it is there or not.
fn present(mut schema: Value) -> Value {
    let is_null =
        |kind: &Value| kind.is_null() || kind == "null" || kind.get("type").is_some_and(|kind| kind == "null");
    for keyword in ["type", "enum", "anyOf"] {
        if let Some(kinds) = schema.get_mut(keyword).and_then(Value::as_array_mut) {
            kinds.retain(|kind| !is_null(kind));
        }
    }
    schema
}

fn body(row: &CallRow, schema: &Schema) -> Value {
    let mut content = json!({ "application/json": { "schema": Value::from(schema.clone()) } });
    if row.takes_toml {
        content["application/toml"] = json!({ "schema": schemars::schema_for!(String) });
    }
    // A body is required only if one of its fields is.
    let required = row.takes_toml
        || schema.get("required").is_some_and(|required| required.as_array().is_some_and(|fields| !fields.is_empty()))
        || schema.get("minProperties").is_some();
    json!({ "required": required, "content": content })
}

/// Errors of every call.
const COMMON: [(u16, &str); 8] = [
    (400, "Not a valid HTTP request, or one that a page of another site sent."),
    (408, "The body did not arrive in time, or a wait timed out."),
    (413, "The body is too large."),
    (414, "The request target is too long."),
    (415, "A content type that the call does not take, a content coding, or a transfer coding other than chunked."),
    (421, "The control API does not answer to this host."),
    (422, "A parameter or field is wrong; the message names it."),
    (431, "The header block is too large."),
];
/// Errors of calls that only read.
const READS: [(u16, &str); 1] = [(429, "Too many reads are waiting already.")];
/// Errors of calls that may require a token.
const GUARDED: [(u16, &str); 2] =
    [(401, "The control token is missing or wrong."), (404, "What is named, or the key, does not exist.")];

/// The name of an error that several calls share.
fn shared(status: u16, has_bodies: bool) -> String {
    format!("Error{status}{}", if has_bodies { "" } else { "WithoutBody" })
}

/// The errors that several calls share.
fn shared_responses(error: &Schema) -> Value {
    let both = COMMON
        .into_iter()
        .chain(GUARDED)
        .chain(READS)
        .flat_map(|(status, text)| [(status, text, true), (status, text, false)]);
    in_order(both.map(|(status, text, has_bodies)| {
        (shared(status, has_bodies), answer(text, "application/json", error, has_bodies))
    }))
}

/// An object whose fields are sorted.
fn in_order(fields: impl Iterator<Item = (String, Value)>) -> Value {
    let sorted: BTreeMap<String, Value> = fields.collect();
    json!(sorted)
}

fn answer(description: &str, media: &str, schema: &Schema, has_bodies: bool) -> Value {
    if has_bodies {
        json!({ "description": description, "content": { media: { "schema": Value::from(schema.clone()) } } })
    } else {
        json!({ "description": description })
    }
}

/// The answer of each status: what the call gives, and everything that can go wrong.
fn responses(row: &CallRow, described: &Described, has_bodies: bool) -> Value {
    let guarded = GUARDED.into_iter().filter(|_| !row.is_open);
    let reference = |status| json!({ "$ref": format!("#/components/responses/{}", shared(status, has_bodies)) });
    let reads = READS.into_iter().filter(|_| !row.is_write());
    let errors =
        COMMON.into_iter().chain(guarded).chain(reads).map(|(status, _)| (status.to_string(), reference(status)));
    let error = |text: &str| answer(text, "application/json", &described.error, has_bodies);
    let own = row.errors.iter().map(|(status, text)| (status.to_string(), error(text)));
    let mut done = answer("Done.", row.media[0], &described.answer, has_bodies);
    if has_bodies {
        for further in &row.media[1..] {
            done["content"][further] = json!({ "schema": { "type": "string" } });
        }
    }
    let done = [("200".to_owned(), done)];
    in_order(errors.chain(own).chain(done))
}

/// Generates the schemas of the `OpenAPI` document.
pub(super) struct Schemas {
    answers: SchemaGenerator,
    /// Bodies and parameters: what may be absent in them is always there in an answer.
    inputs: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = |contract| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.inline_subschemas = contract == Contract::Deserialize;
                settings.contract = contract;
            })
        };
        Self {
            answers: settings(Contract::Serialize).into_generator(),
            inputs: settings(Contract::Deserialize).into_generator(),
        }
    }
}

/// What a call takes and answers.
pub(super) struct Described {
    query: Schema,
    body: Schema,
    answer: Schema,
    error: Schema,
}

/// Describes a call.
pub(super) fn describe<Q: JsonSchema, B: JsonSchema, A: JsonSchema>(schemas: &mut Schemas) -> Described {
    Described {
        query: schemas.inputs.subschema_for::<Q>(),
        body: schemas.inputs.subschema_for::<B>(),
        answer: schemas.answers.subschema_for::<A>(),
        error: schemas.answers.subschema_for::<Error>(),
    }
}

#[test]
fn the_file_beside_is_made_from_the_calls_and_their_types() {
    let made = document(&CALLS);
    committed::compare("src/control/openapi.json", &committed::json(&made, 3));
}
