//! `explain`: why a request was answered as it was, for each kind of answer.

use serde_json::{Value, json};

use crate::support::{Answer, control, get, get_as, send, start, start_with, subscribe, subscribe_sink};

async fn explained(emulator: &wrs_emulator::Emulator, answer: &Answer) -> Value {
    let id = answer.header("x-emulator-request-id").expect("an id");
    let explanation = control(emulator, "GET", &format!("explain/{id}"), &Value::Null).await;
    assert_eq!(explanation.status, 200, "{explanation:?}");
    explanation.json()
}

fn decided(explanation: &Value) -> (String, String) {
    let steps = explanation["steps"].as_array().expect("steps");
    let step = steps.iter().find(|step| step["verdict"] == "decided").expect("one step decided");
    (step["check"].as_str().expect("a name").to_owned(), step["detail"].as_str().expect("words").to_owned())
}

#[tokio::test]
async fn each_kind_of_answer_names_what_decided() {
    let emulator = start_with(&["rate_limit.requests=4", "rate_limit.window=30s"]).await;
    let fine = get(&emulator, "/v1/system/status").await;
    let wrong = get(&emulator, "/v1/system/status?include_checks=x").await;
    let made = subscribe(&emulator, &json!({ "url": "https://x.example", "events": ["workflow.completed"] })).await;
    let updated = subscribe(&emulator, &json!({ "url": "https://x.example", "events": ["workflow.completed"] })).await;
    let limited = get(&emulator, "/v1/system/status").await;
    for (answer, status, check, words) in [
        (&fine, 200, "operation", "every check passed"),
        (&wrong, 422, "operation", "`include_checks` must be true or false"),
        (&made, 200, "operation", "was created"),
        (&updated, 200, "operation", "so it was updated"),
        (&limited, 429, "quota", "4 of 4 requests used in a window of 30 s; the next is allowed in 30000 ms"),
        (&get_as(&emulator, "sk_live_x", "/v1/system/status").await, 401, "authentication", "live key"),
        (&send(&emulator, "GET", "/v1/system/status", &[], "").await, 401, "authentication", "missing"),
        (&get(&emulator, "/nowhere").await, 404, "route", "no endpoint has the path `/nowhere`"),
        (&get(&emulator, "/v1/users").await, 404, "route", "announced"),
        (&send(&emulator, "PUT", "/v1/hello", &[], "").await, 405, "route", "takes GET, HEAD, not PUT"),
    ] {
        assert_eq!(answer.status, status);
        let explanation = explained(&emulator, answer).await;
        let (found, detail) = decided(&explanation);
        assert_eq!(found, check, "{explanation}");
        assert!(detail.contains(words), "{status}: {detail}");
        assert!(
            explanation["summary"].as_str().is_some_and(|summary| summary.starts_with(&status.to_string())),
            "{explanation}"
        );
    }
}

#[tokio::test]
async fn events_and_deliveries_are_explained() {
    let emulator = start().await;
    subscribe_sink(&emulator, "both").await;
    subscribe(&emulator, &json!({ "url": "https://one.sink.localhost/x", "events": ["reference.matched"] })).await;
    let fired = crate::support::fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let id = fired["events"][0]["id"].as_str().expect("an id");
    let event = control(&emulator, "GET", &format!("explain/{id}"), &Value::Null).await.json();
    assert_eq!(event["summary"], "it went to 1 of 2 subscriptions");
    assert!(event["steps"].to_string().contains("is not subscribed to workflow.completed"), "{event}");
    let id = fired["deliveries"][0]["id"].as_str().expect("an id");
    let delivery = control(&emulator, "GET", &format!("explain/{id}"), &Value::Null).await.json();
    assert_eq!(delivery["summary"], "delivered at attempt 1");
}

#[tokio::test]
async fn unknown_ids_are_404_with_what_is_expected() {
    let emulator = start().await;
    for id in ["req_nothing", "evt_nothing", "dlv_nothing", "nonsense", "%00"] {
        let answer = control(&emulator, "GET", &format!("explain/{id}"), &Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{id}");
    }
}

#[tokio::test]
async fn secrets_and_keys_never_appear_in_what_is_shown() {
    let emulator = start().await;
    let made = subscribe_sink(&emulator, "a").await;
    let secret = made["secret"].as_str().expect("a secret");
    let sent = subscribe(
        &emulator,
        &json!({ "url": "https://b.example", "events": ["workflow.completed"], "secret": "my own secret text" }),
    )
    .await;
    let mut shown = String::new();
    for path in ["requests?key=*", "subscriptions?key=*", "deliveries?key=*", "profile", "scenarios"] {
        shown.push_str(&String::from_utf8_lossy(&control(&emulator, "GET", path, &Value::Null).await.body));
    }
    let ids = control(&emulator, "GET", "requests?key=*", &Value::Null).await.json();
    for row in ids["data"].as_array().expect("rows") {
        let id = row["id"].as_str().expect("an id");
        shown.push_str(&String::from_utf8_lossy(
            &control(&emulator, "GET", &format!("requests/{id}"), &Value::Null).await.body,
        ));
    }
    assert_eq!(sent.status, 200);
    for hidden in [secret, "my own secret text", crate::support::KEY] {
        assert!(!shown.contains(hidden), "`{hidden}` is shown");
    }
}
