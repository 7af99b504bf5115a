//! Scenarios over a socket: the shipped one played, edits taken while running, broken edits not.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    activate, ask, builder, control, get, get_as, next_due, put_scenario, raw, send, started, subscribe, view,
};
use crate::wire::peer::Peer;

#[tokio::test]
async fn a_key_or_a_request_can_have_scenarios_of_its_own() {
    let text = "[[rule]]\nwhen = { operation = \"system.status\" }\nreply = { status = 422, code = \"teapot\", message = \"short and stout\" }\n";
    let emulator = started(builder()).await;
    put_scenario(&emulator, "teapot", text).await;
    let key = ("authorization", "Bearer sk_test_a");
    let named = send(&emulator, "GET", "/v1/system/status", &[key, ("x-emulator-scenario", "teapot")], "").await;
    assert_eq!((named.status, named.code().as_str(), named.message().as_str()), (422, "teapot", "short and stout"));
    assert_eq!(get_as(&emulator, "sk_test_a", "/v1/system/status").await.status, 200);
    activate(&emulator, &["teapot"], Some("sk_test_b")).await;
    assert_eq!(get_as(&emulator, "sk_test_b", "/v1/system/status").await.status, 422);
    assert_eq!(get_as(&emulator, "sk_test_a", "/v1/system/status").await.status, 200);
    let unknown = send(&emulator, "GET", "/v1/hello", &[("x-emulator-scenario", "teepot")], "").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (400, "bad_request"));
    assert!(unknown.message().contains("did you mean `teapot`"), "{}", unknown.message());
}

/// Whatever else would set a header, the quota or the error: what the scenario says is sent.
#[tokio::test]
async fn a_scripted_header_is_what_is_sent() {
    let text = r#"
[[rule]]
when.operation = "system.status"
reply = { error = "rate_limit_exceeded", headers = { X-RateLimit-Remaining = "4999", Retry-After = "5", Content-Type = "application/problem+json", Date = "Thu, 01 Jan 2026 00:00:00 GMT" } }

[[rule]]
when.operation = "events.subscribe"
reply = { error = "unauthorized", headers = { WWW-Authenticate = "Bearer realm=\"mine\"" } }

[[rule]]
when.operation = "hello"
reply = { status = 499, body = "" }
"#;
    let emulator = started(builder().set("rate_limit.retry_after=seconds").scenario_text(text)).await;
    let answer = get_as(&emulator, "sk_test_a", "/v1/system/status").await;
    for (name, value) in [
        ("x-ratelimit-remaining", "4999"),
        ("x-ratelimit-limit", "100"),
        ("retry-after", "5"),
        ("content-type", "application/problem+json"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
        assert_eq!(answer.headers.get_all(name).iter().count(), 1, "{name}");
    }
    let refused = subscribe(&emulator, &json!({})).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"mine\""));
    // A status without its own name has none.
    let head = raw(&emulator, b"GET /v1/hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 499 \r\n"), "{head}");
}

/// A client that reads each error as the contract shows it is not given JSON's content type with nothing.
#[tokio::test]
async fn a_status_alone_has_the_envelope_of_its_error_or_no_body() {
    let text = "[[rule]]\nwhen.query.n = 'a'\nreply = { status = 429 }\n[[rule]]\nreply = { status = 418 }\n";
    let emulator = started(builder().scenario_text(text)).await;
    let limited = get(&emulator, "/v1/system/status?n=a").await;
    let error = limited.json()["error"].clone();
    assert_eq!((limited.status, &error["code"]), (429, &json!("rate_limit_exceeded")), "{limited:?}");
    assert!(error["message"].is_string() && error["request_id"].is_string(), "{error}");
    let empty = get(&emulator, "/v1/system/status").await;
    assert_eq!((empty.status, empty.body.len()), (418, 0));
    assert_eq!(empty.header("content-type"), Some("text/plain; charset=utf-8"));
}

