//! Events that are signed without being sent, and the probe's cases as requests: for handlers that a test calls in its own process.

use serde_json::{Value, json};

use crate::support::{Outcome, START, ask, control, hook, refused, run, start, subscribe, view};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The moment at which the clock is frozen.
fn now() -> String {
    START.as_second().to_string()
}

/// What `wrs-emulator verify` says of a signed event, with the exit code.
fn verified(event: &Value, arguments: &[&str]) -> Outcome {
    let headers: String = event["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}: {}\n", value.as_str().unwrap_or_default()))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (head, body) = (folder.path().join("headers"), folder.path().join("body"));
    std::fs::write(&head, headers).expect("written");
    std::fs::write(&body, event["body"].as_str().expect("a text")).expect("written");
    let (head, body) = (head.display().to_string(), body.display().to_string());
    run(&[&["verify", "--headers", &head, &body, "--now", &now()], arguments].concat())
}

#[tokio::test]
async fn an_event_is_signed_with_a_secret_and_nothing_is_kept() {
    let emulator = start().await;
    let request = json!({ "type": "workflow.completed", "secret": SECRET, "set": { "workflow_id": "wf_7" } });
    let event = ask(&emulator, "POST", "events/sign", &request).await;
    verified(&event, &["--secret", SECRET]).exits(0);
    let body: Value = serde_json::from_str(event["body"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&body["id"], &body["data"]["workflow_id"]), (&event["id"], &json!("wf_7")));
    assert_eq!(event["headers"]["webhook-id"], event["id"]);
    assert_eq!(event["headers"]["content-type"], "application/json");
    assert_eq!(event["headers"].get("x-emulator-delivery"), None);
    let again = ask(&emulator, "POST", "events/sign", &request).await;
    assert_ne!(again["id"], event["id"], "a handler takes it for the same event");
    assert_eq!(view(&emulator, "deliveries").await["data"], json!([]));
    assert_eq!(view(&emulator, "run").await["events"], json!([]));
}

#[tokio::test]
async fn each_forgery_is_refused_and_the_subscription_signs_where_no_secret_is_given() {
    let emulator = start().await;
    refused(&emulator, "POST", "events/sign", &json!({ "type": "workflow.completed" }), 404, "no secret to sign with")
        .await;
    let secret = subscribe(&emulator, &hook("https://app.example.com/hooks")).await.json()["secret"].clone();
    let secret = secret.as_str().expect("a secret").to_owned();
    for tamper in ["body", "signature", "secret", "old_secret", "timestamp", "future_timestamp", "headers"] {
        let request = json!({ "type": "workflow.completed", "tamper": tamper });
        let event = ask(&emulator, "POST", "events/sign", &request).await;
        let outcome = verified(&event, &["--secret", &secret]);
        assert_ne!(outcome.status.code(), Some(0), "{tamper}: {event}");
    }
    for scheme in ["svix", "stripe", "github", "slack", "shopify"] {
        let request = json!({ "type": "workflow.completed", "scheme": scheme });
        let event = ask(&emulator, "POST", "events/sign", &request).await;
        verified(&event, &["--secret", &secret, "--scheme", scheme]).exits(0);
    }
    let long = "a".repeat(100_000);
    for (field, value) in [("set", json!({ &long: 1 })), ("tamper", json!(long)), ("subscription", json!(long))] {
        let request = json!({ "type": "workflow.completed", field: value });
        let answer = control(&emulator, "POST", "events/sign", &request).await;
        assert!(answer.status >= 400 && answer.body.len() < 1000, "{field}: {} bytes", answer.body.len());
    }
    let unknown = json!({ "type": "workflow.nope", "secret": SECRET });
    refused(&emulator, "POST", "events/sign", &unknown, 422, "unsupported event type").await;
    let bad = json!({ "type": "workflow.completed", "secret": "whsec_%" });
    refused(&emulator, "POST", "events/sign", &bad, 422, "the secret").await;
}

#[tokio::test]
async fn the_cases_of_the_probe_are_requests_with_the_expected_answer() {
    let emulator = start().await;
    let cases = ask(&emulator, "POST", "events/cases", &json!({ "secret": SECRET })).await["data"].clone();
    let cases = cases.as_array().expect("a list");
    let names: Vec<&str> = cases.iter().filter_map(|case| case["name"].as_str()).collect();
    assert!(names.contains(&"valid") && names.contains(&"body-changed"), "{names:?}");
    assert!(!names.contains(&"chunked") && !names.contains(&"slow-sender"), "only the wire differs: {names:?}");
    for case in cases {
        for request in case["requests"].as_array().expect("requests") {
            let (accepted, is_post) = (case["accepted"].to_string(), request["method"] == "POST");
            let verifies = is_post && verified(request, &["--secret", SECRET]).status.code() == Some(0);
            assert_eq!(verifies, accepted.contains("2xx") && is_post, "{case}");
        }
    }
    let other = ask(&emulator, "POST", "events/cases", &json!({ "secret": SECRET })).await["data"].clone();
    assert_ne!(other[0]["requests"][0]["body"], cases[0]["requests"][0]["body"], "the ids are those of another run");
    let answer = control(&emulator, "POST", "events/cases", &json!({ "secret": "" })).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    for url in ["nowhere", "https://a.example/\u{7}"] {
        let request = json!({ "type": "workflow.completed", "secret": SECRET, "url": url });
        refused(&emulator, "POST", "events/sign", &request, 422, "url: expected the URL of a receiver").await;
    }
    let large = json!({ "events.data": { "workflow.completed": { "x": "a".repeat(60_000) } } });
    ask(&emulator, "PATCH", "profile", &large).await;
    refused(&emulator, "POST", "events/cases", &json!({ "secret": SECRET }), 422, "shorten `events.data`").await;
}

#[tokio::test]
async fn a_test_that_signs_in_process_need_make_no_request() {
    let emulator = start().await;
    let failed = json!({ "key": "sk_test_a", "test": "handles", "outcome": "failed", "message": "assert 401 == 204" });
    let sign = json!({ "key": "sk_test_a", "type": "workflow.completed", "secret": SECRET });
    ask(&emulator, "POST", "events/sign", &sign).await;
    ask(&emulator, "POST", "outcome", &failed).await;
    let cause = |verdict: &Value| (verdict["causes"][0]["sentence"].clone(), verdict["causes"][0].clone());
    let verdict = view(&emulator, "verdict").await;
    let (sentence, whole) = cause(&verdict);
    assert_eq!(sentence, "assert 401 == 204; 1 event signed in process, and the test made no request");
    assert!(!verdict.to_string().contains("WRS_BASE_URL"), "{verdict}");
    // The clock of these tests stands far from this machine's, which a handler that compares the time refuses.
    assert!(whole["advice"].to_string().contains("real"), "{whole}");
    ask(&emulator, "PATCH", "profile", &json!({ "webhooks": { "timestamp": "real" } })).await;
    let (_, whole) = cause(&view(&emulator, "verdict").await);
    assert!(whole["remedy"].as_str().is_some_and(|text| text.starts_with("does the handler verify with")), "{whole}");
    // After a reset nothing was signed.
    ask(&emulator, "POST", "reset", &json!({ "key": "sk_test_a" })).await;
    ask(&emulator, "POST", "outcome", &failed).await;
    let (sentence, _) = cause(&view(&emulator, "verdict").await);
    assert_eq!(sentence, "assert 401 == 204; 0 requests arrived");
}
