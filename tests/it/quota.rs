//! The quota of each key: headers, windows by the emulator's clock, isolation.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wrs_emulator::{Builder, Emulator};

use crate::support::{
    KEY, PATIENCE, START, activate, ask, builder, get, get_as, put_scenario, send, start, start_with, started, view,
};

// proves THROTTLED QUOTA_HEADERS RETRYABLE QUOTAS
#[tokio::test]
async fn the_headers_count_down_and_429_ends_the_window() {
    let emulator = start_with(&["rate_limit.requests=3", "rate_limit.window=30s"]).await;
    for left in ["2", "1", "0"] {
        let answer = get_as(&emulator, "sk_test_a", "/v1/system/status").await;
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
            (200, Some("3"), Some(left))
        );
    }
    for _ in 0..3 {
        let answer = get_as(&emulator, "sk_test_a", "/v1/system/status").await;
        assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limit_exceeded"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-reset")), (None, None));
    }
    assert_eq!(get_as(&emulator, "sk_test_b", "/v1/system/status").await.header("x-ratelimit-remaining"), Some("2"));
    emulator.control().clock().advance(Duration::from_millis(29_999));
    assert_eq!(get_as(&emulator, "sk_test_a", "/v1/system/status").await.status, 429);
    emulator.control().clock().advance(Duration::from_millis(1));
    assert_eq!(get_as(&emulator, "sk_test_a", "/v1/system/status").await.status, 200);
}

/// The headers of an answer that a scenario gives, each with its expected value or none.
async fn check_scripted(settings: &[&str], action: &str, expected: &[(&str, Option<&str>)]) {
    let text = format!("[[rule]]\nwhen.operation = 'system.status'\ntimes = 1\n{action}\n");
    let with_settings = settings.iter().fold(builder(), |builder, setting| builder.set(setting));
    let emulator = started(with_settings.scenario_text(&text)).await;
    let answer = get_as(&emulator, KEY, "/v1/system/status").await;
    for (name, value) in expected {
        assert_eq!(answer.header(name), *value, "{settings:?} {action}: {answer:?}");
        assert!(answer.headers.get_all(*name).iter().count() <= 1, "{name}");
    }
    // The key's own quota counts on.
    let own = get_as(&emulator, KEY, "/v1/system/status").await;
    assert_eq!(own.header("x-ratelimit-remaining").or(own.header("x-left")), Some("98"));
}

#[tokio::test]
async fn a_scenario_says_what_the_quota_headers_of_an_answer_are() {
    let (left, reset, wait) = ("x-ratelimit-remaining", "x-ratelimit-reset", "retry-after");
    let two = "reply = { status = 200, quota = { remaining = 2, reset = '1500ms' } }";
    check_scripted(&[], two, &[(left, Some("2")), (reset, None), (wait, None), ("x-ratelimit-limit", Some("100"))])
        .await;
    check_scripted(&["rate_limit.reset=delta"], two, &[(reset, Some("2")), (wait, None)]).await;
    let at = (START.as_second() + 2).to_string();
    check_scripted(&["rate_limit.reset=epoch"], two, &[(reset, Some(&at))]).await;
    check_scripted(&["rate_limit.ietf=true"], two, &[("ratelimit", Some("\"default\";r=2;t=2"))]).await;
    let renamed = [("x-left", Some("2")), (left, None)];
    check_scripted(&["rate_limit.header_names.remaining=X-Left"], two, &renamed).await;
    let only_reset = "sequence = [{ status = 429, quota = { reset = '30s' }, headers = { X-RateLimit-Reset = '7' } }]";
    let settings = ["rate_limit.reset=delta", "rate_limit.retry_after=seconds"];
    check_scripted(&settings, only_reset, &[(left, Some("99")), (reset, Some("7")), (wait, Some("30"))]).await;
    let used_up = "reply = { error = 'rate_limit_exceeded', quota = { reset = '30s' } }";
    check_scripted(&settings, used_up, &[(left, Some("0")), (reset, Some("30")), (wait, Some("30"))]).await;
}

