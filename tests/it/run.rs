//! The run document: the records of the other calls, bounded, repeatable, without secrets.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wrs_emulator::Emulator;
use wrs_emulator::ui::{DATA_END, DATA_START};

use crate::support::{
    activate, ask, builder, control, fire, get, get_as, notices, put_scenario, send, start, start_with, started,
    subscribe_sink, text, view,
};
use crate::wire::peer::Peer;

async fn run(emulator: &Emulator, query: &str) -> Value {
    view(emulator, &format!("run{query}")).await
}

fn list<'v>(document: &'v Value, name: &str) -> &'v [Value] {
    document[name].as_array().unwrap_or_else(|| panic!("{name} is a list: {}", document[name]))
}

fn ids(document: &Value, name: &str) -> Vec<String> {
    list(document, name).iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

/// A story with a rule, a step, an emission and a subscription.
const STORY: &str = r#"
title = "A story"

[[rule]]
name = "busy"
when = { operation = "system.status" }
times = 3
next = "calm"
reply = { error = "rate_limit_exceeded" }

[[emit]]
name = "later"
event = "workflow.completed"
on = "activation"
delay = "30s"
"#;

#[tokio::test]
async fn records_and_state_are_those_of_the_other_calls() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    put_scenario(&emulator, "story", STORY).await;
    activate(&emulator, &["story"], Some("sk_test_local")).await;
    get(&emulator, "/v1/system/status").await;
    get(&emulator, "/nowhere").await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    emulator.control().note("a line of the log");

    let document = run(&emulator, "").await;
    assert_eq!((&document["format"], &document["version"]), (&json!("wrs-emulator-run"), &json!(1)));
    assert_eq!((ids(&document, "requests").len(), ids(&document, "deliveries").len()), (3, 1));
    let mut places = vec![];
    for id in ids(&document, "requests") {
        let mut record = list(&document, "requests").iter().find(|row| row["id"] == id).expect("the row").clone();
        let fields = record.as_object_mut().expect("an object");
        let explanation = fields.remove("explanation").expect("an explanation");
        places.push(fields.remove("place"));
        assert_eq!(record, view(&emulator, &format!("requests/{id}")).await);
        let mut explained = view(&emulator, &format!("explain/{id}")).await;
        explained.as_object_mut().expect("an object").remove("request");
        // What can be done about it depends on whether the emulator still runs.
        let mut explanation = explanation;
        let (saved, now) = (explanation["advice"].take(), explained["advice"].take());
        assert_eq!((explanation, saved.is_null()), (explained, now.is_null()));
    }
    for (part, call) in
        [("verification", "verdict"), ("clock", "clock"), ("profile", "profile"), ("assumptions", "assumptions")]
    {
        assert_eq!(document[part], view(&emulator, call).await, "{part}");
    }
    for (kind, part) in [("events", "event"), ("deliveries", "delivery")] {
        let mut record = document[kind][0].clone();
        let id = record["id"].as_str().expect("an id");
        let explained = view(&emulator, &format!("explain/{id}")).await;
        let fields = record.as_object_mut().expect("an object");
        let summary = fields.remove("summary");
        places.insert(0, fields.remove("places").map(|places| places[0].clone()));
        assert_eq!((summary.as_ref(), &record), (Some(&explained["summary"]), &explained[part]));
    }
    // The clock stands still: which of them came first is known from their places, newest first.
    let places: Vec<u64> =
        places.iter().map(|place| place.as_ref().and_then(Value::as_u64).expect("a place")).collect();
    assert_eq!(places, [1, 2, 3, 4, 5]);
    let subscriptions = view(&emulator, "subscriptions?key=*").await;
    assert_eq!(document["subscriptions"], subscriptions["data"]);
    let listed = view(&emulator, "scenarios").await;
    assert_eq!(list(&document, "scenarios").len(), list(&listed, "data").len());
    for scenario in list(&document, "scenarios") {
        let mut scenario = scenario.clone();
        scenario.as_object_mut().expect("an object").remove("progress");
        let name = scenario["name"].as_str().expect("a name");
        assert_eq!(scenario, view(&emulator, &format!("scenarios/{name}")).await);
    }
    let notices: Vec<&Value> = list(&document, "notices").iter().map(|notice| &notice["message"]).collect();
    assert!(notices.contains(&&json!("a line of the log")), "{notices:?}");
    assert_eq!(run(&emulator, "?key=sk_test_local").await["key"], "sk_test_local");

    // The order is the newest first.
    assert_eq!(document["requests"][0]["path"], "/nowhere");
    let facts = &document["emulator"];
    assert_eq!((&facts["seed"], &facts["control"]), (&json!(7), &json!(false)));
    assert_eq!(facts["started_at"], "2026-01-31T09:30:00.000Z");
    assert_eq!(facts["base_url"], emulator.base_url());
}

