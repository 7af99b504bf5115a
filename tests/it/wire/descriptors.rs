//! The limit of file descriptors: raised where it may be, shared out where it may not, and named when it is met.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

use super::peer::GOOD;
use crate::diagnosis::receiver;
use crate::process::{Served, answer, eventually, status};
use crate::support::{hook, text};

/// A call on a connection that stays open: its status and body.
fn call(stream: &mut TcpStream, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the request is taken");
    let (status, body) = answer(stream);
    (status, serde_json::from_str(&body).expect("JSON"))
}

fn subscribe(stream: &mut TcpStream) {
    let hook = hook("https://app.example.com/");
    assert_eq!(call(stream, "POST", "/v1/events/subscribe", &hook).0, 200);
}

/// Fires an event; gives its delivery after the first attempt.
fn deliver(stream: &mut TcpStream) -> Value {
    let (status, fired) = call(stream, "POST", "/_emulator/events?wait=15s", &json!({ "type": "workflow.completed" }));
    assert_eq!(status, 200, "{fired}");
    fired["deliveries"][0].clone()
}

/// How many sockets it has open; files come and go.
fn sockets(served: &Served) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", served.child.id())).into_iter().flatten().flatten();
    let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn connections_leave_descriptors_to_everything_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, state) = (folder.path().to_str().expect("text"), folder.path().join("state.json"));
    let forward = format!("https://app.example.com=http://127.0.0.1:{}", receiver(200, ""));
    let kept = state.to_str().expect("text");
    let arguments = ["--scenarios", path, "--forward", &forward, "--state", kept];
    let served = Served::start_after("ulimit -n 48", &arguments);
    let mut first = served.sending(GOOD);
    assert_eq!(status(&mut first), "200");
    let mut first = served.connect();
    subscribe(&mut first);
    // Of 48 descriptors twelve are for connections, and there are two.
    let before = sockets(&served);
    let held: Vec<TcpStream> = (0..100).map(|_| served.connect()).collect();
    eventually("as many are accepted as may be", || sockets(&served) >= before + 10);
    assert_eq!(deliver(&mut first)["status"], "delivered");
    eventually("the state is saved", || {
        std::fs::read_to_string(&state).is_ok_and(|text| text.contains("https://app.example.com/"))
    });
    std::fs::write(folder.path().join("new.toml"), "[[rule]]\nreply = { status = 418 }\n").expect("it is written");
    let (code, reloaded) = call(&mut first, "POST", "/_emulator/scenarios/reload", &json!({}));
    assert_eq!(code, 200, "{reloaded}");
    let (_, listed) = call(&mut first, "GET", "/_emulator/scenarios/new", &json!({}));
    assert!(listed.to_string().contains("418"), "{listed}");
    drop(held);
    served.serves();
    let (_, said) = served.stop();
    assert!(said.contains("ulimit -n") && said.contains("connections at a time"), "{said}");
}

#[test]
fn half_sent_heads_give_way_when_descriptors_run_out() {
    // No deadline makes room here.
    let served = Served::start_after("ulimit -n 16", &["--header-timeout", "1h"]);
    served.serves();
    let held: Vec<TcpStream> =
        (0..40).map(|_| served.sending("GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n")).collect();
    for _ in 0..5 {
        served.serves();
    }
    drop(held);
}

#[test]
fn the_soft_limit_is_raised_and_restored_for_a_command() {
    let served = Served::start_after("ulimit -Sn 32", &[]);
    let mut held: Vec<TcpStream> = (0..100).map(|_| served.connect()).collect();
    for stream in &mut held {
        stream.write_all(GOOD).expect("the request is taken");
        assert_eq!(status(stream), "200");
    }
    let binary = env!("CARGO_BIN_EXE_wrs-emulator");
    let script = format!("ulimit -Sn 32; {binary} exec --listen 127.0.0.1:0 -- sh -c 'ulimit -Sn; ulimit -Hn'");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("the shell runs");
    let hard = std::process::Command::new("sh").args(["-c", "ulimit -Hn"]).output().expect("the shell runs");
    assert_eq!(text(&output.stdout), format!("32\n{}", text(&hard.stdout)), "{}", text(&output.stderr));
}

/// Sets the soft limit of a running emulator; gives the one before.
fn limit(served: &Served, current: Option<u64>) -> Option<u64> {
    let process = i32::try_from(served.child.id()).ok().and_then(Pid::from_raw);
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(process, Resource::Nofile, Rlimit { current, maximum }).expect("it runs").current
}

#[test]
fn running_out_of_descriptors_does_not_last() {
    let served = Served::start(&[]);
    served.serves();
    let old = limit(&served, Some(0));
    let mut waiting = served.sending(GOOD);
    limit(&served, old);
    assert_eq!(status(&mut waiting), "200");
}

#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn running_out_of_descriptors_does_not_spin() {
    let served = Served::start(&[]);
    served.serves();
    limit(&served, Some(0));
    let _waiting = served.sending(GOOD);
    let before = served.ticks();
    sleep(Duration::from_secs(1));
    let used = served.ticks() - before;
    assert!(used < 30, "{used} ticks of 100 went into accepting nothing");
}

#[test]
fn an_attempt_without_a_descriptor_says_what_helps() {
    let forward = format!("https://app.example.com=http://127.0.0.1:{}", receiver(200, ""));
    let served = Served::start(&["--forward", &forward, "--set", "webhooks.retry.preset=none"]);
    let mut stream = served.connect();
    subscribe(&mut stream);
    let old = limit(&served, Some(0));
    let delivery = deliver(&mut stream);
    let outcome = &delivery["attempts"][0]["outcome"];
    assert_eq!(outcome["failure"], "no_descriptors", "{outcome}");
    assert!(outcome["detail"].as_str().is_some_and(|detail| detail.contains("ulimit -n")), "{outcome}");
    limit(&served, old);
    assert_eq!(deliver(&mut stream)["status"], "delivered");
}
