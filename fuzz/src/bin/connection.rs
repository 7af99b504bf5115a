//! Any bytes on a connection: answers or a clean end in time, never a 5xx, and the next request is answered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator_fuzz::{ask, exchange, statuses};

fuzz_target!(|bytes: &[u8]| {
    // A stream and a wait go on by design, and answers of scenarios may be failures.
    let text = String::from_utf8_lossy(bytes);
    if ["stream", "wait", "scenario", "profile", "%"].iter().any(|word| text.to_ascii_lowercase().contains(word)) {
        return;
    }
    let read = exchange(bytes);
    assert!(!statuses(&read).iter().any(|status| status.starts_with(b"5")), "{}", String::from_utf8_lossy(&read));
    let next = ask(b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&next), [b"200"], "{}", String::from_utf8_lossy(&next));
});