#[tokio::test]
async fn a_failed_test_is_a_warning() {
    let emulator = start().await;
    for outcome in ["passed", "failed"] {
        ask(&emulator, "POST", "outcome", &json!({ "key": "sk_test_a", "test": "t", "outcome": outcome })).await;
    }
    let document = run(&emulator, "").await;
    let ended = list(&document, "notices").iter().filter(|notice| notice["kind"] == "test_ended");
    let ended: Vec<_> = ended.map(|notice| (notice["message"].as_str(), notice["warning"].as_bool())).collect();
    assert_eq!(ended, [(Some("test t failed"), Some(true)), (Some("test t passed"), Some(false))]);
    assert!(list(&document, "notices").iter().all(|notice| notice["key"] == "sk_test_a"), "{document}");
}

#[tokio::test]
async fn an_emission_that_requests_set_off_is_counted() {
    let emulator = start().await;
    let toml = "[[emit]]\nname = \"told\"\nevent = \"workflow.completed\"\non = { operation = \"system.status\" }\n";
    put_scenario(&emulator, "story", toml).await;
    activate(&emulator, &["story"], None).await;
    for _ in 0..2 {
        get(&emulator, "/v1/system/status").await;
    }
    emulator.control().settle().await;
    let document = run(&emulator, "").await;
    let story = list(&document, "scenarios").iter().find(|scenario| scenario["name"] == "story").expect("the story");
    let expected = json!([{ "emission": "told", "fired": 2, "planned": 0 }]);
    assert_eq!(story["progress"][0]["emissions"], expected, "{story}");
}

