//! Receivers under load and hostile ones: nothing lost, nothing altered, every attempt ends, the next is unaffected.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wrs_emulator::Emulator;

use crate::support::{
    Certificates, KEY, MachineTime, PATIENCE, Received, Receiver, builder, control, fire, started, subscribe,
    subscribe_url, view,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_deliveries_with_three_in_ten_failing_all_arrive_unaltered() {
    const SUBSCRIPTIONS: usize = 100;
    const EVENTS: usize = 100;
    let event_of = |received: &Received| (received.path.clone(), received.header("webhook-id").to_owned());
    let known = Mutex::new(HashSet::new());
    let fails_three_in_ten_at_first = move |received: &Received| {
        let mut known = known.lock().expect("no panic");
        let total = known.len();
        if known.insert(event_of(received)) && total % 10 < 3 { 500 } else { 204 }
    };
    let mut receiver = Receiver::choosing(fails_three_in_ten_at_first).await;
    let emulator = started(
        builder()
            .set("rate_limit.enabled=false")
            .set("webhooks.retry.preset=ci")
            .forward(&format!("https://app.example.com=http://{}", receiver.address)),
    )
    .await;
    for number in 0..SUBSCRIPTIONS {
        subscribe_url(&emulator, KEY, &format!("https://app.example.com/{number}")).await;
    }
    let fired =
        control(&emulator, "POST", "events", &json!({ "type": "workflow.completed", "count": EVENTS })).await.json();
    let bodies: BTreeMap<String, String> = fired["events"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| {
            (event["id"].as_str().expect("an id").to_owned(), event["body"].as_str().expect("a body").to_owned())
        })
        .collect();
    let settled = emulator.control().advance(Duration::from_mins(1));
    tokio::time::timeout(3 * PATIENCE, settled).await.expect("everything is delivered");
    let all = emulator.control().deliveries().list(None, usize::MAX, |_| true);
    assert_eq!(all.len(), SUBSCRIPTIONS * EVENTS);
    assert!(all.iter().all(|(_, record)| format!("{:?}", record.status) == "Delivered"));
    let mut seen = HashMap::<_, Vec<Bytes>>::new();
    while let Some(received) = receiver.try_next() {
        seen.entry(event_of(&received)).or_default().push(received.body);
    }
    assert_eq!(seen.len(), SUBSCRIPTIONS * EVENTS, "each event reached each subscription");
    let repeated = seen.values().filter(|bodies| bodies.len() > 1).count();
    assert!(repeated >= SUBSCRIPTIONS * EVENTS / 5, "three in ten first attempts failed: {repeated}");
    for ((_, id), got) in &seen {
        assert!(got.len() <= 2 && got.iter().all(|body| *body == bodies[id].as_bytes()), "{id}: another body");
    }
}

/// A receiver that answers each connection with these bytes, again and again if `endless`, and then goes silent.
async fn answering(bytes: &'static [u8], endless: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                while stream.write_all(bytes).await.is_ok() && endless {}
                // Held open until the sender gives up.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    address
}

async fn attempt(emulator: &Emulator, path: &str) -> Value {
    let made = subscribe(
        emulator,
        &json!({ "url": format!("https://app.example.com/{path}"), "events": ["workflow.completed"] }),
    )
    .await;
    let payload = json!({ "type": "workflow.completed", "subscription": made.json()["id"] });
    let fired = fire(emulator, &payload).await;
    fired["deliveries"][0]["attempts"][0]["outcome"].clone()
}

#[tokio::test]
async fn hostile_receivers_end_each_with_its_own_reason() {
    let time = MachineTime::stop();
    let ok = "HTTP/1.1 200 OK\r\n";
    let huge: &'static str = Box::leak(format!("{ok}x: {}\r\n\r\n", "y".repeat(200_000)).into_boxed_str());
    let bomb = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 30\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03aaaaaaaaaaaaaaaaaaaa";
    let mut forwards = Vec::new();
    let cases: Vec<(&str, String, Result<u64, &str>)> = vec![
        (
            "endless",
            answering(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1000\r\n", false).await,
            Err("timeout"),
        ),
        (
            "flood",
            answering(
                Box::leak([b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &[b'z'; 65536]].concat().into_boxed_slice()),
                true,
            )
            .await,
            Ok(200),
        ),
        ("drip", answering(b"HTTP/1.1 200 OK\r\ncontent-le", false).await, Err("timeout")),
        ("garbage", answering(b"\x00\xff nothing of HTTP \r\n\r\n", false).await, Err("not_http")),
        ("version", answering(b"HTTP/2.0 200 OK\r\n\r\n", false).await, Err("invalid_answer")),
        ("headers", answering(huge.as_bytes(), false).await, Err("invalid_answer")),
        ("bomb", answering(bomb, false).await, Ok(200)),
        ("silent", answering(b"", false).await, Err("timeout")),
        ("continue", answering(b"HTTP/1.1 100 Continue\r\n\r\n", true).await, Err("timeout")),
    ];
    for (name, address, _) in &cases {
        forwards.push(format!("https://app.example.com/{name}=http://{address}"));
    }
    let reset = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    forwards.push(format!("https://app.example.com/reset=http://{}", reset.local_addr().expect("an address")));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = reset.accept().await {
            let _ = stream.read(&mut [0; 64]).await;
            stream.set_zero_linger().expect("the option is there");
        }
    });
    let mut good = Receiver::plain(&[]).await;
    forwards.push(format!("https://app.example.com/good=http://{}", good.address));
    let start = builder().set("webhooks.retry.preset=none").set("webhooks.timeout=100ms");
    let emulator = started(forwards.iter().fold(start, |builder, rule| builder.forward(rule))).await;
    for (name, _, expected) in &cases {
        // Time passes only for an attempt that has to end by its timeout.
        let outcome = match expected {
            Err("timeout") => time.passes_until(attempt(&emulator, name)).await,
            _ => attempt(&emulator, name).await,
        };
        match expected {
            Ok(status) => assert_eq!(outcome["status"], *status, "{name}: {outcome}"),
            Err(reason) => assert_eq!(outcome["failure"], *reason, "{name}: {outcome}"),
        }
        assert!(outcome["body"].as_str().is_none_or(|body| body.len() <= 16 * 1024), "{name}");
        let next = attempt(&emulator, "good").await;
        assert_eq!(next["status"], 200, "after {name}: {next}");
        good.next().await;
    }
    let outcome = attempt(&emulator, "reset").await;
    assert_eq!(outcome["failure"], "connection_reset", "{outcome}");
}

