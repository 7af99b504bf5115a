//! The JSON Schema of the language, for editors.

use serde_json::{Value, json};

/// The JSON Schema of a scenario file.
pub fn schema() -> Value {
    json!({})
}
