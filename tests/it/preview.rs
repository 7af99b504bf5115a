//! The announced endpoints: closed by default, served in assumed shapes with the preview on.

use std::time::Duration;

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{Answer, KEY, builder, get, get_as, send, start, start_with, started, subscribe_sink, view};

const ON: &str = "preview.enabled=true";

async fn call(emulator: &Emulator, method: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {KEY}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    send(emulator, method, path, &headers, body.to_string()).await
}

async fn create(emulator: &Emulator, body: &Value) -> Value {
    let answer = call(emulator, "POST", "/v1/workflows", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The types of the events that a sink got, once there are so many.
async fn received(emulator: &Emulator, sink: &str, count: usize) -> Vec<Value> {
    let patience = async {
        while emulator.control().received(sink).len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, patience).await.expect("deliveries in time");
    let receipts = emulator.control().received(sink);
    receipts.iter().map(|receipt| serde_json::from_slice(&receipt.body).expect("JSON")).collect()
}

// proves WORKFLOWS USERS OAUTH
#[tokio::test]
async fn closed_by_default_and_the_answer_says_how_to_open_it() {
    let emulator = start().await;
    for path in ["/v1/workflows", "/v1/workflows/wf_1", "/v1/users", "/v1/oauth/token"] {
        let answer = get(&emulator, path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
        assert!(answer.message().contains("--preview"), "{}", answer.message());
        assert_eq!(answer.header("x-emulator-preview"), None);
    }
}

// proves WORKFLOWS WORKFLOW_STATES
#[tokio::test]
async fn a_workflow_is_created_read_changed_and_cancelled() {
    let emulator = start_with(&[ON]).await;
    let made = create(&emulator, &json!({ "name": "a", "reference": null })).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("wf_"));
    let start = "2026-01-31T09:30:00.000Z";
    let expected = json!({ "id": id, "name": "a", "status": "running", "reference": null, "created_at": start, "updated_at": start });
    assert_eq!(made, expected);
    let path = format!("/v1/workflows/{id}");
    assert_eq!(get(&emulator, &path).await.json(), expected);
    emulator.control().clock().advance(Duration::from_secs(1));
    let changed = call(&emulator, "PATCH", &path, &json!({ "reference": "INV-1" })).await.json();
    assert_eq!((&changed["name"], &changed["reference"]), (&json!("a"), &json!("INV-1")));
    assert_eq!(changed["updated_at"], "2026-01-31T09:30:01.000Z");
    let cancelled = call(&emulator, "POST", &format!("{path}/cancel"), &Value::Null).await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")));
    emulator.control().clock().advance(Duration::from_mins(1));
    assert_eq!(get(&emulator, &path).await.json(), cancelled.json());
    assert_eq!(call(&emulator, "POST", &format!("{path}/cancel"), &Value::Null).await.json(), cancelled.json());
}

#[tokio::test]
async fn completion_comes_with_the_clock_and_is_told_to_subscriptions() {
    let emulator = start_with(&[ON]).await;
    subscribe_sink(&emulator, "a").await;
    let plain = create(&emulator, &json!({})).await;
    let matched = create(&emulator, &json!({ "reference": "{{ not a template" })).await;
    let gone = create(&emulator, &json!({ "reference": "r" })).await;
    call(&emulator, "POST", &format!("/v1/workflows/{}/cancel", gone["id"].as_str().expect("an id")), &Value::Null)
        .await;
    emulator.control().clock().advance(Duration::from_secs(4));
    let path = format!("/v1/workflows/{}", plain["id"].as_str().expect("an id"));
    assert_eq!(get(&emulator, &path).await.json()["status"], "running");
    emulator.control().clock().advance(Duration::from_secs(2));
    let completed = get(&emulator, &path).await.json();
    assert_eq!(
        (&completed["status"], &completed["updated_at"]),
        (&json!("completed"), &json!("2026-01-31T09:30:05.000Z"))
    );
    let events = received(&emulator, "a", 3).await;
    let data: Vec<_> = events.iter().map(|event| (event["type"].clone(), event["data"].clone())).collect();
    assert_eq!(
        data,
        [
            (json!("workflow.completed"), json!({ "workflow_id": plain["id"], "status": "completed" })),
            (json!("workflow.completed"), json!({ "workflow_id": matched["id"], "status": "completed" })),
            (json!("reference.matched"), json!({ "reference_id": "{{ not a template", "workflow_id": matched["id"] })),
        ]
    );
    let late = call(&emulator, "POST", &format!("{path}/cancel"), &Value::Null).await;
    assert_eq!((late.status, late.message().as_str()), (422, "status: a completed workflow cannot be cancelled"));
    emulator.control().clock().advance(Duration::from_hours(1));
    get(&emulator, &path).await;
    assert_eq!(emulator.control().received("a").len(), 3, "each completion is reported once");
}

#[tokio::test]
async fn lists_are_filtered_and_paged_newest_first() {
    let emulator = start_with(&[ON, "rate_limit.enabled=false"]).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, create(&emulator, &json!({})).await["id"].clone());
        emulator.control().clock().advance(Duration::from_secs(2));
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&emulator, &format!("/v1/workflows?limit=2{cursor}")).await.json();
        let data = page["data"].as_array().expect("entries");
        seen.extend(data.iter().map(|workflow| workflow["id"].clone()));
        assert_eq!(page["has_more"], !page["next_cursor"].is_null());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ids);
    for (query, count) in [
        ("status=running", 2),
        ("status=completed", 3),
        ("created_after=2026-01-31T09:30:02Z", 3),
        ("created_before=2026-01-31T09:30:02Z", 1),
        ("created_after=2026-01-31T09:30:00Z&created_before=2026-01-31T09:30:08Z&status=running", 1),
    ] {
        let page = get(&emulator, &format!("/v1/workflows?{query}")).await.json();
        assert_eq!(page["data"].as_array().map(Vec::len), Some(count), "{query}: {page}");
    }
}

