//! Mistakes that people make on the command line, and what each is answered with.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use crate::command_line::{SUBSCRIBE, Served, request};
use crate::support::{text, wrs_emulator};

const HOOK: &str = r#"{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}"#;

/// What a command wrote to stderr, which ended with this exit code and printed nothing else.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = wrs_emulator(arguments).output().expect("the binary runs");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""), "{arguments:?}: {said}");
    said
}

/// Arguments, and a part of what they are answered with.
const MISTAKES: &[(&[&str], &str)] = &[
    (&["--port", "8080"], "there is no `--port`\n\nhint: use `--listen 127.0.0.1:8080`"),
    (&["serve", "--port=8080"], "there is no `--port`\n\nhint: use `--listen 127.0.0.1:8080`"),
    (&["listen", "-p", "8080"], "there is no `-p`\n\nhint: use `--listen 127.0.0.1:8080`"),
    (&["exec", "--port", "8080", "--", "true"], "there is no `--port`\n\nhint: use `--listen 127.0.0.1:8080`"),
    (&["serve", "--host", "0.0.0.0"], "there is no `--host`\n\nhint: use `--listen 0.0.0.0:9770`"),
    (&["health", "--port", "8080"], "there is no `--port`\n\nhint: use `--url http://127.0.0.1:8080`"),
    (&["trigger", "x", "--port"], "there is no `--port`\n\nhint: use `--url http://127.0.0.1:PORT`"),
    (
        &["exec", "pytest", "-q"],
        "unexpected argument `pytest`\n\nhint: put `--` before the command: `wrs-emulator exec -- pytest -q`",
    ),
    (
        &["exec", "--fail-on", "unmatched", "npm"],
        "unexpected argument `npm`\n\nhint: put `--` before the command: `wrs-emulator exec --fail-on unmatched -- npm`",
    ),
    (
        &["clock", "advance", "-60s"],
        "time only moves forward\n\nhint: `wrs-emulator clock set TIME` changes what timestamps show",
    ),
    (&["start"], "there is no command `start`\n\nhint: use `wrs-emulator serve`"),
    (&["run"], "there is no command `run`\n\nhint: use `wrs-emulator exec -- CMD`"),
    (&["logs"], "there is no command `logs`\n\nhint: use `wrs-emulator requests --follow`"),
    (&["stop"], "there is no command `stop`\n\nhint: end it with Ctrl-C, or with SIGTERM"),
    (&["fire", "workflow.completed"], "there is no command `fire`\n\nhint: use `wrs-emulator trigger`"),
    // What is nearest to a slip of the finger.
    (&["triger"], "there is no command `triger`\n\nhint: did you mean `trigger`?"),
    (&["scenarios", "lst"], "there is no command `lst`\n\nhint: did you mean `list`?"),
    (&["serve", "--lsten", "x"], "there is no `--lsten`\n\nhint: did you mean `--listen`?"),
    (&["serve", "--log", "txt"], "invalid value `txt` for `--log <LOG>`"),
    (&["serve", "--log", "txt"], "\n\nhint: did you mean `text`?"),
    (&["trigger"], "required arguments were not provided: <EVENT>\n\nhint: `wrs-emulator trigger --help`"),
    (&["health", "nowhere"], "unexpected argument `nowhere`\n\nhint: `wrs-emulator health --help`"),
    // Commands under the name that they have elsewhere.
    (&["clock", "stop"], "there is no command `stop`\n\nhint: use `wrs-emulator clock freeze`"),
    (&["clock", "reset"], "hint: `wrs-emulator clock resume` lets it run again; `wrs-emulator reset --all`"),
    (&["request", "list"], "there is no command `request`\n\nhint: did you mean `requests`?"),
    (&["secrets"], "hint: use `wrs-emulator subscriptions rotate ID`"),
    (&["ui"], "hint: there is no page; use `wrs-emulator requests --follow`"),
    (&["mock"], "hint: use `wrs-emulator serve --scenario NAME`"),
    (&["sink"], "hint: use `wrs-emulator listen`"),
    (&["use", "always-401"], "hint: use `wrs-emulator scenarios use NAME`"),
    (&["scenarios", "create"], "hint: use `wrs-emulator scenarios new NAME`"),
    (
        &["deliveries", "--event", "workflow.completed"],
        "expected the id of an event, such as evt_01k...; `--type` takes",
    ),
    (&["deliveries", "--subscription", "app"], "expected the id of a subscription"),
    (
        &["forwards", "add", "https://a.example.com", "http://localhost:3000"],
        "hint: join both by `=`: `wrs-emulator forwards add https://a.example.com=http://localhost:3000`",
    ),
    (&["reset", "--all", "--key", "sk_test_a"], "hint: leave one out: `--all` resets every key, `--key KEY` one"),
    (&["profile", "get"], "hint: use `wrs-emulator profile show`"),
    (&["forwards", "rm"], "hint: use `wrs-emulator forwards remove FROM`"),
    (&["serve", "--https-port", "8443"], "`--tls self-signed` serves HTTPS; `--listen 127.0.0.1:8443` sets the port"),
    (&["trigger", "x", "--override", "a=1"], "hint: use `--data a=1`"),
    (&["verdict", "--verdict-format", "junit"], "hint: use `--format junit`"),
    (&["serve", "--tls", "selfsigned"], "hint: for example `wrs-emulator serve --tls self-signed`"),
    (&["explain", "--last"], "`wrs-emulator explain` without an id explains the newest request or delivery"),
    // Flags of other commands or programs.
    (&["--url", "http://x"], "there is no `--url`\n\nhint: `--listen` sets the address to serve on; `--url` is for"),
    (&["serve", "--url", "http://x"], "such as `wrs-emulator health --url http://x`"),
    (
        &["exec", "--key", "sk_test_x", "npm", "test"],
        "from the environment: `WRS_API_KEY=sk_test_x wrs-emulator exec -- CMD`",
    ),
    (&["check", "--strict", "x.toml"], "hint: use `--deny warnings`"),
    (&["exec", "-fail-on", "unmatched"], "there is no `-fail-on`\n\nhint: did you mean `--fail-on`?"),
    (&["verdict", "-fail-on=unmatched"], "there is no `-fail-on`\n\nhint: did you mean `--fail-on`?"),
    (&["verdict", "--settle", "3s"], "hint: use `--wait 3s`"),
    (&["serve", "--qwertz"], "there is no `--qwertz`\n\nhint: `wrs-emulator serve --help` shows how it is used"),
    // Lines that are right but for one thing, corrected whole.
    (
        &["exec", "--fail-on=unmatched", "npm", "test"],
        "hint: put `--` before the command: `wrs-emulator exec --fail-on=unmatched -- npm test`",
    ),
    (
        &["exec", "--fail-on", "unmatched", "undelivered", "--", "true"],
        "hint: join several values with commas: `wrs-emulator exec --fail-on unmatched,undelivered -- true`",
    ),
    (
        &["exec", "--fail-on=unmatched", "undelivered", "unused", "npm", "test"],
        "`wrs-emulator exec --fail-on=unmatched,undelivered,unused -- npm test`",
    ),
    (
        &["verdict", "--fail-on", "unmatched", "undelivered"],
        "hint: join several values with commas: `wrs-emulator verdict --fail-on unmatched,undelivered`",
    ),
    (
        &["verdict", "--fail-on", "unmatched undelivered"],
        "hint: join several values with commas: `wrs-emulator verdict --fail-on unmatched,undelivered`",
    ),
    (&["--listen", ":0", "run"], "there is no command `run`\n\nhint: use `wrs-emulator exec -- CMD`"),
    (
        &["--listen", ":0", "serve", "--quiet"],
        "`serve` comes after flags\n\nhint: put the command first: `wrs-emulator serve --listen :0 --quiet`",
    ),
    (
        &["--listen", "127.0.0.1:9", "requests"],
        "there is no `--listen` for `requests`\n\nhint: for an emulator that listens there, use `wrs-emulator requests --url http://127.0.0.1:9`",
    ),
    // Values that cannot be read.
    (
        &["serve", "--seed", "x"],
        "invalid value `x` for `--seed <N>`: expected an integer\n\nhint: for example `wrs-emulator serve --seed 1`",
    ),
    (
        &["requests", "--status", "ok"],
        "expected an integer\n\nhint: for example `wrs-emulator requests list --status 404`",
    ),
    (
        &["requests", "--limit=5000"],
        "expected an integer from 1 to 1000\n\nhint: for example `wrs-emulator requests list --limit=20`",
    ),
    (
        &["clock", "advance", "60"],
        "invalid value `60` for `<DURATION>`: expected a duration such as \"250ms\", \"30s\" or \"1m30s\"\n\n\
             hint: for example `wrs-emulator clock advance 60s`",
    ),
    (&["requests", "wait", "--timeout", "5"], "hint: for example `wrs-emulator requests wait --timeout 5s`"),
    (&["deliveries", "wait", "--timeout", "5"], "hint: for example `wrs-emulator deliveries wait --timeout 5s`"),
    (&["trigger", "x", "--delay", "5"], "hint: for example `wrs-emulator trigger x --delay 5s`"),
    (&["clock", "set", "2026-01-31"], "hint: for example `wrs-emulator clock set 2026-01-31T00:00:00Z`"),
    (
        &["clock", "set", "yesterday"],
        "invalid value `yesterday` for `<TIME>`: expected a timestamp such as 2026-01-31T09:30:00Z\n\n\
             hint: for example `wrs-emulator clock set 20",
    ),
    (
        &["requests", "--since", "5m"],
        "expected a timestamp such as 2026-01-31T09:30:00Z, or `now`\n\n\
             hint: for example `wrs-emulator requests list --since 20",
    ),
    (&["--listen", "9802"], "found `9802`\n\nhint: use `--listen 127.0.0.1:9802`"),
    (&["serve", "--listen", "0.0.0.0"], "hint: add a port: `--listen 0.0.0.0:9770`"),
    (&["serve", "--listen", "here"], "hint: for example `--listen 127.0.0.1:9770`"),
    (
        &["health", "--url", "/x"],
        "--url: expected the address of an emulator, found `/x`\n\nhint: for example `--url http://127.0.0.1:9770`",
    ),
    (&["health", "--url", "9802"], "hint: use `--url http://127.0.0.1:9802`"),
    (&["serve", "--forward", "x=http"], "--forward: expected a URL such as https://app.example.com, found `x`"),
    (&["qwertz"], "there is no command `qwertz`\n\nhint: `wrs-emulator --help`"),
];