#[tokio::test]
async fn delays_patches_and_faults_are_carried_out() {
    let text = r#"
[[rule]]
when = { operation = "system.status", query.include_checks = "true" }
patch = { ok = false, checks = { database = { status = "fail" } } }

[[rule]]
when = { operation = "hello" }
sequence = [{ fault = "reset" }, { fault = "empty" }, { fault = "truncate" }, { fault = "garbage" }, { delay = "2s" }]
then = "end"
"#;
    let emulator = started(builder().scenario_text(text)).await;
    let patched = get(&emulator, "/v1/system/status?include_checks=true").await.json();
    assert_eq!(
        (&patched["ok"], &patched["checks"]["database"]["status"], &patched["checks"]["queue"]["status"]),
        (&json!(false), &json!("fail"), &json!("ok"))
    );
    let hello = b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(crate::support::raw(&emulator, hello).await, "", "reset");
    assert_eq!(crate::support::raw(&emulator, hello).await, "", "empty");
    let cut = crate::support::raw(&emulator, hello).await;
    assert!(
        cut.starts_with("HTTP/1.1 200 OK")
            && cut.contains("content-length: 45")
            && cut.ends_with("{\"message\":\"Hello, wor"),
        "{cut}"
    );
    let garbage = crate::support::raw(&emulator, hello).await;
    assert!(!garbage.is_empty() && !garbage.starts_with("HTTP/"), "{garbage}");
    // The clock stands still, so the delayed answer comes only when it is advanced.
    let mut delayed = Peer::sending(&emulator, hello).await;
    assert_eq!(next_due(&emulator).await, Duration::from_secs(2));
    delayed.has_nothing();
    emulator.control().advance(Duration::from_secs(2)).await;
    assert_eq!(delayed.answer().await.status, 200);
}

#[tokio::test]
async fn given_state_is_there_and_time_fires_events() {
    let text = r#"
[[given.subscription]]
url = "https://given.sink.localhost/x"
events = ["workflow.completed"]

[[emit]]
event = "workflow.completed"
on = { every = "10s" }
times = 3
data = { workflow_id = "wf_{{ ulid() }}", status = "completed" }

[[emit]]
name = "by hand"
event = "workflow.completed"
on = "command"
delivery = { duplicate = 2 }
"#;
    let emulator = started(builder().scenario_text(text)).await;
    get(&emulator, "/v1/hello").await;
    assert_eq!(get(&emulator, "/v1/system/status").await.status, 200);
    let listed = view(&emulator, "subscriptions").await;
    assert_eq!(listed["data"][0]["url"], "https://given.sink.localhost/x");
    for (seconds, count) in [(25, 2), (60, 3)] {
        emulator.control().advance(Duration::from_secs(seconds)).await;
        assert_eq!(emulator.control().received("given").len(), count, "{seconds} s on");
    }
    ask(&emulator, "POST", "events", &json!({ "emit": "by hand" })).await;
    emulator.control().settle().await;
    let ids: Vec<_> = emulator
        .control()
        .received("given")
        .iter()
        .map(|receipt| receipt.headers.iter().find(|(name, _)| name == "webhook-id").expect("an id").1.clone())
        .collect();
    assert_eq!(ids[3], ids[4], "a duplicate is the same event");
    let unknown = control(&emulator, "POST", "events", &json!({ "emit": "by heart" })).await;
    assert_eq!((unknown.status, unknown.message().contains("by hand")), (404, true), "{unknown:?}");
    for (path, further) in [
        ("events?wait=1s", json!({})),
        ("events", json!({ "type": "workflow.completed" })),
        ("events", json!({ "subscription": "sub_1" })),
        ("events", json!({ "count": 2 })),
        ("events", json!({ "delay": "1s" })),
        ("events", json!({ "tamper": "body" })),
        ("events", json!({ "duplicate": 2 })),
        ("events", json!({ "shuffle": true })),
        ("events", json!({ "drop": true })),
    ] {
        let mut body = json!({ "emit": "by hand" });
        body.as_object_mut().expect("an object").extend(further.as_object().cloned().expect("an object"));
        let refused = control(&emulator, "POST", path, &body).await;
        assert_eq!(
            (refused.status, refused.message().contains("only `key`") || refused.message().contains("leave it out")),
            (422, true),
            "{path} {body}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn firing_can_forge_double_reorder_and_lose() {
    let emulator = started(builder()).await;
    crate::support::subscribe_sink(&emulator, "app").await;
    for tamper in ["body", "signature", "secret", "old_secret", "timestamp", "future_timestamp", "headers"] {
        let fired = crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "tamper": tamper })).await;
        assert_eq!(fired["deliveries"][0]["forgery"], "refused", "{tamper}");
        let receipt = emulator.control().received("app").pop().expect("a receipt");
        assert!(receipt.verified.is_err(), "{tamper}");
    }
    let before = emulator.control().received("app").len();
    crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "duplicate": 3 })).await;
    assert_eq!(emulator.control().received("app").len(), before + 3);
    let lost = crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "drop": true })).await;
    assert_eq!(
        (&lost["deliveries"][0]["status"], &lost["deliveries"][0]["note"]),
        (&json!("cancelled"), &json!("dropped deliberately (`trigger --drop`, or POST /_emulator/events)"))
    );
    let shuffled =
        crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "count": 5, "shuffle": true })).await;
    let fired: Vec<&str> = shuffled["events"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| event["id"].as_str().expect("an id"))
        .collect();
    let receipts = emulator.control().received("app");
    let got: Vec<_> = receipts[before + 3..]
        .iter()
        .map(|receipt| receipt.headers.iter().find(|(name, _)| name == "webhook-id").expect("an id").1.as_str())
        .collect();
    assert_eq!(got.len(), 5);
    assert_ne!(got, fired);
    for wrong in [json!({ "tamper": "everything" }), json!({ "duplicate": 0 })] {
        let mut payload = wrong.clone();
        payload["type"] = "workflow.completed".into();
        assert_eq!(control(&emulator, "POST", "events", &payload).await.status, 422, "{wrong}");
    }
}

