//! What the journal has of connections: which requests came on one, in what order, and when its bytes went over it.

use std::time::Duration;

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use super::peer::Peer;
use crate::support::{get, start};

const HELLO: &str = "GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// What the journal has of the connections, oldest request first.
async fn connections(emulator: &Emulator) -> Vec<Value> {
    let mut all = Vec::new();
    let list = get(emulator, "/_emulator/requests?key=*").await.json();
    for row in list["data"].as_array().expect("rows").iter().rev() {
        let id = row["id"].as_str().expect("an id");
        all.push(get(emulator, &format!("/_emulator/requests/{id}")).await.json()["connection"].clone());
    }
    all
}

#[tokio::test]
async fn requests_are_numbered_on_their_connection() {
    let emulator = start().await;
    let (mut one, mut other) = (Peer::sending(&emulator, HELLO).await, Peer::sending(&emulator, "").await);
    assert_eq!(one.answer().await.status, 200);
    other.send(HELLO).await;
    assert_eq!(other.answer().await.status, 200);
    emulator.control().advance(Duration::from_secs(5)).await;
    one.send(HELLO).await;
    assert_eq!(one.answer().await.status, 200);
    let (start, later) = ("2026-01-31T09:30:00.000Z", "2026-01-31T09:30:05.000Z");
    let expected = [(1, 1, start), (2, 1, start), (1, 2, later)].map(|(number, sequence, at)| {
        json!({ "number": number, "sequence": sequence, "first_byte_at": at, "answered_at": at })
    });
    assert_eq!(connections(&emulator).await, expected);
}

#[tokio::test]
async fn a_request_sent_together_with_the_one_before_has_no_first_byte() {
    let emulator = start().await;
    let mut peer = Peer::sending(&emulator, HELLO.repeat(2)).await;
    for _ in 0..2 {
        assert_eq!(peer.answer().await.status, 200);
    }
    let known = connections(&emulator).await;
    let known: Vec<bool> = known.iter().map(|connection| connection["first_byte_at"].is_string()).collect();
    assert_eq!(known, [true, false]);
}

#[tokio::test]
async fn bytes_that_are_not_a_request_have_no_connection() {
    let emulator = start().await;
    let mut peer = Peer::sending(&emulator, "nonsense\r\n\r\n").await;
    assert_eq!(peer.answer().await.status, 400);
    assert_eq!(connections(&emulator).await, [Value::Null]);
}
