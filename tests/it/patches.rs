//! Settings changed while the emulator runs, over the socket: in force at once, for all keys or one, with their source.

use serde_json::{Value, json};

use crate::support::{ask, control, get_as, refused, send, sized, start, start_with, view};

const STATUS: &str = "/v1/system/status";

fn setting(listing: &Value, name: &str) -> (Value, Value) {
    let rows = listing["data"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["setting"] == name).unwrap_or_else(|| panic!("no {name}"));
    (row["value"].clone(), row["source"].clone())
}

#[tokio::test]
async fn settings_change_at_once_for_all_keys_or_one_and_are_taken_back() {
    let emulator = start_with(&["rate_limit.requests=50"]).await;
    let limit = async |key: &str| {
        let answer = get_as(&emulator, key, "/v1/system/status").await;
        answer.header("x-ratelimit-limit").expect("a limit").to_owned()
    };
    assert_eq!(limit("sk_test_a").await, "50");
    let answer = control(&emulator, "PATCH", "profile", &json!({ "rate_limit": { "requests": 40 } })).await;
    assert_eq!((answer.status, &answer.json()["patch"]), (200, &json!({ "rate_limit.requests": 40 })));
    let own = json!({ "key": "sk_test_a", "rate_limit.requests": 30, "ids": { "style": "counter" } });
    let answer = control(&emulator, "PATCH", "profile", &own).await;
    assert_eq!((answer.status, &answer.json()["key"]), (200, &json!("sk_test_a")), "{answer:?}");
    assert_eq!((limit("sk_test_a").await, limit("sk_test_b").await), ("30".to_owned(), "40".to_owned()));
    let listing = view(&emulator, "profile?key=sk_test_a").await;
    assert_eq!(setting(&listing, "rate_limit.requests"), (json!(30), json!("control API")));
    assert_eq!(setting(&listing, "rate_limit.window").1, "default");
    assert_eq!(listing["key_patch"]["ids.style"], "counter");
    let workspace = view(&emulator, "requests?key=sk_test_a").await["data"][0]["workspace"].clone();
    let by_id = format!("profile?key={}", workspace.as_str().expect("an id"));
    let back = control(&emulator, "PATCH", &by_id, &json!({ "rate_limit": null })).await;
    assert_eq!((back.status, limit("sk_test_a").await.as_str()), (200, "40"), "{back:?}");
    control(&emulator, "PATCH", "profile?key=*", &json!({ "rate_limit.requests": null })).await;
    assert_eq!(limit("sk_test_a").await, "50");
    let listing = view(&emulator, "profile").await;
    assert_eq!((setting(&listing, "rate_limit.requests").1, &listing["patch"]), (json!("builder"), &json!({})));
}

/// Each test of a large suite may have its own settings: those of keys whose test has ended make room.
#[tokio::test]
async fn as_many_tests_as_there_are_have_settings_of_their_own() {
    let emulator = start().await;
    for number in 1..=sized(101, 1_001) {
        let key = format!("sk_test_{number}");
        ask(&emulator, "PATCH", "profile", &json!({ "key": key, "rate_limit.requests": number })).await;
        let answer = get_as(&emulator, &key, STATUS).await;
        assert_eq!(answer.header("x-ratelimit-limit"), Some(&*number.to_string()));
        ask(&emulator, "POST", "outcome", &json!({ "key": key, "test": key, "outcome": "passed" })).await;
    }
}

#[tokio::test]
async fn a_request_that_names_its_scenarios_keeps_the_settings_of_its_key() {
    let emulator = start_with(&["rate_limit.requests=50"]).await;
    control(&emulator, "PATCH", "profile", &json!({ "key": "sk_test_a", "rate_limit.requests": 30 })).await;
    let limit = async |key: &str, names: &str| {
        let headers = [("authorization", &*format!("Bearer {key}")), ("x-emulator-scenario", names)];
        let answer = send(&emulator, "GET", "/v1/system/status", &headers, "").await;
        answer.header("x-ratelimit-limit").expect("a limit").to_owned()
    };
    for (key, names, expected) in [
        ("sk_test_a", "", "30"),
        ("sk_test_a", "degraded-dependencies", "30"),
        ("sk_test_b", "degraded-dependencies", "50"),
    ] {
        assert_eq!(limit(key, names).await, expected, "{key} with `{names}`");
    }
}

#[tokio::test]
async fn a_wrong_patch_changes_nothing_and_says_why() {
    let emulator = start_with(&[]).await;
    let before = view(&emulator, "health").await["generation"].clone();
    for (body, said) in [
        (json!({ "rate_limit": { "requests": 5, "windw": "1s" } }), "did you mean `rate_limit.window`"),
        (json!({ "rate_limit": { "requests": 5, "window": "soon" } }), "`rate_limit.window`"),
        (json!({ "key": 5, "rate_limit.requests": 5 }), "key: expected a string"),
        (json!({}), "expected settings"),
        (json!({ "key": "sk_test_a" }), "expected settings"),
        (json!([]), "body:"),
    ] {
        refused(&emulator, "PATCH", "profile", &body, 422, said).await;
    }
    let unknown = control(&emulator, "PATCH", "profile?key=sk_live_x", &json!({ "rate_limit.requests": 5 })).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(view(&emulator, "health").await["generation"], before);
}

