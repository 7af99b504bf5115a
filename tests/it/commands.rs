//! Commands against a running emulator, as people type them: what each prints, and its exit code.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::process::{Served, Started, closed_port, eventually, request};
use crate::program::Program;
use crate::support::{Outcome, finish, run, text, wrs_emulator};

fn subscribed() -> Served {
    let served = Served::start(&["--clock", "frozen"]);
    served.subscribe("https://app.sink.localhost/x");
    served
}

/// What a command printed, which went well.
fn said(output: &Outcome) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    text(&output.stdout)
}

#[test]
fn state_is_saved_reset_and_loaded() {
    let (served, folder) = (subscribed(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("state.json").display().to_string();
    let call = |arguments: &[&str]| served.call(arguments);
    assert_eq!(served.said(&["snapshot", "save", &file]), "1 workspace saved\n");
    assert_eq!(served.said(&["reset"]), "sk_test_local reset\n");
    assert_eq!(call(&["trigger", "workflow.completed"]).status.code(), Some(1), "the subscription is gone");
    assert!(served.said(&["snapshot", "load", &file]).starts_with("1 workspace loaded: sk_test_"));
    served.said(&["trigger", "workflow.completed", "--wait"]);
    // By pipes, and one key alone.
    let saved = served.said(&["snapshot", "save", "-", "--key", "sk_test_local"]);
    assert!(served.said(&["reset", "--all", "--json"]).contains("\"reset\": ["));
    let loaded = "1 workspace loaded: sk_test_local\n";
    Program::new(&["snapshot", "load", "-"]).at(&served).stdin(&saved).stdout(loaded).run();
    served.said(&["trigger", "workflow.completed", "--wait"]);
    // What is no snapshot changes nothing.
    std::fs::write(&file, "not JSON").expect("the file is written");
    let missing = folder.path().join("missing.json").display().to_string();
    let nowhere = folder.path().join("no/folder.json").display().to_string();
    for (arguments, part) in [
        (["snapshot", "load", &file], "it is not JSON"),
        (["snapshot", "load", &missing], "cannot read `"),
        (["snapshot", "save", &nowhere], "cannot write `"),
    ] {
        call(&arguments).exits(2).says(&[part]);
    }
}

#[test]
fn a_clock_is_moved_and_shown() {
    let served = subscribed();
    let clock = |arguments: &[&str]| served.said(&[&["clock"], arguments].concat());
    let begun = clock(&["show"]);
    assert!(begun.ends_with(" (frozen)\n"), "{begun}");
    assert_eq!(clock(&["set", "2030-01-01T00:00:00Z"]), "2030-01-01T00:00:00.000Z (frozen)\n");
    assert_eq!(clock(&["advance", "90s"]), "2030-01-01T00:01:30.000Z (frozen)\n");
    let now = clock(&["set", "now"]);
    assert!(begun <= now && now.as_str() < "2030", "{begun} {now}");
    assert_eq!(clock(&["set", "2030-01-01T00:01:30Z"]), "2030-01-01T00:01:30.000Z (frozen)\n");
    let own = clock(&["freeze", "--key", "sk_test_local"]);
    assert!(own.starts_with("2030-01-01T00:01:30.000Z (frozen, sk_test_local") && own.ends_with(" alone)\n"), "{own}");
    assert!(clock(&["follow", "--key", "sk_test_local"]).ends_with(", with the emulator's)\n"));
    assert!(clock(&["resume"]).ends_with(" (running)\n"));
    assert!(clock(&["freeze"]).ends_with(" (frozen)\n"));
    let shown: Value = serde_json::from_str(&clock(&["show", "--json"])).expect("JSON");
    assert_eq!(shown["mode"], "frozen");
    for (arguments, part) in [(["advance", "soon"], "soon"), (["set", "tomorrow"], "tomorrow")] {
        let refused = served.fails(&[&["clock"], &arguments[..]].concat(), 2);
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn deliveries_are_listed_shown_repeated_and_waited_for() {
    let served = subscribed();
    let deliveries = |arguments: &[&str]| served.call(&[&["deliveries"], arguments].concat());
    served.said(&["trigger", "workflow.completed", "--data", "workflow_id=wf_7", "--wait"]);
    let list = said(&deliveries(&["list", "--status", "delivered"]));
    let id = list.lines().nth(1).and_then(|line| line.split(' ').next()).expect("a delivery").to_owned();
    assert!(list.starts_with("ID ") && list.contains("https://app.sink.localhost/x"), "{list}");
    let shown = said(&deliveries(&["show", &id]));
    for part in
        ["delivered of evt_", "webhook-signature: v1,", "\"workflow_id\":\"wf_7\"", "signed: evt_", "answered: 200"]
    {
        assert!(shown.contains(part), "`{part}` is not in\n{shown}");
    }
    let again = said(&deliveries(&["redeliver", &id]));
    assert!(again.starts_with("dlv_") && !again.starts_with(&id), "{again}");
    let waited = said(&deliveries(&["wait", "--status", "delivered", "--count", "2", "--timeout", "20s"]));
    assert_eq!(waited.lines().count(), 3, "{waited}");
    deliveries(&["wait", "--status", "exhausted", "--timeout", "0s"]).exits(1);
    for command in ["show", "redeliver"] {
        deliveries(&[command, "dlv_nothing"]).exits(1).says(&["dlv_nothing"]);
    }
}

#[test]
fn filters_that_match_nothing_say_so() {
    const REQUESTS: &str = "ID  AT  KEY  STATUS  METHOD  PATH  REASON\n";
    const DELIVERIES: &str = "ID  EVENT  TYPE  STATUS  ATTEMPTS  URL\n";
    let served = subscribed();
    let check = |arguments: &[&str], stdout: &str, stderr: &str| {
        Program::new(arguments).at(&served).stdout(stdout).stderr(stderr).run();
    };
    check(&["deliveries", "--type", "workflow.complete"], DELIVERIES, "note: no deliveries match\n");
    check(&["deliveries"], DELIVERIES, "");
    served.said(&["trigger", "workflow.completed", "--wait"]);
    request(&served.url, "GET /v1/hello HTTP/1.1", "");
    let paths = "note: no requests match\n";
    check(&["requests", "--path", "/v1/helo", "--status", "200"], REQUESTS, paths);
    let page = "{\"truncated\":false,\"shown\":0}\n";
    check(&["requests", "--path", "/v1/helo", "--json"], page, "");
}

#[test]
fn a_key_of_the_environment_that_leaves_the_others_out_is_named() {
    const NOTE: &str =
        "note: only what belongs to sk_test_other, the key in WRS_API_KEY; `--key '*'` means every key\n";
    let served = subscribed();
    for (arguments, stdout, note) in [
        (&["requests"][..], "ID  AT  KEY  STATUS  METHOD  PATH  REASON\n", NOTE),
        (&["deliveries", "list"], "ID  EVENT  TYPE  STATUS  ATTEMPTS  URL\n", NOTE),
        (&["subscriptions", "list", "--key", "sk_test_other"], "ID  KEY  STATUS  EVENTS  URL\n", ""),
        (&["profile", "show", "rate_limit.requests"], "rate_limit.requests = 100\n", NOTE),
        (&["forwards"], "no forwards\n", NOTE),
        (&["forwards", "--key", "*"], "no forwards\n", ""),
    ] {
        Program::new(arguments).at(&served).env("WRS_API_KEY", "sk_test_other").stdout(stdout).stderr(note).run();
    }
}

#[test]
fn an_id_is_explained_to_its_owner_and_whatever_key_the_environment_has() {
    let served = subscribed();
    let id = served.json(&["requests", "--json"])["data"][0]["id"].as_str().expect("an id").to_owned();
    let explain = |arguments: &[&str]| {
        let mut command = wrs_emulator(&[&["explain", &id], arguments].concat());
        finish(command.env("WRS_EMULATOR_URL", &served.url).env("WRS_API_KEY", "sk_test_other"))
    };
    for arguments in [&[][..], &["--key", "sk_test_local"], &["--key=*"]] {
        assert!(said(&explain(arguments)).starts_with(&id), "{arguments:?}");
    }
    explain(&["--key", "sk_test_other"]).exits(1);
}

#[test]
fn what_happens_is_printed_as_it_happens() {
    let served = subscribed();
    for (arguments, part) in [
        (&["requests", "list", "--follow"][..], "/v1/hello"),
        (&["requests", "list", "--follow", "--json"], "\"path\":\"/v1/hello\""),
    ] {
        let mut follow = wrs_emulator(arguments);
        let mut child = Started::new(follow.env("WRS_EMULATOR_URL", &served.url).stdout(Stdio::piped()));
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        // It sees only later records, and nothing else shows when it listens.
        let mut line = None;
        eventually("a request is followed", || {
            request(&served.url, "GET /v1/hello HTTP/1.1", "");
            line = received.try_recv().ok();
            line.is_some()
        });
        drop(child);
        assert!(line.as_ref().is_some_and(|line| line.contains(part)), "{line:?}");
    }
}

#[test]
fn a_scenario_is_played_where_there_was_no_folder_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut serve = wrs_emulator(&["serve", "--listen", "127.0.0.1:0"]);
    let served = Served::spawn(serve.current_dir(folder.path()));
    let here = |arguments: &[&str]| {
        let mut command = wrs_emulator(arguments);
        finish(command.env("WRS_EMULATOR_URL", &served.url).current_dir(folder.path()))
    };
    let unknown = text(&here(&["scenarios", "use", "story"]).stderr);
    let place = folder.path().canonicalize().expect("a path").join("scenarios").display().to_string();
    // What to do comes before the list of names.
    let advice = unknown.find(&format!("save its file in {place} (not there yet), start with --scenarios FOLDER"));
    assert!(advice.is_some_and(|at| unknown[at..].contains("expected `always-401`")), "{unknown}");
    let made = here(&["scenarios", "new", "story"]);
    assert_eq!(text(&made.stdout), "scenarios/story.toml\n");
    assert!(text(&made.stderr).contains("then `wrs-emulator scenarios use story`"), "{made:?}");
    // At once, whether or not the file was seen yet.
    let active = here(&["scenarios", "use", "story"]);
    assert!(text(&active.stdout).starts_with("active: story"), "{active:?}");
}

/// `health --wait` is asked before the emulator listens.
#[test]
fn health_waits_for_an_emulator_that_is_yet_to_start() {
    let port = closed_port();
    let url = format!("http://127.0.0.1:{port}");
    let waiting = Started::new(wrs_emulator(&["health", "--wait", "60s", "--url", &url]).stdout(Stdio::piped()));
    let mut served = Served::spawn(&mut wrs_emulator(&["serve", "--listen", &format!("127.0.0.1:{port}")]));
    let output = waiting.output();
    assert!(output.status.success() && text(&output.stdout).starts_with("ready (version "), "{output:?}");
    served.kill();
    run(&["health", "--wait", "100ms", "--url", &url]).exits(3);
}

#[test]
fn requests_are_waited_for() {
    let served = Served::start(&[]);
    request(&served.url, "GET /v1/hello HTTP/1.1", "");
    served.call(&["requests", "wait", "--path", "/v1/hello", "--timeout", "10s"]).exits(0).prints(&["/v1/hello"]);
    let said = text(
        &served
            .call(&["requests", "wait", "--operation", "hello", "--status", "500", "--timeout", "0s"])
            .exits(1)
            .says(&["0 of 1 requests matched", ": status: expected 500, found 200"])
            .stderr,
    );
    assert!(said.contains("  req_"), "the nearest is named: {said}");
    served.call(&["requests", "wait", "--operation", "helo"]).exits(2);
}

// proves ROTATION
#[test]
fn subscriptions_are_listed_stopped_rotated_and_deleted() {
    let served = Served::start(&[]);
    served.subscribe("https://app.sink.localhost/x");
    let rows = served.json(&["subscriptions", "list", "--json"]);
    let id = rows["data"][0]["id"].as_str().expect("an id").to_owned();
    served.call(&["subscriptions", "list"]).prints(&[&id, "https://app.sink.localhost/x"]);
    for (verb, said) in [("disable", "disabled"), ("enable", "active")] {
        served.call(&["subscriptions", verb, &id]).prints(&[&format!("\nstatus: {said}\n")]);
        assert!(text(&served.call(&["subscriptions", "show", &id]).stdout).contains(&format!("status: {said}\n")));
    }
    let rotated = text(&served.call(&["subscriptions", "rotate", &id]).stdout);
    assert!(rotated.starts_with("whsec_") && rotated.ends_with("the old secret keeps signing for 24h\n"), "{rotated}");
    assert_eq!(served.json(&["subscriptions", "show", &id, "--json"])["signing_secrets"], 2);
    assert_eq!(text(&served.call(&["subscriptions", "delete", &id]).stdout), format!("{id} deleted\n"));
    served.call(&["subscriptions", "show", &id]).exits(1);
}

#[test]
fn scenarios_of_one_key_outlive_those_of_all_and_can_end() {
    let served = subscribed();
    served.said(&["scenarios", "use", "always-429", "--key", "sk_test_a"]);
    let off = served.said(&["scenarios", "off"]);
    let keeps = format!(
        "sk_test_a has its own list: always-429; `wrs-emulator scenarios follow --key sk_test_a --url {}` ends that",
        served.url
    );
    assert!(
        off.starts_with("no scenario is active for the keys that follow all\n") && off.lines().nth(1) == Some(&keeps),
        "{off}"
    );
    let is_active = |listed: &str| listed.lines().any(|line| line.starts_with("*  always-429 "));
    assert!(!is_active(&served.said(&["scenarios", "list"])));
    assert!(is_active(&served.said(&["scenarios", "list", "--key", "sk_test_a"])));
    for number in 0..7 {
        served.said(&["scenarios", "use", "always-401", "--key", &format!("sk_test_b{number}")]);
    }
    let off = served.said(&["scenarios", "off"]);
    let more = format!("3 more lists of keys, which `wrs-emulator scenarios list --url {}` shows", served.url);
    assert!(off.lines().count() == 7 && off.lines().last() == Some(&more), "{off}");
    for key in (0..7).map(|number| format!("sk_test_b{number}")).chain(["sk_test_a".to_owned()]) {
        served.said(&["scenarios", "follow", "--key", &key]);
    }
    assert_eq!(served.said(&["scenarios", "off"]).lines().count(), 1, "nobody has a list");
    assert!(!is_active(&served.said(&["scenarios", "list", "--key", "sk_test_a"])));
}

#[test]
fn trigger_says_when_a_refused_delivery_is_tried_again() {
    let served = subscribed();
    served.control("POST", "sink/app", &serde_json::json!({ "respond": [500] }));
    let fired = served.call(&["trigger", "workflow.completed", "--wait"]);
    assert_eq!(fired.status.code(), Some(1), "{fired:?}");
    let (printed, failure) = (text(&fired.stdout), text(&fired.stderr));
    assert!(
        printed.contains("answered 500") && printed.contains("; attempt 1 failed, the next is due in "),
        "{printed}"
    );
    assert!(
        failure.contains("1 of 1 delivery was not accepted so far: --wait waits for the first attempt; "),
        "{failure}"
    );
    assert!(failure.contains("`wrs-emulator clock auto --key "), "{failure}");
}

#[test]
fn trigger_says_when_a_delayed_event_is_due_and_for_whom_to_subscribe() {
    let served = subscribed();
    let advance = "due in 1h; `wrs-emulator clock advance 1h --key sk_test_local ";
    let fired = served.call(&["trigger", "workflow.completed", "--delay", "1h"]).exits(0);
    assert!(text(&fired.stderr).contains(advance), "{fired:?}");
    let fired = served.call(&["trigger", "workflow.completed", "--delay", "1h", "--wait"]).exits(1);
    assert!(text(&fired.stderr).contains(advance), "{fired:?}");
    // One that was tried and refused is not due any more.
    served.said(&["clock", "advance", "2h"]);
    served.said(&["clock", "resume"]);
    served.control("POST", "sink/app", &serde_json::json!({ "respond": [500] }));
    let fired = served.call(&["trigger", "workflow.completed", "--delay", "10ms", "--wait"]).exits(1);
    assert!(text(&fired.stderr).contains("was not accepted so far: --wait waits for the first attempt"), "{fired:?}");
    let failure = served.fails(&["trigger", "workflow.completed", "--key", "sk_test_other"], 1);
    for command in [
        "subscriptions create https://app.sink.localhost/hooks --key sk_test_other",
        "listen --forward-to localhost:3000/hooks --key sk_test_other",
    ] {
        assert!(failure.contains(&format!("wrs-emulator {command}")), "{failure}");
    }
}

#[test]
fn trigger_waits_for_the_retries_under_an_automatic_clock() {
    let served = subscribed();
    served.said(&["profile", "set", "webhooks.retry.preset=custom", "webhooks.retry.schedule=[\"1h\", \"71h\"]"]);
    served.said(&["clock", "auto"]);
    served.control("POST", "sink/app", &serde_json::json!({ "respond": [500, 503, 200] }));
    let fired = served.json(&["trigger", "workflow.completed", "--wait", "--json"]);
    assert_eq!(
        (&fired["waited_for"], &fired["deliveries"][0]["status"]),
        (&"end".into(), &"delivered".into()),
        "{fired}"
    );
    assert_eq!(fired["deliveries"][0]["attempts"].as_array().map(Vec::len), Some(3), "{fired}");
    // What never succeeds has ended as well.
    served.control("POST", "sink/app", &serde_json::json!({ "respond": [500, 500, 500] }));
    let failed = served.call(&["trigger", "workflow.completed", "--wait"]).exits(1);
    assert!(text(&failed.stderr).contains("1 of 1 delivery was not accepted\n"), "{failed:?}");
    let again = fired["deliveries"][0]["id"].as_str().expect("an id");
    served.control("POST", "sink/app", &serde_json::json!({ "respond": [500, 200] }));
    served.call(&["deliveries", "redeliver", again]).exits(0);
}
