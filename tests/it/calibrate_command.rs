//! `calibrate` as people run it: against an emulator, against servers that are not this API, with a captured delivery and a document.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use wrs_emulator::calibrate::delivery::CapturedDelivery;
use wrs_emulator::calibrate::openapi;
use wrs_emulator::contract::signature::{CustomScheme, KeyReading, Message, Scheme, SchemeName, SigningKey, sign};
use wrs_emulator::settings::Layered;
use wrs_emulator::settings::openapi::document;

use crate::support::{builder, started, text, wrs_emulator};

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

fn rows(report: &Value) -> std::collections::BTreeMap<String, Value> {
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
    let cassette = std::fs::read_to_string(folder.path().join("sandbox.cassette.json")).expect("it was written");
    assert!(!cassette.contains(KEY), "{cassette}");

    let again = run(&["--from", "sandbox.cassette.json", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).expect("JSON"), report);
    let shown = text(&run(&["--from", "sandbox.cassette.json"]).stdout);
    assert!(
        shown.contains("observed: differs (2)\n") && shown.contains("rate_limit.requests = 70; assumed: 100"),
        "{shown}"
    );

    let refused = run(&[&url, "--pause", "0s"]);
    assert_eq!(refused.status.code(), Some(2), "nothing is overwritten");
    assert!(text(&refused.stderr).contains("`sandbox.toml` exists"), "{}", text(&refused.stderr));
    let same = run(&[&url, "--pause", "0s", "--check", "sandbox.toml"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    std::fs::write(folder.path().join("other.toml"), profile.replace("= 70", "= 71")).expect("a file");
    let drifted = run(&[&url, "--pause", "0s", "--check", "other.toml"]);
    assert_eq!(drifted.status.code(), Some(1));
    assert!(text(&drifted.stderr).contains("rate_limit.requests: was 71, is 70"), "{}", text(&drifted.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_leaves_what_was_seen_until_then() {
    let emulator = started(builder()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = wrs_emulator(&["calibrate", &emulator.base_url(), "--pause", "30s"]);
    let mut child = command
        .current_dir(folder.path())
        .env("WRS_API_KEY", KEY)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    assert!(lines.next().expect("a line").expect("text").contains("call 1"));
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("it was interrupted") && shown.contains("not reached"), "{shown}");
    assert!(folder.path().join("sandbox.cassette.json").exists());
}

/// A server that answers each connection by its first request, and what it was sent.
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
        ("garbage", 2, "does not answer", Box::new(|_, stream| drop(stream.write_all(b"\x16\x03\x01 what?\r\n\r\n")))),
        ("nothing", 2, "does not answer", Box::new(|_, _| {})),
        (
            "10 MB",
            1,
            "not the Workflow Reference Service API",
            Box::new(|_, stream| write(stream, "200 OK", "", &"x".repeat(10_000_000))),
        ),
        (
            "a byte a second",
            2,
            "no whole answer within 10 s",
            Box::new(|_, stream| {
                for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" {
                    let _ = stream.write_all(&[*byte]);
                    std::thread::sleep(Duration::from_secs(1));
                }
            }),
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
    assert!(!text(&output.stdout).contains("not kept"), "the key may be the wrong one: {}", text(&output.stdout));

    let (output, _) = of_stranger(move |head, stream| {
        greets(head, stream);
    });
    let shown = text(&output.stdout);
    assert!(shown.contains("had no answer") && shown.contains("hello.body = {}"), "{shown}");
}

/// A delivery as it is sent under these settings.
fn raw(scheme: &Scheme, reading: KeyReading, body: &str) -> String {
    let key = SigningKey::read(SECRET, scheme, reading).expect("a key");
    let message =
        Message { id: "evt_1", timestamp: 1_769_851_800, url: "https://app.example.com/hooks", body: body.as_bytes() };
    let headers = sign(scheme, &[key], &message).headers;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST /hooks HTTP/1.1\r\nHost: app.example.com\r\nContent-Type: application/json\r\n{headers}\r\n{body}")
}

#[test]
fn a_delivery_shows_the_scheme_that_signed_it() {
    const BODY: &str = r#"{"id":"evt_1","type":"workflow.completed","created_at":"2026-01-31T09:30:00Z","data":{}}"#;
    for name in SchemeName::ALL.into_iter().filter(|name| *name != SchemeName::Custom) {
        let scheme = Scheme::new(name, &CustomScheme::default());
        for reading in [KeyReading::Base64, KeyReading::Utf8, KeyReading::Utf8WithPrefix] {
            // As it was sent, and as an editor saves it.
            for text in [raw(&scheme, reading, BODY), raw(&scheme, reading, BODY).replace("\r\n", "\n") + "\n"] {
                let shown = CapturedDelivery::read(text.as_bytes()).expect("a request").shows(SECRET);
                let seen = shown.settings["webhooks.scheme"].as_ref().expect("it verifies");
                assert_eq!(seen.value, name.name(), "{text}");
                if let Ok(seen) = &shown.settings["webhooks.secret_key"] {
                    let expected = serde_json::to_value(reading).expect("JSON");
                    assert_eq!(seen.value, expected, "{name} {text}");
                }
            }
        }
    }
    for (content, prefix) in [("{timestamp}.{body}", "v9="), ("{body}", ""), ("{id}.{timestamp}.{body}", "sha256=")] {
        let own = CustomScheme {
            id_header: "x-wrs-id".to_owned(),
            timestamp_header: "x-wrs-time".to_owned(),
            signature_header: "x-wrs-signature".to_owned(),
            content: content.to_owned(),
            prefix: prefix.to_owned(),
            key: KeyReading::Base64,
            ..CustomScheme::default()
        };
        let text = raw(&Scheme::new(SchemeName::Custom, &own), KeyReading::Auto, BODY);
        let shown = CapturedDelivery::read(text.as_bytes()).expect("a request").shows(SECRET);
        let found: CustomScheme =
            serde_json::from_value(shown.settings["webhooks.custom"].as_ref().expect("it verifies").value.clone())
                .expect("a scheme");
        assert_eq!(found, own);
    }
    let other = CapturedDelivery::read(
        raw(&Scheme::new(SchemeName::Stripe, &CustomScheme::default()), KeyReading::Auto, BODY).as_bytes(),
    );
    let shown = other.expect("a request").shows("whsec_b3RoZXI=");
    assert!(shown.settings["webhooks.scheme"].is_err());
    for broken in ["", "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n", "\n\n"] {
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
    for setting in ["events.extra", "rate_limit.retry_after", "preview.enabled"] {
        assert!(known.contains(&setting), "{setting} is not among {known:?}: {:?}", shown.settings);
    }
    for (text, says) in
        [("openapi: 3.1.0\npaths:\n", "YAML"), ("[1", "not valid JSON"), ("{}", "not an OpenAPI document")]
    {
        assert!(openapi::shows(text).expect_err("it is refused").contains(says), "{text}");
    }
}
