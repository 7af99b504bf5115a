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
use crate::scenario::rule_counters::RuleCounters;
use crate::util::wording::counted;

/// Rules with one exact condition on the same subject are looked up instead of tried, from this many on.
const WORTH_LOOKING_UP: usize = 8;

/// Most rules that an explanation lists without the one that applied.
const MAX_LISTED: usize = 16;

/// What one rule did with a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RuleTrace {
    pub(crate) scenario: Arc<str>,
    /// The rule's name, or its position.
    pub(crate) rule: Arc<str>,
    /// Where it begins in the scenario's text; from 1.
    #[schemars(range(min = 1))]
    pub(crate) line: usize,
    /// True if it decided the request.
    pub(crate) applied: bool,
    /// What it did, or the first condition that failed, in words.
    pub(crate) outcome: Arc<str>,
}

/// What the rules did with a request that they did not decide, up to the one that did: recorded while they are tried, because counters
/// and scenarios change afterwards.
#[derive(Debug, Default)]
pub struct TriedRules {
    /// The first, in order.
    pub(crate) listed: Vec<RuleTrace>,
    unlisted: usize,
    /// How many were not even tried, because the request has another value at this subject.
    looked_up: Vec<(Arc<str>, usize)>,
}

impl TriedRules {
    fn add(&mut self, rule: &Rule, outcome: impl FnOnce() -> Arc<str>) {
        if self.listed.len() == MAX_LISTED {
            self.unlisted += 1;
            return;
        }
        let (scenario, label) = (Arc::clone(&rule.scenario), Arc::clone(&rule.label));
        self.listed.push(RuleTrace { scenario, rule: label, line: rule.line, applied: false, outcome: outcome() });
    }

    fn add_looked_up(&mut self, subject: &Arc<str>, count: usize) {
        match self.looked_up.iter_mut().find(|(known, _)| known == subject) {
            Some((_, known)) => *known += count,
            None if count > 0 => self.looked_up.push((Arc::clone(subject), count)),
            None => {}
        }
    }

    /// Its size in bytes, roughly. Texts that it shares with the rules are counted too: it may be the last to hold them.
    pub(crate) fn bytes(&self) -> usize {
        let text = |trace: &RuleTrace| trace.scenario.len() + trace.rule.len() + trace.outcome.len();
        let listed = self.listed.iter().map(|trace| size_of::<RuleTrace>() + text(trace));
        let looked_up = self.looked_up.iter().map(|(subject, _)| size_of::<(Arc<str>, usize)>() + subject.len());
        size_of::<Self>() + listed.sum::<usize>() + looked_up.sum::<usize>()
    }