#[tokio::test]
async fn redirects_are_failures_and_never_visited() {
    let mut elsewhere = Receiver::plain(&[]).await;
    let target = format!("http://{}/elsewhere", elsewhere.address);
    let mut forwards = Vec::new();
    let statuses = [301, 302, 303, 307, 308];
    for status in statuses {
        let answer =
            format!("HTTP/1.1 {status} Go\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let address = answering(Box::leak(answer.into_bytes().into_boxed_slice()), false).await;
        forwards.push(format!("https://app.example.com/{status}=http://{address}"));
    }
    let start = builder().set("webhooks.retry.preset=none");
    let emulator = started(forwards.iter().fold(start, |builder, rule| builder.forward(rule))).await;
    for status in statuses {
        assert_eq!(attempt(&emulator, &status.to_string()).await["status"], status);
    }
    let listed = view(&emulator, "deliveries?status=exhausted").await;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(statuses.len()), "{listed}");
    elsewhere.nothing_more();
}

#[tokio::test]
async fn kept_connections_end_with_the_emulator() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let forward = format!("https://app.example.com=http://{}", listener.local_addr().expect("an address"));
    let emulator = started(builder().forward(&forward)).await;
    subscribe_url(&emulator, KEY, "https://app.example.com/").await;
    let receive = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        // The end of the event.
        while !request.ends_with(b"}}") {
            assert!(stream.read_buf(&mut request).await.expect("a request") > 0, "half a request");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("an open connection");
        stream
    };
    let payload = json!({ "type": "workflow.completed" });
    let (mut stream, _) = tokio::join!(receive, fire(&emulator, &payload));
    emulator.stop().await.expect("it stops");
    let end = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 1])).await.expect("the end in time");
    assert_eq!(end.expect("an orderly end"), 0);
}

