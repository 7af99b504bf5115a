//! What the emulator assumes, and its settings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Form, List, Nothing, endpoint};
use crate::control::render::{Row, Text, cell, joined, of_key};
use crate::scenario::generation_text;
use crate::settings::LedgerRow;

endpoint! {
    /// What the contract leaves open and what is assumed.
    Assumptions: GET "assumptions", Form::Masked, Nothing, Nothing => List<Assumption>;
    /// Every setting in force and where it comes from.
    ShowProfile: GET "profile", Form::Masked, ProfileQuery, Nothing => Profile;
    /// Change settings, for all keys or one; null undoes a change.
    PatchProfile: PATCH "profile", Form::Masked, Nothing, Patch => Patched;
    /// The document of the emulated API.
    EmulatedOpenApi: GET "v1/openapi.json", Form::Plain, Nothing, Nothing => Map<String, Value>;
}

/// What the contract leaves open, and what is assumed.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Assumption {
    pub(crate) knob: String,
    /// What the contract says.
    pub(crate) contract: String,
    /// What is assumed, in words.
    pub(crate) assumed: String,
    /// What may be set.
    pub(crate) values: String,
    /// The built-in value.
    pub(crate) default: Value,
    /// The value in force.
    pub(crate) value: Value,
    /// Where that comes from: `default`, a preset, a file's name, `--set`, or a scenario.
    pub(crate) source: String,
}

/// Which settings are shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProfileQuery {
    /// Only settings whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// Whether only settings that differ from their default are shown.
    #[cfg_attr(test, schemars(extend("enum" = ["true", "false"])))]
    pub(crate) changed: Option<String>,
}

/// The settings in force.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Profile {
    pub(crate) data: Vec<Setting>,
    /// Changes for all keys, by dotted path.
    pub(crate) patch: Map<String, Value>,
    /// Changes for the key.
    pub(crate) key_patch: Map<String, Value>,
}

/// One setting.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Setting {
    pub(crate) knob: String,
    pub(crate) value: Value,
    pub(crate) source: String,
}

/// Settings to change: nested like a scenario's `[profile]`, by dotted path, or both.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, extend("minProperties" = 1)))]
#[serde(transparent)]
pub(crate) struct Patch(pub(crate) Map<String, Value>);

/// The changes in force.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Patched {
    pub(crate) generation: u64,
    pub(crate) key: Option<String>,
    pub(crate) patch: Map<String, Value>,
    /// What has another value or origin now, in words.
    pub(crate) changes: Vec<String>,
    /// What was named but did not change.
    pub(crate) unchanged: Vec<String>,
}

impl From<LedgerRow> for Assumption {
    fn from(row: LedgerRow) -> Self {
        let LedgerRow { setting, contract, assumed, values, default, value, source } = row;
        let (knob, contract, assumed) = (setting.to_owned(), contract.to_owned(), assumed.to_owned());
        Self { knob, contract, assumed, values, default, value, source }
    }
}

impl Row for Assumption {
    fn table(rows: &[Self]) -> String {
        let paragraph = |row: &Self| {
            let from = if row.source == "default" { String::new() } else { format!("   (from {})", cell(&row.source)) };
            format!(
                "{} = {}{from}\n    contract: {}\n    assumed:  {}\n    may be:   {}\n",
                row.knob, row.value, row.contract, row.assumed, row.values
            )
        };
        rows.iter().map(paragraph).collect()
    }
}

impl Text for Profile {
    fn text(&self) -> String {
        let line = |Setting { knob, value, source }: &Setting| {
            let from = if source == "default" { String::new() } else { format!("   (from {})", cell(source)) };
            format!("{} = {value}{from}\n", cell(knob))
        };
        self.data.iter().map(line).collect()
    }
}

impl Text for Patched {
    fn text(&self) -> String {
        let changes = if self.changes.is_empty() { "nothing".to_owned() } else { joined(&self.changes) };
        let unchanged =
            if self.unchanged.is_empty() { String::new() } else { format!("; {}", joined(&self.unchanged)) };
        let whose = of_key(self.key.as_deref());
        format!("changed{whose}: {changes}{unchanged} ({})\n", generation_text(self.generation))
    }
}
