//! Headers of `verify`, and custom schemes: what is signed verifies, and no header verifies what nobody signed.
//!
//! The first lines are content and prefix of the custom scheme, the others are headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::contract::signature::{CustomScheme, Message, Scheme, SchemeName, SigningKey, sign, verify};
use wrs_emulator::util::captured::header_line;

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let custom = CustomScheme { content: next(), prefix: next(), ..CustomScheme::default() };
    let headers: Vec<_> = lines.filter_map(|line| header_line(line).ok()).collect();
    // A key that no input knows.
    let key = SigningKey::from_bytes(b"Jq8#2n!0pZ-vR4mW".to_vec()).expect("a key of bytes");
    let keys = std::slice::from_ref(&key);
    let given = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    for name in SchemeName::ALL {
        let scheme = Scheme::new(name, &custom);
        if name == SchemeName::Custom && custom.check().is_err() {
            continue;
        }
        let verdict = verify(&scheme, keys, &given, "u", text.as_bytes(), 0, i64::MAX);
        assert!(verdict.is_err(), "nobody signed this: {verdict:?}");
        let message = Message { id: "evt_1", timestamp: 7, url: "u", body: text.as_bytes() };
        let signed = sign(&scheme, keys, &message).headers;
        let header = |wanted: &str| signed.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone());
        let verdict = verify(&scheme, keys, &header, "u", text.as_bytes(), 7, 300);
        assert!(verdict.is_ok(), "{name:?}: {verdict:?}");
    }
});
