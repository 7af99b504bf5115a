//! Tests of the parser: what it accepts, fingerprints, and texts made to break it. Files under `tests/scenarios` have every diagnostic.

use super::*;
use crate::contract::signature::Tamper;
use crate::diagnostic::render_all;
use crate::scenario::{Action, Delay, Fault, Trigger};
use std::time::Duration;

fn valid(text: &str) -> Scenario {
    let (scenario, problems) = check_text("test", text);
    assert!(problems.is_empty(), "{text}\n{}", render_all(&problems, false));
    scenario.expect("there is no problem")
}

#[test]
fn the_whole_language_is_read() {
    let scenario = valid(include_str!("whole.toml"));
    assert_eq!((scenario.rules.len(), scenario.emits.len(), scenario.given.subscriptions.len()), (6, 2, 1));
    let overlay = scenario.overlay.as_ref().expect("there are knobs");
    let layered = Layered::default().with(|draft| overlay.add_to(draft)).expect("they fit");
    assert_eq!((layered.profile().rate_limit.requests, layered.source("rate_limit.requests")), (3, "scenario test"));
    assert!(matches!(scenario.rules[4].sequence.steps[0].action, Action::Fault(Fault::Stall { bytes: 10, .. })));
    assert!(matches!(scenario.rules[4].sequence.steps[0].delay, Some(Delay::LogNormal { .. })));
    assert_eq!(scenario.rules[1].label.as_ref(), "rule 2");
    assert_eq!(scenario.emits[0].delivery.tamper, Some(Tamper::Signature));
    assert!(matches!(scenario.emits[1].trigger, Trigger::Every(period) if period == Duration::from_secs(10)));
}

#[test]
fn fingerprints_follow_the_content_of_each_rule() {
    let rule = |times: u32| format!("[[rule]] # note\ntimes = {times}\npass = true\n");
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
