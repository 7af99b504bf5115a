//! Resets: one key, or everything, as before the first request; and requests under way meanwhile leave no trace.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::{
    KEY, PATIENCE, activate, ask, builder, control, get_as, hook, notices, put_scenario, start_with, started,
    subscribe, subscribe_as, subscribe_sink, subscribe_url, view, with_receiver,
};

#[tokio::test]
async fn a_reset_key_begins_anew_and_others_do_not_notice() {
    let emulator = start_with(&["rate_limit.requests=9"]).await;
    let hook = hook("https://app.sink.localhost/");
    let mut first = Vec::new();
    for key in [KEY, "sk_test_b"] {
        let subscribed = subscribe_as(&emulator, key, &hook).await;
        first.push((subscribed.json(), subscribed.header("x-emulator-request-id").expect("an id").to_owned()));
        assert_eq!(get_as(&emulator, key, "/v1/system/status").await.header("x-ratelimit-remaining"), Some("7"));
        control(&emulator, "POST", "scenarios/active", &json!({ "active": ["always-422"], "key": key })).await;
        control(&emulator, "POST", "clock", &json!({ "advance": "1s", "key": key })).await;
        control(&emulator, "POST", "events?wait=5s", &json!({ "type": "workflow.completed", "key": key })).await;
    }
    let answer = control(&emulator, "POST", "reset", &json!({ "key": KEY })).await;
    assert_eq!((answer.status, answer.json()["reset"].as_array().map(Vec::len)), (200, Some(1)), "{answer:?}");
    for (listing, before) in [("requests", 2), ("deliveries", 1), ("subscriptions", 1)] {
        for (key, expected) in [(KEY, 0), ("sk_test_b", before)] {
            let listed = view(&emulator, &format!("{listing}?key={key}")).await;
            assert_eq!(listed["data"].as_array().map(Vec::len), Some(expected), "{listing} of {key}: {listed}");
        }
    }
    // The same again, to the last byte: the random source has begun anew too.
    let again = subscribe(&emulator, &hook).await;
    assert_eq!((again.json(), again.header("x-emulator-request-id").expect("an id").to_owned()), first[0]);
    let status = get_as(&emulator, KEY, "/v1/system/status").await;
    assert_eq!((status.status, status.header("x-ratelimit-remaining")), (200, Some("7")));
    assert_eq!(status.json()["checked_at"], "2026-01-31T09:30:00.000Z");
    assert_eq!(get_as(&emulator, "sk_test_b", "/v1/system/status").await.status, 422);
}

#[tokio::test]
async fn a_reset_of_all_is_as_after_the_start() {
    let emulator = started(builder().scenario("quota-exhaustion")).await;
    subscribe_sink(&emulator, "app").await;
    crate::support::fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let text = "[[rule]]\nwhen = { operation = 'hello' }\nreply = { status = 422, message = 'no' }\n";
    put_scenario(&emulator, "mine", text).await;
    activate(&emulator, &["mine"], None).await;
    control(&emulator, "POST", "clock", &json!({ "advance": "1h" })).await;
    ask(&emulator, "POST", "reset", &json!({ "key": "*" })).await;
    let scenarios = view(&emulator, "scenarios").await;
    assert_eq!(scenarios["active"], json!(["quota-exhaustion"]));
    assert_eq!(control(&emulator, "GET", "scenarios/mine", &Value::Null).await.status, 404);
    assert_eq!(view(&emulator, "clock").await["now"], "2026-01-31T09:30:00.000Z");
    for listing in ["requests?key=*", "deliveries?key=*", "subscriptions?key=*", "sink/app"] {
        assert_eq!(view(&emulator, listing).await["data"], json!([]), "{listing}");
    }
    // The scenario plays from its beginning.
    let statuses = async |count: usize| {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(get_as(&emulator, KEY, "/v1/system/status").await.status);
        }
        statuses
    };
    let played = statuses(6).await;
    control(&emulator, "POST", "reset", &json!({ "key": "*" })).await;
    assert_eq!(statuses(6).await, played);
    assert!(played.contains(&200) && played.contains(&429), "{played:?}");
}

