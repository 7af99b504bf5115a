//! `doctor`: each question with the real program, over what is wrong and after its own advice was followed.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::process::Served;
use crate::support::{Outcome, finish, folder_with, text, wrs_emulator};

/// The variables of clients that may be set where the tests run.
const TRUST: [&str; 4] = ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];

fn doctor(url: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = wrs_emulator(&[&["doctor", "--url", url], arguments].concat());
    for name in TRUST {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command
}

/// The checks of a document by name: state, detail, and commands.
#[track_caller]
fn checks(mut command: Command, code: i32) -> BTreeMap<String, (String, String, Vec<String>)> {
    let output = finish(command.arg("--json")).exits(code);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(document["healthy"], code == 0, "{document}");
    let word = |value: &Value| value.as_str().expect("text").to_owned();
    let check = |check: &Value| {
        let commands = check["commands"].as_array().expect("commands").iter().map(word).collect();
        (word(&check["check"]), (word(&check["state"]), word(&check["detail"]), commands))
    };
    document["checks"].as_array().expect("checks").iter().map(check).collect()
}

/// One check, with its state, a part of its detail and its commands.
#[track_caller]
fn finds(command: Command, code: i32, name: &str, state: &str, detail: &str, commands: &[&str]) {
    let found = checks(command, code);
    let check = found.get(name).unwrap_or_else(|| panic!("no {name} in {found:?}"));
    assert_eq!(
        (&*check.0, check.2.iter().map(String::as_str).collect::<Vec<_>>()),
        (state, commands.to_vec()),
        "{check:?}"
    );
    assert!(check.1.contains(detail), "no `{detail}` in {check:?}");
}

/// A program on a free port that answers each connection with these bytes.
fn other_program(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// A port that nobody listens at: its listener is gone.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

#[test]
fn a_set_up_without_problems_is_all_ticks() {
    let served = Served::start(&["--quiet"]);
    let outcome: Outcome = finish(&mut doctor(&served.url, &["--key", "sk_test_shop"], &[])).exits(0);
    let said = text(&outcome.stdout);
    assert!(said.lines().all(|line| line.starts_with('✓')), "{said}");
    outcome.prints(&[
        &format!("✓ emulator    {} answers, version {}\n", served.url, env!("CARGO_PKG_VERSION")),
        "✓ proxy       no variable names one for 127.0.0.1\n",
        "✓ key         sk_test_shop is valid\n",
        "✓ scenarios   0 files of yours, none broken\n",
        "✓ receiver    no subscription leads to a program near this one\n",
        "✓ forward     no subscription lacks one\n",
        "✓ clock       shows the real time\n",
    ]);
}

#[test]
fn what_listens_in_place_of_an_emulator_is_named() {
    let closed = closed_port();
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let found = checks(doctor(&at(closed), &[], &[]), 3);
    let (state, detail, _) = &found["emulator"];
    let start = format!("start it with `wrs-emulator --listen 127.0.0.1:{closed}`");
    assert!(state == "failed" && detail.ends_with(&start), "{detail}");
    finds(doctor(&at(closed), &[], &[]), 3, "port", "ok", "nothing listens", &[]);

    for (answer, cause) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope", "status 404 with a body that is not JSON"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "unexpected form"),
        ("\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS"),
    ] {
        let port = other_program(answer);
        let commands = [&*format!("lsof -i :{port}"), "wrs-emulator --listen 127.0.0.1:0"];
        let detail = format!("another program listens at {}", at(port));
        finds(doctor(&at(port), &[], &[]), 3, "emulator", "failed", cause, &[]);
        finds(doctor(&at(port), &[], &[]), 3, "port", "failed", &detail, &commands);
    }
}

#[test]
fn tls_where_plain_http_is_asked_for_leads_to_the_other_address() {
    let plain = Served::start(&["--quiet"]);
    let secure = Served::start(&["--quiet", "--tls", "self-signed"]);
    for (served, asked, cause) in [
        (&plain, plain.url.replace("http:", "https:"), "it does not speak TLS"),
        (&secure, secure.url.replace("https:", "http:"), "it speaks TLS"),
    ] {
        let export = format!("export WRS_EMULATOR_URL={}", served.url);
        finds(doctor(&asked, &[], &[]), 3, "emulator", "failed", cause, &[]);
        finds(doctor(&asked, &[], &[]), 3, "port", "failed", &served.url, &[&export]);
    }
}

#[test]
fn another_version_is_a_warning() {
    let health = r#"{"status":"ready","version":"9.9.9","generation":1,"scenarios":"as saved","memory_bytes":0}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{health}",
        health.len()
    );
    let port = other_program(answer.leak());
    // Its other answers have another form, which is a failed check.
    let found = checks(doctor(&format!("http://127.0.0.1:{port}"), &[], &[]), 1);
    let (state, detail, commands) = &found["emulator"];
    assert_eq!((&**state, &*commands[0]), ("warning", "wrs-emulator"));
    assert!(detail.contains("version 9.9.9"), "{detail}");
    assert!(found["control API"].1.contains("unexpected form"), "{found:?}");
}

