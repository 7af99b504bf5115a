//! How often each scenario rule has matched and applied in one workspace: plain counters by the rule's fingerprint.
//!
//! Kept with the workspace so that scenarios themselves hold no state; what a rule means is none of its business.

use std::collections::BTreeMap;

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
}

impl Turns {
    /// The counters of a rule, zero at first.
    pub fn of(&mut self, rule: u64) -> &mut Turn {
        self.by_rule.entry(rule).or_default()
    }

    /// Forgets every rule for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.by_rule.retain(|rule, _| keep(*rule));
    }
}
