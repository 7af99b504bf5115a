//! `GET verdict`: problems found, kind by kind, for all keys and for one.

use serde_json::{Value, json};
use tokio::net::TcpListener;
use wrs_emulator::Emulator;

use crate::support::{
    KEY, MachineTime, PATIENCE, activate, ask, builder, control, fire, get, get_as, raw, send, start, start_with,
    started, subscribe_sink, subscribe_url, text, view,
};

const STATUS: &str = "/v1/system/status";

async fn verdict(emulator: &Emulator, query: &str) -> Value {
    view(emulator, &format!("verdict{query}")).await
}

async fn verdict_text(emulator: &Emulator) -> String {
    text(&send(emulator, "GET", "/_emulator/verdict", &[("accept", "text/plain")], "").await.body)
}

/// What is told of one kind: its sentences.
fn messages(verdict: &Value, kind: &str) -> Vec<String> {
    let entries = verdict[kind].as_array().expect("a list");
    assert_eq!(verdict["counts"][kind], entries.len(), "{verdict}");
    entries.iter().map(|entry| entry["message"].as_str().expect("a sentence").to_owned()).collect()
}

#[tokio::test]
async fn requests_that_led_to_no_endpoint_are_unmatched() {
    let emulator = start().await;
    assert_eq!(messages(&verdict(&emulator, "").await, "unmatched"), [""; 0]);
    for path in [STATUS, "/v1/hello"] {
        assert_eq!(get(&emulator, path).await.status, 200);
    }
    assert_eq!(send(&emulator, "GET", STATUS, &[], "").await.status, 401, "a refused key led to an endpoint");
    assert_eq!(get(&emulator, "/v1/helo?a=b").await.status, 404);
    assert_eq!(get_as(&emulator, "sk_test_other", "/v1/workflows").await.status, 404);
    assert_eq!(send(&emulator, "DELETE", STATUS, &[], "").await.status, 405);
    assert!(raw(&emulator, b"nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    assert!(
        raw(&emulator, b"GET * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.starts_with("HTTP/1.1 400 ")
    );
    // What a browser asks for by itself says nothing about the client under test.
    assert_eq!(send(&emulator, "GET", "/favicon.ico", &[], "").await.status, 404);
    for (poll, path) in [("GET", "/"), ("HEAD", "/"), ("GET", "/?probe=1"), ("GET", "/healthz")] {
        assert_eq!(send(&emulator, poll, path, &[], "").await.status, 404);
    }
    let preflight = [("origin", "https://a.example"), ("access-control-request-method", "POST")];
    assert_eq!(send(&emulator, "OPTIONS", STATUS, &preflight, "").await.status, 405);
    let rows = view(&emulator, "requests?key=*").await;
    let incidental = rows["data"].as_array().expect("rows").iter().filter(|row| row["incidental"] == true);
    assert_eq!(incidental.count(), 6, "{rows}");
    let reported = verdict(&emulator, "?key=*").await;
    let found = messages(&reported, "unmatched");
    assert_eq!(found.len(), 5, "{found:#?}");
    for (message, parts) in found.iter().zip([
        &["GET /v1/helo: no endpoint `/v1/helo`; did you mean GET /v1/hello? (404)"][..],
        &["GET /v1/workflows: ", "not available yet (404)"],
        &["DELETE /v1/system/status: `/v1/system/status` accepts GET", "(405)"],
        &["bytes that are not an HTTP request", "(400)"],
        &["(400)"],
    ]) {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}: {parts:?}");
    }
    let first = &reported["unmatched"][0];
    let id = first["id"].as_str().expect("an id");
    assert_eq!(control(&emulator, "GET", &format!("requests/{id}"), &Value::Null).await.status, 200);
    assert_eq!((&first["status"], &first["reason"]), (&json!(404), &json!("not_found")));
    // One key is told of the requests that carried it.
    for (key, count) in [(KEY, 1), ("sk_test_other", 1), ("sk_test_third", 0)] {
        let own = verdict(&emulator, &format!("?key={key}")).await;
        assert_eq!(messages(&own, "unmatched").len(), count, "{key}: {own}");
    }
}

#[tokio::test]
async fn what_the_journal_forgot_is_told() {
    let emulator = started(builder().configure(|settings| settings.max_journal_entries = 2)).await;
    assert_eq!(get(&emulator, "/v1/helo").await.status, 404);
    assert_eq!(verdict(&emulator, "").await["forgotten_entries"], 0);
    for _ in 0..2 {
        get(&emulator, STATUS).await;
    }
    let reported = verdict(&emulator, "").await;
    assert_eq!((messages(&reported, "unmatched").len(), &reported["forgotten_entries"]), (0, &json!(1)));
}

async fn answer_with(emulator: &Emulator, sink: &str, statuses: &[u16]) {
    ask(emulator, "POST", &format!("sink/{sink}"), &json!({ "respond": statuses })).await;
}

#[tokio::test]
async fn deliveries_that_nobody_took_are_undelivered() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    let event = json!({ "type": "workflow.completed" });
    fire(&emulator, &event).await;
    assert_eq!(messages(&verdict(&emulator, "").await, "undelivered"), [""; 0]);
    answer_with(&emulator, "app", &[500]).await;
    let fired = fire(&emulator, &event).await;
    let reported = verdict(&emulator, "").await;
    let pending = messages(&reported, "undelivered");
    assert_eq!(
        pending,
        ["workflow.completed to https://app.sink.localhost/hooks: attempt 1 failed and another is due: \
          the receiver answered 500; only 2xx accepts an event"]
    );
    let entry = &reported["undelivered"][0];
    assert_eq!((&entry["id"], &entry["status"]), (&fired["deliveries"][0]["id"], &json!("pending")));
    answer_with(&emulator, "app", &[500]).await;
    control(&emulator, "POST", "clock", &json!({ "advance": "1s" })).await;
    answer_with(&emulator, "app", &[410]).await;
    let gone = fire(&emulator, &event).await;
    assert_eq!(gone["deliveries"][0]["status"], "cancelled", "{gone}");
    let cancelled = messages(&verdict(&emulator, "").await, "undelivered");
    assert!(
        cancelled.iter().any(|message| message.contains(": cancelled: the receiver answered 410")),
        "{cancelled:?}"
    );
    for (key, count) in [(KEY, cancelled.len()), ("sk_test_other", 0)] {
        assert_eq!(messages(&verdict(&emulator, &format!("?key={key}")).await, "undelivered").len(), count, "{key}");
    }
}

