//! `calibrate` as people run it: against an emulator, against servers that are not this API, with a captured delivery and a document.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;
use wrs_emulator::contract::keys::{KeyRules, check_key};
use wrs_emulator::contract::signature::{
    CustomScheme, Encoding, KeyReading, Message, Scheme, SchemeName, SigningKey, sign,
};
use wrs_emulator::contract::types::EVENT_TYPES;
use wrs_emulator::lab::calibrate::call_log::{CallLog, Caller};
use wrs_emulator::lab::calibrate::delivery::CapturedDelivery;
use wrs_emulator::lab::calibrate::evidence::{Seen, Unclear};
use wrs_emulator::lab::calibrate::openapi;
use wrs_emulator::lab::calibrate::run::Calibration;
use wrs_emulator::settings::Layered;
use wrs_emulator::settings::api_document::document;
use wrs_emulator::state::workspace::FireRequest;
use wrs_emulator::webhook::dial::DialContext;
use wrs_emulator::webhook::resolve::{LookUp, Resolver};

use crate::process::{Started, signal};
use crate::support::{MachineTime, builder, started, subscribe, text, wrs_emulator};

const KEY: &str = "sk_test_0f8d6c1ab2";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn calibrate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = wrs_emulator(&[&["calibrate"], arguments].concat());
    command
        .current_dir(folder)
        .env("WRS_API_KEY", KEY)
        .env("WRS_WEBHOOK_SECRET", SECRET)
        .output()
        .expect("the binary runs")
}

