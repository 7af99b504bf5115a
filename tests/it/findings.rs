//! Findings about an integration: each kind is found in the traffic of its own example, and not in sound traffic.

mod examples;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use wrs_emulator::Emulator;
use wrs_emulator::findings::{Check, checks};

use examples::{Example, example};

use crate::support::{
    KEY, MachineTime, Receiver, START, ask, assert_in_step, fire, get_as, send, start_with, started, subscribe_sink,
    subscribe_url, view,
};
use crate::wire::peer::Peer;

/// What is found as where the clock runs: it starts only now, so that what came at once came at once on any machine.
async fn found_by(emulator: &Emulator) -> Value {
    ask(emulator, "POST", "clock", &json!({ "mode": "real" })).await;
    view(emulator, "findings").await
}

/// A request as on the wire: an example has plain line ends, and no length.
fn on_the_wire(example: &str) -> String {
    let (head, body) = example.split_once("\n\n").expect("a head and a body");
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{}\r\n{length}\r\n{body}", head.replace('\n', "\r\n"))
}

/// The findings after these requests, sent one after the other on one connection.
async fn after_requests(settings: &[&str], requests: &[String]) -> Value {
    let emulator = start_with(settings).await;
    let mut peer = Peer::connect(&emulator).await;
    for request in requests {
        peer.send(on_the_wire(request)).await;
        peer.answer().await;
        emulator.control().clock().advance(Duration::from_millis(1));
    }
    found_by(&emulator).await
}

/// The findings after an event for a receiver that answers with these statuses; 0 is no answer.
async fn after_event(settings: &[&str], event: &str, statuses: &[u16]) -> Value {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut answering = Receiver::plain(statuses).await;
    let port = if statuses == [0] { silent.local_addr().expect("an address") } else { answering.address }.port();
    let forward = format!("webhooks.forwards.\"https://app.example.com\"=http://127.0.0.1:{port}");
    let emulator = start_with(&[settings, &[&forward]].concat()).await;
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    let event = serde_json::from_str(event).expect("JSON");
    if statuses == [0] {
        MachineTime::stop().passes_until(fire(&emulator, &event)).await;
    } else {
        fire(&emulator, &event).await;
    }
    while answering.try_next().is_some() {}
    found_by(&emulator).await
}

async fn found(rule: &Check) -> Value {
    match example(rule.code) {
        Example::Requests { settings, found, .. } => after_requests(settings, &found).await,
        Example::Deliveries { event, settings, found, .. } => after_event(settings, event, found).await,
    }
}

async fn sound(rule: &Check) -> Value {
    match example(rule.code) {
        Example::Requests { settings, sound, .. } => after_requests(settings, &sound).await,
        Example::Deliveries { event, settings, sound, .. } => after_event(settings, event, sound).await,
    }
}

fn finding<'f>(findings: &'f Value, code: &str) -> Option<&'f Value> {
    findings["data"].as_array().expect("a list").iter().find(|finding| finding["code"] == code)
}

#[tokio::test]
async fn each_finding_is_in_its_example() {
    for rule in checks() {
        let findings = found(rule).await;
        let finding = finding(&findings, rule.code).unwrap_or_else(|| panic!("{} in {findings:#}", rule.code));
        assert_eq!(finding["severity"], rule.severity.name(), "{}", rule.code);
        let shown = &finding["evidence"][0];
        assert!(shown["request"].is_string() != shown["delivery"].is_string(), "{finding:#}");
        assert!(!shown["detail"].as_str().expect("a text").is_empty(), "{finding:#}");
    }
}

#[tokio::test]
async fn sound_traffic_has_no_finding_and_exercises_the_rule() {
    for rule in checks() {
        let findings = sound(rule).await;
        assert_eq!(findings["data"], json!([]), "{}", rule.code);
        let idle = findings["not_exercised"].as_array().expect("a list");
        assert!(idle.iter().all(|idle| idle["code"] != rule.code), "{}: {findings:#}", rule.code);
    }
}

/// The client of a test that moves the clock between two tries has waited, although it did not sleep.
#[tokio::test]
async fn a_moved_clock_is_a_wait() {
    let Example::Requests { settings, found, .. } = example("no-back-off") else { panic!("it has requests") };
    let emulator = start_with(settings).await;
    let mut peer = Peer::connect(&emulator).await;
    for request in &found {
        peer.send(on_the_wire(request)).await;
        peer.answer().await;
        emulator.control().advance(Duration::from_secs(1)).await;
    }
    let findings = found_by(&emulator).await;
    for code in ["no-back-off", "quick-retry"] {
        assert!(finding(&findings, code).is_none(), "{findings:#}");
    }
}

