//! JSON that RFC 8259 leaves open or that a parser may choke on, on the emulated API and on the control API. Never a 5xx, and the
//! next request is answered. What is JSON at all is decided by the library; schemathesis and the fuzz targets send the rest.

use serde_json::Value;
use wrs_emulator::Emulator;

use crate::support::{Answer, documented_calls, get, send, start_with, subscribe_sink, view};

/// What the RFC leaves open, and what is done here.
const OPEN: &[(&[u8], bool)] = &[
    // Numbers beyond a double: too large is refused, too small is zero, too many digits are rounded.
    (b"1e999", false),
    (b"-1e999", false),
    (b"1e-999", true),
    (b"123456789012345678901234567890", true),
    (b"0.12345678901234567890123456789", true),
    (b"1e00000000000000000000000000000001", true),
    (b"1e99999999999999999999", false),
    // Halves of surrogate pairs are no text.
    (b"\"\\uD800\"", false),
    (b"\"\\uDC00\"", false),
    (b"\"\\uDC00\\uD800\"", false),
    (b"\"\\uD800\\u0041\"", false),
    (b"\"\\uD800\\n\"", false),
    (b"\"\\uD800\\uD800\\uDC00\"", false),
    // Bytes that are not UTF-8.
    (b"\"\xff\"", false),
    (b"\"\xc0\xaf\"", false),
    (b"\"\xed\xa0\x80\"", false),
    (b"\"\xf4\x90\x80\x80\"", false),
    (b"\"\xe2\x82\"", false),
    (b"\"\x80\"", false),
    // Of duplicate keys the last one counts.
    (b"{\"a\":1,\"a\":2}", true),
    (b"{\"a\":1,\"\\u0061\":2}", true),
];

/// A body with the value as a field that the contract does not know, and is taken with.
fn subscription(value: &[u8]) -> Vec<u8> {
    [&b"{\"url\":\"https://a.example/\",\"events\":[\"reference.matched\"],\"x\":"[..], value, b"}"].concat()
}

/// A call of the control API with the value in an event's data; the event is lost on purpose, so that nothing waits.
fn firing(value: &[u8]) -> Vec<u8> {
    [&b"{\"type\":\"workflow.completed\",\"drop\":true,\"data\":{\"x\":"[..], value, b"}}"].concat()
}

async fn subscribing(emulator: &Emulator, body: Vec<u8>) -> Answer {
    let headers = [("authorization", "Bearer sk_test_local"), ("content-type", "application/json")];
    send(emulator, "POST", "/v1/events/subscribe", &headers, body).await
}

async fn calling(emulator: &Emulator, method: &str, path: &str, body: Vec<u8>) -> Answer {
    send(emulator, method, &format!("/_emulator/{path}"), &[("content-type", "application/json")], body).await
}

/// Without a quota, so that as many requests can be made as there are cases, and with a subscription to fire at.
async fn stage(settings: &[&str]) -> Emulator {
    let emulator = start_with(&[&["rate_limit.enabled=false"][..], settings].concat()).await;
    subscribe_sink(&emulator, "json").await;
    emulator
}

async fn check(emulator: &Emulator, value: &[u8], taken: bool) {
    let shown = value[..value.len().min(100)].escape_ascii().to_string();
    let answer = subscribing(emulator, subscription(value)).await;
    assert_eq!(answer.status, if taken { 200 } else { 422 }, "subscribe with {shown}: {answer:?}");
    if !taken {
        assert_eq!(answer.code(), "validation_error", "{shown}");
        assert!(answer.message().contains("is not valid JSON"), "{shown}: {}", answer.message());
    }
    let answer = calling(emulator, "POST", "events", firing(value)).await;
    assert_eq!(answer.status, if taken { 200 } else { 422 }, "events with {shown}: {answer:?}");
    if taken {
        // What goes out is JSON again, with the value in it.
        let sent: Value = serde_json::from_str(answer.json()["events"][0]["body"].as_str().expect("a body"))
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        let taken: Value = serde_json::from_slice(value).expect("it was taken");
        assert_eq!(sent["data"]["x"], taken, "{shown}");
    }
    assert_eq!(get(emulator, "/v1/hello").await.status, 200, "after {shown}");
}

#[tokio::test]
async fn what_the_rfc_leaves_open_is_decided() {
    let emulator = stage(&[]).await;
    for (value, taken) in OPEN {
        check(&emulator, value, *taken).await;
    }
}

