//! The log says why behaviour changed: one line for each call that changes scenarios, settings, a clock or the state. And commands
//! say whose key they meant, and where a setting that was taken back comes from now.

use serde_json::json;

use crate::process::Served;
use crate::support::{KEY, control, start};

const STORY: &str =
    "[profile]\nrate_limit = { requests = 7 }\n\n[[rule]]\nwhen = { operation = 'hello' }\npass = true\n";

#[test]
fn every_change_by_a_call_is_one_line_of_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json").display().to_string();
    let served =
        Served::start(&["--scenario-text", STORY, "--clock", "2030-01-01T00:00:00Z", "--set", "keys.mode=any"]);
    let live = "sk_live_abcdefgh1234";
    let mut expected = Vec::new();
    for (arguments, line) in [
        (
            &["scenarios", "use", "always-401,inline-1"][..],
            "scenarios changed for all keys: always-401, inline-1 are active",
        ),
        (
            &["scenarios", "use", "always-401", "--key", live],
            "scenarios changed for sk_live_…1234: always-401 is active",
        ),
        (&["scenarios", "off", "--key", "sk_test_a"], "scenarios changed for sk_test_a: none is active"),
        (&["scenarios", "off"], "scenarios changed for all keys: none is active"),
        (
            &["profile", "set", "rate_limit.requests=5"],
            "settings changed for all keys: rate_limit.requests = 5 (was 100)",
        ),
        (
            &["profile", "set", "rate_limit.window=5s", "--key", "sk_test_a"],
            "settings changed for sk_test_a: rate_limit.window = \"5s\" (was \"60s\")",
        ),
        (
            &["profile", "set", "keys.list=[\"secret-of-mine\"]"],
            "settings changed for all keys: keys.list = [\"…mine\"] (was [])",
        ),
        (
            &["profile", "unset", "rate_limit"],
            "settings changed for all keys: rate_limit.requests = 100 again (from default)",
        ),
        (&["clock", "advance", "90s"], "clock of all keys advanced by 90 s, to 2030-01-01T00:01:30.000Z"),
        (&["clock", "set", "2030-01-02T00:00:00Z"], "clock of all keys set forward to 2030-01-02T00:00:00.000Z"),
        (&["clock", "set", "2030-01-01T00:00:00Z"], "clock of all keys set back to 2030-01-01T00:00:00.000Z"),
        (&["clock", "freeze", "--key", live], "clock of sk_live_…1234 frozen at 2030-01-01T00:00:00.000Z"),
        (&["clock", "follow", "--key", live], "clock of sk_live_…1234 follows the emulator's again"),
        (&["clock", "resume"], "clock of all keys runs again from 2030-01-01T00:00:00.000Z"),
        (&["reset", "--key", "sk_test_a"], "reset: sk_test_a"),
    ] {
        served.said(arguments);
        expected.push(line.to_owned());
    }
    served.said(&["snapshot", "save", &file]);
    served.said(&["snapshot", "load", &file]);
    expected.push("snapshot loaded: everything, with ".to_owned());
    served.said(&["snapshot", "save", &file, "--key", KEY]);
    served.said(&["snapshot", "load", &file]);
    expected.push(format!("snapshot loaded: {KEY}"));
    served.said(&["reset", "--all"]);
    expected.push("reset: all keys, with scenarios, settings and clock as at the start".to_owned());
    // What changes nothing, or is refused, leaves no line.
    for arguments in
        [&["profile", "unset", "rate_limit"][..], &["scenarios", "use", "nothing"], &["clock", "set", "never"]]
    {
        served.call(arguments);
    }
    let (_, log) = served.stop();
    let lines: Vec<&str> = log.lines().filter_map(|line| line.split_once(' ')).map(|(_, line)| line).collect();
    let changes: Vec<&&str> = lines
        .iter()
        .filter(|line| {
            ["scenarios changed", "settings changed", "clock of", "reset:", "snapshot"]
                .iter()
                .any(|word| line.starts_with(word))
        })
        .collect();
    assert_eq!(changes.len(), expected.len(), "{log}");
    for (line, expected) in changes.into_iter().zip(&expected) {
        assert!(line.starts_with(expected), "{expected}\n{log}");
    }
    assert!(!log.contains("abcdefgh") && !log.contains("secret-of"), "{log}");
}

