//! Inputs that ask for more stack, memory or time than anybody has: each is refused with a reason or bounded, and the process
//! keeps answering. The built binary throughout, for an overflow of the stack ends the whole process.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Served, answer, eventually, request, status};
use crate::support::KEY;

/// The budget, and the resident memory allowed with it under any single attack, with room for memory that the allocator keeps
/// on a busy machine.
const BUDGET: [&str; 2] = ["--max-memory-bytes", "67108864"];
const MAX_RESIDENT: usize = (64 + 192) * 1024 * 1024;

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
    let options = [&BUDGET[..], &["--scenarios", folder.path().to_str().expect("a path of text")]].concat();
    let served = Served::start(&options);
    let (status, snapshot) = served.control("GET", "snapshot?key=*", &Value::Null);
    assert_eq!(status, 200, "{snapshot}");
    served.subscribe("https://a.sink.localhost/");
    for template in hostile_templates() {
        let data = json!({ "x": template });
        let refused = |(status, body): (u16, String)| {
            assert!((400..500).contains(&status), "{status} {body}");
            assert!(!body.contains(&template) || template.len() < 100, "the message shows no more than its beginning");
        };
        refused(served.control("POST", "events", &json!({ "type": "workflow.completed", "data": data })));
        let emission = json!({ "emit": [{ "event": "workflow.completed", "on": "command", "data": data }] });
        refused(served.control("PUT", "scenarios/hostile", &emission));
        // A setting is accepted as it is; its result is refused when it is used.
        let setting = json!({ "events.data": { "workflow.completed": data } });
        let (status, body) = served.control("PATCH", "profile", &setting);
        assert!(status < 500, "{body}");
        refused(served.control("POST", "events", &json!({ "type": "workflow.completed", "data": data })));
        let mut hostile: Value = serde_json::from_str(&snapshot).expect("a snapshot");
        let text =
            format!("[[emit]]\nevent = 'workflow.completed'\non = 'command'\ndata = {{ x = {} }}\n", json!(template));
        hostile["whole"]["scenarios"]["hostile"] = text.clone().into();
        refused(served.control("PUT", "snapshot?key=*", &hostile));
        std::fs::write(folder.path().join("hostile.toml"), text).expect("the file is written");
        let (status, body) = served.control("POST", "scenarios/reload", &json!({}));
        assert!(status < 500, "{body}");
        served.serves();
    }
    assert!(served.peak() < MAX_RESIDENT, "{} bytes", served.peak());
}

/// A receiver that accepts connections and never answers.
pub(crate) fn hanging() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/hooks", listener.local_addr().expect("an address"));
    (listener, url)
}

pub(crate) const PLAIN: [&str; 4] = ["--set", "webhooks.allow_http=true", "--set", "rate_limit.enabled=false"];

/// More such calls than there are threads for them; each lasts seconds.
#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn a_call_waits_for_no_other_that_fires_thousands_of_events() {
    let served = Served::start(&PLAIN);
    served.serves();
    let before = served.ticks();
    let event = json!({ "type": "workflow.completed", "data": { "x": "x".repeat(20_000) }, "count": 10_000 });
    let body = event.to_string();
    let head = format!(
        "POST /_emulator/events HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        served.address(),
        body.len()
    );
    let mut firing: Vec<TcpStream> = (0..6).map(|_| served.connect()).collect();
    for stream in &mut firing {
        stream.write_all(format!("{head}{body}").as_bytes()).expect("the request is taken");
    }
    eventually("they are under way", || served.ticks() > before + 20);
    assert_eq!(served.send("GET", "/_emulator/requests", "").0, 200);
    for stream in &firing {
        stream.set_nonblocking(true).expect("an open socket");
        let answered = stream.peek(&mut [0]);
        assert!(answered.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "all of them were waited for");
    }
}

