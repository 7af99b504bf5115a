//! What leaves for display: test keys whole, live keys and secrets masked, and no character that drives a terminal.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::process::{STATUS, SUBSCRIBE, Served, exchange, request};
use crate::support::{ask, control, finish, run, send, start, subscribe_sink, text, view, wrs_emulator};
use crate::wire::peer::Peer;

/// What must never be shown, each sent in another place.
const HIDDEN: [&str; 14] = [
    "sk_live_inquery",
    "sk_live_inpath",
    "sk_live_inbody",
    "sk_live_inheader",
    "sk_live_inbearer",
    "sk_live_inapikey",
    "sk_live_encoded",
    "hiddencookie",
    "hiddenbasic",
    "hiddenpassword",
    "hiddennested",
    "hiddendeep",
    "hiddentoken",
    "whsec_aGlkZGVu",
];

/// Requests that carry each of [`HIDDEN`], and an event that does; gives a signing secret that was made.
async fn send_everything(emulator: &Emulator) -> String {
    let headers = |authorization: &'static str| {
        [
            ("authorization", authorization),
            ("proxy-authorization", "Basic hiddenbasic"),
            ("x-api-key", "sk_live_inapikey1234"),
            ("cookie", "session=hiddencookie"),
            ("x-other", "sk_live_inheader1234"),
            ("referer", "https://user:hiddenpassword@host/"),
            ("content-type", "application/json"),
        ]
    };
    let path = "/v1/system/status?k=sk_live_inquery1234&e=sk%5Flive_encoded1234&token=hiddentoken&u=https%3A%2F%2Fu%3Ahiddenpassword%40h";
    send(emulator, "GET", path, &headers("Bearer sk_test_local"), "").await;
    send(emulator, "GET", path, &headers("Bearer sk_live_inbearer1234"), "").await;
    send(emulator, "GET", "/nowhere/sk_live_inpath1234", &headers("Basic hiddenbasic"), "").await;
    let body = json!({
        "url": "https://user:hiddenpassword@host/",
        "events": ["sk_live_inbody1234"],
        "secret": "hiddennested",
        "description": { "deep": [{ "client_secret": "hiddendeep" }], "text": "whsec_aGlkZGVu", "password": { "a": "hiddendeep" } },
    });
    for authorization in ["Bearer sk_test_local", "Bearer sk_live_inbearer1234"] {
        send(emulator, "POST", "/v1/events/subscribe", &headers(authorization), body.to_string()).await;
    }
    let made = subscribe_sink(emulator, "app").await;
    let data = json!({ "note": "sk_live_inbody1234 whsec_aGlkZGVu", "nested": { "access_token": "hiddendeep" }, "link": "https://u:hiddenpassword@h" });
    ask(emulator, "POST", "events?wait=15s", &json!({ "type": "workflow.completed", "data": data })).await;
    let unmatched = json!({ "type": "sk_live_inbody1234" });
    control(emulator, "POST", "events", &unmatched).await;
    emulator.control().note("a notice about https://u:hiddenpassword@h, sk_live_inpath1234 and whsec_aGlkZGVu");
    made["secret"].as_str().expect("a secret").to_owned()
}

fn assert_hidden(shown: &str, place: &str) {
    for hidden in HIDDEN {
        assert!(!shown.contains(hidden), "{place} shows `{hidden}`: {shown}");
    }
}

