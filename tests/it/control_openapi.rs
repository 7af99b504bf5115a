//! The control API's own document: it names the fields that bodies really have, and real answers fit it.

use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::openapi::Document;
use crate::support::{Answer, KEY, assert_in_step, control, fire, get, start, subscribe_sink, view};

async fn document(emulator: &Emulator) -> Value {
    view(emulator, "openapi.json").await
}

/// Generated clients depend on every field, type and status of it.
#[tokio::test]
async fn the_document_is_the_published_one() {
    let made = document(&start().await).await;
    assert_in_step("tests/it/control_openapi.json", &spread(&made, 3));
}

/// JSON with a line for each member of the outer levels, so that a change shows.
pub(crate) fn spread(document: &Value, levels: usize) -> String {
    fn write(value: &Value, levels: usize, text: &mut String) {
        let Some(members) = value.as_object().filter(|members| levels > 0 && !members.is_empty()) else {
            *text += &value.to_string();
            return;
        };
        for (number, (name, member)) in members.iter().enumerate() {
            *text += if number == 0 { "{\n" } else { ",\n" };
            *text += &format!("{}:", Value::from(name.as_str()));
            write(member, levels - 1, text);
        }
        *text += "\n}";
    }
    let mut text = String::new();
    write(document, levels, &mut text);
    text + "\n"
}

/// A body with a field that no call has is refused; the refusal lists the fields that there are.
#[tokio::test]
async fn bodies_have_the_fields_that_the_document_names() {
    let emulator = start().await;
    let sub = subscribe_sink(&emulator, "app").await["id"].as_str().expect("an id").to_owned();
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let deliveries = view(&emulator, "deliveries").await;
    let delivery = deliveries["data"][0]["id"].as_str().expect("an id").to_owned();
    let document = document(&emulator).await;
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            // A setting or a scenario may have any name; their own checks refuse unknown ones.
            if schema["additionalProperties"] != false {
                assert!(
                    method == "get" || ["scenarios/", "profile", "snapshot"].iter().any(|loose| path.contains(loose))
                );
                continue;
            }
            let id = if path.contains("deliveries") { &delivery } else { &sub };
            let place = path.trim_start_matches("/_emulator/").replace("{id}", id).replace("{name}", "n");
            let answer = control(&emulator, &method.to_ascii_uppercase(), &place, &json!({ "no_such_field": 1 })).await;
            assert_eq!(answer.status, 422, "{method} {path} accepts a field that no call has: {answer:?}");
            let message = answer.message();
            let (_, rest) = message.split_once("unknown field `no_such_field`").unwrap_or_else(|| panic!("{message}"));
            let mut taken: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let mut reported: Vec<&str> =
                schema["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
            taken.sort_unstable();
            reported.sort_unstable();
            assert_eq!(reported, taken, "{method} {path}: the document names the first, the call accepts the second");
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} bodies were looked at");
}

/// An unknown query parameter is refused; the refusal lists those there are.
#[tokio::test]
async fn calls_have_the_query_parameters_that_the_document_names() {
    let emulator = start().await;
    let document = document(&emulator).await;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let mut reported: Vec<&str> = operation["parameters"]
                .as_array()
                .expect("parameters")
                .iter()
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().expect("a name"))
                .collect();
            let place = path.trim_start_matches("/_emulator/").replace("{id}", "x").replace("{name}", "x");
            let answer =
                control(&emulator, &method.to_ascii_uppercase(), &format!("{place}?no_such=1"), &Value::Null).await;
            if ["health", "ca.pem"].contains(&place.as_str()) {
                // Health checks must not fail because of their form.
                continue;
            }
            assert_eq!(answer.status, 422, "{method} {path}: {answer:?}");
            let message = answer.message();
            let known = message.split_once("`; known: ").map_or("", |(_, known)| known);
            let mut taken: Vec<&str> = known.split(", ").filter(|name| !name.is_empty()).collect();
            taken.sort_unstable();
            reported.sort_unstable();
            assert_eq!(reported, taken, "{method} {path}: the document names the first, the call accepts the second");
        }
    }
}

