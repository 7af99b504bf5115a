//! Targets, `Host`, methods and versions of requests that parse.

use serde_json::json;

use super::peer::{GOOD, Peer, assert_error, assert_journaled};
use crate::support::{builder, control, send, start, start_with, started, view};

#[tokio::test]
async fn a_host_is_judged_alike_in_both_versions() {
    let emulator = start().await;
    for (target, host, status) in [
        ("", "Host: localhost\r\n", 200),
        ("", "Host: 127.0.0.1:9770\r\n", 200),
        // What is no browser may leave it out, as health checks do.
        ("", "", 200),
        ("", "Host: x@evil.example\r\n", 400),
        ("", "Host: localhost@evil.example\r\n", 400),
        ("", "Host: evil.example@localhost\r\n", 400),
        ("", "Host:\r\n", 400),
        ("", "Host: :9770\r\n", 400),
        ("", "Host: localhost evil.example\r\n", 400),
        ("", "Host: localhost:80@evil.example\r\n", 400),
        ("", "Host: localhost:x\r\n", 400),
        ("", "Host: localhost:+80\r\n", 400),
        ("", "Host: localhost:70000\r\n", 400),
        ("", "Host: localhost\r\nHost: localhost\r\n", 400),
        ("", "Host: localhost\r\nHost: evil.example\r\n", 400),
        ("", "Host: http://localhost/\r\n", 400),
        ("", "Host: localhost/evil.example\r\n", 400),
        ("", "Host: localhost\tevil.example\r\n", 400),
        ("", "Host: [::1%25eth0]\r\n", 400),
        ("", "Host: [::1\r\n", 400),
        ("", "Host: \u{e4}\r\n", 400),
        ("", "Host: localhost,evil.example\r\n", 421),
        ("", "Host: evil%2eexample\r\n", 421),
        ("", "Host: localhost,evil\r\n", 421),
        ("", "Host: .\r\n", 421),
        ("", "Host: evil.example\r\n", 421),
        ("", "Host: evil.example.\r\n", 421),
        ("http://evil.example", "", 421),
        ("http://evil.example", "Host: localhost\r\n", 421),
        ("http://x@localhost", "Host: localhost\r\n", 400),
        ("http://evil.example", "Host: evil.example\r\n", 421),
    ] {
        for version in ["1.0", "1.1"] {
            // Only the older version may leave the header out.
            let status = if version == "1.1" && host.is_empty() { 400 } else { status };
            // The emulated API answers to any well-formed one.
            for (path, status) in
                [("/_emulator/requests", status), ("/v1/hello", if status == 421 { 200 } else { status })]
            {
                let request = format!("GET {target}{path} HTTP/{version}\r\n{host}\r\n");
                let mut peer = Peer::sending(&emulator, &request).await;
                let answer = peer.answer().await;
                assert_eq!(answer.status, status, "{request}");
                if status == 400 {
                    peer.ends().await;
                }
                if status == 400 && path == "/v1/hello" {
                    assert_error(&answer, 400, "bad_request", &request);
                    assert!(answer.message().to_lowercase().contains("host"), "{request}: {}", answer.message());
                    assert_journaled(&emulator, &answer).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn any_one_well_formed_host_is_served() {
    let emulator = start().await;
    for host in ["localhost", "api.example.com:443", "127.0.0.1", "[::1]:9770", "LOCALHOST", "a:65535", "a:"] {
        let mut peer = Peer::sending(&emulator, format!("GET /v1/hello HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert_eq!(peer.answer().await.status, 200, "{host}");
    }
}

/// RFC 9112 §3.2.2: the target's host counts, and `Host` is ignored, but it must be there in HTTP/1.1.
#[tokio::test]
async fn the_host_of_an_absolute_target_counts() {
    let emulator = start().await;
    for (target, rest, status) in [
        ("http://api.example.com/v1/hello", "HTTP/1.1\r\nHost: api.example.com", 200),
        ("http://api.example.com:80/v1/hello", "HTTP/1.1\r\nHost: api.example.com", 200),
        ("http://API.example.com/v1/hello", "HTTP/1.1\r\nHost: elsewhere.example", 200),
        ("http://api.example.com/v1/hello", "HTTP/1.0", 200),
        ("http://api.example.com/v1/hello", "HTTP/1.1", 400),
        ("http://api.example.com/v1/hello", "HTTP/1.1\r\nHost: a\r\nHost: b", 400),
        ("http://localhost/_emulator/health", "HTTP/1.1\r\nHost: elsewhere.example", 200),
        ("http://elsewhere.example/_emulator/health", "HTTP/1.1\r\nHost: localhost", 421),
    ] {
        let mut peer = Peer::sending(&emulator, format!("GET {target} {rest}\r\n\r\n")).await;
        assert_eq!(peer.answer().await.status, status, "{target} {rest}");
    }
}

#[tokio::test]
async fn options_of_the_whole_server_are_answered() {
    let emulator = start().await;
    let mut peer = Peer::sending(&emulator, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let answer = peer.head().await;
    assert_eq!((answer.status, answer.header("allow")), (204, Some("GET, HEAD, POST")));
    peer.send(GOOD).await;
    assert_eq!(peer.answer().await.status, 200);
}

/// Rules and filters see the path as the router does.
#[tokio::test]
async fn a_path_is_decoded_once_for_all() {
    let rule = "title = \"Teapot\"\n[[rule]]\nwhen.path = \"/v1/hello\"\nreply = { status = 418, body = \"\" }\n";
    let emulator = started(builder().scenario_text(rule)).await;
    let mut peer = Peer::sending(&emulator, "GET /v1/%68ello HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(peer.answer().await.status, 418);
    for path in ["/v1/hello", "/v1/h%65llo"] {
        let found = view(&emulator, &format!("requests?key=*&path={}", path.replace('%', "%25"))).await;
        assert_eq!(found["data"][0]["path"], "/v1/hello", "{path}: {found}");
        let waited = json!({ "key": "*", "path": path, "since": "2000-01-01T00:00:00Z", "timeout": "10s" });
        let answer = control(&emulator, "POST", "requests/wait", &waited).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    }
}

#[tokio::test]
async fn targets_that_are_no_path_of_this_host_are_refused() {
    let emulator = start().await;
    for line in [
        "GET http://user@localhost/v1/hello",
        "GET *",
        "CONNECT elsewhere.example:443",
        "CONNECT localhost",
        "GET /v1/hello#x",
        "GET /v1/hello?a=1#",
    ] {
        let mut peer = Peer::sending(&emulator, format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        let answer = peer.answer().await;
        assert_error(&answer, 400, "bad_request", line);
        assert_journaled(&emulator, &answer).await;
        peer.ends().await;
    }
}

#[tokio::test]
async fn paths_are_taken_as_they_are_written() {
    let emulator = start().await;
    let mut peer = Peer::connect(&emulator).await;
    for path in [
        "//",
        "//v1/hello",
        "/v1//hello",
        "/v1/../v1/hello",
        "/v1/%2e%2e/v1/hello",
        "/v1/x/%2e%2e/hello",
        "/v1%2Fhello",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/hello%00",
        "/v1/hello%2F",
        "/v1/hello;a=b",
        "/%",
        "/%zz",
        "/v1/hell%6",
        "/v1",
        "/v1/hello/",
        "/v1/system%2Fstatus",
        "/V1/hello",
    ] {
        peer.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_error(&peer.answer().await, 404, "not_found", path);
    }
    peer.send("GET /v1/h%65llo HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(peer.answer().await.status, 200, "a letter may be written in digits");
}

#[tokio::test]
async fn trace_is_not_echoed() {
    let emulator = start().await;
    for path in ["/v1/hello", "/v1/system/status", "/nowhere"] {
        let request = format!(
            "TRACE {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_echo\r\nX-Mark: mark-7\r\nConnection: close\r\n\r\n"
        );
        let text = Peer::sending(&emulator, request).await.rest().await;
        let text = String::from_utf8(text).expect("text");
        assert!(text.starts_with("HTTP/1.1 40"), "{text}");
        assert!(!text.contains("mark-7") && !text.contains("echo") && !text.contains("TRACE"), "{text}");
    }
}

#[tokio::test]
async fn http_1_0_is_served_and_closed_unless_it_asks_to_stay() {
    let emulator = start().await;
    let mut peer = Peer::sending(&emulator, "GET /v1/hello HTTP/1.0\r\n\r\n").await;
    assert_eq!(peer.answer().await.status, 200);
    peer.ends().await;
    let mut peer = Peer::connect(&emulator).await;
    for _ in 0..2 {
        peer.send("GET /v1/hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        assert_eq!(peer.answer().await.status, 200);
    }
    // The refusal that follows is one to a peer of the older version.
    peer.send("nonsense\r\n\r\n").await;
    assert_error(&peer.answer().await, 400, "bad_request", "after HTTP/1.0");
    peer.ends().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let emulator = start().await;
    let mut bytes = Vec::new();
    for number in 0..40 {
        let body = format!("{{\"url\": \"https://a.example/{number}\", \"events\": []}}");
        let request = match number % 4 {
            0 => "GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
            1 => "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
            2 => "GET /v1/system/status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
            _ => format!(
                "POST /v1/events/subscribe HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        bytes.extend_from_slice(request.as_bytes());
    }
    let mut peer = Peer::sending(&emulator, bytes).await;
    for number in 0..40 {
        let expected = [200, 404, 401, 422][number % 4];
        assert_eq!(peer.answer().await.status, expected, "answer {number}");
    }
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let emulator = start().await;
    let head = |size: usize| {
        format!(
            "POST /v1/events/subscribe HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n"
        )
    };
    let body = "{\"url\": \"https://a.example/\", \"events\": [\"reference.matched\"]}";
    let mut peer = Peer::sending(&emulator, head(body.len())).await;
    assert_eq!(peer.head().await.status, 100);
    peer.send(body).await;
    assert_eq!(peer.answer().await.status, 200);
}

#[tokio::test]
async fn a_client_that_asks_first_is_not_asked_for_a_body_that_nobody_reads() {
    let emulator = start().await;
    let (key, json) = ("Authorization: Bearer sk_test_local\r\n", "Content-Type: application/json\r\n");
    let (length, subscribe) = ("Content-Length: 64\r\n", "POST /v1/events/subscribe");
    for (line, fields, status) in [
        (subscribe, length.to_owned(), 401),
        (subscribe, format!("{key}Content-Length: 10000000\r\n"), 413),
        (subscribe, format!("{key}Content-Encoding: gzip\r\n{length}"), 415),
        (subscribe, format!("{key}Transfer-Encoding: gzip, chunked\r\n"), 501),
        ("POST /nowhere", length.to_owned(), 404),
        ("PUT /v1/hello", length.to_owned(), 405),
        ("PUT /v1/hello", "Transfer-Encoding: chunked\r\n".to_owned(), 405),
        ("GET /v1/hello", length.to_owned(), 200),
        ("HEAD /v1/hello", length.to_owned(), 200),
        ("HEAD /nowhere", length.to_owned(), 404),
        ("POST /_emulator/nowhere", format!("{json}{length}"), 404),
        ("POST /_emulator/events", format!("Content-Type: text/plain\r\n{length}"), 415),
        ("POST /_emulator/events", format!("{json}Origin: http://elsewhere.example\r\n{length}"), 400),
    ] {
        for connection in ["keep-alive", "close"] {
            let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n{fields}");
            let mut peer = Peer::sending(&emulator, head + "Expect: 100-continue\r\n\r\n").await;
            let answer = if line.starts_with("HEAD") { peer.head().await } else { peer.answer().await };
            let what = format!("{line} with {fields:?}, {connection}");
            assert_eq!((answer.status, answer.header("connection")), (status, Some("close")), "{what}");
            peer.stream.set_zero_linger().expect("an open socket");
        }
    }
    // A client of HTTP/1.0 waits for nothing.
    let mut peer =
        Peer::sending(&emulator, "POST /nowhere HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}").await;
    assert_eq!(peer.answer().await.status, 404);
}

#[tokio::test]
async fn header_names_come_in_the_letters_that_are_set() {
    for (set, expected) in [("lower", "content-type: "), ("title", "Content-Type: ")] {
        let emulator = start_with(&[&format!("variation.header_names={set}")]).await;
        let status = "GET /v1/system/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk_test_local\r\n";
        for request in [&format!("{status}Connection: close\r\n\r\n"), "no HTTP\r\n\r\n"] {
            let mut peer = Peer::sending(&emulator, request).await;
            let answer = String::from_utf8(peer.rest().await).expect("text");
            let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(expected), "{head}");
            let is_set = |line: &str| line.starts_with(|first: char| first.is_ascii_uppercase() == (set == "title"));
            assert!(head.lines().skip(1).all(is_set), "{head}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_head_has_no_body() {
    let emulator = start().await;
    let mut peer = Peer::connect(&emulator).await;
    for (path, status) in
        [("/v1/hello", 200), ("/nowhere", 404), ("/v1/system/status", 401), ("/v1/events/subscribe", 405)]
    {
        peer.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        let head = peer.head().await;
        assert_eq!(head.status, status, "{path}");
        assert!(head.header("x-emulator-request-id").is_some(), "{path}");
        if status != 405 {
            peer.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
            assert_eq!(head.header("content-length"), peer.answer().await.header("content-length"), "{path}");
        }
        // Were there a body, it would be taken for the next answer.
        peer.send(GOOD).await;
        assert_eq!(peer.answer().await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn odd_but_proper_heads_are_served() {
    let emulator = start().await;
    for request in [
        // Line ends of one byte, empty lines first, no space after the colon, opaque bytes in a value.
        &b"GET /v1/hello HTTP/1.1\nHost: localhost\n\n"[..],
        b"\r\n\r\nGET /v1/hello HTTP/1.1\r\nHost:localhost\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nX-Opaque: \xff\xfe\r\n\r\n",
        b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ] {
        assert_eq!(Peer::sending(&emulator, request).await.answer().await.status, 200, "{}", request.escape_ascii());
    }
    assert_eq!(send(&emulator, "GET", "/v1/hello", &[("x-empty", "")], "").await.status, 200);
}