#[test]
fn of_many_events_the_answer_has_the_ids() {
    let served = Served::start(&PLAIN);
    served.subscribe("https://a.sink.localhost/");
    let fired = |count: usize, size: usize| -> Value {
        let event = json!({ "type": "workflow.completed", "data": { "x": "x".repeat(size) }, "count": count });
        let (status, body) = served.control("POST", "events?wait=10s", &event);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    };
    for (count, size, whole) in [(100, 10, true), (101, 10, false), (50, 100_000, false)] {
        let answer = fired(count, size);
        let events = answer["events"].as_array().expect("events");
        assert_eq!(events.len(), count);
        assert!(events.iter().all(|event| event["id"].is_string() && event["body"].is_string() == whole));
        let deliveries = answer["deliveries"].as_array().expect("deliveries");
        assert_eq!(deliveries.len(), count);
        assert!(deliveries.iter().all(|delivery| delivery["status"] == "delivered"));
        assert_eq!(deliveries[0]["attempts"].is_array(), whole);
    }
}

#[test]
fn a_stop_waits_for_no_receiver_and_loses_no_pending_delivery() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let state_text = state.to_str().expect("a path of text");
    let (_receiver, hanging) = hanging();
    let patient = ["--set", "webhooks.timeout=1h", "--grace", "1ms", "--state", state_text];
    let options = [&PLAIN[..], &patient].concat();
    let mut served = Served::start(&options);
    for number in 0..20 {
        served.subscribe(&format!("{hanging}/{number}"));
    }
    let (status, body) = served.control("POST", "events", &json!({ "type": "workflow.completed", "count": 30 }));
    assert_eq!(status, 200, "{body}");
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0);
    let saved: Value = serde_json::from_slice(&std::fs::read(&state).expect("the state is saved")).expect("JSON");
    let pending = saved["workspaces"].as_array().expect("workspaces").iter();
    let pending: usize = pending.filter_map(|workspace| workspace["deliveries"].as_array()).map(Vec::len).sum();
    assert_eq!(pending, 600);
}

#[test]
fn a_stop_saves_the_state_before_it_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let (_receiver, hanging) = hanging();
    let options = [&PLAIN[..], &["--grace", "1h", "--state", state.to_str().expect("a path of text")]].concat();
    let served = Served::start(&options);
    served.subscribe(&hanging);
    let (status, body) = served.control("POST", "events", &json!({ "type": "workflow.completed" }));
    assert_eq!(status, 200, "{body}");
    served.signal("TERM");
    // The process is still waiting for the receiver.
    eventually("the state is saved", || {
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains("\"deliveries\":[{"))
    });
}

#[test]
fn a_stop_ends_streams_and_waits_at_once() {
    let mut served = Served::start(&["--grace", "1h"]);
    let mut held = Vec::new();
    for (method, path, body) in [
        ("GET", "stream", ""),
        ("POST", "requests/wait", r#"{"count":9,"timeout":"300s"}"#),
        ("POST", "deliveries/wait", r#"{"timeout":"300s"}"#),
    ] {
        let mut stream = served.connect();
        let head = format!(
            "{method} /_emulator/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the request is taken");
        held.push(stream);
    }
    let mut start = [0; 12];
    held[0].read_exact(&mut start).expect("the stream begins");
    served.serves();
    served.signal("TERM");
    for stream in &mut held {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("an end");
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(rest.contains("the emulator is stopping") || rest.contains("event-stream"), "{rest}");
    }
    assert_eq!(served.exit_code(), 0);
}

#[test]
fn authorities_are_read_beside_the_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("roots.pem");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success(), "the pipe is made");
    let line = format!("export TOKIO_WORKER_THREADS=2 SSL_CERT_FILE={}", pipe.display());
    let served = Served::start_after(&line, &[]);
    let receivers: Vec<_> = (0..4).map(|_| hanging()).collect();
    for (_, url) in &receivers {
        served.subscribe(&url.replacen("http", "https", 1));
    }
    assert_eq!(served.control("POST", "events", &json!({ "type": "workflow.completed" })).0, 200);
    // It opens for writing without waiting once it has a reader, which waits for as long as it stays open.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut writer = None;
    eventually("the authorities are read", || {
        writer = OpenOptions::new().write(true).custom_flags(flags).open(&pipe).ok();
        writer.is_some()
    });
    for _ in 0..4 {
        served.serves();
    }
}

