//! The JSON Schema of the settings, made from their types, and what of it is shown to people.

use std::sync::LazyLock;

use serde_json::Value;

use super::table::{SETTINGS, Setting};

/// A test makes the file from the types.
static TYPES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).expect("a test has made it"));

/// The JSON Schema of a table of settings, each described by its row of the ledger. None is required.
pub fn schema() -> Value {
    let mut root = TYPES.clone();
    let optional = |place: &mut Value| drop(place.as_object_mut().and_then(|table| table.remove("required")));
    for setting in SETTINGS {
        let mut place = &mut root;
        for name in setting.path.split('.') {
            optional(place);
            place = &mut place["properties"][name];
        }
        optional(place);
        place["description"] = format!("{}. May be set to: {}", setting.assumed, setting.values()).into();
    }
    root
}

/// The JSON Schema (draft 2020-12) of a profile file, so that editors complete and check.
pub fn file_schema() -> Value {
    let mut whole = schema();
    whole["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    whole["title"] = "Profile of wrs-emulator".into();
    whole["description"] =
        "Settings for what the published contract leaves open; those left out have their defaults".into();
    whole
}

impl Setting {
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
    use super::*;
    use crate::committed;
    use crate::contract::openapi::tests::schema as schema_of;
    use crate::profile::{DEFAULT_TEXT, PRESETS, Profile};

    #[test]
    fn the_file_beside_is_made_from_the_types() {
        committed::compare("src/profile/schema.json", &committed::json(&schema_of::<Profile>(), 3));
    }

    #[test]
    fn the_shipped_profiles_satisfy_the_schema_and_mistakes_do_not() {
        let validator = jsonschema::validator_for(&file_schema()).expect("the schema is one");
        let shipped = PRESETS.iter().map(|preset| preset.text).chain([DEFAULT_TEXT]).map(|text| (text, true));
        let more = [
            (
                "[webhooks.forwards]\n'https://app.example.com' = 'http://localhost:3000'\n[keys.workspaces]\nacme = ['sk_test_a']",
                true,
            ),
            ("rate_limit.request = 3", false),
            ("rate_limit.requests = 'many'", false),
            ("rate_limits.requests = 3", false),
            ("webhooks.scheme = 'githb'", false),
        ];
        for (text, is_valid) in shipped.chain(more) {
            let table: toml::Table = toml::from_str(text).expect("the text is TOML");
            let value = serde_json::to_value(table).expect("TOML fits into JSON");
            assert_eq!(validator.is_valid(&value), is_valid, "{text}");
        }
    }

    /// Run with `UPDATE_EXPECTED=1` to write the file anew.
    #[test]
    fn the_file_beside_the_shipped_profiles_is_this_schema() {
        let made = serde_json::to_string_pretty(&file_schema()).expect("it serialises") + "\n";
        committed::compare("src/profile/profile.schema.json", &made);
        for text in PRESETS.iter().map(|preset| preset.text).chain([DEFAULT_TEXT]).filter(|text| !text.is_empty()) {
            assert!(text.starts_with("#:schema ./profile.schema.json\n"), "{text}");
        }
    }
}