fn rows(report: &Value) -> BTreeMap<String, Value> {
    let rows = report["data"].as_array().expect("rows").iter();
    rows.map(|row| (row["setting"].as_str().expect("a name").to_owned(), row.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_written_checked_and_inferred_again() {
    let emulator = started(builder().set("rate_limit.requests=70").set("errors.codes.not_found=missing")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| calibrate(folder.path(), arguments);
    let url = emulator.base_url();
    let first = run(&[&url, "--pause", "0s", "--json"]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let report: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(rows(&report)["rate_limit.requests"]["observed"], 70);
    let profile = std::fs::read_to_string(folder.path().join("sandbox.toml")).expect("it was written");
    assert!(
        profile.contains("\nrate_limit.requests = 70\n") && profile.contains("errors.codes.not_found = \"missing\""),
        "{profile}"
    );
    assert!(profile.contains("observed in") && profile.contains("assumed: 100"), "{profile}");
    let recording = std::fs::read_to_string(folder.path().join("sandbox.har")).expect("it was written");
    assert!(!recording.contains(KEY), "{recording}");

    let again = run(&["--from", "sandbox.har", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).expect("JSON"), report);
    let shown = text(&run(&["--from", "sandbox.har"]).stdout);
    assert!(
        shown.contains("observed: differs (2)\n") && shown.contains("rate_limit.requests = 70; assumed: 100"),
        "{shown}"
    );

    std::fs::write(folder.path().join("d.http"), captured(&["webhooks.scheme=github"]).await).expect("a file");
    std::fs::write(folder.path().join("stripe.toml"), format!("{profile}webhooks.scheme = \"stripe\"\n"))
        .expect("a file");
    let with_delivery = ["--from", "sandbox.har", "--delivery", "d.http"];
    let found = run(&[&with_delivery[..], &["--out", "whole.toml", "--json"]].concat());
    let rows = rows(&serde_json::from_slice(&found.stdout).expect("JSON"));
    assert_eq!(rows["webhooks.scheme"]["observed"], "github");
    for (profile, code, says) in
        [("whole.toml", 0, ""), ("stripe.toml", 1, "webhooks.scheme: was \"stripe\", is \"github\"")]
    {
        let checked = run(&[&with_delivery[..], &["--check", profile]].concat());
        let said = text(&checked.stderr);
        assert!(checked.status.code() == Some(code) && said.contains(says), "{profile}: {said}");
    }

    let refused = run(&[&url, "--pause", "0s"]);
    assert_eq!(refused.status.code(), Some(2), "nothing is overwritten");
    assert!(text(&refused.stderr).contains("`sandbox.toml` exists"), "{}", text(&refused.stderr));
    let same = run(&[&url, "--pause", "0s", "--check", "sandbox.toml"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    std::fs::write(folder.path().join("other.toml"), profile.replace("= 70", "= 71")).expect("a file");
    let drifted = run(&[&url, "--pause", "0s", "--check", "other.toml"]);
    assert_eq!(drifted.status.code(), Some(1));
    assert!(text(&drifted.stderr).contains("rate_limit.requests: was 71, is 70"), "{}", text(&drifted.stderr));
    let shown = text(&drifted.stdout);
    assert!(shown.contains("rate_limit.requests = 70; other.toml: 71") && !shown.contains("assumed"), "{shown}");

    // A profile says what differs from the defaults, whatever it was checked against.
    let rewritten = run(&["--from", "sandbox.har", "--check", "sandbox.toml", "--out", "again.toml"]);
    assert_eq!(rewritten.status.code(), Some(0), "{}", text(&rewritten.stderr));
    assert_eq!(std::fs::read_to_string(folder.path().join("again.toml")).expect("it was written"), profile);
}

/// The reasons name what stopped a row, and advise nothing that was done or is refused.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_too_fast_are_the_reason_that_is_given() {
    let emulator = started(builder().set("time.precision=seconds").set("rate_limit.reset=delta")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let url = emulator.base_url();
        let output = calibrate(folder.path(), &[&[url.as_str(), "--pause", "0s", "--json"], arguments].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (rows(&report), report)
    };
    let (found, report) = run(&["--yes"]);
    assert_eq!(report["stopped"], Value::Null, "nothing stopped it");
    assert!(!report.to_string().contains("calls of a calibration were made"), "{report}");
    for (setting, result, says) in [
        ("time.precision", "not_observable", "--pause 1s shows more"),
        ("rate_limit.algorithm", "not_observable", "the calls were too fast"),
        ("rate_limit.retry_after", "not_reached", "requests were left, more than calls"),
    ] {
        let row = &found[setting];
        let detail = row["detail"].as_str().expect("a reason");
        assert!(row["result"] == result && detail.contains(says) && !detail.contains("--yes"), "{row}");
    }
    let (found, _) = run(&["--max-calls", "3", "--out", "few.toml", "--record", "few.har"]);
    assert_eq!(found["errors.details"]["detail"], "the 3 calls of --max-calls were made");
    assert!(found["rate_limit.retry_after"]["detail"].as_str().expect("a reason").contains("with --yes only"));
}

/// A profile that would not accept the key with which it was made says so, and how to change that.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_may_refuse_the_key_says_so() {
    let listed = format!("keys.list=[\"{KEY}\"]");
    for (settings, warns) in
        [(vec![], false), (vec!["keys.mode=any"], false), (vec!["keys.mode=list", listed.as_str()], true)]
    {
        let builder = settings.iter().fold(builder(), |builder, setting| builder.set(setting));
        let emulator = started(builder).await;
        let folder = tempfile::tempdir().expect("a folder");
        let output = calibrate(folder.path(), &[&emulator.base_url(), "--pause", "0s"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let profile = std::fs::read_to_string(folder.path().join("sandbox.toml")).expect("it was written");
        let layered = Layered::default().with(|draft| draft.text(&profile, "sandbox.toml"));
        let layered = layered.unwrap_or_else(|problems| panic!("{problems:?}: {profile}"));
        let rules = KeyRules { environment: layered.profile().environment, keys: &layered.profile().keys };
        assert_eq!(check_key(KEY, rules).is_err(), warns, "{settings:?}: {profile}");
        assert_eq!(profile.contains("# This profile may refuse the key"), warns, "{profile}");
        assert_eq!(text(&output.stderr).contains("the profile may refuse the key"), warns);
        if warns {
            let any = profile.replacen("keys.mode = \"list\"", "keys.mode = \"any\"", 1);
            let any = Layered::default().with(|draft| draft.text(&any, "sandbox.toml")).expect("a profile");
            let rules = KeyRules { environment: any.profile().environment, keys: &any.profile().keys };
            assert_eq!(check_key(KEY, rules), Ok(()), "the advice works");
        }
    }
}

/// What a key that is refused shows is too little for a profile, and no file is in the way of the next run.
#[test]
fn a_refused_key_leaves_no_files() {
    let (address, _) = server(|head, stream| {
        let is_hello = head.starts_with("GET /v1/hello ");
        let (status, body) = if is_hello { ("200 OK", "{}") } else { ("401 No", ENVELOPE) };
        write(stream, status, "content-type: application/json\r\n", body);
    });
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        let output = calibrate(folder.path(), &[&format!("http://{address}"), "--pause", "0s"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("the key was refused with 401"), "{}", text(&output.stderr));
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_leaves_what_was_seen_until_then() {
    let emulator = started(builder()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = wrs_emulator(&["calibrate", &emulator.base_url(), "--pause", "30s"]);
    let command = command.current_dir(folder.path()).env("WRS_API_KEY", KEY);
    let mut child = Started::new(command.stderr(Stdio::piped()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("text").contains("call 1"));
    signal(&child, "INT");
    let output = child.output();
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("it was interrupted") && shown.contains("not reached"), "{shown}");
    assert!(folder.path().join("sandbox.har").exists());
}

/// A server that answers each connection by its first request, and the requests.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, heads) = (listener.local_addr().expect("an address"), Arc::new(Mutex::new(Vec::new())));
    let (seen, answer) = (Arc::clone(&heads), Arc::new(answer));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            std::thread::spawn(move || {
                let (mut head, mut part) = (Vec::new(), [0; 4096]);
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut part) {
                        Ok(0) | Err(_) => return,
                        Ok(count) => head.extend_from_slice(&part[..count]),
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                seen.lock().expect("no panic").push(head.clone());
                answer(&head, &mut stream);
            });
        }
    });
    (address, heads)
}

fn write(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    // The client may be gone.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
}

const ENVELOPE: &str = r#"{"error":{"code":"unauthorized","message":"no","request_id":"req_1"}}"#;

type Stranger = Box<dyn Fn(&str, &mut TcpStream) + Send + Sync>;

/// What the calibration of a server printed, and whether that server saw the key.
fn of_stranger(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> (Output, bool) {
    let (address, heads) = server(answer);
    let folder = tempfile::tempdir().expect("a folder");
    let output = calibrate(folder.path(), &[&format!("http://{address}"), "--pause", "0s"]);
    let saw_key = heads.lock().expect("no panic").iter().any(|head| head.contains(KEY));
    (output, saw_key)
}

#[test]
fn servers_that_are_not_this_api_get_a_clear_error_and_no_key() {
    let (elsewhere, requests) = server(|_, stream| write(stream, "200 OK", "", "{}"));
    let html = "content-type: text/html\r\n";
    let strangers: Vec<(&str, i32, &str, Stranger)> = vec![
        (
            "a page",
            1,
            "not the Workflow Reference Service API",
            Box::new(move |_, stream| write(stream, "200 OK", html, "<h1>hi</h1>")),
        ),
        ("500", 1, "not the Workflow Reference Service API", Box::new(|_, stream| write(stream, "500 No", "", "no"))),
        (
            "404 in JSON",
            1,
            "not the Workflow Reference Service API",
            Box::new(|_, stream| write(stream, "404 No", "", "{\"message\":\"no\"}")),
        ),
        (
            "redirects",
            1,
            "not the Workflow Reference Service API",
            Box::new(move |_, stream| write(stream, "302 There", &format!("location: http://{elsewhere}/\r\n"), "")),
        ),
        (
            "a list in JSON",
            1,
            "not the Workflow Reference Service API",
            Box::new(|_, stream| write(stream, "401 No", "content-type: application/json\r\n", "[1]")),
        ),
        ("garbage", 2, "does not answer", Box::new(|_, stream| drop(stream.write_all(b"\x16\x03\x01 what?\r\n\r\n")))),
        ("nothing", 2, "does not answer", Box::new(|_, _| {})),
        (
            "10 MB",
            1,
            "not the Workflow Reference Service API",
            Box::new(|_, stream| write(stream, "200 OK", "", &"x".repeat(10_000_000))),
        ),
    ];
    std::thread::scope(|scope| {
        for (name, code, says, answer) in strangers {
            scope.spawn(move || {
                let (output, saw_key) = of_stranger(answer);
                let printed = text(&output.stderr);
                assert_eq!(output.status.code(), Some(code), "{name}: {printed}");
                assert!(printed.contains(says), "{name}: {printed}");
                assert!(!saw_key && !printed.contains(KEY), "{name}: {printed}");
            });
        }
    });
    assert!(requests.lock().expect("no panic").is_empty(), "no redirect is followed");
}

/// A byte a second, by the time of the runtime.
#[tokio::test]
async fn a_server_that_answers_too_slowly_is_given_up_and_gets_no_key() {
    let time = MachineTime::stop();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a call");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut head).await.expect("a call") > 0);
        }
        for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        head
    });
    let mut call_log = CallLog::new(&url, KEY, 40, true, false);
    let calibration = Calibration {
        url: Url::parse(&url).expect("a URL"),
        reach: DialContext {
            egress: Arc::default(),
            trust: Arc::default(),
            resolver: Arc::new(Resolver::new(LookUp::default())),
        },
        caller: Caller { key: KEY.to_owned(), url: "https://a.example/".to_owned(), secret: SECRET.to_owned() },
        pause: Duration::ZERO,
    };
    let ended = time.passes_until(calibration.run(&mut call_log, |_| {})).await;
    assert_eq!(ended, Err("no whole answer within 10 s".to_owned()));
    let head = time.passes_until(server).await.expect("no panic");
    assert!(!text(&head).contains(KEY), "{}", text(&head));
}

/// They greet as the API does, and then do something else with the key.
#[test]
fn servers_that_turn_out_otherwise_leave_a_partial_result() {
    let (elsewhere, requests) = server(|_, stream| write(stream, "200 OK", "", "{}"));
    let greets = |head: &str, stream: &mut TcpStream| {
        let is_keyless = !head.contains("Bearer");
        if is_keyless {
            let is_hello = head.starts_with("GET /v1/hello ");
            let (status, body) = if is_hello { ("200 OK", "{}") } else { ("401 No", ENVELOPE) };
            write(stream, status, "content-type: application/json\r\n", body);
        }
        is_keyless
    };
    let redirects = move |head: &str, stream: &mut TcpStream| {
        if !greets(head, stream) {
            write(stream, "307 There", &format!("location: http://{elsewhere}/\r\n"), "");
        }
    };
    let (output, _) = of_stranger(redirects);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(shown.contains("GET /v1/system/status: it was answered 307"), "{shown}");
    assert!(requests.lock().expect("no panic").is_empty(), "no redirect is followed");

    let (output, _) = of_stranger(move |head, stream| {
        if !greets(head, stream) {
            write(stream, "401 No", "content-type: application/json\r\n", ENVELOPE);
        }
    });
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the key was refused with 401"), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(!shown.contains("contradicts the contract"), "the key may be the wrong one: {shown}");

    let (output, _) = of_stranger(move |head, stream| {
        greets(head, stream);
    });
    let shown = text(&output.stdout);
    assert!(shown.contains("had no answer") && shown.contains("hello.body = {}"), "{shown}");
}

/// A service that checks no body subscribes whatever it is sent.
#[test]
fn what_subscribes_is_posted_three_times_at_most() {
    let subscription = r#"{"id":"sub_1","url":"https://a.example/","events":[],"status":"active","created_at":"x"}"#;
    let (address, heads) = server(move |head, stream| {
        let (status, body) = match head {
            _ if head.starts_with("GET /v1/hello ") => ("200 OK", "{}"),
            _ if !head.contains("Bearer") => ("401 No", ENVELOPE),
            _ => ("200 OK", subscription),
        };
        write(stream, status, "content-type: application/json\r\n", body);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let output = calibrate(folder.path(), &[&format!("http://{address}"), "--pause", "0s"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let heads = heads.lock().expect("no panic");
    assert_eq!(heads.iter().filter(|head| head.starts_with("POST /v1/events/subscribe ")).count(), 3);
}

/// A service that gives its times as numbers: neither does the calibration try for timestamps until the calls are used up, nor does it
/// blame the pause between them.
#[test]
fn times_that_are_numbers_contradict_the_contract() {
    let (address, heads) = server(|head, stream| {
        let (status, body) = match head {
            _ if head.starts_with("GET /v1/hello ") => ("200 OK", "{}"),
            _ if !head.contains(KEY) => ("401 No", ENVELOPE),
            _ if head.starts_with("GET /v1/system/status ") => {
                ("200 OK", r#"{"ok":true,"environment":"sandbox","version":"v1.0","checked_at":1769851817}"#)
            }
            _ => ("422 No", r#"{"error":{"code":"no","message":"no","request_id":"req_1"}}"#),
        };
        write(stream, status, "content-type: application/json\r\n", body);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://{address}");
    let output = calibrate(folder.path(), &[&url, "--pause", "0s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let clause = "System status: checked_at, an ISO 8601 UTC timestamp";
    let row = &rows(&report)["time.precision"];
    assert_eq!([&row["result"], &row["clause"], &row["detail"]], ["contradicts", clause, "`checked_at` is 1769851817"]);
    assert!(report["broken"].as_array().expect("a list").iter().any(|broken| broken["clause"] == clause), "{report}");
    let of_status =
        heads.lock().expect("no panic").iter().filter(|head| head.starts_with("GET /v1/system/status ")).count();
    assert!(of_status < 12, "{of_status} calls of system status");
    let shown = text(&calibrate(folder.path(), &["--from", "sandbox.har"]).stdout);
    let contradictions = shown.split("\n\n").find(|part| part.starts_with("contradicts the contract")).expect("some");
    assert_eq!(contradictions.matches(clause).count(), 1, "{contradictions}");
}

/// The raw request of a delivery that an emulator with these settings sends to a receiver.
async fn captured(settings: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let forward = format!("webhooks.forwards={{\"https://app.example.com\"=\"http://{address}\"}}");
    let settings = [settings, &[&forward]].concat();
    let emulator = started(settings.into_iter().fold(builder(), wrs_emulator::Builder::set)).await;
    let asked = json!({ "url": "https://app.example.com/hooks?a=1", "events": EVENT_TYPES, "secret": SECRET });
    subscribe(&emulator, &asked).await;
    let request = FireRequest { event_type: EVENT_TYPES[0].to_owned(), ..FireRequest::default() };
    emulator.control().fire(crate::support::KEY, request).expect("the event is fired");
    let (mut stream, _) = listener.accept().expect("a connection");
    let (mut raw, mut part) = (String::new(), [0; 8192]);
    while !raw.ends_with('}') {
        let count = stream.read(&mut part).expect("a request");
        raw.push_str(std::str::from_utf8(&part[..count]).expect("text"));
    }
    write(&mut stream, "200 OK", "", "");
    // A service would not forward it.
    raw.replace(&address, "app.example.com")
}

fn shown(raw: &str) -> BTreeMap<&'static str, Result<Seen, Unclear>> {
    CapturedDelivery::read(raw.as_bytes()).unwrap_or_else(|problem| panic!("{problem}: {raw}")).shows(SECRET).settings
}

/// Settings that deliveries show, and the rows that must have a value. A list of schemes is in the order of their headers.
const DELIVERIES: &[(&[&str], &[&str])] = &[
    (&[], &["webhooks.scheme", "ids.style"]),
    (&["webhooks.secret_key=base64"], &["webhooks.scheme"]),
    (&["webhooks.secret_key=utf8"], &["webhooks.scheme", "webhooks.secret_key"]),
    (&["webhooks.secret_key=utf8_with_prefix"], &["webhooks.scheme", "webhooks.secret_key"]),
    (&["webhooks.scheme=[\"github\",\"standard\",\"svix\"]"], &["webhooks.scheme", "webhooks.secret_key"]),
    (&["webhooks.scheme=[\"custom\",\"stripe\"]", "webhooks.custom={signature_header=\"x-own\"}"], &[]),
    (&["webhooks.scheme=[\"standard\",\"custom\"]", "webhooks.custom={signature_header=\"x-own\",key=\"utf8\"}"], &[]),
    (
        &[
            "webhooks.scheme=[\"standard\",\"custom\"]",
            "webhooks.custom={signature_header=\"x-own\",content=\"{body}{id}\"}",
        ],
        &[],
    ),
    (&["webhooks.scheme=custom"], &["webhooks.scheme", "webhooks.custom"]),
    (&["webhooks.scheme=custom", "webhooks.secret_key=utf8"], &["webhooks.scheme", "webhooks.custom"]),
    (
        &[
            "webhooks.scheme=custom",
            "webhooks.custom={content=\"{url}|{body}\",prefix=\"\",hash=\"sha1\"}",
            "webhooks.secret_key=base64",
        ],
        &["webhooks.scheme", "webhooks.custom", "webhooks.secret_key"],
    ),
    (
        &[
            "webhooks.scheme=custom",
            "webhooks.custom={content=\"{body}\",id_header=\"\",encoding=\"base64\",signature_header=\"X-Own\"}",
        ],
        &["webhooks.scheme", "webhooks.custom"],
    ),
    (
        &[
            "webhooks.scheme=custom",
            "webhooks.custom={content=\"v0:{timestamp}:{body}\",id_header=\"\",hash=\"sha512\",prefix=\"v9=\"}",
        ],
        &["webhooks.scheme", "webhooks.custom"],
    ),
    (
        &[
            "webhooks.scheme=custom",
            "webhooks.custom={content=\"{body}\",id_header=\"\",timestamp_header=\"\",signature_header=\"x-hub-signature-256\"}",
        ],
        &["webhooks.scheme", "webhooks.custom"],
    ),
    (&["webhooks.scheme=custom", "webhooks.custom={content=\"{body}, signed\"}"], &[]),
    (&["webhooks.timestamp=real"], &["webhooks.scheme"]),
    (&["webhooks.timestamp=clock", "webhooks.copies=2", "webhooks.retry.preset=none"], &["webhooks.scheme"]),
    (&["ids.style=uuid", "time.precision=seconds"], &["webhooks.scheme", "ids.style"]),
    (&["ids.style=counter", "time.precision=mixed", "webhooks.scheme=github"], &["webhooks.scheme", "ids.style"]),
    (
        &["ids.style=longest", "time.precision=nanoseconds", "webhooks.scheme=shopify"],
        &["webhooks.scheme", "ids.style"],
    ),
    (&["variation.unknown_fields=true"], &["webhooks.scheme", "ids.style"]),
    (&["variation.key_order=shuffled", "variation.bodies=events"], &["webhooks.scheme", "ids.style"]),
    (&["variation.key_order=reversed", "events.extra=[\"workflow.failed\"]"], &["webhooks.scheme", "ids.style"]),
    (&["events.data.\"workflow.completed\"={id=1}"], &["webhooks.scheme", "ids.style"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_delivery_shows_is_what_was_set() {
    let schemes = SchemeName::ALL.map(|name| format!("webhooks.scheme={name}"));
    let schemes = schemes.each_ref().map(|setting| [setting.as_str()]);
    let schemes = schemes.iter().map(|settings| (&settings[..], &["webhooks.scheme"][..]));
    for (settings, rows) in DELIVERIES.iter().copied().chain(schemes) {
        let set =
            Layered::default().with(|draft| settings.iter().for_each(|setting| draft.assignment(setting, "test")));
        let ledger = wrs_emulator::settings::ledger(&set.expect("a profile"));
        let raw = captured(settings).await;
        let (head, body) = raw.split_once("\r\n\r\n").expect("a body");
        let (_, headers) = head.split_once("\r\n").expect("headers");
        let upper =
            |line: &str| line.split_once(": ").map(|(name, value)| format!("{}:{value}\n", name.to_uppercase()));
        let upper: String = headers.lines().filter_map(upper).collect();
        // As it was sent; as an editor saves it; as a log and an inspection service show it.
        for raw in [
            raw.clone(),
            format!("\n{}\n\n", raw.replace("\r\n", "\n")),
            format!("POST https://app.example.com/hooks?a=1 HTTP/2\n{upper}\n{body}"),
            format!(
                "POST /hooks?a=1 HTTP/1.1\nhost: app.example.com\nwebhook-signature: v1,other\n{headers}\n\n{body}\n"
            ),
        ] {
            let found = shown(&raw);
            for (setting, found) in &found {
                let expected = &ledger.iter().find(|row| row.setting == *setting).expect("a setting").value;
                match found {
                    Ok(Seen { value: Value::Object(fields), .. }) => {
                        for (name, value) in fields {
                            let same = value.to_string().eq_ignore_ascii_case(&expected[name].to_string());
                            assert!(same, "{setting}.{name} is {value}: {settings:?} {raw}");
                        }
                    }
                    Ok(seen) => assert_eq!(seen.value, *expected, "{setting}: {settings:?} {raw}"),
                    Err(_) => {}
                }
            }
            for setting in rows {
                assert!(found[setting].is_ok(), "{setting} {:?} {settings:?}: {raw}", found[setting]);
            }
        }
    }
}

/// Signing keys in hexadecimal are common, and no library reads a secret so by itself.
#[test]
fn a_secret_in_hex_and_every_encoding_of_the_signature_are_found() {
    const HEX: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
    const BODY: &str =
        r#"{"id":"evt_1","type":"workflow.completed","created_at":"2026-01-31T09:30:00.000Z","data":{}}"#;
    for encoding in Encoding::ALL {
        let custom = CustomScheme {
            content: "{body}".to_owned(),
            encoding,
            prefix: "v1=".to_owned(),
            signature_header: "x-signature".to_owned(),
            ..CustomScheme::default()
        };
        let scheme = Scheme::new(SchemeName::Custom, &custom);
        let key = SigningKey::read(HEX, &scheme, KeyReading::Hex).expect("a key");
        let signed = sign(&scheme, &[key], &Message { id: "", timestamp: 0, url: "", body: BODY.as_bytes() });
        let raw = format!("POST /h HTTP/1.1\nhost: app.example.com\nx-signature: {}\n\n{BODY}", signed.signatures[0]);
        let found = CapturedDelivery::read(raw.as_bytes()).expect("a delivery").shows(HEX).settings;
        assert_eq!(found["webhooks.secret_key"].as_ref().expect("a reading").value, "hex", "{encoding:?}");
        let shown = &found["webhooks.custom"].as_ref().expect("a scheme").value;
        assert_eq!(shown["encoding"], encoding.name(), "{shown}");
    }
}

/// Answers that no setting produces, and those that cannot be read, get a reason that names them.
#[test]
fn a_delivery_that_no_setting_sends_is_described() {
    const BODY: &str = r#"{"id":"msg_1","type":"x","created_at":"today","data":[]}"#;
    let hmac = |content: &str| {
        let scheme = Scheme::new(
            SchemeName::Custom,
            &CustomScheme { content: "{body}".to_owned(), prefix: String::new(), ..CustomScheme::default() },
        );
        let key = SigningKey::read(SECRET, &scheme, KeyReading::Utf8).expect("a key");
        sign(&scheme, &[key], &Message { id: "", timestamp: 0, url: "", body: content.as_bytes() }).signatures.concat()
    };
    let own = |time: &str, headers: &str| {
        let headers = headers.replace("SIGNATURE", &hmac(&format!("{time}.{BODY}"))).replace("TIME", time);
        format!("POST /hooks HTTP/1.1\nhost: app.example.com\n{headers}\n\n{BODY}")
    };
    for (raw, setting, says) in [
        (
            own("1769851800", "x-own: t=TIME,v1=SIGNATURE"),
            "webhooks.scheme",
            "besides the time, which no setting sends",
        ),
        (own("1769851800123", "x-time: TIME\nx-own: SIGNATURE"), "webhooks.scheme", "its time is in milliseconds"),
        (
            own("2026-01-31T09:30:00Z", "x-time: TIME\nx-own: SIGNATURE"),
            "webhooks.timestamp",
            "its time is in ISO 8601",
        ),
        (
            own("1769851800", "x-time: TIME\nx-own: SIGNATURE\nx-old: 0123456789012345678901234567890123456789"),
            "webhooks.scheme",
            "`x-old` looks like one more signature",
        ),
        (own("1769851800", "x-time: TIME\nx-own: SIGNATURE\ncontent-length: 9999"), "webhooks.custom", "x-own"),
        (
            own("1", "x-own: none\ncontent-length: 9999"),
            "webhooks.scheme",
            "its headers: host, x-own, content-length; the body has 56 of 9999 bytes",
        ),
        (own("1", ""), "ids.style", "`id` is \"msg_1\""),
        (own("1", ""), "time.precision", "`created_at` is \"today\""),
        (own("1", ""), "events.data", "`data` is []"),
    ] {
        let found = &shown(&raw)[setting];
        assert!(format!("{found:?}").replace("\\\"", "\"").contains(says), "{setting}: {found:?} {raw}");
    }
    for broken in
        ["", "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n", "\n\n", ":method: GET\n:path: /\n\n{}", "POST\n\n{}"]
    {
        assert!(CapturedDelivery::read(broken.as_bytes()).is_err(), "{broken}");
    }
}

#[test]
fn a_document_confirms_what_it_says() {
    let set = [
        "events.extra=[\"workflow.failed\"]",
        "rate_limit.retry_after=seconds",
        "subscriptions.secret_field=signing_secret",
    ];
    let layered = Layered::default().with(|draft| set.iter().for_each(|setting| draft.assignment(setting, "test")));
    let layered = layered.expect("a profile");
    let shown = openapi::shows(&document(layered.profile()).to_string()).expect("a document");
    let ledger = wrs_emulator::settings::ledger(&layered);
    let mut known = Vec::new();
    for (setting, found) in &shown.settings {
        let Ok(seen) = found else { continue };
        let row = ledger.iter().find(|row| row.setting == *setting).expect("a setting");
        assert_eq!(seen.value, row.value, "{setting}");
        known.push(*setting);
    }
    for setting in ["events.extra", "rate_limit.retry_after"] {
        assert!(known.contains(&setting), "{setting} is not among {known:?}: {:?}", shown.settings);
    }
    for (text, says) in
        [("openapi: 3.1.0\npaths:\n", "YAML"), ("[1", "not valid JSON"), ("{}", "not an OpenAPI document")]
    {
        assert!(openapi::shows(text).expect_err("it is refused").contains(says), "{text}");
    }
}
