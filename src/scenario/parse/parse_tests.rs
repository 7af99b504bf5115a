//! Tests of the parser: what it accepts, and the code and place of each kind of mistake.

use super::*;
use crate::contract::signature::Tamper;
use crate::diagnostic::render_all;
use crate::scenario::{Action, Delay, Fault, Trigger};
use std::time::Duration;

pub(super) fn valid(text: &str) -> Scenario {
    let (scenario, problems) = check_text("test", text);
    assert!(problems.is_empty(), "{text}\n{}", render_all(&problems, false));
    scenario.expect("there is no problem")
}

/// Checks that exactly one problem is found, at this text.
pub(super) fn check(text: &str, code: &str, place: &str) {
    let (scenario, problems) = check_text("test", text);
    let found: Vec<_> = problems.iter().map(|problem| (problem.code, &text[problem.span.clone()])).collect();
    assert_eq!(found, [(code, place)], "{text}\n{}", render_all(&problems, false));
    assert_eq!(scenario.is_none(), problems[0].is_error());
    assert!(crate::diagnostic::CODES.iter().any(|(known, _)| *known == code), "{code} is not listed");
}

const STATUS: &str = "when = { operation = \"system.status\" }\n";

#[test]
fn the_whole_language_is_read() {
    let scenario = valid(include_str!("whole.toml"));
    assert_eq!((scenario.rules.len(), scenario.emits.len(), scenario.given.subscriptions.len()), (6, 2, 1));
    let overlay = scenario.overlay.as_ref().expect("there are settings");
    let layered = Layered::default().with(|draft| overlay.add_to(draft)).expect("they fit");
    assert_eq!((layered.profile().rate_limit.requests, layered.source("rate_limit.requests")), (3, "scenario test"));
    assert!(matches!(scenario.rules[4].sequence.steps()[0].action, Action::Fault(Fault::Stall { bytes: 10, .. })));
    assert!(matches!(scenario.rules[4].sequence.steps()[0].delay, Some(Delay::LogNormal { .. })));
    assert_eq!(scenario.rules[1].label.as_ref(), "rule 2");
    assert_eq!(scenario.emits[0].delivery.tamper, Some(Tamper::Signature));
    assert!(matches!(scenario.emits[1].trigger, Trigger::Every(period) if period == Duration::from_secs(10)));
}

#[test]
fn fingerprints_follow_the_content_of_each_rule() {
    let rule = |times: u32| format!("[[rule]] # note\n{STATUS}times = {times}\npass = true\n");
    let prints = |text: &str| {
        let (scenario, _) = check_text("test", text);
        scenario.expect("the text is valid").rules.iter().map(|rule| rule.fingerprint).collect::<Vec<_>>()
    };
    let before = prints(&format!("{}{}", rule(1), rule(2)));
    let after = prints(&format!("title = 'x'\n{}\n\n{}", rule(3), rule(2).replace("# note", "")));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
    let equal = prints(&format!("{}{}", rule(1), rule(1)));
    assert_eq!(equal[0], before[0]);
    assert_ne!(equal[0], equal[1]);
    let (other, _) = check_text("other", &rule(1));
    assert_ne!(other.expect("the text is valid").rules[0].fingerprint, before[0]);
}

#[test]
fn a_missing_value_is_reported_as_missing() {
    let text = format!("[[rule]]\n{STATUS}skip =    # note\npass = true\n");
    let (_, problems) = check_text("test", &text);
    assert_eq!((problems.len(), problems[0].code, problems[0].line, problems[0].column), (1, "scenario/syntax", 3, 6));
    assert_eq!(problems[0].message, "a value is missing after `=`");
}

#[test]
fn every_way_to_tamper_is_taken_and_described() {
    let described =
        words::ALL.iter().flat_map(words::Words::keys).find(|key| key.name == "tamper").expect("it is a key");
    for name in Tamper::ALL.map(Tamper::name) {
        let text = format!(
            "[[emit]]\nevent = \"workflow.completed\"\non = \"command\"\ndelivery = {{ tamper = \"{name}\" }}\n"
        );
        assert_eq!(valid(&text).emits[0].delivery.tamper.map(Tamper::name), Some(name));
        assert!(
            described.meaning.split([' ', ',']).any(|word| word == name),
            "`{name}` is not in: {}",
            described.meaning
        );
    }
}