/// `Retry-After` has two forms, and clients that know one alone are common.
#[tokio::test]
async fn a_retry_after_that_is_a_date_is_read() {
    let Example::Requests { found, .. } = example("before-retry-after") else { panic!("it has requests") };
    let settings = ["rate_limit.requests=1", "rate_limit.retry_after=date"];
    let findings = after_requests(&settings, &found).await;
    let early = finding(&findings, "before-retry-after").unwrap_or_else(|| panic!("{findings:#}"));
    assert!(early.to_string().contains("which asked for "), "{early:#}");
}

/// A client that sends an invalid request again and is told to wait has not been told once more that it is invalid.
#[tokio::test]
async fn a_429_after_a_422_is_no_repeat() {
    let Example::Requests { found, .. } = example("invalid-repeated") else { panic!("it has requests") };
    for (limit, is_repeat) in [("2", true), ("1", false)] {
        let settings = [format!("rate_limit.requests={limit}"), "rate_limit.retry_after=seconds".to_owned()];
        let findings = after_requests(&settings.each_ref().map(String::as_str), &found[..2]).await;
        assert_eq!(finding(&findings, "invalid-repeated").is_some(), is_repeat, "{findings:#}");
    }
}

#[tokio::test]
async fn a_finding_that_is_a_cause_names_the_keys_of_its_records() {
    let emulator = start_with(&[]).await;
    let mut peer = Peer::connect(&emulator).await;
    let Example::Requests { found, .. } = example("key-in-body") else { panic!("it has requests") };
    for request in &found {
        peer.send(on_the_wire(request)).await;
        peer.answer().await;
    }
    let verdict = view(&emulator, "verdict").await;
    let cause = verdict["causes"].as_array().expect("causes").iter().find(|cause| cause["kind"] == "finding");
    assert_eq!(cause.expect("a finding")["keys"], json!(["sk_test_local"]), "{verdict:#}");
}

/// What happened is never listed as not exercised without a reason.
#[tokio::test]
async fn pauses_while_the_clock_stands_still_are_named_as_what_they_are() {
    let frozen = Emulator::builder().seed(7).frozen_at(START);
    let emulator = started(frozen.set("rate_limit.requests=1").set("rate_limit.retry_after=seconds")).await;
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..3 {
        peer.send(on_the_wire(
            "GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
        ))
        .await;
        peer.answer().await;
    }
    let findings = view(&emulator, "findings").await;
    let idle = findings["not_exercised"].as_array().expect("a list");
    for (code, happened) in [("before-retry-after", true), ("quick-retry", true), ("polls-while-subscribed", false)] {
        let row = idle.iter().find(|idle| idle["code"] == code).unwrap_or_else(|| panic!("no {code}: {findings:#}"));
        let says = row["exercise"].as_str().expect("a text").contains("while the clock stood still");
        assert_eq!(says, happened, "{row}");
    }
}

#[tokio::test]
async fn what_had_nothing_to_judge_is_listed_with_what_to_do() {
    let findings = after_requests(&[], &[]).await;
    let idle = findings["not_exercised"].as_array().expect("a list");
    assert_eq!((findings["data"].clone(), idle.len()), (json!([]), checks().count()));
    assert!(idle.iter().all(|idle| !idle["exercise"].as_str().expect("a text").is_empty()), "{findings:#}");
}

