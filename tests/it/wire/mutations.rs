//! Thousands of damaged requests, the same ones on each run: each gets whole answers, errors in the envelope, or a clean end
//! in bounded time; never a 5xx, never a panic, memory stays bounded and good requests are served on.
//!
//! `MUTATIONS_SEED` and `MUTATIONS_ROUNDS` try others; a failure prints its seed, its round and its bytes.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use super::bodies::subscription;
use super::peer::GOOD;
use crate::process::Served;
use crate::support::sized;

/// Damaged requests in all, over [`SENDERS`].
const ROUNDS: u64 = 4_000;
const LARGE: u64 = 15_000;
const SENDERS: u64 = 4;
const SEED: u64 = 1;
/// What memory may grow by: the journal's bound of entries is reached on the way.
const MAX_GROWTH: usize = 128 * 1024 * 1024;

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

fn mutate(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(1..=20)).min(bytes.len());
    match random.random_range(0..8) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = random.random(),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].repeat(random.random_range(1..=3));
            bytes.splice(at..at, part);
        }
        4 => bytes.truncate(at),
        5 => {
            let letters = vec![random.random(); random.random_range(0..20_000)];
            bytes.splice(at..at, letters);
        }
        _ => drop(bytes.splice(at..at, TOKENS[random.random_range(0..TOKENS.len())].iter().copied())),
    }
}

/// Sends the bytes and gives all that comes back, and whether the end was a clean one.
fn exchange(served: &Served, bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut stream = served.connect();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => Ok((read, true)),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err("no end in time".to_owned()),
        Err(_) => Ok((read, false)),
    }
}

/// Every answer is whole, none is a 5xx but the refusal of a transfer coding, and each error is in the envelope with the id of its header; gives how many there are.
fn judge(mut read: &[u8], clean: bool) -> Result<usize, String> {
    // Only a reset excuses an answer that is cut short.
    let cut = |count| if clean { Err("an answer was cut short".to_owned()) } else { Ok(count) };
    let mut count = 0;
    while !read.is_empty() {
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { return cut(count) };
        let (head, rest) = read.split_at(end + 4);
        let head = std::str::from_utf8(head).map_err(|error| error.to_string())?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok());
        let status = status
            .filter(|status| *status < 500 || *status == 501)
            .ok_or_else(|| format!("not a good status: {head}"))?;
        let size = field("content-length").map_or(Ok(0), str::parse).map_err(|_| "not a valid length")?;
        // The answer to HEAD has the length of a body and no body: what follows is the end or another answer, and no body begins so.
        let size = if rest.is_empty() || rest.starts_with(b"HTTP/1.") { 0 } else { size };
        let Some(body) = rest.get(..size) else { return cut(count) };
        if status >= 400 && !body.is_empty() {
            let body: Value = serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
            let error = &body["error"];
            let is_named = error["request_id"].as_str() == field("x-emulator-request-id");
            if !(is_named && error["code"].is_string() && error["message"].is_string()) {
                return Err(format!("not the envelope: {body}"));
            }
        }
        read = &rest[size..];
        count += 1;
    }
    Ok(count)
}

/// Sends damaged requests; gives how many were answered at all.
fn send_damaged(served: &Served, seed: u64, rounds: u64) -> u64 {
    let (seeds, mut random) = (seeds(), ChaCha8Rng::seed_from_u64(seed));
    let mut answered = 0;
    for round in 0..rounds {
        let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(1..=4) {
            mutate(&mut bytes, &mut random);
        }
        let judged = exchange(served, &bytes).and_then(|(read, clean)| {
            judge(&read, clean).map_err(|problem| format!("{problem}: {}", read.escape_ascii()))
        });
        match judged {
            Ok(count) => answered += u64::from(count > 0),
            Err(problem) => panic!("seed {seed}, round {round}: {}\ngave {problem}", bytes.escape_ascii()),
        }
        if round % 10 == 0 {
            served.serves();
        }
    }
    answered
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn damaged_requests_are_never_a_failure_of_the_emulator() {
    let served = Served::start(&["--quiet", "--max-journal-entries", sized("2000", "10000")]);
    served.serves();
    let before = served.resident();
    let (seed, rounds) =
        (from_environment("MUTATIONS_SEED", SEED), from_environment("MUTATIONS_ROUNDS", sized(ROUNDS, LARGE)));
    let each = rounds.div_ceil(SENDERS);
    let served_here = &served;
    let answered: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| scope.spawn(move || send_damaged(served_here, seed ^ (sender << 32), each)))
            .collect();
        senders.into_iter().map(|sender| sender.join().expect("no damaged request did harm")).sum()
    });
    served.serves();
    assert!(answered > rounds / 2, "{answered} of {rounds} were answered at all");
    let grown = served.resident().saturating_sub(before);
    assert!(grown <= MAX_GROWTH, "memory grew by {grown} bytes");
    assert_eq!(served.stop(), (Some(0), String::new()), "a panic in a connection would be told here");
}
