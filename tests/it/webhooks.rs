//! Webhooks: signed, delivered over real TLS, verified by a third party, retried by the clock, refused with a reason.

use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wrs_emulator::Emulator;

use crate::support::{
    Certificates, KEY, MachineTime, Received, Receiver, ask, builder, control, fire, refused, start, start_with,
    started, subscribe_sink, subscribe_url, view, with_receiver,
};

/// The crate `standardwebhooks` compares with the machine's clock, so these tests sign with real time.
fn verified_by_third_party(secret: &str, received: &Received) -> bool {
    Webhook::new(secret).expect("a secret").verify(&received.body, &received.headers).is_ok()
}

// proves DELIVERY SIGNED SIGNATURE EVENT_ID EVENT_TYPE EVENT_CREATED_AT EVENT_DATA COMPLETED_ID COMPLETED_STATUS
#[tokio::test]
async fn a_subscribed_endpoint_gets_a_signed_post_over_tls() {
    let certificates = Certificates::for_localhost();
    let mut receiver = Receiver::tls(&certificates, &[]).await;
    let emulator = started(builder().set("webhooks.timestamp=real").webhook_ca(certificates.ca_file())).await;
    let made = subscribe_url(&emulator, KEY, &format!("https://localhost:{}/hooks?a=1", receiver.address.port())).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed", "set": { "workflow_id": "wf_42" } })).await;
    let received = receiver.next().await;
    assert_eq!(received.path, "/hooks?a=1");
    assert_eq!(received.header("content-type"), "application/json");
    // The address is that of the machine; name and port stay those of the URL.
    assert_eq!(received.header("host"), format!("localhost:{}", receiver.address.port()));
    let envelope: Value = serde_json::from_slice(&received.body).expect("JSON");
    assert_eq!(
        envelope.as_object().expect("an object").keys().collect::<Vec<_>>(),
        ["id", "type", "created_at", "data"]
    );
    assert_eq!(envelope["data"], json!({ "workflow_id": "wf_42", "status": "completed" }));
    assert_eq!(envelope["id"].as_str(), Some(received.header("webhook-id")));
    let secret = made["secret"].as_str().expect("a secret");
    assert!(verified_by_third_party(secret, &received));
    assert!(!verified_by_third_party("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &received));
    assert_eq!(fired["deliveries"][0]["status"], "delivered");
    assert_eq!(
        fired["deliveries"][0]["attempts"][0]["request"]["body"].as_str(),
        std::str::from_utf8(&received.body).ok()
    );
}

#[tokio::test]
async fn the_built_in_sink_needs_nothing_and_verifies() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    fire(&emulator, &json!({ "type": "reference.matched" })).await;
    let got = view(&emulator, "sink/app").await;
    assert_eq!((&got["data"][0]["verified"], &got["data"][0]["status"]), (&json!(true), &json!(200)));
    let body: Value = serde_json::from_str(got["data"][0]["body"].as_str().expect("text")).expect("JSON");
    let data = body["data"].as_object().expect("an object");
    assert!(
        data["reference_id"].as_str().is_some_and(|id| id.starts_with("ref_"))
            && data["workflow_id"].as_str().is_some_and(|id| id.starts_with("wf_"))
    );
}

// proves RETRIES
#[tokio::test]
async fn a_failed_attempt_is_repeated_by_the_clock_with_the_same_id_and_body() {
    let (emulator, mut receiver) = with_receiver(builder(), &[500, 302, 200]).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let first = receiver.next().await;
    emulator.control().clock().advance(Duration::from_millis(999));
    receiver.nothing_more();
    emulator.control().clock().advance(Duration::from_millis(1));
    let second = receiver.next().await;
    // The outcome must be in before the clock moves on, or the next attempt would be planned from a later time.
    until_attempts(&emulator, 2).await;
    emulator.control().clock().advance(Duration::from_secs(4));
    let third = receiver.next().await;
    for later in [&second, &third] {
        assert_eq!((later.header("webhook-id"), &later.body), (first.header("webhook-id"), &first.body));
    }
    let times: Vec<i64> = [&first, &second, &third]
        .map(|received| received.header("webhook-timestamp").parse().expect("seconds"))
        .to_vec();
    assert_eq!(times, [1_769_851_800, 1_769_851_801, 1_769_851_805]);
    assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
    until_attempts(&emulator, 3).await;
    let shown = view(&emulator, "deliveries").await;
    assert_eq!((&shown["data"][0]["status"], &shown["data"][0]["attempts"]), (&json!("delivered"), &json!(3)));
}

async fn until_attempts(emulator: &Emulator, count: usize) {
    let deliveries = emulator.control().deliveries();
    let id = deliveries.list(None, 1, |_| true)[0].1.planned.id.clone();
    let settled = async {
        while deliveries.get(&id).is_none_or(|record| record.attempts.len() < count) {
            deliveries.changed().await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, settled).await.expect("the attempt is noted");
}

#[tokio::test]
async fn after_the_last_attempt_the_delivery_is_exhausted_and_can_be_redelivered() {
    let (emulator, mut receiver) = with_receiver(builder().set("webhooks.retry.preset=none"), &[500]).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    assert_eq!(fired["deliveries"][0]["status"], "exhausted");
    let first = receiver.next().await;
    let id = fired["deliveries"][0]["id"].as_str().expect("an id");
    let again = control(&emulator, "POST", &format!("deliveries/{id}/redeliver?wait=10s"), &json!({})).await.json();
    assert_eq!(again["delivery"]["status"], "delivered");
    let second = receiver.next().await;
    assert_eq!((first.header("webhook-id"), &first.body), (second.header("webhook-id"), &second.body));
}

// proves SUBSCRIPTION_STATES
#[tokio::test]
async fn gone_disables_the_subscription_until_it_subscribes_again() {
    let (emulator, mut receiver) = with_receiver(builder(), &[410]).await;
    let fired = fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    assert_eq!(fired["deliveries"][0]["status"], "cancelled");
    receiver.next().await;
    let nobody = control(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    assert_eq!((nobody.status, nobody.code().as_str()), (404, "no_match"));
    assert_eq!(nobody.json()["events"][0]["skipped"][0]["reason"], "disabled");
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    receiver.next().await;
}

// proves ORDER
#[tokio::test]
async fn events_stay_in_order_and_a_stuck_receiver_delays_no_other() {
    let mut receiver = Receiver::plain(&[]).await;
    let stuck = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let emulator = started(
        builder()
            .forward(&format!("https://app.example.com=http://{}", receiver.address))
            .forward(&format!("https://stuck.example.com=http://{}", stuck.local_addr().expect("an address"))),
    )
    .await;
    subscribe_url(&emulator, KEY, "https://stuck.example.com/hooks").await;
    subscribe_url(&emulator, KEY, "https://app.example.com/hooks").await;
    let fired =
        control(&emulator, "POST", "events", &json!({ "type": "workflow.completed", "count": 50 })).await.json();
    let sent: Vec<&str> =
        fired["events"].as_array().expect("events").iter().map(|event| event["id"].as_str().expect("an id")).collect();
    let mut got = Vec::new();
    for _ in 0..50 {
        got.push(receiver.next().await.header("webhook-id").to_owned());
    }
    assert_eq!(got, sent);
}

#[tokio::test]
async fn each_way_to_fail_has_its_reason_and_names_what_helps() {
    let right = Certificates::for_localhost();
    let receiver = Receiver::tls(&right, &[]).await;
    let port = receiver.address.port();
    let other_name = Certificates::new(&["other.example"], |_| {});
    let named = Receiver::tls(&other_name, &[]).await;
    let old = Certificates::new(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let expired = Receiver::tls(&old, &[]).await;
    let plain = Receiver::plain(&[]).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent_port = silent.local_addr().expect("an address").port();
    // Bound and not listening, so that no other test gets the port.
    let closed = tokio::net::TcpSocket::new_v4().expect("a socket");
    closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let closed_port = closed.local_addr().expect("an address").port();
    let emulator = started(
        builder()
            .webhook_ca(other_name.ca_file())
            .webhook_ca(old.ca_file())
            .set("webhooks.retry.preset=none")
            .set("webhooks.connect_timeout=1s"),
    )
    .await;
    for (url, reason, helps) in [
        (format!("https://localhost:{port}/"), "unknown_certificate_authority", "--webhook-ca"),
        (format!("https://localhost:{}/", named.address.port()), "certificate_name_mismatch", "--webhook-insecure"),
        (format!("https://localhost:{}/", expired.address.port()), "certificate_expired", "--webhook-insecure"),
        (format!("https://localhost:{}/", plain.address.port()), "not_tls", "\"do\":\"forward\""),
        (format!("https://localhost:{silent_port}/"), "tls_timeout", "webhooks.connect_timeout"),
        (format!("https://localhost:{closed_port}/"), "connection_refused", "start your receiver there"),
        ("https://169.254.169.254/".to_owned(), "egress_refused", "never dialled"),
        ("https://[::ffff:169.254.169.254]/".to_owned(), "egress_refused", "never dialled"),
        ("https://0xa9fea9fe/".to_owned(), "egress_refused", "never dialled"),
        ("https://2852039166/".to_owned(), "egress_refused", "never dialled"),
        ("https://0251.0376.0251.0376/".to_owned(), "egress_refused", "never dialled"),
        ("https://0.0.0.0/".to_owned(), "egress_refused", "never dialled"),
        ("https://224.0.0.1/".to_owned(), "egress_refused", "never dialled"),
        ("https://[64:ff9b::a9fe:a9fe]/".to_owned(), "egress_refused", "never dialled"),
        ("https://[2002:a9fe:a9fe::]/".to_owned(), "egress_refused", "never dialled"),
        ("https://8.8.8.8/".to_owned(), "egress_refused", "--allow-egress"),
    ] {
        let made = subscribe_url(&emulator, KEY, &url).await;
        let payload = json!({ "type": "workflow.completed", "subscription": made["id"] });
        // However long a handshake takes: the limit passes for the receiver that says nothing alone.
        let time = MachineTime::stop();
        let fired = match reason {
            "tls_timeout" => time.passes_until(fire(&emulator, &payload)).await,
            _ => fire(&emulator, &payload).await,
        };
        let outcome = &fired["deliveries"][0]["attempts"][0]["outcome"];
        assert_eq!(outcome["failure"], reason, "{url}: {outcome}");
        assert!(outcome.to_string().contains(helps), "{url}: {outcome}");
    }
}

#[tokio::test]
async fn firing_refuses_what_means_nothing() {
    let emulator = start_with(&["events.extra=[\"order.paid\"]"]).await;
    subscribe_sink(&emulator, "a").await;
    for (payload, status, said) in [
        (json!({ "type": "workflow.started" }), 422, "unsupported event type"),
        (json!({ "type": "workflow.completed", "set": { "workflow": "x" } }), 422, "did you mean `workflow_id`"),
        (json!({ "type": "workflow.completed", "set": { "status.deep": "x" } }), 422, "`status` is not an object"),
        (json!({ "type": "workflow.completed", "subscription": "sub_nothing" }), 422, "no subscription `sub_nothing`"),
        (json!({ "type": "workflow.completed", "count": 0 }), 422, "count: expected 1 to"),
        (json!({ "type": "workflow.completed", "delay": "soon" }), 422, "delay: expected a duration"),
        (json!({ "type": "workflow.completed", "nonsense": 1 }), 422, "unknown field `nonsense`"),
        (json!({ "type": "workflow.completed", "key": "sk_live_x" }), 404, "not an API key"),
        (json!({ "type": "workflow.completed", "key": "sk_test_other" }), 404, "no subscription for key"),
        // It says whose subscription there is.
        (
            json!({ "type": "workflow.completed", "key": "sk_test_other" }),
            404,
            "there is one for `sk_test_local` (workspace ws_",
        ),
        (
            json!({ "type": "order.paid" }),
            404,
            "only reference.matched and workflow.completed go to the subscription sub_",
        ),
        (json!({}), 422, "missing field `type`"),
    ] {
        refused(&emulator, "POST", "events", &payload, status, said).await;
    }
}

#[tokio::test]
async fn an_event_that_no_subscription_is_for_names_the_types_that_are_subscribed() {
    let emulator = start_with(&["events.extra=[\"order.paid\"]"]).await;
    let mut ids = Vec::new();
    for (path, event) in [("a", "workflow.completed"), ("b", "reference.matched")] {
        let body =
            json!({ "key": "sk_test_a", "url": format!("https://app.sink.localhost/{path}"), "events": [event] });
        ids.push(ask(&emulator, "POST", "subscriptions", &body).await["subscription"]["id"].clone());
    }
    let (all, one) = (
        "only reference.matched and workflow.completed go to the 2 subscriptions of key `sk_test_a`".to_owned(),
        format!("only workflow.completed goes to the subscription {} of key", ids[0].as_str().expect("an id")),
    );
    let fired = json!({ "key": "sk_test_a", "type": "order.paid" });
    refused(&emulator, "POST", "events", &fired, 404, &all).await;
    // The other one is for it, and was not meant.
    let fired = json!({ "key": "sk_test_a", "type": "reference.matched", "subscription": ids[0] });
    refused(&emulator, "POST", "events", &fired, 404, &one).await;
}

/// `openssl req -x509` makes the certificate of an authority; it is trusted for its own names, and while it is valid.
#[tokio::test]
async fn a_self_signed_certificate_in_the_file_is_trusted_for_its_names() {
    let own = Certificates::self_signed(&["localhost"]);
    let signed = Certificates::for_localhost();
    let mut receivers = [Receiver::tls(&own, &[]).await, Receiver::tls(&signed, &[]).await];
    let start = builder().webhook_ca(own.ca_file()).webhook_ca(signed.leaf_file()).set("webhooks.retry.preset=none");
    let emulator = started(start).await;
    for receiver in &mut receivers {
        let outcome = outcome_at(&emulator, &format!("https://localhost:{}/", receiver.address.port())).await;
        assert_eq!(outcome["status"], 200, "{outcome}");
        receiver.next().await;
    }
    let outcome = outcome_at(&emulator, &format!("https://127.0.0.1:{}/", receivers[0].address.port())).await;
    assert_eq!(outcome["failure"], "certificate_name_mismatch", "{outcome}");
    assert_eq!(
        outcome["detail"].as_str().and_then(|detail| detail.split("; ").next()),
        Some("the certificate is not for `127.0.0.1`: it is only for localhost")
    );
    let unlisted = Receiver::tls(&Certificates::self_signed(&["localhost"]), &[]).await;
    let outcome = outcome_at(&emulator, &format!("https://localhost:{}/", unlisted.address.port())).await;
    assert_eq!(outcome["failure"], "unknown_certificate_authority", "{outcome}");
}

/// `openssl x509 -req` makes certificates of version 1, which the check of certificates does not read.
#[tokio::test]
async fn a_certificate_that_cannot_be_checked_is_accepted_without_a_check_or_named() {
    let old = Certificates::of_files(
        include_str!("certificates/version-1.pem"),
        include_str!("certificates/version-1.key.pem"),
    );
    let mut receiver = Receiver::tls(&old, &[]).await;
    let url = format!("https://localhost:{}/", receiver.address.port());
    let start = || builder().set("webhooks.retry.preset=none");
    let unchecked = started(start().configure(|settings| settings.webhook_insecure = true)).await;
    let outcome = outcome_at(&unchecked, &url).await;
    assert_eq!(outcome["status"], 200, "{outcome}");
    receiver.next().await;
    let checked = started(start().webhook_ca(old.ca_file())).await;
    let outcome = outcome_at(&checked, &url).await;
    let detail = outcome["detail"].as_str().expect("words");
    let said = "the certificate of `localhost` is not of X.509 version 3; --webhook-insecure skips the check, and a good one is made by `openssl";
    assert!(detail.starts_with(said), "{detail}");
}

/// The outcome of the one attempt to deliver to this URL.
async fn outcome_at(emulator: &Emulator, url: &str) -> Value {
    let made = subscribe_url(emulator, KEY, url).await;
    let fired = fire(emulator, &json!({ "type": "workflow.completed", "subscription": made["id"] })).await;
    fired["deliveries"][0]["attempts"][0]["outcome"].clone()
}

/// A server that answers the first bytes of a handshake with these.
async fn answering(bytes: &'static [u8]) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    port
}

#[tokio::test]
async fn each_way_in_which_a_handshake_fails_is_named_in_words() {
    let young = Certificates::new(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2100, 1, 1);
        params.not_after = rcgen::date_time_ymd(2100, 1, 2);
    });
    let old = Certificates::new(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    });
    let clients = Certificates::for_localhost();
    let mut receivers = Vec::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        receivers.push(Receiver::tls(&clients.asking_for_certificates(version), &[]).await);
    }
    let (not_yet, expired) = (Receiver::tls(&young, &[]).await, Receiver::tls(&old, &[]).await);
    let port = |receiver: &Receiver| receiver.address.port();
    let files = [&young, &old, &clients];
    let start = files.iter().fold(builder(), |start, one| start.webhook_ca(one.ca_file()));
    let emulator = started(start.set("webhooks.retry.preset=none")).await;
    let asked = "it asked for a client certificate, and the emulator sends none";
    for (port, failure, said) in [
        (port(&not_yet), "certificate_expired", "is not valid before 2100-01-01T00:00:00Z; "),
        (port(&expired), "certificate_expired", "expired on 2020-01-02T00:00:00Z; "),
        (port(&receivers[0]), "tls_failed", asked),
        (port(&receivers[1]), "tls_failed", asked),
        (answering(b"\x15\x03\x01\x00\x02\x02\x46").await, "tls_failed", "it supports neither TLS 1.2 nor TLS 1.3"),
        (answering(b"\x15\x03\x01\x00\x02\x02\x28").await, "tls_failed", "there is no cipher suite that both support"),
        (answering(b"\x15\x03\x03\x00\x02\x02\x70").await, "tls_failed", "it has no certificate for that host name"),
        (answering(b"\x15\x03\x03\x00\x02\x02\x16").await, "tls_failed", "the alert \"record overflow\""),
        (answering(b"").await, "tls_failed", "the peer closed the connection"),
        (answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await, "not_tls", "does not speak TLS there"),
    ] {
        let outcome = outcome_at(&emulator, &format!("https://localhost:{port}/")).await;
        assert_eq!(outcome["failure"], failure, "{said}: {outcome}");
        let detail = outcome["detail"].as_str().expect("a detail");
        // No name of a variant.
        let is_variant = |word: &str| {
            let letters = word.trim_matches(|letter: char| !letter.is_alphanumeric());
            letters.chars().skip(1).any(|letter| letter.is_ascii_uppercase())
                && letters.chars().any(|letter| letter.is_ascii_lowercase())
                && letters.chars().all(char::is_alphabetic)
        };
        assert!(detail.contains(said) && !detail.split_whitespace().any(is_variant), "{said}: {detail}");
    }
}

