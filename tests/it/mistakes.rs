//! Mistakes that people make on the command line, and what each is answered with.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;

use crate::process::{SUBSCRIBE, Served, exchange, request};
use crate::program::{Program, refusals};
use crate::support::{finish, run, text, wrs_emulator};

const HOOK: &str = r#"{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}"#;

/// What a command wrote to stderr, which ended with this exit code and printed nothing else.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""), "{arguments:?}: {output:?}");
    text(&output.stderr)
}

/// Names and values that are wrong, commands and flags of other programs, files that cannot be read.
#[test]
fn a_mistake_is_answered_with_what_to_type_instead() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in [
        ("broken.toml", &b"[rate_limit]\nrequest = 5\nwindow = 'soon'\n"[..]),
        ("no.toml", b"rate_limit = {\n"),
        ("bytes.toml", b"\xff\xfe"),
        ("empty.pem", b"nothing here\n"),
    ] {
        std::fs::write(folder.path().join(name), content).expect("the file is written");
    }
    std::fs::create_dir(folder.path().join("empty")).expect("a folder");
    std::fs::write(folder.path().join("empty/other.yaml"), "rules: []\n").expect("it is written");
    let pipe = Command::new("mkfifo").arg(folder.path().join("pipe")).status();
    assert!(pipe.expect("mkfifo runs").success());
    let said = refusals("mistakes.txt", folder.path());
    assert!(!said.contains("panicked"), "{said}");
}

/// A variable that no flag has would be ignored, and a wrong value would be reported as that of a flag that was not typed.
#[test]
fn a_wrong_variable_is_named() {
    let with = |name: &str, value: &str| {
        let mut command = wrs_emulator(&["scenarios", "schema"]);
        command.env(name, value);
        command
    };
    finish(&mut with("WRS_EMULATOR_LISTN", "127.0.0.1:1")).exits(0).says(&[
        "warning: WRS_EMULATOR_LISTN is set, but no flag has this variable; did you mean WRS_EMULATOR_LISTEN?",
    ]);
    assert_eq!(text(&finish(&mut with("WRS_EMULATOR_LISTEN", "127.0.0.1:1")).exits(0).stderr), "");
    assert_eq!(text(&finish(&mut with("WRS_EMULATOR_LISTN", "")).exits(0).stderr), "");
    let mut serve = wrs_emulator(&["serve"]);
    let said = text(&finish(serve.env("WRS_EMULATOR_SEED", "many")).exits(2).stderr);
    assert!(said.contains("for WRS_EMULATOR_SEED") && !said.contains("--seed"), "{said}");
}

#[test]
fn data_as_json_is_answered_with_the_remedy() {
    let served = Served::start(&["--quiet"]);
    let said = |arguments: &[&str], code: i32| {
        let output = served.call(arguments).exits(code);
        text(&output.stderr)
    };
    for data in [r#"{"workflow_id":"wf_1"}"#, r#" {"a":"b=c"}"#] {
        let refused = said(&["trigger", "workflow.completed", "--data", data], 2);
        assert!(refused.contains("hint: for JSON use `--data-json`"), "{refused}");
    }
    let refused = said(&["trigger", "workflow.completed", "--data", "workflow_id"], 2);
    assert!(refused.contains("hint: for example `--data workflow_id=wf_42`"), "{refused}");
}

#[test]
fn a_tls_handshake_on_the_plain_port_is_named_in_log_and_journal() {
    const HINT: &str = "this is a TLS handshake: use http:// or start with --tls self-signed";
    let served = Served::start(&[]);
    // The beginning of a ClientHello.
    let answer = exchange(served.address(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(HINT), "{answer}");
    let id = served.json(&["requests", "list", "--json"])["data"][0]["id"].as_str().expect("an entry").to_owned();
    served.call(&["explain", &id]).prints(&[HINT]);
    // Other bytes are not.
    assert!(!request(&served.url, "\u{1}\u{3}", "").contains("TLS"));
    let (_, log) = served.stop();
    assert_eq!(log.matches(HINT).count(), 1, "{log}");
}

#[test]
fn an_address_without_a_scheme_is_taken_and_a_path_kept() {
    let served = Served::start(&["--quiet"]);
    let short = served.url.trim_start_matches("http://");
    let port = short.rsplit(':').next().expect("a port");
    for url in [short, &format!("localhost:{port}"), &format!("localhost:{port}/")] {
        run(&["health", "--url", url]).exits(0);
    }
    // A reverse proxy that serves the emulator below a path.
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = proxy.local_addr().expect("an address");
    for url in [format!("http://{address}/sub/path"), format!("http://{address}/sub/path/"), format!("{address}/a%20b")]
    {
        let asked = std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let (mut stream, _) = proxy.accept().expect("a connection");
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("a request line");
                let body = r#"{"status":"ready","version":"1","generation":1,"scenarios":"as saved","memory_bytes":0}"#;
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    .expect("it is sent");
                line
            });
            run(&["health", "--url", &url]).exits(0);
            serving.join().expect("no panic")
        });
        let path = if url.ends_with('b') { "/a%20b" } else { "/sub/path" };
        assert_eq!(asked, format!("GET {path}/_emulator/health HTTP/1.1\r\n"), "{url}");
    }
}

