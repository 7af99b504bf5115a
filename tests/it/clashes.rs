//! Active scenarios that clash: who wins is as documented, and every output names both and the order in force.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::program::Program;
use crate::support::{
    KEY, activate, ask, builder, get, get_as, notices, put_scenario, run, start, started, text, view, write_scenario,
};

const RULE: &str = "scenario/clash-rule";
const SETTING: &str = "scenario/clash-setting";

/// A scenario that answers status checks with this status, and allows that many requests.
fn scenario(status: u16, requests: u64) -> String {
    format!(
        "[profile]\nrate_limit.requests = {requests}\n\n[[rule]]\nname = \"status {status}\"\n\
         when.operation = \"system.status\"\nreply = {{ status = {status} }}\n"
    )
}

fn codes(diagnostics: &Value) -> Vec<&str> {
    let list = diagnostics.as_array().expect("a list");
    list.iter().map(|problem| problem["code"].as_str().expect("a code")).collect()
}

/// The warnings that the log has about clashes.
fn logged(emulator: &Emulator) -> Vec<String> {
    let mut found = notices(emulator, true);
    found.retain(|message| message.contains("[scenario/clash-"));
    found
}

/// The status that a key gets, and how many requests it is allowed.
async fn in_force(emulator: &Emulator, key: &str) -> (u16, String) {
    let status = get_as(emulator, key, "/v1/system/status").await;
    (status.status, status.header("x-ratelimit-limit").expect("a limit").to_owned())
}

#[tokio::test]
async fn an_activation_names_both_scenarios_and_the_one_that_wins() {
    let emulator = start().await;
    put_scenario(&emulator, "a", scenario(503, 30)).await;
    put_scenario(&emulator, "b", scenario(418, 50)).await;
    for (first, second, status, limit) in [("a", "b", 503, "50"), ("b", "a", 418, "30")] {
        for key in [None, Some(KEY)] {
            let request = json!({ "active": [first, second], "key": key });
            let activated = ask(&emulator, "POST", "scenarios/active", &request).await;
            let found = &activated["diagnostics"];
            assert_eq!(codes(found), [RULE, SETTING], "{found}");
            let order = format!("the order in force is `{first}`, then `{second}`: ");
            assert!(found[0]["hint"].as_str().is_some_and(|hint| hint.starts_with(&order)), "{found}");
            let never =
                format!("of `{second}` never applies: \"status {status}\" of `{first}` ({first}:4) decides all");
            assert!(found[0]["message"].as_str().is_some_and(|message| message.contains(&never)), "{found}");
            assert_eq!((&found[0]["file"], &found[0]["line"]), (&json!(second), &json!(4)));
            let lost = format!("`rate_limit.requests` of `{first}` is not in force: `{second}` ({second}:2) sets it");
            assert!(found[1]["message"].as_str().is_some_and(|message| message.starts_with(&lost)), "{found}");
            assert_eq!(in_force(&emulator, key.unwrap_or("sk_test_other")).await, (status, limit.to_owned()));
        }
        // The list for all keys and the one of the key are the same, so each clash is listed once.
        assert_eq!(codes(&view(&emulator, "scenarios").await["diagnostics"]), [RULE, SETTING]);
        for document in ["run?limit=0".to_owned(), format!("run?limit=0&key={KEY}")] {
            let document = view(&emulator, &document).await;
            let clashes = document["clashes"].as_array().expect("clashes");
            assert_eq!(clashes.len(), 2, "{clashes:?}");
            for clash in clashes {
                assert_eq!(clash["scenarios"], json!([first, second]));
            }
        }
    }
    // Nothing clashes with itself, or once it is switched off.
    let own = ask(&emulator, "POST", "scenarios/active", &json!({ "active": ["a", "a"], "key": KEY })).await;
    assert_eq!(own["diagnostics"], json!([]));
    activate(&emulator, &[], None).await;
    assert_eq!(view(&emulator, "scenarios").await["diagnostics"], json!([]));
    assert_eq!(view(&emulator, "run?limit=0").await.get("clashes"), None);
}

