//! How settings are shown: the ledger (for each setting what the contract says, what is assumed, and what is in force) and the JSON
//! Schema. Values come from the profile in force and shapes from the types, so neither can differ from what the emulator does.

use std::fmt::Write as _;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::layers::Layered;
use super::paths;
use super::table::{SETTINGS, Setting};

/// What the contract leaves open, and what is assumed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Assumption")]
pub struct LedgerRow {
    // The name on the wire, from before settings were called so.
    #[serde(rename = "knob")]
    pub setting: &'static str,
    /// What the contract says.
    pub contract: &'static str,
    /// What is assumed, in words.
    pub assumed: &'static str,
    /// What may be set.
    pub values: String,
    /// The built-in value.
    pub default: Value,
    /// Which call of a calibration shows the value, or why none does.
    #[schemars(default)]
    pub observed_by: &'static str,
    /// The value in force.
    pub value: Value,
    /// Where that comes from: `default`, a preset, a file's name, `--set`, or a scenario.
    pub source: String,
    /// The comment above its assignment in a profile file, at most 500 characters; absent without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

pub fn ledger(layered: &Layered) -> Vec<LedgerRow> {
    let default = Layered::default();
    SETTINGS
        .iter()
        .map(|setting| LedgerRow {
            setting: setting.path,
            contract: setting.contract,
            assumed: setting.assumed,
            values: setting.values(),
            observed_by: setting.observed_by,
            default: paths::json_at(&default.table, setting.path),
            value: paths::json_at(&layered.table, setting.path),
            source: layered.source(setting.path).to_owned(),
            note: layered.note(setting.path).to_owned(),
        })
        .collect()
}

/// The built-in ledger as Markdown; its table is part of `docs/sandbox.md`.
pub fn ledger_markdown() -> String {
    let mut page = String::from(
        "# What the emulator assumes\n\n\
         The published contract leaves these points open. Each row is a setting of the profile: change it with\n\
         `--set path=value`, in a file for `--profile`, or in a scenario's `[profile]`.\n\n\
         | setting | the contract says | assumed | default | may be set to | observed by |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in ledger(&Layered::default()) {
        let cells = [
            row.contract.to_owned(),
            row.assumed.to_owned(),
            format!("`{}`", row.default),
            row.values.clone(),
            row.observed_by.to_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        // A write to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", row.setting, cells.join(" | "));
    }
    page
}

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
        // What each value means follows the first paragraph.
        let meanings = place["description"].as_str().and_then(|text| text.split_once("\n\n"));
        let meanings = meanings.map_or_else(String::new, |(_, meanings)| format!("\n\n{meanings}"));
        place["description"] = format!("{}. May be set to: {}{meanings}", setting.assumed, setting.values()).into();
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
        match (&shape["enum"], &shape["examples"]) {
            (Value::Array(values), _) => list(values.iter().map(Value::to_string).collect()),
            (_, Value::Array(durations)) => format!("a duration such as {}", durations[0]),
            _ => "true | false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::golden;
    use crate::settings::openapi::tests::schema as schema_of;
    use crate::settings::{DEFAULT_TEXT, PRESETS, Profile};

    /// Whoever had a value refused needs one to copy.
    #[test]
    fn each_setting_shows_values_that_it_takes() {
        for setting in SETTINGS {
            let values = setting.values();
            let example = match values.split_once("such as ") {
                Some((_, rest)) => rest,
                None => &values,
            };
            // The longest part that is TOML: what follows an example is prose. Of a table it may be an entry.
            let parts = (1..=example.len()).rev().filter_map(|end| example.get(..end));
            let mut candidates = parts.flat_map(|part| [part.to_owned(), format!("{{ {part} }}")]);
            let taken = candidates.find(|value| {
                toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok()
                    && Layered::default().with_assignment(&format!("{}={value}", setting.path), "test").is_ok()
            });
            assert!(taken.is_some(), "`{}` shows no value that it takes: {}", setting.path, values);
        }
    }

    #[test]
    fn the_table_and_the_profile_name_the_same_settings() {
        let (mut settings, mut problems) = (Vec::new(), Vec::new());
        let default = toml::de::DeTable::parse(DEFAULT_TEXT).expect("it is TOML");
        paths::collect(default.get_ref(), "", &mut settings, &mut problems);
        let known: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.path).collect();
        assert_eq!(problems, [], "`default.toml` has what is not in the table");
        assert_eq!(settings.iter().map(|(setting, ..)| setting.path).collect::<BTreeSet<_>>(), known);
    }

    #[test]
    fn the_file_beside_is_made_from_the_types() {
        golden::compare("src/settings/schema.json", &golden::json(&schema_of::<Profile>(), 3));
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
        golden::compare("src/settings/profile.schema.json", &made);
        for text in PRESETS.iter().map(|preset| preset.text).chain([DEFAULT_TEXT]).filter(|text| !text.is_empty()) {
            assert!(text.starts_with("#:schema ./profile.schema.json\n"), "{text}");
        }
    }
}
