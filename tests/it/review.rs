//! `review findings`: the report in every format, what fails it, and what has been accepted.

use serde_json::{Value, json};

use crate::process::{SUBSCRIBE, Served, request};
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

/// A file with these accepted findings.
fn accepting(codes: &[&str]) -> tempfile::NamedTempFile {
    let lines: String = codes.iter().map(|code| format!("{code} known\n")).collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("# Known.\n{lines}")).expect("it is written");
    file
}

#[test]
fn what_is_certain_and_at_least_medium_fails_a_review() {
    let served = faulty();
    let said = text(&served.call(&["review", "findings"]).exits(1).stdout);
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
        served.call(&[&["review", "findings"], arguments].concat()).exits(code);
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
}

#[test]
fn sightings_of_one_kind_are_one_line() {
    let served = Served::start(&["--clock", "frozen"]);
    for _ in 0..=30 {
        let head = "POST /v1/events/subscribe HTTP/1.1\r\nAuthorization: Bearer sk_test_local";
        request(&served.url, head, "{}");
    }
    let said = text(&served.call(&["review", "findings"]).stdout);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("refused as invalid")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("    30 times: POST /v1/events/subscribe repeats req_"), "{said}");
    assert!(lines[0].contains(", which was refused as invalid, without a change; first req_"), "{said}");
    assert!(!said.contains("more\n"), "{said}");
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
    served
        .call(&["review", "findings", "--output", "/nowhere/findings.json"])
        .exits(2)
        .says(&["--output: cannot write"]);
}

#[test]
fn accepted_findings_pass_until_they_are_gone() {
    let served = faulty();
    let review = |codes: &[&str]| {
        let file = accepting(codes);
        served.call(&["review", "findings", "--accept", file.path().to_str().expect("text")])
    };
    review(&["key-in-url"]).exits(0).prints(&["accepted: known"]);
    review(&["key-in-url", "wrong-path"]).exits(1).prints(&["✗ accepted `wrong-path`: no longer found"]);
    review(&["key-in-url", "receiver-slow"]).exits(0);
}

#[test]
fn a_file_that_is_wrong_is_refused_before_anything_is_asked() {
    for (written, expected) in [
        (None, "cannot read `"),
        (Some("[[accept]]"), "line 1: there is no finding `[[accept]]`"),
        (Some("# known\n\nkey-in-urls x"), "line 3: there is no finding `key-in-urls`; did you mean `key-in-url`?"),
        (Some("key-in-url"), "line 1: `key-in-url` has no reason"),
        (Some("key-in-url x\nkey-in-url y"), "line 2: `key-in-url` is given twice"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("accepted.txt");
        if let Some(written) = written {
            std::fs::write(&path, written).expect("it is written");
        }
        let arguments = ["review", "findings", "--url", "http://127.0.0.1:9", "--accept", path.to_str().expect("text")];
        crate::support::run(&arguments).exits(2).says(&["error: --accept: ", expected]);
    }
}

/// `exec FLAGS -- sh -c SCRIPT`; what goes to stdout is the command's.
fn exec(flags: &[&str], script: &str) -> (Option<i32>, String) {
    let output = crate::support::run(&[&["exec"], flags, &["--", "sh", "-c", script]].concat());
    assert_eq!(text(&output.stdout), "", "{output:?}");
    (output.status.code(), text(&output.stderr))
}

const KEY_IN_URL: &str = "curl -s -o /dev/null \"$WRS_BASE_URL/v1/system/status?api_key=sk_test_local\"";
const SEEN: &str = "✗ findings: 1 problem was found by the review; ";

#[test]
fn a_run_fails_for_findings_if_they_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json").display().to_string();
    let (code, said) = exec(&["--fail-on", "findings", "--report", &report], KEY_IN_URL);
    let lists = format!("Review in `wrs-emulator run view {report}` lists them\n");
    assert!(code == Some(1) && said.starts_with(&format!("{SEEN}{lists}    ")), "{said}");
    assert!(said.contains("An API key is part of a URL (key-in-url, high)\n"), "{said}");
    assert!(said.contains(&format!("rules of the review had nothing to judge; {lists}")), "{said}");
    let saved: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    assert_eq!(saved["findings"]["data"][0]["code"], "key-in-url");
    let (code, said) = exec(&["--fail-on", "findings"], &format!("{KEY_IN_URL}; exit 4"));
    assert!(code == Some(4) && said.contains(SEEN), "the command's own status wins: {said}");
    assert!(said.starts_with("✗ command: it exited with 4, and this went wrong\n"), "{said}");
    // What is low, or not named, fails nothing.
    let low = "curl -s -o /dev/null -H \"Authorization: Bearer $WRS_API_KEY\" \"$WRS_BASE_URL/v1/system/status?x=1\"";
    let (code, said) = exec(&["--fail-on", "findings"], low);
    let sound = "✓ findings: the review found nothing that is certain and at least medium\n";
    assert!(code == Some(0) && said.starts_with(sound), "{said}");
    assert_eq!(exec(&["--fail-on", "undelivered"], KEY_IN_URL).0, Some(0));
    assert_eq!(exec(&[], KEY_IN_URL), (Some(0), String::new()));
}

