//! Templates that name what a request does not have: an empty string, never an error, and a warning where people look.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{ask, builder, get, run, started, text, view, wrs_emulator};

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
    view(emulator, path).await
}

async fn printed(emulator: &Emulator, arguments: &'static [&'static str], id: &str) -> String {
    let (url, id) = (emulator.control_url(), id.to_owned());
    let command = move || wrs_emulator(&[arguments, &[&id, "--url", &url]].concat()).output();
    let output = tokio::task::spawn_blocking(command).await.expect("it ends").expect("the binary runs");
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_a_request_does_not_have_is_an_empty_text_and_a_warning() {
    let emulator = started(builder().scenario_text(STORY)).await;
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
    let emulator = started(builder().scenario_text(STORY)).await;
    get(&emulator, "/v1/system/status").await;
    ask(&emulator, "POST", "events", &json!({ "emit": "by hand" })).await;
    // The call triggers the emission, and a task fires its event.
    emulator.control().settle().await;
    let listed = shown(&emulator, "deliveries").await;
    let id = listed["data"][0]["event"].as_str().expect("an event").to_owned();
    let explained = shown(&emulator, &format!("explain/{id}")).await;
    assert_eq!(explained["event"]["body"].as_str().map(|body| body.contains("\"status\":\"[]\"")), Some(true));
    let warnings = &explained["event"]["warnings"];
    assert!(warnings[0].as_str().is_some_and(|text| text.contains("`request.query.q`")), "{explained}");
    let printed = printed(&emulator, &["explain"], &id).await;
    assert!(printed.contains("warning: a template of the event's data names `request.query.q`"), "{printed}");
}

/// What a client sends decides whether these can be rendered.
const ON_DATA: &str = r#"
[[rule]]
when = { operation = "events.subscribe" }
reply = { status = 200, body = { next = "{{ request.body.n | plus(1) }}", drawn = "[{{ random_int(1, request.body.n) }}]", echo = "<{{ request.body.text }}>" } }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_a_template_cannot_use_is_an_empty_text_and_a_warning() {
    let emulator = started(builder().scenario_text(ON_DATA)).await;
    let ask = async |body: Value| {
        // Nothing that the contract knows as a subscription: the scenario answers.
        let headers = [("authorization", "Bearer sk_test_local"), ("content-type", "application/json")];
        let answer = crate::support::send(&emulator, "POST", "/v1/events/subscribe", &headers, body.to_string()).await;
        let id = answer.header("x-emulator-request-id").expect("an id").to_owned();
        let warnings = shown(&emulator, &format!("requests/{id}")).await["warnings"].clone();
        (answer.status, answer.json(), warnings, id)
    };
    let (status, body, warnings, _) = ask(json!({ "n": 4, "text": "t" })).await;
    assert_eq!((status, &body["next"], &body["echo"], warnings), (200, &json!("5"), &json!("<t>"), json!([])));
    let (status, body, warnings, id) = ask(json!({ "n": "many", "text": "t" })).await;
    assert_eq!((status, body), (200, json!({ "next": "", "drawn": "[]", "echo": "<t>" })));
    let by = "a template of scenario `inline-1`, rule 1, gave an empty string";
    let expected = [
        format!("{by}: `random_int` needs whole numbers"),
        format!("{by} for `request.body.n`: `plus` needs a whole number before it"),
    ];
    for expected in &expected {
        assert!(
            warnings.as_array().expect("a list").iter().any(|warning| warning == expected),
            "{expected}: {warnings}"
        );
    }
    let printed = printed(&emulator, &["explain"], &id).await;
    assert!(expected.iter().all(|expected| printed.contains(&format!("warning: {expected}"))), "{printed}");
    // A text that is too long, and one after which nothing else may be handled.
    for length in [70_000, 200_000] {
        let (status, body, warnings, _) = ask(json!({ "n": 4, "text": "x".repeat(length) })).await;
        assert_eq!((status, &body["echo"]), (200, &json!("<>")), "{warnings}");
        let expected = format!("{by} for `request.body.text`: the text made is longer than 64 KiB");
        assert_eq!(warnings, json!([expected]));
    }
}

#[tokio::test]
async fn braces_of_a_reply_without_templates_are_text_of_any_length() {
    let body = format!("{{{{ now }}}} {{% if %}} {{{{ {}", "{{".repeat(4_000));
    let reply = format!("{{ templates = false, status = 200, body = '{body}' }}");
    let error = "{ templates = false, error = \"not_found\", message = \"{{ request.path }}\" }";
    let rule = |operation: &str, reply: &str| format!("[[rule]]\nwhen.operation = \"{operation}\"\nreply = {reply}\n");
    let story = rule("hello", &reply) + &rule("system.status", error);
    let emulator = started(builder().scenario_text(&story)).await;
    assert_eq!(text(&get(&emulator, "/v1/hello").await.body), body);
    let status = get(&emulator, "/v1/system/status").await;
    assert_eq!((status.status, &status.json()["error"]["message"]), (404, &json!("{{ request.path }}")));
}

#[test]
fn what_the_author_of_a_template_did_wrong_is_found_when_the_file_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("story.toml");
    let many = "{{ now }},".repeat(400);
    let check = |reply: &str| {
        std::fs::write(&file, format!("[[rule]]\nreply = {{ status = 200, {reply} }}\n")).expect("the file is written");
        let output = run(&["check", file.to_str().expect("text")]);
        (output.status.code(), text(&output.stderr))
    };
    for (reply, expected) in [
        ("body = \"{{ 'x' | plus(1) }}\"", "`plus` needs a whole number before it"),
        ("body = \"{{ request.body.n | plus('x') }}\"", "`plus` needs a whole number as argument"),
        ("body = \"{{ ulid() | plus(1) }}\"", "`plus` needs a whole number before it"),
        ("body = \"{{ random_int('a', 2) }}\"", "`random_int` needs whole numbers"),
        (&format!("body = \"{{{{ '\\\"'{} }}}}\"", "|json".repeat(40)), "longer than 64 KiB"),
        (&format!("body = [{}]", "\"{{ now }}\",".repeat(501)), "a body has at most 500 templates, found 501"),
    ] {
        let (code, found) = check(reply);
        assert!(code == Some(1) && found.contains(expected), "{reply}: {found}");
    }
    for reply in [
        "body = \"{{ request.body.n | plus(1) }}\"",
        "body = \"{{ request.body.n | trim | plus(1) }}\"",
        "body = \"{{ request.body.n | default(1) | plus(now_unix) }}\"",
        "body = \"{{ random_int(request.body.low, request.body.high) }}\"",
        "body = \"{{ request.body | json }}{{ request.body | length | plus(1) }}\"",
        &format!("body = \"{many}\""),
    ] {
        let (code, found) = check(reply);
        assert_eq!(code, Some(0), "{reply}: {found}");
    }
}
