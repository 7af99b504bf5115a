//! Documents that are made from code are in step with it.

use std::collections::BTreeSet;

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

/// The cookbook has a recipe for each shipped scenario, and shows lines that are in its file.
#[test]
fn the_cookbook_shows_what_is_in_the_shipped_files() {
    let page = read("docs/cookbook.md");
    let recipes: Vec<&str> = page.split("\n### ").skip(1).collect();
    let mut names: Vec<&str> = recipes.iter().filter_map(|recipe| recipe.lines().next()).collect();
    names.sort_unstable();
    let mut shipped: Vec<&str> = wrs_emulator::scenario::built_in_names().collect();
    shipped.sort_unstable();
    assert_eq!(names, shipped);
    for recipe in recipes {
        let name = recipe.lines().next().expect("a heading");
        let file = read(&format!("scenarios/{name}.toml"));
        let heart = recipe.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a heart");
        for line in heart.lines() {
            assert!(file.contains(line), "scenarios/{name}.toml has no line `{line}`");
        }
        assert!(recipe.contains(&format!("$ wrs-emulator scenarios use {name}\n")), "{name} is not played");
    }
}

/// The page of the control API names every call of its document, and no other.
#[test]
fn the_page_of_the_control_api_names_every_call() {
    let page = read("docs/control-api.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let mut told = BTreeSet::new();
    for row in rows {
        let calls = row.split(" | ").next().unwrap_or_default();
        for code in calls.split('`').skip(1).step_by(2) {
            let Some((method, path)) =
                code.split_once(' ').filter(|(method, _)| method.chars().all(char::is_uppercase))
            else {
                continue;
            };
            told.insert(format!("{method} {}", path.split('?').next().unwrap_or_default()));
        }
    }
    let document = wrs_emulator::control::openapi_document();
    let mut known = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let path = path.trim_start_matches("/_emulator/");
        let methods = operations.as_object().expect("operations").keys().filter(|method| *method != "head");
        known.extend(methods.map(|method| format!("{} {path}", method.to_ascii_uppercase())));
    }
    assert_eq!(told, known, "docs/control-api.md has the first, the document the second");
}

/// Every promise on the page of defences names tests and scripts that exist.
#[test]
fn each_defence_names_tests_that_exist() {
    let page = read("docs/defences.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| promise") && !line.starts_with("| ---"))
        .collect();
    assert!(rows.len() >= 40, "the rows were found: {}", rows.len());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let mut named = 0;
        for name in held_by.split('`').skip(1).step_by(2) {
            match name.split_once("::") {
                Some((path, test)) => {
                    let text = read(path);
                    let at = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{path} has no test {test}"));
                    // Directly above: the attribute of a test, of a property in a block of them, or both.
                    let before = text[..at].trim_end_matches(|c: char| c != '\n').trim_end().rsplit('\n').next();
                    let is_test =
                        before.is_some_and(|line| line.trim() == "#[test]" || line.trim().starts_with("#[tokio::test"));
                    assert!(is_test, "{path}::{test} is no test");
                }
                None => assert!(root.join(name).is_file(), "there is no {name}"),
            }
            named += 1;
        }
        assert!(named > 0, "nothing holds: {row}");
    }
}

/// Every script that the page of proofs names is there and can be started.
#[test]
fn each_proof_names_commands_that_exist() {
    let page = read("docs/fault-proof.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = 0;
    for word in page.split(|c: char| c.is_whitespace() || c == '`') {
        let is_script = std::path::Path::new(word).extension().is_some_and(|extension| extension == "sh");
        if is_script && (word.starts_with("tests/clients/") || word.starts_with("fuzz/")) {
            assert!(root.join(word).is_file(), "docs/fault-proof.md names {word}");
            found += 1;
        }
    }
    assert!(found >= 4, "{found} commands were found");
}
