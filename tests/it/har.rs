//! `requests export --har` and `run save FILE.har`: what an archive has of a run, and what it selects. That nothing leaks into it is
//! tested in `redaction`; tests/clients/har.mjs has it checked by another program.

use std::fs;

use serde_json::{Value, json};

use crate::probe_receiver::{self, Does};
use crate::process::{SUBSCRIBE, Served, exchange, request};
use crate::support::{text, wrs_emulator};

const NOON: &str = "2026-01-31T12:00:00.000Z";

/// An emulator whose clock is frozen at noon, in which requests were answered, refused, decided by a rule and cut off, and an event was
/// delivered.
fn served() -> Served {
    let served = Served::start(&["--clock", NOON]);
    let hook = r#"{"url":"https://app.sink.localhost/hooks?a=b","events":["workflow.completed"]}"#;
    request(&served.url, SUBSCRIBE, hook);
    request(
        &served.url,
        "GET /v1/nowhere?a=b+c%21&d&k=sk%255Flive%255Fabcdefgh HTTP/1.1\r\nAuthorization: Bearer sk_test_b",
        "",
    );
    let scripted = "GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer sk_test_b\r\nX-Emulator-Scenario:";
    request(&served.url, &format!("{scripted} always-429"), "");
    request(&served.url, "BREW /%zz\u{202e}", "");
    let head = "POST /v1/events/subscribe HTTP/1.1\r\nAuthorization: Bearer sk_test_b\r\nHost: emulator:9770\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
    exchange(served.address(), [head.as_bytes(), b"\xff\xfe"].concat());
    served.said(&["trigger", "workflow.completed", "--key", "sk_test_local", "--wait"]);
    served
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn exported(served: &Served, options: &[&str]) -> Value {
    served.json(&[&["requests", "export", "--har", "-"], options].concat())
}

fn entries(archive: &Value) -> &[Value] {
    archive["log"]["entries"].as_array().expect("entries")
}

#[test]
fn an_archive_has_each_exchange_with_what_the_emulator_knows_of_it() {
    let served = served();
    let archive = exported(&served, &["--deliveries"]);
    assert_eq!(archive["log"]["version"], "1.2");
    assert_eq!(archive["log"]["creator"], json!({ "name": "wrs-emulator", "version": env!("CARGO_PKG_VERSION") }));
    let [subscribed, missing, limited, garbage, binary, attempt] = entries(&archive) else {
        panic!("not six entries: {archive:#}");
    };
    for entry in entries(&archive) {
        assert_eq!(entry["startedDateTime"], NOON, "by the emulator's clock");
        assert_eq!(entry["time"], entry["timings"]["wait"]);
        assert!(entry["request"]["url"].as_str().is_some_and(|url| url.parse::<hyper::Uri>().is_ok()), "{entry:#}");
    }
    assert_eq!((&subscribed["_operation"], &subscribed["_key"]), (&json!("events.subscribe"), &json!("sk_test_local")));
    assert_eq!(subscribed["request"]["postData"]["mimeType"], "application/json");
    assert_eq!(subscribed["response"]["statusText"], "OK");
    assert!(
        subscribed["connection"].is_string() && subscribed["_id"].as_str().is_some_and(|id| id.starts_with("req_"))
    );

    let start = format!("{}/v1/nowhere?a=b+c%21&d&k=", served.url);
    assert!(missing["request"]["url"].as_str().is_some_and(|url| url.starts_with(&start)), "{missing:#}");
    // Decoding a parameter brings no credential back.
    let parameters = [("a", "b c!"), ("d", ""), ("k", "sk_live_…efgh")];
    let parameters = json!(parameters.map(|(name, value)| json!({ "name": name, "value": value })));
    assert_eq!(missing["request"]["queryString"], parameters);
    assert!(missing["_summary"].as_str().is_some_and(|summary| summary.contains("no endpoint")), "{missing:#}");
    let answer = missing["response"]["content"].clone();
    let body: Value = serde_json::from_str(answer["text"].as_str().expect("a body")).expect("JSON");
    assert_eq!((&body["error"]["code"], &answer["mimeType"]), (&json!("not_found"), &json!("application/json")));
    assert_eq!(answer["size"].as_u64(), answer["text"].as_str().map(|text| text.len() as u64));

    assert_eq!((&limited["response"]["status"], &limited["_scenario"]), (&json!(429), &json!("always-429")));
    assert!(limited["_rule"].is_string() && limited["_line"].is_number(), "{limited:#}");
    let headers = limited["response"]["headers"].as_array().expect("headers");
    assert!(headers.contains(&json!({ "name": "content-type", "value": "application/json" })), "{limited:#}");
    assert_eq!((&garbage["response"]["status"], &garbage["request"]["method"]), (&json!(400), &json!("")));

    assert_eq!(binary["request"]["url"], "http://emulator:9770/v1/events/subscribe", "as the client addressed it");
    assert_eq!(binary["request"]["bodySize"], 2);
    let posted = &binary["request"]["postData"];
    assert_eq!(posted, &json!({ "mimeType": "x-unknown", "text": "//4=", "encoding": "base64" }));

    assert_eq!((&attempt["request"]["method"], &attempt["response"]["status"]), (&json!("POST"), &json!(200)));
    assert_eq!(attempt["request"]["url"], "https://app.sink.localhost/hooks?a=b");
    assert_eq!((&attempt["_type"], &attempt["_attempt"]), (&json!("workflow.completed"), &json!(1)));
    let signature = attempt["request"]["headers"].as_array().expect("headers").iter();
    assert!(signature.clone().any(|header| header["name"] == "webhook-signature"), "{attempt:#}");
}

#[test]
fn an_exchange_without_an_answer_says_why() {
    let served = Served::start(&[
        "--forward=https://app.example.com=http://127.0.0.1:1",
        "--set=webhooks.retry.preset=none",
        "--scenario=magic-keys",
    ]);
    request(&served.url, SUBSCRIBE, r#"{"url":"https://app.example.com/","events":["workflow.completed"]}"#);
    request(&served.url, "GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer sk_test_broken", "");
    served.call(&["trigger", "workflow.completed", "--key", "sk_test_local", "--wait"]);
    let archive = exported(&served, &["--deliveries"]);
    let [_, reset, attempt] = entries(&archive) else { panic!("not three entries: {archive:#}") };
    assert_eq!((&reset["response"]["_error"], &reset["response"]["status"]), (&json!("reset"), &json!(0)));
    assert_eq!((&attempt["response"]["status"], &attempt["_dialled"]), (&json!(0), &json!("http://127.0.0.1:1/")));
    let error = attempt["response"]["_error"].as_str().expect("why");
    assert!(error.starts_with("connection_refused: nothing listens"), "{error}");
}

#[test]
fn a_redirect_of_a_delivery_leads_somewhere() {
    let port = probe_receiver::receiver(|_| Does::Redirects).port();
    let forward = format!("--forward=https://app.example.com=http://127.0.0.1:{port}");
    let served = Served::start(&[&forward, "--set=webhooks.retry.preset=none"]);
    request(&served.url, SUBSCRIBE, r#"{"url":"https://app.example.com/","events":["workflow.completed"]}"#);
    served.call(&["trigger", "workflow.completed", "--key", "sk_test_local", "--wait"]);
    let archive = exported(&served, &["--deliveries"]);
    let [subscribed, attempt] = entries(&archive) else { panic!("not two entries: {archive:#}") };
    assert_eq!(subscribed["response"]["redirectURL"], "");
    assert_eq!(attempt["response"]["redirectURL"], "https://app.example.com/login", "{attempt:#}");
}

#[test]
fn the_selection_is_that_of_the_listing_from_an_emulator_and_from_a_file() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let saved = path(&folder, "run.json");
    assert_eq!(served.call(&["run", "save", &saved]).status.code(), Some(0));
    let late = &["--since", "2026-01-31T12:00:00.001Z"];
    for filter in [
        &[][..],
        &["--key", "sk_test_b"],
        &["--operation", "system.status"],
        &["--status", "404"],
        &["--method", "post"],
        &["--path", "/v1/nowhere"],
        &["--since", "2026-01-31T12:00:00Z"],
        &["--limit", "2"],
        &["--key", "sk_test_local", "--status", "429"],
        late,
    ] {
        let listed = served.json(&[&["requests", "list", "--json"], filter].concat());
        let mut listed: Vec<Value> =
            listed["data"].as_array().expect("rows").iter().map(|row| row["id"].clone()).collect();
        // An archive is in the order of time.
        listed.reverse();
        let archive = exported(&served, filter);
        let ids: Vec<Value> = entries(&archive).iter().map(|entry| entry["_id"].clone()).collect();
        assert_eq!(ids, listed, "{filter:?}");
        assert_eq!(exported(&served, &[filter, &["--from", &saved]].concat()), archive, "{filter:?}");
    }
    let with =
        |filter: &[&str]| entries(&exported(&served, &[filter, &["--status", "599", "--deliveries"]].concat())).len();
    assert_eq!((with(&[]), with(&["--key", "sk_test_b"]), with(late)), (1, 0, 0), "attempts of the same key and time");
    assert_eq!(with(&["--from", &saved, "--key", "sk_test_b"]), 0);
    assert_eq!(with(&["--from", &saved, "--key", "sk_test_local"]), 1);
}

#[test]
fn a_run_is_saved_as_an_archive_and_each_way_writes_the_same_bytes() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let [saved, page, archive, from] = ["run.json", "run.html", "run.HAR", "from.har"].map(|name| path(&folder, name));
    for file in [&saved, &page, &archive] {
        let output = served.call(&["run", "save", file]);
        assert_eq!(text(&output.stdout), "5 requests and 1 delivery saved\n", "{output:?}");
    }
    let whole = fs::read(&archive).expect("the file");
    for source in [&saved, &page] {
        let output = wrs_emulator(&["requests", "export", "--deliveries", "--from", source, "--har", &from]).output();
        assert_eq!(text(&output.expect("the binary runs").stdout), "5 requests and 1 attempt exported\n");
        assert!(fs::read(&from).expect("the file") == whole, "{source}");
    }
    let report = path(&folder, "report.har");
    let output =
        wrs_emulator(&["exec", "--report", &report, "--", "sh", "-c", "curl -s $WRS_BASE_URL/v1/hello"]).output();
    assert_eq!(output.expect("the binary runs").status.code(), Some(0));
    let report: Value = serde_json::from_slice(&fs::read(&report).expect("the file")).expect("JSON");
    assert_eq!(entries(&report)[0]["_operation"], "hello");
}

#[test]
fn what_cannot_be_exported_is_reported_with_what_to_do() {
    let served = served();
    let folder = tempfile::tempdir().expect("a folder");
    let (saved, missing, other) = (path(&folder, "run.json"), path(&folder, "none/a.har"), path(&folder, "other.json"));
    served.call(&["run", "save", &saved]);
    fs::write(&other, "{\"log\":{}}").expect("it is written");
    let damaged = path(&folder, "damaged.json");
    let mut run: Value = serde_json::from_slice(&fs::read(&saved).expect("the file")).expect("JSON");
    run["requests"][0]["id"] = json!(7);
    fs::write(&damaged, run.to_string()).expect("it is written");
    for (options, code, said, hint) in [
        (&["--har", &missing][..], 2, "--har: cannot write", "mkdir -p"),
        (&["--har", "-", "--from", &missing], 2, "cannot use", ""),
        (&["--har", "-", "--from", &other], 2, "it is not a run of wrs-emulator", "run save FILE"),
        (&["--har", "-", "--from", &damaged], 2, "it is not as it was saved", "use wrs-emulator 0."),
        (&["--har", "-", "--from", &saved, "--key", "sk_test_c"], 1, "the run has no `sk_test_c`", "omit --key"),
        (&["--har", "-", "--operation", "helo"], 2, "--operation: there is no `helo`; did you mean `hello`?", ""),
        (&["--har", "-", "--since", "now"], 2, "--since now", "timestamp"),
        (&["--har", "-", "--url", "http://127.0.0.1:1"], 3, "127.0.0.1:1", ""),
        (&[], 2, "--har", ""),
    ] {
        let output = served.call(&[&["requests", "export"], options].concat());
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""), "{options:?}: {stderr}");
        assert!(stderr.contains(said) && stderr.contains(hint), "{options:?}: {stderr}");
    }
    let nothing = served.call(&["requests", "export", "--har", "-", "--status", "599"]);
    let archive: Value = serde_json::from_slice(&nothing.stdout).expect("JSON");
    assert_eq!((nothing.status.code(), entries(&archive).len()), (Some(0), 0));
    assert_eq!(text(&nothing.stderr), "note: no request matches, of 5 requests\n");
}
