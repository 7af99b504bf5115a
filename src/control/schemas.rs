//! The JSON Schemas of what calls take and answer, from their types in `api`; built for tests only.

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

impl Schemas {
    /// The schema of every error.
    pub(super) fn error(&mut self) -> Schema {
        schema::<api::Error>(&mut self.answers)
    }
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
        error: schemas.error(),
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}
