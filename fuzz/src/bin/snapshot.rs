//! Documents for `PUT /_emulator/snapshot`: loaded or refused with the reason, and what was loaded can be saved again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator_fuzz::{ask, statuses};

const SAVE: &[u8] = b"GET /_emulator/snapshot?key=* HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const RESET: &[u8] = b"POST /_emulator/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"key\":\"*\"}";

fuzz_target!(|bytes: &[u8]| {
    let head = format!(
        "PUT /_emulator/snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    let read = ask(&[head.as_bytes(), bytes].concat());
    match statuses(&read)[..] {
        [b"200", ..] => {
            let saved = ask(SAVE);
            assert_eq!(statuses(&saved), [b"200"], "{}", String::from_utf8_lossy(&saved));
            let reset = ask(RESET);
            assert!(statuses(&reset)[0].starts_with(b"2"), "{}", String::from_utf8_lossy(&reset));
        }
        [status, ..] => assert!(status.starts_with(b"4"), "{}", String::from_utf8_lossy(&read)),
        [] => panic!("no answer: {}", String::from_utf8_lossy(&read)),
    }
});
