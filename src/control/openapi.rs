//! The `OpenAPI` 3.1 document of the control API, made from its table of calls and their types, and the JSON Schema of run documents,
//! which is a part of it.

use std::collections::BTreeMap;

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::PREFIX;
use super::endpoint::{Described, Route, Schemas};
use super::reply::Error;
use crate::contract::error::ErrorKind;
use crate::contract::keys::SAMPLE_KEY;
use crate::util::schema::plain;

/// The groups in which the document lists calls: the name, the subject, and the beginning of their paths.
const TAGS: [(&str, &str, &[&str]); 7] = [
    ("emulator", "The emulator itself and its documents.", &["health", "ca.pem", "openapi.json", "v1"]),
    ("profile", "Settings, and what the contract leaves open.", &["assumptions", "profile"]),
    ("requests", "What clients sent and were answered.", &["requests"]),
    (
        "results",
        "What happened, why, and the problems found.",
        &["verdict", "findings", "run", "report.html", "explain", "outcome", "stream"],
    ),
    (
        "webhooks",
        "Subscriptions, events, deliveries and built-in receivers.",
        &["subscriptions", "events", "deliveries", "sink"],
    ),
    ("scenarios", "Stories that decide how requests are answered.", &["scenarios"]),
    ("state", "The clock, and the state of keys.", &["clock", "reset", "snapshot"]),
];

/// The JSON Schema of run documents, by itself.
pub(super) fn run_schema(document: &Value) -> Value {
    let within = document["components"]["schemas"].to_string().replace("#/components/schemas/", "#/$defs/");
    let mut rest: Map<String, Value> = serde_json::from_str(&within).expect("it was JSON before");
    let mut root = rest.remove("Run").unwrap_or_default();
    // Only what a run document consists of, in the order in which it is named.
    let (mut definitions, mut names) = (Map::new(), referenced(&root));
    while let Some(name) = names.pop() {
        if let Some(schema) = rest.remove(&name) {
            names.extend(referenced(&schema));
            definitions.insert(name, schema);
        }
    }
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root["title"] = "Run".into();
    root["$defs"] = definitions.into();
    root
}

/// The names of the definitions that a schema refers to.
fn referenced(schema: &Value) -> Vec<String> {
    let text = schema.to_string();
    text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

pub(super) fn document(calls: &[Route]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in calls {
        let described = (route.describe)(&mut schemas);
        let path = paths.entry(format!("{PREFIX}{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route, &described);
    }
    let tags: Vec<Value> = TAGS.iter().map(|(name, text, _)| json!({ "name": name, "description": text })).collect();
    let responses = shared_responses(&schemas.answers.subschema_for::<Error>());
    let mut components = schemas.answers.take_definitions(true);
    components.values_mut().for_each(plain);
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "wrs-emulator control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that the command line can do with a running emulator. `key` names a workspace by key \
                            or id; absent, it is the sample key's; `*` is all. HEAD is answered wherever GET is, \
                            but for the stream.",
            "license": { "name": "MIT", "identifier": "MIT" },
            "contact": { "name": "wrs-emulator" },
        },
        "servers": [{ "url": "/" }],
        // Without a token where the emulator was given none.
        "security": [{ "token": [] }, {}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The control token, where the emulator was given one or made one.",
                },
            },
            "responses": responses,
            "schemas": components,
        },
    })
}

fn operation(route: &Route, described: &Described) -> Value {
    let mut parameters = Vec::new();
    if let Some((_, name, _)) = route.segment() {
        let schema = json!({ "type": "string", "minLength": 1, "examples": [segment_example(route)] });
        parameters.push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }
    let query = |name: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "schema": schema });
    parameters.extend(described.query.iter().map(|(name, schema)| query(name, present(schema.clone()))));
    if !route.is_open {
        let about = "An API key, or the name or id of its workspace; `*` means all.";
        parameters.push(query("key", json!({ "type": "string", "description": about, "examples": [SAMPLE_KEY] })));
    }
    let mut operation = json!({
        "operationId": id(route),
        "tags": [tag(route)],
        "summary": described.summary,
        "description": described.about,
        "parameters": parameters,
    });
    if route.is_write() {
        operation["requestBody"] = body(route, &described.body);
    }
    operation["responses"] = responses(route, described);
    if route.is_open {
        operation["security"] = json!([]);
    }
    operation
}