#[tokio::test]
async fn every_wrong_field_and_parameter_is_reported() {
    let emulator = start_with(&[ON]).await;
    let refused = async |method: &str, path: &str, body: Value| {
        let answer = call(&emulator, method, path, &body).await;
        assert_eq!(answer.status, 422, "{path} {body}: {answer:?}");
        answer.message()
    };
    let wrong = refused("POST", "/v1/workflows", json!({ "name": 3, "reference": "" })).await;
    assert_eq!(wrong, "name: must be a string, found a number; reference: must not be empty");
    refused("POST", "/v1/workflows", json!({ "name": "é".repeat(257) })).await;
    create(&emulator, &json!({ "name": "é".repeat(256), "more": 1 })).await;
    let wrong = refused("GET", "/v1/workflows?limit=0&status=done&created_after=today", Value::Null).await;
    assert_eq!(wrong.matches("found \"").count(), 3, "{wrong}");
    let query = "limit=x&limit=100&other=1&created_before=2026-01-31T09:30:00%2B01:00&status=running";
    assert_eq!(get(&emulator, &format!("/v1/workflows?{query}")).await.status, 200);
}

#[tokio::test]
async fn announced_paths_are_matched_whole() {
    let emulator = start_with(&[ON]).await;
    for (method, path, status, allow) in [
        ("DELETE", "/v1/workflows", 405, Some("GET, HEAD, POST")),
        ("PUT", "/v1/workflow%73/wf%5F1", 405, Some("GET, HEAD, PATCH")),
        ("GET", "/v1/workflows/wf_1/cancel", 405, Some("POST")),
        ("GET", "/v1/oauth/token", 405, Some("POST")),
        ("GET", "/v1/workflows//cancel", 404, None),
        ("GET", "/v1/workflows/a/b", 404, None),
        ("GET", "/v1/workflowsx", 404, None),
    ] {
        let answer = call(&emulator, method, path, &json!({})).await;
        assert_eq!((answer.status, answer.header("allow")), (status, allow), "{method} {path}");
    }
    let made = call(&emulator, "POST", "/v1/workflows", &json!({ "name": "a" })).await.json();
    let id = made["id"].as_str().expect("an id");
    let found = call(&emulator, "GET", &format!("/v1/workflows/{}", id.replace('_', "%5F")), &json!({})).await;
    assert_eq!(found.json()["id"], id, "{found:?}");
}

