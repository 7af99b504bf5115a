//! The `OpenAPI` 3.1 document of the control API, made from its table of calls and their types; built for tests only, which compare
//! it with the file that is served.

use std::collections::BTreeMap;

use hyper::Method;
use schemars::Schema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::PREFIX;
use super::api::{self, Form};
use super::route::Route;
use super::schemas::{Described, Schemas};

/// The document of these calls.
pub(super) fn document(routes: &[Route]) -> Map<String, Value> {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let described = (route.describe)(&mut schemas);
        let name = route.method.as_str().to_ascii_lowercase();
        let mut methods = vec![(name, true)];
        if route.method == Method::GET && route.form != Form::Other(api::EVENT_STREAM) {
            methods.push(("head".to_owned(), false));
        }
        let path = paths.entry(format!("{PREFIX}{}", route.path)).or_insert_with(|| Map::new().into());
        for (method, has_bodies) in methods {
            let operation = operation(route, &described, &method, has_bodies);
            if let Some(path) = path.as_object_mut() {
                path.insert(method, value(&operation));
            }
        }
    }
    let document = Document {
        openapi: "3.1.0",
        dialect: "https://json-schema.org/draft/2020-12/schema",
        info: Info {
            title: "wrs-emulator control API",
            version: env!("CARGO_PKG_VERSION"),
            description: "Everything that the command line can do with a running emulator. `key` names a workspace by key, \
                          group name or id; absent, it is the sample key's; `*` is all.",
        },
        servers: [Server { url: "/" }],
        paths,
        components: Components {
            security_schemes: BTreeMap::from([(
                "token",
                SecurityScheme {
                    kind: "http",
                    scheme: "bearer",
                    description: "The control token, where the emulator was given one or made one.",
                },
            )]),
            responses: shared_responses(&schemas.error()),
            schemas: schemas.answers.take_definitions(true),
        },
    };
    match value(&document) {
        Value::Object(document) => document,
        _ => Map::new(),
    }
}

fn value<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).expect("texts and schemas always serialise")
}

fn operation(route: &Route, described: &Described, method: &str, has_bodies: bool) -> Operation {
    let mut parameters = Vec::new();
    if let Some((_, name, _)) = route.segment() {
        let mut text = Map::new();
        text.insert("type".to_owned(), "string".into());
        text.insert("minLength".to_owned(), 1.into());
        parameters.push(Parameter { name: name.to_owned(), place: "path", required: true, schema: text.into() });
    }
    let queries = described.query.get("properties").and_then(Value::as_object).into_iter().flatten();
    let query = |name: &str, schema| Parameter { name: name.to_owned(), place: "query", required: false, schema };
    parameters.extend(queries.map(|(name, schema)| query(name, present(schema.clone()))));
    if !route.is_open {
        parameters.push(query("key", value(&schemars::schema_for!(String))));
    }
    Operation {
        id: format!("{method} {}", route.path.replace(['{', '}'], "")),
        summary: route.summary,
        parameters,
        request_body: route.is_write().then(|| body(route, &described.body)),
        responses: responses(route, described, has_bodies),
        security: if route.is_open { Vec::new() } else { vec![Security { token: [] }] },
    }
}

/// The schema of a parameter, which is never null: it is there or not.
fn present(mut schema: Value) -> Value {
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(kinds) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind.get("type").is_none_or(|kind| kind != "null"));
    }
    schema
}

