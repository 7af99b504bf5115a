//! The `OpenAPI` document of the control API, and the JSON Schema of run documents taken from it.

use serde_json::{Map, Value};

/// The `OpenAPI` 3.1 document of the control API. A test makes the file from the table of calls and their types.
pub fn openapi_document() -> Map<String, Value> {
    serde_json::from_str(include_str!("openapi.json")).expect("a test has made it")
}

/// The JSON Schema of run documents, by itself.
pub fn run_schema() -> Value {
    let within = include_str!("openapi.json").replace("#/components/schemas/", "#/$defs/");
    let mut document: Value = serde_json::from_str(&within).expect("a test has made it");
    let mut rest = match document["components"]["schemas"].take() {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    };
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
