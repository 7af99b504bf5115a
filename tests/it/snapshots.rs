//! Snapshots: going on after a load is as never having stopped, whatever was done before and after; what cannot be loaded is
//! refused and changes nothing.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use wrs_emulator::{Builder, Emulator};

use crate::process::{Served, eventually};
use crate::support::{
    KEY, MachineTime, PATIENCE, START, activate, ask, builder, control, get, get_as, hook, put_scenario, refused, send,
    sized, start, start_with, started, subscribe, subscribe_as, subscribe_sink, subscribe_url, view,
};

const KEYS: [&str; 3] = ["sk_test_a", "sk_test_b", "sk_test_c"];

/// Everything that a workspace can hold: rules with turns and chance, stories, emissions planned ahead, announced endpoints.
const STORY: &str = r#"
[profile]
rate_limit = { requests = 6, window = "20s", algorithm = "sliding" }
webhooks = { retry = { preset = "custom", schedule = ["3s", "9s"], jitter = 0.5 } }

[[rule]]
name = "sometimes"
when = { operation = "system.status" }
skip = 2
times = 9
chance = 0.5
reply = { status = 422, code = "drawn", message = "{{ ulid() }}" }

[[rule]]
when = { operation = "events.subscribe" }
sequence = [{ pass = true, times = 2 }, { status = 422, message = "once" }]
then = "repeat"

[[rule]]
when = { operation = "hello" }
sequence = [{ status = 422, message = "{{ ulid() }}" }, { pass = true, times = 2 }]
then = "repeat"

[[emit]]
event = "workflow.completed"
on = { operation = "hello", status = 200 }
delay = "5s"

[[emit]]
event = "workflow.completed"
on = { operation = "events.subscribe", status = 200 }
times = 3
interval = "4s"
delivery = { shuffle = true }

[[emit]]
event = "reference.matched"
on = { every = "7s" }
times = 5
"#;

