//! The clauses of the contract: each names what serves it and has a test, and `assumptions --matrix` shows them, with what a calibration saw.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wrs_emulator::calibrate::matrix::Matrix;
use wrs_emulator::contract::clauses::{CLAUSES, Served};
use wrs_emulator::contract::routes::ROUTES;
use wrs_emulator::settings::{Layered, SETTINGS};

use crate::layers::{files, read};
use crate::process::{self, exchange};
use crate::support::{assert_in_step, builder, run, started, text, view, wrs_emulator};

#[test]
fn each_clause_names_what_serves_it_and_every_setting_belongs_to_one() {
    let routes: Vec<String> = ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    let settings: Vec<&str> = SETTINGS.iter().map(|setting| setting.path.as_str()).collect();
    let is_known = |by: &str| {
        let mut groups = settings.iter().flat_map(|path| path.match_indices('.').map(|(end, _)| &path[..end]));
        ["every answer", "every delivery"].contains(&by)
            || routes.iter().any(|route| route == by)
            || settings.contains(&by)
            || by.strip_suffix(".*").is_some_and(|by| groups.any(|group| group == by))
    };
    for clause in CLAUSES.iter().filter(|clause| clause.served != Served::No) {
        for by in clause.by {
            assert!(is_known(by), "{}: there is no `{by}`", clause.name);
        }
        let is_assumed = settings.iter().any(|path| clause.is_by(path));
        assert!(clause.served == Served::Yes || is_assumed, "{}: no setting has the assumption", clause.name);
    }
    let missing = settings.into_iter().filter(|path| CLAUSES.iter().all(|clause| !clause.is_by(path)));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0], "no clause names these settings");
}

/// The tests of each clause, by its name: those below a comment `// proves NAME…`, and for what is assumed the one of every setting.
fn tests_of_clauses() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("tests/it") {
        let module =
            path.with_extension("").strip_prefix("tests/it").expect("a test").to_string_lossy().replace('/', "::");
        let (mut proved, mut is_test) = (Vec::new(), false);
        for line in read(&path).lines() {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            if let Some(names) = line.strip_prefix("// proves ") {
                proved.extend(names.split(' ').map(str::to_owned));
            } else if let Some(name) =
                line.trim_start_matches("async ").strip_prefix("fn ").filter(|_| !proved.is_empty())
            {
                let test = format!("{module}::{}", name.split('(').next().unwrap_or_default());
                assert!(std::mem::take(&mut is_test), "{test} is no test");
                for name in proved.drain(..) {
                    found.entry(name).or_default().insert(test.clone());
                }
            }
        }
        assert_eq!(proved, [""; 0], "{module}: no test follows");
    }
    let of_settings = found.remove("every-setting").expect("the test of every setting");
    for clause in CLAUSES.iter().filter(|clause| matches!(clause.served, Served::Assumed | Served::Preview)) {
        found.entry(clause.name.to_owned()).or_default().extend(of_settings.clone());
    }
    found
}

