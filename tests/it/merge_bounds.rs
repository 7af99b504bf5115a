//! What a merged document has no room for, and long lists in an edited one. Over the real binary.

use serde_json::{Value, json};

use crate::merge::{Runs, busy, document, edited, list};
use crate::support::{run, text};

/// A list of so many records.
fn numbered(count: usize, record: impl Fn(usize) -> Value) -> Value {
    (0..count).map(record).collect()
}

/// The record with another value of a field.
fn with(record: &Value, field: &str, value: impl Into<Value>) -> Value {
    let mut other = record.clone();
    other[field] = value.into();
    other
}

#[test]
fn what_has_no_room_is_left_out_and_counted() {
    let runs = Runs::new();
    let file = runs.path("exec.json");
    run(&["exec", "--quiet", "--report", &file, "--scenario", "always-401", "--", "true"]).exits(0);
    let mut sound = document(&file);
    let due = json!({ "at": "2026-01-31T09:30:00Z", "in_ms": 1, "what": "timer", "workspace": "ws_1", "key": "sk_test_a",
        "delivery": null, "scenario": null, "message": "" });
    sound["due"] = numbered(6_000, |number| with(&due, "message", number.to_string()));
    let active = list(&sound, "scenarios").iter().position(|row| row["active"] == true).expect("the scenario");
    let progress = json!({ "workspace": null, "key": null, "rules": [], "step": null, "ends": [], "emissions": [] });
    sound["scenarios"][active]["progress"] = numbered(6_000, |number| with(&progress, "step", number.to_string()));
    sound["exec"]["output"] = "x".repeat(8 * 1024 * 1024).into();
    // What the runs themselves left out has another cause.
    sound["omitted"]["requests"] = 7.into();
    sound["omitted"]["keys"] = 2.into();
    let files = [("a", 0), ("b", 3)].map(|(name, status)| {
        sound["exec"]["exit_status"] = status.into();
        edited(&runs, &format!("{name}.json"), &sound)
    });
    let path = runs.path("merged.json");
    let merge = ["run", "merge", &files[0], &files[1], "--report", &path];
    let printed = text(&run(&merge).exits(0).stdout);
    let merged = document(&path);
    let outputs: Vec<bool> = list(&merged, "shards").iter().map(|shard| shard["exec"]["output"].is_string()).collect();
    assert_eq!(outputs, [false, true], "that of the failed command comes first");
    let kept = [&merged["due"], &merged["scenarios"][active]["progress"]];
    assert_eq!(kept.map(|kept| kept.as_array().map(Vec::len)), [Some(10_000); 2]);
    let omitted = ["outputs", "due", "progress"].map(|name| merged["omitted"][name].as_u64());
    assert_eq!(omitted, [1, 2_000, 2_000].map(Some));
    assert!(
        printed.contains("; 1 record left out, because a document has at most 10000 records, or 8 MiB, of each kind")
            && printed.contains("; 18 records were already missing from the runs"),
        "{printed}"
    );
    // Whatever was written is read again.
    let again = runs.merge(&[&path], "again.html");
    assert_eq!((&again["omitted"], list(&again, "due").len()), (&merged["omitted"], 10_000));
}

/// Comparing all with all would last longer than any test may.
#[test]
fn long_lists_are_merged_and_judged() {
    const MANY: usize = 20_000;
    const FEWER: usize = 2_000;
    let runs = Runs::new();
    let file = runs.save("sound.json", &[], busy);
    let sound = document(&file);
    let cells = json!([{ "status": 200, "requests": 1, "of_api": true }]);
    let row = json!({ "operation": "", "method": "GET", "path": "/", "cells": cells });
    let part = json!({ "scenario": "s0", "rule": "r", "applied": 0, "turns": 1, "left": 1, "workspace": null });
    let mut long = sound.clone();
    let verification = &mut long["verification"];
    verification["grid"] = numbered(MANY, |number| with(&row, "operation", number.to_string()));
    verification["unfinished"] =
        numbered(MANY, |number| with(&part, "message", format!("no request reached it: {number}")));
    verification["counts"]["unfinished"] = MANY.into();
    verification["active_scenarios"] = numbered(MANY, |number| format!("s{number}").into());
    let key = verification["keys"][0].clone();
    verification["keys"] = numbered(FEWER, |number| with(&key, "workspace", format!("ws_{number}")));
    let problem = verification["unmatched"][0].clone();
    verification["unmatched"] = numbered(FEWER, |number| with(&problem, "message", number.to_string()));
    let finding = long["findings"]["data"][0].clone();
    long["findings"]["data"] = numbered(FEWER, |number| with(&finding, "code", number.to_string()));
    long["active"] = numbered(MANY, |number| format!("s{number}").into());
    let (one, same) = (edited(&runs, "one.json", &long), edited(&runs, "same.json", &long));
    let both = runs.merge(&[&one, &same, &file], "both.json");
    let verification = &both["verification"];
    assert_eq!(verification["counts"]["unfinished"], MANY, "what no run reached is said once");
    assert_eq!(list(verification, "grid").len(), MANY + list(&sound["verification"], "grid").len());
    assert_eq!(verification["grid"][1]["cells"][0]["requests"], 2);
    assert_eq!(list(&both["findings"], "data").len(), FEWER + list(&sound["findings"], "data").len());
    let judging = ["verdict", "--from", &one, "--grid", "--fail-on", "unmatched,findings=likely"];
    let judged = text(&run(&judging).exits(1).stdout);
    assert!(judged.contains("20000 of 20000 answers of the contract met"), "the grid is printed");
}
