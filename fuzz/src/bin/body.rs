//! Bodies and queries of the emulated API, those of announced endpoints as well.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::contract::keys::{bearer_token, check_key, mask_key};
use wrs_emulator::contract::preview::{parse_token_request, parse_user_query, parse_workflow, parse_workflow_query};
use wrs_emulator::contract::rules::{parse_status_query, parse_subscribe};
use wrs_emulator::settings::Profile;

fuzz_target!(|bytes: &[u8]| {
    let profile = Profile::default();
    if let Ok(subscribe) = parse_subscribe(bytes, &profile.subscribe_rules()) {
        assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|body| body.is_object()), "{subscribe:?}");
    }
    let _ = parse_workflow(bytes, &profile.validation, profile.errors.malformed_json_status);
    let text = String::from_utf8_lossy(bytes);
    let _ = parse_status_query(Some(&text), &profile.validation);
    let _ = parse_workflow_query(Some(&text), &profile.validation, &profile.preview);
    let _ = parse_user_query(Some(&text), &profile.validation, &profile.preview);
    let mut headers = hyper::HeaderMap::new();
    headers.insert("content-type", "application/x-www-form-urlencoded".parse().expect("a header of text"));
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
    let _ = parse_token_request(&headers, bytes, &profile.validation, profile.key_rules());
});
