//! Commands and the packages for tests, pointed at a server that is no emulator: nothing that it sends drives the terminal, and none of
//! it is read without a bound.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::cli_json::{Form, ROWS, Stage};
use crate::help::all_help;
use crate::process::Served;
use crate::support::{Outcome, finish, piped, sized, text, wrs_emulator};

const MIB: usize = 1024 * 1024;
/// A title, a color, a reversed direction, a line separator, a return to the start of the line; and what GitHub executes: a line that
/// begins with a command, after white space or not, and the other form anywhere.
const ESCAPES: &str = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{2028}\r\n::error::x\n \t\u{a0}::add-mask::x ##[error]x";

/// A server that handles each connection after its first request has been read.
fn server(handle: impl Fn(Vec<u8>, TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let handle = Arc::new(handle);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            std::thread::spawn(move || {
                if let Some((request, stream)) = request(stream) {
                    handle(request, stream);
                }
            });
        }
    });
    url
}

/// A whole request, with its body; `None` if the client hangs up before.
fn request(mut stream: TcpStream) -> Option<(Vec<u8>, TcpStream)> {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let head = request.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(at) = head {
            let text = String::from_utf8_lossy(&request[..at]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if request.len() >= at + 4 + length.unwrap_or(0) {
                return Some((request, stream));
            }
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return None,
            Ok(count) => request.extend_from_slice(&part[..count]),
        }
    }
}

fn answer(stream: &mut TcpStream, status: &str, media: &str, body: &str) {
    // The client may be gone.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}

/// Adds escapes to the texts in a value: to all, or to those that may be sentences, so that the form of the answer stays valid.
fn taint(value: &mut Value, all: bool) {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-*".contains(&byte));
    match value {
        Value::String(text) if all || !is_word(text) => text.push_str(ESCAPES),
        Value::Array(values) => values.iter_mut().for_each(|value| taint(value, all)),
        Value::Object(fields) => fields.values_mut().for_each(|value| taint(value, all)),
        _ => {}
    }
}

/// Passes requests on to an emulator, and its answers back with escapes in every text.
fn tainting(address: &str, all: bool) -> String {
    let address = address.to_owned();
    server(move |request, mut stream| {
        let at = request.windows(4).position(|end| end == b"\r\n\r\n").expect("a head");
        let mut emulator = TcpStream::connect(&address).expect("the emulator listens");
        let parts = [&request[..at], b"\r\nconnection: close", &request[at..]].concat();
        emulator.write_all(&parts).expect("it is taken");
        let mut answered = String::new();
        emulator.read_to_string(&mut answered).expect("an answer");
        let (head, body) = answered.split_once("\r\n\r\n").expect("an answer");
        let (status, headers) = head.split_once("\r\n").expect("headers");
        let is_text = headers.to_lowercase().contains("content-type: text/plain");
        let body = match serde_json::from_str::<Value>(body) {
            Ok(mut value) => {
                taint(&mut value, all);
                value.to_string()
            }
            Err(_) => body.lines().map(|line| format!("{line}{ESCAPES}\n")).collect(),
        };
        let media = if is_text { "text/plain; charset=utf-8" } else { "application/json" };
        answer(&mut stream, status.trim_start_matches("HTTP/1.1 "), media, &body);
    })
}

/// True if a character drives a terminal.
fn drives(c: char) -> bool {
    let is_invisible =
        matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || is_invisible
}

/// Compares the output, and returns whether escapes are visible in it.
#[track_caller]
fn is_inert(what: &str, output: &Outcome) -> bool {
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(!printed.chars().any(drives), "{what}: {printed:?}");
    let is_command = |line: &str| {
        ["::error::x", "::add-mask::x"].iter().any(|name| line.trim_start().starts_with(name)) || line.contains("##[")
    };
    assert!(!printed.lines().any(is_command), "{what}: {printed:?}");
    ["\\u{1b}", "\\u001b"].iter().any(|escape| printed.contains(escape))
}

#[test]
fn nothing_that_a_server_sends_drives_the_terminal() {
    let stage = Stage::set();
    let help: BTreeMap<String, &str> = all_help().iter().map(|(path, said)| (path.join(" "), said.as_str())).collect();
    let calls_it = |command: &str| help[command].contains("      --url <URL>") && command != "mcp";
    let mut visible = 0;
    for all in [true, false] {
        let url = tainting(stage.served.address(), all);
        for (command, form, done, refused, ..) in ROWS.iter().filter(|(command, ..)| calls_it(command)) {
            if *form == Form::Stream {
                continue;
            }
            for (flags, arguments) in [(&["--json"][..], done), (&[], done), (&[], refused)] {
                // JSON where no text is spared, text where an answer keeps its form; each way with both if large.
                if flags.is_empty() == all && !sized(false, true) {
                    continue;
                }
                let output = finish(&mut stage.command_with(flags, command, arguments, &url));
                visible += usize::from(is_inert(&format!("{command} {arguments} {flags:?}"), &output));
            }
        }
        for format in ["text", "junit"] {
            let arguments = format!("--format {format} --fail-on unmatched,undelivered,findings");
            visible +=
                usize::from(is_inert(format, &finish(&mut stage.command_with(&[], "verdict", &arguments, &url))));
        }
    }
    assert!(visible > sized(40, 80), "{visible} outputs have escapes in them");
}

/// The text that a model reads, and the records of a stream.
#[test]
fn tools_of_agents_and_followed_lists_are_inert() {
    let stage = Stage::set();
    let url = tainting(stage.served.address(), false);
    let call = |id: usize, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string() + "\n"
    };
    let calls = [
        call(1, "status", json!({})),
        call(2, "explain", json!({ "id": "req_no" })),
        call(3, "find_requests", json!({})),
    ];
    let output = piped(wrs_emulator(&["mcp"]).env("WRS_EMULATOR_URL", &url), calls.concat().as_bytes());
    let answers: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    for answer in answers {
        let shown = answer["result"]["content"][0]["text"].as_str().expect("a text");
        assert!(!shown.chars().any(drives) && shown.contains("\\u{1b}"), "{shown:?}");
    }

    let mut record = json!({ "id": "req_1", "path": "/", "message": "of a stream" });
    taint(&mut record, true);
    let events = format!("event: request\ndata: {record}\n\nevent: request\ndata: {ESCAPES}\n\n");
    let url = server(move |_, mut stream| answer(&mut stream, "200 OK", "text/event-stream", &events));
    for flags in [&["requests", "--follow", "--url", &url][..], &["requests", "--follow", "--json", "--url", &url]] {
        let output = finish(&mut wrs_emulator(flags)).exits(0);
        assert!(is_inert("a stream", &output), "{output:?}");
    }
}