    /// The rules that are not listed, in words; `None` if all are.
    pub(crate) fn unlisted(&self) -> Option<String> {
        let looked_up = self.looked_up.iter();
        let mut parts: Vec<String> = looked_up
            .map(|(subject, count)| format!("{} for another value of `{subject}`", counted(*count as u64, "rule")))
            .collect();
        if self.unlisted > 0 {
            parts.push(format!("{} that did not apply", counted(self.unlisted as u64, "more rule")));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
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

/// The rules that a request of one operation may match, by position.
#[derive(Clone, Debug, Default)]
struct Bucket {
    /// Tried one after the other.
    plain: Vec<u32>,
    exact: Vec<Exact>,
    /// Rules for other operations, and of the first what an explanation says of them.
    others: Vec<u32>,
    other_outcomes: Vec<Arc<str>>,
}

/// Rules that are looked up by the text at a subject.
#[derive(Clone, Debug)]
struct Exact {
    subject: Subject,
    name: Arc<str>,
    rules: Vec<u32>,
    by_text: HashMap<Box<str>, Vec<u32>>,
}

impl Exact {
    fn new(subject: Subject) -> Self {
        Self { name: subject.to_string().into(), subject, rules: Vec::new(), by_text: HashMap::new() }
    }

    /// The rules that want the request's value.
    fn find(&self, reading: &Reading<'_>) -> &[u32] {
        let found = match reading.find(&self.subject) {
            Found::Text(text) => self.by_text.get(&*text),
            Found::Json(value) => value.as_str().and_then(|text| self.by_text.get(text)),
            Found::Absent => None,
        };
        found.map_or(&[], Vec::as_slice)
    }
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

    /// The first rule that applies decides; `None` leaves the request to the ordinary answer. Counts in `counters`, and draws from
    /// `random` only for rules with a chance or a spread delay.
    pub fn first_decision(
        &self,
        view: &RequestView<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> (Option<Decision>, TriedRules) {
        let (reading, mut tried) = (Reading::new(view), TriedRules::default());
        let mut play = |rule: &Arc<Rule>, tried: &mut TriedRules| {
            let held = match rule.apply(&reading, counters, since_activation, random) {
                Ok(decision) => return Some(decision),
                Err(held) => held,
            };
            tried.add(rule, || rule.held_text(&held, &reading, since_activation).into());
            None
        };
        let first = |index: &Arc<RuleIndex>| index.first_of_scenario(&reading, &mut tried, &mut play);
        (self.indexes.iter().find_map(first), tried)
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
        tried: &mut TriedRules,
        mut play: impl FnMut(&Arc<Rule>, &mut TriedRules) -> Option<Decision>,
    ) -> Option<Decision> {
        let Some((_, bucket)) = self.buckets.iter().find(|(operation, _)| *operation == reading.view.operation) else {
            // An operation outside the route table has no index; its rules are tried one after the other.
            return self.rules.iter().find_map(|rule| play(rule, tried));
        };
        let found: Vec<&[u32]> = bucket.exact.iter().map(|exact| exact.find(reading)).collect();
        let (mut plain, mut rest, mut others) = (&*bucket.plain, found.clone(), 0);
        let mut decided = None;
        // Each list is in order and no rule is in two, so the smallest head is always the next rule in order.
        while let Some(next) =
            std::iter::once(&mut plain).chain(&mut rest).filter(|list| !list.is_empty()).min_by_key(|list| list[0])
        {
            let at = next[0];
            *next = &next[1..];
            others = self.list_others(bucket, others, at, tried);
            if let Some(decision) = play(&self.rules[at as usize], tried) {
                decided = Some((at, decision));
                break;
            }
        }
        let end = decided.as_ref().map_or(u32::MAX, |(at, _)| *at);
        self.list_others(bucket, others, end, tried);
        let before = |list: &[u32]| list.partition_point(|at| *at < end);
        for (exact, found) in bucket.exact.iter().zip(found) {
            tried.add_looked_up(&exact.name, before(&exact.rules) - before(found));
        }
        decided.map(|(_, decision)| decision)
    }

    /// Lists the rules for other operations up to a position, if the first `listed` of them are; returns how many are then.
    fn list_others(&self, bucket: &Bucket, listed: usize, end: u32, tried: &mut TriedRules) -> usize {
        let until = bucket.others.partition_point(|at| *at < end);
        for place in listed..until {
            let Some(outcome) = bucket.other_outcomes.get(place) else {
                tried.unlisted += until - place;
                break;
            };
            tried.add(&self.rules[bucket.others[place] as usize], || Arc::clone(outcome));
        }
        until
    }
}

impl Bucket {
    fn new(rules: &[Arc<Rule>], operation: Option<Operation>) -> Self {
        let mut bucket = Self::default();
        let mut shared: HashMap<&Subject, usize> = HashMap::new();
        let mut members = Vec::new();
        for (at, rule) in (0_u32..).zip(rules) {
            if !rule.when.asks_for(operation) {
                bucket.others.push(at);
                if bucket.other_outcomes.len() < MAX_LISTED {
                    bucket.other_outcomes.extend(rule.when.operation_failure(operation).map(Arc::from));
                }
                continue;
            }
            members.push((at, rule));
            for condition in rule.when.conditions.iter().filter(|condition| condition.exact().is_some()) {
                *shared.entry(&condition.subject).or_default() += 1;
            }
        }
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
            let place = bucket.exact.iter().position(|known| known.subject == *subject).unwrap_or_else(|| {
                bucket.exact.push(Exact::new(subject.clone()));
                bucket.exact.len() - 1
            });
            bucket.exact[place].rules.push(at);
            bucket.exact[place].by_text.entry(text.into()).or_default().push(at);
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
    use crate::scenario::{Scenario, valid};

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

    /// The record of the last of so many status checks two seconds after activation, none of which the only rule decides.
    fn check_outcome(rule: &str, requests: usize, expected: &str) {
        let (rules, counters) = (rules(&format!("[[rule]]\n{rule}\npass = true\n")), &mut RuleCounters::default());
        let random = &mut Seed::from_number(1).source("test");
        let request = Request { operation: Some(Operation::SystemStatus), ..Request::default() };
        let mut tried = TriedRules::default();
        for _ in 0..requests {
            tried = request.with_view(|view| rules.first_decision(view, counters, Duration::from_secs(2), random).1);
        }
        let outcomes: Vec<&str> = tried.listed.iter().map(|trace| &*trace.outcome).collect();
        assert_eq!(outcomes, [expected], "{rule}");
    }

    #[test]
    fn an_outcome_has_the_counters_of_its_time() {
        check_outcome("to = '1s'", 1, "applies until 1s after activation; it was 2s");
        check_outcome("from = '1m'", 1, "applies from 60s after activation; it was 2s");
        check_outcome("when.operation = 'hello'", 1, "operation is `system.status`; expected `hello`");
        check_outcome("when.query.a = '1'", 1, "query.a is absent; expected \"1\"");
        let held = "matched, but did not apply: ";
        check_outcome(
            "when.step = 'start'\nnext = 'gone'",
            2,
            &format!("{held}the story was at step \"gone\", not at \"start\""),
        );
        check_outcome("skip = 2", 1, &format!("{held}it lets 2 matching requests through first; this was the 1st"));
        check_outcome("skip = 2", 2, &format!("{held}it lets 2 matching requests through first; this was the 2nd"));
        check_outcome("times = 3", 5, &format!("{held}it has been used 3 of 3 times"));
        check_outcome("every = 3", 5, &format!("{held}it applies to one in 3 matching requests; this was the 2nd"));
        check_outcome("chance = 0.000001", 1, &format!("{held}it applies with a chance of 0.000001"));
    }

    /// The number of rules that the record of one status check lists, and its note about the others.
    fn check_unlisted(texts: &[&str], listed: usize, unlisted: Option<&str>) {
        let scenarios: Vec<_> = texts.iter().map(|text| valid(text)).collect();
        let rules = RuleSet::new(scenarios.iter().map(Scenario::rule_index));
        let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(1).source("test"));
        let request =
            Request { operation: Some(Operation::SystemStatus), query: "a=1".to_owned(), ..Request::default() };
        let (_, tried) = request.with_view(|view| rules.first_decision(view, counters, Duration::from_secs(2), random));
        assert_eq!((tried.listed.len(), tried.unlisted().as_deref()), (listed, unlisted), "{texts:?}");
    }

    #[test]
    fn rules_that_are_not_listed_are_counted() {
        // It matches, two seconds after activation, and does not apply.
        let over = "[[rule]]\nwhen.query.a = '1'\nto = '1s'\npass = true\n";
        let other = "[[rule]]\nwhen.query.a = '2'\npass = true\n";
        let elsewhere = "[[rule]]\nwhen.operation = 'hello'\npass = true\n";
        check_unlisted(&[&over.repeat(16)], 16, None);
        check_unlisted(&[&over.repeat(17)], 16, Some("1 more rule that did not apply"));
        check_unlisted(&[&elsewhere.repeat(19)], 16, Some("3 more rules that did not apply"));
        check_unlisted(&[&other.repeat(7)], 7, None);
        check_unlisted(&[&other.repeat(8)], 0, Some("8 rules for another value of `query.a`"));
        check_unlisted(&[&other.repeat(8), &other.repeat(9)], 0, Some("17 rules for another value of `query.a`"));
        let both = "9 rules for another value of `query.a`, 4 more rules that did not apply";
        check_unlisted(&[&[over.repeat(20), other.repeat(9)].concat()], 16, Some(both));
    }

    #[test]
    fn a_record_is_as_large_as_its_texts() {
        let rule = Arc::clone(&valid("[[rule]]\nname = 'four'\npass = true\n").rules[0]);
        let mut tried = TriedRules::default();
        let mut added = |change: &mut dyn FnMut(&mut TriedRules)| {
            let before = tried.bytes();
            change(&mut tried);
            tried.bytes() - before
        };
        for outcome in ["", "with an outcome"] {
            let texts = rule.scenario.len() + rule.label.len() + outcome.len();
            assert_eq!(added(&mut |tried| tried.add(&rule, || outcome.into())), size_of::<RuleTrace>() + texts);
        }
        for subject in ["query.a", "body.\"/a\""] {
            let size = added(&mut |tried| tried.add_looked_up(&subject.into(), 3));
            assert_eq!(size, size_of::<(Arc<str>, usize)>() + subject.len());
        }
        assert_eq!(TriedRules::default().bytes(), size_of::<TriedRules>());
    }

    /// Plays status checks, a second apart, and notes the rules that decide.
    fn check(text: &str, expected: &str) {
        let (rules, counters) = (rules(text), &mut RuleCounters::default());
        let random = &mut Seed::from_number(1).source("test");
        let request = Request { operation: Some(Operation::SystemStatus), ..Request::default() };
        let decided = |second| {
            let since = Duration::from_secs(second);
            let (decision, _) = request.with_view(|view| rules.first_decision(view, counters, since, random));
            decision.map_or("-".to_owned(), |decision| decision.rule.label.replace("rule ", ""))
        };
        assert_eq!((0..6).map(decided).collect::<String>(), expected, "{text}");
    }

    #[test]
    fn rules_count_keep_to_their_time_and_tell_stories() {
        check("[[rule]]\nskip = 2\ntimes = 2\npass = true\n", "--11--");
        check("[[rule]]\nskip = 1\nevery = 2\npass = true\n", "--1-1-");
        check("[[rule]]\nskip = 1\nevery = 3\npass = true\n", "---1--");
        check("[[rule]]\nfrom = '1s'\nto = '3s'\npass = true\n", "-11---");
        check("[[rule]]\ntimes = 1\npass = true\n[[rule]]\nevery = 2\npass = true\n", "1-2-2-");
        check(
            "[[rule]]\nwhen.step = 'start'\ntimes = 2\npass = true\nnext = 'down'\n\
             [[rule]]\nwhen.step = 'down'\nskip = 1\npass = true\nnext = 'start'\n",
            "11-2--",
        );
    }

    #[test]
    fn a_story_waits_for_the_answers_to_all_requests_that_it_decided() {
        let rules =
            rules("[[rule]]\nwhen.step = 'start'\ntimes = 2\npass = true\nnext = { step = 'b', status = 200 }\n");
        let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(1).source("test"));
        let request = Request { operation: Some(Operation::SystemStatus), ..Request::default() };
        let decided = [(); 2].map(|()| {
            let decision = request.with_view(|view| rules.first_decision(view, counters, Duration::ZERO, random).0);
            decision.expect("it applies twice")
        });
        for (Decision { rule, action, .. }, is_last) in decided.iter().zip([false, true]) {
            assert_eq!(counters.step(rule.story), None);
            rule.settle(action, 200, counters);
            assert_eq!(counters.step(rule.story).map(AsRef::as_ref), is_last.then_some("b"));
        }
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

        /// Whatever the rules and requests, the index finds the rule that a walk over all of them finds, and the record accounts for
        /// each rule before it.
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
                let (found, tried, expected) = request.with_view(|view| {
                    let reading = Reading::new(view);
                    let expected = rules.rules().find_map(|rule| rule.apply(&reading, &mut walked, since, random).ok());
                    let (found, tried) = rules.first_decision(view, &mut counters, since, random);
                    (found, tried, expected)
                });
                let line = |decision: &Option<Decision>| decision.as_ref().map(|decision| decision.rule.line);
                prop_assert_eq!(line(&found), line(&expected));
                let looked_up: usize = tried.looked_up.iter().map(|(_, count)| count).sum();
                let before = rules.rules().position(|rule| Some(rule.line) == line(&found));
                let accounted = tried.listed.len() + tried.unlisted + looked_up;
                prop_assert_eq!(accounted, before.unwrap_or_else(|| rules.rules().count()));
            }
        }
    }
}
