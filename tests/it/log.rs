//! The log on stderr as people read it: duration, key and scenario of each request, where deliveries went and what came
//! back, broken connections by name, and what a reload changed.

use serde_json::{Value, json};

use crate::diagnosis::receiver;
use crate::process::{STATUS, Served, request};
use crate::support::{ask, notices, started, text};

const STORY: &str = r#"
[[rule]]
name = "changed"
when = { operation = "system.status" }
times = 1
patch = { ok = false }

[[rule]]
name = "slow"
when = { operation = "system.status" }
times = 1
delay = "20ms"
pass = true

[[rule]]
name = "cut"
when = { operation = "system.status" }
times = 1
fault = "reset"

[[rule]]
name = "silent"
when = { operation = "system.status" }
times = 1
fault = "empty"
"#;

/// The line of the log that holds all of these.
fn line<'l>(log: &'l str, parts: &[&str]) -> &'l str {
    let found = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no line has {parts:?}:\n{log}"))
}

#[test]
fn lines_have_duration_key_and_scenario_and_broken_connections_their_names() {
    let served = Served::start(&["--scenario-text", STORY, "--set", "keys.mode=any"]);
    for _ in 0..4 {
        request(&served.url, STATUS, "");
    }
    request(&served.url, &STATUS.replace("sk_test_local", "sk_live_abcdefgh1234"), "");
    let rows = served.json(&["requests", "list", "--json"]);
    let broken: Vec<_> = rows["data"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (row["status"].clone(), row["broken"].clone()))
        .collect();
    let none = (json!(200), Value::Null);
    assert_eq!(broken, [none.clone(), (json!(0), json!("empty")), (json!(0), json!("reset")), none.clone(), none]);
    let listed = text(&served.call(&["requests", "list"]).stdout);
    assert!(listed.contains("  reset  ") && listed.contains("  empty  ") && !listed.contains("  0  "), "{listed}");
    let id = rows["data"][2]["id"].as_str().expect("an id");
    assert!(text(&served.call(&["explain", id]).stdout).contains(": connection reset because "), "{id}");
    assert!(text(&served.call(&["requests", "show", id]).stdout).contains("\nreset\n"), "{id}");
    let (_, log) = served.stop();
    for (status, rule) in [("200", "changed"), ("200", "slow"), ("reset", "cut"), ("empty", "silent")] {
        let begin = format!(" {status} GET /v1/system/status req_");
        let line = line(&log, &[&begin, " ms, sk_test_local, scenario ", rule]);
        assert!(!line.contains('\u{1b}'), "colour belongs on terminals: {line}");
    }
    line(&log, &["200 GET /v1/system/status", ", sk_live_…1234"]);
    assert!(!log.contains("abcdefgh"), "{log}");
}

#[test]
fn delivery_lines_have_where_it_went_and_what_the_receiver_answered() {
    let to = format!("http://127.0.0.1:{}", receiver(418, "no coffee\nhere"));
    let forward = format!("https://app.example.com={to}");
    let served = Served::start(&["--forward", &forward]);
    served.subscribe("https://app.example.com/hooks");
    let fired = text(&served.call(&["trigger", "workflow.completed", "--wait"]).stdout);
    let sent = format!("https://app.example.com/hooks, sent to {to}/hooks");
    assert!(fired.contains(&format!("{sent}: answered 418: no coffee")), "{fired}");
    served.call(&["explain"]).prints(&[&sent]);
    let (_, log) = served.stop();
    let line = line(&log, &["attempt 1 to ", &sent, ": answered 418: no coffee", " ms, sk_test_local"]);
    assert!(!line.contains("here"), "{line}");
}

#[tokio::test]
async fn a_reload_names_the_file_and_the_rules_that_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it is written");
    write("story.toml", STORY);
    let emulator = started(crate::support::builder().scenario_folder(folder.path())).await;
    let changed = STORY.replace("20ms", "30ms").replace("name = \"silent\"\n", "")
        + "\n[[rule]]\nname = \"new\"\nreply = { status = 500 }\n";
    write("story.toml", &changed);
    write("other.toml", "title = 'another'\n");
    // Whichever comes first, the watcher or the call, has something to tell; it is reported once.
    ask(&emulator, "POST", "scenarios/reload", &Value::Null).await;
    let said = notices(&emulator, false).join("\n");
    let story = folder.path().join("story.toml").display().to_string();
    assert!(said.contains(&format!("{story}: ")) && said.contains("other.toml: added"), "{said}");
    for rule in ["rule `slow` changed", "rule 4 added", "rule `silent` removed", "rule `new` added"] {
        assert!(said.contains(rule), "`{rule}` is not in {said}");
    }
    assert!(!said.contains("`cut`") && !said.contains("`changed`"), "{said}");
}

#[test]
fn json_lines_have_the_same_as_fields() {
    let served = Served::start(&["--log", "json", "--scenario-text", STORY]);
    for _ in 0..3 {
        request(&served.url, STATUS, "");
    }
    served.subscribe("https://app.sink.localhost/hooks");
    served.call(&["trigger", "workflow.completed", "--wait"]);
    let (_, log) = served.stop();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let requests = of("request");
    let seen: Vec<_> = requests.iter().map(|line| (&line["status"], &line["broken"], &line["rule"])).collect();
    let (fine, none) = (json!(200), Value::Null);
    let rules = ["changed", "slow", "cut"].map(Value::from);
    assert_eq!(
        seen,
        [
            (&fine, &none, &rules[0]),
            (&fine, &none, &rules[1]),
            (&json!(0), &json!("reset"), &rules[2]),
            (&fine, &none, &none)
        ]
    );
    assert!(requests[1]["latency_ms"].as_f64().is_some_and(|millis| millis >= 20.0), "{}", requests[1]);
    assert!(requests[0]["scenario"].is_string() && requests[3]["scenario"].is_null(), "{log}");
    let attempt = of("attempt")[0];
    assert_eq!((&attempt["key"], &attempt["dialled"]), (&json!("sk_test_local"), &json!("sink app")), "{attempt}");
    assert!(attempt["latency_ms"].is_number() && of("event")[0]["key"] == "sk_test_local", "{log}");
}
