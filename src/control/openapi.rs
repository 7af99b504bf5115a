//! The `OpenAPI` 3.1 document of the control API, made from its table of calls and their types, and the JSON Schema of run documents,
//! which is a part of it.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::PREFIX;
use super::call::Call;
use super::reply::{ErrorView, NOT_NONE};
use crate::contract::error::ErrorKind;
use crate::contract::keys::SAMPLE_KEY;
use crate::util::schema::{inlined, plain};

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

pub(super) fn document(calls: &[Call]) -> Value {
    // Fields that may be absent in a request are always present in an answer.
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut answers = settings.into_generator();
    let (mut paths, mut tags): (Map<String, Value>, Vec<Value>) = Default::default();
    for call in calls {
        let tag = json!({ "name": call.tag.name, "description": call.tag.about });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        let path = paths.entry(format!("{PREFIX}{}", call.path)).or_insert_with(|| json!({}));
        path[call.method.as_str().to_ascii_lowercase()] = operation(call, &mut answers);
    }
    let responses = shared_responses(&answers.subschema_for::<ErrorView>());
    let mut components = answers.take_definitions(true);
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

fn operation(call: &Call, answers: &mut SchemaGenerator) -> Value {
    let parameter = |(name, schema): (&String, &Value), place: &str| {
        let mut schema = schema.clone();
        // The path says what its segment is.
        if place == "path" {
            schema.as_object_mut().expect("it has keywords").shift_remove("description");
        }
        json!({ "name": name, "in": place, "required": place == "path", "schema": schema })
    };
    let query = call.fields("query").filter(|(name, _)| *name != "key");
    let mut parameters: Vec<Value> = call.fields("path").map(|field| parameter(field, "path")).collect();
    parameters.extend(query.map(|field| parameter(field, "query")));
    if !call.options.is_open {
        let about = "An API key, or the name or id of its workspace; `*` means all.";
        let schema = json!({ "type": "string", "description": about, "examples": [SAMPLE_KEY] });
        parameters.push(parameter((&"key".to_owned(), &schema), "query"));
    }
    let (summary, about) = call.about();
    let mut operation = json!({
        "operationId": id(call),
        "tags": [call.tag.name],
        "summary": summary,
        "description": about,
        "parameters": parameters,
    });
    if call.is_write() {
        operation["requestBody"] = body(call);
    }
    operation["responses"] = responses(call, answers);
    if call.options.is_open {
        operation["security"] = json!([]);
    }
    operation
}

/// The name of a call that generators make a function of: `get_requests_by_id`.
fn id(call: &Call) -> String {
    let path = call.path.replace('{', "by_").replace('}', "").replace(['/', '.'], "_");
    format!("{}_{path}", call.method.as_str().to_ascii_lowercase())
}

fn body(call: &Call) -> Value {
    let schema = if let Some(raw) = call.options.raw_body {
        inlined(raw, Contract::Deserialize)
    } else {
        let mut schema = call.part("body").expect("a call that writes has a body").clone();
        schema.shift_remove("description");
        schema.into()
    };
    // A body is required only if one of its fields is.
    let is_required =
        call.options.takes_toml || schema.get("required").is_some() || schema.get("minProperties").is_some();
    let mut content = json!({ "application/json": { "schema": schema } });
    if call.options.takes_toml {
        let example = "[[rule]]\ntimes = 3\nreply = { error = \"rate_limit_exceeded\" }\n";
        content["application/toml"] = json!({ "schema": { "type": "string" }, "example": example });
    }
    json!({ "required": is_required, "content": content })
}

/// Errors of every call.
const COMMON: [(u16, &str); 8] = [
    (400, "Not a valid HTTP request, or one that a page of another site sent."),
    (408, "The body did not arrive in time, or a wait timed out."),
    (413, "The body is too large."),
    (414, "The request target is too long."),
    (415, "A content type that the call does not accept, a content coding, or a transfer coding other than chunked."),
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
    let mut sorted: Map<String, Value> = fields.collect();
    sorted.sort_keys();
    sorted.into()
}

fn error_answer(status: u16, text: &str, schema: &Schema) -> Value {
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.status() == status);
    // A 409 is the control API's own.
    let code = kind.map_or(NOT_NONE, ErrorKind::name);
    let example = json!({ "error": { "code": code, "message": text } });
    let content = json!({ "application/json": { "schema": schema, "example": example } });
    json!({ "description": text, "content": content })
}

/// The answer of each status: what the call gives, and everything that can go wrong.
fn responses(call: &Call, answers: &mut SchemaGenerator) -> Value {
    let mut answer = (call.answer)(answers).to_value();
    plain(&mut answer);
    let error = answers.subschema_for::<ErrorView>();
    let guarded = GUARDED.into_iter().filter(|_| !call.options.is_open);
    let reads = READS.into_iter().filter(|_| !call.is_write());
    let reference = |status| json!({ "$ref": format!("#/components/responses/Error{status}") });
    let errors =
        COMMON.into_iter().chain(guarded).chain(reads).map(|(status, _)| (status.to_string(), reference(status)));
    let own = call.options.errors.iter();
    let own = own.map(|(status, text)| (status.to_string(), error_answer(*status, text, &error)));
    let mut content = json!({ call.media[0]: { "schema": answer } });
    for further in &call.media[1..] {
        content[further] = json!({ "schema": { "type": "string" } });
    }
    let done = [("200".to_owned(), json!({ "description": "Done.", "content": content }))];
    in_order(errors.chain(own).chain(done))
}
