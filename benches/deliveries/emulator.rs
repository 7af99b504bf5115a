//! The emulator's side: one subscription for each delivery in flight, then a burst of events.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wrs_emulator::Emulator;
use wrs_emulator::state::workspace::FireRequest;

use crate::receiver::Receiver;
use crate::{IN_FLIGHT, moment};

const KEY: &str = "sk_test_bench";

/// Delivers `count` events to each subscription; gives the time it took.
pub(crate) async fn deliver(receiver: &Receiver, count: usize) -> io::Result<Duration> {
    let target = format!("{}://localhost:{}", receiver.protocol.name(), receiver.port);
    let builder =
        Emulator::builder().set("rate_limit.enabled=false").forward(&format!("https://app.example.com={target}"));
    let builder = if receiver.ca_file().exists() { builder.webhook_ca(receiver.ca_file()) } else { builder };
    let emulator = builder.start().await.map_err(io::Error::other)?;
    for number in 0..IN_FLIGHT {
        subscribe(&emulator, number).await?;
    }
    // Connections are made before the clock runs, as for the client compared with.
    fire(&emulator)?;
    settled(&emulator).await;
    let started = moment();
    for _ in 0..count {
        fire(&emulator)?;
    }
    settled(&emulator).await;
    let elapsed = started.elapsed();
    let missed = emulator.control().deliveries().list(None, 1, |record| record.attempts.len() != 1);
    emulator.stop().await.expect("it stops");
    if missed.is_empty() { Ok(elapsed) } else { Err(io::Error::other("a delivery did not arrive at once")) }
}

fn fire(emulator: &Emulator) -> io::Result<()> {
    let request = FireRequest { event_type: "workflow.completed".to_owned(), ..FireRequest::default() };
    emulator.control().fire(KEY, request).map(drop).map_err(io::Error::other)
}

async fn settled(emulator: &Emulator) {
    let deliveries = emulator.control().deliveries();
    // Polled now and then: to be notified of each of thousands would be work that no sender does.
    while deliveries.pending() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn subscribe(emulator: &Emulator, number: usize) -> io::Result<()> {
    let address = emulator.base_url().trim_start_matches("http://").to_owned();
    let body = format!(r#"{{"url":"https://app.example.com/{number}","events":["workflow.completed"]}}"#);
    let request = format!(
        "POST /v1/events/subscribe HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(io::Error::other(answer)) }
}
