//! What a page in a browser could try against the control API: every route refuses it, and no answer invites another site.

use serde_json::json;
use wrs_emulator::Emulator;

use crate::support::{builder, documented_calls, raw, send, start, started};

/// Every documented call, with its whole path.
async fn calls(emulator: &Emulator) -> Vec<(String, String)> {
    let calls = documented_calls(emulator).await;
    calls.into_iter().map(|(method, path)| (method, format!("/_emulator/{path}"))).collect()
}

#[tokio::test]
async fn every_write_refuses_what_a_form_can_send() {
    let emulator = start().await;
    let mut writes = 0;
    for (method, path) in calls(&emulator).await.into_iter().filter(|(method, _)| method != "GET") {
        for content_type in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
        ] {
            let answer = send(&emulator, &method, &path, &[("content-type", content_type)], "{}").await;
            assert_eq!(answer.status, 415, "{method} {path} accepts {content_type}");
        }
        let twice = [("content-type", "text/plain"), ("content-type", "application/json")];
        assert_eq!(send(&emulator, &method, &path, &twice, "{}").await.status, 415, "{method} {path}");
        assert_eq!(send(&emulator, &method, &path, &[], "{}").await.status, 415, "{method} {path} without a type");
        writes += 1;
    }
    assert!(writes >= 15, "{writes} writes were looked at");
}

/// Without a body there is nothing to declare. What a form of this origin could send is refused all the same: only a page that
/// can set headers is one that could send JSON.
#[tokio::test]
async fn writes_without_a_body_need_no_content_type_unless_a_form_could_send_them() {
    let emulator = start().await;
    let own = emulator.base_url();
    let (mut free, mut posts) = (0, 0);
    for (method, path) in calls(&emulator).await.into_iter().filter(|(method, _)| method != "GET") {
        let is_post = method == "POST";
        let browser = [("origin", own.as_str()), ("sec-fetch-site", "same-origin")];
        for (headers, needs_type) in [
            (&[][..], false),
            (&[("content-type", "text/plain")], false),
            (&[("x-emulator-control", "1"), browser[0], browser[1]], false),
            (&browser[..1], is_post),
            (&browser[1..], is_post),
            (&[("sec-fetch-site", "none")], is_post),
            (&[("content-type", "text/plain"), browser[0]], is_post),
            (&[("x-emulator-control", "yes"), browser[0]], is_post),
        ] {
            if !needs_type && path.ends_with("/wait") {
                continue;
            }
            let answer = send(&emulator, &method, &path, headers, "").await;
            assert_eq!(answer.status == 415, needs_type, "{method} {path} {headers:?}: {answer:?}");
            assert_ne!(answer.status, 400, "{method} {path} {headers:?}: {answer:?}");
            *(if needs_type { &mut posts } else { &mut free }) += 1;
        }
        for foreign in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let answer = send(&emulator, &method, &path, &[("x-emulator-control", "1"), foreign], "").await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "cross_origin"), "{method} {path} {foreign:?}");
        }
    }
    assert!(free >= 40 && posts >= 40, "{free} and {posts} calls were looked at");
}

#[tokio::test]
async fn every_call_refuses_pages_of_other_sites_and_invites_none() {
    let emulator = start().await;
    let json_type = ("content-type", "application/json");
    for (method, path) in calls(&emulator).await {
        for attack in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let answer = send(&emulator, &method, &path, &[json_type, attack], "{}").await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "cross_origin"), "{method} {path} {attack:?}");
            assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{method} {path}");
        }
        let preflight = [("origin", "https://evil.example"), ("access-control-request-method", method.as_str())];
        let answer = send(&emulator, "OPTIONS", &path, &preflight, "").await;
        assert_eq!(answer.status, 400, "OPTIONS {path}");
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "OPTIONS {path}");
        let rebound = format!(
            "{method} {path} HTTP/1.1\r\nHost: rebound.evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        let answer = raw(&emulator, rebound.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn every_call_but_the_open_ones_wants_the_whole_token() {
    let guarded = |settings: &mut wrs_emulator::Settings| {
        settings.control_token = Some("a-token-of-some-length".to_owned());
        settings.wrong_token_pause = std::time::Duration::ZERO;
    };
    let emulator = started(builder().configure(guarded)).await;
    let json_type = ("content-type", "application/json");
    // The document itself wants the token, so its calls come from another emulator.
    let calls = calls(&start().await).await;
    for (method, path) in calls {
        let open = path.ends_with("/health") || path.ends_with("/ca.pem");
        for wrong in [
            "",
            "Bearer ",
            "Bearer a-token-of-some-lengt",
            "Bearer a-token-of-some-length-",
            "Basic a-token-of-some-length",
        ] {
            let headers = [json_type, ("authorization", wrong)];
            let answer = send(&emulator, &method, &path, &headers, "{}").await;
            assert_eq!(answer.status == 401, !open, "{method} {path} with `{wrong}`: {}", answer.status);
        }
    }
    for right in ["Bearer a-token-of-some-length", "bearer a-token-of-some-length"] {
        let right = [("authorization", right), ("sec-fetch-site", "none")];
        assert_eq!(send(&emulator, "GET", "/_emulator/requests", &right, "").await.status, 200);
    }
}

/// Beyond loopback the token made at start is required over the socket, not only printed.
#[tokio::test]
async fn beyond_loopback_nobody_writes_without_the_token() {
    let any: std::net::SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let emulator = started(builder().listen(any)).await;
    let address = emulator.base_url().replace("0.0.0.0", "127.0.0.1");
    let address = address.trim_start_matches("http://");
    let ask = |authorization: &str| {
        let body = json!({ "rate_limit": { "requests": 1 } }).to_string();
        format!(
            "PATCH /_emulator/profile HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{authorization}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let refused = raw(&emulator, ask("").as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let token = emulator.control_token().expect("a token was made");
    let done = raw(&emulator, ask(&format!("Authorization: Bearer {token}\r\n")).as_bytes()).await;
    assert!(done.starts_with("HTTP/1.1 200 "), "{done}");
    let open = started(builder().listen(any).configure(|settings| settings.control_open = true)).await;
    assert_eq!(open.control_token(), None);
}

/// A browser shows no answer of a call as a page, so no data can become markup of one: the report is saved, not shown.
#[tokio::test]
async fn no_answer_of_a_call_is_a_page() {
    let emulator = start().await;
    let markup = "<script>alert(1)</script>";
    send(&emulator, "GET", "/v1/hello?%3Cscript%3E", &[("x-markup", markup)], "").await;
    for (method, path) in
        calls(&emulator).await.into_iter().filter(|(_, path)| !path.ends_with("/stream") && !path.ends_with("/wait"))
    {
        let answer = send(&emulator, &method, &path, &[("content-type", "application/json")], "{}").await;
        let kind = answer.header("content-type").unwrap_or("none").to_owned();
        let known = ["application/json", "text/plain", "application/x-pem-file", "application/toml"];
        let has_kind = known.iter().any(|known| kind.starts_with(known));
        let is_saved = answer.header("content-disposition").is_some_and(|value| value.starts_with("attachment;"));
        assert!(has_kind || is_saved || answer.body.is_empty(), "{method} {path}: {kind}");
    }
}
