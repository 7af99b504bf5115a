//! Saved runs, as JSON or within a report: read and archived, or refused in a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::cli::try_document;

fuzz_target!(|bytes: &[u8]| {
    if let Err(problem) = try_document(bytes.to_vec()) {
        assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
    }
});