#[test]
fn a_mistake_is_answered_with_what_to_type_instead() {
    for (arguments, expected) in MISTAKES {
        let said = refused(arguments, 2);
        assert!(said.starts_with("error: ") && said.contains(expected), "{arguments:?}: {expected}\nis not in\n{said}");
        // One style: nothing of the library that reads the arguments.
        for foreign in [
            "tip:",
            "Usage:",
            "For more information",
            "'",
            "invalid digit",
            "relative URL",
            "as a value",
            " is not in ",
        ] {
            assert!(!said.contains(foreign), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn data_as_json_and_keys_that_are_none_are_answered_with_the_remedy() {
    let served = Served::start(&["--quiet"]);
    let said = |arguments: &[&str], code: i32| {
        let output = served.call(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        text(&output.stderr)
    };
    for data in [r#"{"workflow_id":"wf_1"}"#, r#" {"a":"b=c"}"#] {
        let refused = said(&["trigger", "workflow.completed", "--data", data], 2);
        assert!(refused.contains("hint: for JSON use `--data-json`"), "{refused}");
    }
    let refused = said(&["trigger", "workflow.completed", "--data", "workflow_id"], 2);
    assert!(refused.contains("hint: for example `--data workflow_id=wf_42`"), "{refused}");
    for arguments in [
        &["trigger", "workflow.completed", "--key", "test"][..],
        &["requests", "list", "--key", "test"],
        &["reset", "--key", "test"],
    ] {
        let refused = said(arguments, 2);
        assert!(refused.contains("is not an API key: keys begin with `sk_test_`"), "{refused}");
    }
    let refused = said(&["reset", "--key", "sk_test_a b"], 2);
    assert!(refused.contains("is not an API key: after `sk_test_` come one or more of A-Z a-z 0-9 _ -"), "{refused}");
    let refused = said(&["reset", "--key", "ws_nothing"], 1);
    assert!(refused.contains("there is no workspace `ws_nothing`"), "{refused}");
}

#[test]
fn a_tls_handshake_on_the_plain_port_is_named_in_log_and_journal() {
    const HINT: &str = "this is a TLS handshake: use http:// or start with --tls self-signed";
    let served = Served::start(&[]);
    let mut stream = std::net::TcpStream::connect(served.url.trim_start_matches("http://")).expect("it listens");
    // The beginning of a ClientHello.
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(HINT), "{answer}");
    let id = served.json(&["requests", "list", "--json"])["data"][0]["id"].as_str().expect("an entry").to_owned();
    let why = text(&served.call(&["explain", &id]).stdout);
    assert!(why.contains(HINT), "{why}");
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
        let output = wrs_emulator(&["health", "--url", url]).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(0), "{url}: {output:?}");
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
                let body = r#"{"status":"ready","version":"1","generation":1,"scenarios":"as saved"}"#;
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    .expect("it is sent");
                line
            });
            let output = wrs_emulator(&["health", "--url", &url]).output().expect("the binary runs");
            assert_eq!(output.status.code(), Some(0), "{url}: {output:?}");
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
        }
    }
    // An emulator whose control API is elsewhere, and a program that is none.
    let served = Served::start(&["--quiet", "--control-listen", "127.0.0.1:0"]);
    let said = refused(&["serve", "--listen", served.url.trim_start_matches("http://")], 2);
    assert!(said.contains("a wrs-emulator already answers at"), "{said}");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let said = refused(&["serve", "--listen", &silent.local_addr().expect("an address").to_string()], 2);
    assert!(said.contains("another program listens there"), "{said}");
}

#[test]
fn an_address_where_nothing_listens_is_named_once() {
    let said = refused(&["health", "--url", "http://127.0.0.1:1"], 3);
    assert!(said.contains("hint: start it with `wrs-emulator --listen 127.0.0.1:1`"), "{said}");
    assert!(!said.contains("--url"), "{said}");
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
    assert!(said.contains("1 delivery was dropped, as asked for") && !said.contains("not tried"), "{said}");
}

#[test]
fn copies_go_to_one_subscription_in_the_log_as_well() {
    let served = Served::start(&[]);
    assert!(request(&served.url, SUBSCRIBE, HOOK).starts_with("HTTP/1.1 200 "));
    let fired = served.call(&["trigger", "workflow.completed", "--duplicate", "2", "--wait"]);
    assert!(text(&fired.stdout).contains("fired at 1 subscription; sent 2 times deliberately"), "{fired:?}");
    let (_, log) = served.stop();
    assert!(log.contains(" goes to 1 subscription ") && !log.contains("2 subscriptions"), "{log}");
}