/// The first attempt that fails at a receiver which answers with these bytes: outcome and explanation.
async fn explained(bytes: &'static [u8], settings: &[&str]) -> (Value, String) {
    let address = answering(bytes, false).await;
    let start =
        builder().set("webhooks.retry.preset=none").forward(&format!("https://app.example.com=http://{address}"));
    let emulator = started(settings.iter().fold(start, |start, setting| start.set(setting))).await;
    let made =
        subscribe(&emulator, &json!({ "url": "https://app.example.com/", "events": ["workflow.completed"] })).await;
    let event = json!({ "type": "workflow.completed", "subscription": made.json()["id"] });
    let delivery = fire(&emulator, &event).await["deliveries"][0].clone();
    let explanation = view(&emulator, &format!("explain/{}", delivery["id"].as_str().expect("an id"))).await;
    let step = explanation["steps"][0]["detail"].as_str().expect("words").to_owned();
    (delivery["attempts"][0]["outcome"].clone(), step)
}

/// Each in the attempt and in the explanation, with what helps.
#[tokio::test]
async fn a_receiver_that_speaks_another_protocol_is_said_in_words() {
    for (bytes, failure, expected) in [
        (
            &b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x00\x08\x07\x00\x00\x00\x00\x00"[..],
            "not_http",
            "the receiver speaks HTTP/2 there, and deliveries are sent over HTTP/1.1: let it accept HTTP/1.1 as well",
        ),
        (b"\x15\x03\x01\x00\x02\x02\x46", "tls_expected", "the receiver expects TLS there"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not_http", "SSH answers there, not HTTP; is the port right?"),
        (b"-ERR unknown command\r\n", "not_http", "Redis answers there, not HTTP; is the port right?"),
        (b"EFATAL:  unsupported", "not_http", "PostgreSQL answers there, not HTTP; is the port right?"),
        (b"hello whsec_c2VjcmV0c2VjcmV0\n", "not_http", "it begins with `hello …`; is the port right?"),
        (b"\x80\x81\x82", "not_http", "it begins with the bytes 80 81 82; is the port right?"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "invalid_answer", "; it begins with `HTTP/2.0 200 OK`"),
    ] {
        let (outcome, step) = explained(bytes, &[]).await;
        assert_eq!(outcome["failure"], failure, "{outcome}");
        assert!(step.contains(expected), "{step}");
        let to = outcome["hint"]["advice"]["to"].as_str().unwrap_or_default();
        assert_eq!(to.starts_with("https://127.0.0.1:"), failure == "tls_expected", "{outcome}");
        assert_eq!(outcome["detail"], *step);
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_without_a_byte_asks_about_the_protocol() {
    let closing = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = closing.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = closing.accept().await {
            let _ = stream.read(&mut [0; 16 * 1024]).await;
        }
    });
    let plain = format!("https://app.example.com/plain=http://{address}");
    let secure = format!("https://app.example.com/secure=https://{address}");
    let emulator = started(builder().set("webhooks.retry.preset=none").forward(&plain).forward(&secure)).await;
    for (path, failure, asked, to) in [
        ("plain", "connection_reset", "did it crash, or does it not speak HTTP there?", "https://"),
        ("secure", "tls_failed", "does it speak TLS there?", "http://"),
    ] {
        let outcome = attempt(&emulator, path).await;
        let (detail, advice) = (outcome["detail"].as_str().expect("words"), &outcome["hint"]["advice"]);
        assert_eq!(outcome["failure"], failure, "{outcome}");
        assert!(detail.contains(asked), "{detail}");
        assert_eq!(advice["url"], format!("https://app.example.com/{path}"), "{outcome}");
        assert!(advice["to"].as_str().is_some_and(|advised| advised.starts_with(to)), "{outcome}");
    }
}

/// What does not speak HTTP closes a connection at once.
#[tokio::test]
async fn a_connection_that_is_closed_after_a_while_asks_about_the_handler() {
    let time = MachineTime::stop();
    let holding = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let forward = format!("https://app.example.com=http://{}", holding.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = holding.accept().await {
            let _ = stream.read(&mut [0; 16 * 1024]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let emulator = started(builder().set("webhooks.retry.preset=none").forward(&forward)).await;
    let outcome = time.passes_until(attempt(&emulator, "held")).await;
    assert_eq!(outcome["failure"], "connection_reset", "{outcome}");
    assert!(outcome["detail"].as_str().is_some_and(|detail| detail.contains("without an answer after a while")));
    let hint =
        json!({ "text": "does the receiver's handler always send an answer, also when it throws?", "advice": null });
    assert_eq!(outcome["hint"], hint, "{outcome}");
}

#[tokio::test]
async fn where_a_redirect_leads_and_a_wait_that_cannot_be_read_are_named() {
    let (outcome, step) = explained(b"HTTP/1.1 308 Go\r\nlocation: /hooks/\r\ncontent-length: 0\r\n\r\n", &[]).await;
    assert_eq!((&outcome["status"], &outcome["note"]), (&json!(308), &json!("Location: /hooks/")));
    assert_eq!(outcome["location"], "/hooks/");
    assert_eq!(step, "the receiver answered 308 (Location: /hooks/); redirects are failures and not followed");
    let (outcome, step) =
        explained(b"HTTP/1.1 503 No\r\nretry-after: in a while\r\ncontent-length: 0\r\n\r\n", &[]).await;
    let note = "Retry-After: in a while, which is neither a number of seconds nor an HTTP date";
    assert_eq!(outcome["note"], note);
    assert_eq!(step, format!("the receiver answered 503 ({note}); only 2xx accepts an event"));
    let (outcome, _) = explained(b"HTTP/1.1 503 No\r\nretry-after: 15.5\r\ncontent-length: 0\r\n\r\n", &[]).await;
    assert_eq!(outcome.get("note"), None, "{outcome}");
}

#[tokio::test]
async fn a_redirect_to_https_on_the_receivers_own_address_is_explained() {
    let redirect = |location: &str| {
        let answer = format!("HTTP/1.1 301 Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        &*Box::leak(answer.into_bytes().into_boxed_slice())
    };
    let (outcome, step) = explained(redirect("https://APP.example.com/"), &[]).await;
    let note = "Location: https://APP.example.com/ (its own address: it believes that the request came by plain HTTP, although X-Forwarded-Proto \
                is https; many frameworks read that header only once the proxy is trusted, so trust it, or forward to an https address)";
    assert_eq!((&outcome["status"], &outcome["note"]), (&json!(301), &json!(note)));
    assert!(step.contains("X-Forwarded-Proto"), "{step}");
    let (outcome, _) = explained(redirect("https://127.0.0.1/"), &[]).await;
    assert!(outcome["note"].as_str().is_some_and(|note| note.contains("its own address")), "{outcome}");
    for elsewhere in ["https://other.example.com/", "http://app.example.com/", "/"] {
        let (outcome, _) = explained(redirect(elsewhere), &[]).await;
        assert_eq!(outcome["note"], format!("Location: {elsewhere}"));
    }
    // Without a forward.
    let address = answering(redirect("https://127.0.0.1:8443/"), false).await;
    let emulator = started(builder().set("webhooks.retry.preset=none").set("webhooks.allow_http=true")).await;
    subscribe_url(&emulator, KEY, &format!("http://{address}/")).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let note = fired["deliveries"][0]["attempts"][0]["outcome"]["note"].to_string();
    assert!(
        note.contains("it refuses plain HTTP; turn that redirect off for tests, or use its https address"),
        "{note}"
    );
}

#[tokio::test]
async fn the_body_of_an_answer_has_to_end_in_time_but_may_break_off() {
    let begun = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok";
    let time = MachineTime::stop();
    let (outcome, step) = time.passes_until(explained(begun, &["webhooks.timeout=100ms"])).await;
    drop(time);
    let said = "the receiver answered 200, but its body did not end within 0.1 s (webhooks.timeout)";
    assert_eq!((&outcome["failure"], &outcome["detail"]), (&json!("timeout"), &json!(said)));
    assert_eq!(step, said);
    let (mut outcomes, broken) = (Vec::new(), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    let address = broken.local_addr().expect("an address");
    tokio::spawn(async move {
        for status in ["200", "401"] {
            let (mut stream, _) = broken.accept().await.expect("a connection");
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 9\r\n\r\nok");
            stream.write_all(answer.as_bytes()).await.expect("an open connection");
        }
    });
    let start =
        builder().set("webhooks.retry.preset=none").forward(&format!("https://app.example.com=http://{address}"));
    let emulator = started(start).await;
    for path in ["a", "b"] {
        outcomes.push(attempt(&emulator, path).await);
    }
    // The status decides, whatever follows it; what is missing is named.
    let note = "its body broke off after 2 of 9 bytes: the connection ended";
    for (outcome, status) in outcomes.iter().zip([200, 401]) {
        assert_eq!((&outcome["status"], &outcome["note"]), (&json!(status), &json!(note)), "{outcome}");
    }
}

/// A receiver that sends these bytes over TLS and closes the connection without `close_notify`.
async fn closing_without_notice(certificates: &Certificates, bytes: &'static [u8]) -> String {
    let (listener, tls) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), certificates.acceptor());
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = tls.accept(stream).await.expect("a handshake");
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                assert!(stream.read_buf(&mut request).await.expect("a request") > 0);
            }
            stream.write_all(bytes).await.expect("an open connection");
            stream.flush().await.expect("an open connection");
            drop(stream);
        }
    });
    address
}

