//! `none`: proof that nothing came and nothing is due, without waiting for it.

use serde_json::json;

use crate::support::{activate, ask, control, fire, get, put_scenario, refused, start, subscribe_sink, view};

#[tokio::test]
async fn nothing_due_and_nothing_there_is_proved_at_once() {
    let emulator = start().await;
    let none = json!({ "none": true, "timeout": "300s" });
    assert_eq!(ask(&emulator, "POST", "deliveries/wait", &none).await["data"], json!([]));
    assert_eq!(ask(&emulator, "POST", "requests/wait", &none).await["data"], json!([]));
    get(&emulator, "/v1/hello").await;
    let found = control(&emulator, "POST", "requests/wait", &none).await;
    assert_eq!((found.status, &found.json()["error"]["code"]), (409, &json!("not_none")), "{found:?}");
    assert_eq!(found.json()["error"]["message"], "expected none, but 1 request matches");
    assert_eq!(found.json()["nearest"][0]["request"]["path"], "/v1/hello");
    let one = json!({ "none": true, "count": 2 });
    ask(&emulator, "POST", "requests/wait", &one).await;
    get(&emulator, "/v1/hello").await;
    refused(&emulator, "POST", "requests/wait", &one, 409, "expected fewer than 2, but 2 requests match").await;
    let other = json!({ "none": true, "path": "/v1/system/status" });
    ask(&emulator, "POST", "requests/wait", &other).await;
}

#[tokio::test]
async fn a_delivery_that_is_there_and_a_retry_that_is_due_disprove_absence() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    ask(&emulator, "POST", "sink/app", &json!({ "respond": [500] })).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let none = json!({ "none": true });
    let found = control(&emulator, "POST", "deliveries/wait", &none).await;
    assert_eq!(found.status, 409, "{found:?}");
    assert_eq!(found.json()["error"]["message"], "expected none, but 1 delivery matches");
    // It is not delivered yet, but it may be.
    let delivered = json!({ "none": true, "status": "delivered" });
    let due = control(&emulator, "POST", "deliveries/wait", &delivered).await;
    let message = due.json()["error"]["message"].as_str().map(str::to_owned).unwrap_or_default();
    assert_eq!(due.status, 409, "{due:?}");
    assert!(
        message.starts_with("none came, but one is still due: attempt 2 to deliver workflow.completed to "),
        "{message}"
    );
    assert!(message.ends_with(" in 1 s"), "{message}");
    assert_eq!(due.json()["due"][0]["what"], "attempt");
    ask(&emulator, "POST", "deliveries/wait", &json!({ "none": true, "type": "reference.matched" })).await;
    ask(&emulator, "POST", "deliveries/wait", &json!({ "none": true, "attempts": 2, "type": "reference.matched" }))
        .await;
    let one = json!({ "none": true, "count": 2, "status": "pending", "type": "workflow.completed" });
    refused(&emulator, "POST", "deliveries/wait", &one, 409, "one is still due").await;
    ask(&emulator, "POST", "sink/app", &json!({ "respond": [500, 500, 500, 500, 500, 500, 500] })).await;
    fire(&emulator, &json!({ "type": "workflow.completed", "count": 7 })).await;
    let due = control(&emulator, "POST", "deliveries/wait", &delivered).await.json();
    let message = due["error"]["message"].as_str().expect("a text");
    assert!(
        message.starts_with("none came, but some are still due: attempt 2") && message.ends_with("; and more"),
        "{due}"
    );
    assert_eq!(due["due"].as_array().map(Vec::len), Some(5), "{due}");
}

#[tokio::test]
async fn a_planned_event_disproves_absence_until_the_clock_has_passed_it() {
    let emulator = start().await;
    let toml = "[[emit]]\nevent = \"workflow.completed\"\non = { after = \"5s\" }\n";
    put_scenario(&emulator, "planned", toml).await;
    activate(&emulator, &["planned"], None).await;
    get(&emulator, "/v1/system/status").await;
    let none = json!({ "none": true });
    let due = control(&emulator, "POST", "deliveries/wait", &none).await;
    assert_eq!((due.status, &due.json()["due"][0]["what"]), (409, &json!("event")), "{due:?}");
    ask(&emulator, "POST", "deliveries/wait", &json!({ "none": true, "type": "reference.matched" })).await;
    let agenda = view(&emulator, "run").await["due"].clone();
    assert_eq!(agenda[0]["scenario"], "planned", "{agenda}");
    assert_eq!(agenda[0]["message"], "emit 1 of scenario `planned`: workflow.completed", "{agenda}");
    assert_eq!(agenda.as_array().map(Vec::len), Some(1), "{agenda}");
    ask(&emulator, "POST", "clock", &json!({ "advance": "5s" })).await;
    // Nobody is subscribed.
    ask(&emulator, "POST", "deliveries/wait", &none).await;
}
