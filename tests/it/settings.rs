//! Every setting of the profile, turned: the answer changes, and as it should. A setting without a row here fails the test.

use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use serde_json::{Value, json};
use wrs_emulator::settings::SETTINGS;
use wrs_emulator::state::workspace::FireRequest;
use wrs_emulator::{Builder, Emulator};

use crate::support::{
    Answer, KEY, MachineTime, builder, control, fire, get, get_as, hook, send, start_with, started, subscribe,
    subscribe_url, with_receiver,
};

mod rows;

use rows::{HOOK, ROWS};

/// What a row looks at.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// Status checks with these keys, one after the other.
    Keys(&'static [&'static str]),
    /// A status check with this query.
    Status(&'static str),
    /// So many status checks in a row; the last counts.
    Last(usize),
    /// Status checks at these seconds, one quota used up first.
    Times(&'static [u64]),
    /// A wrong status check, then right ones.
    WrongThenRight,
    /// A subscription with this body.
    Subscribe(&'static str),
    /// The same body twice.
    SubscribeTwice(&'static str),
    /// Bytes that are no JSON.
    Malformed,
    /// A body declared as text.
    PlainText,
    /// A path that is not there.
    Nowhere,
    /// Eight errors: their fields and the order of these.
    Shapes,
    /// `GET /v1/hello`.
    Hello,
    /// An event of this type at a sink, with this secret.
    Delivery(&'static str, &'static str),
    /// The bytes of a delivery that is forwarded.
    Wire,
    /// Where an event arrives that is fired at a sink.
    Forwarded,
    /// Attempts at a receiver that answers so, with the clock advanced by so many seconds between them.
    Attempts(&'static [u16], &'static [u64]),
    /// Two events at a receiver that fails the first attempt: who comes after a second.
    Order,
    /// Eight events: when their first attempts are due.
    Scatter,
    /// A receiver that says nothing.
    Silent,
    /// A listener that never accepts a connection, over TLS.
    SilentTls,
    /// A rotated secret, an hour later.
    Rotation,
}

// proves every-setting
#[tokio::test]
async fn each_setting_changes_what_it_says() {
    for (setting, assignments, probe, expected) in ROWS {
        // A row may need other settings to show its own; those stand in the comparison as well.
        let others: Vec<&str> =
            assignments.iter().copied().filter(|assignment| !assignment.starts_with(setting)).collect();
        let before = look(*probe, &others).await;
        let after = look(*probe, assignments).await;
        assert!(after.contains(expected), "{setting}: `{expected}` is not in\n{after}");
        assert!(
            *setting == "webhooks.secret_key" || !before.contains(expected),
            "{setting}: `{expected}` is present without it\n{before}"
        );
        assert_ne!(before, after, "{setting} changes nothing");
    }
}

#[test]
fn every_setting_has_a_row() {
    let turned: BTreeSet<&str> = ROWS.iter().map(|(setting, ..)| *setting).collect();
    let known: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.path.as_str()).collect();
    assert_eq!(turned, known);
}

/// Everything that a row may look for, as one text.
async fn look(probe: Probe, settings: &[&str]) -> String {
    match probe {
        Probe::Attempts(statuses, seconds) => return look_at_attempts(settings, statuses, seconds).await,
        Probe::Order => return look_at_order(settings).await,
        Probe::Wire => return look_at_bytes(settings).await,
        Probe::Silent => return look_at_silence(settings, "http").await,
        Probe::SilentTls => return look_at_silence(settings, "https").await,
        _ => {}
    }
    let emulator = &start_with(settings).await;
    match probe {
        Probe::Keys(keys) => look_at_keys(emulator, keys).await,
        Probe::Status(query) => shown(&get(emulator, &format!("/v1/system/status?{query}")).await),
        Probe::Last(count) => {
            for _ in 1..count {
                get(emulator, "/v1/system/status").await;
            }
            shown(&get(emulator, "/v1/system/status").await)
        }
        Probe::Times(seconds) => look_at_times(emulator, seconds).await,
        Probe::WrongThenRight => {
            let mut statuses = Vec::new();
            for query in ["include_checks=x", "", ""] {
                statuses.push(get(emulator, &format!("/v1/system/status?{query}")).await.status.to_string());
            }
            statuses.join(" ")
        }
        Probe::Subscribe(body) => shown(&subscribe(emulator, &parsed(body)).await),
        Probe::SubscribeTwice(body) => {
            let first = subscribe(emulator, &parsed(body)).await.json();
            let second = subscribe(emulator, &parsed(body)).await.json();
            if first["id"] == second["id"] { "one subscription".to_owned() } else { "two subscriptions".to_owned() }
        }
        Probe::Malformed => posted(emulator, "/v1/events/subscribe", "application/json", "{").await,
        Probe::PlainText => posted(emulator, "/v1/events/subscribe", "text/plain", HOOK).await,
        Probe::Nowhere => shown(&get(emulator, "/nowhere").await),
        Probe::Shapes => look_at_shapes(emulator).await,
        Probe::Hello => shown(&get(emulator, "/v1/hello").await),
        Probe::Delivery(event, secret) => look_at_delivery(emulator, event, secret).await,
        Probe::Forwarded => {
            subscribe_url(emulator, KEY, "https://a.sink.localhost/x").await;
            fire(emulator, &json!({ "type": "workflow.completed" })).await;
            ["a", "b"].map(|sink| format!("{sink} {}", emulator.control().received(sink).len())).join(" ")
        }
        Probe::Scatter => look_at_scatter(emulator),
        Probe::Rotation => look_at_rotation(emulator).await,
        Probe::Attempts(..) | Probe::Order | Probe::Wire | Probe::Silent | Probe::SilentTls => {
            unreachable!("looked at above")
        }
    }
}

fn set(settings: &[&str]) -> Builder {
    settings.iter().fold(builder(), |builder, setting| builder.set(setting))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn shown(answer: &Answer) -> String {
    let headers = answer.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("text")));
    format!("{}\n{}{}", answer.status, headers.collect::<String>(), String::from_utf8_lossy(&answer.body))
}

async fn posted(emulator: &Emulator, path: &str, content_type: &str, body: &'static str) -> String {
    let headers = [("authorization", "Bearer sk_test_local"), ("content-type", content_type)];
    shown(&send(emulator, "POST", path, &headers, body).await)
}

async fn look_at_keys(emulator: &Emulator, keys: &[&str]) -> String {
    let mut text = String::new();
    for key in keys {
        text.push_str(&shown(&get_as(emulator, key, "/v1/system/status").await));
    }
    text
}

async fn look_at_shapes(emulator: &Emulator) -> String {
    let mut text = String::new();
    for _ in 0..8 {
        let error = get(emulator, "/nowhere").await.json()["error"].take();
        let mut keys: Vec<&str> = error.as_object().expect("an object").keys().map(String::as_str).collect();
        let is_more = keys.len() > 3;
        text.push_str(if is_more { "error has more than code, message, request_id\n" } else { "three fields\n" });
        keys.retain(|key| ["code", "message", "request_id"].contains(key));
        text.push_str(if keys.is_sorted() { "in order\n" } else { "error in another order\n" });
    }
    text
}

async fn look_at_times(emulator: &Emulator, seconds: &[u64]) -> String {
    let (mut now, mut statuses) = (0, Vec::new());
    for second in seconds {
        emulator.control().clock().advance(Duration::from_secs(second - now));
        now = *second;
        statuses.push(get(emulator, "/v1/system/status").await.status.to_string());
    }
    statuses.join(" ")
}

async fn look_at_delivery(emulator: &Emulator, event: &str, secret: &str) -> String {
    let body = json!({ "url": "https://a.sink.localhost/x", "events": [event], "secret": secret });
    assert_eq!(subscribe(emulator, &body).await.status, 200);
    fire(emulator, &json!({ "type": event })).await;
    let mut receipts = emulator.control().received("a");
    let same = receipts.iter().all(|other| other.body == receipts[0].body && other.verified == Ok(()));
    assert!(same, "{receipts:?}");
    let (times, receipt) = (receipts.len(), receipts.remove(0));
    let mut text: String = receipt.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    text.push_str(&String::from_utf8_lossy(&receipt.body));
    text.push_str(&format!("received {times} times, told apart by nothing\n"));
    if !text.contains("webhook-timestamp: 1769851800") {
        text.push_str("signed by the machine's time");
    }
    text
}

async fn look_at_attempts(settings: &[&str], statuses: &[u16], seconds: &[u64]) -> String {
    let (emulator, mut receiver) = with_receiver(set(settings), statuses).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let id = fired["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    receiver.next().await;
    emulator.control().settle().await;
    for second in seconds {
        emulator.control().advance(Duration::from_secs(*second)).await;
        let _ = receiver.try_next();
    }
    let record = emulator.control().deliveries().get(&id).expect("the delivery");
    let mut text = format!("{:?} after {}", record.status, record.attempts.len()).to_lowercase();
    if record.next.is_some_and(|due| due.since_start() != Duration::from_secs(1)) {
        text.push_str(", another delay than 1 s");
    }
    text
}

/// The receiver's events by first appearance: strict order repeats the first before the second is sent.
async fn look_at_order(settings: &[&str]) -> String {
    let (emulator, mut receiver) = with_receiver(set(settings), &[500]).await;
    control(&emulator, "POST", "events", &json!({ "type": "workflow.completed", "count": 2 })).await;
    // The second event is sent meanwhile, or after the retry of the first.
    emulator.control().settle().await;
    emulator.control().advance(Duration::from_mins(1)).await;
    let ids: Vec<String> =
        std::iter::from_fn(|| receiver.try_next()).map(|it| it.header("webhook-id").to_owned()).collect();
    let (first, rest) = ids.split_first().expect("deliveries");
    let number = |id: &String| if id == first { "1" } else { "2" };
    format!("1 {} {}", number(&rest[0]), number(&rest[1]))
}

fn look_at_scatter(emulator: &Emulator) -> String {
    let fire = || {
        let request = FireRequest { event_type: "workflow.completed".to_owned(), ..FireRequest::default() };
        emulator.control().fire(KEY, request).expect("the event is fired").due.since_start()
    };
    let waits: Vec<Duration> = (0..8).map(|_| fire()).collect();
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(10)), "{waits:?}");
    if waits.is_sorted() { "in order".to_owned() } else { "overtaken".to_owned() }
}

