//! Subscriptions over the control API: shown, changed under the rules of a client's subscribe, stopped and resumed.

use serde_json::{Value, json};

use crate::support::{ask, control, fire, refused, start, start_with, subscribe, subscribe_sink, view};

#[tokio::test]
async fn a_subscription_is_shown_and_changed_field_by_field() {
    let emulator = start().await;
    let made = subscribe_sink(&emulator, "app").await;
    let path = format!("subscriptions/{}", made["id"].as_str().expect("an id"));
    let shown = view(&emulator, &path).await;
    assert_eq!((&shown["status"], &shown["signing_secrets"]), (&json!("active"), &json!(1)));
    assert!(shown["workspace"].as_str().is_some_and(|id| id.starts_with("ws_")) && shown["secret"].is_null());
    let payload =
        json!({ "url": "https://other.sink.localhost/x", "events": ["reference.matched"], "description": "d" });
    let changed = ask(&emulator, "PUT", &path, &payload).await;
    for field in ["url", "events", "description"] {
        assert_eq!(changed[field], payload[field], "{field}");
    }
    for field in ["id", "created_at", "status", "workspace", "signing_secrets"] {
        assert_eq!(changed[field], shown[field], "{field}");
    }
    let fired = fire(&emulator, &json!({ "type": "reference.matched" })).await;
    assert_eq!(fired["deliveries"][0]["url"], "https://other.sink.localhost/x", "{fired}");
    let cleared = control(&emulator, "PUT", &path, &json!({ "description": null })).await.json();
    assert_eq!((&cleared["description"], &cleared["url"]), (&Value::Null, &payload["url"]));
    let again = subscribe(&emulator, &json!({ "url": payload["url"], "events": ["workflow.completed"] })).await.json();
    assert_eq!(again["id"], made["id"], "a client that subscribes to the new URL updates it");
    let old = subscribe_sink(&emulator, "app").await;
    assert_ne!(old["id"], made["id"], "the old URL is free");
}

#[tokio::test]
async fn a_lost_secret_is_shown_on_request_alone() {
    let emulator = start().await;
    let made = subscribe_sink(&emulator, "app").await;
    let secret = made["secret"].as_str().expect("a secret");
    let path = format!("subscriptions/{}", made["id"].as_str().expect("an id"));
    let shown = view(&emulator, &format!("{path}?secret=true")).await;
    assert_eq!((&shown["id"], &shown["secret"]), (&made["id"], &made["secret"]));
    for other in [&*path, &format!("{path}?secret=false"), "subscriptions", "requests", "run", "stream?kind=none"] {
        let answer = control(&emulator, "GET", other, &Value::Null).await;
        assert!(!format!("{answer:?}").contains(secret), "{other}: {answer:?}");
    }
    let refused = control(&emulator, "GET", &format!("{path}?secret=yes"), &Value::Null).await;
    assert_eq!((refused.status, refused.message().as_str()), (422, "secret: expected true or false, found `yes`"));
    let rotated = control(&emulator, "POST", &format!("{path}/rotate"), &json!({})).await.json();
    let shown = view(&emulator, &format!("{path}?secret=true")).await;
    assert_eq!((&shown["secret"], &shown["signing_secrets"]), (&rotated["secret"], &json!(2)), "the newer one");
}

#[tokio::test]
async fn wrong_changes_are_refused_like_a_clients() {
    let emulator = start().await;
    let path = format!("subscriptions/{}", subscribe_sink(&emulator, "app").await["id"].as_str().expect("an id"));
    subscribe_sink(&emulator, "other").await;
    let before = view(&emulator, &path).await;
    for (body, said) in [
        (json!({ "url": "http://plain.example" }), "url: must use https"),
        (json!({ "url": "https://other.sink.localhost/hooks" }), "url: is the URL of another subscription"),
        (json!({ "events": [] }), "events: must not be empty"),
        (json!({ "events": ["workflow.complete"] }), "unsupported event type \"workflow.complete\""),
        (json!({ "status": "paused" }), "unknown variant `paused`, expected `active` or `disabled`"),
        (json!({ "secret": "x" }), "unknown field `secret`"),
        (json!({ "description": 5 }), "description: must be a string"),
        (json!({ "status": "disabled", "events": ["x"] }), "unsupported event type"),
    ] {
        refused(&emulator, "PUT", &path, &body, 422, said).await;
    }
    assert_eq!(view(&emulator, &path).await, before, "nothing was changed");
    for method in ["GET", "PUT"] {
        let answer = control(&emulator, method, "subscriptions/sub_x", &json!({})).await;
        assert_eq!(answer.status, 404, "{method}");
    }
    let never = start_with(&["subscriptions.upsert=never"]).await;
    let path = format!("subscriptions/{}", subscribe_sink(&never, "app").await["id"].as_str().expect("an id"));
    subscribe_sink(&never, "other").await;
    // URLs may repeat when subscribing never updates.
    ask(&never, "PUT", &path, &json!({ "url": "https://other.sink.localhost/hooks" })).await;
}
