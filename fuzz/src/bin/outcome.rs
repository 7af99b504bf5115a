//! Outcomes of tests, whose messages come from any runner: kept or refused, and everything that shows them answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator_fuzz::{ask, statuses};

fuzz_target!(|bytes: &[u8]| {
    let head = format!(
        "POST /_emulator/outcome HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    let read = ask(&[head.as_bytes(), bytes].concat());
    let status = statuses(&read);
    assert!(status.first().is_some_and(|status| status.starts_with(b"4") || *status == b"200"), "{}", String::from_utf8_lossy(&read));
    if status[0] != b"200" {
        return;
    }
    for (path, accept) in [("verdict", "text/plain"), ("verdict", "application/json"), ("run", "application/json")] {
        let read = ask(format!("GET /_emulator/{path}?key=* HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(statuses(&read), [b"200"], "{path}: {}", String::from_utf8_lossy(&read));
        // The heads end their lines with both.
        let body = read.windows(4).position(|end| end == b"\r\n\r\n").map_or(&read[..], |end| &read[end + 4..]);
        assert!(!body.iter().any(|byte| *byte < b' ' && *byte != b'\n'), "{path} has a control character");
        assert!(std::str::from_utf8(body).is_ok(), "{path} is text");
    }
});
