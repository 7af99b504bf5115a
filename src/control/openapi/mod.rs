//! `GET openapi.json`: the `OpenAPI` 3.1 document of the control API, made from its route table.
//!
//! To describe a route, add one entry to the file of its concept: `activity` (requests, explain, stream, metrics), `webhooks`
//! (subscriptions, events, deliveries, sinks), `scenarios` or `system` (health, profile, clock). `shapes` has the words that
//! entries are made of, `schemas` what answers hold. A route without an entry fails a test here.

mod activity;
mod scenarios;
mod schemas;
mod shapes;
mod system;
mod webhooks;

use hyper::Method;
use serde_json::{Map, Value, json};

use super::PREFIX;
use super::route::{Action, ROUTES};
use shapes::Described;

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    for (method, pattern, action) in ROUTES {
        let Some(described) = describe(*action) else { continue };
        let path = format!("{PREFIX}{}", pattern.replace("{}", &format!("{{{}}}", described.segment)));
        let name = method.as_str().to_ascii_lowercase();
        let id = format!("{name} {}", pattern.replace("{}", described.segment));
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[name] = operation(&id, pattern, *action, &described);
        if *method == Method::GET && !described.is_endless {
            entry["head"] = without_bodies(operation(&id.replacen("get", "head", 1), pattern, *action, &described));
        }
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "wrs-emulator control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that the command line can do with a running emulator. `key` names a workspace by key, group name or id; left out it is the sample key's; `*` is all.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "The control token, where the emulator was given one or made one." },
            },
            "schemas": schemas::schemas(),
        },
    })
}

/// What a route does, takes and answers.
fn describe(action: Action) -> Option<Described> {
    let files = [activity::describe, webhooks::describe, scenarios::describe, system::describe];
    files.into_iter().find_map(|describe| describe(action))
}

fn operation(id: &str, pattern: &str, action: Action, described: &Described) -> Value {
    let mut parameters: Vec<Value> = described.queries.clone();
    if pattern.contains("{}") {
        parameters.insert(
            0,
            json!({ "name": described.segment, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }),
        );
    }
    if !action.is_open() {
        parameters.push(json!({ "name": "key", "in": "query", "required": false, "schema": { "type": "string" } }));
    }
    let mut operation = json!({
        "operationId": id,
        "summary": described.summary,
        "parameters": parameters,
        "responses": responses(action, described),
        "security": if action.is_open() { json!([]) } else { json!([{ "token": [] }]) },
    });
    if let Some(mut schema) = described.body.clone() {
        if schema["type"] == "object" {
            schema["properties"]["key"] = shapes::wish();
        }
        let mut content = json!({ "application/json": { "schema": schema } });
        if action.takes_toml() {
            content["application/toml"] = json!({ "schema": { "type": "string" } });
        }
        // Where no field is needed, no body is.
        let required = schema["required"] != json!([]);
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    operation
}

/// The answer of each status: what the call gives, and everything that can go wrong.
fn responses(action: Action, described: &Described) -> Value {
    let mut content = Map::new();
    content.insert(described.media.to_owned(), json!({ "schema": described.answer }));
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({ "description": "Done.", "content": content }));
    let error = |text: &str| {
        json!({
            "description": text,
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } },
        })
    };
    let common = [
        (400, "Not a valid HTTP request, or one that a page of another site sent."),
        (408, "The body did not arrive in time, or the wait timed out."),
        (413, "The body is too large."),
        (414, "The request target is too long."),
        (415, "Another content type than the call takes, a content coding, or a transfer coding other than chunked."),
        (421, "The host is none that the control API answers to."),
        (422, "A parameter or field is wrong; the message names it."),
        (431, "The header block is too large."),
    ];
    let guarded = [(401, "The control token is missing or wrong."), (404, "What is named, or the key, is not there.")];
    let guarded = guarded.into_iter().filter(|_| !action.is_open());
    for (status, text) in common.into_iter().chain(guarded).chain(described.errors.iter().copied()) {
        responses.insert(status.to_string(), error(text));
    }
    Value::Object(responses)
}

/// HEAD is answered wherever GET is, without a body.
fn without_bodies(mut operation: Value) -> Value {
    if let Some(responses) = operation["responses"].as_object_mut() {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            response.remove("content");
        }
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described() {
        let document = document();
        for (method, pattern, action) in ROUTES {
            let described = describe(*action).unwrap_or_else(|| {
                panic!(
                    "`{method} {pattern}` has no description: add `Action::{action:?} => …` to the file of its concept \
                     in src/control/openapi/ (activity, webhooks, scenarios or system), and a row to docs/control-api.md"
                )
            });
            let path = format!("{PREFIX}{}", pattern.replace("{}", &format!("{{{}}}", described.segment)));
            let operation = &document["paths"][path][method.as_str().to_ascii_lowercase()];
            assert!(operation["operationId"].is_string(), "{method} {pattern}");
            assert_eq!(
                operation["requestBody"].is_object(),
                *method != Method::GET,
                "`{method} {pattern}`: calls that write have a body, even an empty one; calls that read have none"
            );
        }
    }

    /// A reference that leads nowhere would make every check against the document pass.
    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let (document, mut found) = (document(), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 50, "the references were found");
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a reference within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
