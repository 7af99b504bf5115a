//! How often each scenario rule has matched and applied in one workspace, and the current step of each story: counters by
//! fingerprint, separate for each activation.
//!
//! They are kept with the workspace, so that scenarios themselves have no state. Independent of what a rule means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum number of activations whose counters are kept. A workspace needs one for each list of scenarios of its keys.
pub const MAX_ACTIVATIONS: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounter {
    /// Requests that its conditions matched.
    pub matched: u64,
    /// Requests that it decided.
    pub applied: u64,
    /// Those among them that count only if their answer has a status that the scenario names, and are not answered yet.
    pub unsettled: u64,
}

/// The counters of one rule or emission in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCounter {
    /// The fingerprint of the rule's text.
    pub rule: u64,
    pub matched: u64,
    /// Requests that it decided, or events fired.
    pub applied: u64,
}

/// The counters of all rules that a workspace has tried: at most one for each rule and activation.
#[derive(Clone, Debug, Default)]
pub struct RuleCounters {
    activation: u64,
    known: BTreeSet<u64>,
    by_rule: BTreeMap<(u64, u64), RuleCounter>,
    steps: BTreeMap<(u64, u64), Arc<str>>,
}

impl RuleCounters {
    /// Switches to the counters of one activation; those of an activation that was never seen are all zero. Zero means
    /// scenarios that were not activated at all.
    pub fn switch_to(&mut self, activation: u64) {
        if self.activation == activation {
            return;
        }
        self.activation = activation;
        if activation == 0 || !self.known.insert(activation) || self.known.len() <= MAX_ACTIVATIONS {
            return;
        }
        // Activations are numbered in order, so the lowest is the oldest.
        if let Some(oldest) = self.known.pop_first() {
            self.by_rule.retain(|(activation, _), _| *activation != oldest);
            self.steps.retain(|(activation, _), _| *activation != oldest);
        }
    }

    /// True if the counters of an activation are kept here: a rule of it was tried, or an emission set off.
    pub fn has_started(&self, activation: u64) -> bool {
        self.known.contains(&activation)
    }

    /// How many rules of an activation have counters.
    pub fn count(&self, activation: u64) -> usize {
        self.by_rule.range((activation, 0)..=(activation, u64::MAX)).count()
    }

    pub fn of(&mut self, rule: u64) -> &mut RuleCounter {
        self.by_rule.entry((self.activation, rule)).or_default()
    }

    /// The counters of a rule, without remembering it.
    pub fn get(&self, rule: u64) -> RuleCounter {
        self.by_rule.get(&(self.activation, rule)).copied().unwrap_or_default()
    }

    /// The current step of a story; `None` before the first change of step.
    pub fn step(&self, story: u64) -> Option<&Arc<str>> {
        self.steps.get(&(self.activation, story))
    }

    pub fn set_step(&mut self, story: u64, step: Arc<str>) {
        self.steps.insert((self.activation, story), step);
    }

    /// The counters and steps of one activation, for a snapshot.
    pub fn save(&self, activation: u64) -> (Vec<SavedCounter>, Vec<(u64, String)>) {
        let rules = self.by_rule.range((activation, 0)..=(activation, u64::MAX));
        let counters = rules.map(|((_, rule), turn)| {
            // Running requests are not saved.
            let applied = turn.applied.saturating_sub(turn.unsettled);
            SavedCounter { rule: *rule, matched: turn.matched, applied }
        });
        let steps = self.steps.range((activation, 0)..=(activation, u64::MAX));
        (counters.collect(), steps.map(|((_, story), step)| (*story, step.to_string())).collect())
    }

    /// Restores the counters and steps of one activation from a snapshot.
    pub fn restore(&mut self, activation: u64, counters: &[SavedCounter], steps: &[(u64, String)]) {
        self.switch_to(activation);
        for SavedCounter { rule, matched, applied } in counters {
            *self.of(*rule) = RuleCounter { matched: *matched, applied: *applied, unsettled: 0 };
        }
        for (story, step) in steps {
            self.set_step(*story, Arc::from(step.as_str()));
        }
    }

    /// Forgets every rule and story for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.by_rule.retain(|(_, rule), _| keep(*rule));
        self.steps.retain(|(_, story), _| keep(*story));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_activations_leave() {
        let mut counters = RuleCounters::default();
        for activation in 1..=1_000 {
            counters.switch_to(activation);
            counters.of(1).applied = activation;
            counters.set_step(1, Arc::from("later"));
        }
        assert_eq!((counters.by_rule.len(), counters.steps.len()), (MAX_ACTIVATIONS, MAX_ACTIVATIONS));
        counters.retain(|_| false);
        assert!(counters.by_rule.is_empty() && counters.steps.is_empty());
    }
}
