//! `GET health`, `GET ca.pem`, `GET openapi.json`: whether the emulator is ready, the certificate authority to trust, and the document
//! of the control API, with the JSON Schema of run documents taken from it.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::Call;
use super::endpoint::Nothing;
use super::render::Text;
use super::{Control, ControlError, Reply};
use crate::http::answer::answer;
use crate::scenario::generation_text;

/// The emulator is ready.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Ready {
    #[cfg_attr(test, schemars(extend("const" = "ready")))]
    pub(crate) status: String,
    pub(crate) version: String,
    pub(crate) generation: u64,
    /// True if all scenarios match their saved files.
    #[cfg_attr(test, schemars(extend("enum" = ["as saved", "last good"])))]
    pub(crate) scenarios: String,
}

impl Text for Ready {
    fn text(&self) -> String {
        let Self { status, version, generation, scenarios } = self;
        format!("{status} (version {version}, {}, scenarios {scenarios})\n", generation_text(*generation))
    }
}

pub(super) fn health(control: &Control) -> Ready {
    // A broken or deleted file leaves the last valid version active; only this field shows it.
    let scenarios = if control.library.is_as_saved() { "as saved" } else { "last good" };
    Ready {
        status: "ready".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        generation: control.library.load().number,
        scenarios: scenarios.to_owned(),
    }
}

pub(super) fn ca_pem(control: &Control, _: &Call, _: Nothing) -> Result<Reply, ControlError> {
    match &control.ca_pem {
        None => Err(ControlError::not_found("no authority was made; start with --tls self-signed")),
        Some(pem) => {
            let pem_type = HeaderValue::from_static("application/x-pem-file");
            Ok(answer(StatusCode::OK, pem_type, pem.clone()))
        }
    }
}

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
