//! Deliberate damage: every place that shows a damaged delivery names the fault and who asked for it.

use serde_json::{Value, json};

use crate::process::{STATUS, Served, request};
use crate::support::{control, fire, folder_with, start, subscribe_sink, text, view};

/// A scenario whose third emission, which has no name, is damaged, and whose fourth has a name.
const FORGED: &str = r#"
[[given.subscription]]
url = "https://app.sink.localhost/hooks"
events = ["workflow.completed"]

[[emit]]
event = "workflow.completed"
on = "activation"

[[emit]]
event = "workflow.completed"
on = "activation"

[[emit]]
event = "workflow.completed"
on = "activation"
delivery = { tamper = "signature" }

[[emit]]
name = "late"
event = "workflow.completed"
on = "command"
delivery = { tamper = "body", duplicate = 2 }
"#;

const BY_SCENARIO: &str = "tampered deliberately: signature (scenario `webhook-forged`, emission 3)";
const BY_COMMAND: &str = "tampered deliberately: signature (`trigger --tamper signature`, or POST /_emulator/events)";

#[test]
fn log_explain_listings_and_trigger_name_the_damage_and_its_origin() {
    let folder = folder_with("webhook-forged", FORGED);
    let folder = folder.path().display().to_string();
    for format in ["text", "json"] {
        let served = Served::start(&["--log", format, "--scenarios", &folder, "--scenario", "webhook-forged"]);
        // Without a script, the built-in receiver refuses forgeries.
        served.control("POST", "sink/app", &json!({ "respond": vec![200; 20] }));
        assert!(request(&served.url, STATUS, "").starts_with("HTTP/1.1 200 "));
        let waited = served.json(&["deliveries", "wait", "--count", "3", "--status", "delivered", "--json"]);
        let damaged: Vec<&Value> =
            waited["data"].as_array().expect("rows").iter().filter(|row| row["damage"] == BY_SCENARIO).collect();
        assert_eq!(damaged.len(), 1, "{waited}");
        let undamaged = waited["data"].as_array().expect("rows").iter().filter(|row| row["damage"].is_null()).count();
        assert_eq!(undamaged, 2, "{waited}");
        let (id, event) = (damaged[0]["id"].as_str().expect("an id"), damaged[0]["event"].as_str().expect("an id"));
        for arguments in [
            &["explain", id][..],
            &["explain", id, "--json"],
            &["explain", event],
            &["deliveries", "show", id],
            &["deliveries", "show", id, "--json"],
        ] {
            served.call(arguments).prints(&[BY_SCENARIO]);
        }
        let late =
            "tampered deliberately: body, sent 2 times deliberately (scenario `webhook-forged`, emission `late`)";
        assert_eq!(
            text(&served.call(&["trigger", "--emit", "late"]).stdout),
            format!("emission late set off: {late}\n")
        );
        served.call(&["trigger", "workflow.completed", "--tamper", "signature", "--wait"]).prints(&[BY_COMMAND]);
        let (_, log) = served.stop();
        for said in [BY_SCENARIO, BY_COMMAND] {
            let reported = |kind: &str| log.lines().any(|line| line.contains(kind) && line.contains(said));
            assert!(reported("event") && reported("attempt"), "{format}: `{said}` is not in {log}");
        }
        let field = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        assert_eq!(field.filter(|line| line["damage"] == BY_SCENARIO).count(), if format == "json" { 2 } else { 0 });
    }
}

#[tokio::test]
async fn every_kind_of_damage_asked_for_by_a_command_is_named() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    for (asked, said, flags) in [
        (json!({ "tamper": "headers" }), "tampered deliberately: headers", "--tamper headers"),
        (json!({ "duplicate": 3 }), "sent 3 times deliberately", "--duplicate 3"),
        (json!({ "drop": true }), "dropped deliberately", "--drop"),
        (json!({ "count": 2, "shuffle": true }), "sent out of order deliberately", "--shuffle"),
        (
            json!({ "tamper": "secret", "drop": true }),
            "tampered deliberately: secret, dropped deliberately",
            "--tamper secret --drop",
        ),
    ] {
        let mut body = asked.clone();
        body["type"] = "workflow.completed".into();
        let fired = fire(&emulator, &body).await;
        let expected = format!("{said} (`trigger {flags}`, or POST /_emulator/events)");
        for of in ["events", "deliveries"] {
            let rows = fired[of].as_array().expect("rows");
            assert!(!rows.is_empty() && rows.iter().all(|row| row["damage"] == expected), "{of}: {fired}");
        }
    }
    let plain = fire(&emulator, &json!({ "type": "workflow.completed", "duplicate": 1, "shuffle": true })).await;
    assert_eq!((&plain["events"][0]["damage"], &plain["deliveries"][0]["damage"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn damage_is_still_named_after_a_redelivery_and_in_a_loaded_snapshot() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    control(&emulator, "POST", "sink/app", &json!({ "respond": [500] })).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed", "tamper": "signature" })).await;
    assert_eq!(fired["deliveries"][0]["status"], "pending", "{fired}");
    let id = fired["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    let again = control(&emulator, "POST", &format!("deliveries/{id}/redeliver?wait=5s"), &Value::Null).await.json();
    assert_eq!(again["delivery"]["damage"], BY_COMMAND, "{again}");
    let snapshot = emulator.control().snapshot().await;
    emulator.control().restore(&snapshot).expect("it loads");
    let loaded = view(&emulator, &format!("deliveries/{id}")).await;
    assert_eq!(loaded["damage"], BY_COMMAND, "{loaded}");
}

#[test]
fn copies_and_delays_that_a_setting_makes_are_named_with_the_setting() {
    let served = Served::start(&["--set", "webhooks.copies=2", "--set", "webhooks.scatter=1ms"]);
    let said = "sent 2 times deliberately (setting webhooks.copies), delayed deliberately by up to 1 ms (setting webhooks.scatter)";
    served.subscribe("https://app.sink.localhost/x");
    served.call(&["trigger", "workflow.completed", "--wait"]).prints(&[said]);
    let listed = served.json(&["deliveries", "wait", "--count", "2", "--status", "delivered", "--json"]);
    let rows = listed["data"].as_array().expect("rows");
    assert!(rows.len() == 2 && rows.iter().all(|row| row["damage"] == said), "{listed}");
    let id = rows[0]["id"].as_str().expect("an id");
    for arguments in [&["explain", id][..], &["explain", id, "--json"], &["deliveries", "show", id]] {
        served.call(arguments).prints(&[said]);
    }
    // Faults that a call adds have their own origin, and the larger number of copies counts.
    for (flags, expected) in [
        (
            &["--tamper", "body"][..],
            format!("tampered deliberately: body (`trigger --tamper body`, or POST /_emulator/events), {said}"),
        ),
        (
            &["--duplicate", "3"],
            "sent 3 times deliberately (`trigger --duplicate 3`, or POST /_emulator/events), delayed ".to_owned(),
        ),
    ] {
        served.call(&[&["trigger", "workflow.completed"], flags].concat()).prints(&[&expected]);
    }
    let (_, log) = served.stop();
    for kind in [" event workflow.completed", " attempt 1 "] {
        assert!(log.lines().any(|line| line.contains(kind) && line.contains(said)), "{kind}: {log}");
    }
}
