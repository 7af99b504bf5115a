//! Each preset held against the published contract over a socket: each promise is kept in type and form, whatever
//! else a preset does. `contract` sends nothing beyond, `friendly` exactly its additions, `hostile` really does its worst.

mod promises;
mod run;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wrs_emulator::state::engine::sink::Receipt;
use wrs_emulator::state::workspace::FireRequest;

use promises::{
    COMPLETED, ERROR, EVENT, Form, SUBSCRIPTION, SYSTEM_STATUS, Table, beyond, documented, object, promised,
    quota_header,
};
use run::{HELLO, Run, STATUS, TYPES};

use crate::support::{Answer, KEY, builder, get, raw, send, started, subscribe};

/// The event ids in the order of arrival.
fn arrivals(run: &Run) -> Vec<String> {
    run.envelopes().map(|event| event["id"].as_str().expect("text").to_owned()).collect()
}

fn fired(run: &Run) -> Vec<String> {
    run.fired.iter().map(|event| event.id.clone()).collect()
}

/// The headers of an answer that are neither HTTP's own nor the emulator's, nor among `known`.
fn headers_beyond(answer: &Answer, known: &[&str]) -> Vec<String> {
    let own = ["content-type", "content-length", "date"];
    let names = answer.headers.keys().map(ToString::to_string);
    names
        .filter(|name| {
            !name.starts_with("x-emulator-") && !own.contains(&name.as_str()) && !known.contains(&name.as_str())
        })
        .collect()
}

fn known_headers(path: &str, answer: &Answer) -> &'static [&'static str] {
    match (path, answer.status) {
        (HELLO, _) => &[],
        (_, 401) => &["www-authenticate"],
        _ => &["x-ratelimit-limit", "x-ratelimit-remaining"],
    }
}

// proves OPERATIONS JSON SUBSCRIBE_401 STATUS_CODES ERROR ERROR_CODE ERROR_MESSAGE ERROR_REQUEST_ID
#[tokio::test]
async fn contract_sends_what_is_promised_and_nothing_else() {
    let run = Run::of_preset("contract").await;
    promised(&run);
    documented(&run);
    for answer in &run.statuses {
        assert_eq!(beyond(&answer.json(), SYSTEM_STATUS), [""; 0]);
    }
    for answer in &run.checks {
        assert_eq!(beyond(&answer.json(), SYSTEM_STATUS), ["checks"]);
    }
    for answer in &run.created {
        assert_eq!(beyond(&answer.json(), SUBSCRIPTION), ["secret"]);
    }
    assert_eq!(beyond(&run.updated[0].json(), SUBSCRIPTION), [""; 0]);
    for (.., answer) in &run.errors {
        assert_eq!(beyond(&answer.json()["error"], ERROR), [""; 0]);
    }
    for (_, path, answer) in run.answers() {
        assert_eq!(headers_beyond(answer, known_headers(path, answer)), [""; 0]);
    }
    for envelope in run.envelopes() {
        assert_eq!(beyond(&envelope, EVENT), [""; 0]);
        if envelope["type"] == "workflow.completed" {
            assert_eq!(beyond(&envelope["data"], COMPLETED), [""; 0]);
        }
    }
    assert_eq!(arrivals(&run), fired(&run), "once each, in order");
}

#[tokio::test]
async fn friendly_adds_what_it_says_and_nothing_else() {
    let run = Run::of_preset("friendly").await;
    promised(&run);
    documented(&run);
    for (_, path, answer) in run.answers() {
        let counted = path != HELLO && answer.status != 401;
        let mut known = known_headers(path, answer).to_vec();
        known.push("x-request-id");
        assert_eq!(answer.header("x-request-id"), answer.header("x-emulator-request-id"));
        if counted {
            known.push("x-ratelimit-reset");
            assert_eq!(quota_header(answer, "x-ratelimit-reset"), 60, "the clock stands still");
        }
        if answer.status == 429 {
            known.push("retry-after");
            assert_eq!(quota_header(answer, "retry-after"), 60);
        }
        assert_eq!(headers_beyond(answer, &known), [""; 0]);
    }
    for (status, _, answer) in &run.errors {
        let error = &answer.json()["error"];
        assert_eq!(error["request_id"].as_str(), answer.header("x-request-id"));
        if *status == 422 {
            assert_eq!(beyond(error, ERROR), ["details"]);
            for detail in error["details"].as_array().expect("a list") {
                assert!(detail["field"].is_string() && detail["reason"].is_string(), "{detail}");
            }
        } else {
            assert_eq!(beyond(error, ERROR), [""; 0]);
        }
    }
    assert_eq!(arrivals(&run), fired(&run));
}

