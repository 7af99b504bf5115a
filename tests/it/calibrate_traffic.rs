//! `calibrate --from` with what browsers and proxies recorded, and with traffic of any kind: what answers show is found, and nothing else is
//! claimed. The files were recorded of emulators whose settings are named here.

use std::process::Output;

use jiff::Timestamp;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use wrs_emulator::lab::calibrate::call_log::CallLog;
use wrs_emulator::lab::calibrate::report::Report;
use wrs_emulator::settings::Layered;

use crate::calibrate::{Random, expected, layered, profiles, row};
use crate::support::{Client, builder, started, text, wrs_emulator};

/// A recording, the settings of the emulator, the rows that it shows besides them, and what showed nothing.
struct Recording {
    har: &'static str,
    set: [&'static str; 4],
    also: &'static [&'static str],
    unused: &'static str,
}

/// By mitmproxy 11.0, of curl; `Authorization` is in it.
const PROXY: Recording = Recording {
    har: include_str!("../calibrate/mitmproxy.har"),
    set: [
        "errors.codes.validation_error=invalid_request",
        "rate_limit.requests=6",
        "rate_limit.retry_after=seconds",
        "subscriptions.secret_field=signing_secret",
    ],
    also: &[
        "environment",
        "errors.details",
        "rate_limit.enabled",
        "rate_limit.header_names",
        "rate_limit.reset",
        "rate_limit.ietf",
        "ids.style",
        "ids.request_header",
        "errors.extra",
    ],
    unused: "2 calls showed nothing: GET /v1/hello, GET http://127.0.0.1:19772/",
};

/// In the form of Chromium's developer tools, which leave `Authorization` out: a page that polls, with a file from the cache and a call that
/// was aborted.
const BROWSER: Recording = Recording {
    har: include_str!("../calibrate/chromium.har"),
    set: ["errors.details=list", "ids.request_header=X-Request-Id", "rate_limit.requests=60", "rate_limit.reset=delta"],
    also: &[
        "environment",
        "errors.codes",
        "rate_limit.enabled",
        "rate_limit.header_names",
        "rate_limit.ietf",
        "ids.style",
    ],
    unused: "3 calls showed nothing: GET /v1/system/status, GET https://app.example.com/, GET https://app.example.com/app.js",
};

fn calibrate(arguments: &[&str]) -> Output {
    wrs_emulator(&[&["calibrate"], arguments].concat()).output().expect("the binary runs")
}

