//! Lists of active scenarios: a key's own starts when it is activated, whatever requests the key makes and whenever.

use serde_json::json;
use wrs_emulator::Emulator;

use crate::support::{activate, ask, builder, control, get_as, notices, put_scenario, start, started, view};

const OWN: &str = "sk_test_own";

/// State, an emission by time, and a rule that applies from half an hour on.
const STORY: &str = r#"
[[given.subscription]]
url = "https://own.sink.localhost/x"
events = ["workflow.completed"]

[[emit]]
event = "workflow.completed"
on = { every = "10s" }
times = 100

[[rule]]
when = { operation = "system.status" }
from = "30m"
to = "1h"
reply = { status = 422, code = "late", message = "half an hour has passed" }
"#;

/// An emulator with the story, active for one key that has made no request.
async fn with_story(key: &str) -> Emulator {
    let emulator = start().await;
    put_scenario(&emulator, "story", STORY).await;
    activate(&emulator, &["story"], Some(key)).await;
    emulator
}

async fn deliveries(emulator: &Emulator, key: &str) -> usize {
    let listed = view(emulator, &format!("deliveries?key={key}&limit=1000")).await;
    listed["data"].as_array().expect("a list").len()
}

#[tokio::test]
async fn a_keys_own_list_starts_when_it_is_activated() {
    let emulator = with_story(OWN).await;
    let listed = view(&emulator, &format!("subscriptions?key={OWN}")).await;
    assert_eq!(listed["data"][0]["url"], "https://own.sink.localhost/x", "{listed}");
    ask(&emulator, "POST", "clock", &json!({ "advance": "35s" })).await;
    assert_eq!(deliveries(&emulator, OWN).await, 3, "no request was needed for the emissions");
    assert_eq!(get_as(&emulator, OWN, "/v1/system/status").await.status, 200);
    ask(&emulator, "POST", "clock", &json!({ "advance": "30m" })).await;
    assert_eq!(get_as(&emulator, OWN, "/v1/system/status").await.code(), "late");
    let listed = view(&emulator, &format!("subscriptions?key={OWN}")).await;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "`given` state is put in place once");
}

#[tokio::test]
async fn a_list_counts_from_activation_on_the_clock_of_its_key() {
    let emulator = with_story(OWN).await;
    ask(&emulator, "POST", "clock", &json!({ "key": OWN, "advance": "30m" })).await;
    assert_eq!(deliveries(&emulator, OWN).await, 100, "every emission was due on the key's own clock");
    assert_eq!(get_as(&emulator, OWN, "/v1/system/status").await.code(), "late");
    ask(&emulator, "POST", "clock", &json!({ "advance": "24h" })).await;
    let other = get_as(&emulator, "sk_test_other", "/v1/system/status").await;
    assert_eq!(other.status, 200, "a list of one key concerns no other");
}

#[tokio::test]
async fn a_new_list_starts_alone_and_within_the_bounds_of_workspaces() {
    let all = "[[given.subscription]]\nurl = \"https://all.sink.localhost/x\"\nevents = [\"workflow.completed\"]\n";
    let builder = builder().scenario_text(all).configure(|settings| settings.max_workspaces = 2);
    let emulator = started(builder).await;
    put_scenario(&emulator, "story", STORY).await;
    for key in ["sk_test_a", "sk_test_b", "sk_test_c"] {
        activate(&emulator, &["story"], Some(key)).await;
    }
    let keys = view(&emulator, "run?limit=0").await["keys"].as_array().map(Vec::len);
    let evicted = notices(&emulator, true).into_iter().filter(|notice| notice.contains(" was forgotten: ")).count();
    assert_eq!((keys, evicted), (Some(2), 1));
    let listed = view(&emulator, "subscriptions?key=sk_test_c").await;
    let urls: Vec<_> = listed["data"].as_array().expect("a list").iter().map(|row| &row["url"]).collect();
    assert_eq!(urls, ["https://own.sink.localhost/x"], "the list of all keys was never this key's");
    // A list that is refused leaves nothing behind.
    let refused =
        control(&emulator, "POST", "scenarios/active", &json!({ "active": ["nope"], "key": "sk_test_d" })).await;
    assert_eq!(refused.status, 404, "{refused:?}");
    assert!(emulator.control().next_due("sk_test_c").is_some() && emulator.control().next_due("sk_test_d").is_none());
    // An embedded emulator does the same.
    emulator.control().use_scenarios(Some("sk_test_d"), &["story"]).expect("it is there");
    emulator.control().settle().await;
    assert!(emulator.control().next_due("sk_test_d").is_some());
}