#[test]
fn commands_name_the_key_that_they_meant() {
    let served = Served::start(&["--quiet", "--clock", "frozen", "--set", "keys.mode=any"]);
    let live = "sk_live_abcdefgh1234";
    assert_eq!(served.said(&["reset"]), "sk_test_local reset\n");
    assert_eq!(served.said(&["reset", "--key", live]).split(' ').next(), Some("sk_live_…1234"));
    assert_eq!(served.json(&["reset", "--json"])["keys"], json!([KEY]));
    assert!(served.said(&["reset", "--all"]).ends_with(" workspaces reset\n"));
    for key in [KEY, live] {
        served.said(&["subscriptions", "create", "https://app.sink.localhost/x", "--key", key]);
    }
    let listed = served.said(&["subscriptions", "list"]);
    assert!(
        listed.lines().next().is_some_and(|header| header.contains(" KEY ") && !header.contains("WORKSPACE")),
        "{listed}"
    );
    assert!(
        listed.contains(" sk_test_local ") && listed.contains(" sk_live_…1234 ") && !listed.contains("ws_"),
        "{listed}"
    );
    let rows = served.json(&["subscriptions", "list", "--json"]);
    assert!(rows["data"][0]["workspace"].as_str().is_some_and(|id| id.starts_with("ws_")), "{rows}");
    let shown = served.said(&["subscriptions", "show", rows["data"][0]["id"].as_str().expect("an id")]);
    assert!(shown.contains("\nkey: sk_test_local\n"), "{shown}");
    for (key, expected) in [(KEY, ", sk_test_local alone)\n"), (live, ", sk_live_…1234 alone)\n")] {
        let moved = served.said(&["clock", "advance", "1s", "--key", key]);
        assert!(moved.ends_with(expected), "{moved}");
    }
    assert_eq!(served.json(&["clock", "show", "--key", KEY, "--json"])["key"], KEY);
}

#[test]
fn a_wrong_key_is_shown_and_is_wrong_usage() {
    let served = Served::start(&["--quiet"]);
    for (key, shown) in [
        ("test", "`test` is not an API key: keys begin with `sk_test_`"),
        ("sk_test_a b", "`sk_test_a b` is not an API key: after `sk_test_`"),
        ("sk_live_abcdefgh1234", "`sk_live_…1234` is not an API key"),
        ("0123456789abcdef0123456789abcdef", "`…cdef` is not an API key"),
    ] {
        for arguments in [
            &["reset"][..],
            &["trigger", "workflow.completed"],
            &["requests", "list"],
            &["clock", "freeze"],
            &["explain"],
        ] {
            served.call(&[arguments, &["--key", key]].concat()).exits(2).says(&[shown]);
        }
    }
    // What is well named and not there is still a look-up that finds nothing.
    assert_eq!(served.call(&["explain", "req_1"]).status.code(), Some(1));
    assert_eq!(served.call(&["reset", "--key", "ws_nothing"]).status.code(), Some(1));
}