#[tokio::test]
async fn keys_show_what_is_left_and_scenarios_how_far_they_are() {
    let emulator = start_with(&["rate_limit.requests=5", "rate_limit.window=10s"]).await;
    put_scenario(&emulator, "story", STORY).await;
    for _ in 0..3 {
        get_as(&emulator, "sk_test_b", "/v1/system/status").await;
    }
    activate(&emulator, &["story"], Some("sk_test_a")).await;
    get_as(&emulator, "sk_test_a", "/v1/system/status").await;
    // The emission is planned along with the requests.
    emulator.control().settle().await;
    let document = run(&emulator, "").await;
    let keys = list(&document, "keys");
    assert_eq!(keys.iter().map(|key| key["key"].as_str()).collect::<Vec<_>>(), [Some("sk_test_a"), Some("sk_test_b")]);
    assert_eq!(
        keys[1]["quota"],
        json!({ "limit": 5, "remaining": 2, "window_ms": 10_000.0, "opens_in_ms": 0.0, "resets_in_ms": 10_000.0 })
    );
    assert_eq!((&keys[1]["requests"], &keys[0]["scenarios"]), (&json!(3), &json!(["story"])));
    // Looking counts nothing.
    assert_eq!(run(&emulator, "").await["keys"], document["keys"]);
    assert_eq!((&document["active"], &keys[1]["settings"]), (&json!([]), &json!([])));
    // The order in force, and the list of one key.
    put_scenario(&emulator, "another", "title = 'x'\n").await;
    activate(&emulator, &["story", "another"], None).await;
    ask(&emulator, "PATCH", "profile?key=sk_test_b", &json!({ "rate_limit": { "requests": 3 } })).await;
    let changed = run(&emulator, "").await;
    assert_eq!(changed["active"], json!(["story", "another"]));
    let own = &changed["keys"][1]["settings"];
    assert_eq!(
        (&own[0]["setting"], &own[0]["value"], &own[1]),
        (&json!("rate_limit.requests"), &json!(3), &Value::Null),
        "{own}"
    );
    activate(&emulator, &[], None).await;

    let story = list(&document, "scenarios").iter().find(|scenario| scenario["name"] == "story").expect("the story");
    let progress = &story["progress"][0];
    assert_eq!(progress["rules"], json!([{ "rule": "busy", "line": 4, "applied": 1, "turns": 3 }]));
    assert_eq!(
        (&progress["key"], &progress["step"], &progress["ends"]),
        (&json!("sk_test_a"), &json!("start"), &json!(["calm"]))
    );
    assert_eq!(progress["emissions"], json!([{ "emission": "later", "fired": 1, "planned": 1 }]));

    let decided = list(&document, "requests").iter().find(|row| row["scenario"] == "story").expect("a scripted answer");
    assert_eq!(decided["explanation"]["rules"][0]["line"], 4, "{decided}");

    let due = list(&document, "due");
    assert_eq!(due.len(), 1, "{due:?}");
    assert_eq!((&due[0]["what"], &due[0]["at"]), (&json!("event"), &json!("2026-01-31T09:30:30.000Z")));
    assert_eq!((&due[0]["in_ms"], &due[0]["scenario"]), (&json!(30_000.0), &json!("story")));
    ask(&emulator, "POST", "clock", &json!({ "advance": "30s" })).await;
    assert!(list(&run(&emulator, "").await, "due").is_empty());
}

#[tokio::test]
async fn what_is_due_names_the_attempts_of_a_delivery() {
    let emulator = start().await;
    subscribe_sink(&emulator, "app").await;
    ask(&emulator, "POST", "sink/app", &json!({ "respond": [500] })).await;
    fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let document = run(&emulator, "").await;
    let due = list(&document, "due");
    assert_eq!(
        (due.len(), &due[0]["what"], &due[0]["delivery"]),
        (1, &json!("attempt"), &document["deliveries"][0]["id"])
    );
    assert_eq!(due[0]["in_ms"], document["deliveries"][0]["next_attempt_in_ms"]);
}

#[tokio::test]
async fn findings_are_those_of_their_call_unless_a_limit_is_given() {
    let emulator = start().await;
    get_as(&emulator, "sk_test_a", "/v1/system/status?api_key=sk_test_a").await;
    get_as(&emulator, "sk_test_b", "/nowhere").await;
    for (query, codes) in [("", &["key-in-url", "wrong-path"][..]), ("?key=sk_test_b", &["wrong-path"])] {
        let findings = run(&emulator, query).await["findings"].clone();
        assert_eq!(findings, view(&emulator, &format!("findings{query}")).await, "{query}");
        let found: Vec<_> = list(&findings, "data").iter().filter_map(|finding| finding["code"].as_str()).collect();
        assert!(codes.iter().all(|code| found.contains(code)), "{query}: {found:?}");
        assert_eq!(found.contains(&"key-in-url"), query.is_empty(), "{query}: {found:?}");
    }
    for query in ["?limit=0", "?limit=60"] {
        assert_eq!(run(&emulator, query).await.get("findings"), None, "{query}");
    }
}

/// What a CI job without the program saves with curl.
#[tokio::test]
async fn the_report_is_a_file_with_the_same_document() {
    let emulator = start().await;
    get(&emulator, "/v1/hello").await;
    let answer = control(&emulator, "GET", "report.html?key=*", &Value::Null).await;
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"report.html\""));
    assert_eq!(crate::run_files::data_of(&text(&answer.body)), run(&emulator, "").await);
    assert_eq!(control(&emulator, "GET", "report.html?limit=x", &Value::Null).await.status, 422);
}