/// One thing that a client or a tester does.
#[derive(Clone, Debug)]
enum Step {
    Status(usize),
    /// Without a key.
    Hello,
    Subscribe(usize, u8),
    Fire(usize),
    Script(u8),
    Advance(u16),
    AdvanceKey(usize, u16),
    Freeze(usize),
    Follow(usize),
    Rotate(usize),
    OwnScenario(usize),
    Setting(usize, u8),
    Reset(usize),
    Set(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let step = prop_oneof![
        4 => key.clone().prop_map(Step::Status),
        2 => Just(Step::Hello),
        3 => (key.clone(), 0..3_u8).prop_map(|(key, hook)| Step::Subscribe(key, hook)),
        3 => key.clone().prop_map(Step::Fire),
        2 => any::<u8>().prop_map(Step::Script),
        3 => (0..9_000_u16).prop_map(Step::Advance),
        1 => (key.clone(), 0..9_000_u16).prop_map(|(key, millis)| Step::AdvanceKey(key, millis)),
        1 => key.clone().prop_map(Step::Freeze),
        1 => key.clone().prop_map(Step::Follow),
        1 => key.clone().prop_map(Step::Rotate),
        1 => key.clone().prop_map(Step::OwnScenario),
        1 => (key.clone(), 3..9_u8).prop_map(|(key, requests)| Step::Setting(key, requests)),
        1 => key.prop_map(Step::Reset),
        1 => any::<u16>().prop_map(Step::Set),
    ];
    proptest::collection::vec(step, 1..12)
}

/// Does one step and gives its results: statuses, bodies, quota, ids.
async fn act(emulator: &Emulator, step: &Step) -> String {
    let answer = match step {
        Step::Status(key) => get_as(emulator, KEYS[*key], "/v1/system/status").await,
        Step::Hello => send(emulator, "GET", "/v1/hello", &[], "").await,
        Step::Subscribe(key, hook) => {
            let url = format!("https://{}.sink.localhost/{hook}", &KEYS[*key][8..]);
            let events = ["workflow.completed", "reference.matched"];
            subscribe_as(emulator, KEYS[*key], &json!({ "url": url, "events": events })).await
        }
        Step::Fire(key) => {
            let payload = json!({ "type": "workflow.completed", "key": KEYS[*key], "delay": "1500ms" });
            control(emulator, "POST", "events", &payload).await
        }
        Step::Script(bits) => {
            let statuses: Vec<u16> = (0..4).map(|bit| if bits >> bit & 1 == 1 { 500 } else { 200 }).collect();
            control(emulator, "POST", "sink/a", &json!({ "respond": statuses })).await
        }
        Step::Advance(millis) => control(emulator, "POST", "clock", &json!({ "advance": format!("{millis}ms") })).await,
        Step::AdvanceKey(key, millis) => {
            let payload = json!({ "advance": format!("{millis}ms"), "key": KEYS[*key] });
            control(emulator, "POST", "clock", &payload).await
        }
        Step::Freeze(key) => control(emulator, "POST", "clock", &json!({ "mode": "frozen", "key": KEYS[*key] })).await,
        Step::Follow(key) => control(emulator, "POST", "clock", &json!({ "mode": "follow", "key": KEYS[*key] })).await,
        Step::Rotate(key) => {
            let path = format!("subscriptions?key={}", KEYS[*key]);
            let listed = view(emulator, &path).await;
            let Some(id) = listed["data"][0]["id"].as_str() else { return "none to rotate".to_owned() };
            control(emulator, "POST", &format!("subscriptions/{id}/rotate"), &json!({})).await
        }
        Step::OwnScenario(key) => {
            let payload = json!({ "active": ["story", "quota-exhaustion"], "key": KEYS[*key] });
            control(emulator, "POST", "scenarios/active", &payload).await
        }
        Step::Setting(key, requests) => {
            let path = format!("profile?key={}", KEYS[*key]);
            control(emulator, "PATCH", &path, &json!({ "rate_limit.requests": requests })).await
        }
        Step::Reset(key) => control(emulator, "POST", "reset", &json!({ "key": KEYS[*key] })).await,
        Step::Set(seconds) => {
            let at = START - jiff::SignedDuration::from_secs(i64::from(*seconds));
            control(emulator, "POST", "clock", &json!({ "set": at.to_string() })).await
        }
    };
    emulator.control().settle().await;
    let remaining = answer.header("x-ratelimit-remaining").unwrap_or_default().to_owned();
    let id = answer.header("x-emulator-request-id").unwrap_or_default().to_owned();
    let mut body = answer.json();
    // Counts the swaps of this process.
    body.as_object_mut().map(|body| body.remove("generation"));
    format!("{step:?}: {} {remaining} {id} {body}", answer.status)
}

/// What the built-in receivers got from number `from` on, in the order of arrival.
fn received(emulator: &Emulator, from: &[usize]) -> Vec<String> {
    let all = ["a", "b", "c"].iter().zip(from);
    all.flat_map(|(name, from)| {
        let receipts = emulator.control().received(name);
        receipts.into_iter().skip(*from).map(move |receipt| format!("{name}: {receipt:?}")).collect::<Vec<_>>()
    })
    .collect()
}

fn with_story() -> Builder {
    builder()
}

async fn put_story(emulator: &Emulator) {
    put_scenario(emulator, "story", STORY).await;
    activate(emulator, &["story"], None).await;
}

/// Does the first steps, saves, loads elsewhere, and does the rest on both.
async fn check(before: &[Step], after: &[Step], elsewhere: &[Step]) {
    let first = started(with_story()).await;
    put_story(&first).await;
    for step in before {
        act(&first, step).await;
    }
    let saved = view(&first, "snapshot?key=*").await;
    let got: Vec<usize> = ["a", "b", "c"].iter().map(|name| first.control().received(name).len()).collect();

    let second = started(with_story().seed(99)).await;
    for step in elsewhere {
        act(&second, step).await;
    }
    let loaded = control(&second, "PUT", "snapshot", &saved).await;
    assert_eq!((loaded.status, loaded.json()["warnings"].clone()), (200, json!([])), "{loaded:?}");
    let again = control(&second, "GET", "snapshot?key=*", &Value::Null).await;
    assert_eq!(without_moments(saved), without_moments(again.json()), "a snapshot of the loaded state is the same");
    for step in after {
        assert_eq!(act(&first, step).await, act(&second, step).await, "after {before:?}, in {after:?}");
    }
    // What still waits comes at the same times, in the same order, with the same bytes.
    for emulator in [&first, &second] {
        control(emulator, "POST", "clock", &json!({ "advance": "90s" })).await;
    }
    assert_eq!(received(&first, &got), received(&second, &[0, 0, 0]), "after {before:?}, then {after:?}");
}

/// The emulator's own moment continues from where it is, and says nothing. What requests without a key have planned follows it.
fn without_moments(mut snapshot: Value) -> Value {
    let moment = snapshot["clock"]["moment"].take().as_u64().expect("a moment");
    let anonymous = &mut snapshot["whole"]["anonymous"];
    anonymous["clock"]["moment"].take();
    for planned in anonymous["planned"].as_array_mut().expect("a list") {
        planned["at"] = json!(planned["at"].as_u64().expect("an instant") - moment);
    }
    snapshot
}

#[test]
fn going_on_after_a_load_is_as_never_having_stopped() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config = ProptestConfig { cases: sized(20, 60), failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&(steps(), steps(), steps()), |(before, after, elsewhere)| {
        runtime.block_on(check(&before, &after, &elsewhere));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// An event that becomes due together with a delivery is in the queue before that is taken: else the order of the deliveries
/// to other subscriptions depends on which thread is faster.
#[tokio::test]
async fn deliveries_due_with_an_event_have_one_order() {
    let before = [Step::Subscribe(1, 0), Step::Status(0)];
    let after = [
        Step::OwnScenario(1),
        Step::Script(153),
        Step::Subscribe(0, 0),
        Step::Fire(0),
        Step::Follow(1),
        Step::Status(2),
        Step::Subscribe(0, 2),
    ];
    for _ in 0..sized(10, 30) {
        check(&before, &after, &[]).await;
    }
}

/// Without a key there is no quota, but scenarios have steps.
#[tokio::test]
async fn a_sequence_of_requests_without_a_key_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let open = || builder().configure(|settings| settings.state = Some(file.clone()));
    let first = started(open()).await;
    let story = "[[rule]]\nwhen = { operation = \"hello\" }\n\
                 sequence = [{ status = 422 }, { status = 500 }, { pass = true, times = 2 }, { status = 503 }]\n";
    put_scenario(&first, "story", story).await;
    activate(&first, &["story"], None).await;
    let hello = async |emulator: &Emulator| send(emulator, "GET", "/v1/hello", &[], "").await.status;
    assert_eq!((hello(&first).await, hello(&first).await, hello(&first).await), (422, 500, 200));
    let saved = view(&first, "snapshot?key=*").await;
    first.stop().await.expect("it stops");
    let second = started(open()).await;
    assert_eq!((hello(&second).await, hello(&second).await), (200, 503), "from the file");
    assert_eq!(control(&second, "PUT", "snapshot", &saved).await.status, 200);
    assert_eq!((hello(&second).await, hello(&second).await), (200, 503), "from the call");
}

/// The file was written when the version got its number. It stays as it is: what an emulator has saved is loaded by every later one.
#[tokio::test]
async fn a_file_of_this_version_gives_the_state_that_was_saved() {
    let saved = include_str!("snapshots/version1.json");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    std::fs::write(&file, saved).expect("the file is written");
    let emulator = started(builder().configure(|settings| settings.state = Some(file.clone()))).await;
    let again = control(&emulator, "GET", "snapshot?key=*", &Value::Null).await;
    assert_eq!(String::from_utf8_lossy(&again.body), saved);
}

#[tokio::test]
async fn one_key_is_saved_and_loaded_alone() {
    let first = start().await;
    let second = started(builder().seed(99)).await;
    for emulator in [&first, &second] {
        subscribe_sink(emulator, "app").await;
        subscribe_as(emulator, "sk_test_b", &hook("https://b.sink.localhost/")).await;
    }
    second.control().advance(std::time::Duration::from_secs(1000)).await;
    let b_before = control(&second, "GET", "subscriptions?key=sk_test_b", &Value::Null).await.body;
    control(&first, "POST", "scenarios/active", &json!({ "active": ["rate-limit-burst"], "key": KEY })).await;
    for _ in 0..6 {
        get_as(&first, KEY, "/v1/system/status").await;
    }
    let saved = view(&first, "snapshot").await;
    assert_eq!(control(&second, "PUT", "snapshot", &saved).await.status, 200);
    assert_eq!(control(&second, "GET", "subscriptions?key=sk_test_b", &Value::Null).await.body, b_before);
    // The sixth of five was refused; three more are.
    for turn in 0..4 {
        let (one, other) =
            (get_as(&first, KEY, "/v1/system/status").await, get_as(&second, KEY, "/v1/system/status").await);
        // The other clock shows another time, so only the random part of the ids is the same.
        let drawn =
            |answer: &crate::support::Answer| answer.header("x-emulator-request-id").map(|id| id[14..].to_owned());
        assert_eq!((one.status, drawn(&one)), (other.status, drawn(&other)));
        assert_eq!(one.status, if turn < 3 { 429 } else { 200 });
    }
    refused(&second, "PUT", "snapshot?key=sk_test_b", &saved, 422, "not one of the key").await;
}

/// Attempts before a snapshot count, wherever one is named by its number.
#[tokio::test]
async fn a_delivery_goes_on_with_the_next_attempt() {
    let (first, second) = (start().await, start().await);
    subscribe_sink(&first, "app").await;
    control(&first, "POST", "sink/app", &json!({ "respond": [500] })).await;
    let fired = crate::support::fire(&first, &json!({ "type": "workflow.completed" })).await;
    let id = fired["deliveries"][0]["id"].as_str().expect("an id");
    let saved = view(&first, "snapshot?key=*").await;
    assert_eq!(control(&second, "PUT", "snapshot", &saved).await.status, 200);
    let explained = view(&second, &format!("explain/{id}")).await;
    let shown = [&explained["summary"], &explained["steps"][0]["check"], &explained["advice"][0]["text"]];
    for (shown, expected) in shown.into_iter().zip([
        "attempt 1 failed and another is due: what the receiver answered is not in the snapshot",
        "attempt 2",
        "to run attempt 2 now, with everything else that is due by then:",
    ]) {
        assert_eq!(shown, expected, "{explained}");
    }
    let due = view(&second, "run?limit=0").await["due"][0]["message"].clone();
    assert!(due.as_str().is_some_and(|due| due.starts_with("attempt 2 to deliver workflow.completed")), "{due}");
    second.control().advance(std::time::Duration::from_hours(1)).await;
    assert_eq!(view(&second, &format!("explain/{id}")).await["summary"], "delivered at attempt 2");
}

/// A scenario that is only valid with settings changed while running comes back with them, and a refused one brings none.
#[tokio::test]
async fn settings_come_before_the_scenarios_that_need_them() {
    let (first, second) = (start().await, start().await);
    let own = json!({ "events": { "extra": ["reference.failed"] } });
    assert_eq!(control(&first, "PATCH", "profile", &own).await.status, 200);
    let hook = json!({ "url": "https://app.sink.localhost/x", "events": ["reference.failed"] });
    assert_eq!(subscribe(&first, &hook).await.status, 200);
    let story = "[[emit]]\nname = \"by hand\"\nevent = \"reference.failed\"\non = \"command\"\n";
    put_scenario(&first, "story", story).await;
    activate(&first, &["story"], None).await;
    let saved = view(&first, "snapshot?key=*").await;
    let before = control(&second, "GET", "snapshot?key=*", &Value::Null).await.body;
    let mut without = saved.clone();
    without["whole"]["knobs"] = json!({ "rate_limit.requests": 3 });
    refused(&second, "PUT", "snapshot", &without, 422, "reference.failed").await;
    assert_eq!(control(&second, "GET", "snapshot?key=*", &Value::Null).await.body, before, "nothing has changed");
    let loaded = control(&second, "PUT", "snapshot", &saved).await;
    assert_eq!(loaded.status, 200, "{loaded:?}");
    assert_eq!(control(&second, "POST", "events", &json!({ "emit": "by hand" })).await.status, 200);
    // A state is loaded by the same way at the start.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    std::fs::write(&file, saved.to_string()).expect("the file is written");
    let third = started(builder().configure(|settings| settings.state = Some(file.clone()))).await;
    assert_eq!(control(&third, "POST", "events", &json!({ "emit": "by hand" })).await.status, 200);
}

/// A rotation that is planned, and one that has happened, come back.
#[tokio::test]
async fn rotations_come_back() {
    let story = "[[rotate]]\nat = { after = '10s' }\nsubscription = 'https://app.*/**'\ngrace = '1m'\n";
    let (first, second) =
        (started(builder().scenario_text(story)).await, started(builder().scenario_text(story)).await);
    for name in ["app", "other"] {
        subscribe_sink(&first, name).await;
    }
    // Restores the state in the other emulator, lets time pass there, and shows how many secrets sign there.
    let after = async |seconds: u64| {
        let saved = view(&first, "snapshot?key=*").await;
        assert_eq!(control(&second, "PUT", "snapshot", &saved).await.status, 200);
        ask(&second, "POST", "clock", &json!({ "advance": format!("{seconds}s") })).await;
        let listed = view(&second, "subscriptions").await["data"].clone();
        let count = |row: &Value| row["signing_secrets"].as_u64().expect("a count");
        listed.as_array().expect("subscriptions").iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(after(9).await, [1, 1]);
    assert_eq!(after(10).await, [2, 1]);
    ask(&first, "POST", "clock", &json!({ "advance": "10s" })).await;
    assert_eq!(after(59).await, [2, 1]);
    assert_eq!(after(60).await, [1, 1]);
}

#[tokio::test]
async fn what_cannot_be_loaded_is_refused_and_changes_nothing() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    let saved = view(&emulator, "snapshot?key=*").await;
    let subscribed = saved["workspaces"][0]["subscriptions"][0].clone();
    let changed = |path: &str, value: Value| {
        let mut snapshot = saved.clone();
        *snapshot.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
        snapshot
    };
    let before = control(&emulator, "GET", "snapshot?key=*", &Value::Null).await.body;
    for (snapshot, said) in [
        (json!({}), "expected a snapshot"),
        (json!([]), "expected a snapshot"),
        (changed("/format", json!({ "a": [1] })), "expected a snapshot"),
        (changed("/version", json!(2)), "version 2"),
        (changed("/version", json!("1")), "version \"1\""),
        (changed("/version", Value::Null), "version null"),
        (changed("/whole/seed", json!("short")), "whole.seed"),
        (changed("/whole/anonymous/sources/random", json!("AAAA")), "whole.anonymous: sources.random"),
        (changed("/whole/active", json!(["nowhere"])), "there is no scenario `nowhere`"),
        (changed("/whole/scenarios", json!({ "mine": "[[rule]]\nwhen = 5" })), "mine"),
        (changed("/whole/knobs", json!({ "rate_limit.requests": "many" })), "rate_limit.requests"),
        (changed("/clock/now", json!("yesterday")), "year"),
        (changed("/workspaces/0/subscriptions/0/target", json!("no url")), "workspaces[0].subscriptions[0].target: "),
        (changed("/workspaces/0/subscriptions", json!([subscribed, subscribed])), "is given twice"),
        (changed("/workspaces/0/sources/event_random", json!("")), "sources.event_random"),
        (changed("/workspaces/0/key", json!(7)), "workspaces[0].key: invalid type: integer `7`, expected a string"),
        (changed("/workspaces/0/key", json!("a b")), "workspaces: key: "),
        (changed("/workspaces/0", Value::Null), "expected a workspace"),
        (changed("/workspaces/0/quota", json!({ "odd": 1 })), "workspaces[0].quota: unknown variant `odd`"),
    ] {
        refused(&emulator, "PUT", "snapshot", &snapshot, 422, said).await;
    }
    let huge = json!({ "format": "x".repeat(17 * 1024 * 1024) });
    assert_eq!(control(&emulator, "PUT", "snapshot", &huge).await.status, 413);
    assert_eq!(control(&emulator, "GET", "snapshot?key=*", &Value::Null).await.body, before);
}

#[tokio::test]
async fn state_is_kept_in_a_file_from_one_run_to_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let open = || builder().configure(|settings| settings.state = Some(file.clone()));
    let first = started(open()).await;
    let subscribed = subscribe_sink(&first, "app").await;
    get_as(&first, KEY, "/v1/system/status").await;
    first.stop().await.expect("it stops");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing half written is left");
    let second = started(open().seed(99)).await;
    let again = subscribe_sink(&second, "app").await;
    assert_eq!(
        (again["id"].clone(), again["created_at"].clone()),
        (subscribed["id"].clone(), subscribed["created_at"].clone())
    );
    assert_eq!(get_as(&second, KEY, "/v1/system/status").await.header("x-ratelimit-remaining"), Some("96"));
    second.stop().await.expect("it stops");
    std::fs::write(&file, "{\"format\":").expect("it is written");
    let refused = open().start().await.expect_err("the file is broken").to_string();
    assert!(refused.contains("--state: ") && refused.contains("not JSON"), "{refused}");
    assert_eq!(
        std::fs::read_to_string(&file).expect("it is there"),
        "{\"format\":",
        "a file that is not understood stays"
    );
    let nowhere = builder().configure(|settings| settings.state = Some("/nowhere/state.json".into()));
    assert!(nowhere.start().await.expect_err("there is no folder").to_string().contains("--state: "));
}

#[tokio::test]
async fn a_snapshot_waits_for_no_key_that_never_rests() {
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", receiver.local_addr().expect("an address"));
    let emulator = start_with(&["webhooks.allow_http=true", "webhooks.timeout=1h"]).await;
    subscribe_url(&emulator, KEY, &url).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let snapshot = control(&emulator, "GET", "snapshot?key=*", &Value::Null);
    let snapshot = tokio::time::timeout(PATIENCE, snapshot).await.expect("the receiver is not waited for");
    assert_eq!(snapshot.json()["workspaces"][0]["deliveries"].as_array().map(Vec::len), Some(1), "it is made again");
}

/// A secret is shown once: the client may use it from then on.
#[test]
fn a_change_survives_a_kill_soon_after_its_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let options = ["--state", file.to_str().expect("a path of text")];
    // Left by a process that was killed while it saved.
    std::fs::write(folder.path().join("state.json.tmp"), "{").expect("it is written");
    let mut served = Served::start(&options);
    let mut secrets = Vec::new();
    for number in 0..3 {
        let made = served.subscribe(&format!("https://app.sink.localhost/{number}"));
        secrets.push(made["secret"].as_str().unwrap_or_else(|| panic!("no secret: {made}")).to_owned());
    }
    eventually("the changes are on disk", || {
        std::fs::read_to_string(&file).is_ok_and(|text| secrets.iter().all(|secret| text.contains(secret)))
    });
    served.kill();
    let served = Served::start(&options);
    let (_, answer) = served.control("GET", "snapshot?key=*", &Value::Null);
    assert!(secrets.iter().all(|secret| answer.contains(secret)), "{answer}");
    // Not killed: it may be saving.
    served.stop();
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["state.json"]);
}

