//! The clock over the control API: frozen, set, advanced and resumed, for the emulator and for one key; due events happen,
//! in order, when a call returns.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{
    KEY, PATIENCE, START, ask, builder, control, fire, get_as, next_due, refused, start, started, subscribe_sink, view,
    with_receiver,
};

async fn move_clock(emulator: &Emulator, payload: &Value) -> Value {
    ask(emulator, "POST", "clock", payload).await
}

async fn checked_at(emulator: &Emulator, key: &str) -> String {
    let answer = get_as(emulator, key, "/v1/system/status").await;
    answer.json()["checked_at"].as_str().expect("a time").to_owned()
}

/// The attempts of the only delivery, as seconds after the start.
async fn attempts(emulator: &Emulator, key: &str) -> Vec<i64> {
    let listed = view(emulator, &format!("deliveries?key={key}")).await;
    let id = listed["data"][0]["id"].as_str().expect("a delivery");
    let shown = view(emulator, &format!("deliveries/{id}")).await;
    let at = |attempt: &Value| attempt["at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a timestamp");
    shown["attempts"]
        .as_array()
        .expect("attempts")
        .iter()
        .map(|attempt| at(attempt).as_second() - START.as_second())
        .collect()
}

#[tokio::test]
async fn a_three_day_retry_schedule_is_over_when_the_call_returns() {
    let builder = builder()
        .set("webhooks.retry.preset=custom")
        .set("webhooks.retry.schedule=[\"1h\", \"23h\", \"24h\", \"23h\"]");
    let (emulator, mut receiver) = with_receiver(builder, &[500, 500, 500, 500, 200]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let moved = move_clock(&emulator, &json!({ "advance": "72h" })).await;
    assert_eq!(moved, json!({ "mode": "frozen", "now": "2026-02-03T09:30:00.000Z" }));
    // Nothing is waited for: the five attempts are done, each at its own time.
    assert_eq!(attempts(&emulator, KEY).await, [0, 3_600, 86_400, 172_800, 255_600]);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(
            receiver.next().await.header("webhook-timestamp").parse::<i64>().expect("seconds") - START.as_second(),
        );
    }
    assert_eq!(seen, [0, 3_600, 86_400, 172_800, 255_600]);
}

#[tokio::test]
async fn a_move_in_steps_says_what_is_left_and_when_something_is_due() {
    let builder = builder().scenario_text("[[rule]]\nwhen = { operation = 'system.status' }\ndelay = '30s'\n");
    let (emulator, mut receiver) = with_receiver(builder, &[500, 200]).await;
    let emulator = std::sync::Arc::new(emulator);
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let step = async |of: Value, step: &str| {
        let mut of = of;
        of["step"] = json!(step);
        let moved = move_clock(&emulator, &of).await;
        [&moved["now"], &moved["left_ms"], &moved["due_in_ms"], &moved["held"]].map(Clone::clone)
    };
    let at = |second| json!(format!("2026-01-31T09:30:{second}.000Z"));
    assert_eq!(step(json!({ "advance": "40s" }), "0").await, [at("00"), json!(40_000.0), json!(1_000), json!(0)]);
    assert_eq!(step(json!({ "advance": "40s" }), "1s").await, [at("01"), json!(39_000.0), Value::Null, json!(0)]);
    receiver.next().await;
    receiver.next().await;
    let waiting = tokio::spawn({
        let emulator = std::sync::Arc::clone(&emulator);
        async move { get_as(&emulator, KEY, "/v1/system/status").await }
    });
    while view(&emulator, "run").await["due"].as_array().is_none_or(Vec::is_empty) {}
    let until = json!({ "set": "2026-01-31T09:30:40Z" });
    assert_eq!(step(until.clone(), "0").await, [at("01"), json!(39_000.0), json!(30_000), json!(1)]);
    assert_eq!(step(until.clone(), "30s").await, [at("31"), json!(9_000.0), Value::Null, json!(0)]);
    assert_eq!(waiting.await.expect("an answer").status, 200);
    assert_eq!(step(until, "1h").await, [at("40"), json!(0.0), Value::Null, json!(0)]);
    let both = json!({ "mode": "real", "step": "1s" });
    refused(&emulator, "POST", "clock", &both, 422, "step: goes with `advance` or `set`").await;
}

#[tokio::test]
async fn a_running_clock_moves_on_and_can_be_stopped() {
    let emulator = started(Emulator::builder().seed(7)).await;
    let before: jiff::Timestamp = checked_at(&emulator, KEY).await.parse().expect("a timestamp");
    let moved = move_clock(&emulator, &json!({ "advance": "1h" })).await;
    assert_eq!(moved["mode"], "real");
    assert!(moved["ahead_ms"].as_i64().is_some_and(|ahead| (3_600_000..3_700_000).contains(&ahead)), "{moved}");
    let after: jiff::Timestamp = checked_at(&emulator, KEY).await.parse().expect("a timestamp");
    assert!(after.duration_since(before) >= jiff::SignedDuration::from_hours(1));
    let frozen = move_clock(&emulator, &json!({ "mode": "frozen" })).await;
    assert_eq!(
        (&frozen["mode"], checked_at(&emulator, KEY).await),
        (&json!("frozen"), frozen["now"].as_str().expect("a time").to_owned())
    );
    assert_eq!(move_clock(&emulator, &json!({ "mode": "real" })).await["mode"], "real");
}

