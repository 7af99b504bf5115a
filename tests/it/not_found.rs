//! 404 answers of the emulated API: the contract's envelope, with a message that helps.

use crate::support::{get, start};

#[tokio::test]
async fn a_404_names_the_path_and_the_nearest_endpoint() {
    let emulator = start().await;
    for (path, message) in [
        ("/v1/sytem/status", "no endpoint `/v1/sytem/status`; did you mean GET /v1/system/status?"),
        ("/v1/system/status/", "no endpoint `/v1/system/status/`; did you mean GET /v1/system/status?"),
        ("/v1//hello", "no endpoint `/v1//hello`; did you mean GET /v1/hello?"),
        ("/hello", "no endpoint `/hello`; did you mean GET /v1/hello?"),
        ("/v2/hello", "no endpoint `/v2/hello`; did you mean GET /v1/hello?"),
        ("/V1/Events/Subscribe", "no endpoint `/V1/Events/Subscribe`; did you mean POST /v1/events/subscribe?"),
        ("/v1/events/subscriptions", "no endpoint `/v1/events/subscriptions`; did you mean POST /v1/events/subscribe?"),
        ("/health", "no endpoint `/health`; GET /_emulator/health says whether the emulator is ready"),
        ("/", "no endpoint `/`; GET /_emulator/health says whether the emulator is ready"),
        (
            "/v1/invoices",
            "no endpoint `/v1/invoices`; there are GET /v1/system/status, POST /v1/events/subscribe and GET /v1/hello; a \
             scenario's rule with `when.path` and `reply` can answer it",
        ),
    ] {
        let answer = get(&emulator, path).await;
        assert_eq!((answer.status, answer.code().as_str(), answer.message().as_str()), (404, "not_found", message));
        let fields: Vec<String> = answer.json()["error"].as_object().expect("an object").keys().cloned().collect();
        assert_eq!(fields, ["code", "message", "request_id"]);
    }
}

#[tokio::test]
async fn what_is_repeated_of_the_path_is_escaped_and_short() {
    let emulator = start().await;
    let long = format!("/v1/{}", "system/".repeat(1_000));
    let answer = get(&emulator, &long).await;
    let message = answer.message();
    assert!(
        message.starts_with("no endpoint `/v1/system/system/") && message.contains("…`") && message.len() < 250,
        "{message}"
    );
    for odd in ["/v1/%3Cscript%3E", "/v1/\"quoted\"", "/v1/{x}|y", "/v1/\u{fc}"] {
        let raw = crate::support::raw(
            &emulator,
            format!("GET {odd} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        let body = raw.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if raw.starts_with("HTTP/1.1 404 ") {
            assert!(!body.contains(['<', '>']) && body.is_ascii() && !body.contains("`/v1/\\\""), "{body}");
        }
    }
}
