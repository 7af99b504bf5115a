//! Which rule decides: the rules of all active scenarios are tried in order, with a trace for explanations.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Scenario;
use super::matcher::{ParsedRequest, RequestView};
use super::rule::{Decision, Rule};
use crate::clock::Random;
use crate::contract::routes::Operation;
use crate::scenario::rule_counters::RuleCounters;
use crate::util::wording::counted;

/// Maximum number of rules that an explanation lists before the one that decided, and after it.
const MAX_LISTED: usize = 16;
/// Maximum number of rules after the one that decided that are compared with the request: thousands would slow every request down.
const MAX_LOOKED_AT: usize = 64;
const NOT_REACHED: &str = "matches too, but an earlier rule decided";
const NOT_OF_PATH: &str = "matches too, but an earlier rule left the request to those that name its path";

/// The effect of one rule on a request.
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
    /// Its effect, or the first condition that failed, in words.
    pub(crate) outcome: Arc<str>,
}

/// The effects of the other rules on a request, besides the one that decided it: recorded while they are tried, because counters and
/// scenarios change afterwards.
#[derive(Debug, Default)]
pub struct TriedRules {
    /// The first that did not apply, in order.
    pub(crate) listed: Vec<RuleTrace>,
    unlisted: usize,
    /// The first after the one that decided whose conditions the request meets too.
    pub(crate) later: Vec<RuleTrace>,
}

impl RuleTrace {
    /// A rule that did not decide.
    fn of(rule: &Rule, outcome: String) -> Self {
        let (scenario, label) = (Arc::clone(&rule.scenario), Arc::clone(&rule.label));
        Self { scenario, rule: label, line: rule.line, applied: false, outcome: outcome.into() }
    }
}

impl TriedRules {
    fn add(&mut self, rule: &Rule, outcome: impl FnOnce() -> String) {
        if self.listed.len() == MAX_LISTED {
            self.unlisted += 1;
            return;
        }
        self.listed.push(RuleTrace::of(rule, outcome()));
    }

    /// The rules that are not listed, in words; `None` if all are.
    pub(crate) fn unlisted(&self) -> Option<String> {
        (self.unlisted > 0).then(|| format!("{} that did not apply", counted(self.unlisted, "more rule")))
    }
}

/// The rules of the active scenarios, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
}