#[tokio::test]
async fn exhausted_deliveries_are_undelivered_and_those_meant_to_fail_are_not() {
    let emulator = start_with(&["webhooks.retry.preset=custom"]).await;
    subscribe_sink(&emulator, "app").await;
    let lost = json!({ "type": "workflow.completed", "drop": true });
    assert_eq!(control(&emulator, "POST", "events", &lost).await.status, 200);
    answer_with(&emulator, "app", &[401, 500]).await;
    let forged = fire(&emulator, &json!({ "type": "workflow.completed", "tamper": "signature" })).await;
    assert_eq!(forged["deliveries"][0]["status"], "exhausted", "{forged}");
    assert_eq!(messages(&verdict(&emulator, "?wait=20s").await, "undelivered"), [""; 0]);
    fire(&emulator, &json!({ "type": "reference.matched" })).await;
    let found = messages(&verdict(&emulator, "").await, "undelivered");
    assert!(found.len() == 1 && found[0].contains("given up after 1 attempt: the receiver answered 500"), "{found:?}");
}

#[tokio::test]
async fn a_verdict_waits_for_what_is_due_and_for_nothing_else() {
    let time = MachineTime::stop();
    let emulator = started(
        Emulator::builder().seed(7).set("webhooks.retry.preset=custom").set("webhooks.retry.schedule=[\"1s\"]"),
    )
    .await;
    subscribe_sink(&emulator, "app").await;
    answer_with(&emulator, "app", &[500]).await;
    ask(&emulator, "POST", "events", &json!({ "type": "workflow.completed" })).await;
    let repeated = time.passes_until(verdict(&emulator, "?wait=20s")).await;
    assert_eq!(messages(&repeated, "undelivered"), [""; 0], "the repeat was waited for");
    // A frozen clock lets no retry come: waiting for one would only ever reach the limit.
    let frozen = start().await;
    subscribe_sink(&frozen, "app").await;
    answer_with(&frozen, "app", &[500]).await;
    fire(&frozen, &json!({ "type": "workflow.completed" })).await;
    let limit = std::time::Duration::from_mins(1);
    let at_once = tokio::time::timeout(limit, verdict(&frozen, "?wait=300s")).await.expect("nothing is waited for");
    assert_eq!(messages(&at_once, "undelivered").len(), 1);
    for query in ["?wait=301s", "?wait=soon", "?kind=unmatched"] {
        assert_eq!(control(&frozen, "GET", &format!("verdict{query}"), &Value::Null).await.status, 422, "{query}");
    }
}

