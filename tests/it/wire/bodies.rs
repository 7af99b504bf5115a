//! Bodies: how their length is told, how large they may be, and that a refusal reaches a client that is still sending.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use wrs_emulator::http::handler::Limits;

use super::peer::{GOOD, Peer, assert_error, assert_journaled, others_are_served};
use crate::support::{MachineTime, builder, control, get_as, start, started};

const KIB: usize = 1024;

/// The head of a subscription whose body is described by `fields`.
pub(super) fn subscription(fields: &str) -> String {
    format!(
        "POST /v1/events/subscribe HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\nContent-Type: application/json\r\n{fields}\r\n"
    )
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

fn proper_body() -> String {
    json!({ "url": "https://a.example/", "events": ["reference.matched"] }).to_string()
}

#[tokio::test]
async fn chunks_are_put_together() {
    let emulator = start().await;
    let body = proper_body();
    let (first, second) = body.split_at(10);
    for chunks in [
        chunk(&body) + "0\r\n\r\n",
        chunk(first) + &chunk(second) + "0\r\n\r\n",
        body.chars().map(|letter| chunk(&letter.to_string())).collect::<String>() + "0\r\n\r\n",
        chunk(first) + &chunk(second) + "0\r\nX-Trailer: a\r\n\r\n",
        format!("{:X};name=value\r\n{body}\r\n000\r\n\r\n", body.len()),
    ] {
        let mut peer = Peer::sending(&emulator, subscription("Transfer-Encoding: chunked\r\n") + &chunks).await;
        assert_eq!(peer.answer().await.status, 200, "{chunks:?}");
        peer.send(GOOD).await;
        assert_eq!(peer.answer().await.status, 200, "the connection is kept after {chunks:?}");
    }
}

#[tokio::test]
async fn a_body_with_both_lengths_gets_one_answer_and_the_end() {
    let emulator = start().await;
    let body = chunk(&proper_body()) + "0\r\n\r\n";
    let smuggled = String::from_utf8_lossy(GOOD);
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 9999\r\n",
    ] {
        let mut peer = Peer::sending(&emulator, subscription(fields) + &body + &smuggled).await;
        let answer = peer.answer().await;
        assert_eq!(answer.header("connection"), Some("close"), "{fields}");
        peer.ends().await;
        let control = "POST /_emulator/requests HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let mut peer = Peer::sending(&emulator, format!("{control}{fields}\r\n{body}{smuggled}")).await;
        peer.answer().await;
        peer.ends().await;
    }
}

#[tokio::test]
async fn other_transfer_codings_are_refused() {
    let emulator = start().await;
    for fields in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nX-A: a\r\nTransfer-Encoding: gzip, chunked\r\n",
    ] {
        for head in on_every_kind_of_route(fields) {
            let mut peer = Peer::sending(&emulator, head.clone() + &chunk("{}") + "0\r\n\r\n").await;
            let answer = peer.answer().await;
            assert_eq!((answer.status, answer.code().as_str()), (501, "not_implemented"), "{head}");
            if !head.contains("/_emulator/") {
                assert_error(&answer, 501, "not_implemented", fields);
                assert_journaled(&emulator, &answer).await;
            }
            peer.ends().await;
        }
    }
}