#[tokio::test]
async fn emissions_and_delayed_answers_happen_on_the_way() {
    let story = "[[rule]]\nwhen = { operation = 'system.status' }\ndelay = '30s'\n\n[[emit]]\nevent = 'workflow.completed'\non = { after = '40s' }\ntimes = 3\ninterval = '10s'\n";
    let emulator = std::sync::Arc::new(started(builder().scenario_text(story)).await);
    subscribe_sink(&emulator, "app").await;
    let waiting = tokio::spawn({
        let emulator = std::sync::Arc::clone(&emulator);
        async move { get_as(&emulator, KEY, "/v1/system/status").await }
    });
    let waits = async {
        while emulator.control().next_due(KEY).map(|due| due.since_start().as_secs()) != Some(30) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("the request waits");
    move_clock(&emulator, &json!({ "advance": "65s" })).await;
    let received = emulator.control().received("app");
    let times: Vec<i64> = received.iter().map(|receipt| receipt.at.as_second() - START.as_second()).collect();
    assert_eq!(times, [40, 50, 60]);
    let listed = view(&emulator, "requests?operation=system.status").await;
    assert_eq!(listed["data"][0]["latency_ms"], 30_000.0);
    assert_eq!(waiting.await.expect("it is answered").status, 200);
}

/// Much data makes the event late; the answer of 410 that comes at the same moment is quick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_at_a_moment_comes_before_what_is_sent_then() {
    let many = vec!["{{ ulid() }}"; 450];
    let story =
        format!("[[emit]]\nevent = 'workflow.completed'\non = {{ after = '10s' }}\ndata = {{ many = {many:?} }}\n");
    let builder = builder().set("webhooks.retry.preset=custom").set("webhooks.retry.schedule=[\"10s\"]");
    let (emulator, mut receiver) = with_receiver(builder.scenario_text(story), &[500, 410]).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    move_clock(&emulator, &json!({ "advance": "10s" })).await;
    let listed = view(&emulator, "subscriptions").await;
    assert_eq!(listed["data"][0]["status"], "disabled");
    let deliveries = view(&emulator, "deliveries").await;
    assert_eq!(deliveries["data"].as_array().map(Vec::len), Some(2), "{deliveries}");
    receiver.next().await;
    receiver.next().await;
}

#[tokio::test]
async fn an_answer_that_drips_ends_within_one_step() {
    let story = "[[rule]]\nwhen = { operation = 'hello' }\nfault = { kind = 'drip', bytes = 10, interval = '1s' }\n";
    let emulator = std::sync::Arc::new(started(builder().scenario_text(story)).await);
    let dripping = tokio::spawn({
        let emulator = std::sync::Arc::clone(&emulator);
        async move { get_as(&emulator, KEY, "/v1/hello").await }
    });
    next_due(&emulator).await;
    move_clock(&emulator, &json!({ "advance": "1m" })).await;
    let answer = dripping.await.expect("it is answered");
    assert_eq!(answer.json()["message"], "Hello, world!");
}

#[tokio::test]
async fn bad_wishes_are_refused_and_change_nothing() {
    let emulator = start().await;
    for (payload, said) in [
        (json!({}), "expected `mode`"),
        (json!({ "mode": "frozen", "advance": "1s" }), "cannot be changed in one call"),
        (json!({ "advance": "soon" }), "advance: "),
        (json!({ "advance": "-5s" }), "advance: "),
        (json!({ "advance": "4000d" }), "at most ten years"),
        (json!({ "set": "yesterday" }), "set: expected a timestamp"),
        (json!({ "set": "2037-01-31T09:30:00Z" }), "more than ten years from the clock"),
        (json!({ "set": "2015-01-31T09:30:00Z" }), "more than ten years from the clock"),
        (json!({ "set": "1969-12-31T23:59:59Z" }), "set: 1969-12-31T23:59:59Z is before 1970"),
        (json!({ "mode": "follow" }), "follows no other"),
        (json!({ "mode": "still" }), "expected one of `real`, `frozen`, `auto`, `follow`"),
        (json!({ "advance": "1s", "by": 1 }), "unknown field `by`"),
        (json!({ "advance": "1s", "timeout": "1h" }), "at most"),
    ] {
        refused(&emulator, "POST", "clock", &payload, 422, said).await;
    }
    let unknown = control(&emulator, "POST", "clock", &json!({ "advance": "1s", "key": "nobody" })).await;
    assert_eq!(
        (unknown.status, unknown.message().as_str()),
        (404, "`nobody` is not an API key: keys begin with `sk_test_`")
    );
    assert_eq!(emulator.control().clock().now().wall, START);
}
