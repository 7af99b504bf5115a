//! `key` in calls of the control API: accepted by each, as query parameter and as body field, and never with a thing of another
//! key. And which requests are a key's.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{
    Answer, KEY, builder, control, documented_calls, fire, get, get_as, send, start, started, subscribe_sink, view,
};

const OTHER: &str = "sk_test_other";

/// A call that names a key in one of the two ways.
async fn call(emulator: &Emulator, method: &str, path: &str, body: &Value, key: &str, in_body: bool) -> Answer {
    if in_body {
        let mut body = if body.is_null() { json!({}) } else { body.clone() };
        body["key"] = key.into();
        control(emulator, method, path, &body).await
    } else {
        let mark = if path.contains('?') { '&' } else { '?' };
        control(emulator, method, &format!("{path}{mark}key={key}"), body).await
    }
}

#[tokio::test]
async fn every_call_takes_a_key_in_both_ways_and_refuses_one_that_is_none() {
    let emulator = start().await;
    for (method, path) in documented_calls(&emulator).await {
        let body = if path.ends_with("/wait") { json!({ "timeout": "0s" }) } else { Value::Null };
        let open = ["health", "ca.pem"].contains(&path.as_str());
        for in_body in [false, true] {
            // A body of a GET is not read, and the stream does not end.
            if method == "GET" && in_body {
                continue;
            }
            let wrong = call(&emulator, &method, &path, &body, "sk_live_nobody", in_body).await;
            let expected = if open { wrong.status } else { 404 };
            assert_eq!(wrong.status, expected, "{method} {path}, in the body: {in_body}: {wrong:?}");
            if !open {
                assert!(wrong.message().contains("is not an API key: keys begin with"), "{method} {path}: {wrong:?}");
            }
            if path == "stream" {
                continue;
            }
            let taken = call(&emulator, &method, &path, &body, KEY, in_body).await;
            if taken.status >= 400 && !(open && taken.status == 405) {
                assert!(!taken.message().contains("`key`"), "{method} {path}, in the body: {in_body}: {taken:?}");
            }
        }
        if method != "GET" {
            let answer = control(&emulator, &method, &path, &json!({ "key": 5 })).await;
            assert_eq!(answer.status, 422, "{method} {path}: {answer:?}");
            assert!(answer.message().starts_with("body: key: expected a string"), "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_key_beside_an_id_must_own_it() {
    let emulator = start().await;
    let sub = subscribe_sink(&emulator, "app").await["id"].as_str().expect("an id").to_owned();
    let fired = fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let id = |value: &Value| value["id"].as_str().expect("an id").to_owned();
    let (event, delivery) = (id(&fired["events"][0]), id(&fired["deliveries"][0]));
    let request = get(&emulator, "/v1/system/status").await;
    let request = request.header("x-emulator-request-id").expect("an id");
    let calls = [
        ("GET", format!("requests/{request}")),
        ("GET", format!("explain/{request}")),
        ("GET", format!("explain/{event}")),
        ("GET", format!("explain/{delivery}")),
        ("GET", format!("deliveries/{delivery}")),
        ("POST", format!("deliveries/{delivery}/redeliver?wait=15s")),
        ("GET", format!("subscriptions/{sub}")),
        ("PUT", format!("subscriptions/{sub}")),
        ("POST", format!("subscriptions/{sub}/rotate")),
        ("DELETE", format!("subscriptions/{sub}")),
    ];
    for (method, path) in &calls {
        for in_body in [false, true] {
            if *method == "GET" && in_body {
                continue;
            }
            let refused = call(&emulator, method, path, &Value::Null, OTHER, in_body).await;
            assert_eq!(refused.status, 404, "{method} {path}, in the body: {in_body}: {refused:?}");
            assert!(refused.message().contains("of this key"), "{method} {path}: {refused:?}");
        }
    }
    let shown = view(&emulator, &format!("subscriptions/{sub}")).await;
    assert_eq!(shown["signing_secrets"], 1, "nothing was rotated: {shown}");
    for (method, path) in &calls {
        let keys = if *method == "DELETE" { &[KEY][..] } else { &[KEY, "*"] };
        for key in keys {
            let taken = call(&emulator, method, path, &Value::Null, key, *method != "GET").await;
            assert_eq!(taken.status, 200, "{method} {path} with {key}: {taken:?}");
        }
    }
}

/// A snapshot and a scenario are documents; `key` is not one of their fields.
#[tokio::test]
async fn a_key_within_a_document_is_no_part_of_it() {
    let emulator = start().await;
    get(&emulator, "/v1/system/status").await;
    let saved = view(&emulator, &format!("snapshot?key={KEY}")).await;
    assert!(saved["key"].is_null(), "{saved}");
    for (key, status) in [(KEY, 200), (OTHER, 422)] {
        let loaded = call(&emulator, "PUT", "snapshot", &saved, key, true).await;
        assert_eq!(loaded.status, status, "{key}: {loaded:?}");
    }
    let put = call(&emulator, "PUT", "scenarios/mine", &json!({ "title": "t" }), KEY, true).await;
    assert_eq!(put.status, 200, "{put:?}");
    let text = view(&emulator, "scenarios/mine").await["text"].clone();
    assert!(text.as_str().is_some_and(|text| text.contains("title") && !text.contains("key")), "{text}");
}

/// An emission that any 404 would set off, if rules and emissions saw it.
const ON_404: &str = "
[[given.subscription]]
url = 'https://app.sink.localhost/x'
events = ['workflow.completed']

[[emit]]
event = 'workflow.completed'
on = { status = 404 }
";

#[tokio::test]
async fn a_404_and_a_405_belong_to_the_key_that_was_sent() {
    let emulator = started(builder().scenario_text(ON_404)).await;
    let bearer = ("authorization", "Bearer sk_test_local");
    let named = [bearer, ("x-emulator-scenario", "no-such-scenario")];
    for (method, path, headers, status) in [
        ("GET", "/nowhere", &[bearer][..], 404),
        ("GET", "/v1/workflows", &[bearer], 404),
        ("PUT", "/v1/system/status", &[bearer], 405),
        ("GET", "/nowhere", &named, 404),
    ] {
        let answer = send(&emulator, method, path, headers, "").await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (status, None), "{method} {path}");
        let id = answer.header("x-emulator-request-id").expect("an id");
        let own = control(&emulator, "GET", &format!("requests/{id}?key={KEY}"), &Value::Null).await;
        assert_eq!((own.status, &own.json()["key"]), (200, &json!(KEY)), "{method} {path}: {own:?}");
    }
    assert_eq!(
        get(&emulator, "/v1/system/status").await.header("x-ratelimit-remaining"),
        Some("99"),
        "nothing was counted"
    );
    for refused in ["sk_live_no", "no key"] {
        assert_eq!(get_as(&emulator, refused, "/nowhere").await.status, 404);
    }
    for (key, count) in [(KEY, 5), (OTHER, 0), ("*", 7)] {
        let listed = view(&emulator, &format!("requests?key={key}")).await;
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(count), "{key}: {listed}");
        let verdict = view(&emulator, &format!("verdict?key={key}")).await;
        assert_eq!(verdict["judged_requests"], count, "{key}: {verdict}");
        assert_eq!(verdict["counts"]["unmatched"], if count == 0 { 0 } else { count - 1 }, "{key}: {verdict}");
    }
    emulator.control().settle().await;
    let deliveries = view(&emulator, "deliveries?key=*").await;
    assert_eq!(deliveries["data"], json!([]), "no rule and no emission sees such a request");
    // The envelope is that of the key's own settings.
    let payload = json!({ "errors.codes.not_found": "missing", "key": KEY });
    assert_eq!(control(&emulator, "PATCH", "profile", &payload).await.status, 200);
    for (key, code) in [(KEY, "missing"), (OTHER, "not_found")] {
        assert_eq!(get_as(&emulator, key, "/nowhere").await.code(), code, "{key}");
    }
}

#[tokio::test]
async fn a_request_that_needs_no_key_belongs_to_the_key_that_it_carries() {
    let emulator = start().await;
    get_as(&emulator, OTHER, "/v1/hello").await;
    for key in ["sk_live_abcdef", "nonsense"] {
        get_as(&emulator, key, "/v1/hello").await;
    }
    get(&emulator, "/v1/hello").await;
    let rows = |answer: &Value| {
        let rows = answer["data"].as_array().expect("a list").iter();
        rows.map(|row| (row["key"].clone(), row["workspace"].clone())).collect::<Vec<_>>()
    };
    let all = rows(&view(&emulator, "requests?key=*").await);
    let keys: Vec<&Value> = all.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&json!("sk_test_local"), &Value::Null, &json!("sk_live_…cdef"), &json!(OTHER)]);
    assert!(all.iter().all(|(_, workspace)| workspace.is_null()), "nobody looked at the key: {all:?}");
    let own = rows(&view(&emulator, &format!("requests?key={OTHER}")).await);
    assert_eq!(own, [(json!(OTHER), Value::Null)]);
    let awaited = control(&emulator, "POST", "requests/wait", &json!({ "key": OTHER, "timeout": "0s" })).await;
    assert_eq!(awaited.status, 200, "{awaited:?}");
    let document = view(&emulator, "run").await;
    let counted = document["keys"].as_array().expect("keys").iter();
    let counted: Vec<_> = counted.map(|key| (key["key"].clone(), key["requests"].clone())).collect();
    assert_eq!(counted, [(json!(OTHER), json!(1))], "the other has no workspace yet");
    assert_eq!(view(&emulator, &format!("verdict?key={OTHER}")).await["judged_requests"], 1);
    control(&emulator, "POST", "reset", &json!({ "key": OTHER })).await;
    assert!(rows(&view(&emulator, &format!("requests?key={OTHER}")).await).is_empty());
}
