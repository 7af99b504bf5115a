//! `doctor`: each check with the real program, over what is wrong and after its own advice was followed.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
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
    let variables = [("WRS_BASE_URL", served.url.as_str()), ("WRS_API_KEY", "sk_test_shop")];
    let outcome: Outcome = finish(&mut doctor(&served.url, &[], &variables)).exits(0);
    let said = text(&outcome.stdout);
    assert!(said.lines().all(|line| line.starts_with('✓')), "{said}");
    outcome.prints(&[
        &format!("✓ emulator      {} answers, version {}\n", served.url, env!("CARGO_PKG_VERSION")),
        "✓ proxy         no variable names one\n",
        "✓ base URL      `WRS_BASE_URL` leads to this emulator\n",
        "✓ key           sk_test_shop is valid\n",
        "✓ scenarios     18 built in, 0 files of yours, none broken\n",
        "✓ subscriptions none, so no webhook is sent; `wrs-emulator listen --forward-to localhost:3000/hooks` subscribes your app\n",
        "✓ clock         shows the real time\n",
    ]);
}

#[test]
fn what_listens_in_place_of_an_emulator_is_named() {
    let closed = closed_port();
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let start = format!("wrs-emulator --listen 127.0.0.1:{closed}");
    finds(doctor(&at(closed), &[], &[]), 3, "emulator", "failed", "nothing listens", &[&start]);
    let said = text(&finish(&mut doctor(&at(closed), &[], &[])).exits(3).stdout);
    assert!(
        said.starts_with(&format!("✗ emulator      nothing listens at {}; to start it:\n    {start}\n", at(closed))),
        "{said}"
    );

    for (answer, cause) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope", "status 404 with a body that is not JSON"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "its answer is not an emulator's"),
        ("\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS"),
    ] {
        let port = other_program(answer);
        let found = checks(doctor(&at(port), &[], &[]), 3);
        let (state, detail, commands) = &found["emulator"];
        assert_eq!(state, "failed");
        assert!(detail.contains(&format!("another program listens at {}: {cause}", at(port))), "{detail}");
        // A free port, in both commands.
        let free: u16 = commands[0].rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        assert_eq!(commands[1], format!("export WRS_EMULATOR_URL={}", at(free)));
        assert!(free != port);
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
        finds(doctor(&asked, &[], &[]), 3, "emulator", "failed", cause, &[&export]);
    }
}

#[test]
fn another_version_is_a_warning() {
    let health = r#"{"status":"ready","version":"9.9.9","generation":1,"scenarios":"as saved"}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{health}",
        health.len()
    );
    let port = other_program(answer.leak());
    // Its other answers have another form, which is a failed check.
    let found = checks(doctor(&format!("http://127.0.0.1:{port}"), &[], &[]), 1);
    let (state, detail, commands) = &found["version"];
    assert_eq!((&**state, &*commands[0]), ("warning", &*format!("wrs-emulator --listen 127.0.0.1:{port}")));
    assert!(detail.contains("the emulator is version 9.9.9"), "{detail}");
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
        finds(doctor(&served.url, &[], &mended), 0, "proxy", "ok", "excludes 127.0.0.1", &[]);
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
    mended.prints(&["✓ certificate   trusted by clients that read SSL_CERT_FILE"]);

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
    assert!(
        state == "warning" && detail.contains("but by those that read the authorities of this machine"),
        "{detail}"
    );
}

#[test]
fn a_base_url_leads_to_this_emulator_or_elsewhere() {
    let served = Served::start(&["--quiet"]);
    let other = Served::start(&["--quiet"]);
    let export = format!("export WRS_BASE_URL={}", served.url);
    let named = |url: &str| doctor(&served.url, &[], &[("WRS_BASE_URL", url)]);
    finds(doctor(&served.url, &[], &[]), 0, "base URL", "warning", "not set", &[&export]);
    let by_name = served.url.replace("127.0.0.1", "localhost");
    finds(named(&by_name), 0, "base URL", "ok", "leads to this emulator", &[]);
    for (url, detail) in [
        (other.url.clone(), "leads to another emulator"),
        (format!("http://127.0.0.1:{}", closed_port()), "an address where nothing listens"),
        (format!("http://127.0.0.1:{}", other_program("hello")), "leads to another program"),
        ("https://api.example.com".to_owned(), "leads to another service"),
        (format!("{}/v1", served.url), "ends with the path /v1"),
        ("nonsense".to_owned(), "is not a URL"),
    ] {
        finds(named(&url), 1, "base URL", "failed", detail, &[&export]);
    }
}

#[test]
fn a_key_is_judged_by_the_settings_of_the_emulator() {
    let served = Served::start(&["--quiet"]);
    let export = "export WRS_API_KEY=sk_test_local";
    let with = |key: &str| doctor(&served.url, &[], &[("WRS_API_KEY", key)]);
    finds(doctor(&served.url, &[], &[]), 0, "key", "warning", "not set", &[export]);
    finds(with("nonsense"), 1, "key", "failed", "keys begin with `sk_test_`", &[export]);
    let live = with("sk_live_0123456789abcdef");
    finds(live, 1, "key", "failed", "a live key", &[export]);
    finds(doctor(&served.url, &["--key", "sk_test_a"], &[]), 0, "key", "ok", "sk_test_a is valid", &[]);
    let listed = Served::start(&["--quiet", "--set", "keys.mode=list", "--set", "keys.list=[\"sk_test_a\"]"]);
    finds(doctor(&listed.url, &["--key", "sk_test_b"], &[]), 1, "key", "failed", "keys.list", &[export]);
}

