//! The built binary: signals, a log that nobody reads, and memory under attack.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use super::bodies::subscription;
use super::peer::GOOD;
use crate::process::{Served, eventually, status};
use crate::support::{sized, wrs_emulator};

/// The listener is closed: the stop has begun.
pub(crate) fn has_closed(served: &Served) {
    eventually("the listener closes", || TcpStream::connect(served.address()).is_err());
}

/// A request that has reached its handler and waits for its body.
pub(crate) fn under_way(served: &Served, size: usize) -> TcpStream {
    let mut stream = served.sending(subscription(&format!("Content-Length: {size}\r\nExpect: 100-continue\r\n")));
    let mut told = [0; 25];
    stream.read_exact(&mut told).expect("the interim answer");
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn a_signal_ends_an_idle_process_with_code_0() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let mut served = Served::start(&["--grace", "1h"]);
        let _silent = served.connect();
        let _half_a_head = served.sending("GET /v1/hello HTTP/1.1\r\n");
        let mut idle = served.sending(GOOD);
        assert_eq!(status(&mut idle), "200");
        let mut idle_after_a_body = served.sending(subscription("Content-Length: 2\r\n") + "{}");
        assert_eq!(status(&mut idle_after_a_body), "422");
        let mut half_a_second_head = served.sending(GOOD);
        assert_eq!(status(&mut half_a_second_head), "200");
        half_a_second_head.write_all(b"GET /v1/he").expect("the bytes are taken");
        served.signal(signal);
        // Were anything waited for, it would be waited for an hour.
        assert_eq!(served.exit_code(), 0, "{signal}");
    }
}

#[test]
fn a_signal_lets_the_request_under_way_finish() {
    let mut served = Served::start(&["--grace", "1h"]);
    let body = "{\"url\": \"https://a.example/\", \"events\": [\"reference.matched\"]}";
    let mut stream = under_way(&served, body.len());
    served.signal("TERM");
    has_closed(&served);
    stream.write_all(body.as_bytes()).expect("the body is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer and the end");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(served.exit_code(), 0);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [("TERM", 128 + 15), ("INT", 128 + 2), ("HUP", 128 + 1), ("QUIT", 128 + 3)] {
        let mut served = Served::start(&["--grace", "1h", "--body-timeout", "1h"]);
        let _under_way = under_way(&served, 100);
        served.signal("TERM");
        has_closed(&served);
        served.signal(signal);
        assert_eq!(served.exit_code(), code, "{signal}");
    }
}

#[test]
fn a_busy_process_ends_with_its_grace_period() {
    let mut served = Served::start(&["--grace", "1ms", "--body-timeout", "1h"]);
    let _under_way = under_way(&served, 100);
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    // As on a machine with one core: with more, only a part of the connections would wait.
    let mut serve = wrs_emulator(&["serve", "--listen", "127.0.0.1:0"]);
    let served = Served::spawn(serve.env("TOKIO_WORKER_THREADS", "1"));
    // Far more lines than a pipe holds.
    let mut client = served.sending(GOOD.repeat(5_000));
    let mut read = vec![0; 64 * 1024];
    let mut left: usize = 5_000 * 100;
    while left > 0 {
        let count = client.read(&mut read).expect("an answer in time");
        assert!(count > 0, "the end with answers missing");
        left = left.saturating_sub(count);
    }
    for _ in 0..200 {
        served.serves();
    }
}

/// Sends what is taken without waiting: the emulator stops reading when it has had enough.
fn push(served: &Served, bytes: &[u8]) -> TcpStream {
    let mut stream = served.connect();
    stream.set_nonblocking(true).expect("an open socket");
    let mut rest = bytes;
    let mut tries = 0;
    while !rest.is_empty() && tries < 5 {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tries += 1;
                sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
    }
    stream
}

#[test]
fn requests_half_sent_and_answers_unread_take_little_memory() {
    let size = 256 * 1024;
    let chunks = format!("{:x}\r\n{}\r\n", 1000, "x".repeat(1000)).repeat(250);
    for (what, connections, sent) in [
        ("half heads", 300, format!("GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nX-A: {}", "a".repeat(15 * 1024))),
        ("half bodies", 400, subscription(&format!("Content-Length: {size}\r\n")) + &"x".repeat(size - 1)),
        ("half bodies in chunks", 400, subscription("Transfer-Encoding: chunked\r\n") + &chunks),
        ("unread answers", 200, String::from_utf8_lossy(GOOD).repeat(20_000)),
    ] {
        let served = Served::start(&[]);
        served.serves();
        let before = served.resident();
        let held: Vec<TcpStream> = (0..connections).map(|_| push(&served, sent.as_bytes())).collect();
        // Whatever was sent has been taken in once a later request is answered.
        (0..20).for_each(|_| served.serves());
        let grown = served.resident().saturating_sub(before);
        assert!(grown <= 128 * 1024 * 1024, "{what}: {grown} bytes");
        drop(held);
        served.serves();
    }
}

/// Fires events whose texts on the stream are nearly a megabyte each, and waits until they are delivered.
fn fire_large_events(served: &Served) {
    served.subscribe("https://app.sink.localhost/");
    for _ in 0..sized(5, 20) {
        let note = "\\n".repeat(100_000);
        let event = format!("{{\"type\":\"workflow.completed\",\"data\":{{\"workflow_id\":\"{note}\"}}}}");
        assert_eq!(served.send("POST", "/_emulator/events?wait=20s", event).0, 200);
    }
}

#[test]
fn viewers_that_never_read_take_little_memory() {
    let served = Served::start(&["--quiet"]);
    fire_large_events(&served);
    let before = served.peak();
    let view = "GET /_emulator/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n";
    let count = sized(16, 64);
    let viewers: Vec<TcpStream> = (0..count).map(|_| served.sending(view)).collect();
    // Each was sent as much as it takes unread.
    let mut some = vec![0; 40 * 1024];
    for viewer in &viewers {
        eventually("the viewer was sent something", || viewer.peek(&mut some).expect("an open socket") == some.len());
    }
    // And what happens while they watch is made for each of them as well.
    fire_large_events(&served);
    served.serves();
    let grown = served.peak().saturating_sub(before);
    assert!(grown <= (32 + count) * 1024 * 1024, "{grown} bytes for {count} viewers");
}