#[test]
fn each_mistake_in_a_rule_has_its_code_and_place() {
    let rule = |lines: &str| format!("[[rule]]\n{lines}\n");
    for (lines, code, place) in [
        ("tmes = 3\npass = true", "scenario/unknown-key", "tmes"),
        ("step = \"x\"\npass = true", "scenario/unknown-key", "step"),
        ("when = { operation = \"system.statu\" }\npass = true", "scenario/unknown-operation", "\"system.statu\""),
        ("when = { body.url = \"x\" }\npass = true", "scenario/bad-pointer", "url"),
        ("when = { query = 1 }\npass = true", "scenario/wrong-type", "1"),
        ("when = { query.x = [] }\npass = true", "scenario/wrong-type", "[]"),
        ("when = { query.x = {} }\npass = true", "scenario/missing-key", "{}"),
        ("when = { query.x = { matches = \"(\" } }\npass = true", "scenario/bad-pattern", "\"(\""),
        (
            "when = { query.x = { matches = \"(\\\\w{1000}){1000}\" } }\npass = true",
            "scenario/bad-pattern",
            "\"(\\\\w{1000}){1000}\"",
        ),
        (
            "when = { query.x = { equals = \"a\", starts_with = \"b\" } }\npass = true",
            "scenario/never-matches",
            "{ equals = \"a\", starts_with = \"b\" }",
        ),
        ("when = { query.x = { lt = 1, gt = 2 } }\npass = true", "scenario/never-matches", "{ lt = 1, gt = 2 }"),
        ("when = { query.x = { one_of = [] } }\npass = true", "scenario/never-matches", "{ one_of = [] }"),
        (
            "when = { query.x = { present = false, contains = \"a\" } }\npass = true",
            "scenario/never-matches",
            "{ present = false, contains = \"a\" }",
        ),
        ("when = { path = \"v1/hello\" }\npass = true", "scenario/never-matches", "\"v1/hello\""),
        ("when = { operation = \"hello\", method = \"POST\" }\npass = true", "scenario/never-matches", "\"POST\""),
        ("when = { key = \"sk_live_a\" }\npass = true", "scenario/never-matches", "\"sk_live_a\""),
        ("from = \"5s\"\nto = \"5s\"\npass = true", "scenario/never-matches", "\"5s\""),
        ("when = { step = \"nowhere\" }\npass = true", "scenario/unreachable-step", "\"nowhere\""),
        ("times = 0\npass = true", "scenario/bad-value", "0"),
        ("times = -1\npass = true", "scenario/bad-value", "-1"),
        ("times = \"3\"\npass = true", "scenario/wrong-type", "\"3\""),
        ("chance = 1.5\npass = true", "scenario/bad-value", "1.5"),
        ("delay = 5", "scenario/bad-duration", "5"),
        ("delay = \"soon\"", "scenario/bad-duration", "\"soon\""),
        ("delay = { min = \"1s\" }", "scenario/missing-key", "{ min = \"1s\" }"),
        ("delay = { min = \"2s\", max = \"1s\" }", "scenario/bad-value", "{ min = \"2s\", max = \"1s\" }"),
        ("fault = \"rest\"", "scenario/bad-value", "\"rest\""),
        ("fault = { kind = \"reset\", bytes = 3 }", "scenario/clash", "bytes"),
        ("pass = false", "scenario/bad-value", "false"),
        ("reply = { error = \"rate_limited\" }", "scenario/unknown-error", "\"rate_limited\""),
        ("reply = { status = 42 }", "scenario/bad-value", "42"),
        ("reply = { code = \"x\" }", "scenario/missing-key", "{ code = \"x\" }"),
        ("reply = { status = 200, body = \"{{ now\" }", "scenario/bad-template", "\"{{ now\""),
        ("reply = { status = 200, body = [\"{{ uild() }}\"] }", "scenario/bad-template", "\"{{ uild() }}\""),
        ("reply = { status = 200, headers = { \"a b\" = \"c\" } }", "scenario/bad-value", "\"a b\""),
        ("reply = { status = 200, headers = { Content-Length = \"3\" } }", "scenario/bad-value", "Content-Length"),
        ("reply = { status = 204, message = \"x\" }", "scenario/clash", "204"),
        ("reply = { error = \"not_found\" }\nfault = \"reset\"", "scenario/clash", "fault"),
        ("remove = [\"checks\"]", "scenario/bad-pointer", "\"checks\""),
        ("patch = {}", "scenario/no-effect", "{}"),
        ("then = \"stay\"\npass = true", "scenario/clash", "then"),
        ("sequence = []", "scenario/missing-key", "[]"),
        ("sequence = [{ times = 2 }]", "scenario/missing-key", "{ times = 2 }"),
        ("sequence = [{ error = \"not_found\", fault = \"reset\" }]", "scenario/clash", "fault"),
        ("sequence = [{ pass = true }]\ntimes = 3", "scenario/clashing-times", "3"),
        ("sequence = [{ pass = true, times = 5 }]\nthen = \"stay\"\ntimes = 3", "scenario/clashing-times", "3"),
    ] {
        check(&rule(lines), code, place);
    }
}