/// An event that an answer sets off, after a while.
const LATER: &str = "
[[given.subscription]]
url = 'https://app.sink.localhost/x'
events = ['workflow.completed']

[[emit]]
event = 'workflow.completed'
on = { operation = 'system.status' }
delay = 'DELAY'

[[emit]]
event = 'workflow.completed'
on = { after = 'DELAY' }
";

#[tokio::test]
async fn a_verdict_waits_for_planned_events_that_are_due() {
    let time = MachineTime::stop();
    let judged = async |delay: &str, frozen: bool| {
        let scenario = LATER.replace("DELAY", delay);
        let builder = if frozen { builder() } else { Emulator::builder().seed(7) };
        let emulator = started(builder.scenario_text(&scenario)).await;
        assert_eq!(get(&emulator, STATUS).await.status, 200);
        let reported = tokio::time::timeout(PATIENCE, verdict(&emulator, "?wait=300s"));
        let reported = time.passes_until(reported).await.expect("no needless wait");
        (reported["judged_deliveries"].clone(), messages(&reported, "undelivered").len())
    };
    assert_eq!(judged("300ms", false).await, (json!(2), 0), "both events were sent and awaited");
    assert_eq!(judged("1h", false).await, (json!(0), 0), "later events are not awaited");
    assert_eq!(judged("300ms", true).await, (json!(0), 0), "a frozen clock makes nothing due");
}

/// Events without end: those within the wait are awaited, and the wait ends.
#[tokio::test]
async fn a_verdict_waits_for_repeated_events_within_the_wait_alone() {
    let scenario = LATER.replace("after = 'DELAY'", "every = '100ms'").replace("DELAY", "1h");
    let time = MachineTime::stop();
    let emulator = started(Emulator::builder().seed(7).scenario_text(&scenario)).await;
    assert_eq!(get(&emulator, STATUS).await.status, 200);
    let reported = tokio::time::timeout(PATIENCE, verdict(&emulator, "?wait=1s"));
    let reported = time.passes_until(reported).await.expect("the wait ends");
    let count = reported["judged_deliveries"].as_u64().expect("a count");
    assert!(count >= 9, "{count} of ten events were awaited");
}

#[tokio::test]
async fn a_verdict_names_what_there_was_nothing_of() {
    let kinds = |verdict: &Value| -> Vec<String> {
        assert_eq!(verdict["counts"]["unused"], verdict["unused"].as_array().expect("a list").len(), "{verdict}");
        let entries = verdict["unused"].as_array().expect("a list").iter();
        entries.map(|entry| entry["kind"].as_str().expect("a kind").to_owned()).collect()
    };
    let emulator = start().await;
    let idle = verdict(&emulator, "").await;
    assert_eq!(kinds(&idle), ["unmatched", "undelivered", "forged", "unfinished"]);
    assert_eq!(messages(&idle, "unused")[0], "0 requests arrived; does your code read WRS_BASE_URL?");
    let of_one = messages(&verdict(&emulator, "?key=sk_test_other").await, "unused");
    assert_eq!(of_one[0], "0 requests arrived with this key; does your code read WRS_BASE_URL and WRS_API_KEY?");
    subscribe_sink(&emulator, "app").await;
    assert_eq!(kinds(&verdict(&emulator, "").await), ["undelivered", "forged", "unfinished"]);
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    activate(&emulator, &["rate-limit-burst"], None).await;
    assert_eq!(kinds(&verdict(&emulator, "").await), ["forged"]);
    assert_eq!(kinds(&verdict(&emulator, "?key=sk_test_other").await), ["unmatched", "undelivered", "forged"]);
}

