//! The grid of operations and statuses: what requests got of the contract, and that the advice for each gap is true. Over the real binary.

use serde_json::{Value, json};

use crate::process::Served;
use crate::support::{start_with, view};

/// The cell of an operation and a status, as the verdict has it.
fn cell(served: &Served, operation: &str, status: u64) -> Value {
    let verdict = served.json(&["verdict", "--json"]);
    let row = verdict["grid"].as_array().expect("a grid").iter().find(|row| row["operation"] == operation);
    let cells = row.unwrap_or_else(|| panic!("{operation} is a row: {verdict}"))["cells"].as_array().expect("cells");
    cells.iter().find(|cell| cell["status"] == status).expect("the cell").clone()
}

/// Each gap of the grid: operation, method, path, status, and the gap.
fn gaps(verdict: &Value) -> Vec<(String, String, String, u64, Value)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let rows = verdict["grid"].as_array().expect("a grid").iter();
    let cells = rows.flat_map(|row| row["cells"].as_array().expect("cells").iter().map(move |cell| (row, cell)));
    let gap = |(row, cell): (&Value, &Value)| {
        let status = cell["status"].as_u64().expect("a number");
        (text(&row["operation"]), text(&row["method"]), text(&row["path"]), status, cell["gap"].clone())
    };
    cells.filter(|(_, cell)| cell["requests"] == 0).map(gap).collect()
}

/// A valid request of an operation, with a test key.
fn send(served: &Served, operation: &str, method: &str, path: &str) -> u64 {
    let body = match operation {
        "events.subscribe" => r#"{"url":"https://app.sink.localhost/hooks","events":["workflow.completed"]}"#,
        _ => "",
    };
    served.send(method, path, body).0.into()
}

/// What is quoted in an advice.
fn quoted(advice: &str) -> Option<&str> {
    advice.split('`').nth(1)
}

#[test]
fn each_gap_is_filled_by_following_its_advice() {
    let served = Served::start(&["--quiet"]);
    let found = gaps(&served.json(&["verdict", "--json"]));
    assert!(found.len() >= 9, "{found:?}");
    for (operation, method, path, status, gap) in found {
        let what = format!("{status} of {operation}: {gap}");
        let advice = gap["advice"].as_str().expect("an advice");
        match (quoted(advice), gap["scenario"].as_str()) {
            (Some(quoted), Some(name)) => {
                assert_eq!(quoted, name, "{what}");
                served.said(&["scenarios", "use", name]);
            }
            (Some(rule), None) => {
                let (put, problem) = served.send_as("application/toml", "PUT", "/_emulator/scenarios/mine", rule);
                assert!((200..300).contains(&put), "{what}: {problem}");
                served.said(&["scenarios", "use", "mine"]);
            }
            (None, _) => {
                assert!(advice.contains(&format!("{method} {path}")), "{what}");
                served.said(&["scenarios", "off"]);
            }
        }
        assert_eq!(send(&served, &operation, &method, &path), status, "{what}");
        let filled = cell(&served, &operation, status);
        assert_eq!((&filled["requests"], filled.get("gap")), (&json!(1), None), "{what}");
    }
    assert_eq!(gaps(&served.json(&["verdict", "--json"])).len(), 0);
    let said = served.said(&["verdict", "--grid"]);
    assert!(said.contains(" of the contract met\n") && !said.contains("to get the others"), "{said}");
}

#[tokio::test]
async fn a_row_is_an_endpoint_that_is_served_and_has_what_it_was_answered() {
    let emulator = start_with(&[]).await;
    let verdict = view(&emulator, "verdict").await;
    let operations: Vec<&Value> =
        verdict["grid"].as_array().expect("a grid").iter().map(|row| &row["operation"]).collect();
    assert_eq!(operations, ["system.status", "events.subscribe", "hello"]);
}

#[test]
fn the_verdict_lists_the_grid_on_request() {
    let served = Served::start(&["--quiet"]);
    served.send("GET", "/v1/system/status", "");
    served.send("GET", "/v1/system/status", "");
    // A status that is not in the contract is shown where it was met; a request to no endpoint is in no row.
    let rule = r#"rule = [{ when = { operation = "hello" }, reply = { status = 503 } }]"#;
    served.send_as("application/toml", "PUT", "/_emulator/scenarios/mine", rule);
    served.said(&["scenarios", "use", "mine"]);
    served.send("GET", "/v1/hello", "");
    served.send("GET", "/v1/nowhere", "");
    assert!(!served.said(&["verdict"]).contains("contract"));
    let said = served.said(&["verdict", "--grid"]);
    let (_, grid) = said.split_once("1 of 9 answers of the contract met\n").unwrap_or_else(|| panic!("{said}"));
    assert!(grid.starts_with("    system.status     200 × 2, no 401, no 422, no 429\n"), "{grid}");
    assert!(grid.contains("    hello             no 200, 503 × 1\nto get the others:\n"), "{grid}");
    let gap = "    401 of system.status, events.subscribe: play the scenario `always-401`, then make a valid request\n";
    assert!(grid.contains(gap), "{grid}");
}
