//! How far the active scenarios are for each key: how often rules applied, steps of stories, emissions. Part of the run document.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Control;
use super::api::{EmissionProgress, Progress, RuleProgress};
use super::scope::Scope;
use super::verification::{Player, configs, players};
use crate::redact::Redactor;
use crate::scenario::{Generation, Scenario, story_progress};

/// Most keys shown for one scenario.
const MOST_KEYS: usize = 100;

/// The progress of each active scenario, by its name, and how many keys were left out.
pub(super) fn progress(
    control: &Control,
    scope: &Scope,
    generation: &Generation,
    redactor: Redactor<'_>,
) -> (BTreeMap<Arc<str>, Vec<Progress>>, usize) {
    let (mut found, mut omitted) = (BTreeMap::<Arc<str>, Vec<Progress>>::new(), 0);
    for config in configs(generation, scope) {
        for player in players(control, scope, generation, &config) {
            let planned = player.planned(config.activation);
            for scenario in config.active.iter() {
                let shown = found.entry(Arc::clone(&scenario.name)).or_default();
                if shown.len() < MOST_KEYS {
                    shown.push(of_player(scenario, &player, &planned, redactor));
                } else {
                    omitted += 1;
                }
            }
        }
    }
    (found, omitted)
}

fn of_player(scenario: &Scenario, player: &Player, planned: &HashMap<u64, u64>, redactor: Redactor<'_>) -> Progress {
    let story = story_progress(scenario, &player.turns);
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
    Progress {
        workspace: player.workspace.as_ref().map(|workspace| workspace.id().into()),
        key: player.workspace.as_ref().map(|workspace| redactor.key(workspace.name()).into_owned()),
        rules: rules.collect(),
        step: story.as_ref().map(|story| story.step.to_string()),
        ends: story.iter().flat_map(|story| &story.ends).map(ToString::to_string).collect(),
        emissions: emissions.collect(),
    }
}
