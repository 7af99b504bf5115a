//! Waiting calls: they answer as soon as enough fits, or say what came nearest; nothing that comes meanwhile is missed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    MachineTime, ask, control, fire, get, get_as, hook, refused, start, subscribe, subscribe_sink, view,
};

#[tokio::test]
async fn a_call_waits_for_requests_that_are_yet_to_come() {
    let emulator = start().await;
    get(&emulator, "/v1/system/status").await;
    let payload = json!({ "operation": "system.status", "status": 200, "since": "now", "count": 2, "timeout": "15s" });
    let waiting = control(&emulator, "POST", "requests/wait", &payload);
    let calling = async {
        // The clock stands still: only the order tells what came after the call.
        for n in 0..300 {
            get_as(&emulator, "sk_test_other", &format!("/v1/hello?n={n}")).await;
        }
        loop {
            if get(&emulator, "/v1/system/status").await.status != 200 {
                return;
            }
        }
    };
    let found = tokio::select! {
        found = waiting => found,
        () = calling => unreachable!("the quota is used up and two requests were not found"),
    };
    assert_eq!(found.status, 200, "{found:?}");
    let rows = found.json()["data"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");
    assert!(rows[0]["operation"] == "system.status" && rows[0]["id"] != rows[1]["id"], "{rows}");
    let there = json!({ "path": "/v1/system/status", "method": "get", "count": 3, "timeout": "15s" });
    // What the journal holds counts without `since`.
    ask(&emulator, "POST", "requests/wait", &there).await;
}

/// Nothing wakes a call but what may fit; what came meanwhile is looked at all the same.
#[tokio::test]
async fn what_came_while_a_call_waited_in_vain_is_among_the_nearest() {
    let emulator = start().await;
    let time = MachineTime::stop();
    let payload = json!({ "key": "*", "since": "now", "path": "/v1/hello", "status": 422, "timeout": "50ms" });
    let waiting = control(&emulator, "POST", "requests/wait", &payload);
    let calling = async {
        // Whether the call has begun is not to be seen from outside, so requests come for as long as it lasts.
        while get(&emulator, "/v1/hello").await.status == 200 {
            time.passes(Duration::from_millis(1)).await;
        }
    };
    let late = tokio::select! {
        late = waiting => late,
        () = calling => unreachable!("hello is always answered"),
    };
    assert_eq!(late.status, 408, "{late:?}");
    assert_eq!(late.json()["nearest"][0]["differs"], json!(["status: expected 422, found 200"]));
}

#[tokio::test]
async fn a_call_that_waits_in_vain_says_what_came_nearest() {
    let emulator = start().await;
    get(&emulator, "/v1/hello").await;
    get(&emulator, "/v1/system/status?include_checks=x").await;
    let payload = json!({ "key": "*", "operation": "system.status", "status": 200, "timeout": "0s" });
    let late = control(&emulator, "POST", "requests/wait", &payload).await;
    assert_eq!((late.status, late.code().as_str()), (408, "request_timeout"));
    assert!(late.message().starts_with("0 of 1 requests matched within 0 s"), "{}", late.message());
    let nearest = &late.json()["nearest"];
    assert_eq!(nearest[0]["differs"], json!(["status: expected 200, found 422"]));
    assert_eq!(nearest[0]["request"]["operation"], "system.status");
    assert_eq!(nearest[1]["differs"], json!(["operation: expected system.status, found hello"]), "{nearest}");
    let before = json!({ "key": "*", "since": "now", "timeout": "0s" });
    let nothing = control(&emulator, "POST", "requests/wait", &before).await;
    assert_eq!((nothing.status, nothing.json()["nearest"].clone()), (408, json!([])));
    for (body, said) in [
        (json!({ "operation": "system.statsu" }), "did you mean `system.status`?"),
        (json!({ "status": 20 }), "status: expected 100 to 599"),
        (json!({ "count": 0 }), "count: expected 1 to 10000"),
        (json!({ "since": "yesterday" }), "since: expected `now` or a timestamp"),
        (json!({ "timeout": "1h" }), "timeout: at most 300s"),
        (json!({ "opration": "hello" }), "unknown field `opration`"),
    ] {
        refused(&emulator, "POST", "requests/wait", &body, 422, said).await;
    }
}

#[tokio::test]
async fn requests_are_listed_from_a_time_on() {
    let emulator = start().await;
    get(&emulator, "/v1/system/status").await;
    control(&emulator, "POST", "clock", &json!({ "advance": "10s" })).await;
    get(&emulator, "/v1/hello").await;
    get(&emulator, "/v1/system/status").await;
    for (since, count) in
        [("2026-01-31T09:30:00Z", 3), ("2026-01-31T09:30:10Z", 2), ("2027-01-01T00:00:00Z", 0), ("now", 0)]
    {
        let page = view(&emulator, &format!("requests?key=*&since={since}")).await;
        assert_eq!(page["data"].as_array().map(Vec::len), Some(count), "{since}: {page}");
    }
    let wrong = control(&emulator, "GET", "requests?since=soon", &Value::Null).await;
    assert_eq!(wrong.status, 422);
}

/// A delivery that is pending fits a wait for pending ones, and no longer when it ends.
#[tokio::test]
async fn a_call_follows_deliveries_from_state_to_state() {
    let emulator = start().await;
    let hook = hook("https://retry.sink.localhost/h");
    subscribe(&emulator, &hook).await;
    control(&emulator, "POST", "sink/retry", &json!({ "respond": [500] })).await;
    let wait = |status: &str| json!({ "status": status, "timeout": "15s" });
    let event = json!({ "type": "workflow.completed" });
    let (payload, later) = (wait("pending"), wait("delivered"));
    let (first, _) = tokio::join!(control(&emulator, "POST", "deliveries/wait", &payload), fire(&emulator, &event));
    let step = json!({ "advance": "2s" });
    let last = control(&emulator, "POST", "deliveries/wait", &later);
    let (last, _) = tokio::join!(last, control(&emulator, "POST", "clock", &step));
    assert_eq!((first.status, last.status), (200, 200));
    assert_eq!(first.json()["data"][0]["id"], last.json()["data"][0]["id"]);
    assert_eq!(last.json()["data"][0]["attempts"], 2);
    let gone = json!({ "status": "pending", "timeout": "0s" });
    let late = control(&emulator, "POST", "deliveries/wait", &gone).await;
    assert_eq!((late.status, late.message().split(" deliveries").next()), (408, Some("0 of 1")));
    let nearest = &late.json()["nearest"][0];
    assert_eq!(nearest["differs"], json!(["status: expected pending, found delivered"]));
    assert_eq!(nearest["delivery"]["type"], "workflow.completed");
    subscribe_sink(&emulator, "other").await;
    fire(&emulator, &json!({ "type": "reference.matched" })).await;
    let page = view(&emulator, "deliveries?type=reference.matched").await;
    assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{page}");
}

/// Waiting for what cannot be, or proving its absence, would prove nothing.
#[tokio::test]
async fn a_filter_that_no_delivery_can_have_is_refused() {
    let emulator = start().await;
    for (filter, status, why) in [
        (
            json!({ "type": "workflow.complete" }),
            404,
            "type: unsupported event type \"workflow.complete\"; did you mean `workflow.completed`?",
        ),
        (json!({ "event": "workflow.completed" }), 422, "an event type is `type`"),
        (json!({ "subscription": "sub_typo" }), 404, "subscription: there is no `sub_typo`"),
    ] {
        for how in [json!({ "none": true }), json!({ "timeout": "0s" })] {
            let mut body = filter.clone();
            body.as_object_mut().expect("an object").extend(how.as_object().cloned().unwrap_or_default());
            let answer = control(&emulator, "POST", "deliveries/wait", &body).await;
            assert_eq!(answer.status, status, "{body}: {answer:?}");
            assert!(answer.message().contains(why), "{}", answer.message());
        }
    }
    let known = json!({ "type": "reference.matched", "none": true });
    assert_eq!(control(&emulator, "POST", "deliveries/wait", &known).await.status, 200);
}
