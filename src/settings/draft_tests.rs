//! Merging and validating: order does not matter, and each problem names its setting.

use super::*;
use crate::settings::paths::json_at;

fn set(assignment: &str) -> Result<Layered, ProfileProblem> {
    Layered::default().with_assignment(assignment, "--set")
}

#[test]
fn the_built_in_profile_is_valid() {
    let profile = Layered::default();
    assert_eq!(profile.profile().rate_limit.requests, 100);
    assert_eq!(profile.source("rate_limit.requests"), "default");
}

#[test]
fn an_assignment_changes_one_setting_and_its_source() {
    for (assignment, setting, value) in [
        ("rate_limit.requests=5", "rate_limit.requests", "5"),
        ("rate_limit.window = 30s", "rate_limit.window", "\"30s\""),
        ("environment=production", "environment", "\"production\""),
        ("keys.list=[\"a\"]", "keys.list", "[\"a\"]"),
        ("errors.codes.not_found=missing", "errors.codes", "\"missing\""),
        ("status.checks.database.status=fail", "status.checks", "\"fail\""),
        ("events.data.\"workflow.completed\".status=done", "events.data", "\"done\""),
        ("subscriptions.secret_field=123", "subscriptions.secret_field", "\"123\""),
        ("webhooks.scheme=[\"standard\", \"github\"]", "webhooks.scheme", "github"),
    ] {
        let changed = set(assignment).unwrap_or_else(|problem| panic!("{assignment}: {problem:?}"));
        assert_eq!(changed.source(setting), "--set", "{assignment}");
        let shown = json_at(changed.table(), setting).to_string();
        assert!(shown.contains(value), "{assignment}: {shown}");
    }
}

#[test]
fn the_comment_above_an_assignment_is_its_note() {
    let long = "é".repeat(600);
    let text = format!(
        "#:schema ./profile.schema.json\nenvironment = 'sandbox'\n# of nothing\n\n# observed in call 7\n#   on 2026-11-24; assumed: 100\n\
         rate_limit.requests = 70\nrate_limit.window = '30s'\n\r\n\t# <b>two</b>\r\n errors.codes.not_found = 'missing'\r\n\
         errors.codes.validation_error = 'invalid'\n# of the table\n[webhooks.custom]\n# of an entry\nhash = 'sha512'\n\
         [webhooks]\n# {long}\nretry.schedule = [\n  # inside\n  '1s',\n]\ncopies = 2 # behind\n"
    );
    let layered = Layered::default().with(|draft| draft.text(&text, "a.toml")).expect("a profile");
    for (setting, note) in [
        ("environment", ""),
        ("rate_limit.requests", "observed in call 7 on 2026-11-24; assumed: 100"),
        ("rate_limit.window", ""),
        ("errors.codes", "<b>two</b>"),
        ("webhooks.custom", "of the table"),
        ("webhooks.retry.schedule", &format!("{}…", "é".repeat(500))),
        ("webhooks.copies", ""),
        ("webhooks.scheme", ""),
    ] {
        assert_eq!(layered.note(setting), note, "{setting}");
    }
    let changed = layered.with_assignment("rate_limit.requests=5", "--set").expect("a number");
    assert_eq!((changed.note("rate_limit.requests"), changed.note("errors.codes")), ("", "<b>two</b>"));
}

#[test]
fn a_wrong_name_or_value_says_what_would_be_right() {
    for (assignment, code, hint) in [
        ("rate_limit.request=5", "profile/unknown-knob", "`rate_limit.requests`"),
        ("rate_limit=5", "profile/unknown-knob", "name one of those in it, such as `rate_limit."),
        ("profile=5", "profile/unknown-knob", "leave `[profile]` out"),
        ("rate_limits=5", "profile/unknown-knob", "did you mean `rate_limit`?"),
        ("webhooks.retry=none", "profile/unknown-knob", "`webhooks.retry.preset`"),
        ("webhook.copies=2", "profile/unknown-knob", "`webhooks.copies`"),
        ("rate_limit.requests.x=5", "profile/unknown-knob", "assumptions"),
        ("rate_limit.requests=many", "profile/bad-value", "4294967295"),
        ("rate_limit.window=soon", "profile/bad-value", "a duration"),
        ("rate_limit.window=30", "profile/bad-value", "\"30s\" or \"30ms\""),
        ("errors.codes.nope=x", "profile/bad-value", "kind of error"),
        ("webhooks.scheme=[]", "profile/bad-value", "standard"),
        ("webhooks.retry.jitter=2.0", "profile/bad-value", "0 to 1"),
        ("no assignment", "profile/syntax", "--set"),
        ("=5", "profile/syntax", "`rate_limit.requests=5`"),
        ("a\n[b]\nc=5", "profile/syntax", "`rate_limit.requests=5`"),
    ] {
        let problem = set(assignment).err().unwrap_or_else(|| panic!("{assignment} was taken"));
        assert_eq!(problem.code, code, "{assignment}: {problem:?}");
        assert!(problem.hint.contains(hint), "{assignment}: {problem:?}");
    }
}

