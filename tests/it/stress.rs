//! The engine where it is strained: a receiver that hangs while clocks are moved, a storm of emissions, resets and loads under
//! load.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use wrs_emulator::Emulator;
use wrs_emulator::state::journal::Entry;

use crate::support::{
    Answer, Receiver, builder, control, get_as, hook, sized, started, subscribe_as, subscribe_sink, subscribe_url, view,
};

/// An emulator whose deliveries to `https://app.example.com` are taken and not answered.
async fn beside_a_hanging_receiver() -> (Emulator, Receiver) {
    let receiver = Receiver::hanging().await;
    let emulator = started(
        builder().forward(&format!("https://app.example.com=http://{}", receiver.address)).set("webhooks.timeout=300s"),
    )
    .await;
    (emulator, receiver)
}

async fn clock(emulator: &Emulator, payload: &Value) -> Answer {
    control(emulator, "POST", "clock", payload).await
}

#[tokio::test]
async fn a_hanging_receiver_holds_back_its_own_step_and_no_other_clock() {
    let (emulator, mut receiver) = beside_a_hanging_receiver().await;
    for key in ["sk_test_a", "sk_test_b"] {
        let url = if key == "sk_test_a" { "https://app.example.com/" } else { "https://b.sink.localhost/" };
        subscribe_url(&emulator, key, url).await;
        let event = json!({ "type": "workflow.completed", "key": key, "delay": "1s" });
        assert_eq!(control(&emulator, "POST", "events", &event).await.status, 200);
    }
    let step = json!({ "advance": "10s", "key": "sk_test_a", "timeout": "0s" });
    let stuck = clock(&emulator, &step).await;
    assert_eq!((stuck.status, stuck.code().as_str()), (408, "not_settled"), "{stuck:?}");
    receiver.next().await;
    // Another key's clock moves meanwhile, with all that is due on the way.
    let moved = clock(&emulator, &json!({ "advance": "5s", "key": "sk_test_b" })).await;
    assert_eq!((moved.status, &moved.json()["now"]), (200, &json!("2026-01-31T09:30:05.000Z")), "{moved:?}");
    assert_eq!(emulator.control().received("b").len(), 1);
    // A second step of the same clock waits for the first, and says so.
    let second = clock(&emulator, &json!({ "advance": "1s", "key": "sk_test_a", "timeout": "0s" })).await;
    assert_eq!((second.status, second.code().as_str()), (408, "not_settled"), "{second:?}");
    assert!(second.message().contains("2026-01-31T09:30:01.000Z"), "it says how far it is: {}", second.message());
    // Requests of the key are answered as ever.
    assert_eq!(get_as(&emulator, "sk_test_a", "/v1/system/status").await.status, 200);
    receiver.let_one_through();
    // Both steps have gone on: this one comes behind them.
    let done = clock(&emulator, &json!({ "advance": "0s", "key": "sk_test_a" })).await;
    assert_eq!((done.status, &done.json()["now"]), (200, &json!("2026-01-31T09:30:11.000Z")), "{done:?}");
    let delivered = view(&emulator, "deliveries?key=sk_test_a").await;
    assert_eq!((&delivered["data"][0]["status"], &delivered["data"][0]["attempts"]), (&json!("delivered"), &json!(1)));
}

#[tokio::test]
async fn the_emulators_own_step_waits_for_a_hanging_receiver_and_keys_with_a_clock_of_their_own_do_not() {
    let (emulator, mut receiver) = beside_a_hanging_receiver().await;
    subscribe_as(&emulator, "sk_test_a", &hook("https://app.example.com/")).await;
    clock(&emulator, &json!({ "mode": "frozen", "key": "sk_test_b" })).await;
    control(&emulator, "POST", "events", &json!({ "type": "workflow.completed", "key": "sk_test_a", "delay": "1s" }))
        .await;
    let stuck = clock(&emulator, &json!({ "advance": "1h", "timeout": "0s" })).await;
    assert_eq!((stuck.status, stuck.code().as_str()), (408, "not_settled"), "{stuck:?}");
    let moved = clock(&emulator, &json!({ "advance": "5s", "key": "sk_test_b" })).await;
    assert_eq!((moved.status, &moved.json()["now"]), (200, &json!("2026-01-31T09:30:05.000Z")), "{moved:?}");
    receiver.next().await;
    receiver.let_one_through();
    let done = clock(&emulator, &json!({ "advance": "0s" })).await;
    assert_eq!((done.status, &done.json()["now"]), (200, &json!("2026-01-31T10:30:00.000Z")), "{done:?}");
}

