//! Scenarios: which there are, which are active, adding and removing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Empty, Form, KeyField, Nothing, endpoint, name_of};
use crate::control::render::{Text, cell, joined, of_key, optional, table};
use crate::scenario::generation_text;
use crate::util::wording::counted;

endpoint! {
    /// All scenarios, with what is active and what is broken.
    ListScenarios: GET "scenarios", Form::Masked, Nothing, Nothing => Scenarios;
    /// One scenario with its text.
    ShowScenario: GET "scenarios/{name}", Form::Masked, Nothing, Nothing => ScenarioWhole;
    /// Add a scenario, or replace it.
    PutScenario: PUT "scenarios/{name}", Form::Masked, Nothing, Map<String, Value> => Added;
    /// Remove a scenario that was added here.
    RemoveScenario: DELETE "scenarios/{name}", Form::Masked, Nothing, Empty => Removed;
    /// Read the folders again now.
    ReloadScenarios: POST "scenarios/reload", Form::Masked, Nothing, Empty => Reloaded;
    /// Choose the active scenarios, for all keys or one.
    ActivateScenarios: POST "scenarios/active", Form::Masked, Nothing, Activate => Activated;
}

/// All scenarios.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Scenarios {
    pub(crate) generation: u64,
    /// Active for every key without a list of its own, in order.
    pub(crate) active: Vec<String>,
    pub(crate) active_by_key: Vec<KeyList>,
    pub(crate) data: Vec<Scenario>,
    /// What is wrong with the files.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The list of one key.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct KeyList {
    pub(crate) key: String,
    pub(crate) active: Vec<String>,
}

/// A scenario as a row of the listing; one whose file was never valid has nothing but its problem.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    /// `built-in`, `inline`, or the path of its file.
    pub(crate) origin: String,
    pub(crate) active: bool,
    pub(crate) rules: usize,
    pub(crate) emits: usize,
    /// Whether it matches its saved file; if not, its last valid version stays.
    pub(crate) state: ScenarioState,
    pub(crate) problem: Option<Diagnostic>,
}

/// Whether a scenario is as its file is saved.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScenarioState {
    Ok,
    Broken,
    Deleted,
}

/// A scenario with its text.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct ScenarioWhole {
    #[serde(flatten)]
    pub(crate) row: Scenario,
    pub(crate) description: Option<String>,
    pub(crate) text: String,
}

/// One thing wrong with a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Diagnostic {
    #[cfg_attr(test, schemars(extend("enum" = ["warning", "error"])))]
    pub(crate) severity: String,
    /// Stable.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) file: Option<String>,
    pub(crate) span: Span,
    /// From 1; 0 if the problem is the file as a whole.
    pub(crate) line: usize,
    /// From 1; 0 if the problem is the file as a whole.
    pub(crate) column: usize,
    pub(crate) source_line: String,
    /// What to do; may be empty.
    pub(crate) hint: String,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A scenario was added or replaced.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Added {
    pub(crate) name: String,
    pub(crate) generation: u64,
    /// Warnings.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A scenario was removed.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Removed {
    pub(crate) removed: String,
    pub(crate) generation: u64,
}

/// The folders were read.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Reloaded {
    pub(crate) generation: u64,
    /// Files read.
    pub(crate) files: usize,
    /// What is new, one line each.
    pub(crate) changes: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// The scenarios to activate.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Activate {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    /// Names in order; an empty list turns scenarios off. Absent, with a key: the key follows the list of all keys.
    pub(crate) active: Option<Vec<String>>,
}

/// The scenarios that are active now.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Activated {
    pub(crate) generation: u64,
    pub(crate) active: Option<Vec<String>>,
    pub(crate) key: Option<String>,
    /// A warning for each that is active in an earlier version than its file has.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Text for Scenarios {
    fn text(&self) -> String {
        let rows = self.data.iter().map(|row| {
            let active = if row.active { "*" } else { "" };
            let held_back = match row.state {
                ScenarioState::Ok => String::new(),
                state => format!(" ({})", name_of(state)),
            };
            [active.to_owned(), cell(&row.name), optional(row.title.as_ref()), cell(&row.origin) + &held_back]
        });
        let mut text = table(["", "NAME", "TITLE", "ORIGIN"], rows);
        for own in &self.active_by_key {
            let names = if own.active.is_empty() { "none".to_owned() } else { joined(&own.active) };
            text.push_str(&format!("{} has a list of its own: {names}\n", cell(&own.key)));
        }
        for problem in &self.diagnostics {
            text.push_str(&format!("\n{}\n", problem.line()));
            if !problem.hint.is_empty() {
                text.push_str(&format!("  hint: {}\n", cell(&problem.hint)));
            }
        }
        text
    }
}

impl Diagnostic {
    /// The problem on one line, with its place.
    fn line(&self) -> String {
        let place = match (&self.file, self.line) {
            (None, _) => String::new(),
            (Some(file), 0) => format!("{}: ", cell(file)),
            (Some(file), line) => format!("{}:{line}:{}: ", cell(file), self.column),
        };
        format!("{}: {place}{}", self.severity, cell(&self.message))
    }
}

/// Diagnostics, one a line.
fn lines(found: &[Diagnostic]) -> String {
    found.iter().map(|problem| problem.line() + "\n").collect()
}

impl Text for ScenarioWhole {
    fn text(&self) -> String {
        self.text.clone()
    }
}

impl Text for Added {
    fn text(&self) -> String {
        format!("{} added ({})\n{}", cell(&self.name), generation_text(self.generation), lines(&self.diagnostics))
    }
}

impl Text for Removed {
    fn text(&self) -> String {
        format!("{} removed ({})\n", cell(&self.removed), generation_text(self.generation))
    }
}

impl Text for Reloaded {
    fn text(&self) -> String {
        let changes: String = self.changes.iter().map(|change| format!("{}\n", cell(change))).collect();
        let (files, generation) = (counted(self.files, "file"), generation_text(self.generation));
        format!("{files} read, {generation}\n{changes}{}", lines(&self.diagnostics))
    }
}

impl Text for Activated {
    fn text(&self) -> String {
        let whose = of_key(self.key.as_deref());
        let active = match self.active.as_deref() {
            None => format!("the list of all keys is active{whose}"),
            Some([]) => format!("no scenario is active{whose}"),
            Some(names) => format!("active{whose}: {}", joined(names)),
        };
        format!("{active} ({})\n{}", generation_text(self.generation), lines(&self.diagnostics))
    }
}