#[test]
fn likely_findings_are_warnings_and_fail_if_that_is_asked_for() {
    // Each on its own connection, so that they may come from several programs.
    let calls = "for i in $(seq 20); do curl -s -o /dev/null -H 'Authorization: Bearer wrong' $WRS_BASE_URL/v1/system/status; done";
    let run = |flags: &[&str]| exec(&[&["--clock", "frozen"], flags].concat(), calls);
    let (code, said) = run(&["--fail-on", "findings"]);
    let (shown, line) = ("\n! findings: likely: req_", "with a key that was refused each time: ");
    assert!(code == Some(0) && said.contains(shown) && said.contains(line), "{said}");
    let line = "; a request is repeated after a 401 without another key (likely loop-after-401)\n";
    let (code, said) = run(&["--fail-on", "findings=likely"]);
    assert!(code == Some(1) && said.starts_with(SEEN) && said.contains(line) && !said.contains('!'), "{said}");
    let file = accepting(&["loop-after-401"]);
    let accepted = ["--fail-on", "findings=likely", "--accept", file.path().to_str().expect("text")];
    assert_eq!(run(&accepted).0, Some(0));
}

#[test]
fn accepted_findings_do_not_fail_a_run() {
    let file = accepting(&["key-in-url"]);
    let path = file.path().to_str().expect("text");
    assert_eq!(exec(&["--fail-on", "findings", "--accept", path], KEY_IN_URL).0, Some(0));
    let (code, said) =
        exec(&["--fail-on", "findings", "--accept", path], "curl -s -o /dev/null $WRS_BASE_URL/v1/hello");
    assert!(code == Some(1) && said.contains("accepted `key-in-url`: no longer found"), "{said}");
    // Wrong files and flags are found before the command runs.
    let unknown = accepting(&["key-in-urls"]);
    for (flags, problem) in [
        (&["--fail-on", "findings", "--accept", "/nowhere"][..], "error: --accept: cannot read `/nowhere`"),
        (&["--fail-on", "findings", "--accept", unknown.path().to_str().expect("text")], "did you mean `key-in-url`?"),
        (&["--accept", path], "error: --accept: findings are not judged\n\nhint: add --fail-on findings"),
    ] {
        let (code, said) = exec(flags, "echo ran");
        assert!(code == Some(2) && said.contains(problem), "{flags:?}: {said}");
    }
}

#[test]
fn a_verdict_fails_for_findings_if_they_are_named() {
    let served = faulty();
    let named = served.call(&["verdict", "--fail-on", "findings"]);
    let said = text(&named.stdout);
    let lists = format!("`wrs-emulator review findings --url {}` lists them\n    GET ", served.url);
    assert!(named.status.code() == Some(1) && said.starts_with(&format!("{SEEN}{lists}")), "{said}");
    let json: Value =
        serde_json::from_slice(&served.call(&["verdict", "--fail-on", "findings", "--format", "json"]).stdout)
            .expect("JSON");
    assert_eq!((&json["review"]["failing"], &json["falls_short"][0]), (&json!(["key-in-url"]), &json!("findings")));
    let junit = text(&served.call(&["verdict", "--fail-on", "findings", "--format", "junit"]).stdout);
    assert!(roxmltree::Document::parse(&junit).is_ok() && junit.contains("(key-in-url, high)"), "{junit}");
    let file = accepting(&["key-in-url"]);
    let accepted = ["verdict", "--fail-on", "findings", "--accept", file.path().to_str().expect("text")];
    assert_eq!(served.call(&accepted).status.code(), Some(0));
    assert!(!text(&served.call(&["verdict"]).stdout).contains("findings"));
    let noted = text(&served.call(&["verdict", "--fail-on", "unmatched"]).exits(0).stdout);
    assert!(noted.contains("; --fail-on findings=likely makes a run fail for what the review finds"), "{noted}");
}

#[test]
fn a_verdict_has_a_line_for_each_kind_that_is_judged_and_notes_of_what_is_missing() {
    let served = Served::start(&["--max-journal-entries", "2"]);
    for path in ["/a", "/b", "/c"] {
        request(&served.url, &format!("GET {path} HTTP/1.1"), "");
    }
    let lines = |flags: &[&str]| text(&served.call(&[&["verdict"], flags].concat()).stdout);
    let all = lines(&[]);
    let found: Vec<&str> = all.lines().filter(|line| !line.starts_with("    ")).collect();
    assert_eq!(
        found,
        [
            "✗ unmatched: 2 requests matched no endpoint",
            "· undelivered: there was no delivery",
            "· forged: no receiver accepted or refused a forged webhook",
            "· unfinished: no scenario is active",
            "✓ unused: there was something to judge",
            "note: 1 entries were evicted from the journal, and requests among them are not judged; \
             --max-journal-entries keeps more",
        ]
    );
    let unused = "✗ unused: 1 check had nothing to judge\n    no scenario is active\n";
    assert!(lines(&["--fail-on", "unused,unfinished"]).contains(unused));
    for quiet in ["undelivered", "unused"] {
        let said = lines(&["--fail-on", quiet]);
        assert!(!said.contains("note:") && !said.contains('✗'), "{said}");
    }
}

#[test]
fn an_emulator_that_has_seen_nothing_has_nothing_to_judge() {
    let served = Served::start(&["--clock", "frozen"]);
    let output = served.call(&["review", "findings"]);
    let said = text(&output.stdout);
    assert!(
        output.status.code() == Some(0)
            && said.ends_with("· nothing to judge: no request was made and nothing was delivered\n"),
        "{said}"
    );
    Program::new(&["review", "findings", "--fail-on", "severe"]).status(2).stderr(SEVERE).run();
}

const SEVERE: &str = "error: invalid value 'severe' for '--fail-on <SEVERITY>'\n  [possible values: critical, high, medium, low, info, never]\n\n\
                      hint: a similar value exists: 'never'\n";
