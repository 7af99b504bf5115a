//! `POST /v1/events/subscribe`: bodies, URLs, upsert, secrets.

use serde_json::{Value, json};

use crate::support::{hook, send, start, subscribe, view};

// proves SUBSCRIBE_200 SUBSCRIPTION_ID SUBSCRIPTION_URL SUBSCRIPTION_EVENTS SUBSCRIPTION_STATUS
// proves SUBSCRIPTION_CREATED_AT SUBSCRIBE_SECRET SECRET_ONCE SECRET_FIELD PATH_VERSION
#[tokio::test]
async fn a_subscription_has_the_published_fields_and_its_secret_once() {
    let emulator = start().await;
    let body = json!({ "url": "https://app.example.com/hooks", "events": ["workflow.completed", "reference.matched"], "description": "orders" });
    let first = subscribe(&emulator, &body).await;
    assert_eq!(first.status, 200);
    let made = first.json();
    assert_eq!(
        made.as_object().expect("an object").keys().collect::<Vec<_>>(),
        ["id", "url", "events", "status", "created_at", "secret"]
    );
    assert!(made["id"].as_str().is_some_and(|id| id.starts_with("sub_") && id.len() == 30));
    assert_eq!((&made["status"], &made["created_at"]), (&json!("active"), &json!("2026-01-31T09:30:00.000Z")));
    let secret = made["secret"].as_str().expect("a secret");
    let raw = secret.strip_prefix("whsec_").expect("the prefix");
    assert_eq!(raw.len(), 44);
    emulator.control().clock().advance(std::time::Duration::from_mins(1));
    let again = subscribe(&emulator, &hook("HTTPS://APP.example.com:443/hooks")).await.json();
    assert_eq!((&again["id"], &again["created_at"]), (&made["id"], &made["created_at"]));
    assert_eq!(again["events"], json!(["workflow.completed"]));
    assert_eq!(again["url"], "HTTPS://APP.example.com:443/hooks");
    assert_eq!(again.get("secret"), None);
}

// proves SUBSCRIBE_FIELDS SECRET_ONCE
#[tokio::test]
async fn a_supplied_secret_is_never_sent_back() {
    let emulator = start().await;
    for secret in ["a plain secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        let body = json!({ "url": "https://x.example/", "events": ["workflow.completed"], "secret": secret });
        let answer = subscribe(&emulator, &body).await;
        assert_eq!((answer.status, answer.json().get("secret")), (200, None));
    }
}

// proves SUBSCRIBE_FIELDS SUBSCRIBE_422 UNSUPPORTED_TYPE HTTPS
#[tokio::test]
async fn wrong_bodies_are_422_naming_every_field() {
    let emulator = start().await;
    let with = |field: &str, value: Value| {
        let mut body = hook("https://x.example");
        body[field] = value;
        body
    };
    for (body, said) in [
        (json!({}), "url: is required; events: is required"),
        (hook("http://x.example/"), "url: must use https"),
        (hook("https://u:p@x.example/"), "url: must not contain user information"),
        (hook("https://x.example/#a"), "url: must not contain a fragment"),
        (hook("https://x.example/ä b"), "url: must not contain spaces"),
        (hook("https://x.example:0/"), "url: must not use port 0"),
        (hook(&format!("https://x.example/{}", "a".repeat(2048))), "url: must be at most 2048"),
        (hook("nonsense"), "url: must be an absolute https URL"),
        (with("events", json!([])), "events: must not be empty"),
        (with("events", json!("workflow.completed")), "events: must be a list"),
        (with("events", json!(["workflow.started"])), "events[0]: unsupported event type"),
        (
            with("events", json!(["x", 3, "workflow.complete"])),
            "events[1]: must be a string, found a number; events[2]: unsupported event type \"workflow.complete\"; did you mean `workflow.completed`? supported: workflow.completed, reference.matched",
        ),
        (
            json!({ "url": 1, "event": [] }),
            "url: must be a string, found a number; events: is required; there is a field `event`, did you mean `events`?",
        ),
        (
            json!({ "uri": "https://x.example", "events": ["workflow.completed"] }),
            "url: is required; there is a field `uri`, did you mean `url`?",
        ),
        (with("events", json!([1])), "events[0]: must be a string"),
        (with("secret", json!("")), "secret: must not be empty"),
        (with("secret", json!("whsec_!!")), "secret:"),
        (with("secret", json!(5)), "secret: must be a string"),
        (with("description", json!({})), "description: must be a string"),
    ] {
        let answer = subscribe(&emulator, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "validation_error"), "{body}");
        assert!(answer.message().contains(said), "{body}: {}", answer.message());
    }
    let kept = view(&emulator, "subscriptions").await;
    assert_eq!(kept["data"], json!([]), "a refused request leaves nothing behind");
}

// proves SUBSCRIBE_TYPE
#[tokio::test]
async fn the_content_type_must_be_json() {
    let emulator = start().await;
    let key = ("authorization", "Bearer sk_test_local");
    let body = hook("https://x.example/").to_string();
    for (types, status) in [
        (&["application/json"][..], 200),
        (&["application/json; charset=utf-8"], 200),
        (&["APPLICATION/JSON"], 200),
        (&[], 422),
        (&["text/plain"], 422),
        (&["application/json", "application/json"], 422),
        (&["application/x-www-form-urlencoded"], 422),
    ] {
        let headers: Vec<_> = std::iter::once(key).chain(types.iter().map(|value| ("content-type", *value))).collect();
        let answer = send(&emulator, "POST", "/v1/events/subscribe", &headers, body.clone()).await;
        assert_eq!(answer.status, status, "{types:?}");
    }
}

#[tokio::test]
async fn unicode_duplicates_and_boundaries_are_taken_as_they_are() {
    let emulator = start().await;
    let headers = [("authorization", "Bearer sk_test_local"), ("content-type", "application/json")];
    let body = r#"{"url":"https://old.example","url":"https://bücher.example/ü?q=%C3%BC","events":["workflow.completed","workflow.completed"],"description":"\u0000 🦀","secret":null}"#;
    let answer = send(&emulator, "POST", "/v1/events/subscribe", &headers, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let made = answer.json();
    assert_eq!(made["url"], "https://bücher.example/ü?q=%C3%BC");
    assert_eq!(made["events"], json!(["workflow.completed"]));
    let twin = subscribe(&emulator, &hook("https://xn--bcher-kva.example/%C3%BC?q=%C3%BC")).await.json();
    assert_eq!(twin["id"], made["id"], "the two spellings are one URL");
    let longest = format!("https://x.example/{}", "a".repeat(2048 - 18));
    assert_eq!(subscribe(&emulator, &hook(&longest)).await.status, 200);
}

#[tokio::test]
async fn a_secret_that_libraries_may_read_otherwise_is_warned_about() {
    let emulator = start().await;
    for (secret, said) in [("short", "16"), ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "")] {
        let body = json!({ "url": "https://x.example/", "events": ["workflow.completed"], "secret": secret });
        let answer = subscribe(&emulator, &body).await;
        let id = answer.header("x-emulator-request-id").expect("an id").to_owned();
        let why = view(&emulator, &format!("explain/{id}")).await.to_string();
        assert_eq!(why.contains("warning: "), !said.is_empty(), "{why}");
        assert!(why.contains(said), "{why}");
    }
}