#[tokio::test]
async fn the_lines_of_transfer_codings_are_one_list() {
    let emulator = start().await;
    for (fields, status) in [
        // Without `chunked` at the end, the end of the body is unknown (RFC 9112 §6.3).
        ("Transfer-Encoding: gzip\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
        ("Transfer-Encoding: chunked, gzip\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", 400),
        // An element of a list may be empty.
        ("Transfer-Encoding: , chunked\r\n", 200),
        ("Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n", 200),
    ] {
        for head in on_every_kind_of_route(fields) {
            let body = if head.starts_with("POST /v1") { proper_body() } else { "{}".to_owned() };
            let mut peer = Peer::sending(&emulator, head.clone() + &chunk(&body) + "0\r\n\r\n").await;
            let answer = peer.answer().await;
            let status = if status == 200 && head.contains("nowhere") { 404 } else { status };
            assert_eq!(answer.status, status, "{head}: {answer:?}");
        }
    }
}

/// Heads of requests with these fields: to a route with a body, one without, to none, and to the control API.
fn on_every_kind_of_route(fields: &str) -> [String; 4] {
    let of = |line: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    [subscription(fields), of("GET /v1/hello"), of("POST /nowhere"), of("GET /_emulator/health")]
}

#[tokio::test]
async fn content_codings_are_refused_by_name() {
    let emulator = start().await;
    let body = proper_body();
    let length = format!("Content-Length: {}\r\n", body.len());
    for coding in ["gzip", "br", "GZIP, identity", "deflate\r\nContent-Encoding: gzip"] {
        let fields = format!("Content-Encoding: {coding}\r\n{length}");
        let named = format!("`{}`", coding.replace("\r\nContent-Encoding:", ","));
        let mut peer = Peer::sending(&emulator, subscription(&fields) + &body).await;
        let answer = peer.answer().await;
        assert_error(&answer, 415, "unsupported_media_type", &fields);
        assert!(answer.message().contains(&named), "{coding:?}: {}", answer.message());
        assert_journaled(&emulator, &answer).await;
        let control = "POST /_emulator/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let mut peer = Peer::sending(&emulator, format!("{control}{fields}\r\n{body}")).await;
        let answer = peer.answer().await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{coding:?}");
        assert!(answer.message().contains(&named), "{coding:?}: {}", answer.message());
    }
    let identity = format!("Content-Encoding: identity\r\n{length}");
    let mut peer = Peer::sending(&emulator, subscription(&identity) + &body).await;
    assert_eq!(peer.answer().await.status, 200, "identity is no coding");
    // Without a body there is nothing that could be coded.
    let mut peer = Peer::sending(&emulator, subscription("Content-Encoding: gzip\r\nContent-Length: 0\r\n")).await;
    assert_eq!(peer.answer().await.status, 422);
}

#[tokio::test]
async fn malformed_chunks_are_no_large_body() {
    let emulator = start().await;
    for chunks in [
        "zz\r\n{}\r\n0\r\n\r\n",
        "-1\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}xx0\r\n\r\n",
        "2 2\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        "\r\n\r\n\r\n",
    ] {
        let mut peer = Peer::sending(&emulator, subscription("Transfer-Encoding: chunked\r\n") + chunks).await;
        let answer = peer.answer().await;
        assert_error(&answer, 400, "bad_request", chunks);
        assert_journaled(&emulator, &answer).await;
        peer.ends().await;
    }
}

#[tokio::test]
async fn a_body_that_ends_early_is_malformed() {
    let emulator = start().await;
    for (fields, body) in [("Content-Length: 100\r\n", "{}"), ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n")] {
        let mut peer = Peer::sending(&emulator, subscription(fields) + body).await;
        peer.stream.shutdown().await.expect("half of the connection closes");
        let text = String::from_utf8(peer.rest().await).expect("text");
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{fields}: {text}");
        others_are_served(&emulator).await;
    }
}

#[tokio::test]
async fn a_body_of_the_largest_size_is_read() {
    let emulator = start().await;
    let size = 256 * KIB;
    let body = "x".repeat(size);
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..2 {
        peer.send(subscription(&format!("Content-Length: {size}\r\n")) + &body).await;
        assert_error(&peer.answer().await, 422, "validation_error", "256 KiB");
    }
    let chunks = chunk(&body[..100 * KIB]) + &chunk(&body[100 * KIB..]) + "0\r\n\r\n";
    peer.send(subscription("Transfer-Encoding: chunked\r\n") + &chunks).await;
    assert_error(&peer.answer().await, 422, "validation_error", "256 KiB in chunks");
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_refused_unread() {
    let emulator = start().await;
    for size in [256 * KIB + 1, 10_000_000_000] {
        let mut peer = Peer::sending(&emulator, subscription(&format!("Content-Length: {size}\r\n"))).await;
        // Not one byte of it was sent.
        let answer = peer.answer().await;
        assert_error(&answer, 413, "payload_too_large", "announced");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_journaled(&emulator, &answer).await;
        peer.ends().await;
    }
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let emulator = start().await;
    let size = 4 * 1024 * KIB;
    let body = "x".repeat(size);
    let control = "POST /_emulator/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let by_length = format!("Content-Length: {size}\r\n");
    let chunks = chunk(&body) + "0\r\n\r\n";
    let small_chunks = chunk(&body[..1000]).repeat(4_000) + "0\r\n\r\n";
    for (head, body, status) in [
        (subscription(&by_length), &body, 413),
        (subscription("Transfer-Encoding: chunked\r\n"), &chunks, 413),
        (subscription("Transfer-Encoding: chunked\r\n"), &small_chunks, 413),
        (format!("{control}{by_length}\r\n"), &body, 413),
        (format!("{control}Transfer-Encoding: chunked\r\n\r\n"), &small_chunks, 413),
        (subscription("Transfer-Encoding: gzip, chunked\r\n"), &chunks, 501),
        // Nobody reads the body of these either.
        (format!("POST /nowhere HTTP/1.1\r\nHost: localhost\r\n{by_length}\r\n"), &body, 404),
        (format!("POST /v1/events/subscribe HTTP/1.1\r\nHost: localhost\r\n{by_length}\r\n"), &body, 401),
        (format!("POST /v1/events/subscribe HTTP/1.1\r\n{by_length}\r\n"), &body, 400),
        ("nonsense\r\n\r\n".to_owned(), &body, 400),
    ] {
        let mut peer = Peer::connect(&emulator).await;
        // A reset would fail the sending, and most clients never read an answer then.
        let taken = peer.stream.write_all((head.clone() + body).as_bytes()).await;
        assert!(taken.is_ok(), "{taken:?}: {head}");
        assert_eq!(peer.answer().await.status, status, "{head}");
        peer.ends().await;
    }
}

/// Requests that are answered without looking at their bodies: head without its end, and status.
fn unread_bodies() -> Vec<(String, u16)> {
    let head = |line: &str, fields: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}");
    let key = "Authorization: Bearer sk_test_local\r\n";
    vec![
        (head("POST /v1/events/subscribe", ""), 401),
        (head("POST /nowhere", ""), 404),
        (head("PUT /v1/events/subscribe", key), 405),
        (head("GET /v1/system/status", key), 200),
        (head("POST /v1/events/subscribe", "Authorization: Bearer sk_test_none_left\r\n"), 429),
        (format!("{}Content-Encoding: gzip\r\n", head("POST /v1/events/subscribe", key)), 415),
        (head("GET /", "Accept: text/html\r\n"), 302),
        (head("GET /_emulator/", ""), 200),
        (head("POST /_emulator/nothing", "Content-Type: application/json\r\n"), 404),
    ]
}

/// Head and body may come in one packet or apart; the answer, and whether the connection is kept, are the same.
#[tokio::test]
async fn a_refusal_does_not_depend_on_how_the_body_arrives() {
    let emulator = start().await;
    let limit = json!({ "key": "sk_test_none_left", "rate_limit.requests": 1 });
    assert_eq!(control(&emulator, "PATCH", "profile", &limit).await.status, 200);
    assert_eq!(get_as(&emulator, "sk_test_none_left", "/v1/system/status").await.status, 200);
    for (size, is_kept) in [(10, true), (256 * KIB, true), (256 * KIB + 1, false)] {
        let body = "x".repeat(size);
        let framed = [
            (format!("Content-Length: {size}\r\n\r\n"), body.clone()),
            ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), chunk(&body) + "0\r\n\r\n"),
        ];
        for (head, status) in unread_bodies() {
            for (framing, body) in &framed {
                for is_apart in [false, true] {
                    let case = format!("{size} bytes, {head}{framing} apart: {is_apart}");
                    let mut peer = Peer::connect(&emulator).await;
                    if is_apart {
                        peer.send(format!("{head}{framing}")).await;
                        // By now the head has been handled.
                        others_are_served(&emulator).await;
                        peer.send(body).await;
                    } else {
                        peer.send(format!("{head}{framing}{body}")).await;
                    }
                    let answer = peer.answer().await;
                    assert_eq!(answer.status, status, "{case}");
                    assert_eq!(answer.header("connection"), (!is_kept).then_some("close"), "{case}");
                    if is_kept {
                        peer.send(GOOD).await;
                        assert_eq!(peer.answer().await.status, 200, "{case}");
                    } else {
                        peer.ends().await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refused_client_that_stays_holds_its_place_only_for_a_while() {
    let time = MachineTime::stop();
    let limits = Limits { connections: 1, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut stays = Peer::sending(&emulator, subscription("Content-Length: 10000000\r\n")).await;
    assert_eq!(stays.answer().await.status, 413);
    // The only place is free again although this client neither sends nor closes.
    time.passes_until(others_are_served(&emulator)).await;
    let mut sends = Peer::sending(&emulator, subscription("Content-Length: 10000000000\r\n")).await;
    assert_eq!(sends.answer().await.status, 413);
    let endless = tokio::spawn(async move {
        let data = vec![b'x'; 64 * KIB];
        while sends.stream.write_all(&data).await.is_ok() {}
    });
    time.passes_until(others_are_served(&emulator)).await;
    endless.await.expect("the sender ends when it is cut off");
}
