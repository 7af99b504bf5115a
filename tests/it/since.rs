//! `explain --since RUN`: the first thing that a test did otherwise than in an earlier run, where the clock stands still in both.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Served, request};
use crate::support::{run, text};

/// The report of a command that makes these requests with a test's key, and whose receiver answers an event with this status.
fn reported(folder: &TempDir, name: &str, key: &str, paths: &[&str], status: u16, outcome: &str) -> String {
    let (file, binary) = (folder.path().join(name).display().to_string(), env!("CARGO_BIN_EXE_wrs-emulator"));
    let ended = json!({ "key": key, "test": "test_a", "outcome": outcome });
    let calls: String = paths.iter().map(|path| format!("call $WRS_BASE_URL{path}; ")).collect();
    let script = format!(
        "call() {{ curl -s -o /dev/null -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \"$@\"; }}; {calls}
         '{binary}' subscriptions create https://app.sink.localhost/ --key {key}
         call $WRS_EMULATOR_URL/_emulator/sink/app -d '{{\"respond\":[{status}]}}'
         '{binary}' trigger workflow.completed --key {key} --wait
         call $WRS_EMULATOR_URL/_emulator/outcome -d '{ended}'"
    );
    run(&["exec", "--clock", "2026-01-31T09:30:00Z", "--report", &file, "--", "sh", "-c", &script]);
    file
}

#[test]
fn a_failed_test_is_compared_with_the_same_test_of_an_earlier_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["/v1/system/status", "/v1/hello", "/v1/system/status"];
    let green = reported(&folder, "green.json", "sk_test_a", &paths, 200, "passed");
    let first = |key: &str, paths: &[&str], status| {
        let red = reported(&folder, "red.html", key, paths, status, "failed");
        let output = run(&["explain", "--from", &red, "--since", &green, "--json"]).exits(0);
        let found: Value =
            serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next().expect("a line")).expect("JSON");
        assert_eq!([&found["test"], &found["outcome"], &found["earlier_outcome"]], ["test_a", "failed", "passed"]);
        (text(&run(&["explain", "--from", &red, "--since", &green]).exits(0).stdout), found)
    };
    // A request differs, which needs no key, and the delivery after it.
    let (shown, found) = first("sk_test_a", &[paths[0], "/v1/helo", paths[2]], 500);
    let statuses = ["earlier", "now"].map(|run| &found[run]["request"]["status"]);
    assert_eq!((&found["differs"], statuses), (&json!("request 2"), [&json!(200), &json!(404)]));
    let start = format!(
        "test_a, passed in `{green}`, failed in `{}`\n  request 2 is the first that differs\n  in `{green}`: GET /v1/hello\n    req_",
        folder.path().join("red.html").display()
    );
    assert!(shown.starts_with(&start) && shown.contains("did you mean GET /v1/hello?"), "{shown}");
    // A test with another key is known by its name. That it ended early is not why it failed, where a delivery differs.
    assert_eq!(first("sk_test_b", &paths[..2], 500).1["differs"], "delivery 1");
    let (shown, found) = first("sk_test_a", &paths[..2], 200);
    assert_eq!((&found["differs"], &found["now"]), (&json!("request 3"), &Value::Null));
    assert!(shown.ends_with("red.html`: no request 3\n"), "{shown}");
    assert!(
        first("sk_test_c", &paths, 200).0.contains("failed in `/")
            && first("sk_test_c", &paths, 200).0.contains("nothing differs")
    );
}

#[test]
fn a_running_emulator_is_compared_and_what_cannot_be_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(&["--clock", "2026-01-31T09:30:00Z"]);
    let get = |path: &str, key: &str| {
        request(&served.url, &format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {key}"), "")
    };
    get("/v1/hello", "sk_test_a");
    let green = folder.path().join("green.json").display().to_string();
    served.call(&["run", "save", &green]).exits(0);
    served.call(&["explain", "--since", &green]).exits(0).prints(&["nothing differs: the same requests"]);
    get("/v1/nowhere", "sk_test_a");
    get("/v1/hello", "sk_test_new");
    let shown = served.said(&["explain", "--since", &green]);
    assert!(shown.contains("sk_test_a\n  request 2 is the first that differs\n"), "{shown}");
    assert!(shown.ends_with("sk_test_new: only in the emulator\n"), "{shown}");
    served.fails(&["explain", "--since", &green, "--key", "sk_test_none"], 1);
    served.fails(&["explain", "latest", "--since", &green], 2);
    let refused = served.fails(&["explain", "--since", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 2);
    assert!(refused.contains("Cargo.toml`: it is not JSON"), "{refused}");
}