#[test]
fn what_is_taken_back_says_what_is_in_force_then() {
    let served = Served::start(&["--quiet", "--set", "rate_limit.requests=50", "--scenario-text", STORY]);
    let profile = |arguments: &[&str]| served.said(&[&["profile"], arguments].concat()).trim_end().to_owned();
    assert_eq!(profile(&["set", "rate_limit.window=5s"]), "changed: rate_limit.window = \"5s\" (was \"60s\")");
    assert_eq!(
        profile(&["set", "rate_limit.window=5s"]),
        "changed: nothing; rate_limit.window = \"5s\" (from control API)"
    );
    assert_eq!(profile(&["unset", "rate_limit.window"]), "changed: rate_limit.window = \"60s\" again (from default)");
    assert_eq!(
        profile(&["unset", "rate_limit.window"]),
        "changed: nothing; rate_limit.window = \"60s\" (from default)"
    );
    // A value like the default was set all the same.
    profile(&["set", "rate_limit.window=60s"]);
    assert_eq!(profile(&["unset", "rate_limit.window"]), "changed: rate_limit.window = \"60s\" again (from default)");
    // Another layer has it.
    let scenario = "changed: nothing; rate_limit.requests = 7 (from scenario inline-1)";
    assert_eq!(profile(&["unset", "rate_limit.requests"]), scenario);
    assert_eq!(profile(&["set", "rate_limit.requests=9"]), scenario);
    served.said(&["scenarios", "off"]);
    assert_eq!(profile(&["unset", "rate_limit.requests"]), "changed: rate_limit.requests = 50 again (from --set)");
    assert_eq!(profile(&["unset", "rate_limit.requests"]), "changed: nothing; rate_limit.requests = 50 (from --set)");
    assert_eq!(profile(&["unset", "rate_limit"]), "changed: nothing");
}

#[tokio::test]
async fn a_path_of_the_control_api_that_is_not_there_names_the_one_that_was_meant() {
    let emulator = start().await;
    for (path, meant) in [
        ("/_emulator/nonsense", "`/_emulator/openapi.json` describes every call"),
        ("/_emulator/sinks", "did you mean `/_emulator/sink/{name}`?"),
        ("/_emulator/sinks/app", "did you mean `/_emulator/sink/{name}`?"),
        ("/_emulator/sink", "did you mean `/_emulator/sink/{name}`?"),
        ("/_emulator/scenario/x", "did you mean `/_emulator/scenarios/{name}`?"),
        ("/_emulator/event", "did you mean `/_emulator/events`?"),
        ("/_emulator/request", "did you mean `/_emulator/requests`?"),
        ("/_emulator/clock/advance", "did you mean `/_emulator/clock`?"),
        ("/_emulator/deliveries/dlv_1/retry", "did you mean `/_emulator/deliveries/{id}/redeliver`?"),
    ] {
        let answer = crate::support::send(&emulator, "GET", path, &[], "").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
        assert!(answer.message().contains(meant), "{path}: {}", answer.message());
    }
    let reset = control(&emulator, "POST", "reset", &json!({})).await.json();
    assert_eq!(reset["keys"], json!([KEY]), "{reset}");
}

#[test]
fn a_list_for_all_keys_names_the_keys_that_have_their_own() {
    let served = Served::start(&["--quiet"]);
    served.said(&["scenarios", "use", "always-429", "--key", "sk_test_own"]);
    served.said(&["scenarios", "off", "--key", "sk_test_none"]);
    let listed = served.said(&["scenarios", "list"]);
    assert!(listed.contains("\nsk_test_own has its own list: always-429\n"), "{listed}");
    assert!(listed.contains("\nsk_test_none has its own list: none\n"), "{listed}");
    let whole = served.said(&["reset", "--key", "*"]);
    assert!(whole.ends_with(" reset\n"), "{whole}");
}

#[test]
fn what_is_not_there_or_built_in_already_is_said() {
    let served = Served::start(&["--quiet"]);
    served.call(&["profile", "show", "nosuch"]).exits(1).says(&["no setting begins with `nosuch`"]);
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display().to_string();
    served
        .call(&["scenarios", "new", "rate-limit-burst", "--folder", &place])
        .says(&["a scenario called `rate-limit-burst` is built in"]);
}

#[test]
fn a_redelivery_that_does_not_arrive_is_a_failure() {
    let served =
        Served::start(&["--quiet", "--set", "webhooks.allow_http=true", "--set", "webhooks.retry.preset=none"]);
    served.said(&["subscriptions", "create", "http://127.0.0.1:1/hooks"]);
    served.said(&["trigger", "workflow.completed"]);
    let rows = served.json(&["deliveries", "--json"]);
    let id = rows["data"][0]["id"].as_str().expect("a delivery").to_owned();
    served.call(&["deliveries", "redeliver", &id]).exits(1).prints(&["exhausted"]);
}