impl RuleSet {
    pub(super) fn new<'s>(active: impl IntoIterator<Item = &'s Scenario>) -> Self {
        Self { rules: active.into_iter().flat_map(|scenario| scenario.rules.iter().cloned()).collect() }
    }

    pub fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter()
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// True if a request whose path no endpoint has needs a valid key, by the first rule that answers such paths and has its method and
    /// path; `None` if there is none.
    pub fn stub_needs_key(&self, view: &RequestView<'_>) -> Option<bool> {
        let request = ParsedRequest::new(view);
        let rule = self.rules.iter().find(|rule| rule.answers_any_path() && rule.when.has_route_of(&request))?;
        Some(rule.when.authenticated.unwrap_or(view.path.starts_with("/v1/")))
    }

    /// The first rule that applies decides; `None` leaves the request to the ordinary answer. Counts in `counters`, and draws from
    /// `random` only for rules with a chance or a spread delay.
    ///
    /// A path that no endpoint has gets its ordinary answer from the rules that name it. So there a rule that passes, delays or patches
    /// decides nothing: it uses its turn, and leaves the request to those rules.
    pub fn first_decision(
        &self,
        view: &RequestView<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> (Option<Decision>, TriedRules) {
        let (request, mut tried) = (ParsedRequest::new(view), TriedRules::default());
        let mut only_of_path = false;
        for (at, rule) in self.rules.iter().enumerate() {
            if only_of_path && !rule.when.no_endpoint {
                tried.add(rule, || rule.when.failure(&request).unwrap_or_else(|| NOT_OF_PATH.to_owned()));
                continue;
            }
            match rule.apply(&request, counters, since_activation, random) {
                Ok(Decision { action, description, .. })
                    if view.operation == Some(Operation::Stub) && action.is_ordinary() =>
                {
                    rule.settle(&action, 0, counters);
                    only_of_path = true;
                    tried.add(rule, || {
                        format!("matched ({description}), but no endpoint has this path: the rules that name it decide")
                    });
                }
                Ok(decision) => {
                    let next = self.rules[at + 1..].iter().take(MAX_LOOKED_AT);
                    let later = next.filter(|rule| rule.when.holds(&request)).take(MAX_LISTED);
                    tried.later.extend(later.map(|rule| RuleTrace::of(rule, NOT_REACHED.to_owned())));
                    return (Some(decision), tried);
                }
                Err(held) => tried.add(rule, || rule.held_text(&held, &request, since_activation)),
            }
        }
        (None, tried)
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use hyper::header::HeaderMap;

    use super::*;
    use crate::clock::Seed;
    use crate::scenario::valid;

    /// One request of a test.
    #[derive(Clone, Debug, Default)]
    struct SentRequest {
        operation: Option<Operation>,
        query: String,
        body: String,
        key: Option<String>,
    }

    impl SentRequest {
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
        RuleSet::new([&valid(text)])
    }

    /// The record of the last of so many status checks two seconds after activation, none of which the only rule decides.
    fn check_outcome(rule: &str, requests: usize, expected: &str) {
        let (rules, counters) = (rules(&format!("[[rule]]\n{rule}\npass = true\n")), &mut RuleCounters::default());
        let random = &mut Seed::from_number(1).source("test");
        let request = SentRequest { operation: Some(Operation::SystemStatus), ..SentRequest::default() };
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
        let rules = RuleSet::new(&scenarios);
        let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(1).source("test"));
        let request =
            SentRequest { operation: Some(Operation::SystemStatus), query: "a=1".to_owned(), ..SentRequest::default() };
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
        check_unlisted(&[&other.repeat(8), &other.repeat(9)], 16, Some("1 more rule that did not apply"));
        check_unlisted(&[&[over.repeat(20), other.repeat(9)].concat()], 16, Some("13 more rules that did not apply"));
    }

    /// Plays status checks, a second apart, and notes the rules that decide.
    fn check(text: &str, expected: &str) {
        let (rules, counters) = (rules(text), &mut RuleCounters::default());
        let random = &mut Seed::from_number(1).source("test");
        let request = SentRequest { operation: Some(Operation::SystemStatus), ..SentRequest::default() };
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
        let request = SentRequest { operation: Some(Operation::SystemStatus), ..SentRequest::default() };
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

    #[test]
    fn on_a_path_that_no_endpoint_has_the_rules_that_name_it_decide() {
        let text = "[[rule]]\npass = true\n[[rule]]\npass = true\n\
                    [[rule]]\nwhen = { path = '/x', authenticated = true }\nreply = { status = 200 }\n";
        let rules = rules(text);
        assert_eq!((rules.len(), RuleSet::default().len()), (3, 0));
        let look = |path: &str| {
            let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(1).source("test"));
            let view = RequestView {
                operation: Some(Operation::Stub),
                method: &Method::GET,
                path,
                query: None,
                headers: &HeaderMap::new(),
                body: b"",
                key: None,
                keys: &crate::settings::Profile::default().keys,
            };
            let (decision, tried) = rules.first_decision(&view, counters, Duration::ZERO, random);
            let outcomes: Vec<String> = tried.listed.iter().map(|trace| trace.outcome.to_string()).collect();
            (rules.stub_needs_key(&view), decision.map(|decision| decision.rule.label.clone()), outcomes)
        };
        let (needs_key, decided_by, outcomes) = look("/x");
        assert_eq!((needs_key, decided_by.as_deref()), (Some(true), Some("rule 3")), "{outcomes:?}");
        assert!(outcomes[0].contains("the rules that name it decide") && outcomes[1] == NOT_OF_PATH, "{outcomes:?}");
        let (needs_key, decided_by, _) = look("/y");
        assert_eq!((needs_key, decided_by), (None, None));
    }
}