async fn ids(emulator: &Emulator, path: &str) -> Vec<String> {
    let rows = view(emulator, path).await;
    rows["data"].as_array().expect("rows").iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn everything_that_the_control_api_shows_is_masked_and_test_keys_are_whole() {
    let emulator = start().await;
    let secret = send_everything(&emulator).await;
    let mut paths: Vec<String> = [
        "requests?key=*",
        "deliveries?key=*",
        "subscriptions?key=*",
        "verdict",
        "sink/app",
        "scenarios",
        "profile",
        "run",
        "report.html",
        "run?key=sk_test_local",
    ]
    .map(str::to_owned)
    .to_vec();
    for id in ids(&emulator, "requests?key=*").await {
        paths.extend([format!("requests/{id}"), format!("explain/{id}")]);
    }
    for id in ids(&emulator, "deliveries?key=*").await {
        paths.extend([format!("deliveries/{id}"), format!("explain/{id}")]);
    }
    let mut shown = String::new();
    for path in paths {
        let answer = control(&emulator, "GET", &path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let body = text(&answer.body);
        assert_hidden(&body, &path);
        assert!(!body.contains(&secret), "{path} shows a signing secret: {body}");
        shown.push_str(&body);
        let plain = [("accept", "text/plain")];
        let answer = send(&emulator, "GET", &format!("/_emulator/{path}"), &plain, "").await;
        assert_hidden(&text(&answer.body), &format!("{path} as text"));
    }
    // Also answers to changes.
    let id = &ids(&emulator, "subscriptions?key=*").await[0];
    for (method, path, body) in [
        ("PUT", format!("subscriptions/{id}"), json!({ "description": "client_secret=hiddennested" })),
        (
            "POST",
            "outcome".to_owned(),
            json!({ "test": "{\"password\":\"hiddenpassword\"}", "outcome": "failed", "message": "client_secret=hiddennested" }),
        ),
    ] {
        for accept in ["application/json", "text/plain"] {
            let headers = [("accept", accept), ("content-type", "application/json")];
            let answer = send(&emulator, method, &format!("/_emulator/{path}"), &headers, body.to_string()).await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_hidden(&text(&answer.body), &format!("{method} {path} as {accept}"));
        }
    }
    for whole in [
        "\"key\":\"sk_test_local\"",
        "Bearer sk_test_local",
        "Bearer sk_live_…1234",
        "sk_live_…1234",
        "session=…",
        "https://***@host/",
    ] {
        assert!(shown.contains(whole), "`{whole}` is not shown");
    }
    emulator.control().note("the last of all");
    let view = "GET /_emulator/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n";
    let stream = Peer::sending(&emulator, view).await.until("the last of all").await;
    assert!(
        stream.contains("event: attempt")
            && stream.contains("event: notice")
            && stream.contains("\"key\":\"sk_test_local\""),
        "{stream}"
    );
    assert_hidden(&stream, "the stream");
    for (path, body) in [
        ("events", json!({ "type": "x", "key": "sk_live_inbody1234" })),
        ("requests/wait", json!({ "path": "/nowhere/else", "timeout": "0s" })),
        ("deliveries/wait", json!({ "status": "exhausted", "timeout": "0s" })),
    ] {
        let refused = control(&emulator, "POST", path, &body).await;
        assert!(refused.status >= 400, "{path}: {refused:?}");
        assert_hidden(&text(&refused.body), path);
    }
}

#[tokio::test]
async fn an_archive_shows_no_credential_encoded_or_not() {
    let emulator = start().await;
    send_everything(&emulator).await;
    let url = emulator.base_url();
    let export =
        || wrs_emulator(&["requests", "export", "--har", "-", "--deliveries"]).env("WRS_EMULATOR_URL", url).output();
    let output = tokio::task::spawn_blocking(export).await.expect("it ends").expect("the binary runs");
    let shown = text(&output.stdout);
    let archive: Value = serde_json::from_str(&shown).expect("JSON");
    assert!(archive["log"]["entries"].as_array().is_some_and(|entries| entries.len() >= 6), "{output:?}");
    assert_hidden(&shown, "the archive");
    assert_hidden(&percent_encoding::percent_decode_str(&shown).decode_utf8_lossy(), "the archive, decoded");
    assert!(shown.contains("Bearer sk_test_local") && shown.contains("sk_live_%E2%80%A61234"), "{shown}");
}

/// The prefixes of the contract are not those of every service.
#[test]
fn commands_mask_by_the_prefixes_in_force() {
    const KEY: &str = "pk-abcdefghijklmnop";
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("run.json").display().to_string();
    let settings = ["--set", "keys.live_prefix=pk-", "--set", "keys.test_prefix=tk-", "--set", "keys.mode=any"];
    let script = format!("curl -s $WRS_BASE_URL/v1/none; echo said {KEY}; exit 3");
    let command = [&["exec", "--report", &report], &settings[..], &["--", "sh", "-c", &script]].concat();
    run(&command);
    let written = std::fs::read_to_string(&report).expect("a report");
    assert!(written.contains("said pk-") && !written.contains(KEY), "{written}");
    // Of a saved run, those that it shows, although somebody edited it.
    let edited = written.replacen("said pk-", &format!("said {KEY} pk-"), 1);
    std::fs::write(&report, edited.replace("\"summary\":\"", &format!("\"summary\":\"{KEY} "))).expect("it is written");
    for arguments in [&["verdict", "--json"][..], &["requests", "export", "--har", "-"]] {
        let output = run(&[arguments, &["--from", &report]].concat());
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(!shown.is_empty() && !shown.contains(KEY), "{arguments:?}: {shown}");
    }
    // Of a running emulator, its own.
    let served = Served::start(&[&["--quiet"], &settings[..]].concat());
    let output = finish(&mut wrs_emulator(&["doctor", "--url", &served.url, "--key", KEY]));
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(shown.contains("pk-…mnop") && !shown.contains(KEY), "{shown}");
}

/// The command of `exec`, or a person, may change the prefixes meanwhile: what was a live key before is masked, and what is one since.
#[test]
fn exec_masks_by_the_prefixes_before_and_after_a_change() {
    const KEYS: [&str; 2] = ["pk-abcdefghijklmnop", "zk-abcdefghijklmnop"];
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("run.json").display().to_string();
    let settings = ["--set", "keys.live_prefix=pk-", "--set", "keys.test_prefix=tk-", "--set", "keys.mode=any"];
    let script = format!(
        "curl -sf -X PATCH -H 'Content-Type: application/json' -d '{{\"keys\":{{\"live_prefix\":\"zk-\"}}}}' \
         $WRS_EMULATOR_URL/_emulator/profile >/dev/null || exit 9; echo said {} {}; exit 3",
        KEYS[0], KEYS[1]
    );
    let command = [&["exec", "--report", &report], &settings[..], &["--", "sh", "-c", &script]].concat();
    run(&command).exits(3);
    let written = std::fs::read_to_string(&report).expect("a report");
    assert!(written.contains("said pk-…mnop zk-…mnop"), "{written}");
    assert!(!KEYS.iter().any(|key| written.contains(key)), "{written}");
}

/// `listen` names the key whose events it receives.
#[test]
fn listen_masks_its_key_as_the_emulator_does() {
    const KEY: &str = "pk-abcdefghijklmnop";
    let settings = ["--set", "keys.live_prefix=pk-", "--set", "keys.test_prefix=tk-", "--set", "keys.mode=any"];
    let served = Served::start(&[&["--quiet"], &settings[..]].concat());
    let arguments =
        ["listen", "--listen", "127.0.0.1:0", "--url", &served.url, "--key", KEY, "--forward-to", "localhost:1"];
    let mut listening = Served::spawn(&mut wrs_emulator(&arguments));
    let line = listening.line();
    assert!(line.starts_with("ready: forwarding events for pk-…mnop, by sub_"), "{line}");
    let (_, said) = listening.stop();
    assert!(!said.contains(KEY), "{said}");
}

#[tokio::test]
async fn masking_follows_the_prefixes_of_the_profile() {
    let emulator = crate::support::start_with(&["keys.live_prefix=pk-", "keys.test_prefix=tk-", "keys.mode=any"]).await;
    for key in ["pk-abcdefgh", "tk-abcdefgh", "sk_live_abcdefgh"] {
        crate::support::get_as(&emulator, key, &format!("/v1/system/status?k={key}")).await;
    }
    let rows = view(&emulator, "requests?key=*").await;
    let shown: Vec<_> =
        rows["data"].as_array().expect("rows").iter().map(|row| (row["key"].clone(), row["query"].clone())).collect();
    let expected = ["…efgh", "tk-abcdefgh", "pk-…efgh"].map(Value::from);
    assert_eq!(shown.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(shown[1].1, "k=tk-abcdefgh");
    assert!(shown[0].1 == "k=sk_live_…efgh" && shown[2].1 == "k=pk-…efgh", "{shown:?}");
}

/// Characters that must reach no terminal and no log as they are.
fn drives_a_terminal(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const ODD: &str = "\u{202e}\u{9b}31m\u{85}\u{2028}\u{2066}\u{200f}\u{61c}\u{7f}";

#[test]
fn no_character_that_drives_a_terminal_reaches_log_or_listings() {
    for format in ["text", "json"] {
        let served = Served::start(&["--log", format]);
        let odd =
            format!("GET /v1/hello?a={ODD} HTTP/1.1\r\nHost: localhost\r\nX-Odd: {ODD}\r\nConnection: close\r\n\r\n");
        exchange(served.address(), odd);
        let hook =
            json!({ "url": "https://app.sink.localhost/x", "events": ["workflow.completed"], "description": ODD })
                .to_string();
        request(&served.url, SUBSCRIBE, &hook);
        let wrong = json!({ "url": "https://app.sink.localhost/x", "events": [ODD] }).to_string();
        request(&served.url, SUBSCRIBE, &wrong);
        let event = format!("workflow_id={ODD}");
        served.call(&["trigger", "workflow.completed", "--data", &event, "--wait"]);
        let mut calls: Vec<Vec<String>> = [
            &["requests", "list"][..],
            &["deliveries", "list"],
            &["subscriptions", "list"],
            &["verdict"],
            &["explain", ODD],
            &["scenarios", "use", ODD],
        ]
        .iter()
        .map(|call| call.iter().map(|part| (*part).to_owned()).collect())
        .collect();
        for (listing, of) in [("requests", "data"), ("deliveries", "data"), ("subscriptions", "data")] {
            for row in served.json(&[listing, "list", "--json"])[of].as_array().expect("rows") {
                let id = row["id"].as_str().expect("an id").to_owned();
                calls.push(vec![listing.to_owned(), "show".to_owned(), id.clone()]);
                if listing != "subscriptions" {
                    calls.push(vec!["explain".to_owned(), id]);
                }
            }
        }
        for call in calls {
            for json in [false, true] {
                let mut arguments: Vec<&str> = call.iter().map(String::as_str).collect();
                if json && call[0] != "verdict" {
                    arguments.push("--json");
                }
                let output = served.call(&arguments);
                let shown = text(&output.stdout) + &text(&output.stderr);
                assert!(!shown.is_empty() && !shown.contains(drives_a_terminal), "{arguments:?}: {shown:?}");
            }
        }
        let (code, log) = served.stop();
        assert!(code == Some(0) && log.contains("/v1/events/subscribe"), "{log}");
        assert!(!log.contains(drives_a_terminal), "{format}: {log:?}");
    }
}

#[test]
fn logs_and_messages_of_the_command_line_are_masked() {
    for format in ["text", "json"] {
        let served = Served::start(&["--log", format]);
        let head = "GET /v1/hello?k=sk_live_inquery1234&token=hiddentoken HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\nConnection: close\r\n\r\n";
        exchange(served.address(), head);
        request(&served.url, STATUS, "");
        let (_, log) = served.stop();
        assert!(log.contains("k=sk_live_…1234"), "{log}");
        assert_hidden(&log, "the log");
        assert!(format == "text" || log.contains("\"key\":\"sk_test_local\""), "{log}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.toml");
    std::fs::write(&file, format!("[[given.subscription]]\nurl = 'https://u:hiddenpassword@h'\nevents = ['sk_live_inbody1234', '{ODD}']\nsecret = 'whsec_aGlkZGVu' # and\n")).expect("it is written");
    let file = file.display().to_string();
    for arguments in [
        &["check", &file][..],
        &["check", "--json", &file],
        &["health", "--url", "http://u:hiddenpassword@127.0.0.1:1"],
        &["serve", "--set", "keys.list=[\"sk_live_inbody1234\", 5]"],
    ] {
        let output = finish(&mut wrs_emulator(arguments));
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() != Some(0), "{arguments:?}: {shown}");
        assert_hidden(&shown, &format!("{arguments:?}"));
        assert!(!shown.contains(drives_a_terminal), "{arguments:?}: {shown:?}");
    }
}

#[test]
fn listen_masks_and_escapes_what_it_prints() {
    for (json, shown) in [(false, "sk_live_…1234"), (true, "\"secret\\\":\\\"…")] {
        let mut command = wrs_emulator(&["listen", "--listen", "127.0.0.1:0", "--count", "1"]);
        if json {
            command.arg("--json");
        }
        let listening = Served::spawn(&mut command);
        let body = format!("{{\"type\":\"sk_live_inbody1234\",\"id\":\"{ODD}\",\"secret\":\"hiddennested\"}}");
        let head = "POST /hook?token=hiddentoken&k=sk_live_inquery1234 HTTP/1.1\r\nCookie: session=hiddencookie";
        assert!(request(&listening.url, head, &body).starts_with("HTTP/1.1 200 "));
        let (_, line, _) = listening.end();
        assert!(line.contains(shown) && !line.contains(drives_a_terminal), "{line:?}");
        assert_hidden(&line, "listen");
    }
}