#[tokio::test]
async fn whatever_a_call_changes_is_saved() {
    let time = MachineTime::stop();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let emulator = started(Emulator::builder().seed(7).configure(|settings| settings.state = Some(file.clone()))).await;
    let saved = || std::fs::read_to_string(&file).unwrap_or_default();
    let changes = async |before: String| {
        let changed = async {
            while saved() == before {
                tokio::task::yield_now().await;
            }
        };
        time.passes_until(tokio::time::timeout(10 * PATIENCE, changed)).await.expect("the change is on disk");
    };
    let before = saved();
    let made = subscribe_url(&emulator, KEY, "https://app.sink.localhost/x").await;
    changes(before).await;
    assert!(saved().contains(made["secret"].as_str().expect("a secret")));
    let sub = format!("subscriptions/{}", made["id"].as_str().expect("an id"));
    for (method, path, body) in [
        ("POST", format!("{sub}/rotate"), json!({})),
        ("PUT", sub.clone(), json!({ "description": "d" })),
        ("DELETE", sub, json!({})),
        ("POST", "sink/app".to_owned(), json!({ "respond": [500] })),
        ("POST", "clock".to_owned(), json!({ "mode": "frozen", "key": "sk_test_local" })),
        ("POST", "clock".to_owned(), json!({ "advance": "1s", "key": "sk_test_local" })),
        ("POST", "reset".to_owned(), json!({})),
    ] {
        let before = saved();
        ask(&emulator, method, &path, &body).await;
        changes(before).await;
    }
}

