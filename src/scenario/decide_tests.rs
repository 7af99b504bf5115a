//! Tests of `decide`: tables of small scenarios, and a comparison with a plain reference model.

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;
use crate::clock::Seed;
use crate::scenario::{Action, check_text};

/// One request of a test.
#[derive(Clone, Debug, Default)]
struct Request {
    operation: Option<Operation>,
    path: String,
    query: String,
    header: Option<String>,
    body: String,
    key: Option<String>,
}

impl Request {
    fn status(query: &str) -> Self {
        Self {
            operation: Some(Operation::SystemStatus),
            path: "/v1/system/status".to_owned(),
            query: query.to_owned(),
            ..Self::default()
        }
    }

    fn with_view<T>(&self, look: impl FnOnce(&RequestView<'_>) -> T) -> T {
        let mut headers = HeaderMap::new();
        if let Some(value) = &self.header {
            let value = HeaderValue::from_str(value).expect("a header value");
            headers.insert(HeaderName::from_static("x-test"), value);
        }
        look(&RequestView {
            operation: self.operation,
            method: &Method::GET,
            path: &self.path,
            query: Some(&self.query),
            headers: &headers,
            body: self.body.as_bytes(),
            key: self.key.as_deref(),
            keys: &crate::settings::Profile::default().keys,
        })
    }
}

fn rules(text: &str) -> RuleSet {
    let (scenario, problems) = check_text("test", text);
    RuleSet::new([scenario.unwrap_or_else(|| panic!("{text}\n{problems:?}")).rule_index()].into_iter())
}

fn word(decision: Option<Decision>) -> String {
    let Some(decision) = decision else { return "-".to_owned() };
    let delay = decision.delay.map_or(String::new(), |delay| format!(" after {delay:?}"));
    match decision.action {
        Action::Reply(reply) => format!("{}{delay}", reply.status),
        Action::Pass => format!("pass{delay}"),
        Action::Patch(_) => format!("patch{delay}"),
        Action::Fault(fault) => format!("{}{delay}", fault.name()),
    }
}

/// Plays status checks with these queries, a second apart, and notes what is decided.
fn check(text: &str, queries: &[&str], expected: &[&str]) {
    let (rules, counters) = (rules(text), &mut RuleCounters::default());
    let random = &mut Seed::from_number(1).source("test");
    let found: Vec<_> = (0..)
        .zip(queries)
        .map(|(second, query)| {
            Request::status(query)
                .with_view(|view| word(rules.first_decision(view, counters, Duration::from_secs(second), random)))
        })
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn counts_windows_and_stories() {
    let many = ["a=1"; 6];
    check("[[rule]]\nskip = 2\ntimes = 2\nreply = { status = 429 }\n", &many, &["-", "-", "429", "429", "-", "-"]);
    check("[[rule]]\nskip = 1\nevery = 2\nreply = { status = 429 }\n", &many, &["-", "-", "429", "-", "429", "-"]);
    check("[[rule]]\nfrom = '1s'\nto = '3s'\nfault = 'reset'\n", &many, &["-", "reset", "reset", "-", "-", "-"]);
    check(
        "[[rule]]\nsequence = [{ error = 'rate_limit_exceeded', times = 2 }, { delay = '2s' }, { fault = 'empty' }, { pass = true }]\nthen = 'repeat'\n",
        &many,
        &["429", "429", "pass after 2s", "empty", "pass", "429"],
    );
    check(
        "[[rule]]\nsequence = [{ status = 201 }, { patch = { a = 1 } }]\n[[rule]]\nreply = { status = 203 }\n",
        &many[..3],
        &["201", "patch", "203"],
    );
    let story = "[[rule]]\nwhen.step = 'start'\ntimes = 2\nreply = { status = 201 }\nnext = 'down'\n\
                 [[rule]]\nwhen = { step = 'down', query.a = '2' }\nreply = { status = 202 }\nnext = 'start'\n\
                 [[rule]]\nwhen.step = 'down'\nfault = 'reset'\n";
    check(story, &["a=1", "a=2", "a=1", "a=2", "a=2", "a=1"], &["201", "201", "reset", "202", "-", "-"]);
}

#[test]
fn chances_follow_the_seed() {
    let rules = rules("[[rule]]\nchance = 0.25\nfault = 'reset'\n");
    let play = |seed: u64| {
        let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(seed).source("test"));
        (0..1_000)
            .map(|_| {
                Request::status("")
                    .with_view(|view| rules.first_decision(view, counters, Duration::ZERO, random).is_some())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
    let hits = play(1).into_iter().filter(|hit| *hit).count();
    assert!((200..300).contains(&hits), "{hits}");
}

#[test]
fn a_trace_shows_the_recorded_decision_and_why_earlier_rules_left_it() {
    let rules = rules(
        "[[rule]]\nname = 'other'\nwhen = { operation = 'hello' }\npass = true\n\
         [[rule]]\nwhen = { query.a = { starts_with = 'x' } }\npass = true\n\
         [[rule]]\nwhen = { key = 'sk_test_abcdefgh' }\npass = true\n\
         [[rule]]\nwhen.step = 'start'\nskip = 1\nreply = { error = 'unauthorized' }\nnext = 'gone'\n\
         [[rule]]\nwhen.step = 'gone'\nto = '1s'\npass = true\n\
         [[rule]]\nfrom = '1m'\npass = true\n\
         [[rule]]\ntimes = 1\nfault = 'reset'\n\
         [[rule]]\nevery = 3\nchance = 0.5\nfault = 'reset'\n\
         [[rule]]\nsequence = [{ pass = true }]\n\
         [[rule]]\nfault = 'empty'\n",
    );
    let request = Request { key: Some("sk_test_somebody".to_owned()), ..Request::status("a=1") };
    let trace = |decided: Option<(&str, &str)>| -> Vec<String> {
        let decided = decided.map(|(rule, action)| DecidedBy { scenario: "test", rule, action });
        let traces =
            request.with_view(|view| rules.trace(view, decided, Duration::from_secs(2), LimitTrace::default()));
        traces.into_iter().map(|trace| format!("{} {} {}", trace.rule, trace.applied, trace.outcome)).collect()
    };
    let left = [
        "other false operation is `system.status`; expected `hello`",
        "rule 2 false query.a is \"1\"; expected something that starts with \"x\"",
        "rule 3 false the key is sk_test_somebody; another was expected",
        "rule 4 false matched, but did not apply: the story was not at step \"start\" or it lets 1 matching request \
         through first",
        "rule 5 false applies until 1s after activation; it was 2s",
        "rule 6 false applies from 60s after activation; it was 2s",
        "rule 7 false matched, but did not apply: it applies to 1 matching request at most",
        "rule 8 false matched, but did not apply: it applies to one in 3 matching requests or it applies with a \
         chance of 0.5",
        "rule 9 false matched, but did not apply: its sequence is over after 1 matching request",
        "rule 10 false did not apply, although what was recorded of the request matches",
    ];
    assert_eq!(trace(None), left);
    for (rule, action, before) in [("rule 7", "fault reset", 6), ("rule 10", "after 5 ms: fault empty", 9)] {
        let decided = format!("{rule} true {action}");
        let expected: Vec<&str> = left[..before].iter().copied().chain([decided.as_str()]).collect();
        assert_eq!(trace(Some((rule, action))), expected);
    }
}

#[test]
fn ten_thousand_rules_are_looked_up_not_tried() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for number in 0..10_000 {
        writeln!(text, "[[rule]]\nwhen = {{ query.a = '{number}' }}\nreply = {{ status = 429 }}").expect("a String");
    }
    let rules = rules(&text);
    let (_, bucket) = &rules.indexes[0].buckets[0];
    assert!(bucket.plain.is_empty() && bucket.exact.len() == 1 && bucket.exact[0].1.len() == 10_000);
    let (counters, random) = (&mut RuleCounters::default(), &mut Seed::from_number(1).source("test"));
    let decided =
        Request::status("a=9999").with_view(|view| rules.first_decision(view, counters, Duration::ZERO, random));
    assert_eq!(decided.map(|decision| decision.rule.to_string()).as_deref(), Some("rule 10000"));
}

/// A rule of the reference model, with the plainest meaning of each word.
#[derive(Clone, Debug)]
struct Plain {
    operation: Option<&'static str>,
    query: Option<&'static str>,
    body: Option<&'static str>,
    key: Option<&'static str>,
    step: Option<&'static str>,
    skip: u64,
    times: Option<u64>,
    every: u64,
    from: u64,
    to: u64,
    next: Option<&'static str>,
}

impl Plain {
    fn text(&self, status: usize) -> String {
        let mut when = Vec::new();
        when.extend(self.operation.map(|name| format!("operation = '{name}'")));
        when.extend(self.query.map(|value| format!("query.a = '{value}'")));
        when.extend(self.body.map(|value| format!("body.\"/a\" = '{value}'")));
        when.extend(self.key.map(|value| format!("key = '{value}'")));
        when.extend(self.step.map(|value| format!("step = '{value}'")));
        let mut lines = vec!["[[rule]]".to_owned(), format!("when = {{ {} }}", when.join(", "))];
        lines.push(format!(
            "skip = {}\nevery = {}\nfrom = '{}s'\nto = '{}s'",
            self.skip, self.every, self.from, self.to
        ));
        lines.extend(self.times.map(|times| format!("times = {times}")));
        lines.extend(self.next.map(|next| format!("next = '{next}'")));
        lines.push(format!("reply = {{ status = {status} }}\n"));
        lines.join("\n")
    }
}

/// The reference model: a walk over all rules with two counters each.
struct Model {
    rules: Vec<(Plain, u64, u64)>,
    step: &'static str,
}

impl Model {
    fn first_applying(&mut self, request: &Request, second: u64) -> Option<usize> {
        let operation = request.operation.map(Operation::name);
        for (at, (rule, seen, applied)) in self.rules.iter_mut().enumerate() {
            let matches = rule.operation.is_none_or(|wanted| operation == Some(wanted))
                && rule.query.is_none_or(|wanted| request.query == format!("a={wanted}"))
                && rule.body.is_none_or(|wanted| request.body == format!("{{\"a\":\"{wanted}\"}}"))
                && rule.key.is_none_or(|wanted| request.key.as_deref() == Some(wanted))
                && rule.step.is_none_or(|wanted| self.step == wanted)
                && (rule.from..rule.to).contains(&second);
            if !matches {
                continue;
            }
            *seen += 1;
            if *seen > rule.skip
                && rule.times.is_none_or(|times| *applied < times)
                && (*seen - rule.skip).is_multiple_of(rule.every)
            {
                *applied += 1;
                if let Some(next) = rule.next.filter(|_| rule.times.is_none_or(|times| *applied >= times)) {
                    self.step = next;
                }
                return Some(at);
            }
        }
        None
    }
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = Option<T>> {
    prop::option::of(prop::sample::select(values))
}

const VALUES: &[&str] = &["1", "2", "3"];
const STEPS: &[&str] = &["start", "middle", "last"];

fn plain_rule() -> impl Strategy<Value = Plain> {
    let conditions = (maybe(&["system.status", "hello"]), maybe(VALUES), maybe(VALUES), maybe(VALUES), maybe(STEPS));
    let counts = (0..3_u64, prop::option::of(1..4_u64), 1..3_u64, 0..3_u64, 1..40_u64, maybe(STEPS));
    (conditions, counts).prop_map(|((operation, query, body, key, step), (skip, times, every, from, to, next))| Plain {
        operation,
        query,
        body,
        key,
        step,
        skip,
        times,
        every,
        from,
        to,
        next,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let operation = maybe(&[Operation::SystemStatus, Operation::Hello, Operation::EventsSubscribe]);
    (operation, maybe(VALUES), maybe(VALUES), maybe(VALUES)).prop_map(|(operation, query, body, key)| Request {
        operation,
        query: query.map_or(String::new(), |value| format!("a={value}")),
        body: body.map_or(String::new(), |value| format!("{{\"a\":\"{value}\"}}")),
        key: key.map(str::to_owned),
        ..Request::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the rules and requests, the indexed decision and the plain model are one, and a trace of it accounts for each rule
    /// before the one that decided.
    #[test]
    fn decisions_equal_a_plain_model(
        plain in prop::collection::vec(plain_rule(), 1..40),
        requests in prop::collection::vec(request(), 1..40),
    ) {
        let text: String = plain.iter().enumerate().map(|(at, rule)| rule.text(200 + at)).collect();
        let rules = rules(&text);
        let mut model = Model { rules: plain.into_iter().map(|rule| (rule, 0, 0)).collect(), step: "start" };
        let mut counters = RuleCounters::default();
        let random = &mut Seed::from_number(1).source("test");
        for (second, request) in (0..).zip(&requests) {
            let expected = model.first_applying(request, second).map_or("-".to_owned(), |at| (200 + at).to_string());
            let since = Duration::from_secs(second);
            let (found, traces) = request.with_view(|view| {
                let found = rules.first_decision(view, &mut counters, since, random);
                let decided = found.as_ref().map(|found| DecidedBy {
                    scenario: &found.scenario,
                    rule: &found.rule,
                    action: &found.description,
                });
                let traces = rules.trace(view, decided, since, LimitTrace::default());
                (found, traces)
            });
            let (last, left) = match &found {
                Some(found) => traces.split_last().map(|(last, left)| (last.applied && *last.rule == *found.rule, left)),
                None => Some((true, traces.as_slice())),
            }
            .expect("a rule decided");
            let unexplained = |trace: &RuleTrace| trace.applied || trace.outcome.starts_with("did not apply, although");
            prop_assert!(last && !left.iter().any(unexplained), "{}: {:?}", text, traces);
            prop_assert_eq!(word(found), expected, "{}", text);
        }
    }
}
