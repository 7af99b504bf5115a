//! The command line as a client of the control API: what it prints, and its exit codes.

use crate::command_line::{Served, request, text};

#[test]
fn requests_are_waited_for_and_listed_from_a_time_on() {
    let served = Served::start(&[]);
    request(&served.url, "GET /v1/hello HTTP/1.1", "");
    let found = served.call(&["requests", "wait", "--path", "/v1/hello", "--timeout", "10s"]);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(text(&found.stdout).contains("/v1/hello"), "{found:?}");
    let late = served.call(&["requests", "wait", "--operation", "hello", "--status", "500", "--timeout", "50ms"]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    let said = text(&late.stderr);
    assert!(said.contains("0 of 1 requests fitted") && said.contains(": status: wanted 500, found 200"), "{said}");
    assert!(said.contains("  req_"), "the nearest is named: {said}");
    let wrong = served.call(&["requests", "wait", "--operation", "helo"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    for (since, count) in [("2020-01-01T00:00:00Z", 1), ("now", 0)] {
        let page = served.json(&["requests", "list", "--since", since, "--json"]);
        assert_eq!(page["data"].as_array().map(Vec::len), Some(count), "{since}: {page}");
    }
}