/// The codes that subscribing to these URLs is answered, by a story whose second step answers 503 to everything.
async fn story(rule: &str, urls: &[&str]) -> Vec<u16> {
    let text = format!(
        "[[rule]]\nwhen = {{ operation = \"events.subscribe\", step = \"start\" }}\n{rule}\n\n[[rule]]\nwhen = {{ step = \"later\" }}\nreply = {{ status = 503 }}\n"
    );
    let emulator = started(builder().scenario_text(text)).await;
    let mut statuses = Vec::new();
    for url in urls {
        let body = json!({ "url": url, "events": ["workflow.completed"] });
        statuses.push(subscribe(&emulator, &body).await.status);
    }
    statuses
}

#[tokio::test]
async fn a_story_goes_on_by_the_status_of_the_answer() {
    let (good, bad) = ("https://app.sink.localhost/x", "ftp://nowhere");
    let next = "next = { step = \"later\", status = 200 }";
    // A subscribe that is refused changes nothing.
    assert_eq!(story(next, &[bad, bad, good, good]).await, [422, 422, 200, 503]);
    // Only answers with the status count towards `times`.
    let twice = format!("times = 2\npass = true\n{next}");
    assert_eq!(story(&twice, &[good, bad, bad, good, good]).await, [200, 422, 422, 200, 503]);
    // What the rule answers itself is a step of its sequence like any other; the last one waits for the status.
    let sequence =
        format!("sequence = [{{ error = \"rate_limit_exceeded\", times = 2 }}, {{ delay = \"0ms\" }}]\n{next}");
    assert_eq!(story(&sequence, &[good, good, bad, good, good]).await, [429, 429, 422, 200, 503]);
    // The other way round.
    let refused = "next = { step = \"later\", status = 422 }";
    assert_eq!(story(refused, &[good, good, bad, good]).await, [200, 200, 422, 503]);
    // Without a status the story moves on at once.
    assert_eq!(story("next = \"later\"", &[bad, good]).await, [422, 503]);
}
