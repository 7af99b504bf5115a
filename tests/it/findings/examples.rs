//! Traffic with each finding and without it.

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Traffic that shows a rule at work.
pub(super) enum Example {
    /// Requests, each as on the wire with plain line ends, all on one connection.
    Requests { settings: &'static [&'static str], found: Vec<String>, sound: Vec<String> },
    /// An event, as in the body of `POST /_emulator/events`, and the statuses of a receiver with the finding and of one without it;
    /// 0 is no answer.
    Deliveries { event: &'static str, settings: &'static [&'static str], found: &'static [u16], sound: &'static [u16] },
}

/// The example of the finding with this code.
pub(super) fn example(code: &str) -> Example {
    if code.starts_with("receiver-") { deliveries(code) } else { requests(code) }
}

/// A request with these lines of further fields.
fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\nhost: localhost\n{fields}\n")
}

/// A request with a test key, as most examples have it.
fn asked(target: &str) -> String {
    get(target, "authorization: Bearer sk_test_local\n")
}

/// As many status checks.
fn checks(count: usize) -> Vec<String> {
    vec![asked("/v1/system/status"); count]
}

/// A subscribe request by this key, with this content type, URL and text after the events.
fn subscribe_as(key: &str, media: &str, url: &str, further: &str) -> String {
    format!(
        "POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer {key}\ncontent-type: {media}\n\n\
         {{\"url\":\"{url}\",\"events\":[\"workflow.completed\"]{further}}}"
    )
}

/// A subscribe request as most examples have it, perhaps with a further field.
fn subscribe(further: &str) -> String {
    subscribe_as("sk_test_local", "application/json", "https://a.sink.localhost/", further)
}

fn with_secret(secret: &str) -> String {
    subscribe(&format!(",\"secret\":\"{secret}\""))
}

fn requests(code: &str) -> Example {
    const PATH: &str = "/v1/system/status";
    const JSON: &str = "application/json";
    let settings: &[&str] = match code {
        "no-back-off" | "quick-retry" => &["rate_limit.requests=1"],
        "before-retry-after" => &["rate_limit.requests=1", "rate_limit.retry_after=seconds"],
        _ => &[],
    };
    let browser = "authorization: Bearer sk_test_local\norigin: https://app.example.com\nsec-fetch-site: cross-site\n\
                   sec-fetch-mode: cors\n";
    let wrong_key = get(PATH, "authorization: Bearer wrong\n");
    let invalid = asked("/v1/system/status?include_checks=maybe");
    let (found, sound) = match code {
        "key-in-url" => (vec![get("/v1/system/status?api_key=sk_test_local", "")], checks(1)),
        "key-in-body" => (vec![subscribe(",\"description\":\"sk_test_local\"")], vec![subscribe("")]),
        "key-in-another-header" => (vec![get(PATH, "x-api-key: sk_test_local\n")], checks(1)),
        "key-sent-to-hello" => (vec![asked("/v1/hello")], vec![get("/v1/hello", "")]),
        // Node's own fetch sends one of a browser's fields.
        "called-from-a-browser" => {
            (vec![get(PATH, browser)], vec![get(PATH, "authorization: Bearer sk_test_local\nsec-fetch-mode: cors\n")])
        }
        "live-key-in-the-sandbox" => (vec![get(PATH, "authorization: Bearer sk_live_abcdefgh\n")], checks(1)),
        "no-back-off" => (checks(10), checks(2)),
        "quick-retry" | "before-retry-after" => (checks(3), checks(2)),
        "polls-while-subscribed" => {
            ([vec![subscribe("")], checks(10)].concat(), [vec![subscribe("")], checks(1)].concat())
        }
        "loop-after-401" => (vec![wrong_key.clone(); 3], [vec![wrong_key], checks(1)].concat()),
        "invalid-repeated" => (vec![invalid.clone(); 2], [vec![invalid], checks(1)].concat()),
        "wrong-path" => (vec![get("/v1/system/stat", "")], checks(1)),
        "unknown-parameter" => {
            (vec![asked("/v1/system/status?include_check=true")], vec![asked("/v1/system/status?include_checks=true")])
        }
        "unknown-field" => (vec![subscribe(",\"name\":\"a\"")], vec![subscribe("")]),
        "duplicate-json-key" => (vec![subscribe(",\"url\":\"https://b.sink.localhost/\"")], vec![subscribe("")]),
        "wrong-content-type" => {
            let sent = subscribe_as("sk_test_local", "text/plain", "https://a.sink.localhost/", "");
            (vec![sent], vec![subscribe("")])
        }
        "secret-weak" => (vec![with_secret("mysecret123")], vec![with_secret(SECRET)]),
        "secret-ambiguous" => (vec![with_secret(SECRET.trim_start_matches("whsec_"))], vec![with_secret(SECRET)]),
        "secret-reused" => {
            let other = with_secret(SECRET).replace("//a.", "//b.");
            (vec![with_secret(SECRET), other], vec![with_secret(SECRET); 2])
        }
        "secret-is-a-key" => {
            let further = ",\"secret\":\"sk_test_local_abcdefgh\"";
            let sent = subscribe_as("sk_test_local_abcdefgh", JSON, "https://a.sink.localhost/", further);
            (vec![sent], vec![with_secret(SECRET)])
        }
        _ => panic!("`{code}` has no example"),
    };
    Example::Requests { settings, found, sound }
}

fn deliveries(code: &str) -> Example {
    const ONCE: &str = "webhooks.retry.preset=none";
    const PLAIN: &str = r#"{"type":"workflow.completed"}"#;
    let (event, settings, found, sound): (_, &'static [&'static str], &'static [u16], &'static [u16]) = match code {
        "receiver-accepts-forged" => (r#"{"type":"workflow.completed","tamper":"signature"}"#, &[], &[200], &[401]),
        "receiver-accepts-stale" => (r#"{"type":"workflow.completed","tamper":"timestamp"}"#, &[], &[200], &[401]),
        "receiver-accepts-unsigned" => (r#"{"type":"workflow.completed","tamper":"headers"}"#, &[], &[204], &[400]),
        "receiver-refuses-valid" => (PLAIN, &[ONCE, "webhooks.timestamp=real"], &[401], &[200]),
        "receiver-refuses-duplicate" => {
            (r#"{"type":"workflow.completed","duplicate":2}"#, &[ONCE], &[200, 409], &[200, 200])
        }
        "receiver-redirects" => (PLAIN, &[ONCE], &[307], &[200]),
        "receiver-slow" => (PLAIN, &[ONCE, "webhooks.timeout=1s"], &[0], &[200]),
        _ => panic!("`{code}` has no example"),
    };
    Example::Deliveries { event, settings, found, sound }
}