#[tokio::test]
async fn events_that_are_yet_to_come_are_unfinished() {
    let emits = "[[emit]]\nevent = 'workflow.completed'\non = { operation = 'hello' }\n\n\
        [[emit]]\nname = 'later'\nevent = 'workflow.completed'\non = { operation = 'system.status' }\ndelay = '1m'\ntimes = 3\ninterval = '1s'\n\n\
        [[emit]]\nname = 'once'\nevent = 'workflow.completed'\non = { after = '1h' }\n\n\
        [[emit]]\nname = 'for ever'\nevent = 'workflow.completed'\non = { every = '1h' }\n";
    let emulator = started(builder().scenario_text(emits)).await;
    get(&emulator, "/v1/system/status").await;
    let unfinished = messages(&verdict(&emulator, "").await, "unfinished");
    assert_eq!(unfinished.len(), 2, "{unfinished:?}");
    assert!(unfinished[0].starts_with("later of scenario `inline-1` has 3 events yet to come for "), "{unfinished:?}");
    assert!(unfinished[1].starts_with("once of scenario `inline-1` has 1 event yet to come for "), "{unfinished:?}");
    control(&emulator, "POST", "clock", &json!({ "advance": "2h" })).await;
    assert_eq!(messages(&verdict(&emulator, "").await, "unfinished"), [""; 0]);
}

const TURNS: &str = "
[[rule]]
name = 'refused'
when = { operation = 'system.status' }
times = 2
reply = { error = 'rate_limit_exceeded' }

[[rule]]
name = 'for ever'
when = { operation = 'events.subscribe' }
reply = { status = 500, code = 'internal_error', message = 'no' }

[[rule]]
name = 'hello'
when = { operation = 'hello' }
sequence = [{ pass = true }, { pass = true }]
";

#[tokio::test]
async fn rules_with_turns_left_are_unfinished_for_each_workspace_that_met_them() {
    let emulator = started(builder().scenario_text(TURNS)).await;
    let nobody = messages(&verdict(&emulator, "").await, "unfinished");
    assert_eq!(nobody.len(), 2, "{nobody:?}");
    assert!(nobody[0].starts_with("rule `refused` of scenario `inline-1` was never applied"), "{nobody:?}");
    assert!(nobody[1].contains("`hello`") && nobody[1].ends_with("all 2 turns are left"), "{nobody:?}");
    get_as(&emulator, "sk_test_first", STATUS).await;
    for _ in 0..2 {
        get_as(&emulator, "sk_test_second", STATUS).await;
    }
    get_as(&emulator, "sk_test_second", "/v1/hello").await;
    let reported = verdict(&emulator, "").await;
    let open = messages(&reported, "unfinished");
    assert_eq!(open.len(), 2, "{open:?}");
    let first = &reported["unfinished"][0];
    assert_eq!((&first["rule"], &first["applied"], &first["left"]), (&json!("refused"), &json!(1), &json!(1)));
    assert!(first["workspace"].as_str().is_some_and(|id| id.starts_with("ws_")), "{first}");
    assert_eq!(open[0], "rule `refused` of scenario `inline-1` applied 1 of 2 times for key sk_test_first; 1 left");
    assert!(open[1].contains("`hello`") && open[1].contains("1 of 2 times for requests without a key"), "{open:?}");
    // A key is asked for by name: it counts even if it never came.
    for (key, left) in [("sk_test_first", json!([1])), ("sk_test_second", json!([])), ("sk_test_third", json!([2]))] {
        let own = verdict(&emulator, &format!("?key={key}")).await;
        let keyed = own["unfinished"].as_array().expect("a list").iter().filter(|entry| entry["rule"] == "refused");
        assert_eq!(keyed.map(|entry| entry["left"].clone()).collect::<Value>(), left, "{key}");
    }
    get_as(&emulator, "sk_test_first", STATUS).await;
    get(&emulator, "/v1/hello").await;
    assert_eq!(messages(&verdict(&emulator, "").await, "unfinished"), [""; 0]);
    // A key with settings of its own plays the scenarios of all keys.
    control(&emulator, "PATCH", "profile", &json!({ "key": "sk_test_own", "rate_limit.requests": 9 })).await;
    get_as(&emulator, "sk_test_own", STATUS).await;
    let open = messages(&verdict(&emulator, "").await, "unfinished");
    assert!(open.len() == 1 && open[0].contains("1 of 2 times") && open[0].contains("sk_test_own"), "{open:?}");
    get_as(&emulator, "sk_test_own", STATUS).await;
    // Another activation begins afresh.
    activate(&emulator, &["inline-1"], None).await;
    assert_eq!(messages(&verdict(&emulator, "").await, "unfinished").len(), 2);
    activate(&emulator, &[], None).await;
    let off = verdict(&emulator, "").await;
    assert_eq!((messages(&off, "unfinished").len(), &off["active_scenarios"]), (0, &json!([])));
}

