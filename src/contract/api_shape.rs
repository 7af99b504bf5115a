//! What the `OpenAPI` document of the emulated API is made from beside the routes: the settings that show in it, and the JSON
//! Schema of a type.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::contract::error::Errors;
use crate::contract::ids::Ids;
use crate::contract::oauth::Oauth;
use crate::contract::preview::Preview;
use crate::contract::quota::RateLimit;
use crate::contract::rules::Validation;
use crate::contract::types::Events;
use crate::contract::variation::Variation;

/// The settings that decide what a client may meet.
#[derive(Clone, Copy, Debug)]
pub struct ApiShape<'p> {
    pub errors: &'p Errors,
    pub validation: &'p Validation,
    pub rate_limit: &'p RateLimit,
    pub ids: &'p Ids,
    /// What a JSON body may be like beyond its published fields.
    pub variation: &'p Variation,
    /// Name of the response field with a generated secret.
    pub secret_field: &'p str,
    pub events: &'p Events,
    pub allow_http: bool,
    pub hello: &'p Map<String, Value>,
    pub preview: &'p Preview,
    pub oauth: &'p Oauth,
}

/// The JSON Schemas of the types on the wire, by name. A test makes the file from the types.
static SCHEMAS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("schemas.json")).expect("a test has made it"));

/// The JSON Schema of a type as it is read, without references.
pub(crate) fn schema_of(name: &str) -> Value {
    SCHEMAS[name].clone()
}

#[cfg(test)]
pub(crate) mod tests {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::committed;
    use crate::contract::preview::Workflow;
    use crate::contract::types::{EventEnvelope, SubscribeRequest, Subscription, SystemStatus};

    pub(crate) fn schema<T: JsonSchema>() -> Value {
        let generator = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        generator.into_generator().into_root_schema_for::<T>().to_value()
    }

    #[test]
    fn the_file_beside_is_made_from_the_types() {
        let made = serde_json::json!({
            "SystemStatus": schema::<SystemStatus>(),
            "Subscription": schema::<Subscription>(),
            "SubscribeRequest": schema::<SubscribeRequest>(),
            "EventEnvelope": schema::<EventEnvelope>(),
            "Workflow": schema::<Workflow>(),
        });
        committed::compare("src/contract/schemas.json", &committed::json(&made, 1));
    }
}
