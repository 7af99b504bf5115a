//! Templates that name what a request does not have: an empty string, never an error, and a warning where people look.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{ask, builder, control, get, text, wrs_emulator};

const STORY: &str = r#"
[[rule]]
when = { operation = "hello" }
reply = { status = 200, body = "[{{ request.body.name }}{{ request.query.page | plus(1) }}{{ random_int(1, request.query.most) }}{{ request.query.none | default('-') }}]" }

[[rule]]
when = { operation = "system.status" }
patch = { echo = "[{{ request.query.q }}]" }

[[emit]]
name = "by hand"
event = "workflow.completed"
on = "command"
data = { workflow_id = "wf_1", status = "[{{ request.query.q }}]" }

[[given.subscription]]
url = "https://app.sink.localhost/x"
events = ["workflow.completed"]
"#;

async fn shown(emulator: &Emulator, path: &str) -> Value {
    ask(emulator, "GET", path, &Value::Null).await
}

async fn printed(emulator: &Emulator, arguments: &'static [&'static str], id: &str) -> String {
    let (url, id) = (emulator.control_url(), id.to_owned());
    let command = move || wrs_emulator(&[arguments, &[&id, "--url", &url]].concat()).output();
    let output = tokio::task::spawn_blocking(command).await.expect("it ends").expect("the binary runs");
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_a_request_does_not_have_is_an_empty_text_and_a_warning() {
    let emulator = builder().scenario_text(STORY).start().await.expect("it starts");
    let hello = get(&emulator, "/v1/hello").await;
    assert_eq!((hello.status, &hello.body[..]), (200, &b"[-]"[..]));
    let id = hello.header("x-emulator-request-id").expect("an id").to_owned();
    let expected = json!(["request.body.name", "request.query.page", "request.query.most"].map(|part| {
        format!("a template of scenario `inline-1`, rule 1, names `{part}`, which the request does not have; it gave an empty string")
    }));
    let request = shown(&emulator, &format!("requests/{id}")).await;
    assert_eq!(request["warnings"], expected, "{request}");
    assert_eq!(shown(&emulator, &format!("explain/{id}")).await["request"]["warnings"], expected);
    for arguments in [&["requests", "show"][..], &["explain"]] {
        let printed = printed(&emulator, arguments, &id).await;
        assert_eq!(printed.matches("warning: a template of scenario `inline-1`").count(), 3, "{printed}");
    }
    let status = get(&emulator, "/v1/system/status?q=1").await;
    assert_eq!((status.status, &status.json()["echo"]), (200, &json!("[1]")));
    let id = status.header("x-emulator-request-id").expect("an id").to_owned();
    assert_eq!(shown(&emulator, &format!("requests/{id}")).await["warnings"], json!([]));
    let status = get(&emulator, "/v1/system/status").await;
    assert_eq!((status.status, &status.json()["echo"]), (200, &json!("[]")));
    let id = status.header("x-emulator-request-id").expect("an id").to_owned();
    let request = shown(&emulator, &format!("requests/{id}")).await;
    assert!(request["warnings"][0].as_str().is_some_and(|text| text.contains("`request.query.q`")), "{request}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_has_no_request_and_says_so() {
    let emulator = builder().scenario_text(STORY).start().await.expect("it starts");
    get(&emulator, "/v1/system/status").await;
    let fired = control(&emulator, "POST", "events?wait=15s", &json!({ "emit": "by hand" })).await;
    assert_eq!(fired.status, 200, "{fired:?}");
    let listed = shown(&emulator, "deliveries").await;
    let id = listed["data"][0]["event"].as_str().expect("an event").to_owned();
    let explained = shown(&emulator, &format!("explain/{id}")).await;
    assert_eq!(explained["event"]["body"].as_str().map(|body| body.contains("\"status\":\"[]\"")), Some(true));
    let warnings = &explained["event"]["warnings"];
    assert!(warnings[0].as_str().is_some_and(|text| text.contains("`request.query.q`")), "{explained}");
    let printed = printed(&emulator, &["explain"], &id).await;
    assert!(printed.contains("warning: a template of the event's data names `request.query.q`"), "{printed}");
}