#[test]
fn what_a_browser_or_a_proxy_recorded_shows_four_settings_and_guesses_nothing() {
    for Recording { har, set, also, unused } in [PROXY, BROWSER] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (recording, profile) = (path("recording.har"), path("found.toml"));
        std::fs::write(&recording, har).expect("a file");
        let output = calibrate(&["--from", &recording, "--out", &profile, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["stopped"], Value::Null);
        assert_eq!(report["broken"], json!([]));
        let notes = report["notes"].as_array().expect("notes");
        assert_eq!(notes.last().expect("a note"), unused);
        let set = layered(&set.map(str::to_owned));
        let differs: Vec<&str> = differing(&report);
        let changed: Vec<String> = wrs_emulator::settings::ledger(&set)
            .into_iter()
            .filter(|row| row.source != "default")
            .map(|row| row.setting.into_owned())
            .collect();
        assert_eq!(differs, changed);
        let observed: Vec<&str> = names(&report, |row| row.get("observed").is_some());
        for setting in also {
            assert!(observed.contains(setting), "{setting}: {observed:?}");
        }
        // Everything that it claims is what the emulator had.
        let call_log = CallLog::from_har(har.as_bytes()).expect("an archive");
        claims_only(&call_log, &set);
        let checked = calibrate(&["--from", &recording, "--check", &profile]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        let written = std::fs::read_to_string(&profile).expect("a profile");
        for credential in ["sk_test_of_my_program", "whsec_z1TueNv"] {
            assert!(!written.contains(credential) && !text(&output.stdout).contains(credential), "{written}");
        }
    }
}

fn names(report: &Value, is_shown: impl Fn(&Value) -> bool) -> Vec<&str> {
    let rows = report["data"].as_array().expect("rows").iter();
    rows.filter(|row| is_shown(row)).map(|row| row["setting"].as_str().expect("a name")).collect()
}

fn differing(report: &Value) -> Vec<&str> {
    names(report, |row| row["differs"] == true)
}

fn claims_only(call_log: &CallLog, set: &Layered) {
    let report = Report::new(call_log, &[], &Layered::default());
    for row in &report.data {
        if let Some(observed) = &row.observed {
            assert_eq!(*observed, expected(row, set), "{}: {}", row.setting, row.detail);
        }
    }
    assert!(report.broken.is_empty(), "{:?}", report.broken);
}

/// A call as a recording has it.
fn entry(at: &str, method: &str, url: &str, key: Option<&str>, body: &str, answer: (u16, Value, Value)) -> Value {
    let headers = key.map(|key| json!({ "name": "Authorization", "value": format!("Bearer {key}") }));
    let posted = json!({ "mimeType": "application/json", "text": body });
    let (status, answer_headers, answer_body) = answer;
    json!({
        "startedDateTime": at,
        "time": 5,
        "request": {
            "method": method,
            "url": url,
            "headers": Vec::from_iter(headers),
            "postData": if body.is_empty() { Value::Null } else { posted },
        },
        "response": { "status": status, "headers": answer_headers, "content": { "text": answer_body.to_string() } },
    })
}

fn archive(entries: &[Value]) -> String {
    json!({ "log": { "version": "1.2", "entries": entries } }).to_string()
}

fn read(entries: &[Value]) -> Report {
    let call_log = CallLog::from_har(archive(entries).as_bytes()).expect("an archive");
    Report::new(&call_log, &[], &Layered::default())
}

const AT: &str = "2026-01-31T09:30:00.000Z";
const STATUS: &str = "https://sandbox.example.com/v1/system/status";
const SUBSCRIBE: &str = "https://sandbox.example.com/v1/events/subscribe";

fn status() -> (u16, Value, Value) {
    (200, json!([]), json!({ "ok": true, "environment": "sandbox", "version": "v1.0", "checked_at": AT }))
}

fn subscription(id: &str, further: &Value) -> (u16, Value, Value) {
    let mut body =
        json!({ "id": id, "url": "https://app.example.com/", "events": [], "status": "active", "created_at": AT });
    for (name, value) in further.as_object().expect("fields") {
        body[name] = value.clone();
    }
    (200, json!([]), body)
}

fn asked(further: &Value) -> String {
    let mut body = json!({ "url": "https://app.example.com/", "events": ["workflow.completed"] });
    for (name, value) in further.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body.to_string()
}

/// What a subscription shows of its secret depends on what was asked, and on whether it was there before.
#[test]
fn a_secret_is_only_found_where_an_answer_shows_it() {
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let none = json!({});
    let supplied = json!({ "secret": SECRET });
    let (named, long) = (json!({ "signing_secret": SECRET }), json!({ "owner": "acc_0123456789abcdef" }));
    let other = json!({ "secret": "whsec_another_0123456789" });
    for (asked_with, answered_with, field, echo) in [
        (&none, &named, Some("signing_secret"), None),
        (&supplied, &supplied, Some("secret"), Some(true)),
        (&supplied, &named, Some("signing_secret"), Some(true)),
        (&supplied, &none, None, Some(false)),
        (&supplied, &other, None, Some(false)),
        // It was subscribed before; the other text is no secret.
        (&none, &none, None, None),
        (&none, &long, None, None),
        (&long, &long, None, None),
    ] {
        let call = entry(
            AT,
            "POST",
            SUBSCRIBE,
            Some("sk_test_a_key"),
            &asked(asked_with),
            subscription("sub_1", answered_with),
        );
        let report = read(&[call]);
        let field = field.map(Value::from);
        assert_eq!(row(&report, "subscriptions.secret_field").observed, field, "{asked_with} {answered_with}");
        let echo = echo.map(Value::from);
        assert_eq!(row(&report, "subscriptions.echo_secret").observed, echo, "{asked_with} {answered_with}");
        let shown = serde_json::to_string(&report).expect("JSON");
        assert!(!shown.contains(SECRET) && !shown.contains("sk_test_a_key"), "{shown}");
        assert_eq!(row(&report, "subscriptions.secret_field").clause, None);
    }
    let again = |id: &str, url: &str| {
        let body = asked(&none).replace("https://app.example.com/", url);
        entry(AT, "POST", SUBSCRIBE, Some("sk_test_a_key"), &body, subscription(id, &none))
    };
    let delete = entry(AT, "DELETE", SUBSCRIBE, Some("sk_test_a_key"), "", (200, json!([]), json!({})));
    for (calls, shows) in [
        (vec![again("sub_1", "https://a.example/"), again("sub_1", "https://a.example/")], Some("url")),
        (vec![again("sub_1", "https://a.example/"), again("sub_2", "https://a.example/")], Some("never")),
        (vec![again("sub_1", "https://a.example/"), again("sub_2", "https://b.example/")], None),
        (vec![again("sub_1", "https://a.example/"), delete, again("sub_2", "https://a.example/")], None),
    ] {
        assert_eq!(row(&read(&calls), "subscriptions.upsert").observed, shows.map(Value::from));
    }
}

/// The calls of the service are those to where most calls of the API go; of the keys, the one of most calls is the one whose quota it is.
#[test]
fn services_and_keys_are_told_apart() {
    let quota = |rest: &str| {
        let headers = [("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", rest)];
        json!(headers.map(|(name, value)| json!({ "name": name, "value": value })))
    };
    let call = |key, rest: &str| entry(AT, "GET", STATUS, key, "", (200, quota(rest), status().2));
    let other =
        json!([{ "name": "X-RateLimit-Limit", "value": "5" }, { "name": "X-RateLimit-Remaining", "value": "4" }]);
    let production = "https://api.example.com/v1/system/status";
    let of_other = entry(AT, "GET", production, Some("sk_live_other_key"), "", (200, other.clone(), status().2));
    let of_other_key = entry(AT, "GET", STATUS, Some("sk_test_other_key"), "", (200, other, status().2));
    let mine = Some("sk_test_mine_0123");
    let report = read(&[of_other, of_other_key, call(mine, "59"), call(mine, "58"), call(mine, "57")]);
    assert_eq!(report.url, "https://sandbox.example.com");
    assert_eq!(row(&report, "rate_limit.requests").observed, Some(60.into()));
    assert_eq!(row(&report, "keys.mode").observed, None, "another key that is valid shows nothing");
    let unused = "2 calls showed nothing: GET /v1/system/status, GET https://api.example.com/v1/system/status";
    assert_eq!(report.notes.last().expect("a note"), unused);
    // Masked keys may be several.
    for masked in [None, Some("sk_test_…cdef"), Some("***")] {
        let report = read(&[call(masked, "59"), call(masked, "58"), call(masked, "57")]);
        assert_eq!(row(&report, "rate_limit.requests").observed, Some(60.into()));
        let detail = &row(&report, "rate_limit.count").detail;
        assert_eq!(detail, "the recording does not show which calls have the same key", "{masked:?}");
    }
}

#[test]
fn what_is_no_recording_of_the_api_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.har").display().to_string();
    let elsewhere = archive(&[entry(AT, "GET", "https://a.example/v1/orders", None, "", status())]);
    let odd_time = archive(&[entry("yesterday", "GET", STATUS, None, "", status())]);
    let keys: Vec<Value> =
        (10..50).map(|at| entry(AT, "GET", STATUS, Some(&format!("sk_test_key_{at}")), "", status())).collect();
    for (content, says) in [
        ("", "it is not an HTTP Archive (HAR 1.2): EOF while parsing a value at line 1 column 0"),
        ("{}", "it is not an HTTP Archive (HAR 1.2): missing field `log` at line 1 column 2"),
        ("{\"log\":{\"entries\":[{}]}}", "missing field `startedDateTime` at line 1 column 21"),
        (
            "{\"log\":{\"entries\":[]}}",
            "it has no call of the API: expected requests such as `GET https://…/v1/system/status`",
        ),
        (&elsewhere, "it has no call of the API"),
        (
            &odd_time,
            "log.entries[0].startedDateTime: expected a time such as 2026-01-31T09:30:00.000Z, found `yesterday`",
        ),
        (&archive(&keys), "it has more than 32 keys and secrets; record fewer at a time"),
    ] {
        std::fs::write(&path, content).expect("a file");
        let output = calibrate(&["--from", &path]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
        assert!(said.contains("hint: record calls of the API with `calibrate --record FILE.har`"), "{said}");
    }
    let both = calibrate(&["--from", &path, "--record", "y.har"]);
    assert_eq!(both.status.code(), Some(2), "a recording is not copied");
}

/// Clients of any kind at emulators with profiles of any kind, with and without keys in the recording.
#[tokio::test]
async fn traffic_of_any_client_claims_nothing_wrong() {
    const BEGIN: Timestamp = Timestamp::constant(1_769_851_817, 0);
    let mut observed = 0;
    for seed in 0..profiles() {
        let Random { settings, key, .. } = Random::new(2_000 + seed);
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let builder =
            settings.iter().fold(builder().frozen_at(BEGIN).seed(seed), |builder, setting| builder.set(setting));
        let emulator = started(builder).await;
        let (mut client, mut at, mut entries) = (Client::new(&emulator), BEGIN, Vec::new());
        let has_keys = random.random_bool(0.7);
        for _ in 0..random.random_range(1..60) {
            let (method, target, body) = random_call(random);
            let sent = [Some(key.as_str()), Some(key.as_str()), Some(key.as_str()), Some("wrong_key_0123"), None];
            let sent = *sent.choose(random).expect("some");
            let authorization = sent.map(|key| format!("Bearer {key}"));
            let mut headers: Vec<_> = authorization.iter().map(|text| ("authorization", text.as_str())).collect();
            headers.extend((method == "POST").then_some(("content-type", "application/json")));
            let found = client.send(method, &target, &headers, body.clone()).await;
            let answer_headers: Vec<Value> = found
                .headers
                .iter()
                .map(|(name, value)| json!({ "name": name.as_str(), "value": value.to_str().expect("text") }))
                .collect();
            let answer = serde_json::from_slice(&found.body).unwrap_or_default();
            let url = format!("https://sandbox.example.com{target}");
            let sent = sent.filter(|_| has_keys);
            entries.push(entry(
                &at.to_string(),
                method,
                &url,
                sent,
                &body,
                (found.status, json!(answer_headers), answer),
            ));
            let pause = std::time::Duration::from_millis(random.random_range(1..5_000));
            emulator.control().advance(pause).await;
            at += pause;
        }
        let Ok(call_log) = CallLog::from_har(archive(&entries).as_bytes()) else { continue };
        let report = Report::new(&call_log, &[], &Layered::default());
        let set = layered(&settings);
        for row in &report.data {
            if let Some(value) = &row.observed {
                observed += 1;
                assert_eq!(*value, expected(row, &set), "{} in {}: {settings:#?}", row.setting, archive(&entries));
            }
        }
        let is_set = |clause: &str| clause.ends_with("unauthorized") && settings.concat().contains("unauthorized");
        let broken: Vec<_> = report.broken.iter().filter(|broken| !is_set(broken.clause)).collect();
        assert!(broken.is_empty(), "{broken:?}: {settings:#?}");
    }
    assert!(observed > 5 * profiles(), "{observed} values");
}

fn random_call(random: &mut ChaCha8Rng) -> (&'static str, String, String) {
    const TARGETS: [&str; 9] = [
        "/v1/hello",
        "/v1/system/status",
        "/v1/system/status",
        "/v1/system/status?include_checks=true",
        "/v1/system/status?include_checks=1",
        "/v1/system/status?include_checks=perhaps",
        "/v1/system/status?_=1",
        "/v1/references?limit=5",
        "/v1/workflows",
    ];
    if random.random_bool(0.6) {
        return ("GET", (*TARGETS.choose(random).expect("some")).to_owned(), String::new());
    }
    let url = [
        "https://a.example/",
        "https://a.example/",
        "https://b.example/x",
        "http://a.example/",
        "ftp://a.example/",
        "x",
    ];
    let events: [&[&str]; 4] = [&["workflow.completed"], &["workflow.completed"], &[], &["order.lost"]];
    let mut body = json!({ "url": url.choose(random).expect("some"), "events": events.choose(random).expect("some") });
    if random.random_bool(0.3) {
        body["secret"] =
            ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_another_secret", "short"].choose(random).copied().into();
    }
    if random.random_bool(0.3) {
        body["description"] = "a-description-of-some-length".into();
    }
    let body = if random.random_bool(0.1) { "{\"url\":".to_owned() } else { body.to_string() };
    ("POST", "/v1/events/subscribe".to_owned(), body)
}
