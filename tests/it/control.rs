//! The control API: who may call, and what wrong calls get.

use serde_json::{Value, json};

use crate::support::{ask, builder, control, get_as, raw, refused, send, start, started, subscribe_sink, view};

#[tokio::test]
async fn health_says_what_is_served() {
    let emulator = start().await;
    let answer = control(&emulator, "GET", "health", &Value::Null).await;
    let health = answer.json();
    assert_eq!(
        (answer.status, &health["status"], &health["version"]),
        (200, &json!("ready"), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn a_host_that_is_not_allowed_is_named() {
    let emulator = start().await;
    let rebound =
        raw(&emulator, b"GET /_emulator/requests HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert!(rebound.starts_with("HTTP/1.1 421 ") && rebound.contains("--allow-host evil.example"), "{rebound}");
}

#[tokio::test]
async fn local_names_addresses_and_allowed_hosts_are_answered() {
    let allowed = ["Mocks.example.com".to_owned()];
    let emulator = started(builder().configure(move |settings| settings.allow_hosts = allowed.to_vec())).await;
    for (host, is_answered) in [
        ("[::1]:9770", true),
        ("app.localhost", true),
        ("my.app_1.localhost.", true),
        ("emulator", true),
        ("host.docker.internal:80", true),
        ("mocks.EXAMPLE.com", true),
        ("10.0.0.7:1", true),
        ("localhost.evil.example", false),
        ("127.0.0.1.evil.example", false),
        ("evil.example%00.localhost", false),
        ("evil.example%2f.localhost", false),
        (".localhost", false),
        ("a..localhost", false),
    ] {
        let request = format!("GET /_emulator/requests HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw(&emulator, request.as_bytes()).await;
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), is_answered, "{host}: {answer}");
    }
}

#[tokio::test]
async fn a_listener_of_its_own_takes_the_control_api_off_the_main_port() {
    let emulator = started(
        builder().configure(|settings| settings.control_listen = Some("127.0.0.1:0".parse().expect("an address"))),
    )
    .await;
    let on_main = control(&emulator, "GET", "health", &Value::Null).await;
    assert_eq!((on_main.status, on_main.code().as_str()), (404, "not_found"));
    assert_ne!(emulator.control_url(), emulator.base_url());
}

#[tokio::test]
async fn wrong_calls_say_what_is_wrong() {
    let emulator = start().await;
    for (method, path, body, status, said) in [
        ("GET", "nowhere", Value::Null, 404, "no /_emulator/nowhere"),
        ("PUT", "health", json!({}), 405, "this path accepts GET"),
        ("GET", "requests?limit=0", Value::Null, 422, "limit: expected 1 to 1000"),
        ("GET", "requests?cursor=x", Value::Null, 422, "cursor: expected"),
        ("GET", "requests?status=ok", Value::Null, 422, "status: expected a number"),
        ("GET", "requests?sort=up", Value::Null, 422, "unknown query parameter `sort`"),
        ("GET", "requests?key=sk_live_x", Value::Null, 404, "not an API key"),
        ("GET", "requests/req_x", Value::Null, 404, "no request `req_x`"),
        ("GET", "deliveries/dlv_x", Value::Null, 404, "no delivery `dlv_x`"),
        ("GET", "deliveries?status=lost", Value::Null, 422, "status: expected pending"),
        ("POST", "deliveries/dlv_x/redeliver", json!({}), 404, "no delivery"),
        ("POST", "subscriptions/sub_x/rotate", json!({}), 404, "no subscription"),
        ("DELETE", "subscriptions/sub_x", json!({}), 404, "no subscription"),
        ("POST", "sink/a", json!({ "respond": [700] }), 422, "from 200 to 599"),
        ("POST", "scenarios/active", json!({ "active": ["rate-limit-brust"] }), 404, "did you mean `rate-limit-burst`"),
        ("PUT", "scenarios/x", json!({ "rule": 5 }), 422, "rule"),
        ("DELETE", "scenarios/x", json!({}), 404, "no scenario `x`"),
        ("POST", "events", json!([]), 422, "body:"),
        ("POST", "health", json!({}), 405, "this path accepts GET, HEAD"),
        ("GET", "scenarios/reload", Value::Null, 405, "this path accepts POST"),
        ("DELETE", "deliveries/wait", json!({}), 405, "this path accepts POST"),
        ("GET", "scenarios/a%20b", Value::Null, 404, "no scenario `a b`"),
        ("GET", "requests/", Value::Null, 404, "there is no /_emulator/requests/"),
        ("GET", "requests/a/b", Value::Null, 404, "there is no /_emulator/requests/a/b"),
        ("GET", "requests/%ff", Value::Null, 404, "there is no /_emulator/requests/%ff"),
        ("POST", "sink/a", json!({ "respond": [5.5] }), 422, "expected a whole number, found 5.5"),
        ("POST", "sink/a", json!({ "respond": [-1] }), 422, "expected a whole number, found -1"),
        ("POST", "sink/a", json!({ "respond": [65_536] }), 422, "expected a whole number, found 65536"),
        ("POST", "sink/a", json!({ "respond": [1e300] }), 422, "expected a whole number, found 1e+300"),
        ("POST", "sink/a", json!({ "respond": ["200"] }), 422, "invalid type: string"),
    ] {
        refused(&emulator, method, path, &body, status, said).await;
    }
    ask(&emulator, "POST", "sink/a", &json!({ "respond": [200.0] })).await;
    let huge =
        send(&emulator, "POST", "/_emulator/events", &[("content-type", "application/json")], vec![b' '; 300 * 1024])
            .await;
    assert_eq!(huge.status, 413);
}

#[tokio::test]
async fn requests_are_listed_newest_first_with_filters_and_pages() {
    let emulator = start().await;
    for at in 0..5 {
        get_as(&emulator, "sk_test_a", &format!("/v1/system/status?n={at}")).await;
    }
    get_as(&emulator, "sk_test_b", "/v1/hello").await;
    get_as(&emulator, "sk_test_b", "/v1/system/status").await;
    let queries = |page: &Value| {
        page["data"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["query"].as_str().unwrap_or("-").to_owned())
            .collect::<Vec<_>>()
    };
    let first = view(&emulator, "requests?key=sk_test_a&limit=2").await;
    assert_eq!((queries(&first), &first["has_more"]), (vec!["n=4".to_owned(), "n=3".to_owned()], &json!(true)));
    assert_eq!(first["data"][0]["quota"]["remaining"], 95, "a row has the quota after the request");
    let next = first["next_cursor"].as_str().expect("a cursor");
    let second = view(&emulator, &format!("requests?key=sk_test_a&limit=10&cursor={next}")).await;
    assert_eq!((queries(&second).len(), &second["has_more"], &second["next_cursor"]), (3, &json!(false), &Value::Null));
    let all = view(&emulator, "requests?key=*").await;
    assert_eq!(all["data"].as_array().map(Vec::len), Some(7));
    let hello = view(&emulator, "requests?key=*&operation=hello").await;
    assert_eq!(hello["data"].as_array().map(Vec::len), Some(1));
    let workspace = all["data"][0]["workspace"].as_str().expect("an id").to_owned();
    let by_id = view(&emulator, &format!("requests?key={workspace}")).await;
    // With the one that needs no key and carries this one.
    assert_eq!(by_id["data"].as_array().map(Vec::len), Some(2));
    control(&emulator, "DELETE", "requests?key=sk_test_a", &json!({})).await;
    let rest = view(&emulator, "requests?key=*").await;
    assert_eq!(rest["data"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_dry_run_checks_a_scenario_and_changes_nothing() {
    let emulator = start().await;
    let before = view(&emulator, "health").await["generation"].clone();
    let valid = json!({ "rule": [{ "reply": { "status": 503 } }] });
    let checked = ask(&emulator, "PUT", "scenarios/mine?dry_run=true", &valid).await;
    assert_eq!(
        (&checked["name"], &checked["dry_run"], &checked["generation"]),
        (&json!("mine"), &json!(true), &before)
    );
    let unused = json!({ "rule": [{ "reply": { "status": 503 } }, { "reply": { "status": 500 } }] });
    let warned = ask(&emulator, "PUT", "scenarios/mine?dry_run=true", &unused).await;
    assert_eq!(warned["diagnostics"][0]["severity"], "warning", "{warned}");
    let wrong = json!({ "rule": [{ "reply": { "statu": 503 } }] });
    refused(&emulator, "PUT", "scenarios/mine?dry_run=true", &wrong, 422, "statu").await;
    refused(&emulator, "PUT", "scenarios/a%20b?dry_run=true", &valid, 422, "a b").await;
    refused(&emulator, "GET", "scenarios/mine", &Value::Null, 404, "no scenario `mine`").await;
    assert_eq!(view(&emulator, "health").await["generation"], before);
    assert_eq!(ask(&emulator, "PUT", "scenarios/mine", &valid).await["dry_run"], false);
    assert_eq!(view(&emulator, "scenarios/mine").await["rules"], 1);
}

/// Subscriptions and what a built-in receiver got, however much it is: a page ends after a megabyte.
#[tokio::test]
async fn long_listings_come_in_pages() {
    let emulator = started(builder()).await;
    subscribe_sink(&emulator, "app").await;
    let event = json!({ "type": "workflow.completed", "data": { "x": "x".repeat(60_000) } });
    for _ in 0..40 {
        ask(&emulator, "POST", "events", &event).await;
    }
    emulator.control().settle().await;
    for number in 0..40 {
        let hook = json!({ "url": format!("https://a.sink.localhost/{number}"), "description": "x".repeat(60_000) });
        ask(&emulator, "POST", "subscriptions", &hook).await;
    }
    for (path, field, count) in [("subscriptions", "url", 41), ("sink/app", "target", 40)] {
        let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, String::new());
        loop {
            let page = view(&emulator, &format!("{path}?limit=1000{cursor}")).await;
            let entries = page["data"].as_array().expect("a list");
            seen.extend(entries.iter().map(|entry| entry[field].as_str().expect("a text").to_owned()));
            pages += 1;
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!((seen.len(), pages), (count, 3), "{path}");
        if path == "subscriptions" {
            assert!(seen[1..].iter().enumerate().all(|(at, url)| url.ends_with(&format!("/{at}"))), "{seen:?}");
        }
        let two = view(&emulator, &format!("{path}?limit=2")).await;
        assert_eq!((two["data"].as_array().map(Vec::len), &two["has_more"]), (Some(2), &json!(true)), "{path}");
    }
}
