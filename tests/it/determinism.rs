//! The same run twice is the same to the last byte, and keys with their own scenarios never meet.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use wrs_emulator::Emulator;

use crate::support::{PATIENCE, builder, control, get_as, put_scenario, sized, started, view};
use crate::wire::peer::Peer;

/// A story with everything that draws from chance or time.
const STORY: &str = r#"
[[given.subscription]]
url = "https://app.sink.localhost/given"
events = ["workflow.completed", "reference.matched"]

[[rule]]
name = "sometimes refused"
when = { operation = "system.status" }
chance = 0.4
reply = { status = 422, code = "{{code}}", message = "{{ ulid() }} at {{ now }} for {{ request.key }}" }

[[rule]]
name = "patched"
when = { operation = "system.status", query.include_checks = "true" }
patch = { version = "{{ uuid() }}", ok = false }

[[rule]]
name = "broken"
when = { operation = "hello" }
sequence = [{ fault = { kind = "garbage", bytes = 32 } }, { fault = "empty" }, { pass = true }]
then = "repeat"

[[emit]]
event = "workflow.completed"
on = "activation"
times = 3
interval = "1s"
data = { workflow_id = "wf_{{ ulid() }}", status = "completed", n = "{{ random_int(1, 1000) }}" }

[[emit]]
event = "reference.matched"
on = { operation = "events.subscribe", status = 200 }
times = 4
interval = "500ms"
delivery = { shuffle = true, duplicate = 2 }

[[emit]]
event = "workflow.completed"
on = { operation = "system.status", status = 422 }
delay = { min = "100ms", max = "900ms" }
"#;

/// One request by hand, with a `Host` that does not depend on the port, and whatever came back.
async fn ask(emulator: &Emulator, line: &str, key: &str, body: &str) -> Vec<u8> {
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut peer = Peer::sending(emulator, request).await;
    let mut read = Vec::new();
    // A fault may end the connection in any way.
    let _ = tokio::time::timeout(PATIENCE, peer.stream.read_to_end(&mut read)).await.expect("an answer in time");
    read
}

/// Waits until everything that is due is done.
async fn until_quiet(emulator: &Emulator) {
    tokio::time::timeout(PATIENCE, emulator.control().settle()).await.expect("the deliveries are made");
}

/// Plays the story and gives everything that the emulator knows of it.
async fn run(seed: u64) -> Vec<String> {
    let emulator = started(builder().seed(seed).scenario_text(STORY.replace("{{code}}", "drawn"))).await;
    let hook = r#"{"url":"https://app.sink.localhost/own","events":["reference.matched"]}"#;
    for round in 0..12 {
        for key in ["sk_test_a", "sk_test_b"] {
            ask(&emulator, "GET /v1/system/status?include_checks=true", key, "").await;
            // Half of the rounds look what became of the events first: they are fired along with the requests.
            if round % 2 == 0 {
                until_quiet(&emulator).await;
            }
            ask(&emulator, "GET /v1/hello", key, "").await;
        }
        ask(&emulator, "POST /v1/events/subscribe", "sk_test_a", if round % 3 == 0 { hook } else { "{" }).await;
        ask(&emulator, "GET /nowhere", "sk_live_no", "").await;
        until_quiet(&emulator).await;
        for _ in 0..10 {
            emulator.control().advance(Duration::from_millis(50)).await;
        }
    }
    let mut known = Vec::new();
    for (listing, one) in [
        ("requests?key=*&limit=100", "requests"),
        ("deliveries?key=sk_test_a&limit=100", "deliveries"),
        ("deliveries?key=sk_test_b&limit=100", "deliveries"),
    ] {
        let listed = control(&emulator, "GET", listing, &Value::Null).await;
        known.push(String::from_utf8_lossy(&listed.body).into_owned());
        let listed = listed.json();
        let rows = listed["data"].as_array().expect("rows");
        assert!(rows.len() > 5, "{listing}: {}", rows.len());
        for row in rows {
            let id = row["id"].as_str().expect("an id");
            let shown = control(&emulator, "GET", &format!("{one}/{id}"), &Value::Null).await;
            known.push(String::from_utf8_lossy(&shown.body).into_owned());
        }
    }
    known.push(format!("{:?}", emulator.control().received("app")));
    known
}

#[tokio::test]
async fn the_same_run_twice_is_the_same_to_the_last_byte() {
    let (first, second) = (run(7).await, run(7).await);
    assert_eq!(first.len(), second.len());
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first, second);
    }
    assert_ne!(first, run(8).await, "another seed is another run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_scenarios_of_their_own_never_meet() {
    let emulator = std::sync::Arc::new(started(builder()).await);
    for kind in 0..10 {
        let text = format!(
            "[[rule]]\nwhen = {{ operation = \"system.status\" }}\nskip = {kind}\ntimes = 5\nreply = {{ status = 422, code = \"kind_{kind}\", message = \"for {{{{ request.key }}}}\" }}\n"
        );
        put_scenario(&emulator, &format!("kind-{kind}"), text).await;
    }
    let mut keys = Vec::new();
    for number in 0..sized(66_usize, 200) {
        let emulator = std::sync::Arc::clone(&emulator);
        keys.push(tokio::spawn(async move {
            let (key, kind) = (format!("sk_test_parallel_{number:04}"), number % 11);
            // The last of eleven plays nothing.
            if kind < 10 {
                let payload = json!({ "active": [format!("kind-{kind}")], "key": key });
                assert_eq!(control(&emulator, "POST", "scenarios/active", &payload).await.status, 200);
            }
            for turn in 0..16 {
                let answer = get_as(&emulator, &key, "/v1/system/status").await;
                if kind < 10 && (kind..kind + 5).contains(&turn) {
                    assert_eq!((answer.status, answer.code()), (422, format!("kind_{kind}")), "{key}, turn {turn}");
                    assert_eq!(answer.message(), format!("for sk_test_parallel_{number:04}"));
                } else {
                    assert_eq!(answer.status, 200, "{key}, turn {turn}");
                }
                assert_eq!(answer.header("x-ratelimit-remaining"), Some((99 - turn).to_string().as_str()), "{key}");
            }
            let listed = view(&emulator, &format!("requests?key={key}&limit=100")).await;
            assert_eq!(listed["data"].as_array().map(Vec::len), Some(16), "{key}");
        }));
    }
    for key in keys {
        key.await.expect("no cross-talk");
    }
}