#[test]
fn each_mistake_beside_the_rules_has_its_code_and_place() {
    for (text, code, place) in [
        ("", "scenario/no-effect", ""),
        ("title = \"x\"", "scenario/no-effect", ""),
        ("title = 3\n[profile]\n", "scenario/wrong-type", "3"),
        ("titel = \"x\"\n[profile]\n", "scenario/unknown-key", "titel"),
        ("[rule]\npass = true\n", "scenario/wrong-type", "[rule]"),
        ("[profile]\nrate_limit.request = 5\n", "profile/unknown-knob", "request"),
        ("[profile]\nrate_limit.requests = \"x\"\n", "profile/bad-value", "\"x\""),
        ("[[emit]]\nevent = \"workflow.done\"\non = \"command\"\n", "scenario/unknown-event", "\"workflow.done\""),
        ("[[emit]]\nevent = \"workflow.completed\"\non = \"start\"\n", "scenario/bad-value", "\"start\""),
        ("[[emit]]\nevent = \"workflow.completed\"\non = { every = \"1ms\" }\n", "scenario/bad-value", "\"1ms\""),
        ("[[emit]]\nevent = \"workflow.completed\"\non = {}\n", "scenario/missing-key", "{}"),
        (
            "[[emit]]\nevent = \"workflow.completed\"\non = { after = \"1s\", status = 200 }\n",
            "scenario/clash",
            "status",
        ),
        (
            "[[emit]]\nevent = \"workflow.completed\"\non = \"command\"\ninterval = \"1s\"\n",
            "scenario/no-effect",
            "interval",
        ),
        (
            "[[emit]]\nevent = \"workflow.completed\"\non = \"command\"\ndelivery = { tamper = \"sig\" }\n",
            "scenario/bad-value",
            "\"sig\"",
        ),
        (
            "[[given.subscription]]\nurl = \"http://a\"\nevents = [\"workflow.completed\"]\n",
            "scenario/bad-value",
            "\"http://a\"",
        ),
        (
            "[[given.subscription]]\nurl = \"https://a\"\nevents = [\"workflow.completed\"]\nsecret = \"whsec_?\"\n",
            "scenario/bad-value",
            "\"whsec_?\"",
        ),
        ("[[given.subscription]]\nurl = \"https://a\"\nevents = [\"x\"]\n", "scenario/unknown-event", "\"x\""),
        (
            "[[rule]]\nname = \"a\"\ntimes = 1\npass = true\n[[rule]]\nname = \"a\"\npass = true\n",
            "scenario/duplicate-name",
            "\"a\"",
        ),
        ("a = ", "scenario/syntax", "="),
    ] {
        check(text, code, place);
    }
}

