//! Answers of the control API as text: what `Accept: text/plain` gets is what the command line prints.

use crate::process::{Served, request};
use crate::support::text;

/// The head and the body of an answer.
fn answer(served: &Served, line: &str, accept: &str) -> (String, String) {
    let answer = request(&served.url, &format!("{line} HTTP/1.1\r\nAccept: {accept}"), "");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn text_is_what_the_command_line_prints() {
    let served = Served::start(&["--quiet", "--clock", "frozen"]);
    served.subscribe("https://app.sink.localhost/x");
    assert_eq!(served.call(&["trigger", "workflow.completed", "--wait"]).status.code(), Some(0));
    let (req, dlv, sub) = (served.newest("requests"), served.newest("deliveries"), served.newest("subscriptions"));
    for (path, command) in [
        (format!("explain/{req}"), vec!["explain", &req]),
        (format!("explain/{dlv}"), vec!["explain", &dlv]),
        ("requests?key=*".to_owned(), vec!["requests"]),
        (format!("requests/{req}"), vec!["requests", "show", &req]),
        ("deliveries?key=*".to_owned(), vec!["deliveries"]),
        (format!("deliveries/{dlv}"), vec!["deliveries", "show", &dlv]),
        ("subscriptions?key=*".to_owned(), vec!["subscriptions"]),
        (format!("subscriptions/{sub}"), vec!["subscriptions", "show", &sub]),
        ("scenarios".to_owned(), vec!["scenarios"]),
        ("scenarios/rate-limit-burst".to_owned(), vec!["scenarios", "show", "rate-limit-burst"]),
        ("clock".to_owned(), vec!["clock"]),
        ("profile?prefix=rate_limit".to_owned(), vec!["profile", "show", "rate_limit"]),
        ("assumptions".to_owned(), vec!["assumptions"]),
        ("health".to_owned(), vec!["health"]),
    ] {
        let (head, body) = answer(&served, &format!("GET /_emulator/{path}"), "text/plain");
        assert!(head.starts_with("http/1.1 200 ") && head.contains("content-type: text/plain"), "{path}: {head}");
        let printed = served.call(&command);
        assert_eq!((printed.status.code(), text(&printed.stdout)), (Some(0), body), "{path}");
    }
    // Without the head of a table that has no rows.
    let none = served.call(&["deliveries", "wait", "--none", "--type", "reference.matched"]);
    assert_eq!((none.status.code(), text(&none.stdout).as_str()), (Some(0), "none matches, and none is to come\n"));
    for path in ["verdict", "findings", "snapshot", "run", "sink/app"] {
        let (head, body) = answer(&served, &format!("GET /_emulator/{path}"), "text/plain");
        assert!(head.starts_with("http/1.1 200 ") && !body.is_empty(), "{path}: {head}");
    }
}

#[test]
fn json_is_the_default_and_errors_are_json() {
    let served = Served::start(&["--quiet"]);
    for (accept, is_text) in [
        ("*/*", false),
        ("application/json", false),
        ("text/html, */*;q=0.8", false),
        ("text/plain", true),
        ("text/plain;q=0.9, */*;q=0.1", true),
        ("application/json, text/plain", false),
    ] {
        let (head, body) = answer(&served, "GET /_emulator/clock", accept);
        assert_eq!(head.contains("content-type: text/plain"), is_text, "{accept}: {head}");
        assert_eq!(body.starts_with('{'), !is_text, "{accept}: {body}");
    }
    let (head, body) = answer(&served, "GET /_emulator/explain/req_nothing", "text/plain");
    assert!(head.starts_with("http/1.1 404 ") && body.contains("\"code\":\"not_found\""), "{head}\n{body}");
}
