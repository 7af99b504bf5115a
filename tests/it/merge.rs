//! `run merge`: several saved runs as one document, whose verdict is that of all of them. Over the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::process::Served;
use crate::run_files::data_of;
use crate::support::{Outcome, finish, run, text, wrs_emulator};

const KEY: &str = "sk_test_local";

/// A folder with saved runs.
pub(crate) struct Runs(tempfile::TempDir);

impl Runs {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        path.display().to_string()
    }

    /// Saves the run of an emulator with the seed that all have.
    pub(crate) fn save(&self, name: &str, arguments: &[&str], happens: impl FnOnce(&Served)) -> String {
        let served = Served::start(&[&["--quiet"], arguments].concat());
        happens(&served);
        let file = self.path(name);
        served.said(&["run", "save", &file]);
        file
    }

    pub(crate) fn merge(&self, files: &[&str], report: &str) -> Value {
        let path = self.path(report);
        run(&[&["run", "merge"], files, &["--report", &path]].concat()).exits(0);
        document(&path)
    }
}

pub(crate) fn document(path: impl AsRef<Path>) -> Value {
    let text = fs::read_to_string(path).expect("the file");
    if text.starts_with('<') { data_of(&text) } else { serde_json::from_str(&text).expect("JSON") }
}

/// Saves a run that was edited.
pub(crate) fn edited(runs: &Runs, name: &str, document: &Value) -> String {
    let file = runs.path(name);
    fs::write(&file, document.to_string()).expect("it is written");
    file
}

fn said(output: &Outcome) -> String {
    text(&output.stderr)
}

pub(crate) fn list<'v>(document: &'v Value, name: &str) -> &'v [Value] {
    document[name].as_array().unwrap_or_else(|| panic!("{name} is a list: {}", document[name]))
}

/// A subscription and a delivery to it, a status check, and a request to no endpoint.
pub(crate) fn busy(served: &Served) {
    served.subscribe("https://app.sink.localhost/hooks");
    served.send("GET", "/v1/system/status", "");
    served.send("GET", "/v1/nowhere", "");
    served.said(&["trigger", "workflow.completed", "--wait", "--key", KEY]);
}

fn check_only(served: &Served) {
    served.send("GET", "/v1/system/status", "");
}

