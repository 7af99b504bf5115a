//! Slow peers: each is ended by a deadline on the machine's time, while the emulator's clock stands still and others are
//! served. The deadline under test is short, the others are hours, so that only the right one can pass.

use std::time::Duration;

use wrs_emulator::Emulator;
use wrs_emulator::http::handler::Limits;

use super::bodies::subscription;
use super::peer::{GOOD, Peer, assert_error, assert_journaled, others_are_served};
use crate::support::{MachineTime, PATIENCE, builder, started};

const SHORT: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_hours(10);

fn patient() -> Limits {
    Limits {
        header_timeout: NEVER,
        body_timeout: NEVER,
        idle_timeout: NEVER,
        write_timeout: NEVER,
        ..Limits::default()
    }
}

async fn start(limits: Limits) -> Emulator {
    started(builder().limits(limits)).await
}

/// The peer keeps its connection for half of the deadline, and loses it once that is over. Others are served, which also shows that the
/// emulator has read what the peer sent.
async fn is_ended(time: &MachineTime, emulator: &Emulator, peer: &mut Peer) {
    others_are_served(emulator).await;
    time.passes(SHORT / 2).await;
    others_are_served(emulator).await;
    peer.has_nothing();
    time.passes(SHORT).await;
    peer.is_gone().await;
}

/// Sends one byte after the other for longer than the deadline: the peer is never silent, and loses its connection.
async fn drips_until_it_is_ended(time: &MachineTime, emulator: &Emulator, peer: &mut Peer, byte: &str) {
    for _ in 0..10 {
        peer.send(byte).await;
        others_are_served(emulator).await;
        peer.has_nothing();
        time.passes(SHORT / 10).await;
    }
    time.passes(SHORT / 10).await;
    peer.has_ended().await;
}

#[tokio::test]
async fn a_silent_connection_is_ended() {
    let time = MachineTime::stop();
    let emulator = start(Limits { header_timeout: SHORT, ..patient() }).await;
    for beginning in ["", "GET /v1/hello HT"] {
        let mut peer = Peer::sending(&emulator, beginning).await;
        is_ended(&time, &emulator, &mut peer).await;
    }
}

#[tokio::test]
async fn a_dripping_header_block_is_ended() {
    let time = MachineTime::stop();
    let emulator = start(Limits { header_timeout: SHORT, ..patient() }).await;
    let mut peer = Peer::sending(&emulator, "GET /v1/hello HTTP/1.1\r\nX-A: ").await;
    drips_until_it_is_ended(&time, &emulator, &mut peer, "a").await;
}

#[tokio::test]
async fn a_second_header_block_has_the_same_deadline() {
    let time = MachineTime::stop();
    let emulator = start(Limits { header_timeout: SHORT, ..patient() }).await;
    let mut peer = Peer::sending(&emulator, GOOD).await;
    assert_eq!(peer.answer().await.status, 200);
    // Between requests the header deadline does not run.
    time.passes(2 * SHORT).await;
    peer.send(GOOD).await;
    assert_eq!(peer.answer().await.status, 200);
    drips_until_it_is_ended(&time, &emulator, &mut peer, "G").await;
    // The beginning of a block came with the whole of the one before, and nothing after it.
    for beginning in ["GET /v1/he", "GET /v1/hello HTTP/1.1\r\n"] {
        let mut peer = Peer::sending(&emulator, [GOOD, beginning.as_bytes()].concat()).await;
        assert_eq!(peer.answer().await.status, 200);
        is_ended(&time, &emulator, &mut peer).await;
    }
    // After a body nobody can tell such a beginning from the body but the parser: with the idle deadline it ends as well.
    let emulator = start(Limits { idle_timeout: SHORT, ..patient() }).await;
    let request = subscription("Content-Length: 2\r\n") + "{}GET /v1/he";
    let mut peer = Peer::sending(&emulator, request).await;
    assert_eq!(peer.answer().await.status, 422);
    is_ended(&time, &emulator, &mut peer).await;
}

#[tokio::test]
async fn an_idle_connection_is_ended() {
    let time = MachineTime::stop();
    let emulator = start(Limits { idle_timeout: SHORT, ..patient() }).await;
    let mut peer = Peer::sending(&emulator, [GOOD, GOOD].concat()).await;
    assert_eq!(peer.answer().await.status, 200);
    assert_eq!(peer.answer().await.status, 200);
    is_ended(&time, &emulator, &mut peer).await;
}

#[tokio::test]
async fn a_slow_body_is_told_and_ended() {
    let time = MachineTime::stop();
    let emulator = start(Limits { body_timeout: SHORT, ..patient() }).await;
    for (fields, beginning) in [("Content-Length: 100\r\n", "{"), ("Transfer-Encoding: chunked\r\n", "5\r\n{")] {
        let mut peer = Peer::sending(&emulator, subscription(fields) + beginning).await;
        others_are_served(&emulator).await;
        time.passes(SHORT / 2).await;
        others_are_served(&emulator).await;
        peer.has_nothing();
        time.passes(SHORT).await;
        let answer = peer.answer().await;
        assert_error(&answer, 408, "request_timeout", fields);
        assert_journaled(&emulator, &answer).await;
        peer.ends().await;
    }
    let mut peer = Peer::sending(&emulator, subscription("Content-Length: 100000\r\n")).await;
    drips_until_it_is_ended(&time, &emulator, &mut peer, "x").await;
    // The control API reads its bodies in the same way.
    let head = "POST /_emulator/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    let mut peer = Peer::sending(&emulator, head).await;
    others_are_served(&emulator).await;
    time.passes(2 * SHORT).await;
    assert_eq!(peer.answer().await.status, 408);
    peer.ends().await;
}

#[tokio::test]
async fn a_client_that_takes_no_bytes_is_ended() {
    let time = MachineTime::stop();
    let limits = Limits { write_timeout: SHORT, connections: 1, ..patient() };
    let text = "x".repeat(2 * 1024 * 1024);
    let large = format!("hello.body={{ text = \"{text}\" }}");
    let emulator = started(builder().limits(limits).set(&large)).await;
    // More than what both ends of a loopback connection buffer.
    let full = Peer::sending(&emulator, GOOD.repeat(20)).await;
    // There is one place: the next client is served only when this one has been ended.
    let mut next = Peer::sending(&emulator, "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(time.passes_until(next.answer()).await.status, 404);
    drop(full);
}

#[tokio::test]
async fn a_client_that_takes_bytes_slowly_gets_all_of_them() {
    let limits = Limits { write_timeout: PATIENCE, ..patient() };
    let text = "x".repeat(2 * 1024 * 1024);
    let large = format!("hello.body={{ text = \"{text}\" }}");
    let emulator = started(builder().limits(limits).set(&large)).await;
    let mut peer = Peer::sending(&emulator, GOOD.repeat(5)).await;
    for _ in 0..5 {
        others_are_served(&emulator).await;
        let answer = peer.answer().await;
        assert_eq!((answer.status, answer.body.len() > text.len()), (200, true));
    }
}
