//! How far each scenario is for each key: the rules that applied, the step of its story, the events yet to come.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Control;
use super::context::KeyScope;
use super::unfinished::{ScenarioPlayer, configs, keys_by_activation, players};
use crate::redact::Redactor;
use crate::scenario::{Scenario, ScenarioSnapshot, StoryProgress};
use crate::state::journal::record::WorkspaceId;

/// How far a scenario is for a key.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Progress")]
pub(crate) struct ScenarioProgress {
    /// Null for requests without a key.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) key: Option<String>,
    /// In the order of the scenario.
    pub(crate) rules: Vec<RuleProgress>,
    /// The present step of its story, if it has one that ends.
    pub(crate) step: Option<String>,
    /// The steps at which the story ends.
    pub(crate) ends: Vec<String>,
    pub(crate) emissions: Vec<EmissionProgress>,
}

/// How often a rule has applied.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct RuleProgress {
    pub(crate) rule: String,
    /// Where it begins in the scenario's text; from 1.
    pub(crate) line: usize,
    pub(crate) applied: u64,
    /// How often it applies in all; null if without end.
    pub(crate) turns: Option<u64>,
}

/// How often an emission was triggered.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct EmissionProgress {
    pub(crate) emission: String,
    pub(crate) fired: u64,
    /// Events planned and yet to come.
    pub(crate) planned: u64,
}

/// Maximum number of keys shown for one scenario.
const MAX_KEYS: usize = 100;

/// The progress of each active scenario, by its name, and how many keys were left out.
pub(super) fn progress(
    control: &Control,
    scope: &KeyScope,
    snapshot: &ScenarioSnapshot,
    redactor: Redactor<'_>,
) -> (BTreeMap<Arc<str>, Vec<ScenarioProgress>>, usize) {
    let (mut found, mut omitted) = (BTreeMap::<Arc<str>, Vec<ScenarioProgress>>::new(), 0);
    let keys = keys_by_activation(control, scope, snapshot);
    for config in configs(snapshot, scope) {
        for player in players(control, scope, &keys, config.activation) {
            let planned = player.planned(config.activation);
            for scenario in config.active.iter() {
                let shown = found.entry(Arc::clone(&scenario.name)).or_default();
                if shown.len() < MAX_KEYS {
                    shown.push(player_progress(scenario, &player, &planned, redactor));
                } else {
                    omitted += 1;
                }
            }
        }
    }
    (found, omitted)
}

fn player_progress(
    scenario: &Scenario,
    player: &ScenarioPlayer,
    planned: &HashMap<u64, u64>,
    redactor: Redactor<'_>,
) -> ScenarioProgress {
    let story = StoryProgress::of(&scenario.rules, &player.turns);
    let rules = scenario.rules.iter().map(|rule| RuleProgress {
        rule: rule.label.to_string(),
        line: rule.line,
        applied: player.turns.get(rule.fingerprint).applied,
        turns: rule.turns_in_all(),
    });
    let emissions = scenario.emits.iter().map(|emit| EmissionProgress {
        emission: emit.label.to_string(),
        fired: player.turns.get(emit.fingerprint).applied,
        planned: planned.get(&emit.fingerprint).copied().unwrap_or_default(),
    });
    ScenarioProgress {
        workspace: player.workspace.as_ref().map(|workspace| workspace.id().into()),
        key: player.workspace.as_ref().map(|workspace| redactor.key(workspace.name()).into_owned()),
        rules: rules.collect(),
        step: story.as_ref().map(|story| story.step.to_string()),
        ends: story.iter().flat_map(|story| &story.ends).map(ToString::to_string).collect(),
        emissions: emissions.collect(),
    }
}