#[tokio::test]
async fn finished_deliveries_that_had_to_leave_are_counted_and_told() {
    let emulator = started(builder()).await;
    subscribe_sink(&emulator, "app").await;
    let fire = json!({ "type": "workflow.completed", "count": 5_000 });
    for _ in 0..2 {
        assert_eq!(control(&emulator, "POST", "events", &fire).await.status, 200);
        emulator.control().settle().await;
    }
    let verdict = view(&emulator, "verdict").await;
    assert_eq!(verdict["forgotten_deliveries"], 0, "ten thousand are kept");
    for _ in 0..2 {
        crate::support::fire(&emulator, &json!({ "type": "workflow.completed", "count": 3 })).await;
        emulator.control().settle().await;
    }
    assert_eq!(emulator.control().received("app").len(), 1_000);
    assert_eq!(view(&emulator, "verdict").await["forgotten_deliveries"], 6);
}

/// Under load for every life of every key: requests, events, emissions, retries.
const BUSY: &str = "[[rule]]\nwhen = { operation = 'system.status' }\nevery = 3\ndelay = '2ms'\n\n\
    [[emit]]\nevent = 'workflow.completed'\non = { operation = 'system.status' }\ndelay = '3ms'\ntimes = 2\ninterval = '5ms'\n\n\
    [[emit]]\nevent = 'reference.matched'\non = { every = '20ms' }\n";