/// The name of a call that generators make a function of: `get_requests_by_id`.
fn id(route: &Route) -> String {
    let path = route.path.replace('{', "by_").replace('}', "").replace(['/', '.'], "_");
    format!("{}_{path}", route.method.as_str().to_ascii_lowercase())
}

fn tag(route: &Route) -> &'static str {
    let first = route.path.split('/').next().unwrap_or_default();
    let found = TAGS.iter().find(|(.., paths)| paths.contains(&first));
    found.unwrap_or_else(|| panic!("no tag has `{}`", route.path)).0
}

fn segment_example(route: &Route) -> &'static str {
    match route.path.split('/').next() {
        Some("scenarios") => "rate-limit-burst",
        Some("sink") => "app",
        Some("explain") => "latest",
        Some("subscriptions") => "sub_01kg9tbs8075j3q2a1zqxhg4v6",
        Some("deliveries") => "dlv_01kg9tbs8075j3q2a1zqxhg4v6",
        _ => "req_01kg9tbs8075j3q2a1zqxhg4v6",
    }
}

/// The schema of a parameter, which is never null: it is present or absent.
fn present(mut schema: Value) -> Value {
    for keyword in ["type", "enum", "anyOf"] {
        let Some(kinds) = schema.get_mut(keyword).and_then(Value::as_array_mut) else { continue };
        kinds.retain(|kind| !kind.is_null() && kind != "null" && kind.get("type").is_none_or(|kind| kind != "null"));
        let [one] = &kinds[..] else { continue };
        let one = one.clone();
        match (keyword, one) {
            ("anyOf", Value::Object(fields)) => {
                let outer = schema.as_object_mut().expect("it has keywords");
                outer.shift_remove(keyword);
                for (name, part) in fields {
                    outer.entry(name).or_insert(part);
                }
            }
            ("type", one) => schema[keyword] = one,
            _ => {}
        }
    }
    schema
}

fn body(route: &Route, schema: &Value) -> Value {
    let mut content = json!({ "application/json": { "schema": schema } });
    if route.takes_toml {
        let example = "[[rule]]\ntimes = 3\nreply = { error = \"rate_limit_exceeded\" }\n";
        content["application/toml"] = json!({ "schema": { "type": "string" }, "example": example });
    }
    // A body is required only if one of its fields is.
    let required = route.takes_toml
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

/// The errors that several calls share.
fn shared_responses(error: &Schema) -> Value {
    let all = COMMON.into_iter().chain(GUARDED).chain(READS);
    in_order(all.map(|(status, text)| (format!("Error{status}"), error_answer(status, text, error))))
}

/// An object whose fields are sorted.
fn in_order(fields: impl Iterator<Item = (String, Value)>) -> Value {
    let sorted: BTreeMap<String, Value> = fields.collect();
    json!(sorted)
}

fn error_answer(status: u16, text: &str, schema: &Schema) -> Value {
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.status() == status);
    let example = json!({ "error": { "code": kind.map(ErrorKind::name), "message": text } });
    let content = json!({ "application/json": { "schema": schema, "example": example } });
    json!({ "description": text, "content": content })
}

/// The answer of each status: what the call gives, and everything that can go wrong.
fn responses(route: &Route, described: &Described) -> Value {
    let guarded = GUARDED.into_iter().filter(|_| !route.is_open);
    let reads = READS.into_iter().filter(|_| !route.is_write());
    let reference = |status| json!({ "$ref": format!("#/components/responses/Error{status}") });
    let errors =
        COMMON.into_iter().chain(guarded).chain(reads).map(|(status, _)| (status.to_string(), reference(status)));
    let own = route.errors.iter();
    let own = own.map(|(status, text)| (status.to_string(), error_answer(*status, text, &described.error)));
    let mut content = json!({ route.media[0]: { "schema": described.answer } });
    for further in &route.media[1..] {
        content[further] = json!({ "schema": { "type": "string" } });
    }
    let done = [("200".to_owned(), json!({ "description": "Done.", "content": content }))];
    in_order(errors.chain(own).chain(done))
}