/// A client compares `Retry-After` and a reset time with `Date`, or with its own clock: all three are of one clock.
#[tokio::test]
async fn the_times_of_an_answer_are_of_one_clock() {
    let settings = ["rate_limit.requests=1", "rate_limit.retry_after=date", "rate_limit.reset=epoch"];
    let with_settings = |builder: Builder| settings.iter().fold(builder, |builder, setting| builder.set(setting));
    let frozen = started(with_settings(builder())).await;
    let running = started(with_settings(Emulator::builder().seed(7))).await;
    let moved = started(with_settings(Emulator::builder().seed(7))).await;
    moved.control().advance(Duration::from_hours(1)).await;
    let own = started(with_settings(Emulator::builder().seed(7))).await;
    ask(&own, "POST", "clock", &json!({ "key": KEY, "advance": "2h" })).await;
    let stopped = started(with_settings(Emulator::builder().seed(7))).await;
    ask(&stopped, "POST", "clock", &json!({ "key": KEY, "mode": "frozen" })).await;
    ask(&stopped, "POST", "clock", &json!({ "key": KEY, "advance": "3h" })).await;
    let machine = running.control().clock().now().wall;
    for (emulator, clock, ahead) in [
        (&frozen, "frozen", START.duration_since(machine)),
        (&running, "running", SignedDuration::ZERO),
        (&moved, "moved", SignedDuration::ZERO),
        (&own, "moved for the key", SignedDuration::ZERO),
        (&stopped, "frozen for the key", SignedDuration::from_hours(3)),
    ] {
        get_as(emulator, KEY, "/v1/system/status").await;
        let answer = get_as(emulator, KEY, "/v1/system/status").await;
        let time = |name: &str| {
            let text = answer.header(name).unwrap_or_else(|| panic!("{clock}: no {name}"));
            jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).expect("a date")
        };
        let reset: i64 = answer.header("x-ratelimit-reset").expect("a reset time").parse().expect("a number");
        let (date, retry) = (time("date"), time("retry-after"));
        // The machine's `Date` may be a second older than the rest of the answer.
        let wait = retry.as_second() - date.as_second();
        assert!((58..=62).contains(&wait), "{clock}: {date} and {retry}");
        assert_eq!(retry.as_second(), reset, "{clock}");
        let off = date.duration_since(machine + ahead);
        assert!(off.abs() < SignedDuration::from_mins(30), "{clock}: {off:?}");
    }
}

// proves QUOTA_HEADERS
#[tokio::test]
async fn quota_headers_stand_where_a_valid_key_came() {
    let emulator = start().await;
    let key = ("authorization", "Bearer sk_test_a");
    let limit = |answer: &crate::support::Answer| answer.header("x-ratelimit-limit").is_some();
    assert!(limit(&get_as(&emulator, "sk_test_a", "/v1/system/status?include_checks=x").await));
    assert!(limit(&send(&emulator, "POST", "/v1/events/subscribe", &[key], "{}").await));
    assert!(limit(&send(&emulator, "POST", "/v1/events/subscribe", &[key], vec![b'x'; 300 * 1024]).await));
    assert!(!limit(&get_as(&emulator, "sk_test_a", "/v1/hello").await));
    assert!(!limit(&get_as(&emulator, "sk_test_a", "/nowhere").await));
    assert!(!limit(&send(&emulator, "PUT", "/v1/system/status", &[key], "").await));
}

/// Where only successful requests cost, a 429 that a scenario answers costs nothing either.
#[tokio::test]
async fn a_scripted_429_is_given_back_where_only_success_costs() {
    let story =
        "[[rule]]\nwhen = { operation = 'system.status' }\ntimes = 2\nreply = { error = 'rate_limit_exceeded' }\n";
    for (count, left) in [("successful", "2"), ("allowed", "0")] {
        let emulator = started(
            builder().set("rate_limit.requests=3").set(&format!("rate_limit.count={count}")).scenario_text(story),
        )
        .await;
        let mut shown = Vec::new();
        for _ in 0..3 {
            let answer = get(&emulator, "/v1/system/status").await;
            shown.push((answer.status, answer.header("x-ratelimit-remaining").expect("a quota").to_owned()));
        }
        assert_eq!(shown, [(429, "0".to_owned()), (429, "0".to_owned()), (200, left.to_owned())], "{count}");
    }
}

