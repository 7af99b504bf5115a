//! With a frozen clock, everything due at the instant of a call or a request has happened once it is answered: the event is made, in the
//! journal, and its deliveries are entered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use serde_json::{Value, json};
use wrs_emulator::Emulator;
use wrs_emulator::state::journal::Entry;

use crate::support::{
    KEY, activate, ask, builder, control, folder_with, get_as, put_scenario, sized, start, started, view,
    write_scenario,
};

const STORY: &str = r#"
[[given.subscription]]
url = "https://app.sink.localhost/hooks"
events = ["workflow.completed", "reference.matched"]

[[emit]]
event = "workflow.completed"
on = "activation"
times = 20

[[emit]]
event = "reference.matched"
on = { operation = "system.status" }

[[emit]]
name = "command"
event = "reference.matched"
on = "command"
"#;

/// The types of requests, events and notices in the journal, oldest first; attempts are made when receivers accept them.
fn journal(emulator: &Emulator) -> Vec<String> {
    let mut lines = emulator.control().journal().search(None, usize::MAX, |_, entry| match entry {
        Entry::Request(_) => Some("request".to_owned()),
        Entry::Event(event) => Some(event.event_type.clone()),
        Entry::Notice(notice) => notice.message.split(" for ").next().map(str::to_owned),
        Entry::Attempt(_) | Entry::Cleared => None,
    });
    lines.reverse();
    lines
}

/// These many events of an activation.
fn activations(count: usize) -> Vec<String> {
    vec!["workflow.completed".to_owned(); count]
}

async fn events(emulator: &Emulator, key: &str) -> usize {
    view(emulator, &format!("run?key={key}")).await["events"].as_array().expect("a list").len()
}

/// On this runtime, no task runs before the test itself waits.
#[tokio::test]
async fn an_activation_has_fired_when_it_returns() {
    let emulator = start().await;
    put_scenario(&emulator, "story", STORY).await;
    emulator.control().use_scenarios(Some(KEY), &["story"]).expect("it is there");
    assert_eq!(journal(&emulator), activations(20));
    let entered = emulator.control().deliveries().list(None, usize::MAX, |_| true);
    assert_eq!(entered.len(), 20);
    // One that is turned off again at once has fired all the same.
    emulator.control().use_scenarios(Some("sk_test_b"), &["story"]).expect("it is there");
    emulator.control().use_scenarios(Some("sk_test_b"), &[]).expect("none is a list, too");
    assert_eq!(journal(&emulator), activations(40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_read_at_once_has_the_events_of_an_activation_under_load() {
    let emulator = Arc::new(start().await);
    put_scenario(&emulator, "story", STORY).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let yielding = || {
        let is_done = Arc::clone(&is_done);
        tokio::spawn(async move {
            while !is_done.load(Ordering::Relaxed) {
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
        })
    };
    let load: Vec<_> = (0..4).map(|_| yielding()).collect();
    for round in 0..sized(16, 200) {
        let key = format!("sk_test_round_{round:03}");
        activate(&emulator, &["story"], Some(&key)).await;
        if round % 2 == 0 {
            assert_eq!(events(&emulator, &key).await, 20, "round {round}");
        }
        activate(&emulator, &[], Some(&key)).await;
        assert_eq!(events(&emulator, &key).await, 20, "round {round}, turned off");
    }
    is_done.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no panic");
    }
}

#[tokio::test]
async fn the_journal_has_events_before_the_request_that_starts_them_and_after_the_one_that_sets_them_off() {
    let mut expected = activations(20);
    expected.extend(["request", "reference.matched", "request"].map(str::to_owned));
    for _ in 0..50 {
        let emulator = started(builder().scenario_text(STORY)).await;
        assert_eq!(get_as(&emulator, KEY, "/v1/system/status").await.status, 200);
        assert_eq!(journal(&emulator), expected[..22]);
        get_as(&emulator, KEY, "/v1/hello").await;
        assert_eq!(journal(&emulator), expected);
    }
}

/// The only thread on which events are made is taken, so an answer that does not wait for them comes first.
#[test]
fn an_answer_is_sent_after_the_events_that_follow_from_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let emulator = Arc::new(started(builder().scenario_text(STORY)).await);
        get_as(&emulator, KEY, "/v1/system/status").await;
        let (release, released) = mpsc::channel::<()>();
        let taken = tokio::task::spawn_blocking(move || released.recv().is_err());
        let asking = tokio::spawn({
            let emulator = Arc::clone(&emulator);
            async move { get_as(&emulator, KEY, "/v1/system/status").await }
        });
        while journal(&emulator).iter().filter(|line| *line == "request").count() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert!(!asking.is_finished(), "it is answered before its event is made");
        drop(release);
        assert_eq!(asking.await.expect("no panic").status, 200);
        assert_eq!(journal(&emulator).last().map(String::as_str), Some("reference.matched"));
        assert!(taken.await.expect("no panic"));
    });
}