#[tokio::test]
async fn the_end_of_a_tls_connection_ends_a_body_without_a_length() {
    let certificates = Certificates::for_localhost();
    for (answer, expected) in [
        (&b"HTTP/1.0 200 OK\r\n\r\nok"[..], json!({ "status": 200, "body": "ok" })),
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", json!({ "status": 204, "body": "" })),
        (b"HTTP/1.1 503 No\r\nConnection: close\r\n\r\nbusy", json!({ "status": 503, "body": "busy" })),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            json!({ "status": 200, "body": "ok", "note": "its body broke off after 2 of 9 bytes: the connection ended" }),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
            json!({ "status": 200, "body": "ok", "note": "its body broke off after 2 bytes: the connection ended" }),
        ),
        (b"HTTP/1.1 200 OK\r\nContent-", json!({ "failure": "connection_reset" })),
    ] {
        let address = closing_without_notice(&certificates, answer).await;
        let start = builder().set("webhooks.retry.preset=none").webhook_ca(certificates.ca_file());
        let emulator = started(start.forward(&format!("https://app.example.com=https://{address}"))).await;
        let mut outcome = attempt(&emulator, "a").await;
        outcome
            .as_object_mut()
            .expect("an object")
            .retain(|field, _| !["detail", "accepted"].contains(&field.as_str()));
        assert_eq!(outcome, expected, "{}", String::from_utf8_lossy(answer));
    }
}