fn body(route: &Route, schema: &Schema) -> Body {
    let mut content = BTreeMap::from([("application/json", Content { schema: schema.clone().into() })]);
    if route.takes_toml {
        content.insert("application/toml", Content { schema: value(&schemars::schema_for!(String)) });
    }
    // Where no field is needed, no body is.
    let required = route.takes_toml
        || schema.get("required").is_some_and(|required| required.as_array().is_some_and(|fields| !fields.is_empty()))
        || schema.get("minProperties").is_some();
    Body { required, content }
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
/// Errors of calls that may require a token.
const GUARDED: [(u16, &str); 2] =
    [(401, "The control token is missing or wrong."), (404, "What is named, or the key, does not exist.")];

/// The name of an error that several calls share.
fn shared(status: u16, has_bodies: bool) -> String {
    format!("Error{status}{}", if has_bodies { "" } else { "WithoutBody" })
}

/// The errors that several calls share.
fn shared_responses(error: &Schema) -> BTreeMap<String, Answer> {
    let both =
        COMMON.into_iter().chain(GUARDED).flat_map(|(status, text)| [(status, text, true), (status, text, false)]);
    both.map(|(status, text, has_bodies)| {
        (shared(status, has_bodies), answer(text, "application/json", error, has_bodies))
    })
    .collect()
}

fn answer(description: &'static str, media: &'static str, schema: &Schema, has_bodies: bool) -> Answer {
    let content = || BTreeMap::from([(media, Content { schema: schema.clone().into() })]);
    Answer { description, content: has_bodies.then(content) }
}

/// The answer of each status: what the call gives, and everything that can go wrong.
fn responses(route: &Route, described: &Described, has_bodies: bool) -> BTreeMap<u16, Response> {
    let media = match route.form {
        Form::Other(media) => media,
        Form::Masked | Form::Plain => "application/json",
    };
    let guarded = GUARDED.into_iter().filter(|_| !route.is_open);
    let reference =
        |status| Response::Shared { name: format!("#/components/responses/{}", shared(status, has_bodies)) };
    let errors = COMMON.into_iter().chain(guarded).map(|(status, _)| (status, reference(status)));
    let own = route
        .errors
        .iter()
        .map(|(status, text)| (*status, answer(text, "application/json", &described.error, has_bodies)));
    let done = [(200, answer("Done.", media, &described.answer, has_bodies))];
    errors.chain(own.chain(done).map(|(status, answer)| (status, Response::Own(answer)))).collect()
}

/// An answer, or the name of one that several calls share.
#[derive(Serialize)]
#[serde(untagged)]
enum Response {
    Own(Answer),
    Shared {
        #[serde(rename = "$ref")]
        name: String,
    },
}

#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    #[serde(rename = "jsonSchemaDialect")]
    dialect: &'static str,
    info: Info,
    servers: [Server; 1],
    paths: Map<String, Value>,
    components: Components,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct Server {
    url: &'static str,
}

#[derive(Serialize)]
struct Components {
    #[serde(rename = "securitySchemes")]
    security_schemes: BTreeMap<&'static str, SecurityScheme>,
    responses: BTreeMap<String, Answer>,
    schemas: Map<String, Value>,
}

#[derive(Serialize)]
struct SecurityScheme {
    #[serde(rename = "type")]
    kind: &'static str,
    scheme: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    #[serde(rename = "operationId")]
    id: String,
    summary: &'static str,
    parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<Body>,
    responses: BTreeMap<u16, Response>,
    security: Vec<Security>,
}

#[derive(Serialize)]
struct Security {
    token: [&'static str; 0],
}

#[derive(Serialize)]
struct Parameter {
    name: String,
    #[serde(rename = "in")]
    place: &'static str,
    required: bool,
    schema: Value,
}

#[derive(Serialize)]
struct Body {
    required: bool,
    content: BTreeMap<&'static str, Content>,
}

#[derive(Serialize)]
struct Answer {
    description: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<BTreeMap<&'static str, Content>>,
}

#[derive(Serialize)]
struct Content {
    schema: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::committed;

    #[test]
    fn the_file_beside_is_made_from_the_calls_and_their_types() {
        let made = document(&crate::control::routes::ROUTES).into();
        committed::compare("src/control/openapi.json", &committed::json(&made, 3));
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
        let (document, mut found) = (Value::from(crate::control::openapi_document()), Vec::new());
        references(&document, &mut found);
        assert!(found.len() > 50, "the references were found");
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a reference within the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
