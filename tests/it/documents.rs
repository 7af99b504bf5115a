//! Documents that are made from code are in step with it.

use wrs_emulator::contract::profile::ledger_markdown;

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_of_assumptions_is_the_ledger() {
    assert_eq!(
        read("docs/assumptions.md"),
        ledger_markdown(),
        "run: cargo run -- assumptions --markdown > docs/assumptions.md"
    );
}

/// The architecture page names every module of the crate.
#[test]
fn the_architecture_page_names_every_module() {
    let (page, modules) = (read("docs/architecture.md"), read("src/lib.rs"));
    for line in modules.lines() {
        if let Some(module) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            assert!(page.contains(&format!("`{module}")), "docs/architecture.md does not name `{module}`");
        }
    }
}
