//! The ledger: for each setting what the contract says, what is assumed, and what is in force.
//!
//! Values come from the profile in force, so the ledger cannot differ from what the emulator does.

use std::fmt::Write as _;

use serde::Serialize;

use super::layers::Layered;
use super::paths;
use super::table::SETTINGS;

#[derive(Clone, Debug, Serialize)]
pub struct LedgerRow {
    #[serde(rename = "knob")]
    pub setting: &'static str,
    pub contract: &'static str,
    /// What is assumed, in words.
    pub assumed: &'static str,
    pub values: String,
    pub default: serde_json::Value,
    pub value: serde_json::Value,
    /// Where the value in force comes from: `default`, a preset, a file's name, `--set`, or a scenario.
    pub source: String,
}

/// The ledger of a layered profile: one row per setting.
pub fn ledger(layered: &Layered) -> Vec<LedgerRow> {
    let default = Layered::default();
    SETTINGS
        .iter()
        .map(|setting| LedgerRow {
            setting: setting.path,
            contract: setting.contract,
            assumed: setting.assumed,
            values: setting.values(),
            default: paths::json_at(default.table(), setting.path),
            value: paths::json_at(layered.table(), setting.path),
            source: layered.source(setting.path).to_owned(),
        })
        .collect()
}

/// The built-in ledger as Markdown; its table is part of `docs/sandbox.md`.
pub fn ledger_markdown() -> String {
    let mut page = String::from(
        "# What the emulator assumes\n\n\
         The published contract leaves these points open. Each row is a setting of the profile: change it with\n\
         `--set path=value`, in a file for `--profile`, or in a scenario's `[profile]`.\n\n\
         | setting | the contract says | assumed | default | may be set to |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in ledger(&Layered::default()) {
        let cells = [row.contract.to_owned(), row.assumed.to_owned(), format!("`{}`", row.default), row.values.clone()];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {} |", row.setting, cells.join(" | "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Every leaf of the default profile lies at or below exactly one setting, and every setting has a value.
    #[test]
    fn the_table_and_the_profile_name_the_same_settings() {
        let default = Layered::default();
        for setting in SETTINGS {
            assert!(
                !paths::json_at(default.table(), setting.path).is_null(),
                "`{}` is in the ledger but not in the profile",
                setting.path
            );
        }
        let mut leaves = Vec::new();
        paths::leaf_paths(default.table(), "", &mut leaves);
        for leaf in leaves {
            let owners = SETTINGS
                .iter()
                .filter(|setting| leaf == setting.path || leaf.starts_with(&format!("{}.", setting.path)))
                .count();
            assert_eq!(owners, 1, "`{leaf}` belongs to {owners} rows of the ledger");
        }
    }
}
