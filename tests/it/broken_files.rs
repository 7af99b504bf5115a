//! One scenario file is broken or gone: it alone is held back, its last good version stays, and every output reports it.

use std::path::Path;

use serde_json::{Value, json};
use wrs_emulator::{Builder, Emulator};

use crate::support::{
    activate, ask, builder, control, get, get_as, notices, run, send, started, text, view, write_scenario,
};

const OWN: &str = "sk_test_own";
const BROKEN: &str = "[[rule]]\nwhen = { operaton = \"hello\" }\npass = true\n";

/// A story whose answers all have this code.
fn write(folder: &Path, name: &str, code: &str) {
    let text = format!(
        "[[rule]]\nwhen = {{ operation = \"system.status\" }}\nreply = {{ status = 422, code = \"{code}\", message = \"scripted\" }}\n"
    );
    write_scenario(folder, name, &text);
}

async fn state(emulator: &Emulator, name: &str) -> (Value, Value) {
    let listed = view(emulator, "scenarios").await;
    let row = listed["data"].as_array().expect("a list").iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("no {name} in {listed}"));
    (row["state"].clone(), row["problem"].clone())
}

/// What a request is answered that names its scenario.
async fn named(emulator: &Emulator, name: &str) -> String {
    let headers = [("authorization", "Bearer sk_test_other"), ("x-emulator-scenario", name)];
    let answer = send(emulator, "GET", "/v1/system/status", &headers, "").await;
    answer.code()
}

async fn listed_by_command(emulator: &Emulator) -> String {
    let url = emulator.control_url();
    let output = tokio::task::spawn_blocking(move || run(&["scenarios", "list", "--url", &url]));
    let output = output.await.expect("it ends").exits(0);
    text(&output.stdout)
}

fn on(folder: &Path) -> Builder {
    builder().scenario_folder(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_gone_holds_back_nothing_while_a_list_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "gone", "gone1");
    write(folder.path(), "other", "other1");
    let emulator = started(on(folder.path())).await;
    let activate = |names: Value| {
        let emulator = &emulator;
        async move { control(emulator, "POST", "scenarios/active", &json!({ "active": names, "key": OWN })).await }
    };
    assert_eq!(activate(json!(["gone"])).await.status, 200);
    assert_eq!(state(&emulator, "gone").await, (json!("ok"), Value::Null));
    std::fs::remove_file(folder.path().join("gone.toml")).expect("the file is deleted");
    write(folder.path(), "other", "other2");
    let reloaded = ask(&emulator, "POST", "scenarios/reload", &json!({})).await;
    let reported = &reloaded["diagnostics"][0];
    assert_eq!(
        (&reported["severity"], &reported["code"]),
        (&json!("warning"), &json!("scenario/active-missing")),
        "{reported}"
    );
    assert_eq!(named(&emulator, "other").await, "other2", "everything else reloads");
    assert_eq!(get_as(&emulator, OWN, "/v1/system/status").await.code(), "gone1", "the last good version stays");
    assert_eq!(state(&emulator, "gone").await.0, "deleted");
    assert_eq!(state(&emulator, "other").await.0, "ok");
    let health = view(&emulator, "health").await;
    assert_eq!(health["scenarios"], "last good");
    let printed = listed_by_command(&emulator).await;
    let row = printed.lines().find(|line| line.contains(" gone ")).expect("it is listed");
    assert!(row.ends_with("gone.toml (deleted)"), "{printed}");
    assert!(printed.contains("the file of `gone` was deleted, but an active list still names it"), "{printed}");
    // Once no list names it, it is gone.
    assert_eq!(activate(json!([])).await.status, 200);
    let unknown = control(&emulator, "GET", "scenarios/gone", &Value::Null).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let health = view(&emulator, "health").await;
    assert_eq!(health["scenarios"], "as saved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_holds_back_only_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "story", "story1");
    write(folder.path(), "other", "other1");
    let emulator = started(on(folder.path()).scenario("story")).await;
    write_scenario(folder.path(), "story", BROKEN);
    write_scenario(folder.path(), "never", BROKEN);
    write(folder.path(), "other", "other2");
    let reloaded = control(&emulator, "POST", "scenarios/reload", &json!({})).await;
    assert_eq!(reloaded.status, 422, "{reloaded:?}");
    let body = reloaded.json();
    assert!(reloaded.message().contains("files without an error are loaded"), "{body}");
    assert_eq!(body["diagnostics"].as_array().map(Vec::len), Some(2), "every problem is reported: {body}");
    let health = view(&emulator, "health").await;
    assert_eq!((&health["generation"], &health["scenarios"]), (&body["generation"], &json!("last good")));
    assert_eq!(named(&emulator, "other").await, "other2", "the others reload");
    assert_eq!(get(&emulator, "/v1/system/status").await.code(), "story1", "the last good version stays");
    for name in ["story", "never"] {
        let (state, problem) = state(&emulator, name).await;
        assert_eq!(
            (&state, &problem["code"], &problem["line"]),
            (&json!("broken"), &json!("scenario/unknown-key"), &json!(2))
        );
    }
    let printed = listed_by_command(&emulator).await;
    for name in ["story", "never"] {
        assert!(printed.lines().any(|line| line.contains(name) && line.ends_with(".toml (broken)")), "{printed}");
        assert!(printed.contains(&format!("{name}.toml:2:10: unknown key `operaton`")), "{printed}");
    }
    // One that was never good cannot be chosen, and why is reported.
    let refused = control(&emulator, "POST", "scenarios/active", &json!({ "active": ["never"] })).await;
    assert_eq!((refused.status, refused.message().contains("unknown key `operaton`")), (422, true), "{refused:?}");
    let shown = control(&emulator, "GET", "scenarios/never", &Value::Null).await;
    assert_eq!((shown.status, shown.message().contains("unknown key `operaton`")), (404, true), "{shown:?}");
    // Activating one that has a last good version uses that version.
    activate(&emulator, &["story"], None).await;
    assert_eq!(get(&emulator, "/v1/system/status").await.code(), "story1");
    write(folder.path(), "story", "story2");
    std::fs::remove_file(folder.path().join("never.toml")).expect("the file is deleted");
    let reloaded = control(&emulator, "POST", "scenarios/reload", &json!({})).await;
    assert_eq!((reloaded.status, &reloaded.json()["diagnostics"]), (200, &json!([])));
    assert_eq!(get(&emulator, "/v1/system/status").await.code(), "story2");
}

#[tokio::test]
async fn what_is_held_back_is_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "story", "story1");
    write_scenario(folder.path(), "never", BROKEN);
    let emulator = on(folder.path()).scenario("story").start().await.expect("a broken file is not active");
    let at_start = notices(&emulator, true);
    assert!(at_start.len() == 1 && at_start[0].contains("`never` is broken"), "{at_start:?}");
    assert!(at_start[0].contains("never.toml:2:10: unknown key `operaton`"), "{at_start:?}");
    std::fs::remove_file(folder.path().join("story.toml")).expect("the file is deleted");
    let seen = async {
        while !notices(&emulator, true).iter().any(|message| message.contains("`story`") && message.contains("deleted"))
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, seen).await.expect("the deletion is logged");
    assert_eq!(notices(&emulator, true).len(), 2, "a logged problem is not repeated");
}