#[tokio::test]
async fn a_story_before_its_end_is_unfinished() {
    let story = "
[[rule]]
when = { operation = 'system.status', step = 'start' }
next = 'down'
pass = true

[[rule]]
when = { operation = 'system.status', step = 'down' }
next = 'up again'
reply = { status = 500, code = 'internal_error', message = 'no' }
";
    let emulator = started(builder().scenario_text(story)).await;
    for (step, who) in [("start", "no key"), ("down", "key sk_test_")] {
        let reported = verdict(&emulator, "").await;
        let open = messages(&reported, "unfinished");
        assert_eq!(open.len(), 1, "{open:?}");
        let text = format!("is at step \"{step}\" for {who}");
        assert!(open[0].contains(&text) && open[0].ends_with("it ends at \"up again\""), "{open:?}");
        assert_eq!(
            (&reported["unfinished"][0]["step"], &reported["unfinished"][0]["ends"]),
            (&json!(step), &json!(["up again"]))
        );
        get(&emulator, STATUS).await;
    }
    assert_eq!(messages(&verdict(&emulator, "").await, "unfinished"), [""; 0]);
}

#[tokio::test]
async fn a_key_with_its_own_scenarios_is_judged_by_them() {
    let emulator = started(builder().scenario("rate-limit-burst")).await;
    control(&emulator, "PUT", "scenarios/mine", &json!({ "rule": [{ "times": 1, "reply": { "status": 500 } }] })).await;
    activate(&emulator, &["mine"], Some(KEY)).await;
    let scenarios = |reported: &Value| -> Vec<String> {
        let entries = reported["unfinished"].as_array().expect("a list").iter();
        entries.map(|entry| entry["scenario"].as_str().expect("a name").to_owned()).collect()
    };
    let all = verdict(&emulator, "").await;
    assert_eq!(scenarios(&all), ["rate-limit-burst", "mine"]);
    assert_eq!(all["active_scenarios"], json!(["mine", "rate-limit-burst"]));
    assert_eq!(scenarios(&verdict(&emulator, &format!("?key={KEY}")).await), ["mine"]);
    assert_eq!(get(&emulator, STATUS).await.status, 500);
    assert_eq!(scenarios(&verdict(&emulator, "").await), ["rate-limit-burst"]);
    subscribe_url(&emulator, "sk_test_b", "https://app.sink.localhost/x").await;
    let met = verdict(&emulator, "?key=sk_test_b").await;
    assert_eq!((scenarios(&met), &met["unfinished"][0]["left"]), (vec!["rate-limit-burst".to_owned()], &json!(4)));
}

