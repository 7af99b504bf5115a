//! Metrics: every line is what the text format allows, counters count what happened and never fall.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{builder, control, fire, get, get_as, hook, send, start, start_with, started, subscribe_sink};

/// Reads a page strictly: a family's head before its samples, no name twice, numbers that are numbers.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let word = regex::Regex::new("^[a-zA-Z_:][a-zA-Z0-9_:]*$").expect("a pattern");
    let line = regex::Regex::new(r#"^([a-z_]+)(\{[a-z]+="[A-Za-z0-9_.+]+"(,[a-z]+="[A-Za-z0-9_.+]+")*\})? ([0-9.]+)$"#)
        .expect("a pattern");
    let (mut samples, mut families) = (BTreeMap::new(), Vec::new());
    let mut lines = text.split('\n').peekable();
    assert!(text.ends_with('\n'), "the last line ends");
    while let Some(found) = lines.next() {
        if let Some(help) = found.strip_prefix("# HELP ") {
            let name = help.split(' ').next().expect("a name");
            assert!(word.is_match(name) && !families.contains(&name), "{found}");
            let kind = lines.next().and_then(|next| next.strip_prefix(&format!("# TYPE {name} "))).expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            families.push(name);
        } else if !found.is_empty() {
            let parts = line.captures(found).unwrap_or_else(|| panic!("`{found}` is no sample"));
            let family = *families.last().expect("a head");
            let rest = parts[1].strip_prefix(family).unwrap_or_else(|| panic!("`{found}` stands below {family}"));
            assert!(["", "_bucket", "_sum", "_count"].contains(&rest), "{found}");
            let name = format!("{}{}", &parts[1], parts.get(2).map_or("", |labels| labels.as_str()));
            let value = parts[4].parse().expect("a number");
            assert_eq!(samples.insert(name, value), None, "{found} is said once");
        } else {
            assert_eq!(lines.peek(), None, "an empty line");
        }
    }
    samples
}

async fn metrics(emulator: &Emulator) -> BTreeMap<String, f64> {
    let answer = control(emulator, "GET", "metrics", &Value::Null).await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(std::str::from_utf8(&answer.body).expect("text"))
}

#[track_caller]
fn check(metrics: &BTreeMap<String, f64>, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        assert_eq!(metrics.get(&format!("wrs_emulator_{name}")), Some(value), "{name} in {metrics:?}");
    }
}

#[tokio::test]
async fn everything_that_happens_is_counted() {
    let emulator = start_with(&["rate_limit.requests=3", "webhooks.retry.preset=none"]).await;
    subscribe_sink(&emulator, "good").await;
    subscribe_sink(&emulator, "bad").await;
    control(&emulator, "POST", "sink/bad", &json!({ "respond": [500] })).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    get(&emulator, "/v1/system/status").await;
    get(&emulator, "/v1/system/status").await;
    get_as(&emulator, "wrong", "/v1/system/status").await;
    get(&emulator, "/v1/nowhere").await;
    send(&emulator, "GET", "/v1/hello", &[], "").await;
    let found = metrics(&emulator).await;
    let version = format!("build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    check(
        &found,
        &[
            (&version, 1.0),
            ("generation", 1.0),
            ("requests_total{operation=\"system.status\",status=\"2xx\"}", 1.0),
            ("requests_total{operation=\"system.status\",status=\"4xx\"}", 2.0),
            ("requests_total{operation=\"events.subscribe\",status=\"2xx\"}", 2.0),
            ("requests_total{operation=\"hello\",status=\"2xx\"}", 1.0),
            ("requests_total{operation=\"none\",status=\"4xx\"}", 1.0),
            ("quota_refusals_total", 1.0),
            ("events_total", 1.0),
            ("deliveries_total{outcome=\"delivered\"}", 1.0),
            ("deliveries_total{outcome=\"exhausted\"}", 1.0),
            ("deliveries_total{outcome=\"cancelled\"}", 0.0),
            ("deliveries_pending", 0.0),
            ("delivery_attempts_total{outcome=\"accepted\"}", 1.0),
            ("delivery_attempts_total{outcome=\"refused\"}", 1.0),
            ("delivery_attempt_duration_seconds_bucket{le=\"0.005\"}", 2.0),
            ("delivery_attempt_duration_seconds_bucket{le=\"2.5\"}", 2.0),
            ("delivery_attempt_duration_seconds_bucket{le=\"15\"}", 2.0),
            ("delivery_attempt_duration_seconds_bucket{le=\"+Inf\"}", 2.0),
            ("delivery_attempt_duration_seconds_count", 2.0),
            ("workspaces", 1.0),
            ("stream_viewers", 0.0),
        ],
    );
    let text = control(&emulator, "GET", "metrics", &Value::Null).await;
    assert!(!String::from_utf8_lossy(&text.body).contains("sk_test"), "no key is shown");
}

#[tokio::test]
async fn counters_do_not_fall_when_the_journal_forgets() {
    let emulator = started(builder().configure(|settings| settings.most_journal_entries = 5)).await;
    for _ in 0..8 {
        get(&emulator, "/v1/system/status").await;
    }
    let status = "requests_total{operation=\"system.status\",status=\"2xx\"}";
    check(&metrics(&emulator).await, &[(status, 8.0), ("journal_entries", 5.0), ("journal_evicted_total", 3.0)]);
    control(&emulator, "DELETE", "requests?key=*", &json!({})).await;
    let found = metrics(&emulator).await;
    check(&found, &[(status, 8.0), ("journal_entries", 0.0), ("journal_bytes", 0.0), ("journal_evicted_total", 3.0)]);
}

#[tokio::test]
async fn failed_attempts_are_counted_by_cause() {
    let emulator = start().await;
    let hook = hook("https://127.0.0.1:1/x");
    crate::support::subscribe(&emulator, &hook).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let found = metrics(&emulator).await;
    check(&found, &[("delivery_attempts_total{outcome=\"connection_refused\"}", 1.0), ("deliveries_pending", 1.0)]);
}
