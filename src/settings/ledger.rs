//! How settings are shown: the ledger (for each setting the contract's words, the assumption, and the value in force) and the JSON
//! Schema. Values come from the profile in force and shapes from the types, so neither can differ from what the emulator does.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::Contract;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layers::Layered;
use super::paths;
use super::sections::{Profile, SETTINGS};
use crate::contract::setting::{Setting, path_of};
use crate::util::schema::schema_of;

/// A point that the contract leaves open, and the assumption about it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Assumption")]
pub struct LedgerRow {
    pub setting: Cow<'static, str>,
    /// The contract's words.
    pub contract: Cow<'static, str>,
    /// The assumption, in words.
    pub assumed: Cow<'static, str>,
    /// The values that may be set.
    pub values: String,
    /// The built-in value.
    pub default: Value,
    /// Which call of a calibration shows the value, or why none does.
    #[serde(default)]
    pub observed_by: Cow<'static, str>,
    /// The value in force.
    pub value: Value,
    /// Where that comes from: `default`, a preset, a file's name, `--set`, or a scenario.
    pub source: String,
}

pub fn ledger(layered: &Layered) -> Vec<LedgerRow> {
    SETTINGS
        .iter()
        .map(|setting| LedgerRow {
            setting: setting.path.as_str().into(),
            contract: setting.contract.into(),
            assumed: setting.assumed.into(),
            values: setting.values(),
            observed_by: setting.observed_by.into(),
            default: setting.default.clone(),
            value: paths::json_at(&layered.table, &setting.path),
            source: layered.source(&setting.path).to_owned(),
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
            row.contract.into_owned(),
            row.assumed.into_owned(),
            if row.default.is_null() { "not set".to_owned() } else { format!("`{}`", row.default) },
            row.values.clone(),
            row.observed_by.into_owned(),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        // A write to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", row.setting, cells.join(" | "));
    }
    page
}

static TYPES: LazyLock<Value> = LazyLock::new(|| schema_of::<Profile>(Contract::Deserialize));

/// The JSON Schema of a table of settings, each described by its row of the ledger. All settings are optional.
pub fn schema() -> Value {
    let mut root = TYPES.clone();
    let optional = |place: &mut Value| drop(place.as_object_mut().and_then(|table| table.remove("required")));
    for setting in SETTINGS.iter() {
        let mut place = &mut root;
        for name in setting.path.split('.') {
            optional(place);
            place = &mut place["properties"][name];
        }
        optional(place);
        // The meaning of each value follows the first paragraph.
        let text = place["description"].as_str().unwrap_or_default();
        let (about, meanings) = text.find("\n\n").map_or((text, ""), |end| text.split_at(end));
        let (assumed, values) = (setting.assumed, setting.values());
        place["description"] = format!("{about} Assumed: {assumed}. May be set to: {values}{meanings}").into();
    }
    root
}

/// The JSON Schema (draft 2020-12) of a profile file, so that editors complete and check.
pub fn file_schema() -> Value {
    let mut whole = schema();
    whole["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    whole["title"] = "Profile of wrs-emulator".into();
    whole["description"] =
        "Settings for the open points of the published contract; those left out have their defaults".into();
    whole
}

/// The built-in profile as a commented file, to be copied and changed.
pub fn default_text() -> String {
    let mut text = String::from(
        "#:schema ./profile.schema.json\n\n\
         # The built-in profile: every assumption about the open points of the published contract.\n\
         # Copy what you want to change into a file of your own and pass it with `--profile FILE`, or change one\n\
         # value with `--set path=value`.\n\n",
    );
    push_section(&mut text, "", &TYPES);
    text
}

/// Adds the fields of a section: values first, as what follows the header of a table would belong to it.
fn push_section(text: &mut String, above: &str, shape: &Value) {
    let fields = shape["properties"].as_object().into_iter().flatten().map(|(name, shape)| {
        let path = path_of(above, name);
        let setting = SETTINGS.iter().find(|setting| setting.path == path);
        (name, path, setting, shape)
    });
    let (values, tables): (Vec<_>, Vec<_>) =
        fields.partition(|(_, _, setting, _)| setting.is_some_and(|setting| !setting.merges));
    for (name, _, setting, shape) in values {
        push_comment(text, setting, shape);
        let Some(setting) = setting else { continue };
        *text += &match &setting.default {
            Value::Null => format!("# {name} = {}\n", setting.values().rsplit("such as ").next().unwrap_or_default()),
            default => format!("{name} = {}\n", toml_text(default)),
        };
    }
    for (_, path, setting, shape) in tables {
        *text += "\n";
        push_comment(text, setting, shape);
        *text += &format!("[{path}]\n");
        for (name, value) in setting.and_then(|setting| setting.default.as_object()).into_iter().flatten() {
            *text += &format!("{} = {}\n", paths::key_text(name), toml_text(value));
        }
        if setting.is_none() {
            push_section(text, &path, shape);
        }
    }
}

fn push_comment(text: &mut String, setting: Option<&Setting>, shape: &Value) {
    let lines = shape["description"].as_str().unwrap_or_default().lines().filter(|line| !line.is_empty());
    text.extend(lines.map(|line| format!("# {line}\n")));
    if let Some(values) = setting.map(|setting| setting.values).filter(|values| !values.is_empty()) {
        *text += &format!("# May be set to: {values}.\n");
    }
}

fn toml_text(value: &Value) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}

impl Setting {
    fn shape(&self) -> &'static Value {
        self.path.split('.').fold(&*TYPES, |place, name| &place["properties"][name])
    }

    /// True if it is a duration: their type is the one with examples.
    pub(super) fn is_duration(&self) -> bool {
        self.values.is_empty() && self.shape()["examples"].is_array()
    }

    /// The values that may be set, as typed in TOML.
    pub fn values(&self) -> String {
        if !self.values.is_empty() {
            return self.values.to_owned();
        }
        let shape = self.shape();
        let any_of = |names: &[Value]| names.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
        if let Value::Array(names) = &shape["anyOf"][0]["enum"] {
            return format!("{}, or a list of them", any_of(names));
        }
        match (&shape["enum"], &shape["examples"], shape["type"].as_str().unwrap_or_default()) {
            (Value::Array(names), ..) => any_of(names),
            (_, Value::Array(durations), _) => format!("a duration such as {}", durations[0]),
            (.., "integer") => {
                format!("an integer from {} to {}, such as {}", shape["minimum"], shape["maximum"], self.default)
            }
            (.., "string") => format!("a string such as {}", self.default),
            _ => "true | false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PRESETS;

    /// A user whose value was refused needs one to copy.
    #[test]
    fn each_setting_shows_values_that_it_takes() {
        for setting in SETTINGS.iter() {
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
    fn the_printed_profile_is_the_built_in_one() {
        let text = default_text();
        let read = Layered::default().with(|draft| draft.text(&text, "default.toml")).expect("a profile");
        assert_eq!(read.profile(), Layered::default().profile());
        for row in ledger(&read).iter().filter(|row| !row.default.is_null()) {
            assert_eq!((&row.value, row.source.as_str()), (&row.default, "default.toml"), "{}", row.setting);
        }
    }

    #[test]
    fn the_shipped_profiles_satisfy_the_schema_and_mistakes_do_not() {
        let validator = jsonschema::validator_for(&file_schema()).expect("the schema is one");
        let default = default_text();
        let shipped = || PRESETS.iter().map(|preset| preset.text).chain([default.as_str()]);
        for text in shipped().filter(|text| !text.is_empty()) {
            assert!(text.starts_with("#:schema ./profile.schema.json\n"), "{text}");
        }
        let more = [
            ("[webhooks.forwards]\n'https://app.example.com' = 'http://localhost:3000'", true),
            ("rate_limit.request = 3", false),
            ("rate_limit.requests = 'many'", false),
            ("rate_limits.requests = 3", false),
            ("webhooks.scheme = 'githb'", false),
        ];
        for (text, is_valid) in shipped().map(|text| (text, true)).chain(more) {
            let table: toml::Table = toml::from_str(text).expect("the text is TOML");
            let value = serde_json::to_value(table).expect("TOML fits into JSON");
            assert_eq!(validator.is_valid(&value), is_valid, "{text}");
        }
    }
}
