//! Traffic with each finding and without it.

/// A subscribe request as on the wire: as most examples have it, perhaps with a further field; or with this key, content type, URL,
/// and text after the events.
macro_rules! subscribe {
    () => {
        subscribe!("sk_test_local", "application/json", r#""url":"https://a.sink.localhost/""#)
    };
    ($further:literal) => {
        subscribe!("sk_test_local", "application/json", r#""url":"https://a.sink.localhost/""#, ",", $further)
    };
    ($key:literal, $media:literal, $url:literal $(, $further:literal)*) => {
        concat!(
            "POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer ",
            $key,
            "\ncontent-type: ",
            $media,
            "\n\n{",
            $url,
            r#","events":["workflow.completed"]"#,
            $($further,)*
            "}"
        )
    };
}

/// A call of the status check by a test key, as most examples have it.
const STATUS: &str = "GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n";
const SOUND_SUBSCRIBE: &str = subscribe!();
/// A subscription with a secret as it should be.
const SOUND_SECRET: &str = subscribe!(r#""secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#);

/// Traffic that shows a rule at work.
#[derive(Clone, Copy)]
pub(super) enum Example {
    /// Requests, each as on the wire with plain line ends, all on one connection.
    Requests { settings: &'static [&'static str], found: &'static [&'static str], sound: &'static [&'static str] },
    /// An event, as in the body of `POST /_emulator/events`, and the statuses of a receiver with the finding and of one without it;
    /// 0 is no answer.
    Deliveries { event: &'static str, settings: &'static [&'static str], found: &'static [u16], sound: &'static [u16] },
}

const fn requests(found: &'static [&'static str], sound: &'static [&'static str]) -> Example {
    Example::Requests { settings: &[], found, sound }
}

const fn deliveries(
    event: &'static str,
    settings: &'static [&'static str],
    found: &'static [u16],
    sound: &'static [u16],
) -> Example {
    Example::Deliveries { event, settings, found, sound }
}

/// The example of the finding with this code.
pub(super) fn example(code: &str) -> Example {
    let found = EXAMPLES.iter().find(|(known, _)| *known == code);
    found.unwrap_or_else(|| panic!("`{code}` has no example")).1
}