/// What a server shows that forbids the scripts of a file, as Jenkins does.
#[tokio::test]
async fn a_report_says_what_failed_without_its_scripts() {
    let emulator = start().await;
    let said = async || {
        let page = text(&control(&emulator, "GET", "report.html?key=*", &Value::Null).await.body);
        let (_, body) = page.split_once("<body>").expect("a body");
        body.split_once(DATA_START).expect("the data").0.to_owned()
    };
    assert!(said().await.contains("<h1>Nothing happened yet</h1>"), "{}", said().await);
    get_as(&emulator, "sk_test_a", "/v1/only&here?sk_live_abcdefgh1234").await;
    let outcome = json!({ "key": "sk_test_a", "test": "test_<b>", "outcome": "failed", "message": "assert 1 == 2" });
    control(&emulator, "POST", "outcome", &outcome).await;
    let said = said().await;
    assert!(said.starts_with("\n<div id=\"plain\"") && !said.contains("noscript"), "{said}");
    assert!(said.contains("<h1>Failed: ") && said.contains("/v1/only&amp;here"), "{said}");
    assert!(said.contains("test_&lt;b&gt;") && !said.contains("abcdefgh"), "{said}");
    let id = &ids(&run(&emulator, "").await, "requests")[0];
    for command in ["verdict --from report.html", &format!("explain {id} --from report.html"), "run view report.html"] {
        assert!(said.contains(&format!("\nwrs-emulator {command}\n")), "{command}: {said}");
    }
}

/// No request can make the browser run or load anything.
#[tokio::test]
async fn in_a_report_data_stays_data() {
    let emulator = start().await;
    let hostile = "</script><script>alert(1)</script><!-- \u{2028}";
    emulator.control().note(hostile);
    let page = text(&control(&emulator, "GET", "report.html?key=*", &Value::Null).await.body);
    let document = crate::run_files::data_of(&page);
    assert_eq!(document["notices"][0]["message"], hostile);
    let (before, rest) = page.split_once(DATA_START).expect("the data begins");
    let (data, after) = rest.split_once(DATA_END).expect("the data ends");
    assert!(!data.contains('<'), "{data}");
    for outside in [" href=\"style.css\"", " href=\"icon.svg\"", " src=\"", "\nimport {", "\nexport "] {
        assert!(!before.contains(outside) && !after.contains(outside), "a report needs nothing else: {outside}");
    }
    // The policy names exactly the existing parts.
    let between = |text: &str, start: &str, end: &str| {
        let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start}"));
        rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0.to_owned()
    };
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let policy = between(before, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.contains(&format!("style-src {}", hash(&between(before, "<style>", "</style>")))), "{policy}");
    let script = between(after, "<script type=\"module\">", "</script>");
    assert!(policy.contains(&format!("script-src {}", hash(&script))), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("connect-src"), "{policy}");
}

/// Fills the journal with requests of both keys whose bodies are as large as the journal keeps.
async fn fill(emulator: &Emulator, count: usize) {
    let body = "x".repeat(60 * 1024);
    for number in 0..count {
        let key = if number % 2 == 0 { "sk_test_a" } else { "sk_test_b" };
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        send(emulator, "POST", "/v1/events/subscribe", &headers, body.clone()).await;
    }
}