#[tokio::test]
async fn a_reset_of_all_names_the_keys_in_the_order_of_their_ids() {
    let emulator = started(builder()).await;
    for number in 0..12 {
        get_as(&emulator, &format!("sk_test_{number}"), "/v1/system/status").await;
    }
    let ids = |answer: &Value| answer["reset"].as_array().expect("a list").clone();
    let reset = ids(&ask(&emulator, "POST", "reset", &json!({ "key": "*" })).await);
    assert_eq!(reset.len(), 12);
    assert!(reset.is_sorted_by_key(|id| id.as_str()), "{reset:?}");
}

#[tokio::test]
async fn what_was_under_way_does_not_come_through() {
    let (emulator, mut receiver) = with_receiver(builder(), &[500]).await;
    crate::support::fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    receiver.next().await;
    control(&emulator, "POST", "reset", &json!({})).await;
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    // The retries of before would be due now.
    control(&emulator, "POST", "clock", &json!({ "advance": "1h" })).await;
    receiver.nothing_more();
    let listed = view(&emulator, "deliveries").await;
    assert_eq!(listed["data"], json!([]));
    // And what comes now is delivered once.
    crate::support::fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    receiver.next().await;
    receiver.nothing_more();
}

/// A reset key makes the same ids again; an attempt of before that ends late must not be taken for one of the new delivery.
#[tokio::test]
async fn an_attempt_that_outlives_its_workspace_does_not_touch_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let forward = format!("https://app.example.com=http://{}", listener.local_addr().expect("an address"));
    let emulator = started(builder().forward(&forward)).await;
    let hook = hook("https://app.example.com/");
    let mut attempts = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..2 {
        control(&emulator, "POST", "reset", &json!({})).await;
        assert_eq!(subscribe(&emulator, &hook).await.status, 200);
        let fired = control(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await.json();
        ids.push(fired["events"][0]["deliveries"][0]["id"].as_str().expect("an id").to_owned());
        let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.expect("an attempt in time").expect("a peer");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
        attempts.push(stream);
    }
    assert_eq!(ids[0], ids[1], "the case is there");
    // The first one ends now, then the second: both fail, and only the second is to be repeated.
    for mut stream in attempts {
        let answer = b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("the answer is taken");
        let _ = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("the end in time");
    }
    let payload = json!({ "status": "pending", "timeout": "10s" });
    let tried = async {
        loop {
            // It is still to be repeated.
            ask(&emulator, "POST", "deliveries/wait", &payload).await;
            let shown = view(&emulator, &format!("deliveries/{}", ids[1])).await;
            if shown["attempts"].as_array().is_some_and(|attempts| attempts.len() == 1) {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    let shown = timeout(PATIENCE, tried).await.expect("the attempt is noted");
    assert_eq!((&shown["status"], emulator.control().deliveries().pending()), (&json!("pending"), 1), "{shown}");
    control(&emulator, "POST", "reset", &json!({ "key": "*" })).await;
    assert_eq!(emulator.control().deliveries().pending(), 0);
}

#[tokio::test]
async fn more_keys_than_are_kept_let_the_longest_unused_go() {
    let emulator = started(builder().configure(|settings| settings.max_workspaces = 50)).await;
    let hook = hook("https://app.sink.localhost/");
    for number in 0..120 {
        let key = format!("sk_test_many_{number}");
        emulator.control().clock().advance(std::time::Duration::from_millis(1));
        assert_eq!(subscribe_as(&emulator, &key, &hook).await.status, 200);
    }
    let listed = view(&emulator, "subscriptions?key=*").await;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(50));
    let forgotten = notices(&emulator, false).into_iter().filter(|message| message.contains("was forgotten"));
    assert_eq!(forgotten.count(), 70);
    // A key that comes back finds an empty workspace, in which events are delivered.
    assert_eq!(subscribe_as(&emulator, "sk_test_many_0", &hook).await.status, 200);
    let fired =
        crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "key": "sk_test_many_0" })).await;
    assert_eq!(fired["deliveries"][0]["status"], "delivered");
}