#[test]
fn a_taken_port_says_whether_an_emulator_answers_there() {
    for tls in [&[][..], &["--tls", "self-signed"]] {
        let served = Served::start(&[&["--quiet"], tls].concat());
        let address = served.url.split("//").nth(1).expect("an address");
        for command in [&["serve", "--listen", address][..], &["exec", "--listen", address, "--", "true"]] {
            let said = refused(command, 2);
            assert!(said.contains(&format!("a wrs-emulator already answers at {}", served.url)), "{said}");
            assert!(said.contains("\n\nhint: ") && said.contains("--listen 127.0.0.1:0"), "{said}");
            assert_eq!(said.lines().filter(|line| line.contains("already answers")).count(), 1, "{said}");
        }
    }
    // An emulator whose control API is elsewhere, and a program that is none.
    let served = Served::start(&["--quiet", "--control-listen", "127.0.0.1:0"]);
    let said = refused(&["serve", "--listen", served.url.trim_start_matches("http://")], 2);
    assert!(said.contains("a wrs-emulator already answers at"), "{said}");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let said = refused(&["serve", "--listen", &address.to_string()], 2);
    let next = format!("--listen 127.0.0.1:{}", address.port() + 1);
    assert!(said.contains("another program listens there") && said.contains(&next), "{said}");
}

/// What answers at the address may be another program, or mean ill.
#[test]
fn another_program_can_neither_write_to_the_terminal_nor_fill_the_memory() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", other.local_addr().expect("an address"));
    let answered = |head: &'static str, body: &[u8], repeat: usize, arguments: &[&str]| {
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let (mut stream, _) = other.accept().expect("a connection");
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().expect("the same connection"));
                while reader.read_line(&mut line).expect("a line") > 2 {}
                let _ = write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n");
                // The command hangs up when it has had enough.
                (0..repeat).take_while(|_| stream.write_all(body).is_ok()).count()
            });
            let output = finish(wrs_emulator(arguments).env("WRS_EMULATOR_URL", &url));
            (output, serving.join().expect("no panic"))
        })
    };
    let plain = "200 OK\r\nContent-Type: text/plain";
    let (printed, _) = answered(plain, b"\x1b]0;owned\x07\x1b[31mred\r\n", 1, &["explain"]);
    let said = text(&printed.exits(0).stdout);
    assert!(said.contains("owned") && !said.contains(['\u{1b}', '\u{7}', '\r']), "{said:?}");
    let refusal = br#"{"error":{"code":"\u001b[31mno","message":"\u001b]0;owned\u0007"}}"#;
    let (refused, _) = answered("422 No", refusal, 1, &["explain"]);
    let said = text(&refused.exits(2).stderr);
    assert!(said.contains("owned") && !said.contains(['\u{1b}', '\u{7}']), "{said:?}");
    let (refused, _) = answered("200 OK", b"<html>", 1, &["explain"]);
    refused.exits(3).says(&["not JSON; is that a wrs-emulator?"]);
    // 1 GiB.
    let (refused, sent) = answered(plain, &vec![b'x'; 1024 * 1024], 1024, &["explain"]);
    refused.exits(3).says(&["it answers with more than 16 MiB; is that a wrs-emulator?"]);
    assert!((16..1024).contains(&sent), "{sent} MiB were sent");
}

#[test]
fn an_address_where_nothing_listens_is_named_once() {
    Program::new(&["health", "--url", "http://127.0.0.1:1"])
        .status(3)
        .stderr(
            "error: cannot reach the emulator at http://127.0.0.1:1: Connection refused (os error 111)\n\n\
             hint: start it with `wrs-emulator --listen 127.0.0.1:1`\n",
        )
        .run();
    let said = refused(&["health", "--url", "http://nothing.invalid:9770"], 3);
    assert!(said.contains("hint: ") && !said.contains("--listen") && !said.contains("or name another"), "{said}");
}

#[test]
fn a_delivery_that_is_dropped_on_purpose_is_no_failure() {
    let served = Served::start(&["--quiet"]);
    assert!(request(&served.url, SUBSCRIBE, HOOK).starts_with("HTTP/1.1 200 "));
    let dropped = served.call(&["trigger", "workflow.completed", "--drop", "--wait"]);
    assert_eq!((dropped.status.code(), text(&dropped.stderr).as_str()), (Some(0), ""), "{dropped:?}");
    let said = text(&dropped.stdout);
    assert!(said.contains("cancelled") && !said.contains("not tried"), "{said}");
}

#[test]
fn copies_go_to_one_subscription_in_the_log_as_well() {
    let served = Served::start(&[]);
    assert!(request(&served.url, SUBSCRIBE, HOOK).starts_with("HTTP/1.1 200 "));
    served
        .call(&["trigger", "workflow.completed", "--duplicate", "2", "--wait"])
        .prints(&["fired for sk_test_local at 1 subscription; sent 2 times deliberately"]);
    let (_, log) = served.stop();
    assert!(log.contains(" goes to 1 subscription ") && !log.contains("2 subscriptions"), "{log}");
}
