//! Commands in hints: each can be typed where it is printed, whether the emulator still runs, has ended, or left a file behind.

use std::path::Path;

use serde_json::Value;

use crate::diagnosis::receiver;
use crate::process::Served;
use crate::support::{Outcome, finish, run, text, wrs_emulator};

const CURL: &str = "curl -s -o /dev/null";

/// `exec FLAGS -- sh -c SCRIPT`.
fn exec(flags: &[&str], script: &str) -> Outcome {
    run(&[&["exec"], flags, &["--", "sh", "-c", script]].concat())
}

/// The same with a receiver that accepts everything, to which the script first lets a forged event be sent.
fn forged(flags: &[&str], script: &str) -> Outcome {
    let forward = format!("https://app.example.com=http://127.0.0.1:{}", receiver(200, "fine"));
    let json = format!("{CURL} -H 'Content-Type: application/json' -H \"Authorization: Bearer $WRS_API_KEY\"");
    let forge = format!(
        "{json} -d '{{\"url\":\"https://app.example.com/x\",\"events\":[\"workflow.completed\"]}}' $WRS_BASE_URL/v1/events/subscribe; \
         {json} -d '{{\"type\":\"workflow.completed\",\"tamper\":\"signature\"}}' $WRS_EMULATOR_URL/_emulator/events?wait=20s"
    );
    exec(&[&["--forward", &forward], flags].concat(), &format!("{forge}; {script}"))
}

/// The command between backticks that begins with these words, without the program's name.
fn command(said: &str, begin: &str) -> Vec<String> {
    let spans = said.split('`').filter_map(|span| span.strip_prefix("wrs-emulator "));
    let found = spans.into_iter().find(|span| span.starts_with(begin));
    found.unwrap_or_else(|| panic!("no `{begin}` in {said}")).split(' ').map(str::to_owned).collect()
}

fn typed(words: &[String]) -> Outcome {
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn a_forgery_is_explained_from_the_report_that_exec_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["report.html", "run.json"] {
        let report = path(folder.path(), name);
        let ended = forged(&["--fail-on", "forged,findings", "--report", &report], "true").exits(1);
        let said = text(&ended.stderr);
        assert!(
            said.contains("✗ forged: 1 forged delivery was accepted (2xx), which your receiver must refuse; "),
            "{said}"
        );
        let explain = command(&said, "explain dlv_");
        typed(&explain).exits(0).prints(&["accepted, although it is forged", "attempt 1", "answered 200"]);
        // A file gives the same hints.
        let again = run(&["verdict", "--from", &report, "--fail-on", "forged"]).exits(1);
        assert_eq!(command(&text(&again.stdout), "explain dlv_"), explain);
    }
    // Without a report, or with an archive, which has no explanations, nothing is left to ask.
    let archive = path(folder.path(), "run.har");
    for flags in [&["--fail-on", "forged"][..], &["--fail-on", "forged", "--report", &archive]] {
        let said = text(&forged(flags, "true").exits(1).stderr);
        assert!(
            !said.contains("explain") && said.contains("`--report report.html` writes a page that shows why"),
            "{said}"
        );
    }
}

#[test]
fn every_record_of_a_file_can_be_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = path(folder.path(), "report.html");
    let late = format!("{CURL} -H 'Authorization: Bearer sk_test_late' $WRS_BASE_URL/v1/system/status");
    let full =
        "[[rule]]\nname = 'full'\nwhen = { operation = 'system.status' }\nreply = { error = 'rate_limit_exceeded' }\n";
    forged(&["--scenario-text", full, "--report", &report], &late).exits(0);
    let from = |arguments: &[&str]| run(&[&["explain"], arguments, &["--from", &report]].concat());
    let newest = from(&["latest"]).exits(0).prints(&[
        "429 Too Many Requests because scenario `inline-1`, rule `full`",
        "  ▸ scenario ",
        "scenario `inline-1` (given as text, line 1), rule `full`, gave this answer",
        "after a 429, a client waits as long as `Retry-After` says, or else with growing pauses",
        "rules (as they were when the request was answered)",
    ]);
    let id = text(&newest.stdout).split(':').next().expect("an id").to_owned();
    assert_eq!(text(&from(&[&id]).exits(0).stdout), text(&newest.stdout));
    let json: Value = serde_json::from_slice(&from(&[&id, "--json"]).exits(0).stdout).expect("JSON");
    assert_eq!((&json["kind"], &json["request"]["status"]), (&"request".into(), &429.into()));
    // The newest record of a key.
    from(&["--key", "sk_test_local"]).exits(0).prints(&["dlv_", "workflow.completed evt_"]);
    let delivery: Value = serde_json::from_slice(&from(&["--key", "sk_test_local", "--json"]).stdout).expect("JSON");
    let advice = delivery["advice"][0]["text"].as_str().expect("a sentence");
    assert!(advice.starts_with("the receiver accepted a delivery that it must refuse: "), "{advice}");
    let event = delivery["delivery"]["event"].as_str().expect("an id").to_owned();
    from(&[&event]).exits(0).prints(&["it went to 1 of 1 subscription", "delivery dlv_"]);
    from(&["req_none"]).exits(1).says(&["has no record `req_none`"]);
    from(&["--key", "sk_test_none"]).exits(1).says(&["the run has no `sk_test_none`"]);
    run(&["explain", "--from", "/no/such/file"]).exits(2).says(&["cannot use `/no/such/file`"]);
}

