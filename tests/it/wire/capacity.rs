//! Too many: connections over the cap wait their turn, and bodies share one budget.

use futures_util::future::join_all;
use tokio::time::timeout;
use wrs_emulator::http::handler::Limits;

use super::bodies::subscription;
use super::peer::{GOOD, Peer, others_are_served};
use crate::support::{PATIENCE, builder, started, subscribe};

#[tokio::test]
async fn connections_over_the_cap_wait_and_are_served_once_one_leaves() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut first = Peer::sending(&emulator, GOOD).await;
    assert_eq!(first.answer().await.status, 200);
    let mut second = Peer::sending(&emulator, GOOD).await;
    assert_eq!(second.answer().await.status, 200);
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(Peer::sending(&emulator, GOOD).await);
    }
    // Those who have a place go on; nobody else is served meanwhile.
    for _ in 0..20 {
        first.send(GOOD).await;
        assert_eq!(first.answer().await.status, 200);
    }
    for peer in &waiting {
        peer.has_nothing();
    }
    drop(first);
    for mut peer in waiting {
        assert_eq!(peer.answer().await.status, 200);
    }
    second.send(GOOD).await;
    assert_eq!(second.answer().await.status, 200);
}

#[tokio::test]
async fn silent_connections_over_the_cap_give_way() {
    // No deadline makes room here.
    let limits = Limits { connections: 4, header_timeout: std::time::Duration::from_hours(1), ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut served = Peer::sending(&emulator, GOOD).await;
    assert_eq!(served.answer().await.status, 200);
    let mut silent = Vec::new();
    for number in 0..100 {
        let bytes: &[u8] = if number % 2 == 0 { b"" } else { b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n" };
        silent.push(Peer::sending(&emulator, bytes).await);
    }
    others_are_served(&emulator).await;
    // The oldest silent ones had to go; the newest have a place, and whoever was served keeps its own.
    silent[0].is_gone().await;
    served.send(GOOD).await;
    assert_eq!(served.answer().await.status, 200);
    let newest = silent.last_mut().expect("a connection");
    newest.send("\r\n").await;
    assert_eq!(newest.answer().await.status, 200);
}

#[tokio::test]
async fn bodies_that_never_end_delay_no_ordinary_request() {
    let size = 200 * 1024;
    // Only the budget's own rule can let others through: none of these bodies ends by its deadline.
    let body_timeout = std::time::Duration::from_hours(1);
    let limits = Limits { body_bytes_in_all: 256 * 1024, body_timeout, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let head = subscription(&format!("Content-Length: {size}\r\n"));
    let mut half_sent = Vec::new();
    for _ in 0..4 {
        half_sent.push(Peer::sending(&emulator, head.clone() + &"x".repeat(size - 1)).await);
    }
    let body = serde_json::json!({ "url": "https://a.example/", "events": ["reference.matched"] });
    for _ in 0..5 {
        assert_eq!(subscribe(&emulator, &body).await.status, 200);
    }
    // The budget is given back: with them gone a large body is read at once, and each time again.
    drop(half_sent);
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..4 {
        peer.send(head.clone() + &"x".repeat(size)).await;
        assert_eq!(peer.answer().await.status, 422);
    }
}

#[tokio::test]
async fn large_bodies_wait_for_the_budget() {
    let size = 200 * 1024;
    let limits = Limits { body_bytes_in_all: 256 * 1024, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let head = subscription(&format!("Content-Length: {size}\r\n"));
    let mut peers = Vec::new();
    for _ in 0..8 {
        peers.push(Peer::sending(&emulator, head.clone() + &"x".repeat(size / 2)).await);
    }
    // Together they are more than the budget, and each one has its turn.
    for peer in &mut peers {
        peer.send("x".repeat(size - size / 2)).await;
    }
    for peer in &mut peers {
        assert_eq!(peer.answer().await.status, 422);
    }
    others_are_served(&emulator).await;
}

#[tokio::test]
async fn many_connections_at_once_find_room_to_wait() {
    // What the kernel allows, read from where Linux has it.
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("a number");
    let count = 800.min(most.trim().parse::<usize>().expect("a number"));
    let limits = Limits { connections: 1, ..Limits::default() };
    let emulator = started(builder().limits(limits)).await;
    let mut first = Peer::sending(&emulator, GOOD).await;
    assert_eq!(first.answer().await.status, 200);
    // None of them is accepted, and without room no connect would end.
    let connects = (0..count).map(|_| timeout(PATIENCE, Peer::connect(&emulator)));
    let waiting = join_all(connects).await;
    assert!(waiting.iter().all(Result::is_ok), "the connects end");
}