/// A test may wait for a webhook in its own code, and forget to fire the event.
#[tokio::test]
async fn a_test_that_subscribed_and_fired_nothing_is_told_so() {
    let emulator = start().await;
    subscribe_url(&emulator, "sk_test_a", "https://app.sink.localhost/x").await;
    let failed = json!({ "key": "sk_test_a", "test": "waits", "outcome": "failed", "message": "Timed out in 5000ms." });
    ask(&emulator, "POST", "outcome", &failed).await;
    let cause = verdict(&emulator, "").await["causes"][0].clone();
    let sentence = "Timed out in 5000ms; no event was fired for the test's subscription";
    assert_eq!(cause["sentence"], sentence, "the client subscribed by the API");
    let remedy =
        "if the test waits for a webhook, fire the event: `wrs.trigger(\"workflow.completed\")`, or `POST events`";
    assert_eq!(cause["remedy"], remedy);
    ask(&emulator, "POST", "reset", &json!({ "key": "sk_test_a" })).await;
    ask(&emulator, "POST", "subscriptions", &json!({ "key": "sk_test_a", "url": "https://app.sink.localhost/x" }))
        .await;
    ask(&emulator, "POST", "outcome", &failed).await;
    let cause = verdict(&emulator, "").await["causes"][0].clone();
    let sentence =
        "Timed out in 5000ms; the test made no request with its key; no event was fired for the test's subscription";
    assert_eq!((&cause["sentence"], &cause["remedy"]), (&json!(sentence), &json!(remedy)), "{cause}");
    let call = json!({ "call": "POST deliveries/wait", "status": 408, "code": "request_timeout", "message": "0 of 1 deliveries matched" });
    let mut waited = failed.clone();
    (waited["message"], waited["refused"]) = (json!("ControlError: 0 of 1 deliveries matched"), call);
    ask(&emulator, "POST", "outcome", &waited).await;
    let cause = verdict(&emulator, "").await["causes"][0].clone();
    let sentence = "no event was fired for the test's subscription: 0 of 1 deliveries matched";
    assert_eq!((&cause["sentence"], &cause["remedy"]), (&json!(sentence), &json!(remedy)), "{cause}");
    fire(&emulator, &json!({ "key": "sk_test_a", "type": "workflow.completed" })).await;
    ask(&emulator, "POST", "outcome", &failed).await;
    assert_ne!(verdict(&emulator, "").await["causes"][0]["remedy"], remedy);
}

/// Its receiver ends with it, and what the attempt meets then is not why the test failed.
#[tokio::test]
async fn a_test_that_ended_before_its_receiver_answered_is_told_so() {
    let receiver = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let forward = format!("https://app.example.com=http://{}", receiver.local_addr().expect("an address"));
    let emulator = started(builder().set("webhooks.retry.preset=none").forward(&forward)).await;
    subscribe_url(&emulator, "sk_test_a", "https://app.example.com/hooks").await;
    ask(&emulator, "POST", "events", &json!({ "key": "sk_test_a", "type": "workflow.completed" })).await;
    let (connection, _) = receiver.accept().await.expect("the attempt");
    let failed = json!({ "key": "sk_test_a", "test": "hangs", "outcome": "failed", "message": "Timed out in 5000ms." });
    ask(&emulator, "POST", "outcome", &failed).await;
    let remedy = "does the receiver's handler always send an answer, also when it throws?";
    let cause = verdict(&emulator, "").await["causes"][0].clone();
    assert_eq!(cause["remedy"], remedy);
    let sentence = cause["sentence"].as_str().expect("a sentence");
    assert!(sentence.ends_with(": the receiver had sent no answer yet"), "{sentence}");
    drop(connection);
    ask(&emulator, "POST", "deliveries/wait", &json!({ "key": "sk_test_a", "status": "exhausted" })).await;
    assert_eq!(verdict(&emulator, "").await["causes"][0]["remedy"], remedy, "after its end as well");
}

#[tokio::test]
async fn of_many_keys_the_first_are_named_and_all_are_counted() {
    let emulator = start().await;
    for number in 0..23 {
        assert_eq!(get_as(&emulator, &format!("sk_test_{number:02}"), "/v1/helo").await.status, 404);
    }
    let judged = verdict(&emulator, "").await;
    let cause = &judged["causes"][0];
    assert_eq!((cause["keys"].as_array().map(Vec::len), &cause["key_count"]), (Some(20), &json!(23)), "{judged}");
    let shown = verdict_text(&emulator).await;
    assert!(shown.contains("key sk_test_04 and 18 more\n"), "{shown}");
}

#[tokio::test]
async fn a_text_has_ten_causes_and_the_command_that_lists_the_others() {
    let emulator = start().await;
    for number in 0..13 {
        assert_eq!(get(&emulator, &format!("/v1/nothing-{number}")).await.status, 404);
    }
    let shown = verdict_text(&emulator).await;
    assert!(shown.contains("\n10. GET ") && !shown.contains("\n11. "), "{shown}");
    let more = "… and 3 more causes; `wrs-emulator verdict --json --url http://127.0.0.1:";
    assert!(shown.contains(more) && shown.contains("` lists them\n"), "{shown}");
}
