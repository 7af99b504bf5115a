//! The graceful stop, in-process. The grace period is an hour wherever a test shows that nothing waits for it.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use wrs_emulator::Emulator;

use super::bodies::subscription;
use super::peer::{GOOD, Peer};
use crate::support::{PATIENCE, builder, started};

async fn start(grace: Duration) -> Emulator {
    started(builder().configure(|settings| settings.grace = grace)).await
}

async fn refuses_connections(address: &str) {
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, refused).await.expect("the listener closes");
}

#[tokio::test]
async fn a_stop_ends_connections_without_a_request_at_once() {
    let emulator = start(Duration::from_hours(1)).await;
    let mut silent = Peer::connect(&emulator).await;
    let mut half_a_head = Peer::sending(&emulator, "GET /v1/hello HTTP/1.1\r\n").await;
    let mut idle = Peer::sending(&emulator, GOOD).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut idle_after_a_body = Peer::sending(&emulator, subscription("Content-Length: 2\r\n") + "{}").await;
    assert_eq!(idle_after_a_body.answer().await.status, 422);
    let mut half_a_second_head = Peer::sending(&emulator, GOOD).await;
    assert_eq!(half_a_second_head.answer().await.status, 200);
    half_a_second_head.send("GET /v1/he").await;
    timeout(PATIENCE, emulator.stop()).await.expect("the stop does not wait for the grace period").expect("it stops");
    for peer in [&mut silent, &mut half_a_head, &mut idle, &mut idle_after_a_body, &mut half_a_second_head] {
        peer.is_gone().await;
    }
}

#[tokio::test]
async fn a_stop_finishes_the_request_under_way() {
    let emulator = start(Duration::from_hours(1)).await;
    let address = emulator.base_url().trim_start_matches("http://").to_owned();
    let body = "{\"url\": \"https://a.example/\", \"events\": [\"reference.matched\"]}";
    let head = subscription(&format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len()));
    let mut peer = Peer::sending(&emulator, head).await;
    // The request has reached its handler.
    assert_eq!(peer.head().await.status, 100);
    let stop = tokio::spawn(emulator.stop());
    refuses_connections(&address).await;
    peer.send(body).await;
    let answer = peer.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    peer.ends().await;
    timeout(PATIENCE, stop).await.expect("the stop ends with the request").expect("no panic").expect("it stops");
}

#[tokio::test]
async fn a_stop_waits_no_longer_than_the_grace_period() {
    let emulator = start(Duration::from_millis(200)).await;
    let mut peer = Peer::sending(&emulator, subscription("Content-Length: 9\r\nExpect: 100-continue\r\n")).await;
    assert_eq!(peer.head().await.status, 100);
    timeout(PATIENCE, emulator.stop()).await.expect("the grace period ends").expect("it stops");
    peer.is_gone().await;
}
