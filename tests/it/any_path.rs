//! Rules that answer a path which no endpoint has.

use serde_json::json;

use crate::support::{activate, control, get, get_as, put_scenario, raw, send, start, start_with, view};

const REFERENCES: &str = r#"
[[rule]]
name = "a reference"
when = { method = "GET", path = "/v1/references/{id}" }
reply = { status = 200, body = { id = "{{ request.params.id }}", status = "matched" } }
"#;

#[tokio::test]
async fn a_rule_answers_a_path_that_the_contract_lacks() {
    let emulator = start_with(&["rate_limit.requests=3"]).await;
    let before = get(&emulator, "/v1/references/ref_1").await;
    assert_eq!((before.status, before.code().as_str()), (404, "not_found"));
    assert!(before.message().ends_with("a scenario's rule with `when.path` and `reply` can answer it"), "{before:?}");
    assert_eq!(before.header("x-ratelimit-remaining"), None);

    put_scenario(&emulator, "references", REFERENCES).await;
    activate(&emulator, &["references"], None).await;
    let answer = get(&emulator, "/v1/references/ref%5F1%20a").await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "id": "ref_1 a", "status": "matched" })));
    assert_eq!(answer.header("x-emulator-stub"), Some("references"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("2"), "it counts");

    let id = answer.header("x-emulator-request-id").expect("an id");
    let explained = view(&emulator, &format!("explain/{id}")).await;
    let steps = explained["steps"].to_string();
    assert!(steps.contains("a path without an endpoint, which scenarios answer"), "{explained}");
    assert!(explained["summary"].as_str().is_some_and(|summary| summary.contains("references")), "{explained}");
    let listed = view(&emulator, "requests?operation=stub").await;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed}");
    let unmatched = view(&emulator, "verdict").await["unmatched"].to_string();
    assert!(unmatched.contains("/v1/references/ref_1") && !unmatched.contains("ref%5F1"), "{unmatched}");

    // In the order of checks for a route: the key, then the quota.
    let keyless = send(&emulator, "GET", "/v1/references/a", &[], "").await;
    assert_eq!((keyless.status, keyless.header("x-emulator-stub")), (401, None));
    let statuses = [(); 3].map(|()| get(&emulator, "/v1/references/a"));
    let mut found = Vec::new();
    for status in statuses {
        found.push(status.await.status);
    }
    assert_eq!(found, [200, 200, 429]);
}

#[tokio::test]
async fn a_request_that_no_rule_answers_is_a_404_that_costs_nothing() {
    let emulator = start_with(&["rate_limit.requests=2"]).await;
    let once = REFERENCES.replace("when =", "times = 1\nwhen =");
    put_scenario(&emulator, "references", &once).await;
    activate(&emulator, &["references"], None).await;
    assert_eq!(get(&emulator, "/v1/references/a").await.status, 200);
    for path in ["/v1/references/a", "/v1/references/a/b", "/v1/references/"] {
        let missing = get(&emulator, path).await;
        assert_eq!((missing.status, missing.header("x-ratelimit-remaining")), (404, None), "{path}");
        assert_eq!(missing.header("x-emulator-stub"), None);
    }
    assert_eq!(send(&emulator, "POST", "/v1/references/a", &[], "{}").await.status, 404);
    let status = get(&emulator, "/v1/system/status").await;
    assert_eq!(status.header("x-ratelimit-remaining"), Some("0"), "one of two was left");
    let verdict = view(&emulator, "verdict").await;
    assert_eq!(verdict["counts"]["unmatched"], 4, "{verdict}");
}