async fn look_at_bytes(settings: &[&str]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let target = format!("https://app.example.com=http://{}", listener.local_addr().expect("an address"));
    let emulator = started(set(settings).forward(&target)).await;
    subscribe(&emulator, &hook("https://app.example.com/hooks")).await;
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"}") && !bytes.ends_with(b"\r\n0\r\n\r\n") {
            assert!(stream.read_buf(&mut bytes).await.expect("a delivery") > 0);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an open connection");
        bytes
    });
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let text = String::from_utf8(received.await.expect("no panic")).expect("text");
    for header in ["X-Forwarded-Proto: https", "X-Forwarded-Host: app.example.com", "X-Forwarded-For: 127.0.0.1"] {
        assert!(text.to_lowercase().contains(&format!("\r\n{}\r\n", header.to_lowercase())), "{text}");
    }
    text
}

async fn look_at_silence(settings: &[&str], scheme: &str) -> String {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let target = format!("https://app.example.com={scheme}://{}", silent.local_addr().expect("an address"));
    let emulator = started(set(settings).set("webhooks.retry.preset=none").forward(&target)).await;
    subscribe(&emulator, &hook("https://app.example.com/")).await;
    let payload = json!({ "type": "workflow.completed" });
    let fired = MachineTime::stop().passes_until(fire(&emulator, &payload)).await;
    fired["deliveries"][0]["attempts"].to_string()
}

async fn look_at_rotation(emulator: &Emulator) -> String {
    let made = subscribe(emulator, &hook("https://a.sink.localhost/x")).await.json();
    let path = format!("subscriptions/{}/rotate", made["id"].as_str().expect("an id"));
    control(emulator, "POST", &path, &json!({})).await;
    emulator.control().clock().advance(Duration::from_hours(1));
    fire(emulator, &json!({ "type": "workflow.completed" })).await;
    let receipt = emulator.control().received("a").remove(0);
    let signatures =
        receipt.headers.iter().find(|(name, _)| name == "webhook-signature").expect("a signature").1.split(' ').count();
    format!("{signatures} signatures")
}