#[test]
fn unreachable_rules_are_reported() {
    let unreachable = |text: &str| {
        let (_, problems) = check_text("test", text);
        assert!(problems.iter().all(|problem| problem.code == "scenario/unreachable-rule"), "{problems:?}");
        problems.len()
    };
    let rule = |when: &str, rest: &str| format!("[[rule]]\nwhen = {{ {when} }}\npass = true\n{rest}\n");
    let (all, status, query) = ("", "operation = \"system.status\"", "operation = \"system.status\", query.a = \"1\"");
    for (first, rest, second, expected) in [
        (all, "", status, 1),
        (status, "", query, 1),
        (query, "", query, 1),
        (query, "", status, 0),
        (status, "times = 3", query, 0),
        (status, "skip = 1", query, 0),
        (status, "chance = 0.5", query, 0),
        (status, "to = \"1s\"", query, 0),
        (status, "", "operation = [\"system.status\", \"hello\"]", 0),
        (status, "", all, 0),
        ("step = \"start\"", "", all, 0),
        ("step = \"start\"", "", "step = \"start\", key = \"sk_test_a\"", 1),
        ("key = \"sk_test_a\"", "", "key = \"sk_test_b\"", 0),
    ] {
        assert_eq!(unreachable(&(rule(first, rest) + &rule(second, ""))), expected, "{first} {rest}, then {second}");
    }
}

#[test]
fn every_problem_of_a_file_is_reported_in_one_pass() {
    let text =
        "titel = 1\n[profile]\nrate_limit.request = 1\n[[rule]]\ntmes = 1\nreply = { error = \"x\" }\n[[emit]]\n";
    let (scenario, problems) = check_text("test", text);
    assert!(scenario.is_none());
    let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 3, 5, 6, 7, 7]);
    let many = (0..500).map(|at| format!("key{at} = 1")).collect::<Vec<_>>().join("\n");
    let (_, problems) = check_text("test", &many);
    assert_eq!(problems.len(), 100);
    assert!(problems[99].hint.contains("400 further problems"), "{}", problems[99].hint);
}

#[test]
fn names_are_restricted() {
    for name in ["", "a,b", "a b", "ä", "a/b", &"x".repeat(101)] {
        let (scenario, problems) = check_text(name, "[profile]\n");
        assert!(scenario.is_none() && problems[0].code == "scenario/bad-name", "{name}");
    }
    assert!(check_text("Rate-limit_2.v1", "[profile]\n").0.is_some());
}