/// What `pass`, `delay` and `patch` start from is what the rules that name the path answer.
#[tokio::test]
async fn a_rule_without_an_answer_leaves_the_path_to_those_that_name_it() {
    let emulator = start().await;
    for action in ["pass = true", "delay = '1h'", "patch = { a = 1 }", "sequence = [{ pass = true }]\nthen = 'stay'"] {
        let text = format!(
            "[[rule]]\nname = 'first'\n{action}\n[[rule]]\nname = 'all'\nreply = {{ status = 503 }}\n{REFERENCES}"
        );
        put_scenario(&emulator, "references", &text).await;
        activate(&emulator, &["references"], None).await;
        let answer = get(&emulator, "/v1/references/a").await;
        assert_eq!((answer.status, answer.header("x-emulator-stub")), (200, Some("references")), "{action}");
        let id = answer.header("x-emulator-request-id").expect("an id");
        let explained = view(&emulator, &format!("explain/{id}")).await;
        let outcomes = explained["rules"].as_array().expect("rules").iter();
        let outcomes: Vec<_> = outcomes.map(|rule| (rule["applied"] == true, rule["outcome"].clone())).collect();
        let words = |at: usize| outcomes[at].1.as_str().expect("words");
        assert!(words(0).ends_with(", but no endpoint has this path: the rules that name it decide"), "{explained}");
        assert_eq!(words(1), "matches too, but an earlier rule left the request to those that name its path");
        assert_eq!((outcomes.len(), outcomes[2].0, words(2)), (3, true, "reply 200"));
    }
    // Its turns and its story count.
    let text = format!(
        "[[rule]]\nwhen.step = 'start'\ntimes = 1\npass = true\nnext = 'on'\n{}",
        REFERENCES.replace("method = \"GET\"", "step = 'on'")
    );
    put_scenario(&emulator, "references", &text).await;
    activate(&emulator, &["references"], None).await;
    assert_eq!(get(&emulator, "/v1/references/a").await.status, 200);
}

#[tokio::test]
async fn a_key_is_needed_where_the_rule_says_so() {
    let emulator = start().await;
    let text = r#"
[[rule]]
when = { path = "/v1/open", authenticated = false }
reply = { status = 200, body = "open" }
[[rule]]
when = { path = "/elsewhere/*" }
reply = { status = 200, body = "elsewhere" }
[[rule]]
when = { path = { starts_with = "/private/" }, authenticated = true }
reply = { status = 200, body = "private" }
"#;
    put_scenario(&emulator, "paths", text).await;
    activate(&emulator, &["paths"], None).await;
    for (path, without_key, with_key, counts) in [
        ("/v1/open", 200, 200, false),
        ("/elsewhere/a", 200, 200, false),
        ("/private/a", 401, 200, true),
        ("/v1/closed", 404, 404, false),
    ] {
        let keyless = send(&emulator, "GET", path, &[], "").await;
        assert_eq!(keyless.status, without_key, "{path}");
        let keyed = get_as(&emulator, "sk_test_paths", path).await;
        assert_eq!((keyed.status, keyed.header("x-ratelimit-limit").is_some()), (with_key, counts), "{path}");
    }
}

#[tokio::test]
async fn sequences_faults_bodies_and_emissions_work() {
    let emulator = start().await;
    let text = r#"
[[given.subscription]]
url = "https://any.sink.localhost/"
events = ["workflow.completed"]
[[rule]]
when = { method = "POST", path = "/v1/imports", body."/name" = "slow" }
sequence = [{ error = "rate_limit_exceeded" }, { status = 202, body = { name = "{{ request.body.name }}" } }]
[[rule]]
when = { path = "/v1/broken" }
fault = "empty"
[[emit]]
event = "workflow.completed"
on = { path = "/v1/imports", status = 202 }
"#;
    put_scenario(&emulator, "imports", text).await;
    activate(&emulator, &["imports"], None).await;
    let key = ("authorization", "Bearer sk_test_local");
    let json = ("content-type", "application/json");
    let head = [key, json];
    let post = |body: &'static str| send(&emulator, "POST", "/v1/imports", &head, body);
    let refused = post(r#"{"name":"slow"}"#).await;
    assert_eq!((refused.status, refused.header("x-ratelimit-remaining")), (429, Some("0")));
    let made = post(r#"{"name":"slow"}"#).await;
    assert_eq!((made.status, made.json()), (202, json!({ "name": "slow" })));
    assert_eq!(post(r#"{"name":"fast"}"#).await.status, 404);
    let fired = view(&emulator, "verdict").await["counts"].clone();
    assert_eq!(fired["unmatched"], 1, "{fired}");
    let received = control(&emulator, "POST", "deliveries/wait", &json!({ "count": 1, "timeout": "5s" })).await;
    assert_eq!(received.status, 200, "{received:?}");
    let head = b"GET /v1/broken HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk_test_local\r\n\r\n";
    assert_eq!(raw(&emulator, head).await, "");
}
