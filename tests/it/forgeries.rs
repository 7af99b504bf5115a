//! Deliberately forged deliveries: a receiver that accepts one is a problem, one that refuses it passes.

use serde_json::{Value, json};

use crate::diagnosis::receiver;
use crate::process::{SUBSCRIBE, Served, closed_port, request};
use crate::program::Program;
use crate::support::{run, text};

const TRIGGER: [&str; 5] = ["trigger", "workflow.completed", "--wait", "--tamper", "signature"];

/// An emulator that has a subscription which leads to this URL.
fn subscribed(arguments: &[&str], url: &str, port: u16) -> Served {
    let forward = format!("https://app.example.com=http://127.0.0.1:{port}");
    let served = Served::start(&[&["--clock", "frozen", "--forward", &forward][..], arguments].concat());
    let hook = json!({ "url": url, "events": ["workflow.completed"] });
    assert!(request(&served.url, SUBSCRIBE, &hook.to_string()).starts_with("HTTP/1.1 200 "));
    served
}

fn subscribed_at(status: u16, arguments: &[&str]) -> Served {
    subscribed(arguments, "https://app.example.com/hooks", receiver(status, "said"))
}

#[test]
fn a_receiver_that_accepts_a_wrong_time_is_told_of_the_time() {
    let served = subscribed_at(204, &[]);
    let of_time = "compare the timestamp with the clock";
    for tamper in ["timestamp", "future_timestamp", "body"] {
        served.call(&["trigger", "workflow.completed", "--wait", "--tamper", tamper]).exits(1);
        let explained = text(&served.call(&["explain"]).stdout);
        assert_eq!(explained.contains(of_time), tamper != "body", "{explained}");
    }
    let causes = served.json(&["verdict", "--format", "json"])["causes"].clone();
    let found: Vec<(bool, bool)> = causes
        .as_array()
        .expect("causes")
        .iter()
        .map(|cause| {
            let says = |field: &str, text: &str| cause[field].as_str().is_some_and(|said| said.contains(text));
            (says("sentence", " accepted a delivery with the wrong time with 204"), says("remedy", of_time))
        })
        .collect();
    assert_eq!(found, [(true, true), (false, false)], "{causes}");
}

#[test]
fn an_accepted_forgery_fails_its_trigger_and_the_verdict_in_every_format() {
    let served = subscribed_at(204, &[]);
    assert_eq!(served.call(&["trigger", "workflow.completed", "--wait"]).status.code(), Some(0), "a true one is taken");
    for _ in 0..2 {
        served
            .call(&TRIGGER)
            .exits(1)
            .prints(&["answered 204; accepted, but must be refused"])
            .says(&["1 forged delivery was accepted (2xx), which your receiver must refuse"]);
    }
    let sentence =
        "2 forged deliveries were accepted (2xx), which your receiver must refuse; `wrs-emulator explain dlv_";
    let failed = served.call(&["verdict", "--fail-on", "forged"]);
    let shown = text(&failed.stdout);
    assert!(failed.status.code() == Some(1) && shown.starts_with(&format!("✗ forged: {sentence}")), "{shown}");
    assert!(shown.contains(" accepted a forged delivery with 204; tampered: signature"), "{shown}");
    served.call(&["verdict"]).exits(0).prints(&[&format!("✗ forged: {sentence}")]);
    let other = served.call(&["verdict", "--fail-on", "undelivered"]);
    let other = text(&other.exits(0).stdout);
    let makes_fail = "` shows why; --fail-on forged makes a run fail for it\n";
    assert!(other.contains(&format!("note: {sentence}")) && other.contains(makes_fail), "{other}");
    let body = served.json(&["verdict", "--format", "json"]);
    assert_eq!((&body["counts"]["forged"], &body["falls_short"]), (&json!(2), &json!(["forged"])), "{body}");
    let id = body["forged"][0]["id"].as_str().expect("an id");
    let explained = text(&served.call(&["explain", id]).stdout);
    assert!(explained.contains("✗ attempt 1        the receiver answered 204") && explained.contains("must refuse"));
    assert!(!explained.contains("redeliver"), "{explained}");
    let junit = text(&served.call(&["verdict", "--format", "junit", "--fail-on", "forged"]).stdout);
    let document = roxmltree::Document::parse(&junit).expect("XML");
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a failure");
    let message = failure.attribute("message").expect("a message");
    assert!(message.contains("tampered: signature"), "{message}");
    assert!(failure.text().is_some_and(|lines| lines.contains("2 times; first dlv_")), "{junit}");
}

