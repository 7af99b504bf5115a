//! Clients that close their sending side after the last request: they get every answer, and are not waited for when they are
//! gone. The clock stands still, so a delayed answer comes only when it is advanced.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use wrs_emulator::Emulator;
use wrs_emulator::http::handler::Limits;

use super::bodies::subscription;
use super::peer::{GOOD, Peer, assert_error, others_are_served};
use crate::support::{MachineTime, builder, next_due, started, view};

const SHORT: Duration = Duration::from_secs(1);
const SLOW: &[u8] = b"GET /v1/system/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_slow\r\n\r\n";

/// An emulator whose `/v1/system/status` does this, with room for so many connections.
async fn start(action: &str, limits: Limits) -> Emulator {
    let scenario = format!("[[rule]]\nwhen = {{ operation = \"system.status\" }}\n{action}\n");
    started(builder().limits(limits).scenario_text(scenario)).await
}

async fn sending_all(emulator: &Emulator, bytes: impl AsRef<[u8]>) -> Peer {
    let mut peer = Peer::sending(emulator, bytes).await;
    peer.stream.shutdown().await.expect("the sending side is open");
    peer
}

#[tokio::test]
async fn pipelines_are_answered_whole() {
    // The clock runs here, so that answers wait and come by themselves.
    let time = MachineTime::stop();
    let scenario = "[[rule]]\nwhen = { operation = \"system.status\" }\ndelay = \"2ms\"\n";
    let emulator = Emulator::builder().set("rate_limit.enabled=false").scenario_text(scenario);
    let emulator = started(emulator).await;
    let subscribe = subscription("Content-Length: 2\r\n") + "{}";
    let pipeline = [GOOD, subscribe.as_bytes(), SLOW].concat().repeat(10);
    for _ in 0..20 {
        let mut peer = sending_all(&emulator, &pipeline).await;
        for number in 0..30 {
            let answer = time.passes_until(peer.answer()).await;
            assert_eq!(answer.status, [200, 422, 200][number % 3], "answer {number}");
        }
        peer.ends().await;
    }
}

#[tokio::test]
async fn a_delayed_answer_still_comes() {
    let emulator = start("delay = \"5s\"", Limits::default()).await;
    let mut peer = sending_all(&emulator, [SLOW, GOOD].concat()).await;
    assert_eq!(next_due(&emulator).await, Duration::from_secs(5));
    // The end came before these requests, so it has been seen.
    others_are_served(&emulator).await;
    peer.has_nothing();
    emulator.control().clock().advance(Duration::from_secs(5));
    for _ in 0..2 {
        assert_eq!(peer.answer().await.status, 200);
    }
    peer.ends().await;
}

#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let text = "x".repeat(32 * 1024);
    let large = format!("hello.body={{ text = \"{text}\" }}");
    let emulator = started(builder().set(&large)).await;
    let mut peer = sending_all(&emulator, GOOD.repeat(100)).await;
    for number in 0..100 {
        if number % 10 == 0 {
            others_are_served(&emulator).await;
        }
        assert!(peer.answer().await.body.len() > text.len());
    }
    peer.ends().await;
}

#[tokio::test]
async fn what_was_not_sent_whole_is_not_waited_for() {
    let never = Duration::from_hours(10);
    let limits = Limits { header_timeout: never, body_timeout: never, idle_timeout: never, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    for bytes in ["", "GET /v1/hello HT", "GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n"] {
        sending_all(&emulator, bytes).await.rest().await;
    }
    let mut peer = sending_all(&emulator, subscription("Content-Length: 20\r\n") + "{\"url\"").await;
    assert_error(&peer.answer().await, 400, "bad_request", "half a body");
    peer.ends().await;
}

/// With one place for connections, another client is served only once the one before has been given up.
#[tokio::test]
async fn a_peer_that_is_gone_is_given_up() {
    let time = MachineTime::stop();
    let limits = Limits { connections: 1, ..Limits::default() };
    // By a reset at once; otherwise after a time, which the idle deadline shortens.
    let short = Limits { idle_timeout: SHORT, ..limits };
    let stall = "fault = { kind = \"stall\", bytes = 5 }";
    for (action, limits, is_reset) in [
        ("delay = \"5s\"", limits, true),
        (stall, limits, true),
        ("delay = \"5s\"", short, false),
        (stall, short, false),
    ] {
        let emulator = start(action, limits).await;
        // More of what it sent waits unread in the second round.
        for more in [&b""[..], GOOD] {
            let mut peer = Peer::sending(&emulator, SLOW).await;
            if action == stall {
                assert_eq!(peer.head().await.status, 200);
            }
            peer.send(more).await;
            if is_reset {
                peer.stream.set_zero_linger().expect("an open socket");
            }
            drop(peer);
            if is_reset {
                others_are_served(&emulator).await;
            } else {
                time.passes_until(others_are_served(&emulator)).await;
            }
        }
        // The journal has them, and says why there is no answer.
        let left = view(&emulator, "requests?status=0").await["data"].as_array().expect("a list").clone();
        assert_eq!(left.len(), if action == stall { 0 } else { 2 }, "{left:?}");
        for request in left {
            assert_eq!((&request["broken"], &request["reason"]), (&json!("client_left"), &json!("client_left")));
            let explained = view(&emulator, &format!("explain/{}", request["id"].as_str().expect("an id"))).await;
            let summary = explained["summary"].as_str().expect("text");
            assert!(summary.starts_with("no answer because the client closed the connection after 0 ms"), "{summary}");
            assert!(
                summary.ends_with("turn 1: after 5000 ms: the ordinary answer") || summary.contains("turn 2"),
                "{summary}"
            );
        }
    }
}

#[tokio::test]
async fn one_that_stays_is_given_up_when_nothing_comes_for_it() {
    let time = MachineTime::stop();
    let limits = Limits { idle_timeout: SHORT, ..Limits::default() };
    for action in ["delay = \"5s\"", "fault = { kind = \"stall\", bytes = 5 }"] {
        let emulator = start(action, limits).await;
        for more in [&b""[..], GOOD] {
            let mut peer = sending_all(&emulator, [SLOW, more].concat()).await;
            time.passes_until(peer.rest()).await;
        }
    }
}