#[tokio::test]
async fn a_rule_that_is_handed_requests_gets_them() {
    let emulator = start().await;
    put_scenario(&emulator, "a", scenario(503, 50) + "times = 1\n").await;
    put_scenario(&emulator, "b", scenario(418, 50)).await;
    let activated = ask(&emulator, "POST", "scenarios/active", &json!({ "active": ["a", "b"] })).await;
    assert_eq!(codes(&activated["diagnostics"]), [RULE]);
    let message = activated["diagnostics"][0]["message"].as_str().expect("words");
    assert!(
        message.ends_with("both match requests to `system.status`, and the first decides while it applies"),
        "{message}"
    );
    let statuses = [get(&emulator, "/v1/system/status").await.status, get(&emulator, "/v1/system/status").await.status];
    assert_eq!(statuses, [503, 418]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clashes_are_logged_at_the_start_and_after_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "a", &scenario(503, 30));
    write_scenario(folder.path(), "b", &scenario(418, 50));
    let emulator = started(builder().scenario_folder(folder.path()).scenario("a").scenario("b")).await;
    let at_start = logged(&emulator);
    assert_eq!(at_start.len(), 2, "{at_start:?}");
    assert!(at_start.iter().all(|line| line.contains("the order in force is `a`, then `b`")), "{at_start:?}");
    // What was logged is not repeated; what comes with an edit is.
    ask(&emulator, "POST", "scenarios/reload", &Value::Null).await;
    assert_eq!(logged(&emulator), at_start);
    write_scenario(folder.path(), "b", &scenario(418, 30));
    let reloaded = ask(&emulator, "POST", "scenarios/reload", &Value::Null).await;
    assert_eq!(codes(&reloaded["diagnostics"]), [RULE]);
    write_scenario(folder.path(), "b", &scenario(418, 60));
    let reloaded = ask(&emulator, "POST", "scenarios/reload", &Value::Null).await;
    assert_eq!(codes(&reloaded["diagnostics"]), [RULE, SETTING]);
    assert_eq!(logged(&emulator).len(), 3);
    let url = emulator.control_url();
    let used = tokio::task::spawn_blocking(move || run(&["scenarios", "use", "b", "a", "--url", &url]));
    let printed = text(&used.await.expect("it ends").stdout);
    for words in [
        "active: b, a (",
        "\"status 503\" of `a` never applies",
        "`b`, then `a`: the first rule",
        "of settings the last one wins",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn check_warns_about_scenarios_that_are_to_be_active() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "a", &scenario(503, 30));
    write_scenario(folder.path(), "b", &scenario(418, 30));
    let path = folder.path().to_str().expect("a path");
    let file = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let checked = |arguments: &[&str]| {
        let output = run(&[&["check"], arguments].concat());
        (output.status.code().expect("a code"), text(&output.stdout), text(&output.stderr))
    };
    // The files of a folder are alternatives.
    assert_eq!(checked(&[path]), (0, "2 files, 0 errors, 0 warnings\n".to_owned(), String::new()));
    let (code, counts, warned) = checked(&[path, "--scenario", "b,a", "--deny", "warnings"]);
    assert_eq!((code, counts.as_str()), (1, "2 files, 0 errors, 1 warning\n"));
    let place = format!("\"status 418\" of `b` ({}:4)", file("b.toml"));
    for words in [RULE, "of `a` never applies", &place, "the order in force is `b`, then `a`"] {
        assert!(warned.contains(words), "{words}: {warned}");
    }
    // Shipped scenarios are known, whatever is checked.
    let (_, counts, warned) = checked(&[path, "--scenario", "always-401", "--scenario", "a"]);
    assert!(
        counts.ends_with(" 1 warning\n") && warned.contains("\"key refused\" of `always-401` (always-401:"),
        "{warned}"
    );
    // Files named one by one may be alternatives too.
    let (code, counts, noted) = checked(&[&file("a.toml"), &file("b.toml"), "--deny", "warnings"]);
    assert_eq!((code, counts.as_str()), (0, "2 files, 0 errors, 0 warnings\n"));
    assert!(noted.starts_with("note: if these are active together in this order: "), "{noted}");
    assert!(noted.contains("of `b` never applies") && noted.contains("`a`, then `b`"), "{noted}");
    let (_, printed, _) = checked(&[&file("a.toml"), &file("b.toml"), "--json"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((codes(&printed["diagnostics"]), codes(&printed["notes"])), (vec![], vec![RULE]));
    let refused = "error: --scenario: no file that is checked is named `c.toml`\n\n\
                   hint: name the files or folders of all scenarios that are to be active\n";
    Program::new(&["check", path, "--scenario", "c"]).status(2).stdout("").stderr(refused).run();
    write_scenario(folder.path(), "b", "tite = 'x'\n");
    let (code, counts, _) = checked(&[path, "--scenario", "a,b"]);
    assert_eq!((code, counts.as_str()), (1, "2 files, 1 error, 0 warnings\n"));
}
