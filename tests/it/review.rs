//! `review findings`: the report in every format, what fails it, and what has been accepted.

use serde_json::{Value, json};

use crate::command_line::{SUBSCRIBE, Served, request};
use crate::program::Program;
use crate::support::text;

/// An unknown field with markup, and a key in the URL.
const FAULTY: [(&str, &str); 2] = [
    (SUBSCRIBE, "{\"url\":\"https://a.sink.localhost/\",\"events\":[\"workflow.completed\"],\"<b>|x\":1}"),
    ("GET /v1/system/status?api_key=sk_test_local HTTP/1.1", ""),
];

fn faulty() -> Served {
    let served = Served::start(&["--clock", "frozen"]);
    for (line, body) in FAULTY {
        assert!(request(&served.url, line, body).starts_with("HTTP/1.1 "));
    }
    served
}

/// A file with these accepted findings, valid for a hundred years.
fn accepting(codes: &[&str]) -> tempfile::NamedTempFile {
    let entry = |code: &&str| format!("[[accept]]\ncode = \"{code}\"\nreason = \"known\"\nexpires = 2126-01-31\n");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), codes.iter().map(entry).collect::<String>()).expect("it is written");
    file
}

#[test]
fn what_is_certain_and_at_least_medium_fails_a_review() {
    let served = faulty();
    let all = served.call(&["review", "findings"]);
    let said = text(&all.stdout);
    assert_eq!(all.status.code(), Some(1), "{said}");
    assert!(said.starts_with("✗ 1. An API key is part of a URL (key-in-url, high, certain)\n    req_"), "{said}");
    assert!(said.contains("! 2. ") && said.contains("(unknown-field, low, certain)"), "{said}");
    assert!(said.contains("not exercised, so unproven:\n") && said.contains("no traffic can show: "), "{said}");
    assert!(said.trim_end().ends_with("of them failing the review; 2 requests and 0 deliveries judged"), "{said}");
    for (arguments, code) in [
        (&["--fail-on", "critical"][..], 0),
        (&["--fail-on", "never"], 0),
        (&["--fail-on", "low"], 1),
        (&["--key", "sk_test_other", "--fail-on", "critical"], 0),
    ] {
        let review = served.call(&[&["review", "findings"], arguments].concat());
        assert_eq!(review.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn every_format_is_read_by_its_own_kind_of_reader() {
    let served = faulty();
    let format = |name: &str| text(&served.call(&["review", "findings", "--format", name]).stdout);
    let json: Value = serde_json::from_str(&format("json")).expect("JSON");
    assert_eq!((&json["failed"], &json["failing"]), (&json!(true), &json!(["key-in-url"])));
    let junit = format("junit");
    let document = roxmltree::Document::parse(&junit).expect("XML");
    let failures: Vec<_> = document.descendants().filter(|node| node.has_tag_name("failure")).collect();
    assert_eq!(failures.len(), 1, "{junit}");
    assert_eq!(document.root_element().attribute("failures"), Some("1"));
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase")).count().to_string();
    assert_eq!(document.root_element().attribute("tests"), Some(cases.as_str()));
    let sarif: Value = serde_json::from_str(&format("sarif")).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert!(results.len() == 1 && results[0]["ruleId"] == "key-in-url" && results[0]["level"] == "error", "{sarif:#}");
    let markdown = format("markdown");
    assert!(markdown.starts_with("### ❌ Review: "), "{markdown}");
    assert!(markdown.contains("&lt;b&gt;\\|x") && !markdown.contains("<b>"), "nothing is markup: {markdown}");
}

#[test]
fn a_report_goes_to_a_file() {
    let served = faulty();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("findings.json");
    let output = served.call(&["review", "findings", "--json", "--output", path.to_str().expect("text")]);
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("the report is in `"), "{output:?}");
    let written: Value = serde_json::from_slice(&std::fs::read(&path).expect("the report")).expect("JSON");
    assert_eq!(written["judged_requests"], 2);
    let nowhere = served.call(&["review", "findings", "--output", "/nowhere/findings.json"]);
    assert!(
        nowhere.status.code() == Some(2) && text(&nowhere.stderr).contains("--output: cannot write"),
        "{nowhere:?}"
    );
}

#[test]
fn accepted_findings_pass_until_they_are_gone() {
    let served = faulty();
    let review = |codes: &[&str]| {
        let file = accepting(codes);
        served.call(&["review", "findings", "--accept", file.path().to_str().expect("text")])
    };
    let accepted = review(&["key-in-url"]);
    assert!(accepted.status.code() == Some(0) && text(&accepted.stdout).contains("accepted until 2126-01-31: known"));
    let gone = review(&["key-in-url", "wrong-path"]);
    let said = text(&gone.stdout);
    assert!(gone.status.code() == Some(1) && said.contains("✗ accepted `wrong-path`: no longer found"), "{said}");
    let idle = review(&["key-in-url", "receiver-slow"]);
    assert_eq!(idle.status.code(), Some(0), "what nothing exercised is not gone: {}", text(&idle.stdout));
}

#[test]
fn a_file_that_is_wrong_is_refused_before_anything_is_asked() {
    for (written, expected) in [
        (None, "cannot read `"),
        (Some("accept = 1"), "line 1"),
        (
            Some("[[accept]]\ncode = \"key-in-urls\"\nreason = \"x\"\nexpires = 2126-01-31"),
            "did you mean `key-in-url`?",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("accepted.toml");
        if let Some(written) = written {
            std::fs::write(&path, written).expect("it is written");
        }
        let arguments = ["review", "findings", "--url", "http://127.0.0.1:9", "--accept", path.to_str().expect("text")];
        let output = crate::support::run(&arguments);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("error: --accept: ") && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn an_emulator_that_has_seen_nothing_has_nothing_to_judge() {
    let served = Served::start(&["--clock", "frozen"]);
    let output = served.call(&["review", "findings"]);
    let said = text(&output.stdout);
    assert!(
        output.status.code() == Some(0)
            && said.ends_with("✓ nothing to judge: no request was made and nothing was delivered\n"),
        "{said}"
    );
    Program::new(&["review", "findings", "--fail-on", "severe"]).status(2).stderr(SEVERE).run();
}

const SEVERE: &str = "error: invalid value `severe` for `--fail-on <SEVERITY>` [possible values: critical, high, medium, low, info, never]\n\n\
                      hint: did you mean `never`?\n";