#[tokio::test]
async fn the_same_checks_stand_before_every_announced_endpoint() {
    let emulator = start_with(&[ON, "rate_limit.requests=10"]).await;
    let bare = send(&emulator, "GET", "/v1/workflows", &[], "").await;
    assert_eq!((bare.status, bare.header("x-emulator-preview")), (401, Some("true")));
    for (method, path, status, code) in [
        ("GET", "/v1/workflows?limit=0", 422, "validation_error"),
        ("GET", "/v1/workflows?cursor=x", 422, "validation_error"),
        ("GET", "/v1/workflows/wf_none", 404, "not_found"),
        ("PATCH", "/v1/workflows/wf_none", 404, "not_found"),
        ("POST", "/v1/workflows/wf_none/cancel", 404, "not_found"),
        ("GET", "/v1/users/none", 404, "not_found"),
        ("GET", "/v1/users?cursor=x", 422, "validation_error"),
        ("DELETE", "/v1/workflows", 405, "method_not_allowed"),
        ("GET", "/v1/workflows/", 404, "not_found"),
    ] {
        let answer = call(&emulator, method, path, &json!({})).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {path}");
        assert_eq!(answer.header("x-emulator-preview"), Some("true"), "{method} {path}");
    }
    let bad = call(&emulator, "POST", "/v1/workflows", &json!({ "name": 1 })).await;
    assert_eq!((bad.status, bad.message().as_str()), (422, "name: must be a string, found a number"));
    let text = [("authorization", "Bearer sk_test_local"), ("content-type", "text/plain")];
    assert_eq!(send(&emulator, "PATCH", "/v1/workflows/wf_1", &text, "{}").await.status, 422);
    let head = send(&emulator, "HEAD", "/v1/workflows", &text, "").await;
    assert_eq!((head.status, head.body.len(), head.header("x-ratelimit-remaining")), (200, 0, Some("0")));
    assert_eq!(get(&emulator, "/v1/workflows").await.status, 429);
    let other = get_as(&emulator, "sk_test_other", "/v1/workflows").await;
    assert_eq!(other.json(), json!({ "data": [], "has_more": false, "next_cursor": null }));
    assert_eq!(get_as(&emulator, "sk_test_other", "/v1/system/status").await.header("x-emulator-preview"), None);
}

const STORY: &str = r#"
[profile]
preview.enabled = true

[[given.user]]
id = "usr_1"
email = "ada@example.com"

[[given.user]]
email = "bob@example.com"

[[given.workflow]]
id = "wf_1"
name = "given"
reference = "INV-1"

[[given.workflow]]
id = "wf_2"
status = "cancelled"

[[rule]]
when = { operation = "workflows.create" }
reply = { error = "rate_limit_exceeded" }
"#;

// proves USERS
#[tokio::test]
async fn scenarios_give_users_and_workflows_and_name_the_operations() {
    let emulator = started(builder().scenario_text(STORY)).await;
    subscribe_sink(&emulator, "a").await;
    let page = get(&emulator, "/v1/users?limit=1").await.json();
    assert_eq!(page["data"], json!([{ "id": "usr_1", "email": "ada@example.com" }]));
    let next = page["next_cursor"].as_str().expect("there is more");
    let rest = get(&emulator, &format!("/v1/users?cursor={next}")).await.json();
    assert_eq!((&rest["data"][0]["email"], &rest["has_more"]), (&json!("bob@example.com"), &json!(false)));
    let made = rest["data"][0]["id"].as_str().expect("an id");
    assert_eq!(get(&emulator, &format!("/v1/users/{made}")).await.json(), rest["data"][0]);
    assert_eq!(get(&emulator, "/v1/workflows/wf_1").await.json()["name"], "given");
    assert_eq!(get(&emulator, "/v1/workflows/wf_2").await.json()["status"], "cancelled");
    assert_eq!(call(&emulator, "POST", "/v1/workflows", &json!({})).await.status, 429);
    emulator.control().clock().advance(Duration::from_secs(5));
    let events = received(&emulator, "a", 2).await;
    assert_eq!(events[1]["data"], json!({ "reference_id": "INV-1", "workflow_id": "wf_1" }));
}

