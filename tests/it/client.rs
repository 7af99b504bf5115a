//! The command line as a client of the control API: what it prints, and its exit codes.

use crate::command_line::{SUBSCRIBE, Served, request};
use crate::program::Program;
use crate::support::text;

#[test]
fn requests_are_waited_for_and_listed_from_a_time_on() {
    let served = Served::start(&[]);
    request(&served.url, "GET /v1/hello HTTP/1.1", "");
    let found = served.call(&["requests", "wait", "--path", "/v1/hello", "--timeout", "10s"]);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(text(&found.stdout).contains("/v1/hello"), "{found:?}");
    let late = served.call(&["requests", "wait", "--operation", "hello", "--status", "500", "--timeout", "50ms"]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    let said = text(&late.stderr);
    assert!(said.contains("0 of 1 requests matched") && said.contains(": status: expected 500, found 200"), "{said}");
    assert!(said.contains("  req_"), "the nearest is named: {said}");
    let wrong = served.call(&["requests", "wait", "--operation", "helo"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    for (since, count) in [("2020-01-01T00:00:00Z", 1), ("now", 0)] {
        let page = served.json(&["requests", "list", "--since", since, "--json"]);
        assert_eq!(page["data"].as_array().map(Vec::len), Some(count), "{since}: {page}");
    }
}

#[test]
fn knobs_are_changed_shown_and_taken_back() {
    let served = Served::start(&[]);
    for (arguments, stdout) in [
        (
            &["profile", "set", "rate_limit.requests=5", "rate_limit.window=30s"][..],
            "changed: rate_limit.requests = 5 (was 100), rate_limit.window = \"30s\" (was \"60s\") (generation 2 of settings and scenarios)\n",
        ),
        (
            &["profile", "set", "rate_limit.requests=7", "--key", "sk_test_qa"],
            "changed for sk_test_qa: rate_limit.requests = 7 (was 5) (generation 3 of settings and scenarios)\n",
        ),
        (
            &["profile", "show", "rate_limit.r", "--changed", "--key", "sk_test_qa"],
            "rate_limit.requests = 7   (from control API)\n",
        ),
        (
            &["profile", "unset", "rate_limit"],
            "changed: rate_limit.requests = 100 again (from default), rate_limit.window = \"60s\" again (from default) \
             (generation 4 of settings and scenarios)\n",
        ),
        (&["profile", "show", "rate_limit.requests"], "rate_limit.requests = 100\n"),
    ] {
        Program::new(arguments).at(&served).stdout(stdout).run();
    }
    let wrong = served.call(&["profile", "set", "rate_limit.request=5"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("did you mean `rate_limit.requests`"), "{wrong:?}");
}

#[test]
fn subscriptions_are_listed_stopped_rotated_and_deleted() {
    let served = Served::start(&[]);
    let hook = r#"{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}"#;
    assert!(request(&served.url, SUBSCRIBE, hook).starts_with("HTTP/1.1 200 "));
    let rows = served.json(&["subscriptions", "list", "--json"]);
    let id = rows["data"][0]["id"].as_str().expect("an id").to_owned();
    let listed = served.call(&["subscriptions", "list"]);
    assert!(text(&listed.stdout).contains(&id) && text(&listed.stdout).contains("https://app.sink.localhost/x"));
    for (verb, said) in [("disable", "disabled"), ("enable", "active")] {
        let output = served.call(&["subscriptions", verb, &id]);
        assert!(text(&output.stdout).contains(&format!("\nstatus: {said}\n")), "{output:?}");
        assert!(text(&served.call(&["subscriptions", "show", &id]).stdout).contains(&format!("status: {said}\n")));
    }
    let rotated = text(&served.call(&["subscriptions", "rotate", &id]).stdout);
    assert!(rotated.starts_with("whsec_") && rotated.ends_with("the old secret keeps signing for 24h\n"), "{rotated}");
    assert_eq!(served.json(&["subscriptions", "show", &id, "--json"])["signing_secrets"], 2);
    assert_eq!(text(&served.call(&["subscriptions", "delete", &id]).stdout), format!("{id} deleted\n"));
    let gone = served.call(&["subscriptions", "show", &id]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}

#[test]
fn flags_of_any_command_can_be_set_by_environment_variables() {
    let served = Served::start(&["--clock", "frozen"]);
    let mut advance = crate::support::wrs_emulator(&["clock", "advance", "1s"]);
    advance.env("WRS_EMULATOR_URL", &served.url).env("WRS_EMULATOR_CLOCK_ADVANCE_JSON", "yes");
    let output = advance.output().expect("the binary runs");
    let moved: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON was asked for");
    assert_eq!(moved["mode"], "frozen");
}
