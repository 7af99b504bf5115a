//! How often each scenario rule has matched and applied in one workspace, and where each story stands: plain counters by
//! fingerprint.
//!
//! Kept with the workspace so that scenarios themselves hold no state; what a rule means is none of its business.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The counters of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Requests that its conditions matched.
    pub matched: u64,
    /// Requests that it decided.
    pub applied: u64,
}

/// The counters of all rules a workspace has met. Bounded: the fingerprints come from scenario files, not from requests.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    by_rule: BTreeMap<u64, Turn>,
    steps: BTreeMap<u64, Arc<str>>,
    activation: u64,
}

impl Turns {
    /// The counters of a rule, zero at first.
    pub fn of(&mut self, rule: u64) -> &mut Turn {
        self.by_rule.entry(rule).or_default()
    }

    /// The counters of a rule, without remembering it.
    pub fn get(&self, rule: u64) -> Turn {
        self.by_rule.get(&rule).copied().unwrap_or_default()
    }

    /// The named step at which a story stands; `None` before the first change of step.
    pub fn step(&self, story: u64) -> Option<&Arc<str>> {
        self.steps.get(&story)
    }

    /// Moves a story on to a step.
    pub fn set_step(&mut self, story: u64, step: Arc<str>) {
        self.steps.insert(story, step);
    }

    /// Starts every rule and story afresh if `activation` is another one than at the last call. Zero is none.
    pub fn begin(&mut self, activation: u64) {
        if activation != 0 && self.activation != activation {
            *self = Self { activation, ..Self::default() };
        }
    }

    /// Forgets every rule and story for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.by_rule.retain(|rule, _| keep(*rule));
        self.steps.retain(|story, _| keep(*story));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_activation_starts_afresh() {
        let mut turns = Turns::default();
        turns.begin(3);
        turns.of(1).applied = 5;
        turns.set_step(9, Arc::from("later"));
        turns.begin(3);
        turns.begin(0);
        assert_eq!((turns.get(1).applied, turns.step(9).map(AsRef::as_ref)), (5, Some("later")));
        turns.begin(4);
        assert_eq!((turns.get(1), turns.step(9)), (Turn::default(), None));
    }
}