#[tokio::test]
async fn the_start_fails_only_for_what_is_active() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "story", "story1");
    write_scenario(folder.path(), "broken", &format!("{BROKEN}titel = 1\n"));
    write_scenario(folder.path(), "always-401", BROKEN);
    for (name, parts) in [
        ("broken", ["unknown key `operaton`", "unknown key `titel`"]),
        // A shipped scenario does not stand in for the file that should replace it.
        ("always-401", ["always-401.toml:2:10", "unknown key `operaton`"]),
        ("missing", ["there is no scenario `missing`", "expected `"]),
    ] {
        let refused = on(folder.path()).scenario(name).start().await.expect_err(name).to_string();
        assert!(parts.iter().all(|part| refused.contains(part)), "{name}: {refused}");
    }
    assert!(on(folder.path()).scenario("story").start().await.is_ok());
}

#[tokio::test]
async fn a_state_that_names_a_missing_scenario_says_whose_list_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = tempfile::tempdir().expect("a folder").keep().join("state.json");
    let open = || on(folder.path()).configure(|settings| settings.state = Some(file.clone()));
    for (key, whose) in [(Some(OWN), "the list of the key `sk_test_own`"), (None, "the list of all keys")] {
        write(folder.path(), "story", "story1");
        let emulator = started(open()).await;
        emulator.control().use_scenarios(key, &["story"]).expect("it is there");
        std::fs::remove_file(folder.path().join("story.toml")).expect("the file is deleted");
        emulator.stop().await.expect("the state is saved");
        let refused = open().start().await.expect_err("the scenario is missing").to_string();
        assert!(refused.contains("there is no scenario `story`") && refused.contains(whose), "{refused}");
        std::fs::remove_file(&file).expect("the state is deleted");
    }
}