#[test]
fn a_proxy_must_not_be_used_for_the_emulator() {
    let served = Served::start(&["--quiet"]);
    for name in ["http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        let proxy = [(name, "http://127.0.0.1:1"), ("no_proxy", "internal.example")];
        let list = "internal.example,127.0.0.1,localhost,::1";
        let export = format!("export NO_PROXY={list} no_proxy={list}");
        finds(doctor(&served.url, &[], &proxy), 1, "proxy", "failed", &format!("`{name}` is set"), &[&export]);
        let mended = [proxy[0], ("NO_PROXY", list), ("no_proxy", list)];
        finds(doctor(&served.url, &[], &mended), 0, "proxy", "ok", "no variable names one for 127.0.0.1", &[]);
    }
}

#[test]
fn variables_that_do_not_trust_the_certificate_are_named() {
    let served = Served::start(&["--quiet", "--tls", "self-signed"]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut untrusted = doctor(&served.url, &[], &[]);
    untrusted.current_dir(folder.path());
    let found = checks(untrusted, 1);
    let (state, detail, commands) = &found["certificate"];
    assert_eq!(state, "failed", "{detail}");
    let [fetch, export] = &commands[..] else { panic!("{commands:?}") };
    assert!(TRUST.iter().all(|name| export.contains(&format!("{name}="))) && export.contains("WRS_EMULATOR_CA="));

    // As the advice is meant: in one shell.
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_wrs-emulator");
    let script = format!("{fetch} && {export} && {program} doctor --url {}", served.url);
    let mended = finish(shell.args(["-c", &script]).current_dir(folder.path())).exits(0);
    mended.prints(&["✓ certificate trusted by clients that read SSL_CERT_FILE"]);

    let file = folder.path().join("ca.pem").display().to_string();
    let some = [("WRS_EMULATOR_CA", &*file), ("SSL_CERT_FILE", &*file), ("NODE_EXTRA_CA_CERTS", "/nowhere.pem")];
    let found = checks(doctor(&served.url, &[], &some), 0);
    let (state, detail, _) = &found["certificate"];
    let missing = "not trusted by clients that read CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or NODE_EXTRA_CA_CERTS";
    assert!(state == "warning" && detail.starts_with(missing), "{state}: {detail}");

    // Among the authorities of the machine, whose folder this variable names.
    std::fs::copy(&file, folder.path().join("00000000.0")).expect("it is copied");
    let found = checks(doctor(&served.url, &[], &[("SSL_CERT_DIR", &folder.path().display().to_string())]), 0);
    let (state, detail, _) = &found["certificate"];
    assert_eq!(state, "warning", "{detail}");
}

#[test]
fn a_key_is_judged_by_the_settings_of_the_emulator() {
    let served = Served::start(&["--quiet"]);
    let export = "export WRS_API_KEY=sk_test_local";
    let with = |key: &str| doctor(&served.url, &[], &[("WRS_API_KEY", key)]);
    finds(doctor(&served.url, &[], &[]), 0, "key", "warning", "not set", &[export]);
    finds(with("nonsense"), 1, "key", "failed", "keys begin with `sk_test_`", &[export]);
    let live = with("sk_live_0123456789abcdef");
    finds(live, 1, "key", "failed", "`sk_live_…cdef` is not an API key", &[export]);
    finds(doctor(&served.url, &["--key", "sk_test_a"], &[]), 0, "key", "ok", "sk_test_a is valid", &[]);
    let listed = Served::start(&["--quiet", "--set", "keys.mode=list", "--set", "keys.list=[\"sk_test_a\"]"]);
    finds(doctor(&listed.url, &["--key", "sk_test_b"], &[]), 1, "key", "failed", "keys.list", &[export]);
}

#[test]
fn a_broken_scenario_file_is_named() {
    let folder = folder_with("story.toml", "broken");
    let scenarios = folder.path().display().to_string();
    let served = Served::start(&["--quiet", "--scenarios", &scenarios]);
    let file = folder.path().join("story.toml").display().to_string();
    let check = format!("wrs-emulator check {file}");
    finds(doctor(&served.url, &[], &[]), 1, "scenarios", "failed", &format!("{file}:1:7: "), &[&check]);
}

#[test]
fn a_subscription_is_followed_to_its_receiver() {
    let served = Served::start(&["--quiet", "--clock", "frozen"]);
    let id = served.subscribe("https://app.example.com/hooks")["id"].as_str().expect("an id").to_owned();
    let doctor = || doctor(&served.url, &["--key", "sk_test_local"], &[]);
    let add = |to: &str| format!("wrs-emulator forwards add https://app.example.com={to} --url {}", served.url);
    let forward = |to: &str| served.said(&["forwards", "add", &format!("https://app.example.com={to}")]);
    finds(doctor(), 0, "forward", "warning", "is not forwarded", &[&add("http://localhost:3000")]);
    served.said(&["forwards", "add", "https://app.example.com:8443=http://localhost:3000"]);
    let near = "the forward of `https://app.example.com:8443` does not cover it: its port is 8443, not 443:";
    finds(doctor(), 0, "forward", "warning", near, &[&add("http://localhost:3000")]);

    let closed = closed_port();
    forward(&format!("http://127.0.0.1:{closed}"));
    finds(doctor(), 1, "forward", "ok", "no subscription lacks one", &[]);
    let listen = format!("wrs-emulator listen --listen 127.0.0.1:{closed}");
    finds(doctor(), 1, "receiver", "failed", "nothing listens on", &[&listen]);

    // A program that answers, over either protocol.
    let receiver = other_program("HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let plain = format!("http://127.0.0.1:{receiver}");
    forward(&plain);
    finds(doctor(), 0, "receiver", "ok", &format!("{plain} answers over plain HTTP"), &[]);
    forward(&plain.replace("http", "https"));
    finds(doctor(), 1, "receiver", "failed", "does not speak TLS", &[&add(&plain)]);
    let secure = Served::start(&["--quiet", "--tls", "self-signed"]);
    forward(&secure.url);
    finds(doctor(), 0, "receiver", "ok", "answers over TLS", &[]);
    let alert = format!("http://127.0.0.1:{}", other_program("\x15\x03\x01\x00\x02\x02\x46"));
    forward(&alert);
    finds(doctor(), 1, "receiver", "failed", "expects TLS there", &[&add(&alert.replace("http", "https"))]);

    // The guard refuses before anything is dialled, and no name is looked up.
    for nowhere in ["http://169.254.169.254", "http://[::ffff:a9fe:a9fe]", "http://192.0.2.1", "http://app.example.org"]
    {
        forward(nowhere);
        finds(doctor(), 0, "receiver", "ok", "no subscription leads", &[]);
    }

    served.call(&["forwards", "add", "http://app.example.com=http://localhost:3000"]).exits(0);
    let idle = "the forward of `http://app.example.com` is never used: a subscription must use https";
    finds(doctor(), 0, "forward", "warning", idle, &["wrs-emulator forwards list"]);

    served.said(&["subscriptions", "disable", &id]);
    served.subscribe("https://app.sink.localhost/hooks");
    finds(doctor(), 0, "receiver", "ok", "no subscription leads", &[]);
}

#[test]
fn a_clock_that_does_not_show_the_real_time_is_a_warning() {
    let served = Served::start(&["--quiet"]);
    let doctor = |key: &str| doctor(&served.url, &["--key", key], &[]);
    served.said(&["clock", "advance", "1h", "--key", "sk_test_a"]);
    finds(
        doctor("sk_test_a"),
        0,
        "clock",
        "warning",
        "moved",
        &[&format!("wrs-emulator clock set now --key sk_test_a --url {}", served.url)],
    );
    served.said(&["clock", "set", "now", "--key", "sk_test_a"]);
    finds(doctor("sk_test_a"), 0, "clock", "ok", "the real time", &[]);
    served.said(&["clock", "auto", "--key", "sk_test_b"]);
    finds(
        doctor("sk_test_b"),
        0,
        "clock",
        "warning",
        "auto",
        &[&format!("wrs-emulator clock resume --key sk_test_b --url {}", served.url)],
    );
    served.said(&["clock", "freeze"]);
    finds(
        doctor("sk_test_c"),
        0,
        "clock",
        "warning",
        "frozen",
        &[&format!("wrs-emulator clock resume --url {}", served.url)],
    );
}

#[test]
fn a_control_api_with_a_token_needs_it() {
    let served = Served::start(&["--quiet", "--control-token", "0123456789abcdef0123"]);
    finds(doctor(&served.url, &[], &[]), 1, "control API", "failed", "set WRS_EMULATOR_CONTROL_TOKEN", &[]);
    let with = [("WRS_EMULATOR_CONTROL_TOKEN", "0123456789abcdef0123")];
    finds(doctor(&served.url, &[], &with), 0, "emulator", "ok", "answers", &[]);
}