/// `UPDATE_EXPECTED=1` writes the list of tests and, once the program is built with it, the page.
#[test]
fn each_clause_has_a_test_and_the_page_shows_all() {
    let tests = tests_of_clauses();
    for name in tests.keys() {
        assert!(CLAUSES.iter().any(|clause| clause.name == name), "no clause is called {name}");
    }
    let line = |name: &str| {
        let tests = tests.get(name).unwrap_or_else(|| panic!("no test proves {name}"));
        format!("{name} {}\n", tests.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    };
    let served = CLAUSES.iter().filter(|clause| clause.served != Served::No);
    assert_in_step("src/calibrate/tested.txt", &served.map(|clause| line(clause.name)).collect::<String>());
    let page = read("docs/supported.md".as_ref());
    let (begin, end) = ("<!-- tests/it/matrix.rs writes from here … -->\n", "<!-- … to here -->\n");
    let (before, rest) = page.split_once(begin).expect("where the table begins");
    let (_, after) = rest.split_once(end).expect("where it ends");
    let table = Matrix::new(&Layered::default(), None).markdown();
    assert_in_step("docs/supported.md", &format!("{before}{begin}\n{table}\n{end}{after}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calibration_fills_the_column_of_the_real_service() {
    let fresh = text(&run(&["assumptions", "--matrix"]).stdout);
    let count = CLAUSES.len();
    assert!(fresh.starts_with("Operations: ") && fresh.contains("    seen:   not yet\n"), "{fresh}");
    assert!(
        fresh.contains(&format!("\n{count} clauses: ")) && fresh.contains("0 seen on the real service (not yet: "),
        "{fresh}"
    );

    let service = started(builder().set("errors.codes.unauthorized=no_key").set("rate_limit.requests=70")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let calibrate = ["calibrate", &service.base_url(), "--pause", "0s"];
    let calibrated = wrs_emulator(&calibrate).current_dir(&folder).env("WRS_API_KEY", "sk_test_0f8d6c1ab2").output();
    assert_eq!(calibrated.expect("the binary runs").status.code(), Some(0));
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (profile, cassette) = (path("sandbox.toml"), path("sandbox.cassette.json"));
    let rows = |more: &[&str]| -> (BTreeMap<String, Value>, Value) {
        let printed = text(&run(&[&["assumptions", "--matrix", "--json"], more].concat()).stdout);
        let mut lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let end = lines.pop().expect("the last line");
        assert_eq!(lines.len(), count);
        (lines.into_iter().map(|row| (row["clause"].as_str().expect("a clause").to_owned(), row)).collect(), end)
    };
    let seen =
        |row: &Value| row["seen"].as_array().into_iter().flatten().map(|seen| format!("{seen}\n")).collect::<String>();
    // A profile has the settings that differ.
    let (by_profile, end) = rows(&["--profile", &profile]);
    let quotas = "Limits: exact quotas, windows and header units are not shown";
    assert!(seen(&by_profile[quotas]).contains("`rate_limit.requests` observed in "), "{}", by_profile[quotas]);
    assert_eq!(end["seen"], by_profile.values().filter(|row| row["seen"].is_array()).count());
    // The calls also show promises, kept and broken.
    let (by_calls, more) = rows(&["--cassette", &cassette]);
    for (clause, expected) in [
        ("System status: ok, a boolean, true when the service is reachable and the key is valid", "\"kept in call "),
        ("GET /v1/system/status: 401 when the Bearer token is missing or invalid", "\"kept in call "),
        ("Authentication 4: 401 with error code unauthorized", "`error.code` is \\\"no_key\\\""),
        (quotas, "`rate_limit.requests` observed in "),
    ] {
        assert!(seen(&by_calls[clause]).contains(expected), "{}", by_calls[clause]);
    }
    assert!(more["seen"].as_u64() > end["seen"].as_u64(), "{more} {end}");
    assert_eq!(by_calls["Versioning: deprecation policy and compatibility guarantees are not shown"].get("seen"), None);

    // A running emulator shows its own settings.
    let answer = view(&service, "assumptions?matrix=true").await;
    assert_eq!(
        (answer["matrix"]["data"].as_array().map(Vec::len), &answer["matrix"]["seen"]),
        (Some(count), &json!(0))
    );
    assert_eq!(view(&service, "assumptions").await.get("matrix"), None);
}

#[test]
fn a_key_in_a_note_of_a_profile_is_masked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sandbox.toml");
    let note = "observed in call 3 with sk_live_abcdefgh1234 on 2026-01-31; assumed: 100";
    std::fs::write(&path, format!("[rate_limit]\n# {note}\nrequests = 70\n")).expect("it is written");
    let profile = path.to_str().expect("a text");
    let is_masked = |shown: &str| shown.contains("call 3 with sk_live_…1234") && !shown.contains("abcdefgh");
    for form in [&[][..], &["--json"], &["--markdown"]] {
        let printed = text(&run(&[&["assumptions", "--matrix", "--profile", profile], form].concat()).exits(0).stdout);
        assert!(is_masked(&printed), "{form:?}: {printed}");
    }
    let served = process::Served::start(&["--quiet", "--profile", profile]);
    for accepted in ["application/json", "text/plain"] {
        let head = format!("GET /_emulator/assumptions?matrix=true HTTP/1.1\r\nHost: localhost\r\nAccept: {accepted}");
        let answer = exchange(served.address(), format!("{head}\r\nConnection: close\r\n\r\n"));
        assert!(is_masked(&answer), "{accepted}: {answer}");
    }
}