#[tokio::test]
async fn a_document_has_the_newest_records_of_each_kind_and_counts_the_others() {
    let emulator = start_with(&["rate_limit.enabled=false"]).await;
    fill(&emulator, 200).await;
    for number in 0..2_010 {
        emulator.control().note(format!("line {number}"));
    }
    let document = run(&emulator, "").await;
    let notices = list(&document, "notices");
    assert_eq!((notices.len(), &notices[0]["message"]), (2_000, &json!("line 2009")));
    assert_eq!(document["omitted"]["notices"], 10);
    // Their bodies have more than 8 MiB.
    let shown = ids(&document, "requests");
    assert!((100..150).contains(&shown.len()), "{}", shown.len());
    assert_eq!(document["omitted"]["requests"], 200 - shown.len());
    let listed = view(&emulator, "requests?key=*&limit=1000").await;
    assert_eq!(shown[..], ids(&listed, "data")[..shown.len()], "the newest");
    let cursor = document["next_cursor"]["requests"].as_str().expect("more requests");
    let rest = view(&emulator, &format!("requests?key=*&limit=1000&cursor={cursor}")).await;
    assert_eq!(ids(&rest, "data")[..], ids(&listed, "data")[shown.len()..], "the cursor continues");
}

#[tokio::test]
async fn a_limit_is_of_each_kind_and_a_key_sees_its_own() {
    let emulator = start_with(&["rate_limit.enabled=false"]).await;
    fill(&emulator, 6).await;
    for (query, shown, omitted) in
        [("", 6, 0), ("?limit=2", 2, 4), ("?limit=0", 0, 6), ("?key=sk_test_a", 3, 0), ("?key=sk_test_a&limit=1", 1, 2)]
    {
        let document = run(&emulator, query).await;
        assert_eq!(
            (list(&document, "requests").len(), &document["omitted"]["requests"]),
            (shown, &json!(omitted)),
            "{query}"
        );
        assert_eq!(document["next_cursor"]["requests"].is_string(), omitted > 0 && shown > 0, "{query}");
        let keys: Vec<&Value> = list(&document, "keys").iter().map(|key| &key["key"]).collect();
        assert_eq!(keys.contains(&&json!("sk_test_b")), !query.contains("key"), "{query}");
        let foreign = list(&document, "requests").iter().filter(|request| request["key"] == "sk_test_b").count();
        assert_eq!(foreign > 0, !query.contains("key") && shown > 0, "{query}");
    }
    let refused = control(&emulator, "GET", "run?limit=100001", &Value::Null).await;
    assert_eq!((refused.status, refused.message().as_str()), (422, "limit: expected 0 to 100000, found `100001`"));
}

/// A run with a bit of everything; the address is the one thing that may differ.
async fn recorded() -> String {
    let emulator = started(builder().scenario_text(STORY)).await;
    let address = emulator.base_url().trim_start_matches("http://").to_owned();
    subscribe_sink(&emulator, "app").await;
    for key in ["sk_test_a", "sk_test_b", "nobody"] {
        get_as(&emulator, key, "/v1/system/status").await;
    }
    fire(&emulator, &json!({ "type": "workflow.completed", "count": 3 })).await;
    emulator.control().advance(Duration::from_secs(31)).await;
    emulator.control().note("a line of the log");
    emulator.control().settle().await;
    let answer = control(&emulator, "GET", "run", &Value::Null).await;
    let whole = text(&answer.body);
    assert!(whole.contains(&address), "the document has the address");
    let document: Value = serde_json::from_str(&whole).expect("JSON");
    for list in ["requests", "deliveries", "events", "notices"] {
        let times =
            document[list].as_array().expect("records").iter().map(|row| row.get("at").unwrap_or(&row["created_at"]));
        assert!(times.clone().count() > 0, "{list}");
        for time in times {
            assert!(
                time.as_str().is_some_and(|time| time.starts_with("2026-01-31T09:3")),
                "{list}: {time} is not the emulator's"
            );
        }
    }
    whole.replace(&address, "ADDRESS")
}

#[tokio::test]
async fn the_same_run_gives_the_same_document() {
    let run = recorded().await;
    assert_eq!(run, recorded().await);
    // A first attempt comes directly after its event, wherever it ended beside the next events.
    let document: Value = serde_json::from_str(&run).expect("JSON");
    for delivery in list(&document, "deliveries") {
        let event = list(&document, "events").iter().find(|event| event["id"] == delivery["event"]).expect("its event");
        let [event, attempt] = [event, delivery].map(|record| record["places"][0].as_u64().expect("a place"));
        assert_eq!(attempt + 1, event, "{delivery}");
    }
}