/// Ids and signatures count from 1970.
#[tokio::test]
async fn a_clock_before_1970_is_refused() {
    let emulator = start().await;
    get(&emulator, "/v1/system/status").await;
    let saved = view(&emulator, "snapshot?key=*").await;
    for (place, field, value) in [
        ("/clock", "now", json!("1969-12-31T23:59:59Z")),
        ("/workspaces/0/clock", "now", json!("1960-01-01T00:00:00Z")),
        ("/workspaces/0/clock", "ahead", json!("-PT1000000H")),
    ] {
        let mut early = saved.clone();
        let clock = early.pointer_mut(place).expect("a clock");
        clock[field] = value.clone();
        if field == "ahead" {
            clock["frozen"] = false.into();
        }
        refused(&emulator, "PUT", "snapshot?key=*", &early, 422, "is before 1970").await;
    }
    ask(&emulator, "PUT", "snapshot?key=*", &saved).await;
    let early = builder().frozen_at("1969-12-31T23:59:59Z".parse().expect("a time")).start().await;
    let problem = early.expect_err("it cannot start").to_string();
    assert!(problem.starts_with("--clock: 1969-12-31T23:59:59Z is before 1970"), "{problem}");
}

/// A key that was prepared once is copied for each test: the copy begins where the key is, and neither notices what the other does
/// from then on.
#[tokio::test]
async fn a_copied_key_begins_where_the_other_is() {
    const COPY: &str = "sk_test_copy";
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const STORY: &str = r#"
        [profile]
        rate_limit = { requests = 9, window = "1h" }
        [[rule]]
        when = { operation = "system.status" }
        sequence = [{ pass = true }, { status = 503 }, { pass = true }]
        [[emit]]
        event = "workflow.completed"
        on = { operation = "system.status", status = 200 }
        delay = "10s"
    "#;
    let emulator = start().await;
    put_scenario(&emulator, "story", STORY).await;
    activate(&emulator, &["story"], Some(KEY)).await;
    let (body, sub) = (json!({ "url": "https://app.sink.localhost/a", "secret": SECRET }), "subscriptions");
    let original = ask(&emulator, "POST", sub, &body).await["subscription"]["id"].clone();
    ask(&emulator, "POST", "clock", &json!({ "key": KEY, "advance": "30m" })).await;
    assert_eq!(get(&emulator, "/v1/system/status").await.status, 200);

    let copy = ask(&emulator, "POST", "snapshot/fork", &json!({ "from": KEY, "key": COPY })).await;
    assert_eq!((&copy["key"], &copy["warnings"]), (&json!(COPY), &json!([])));
    let copied = view(&emulator, &format!("{sub}?key={COPY}")).await["data"][0].clone();
    assert_eq!(copied["url"], body["url"]);
    assert_ne!(copied["id"], original, "an id names one subscription");
    let id = copied["id"].as_str().expect("an id");
    assert_eq!(view(&emulator, &format!("{sub}/{id}?secret=true")).await["secret"], SECRET);
    let clocks =
        (view(&emulator, &format!("clock?key={KEY}")).await, view(&emulator, &format!("clock?key={COPY}")).await);
    assert_eq!(clocks.0["now"], clocks.1["now"]);

    // The story goes on with its second step, and the first request counts.
    let answer = get_as(&emulator, COPY, "/v1/system/status").await;
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (503, Some("7")));
    assert_eq!(get_as(&emulator, COPY, "/v1/system/status").await.status, 200);
    assert_eq!(get(&emulator, "/v1/system/status").await.status, 503, "the other key has not moved");
    // The event that was planned before is planned for both.
    ask(&emulator, "POST", "clock", &json!({ "key": COPY, "advance": "10s" })).await;
    let delivered = |key: &str| format!("deliveries?key={key}&status=delivered");
    assert_eq!(view(&emulator, &delivered(COPY)).await["data"].as_array().map(Vec::len), Some(2));
    assert_eq!(view(&emulator, &delivered(KEY)).await["data"].as_array().map(Vec::len), Some(0));

    for (body, status, part) in [
        (json!({ "from": KEY, "key": COPY }), 422, "`sk_test_copy` has state already"),
        (json!({ "from": KEY, "key": KEY }), 422, "has state already"),
        (json!({ "from": KEY, "key": "*" }), 422, ""),
        (json!({ "from": "*", "key": "sk_test_new" }), 422, ""),
        (json!({ "from": "ws_nothing", "key": "sk_test_new" }), 404, "ws_nothing"),
        (json!({ "key": "sk_test_new" }), 422, "missing field `from`"),
    ] {
        refused(&emulator, "POST", "snapshot/fork", &body, status, part).await;
    }
}