/// Answers are given headers prepared for the one before where they can be; each must be as if it were the first.
#[tokio::test]
async fn headers_follow_every_change_of_the_settings() {
    let emulator = start_with(&["rate_limit.requests=1000"]).await;
    let shown = async |key: &str| {
        let answer = get_as(&emulator, key, "/v1/system/status").await;
        let id = answer.header("x-emulator-request-id").expect("an id").to_owned();
        let record = view(&emulator, &format!("requests/{id}")).await;
        assert_eq!(record["id"], id.as_str(), "{record}");
        let mut lines: Vec<String> = answer
            .headers
            .iter()
            .filter(|(name, _)| name.as_str() != "date")
            .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text").replace(&id, "ID")))
            .collect();
        // hyper adds the length and the date.
        let sent = lines.iter().filter(|line| !line.starts_with("content-length")).cloned();
        let sent: Vec<String> = sent.map(|line| line.replace("ID", &id)).collect();
        let kept = record["answer"]["headers"].as_array().unwrap_or_else(|| panic!("{record}")).iter();
        let kept: Vec<String> = kept
            .map(|pair| format!("{}: {}", pair[0].as_str().expect("text"), pair[1].as_str().expect("text")))
            .collect();
        assert_eq!(kept, sent, "the journal has the requests in the order of sending");
        lines.sort();
        lines.join("\n")
    };
    let ordinary = |generation: u32, quota: &str| {
        format!(
            "content-length: 92\ncontent-type: application/json\nx-emulator-generation: {generation}\n\
             x-emulator-request-id: ID\n{quota}"
        )
    };
    assert_eq!(shown("sk_test_a").await, ordinary(1, "x-ratelimit-limit: 1000\nx-ratelimit-remaining: 999"));
    assert_eq!(shown("sk_test_a").await, ordinary(1, "x-ratelimit-limit: 1000\nx-ratelimit-remaining: 998"));
    let changes = json!({
        "rate_limit": { "requests": 20, "header_names": { "remaining": "x-left" } },
        "ids": { "request_header": "x-trace" },
    });
    ask(&emulator, "PATCH", "profile?key=sk_test_a", &changes).await;
    for left in [17, 16] {
        let quota = format!("x-left: {left}\nx-ratelimit-limit: 20\nx-trace: ID");
        assert_eq!(shown("sk_test_a").await, ordinary(2, &quota));
        let other = format!("x-ratelimit-limit: 1000\nx-ratelimit-remaining: {}", 999 - (17 - left));
        assert_eq!(shown("sk_test_b").await, ordinary(2, &other), "the other key's headers stay");
    }
    let reset = json!({ "rate_limit": { "reset": "delta" } });
    ask(&emulator, "PATCH", "profile?key=sk_test_b", &reset).await;
    let lines = shown("sk_test_b").await;
    assert!(lines.contains("x-ratelimit-reset: "), "{lines}");
    assert!(!shown("sk_test_a").await.contains("reset"), "and so do these");
}

#[tokio::test]
async fn a_request_whose_client_leaves_costs_nothing_if_only_successes_count() {
    let emulator = start_with(&["rate_limit.count=successful", "rate_limit.requests=5"]).await;
    put_scenario(&emulator, "slow", "[[rule]]\nwhen = { operation = 'system.status' }\ndelay = '1h'\n").await;
    activate(&emulator, &["slow"], None).await;
    let left = async |expected: u64| {
        let is_left = async {
            while view(&emulator, &format!("run?limit=0&key={KEY}")).await["keys"][0]["quota"]["remaining"] != expected
            {
            }
        };
        timeout(PATIENCE, is_left).await.unwrap_or_else(|_| panic!("{expected} are not left"));
    };
    let address = emulator.base_url().trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(address).await.expect("the emulator listens");
    let request = format!("GET /v1/system/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("an open connection");
    left(4).await;
    stream.set_zero_linger().expect("an open socket");
    drop(stream);
    left(5).await;
}
