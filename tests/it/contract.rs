//! The contract row by row: status, hello, error envelope, routes, announced endpoints.

use serde_json::json;

use crate::support::{get, send, start, start_with};

// proves STATUS_200 STATUS_OK STATUS_ENVIRONMENT STATUS_VERSION STATUS_CHECKED_AT VERSION_LABEL JSON PATH_VERSION
#[tokio::test]
async fn status_has_exactly_the_published_fields() {
    let emulator = start().await;
    let answer = get(&emulator, "/v1/system/status").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.json(),
        json!({ "ok": true, "environment": "sandbox", "version": "v1.0", "checked_at": "2026-01-31T09:30:00.000Z" })
    );
}

// proves INCLUDE_CHECKS STATUS_CHECKS STATUS_422
#[tokio::test]
async fn include_checks_adds_dependency_details() {
    let emulator = start().await;
    let answer = get(&emulator, "/v1/system/status?include_checks=true").await;
    assert_eq!(answer.json()["checks"]["database"]["status"], "ok");
    let answer = get(&emulator, "/v1/system/status?include_checks=false").await;
    assert_eq!(answer.json().get("checks"), None);
    for query in [
        "include_checks=yes",
        "include_checks=",
        "include_checks",
        "include_checks=TRUE",
        "include_checks=true&include_checks=1",
    ] {
        let answer = get(&emulator, &format!("/v1/system/status?{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "validation_error"), "{query}");
        assert!(answer.message().starts_with("include_checks: must be true or false"), "{query}");
    }
    for query in ["%69nclude_checks=%74rue&unknown=1&%FF=%FE", "include_checks=x&include_checks=true"] {
        let answer = get(&emulator, &format!("/v1/system/status?{query}")).await;
        assert!(answer.json()["checks"].is_object(), "{query}");
    }
}

// proves HELLO HELLO_KEYLESS HELLO_VERSION HELLO_BODY PATH_VERSION
#[tokio::test]
async fn hello_needs_no_key_and_has_its_own_version() {
    let emulator = start().await;
    let answer = send(&emulator, "GET", "/v1/hello", &[], "").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({ "message": "Hello, world!", "version": "1.3.2" }));
    assert_eq!(answer.header("x-ratelimit-limit"), None);
    let odd = send(&emulator, "GET", "/v1/hello", &[("authorization", "Basic x")], "").await;
    assert_eq!(odd.status, 200);
}

#[tokio::test]
async fn every_answer_carries_its_request_id_and_only_promised_headers() {
    let emulator = start().await;
    for (method, path) in [
        ("GET", "/v1/hello"),
        ("GET", "/v1/system/status"),
        ("GET", "/nowhere"),
        ("PUT", "/v1/hello"),
        ("POST", "/v1/events/subscribe"),
    ] {
        let answer = send(&emulator, method, path, &[], "").await;
        assert!(answer.header("x-emulator-request-id").is_some(), "{method} {path}");
        for name in answer.headers.keys() {
            let promised = [
                "content-type",
                "content-length",
                "date",
                "connection",
                "www-authenticate",
                "allow",
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
            ];
            assert!(
                promised.contains(&name.as_str()) || name.as_str().starts_with("x-emulator-"),
                "{method} {path}: {name}"
            );
        }
    }
}

#[tokio::test]
async fn unknown_methods_are_reported_in_the_envelope() {
    let emulator = start().await;
    for (method, path, allow) in [
        ("POST", "/v1/hello", "GET, HEAD"),
        ("OPTIONS", "/v1/hello", "GET, HEAD"),
        ("get", "/v1/hello", "GET, HEAD"),
        ("TRACE", "/v1/system/status", "GET, HEAD"),
        ("BREW", "/v1/system/status", "GET, HEAD"),
        ("GET", "/v1/events/subscribe", "POST"),
        ("HEAD", "/v1/events/subscribe", "POST"),
    ] {
        let answer = send(&emulator, method, path, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
        if method != "HEAD" {
            assert_eq!(answer.code(), "method_not_allowed", "{method} {path}");
        }
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{method} {path}");
    }
}

#[tokio::test]
async fn a_keys_ids_do_not_depend_on_what_others_do() {
    let mut ids = Vec::new();
    for noise in [0, 5] {
        let emulator = start().await;
        for _ in 0..noise {
            send(&emulator, "GET", "/v1/system/status", &[], "").await;
            crate::support::get_as(&emulator, "sk_test_other", "/v1/system/status").await;
        }
        for path in ["/v1/system/status", "/nowhere"] {
            let answer = get(&emulator, path).await;
            ids.push(answer.header("x-emulator-request-id").expect("an id").to_owned());
        }
    }
    assert_eq!(ids[..2], ids[2..]);
}

// proves ENVIRONMENTS PREFIXES STATUS_ENVIRONMENT
#[tokio::test]
async fn production_turns_the_keys_round() {
    let emulator = start_with(&["environment=production"]).await;
    assert_eq!(get(&emulator, "/v1/system/status").await.status, 401);
    let answer = crate::support::get_as(&emulator, "sk_live_a", "/v1/system/status").await;
    assert_eq!(answer.json()["environment"], "production");
}
