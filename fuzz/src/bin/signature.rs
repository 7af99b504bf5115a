//! Signature headers and secrets: nothing verifies that was not signed, and what is wrong is one line.
//!
//! The first line is the secret, the others are header values in the order of each scheme's headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::contract::signature::{
    CustomScheme, KeyReading, Message, Scheme, SchemeName, SigningKey, secret_warnings, sign, verify,
};

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let secret = lines.next().unwrap_or_default();
    let values: Vec<&str> = lines.collect();
    // A key that no input knows.
    let key = SigningKey::from_bytes(b"Jq8#2n!0pZ-vR4mW".to_vec()).expect("a key of bytes");
    for name in SchemeName::ALL {
        let scheme = Scheme::new(name, &CustomScheme::default());
        for reading in [KeyReading::Auto, KeyReading::Base64, KeyReading::Utf8, KeyReading::Utf8WithPrefix] {
            if SigningKey::read(secret, &scheme, reading).is_ok() {
                let _ = secret_warnings(secret, &scheme, reading);
            }
        }
        let message = Message { id: "i", timestamp: 0, url: "", body: b"" };
        let signed = sign(&scheme, std::slice::from_ref(&key), &message);
        let names: Vec<_> = signed.headers.into_iter().map(|(name, _)| name).collect();
        let header = |wanted: &str| {
            let at = names.iter().position(|name| name == wanted)?;
            values.get(at).map(|value| (*value).to_owned())
        };
        let keys = std::slice::from_ref(&key);
        for (now, tolerance) in [(0, 300), (1_769_851_800, 300), (i64::MAX, i64::MAX), (i64::MIN, 0)] {
            let rejection =
                verify(&scheme, keys, &header, "u", secret.as_bytes(), now, tolerance).expect_err("nobody signed this");
            assert!(!rejection.to_string().contains('\n'), "one line: {rejection}");
        }
    }
});