#[test]
fn a_broken_or_unread_scenario_file_is_named() {
    let folder = folder_with("story.toml", "broken");
    let scenarios = folder.path().display().to_string();
    let served = Served::start(&["--quiet", "--scenarios", &scenarios]);
    let file = folder.path().join("story.toml").display().to_string();
    let check = format!("wrs-emulator check {file}");
    finds(doctor(&served.url, &[], &[]), 1, "scenarios", "failed", &format!("{file}:1:7: "), &[&check]);

    // A folder here that the emulator does not read.
    let here = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(here.path().join("scenarios")).expect("a folder");
    std::fs::write(here.path().join("scenarios/mine.toml"), "title = \"Mine\"").expect("a file");
    let served = Served::start(&["--quiet"]);
    let mut command = doctor(&served.url, &[], &[]);
    command.current_dir(here.path());
    let found = checks(command, 0);
    let (state, detail, commands) = &found["scenarios"];
    assert!(state == "warning" && detail.contains("lacks mine"), "{state}: {detail}");
    let folder = Path::new(here.path()).canonicalize().expect("a folder").join("scenarios");
    assert!(commands[0].ends_with(&format!(" --scenarios {}", folder.display())), "{commands:?}");
}

#[test]
fn each_subscription_is_followed_to_its_receiver() {
    let served = Served::start(&["--quiet", "--clock", "frozen"]);
    let id = served.subscribe("https://app.example.com/hooks")["id"].as_str().expect("an id").to_owned();
    let doctor = || doctor(&served.url, &["--key", "sk_test_local"], &[]);
    let add = "wrs-emulator forwards add https://app.example.com=http://localhost:3000";
    finds(doctor(), 0, "subscription", "warning", "is not forwarded", &[add]);

    // A forward to a port where nothing listens, and then a receiver that refuses.
    let closed = closed_port();
    served.said(&["forwards", "add", &format!("https://app.example.com=http://127.0.0.1:{closed}")]);
    let listen = format!("wrs-emulator listen --listen 127.0.0.1:{closed}");
    finds(doctor(), 1, "subscription", "failed", "nothing listens there", &[&listen]);
    let receiver = other_program("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    served.said(&["forwards", "add", &format!("https://app.example.com=http://127.0.0.1:{receiver}")]);
    finds(doctor(), 0, "subscription", "ok", "forwarded to http://127.0.0.1:", &[]);
    served.call(&["trigger", "workflow.completed", "--wait"]);
    let explain = format!("wrs-emulator explain {}", served.newest("deliveries"));
    finds(doctor(), 1, "subscription", "failed", "the last delivery failed: answered 500", &[&explain]);

    served.said(&["subscriptions", "disable", &id]);
    let enable = format!("wrs-emulator subscriptions enable {id}");
    finds(doctor(), 0, "subscription", "warning", "is disabled", &[&enable]);
    served.said(&["subscriptions", "delete", &id]);
    served.subscribe("https://app.sink.localhost/hooks");
    served.said(&["trigger", "workflow.completed", "--wait"]);
    finds(doctor(), 0, "subscription", "ok", "https://app.sink.localhost/hooks", &[]);
}

#[test]
fn a_clock_that_does_not_show_the_real_time_is_a_warning() {
    let served = Served::start(&["--quiet"]);
    let doctor = |key: &str| doctor(&served.url, &["--key", key], &[]);
    served.said(&["clock", "advance", "1h", "--key", "sk_test_a"]);
    finds(doctor("sk_test_a"), 0, "clock", "warning", "moved", &["wrs-emulator clock set now --key sk_test_a"]);
    served.said(&["clock", "set", "now", "--key", "sk_test_a"]);
    finds(doctor("sk_test_a"), 0, "clock", "ok", "the real time", &[]);
    served.said(&["clock", "auto", "--key", "sk_test_b"]);
    finds(doctor("sk_test_b"), 0, "clock", "warning", "auto", &["wrs-emulator clock resume --key sk_test_b"]);
    served.said(&["clock", "freeze"]);
    finds(doctor("sk_test_c"), 0, "clock", "warning", "frozen", &["wrs-emulator clock resume"]);
}

#[test]
fn a_control_api_with_a_token_needs_it() {
    let served = Served::start(&["--quiet", "--control-token", "0123456789abcdef0123"]);
    let export = "export WRS_EMULATOR_CONTROL_TOKEN=TOKEN";
    finds(doctor(&served.url, &[], &[]), 1, "control API", "failed", "token", &[export]);
    let with = [("WRS_EMULATOR_CONTROL_TOKEN", "0123456789abcdef0123")];
    finds(doctor(&served.url, &[], &with), 0, "emulator", "ok", "answers", &[]);
}