#[test]
fn records_of_equal_ids_are_told_apart_and_lead_to_each_other() {
    let runs = Runs::new();
    let clock = ["--clock", "2026-01-31T09:30:00Z"];
    let (a, b) = (runs.save("one/run.json", &clock, busy), runs.save("two/run.html", &clock, busy));
    let (first, second) = (document(&a), document(&b));
    assert_eq!(first["requests"][0]["id"], second["requests"][0]["id"], "one seed makes the same ids");
    let merged = runs.merge(&[&a, &b], "merged.json");
    for kind in ["requests", "deliveries", "events", "subscriptions"] {
        let mut ids: Vec<&str> = list(&merged, kind).iter().map(|row| row["id"].as_str().expect("an id")).collect();
        let (all, each) = (ids.len(), list(&first, kind).len());
        assert!(each > 0 && all == 2 * each, "{kind}: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{kind}");
        for row in list(&first, kind) {
            for shard in ["one", "two"] {
                let id = format!("{}@{shard}", row["id"].as_str().expect("an id"));
                assert!(ids.contains(&id.as_str()), "{id}: {ids:?}");
            }
        }
    }
    // Every reference leads to a record of the same run.
    let id_of = |kind: &str, id: &Value| list(&merged, kind).iter().filter(|row| row["id"] == *id).count();
    for delivery in list(&merged, "deliveries") {
        assert_eq!((id_of("events", &delivery["event"]), id_of("subscriptions", &delivery["subscription"])), (1, 1));
        let keys = list(&merged, "keys").iter().filter(|key| key["workspace"] == delivery["workspace"]);
        let shards: Vec<&Value> = keys.map(|key| &key["shard"]).collect();
        assert!(
            shards.len() == 1
                && delivery["id"].as_str().is_some_and(|id| id.ends_with(shards[0].as_str().expect("a name")))
        );
    }
    for request in list(&merged, "requests") {
        assert_eq!(request["id"], request["explanation"]["id"]);
    }
    for event in list(&merged, "events") {
        assert_eq!(id_of("deliveries", &event["deliveries"][0]["id"]), 1);
    }
    for problem in list(&merged["verification"], "unmatched") {
        assert_eq!(id_of("requests", &problem["id"]), 1);
    }
    for finding in list(&merged["findings"], "data") {
        for shown in list(finding, "evidence") {
            let known = [("requests", "request"), ("deliveries", "delivery")];
            assert!(known.iter().any(|(kind, field)| id_of(kind, &shown[field]) == 1), "{shown}");
        }
    }
    // What was sent stays as it was.
    let sent = |document: &Value| document["deliveries"][0]["attempts"][0]["request"].clone();
    assert_eq!(sent(&merged), sent(&second));
    assert!(list(&merged, "requests").iter().any(|row| row["answer"] == first["requests"][0]["answer"]));

    let schema: Value = serde_json::from_slice(&run(&["run", "schema"]).stdout).expect("a schema");
    let errors: Vec<String> = jsonschema::draft202012::new(&schema)
        .expect("a valid schema")
        .iter_errors(&merged)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn the_verdict_is_that_of_all_runs() {
    let runs = Runs::new();
    let idle = runs.save("idle.json", &[], |_| {});
    let good = runs.save("good.json", &[], check_only);
    let bad = runs.save("bad.html", &[], |served| {
        busy(served);
        served.send("GET", "/v1/nowhere", "");
    });
    let fails = |file: &str, code: i32| {
        let output = run(&["verdict", "--from", file, "--fail-on", "unmatched"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        text(&output.stdout)
    };
    fails(&good, 0);
    fails(&idle, 1);
    fails(&bad, 1);
    for report in ["merged.json", "merged.html"] {
        let merged = runs.merge(&[&idle, &good, &bad], report);
        let verification = &merged["verification"];
        assert_eq!((&verification["counts"]["unmatched"], &verification["judged_requests"]), (&json!(2), &json!(5)));
        assert!(list(verification, "unused").iter().all(|unused| unused["kind"] != "unmatched"), "{verification}");
        let printed = fails(&runs.path(report), 1);
        assert!(
            printed.contains("2 requests matched no endpoint") && printed.contains(&format!("key {KEY}@bad")),
            "{printed}"
        );
        let row = &verification["grid"][0];
        assert_eq!((&row["operation"], &row["cells"][0]["requests"]), (&json!("system.status"), &json!(2)));
    }
    let without = runs.merge(&[&idle, &good], "good-ones.json");
    assert_eq!(without["verification"]["counts"]["unmatched"], 0);
    fails(&runs.path("good-ones.json"), 0);
    let output = run(&["verdict", "--from", &runs.path("merged.json"), "--fail-on", "findings"]).exits(1);
    assert!(text(&output.stdout).contains("wrong-path"), "{output:?}");
    let merged = document(runs.path("merged.json"));
    let finding = list(&merged["findings"], "data").iter().find(|finding| finding["code"] == "wrong-path").expect("it");
    assert_eq!((&finding["count"], finding["groups"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    // Exercised by one run is exercised.
    let idle_rules = |document: &Value| list(&document["findings"], "not_exercised").len();
    assert_eq!(idle_rules(&merged), idle_rules(&document(&bad)));
    assert!(idle_rules(&merged) < idle_rules(&document(&idle)));

    let archive = runs.path("merged.har");
    run(&["run", "merge", &idle, &good, &bad, "--report", &archive]).exits(0);
    let entries = document(&archive)["log"]["entries"].as_array().map(Vec::len);
    assert_eq!(entries, Some(5 + 1));
    let exported = run(&[
        "requests",
        "export",
        "--har",
        "-",
        "--from",
        &runs.path("merged.json"),
        "--key",
        &format!("{KEY}@good"),
    ])
    .exits(0);
    let exported: Value = serde_json::from_slice(&exported.stdout).expect("JSON");
    assert_eq!(exported["log"]["entries"].as_array().map(Vec::len), Some(1));
    fails_with(&["verdict", "--from", &good, "--wait", "1s"], "cannot be used with");
}

#[track_caller]
fn fails_with(arguments: &[&str], expected: &str) {
    let output = run(arguments).exits(2);
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn what_one_run_played_is_played() {
    let runs = Runs::new();
    let scenario = ["--scenario", "quota-once", "--scenarios"];
    let folder = runs.path("scenarios");
    fs::create_dir_all(&folder).expect("it is made");
    let once = "rule = [{ name = \"once\", when = { operation = \"system.status\" }, times = 1, reply = { error = \"rate_limit_exceeded\" } }]\n";
    fs::write(Path::new(&folder).join("quota-once.toml"), once).expect("it is written");
    let arguments: Vec<&str> = scenario.into_iter().chain([folder.as_str()]).collect();
    let never = runs.save("never.json", &arguments, |_| {});
    let other = runs.save("other.json", &arguments, |served| drop(served.send("GET", "/v1/hello", "")));
    let played = runs.save("played.json", &arguments, check_only);
    let left = |merged: &Value| merged["verification"]["counts"]["unfinished"].clone();
    assert_eq!(left(&document(&never)), 1);
    assert_eq!(left(&runs.merge(&[&never, &other], "none.json")), 1, "what nobody reached is said once");
    assert_eq!(left(&runs.merge(&[&never, &played, &other], "all.json")), 0);

    fs::write(Path::new(&folder).join("quota-once.toml"), once.replace("times = 1", "times = 2"))
        .expect("it is written");
    let changed = runs.save("changed.json", &arguments, check_only);
    let path = runs.path("changed-all.json");
    let output = run(&["run", "merge", &played, &changed, "--report", &path]).exits(0);
    assert!(said(&output).contains("scenario `quota-once` differs between the runs"), "{}", said(&output));
    let merged = document(&path);
    let names: Vec<&str> = list(&merged, "scenarios").iter().filter_map(|row| row["name"].as_str()).collect();
    assert!(
        names.contains(&"quota-once@played") && names.contains(&"quota-once@changed") && !names.contains(&"quota-once"),
        "{names:?}"
    );
    assert_eq!(merged["verification"]["unfinished"][0]["scenario"], "quota-once@changed");
    assert_eq!(names.iter().filter(|name| name.starts_with("always-401")).count(), 1, "equal ones are kept once");
}

#[test]
fn settings_clocks_commands_and_outputs_stay_with_their_run() {
    let runs = Runs::new();
    let exec = |name: &str, arguments: &[&str], script: &str| {
        let file = runs.path(name);
        let output = run(&[&["exec", "--quiet", "--report", &file], arguments, &["--", "sh", "-c", script]].concat());
        (file, output.status.code())
    };
    let call = format!("{} trigger workflow.completed --key {KEY}", env!("CARGO_BIN_EXE_wrs-emulator"));
    let (a, passed) = exec("a.json", &[], &format!("{call} >/dev/null 2>&1; echo from a; exit 0"));
    let frozen = ["--set", "rate_limit.requests=5", "--clock", "frozen"];
    let (b, failed) = exec("b.html", &frozen, &format!("{call} >/dev/null 2>&1; echo from b; exit 7"));
    assert_eq!((passed, failed), (Some(0), Some(7)));
    let path = runs.path("merged.html");
    let output = run(&["run", "merge", &a, &b, "--report", &path]).exits(0);
    assert!(
        said(&output).contains("`b` differs from the first run in its settings: rate_limit.requests"),
        "{}",
        said(&output)
    );
    let merged = document(&path);
    assert_eq!((&merged["exec"]["exit_status"], &merged["exec"]["command"]), (&json!(7), &json!([])));
    let shards = list(&merged, "shards");
    let shown: Vec<_> =
        shards.iter().map(|shard| (&shard["name"], &shard["exec"]["output"], &shard["exec"]["exit_status"])).collect();
    assert_eq!(shown, [(&json!("a"), &json!("from a\n"), &json!(0)), (&json!("b"), &json!("from b\n"), &json!(7))]);
    let differing = json!([{ "knob": "rate_limit.requests", "value": 5, "source": "--set" }]);
    assert_eq!(shards[1]["settings"], differing);
    let modes: Vec<&Value> = shards.iter().map(|shard| &shard["clock"]["mode"]).collect();
    assert_eq!(modes, ["real", "frozen"], "no run has the clock of another");
    // The keys of a run have its settings and its clock, which are not repeated.
    for key in list(&merged, "keys") {
        assert_eq!((&key["settings"], &key["clock"]), (&json!([]), &Value::Null), "{key}");
    }
    // A merged document may be merged again.
    let c = runs.save("c.json", &[], busy);
    let again = runs.merge(&[&path, &c], "again.json");
    let names: Vec<&Value> = list(&again, "shards").iter().map(|shard| &shard["name"]).collect();
    assert_eq!(names, ["a@merged", "b@merged", "c"]);
    assert_eq!(again["exec"]["exit_status"], 7);
    assert_eq!((&again["shards"][1]["settings"], &again["shards"][1]["clock"]["mode"]), (&differing, &json!("frozen")));
    let whole = runs.merge(&[&runs.path("again.json"), &a], "whole.json");
    assert!(
        whole["requests"][0]["id"].as_str().is_some_and(|id| id.ends_with("@c@again")),
        "{}",
        whole["requests"][0]["id"]
    );
}

#[test]
fn what_cannot_be_merged_is_refused_with_its_file() {
    let runs = Runs::new();
    let (a, b) = (runs.save("a.json", &[], check_only), runs.save("b.json", &[], busy));
    let whole = fs::read_to_string(&b).expect("the file");
    let report = runs.path("merged.json");
    let merge = |files: &[&str]| run(&[&["run", "merge"], files, &["--report", &report]].concat());
    let write = |name: &str, text: &str| {
        fs::write(runs.path(name), text).expect("it is written");
        runs.path(name)
    };
    for (file, cause, hint) in [
        (write("other.json", "{\"name\":\"x\"}"), "it is not a run of wrs-emulator", "run save FILE"),
        (
            write("later.json", &whole.replacen("\"version\":1", "\"version\":9", 1)),
            "it has version 9 of the format",
            "use wrs-emulator 0.",
        ),
        (
            write("field.json", &whole.replacen("\"due\":[", "\"due\":7,\"x\":[", 1)),
            "it is not as it was saved",
            "save it again",
        ),
        (write("cut.json", &whole[..whole.len() / 2]), "it is cut off", "save or copy it again"),
        (runs.path("none.json"), "No such file", ""),
    ] {
        let said = said(&merge(&[&a, &file]).exits(2));
        assert!(
            said.contains(&format!("cannot use `{file}`")) && said.contains(cause) && said.contains(hint),
            "{said}"
        );
    }
    let said_of = |files: &[&str]| said(&merge(files).exits(2));
    assert!(said_of(&[&a, &b, &a]).contains(&format!("`{a}` is given twice")));
    fails_with(&["run", "merge", &a, &b, "--report", &b], "is one of the runs, and would be replaced");
    fails_with(&["run", "merge", &a, &b], "--report <FILE>");
    assert!(!Path::new(&report).exists(), "nothing is written after a refusal");
    let copy = write("copy.json", &whole);
    let output = merge(&[&b, &copy]).exits(0);
    assert!(said(&output).contains("have the same content"), "{}", said(&output));

    let mut piped = wrs_emulator(&["run", "merge", "-", &a, "--report", "-"]);
    let piped = finish(piped.stdin(fs::File::open(&b).map(Stdio::from).expect("the file"))).exits(0);
    let merged: Value = serde_json::from_slice(&piped.stdout).expect("JSON");
    let names: Vec<&Value> = list(&merged, "shards").iter().map(|shard| &shard["name"]).collect();
    assert_eq!(names, ["stdin", "a"]);
    let output = run(&["run", "merge", &a, &b, "--report", &report, "--json"]).exits(0);
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed, json!({ "shards": ["a", "b"], "requests": 4, "deliveries": 1, "omitted": 0 }));
}

/// Files are edited, and cut, and made by others: each ends in a message, whatever the fields say that nothing reads.
#[test]
fn an_edited_run_is_refused_or_read() {
    let runs = Runs::new();
    let sound = runs.save("sound.json", &[], busy);
    let whole = fs::read_to_string(&sound).expect("the file");
    for (name, field) in [("number", "1e999".to_owned()), ("half", r#""\ud800""#.to_owned()), ("deep", "[".repeat(300))]
    {
        let file = runs.path(name);
        fs::write(&file, whole.replacen('{', &format!("{{\"extra\":{field},"), 1)).expect("it is written");
        for command in [&["run", "merge", &file, "--report", "-"][..], &["verdict", "--from", &file]] {
            let refused = run(command).exits(2);
            assert!(said(&refused).contains("it is not"), "{command:?}: {}", said(&refused));
        }
    }
    let mut document = document(&sound);
    document["requests"][0]["explanation"]["summary"] = format!("a{}", "@b".repeat(120_000)).into();
    document["verification"]["counts"]["unmatched"] = u64::MAX.into();
    document["verification"]["grid"][0]["operation"] = format!("\u{1b}[31m|`{}", "x".repeat(70_000)).into();
    let file = edited(&runs, "odd.json", &document);
    let merged = runs.merge(&[&file, &sound], "merged.json");
    assert_eq!(merged["verification"]["counts"]["unmatched"], u64::MAX);
    for format in ["text", "markdown"] {
        let shown = run(&["verdict", "--from", &file, "--grid", "--format", format]).exits(0);
        assert!(!text(&shown.stdout).contains('\u{1b}'), "{format}");
    }
}

#[test]
fn a_run_without_findings_is_not_taken_for_a_reviewed_one() {
    let runs = Runs::new();
    let good = runs.save("good.json", &[], check_only);
    let mut without = document(&good);
    without.as_object_mut().expect("an object").remove("findings");
    let part = edited(&runs, "part.json", &without);
    let path = runs.path("merged.json");
    let merged = run(&["run", "merge", &good, &part, "--report", &path]).exits(0);
    assert!(said(&merged).contains("`part` was saved without findings, so it is not reviewed"), "{}", said(&merged));
    fails_with(&["verdict", "--from", &path, "--fail-on", "findings"], "the run `part` in it was saved without any");
    let again = runs.path("again.json");
    run(&["run", "merge", &good, &path, "--report", &again]).exits(0);
    fails_with(
        &["verdict", "--from", &again, "--fail-on", "findings"],
        "the run `part@merged` in it was saved without",
    );
    run(&["verdict", "--from", &path, "--fail-on", "unmatched"]).exits(0);
}

#[test]
fn only_what_a_run_declares_gets_its_name() {
    let runs = Runs::new();
    let group = ["--set", "keys.mode=\"list\"", "--set", "keys.workspaces.team=[\"sk_test_local\"]"];
    let scenario = ["--scenario", "quota-once", "--scenarios"];
    let folder = runs.path("scenarios");
    fs::create_dir_all(&folder).expect("it is made");
    let twice = "rule = [{ name = \"twice\", when = { operation = \"system.status\" }, times = 2, reply = { error = \"rate_limit_exceeded\" } }]\n";
    fs::write(Path::new(&folder).join("quota-once.toml"), twice).expect("it is written");
    let arguments: Vec<&str> = group.into_iter().chain(scenario).chain([folder.as_str()]).collect();
    let file = runs.save("größe 2.json", &arguments, |served| {
        served.send("GET", "/v1/system/status", "");
        served.send("GET", "/v1/team/req_mine/sub_mine", "");
    });
    let other = runs.save("日本.json", &arguments, check_only);
    let merged = runs.merge(&[&file, &other], "merged.json");
    let names: Vec<&Value> = list(&merged, "shards").iter().map(|shard| &shard["name"]).collect();
    assert_eq!(names, ["größe-2", "日本"]);
    let message = merged["verification"]["unmatched"][0]["message"].as_str().expect("a text");
    assert!(message.starts_with("GET /v1/team/req_mine/sub_mine: "), "{message}");
    let left: Vec<&str> =
        list(&merged["verification"], "unfinished").iter().filter_map(|part| part["message"].as_str()).collect();
    assert!(left.iter().any(|message| message.contains("@größe-2 (key team@größe-2)")), "{left:?}");
    assert!(left.iter().any(|message| message.contains("@日本 (key team@日本)")), "{left:?}");
    // The names are read again.
    let again = runs.merge(&[&runs.path("merged.json"), &file], "again.json");
    let ids: Vec<&str> = list(&again, "requests").iter().filter_map(|row| row["id"].as_str()).collect();
    assert!(ids.iter().any(|id| id.ends_with("@日本@merged")), "{ids:?}");
}

#[test]
fn what_was_edited_into_a_run_is_masked() {
    let runs = Runs::new();
    let mut edit = document(runs.save("sound.json", &[], busy));
    let secret = "sk_live_abcdefgh1234";
    edit["verification"]["unmatched"][0]["message"] = format!("GET /?token={secret}").into();
    edit["requests"][0]["explanation"]["summary"] = format!("with {secret}").into();
    edit["requests"][0]["headers"] = json!([["x-a", secret]]);
    edit["exec"] = json!({ "command": [secret], "exit_status": 0, "signal": null, "problem": null, "output": secret });
    edit["subscriptions"][0]["url"] = format!("https://user:{secret}@example.com/").into();
    let file = edited(&runs, "edited.json", &edit);
    let merged = runs.merge(&[&file], "merged.json");
    assert_eq!(merged["requests"][0]["explanation"]["summary"], "with sk_live_…1234");
    runs.merge(&[&file], "merged.html");
    run(&["run", "merge", &file, "--report", &runs.path("merged.har")]).exits(0);
    for name in ["merged.json", "merged.html", "merged.har"] {
        assert!(!fs::read_to_string(runs.path(name)).expect("the file").contains("abcdefgh"), "{name}");
    }
    for arguments in [
        &["verdict", "--from", &file][..],
        &["verdict", "--from", &file, "--json"],
        &["requests", "export", "--har", "-", "--from", &file],
    ] {
        let printed = text(&run(arguments).exits(0).stdout);
        assert!(!printed.contains("abcdefgh"), "{arguments:?}: {printed}");
    }
}