#[test]
fn json_becomes_toml() {
    let toml = json_to_toml(r#"{"title": "x", "rule": [{"when": {"operation": "hello"}, "pass": true}]}"#);
    assert_eq!(valid(&toml.expect("it is TOML")).rules.len(), 1);
    assert!(json_to_toml("[]").is_err());
    assert!(json_to_toml("{\"a\": null}").is_err());
}

mod mutations {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::{built_in, built_in_names};

    /// Pieces that mutations put in: the language's own words, and what breaks readers.
    const PIECES: &[&str] = &[
        "[[rule]]\n",
        "[[emit]]\n",
        "[profile]\n",
        "when = ",
        "{ ",
        " }",
        "[",
        "]",
        "\"",
        "'",
        "=",
        ".",
        "\n",
        "-1",
        "1e999",
        "nan",
        "0x",
        "9223372036854775808",
        "\"{{\"",
        "\u{0}",
        "\u{feff}",
        "ä",
        "1979-05-27",
        "not = { not = { ",
        "matches = \"(a{999}){999}\"",
        "step = \"x\"\n",
        "sequence = [{}]\n",
        "delay = {}\n",
        "\"\"\"",
    ];

    fn sources() -> Vec<String> {
        let whole = include_str!("whole.toml").to_owned();
        built_in_names().map(|name| built_in(name).expect("it is valid").text.to_string()).chain([whole]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// A mutated file is accepted or has errors, and every place reported lies in the text.
        #[test]
        fn mutated_files_are_accepted_or_reported(
            source in prop::sample::select(sources()),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, prop::option::of(prop::sample::select(PIECES))), 0..6),
        ) {
            let mut text = source;
            for (at, cut, piece) in edits {
                let mut characters: Vec<char> = text.chars().collect();
                let start = at.index(characters.len() + 1);
                let end = (start + cut).min(characters.len());
                characters.splice(start..end, piece.unwrap_or_default().chars());
                text = characters.into_iter().collect();
            }
            let (scenario, problems) = check_text("test", &text);
            prop_assert_eq!(scenario.is_none(), problems.iter().any(Diagnostic::is_error));
            for problem in &problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{:?}", problem);
                prop_assert!(crate::diagnostic::CODES.iter().any(|(code, _)| *code == problem.code), "{}", problem.code);
            }
            prop_assert!(render_all(&problems, true).lines().count() >= problems.len());
        }
    }

    /// Texts of about `size` bytes that are made to keep the parser busy.
    fn hostile_texts(size: usize) -> Vec<String> {
        let repeat = |piece: &str| piece.repeat(size / piece.len());
        let numbered = |piece: &str| {
            let most = size / (piece.len() + 5);
            (0..most).map(|at| piece.replace('N', &at.to_string())).collect::<String>()
        };
        vec![
            repeat("["),
            repeat("a."),
            repeat("\n"),
            repeat("[[rule]]\n"),
            repeat("[[rule]]\npass = true\n"),
            numbered("keyN = 1\n"),
            format!("[profile]\n{}", numbered("keyN = 1\n")),
            format!("[profile.status.checks]\n{}", numbered("keyN = {}\n")),
            numbered("[[rule]]\nwhen.key = 'N'\npass = true\n"),
            numbered("[[rule]]\nwhen.step = 'N'\nnext = 'N'\npass = true\n"),
            numbered(
                "[[rule]]\nwhen = {query.a='N',query.b='N',query.c='N',query.d='N',query.e='N',query.f='N'}\npass = true\n",
            ),
            numbered("[[rule]]\nwhen.key.matches = '(a{50}){90}N'\npass = true\n"),
            numbered("[[rule]]\nwhen.key.matches = 'N'\npass = true\n"),
            numbered("[[rule]]\nreply.status = 200\nreply.body = '{{ N }}'\n"),
            format!("[[rule]]\nsequence = [{}]\n", numbered("{status = 200},")),
            format!("[[rule]]\npass = true\nwhen.key = {}", repeat("{not = ")),
            format!("[profile]\n{} = 1\n", repeat("k")),
            format!("[[emit]]\nevent = '{}'\non = '{0}'\n", repeat("e")),
            format!("[[given.subscription]]\nurl = 'https://a'\nevents = [{}]\n", repeat("'e',")),
            format!("[[rule]]\nreply.status = 200\nreply.body = {}", repeat("[")),
        ]
    }

    /// The parser's processor time grows with the size of a file and not with its square: a file of the largest size costs at most
    /// 40 times as much as one of a sixteenth, and a second for what the smaller one is too short to show.
    #[test]
    fn hostile_files_end_soon() {
        const SIZE: usize = 1_000_000;
        let cost = |text: &str| {
            let start = processor_time();
            let (scenario, problems) = check_text("test", text);
            assert!(scenario.is_some() || !problems.is_empty());
            processor_time().saturating_sub(start)
        };
        for (small, large) in hostile_texts(SIZE / 16).iter().zip(hostile_texts(SIZE)) {
            let (small, large, start) = (cost(small), cost(&large), &large[..60]);
            assert!(large < 40 * small + Duration::from_secs(1), "{small:?}, then {large:?} for {start}");
        }
    }

    /// The processor time of this thread, which does not depend on the load of the machine.
    fn processor_time() -> Duration {
        let statistics =
            std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it for each thread");
        let nanoseconds = statistics.split(' ').next().and_then(|first| first.parse().ok());
        Duration::from_nanos(nanoseconds.expect("the first number is nanoseconds"))
    }
}

#[test]
fn a_wrong_answer_and_a_wrong_delay_are_both_reported() {
    for rule in [
        "reply = { error = 'nope' }\ndelay = 'x'",
        "sequence = [{ error = 'nope', delay = 'x' }]",
        "sequence = [{ reply = { error = 'nope' }, delay = 'x' }]",
    ] {
        let text = format!("[[rule]]\nwhen = {{ operation = 'hello' }}\n{rule}\n");
        let (_, problems) = check_text("test", &text);
        let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
        assert!(codes.contains(&"scenario/unknown-error") && codes.len() == 2, "{rule}: {codes:?}");
    }
}