/// Settings of different layers are judged together: none has to be valid without the others.
#[tokio::test]
async fn settings_are_judged_together_in_whatever_order_and_layer() {
    let (test, live) = ("keys.test_prefix=sk_live_", "keys.live_prefix=sk_prod_");
    for order in [[test, live], [live, test]] {
        let emulator = crate::support::start_with(&order).await;
        assert_eq!(get_as(&emulator, "sk_live_x", STATUS).await.status, 200, "{order:?}");
    }
    let emulator = start().await;
    let both = json!({ "keys.test_prefix": "sk_live_", "keys.live_prefix": "sk_prod_" });
    let turned = json!({ "keys": { "live_prefix": "sk_test_", "test_prefix": "sk_live_" } });
    for payload in [both, turned] {
        ask(&emulator, "PATCH", "profile", &payload).await;
        assert_eq!(get_as(&emulator, "sk_live_x", STATUS).await.status, 200, "{payload}");
        assert_eq!(control(&emulator, "PATCH", "profile", &json!({ "keys": null })).await.status, 200);
    }
    refused(
        &emulator,
        "PATCH",
        "profile",
        &json!({ "keys.test_prefix": "sk_live_" }),
        422,
        "`keys.test_prefix`: test and live keys cannot both begin",
    )
    .await;
    // Two scenarios, neither of which could be active alone.
    for (name, setting, prefix) in [("one", "test_prefix", "sk_live_"), ("two", "live_prefix", "sk_test_")] {
        let scenario = json!({ "profile": { "keys": { setting: prefix } } });
        ask(&emulator, "PUT", &format!("scenarios/{name}"), &scenario).await;
        let alone = control(&emulator, "POST", "scenarios/active", &json!({ "active": [name] })).await;
        assert_eq!(alone.status, 422, "{alone:?}");
        let problem = &alone.json()["diagnostics"][0];
        let reported = (problem["code"].as_str(), problem["line"].as_u64().is_some_and(|line| line > 0));
        assert_eq!(reported, (Some("profile/bad-value"), true), "{problem}");
        assert!(alone.message().contains(&format!("`keys.{setting}`")), "{}", alone.message());
    }
    for list in [["one", "two"], ["two", "one"]] {
        ask(&emulator, "POST", "scenarios/active", &json!({ "active": list })).await;
        assert_eq!(get_as(&emulator, "sk_live_x", STATUS).await.status, 200, "{list:?}");
    }
}

const NEEDY: &str = "[[emit]]\nevent = 'order.paid'\non = 'command'\n";

#[tokio::test]
async fn a_setting_that_a_scenario_given_as_text_needs_cannot_be_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json");
    let open = || crate::support::builder().configure(|settings| settings.state = Some(file.clone())).start();
    let emulator = open().await.expect("it starts");
    let patch = async |payload: Value| control(&emulator, "PATCH", "profile", &payload).await;
    let put = async || {
        let headers = [("content-type", "application/toml")];
        send(&emulator, "PUT", "/_emulator/scenarios/needy", &headers, NEEDY).await.status
    };
    assert_eq!(put().await, 422, "it needs its own event type");
    assert_eq!(patch(json!({ "events.extra": ["order.paid"] })).await.status, 200);
    assert_eq!(put().await, 200);
    let active = json!({ "active": ["needy"] });
    assert_eq!(control(&emulator, "POST", "scenarios/active", &active).await.status, 200);
    let before = view(&emulator, "health").await;
    for payload in
        [json!({ "events.extra": null }), json!({ "events": { "extra": ["other"] } }), json!({ "events": null })]
    {
        let refused = patch(payload.clone()).await;
        assert_eq!(refused.status, 422, "{payload}: {refused:?}");
        let why = refused.message();
        assert!(
            why.contains("scenario `needy`")
                && why.contains("order.paid")
                && why.contains("DELETE /_emulator/scenarios/needy"),
            "{why}"
        );
    }
    assert_eq!(view(&emulator, "health").await, before, "nothing has changed");
    // More event types, other settings and those of one key are free to change.
    for payload in [
        json!({ "events.extra": ["order.paid", "other"] }),
        json!({ "rate_limit.requests": 5 }),
        json!({ "events.extra": [], "key": "sk_test_a" }),
    ] {
        assert_eq!(patch(payload.clone()).await.status, 200, "{payload}");
    }
    emulator.stop().await.expect("the state is saved");
    let emulator = open().await.expect("the state is loaded");
    let listed = view(&emulator, "scenarios").await;
    assert_eq!(listed["active"], json!(["needy"]), "{listed}");
    // Once the scenario is gone, so may the setting be.
    assert_eq!(control(&emulator, "POST", "scenarios/active", &json!({ "active": [] })).await.status, 200);
    assert_eq!(control(&emulator, "DELETE", "scenarios/needy", &Value::Null).await.status, 200);
    assert_eq!(control(&emulator, "PATCH", "profile", &json!({ "events.extra": null })).await.status, 200);
}

/// What is wrong is named, not listed without end.
#[tokio::test]
async fn thousands_of_wrong_settings_get_a_short_answer() {
    let emulator = start().await;
    let changes = |count: usize| (0..count).map(|number| (format!("nope{number}"), json!(1))).collect::<Value>();
    for (count, shown) in [(100, 20), (5_000, 1)] {
        let answer = control(&emulator, "PATCH", "profile", &changes(count)).await;
        let listed = answer.json()["diagnostics"].as_array().map(Vec::len);
        assert_eq!((answer.status, listed), (422, Some(shown)), "{count}");
        assert!(answer.body.len() < 10_000, "{} bytes for {count}", answer.body.len());
    }
    let text = |lines: &str| format!("[profile]\n{lines}");
    let unknown: String = (0..20_000).map(|number| format!("n{number}=1\n")).collect();
    for (text, most) in [(text(&unknown), 20), (text("").repeat(20_000), 10)] {
        let answer =
            send(&emulator, "PUT", "/_emulator/scenarios/s", &[("content-type", "application/toml")], text).await;
        let listed = answer.json()["diagnostics"].as_array().map(Vec::len);
        assert_eq!((answer.status, listed), (422, Some(most)));
    }
}