#[test]
fn a_text_reports_every_problem_with_its_place() {
    let text = "environment = 'moon'\n[rate_limit]\nrequest = 5\nwindow = '30s'\n";
    let problems = Layered::default().with(|draft| draft.text(text, "file")).expect_err("two settings are wrong");
    let places: Vec<_> = problems.iter().map(|problem| (problem.code, &text[problem.span.clone()])).collect();
    assert_eq!(places, [("profile/bad-value", "'moon'"), ("profile/unknown-knob", "request")]);
}

#[test]
fn a_syntax_error_names_what_the_text_has() {
    let text = "rate_limit.window = 30s\nenvironment = 'sandbox'\nenvironment = 'production'\n";
    let problems = Layered::default().with(|draft| draft.text(text, "file")).expect_err("it is not TOML");
    let problems: Vec<_> = problems.iter().map(|problem| (problem.message.as_str(), problem.hint.as_str())).collect();
    assert_eq!(
        problems,
        [
            ("expected a string in quotes, found `30s`", "write `rate_limit.window = \"30s\"`"),
            ("the key `environment` is defined on lines 2 and 3", "keep one of the two"),
        ]
    );
}

#[test]
fn maps_merge_and_other_tables_replace() {
    let text = "[errors.codes]\nnot_found = 'missing'\n[status.checks.cache]\nstatus = 'ok'\n";
    let profile = Layered::default().with(|draft| draft.text(text, "file")).expect("the text is valid");
    assert_eq!(profile.profile().errors.code(crate::contract::error::ErrorKind::NotFound), "missing");
    assert_eq!(profile.profile().errors.code(crate::contract::error::ErrorKind::Unauthorized), "unauthorized");
    assert_eq!(profile.profile().status.checks.keys().collect::<Vec<_>>(), ["cache"]);
}

#[test]
fn a_schedule_without_a_preset_is_kept() {
    let set = |assignments: &[&str]| {
        let layered = assignments.iter().fold(Layered::default(), |layered, assignment| {
            layered.with_assignment(assignment, "--set").expect("valid")
        });
        (json_at(layered.table(), "webhooks.retry.preset"), layered.source("webhooks.retry.preset").to_owned())
    };
    assert_eq!(set(&["webhooks.retry.schedule=[\"7s\"]"]), ("custom".into(), "--set".to_owned()));
    // What was said explicitly stays.
    let (preset, schedule) = ("webhooks.retry.preset=slack", "webhooks.retry.schedule=[\"7s\"]");
    assert_eq!((set(&[preset, schedule]).0, set(&[schedule, preset]).0), ("slack".into(), "slack".into()));
    assert_eq!(set(&["webhooks.retry.jitter=0.1"]).0, "standard");
}

#[test]
fn each_problem_names_its_setting_and_source() {
    let problems = Layered::default().with(|draft| {
        draft.text("environment = 'moon'\n[keys]\ntest_prefix = 'sk_live_'\nlist = ['']\n", "file");
        draft.assignment("rate_limit.window=0s", "--set");
        draft.assignment("rate_limit.requests=many", "--set");
        draft.assignment("rate_limit.request=1", "--set");
        draft.assignment("keys.live_prefix=sk_live_", "--set");
        draft.value("webhooks.copies", &serde_json::json!(101), "control API");
    });
    let problems = problems.expect_err("much is wrong");
    let mut found: Vec<(&str, &str, &str)> = problems
        .iter()
        .map(|problem| {
            let setting = problem.message.split('`').nth(1).expect("a name");
            (&*problem.source, setting, &*problem.written)
        })
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("--set", "keys.live_prefix", "keys.live_prefix=sk_live_"),
            ("--set", "rate_limit.request", "rate_limit.request=1"),
            ("--set", "rate_limit.requests", "rate_limit.requests=many"),
            ("--set", "rate_limit.window", "rate_limit.window=0s"),
            ("control API", "webhooks.copies", ""),
            ("file", "environment", ""),
            ("file", "keys.list", ""),
        ]
    );
}

#[test]
fn settings_by_themselves_are_judged_by_what_they_set() {
    let alone = |text: &str| {
        let mut draft = Draft::of(&Layered::default());
        draft.text(text, "scenario a");
        draft.finish_alone().map(drop)
    };
    assert_eq!(alone("keys.test_prefix = 'sk_live_'"), Ok(()), "another layer may change the other prefix");
    let clash = alone("keys.test_prefix = 'x'\nkeys.live_prefix = 'x'").expect_err("both are its own");
    assert!(clash[0].message.contains("cannot both begin"), "{clash:?}");
    assert!(alone("rate_limit.window = '0s'").is_err());
}

#[test]
fn a_profile_in_another_language_is_one_problem() {
    let mut draft = Draft::of(&Layered::default());
    draft.text("rate_limit:\n  requests: 5\n  window: 10s\n", "mine.yaml");
    let problems = draft.finish().expect_err("it is YAML");
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["this looks like YAML; a profile is TOML"]);
}
