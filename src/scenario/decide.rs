//! Which rule decides: the rules of all active scenarios in order, found through an index, and a trace for explanations.
//!
//! The index only leaves out rules that cannot match, so it never changes a decision: a property test compares it with a
//! walk over all rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matcher::{Found, Reading, RequestView, Subject};
use super::rule::{Decision, Rule};
use crate::clock::Random;
use crate::contract::routes::{Operation, ROUTES};
use crate::scenario::rule_counters::{LimitTrace, RuleCounters};

/// Rules with one exact condition on the same subject are looked up instead of tried, from this many on.
const WORTH_LOOKING_UP: usize = 8;

/// What one rule does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleTrace {
    pub(crate) scenario: String,
    /// The rule's name, or its position.
    pub(crate) rule: String,
    /// Where it begins in the scenario's text; from 1.
    #[schemars(range(min = 1))]
    pub(crate) line: usize,
    /// True if it decided the request.
    pub(crate) applied: bool,
    /// What it did, or the first condition that failed, in words.
    pub(crate) outcome: String,
}

/// The rule that decided a request, and its action.
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

    /// The first rule that applies decides; `None` leaves the request to the ordinary answer. The second value is what held the
    /// rules back that matched and did not apply. Counts in `counters`, and draws from `random` only for rules with a chance or a
    /// spread delay.
    pub fn first_decision(
        &self,
        view: &RequestView<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> (Option<Decision>, LimitTrace) {
        let (reading, mut limits) = (Reading::new(view), LimitTrace::default());
        let mut play = |rule: &Arc<Rule>| {
            let played = rule.apply(&reading, counters, since_activation, random);
            if let Err(Some(limit)) = played {
                limits.push(limit);
            }
            played.ok()
        };
        let decision = self.indexes.iter().find_map(|index| index.first_of_scenario(&reading, &mut play));
        (decision, limits)
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

    /// Plays the rules that may match, in order, until one decides.
    fn first_of_scenario(
        &self,
        reading: &Reading<'_>,
        mut play: impl FnMut(&Arc<Rule>) -> Option<Decision>,
    ) -> Option<Decision> {
        let mut play = |at: u32| play(&self.rules[at as usize]);
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
mod tests {
    use hyper::Method;
    use hyper::header::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Seed;
    use crate::scenario::valid;

    /// One request of a test.
    #[derive(Clone, Debug, Default)]
    struct Request {
        operation: Option<Operation>,
        query: String,
        body: String,
        key: Option<String>,
    }

    impl Request {
        fn with_view<T>(&self, look: impl FnOnce(&RequestView<'_>) -> T) -> T {
            look(&RequestView {
                operation: self.operation,
                method: &Method::GET,
                path: "/v1/system/status",
                query: Some(&self.query),
                headers: &HeaderMap::new(),
                body: self.body.as_bytes(),
                key: self.key.as_deref(),
                keys: &crate::settings::Profile::default().keys,
            })
        }
    }

    fn rules(text: &str) -> RuleSet {
        RuleSet::new([valid(text).rule_index()].into_iter())
    }

    #[test]
    fn a_trace_says_why_each_rule_left_a_request() {
        let check = |rule: &str, expected: &str| {
            let rules = rules(&format!("[[rule]]\n{rule}\npass = true\n"));
            let request = Request { operation: Some(Operation::SystemStatus), ..Request::default() };
            let since = Duration::from_secs(2);
            let traces = request.with_view(|view| rules.trace(view, None, since, LimitTrace::default()));
            assert_eq!((traces.len(), traces[0].outcome.as_str()), (1, expected), "{rule}");
        };
        check("to = '1s'", "applies until 1s after activation; it was 2s");
        check("from = '1m'", "applies from 60s after activation; it was 2s");
        check(
            "when.step = 'start'\nskip = 1\nnext = 'gone'",
            "matched, but did not apply: the story was not at step \"start\" or it lets 1 matching request through first",
        );
        check(
            "every = 3\nchance = 0.5",
            "matched, but did not apply: it applies to one in 3 matching requests or it applies with a chance of 0.5",
        );
        check("", "did not apply, although what was recorded of the request matches");
    }

    /// Plays status checks, a second apart, and notes the rules that decide.
    fn check(text: &str, expected: &str) {
        let (rules, counters) = (rules(text), &mut RuleCounters::default());
        let random = &mut Seed::from_number(1).source("test");
        let request = Request { operation: Some(Operation::SystemStatus), ..Request::default() };
        let decided = |second| {
            let since = Duration::from_secs(second);
            let (decision, _) = request.with_view(|view| rules.first_decision(view, counters, since, random));
            decision.map_or("-".to_owned(), |decision| decision.rule.replace("rule ", ""))
        };
        assert_eq!((0..6).map(decided).collect::<String>(), expected, "{text}");
    }

    #[test]
    fn rules_count_keep_to_their_time_and_tell_stories() {
        check("[[rule]]\nskip = 2\ntimes = 2\npass = true\n", "--11--");
        check("[[rule]]\nskip = 1\nevery = 2\npass = true\n", "--1-1-");
        check("[[rule]]\nfrom = '1s'\nto = '3s'\npass = true\n", "-11---");
        check("[[rule]]\ntimes = 1\npass = true\n[[rule]]\nevery = 2\npass = true\n", "1-2-2-");
        check(
            "[[rule]]\nwhen.step = 'start'\ntimes = 2\npass = true\nnext = 'down'\n\
             [[rule]]\nwhen.step = 'down'\nskip = 1\npass = true\nnext = 'start'\n",
            "11-2--",
        );
    }

    fn any_of(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
        prop::option::of(prop::sample::select(values))
    }

    const VALUES: &[&str] = &["1", "2", "3"];

    /// The conditions of a rule, or the same of a request: operation, query, body and key.
    fn conditions() -> impl Strategy<Value = [Option<&'static str>; 4]> {
        (any_of(&["system.status", "hello"]), any_of(VALUES), any_of(VALUES), any_of(VALUES)).prop_map(<[_; 4]>::from)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Whatever the rules and requests, the index finds the rule that a walk over all of them finds, and a trace accounts for each
        /// rule before it.
        #[test]
        fn the_index_changes_no_decision(
            rows in prop::collection::vec((conditions(), 1..4_u64), 1..40),
            requests in prop::collection::vec(conditions(), 1..40),
        ) {
            let rule = |(conditions, times): &([Option<&str>; 4], u64)| {
                let names = ["operation", "query.a", "body.\"/a\"", "key"];
                let when = names.iter().zip(conditions);
                let when: Vec<_> = when.filter_map(|(name, value)| Some(format!("{name} = '{}'", (*value)?))).collect();
                format!("[[rule]]\nwhen = {{ {} }}\ntimes = {times}\npass = true\n", when.join(", "))
            };
            let rules = rules(&rows.iter().map(rule).collect::<String>());
            let (mut counters, mut walked) = (RuleCounters::default(), RuleCounters::default());
            let (random, since) = (&mut Seed::from_number(1).source("test"), Duration::ZERO);
            for [operation, query, body, key] in requests {
                let request = Request {
                    operation: operation.and_then(Operation::from_name),
                    query: query.map_or(String::new(), |value| format!("a={value}")),
                    body: body.map_or(String::new(), |value| format!("{{\"a\":\"{value}\"}}")),
                    key: key.map(str::to_owned),
                };
                let (found, expected, traces) = request.with_view(|view| {
                    let reading = Reading::new(view);
                    let expected = rules.rules().find_map(|rule| rule.apply(&reading, &mut walked, since, random).ok());
                    let (found, _) = rules.first_decision(view, &mut counters, since, random);
                    let decided = found.as_ref().map(|found| DecidedBy {
                        scenario: &found.scenario,
                        rule: &found.rule,
                        action: &found.description,
                    });
                    (found.clone(), expected, rules.trace(view, decided, since, LimitTrace::default()))
                });
                let found = found.map(|found| found.rule.to_string());
                prop_assert_eq!(&found, &expected.map(|expected| expected.rule.to_string()));
                let applied: Vec<&String> = traces.iter().filter(|trace| trace.applied).map(|trace| &trace.rule).collect();
                prop_assert_eq!(applied, found.iter().collect::<Vec<_>>());
                prop_assert!(!traces.iter().any(|trace| trace.outcome.starts_with("did not apply, although")));
            }
        }
    }
}