#[tokio::test]
async fn depth_is_bounded_and_length_is_not_work() {
    let emulator = stage(&[]).await;
    let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    let objects = |depth: usize| [b"{\"a\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat();
    for depth in [1, 100] {
        check(&emulator, &nested(depth), true).await;
        check(&emulator, &objects(depth), true).await;
    }
    for depth in [128, 5_000, 120_000] {
        check(&emulator, &nested(depth), false).await;
        check(&emulator, &b"[".repeat(depth), false).await;
    }
    for depth in [128, 5_000, 30_000] {
        check(&emulator, &objects(depth), false).await;
        check(&emulator, &b"{\"a\":".repeat(depth), false).await;
    }
    check(&emulator, &[b"\"".to_vec(), b"a".repeat(200_000), b"\"".to_vec()].concat(), true).await;
    check(&emulator, &[b"\"".to_vec(), b"\\u0061".repeat(30_000), b"\"".to_vec()].concat(), true).await;
    check(&emulator, &[b"[".to_vec(), b"0,".repeat(50_000), b"0]".to_vec()].concat(), true).await;
    // Digits are read to their end; a number of these is beyond a double, a fraction is only rounded.
    check(&emulator, &b"9".repeat(200_000), false).await;
    check(&emulator, &[b"0.".to_vec(), b"9".repeat(200_000)].concat(), true).await;
    let keys: Vec<u8> = (0..10_000).flat_map(|number| format!("\"k{number}\":{number},").into_bytes()).collect();
    check(&emulator, &[b"{".to_vec(), keys, b"\"last\":0}".to_vec()].concat(), true).await;
}

/// Whole bodies: text that is not JSON and JSON that is not an object have different answers.
#[tokio::test]
async fn whole_bodies_are_objects_or_told_what_they_are() {
    let emulator = stage(&["errors.malformed_json_status=400"]).await;
    for (body, status) in [
        (&b""[..], 400),
        (b" \r\n\t", 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"\xff\xfe{\0}\0", 400),
        (b"\0{\0}", 400),
        (b"{}{}", 400),
        (b"{} x", 400),
        (b"{}\0", 400),
        (b"{\"url\":", 400),
        (b"url=https%3A%2F%2Fa.example", 400),
        (b"null", 422),
        (b"[]", 422),
        (b"7", 422),
        (b"\"{}\"", 422),
        (b"true", 422),
        (b"{}", 422),
        (b" \n{ }\t", 422),
        (b"{\"url\":1,\"events\":{},\"secret\":[],\"description\":false}", 422),
    ] {
        let shown = body.escape_ascii().to_string();
        let answer = subscribing(&emulator, body.to_vec()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, "validation_error"), "{shown}: {answer:?}");
        let what = if status == 400 { ["is empty", "is not valid JSON"] } else { ["must be", "is required"] };
        assert!(what.iter().any(|part| answer.message().contains(part)), "{shown}: {}", answer.message());
        assert_eq!(calling(&emulator, "POST", "events", body.to_vec()).await.status, 422, "{shown}");
    }
    assert_eq!(get(&emulator, "/v1/hello").await.status, 200);
}

/// Every call that takes a body refuses improper JSON and changes nothing.
#[tokio::test]
async fn every_call_of_the_control_api_refuses_what_is_no_json() {
    let emulator = stage(&[]).await;
    let before = view(&emulator, "snapshot?key=*").await;
    for (method, path) in documented_calls(&emulator).await.into_iter().filter(|(method, _)| method != "GET") {
        let improper = [&b"{"[..], b"{\"key\":\"\\ud800\"}", b"\xff", b"[1,]", b"{\"key\":NaN}", &b"[".repeat(50_000)];
        let not_objects = [&b"[]"[..], b" [null, null]", b"[\"sk_test_local\"]", b"null", b"7", b"\"x\"", b"true"];
        for body in improper.into_iter().chain(not_objects) {
            let answer = calling(&emulator, &method, &path, body.to_vec()).await;
            // Some look for what the path names first.
            assert!([404, 422].contains(&answer.status), "{method} {path}: {answer:?}");
            assert!(!answer.message().is_empty(), "{method} {path}");
        }
    }
    assert_eq!(view(&emulator, "snapshot?key=*").await, before, "nothing was changed");
}
