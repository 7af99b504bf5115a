//! Bytes that do not parse, and heads over their limits: each has an answer with the envelope, an id and a journal entry.

use std::fmt::Write as _;

use wrs_emulator::Emulator;
use wrs_emulator::http::handler::Limits;

use super::peer::{GOOD, Peer, assert_error, assert_journaled};
use crate::support::{builder, start, started, view};

/// A request whose header block has `fields` fields and at least `bytes` bytes.
fn request(fields: usize, bytes: usize) -> String {
    let mut text = "GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n".to_owned();
    for number in 1..fields {
        write!(text, "X-{number}: a\r\n").expect("a string takes everything");
    }
    if let Some(missing) = bytes.checked_sub(text.len()) {
        let line = text.find("X-1: ").map_or(text.len(), |at| at + 5);
        text.insert_str(line, &"a".repeat(missing));
    }
    text + "\r\n"
}

fn target(bytes: usize) -> String {
    format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(bytes - 1))
}

/// The bytes are refused on a fresh connection, and after a good request on the same one.
async fn check(emulator: &Emulator, bytes: &[u8], status: u16, code: &str) {
    let shown = bytes[..bytes.len().min(80)].escape_ascii().to_string();
    for good_ones in [0, 1, 3] {
        let mut peer = Peer::connect(emulator).await;
        for _ in 0..good_ones {
            peer.send(GOOD).await;
            assert_eq!(peer.answer().await.status, 200, "{shown}");
        }
        peer.send(bytes).await;
        let answer = peer.answer().await;
        assert_error(&answer, status, code, &shown);
        assert_eq!(answer.header("connection"), Some("close"), "{shown}");
        peer.ends().await;
        assert_journaled(emulator, &answer).await;
    }
    // All in one write: the good answer comes first and whole.
    let mut peer = Peer::sending(emulator, [GOOD, bytes].concat()).await;
    assert_eq!(peer.answer().await.status, 200, "{shown}");
    assert_error(&peer.answer().await, status, code, &shown);
    peer.ends().await;
}

/// The same form as in any other answer, and the same clock.
#[tokio::test]
async fn the_answer_to_bytes_that_are_no_request_is_dated() {
    let emulator = start().await;
    let refused = Peer::sending(&emulator, "nonsense\r\n\r\n").await.answer().await;
    let answered = Peer::sending(&emulator, GOOD).await.answer().await;
    assert_eq!(refused.header("date"), Some("Sat, 31 Jan 2026 09:30:00 GMT"));
    assert_eq!(refused.header("date"), answered.header("date"));
}

#[tokio::test]
async fn bytes_that_are_no_request_are_answered() {
    let emulator = start().await;
    for bytes in [
        &b"nonsense\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /v1/hello\r\n\r\n",
        b"GET  /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/hello HTTP/1.1 \r\nHost: localhost\r\n\r\n",
        b"GET /v1/hello HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /v1/hello HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"G\xffT /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/\x00hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET v1/hello/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n folded: line\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n: no name\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nX-A: \x01\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\rX-A: a\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /v1/hello HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        b"POST /v1/hello HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a client that begins TLS\r\n\r\n",
    ] {
        check(&emulator, bytes, 400, "bad_request").await;
    }
}

#[tokio::test]
async fn heads_over_their_limits_are_answered() {
    let emulator = start().await;
    check(&emulator, target(20 * 1024).as_bytes(), 414, "uri_too_long").await;
    check(&emulator, target(70 * 1024).as_bytes(), 414, "uri_too_long").await;
    check(&emulator, request(65, 0).as_bytes(), 431, "headers_too_large").await;
    check(&emulator, request(1_000, 0).as_bytes(), 431, "headers_too_large").await;
    check(&emulator, request(5, 17 * 1024).as_bytes(), 431, "headers_too_large").await;
    check(&emulator, request(5, 1_000_000).as_bytes(), 431, "headers_too_large").await;
    // The largest lengths that are numbers of 64 bits, which hyper refuses by itself.
    for length in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
        let head = format!("POST /v1/events/subscribe HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
        let head = head + "Authorization: Bearer sk_test_local\r\nContent-Type: application/json\r\n\r\n";
        check(&emulator, head.as_bytes(), 413, "payload_too_large").await;
        // The body begins in the same read.
        let mut peer = Peer::sending(&emulator, head + "{\n\"url\": 1\n}").await;
        assert_error(&peer.answer().await, 413, "payload_too_large", "with a body");
    }
}

#[tokio::test]
async fn a_target_over_its_limit_in_a_proper_head_ends_nothing() {
    let emulator = start().await;
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..2 {
        peer.send(target(8 * 1024 + 1)).await;
        let answer = peer.answer().await;
        assert_error(&answer, 414, "uri_too_long", "a target of 8 KiB and a byte");
        assert_journaled(&emulator, &answer).await;
    }
    peer.send(GOOD).await;
    assert_eq!(peer.answer().await.status, 200);
}

#[tokio::test]
async fn heads_at_their_limits_are_served() {
    let emulator = start().await;
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..2 {
        peer.send(target(8 * 1024)).await;
        assert_error(&peer.answer().await, 404, "not_found", "a target of 8 KiB");
        peer.send(request(64, 0)).await;
        assert_eq!(peer.answer().await.status, 200, "64 fields");
        peer.send(request(64, 15 * 1024)).await;
        assert_eq!(peer.answer().await.status, 200, "15 KiB");
    }
}

#[tokio::test]
async fn limits_of_heads_are_settable() {
    let limits = Limits { header_bytes: 128 * 1024, header_fields: 100, uri_bytes: 100, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut peer = Peer::sending(&emulator, target(101)).await;
    assert_error(&peer.answer().await, 414, "uri_too_long", "a target of 101 bytes");
    // hyper has its own limit here, and answers by itself.
    check(&emulator, target(70 * 1024).as_bytes(), 414, "uri_too_long").await;
    let mut peer = Peer::sending(&emulator, request(100, 100_000)).await;
    assert_eq!(peer.answer().await.status, 200);
}

#[tokio::test]
async fn a_client_that_begins_http_2_is_turned_away() {
    let emulator = start().await;
    let mut peer = Peer::sending(&emulator, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let text = "HTTP/2 is not supported: use HTTP/1.1";
    assert_error(&peer.answer().await, 400, "bad_request", text);
    assert_eq!(Peer::sending(&emulator, GOOD).await.answer().await.status, 200);
    let found = view(&emulator, "requests?key=*&status=400").await;
    let id = found["data"][0]["id"].as_str().expect("an entry");
    let entry = view(&emulator, &format!("requests/{id}")).await;
    assert!(entry["answer"]["body"].to_string().contains(text), "{entry}");
}

#[tokio::test]
async fn an_empty_answer_of_a_scenario_is_no_refusal() {
    let scenario =
        "title = \"Nothing to say\"\n[[rule]]\nwhen.operation = \"hello\"\nreply = { status = 404, body = \"\" }\n";
    let emulator = started(builder().scenario_text(scenario)).await;
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..2 {
        peer.send(GOOD).await;
        let answer = peer.answer().await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{answer:?}");
        assert!(answer.header("x-emulator-generation").is_some(), "{answer:?}");
    }
}
