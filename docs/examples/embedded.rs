//! The emulator inside a test of Rust: `cargo test` of this project compiles and runs this file.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wrs_emulator::Emulator;

/// The client of the recipe: the status of one status check.
async fn status(url: &str, key: &str) -> u16 {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.expect("the emulator listens");
    let request = format!(
        "GET /v1/system/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
}

#[tokio::test]
async fn a_client_backs_off() {
    let emulator = Emulator::builder().seed(7).set("rate_limit.requests=1").start().await.expect("the emulator starts");
    for expected in [200, 429] {
        assert_eq!(status(&emulator.base_url(), "sk_test_rust").await, expected);
    }
    emulator.stop().await.expect("it stops");
}