/// What happens after the document was made, and nothing before it, comes from the stream.
#[tokio::test]
async fn the_event_stream_continues_where_the_document_ends() {
    let emulator = start().await;
    get(&emulator, "/v1/hello").await;
    let last = run(&emulator, "").await["last_event_id"].as_str().expect("an id").to_owned();
    get(&emulator, "/v1/system/status").await;
    let request =
        format!("GET /_emulator/stream?kind=request HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {last}\r\n\r\n");
    let streamed = Peer::sending(&emulator, request).await.until("/v1/system/status").await;
    assert!(!streamed.contains("/v1/hello"), "{streamed}");
}

#[tokio::test]
async fn a_reported_outcome_is_in_the_document_until_a_reset() {
    let emulator = start().await;
    get_as(&emulator, "sk_test_a", "/v1/system/status").await;
    let outcome = json!({
        "key": "sk_test_b", "test": "test_x.py::test_b", "outcome": "failed", "message": "assert sk_live_abcdefgh1234",
        // The cut is within the credential.
        "output": format!("{}whsec_{} {}the end", "é".repeat(4000), "A".repeat(40), "x".repeat(4096 - 7 - 44)),
    });
    let answer = control(&emulator, "POST", "outcome", &outcome).await;
    assert_eq!((answer.status, &answer.json()["message"]), (200, &json!("assert sk_live_…1234")), "{answer:?}");
    control(&emulator, "POST", "outcome", &json!({ "key": "sk_test_c", "test": "c", "outcome": "passed" })).await;
    // Viewers of the stream learn it at once.
    let told = notices(&emulator, false);
    assert_eq!(told, ["test c passed", "test test_x.py::test_b failed: assert sk_live_…1234"]);
    let document = run(&emulator, "").await;
    let keys = list(&document, "keys");
    let names: Vec<&Value> = keys.iter().map(|key| &key["key"]).collect();
    assert_eq!(names, ["sk_test_b", "sk_test_a", "sk_test_c"], "failed tests come first");
    let test = &keys[0]["test"];
    assert_eq!((&test["test"], &test["outcome"]), (&json!("test_x.py::test_b"), &json!("failed")));
    assert_eq!(test["message"], "assert sk_live_…1234");
    let output = test["output"].as_str().expect("text");
    assert!(output.len() <= 4096 && output.ends_with("xthe end") && !output.contains("AAA"), "{output}");
    assert_eq!((&keys[1]["test"], &keys[2]["test"]["outcome"]), (&Value::Null, &json!("passed")));
    let part = run(&emulator, "?limit=0").await;
    assert_eq!((&part["keys"][0]["test"]["output"], &part["keys"][0]["test"]["test"]), (&Value::Null, &test["test"]));
    // JSON has one kind of number.
    let refused = json!({ "call": "POST clock", "status": 422.0, "code": "validation_error", "message": "no" });
    let whole = json!({ "key": "sk_test_c", "test": "c", "outcome": "failed", "refused": refused });
    assert_eq!(control(&emulator, "POST", "outcome", &whole).await.json()["refused"]["status"], 422);
    let other = control(&emulator, "POST", "outcome", &json!({ "test": "x", "outcome": "odd" })).await;
    assert_eq!(other.status, 422, "{other:?}");
    control(&emulator, "POST", "reset", &json!({ "key": "sk_test_b" })).await;
    assert!(list(&run(&emulator, "").await, "keys").iter().all(|key| key["key"] != "sk_test_b"));
}

#[test]
fn the_page_in_a_report_has_at_most_252_kib() {
    let mut page = Vec::new();
    let plain = wrs_emulator::ui::Plain::default();
    wrs_emulator::ui::report(&mut page, &plain, |out| out.write_all(b"{}")).expect("memory takes it");
    let bytes = page.len();
    assert!(bytes <= 252 * 1024, "{bytes} bytes");
}