/// Sends this over and over, until the client hangs up; counts the bytes.
fn endless(head: &'static str, part: &'static str) -> (String, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let url = server(move |_, mut stream| {
        let part = part.repeat(64 * 1024 / part.len());
        let mut written = stream.write_all(head.as_bytes());
        while written.is_ok() {
            written = stream.write_all(part.as_bytes());
            count.fetch_add(part.len(), Ordering::Relaxed);
        }
    });
    (url, sent)
}

const ENDLESS: &[(&str, &str, &[&str], &str, usize)] = &[
    ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[", "0,", &["health"], "more than 16 MiB", 16),
    ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", " ", &["requests", "--json"], "more than 16 MiB", 16),
    ("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", "x\n", &["requests"], "more than 16 MiB", 16),
    ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", "[", &["verdict"], "more than 16 MiB", 16),
    ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", "{", &["run", "save", "-"], "more than 64 MiB", 64),
    ("HTTP/1.1 500 No\r\ncontent-type: application/json\r\n\r\n", "\"x\",", &["health"], "more than 1 MiB", 1),
    ("HTTP/1.1 404 No\r\n\r\n", "x", &["snapshot", "save", "-"], "more than 1 MiB", 1),
    (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        "data: x\n",
        &["requests", "--follow"],
        "more than 16 MiB",
        16,
    ),
    ("HTTP/1.1 403 No\r\n\r\n", "x", &["requests", "--follow"], "more than 1 MiB", 1),
    ("HTTP/1.1 200 OK\r\nx: ", "x", &["health"], "too many or too long headers", 1),
    ("HTTP/1.1 200 OK\r\n", "x: y\r\n", &["health"], "too many or too long headers", 1),
];

#[test]
fn what_does_not_end_is_not_read_to_its_end() {
    // What the kernel buffers at both ends.
    const BUFFERED: usize = 100 * MIB;
    for (head, part, command, says, most) in ENDLESS {
        let (url, sent) = endless(head, part);
        let output = finish(wrs_emulator(command).env("WRS_EMULATOR_URL", &url)).exits(3);
        let said = text(&output.stderr);
        assert!(said.contains(says), "{command:?} {head:?}: {said}");
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent <= most * MIB + BUFFERED, "{command:?} {head:?}: {sent} bytes were taken");
    }
}

/// A few bytes of text may be many of memory: such an answer is not read, nor is such a record of the stream.
#[test]
fn what_expands_is_not_read() {
    let objects = format!("[{}]", vec!["{}"; 1_000_000].join(","));
    let numbers = format!("{{\"data\":[{}]}}", vec!["0"; 6_000_000].join(","));
    for body in [objects, numbers] {
        let event = format!("event: request\ndata: {body}\n\n");
        let url = server(move |_, mut stream| answer(&mut stream, "200 OK", "application/json", &body));
        for command in [&["verdict"][..], &["requests", "--json"], &["run", "save", "-"], &["explain", "--json"]] {
            let output = finish(wrs_emulator(command).env("WRS_EMULATOR_URL", &url)).exits(3);
            output.says(&["its answer cannot be read: it would need more than 512 MiB of memory once it is read"]);
        }
        let url = server(move |_, mut stream| answer(&mut stream, "200 OK", "text/event-stream", &event));
        for flags in [&["requests", "--follow"][..], &["requests", "--follow", "--json"]] {
            let output = finish(wrs_emulator(flags).env("WRS_EMULATOR_URL", &url)).exits(3);
            output.says(&["more than 512 MiB of memory"]);
        }
    }
}

#[test]
fn what_is_no_answer_of_an_emulator_is_one_error() {
    for (media, body, says) in [
        ("text/html", "<h1>\u{1b}[31mhi</h1>", "not JSON"),
        ("application/json", "{\"a\":", "not JSON"),
        ("application/json", "[1]", "has an unexpected form"),
    ] {
        let url = server(move |_, mut stream| answer(&mut stream, "200 OK", media, body));
        let output = finish(wrs_emulator(&["verdict"]).env("WRS_EMULATOR_URL", &url));
        is_inert(media, &output);
        let said = text(&output.stderr);
        assert!(said.contains(says) && [Some(2), Some(3)].contains(&output.status.code()), "{body}: {output:?}");
    }
}

/// The packages for tests of Python and Node.
#[test]
fn the_packages_for_tests_read_no_more_and_show_no_less() {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages");
    let python = "import wrs_emulator, sys\ntry: wrs_emulator.Emulator(sys.argv[1], 'sk_test_a').reset()\nexcept Exception as error: print(error)";
    let node = "const { Emulator } = require(process.argv[1] + '/npm/index.js');
        new Emulator(process.argv[2], 'sk_test_a').reset().catch((error) => console.log(error.message))";
    let calls = |url: &str| {
        let mut in_python = Command::new("python3");
        in_python
            .args(["-c", python, url])
            .env("PYTHONPATH", packages.join("pypi"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let mut in_node = Command::new("node");
        in_node.args(["-e", node]).arg(&packages).arg(url);
        [in_python, in_node].map(|mut command| finish(&mut command).exits(0))
    };
    let refusal = json!({ "error": { "code": format!("no{ESCAPES}"), "message": ESCAPES } }).to_string();
    let page = format!("<h1>{ESCAPES}</h1>");
    for (status, body, says) in [
        ("422 No", refusal, "POST reset: 422 no\\"),
        ("422 No", "[1]".to_owned(), "status 422 with an answer that is not the emulator's: [1]"),
        ("200 OK", page.clone(), "status 200 with an answer that is not the emulator's: <h1>"),
        ("500 No", page, "status 500 with an answer that is not the emulator's: <h1>"),
    ] {
        let url = server(move |_, mut stream| answer(&mut stream, status, "text/plain", &body));
        for output in calls(&url) {
            is_inert(status, &output);
            assert!(text(&output.stdout).contains(says), "{says}: {output:?}");
        }
    }
    for head in ["HTTP/1.1 200 OK\r\n\r\n[", "HTTP/1.1 500 No\r\n\r\n["] {
        let (url, sent) = endless(head, "\"x\",");
        for output in calls(&url) {
            assert!(text(&output.stdout).contains("more than 64 MiB"), "{output:?}");
        }
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent <= 2 * (64 + 100) * MIB, "{sent} bytes were taken");
    }
    // An emulator is still read.
    let served = Served::start(&["--quiet"]);
    for output in calls(&served.url) {
        assert_eq!(text(&output.stdout), "", "{output:?}");
    }
}