const EXAMPLES: &[(&str, Example)] = &[
    ("key-in-url", requests(&["GET /v1/system/status?api_key=sk_test_local HTTP/1.1\nhost: localhost\n\n"], &[STATUS])),
    ("key-in-body", requests(&[subscribe!(r#""description":"sk_test_local""#)], &[SOUND_SUBSCRIBE])),
    (
        "key-in-another-header",
        requests(&["GET /v1/system/status HTTP/1.1\nhost: localhost\nx-api-key: sk_test_local\n\n"], &[STATUS]),
    ),
    (
        "key-sent-to-hello",
        requests(
            &["GET /v1/hello HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n"],
            &["GET /v1/hello HTTP/1.1\nhost: localhost\n\n"],
        ),
    ),
    (
        "called-from-a-browser",
        requests(
            &["GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
               origin: https://app.example.com\nsec-fetch-site: cross-site\nsec-fetch-mode: cors\n\n"],
            // Node's own fetch.
            &[
                "GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\nsec-fetch-mode: cors\n\n",
            ],
        ),
    ),
    (
        "live-key-in-the-sandbox",
        requests(
            &["GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_live_abcdefgh\n\n"],
            &[STATUS],
        ),
    ),
    (
        "no-back-off",
        Example::Requests { settings: &["rate_limit.requests=1"], found: &[STATUS; 10], sound: &[STATUS, STATUS] },
    ),
    (
        "quick-retry",
        Example::Requests {
            settings: &["rate_limit.requests=1"],
            found: &[STATUS, STATUS, STATUS],
            sound: &[STATUS, STATUS],
        },
    ),
    (
        "polls-while-subscribed",
        requests(
            &[SOUND_SUBSCRIBE, STATUS, STATUS, STATUS, STATUS, STATUS, STATUS, STATUS, STATUS, STATUS, STATUS],
            &[SOUND_SUBSCRIBE, STATUS],
        ),
    ),
    (
        "before-retry-after",
        Example::Requests {
            settings: &["rate_limit.requests=1", "rate_limit.retry_after=seconds"],
            found: &[STATUS, STATUS, STATUS],
            sound: &[STATUS, STATUS],
        },
    ),
    (
        "loop-after-401",
        requests(
            &["GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer wrong\n\n"; 3],
            &["GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer wrong\n\n", STATUS],
        ),
    ),
    (
        "invalid-repeated",
        requests(
            &["GET /v1/system/status?include_checks=maybe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n";
                2],
            &[
                "GET /v1/system/status?include_checks=maybe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
                STATUS,
            ],
        ),
    ),
    ("wrong-path", requests(&["GET /v1/system/stat HTTP/1.1\nhost: localhost\n\n"], &[STATUS])),
    (
        "unknown-parameter",
        requests(
            &[
                "GET /v1/system/status?include_check=true HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
            ],
            &[
                "GET /v1/system/status?include_checks=true HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
            ],
        ),
    ),
    ("unknown-field", requests(&[subscribe!(r#""name":"a""#)], &[SOUND_SUBSCRIBE])),
    (
        "duplicate-json-key",
        requests(
            &[subscribe!(
                "sk_test_local",
                "application/json",
                r#""url":"https://b.sink.localhost/","url":"https://a.sink.localhost/""#
            )],
            &[SOUND_SUBSCRIBE],
        ),
    ),
    (
        "wrong-content-type",
        requests(
            &[subscribe!("sk_test_local", "text/plain", r#""url":"https://a.sink.localhost/""#)],
            &[SOUND_SUBSCRIBE],
        ),
    ),
    ("secret-weak", requests(&[subscribe!(r#""secret":"mysecret123""#)], &[SOUND_SECRET])),
    (
        "secret-reused",
        requests(
            &[
                SOUND_SECRET,
                subscribe!(
                    "sk_test_local",
                    "application/json",
                    r#""url":"https://b.sink.localhost/""#,
                    r#","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#
                ),
            ],
            &[SOUND_SECRET; 2],
        ),
    ),
    (
        "secret-is-a-key",
        requests(
            &[subscribe!(
                "sk_test_local_abcdefgh",
                "application/json",
                r#""url":"https://a.sink.localhost/""#,
                r#","secret":"sk_test_local_abcdefgh""#
            )],
            &[SOUND_SECRET],
        ),
    ),
    ("secret-ambiguous", requests(&[subscribe!(r#""secret":"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#)], &[SOUND_SECRET])),
    (
        "receiver-accepts-forged",
        deliveries(r#"{"type":"workflow.completed","tamper":"signature"}"#, &[], &[200], &[401]),
    ),
    (
        "receiver-accepts-stale",
        deliveries(r#"{"type":"workflow.completed","tamper":"timestamp"}"#, &[], &[200], &[401]),
    ),
    (
        "receiver-accepts-unsigned",
        deliveries(r#"{"type":"workflow.completed","tamper":"headers"}"#, &[], &[204], &[400]),
    ),
    (
        "receiver-refuses-valid",
        deliveries(r#"{"type":"workflow.completed"}"#, &["webhooks.retry.preset=none"], &[401], &[200]),
    ),
    (
        "receiver-refuses-duplicate",
        deliveries(
            r#"{"type":"workflow.completed","duplicate":2}"#,
            &["webhooks.retry.preset=none"],
            &[200, 409],
            &[200, 200],
        ),
    ),
    (
        "receiver-redirects",
        deliveries(r#"{"type":"workflow.completed"}"#, &["webhooks.retry.preset=none"], &[307], &[200]),
    ),
    (
        "receiver-slow",
        deliveries(
            r#"{"type":"workflow.completed"}"#,
            &["webhooks.retry.preset=none", "webhooks.timeout=1s"],
            &[0],
            &[200],
        ),
    ),
];