#[tokio::test]
async fn real_answers_fit_the_document() {
    let emulator = start().await;
    let document = Document::new(document(&emulator).await);
    let check = |method: &str, path: &str, answer: &Answer| {
        document.check(method, &format!("/_emulator/{path}"), answer);
    };
    let sub = subscribe_sink(&emulator, "app").await["id"].as_str().expect("an id").to_owned();
    get(&emulator, "/v1/system/status?include_checks=x").await;
    let call = async |method: &str, path: &str, body: Value| control(&emulator, method, path, &body).await;
    let fired = call("POST", "events?wait=15s", json!({ "type": "workflow.completed" })).await;
    check("post", "events", &fired);
    let event = fired.json()["events"][0]["id"].as_str().expect("an id").to_owned();
    let delivery = fired.json()["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    let rows = call("GET", "requests", Value::Null).await;
    let request = rows.json()["data"][0]["id"].as_str().expect("an id").to_owned();
    check("get", "requests", &rows);
    for path in [
        "health",
        "assumptions",
        "profile",
        "requests?status=200",
        "requests?status=x",
        "requests/x",
        "subscriptions",
        "deliveries",
        "deliveries?key=none",
        "scenarios",
        "scenarios/rate-limit-burst",
        "clock",
        "run",
        "run?limit=1",
        "run?limit=x",
        "sink/app",
    ] {
        let template = path.split('?').next().expect("a path");
        let template = template.replace("scenarios/rate-limit-burst", "scenarios/{name}");
        let template = template.replace("sink/app", "sink/{name}").replace("requests/x", "requests/{id}");
        check("get", &template, &call("GET", path, Value::Null).await);
    }
    for (kind, id) in [("requests", &request), ("subscriptions", &sub), ("deliveries", &delivery)] {
        check("get", &format!("{kind}/{{id}}"), &call("GET", &format!("{kind}/{id}"), Value::Null).await);
    }
    for id in [&request, &event, &delivery] {
        check("get", "explain/{id}", &call("GET", &format!("explain/{id}"), Value::Null).await);
    }
    for (method, path, template, body) in [
        ("POST", "events", "events", json!({ "type": "workflow.completed", "key": "sk_test_nobody" })),
        ("POST", "requests/wait", "requests/wait", json!({ "timeout": "0s" })),
        ("POST", "requests/wait", "requests/wait", json!({ "timeout": "0s", "status": 500 })),
        ("POST", "deliveries/wait", "deliveries/wait", json!({ "timeout": "0s" })),
        ("POST", "deliveries/wait", "deliveries/wait", json!({ "timeout": "0s", "status": "exhausted" })),
        ("POST", &format!("deliveries/{delivery}/redeliver?wait=15s"), "deliveries/{id}/redeliver", json!({})),
        ("PUT", &format!("subscriptions/{sub}"), "subscriptions/{id}", json!({ "description": "d" })),
        ("POST", &format!("subscriptions/{sub}/rotate"), "subscriptions/{id}/rotate", json!({})),
        ("PATCH", "profile", "profile", json!({ "rate_limit": { "requests": 9 } })),
        ("PATCH", "profile", "profile", json!({ "rate_limt": { "requests": 9 } })),
        ("PUT", "scenarios/mine", "scenarios/{name}", json!({ "title": "t" })),
        ("PUT", "scenarios/mine", "scenarios/{name}", json!({ "titel": "t" })),
        ("POST", "scenarios/active", "scenarios/active", json!({ "active": ["mine"], "key": KEY })),
        ("POST", "scenarios/active", "scenarios/active", json!({ "key": KEY })),
        ("POST", "scenarios/reload", "scenarios/reload", json!({})),
        ("DELETE", "scenarios/mine", "scenarios/{name}", json!({})),
        ("POST", "clock", "clock", json!({ "advance": "1s" })),
        ("POST", "sink/app", "sink/{name}", json!({ "respond": [500] })),
        ("DELETE", &format!("subscriptions/{sub}"), "subscriptions/{id}", json!({})),
        ("DELETE", "requests", "requests", json!({})),
    ] {
        check(&method.to_ascii_lowercase(), template, &call(method, path, body).await);
    }
}

/// A reference that leads nowhere would make every check against the document pass.
#[tokio::test]
async fn every_reference_leads_somewhere() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let emulator = start().await;
    let (document, mut found) = (document(&emulator).await, Vec::new());
    references(&document, &mut found);
    assert!(found.len() > 50, "the references were found");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// The comments of fields cannot take the limit from the code.
#[tokio::test]
async fn every_text_names_the_limit_of_waits_that_calls_have() {
    let refused = control(&start().await, "POST", "requests/wait", &json!({ "timeout": "99h" })).await.message();
    let limit = refused.strip_prefix("timeout: at most ").expect("the limit").trim_end_matches('s').to_owned();
    let pages = concat!(include_str!("../../docs/control-api.md"), include_str!("../../docs/reports.md"));
    for text in [include_str!("control_openapi.json"), pages] {
        let numbers = text.split("at most ").skip(1).filter_map(|rest| {
            let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
            let unit = unit.trim_start().strip_prefix('s')?;
            (!number.is_empty() && !unit.starts_with(char::is_alphanumeric)).then_some(number)
        });
        assert!(numbers.clone().count() >= 2);
        numbers.for_each(|number| assert_eq!(number, limit));
    }
}