/// In replies and patches; a thread for such work starts with the first of it.
#[test]
fn large_templates_are_rendered_beside_the_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let many = vec!["{{ request.method | lower }}".repeat(100); 20];
    for (name, action) in [
        ("small", format!("patch = {{ many = {:?} }}", many[0])),
        ("reply", format!("reply = {{ status = 200, body = {{ many = {many:?} }} }}")),
        ("patch", format!("patch = {{ many = {many:?} }}")),
    ] {
        let path = folder.path().join(name).with_extension("toml");
        std::fs::write(path, format!("[[rule]]\n{action}\n")).expect("it is written");
    }
    let served = Served::start(&["--scenarios", folder.path().to_str().expect("text")]);
    let before = served.threads("tokio-rt-worker");
    // The runtime may start another thread before it notices that the first one is free.
    for (name, times, threads) in
        [("small", 1, before..=before), ("reply", 20, before + 1..=before + 2), ("patch", 20, before + 1..=before + 2)]
    {
        let answer = request(&served.url, &format!("GET /v1/hello HTTP/1.1\r\nX-Emulator-Scenario: {name}"), "");
        assert_eq!(answer.matches(&"get".repeat(100)).count(), times, "{answer}");
        let there = served.threads("tokio-rt-worker");
        assert!(threads.contains(&there), "{there} of {threads:?} after {name}");
    }
}

/// How long the answer to a request took, on its own connection.
fn timed(served: &Served, request: &str) -> Duration {
    let began = tokio::time::Instant::now();
    let mut stream = served.connect();
    stream.write_all(request.as_bytes()).expect("the request is taken");
    assert_eq!(status(&mut stream), "200", "{request}");
    began.elapsed()
}

/// Clients that ask for everything and hang up at once: their work is dropped, and delays no other client until then.
#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn callers_who_have_left_delay_nobody() {
    const LEFT: u32 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let many = vec!["{{ request.method | lower }}".repeat(100); 20];
    let scenario = format!(
        "[[rule]]\nwhen = {{ operation = 'hello' }}\nreply = {{ status = 200, body = {{ many = {many:?} }} }}\n\
         [[emit]]\nevent = 'workflow.completed'\non = {{ operation = 'system.status' }}\n"
    );
    std::fs::write(folder.path().join("busy.toml"), scenario).expect("it is written");
    let path = folder.path().to_str().expect("text");
    let served = Served::start(&[&PLAIN[..], &["--scenarios", path, "--scenario", "busy"]].concat());
    let receiver = TcpListener::bind("127.0.0.1:0").expect("a free port");
    served.subscribe(&format!("http://{}/hooks", receiver.local_addr().expect("an address")));
    let body = json!({ "url": "https://a.sink.localhost/", "events": ["workflow.completed"], "x": vec!["x".repeat(500); 100] });
    let body = body.to_string();
    let request = format!(
        "POST /v1/events/subscribe HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut filling = served.connect();
    for _ in 0..100 {
        filling.write_all(request.as_bytes()).expect("the request is taken");
        assert_eq!(answer(&mut filling).0, 200);
    }
    for path in ["findings", "run"] {
        let call = format!("GET /_emulator/{path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        // Whoever waited for all those who left would wait `LEFT` times as long.
        let one_alone = timed(&served, &call);
        for _ in 0..LEFT {
            served.connect().write_all(call.as_bytes()).expect("the request is taken");
        }
        let template = timed(&served, "GET /v1/hello HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let status =
            format!("GET /v1/system/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\r\n");
        let began = tokio::time::Instant::now();
        timed(&served, &status);
        let emission = receiver.accept().map(|_| began.elapsed()).expect("the event is delivered");
        let head = "POST /_emulator/sink/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 17";
        let change = timed(&served, &format!("{head}\r\n\r\n{{\"respond\":[200]}}"));
        let read = timed(&served, "GET /_emulator/requests?limit=1 HTTP/1.1\r\nhost: localhost\r\n\r\n");
        for (what, took) in [("template", template), ("emission", emission), ("change", change), ("read", read)] {
            assert!(
                took < one_alone * LEFT / 2,
                "{path}: {what} took {took:?}, one {path} alone {one_alone:?}; template {template:?}, emission {emission:?}, change {change:?}, read {read:?}"
            );
        }
    }
}