#[tokio::test]
async fn the_document_describes_them_while_they_are_served() {
    for (settings, there) in [(&[][..], false), (&[ON][..], true)] {
        let document = view(&start_with(settings).await, "v1/openapi.json").await;
        let workflows = &document["paths"]["/v1/workflows"];
        assert_eq!(workflows["post"]["x-assumed"] == "preview.enabled", there);
        assert_eq!(document["components"]["schemas"].get("Workflow").is_some(), there);
    }
}

async fn token(emulator: &Emulator, headers: &[(&str, &str)], body: &'static str) -> Answer {
    let form = ("content-type", "application/x-www-form-urlencoded");
    let headers: Vec<_> = std::iter::once(form).chain(headers.iter().copied()).collect();
    send(emulator, "POST", "/v1/oauth/token", &headers, body).await
}

const WISH: &str = "grant_type=client_credentials&client_id=x&client_secret=sk_test_local";

// proves OAUTH
#[tokio::test]
async fn a_token_is_an_alias_of_its_key_until_it_expires() {
    let emulator = start_with(&[ON]).await;
    let made = create(&emulator, &json!({})).await;
    let issued = token(&emulator, &[], WISH).await;
    assert_eq!((issued.status, issued.header("cache-control")), (200, Some("no-store")));
    assert_eq!(issued.header("x-emulator-preview"), Some("true"));
    let body = issued.json();
    assert_eq!((&body["token_type"], &body["expires_in"]), (&json!("Bearer"), &json!(3600)));
    let access = body["access_token"].as_str().expect("a token");
    let path = format!("/v1/workflows/{}", made["id"].as_str().expect("an id"));
    assert_eq!(get_as(&emulator, access, &path).await.json()["id"], made["id"]);
    let status = get_as(&emulator, access, "/v1/system/status").await;
    assert_eq!((status.status, status.header("x-ratelimit-remaining")), (200, Some("97")), "one quota for both");
    emulator.control().clock().advance(Duration::from_hours(1));
    let late = get_as(&emulator, access, "/v1/system/status").await;
    assert_eq!((late.status, late.message().as_str()), (401, "the Bearer token has expired"));
    assert_eq!(late.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert_eq!(get_as(&emulator, "oat_never_issued", "/v1/system/status").await.status, 401);
    let rows = view(&emulator, "requests?key=*&limit=100").await;
    for row in rows["data"].as_array().expect("rows") {
        let id = row["id"].as_str().expect("an id");
        let shown = view(&emulator, &format!("requests/{id}")).await.to_string();
        assert!(!shown.contains(access), "{shown}");
    }
}

#[tokio::test]
async fn token_errors_follow_the_rfc_or_the_envelope() {
    let wrong = "grant_type=client_credentials&client_secret=wrong";
    let emulator = start_with(&[ON]).await;
    // `x:sk%5Ftest_local`
    let basic = [("authorization", "Basic eDpzayU1RnRlc3RfbG9jYWw=")];
    assert_eq!(token(&emulator, &basic, "grant_type=client_credentials").await.status, 200);
    for (headers, body, status, error) in [
        (&[][..], wrong, 401, "invalid_client"),
        (&[][..], "grant_type=password&client_secret=sk_test_local", 400, "unsupported_grant_type"),
        (&[][..], "client_secret=sk_test_local", 400, "invalid_request"),
        (&[][..], "grant_type=client_credentials", 401, "invalid_client"),
        (&[][..], "grant_type=client_credentials&client_secret=sk_live_a", 401, "invalid_client"),
        (&[][..], "grant_type=client_credentials&grant_type=x&client_secret=sk_test_a", 400, "invalid_request"),
        (&[("authorization", "Basic bm8gY29sb24=")][..], "grant_type=client_credentials", 401, "invalid_client"),
        (&basic[..], WISH, 400, "invalid_request"),
        (&[("content-type", "application/json")][..], WISH, 400, "invalid_request"),
    ] {
        let answer = token(&emulator, headers, body).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{body}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let challenge = token(&emulator, &[], wrong).await;
    assert_eq!(challenge.header("www-authenticate"), Some("Basic"));
    let enveloped = start_with(&[ON, "oauth.error_shape=envelope"]).await;
    let answer = token(&enveloped, &[], wrong).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
    let answer = token(&enveloped, &[], "grant_type=x&client_secret=sk_test_local").await;
    assert_eq!((answer.status, answer.code().as_str()), (422, "validation_error"));
}
