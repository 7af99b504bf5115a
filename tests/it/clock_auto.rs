//! The clock mode `auto`: while a call waits, time passes by itself from one due instant to the next, and never while something is in
//! flight.

use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use wrs_emulator::{Builder, Emulator};

use crate::support::{
    KEY, MachineTime, PATIENCE, Receiver, START, activate, ask, control, fire, get_as, notices, put_scenario, started,
    subscribe_sink, subscribe_url, view,
};
use crate::wire::peer::Peer;

const OTHER: &str = "sk_test_other";

fn auto() -> Builder {
    Emulator::builder().seed(7).auto_from(START)
}

/// Retries after an hour and again after 71; the subscription's receiver answers these statuses.
async fn retrying(builder: Builder, statuses: &[u16]) -> Emulator {
    let builder = builder.set("webhooks.retry.preset=custom").set("webhooks.retry.schedule=[\"1h\", \"71h\"]");
    let emulator = started(builder).await;
    subscribe_sink(&emulator, "app").await;
    ask(&emulator, "POST", "sink/app", &json!({ "respond": statuses })).await;
    emulator
}

/// Seconds from the start to the time that a clock shows; the emulator's without a key.
async fn passed(emulator: &Emulator, key: Option<&str>) -> i64 {
    let path = key.map_or_else(|| "clock".to_owned(), |key| format!("clock?key={key}"));
    let clock = view(emulator, &path).await;
    assert_eq!(clock["mode"], "auto", "{clock}");
    let now: jiff::Timestamp = clock["now"].as_str().expect("a time").parse().expect("a timestamp");
    now.as_second() - START.as_second()
}

async fn wait_for_status(emulator: &Emulator, status: &str, timeout: &str) -> u16 {
    let wanted = json!({ "key": KEY, "status": status, "timeout": timeout });
    control(emulator, "POST", "deliveries/wait", &wanted).await.status
}

/// A call that begins to wait later moves the clock of another key: an earlier one could have moved that of this key by then.
async fn time_stands_still(emulator: &Emulator) {
    subscribe_url(emulator, OTHER, "https://other.sink.localhost/").await;
    ask(emulator, "POST", "sink/other", &json!({ "respond": [500] })).await;
    ask(emulator, "POST", "events", &json!({ "key": OTHER, "type": "workflow.completed" })).await;
    let wanted = json!({ "key": OTHER, "status": "delivered", "timeout": "30s" });
    ask(emulator, "POST", "deliveries/wait", &wanted).await;
    assert_eq!((passed(emulator, Some(OTHER)).await, passed(emulator, Some(KEY)).await), (3600, 0));
}