#[tokio::test]
async fn no_secret_is_in_a_finding() {
    let findings = after_requests(
        &[],
        &["POST /v1/events/subscribe?token=sk_live_abcdefgh1234 HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
           content-type: application/json\n\n{\"url\":\"https://a.example\",\"events\":[],\"secret\":\"sk_live_abcdefgh1234\",\"sk_live_abcdefgh1234\":1}"
            .to_owned()],
    )
    .await;
    let text = findings.to_string();
    assert!(finding(&findings, "key-in-url").is_some() && finding(&findings, "secret-is-a-key").is_some(), "{text}");
    assert!(!text.contains("abcdefgh1234"), "{text}");
}

/// A live key comes before a test key, and a secret may be anything else.
#[tokio::test]
async fn a_key_is_found_wherever_it_is_in_a_body() {
    for (body, expected) in [
        (r#"{"a":["x sk_test_a"],"b":"sk_live_b"}"#, Some("a live key")),
        (r#"{"sk_test_a":1}"#, Some("a test key")),
        (r#"{"a":"sk_test_a","a":1}"#, Some("a test key")),
        (r#"{"secret":{"a":"sk_test_a"}}"#, None),
        (r#"["sk_test_a"]"#, Some("a test key")),
        ("a=sk_test_a", Some("a test key")),
        (r#"{"secret":"sk_test_a","#, Some("a test key")),
        (r#"{"url":"u","a":[{"b":1,"b":2}]}"#, None),
    ] {
        let head = "POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local";
        let findings = after_requests(&[], &[format!("{head}\n\n{body}")]).await;
        let detail = finding(&findings, "key-in-body").and_then(|found| found["evidence"][0]["detail"].as_str());
        let shown = expected.map(|key| format!("POST /v1/events/subscribe: {key} in the body"));
        assert_eq!(detail, shown.as_deref(), "{body}");
    }
}

#[tokio::test]
async fn a_detail_stays_short_whatever_a_client_sends() {
    let subscribe = |name: &str| {
        format!(
            "POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
             content-type: application/json\n\n\
             {{\"url\":\"https://{name}.example/{}\",\"events\":[],\"secret\":\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"}}",
            "x".repeat(40_000)
        )
    };
    let findings = after_requests(&[], &[subscribe("a"), subscribe("b")]).await;
    let reused = finding(&findings, "secret-reused").expect("the secret is reused");
    assert_eq!(reused["evidence"][0]["detail"].as_str().map(|detail| detail.chars().count()), Some(300));
}

#[test]
fn codes_are_unique_and_texts_are_whole() {
    let mut codes: Vec<&str> = checks().map(|rule| rule.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), checks().count());
    for rule in checks() {
        assert!(rule.code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{}", rule.code);
        for text in [rule.title, rule.clause, rule.remedy, rule.exercise, rule.confidence] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", rule.code);
        }
        assert!(rule.why.ends_with('.'), "{}: {}", rule.code, rule.why);
    }
}

/// The page of findings.
fn page() -> String {
    let section = |check: &Check| {
        let Check { code, title, why, clause, confidence, remedy, exercise, advice, .. } = check;
        let commands: Vec<String> = advice().iter().map(|it| format!("`{}`", it.command(None))).collect();
        let by = if commands.is_empty() { String::new() } else { format!(": {}", commands.join(", ")) };
        let cwe = check.cwe.map_or_else(String::new, |number| format!(", CWE-{number}"));
        let severity = check.severity.name();
        format!(
            "\n## {code}\n\n**{title}** ({severity}{cwe}). {why}\n\n- What to do: {remedy}\n- How certain: {confidence}\n\
             - How to exercise it: {exercise}{by}\n- Contract: {clause}\n"
        )
    };
    format!(
        "# Findings\n\nWhat [the review](review.md) can find. Made from the table in src/findings; \
         `UPDATE_EXPECTED=1 cargo test findings` writes it anew.\n{}",
        checks().map(section).collect::<String>()
    )
}

#[test]
fn the_page_is_in_step_with_the_table() {
    assert_in_step("docs/findings.md", &page());
}

#[tokio::test]
async fn the_findings_of_a_key_are_those_of_its_requests() {
    let emulator = start_with(&[]).await;
    for (key, path) in [("sk_test_a", "/v1/hello"), ("sk_test_b", "/v1/system/status")] {
        get_as(&emulator, key, path).await;
    }
    assert_eq!(send(&emulator, "GET", "/v1/hello", &[], "").await.status, 200);
    for (key, judged) in [("sk_test_a", 1), ("sk_test_b", 1), ("*", 3)] {
        let findings = view(&emulator, &format!("findings?key={key}")).await;
        assert_eq!(findings["judged_requests"], judged, "{key}");
    }
}

/// A built-in receiver answers by its script: that says nothing about a receiver of one's own.
#[tokio::test]
async fn no_finding_is_about_a_built_in_receiver() {
    let emulator = start_with(&["webhooks.retry.preset=none"]).await;
    subscribe_sink(&emulator, "scripted").await;
    ask(&emulator, "POST", "sink/scripted", &json!({ "respond": [401, 302, 200] })).await;
    for tamper in [Value::Null, Value::Null, json!("signature")] {
        fire(&emulator, &json!({ "type": "workflow.completed", "tamper": tamper })).await;
    }
    let findings = view(&emulator, "findings").await;
    assert_eq!(findings["judged_deliveries"], 3, "{findings}");
    for code in ["receiver-refuses-valid", "receiver-redirects", "receiver-accepts-forged"] {
        assert!(finding(&findings, code).is_none(), "{findings}");
    }
    let idle = findings["not_exercised"].as_array().expect("a list");
    let receivers = checks().filter(|check| check.code.starts_with("receiver-"));
    for check in receivers {
        assert!(idle.iter().any(|idle| idle["code"] == check.code), "{}: {findings}", check.code);
    }
}