#[test]
fn a_file_and_an_emulator_exclude_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = path(folder.path(), "run.json");
    exec(&["--report", &file], "true").exits(0);
    for arguments in [&["verdict"][..], &["explain"], &["requests", "export", "--har", "-"]] {
        for flag in [&["--url", "http://127.0.0.1:1"][..], &["--insecure"]] {
            let both = run(&[arguments, &["--from", &file], flag].concat()).exits(2);
            let words = format!("`{}` needs a running emulator, but `--from` reads a file", flag[0]);
            let said = text(&both.stderr);
            assert!(said.contains(&words) && said.contains("leave one of them out"), "{said}");
        }
    }
    // A variable, which `exec` sets for its command, is not typed.
    let mut command = wrs_emulator(&["verdict", "--from", &file]);
    finish(command.env("WRS_EMULATOR_URL", "http://127.0.0.1:1")).exits(0);
    // A file of an earlier version has no grid.
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("the file")).expect("JSON");
    saved["verification"].as_object_mut().expect("fields").remove("grid");
    std::fs::write(&file, saved.to_string()).expect("it is written");
    let shown = text(&run(&["verdict", "--from", &file, "--grid"]).exits(0).stdout);
    assert!(shown.contains("the file has no grid") && !shown.contains("0 of 0"), "{shown}");
}

#[test]
fn what_had_nothing_to_judge_has_no_tick() {
    let hello = format!("{CURL} $WRS_BASE_URL/v1/hello");
    let flags = ["--allow-unused", "--fail-on", "unmatched,undelivered,forged,unfinished,findings"];
    let idle = text(&exec(&flags, "true").exits(0).stderr);
    for line in [
        "· unmatched: 0 requests arrived; does your code read WRS_BASE_URL?\n",
        "· undelivered: there was no delivery\n",
        "· forged: no receiver accepted or refused a forged webhook\n",
        "· unfinished: no scenario is active\n",
        "· findings: there was nothing to review\n",
    ] {
        assert!(idle.contains(line), "no {line:?} in {idle}");
    }
    let active = [&flags[..], &["--scenario-text", "[[rule]]\nname = 'x'\npass = true\n"]].concat();
    let busy = text(&forged(&active, &hello).exits(1).stderr);
    for line in
        ["✓ unmatched: every request matched an endpoint\n", "✓ unfinished: nothing of a scenario is left to play\n"]
    {
        assert!(busy.contains(line), "no {line:?} in {busy}");
    }
}

#[test]
fn a_429_of_a_scenario_explains_a_test_that_names_it() {
    let rule = "[[rule]]\nname = 'two'\nwhen = { operation = 'system.status' }\ntimes = 2\nreply = { error = 'rate_limit_exceeded' }\n";
    let script = format!(
        "{CURL} -H 'Authorization: Bearer sk_test_one' $WRS_BASE_URL/v1/system/status; {CURL} -H 'Content-Type: application/json' \
         -d '{{\"key\":\"sk_test_one\",\"test\":\"test_one\",\"outcome\":\"failed\",\"message\":\"assert 429 == 200\"}}' $WRS_EMULATOR_URL/_emulator/outcome"
    );
    let said = text(&exec(&["--scenario-text", rule, "--fail-on", "unfinished"], &script).exits(1).stderr);
    assert!(said.contains("for key sk_test_one; 1 left\n        test test_one, key sk_test_one\n"), "{said}");
    let why = "GET /v1/system/status was refused with 429 Too Many Requests by scenario `inline-1`, rule `two`\n";
    assert!(said.contains(&format!("✗ tests: 1 test failed\n    {why}")), "{said}");
    assert!(said.contains("        after a 429, a client waits as long as `Retry-After` says"), "{said}");
    assert!(said.contains("        said: assert 429 == 200\n"), "{said}");
    assert!(!said.contains("warning: test test_one"), "its runner says that it failed: {said}");
}

#[test]
fn a_trigger_that_is_not_accepted_names_the_delivery() {
    let served = Served::start(&["--quiet"]);
    let call = |arguments: &[&str]| served.call(arguments);
    for (status, flags, explained) in [
        (500, &[][..], "attempt 1 failed and another is due"),
        (500, &["--tamper", "signature"], "the receiver answered 500"),
        (200, &["--tamper", "signature"], "accepted, although it is forged"),
    ] {
        call(&["forwards", "add", &format!("https://app.example.com=http://127.0.0.1:{}", receiver(status, "fine"))]);
        call(&["subscriptions", "create", "https://app.example.com/x"]);
        let output = call(&[&["trigger", "workflow.completed", "--wait"], flags].concat()).exits(1);
        let words = command(&text(&output.stderr), "explain dlv_");
        call(&words.iter().map(String::as_str).collect::<Vec<_>>()).exits(0).prints(&[explained]);
    }
}

#[test]
fn what_is_advised_can_be_typed() {
    let key = run(&["subscriptions", "show", "sub_x", "--key", "sk_test_a"]).exits(2);
    key.says(&["leave `--key` out: an id names one thing, whichever key it belongs to"]);
    let unknown = text(&run(&["deliveries", "list", "--colour"]).exits(2).stderr);
    assert!(!unknown.contains("as a value"), "{unknown}");
    for group in ["requests", "deliveries", "subscriptions", "forwards", "scenarios", "clock", "profile"] {
        run(&[group, "--help"]).exits(0).prints(&[&format!("Usage: wrs-emulator {group} [OPTIONS] [COMMAND]\n")]);
    }
    run(&["clock", "auto", "--help"]).exits(0).prints(&["not while your client sleeps"]);
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut probe = wrs_emulator(&["review", "probe", &format!("http://{nowhere}/hooks")]);
    let said = text(&finish(probe.env("WRS_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).exits(2).stderr);
    assert!(said.contains(&format!("nothing listens on {nowhere}; start your receiver there")), "{said}");
    assert!(!said.contains("forwards add"), "a receiver on this machine needs no forward: {said}");
}
