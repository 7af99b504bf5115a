//! Thousands of damaged requests, the same ones on each run: never a 5xx, never a panic, and good requests are served on.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use super::bodies::subscription;
use super::peer::GOOD;
use super::process::Served;

const ROUNDS: usize = 2_500;

/// A small generator of numbers (xorshift), so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).expect("a number below a usize")
    }
}

/// Proper requests, some of them several in a row.
fn seeds() -> Vec<Vec<u8>> {
    let body = "{\"url\": \"https://a.example/\", \"events\": [\"reference.matched\"]}";
    let sized = subscription(&format!("Content-Length: {}\r\n", body.len())) + body;
    let chunked = subscription("Transfer-Encoding: chunked\r\n") + &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let control = "GET /_emulator/requests?limit=3 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let fire = "POST /_emulator/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let status = "GET /v1/system/status?include_checks=true HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer sk_test_a\r\nX-Emulator-Scenario: none\r\n\r\n";
    let old = "GET http://localhost/v1/hello HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";
    let asks = subscription(&format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len())) + body;
    let all = [sized, chunked, control.to_owned(), fire.to_owned(), status.to_owned(), old.to_owned(), asks];
    let mut seeds: Vec<Vec<u8>> = all.map(String::into_bytes).to_vec();
    seeds.push(GOOD.repeat(3));
    seeds.push(seeds.concat());
    seeds
}

const TOKENS: [&[u8]; 24] = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b":",
    b" ",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"Host: localhost\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"0\r\n\r\n",
    b"fffffffffffffff0\r\n",
    b"%00%ff%2e%2e",
    b"\xff\xfe\xf0\x9f",
    b"HEAD ",
    b"CONNECT a:1 ",
    b"{\"a\":[[[[[[[[",
    b"\\ud800\"",
];

fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.next(bytes.len() + 1);
    let end = (at + 1 + numbers.next(20)).min(bytes.len());
    match numbers.next(8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << numbers.next(8),
        1 if at < bytes.len() => bytes[at] = u8::try_from(numbers.next(256)).expect("a number below 256"),
        2 => drop(bytes.drain(at..end.max(at))),
        3 => {
            let part = bytes[at..end.max(at)].to_vec();
            bytes.splice(at..at, part.repeat(1 + numbers.next(3)));
        }
        4 => bytes.truncate(at),
        5 => {
            let letter = u8::try_from(numbers.next(256)).expect("a number below 256");
            bytes.splice(at..at, vec![letter; numbers.next(20_000)]);
        }
        _ => drop(bytes.splice(at..at, TOKENS[numbers.next(TOKENS.len())].iter().copied())),
    }
}

/// Sends the bytes and gives all that comes back; a reset ends it as a close does.
fn exchange(served: &Served, bytes: &[u8]) -> Vec<u8> {
    let mut stream = served.connect();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut read = Vec::new();
    if let Err(error) = stream.read_to_end(&mut read) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no end in time: {}", bytes.escape_ascii());
    }
    read
}

#[test]
fn damaged_requests_are_never_a_failure_of_the_emulator() {
    let served = Served::start(&["--quiet"]);
    let (seeds, mut numbers) = (seeds(), Numbers(0x9e37_79b9_7f4a_7c15));
    let mut answered = 0;
    for round in 0..ROUNDS {
        let mut bytes = seeds[numbers.next(seeds.len())].clone();
        for _ in 0..=numbers.next(4) {
            mutate(&mut bytes, &mut numbers);
        }
        let read = exchange(&served, &bytes);
        let failed = read.windows(10).any(|window| window.starts_with(b"HTTP/1.") && window[8..] == *b" 5");
        assert!(!failed, "round {round}: {} gave {}", bytes.escape_ascii(), read.escape_ascii());
        answered += usize::from(!read.is_empty());
        if round % 100 == 0 {
            served.serves();
        }
    }
    served.serves();
    assert!(answered > ROUNDS / 2, "{answered} of {ROUNDS} were answered at all");
    let said = served.stop_and_read_stderr();
    assert_eq!(said, "", "a panic in a connection would be told here");
}