#[tokio::test]
async fn even_bytes_that_are_no_request_get_the_request_id_in_its_header() {
    let emulator = started(builder().preset("friendly")).await;
    let answer = raw(&emulator, b"nonsense\r\n\r\n").await;
    let line = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert!(line("x-request-id:").is_some_and(|id| id.starts_with("req_")), "{answer}");
    assert_eq!(line("x-request-id:"), line("x-emulator-request-id:"));
}

/// How many digits the fraction of a timestamp has.
fn digits(value: &Value) -> usize {
    let text = value.as_str().expect("text").trim_end_matches('Z');
    text.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// The promised fields in the order in which they stand.
fn order(value: &Value, table: Table) -> Vec<String> {
    object(value).keys().filter(|key| table.iter().any(|(name, _)| name == key)).cloned().collect()
}

/// Each of these objects has unknown fields, in more than one order.
fn varied(values: &[Value], table: Table, known: &[&str]) {
    for value in values {
        let mut more = beyond(value, table);
        more.retain(|field| !known.contains(field));
        assert!((1..=3).contains(&more.len()), "{more:?} in {value}");
    }
    let orders: BTreeSet<_> = values.iter().map(|value| order(value, table)).collect();
    assert!(orders.len() > 1, "always in the order {orders:?}");
}

// proves ERROR ERROR_CODE ERROR_REQUEST_ID ERROR_MORE CODES
#[tokio::test]
async fn hostile_keeps_every_promise_and_does_all_else() {
    let run = Run::of_preset("hostile").await;
    promised(&run);
    documented(&run);
    let bodies = |answers: &[Answer]| answers.iter().map(Answer::json).collect::<Vec<_>>();
    let errors: Vec<Value> = run.errors.iter().map(|(.., answer)| answer.json()["error"].take()).collect();
    let envelopes: Vec<Value> = run.envelopes().collect();
    let data = |wanted: &str| -> Vec<Value> {
        envelopes.iter().filter(|event| event["type"] == wanted).map(|event| event["data"].clone()).collect()
    };
    varied(&bodies(&run.statuses), SYSTEM_STATUS, &[]);
    varied(&bodies(&run.checks), SYSTEM_STATUS, &["checks"]);
    varied(&bodies(&run.created), SUBSCRIPTION, &["secret"]);
    varied(&errors, ERROR, &["details"]);
    varied(&bodies(&run.hellos), &[("version", Form::Text), ("greeting", Form::Object)], &[]);
    varied(&envelopes, EVENT, &[]);
    varied(&data("workflow.completed"), COMPLETED, &[]);
    varied(&data("reference.matched"), &[("reference_id", Form::Id("ref_")), ("workflow_id", Form::Id("wf_"))], &[]);
    for checks in bodies(&run.checks) {
        assert!(object(&checks["checks"]["relay"]).len() > 2, "each check grows: {checks}");
    }
    let all = envelopes.iter().chain(&errors).map(ToString::to_string).collect::<String>();
    for text in ["null", "true", "9007199254740993", "世界", "[]", ":-0.5"] {
        assert!(all.contains(text), "no unknown field has {text}");
    }

    let ids = run.created.iter().map(|answer| answer.json()["id"].as_str().map(str::len));
    assert!(
        ids.chain(envelopes.iter().map(|event| event["id"].as_str().map(str::len))).all(|length| length == Some(68))
    );
    assert!(data("workflow.completed").iter().all(|data| data["workflow_id"].as_str().is_some_and(|id| id.len() > 60)));
    let stamps = bodies(&run.statuses).into_iter().map(|mut body| body["checked_at"].take());
    let precisions: BTreeSet<usize> =
        stamps.chain(envelopes.iter().map(|event| event["created_at"].clone())).map(|stamp| digits(&stamp)).collect();
    assert_eq!(precisions.into_iter().collect::<Vec<_>>(), [0, 3, 6, 9]);

    for (status, _, answer) in &run.errors {
        match status {
            422 => assert!(answer.json()["error"]["details"].is_object(), "{answer:?}"),
            429 => assert!(answer.header("retry-after").is_some_and(|at| at.ends_with(" GMT")), "{answer:?}"),
            _ => {}
        }
    }
    let (mut arrived, fired) = (arrivals(&run), fired(&run));
    for event in &fired {
        let copies: Vec<&Receipt> =
            run.receipts.iter().zip(&arrived).filter(|(_, id)| *id == event).map(|(receipt, _)| receipt).collect();
        assert_eq!(copies.len(), 2, "each event comes twice");
        assert_eq!(copies[0].body, copies[1].body);
    }
    arrived.dedup();
    assert_eq!(arrived.len(), 12);
    assert_ne!(arrived, fired, "events overtake each other");
}

/// What a run shows, without what belongs to the machine.
fn trace(run: &Run) -> Vec<String> {
    let answers = run.answers().map(|(.., answer)| {
        let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
        format!("{} {:?} {:?}", answer.status, headers.collect::<Vec<_>>(), answer.body)
    });
    let receipts =
        run.receipts.iter().map(|receipt| format!("{} {:?} {:?}", receipt.at, receipt.headers, receipt.body));
    answers.chain(receipts).collect()
}

#[tokio::test]
async fn the_same_seed_is_hostile_in_the_same_way() {
    let (one, same) = (Run::of_preset("hostile").await, Run::of_preset("hostile").await);
    assert_eq!(trace(&one), trace(&same));
    let other = Run::of(builder().seed(8).preset("hostile")).await;
    assert_ne!(order_of_all(&one), order_of_all(&other));
}

fn order_of_all(run: &Run) -> Vec<Vec<String>> {
    run.statuses.iter().map(|answer| order(&answer.json(), SYSTEM_STATUS)).collect()
}

/// These are the ids of seed 7 from before there was anything to vary: while it is off, nothing is drawn at random for it.
#[tokio::test]
async fn what_is_off_shifts_no_id() {
    let emulator = started(builder().preset("contract")).await;
    let id = |answer: &Answer| answer.header("x-emulator-request-id").map(ToOwned::to_owned);
    let hello = send(&emulator, "GET", HELLO, &[], "").await;
    assert_eq!(id(&hello).as_deref(), Some("req_01kg9p6je0mn2ckw1pgnbgp6pr"));
    assert_eq!(id(&get(&emulator, STATUS).await).as_deref(), Some("req_01kg9p6je0mjxf471zkwa0hf2f"));
    let made =
        subscribe(&emulator, &json!({ "url": "https://app.sink.localhost/hooks", "events": TYPES })).await.json();
    assert_eq!(made["id"], "sub_01kg9p6je06pbqsctmqh01f0b3");
    assert_eq!(made["secret"], "whsec_WogFD0vjqqeT9+LBIneGneWxfa/q5h3oVEyyPtWs2Kg=");
    let request = FireRequest { event_type: TYPES[0].to_owned(), ..FireRequest::default() };
    let event = emulator.control().fire(KEY, request).expect("the event is fired");
    assert_eq!(event.id, "evt_01kg9p6je0ga594d9n6mdw8gvn");
    assert_eq!(event.deliveries[0].id, "dlv_01kg9p6je0hg066mqfwt77rk54");
}

const SCRIPT: &str = r#"
[[rule]]
when = { operation = "system.status" }
sequence = [
    { reply = { status = 200, body = { b = 1, a = { c = 2 } } } },
    { error = "rate_limit_exceeded" },
    { status = 422, code = "own", message = "own" },
]
"#;

#[tokio::test]
async fn what_the_user_gives_is_kept() {
    let emulator = started(builder().preset("hostile").scenario_text(SCRIPT)).await;
    assert_eq!(get(&emulator, STATUS).await.body, r#"{"b":1,"a":{"c":2}}"#, "a scripted body is the user's own");
    for (status, code) in [(429, "throttled"), (422, "own")] {
        let error = get(&emulator, STATUS).await;
        assert_eq!((error.status, error.code().as_str()), (status, code));
        assert!(!beyond(&error.json()["error"], ERROR).is_empty(), "an envelope grows like any other");
    }
    let Value::Object(data) = json!({ "workflow_id": "wf_42", "status": "completed", "n": { "deep": [1] } }) else {
        unreachable!("an object")
    };
    let request = FireRequest { event_type: TYPES[0].to_owned(), data: Some(data.clone()), ..FireRequest::default() };
    let event = emulator.control().fire(KEY, request).expect("the event is fired");
    let body: Value = serde_json::from_slice(&event.body).expect("JSON");
    for (name, value) in data {
        match value {
            Value::Object(inner) => assert_eq!(body["data"][&name]["deep"], inner["deep"]),
            value => assert_eq!(body["data"][&name], value),
        }
    }
    assert!(
        !beyond(&body["data"], &[("workflow_id", Form::Text), ("status", Form::Text), ("n", Form::Object)]).is_empty()
    );
}

#[tokio::test]
async fn an_unknown_preset_ends_the_start() {
    let problem = builder().preset("hostil").start().await.expect_err("there is no such preset").to_string();
    assert!(problem.contains("unknown preset `hostil`") && problem.contains("did you mean `hostile`?"), "{problem}");
}
