//! Inputs that ask for more stack, memory or time than anybody has: each is refused with a reason or bounded, and the process
//! goes on answering. The built binary throughout, for an overflow of the stack ends the whole process.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{KEY, PATIENCE};
use crate::wire::process::Served;

/// What resident memory may reach under any single attack.
const MOST_RESIDENT: usize = 256 * 1024 * 1024;

/// One request on a connection of its own: the status, and the body.
fn call(served: &Served, method: &str, path: &str, content_type: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&served.address).expect("the emulator listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\ncontent-type: {content_type}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        served.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the head is taken");
    // An answer may come before the body is read.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status.unwrap_or_else(|| panic!("{method} {path} got no answer: {answer}")), body)
}

fn control(served: &Served, method: &str, path: &str, body: &Value) -> (u16, String) {
    call(served, method, &format!("/_emulator/{path}"), "application/json", &body.to_string())
}

/// Templates that once overflowed the stack or took memory and time without end.
fn hostile_templates() -> Vec<String> {
    let around =
        |open: &str, close: &str, count: usize| format!("{{{{ {}1{} }}}}", open.repeat(count), close.repeat(count));
    let doubled = "{% set ns = namespace(s='xxxxxxxxxx') %}".to_owned() + &"{% set ns.s = ns.s ~ ns.s %}".repeat(40);
    vec![
        around("-", "", 20_000),
        around("not ", "", 8_000),
        around("", "+1", 8_000),
        around("", "|abs", 16_000),
        around("[", "]", 20_000),
        around("(", ")", 20_000),
        doubled + "{{ ns.s }}",
        "{{ 'x' | replace('x', 'x' * 60000) | replace('x', 'x' * 60000) }}".to_owned(),
        "{{ '%1000000000d' | format(1) }}".to_owned(),
        "{{ 'x\nx' | indent(1000000000) }}".to_owned(),
        "{{ [1] * 100000000 }}".to_owned(),
        "{{ ([1] * 30000000) | sum }}".to_owned(),
    ]
}

#[test]
fn hostile_templates_are_refused_wherever_they_come_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::start(&["--scenarios", folder.path().to_str().expect("a path of text")]);
    let (status, snapshot) = control(&served, "GET", "snapshot?key=*", &Value::Null);
    assert_eq!(status, 200, "{snapshot}");
    let subscription = json!({ "url": "https://a.sink.localhost/", "events": ["workflow.completed"] });
    let (status, body) = call(&served, "POST", "/v1/events/subscribe", "application/json", &subscription.to_string());
    assert_eq!(status, 200, "{body}");
    for template in hostile_templates() {
        let data = json!({ "x": template });
        let refused = |(status, body): (u16, String)| {
            assert!((400..500).contains(&status), "{status} {body}");
            assert!(!body.contains(&template) || template.len() < 100, "the message shows no more than its beginning");
        };
        refused(control(&served, "POST", "events", &json!({ "type": "workflow.completed", "data": data })));
        let emission = json!({ "emit": [{ "event": "workflow.completed", "on": "command", "data": data }] });
        refused(control(&served, "PUT", "scenarios/hostile", &emission));
        // A setting is taken as it is; what it makes is refused when it is used.
        let setting = json!({ "events.data": { "workflow.completed": data } });
        let (status, body) = control(&served, "PATCH", "profile", &setting);
        assert!(status < 500, "{body}");
        refused(control(&served, "POST", "events", &json!({ "type": "workflow.completed", "data": data })));
        let mut hostile: Value = serde_json::from_str(&snapshot).expect("a snapshot");
        let text =
            format!("[[emit]]\nevent = 'workflow.completed'\non = 'command'\ndata = {{ x = {} }}\n", json!(template));
        hostile["whole"]["scenarios"]["hostile"] = text.clone().into();
        refused(control(&served, "PUT", "snapshot?key=*", &hostile));
        std::fs::write(folder.path().join("hostile.toml"), text).expect("the file is written");
        let (status, body) = control(&served, "POST", "scenarios/reload", &json!({}));
        assert!(status < 500, "{body}");
        served.serves();
    }
    assert!(served.peak() < MOST_RESIDENT, "{} bytes", served.peak());
}
