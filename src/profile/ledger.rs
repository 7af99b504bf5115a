//! The ledger: for each knob what the contract says, what is assumed, and what is in force.
//!
//! Values come from the profile in force, so the ledger cannot differ from what the emulator does.

use std::fmt::Write as _;

use serde::Serialize;

use super::knobs::KNOBS;
use super::layers::Layered;
use super::paths;

/// One row of the ledger.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerRow {
    /// The knob.
    pub knob: &'static str,
    /// What the contract says.
    pub contract: &'static str,
    /// What is assumed, in words.
    pub assumed: &'static str,
    /// What may be set.
    pub values: String,
    /// The built-in value.
    pub default: serde_json::Value,
    /// The value in force.
    pub value: serde_json::Value,
    /// Where the value in force comes from: `default`, a preset, a file's name, `--set`, or a scenario.
    pub source: String,
}

/// The ledger of a layered profile: one row per knob.
pub fn ledger(layered: &Layered) -> Vec<LedgerRow> {
    let default = Layered::default();
    KNOBS
        .iter()
        .map(|knob| LedgerRow {
            knob: knob.path,
            contract: knob.contract,
            assumed: knob.assumed,
            values: knob.values(),
            default: paths::json_at(default.table(), knob.path),
            value: paths::json_at(layered.table(), knob.path),
            source: layered.source(knob.path).to_owned(),
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
        let _ = writeln!(page, "| `{}` | {} |", row.knob, cells.join(" | "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever had a value refused needs one to copy.
    #[test]
    fn each_knob_shows_values_that_it_takes() {
        for knob in KNOBS {
            let values = knob.values();
            let example = match values.split_once("such as ") {
                Some((_, rest)) => rest,
                None => &values,
            };
            // The longest part that is TOML: what follows an example is prose. Of a table it may be an entry.
            let parts = (1..=example.len()).rev().filter_map(|end| example.get(..end));
            let mut candidates = parts.flat_map(|part| [part.to_owned(), format!("{{ {part} }}")]);
            let taken = candidates.find(|value| {
                toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok()
                    && Layered::default().with_assignment(&format!("{}={value}", knob.path), "test").is_ok()
            });
            assert!(taken.is_some(), "`{}` shows no value that it takes: {}", knob.path, values);
        }
    }

    /// Every leaf of the default profile lies at or below exactly one knob, and every knob has a value.
    #[test]
    fn the_table_and_the_profile_name_the_same_knobs() {
        let default = Layered::default();
        for knob in KNOBS {
            assert!(
                !paths::json_at(default.table(), knob.path).is_null(),
                "`{}` is in the ledger but not in the profile",
                knob.path
            );
        }
        let mut leaves = Vec::new();
        paths::leaf_paths(default.table(), "", &mut leaves);
        for leaf in leaves {
            let owners =
                KNOBS.iter().filter(|knob| leaf == knob.path || leaf.starts_with(&format!("{}.", knob.path))).count();
            assert_eq!(owners, 1, "`{leaf}` belongs to {owners} rows of the ledger");
        }
    }
}
