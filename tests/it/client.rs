//! The command line as a client of the control API: what it prints, and its exit codes.

use crate::process::{Served, request};
use crate::support::text;

#[test]
fn requests_are_waited_for() {
    let served = Served::start(&[]);
    request(&served.url, "GET /v1/hello HTTP/1.1", "");
    let found = served.call(&["requests", "wait", "--path", "/v1/hello", "--timeout", "10s"]);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(text(&found.stdout).contains("/v1/hello"), "{found:?}");
    let late = served.call(&["requests", "wait", "--operation", "hello", "--status", "500", "--timeout", "50ms"]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    let said = text(&late.stderr);
    assert!(said.contains("0 of 1 requests matched") && said.contains(": status: expected 500, found 200"), "{said}");
    assert!(said.contains("  req_"), "the nearest is named: {said}");
    let wrong = served.call(&["requests", "wait", "--operation", "helo"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn subscriptions_are_listed_stopped_rotated_and_deleted() {
    let served = Served::start(&[]);
    served.subscribe("https://app.sink.localhost/x");
    let rows = served.json(&["subscriptions", "list", "--json"]);
    let id = rows["data"][0]["id"].as_str().expect("an id").to_owned();
    let listed = served.call(&["subscriptions", "list"]);
    assert!(text(&listed.stdout).contains(&id) && text(&listed.stdout).contains("https://app.sink.localhost/x"));
    for (verb, said) in [("disable", "disabled"), ("enable", "active")] {
        let output = served.call(&["subscriptions", verb, &id]);
        assert!(text(&output.stdout).contains(&format!("\nstatus: {said}\n")), "{output:?}");
        assert!(text(&served.call(&["subscriptions", "show", &id]).stdout).contains(&format!("status: {said}\n")));
    }
    let rotated = text(&served.call(&["subscriptions", "rotate", &id]).stdout);
    assert!(rotated.starts_with("whsec_") && rotated.ends_with("the old secret keeps signing for 24h\n"), "{rotated}");
    assert_eq!(served.json(&["subscriptions", "show", &id, "--json"])["signing_secrets"], 2);
    assert_eq!(text(&served.call(&["subscriptions", "delete", &id]).stdout), format!("{id} deleted\n"));
    let gone = served.call(&["subscriptions", "show", &id]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}
