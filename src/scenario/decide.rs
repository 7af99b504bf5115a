//! Which rule decides: the rules of all active scenarios in order, found through an index, and a trace for explanations.
//!
//! The index only leaves out rules that cannot match, so it never changes a decision: a property test compares it with a
//! walk over all rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::matcher::{Found, Reading, RequestView, Subject};
use super::rule::{Decision, Rule};
use crate::clock::Random;
use crate::contract::routes::{Operation, ROUTES};
use crate::scenario::rule_counters::{LimitTrace, RuleCounters};

/// Rules with one exact condition on the same subject are looked up instead of tried, from this many on.
const WORTH_LOOKING_UP: usize = 8;

/// What one rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct RuleTrace {
    pub(crate) scenario: String,
    /// The rule's name, or its position.
    pub(crate) rule: String,
    /// Where it begins in the scenario's text; from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(crate) line: usize,
    /// Whether it decided the request.
    pub(crate) applied: bool,
    /// What it did, or the first condition that failed, in words.
    pub(crate) outcome: String,
}

/// The rule that decided a request, and what it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecidedBy<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) rule: &'a str,
    pub(crate) action: &'a str,
}

/// The rules of the active scenarios, in order. Each scenario's are indexed once, whatever they are combined with.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    indexes: Vec<Arc<RuleIndex>>,
}

#[derive(Debug)]
pub(super) struct RuleIndex {
    rules: Vec<Arc<Rule>>,
    buckets: Vec<(Option<Operation>, Bucket)>,
}

/// Positions of rules by the text that they demand.
type ByText = HashMap<Box<str>, Vec<u32>>;

/// The rules that a request of one operation may match, by position.
#[derive(Clone, Debug, Default)]
struct Bucket {
    /// Tried one after the other.
    plain: Vec<u32>,
    /// Looked up by the text at a subject.
    exact: Vec<(Subject, ByText)>,
}

impl RuleSet {
    pub(super) fn new<'i>(indexes: impl Iterator<Item = &'i Arc<RuleIndex>>) -> Self {
        Self { indexes: indexes.filter(|index| !index.rules.is_empty()).cloned().collect() }
    }

    pub fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.indexes.iter().flat_map(|index| &index.rules)
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// The first rule that applies decides; `None` leaves the request to the ordinary answer. Counts in `counters`, and draws
    /// from `random` only for rules with a chance or a spread delay.
    pub fn first_decision(
        &self,
        view: &RequestView<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> Option<Decision> {
        let reading = Reading::new(view);
        self.indexes.iter().find_map(|index| index.first_of_scenario(&reading, counters, since_activation, random))
    }

    /// What each rule did with a request that was decided before, up to the rule that decided it, which is given with what it did.
    /// Everything else is worked out from the request, the time and the recorded limits, and never from counters, which have changed
    /// since.
    pub(crate) fn trace(
        &self,
        view: &RequestView<'_>,
        decided: Option<DecidedBy<'_>>,
        since_activation: Duration,
        mut limits: LimitTrace,
    ) -> Vec<RuleTrace> {
        let reading = Reading::new(view);
        let is_decider =
            |rule: &Rule| decided.filter(|decided| *rule.scenario == *decided.scenario && *rule.label == *decided.rule);
        let mut traces = Vec::new();
        for rule in self.rules() {
            let decider = is_decider(rule);
            let outcome = match decider {
                Some(decided) => decided.action.to_owned(),
                None => rule.why_not(&reading, since_activation, &mut limits),
            };
            let (scenario, label) = (rule.scenario.to_string(), rule.label.to_string());
            let applied = decider.is_some();
            traces.push(RuleTrace { scenario, rule: label, line: rule.line, applied, outcome });
            if applied {
                break;
            }
        }
        traces
    }
}

impl RuleIndex {
    pub(super) fn new(rules: &[Arc<Rule>]) -> Self {
        let operations = ROUTES.iter().map(|route| Some(route.operation)).chain([None]);
        let buckets = operations.map(|operation| (operation, Bucket::new(rules, operation))).collect();
        Self { rules: rules.to_vec(), buckets }
    }

    fn first_of_scenario(
        &self,
        reading: &Reading<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> Option<Decision> {
        let mut play = |at: u32| self.rules[at as usize].play(reading, counters, since_activation, random);
        let Some((_, bucket)) = self.buckets.iter().find(|(operation, _)| *operation == reading.view.operation) else {
            // An operation outside the route table has no index; its rules are tried one after the other.
            return (0_u32..).take(self.rules.len()).find_map(play);
        };
        if bucket.exact.is_empty() {
            return bucket.plain.iter().find_map(|at| play(*at));
        }
        let mut lists: Vec<&[u32]> = vec![&bucket.plain];
        for (subject, rules) in &bucket.exact {
            let found = match reading.find(subject) {
                Found::Text(text) => rules.get(&*text),
                Found::Json(value) => value.as_str().and_then(|text| rules.get(text)),
                Found::Absent => None,
            };
            lists.extend(found.map(Vec::as_slice));
        }
        // Each list is in order and no rule is in two, so the smallest head is always the next rule in order.
        loop {
            let next = lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let at = next[0];
            *next = &next[1..];
            if let Some(decision) = play(at) {
                return Some(decision);
            }
        }
    }
}

impl Bucket {
    fn new(rules: &[Arc<Rule>], operation: Option<Operation>) -> Self {
        let mut shared: HashMap<&Subject, usize> = HashMap::new();
        let mut members = Vec::new();
        for (at, rule) in (0_u32..).zip(rules) {
            let wanted = &rule.when.operations;
            if wanted.is_empty() || operation.is_some_and(|operation| wanted.contains(&operation)) {
                members.push((at, rule));
                for condition in rule.when.conditions.iter().filter(|condition| condition.exact().is_some()) {
                    *shared.entry(&condition.subject).or_default() += 1;
                }
            }
        }
        let mut bucket = Self::default();
        for (at, rule) in members {
            let exact = rule
                .when
                .conditions
                .iter()
                .filter_map(|condition| Some((&condition.subject, condition.exact()?)))
                .filter(|(subject, _)| shared[subject] >= WORTH_LOOKING_UP)
                .max_by_key(|(subject, _)| shared[subject]);
            let Some((subject, text)) = exact else {
                bucket.plain.push(at);
                continue;
            };
            let place = bucket.exact.iter().position(|(known, _)| known == subject).unwrap_or_else(|| {
                bucket.exact.push((subject.clone(), HashMap::new()));
                bucket.exact.len() - 1
            });
            bucket.exact[place].1.entry(text.into()).or_default().push(at);
        }
        bucket
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