/// An emulator whose scenario `own` is active for the sample key since an hour ago, and has nothing planned.
async fn an_hour_later(folder: &std::path::Path) -> Emulator {
    let emulator = started(builder().scenario_folder(folder)).await;
    activate(&emulator, &["own"], Some(KEY)).await;
    ask(&emulator, "POST", "clock", &json!({ "advance": "1h" })).await;
    assert_eq!(events(&emulator, KEY).await, 0);
    emulator
}

const NOTHING: &str = "[[rule]]\nwhen = { operation = 'hello' }\npass = true\n";
/// Due since half an hour once it is in force.
const LATE: &str = "[[emit]]\nname = 'late'\nevent = 'workflow.completed'\non = { after = '30m' }\n";

#[tokio::test]
async fn whatever_a_change_makes_due_is_fired_before_it_is_answered() {
    let folder = folder_with("own", NOTHING);
    let emulator = an_hour_later(folder.path()).await;
    // In place of the file.
    put_scenario(&emulator, "own", LATE).await;
    assert_eq!(events(&emulator, KEY).await, 1, "PUT scenarios");
    // What has fired does not fire again.
    ask(&emulator, "PATCH", "profile", &json!({ "rate_limit": { "requests": 5 } })).await;
    put_scenario(&emulator, "own", NOTHING).await;
    put_scenario(&emulator, "own", LATE).await;
    assert_eq!(events(&emulator, KEY).await, 1);

    let emulator = an_hour_later(folder.path()).await;
    write_scenario(folder.path(), "own", LATE);
    // The watcher may have been faster.
    control(&emulator, "POST", "scenarios/reload", &json!({})).await;
    assert_eq!(events(&emulator, KEY).await, 1, "POST scenarios/reload");
}

#[tokio::test]
async fn every_call_that_makes_something_due_has_it_fired() {
    let story = STORY.replace("times = 20", "times = 20\ndelay = \"10s\"");
    let emulator = started(builder().scenario_text(&story)).await;
    // The first contact with a key starts the scenarios of all keys in it.
    put_scenario(&emulator, "at-once", STORY).await;
    activate(&emulator, &["at-once"], None).await;
    let calls: [(&str, &str, Value); 5] = [
        ("GET", "run", Value::Null),
        ("GET", "subscriptions", Value::Null),
        ("GET", "verdict", Value::Null),
        ("POST", "outcome", json!({ "test": "t", "outcome": "passed" })),
        ("POST", "events", json!({ "type": "workflow.completed" })),
    ];
    for (number, (method, path, mut body)) in calls.into_iter().enumerate() {
        let key = format!("sk_test_contact_{number}");
        let path = if body.is_null() { format!("{path}?key={key}") } else { path.to_owned() };
        if !body.is_null() {
            body["key"] = key.clone().into();
        }
        let before = journal(&emulator).len();
        let answer = ask(&emulator, method, &path, &body).await;
        // The event that was asked for, or the notice of the outcome.
        let own = usize::from(matches!(path.as_str(), "events" | "outcome"));
        assert_eq!(journal(&emulator).len(), before + 20 + own, "{method} {path}");
        if path.starts_with("run") {
            assert_eq!(answer["events"].as_array().map(Vec::len), Some(20));
        }
    }
    let before = journal(&emulator).len();
    ask(&emulator, "POST", "events", &json!({ "emit": "command", "key": "sk_test_contact_0" })).await;
    assert_eq!(journal(&emulator).len(), before + 1, "POST events with emit");

    // A key's own clock, moved alone; then a state in which something is due.
    let emulator = started(builder().scenario_text(story)).await;
    let saved = view(&emulator, &format!("snapshot?key={KEY}")).await;
    ask(&emulator, "POST", "clock", &json!({ "advance": "10s", "key": KEY })).await;
    assert_eq!(events(&emulator, KEY).await, 20, "POST clock");
    let mut later = saved.clone();
    let due = later["workspaces"][0]["planned"].as_array_mut().expect("planned events");
    assert_eq!(due.len(), 20, "{saved}");
    for planned in due {
        planned["at"] = 0.into();
    }
    ask(&emulator, "PUT", "snapshot", &later).await;
    assert_eq!(events(&emulator, KEY).await, 20, "PUT snapshot: all are due");
    let ids = |run: &Value| -> BTreeSet<String> {
        run["events"].as_array().expect("a list").iter().map(|event| event["id"].to_string()).collect()
    };
    assert_eq!(ids(&view(&emulator, &format!("run?key={KEY}")).await).len(), 20);
}