async fn be_busy(emulator: Arc<Emulator>, key: String, stop: Arc<AtomicBool>, done: Arc<AtomicUsize>) {
    let url = format!("https://app.example.com/{key}");
    let hook = json!({ "url": url, "events": ["workflow.completed", "reference.matched"] });
    while !stop.load(Ordering::Relaxed) {
        let answers = [
            subscribe_as(&emulator, &key, &hook).await,
            get_as(&emulator, &key, "/v1/system/status").await,
            control(&emulator, "POST", "events", &json!({ "type": "workflow.completed", "key": key })).await,
        ];
        for answer in answers {
            // An event may find its key reset, and so without a subscription.
            assert!([200, 404].contains(&answer.status), "{answer:?}");
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// In the journal each key has entries of its present life alone, and no id of it is given twice.
fn check_ids(emulator: &Emulator) -> usize {
    let entries = emulator.control().journal().search(None, usize::MAX, |_, entry| match entry {
        Entry::Request(request) => {
            let workspace = request.workspace.clone()?;
            Some((workspace, request.transcript.id().to_owned()))
        }
        _ => None,
    });
    let mut seen: HashMap<*const _, HashSet<&str>> = HashMap::new();
    for (workspace, id) in &entries {
        assert!(!workspace.was_reset(), "{id} of a life that is over is in the journal");
        assert!(seen.entry(Arc::as_ptr(workspace)).or_default().insert(id), "{id} was given twice");
    }
    entries.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resets_and_loads_under_load_let_nothing_of_the_old_through() {
    let mut receiver = Receiver::plain(&[500, 200, 500, 503].repeat(50)).await;
    let emulator = started(
        wrs_emulator::Emulator::builder()
            .seed(7)
            .set("rate_limit.enabled=false")
            .set("webhooks.retry.preset=ci")
            .forward(&format!("https://app.example.com=http://{}", receiver.address))
            .scenario_text(BUSY),
    )
    .await;
    let emulator = Arc::new(emulator);
    let keys: Vec<String> = (0..4).map(|number| format!("sk_test_busy_{number}")).collect();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Taken before the load begins: a save waits until running requests have ended.
    subscribe_url(&emulator, &keys[0], "https://app.example.com/saved").await;
    let saved = view(&emulator, "snapshot?key=*").await;
    let workers: Vec<_> = (0..8)
        .map(|at| {
            tokio::spawn(be_busy(Arc::clone(&emulator), keys[at % 4].clone(), Arc::clone(&stop), Arc::clone(&done)))
        })
        .collect();
    let mut looked_at = 0;
    for round in 0..sized(15, 40) {
        // Until some more was done, so that every round has something to interrupt.
        let goal = done.load(Ordering::Relaxed) + 12;
        let busy = async {
            while done.load(Ordering::Relaxed) < goal && !workers.iter().any(tokio::task::JoinHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::support::PATIENCE, busy).await.expect("requests go on");
        looked_at += check_ids(&emulator);
        let answer = match round % 3 {
            0 => control(&emulator, "POST", "reset", &json!({ "key": keys[round % 4] })).await,
            1 => control(&emulator, "PUT", "snapshot", &saved).await,
            _ => control(&emulator, "POST", "reset", &json!({ "key": "*" })).await,
        };
        assert_eq!(answer.status, 200, "round {round}: {answer:?}");
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.expect("no worker found anything wrong");
    }
    assert!(looked_at > 15, "the journal was looked at with something in it: {looked_at}");
    // From here on time stands still but for one step: what waited before the reset must not come in it.
    clock(&emulator, &json!({ "mode": "frozen" })).await;
    emulator.control().settle().await;
    assert_eq!(control(&emulator, "POST", "reset", &json!({ "key": "*" })).await.status, 200);
    clock(&emulator, &json!({ "mode": "frozen" })).await;
    while receiver.try_next().is_some() {}
    let moved = clock(&emulator, &json!({ "advance": "1h" })).await;
    assert_eq!(moved.status, 200, "{moved:?}");
    receiver.nothing_more();
    for listing in ["deliveries?key=*", "subscriptions?key=*"] {
        let listed = view(&emulator, listing).await;
        assert_eq!(listed["data"], json!([]), "{listing}");
    }
}

/// A suite of tests, each with its own settings, may have more keys than may have settings at a time: those of ended keys are taken back.
#[tokio::test]
async fn more_tests_than_keys_may_have_settings_run_in_a_suite() {
    let emulator = started(builder()).await;
    let set = async |key: &str| {
        control(&emulator, "PATCH", &format!("profile?key={key}"), &json!({ "rate_limit.requests": 5 })).await
    };
    assert_eq!(set("sk_test_0").await.status, 200);
    let mut saved = view(&emulator, "snapshot?key=*").await;
    let one = saved["workspaces"][0].clone();
    let numbered = |number: usize| {
        let mut workspace = one.clone();
        workspace["key"] = format!("sk_test_{number}").into();
        workspace
    };
    saved["workspaces"] = (0..1_000).map(numbered).collect();
    assert_eq!(control(&emulator, "PUT", "snapshot", &saved).await.status, 200);
    let refused = set("sk_test_1000").await;
    assert!(refused.status == 422 && refused.message().contains("at most 1000 keys"), "{refused:?}");
    let outcome = json!({ "key": "sk_test_7", "test": "t", "outcome": "passed" });
    assert_eq!(control(&emulator, "POST", "outcome", &outcome).await.status, 200);
    assert_eq!(set("sk_test_1000").await.status, 200);
    for (key, limit) in [("sk_test_7", "100"), ("sk_test_8", "5"), ("sk_test_1000", "5")] {
        let answer = get_as(&emulator, key, "/v1/system/status").await;
        assert_eq!(answer.header("x-ratelimit-limit"), Some(limit), "{key}");
    }
}