#[tokio::test]
async fn three_days_of_retries_pass_in_one_wait() {
    let emulator = retrying(auto(), &[500, 500, 500]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    assert_eq!(wait_for_status(&emulator, "exhausted", "30s").await, 200);
    assert_eq!(passed(&emulator, Some(KEY)).await, 72 * 3600);
    let hour = "the key's clock moved by 60 min, to 2026-01-31T10:30:00.000Z, because a call waits";
    let moves: Vec<String> = notices(&emulator, false).into_iter().filter(|notice| notice.contains("moved")).collect();
    assert_eq!((moves.len(), moves.iter().any(|notice| notice == hour)), (2, true), "{moves:?}");
    // The clocks of the emulator and of other keys stand still.
    assert_eq!((passed(&emulator, None).await, passed(&emulator, Some(OTHER)).await), (0, 0));
}

#[tokio::test]
async fn a_wait_ends_at_the_attempt_that_it_is_for() {
    let emulator = retrying(auto(), &[500, 200, 200]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    assert_eq!(wait_for_status(&emulator, "delivered", "30s").await, 200);
    assert_eq!(passed(&emulator, Some(KEY)).await, 3600, "no time passes once it is delivered");
    let delayed = fire(&emulator, &json!({ "type": "workflow.completed", "delay": "2h" })).await;
    assert_eq!(delayed["deliveries"][0]["status"], "delivered", "{delayed}");
    assert_eq!(passed(&emulator, Some(KEY)).await, 3 * 3600);
}

#[tokio::test]
async fn a_call_about_all_keys_moves_the_clock_of_all() {
    let emulator = retrying(auto(), &[500, 200]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    ask(&emulator, "POST", "deliveries/wait", &json!({ "status": "delivered", "timeout": "30s" })).await;
    for key in [None, Some(KEY), Some(OTHER)] {
        assert_eq!(passed(&emulator, key).await, 3600, "{key:?}");
    }
}

#[tokio::test]
async fn one_key_may_be_automatic_while_the_others_follow_the_machine() {
    let emulator = retrying(Emulator::builder().seed(7), &[500, 200]).await;
    ask(&emulator, "POST", "clock", &json!({ "key": KEY, "mode": "auto" })).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    ask(&emulator, "POST", "deliveries/wait", &json!({ "status": "delivered", "timeout": "30s" })).await;
    let mode = |path: &'static str| async { view(&emulator, path).await["mode"].clone() };
    assert_eq!((mode("clock").await, mode("clock?key=sk_test_other").await), (json!("real"), json!("real")));
    ask(&emulator, "POST", "clock", &json!({ "key": KEY, "mode": "follow" })).await;
    assert_eq!(view(&emulator, &format!("clock?key={KEY}")).await["mode"], "real");
}

/// Neither a request whose body is still coming nor one whose answer is delayed.
#[tokio::test]
async fn time_stands_still_while_a_request_is_in_flight() {
    let emulator = retrying(auto(), &[500, 200]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let mut half = TcpStream::connect(emulator.base_url().trim_start_matches("http://")).await.expect("a connection");
    let body = json!({ "url": "https://b.example.com", "events": ["workflow.completed"] }).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/events/subscribe HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    half.write_all(head.as_bytes()).await.expect("it is sent");
    // The quota counts the request once its head has arrived.
    let counted = async {
        while view(&emulator, &format!("run?key={KEY}")).await["keys"][0]["quota"]["remaining"] != 98 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("it has arrived");
    let rest = async {
        time_stands_still(&emulator).await;
        half.write_all(body.as_bytes()).await.expect("it is sent");
    };
    let (waited, ()) = tokio::join!(wait_for_status(&emulator, "delivered", "30s"), rest);
    assert_eq!((waited, passed(&emulator, Some(KEY)).await), (200, 3600));
}

#[tokio::test]
async fn time_stands_still_while_an_attempt_is_in_flight() {
    let mut receiver = Receiver::hanging().await;
    let forward = format!("https://app.example.com=http://{}", receiver.address);
    let emulator = retrying(auto().forward(&forward), &[500, 200]).await;
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    receiver.next().await;
    let both = json!({ "key": KEY, "status": "delivered", "count": 2, "timeout": "30s" });
    let answer = async {
        time_stands_still(&emulator).await;
        receiver.let_one_through();
    };
    tokio::join!(ask(&emulator, "POST", "deliveries/wait", &both), answer);
    assert_eq!(passed(&emulator, Some(KEY)).await, 3600);
}

/// As long as the client's own timeout: by the machine's time, which moves no clock.
#[tokio::test]
async fn a_delayed_answer_needs_no_waiting_call() {
    let story = "[[rule]]\ndelay = '20ms'\n\n[[rule]]\nwhen = { operation = 'hello' }\npass = true\n";
    let time = MachineTime::stop();
    let emulator = started(auto().scenario_text(story)).await;
    assert_eq!(time.passes_until(get_as(&emulator, KEY, "/v1/system/status")).await.status, 200);
    assert_eq!(passed(&emulator, Some(KEY)).await, 0);
    let listed = view(&emulator, "requests").await;
    assert!(listed["data"][0]["latency_ms"].as_f64().is_some_and(|latency| latency >= 20.0), "{listed}");
    let drip = "[[rule]]\nfault = { kind = 'drip', bytes = 20, interval = '1ms' }\n";
    put_scenario(&emulator, "drip", drip).await;
    activate(&emulator, &["drip"], None).await;
    assert_eq!(time.passes_until(get_as(&emulator, KEY, "/v1/system/status")).await.status, 200);
    assert_eq!(passed(&emulator, Some(KEY)).await, 0);
}

#[tokio::test]
async fn an_emission_that_never_ends_stops_the_clock_with_a_warning() {
    let story = "[[emit]]\nevent = 'workflow.completed'\non = { after = '1s' }\ntimes = 5000\ninterval = '1s'\n";
    let emulator = started(auto().scenario_text(story)).await;
    get_as(&emulator, KEY, "/v1/system/status").await;
    let wanted = json!({ "key": KEY, "operation": "hello", "timeout": "300s" });
    let waiting = control(&emulator, "POST", "requests/wait", &wanted);
    let view = "GET /_emulator/stream?kind=notice HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut viewer = Peer::sending(&emulator, view).await;
    // It is registered, so that it misses nothing.
    viewer.until("200 OK").await;
    tokio::select! {
        answer = waiting => panic!("{answer:?}"),
        _ = viewer.until("the key's clock stands still: it moved 1000 times while a call waited") => {}
    }
    assert_eq!(passed(&emulator, Some(KEY)).await, 1000);
}

#[tokio::test]
async fn a_verdict_lets_everything_planned_happen() {
    let emulator = retrying(auto(), &[500, 500, 200]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let verdict = view(&emulator, "verdict?wait=5s").await;
    assert_eq!((verdict["undelivered"].as_array().map(Vec::len), passed(&emulator, None).await), (Some(0), 72 * 3600));
}

#[tokio::test]
async fn a_snapshot_keeps_the_mode_and_a_reset_returns_to_it() {
    let emulator = started(auto()).await;
    get_as(&emulator, KEY, "/v1/system/status").await;
    for key in ["*", KEY] {
        ask(&emulator, "POST", "clock", &json!({ "key": key, "advance": "1h" })).await;
    }
    let saved = view(&emulator, "snapshot?key=*").await;
    let frozen = ask(&emulator, "POST", "clock", &json!({ "mode": "frozen" })).await;
    assert_eq!(frozen["mode"], "frozen");
    ask(&emulator, "PUT", "snapshot?key=*", &saved).await;
    assert_eq!(
        (passed(&emulator, None).await, passed(&emulator, Some(KEY)).await, passed(&emulator, Some(OTHER)).await),
        (3600, 7200, 3600)
    );
    ask(&emulator, "POST", "clock", &json!({ "mode": "real" })).await;
    ask(&emulator, "POST", "reset", &json!({ "key": "*" })).await;
    assert_eq!(passed(&emulator, None).await, 0);
}

/// Two runs with one seed, in which tests of two keys wait at the same time.
#[tokio::test]
async fn runs_with_one_seed_are_alike() {
    let run = || async {
        let emulator = Arc::new(started(auto().set("webhooks.retry.jitter=0.5")).await);
        let test = |key: &'static str, sink: &'static str| {
            let emulator = Arc::clone(&emulator);
            async move {
                subscribe_url(&emulator, key, &format!("https://{sink}.sink.localhost/hooks")).await;
                ask(&emulator, "POST", &format!("sink/{sink}"), &json!({ "respond": [500, 500, 200] })).await;
                ask(&emulator, "POST", "events", &json!({ "key": key, "type": "workflow.completed" })).await;
                let wanted = json!({ "key": key, "status": "delivered", "timeout": "30s" });
                ask(&emulator, "POST", "deliveries/wait", &wanted).await
            }
        };
        let waited = tokio::join!(test(KEY, "a"), test(OTHER, "b"));
        let of = |key: &'static str| {
            let emulator = Arc::clone(&emulator);
            async move {
                let run = view(&emulator, &format!("run?key={key}")).await;
                [run["deliveries"].clone(), run["events"].clone()]
            }
        };
        (waited, of(KEY).await, of(OTHER).await)
    };
    assert_eq!(run().await, run().await);
}

#[test]
fn the_commands_name_the_mode() {
    let served = crate::process::Served::start(&["--clock", "auto@2026-01-31T09:30:00Z"]);
    assert_eq!(served.said(&["clock", "show"]), "2026-01-31T09:30:00.000Z (auto)\n");
    let own = served.said(&["clock", "freeze", "--key", KEY]) + &served.said(&["clock", "auto", "--key", KEY]);
    assert_eq!(own.matches("sk_test_local alone)").count(), 2, "{own}");
    assert!(own.contains("(frozen, ") && own.contains("(auto, "), "{own}");
}

/// One that never ends uses up the moves of its own clock alone.
#[tokio::test]
async fn an_endless_emission_of_one_key_holds_no_other_up() {
    let story = "[[emit]]\nevent = 'workflow.completed'\non = { after = '1s' }\ntimes = 5000\ninterval = '1s'\n";
    let emulator = retrying(Emulator::builder().seed(7), &[500, 200]).await;
    put_scenario(&emulator, "endless", story).await;
    for key in [OTHER, KEY] {
        ask(&emulator, "POST", "clock", &json!({ "key": key, "mode": "auto" })).await;
    }
    activate(&emulator, &["endless"], Some(OTHER)).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    ask(&emulator, "POST", "deliveries/wait", &json!({ "status": "delivered", "timeout": "20s" })).await;
    let warnings = notices(&emulator, true);
    assert!(warnings.iter().any(|notice| notice.starts_with("the key's clock stands still")), "{warnings:?}");
}

/// The wait is for the key, whatever becomes of its workspace and its clock in the meantime.
#[tokio::test]
async fn a_wait_survives_a_reset_and_a_change_of_the_mode() {
    let emulator = retrying(auto(), &[500, 200]).await;
    ask(&emulator, "POST", "clock", &json!({ "mode": "frozen" })).await;
    let wanted = json!({ "key": KEY, "status": "delivered", "timeout": "20s" });
    let changes = async {
        ask(&emulator, "POST", "reset", &json!({ "key": KEY })).await;
        subscribe_sink(&emulator, "app").await;
        ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
        ask(&emulator, "POST", "clock", &json!({ "mode": "auto" })).await;
    };
    let (waited, ()) = tokio::join!(control(&emulator, "POST", "deliveries/wait", &wanted), changes);
    assert_eq!(waited.status, 200, "{waited:?}");
    assert_eq!(passed(&emulator, Some(KEY)).await, 3600);
}

/// Two calls that wait on one clock move it as far as one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_on_one_clock_do_not_overshoot() {
    let story = "[[emit]]\nevent = 'workflow.completed'\non = { after = '10s' }\ntimes = 50\ninterval = '10s'\n";
    let emulator = started(auto().scenario_text(story)).await;
    subscribe_sink(&emulator, "app").await;
    let wanted = json!({ "key": KEY, "status": "delivered", "count": 20, "timeout": "20s" });
    let wait = || control(&emulator, "POST", "deliveries/wait", &wanted);
    let (a, b, c) = tokio::join!(wait(), wait(), wait());
    assert_eq!((a.status, b.status, c.status), (200, 200, 200));
    assert_eq!(passed(&emulator, Some(KEY)).await, 200);
}

/// A request in flight holds only calls that wait; a step is taken at once, as with a frozen clock.
#[tokio::test]
async fn a_step_does_not_wait_for_a_request() {
    let emulator = started(auto().scenario_text("[[rule]]\nfault = { kind = 'stall', bytes = 0 }\n")).await;
    let stalled = get_as(&emulator, KEY, "/v1/system/status");
    let step = async {
        while view(&emulator, &format!("requests?key={KEY}")).await["data"][0].is_null() {
            tokio::task::yield_now().await;
        }
        ask(&emulator, "POST", "clock", &json!({ "key": KEY, "advance": "1h" })).await
    };
    tokio::select! {
        answer = stalled => panic!("{answer:?}"),
        moved = tokio::time::timeout(PATIENCE, step) => assert_eq!(moved.expect("a step")["mode"], "auto"),
    }
    assert_eq!(passed(&emulator, Some(KEY)).await, 3600);
}

/// A clock may become automatic in other ways than by the mode; a call that waits already notices each.
#[tokio::test]
async fn a_wait_notices_each_way_in_which_a_clock_becomes_automatic() {
    let clock = |key: &str, mode: &str| ("POST", "clock", json!({ "key": key, "mode": mode }));
    let automatic = || retrying(auto(), &[500, 200]);
    let mut unnoticed = Vec::new();
    for way in ["auto", "follow", "real", "the emulator's", "snapshot", "reset"] {
        let emulator = automatic().await;
        ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
        ask(
            &emulator,
            "POST",
            "deliveries/wait",
            &json!({ "key": KEY, "count": 1, "status": "pending", "timeout": "20s" }),
        )
        .await;
        let saved = view(&emulator, "snapshot?key=*").await;
        let whose = if way == "the emulator's" || way == "reset" { "*" } else { KEY };
        let (method, path, frozen) = clock(whose, "frozen");
        ask(&emulator, method, path, &frozen).await;
        let wanted = json!({ "key": KEY, "status": "delivered", "timeout": "10s" });
        let becomes = async {
            // The other call has begun to wait once it has been polled, which `join` does first.
            let (method, path, body) = match way {
                "snapshot" => ("PUT", "snapshot?key=*", saved),
                "reset" => ("POST", "reset", json!({ "key": "*" })),
                "the emulator's" => clock("*", "auto"),
                mode => clock(KEY, mode),
            };
            ask(&emulator, method, path, &body).await;
            if way == "reset" {
                subscribe_sink(&emulator, "app").await;
                ask(&emulator, "POST", "sink/app", &json!({ "respond": [500, 200] })).await;
                ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
            }
        };
        let (waited, ()) = tokio::join!(control(&emulator, "POST", "deliveries/wait", &wanted), becomes);
        if waited.status != 200 || passed(&emulator, Some(KEY)).await != 3600 {
            unnoticed.push((way, waited));
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
