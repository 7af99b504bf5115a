//! What a client or a user's files can make grow is bounded in bytes: the process stays below 256 MiB at its peak.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::PATIENCE;
use crate::wire::process::Served;

/// Most bytes that the process may have used at any moment.
const MOST: usize = 256 * 1024 * 1024;

/// A call of the control API: status and body.
fn call(served: &Served, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, String) {
    let mut stream = served.connect();
    let size = body.len();
    let head = format!(
        "{method} /_emulator/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: {content_type}\r\nContent-Length: {size}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

fn assert_small(served: &Served, what: &str) {
    let peak = served.peak();
    assert!(peak <= MOST, "{what}: {peak} bytes");
}

/// A snapshot of `keys` keys, each with a setting of its own if `own_settings`.
fn snapshot_of(served: &Served, keys: usize, own_settings: bool) -> Vec<u8> {
    let (_, empty) = call(served, "GET", "snapshot?key=*", "application/json", b"");
    let mut snapshot: Value = serde_json::from_str(&empty).expect("a snapshot");
    let (clock, sources) = (snapshot["clock"].clone(), snapshot["whole"]["anonymous"].clone());
    let workspace = |number: usize| {
        let knobs = if own_settings { json!({ "rate_limit.requests": number + 1 }) } else { json!({}) };
        json!({
            "key": format!("sk_test_{number}"), "clock": clock, "sources": sources, "quotas": {}, "subscriptions": [],
            "workflows": [], "users": [], "knobs": knobs, "tokens": [], "planned": [], "deliveries": [],
            "scenarios": {
                "active": [], "own": false, "active_for": 0, "began": null, "turns": [], "steps": [],
                "named_turns": [], "named_steps": [],
            },
        })
    };
    snapshot["workspaces"] = (0..keys).map(workspace).collect();
    snapshot.to_string().into_bytes()
}

fn load(served: &Served, snapshot: &[u8]) -> (u16, String) {
    call(served, "PUT", "snapshot", "application/json", snapshot)
}

/// What a call would refuse, a snapshot cannot bring in either.
#[test]
fn a_snapshot_is_loaded_within_the_bounds_of_the_calls() {
    let served = Served::start(&["--max-workspaces", "100"]);
    let (status, answer) = load(&served, &snapshot_of(&served, 10_000, true));
    assert!(status == 422 && answer.contains("settings of their own"), "{status} {answer}");
    assert_small(&served, "10,000 keys with settings of their own");

    let own = snapshot_of(&served, 500, true);
    assert_eq!(load(&served, &own).0, 200);
    let (_, saved) = call(&served, "GET", "snapshot?key=*", "application/json", b"");
    let saved: Value = serde_json::from_str(&saved).expect("a snapshot");
    let kept = saved["workspaces"].as_array().expect("workspaces").len();
    assert!((90..=100).contains(&kept), "{kept} workspaces are kept");
    // Each thread for long computations keeps what it once used.
    (0..4).for_each(|_| assert_eq!(load(&served, &own).0, 200));
    let before = served.resident();
    (0..8).for_each(|_| assert_eq!(load(&served, &own).0, 200));
    assert!(served.resident() < before + before / 4, "{} bytes became {}", before, served.resident());

    // Keys without settings of their own share one configuration.
    let shared = Served::start(&[]);
    assert_eq!(load(&shared, &snapshot_of(&shared, 10_000, false)).0, 200);
    assert_small(&shared, "10,000 keys");
    shared.serves();
}

/// Small rules, conditions and patterns take a hundred times as much as their text.
#[test]
fn scenarios_given_as_text_take_bounded_memory() {
    let toml = "application/toml";
    let large = 250 * 1024;
    let rules = "[[rule]]\nreply.status=422\n".repeat(large / 27);
    let literals =
        format!("[[rule]]\nwhen={{header={{x={{one_of=[{}]}}}}}}\nreply.status=422\n", "0,".repeat(large / 2 - 50));
    let patterns: Vec<String> = (0..16)
        .map(|n| format!("[[rule]]\nwhen={{header={{x={{matches='{n}[a-z]{{3000}}'}}}}}}\nreply.status=422\n"))
        .collect();
    let text = format!("[[rule]]\nreply={{status=200,body=\"{}\"}}\n", "a".repeat(large));
    for (what, scenario, said) in [
        ("rules", rules.as_str(), "bytes once read"),
        ("literals", &literals, "bytes once read"),
        ("patterns", &patterns.concat(), "bytes once read"),
        ("text", &text, "bytes of text"),
    ] {
        let served = Served::start(&[]);
        let refused = (0..100).find_map(|number| {
            let (status, answer) = call(&served, "PUT", &format!("scenarios/s{number}"), toml, scenario.as_bytes());
            (status != 200).then_some((status, answer))
        });
        let (status, answer) = refused.unwrap_or_else(|| panic!("{what}: 100 are taken"));
        assert!(status == 422 && answer.contains("scenario/too-many") && answer.contains(said), "{what}: {answer}");
        assert_small(&served, what);
        // What is there can be replaced, and room be made.
        assert_eq!(call(&served, "PUT", "scenarios/s0", toml, b"[[rule]]\nreply.status=422\n").0, 200, "{what}");
        assert_eq!(call(&served, "DELETE", "scenarios/s0", "application/json", b"").0, 200, "{what}");
    }

    let served = Served::start(&[]);
    let (_, empty) = call(&served, "GET", "snapshot?key=*", "application/json", b"");
    let mut snapshot: Value = serde_json::from_str(&empty).expect("a snapshot");
    for (count, expected) in [(1_001, 422), (1_000, 200)] {
        let scenarios = (0..count).map(|number| (format!("s{number}"), json!("[[rule]]\nreply.status=422\n")));
        snapshot["whole"]["scenarios"] = Value::Object(scenarios.collect());
        let (status, answer) = call(&served, "PUT", "snapshot", "application/json", snapshot.to_string().as_bytes());
        assert_eq!(status, expected, "{count}: {answer}");
    }
    assert_eq!(call(&served, "PUT", "scenarios/more", toml, b"[[rule]]\nreply.status=422\n").0, 422);
}

#[test]
fn a_folder_of_scenarios_takes_bounded_memory_and_nothing_while_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = 1000 * 1024;
    let dense = |rules: usize| "[[rule]]\nreply.status=422\n".repeat(rules);
    for number in 0..3 {
        std::fs::write(folder.path().join(format!("a{number}.toml")), dense(25_000)).expect("it is written");
    }
    for number in 0..20 {
        let text = format!("{}# {}\n", dense(1), "x".repeat(large));
        std::fs::write(folder.path().join(format!("b{number:02}.toml")), text).expect("it is written");
    }
    let served = Served::start(&["--scenarios", &folder.path().display().to_string()]);
    for _ in 0..2 {
        assert_eq!(call(&served, "POST", "scenarios/reload", "application/json", b"{}").0, 200);
    }
    let (_, listed) = call(&served, "GET", "scenarios", "application/json", b"");
    for code in ["file/too-many", "scenario/too-many"] {
        assert_eq!(listed.matches(code).count(), 1, "{code}");
    }
    assert_small(&served, "a folder");
    // The files grow old, and are read no more: all of them would be 16 MiB a second.
    let pause = Duration::from_millis(1500);
    let mut left = PATIENCE;
    while {
        let before = served.bytes_read();
        std::thread::sleep(pause);
        served.bytes_read() - before > 1024 * 1024
    } {
        left = left.checked_sub(pause).expect("an idle watcher reads nothing");
    }
}