/// What is signed and shown is the URL as it was subscribed, and not as it is parsed.
#[tokio::test]
async fn a_scheme_that_signs_the_url_signs_the_one_that_was_subscribed() {
    let mut receiver = Receiver::plain(&[]).await;
    let start = builder()
        .set("webhooks.scheme=custom")
        .set("webhooks.custom.content={timestamp}.{url}.{body}")
        .forward(&format!("https://app.example.com=http://{}", receiver.address));
    let emulator = started(start).await;
    for url in ["https://app.example.com", "https://APP.example.com:443/a/../hooks"] {
        let made = subscribe_url(&emulator, KEY, url).await;
        assert_eq!(made["url"], url);
        let event = json!({ "type": "workflow.completed", "subscription": made["id"] });
        let delivery = fire(&emulator, &event).await["deliveries"][0].clone();
        receiver.next().await;
        let attempt = &delivery["attempts"][0];
        assert_eq!(
            (&delivery["url"], &attempt["url"], &attempt["outcome"]["status"]),
            (&json!(url), &json!(url), &json!(200))
        );
        assert!(
            attempt["signed_content"].as_str().is_some_and(|signed| signed.contains(&format!(".{url}."))),
            "{attempt}"
        );
        let id = delivery["id"].as_str().expect("an id");
        let again = control(&emulator, "POST", &format!("deliveries/{id}/redeliver?wait=10s"), &json!({})).await.json();
        assert_eq!(again["delivery"]["url"], url);
        receiver.next().await;
    }
}

/// The libraries of a service do not read a delivery without them.
#[tokio::test]
async fn deliveries_carry_the_headers_that_the_libraries_of_a_service_require() {
    for (scheme, headers) in [
        ("github", &[("x-github-event", "workflow.completed"), ("x-github-delivery", "evt_")][..]),
        (
            "shopify",
            &[
                ("x-shopify-topic", "workflow.completed"),
                ("x-shopify-shop-domain", "wrs-emulator.myshopify.com"),
                ("x-shopify-api-version", "20"),
                ("x-shopify-webhook-id", "evt_"),
            ],
        ),
    ] {
        let (emulator, mut receiver) = with_receiver(builder().set(&format!("webhooks.scheme={scheme}")), &[]).await;
        fire(&emulator, &json!({ "type": "workflow.completed" })).await;
        let received = receiver.next().await;
        for (name, value) in headers {
            assert!(received.header(name).starts_with(value), "{scheme} {name}: {}", received.header(name));
        }
    }
}
