//! Bodies, queries and keys of the emulated API.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::contract::keys::{bearer_token, check_key, mask_key};
use wrs_emulator::contract::rules::{parse_status_query, parse_subscribe};
use wrs_emulator::settings::Profile;

fuzz_target!(|bytes: &[u8]| {
    let profile = Profile::default();
    if let Ok(subscribe) = parse_subscribe(bytes, &profile.subscribe_rules()) {
        assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|body| body.is_object()), "{subscribe:?}");
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_status_query(Some(&text), &profile.validation);
    let mut headers = hyper::HeaderMap::new();
    if let Ok(value) =
        hyper::header::HeaderValue::from_bytes(bytes.split(|byte| *byte == b'\n').next().unwrap_or_default())
    {
        headers.insert("authorization", value);
    }
    if let Ok(key) = bearer_token(&headers)
        && check_key(key, profile.key_rules()).is_ok()
    {
        assert!(mask_key(key, &profile.keys).len() <= key.len() + 16, "a mask is short");
    }
});
