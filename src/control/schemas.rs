//! The JSON Schemas of what calls take and answer, from their types in `api`.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::api::{self, Endpoint};

/// Generates the schemas of the `OpenAPI` document.
pub(super) struct Schemas {
    pub(super) answers: SchemaGenerator,
    /// Bodies and parameters: what may be absent in them is always there in an answer.
    inputs: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
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

/// The JSON Schema of run documents, by itself.
pub fn run_schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.contract = Contract::Serialize);
    settings.into_generator().into_root_schema_for::<api::Run>()
}

/// What a call takes and answers.
pub(super) struct Described {
    pub(super) query: Schema,
    pub(super) body: Schema,
    pub(super) answer: Schema,
    pub(super) error: Schema,
}

/// Describes a call.
pub(super) fn describe<E: Endpoint>(schemas: &mut Schemas) -> Described {
    Described {
        query: schema::<E::Query>(&mut schemas.inputs),
        body: schema::<E::Body>(&mut schemas.inputs),
        answer: schema::<E::Answer>(&mut schemas.answers),
        error: schema::<api::Error>(&mut schemas.answers),
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