#[test]
fn exec_fails_for_an_accepted_forgery_if_that_is_asked_for() {
    let forward = format!("https://app.example.com=http://127.0.0.1:{}", receiver(200, "fine"));
    let script = format!(
        "curl -s -H \"Authorization: Bearer $WRS_API_KEY\" -H 'Content-Type: application/json' \
         -d '{{\"url\":\"https://app.example.com/\",\"events\":[\"workflow.completed\"]}}' $WRS_BASE_URL/v1/events/subscribe; \
         {} {} || true",
        env!("CARGO_BIN_EXE_wrs-emulator"),
        TRIGGER.join(" ")
    );
    for (kind, code) in [("forged", 1), ("unmatched,undelivered", 0)] {
        let arguments = ["exec", "--forward", &forward, "--fail-on", kind, "--", "sh", "-c", &script];
        run(&arguments).exits(code).says(&["1 forged delivery was accepted (2xx)"]);
    }
}

#[test]
fn a_refused_forgery_is_a_success_and_is_not_retried() {
    for status in [400, 401, 403, 422] {
        let served = subscribed_at(status, &[]);
        let fired = served.call(&TRIGGER);
        assert_eq!((fired.status.code(), text(&fired.stderr).as_str()), (Some(0), ""), "{fired:?}");
        let line = format!(": answered {status}: said; refused, as it should be\n");
        assert!(text(&fired.stdout).ends_with(&line), "{fired:?}");
        Program::new(&["verdict", "--fail-on", "undelivered"])
            .at(&served)
            .stdout("✓ undelivered: every delivery arrived; 1 forged delivery was refused, as intended\n")
            .run();
        let row = served.json(&["deliveries", "list", "--json"])["data"][0].clone();
        assert_eq!(
            (&row["status"], &row["attempts"], &row["next_attempt_in_ms"], &row["forgery"]),
            (&json!("exhausted"), &json!(1), &Value::Null, &json!("refused")),
            "{row}"
        );
        let verdict = served.call(&["verdict", "--fail-on", "forged,undelivered,unused"]);
        let shown = text(&verdict.stdout);
        let expected = "✓ forged: no forged delivery was accepted";
        assert!(verdict.status.code() == Some(0) && shown.contains(expected), "{shown}");
        let explained = text(&served.call(&["explain"]).stdout);
        assert!(
            explained.contains(&format!("✓ attempt 1        the receiver answered {status}: said\n")),
            "{explained}"
        );
        assert!(
            explained.contains("as it must") && explained.contains("tampered deliberately: signature ("),
            "{explained}"
        );
        for wrong in ["redeliver", "signed correctly", "clock advance"] {
            assert!(!explained.contains(wrong), "{explained}");
        }
        let (_, log) = served.stop();
        let line = log.lines().find(|line| line.contains(" attempt 1 to ")).expect("a line of the attempt");
        assert!(
            line.contains(&format!(": answered {status}: said (")) && line.ends_with("; refused, as it should be"),
            "{line}"
        );
    }
}

/// A receiver that breaks down over a forgery, or is not there, has refused nothing: that proves nothing about it.
#[test]
fn a_forgery_that_was_not_judged_is_retried_and_fails_its_trigger() {
    let free = closed_port();
    for (port, said) in
        [(receiver(500, "said"), "answered 500"), (receiver(302, ""), "answered 302"), (free, "nothing listens")]
    {
        let served = subscribed(&[], "https://app.example.com/hooks", port);
        let fired = served.call(&TRIGGER).exits(1).prints(&[said]);
        let expected = "1 forged delivery was neither accepted nor refused: a receiver refuses with a 4xx";
        assert!(text(&fired.stderr).contains(expected), "{fired:?}");
        let row = served.json(&["deliveries", "list", "--json"])["data"][0].clone();
        assert_eq!((&row["status"], &row["forgery"]), (&json!("pending"), &Value::Null), "{row}");
        let verdict = served.call(&["verdict", "--fail-on", "forged,unused"]);
        let expected = "no receiver accepted or refused a forged webhook";
        assert!(verdict.status.code() == Some(1) && text(&verdict.stdout).contains(expected), "{verdict:?}");
    }
}

#[test]
fn the_built_in_receiver_refuses_a_forgery_unless_it_is_scripted() {
    let sink = subscribed(&[], "https://app.sink.localhost/", 1);
    sink.call(&TRIGGER).exits(0).prints(&["answered 401; refused, as it should be"]);
    sink.control("POST", "sink/app", &json!({ "respond": [200] }));
    sink.call(&TRIGGER).exits(1).prints(&["accepted, but must be refused"]);
}

/// GitHub's scheme does not sign the time.
#[test]
fn who_cannot_tell_a_forgery_is_not_blamed_for_taking_it() {
    let github = subscribed_at(200, &["--set", "webhooks.scheme=github"]);
    let mut late = TRIGGER;
    late[4] = "timestamp";
    for (served, arguments, code) in [(&github, &late, 0), (&github, &TRIGGER, 1)] {
        served.call(arguments).exits(code);
    }
    let verdict = github.json(&["verdict", "--format", "json"]);
    assert_eq!(verdict["counts"]["forged"], 1, "{verdict}");
}
