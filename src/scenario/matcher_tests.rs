//! Tests of conditions: what matches what, and what is reported about a condition that does not hold.

use hyper::header::{AUTHORIZATION, COOKIE};
use serde_json::json;

use super::*;

fn literal(json: Value) -> Literal {
    Literal::new(json)
}

fn check(test: &Test, found: &Found<'_>, expected: bool) {
    assert_eq!(test.holds(found), expected, "{test} on {found:?}");
}

#[test]
fn texts_and_json_are_compared_as_what_they_are() {
    let text = |text: &'static str| Found::Text(Cow::Borrowed(text));
    let (five, half, list) = (json!(5), json!(5.0), json!(["a", {"b": 1}]));
    check(&Test::Equals(literal(json!(5))), &text("5"), true);
    check(&Test::Equals(literal(json!("5"))), &Found::Json(&five), false);
    check(&Test::Equals(literal(json!(5))), &Found::Json(&half), true);
    check(&Test::Equals(literal(json!(["a", {"b": 1.0}]))), &Found::Json(&list), true);
    check(&Test::Equals(literal(json!(true))), &text("true"), true);
    check(&Test::Contains(literal(json!({"b": 1}))), &Found::Json(&list), true);
    check(&Test::Contains(literal(json!("a"))), &Found::Json(&json!({"a": null})), true);
    check(&Test::Contains(literal(json!("bc"))), &text("abcd"), true);
    check(&Test::StartsWith("ab".into()), &Found::Json(&json!("abc")), true);
    check(&Test::StartsWith("5".into()), &Found::Json(&five), false);
    check(&Test::EndsWith("cd".into()), &text("abcd"), true);
    check(&Test::Lt(6.0), &text(" 5 "), true);
    check(&Test::Gt(5.0), &Found::Json(&five), false);
    check(&Test::Gt(5.0), &text("NaN"), false);
    check(&Test::Gt(-3.0), &text("-4"), false);
    check(&Test::Matches(Regex::new("5").expect("a pattern")), &Found::Json(&five), false);
    check(&Test::OneOf(vec![literal(json!(1)), literal(json!("a"))]), &text("a"), true);
}

#[test]
fn absence_satisfies_only_present_false_and_not() {
    for (test, expected) in [
        (Test::Present(false), true),
        (Test::Present(true), false),
        (Test::Equals(literal(json!(null))), false),
        (Test::Lt(1.0), false),
        (Test::Not(vec![Test::Equals(literal(json!("a")))]), true),
        (Test::Not(vec![Test::Present(false)]), false),
    ] {
        check(&test, &Found::Absent, expected);
    }
}

#[test]
fn globs_keep_to_a_segment_unless_doubled() {
    for (glob, path, expected) in [
        ("/v1/*", "/v1/hello", true),
        ("/v1/*", "/v1/system/status", false),
        ("/v1/**", "/v1/system/status", true),
        ("/v?/hello", "/v1/hello", true),
        ("/v1/h.llo", "/v1/hello", false),
        ("**", "", true),
    ] {
        let pattern = Regex::new(&glob_pattern(glob)).expect("globs become valid patterns");
        assert_eq!(pattern.is_match(path), expected, "{glob} on {path}");
    }
}

#[test]
fn values_differ_by_length_key_and_depth() {
    for (one, other, expected) in [
        (json!([1, 2]), json!([1]), false),
        (json!([1, 2]), json!([1, 3]), false),
        (json!([[1], 2.0]), json!([[1.0], 2]), true),
        (json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), false),
        (json!({ "a": 1 }), json!({ "b": 1 }), false),
        (json!({ "a": 1, "b": 2 }), json!({ "a": 1, "b": 3 }), false),
        (json!({ "a": 1, "b": [2] }), json!({ "b": [2.0], "a": 1.0 }), true),
        (json!(5), json!(6.0), false),
        (json!(5), json!(6), false),
        // Beyond a double's precision whole numbers are compared as such.
        (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
        (json!("5"), json!(5), false),
        (json!(null), json!(false), false),
    ] {
        assert_eq!(same(&one, &other), expected, "{one} and {other}");
        assert_eq!(same(&other, &one), expected, "{other} and {one}");
    }
}

/// Why a condition on this subject fails for a request with a secret in its body and its headers.
fn failure(subject: Subject) -> String {
    let mut headers = hyper::HeaderMap::new();
    headers.insert(AUTHORIZATION, hyper::header::HeaderValue::from_static("Bearer sk_test_hidden"));
    headers.insert(COOKIE, hyper::header::HeaderValue::from_static("session=hidden"));
    headers.insert("x-shown", hyper::header::HeaderValue::from_static("seen"));
    let body = br#"{"url":"https://a.example","secret":"whsec_hidden","hook":{"secret":"hidden"},"list":[1]}"#;
    let view = RequestView {
        operation: None,
        method: &hyper::Method::POST,
        path: "/v1/events/subscribe",
        query: Some("token=hidden"),
        headers: &headers,
        body: &hyper::body::Bytes::from_static(body),
        key: Some("sk_live_hidden_1234"),
        keys: &crate::settings::Profile::default().keys,
    };
    let condition = Condition { subject, tests: vec![Test::Equals(literal(json!("expected")))] };
    condition.failure(&Reading::new(&view)).expect("it does not hold")
}

#[test]
fn a_failure_shows_what_is_there_but_no_secret() {
    let body = |pointer: &str| Subject::Body(pointer.into());
    for (subject, shown) in [
        (body("/url"), "https://a.example"),
        (body("/list"), "[1]"),
        (body("/none"), "is absent"),
        (body("/none/secret"), "is absent"),
        (Subject::Header("x-shown".parse().expect("a name")), "seen"),
        (Subject::Path, "/v1/events/subscribe"),
    ] {
        let text = failure(subject);
        assert!(text.contains(shown) && text.ends_with("expected \"expected\""), "{text}");
    }
    for subject in [
        body("/secret"),
        body("/hook"),
        body("/hook/secret"),
        Subject::Header(AUTHORIZATION),
        Subject::Header(COOKIE),
        Subject::Query("token".into()),
        Subject::Key,
    ] {
        let text = failure(subject);
        assert!(!text.contains("hidden"), "{text}");
    }
    assert_eq!(failure(Subject::Header(AUTHORIZATION)), "header.authorization is another");
    assert_eq!(failure(Subject::Key), "the key is sk_live_…1234; another was expected");
    assert!(failure(body("/secret")).contains("may hold a secret; expected \"expected\""));
}
