//! Scenario files: any text is taken or told of, and what is taken can be put in force.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use wrs_emulator::clock::Instant;
use wrs_emulator::settings::Layered;
use wrs_emulator::diagnostic::render_all;
use wrs_emulator::scenario::{ScenarioStore, check_text, json_to_toml};

fuzz_target!(|text: &str| {
    static LIBRARY: OnceLock<ScenarioStore> = OnceLock::new();
    let (scenario, diagnostics) = check_text("fuzz", text);
    let wrong = diagnostics.iter().any(|diagnostic| diagnostic.is_error());
    assert_eq!(scenario.is_none(), wrong, "taken, or told of as an error");
    for problem in &diagnostics {
        assert!(text.get(problem.span.clone()).is_some(), "every place reported lies in the text: {problem:?}");
    }
    let _ = render_all(&diagnostics, true);
    if scenario.is_some() {
        let library = LIBRARY.get_or_init(|| ScenarioStore::new(Layered::default()));
        if library.put_inline("fuzz", text, Instant::from_nanos(0)).is_ok() {
            let _ = library.activate(None, &["fuzz"], Instant::from_nanos(0));
        }
    }
    if let Ok(toml) = json_to_toml(text) {
        let _ = check_text("fuzz", &toml);
    }
});
