//! A published OpenAPI document for `calibrate`: read or refused with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::lab::calibrate::openapi::shows;

fuzz_target!(|text: &str| {
    match shows(text) {
        Ok(source) => assert!(!source.settings.is_empty(), "something is said"),
        Err(problem) => assert!(!problem.is_empty(), "refused with a reason"),
    }
});
