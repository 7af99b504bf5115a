//! Facts that have to stand in more than one place, because a comment, a document or a script cannot take them from the code: each test
//! compares the places with the code.

use std::collections::BTreeMap;
use std::path::Path;

use wrs_emulator::contract::signature::{CustomScheme, Scheme, SchemeName};
use wrs_emulator::contract::{DEFAULT_ADDRESS, DEFAULT_PORT, DEFAULT_URL};
use wrs_emulator::settings::{RetryPreset, SETTINGS};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file of the repository")
}

#[test]
fn every_place_has_the_default_address() {
    assert_eq!(DEFAULT_ADDRESS, format!("127.0.0.1:{DEFAULT_PORT}"));
    assert_eq!(DEFAULT_URL, format!("http://{DEFAULT_ADDRESS}"));
    for (path, text) in [
        ("src/contract/openapi.json", format!("\"url\": \"{DEFAULT_URL}\"")),
        ("src/ui/assets/command.js", format!("DEFAULT_ORIGIN = '{DEFAULT_URL}'")),
        ("src/cli/mod.rs", format!("serve on {DEFAULT_ADDRESS}\n")),
        ("Dockerfile", format!("WRS_EMULATOR_LISTEN=0.0.0.0:{DEFAULT_PORT} ")),
        ("Dockerfile", format!("EXPOSE {DEFAULT_PORT}\n")),
        ("README.md", format!("serves on {DEFAULT_URL}\n")),
        ("packages/npm/README.md", format!("serves on {DEFAULT_URL}\n")),
        ("packages/pypi/README.md", format!("serves on {DEFAULT_URL}\n")),
        ("docs/sandbox.md", format!("| base URL | `{DEFAULT_URL}`")),
    ] {
        assert!(read(path).contains(&text), "no {text:?} in {path}");
    }
}

/// What stands between two texts, after the first of each.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    text.split_once(from)?.1.split_once(to).map(|(found, _)| found)
}

/// The page and the documents have a row for each scheme, with the headers that it sends.
#[test]
fn every_list_of_schemes_is_that_of_the_code() {
    let headers = |name: &SchemeName| {
        let scheme = Scheme::new(*name, &CustomScheme::default());
        let mut headers: Vec<String> = scheme.header_names().map(str::to_owned).collect();
        headers.sort();
        headers
    };
    let own = SchemeName::ALL.iter().filter(|name| **name != SchemeName::Custom);
    let own: BTreeMap<String, Vec<String>> = own.map(|name| (name.to_string(), headers(name))).collect();
    let script = read("src/ui/assets/signature.js");
    let rows = between(&script, "SCHEMES = {\n", "\n};").expect("the list").lines();
    let of_page: BTreeMap<String, Vec<String>> = rows
        .map(|row| {
            let (name, fields) = row.trim().split_once(": ").expect("a name and its fields");
            let header = |field: &str| between(fields, &format!("{field}: '"), "'").map(str::to_owned);
            let mut headers: Vec<String> = ["id", "time", "signature"].into_iter().filter_map(header).collect();
            headers.sort();
            (name.to_owned(), headers)
        })
        .collect();
    assert_eq!(of_page, own, "the page");
    let document = read("docs/webhooks.md");
    for (name, headers) in &own {
        let row = document.lines().find(|line| line.starts_with(&format!("| `{name}`"))).expect("a row");
        assert!(headers.iter().all(|header| row.contains(&format!("`{header}"))), "{headers:?} in {row}");
    }
}

#[test]
fn the_words_for_the_retries_are_those_of_the_schedule() {
    let mut at = 0;
    let mut times = vec!["0".to_owned()];
    for delay in RetryPreset::Standard.delays() {
        at += delay.as_secs();
        times.push(at.to_string());
    }
    let last = times.pop().expect("the last attempt");
    let times = format!("{} and {last}", times.join(", "));
    let preset = SETTINGS.iter().find(|setting| setting.path == "webhooks.retry.preset").expect("the setting");
    assert_eq!((&preset.default, preset.assumed), (&"standard".into(), &*format!("attempts at {times} seconds")));
    assert!(read("docs/webhooks.md").contains(&format!("Attempts come at {times} s ")), "{times}");
}
