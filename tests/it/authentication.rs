//! 401: which keys are valid, which reason is reported, and what comes before and after the key.

use serde_json::json;

use crate::support::{control, get_as, send, start, start_with};

// proves BEARER STATUS_401 UNAUTHORIZED
#[tokio::test]
async fn refused_keys_get_401_with_a_challenge_and_no_quota_headers() {
    let emulator = start().await;
    let long = format!("Bearer sk_test_{}", "a".repeat(256));
    for (values, challenge, said) in [
        (&[][..], "Bearer", "missing"),
        (&["Basic c2s6"], "Bearer", "not Bearer"),
        (&["sk_test_local"], "Bearer", "not Bearer"),
        (&["Bearer"], "Bearer", "empty"),
        (&[&*long], "Bearer error=\"invalid_token\"", "longer than 256 characters"),
        (&["Bearer sk_test_a b"], "Bearer error=\"invalid_token\"", "malformed"),
        (&["Bearer SK_TEST_a"], "Bearer error=\"invalid_token\"", "prefix of an API key"),
        (&["Bearer sk_test_"], "Bearer error=\"invalid_token\"", "malformed"),
        (
            &["Bearer sk_live_a"],
            "Bearer error=\"invalid_token\"",
            "live key, and the sandbox accepts test keys; send a test key",
        ),
        (
            &["Bearer other"],
            "Bearer error=\"invalid_token\"",
            "prefix of an API key; send a test key, for example sk_test_local",
        ),
        (&["Bearer sk_test_a", "Bearer sk_test_a"], "Bearer error=\"invalid_token\"", "more than one"),
    ] {
        let headers: Vec<(&str, &str)> = values.iter().map(|value| ("authorization", *value)).collect();
        let answer = send(&emulator, "GET", "/v1/system/status", &headers, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{values:?}");
        assert_eq!(answer.header("www-authenticate"), Some(challenge), "{values:?}");
        assert!(answer.message().contains(said), "{values:?}: {}", answer.message());
        assert_eq!(answer.header("x-ratelimit-limit"), None, "{values:?}");
    }
    let elsewhere = send(&emulator, "GET", "/v1/system/status", &[("x-api-key", "sk_test_a")], "").await;
    assert_eq!((elsewhere.status, elsewhere.header("www-authenticate")), (401, Some("Bearer")));
    assert!(elsewhere.message().contains("the key is in X-Api-Key"), "{}", elsewhere.message());
}

// proves BEARER PREFIXES
#[tokio::test]
async fn any_well_formed_test_key_is_valid_whatever_the_case_of_the_scheme() {
    let emulator = start().await;
    let longest = format!("Bearer sk_test_{}", "a".repeat(256 - 8));
    for value in ["Bearer sk_test_a", "bearer sk_test_A-Z_09", "BEARER   sk_test_x", &longest] {
        let answer = send(&emulator, "GET", "/v1/system/status", &[("authorization", value)], "").await;
        assert_eq!(answer.status, 200, "{value}");
    }
}

/// Route, then authentication, then quota, then content.
#[tokio::test]
async fn checks_come_in_the_documented_order() {
    let emulator = start_with(&["rate_limit.requests=1"]).await;
    let huge = vec![b'x'; 300 * 1024];
    let json = ("content-type", "application/json");
    let bearer = ("authorization", "Bearer sk_test_order");
    assert_eq!(send(&emulator, "POST", "/nowhere", &[json], huge.clone()).await.status, 404);
    assert_eq!(send(&emulator, "POST", "/v1/events/subscribe", &[json], huge.clone()).await.status, 401);
    assert_eq!(send(&emulator, "POST", "/v1/events/subscribe", &[json, bearer], huge.clone()).await.status, 413);
    assert_eq!(send(&emulator, "POST", "/v1/events/subscribe", &[json, bearer], huge).await.status, 429);
    assert_eq!(get_as(&emulator, "sk_test_order2", "/v1/system/status?include_checks=1").await.status, 422);
    assert_eq!(get_as(&emulator, "sk_test_order2", "/v1/system/status?include_checks=1").await.status, 429);
}

/// The last valid key and host are remembered; a change of the settings, another key and a reset count all the same.
#[tokio::test]
async fn a_key_that_was_valid_is_judged_again_after_every_change() {
    let emulator = start().await;
    let ask = async |key: &str| {
        let answer = get_as(&emulator, key, "/v1/system/status").await;
        (answer.status, answer.header("x-ratelimit-remaining").map(str::to_owned))
    };
    let left = |left: u32| (200, Some(left.to_string()));
    let change = async |body| assert_eq!(control(&emulator, "PATCH", "profile", &body).await.status, 200, "{body}");
    for (key, expected) in [("sk_test_a", 99), ("sk_test_b", 99), ("sk_test_a", 98), ("sk_test_a", 97)] {
        assert_eq!(ask(key).await, left(expected), "{key}");
    }
    change(json!({ "keys": { "mode": "list", "list": ["sk_test_b"] } })).await;
    assert_eq!((ask("sk_test_a").await, ask("sk_test_b").await), ((401, None), left(98)));
    change(json!({ "keys": { "mode": null, "list": null } })).await;
    assert_eq!(ask("sk_test_a").await, left(96));
    control(&emulator, "POST", "reset", &json!({ "key": "sk_test_a" })).await;
    assert_eq!(ask("sk_test_a").await, left(99));
    let twice = [("authorization", "Bearer sk_test_a"), ("authorization", "Bearer sk_test_a")];
    assert_eq!(send(&emulator, "GET", "/v1/system/status", &twice, "").await.status, 401);
}
