//! The JSON Schema of the settings, made from their types, and what of it is shown to people.

use std::sync::LazyLock;

use serde_json::Value;

use super::knobs::{KNOBS, Knob};

/// A test makes the file from the types.
static TYPES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).expect("a test has made it"));

/// The JSON Schema of a table of settings, each described by its row of the ledger. None has to be there.
pub fn schema() -> Value {
    let mut root = TYPES.clone();
    let optional = |place: &mut Value| drop(place.as_object_mut().and_then(|table| table.remove("required")));
    for knob in KNOBS {
        let mut place = &mut root;
        for name in knob.path.split('.') {
            optional(place);
            place = &mut place["properties"][name];
        }
        optional(place);
        place["description"] = format!("{}. May be set to: {}", knob.assumed, knob.values()).into();
    }
    root
}

impl Knob {
    /// What may be set, as it is typed in TOML.
    pub fn values(&self) -> String {
        if !self.values.is_empty() {
            return self.values.to_owned();
        }
        let shape = self.path.split('.').fold(&*TYPES, |place, name| &place["properties"][name]);
        let list = |values: Vec<String>| values.join(" | ");
        match (&shape["oneOf"], &shape["enum"], &shape["examples"]) {
            (Value::Array(choices), ..) => list(choices.iter().map(|choice| choice["const"].to_string()).collect()),
            (_, Value::Array(values), _) => list(values.iter().map(Value::to_string).collect()),
            (.., Value::Array(durations)) => format!("a duration such as {}", durations[0]),
            _ => "true | false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::committed;
    use crate::contract::api_shape::tests::schema;
    use crate::profile::Profile;

    #[test]
    fn the_file_beside_is_made_from_the_types() {
        committed::compare("src/profile/schema.json", &committed::json(&schema::<Profile>(), 3));
    }
}
