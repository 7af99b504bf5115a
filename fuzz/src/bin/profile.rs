//! Profiles as a file, and each line as a `--set`; durations and templates, which stand in values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wrs_emulator::util::duration::parse_duration;
use wrs_emulator::settings::{Layered, ledger};
use wrs_emulator::scenario::template::Template;

fuzz_target!(|text: &str| {
    let base = Layered::default();
    match base.with(|draft| draft.text(text, "fuzz")) {
        Ok(layered) => assert!(!ledger(&layered).is_empty()),
        Err(problems) => assert!(!problems.is_empty(), "refused with a reason"),
    }
    for line in text.lines().take(10) {
        if let Err(problem) = base.with_assignment(line, "fuzz") {
            assert!(!problem.message.is_empty(), "refused with a reason");
        }
        let _ = parse_duration(line);
    }
    let _ = Template::parse(text);
});
