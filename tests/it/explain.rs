//! `explain`: why a request was answered as it was, for each kind of answer.

use serde_json::{Value, json};

use crate::support::{
    Answer, activate, ask, control, get, get_as, hook, put_scenario, send, start, start_with, started, subscribe,
    subscribe_sink, view,
};

async fn explained(emulator: &wrs_emulator::Emulator, answer: &Answer) -> Value {
    let id = answer.header("x-emulator-request-id").expect("an id");
    view(emulator, &format!("explain/{id}")).await
}

fn decided(explanation: &Value) -> (String, String) {
    let steps = explanation["steps"].as_array().expect("steps");
    let step = steps.iter().find(|step| step["verdict"] == "decided").expect("one step decided");
    (step["check"].as_str().expect("a name").to_owned(), step["detail"].as_str().expect("words").to_owned())
}

#[tokio::test]
async fn each_kind_of_answer_names_what_decided() {
    let emulator = start_with(&["rate_limit.requests=4", "rate_limit.window=30s"]).await;
    let fine = get(&emulator, "/v1/system/status").await;
    let wrong = get(&emulator, "/v1/system/status?include_checks=x").await;
    let made = subscribe(&emulator, &hook("https://x.example")).await;
    let updated = subscribe(&emulator, &hook("https://x.example")).await;
    let limited = get(&emulator, "/v1/system/status").await;
    for (answer, status, check, words) in [
        (&fine, 200, "operation", "every check passed"),
        (&wrong, 422, "operation", "`include_checks` must be true or false"),
        (&made, 200, "operation", "was created"),
        (&updated, 200, "operation", "so it was updated"),
        (&limited, 429, "quota", "4 of 4 requests used in a window of 30 s; the next is allowed in 30 s"),
        (
            &get_as(&emulator, "sk_live_x", "/v1/system/status").await,
            401,
            "authentication",
            "for example sk_test_local",
        ),
        (&send(&emulator, "GET", "/v1/system/status", &[], "").await, 401, "authentication", "missing"),
        (&get(&emulator, "/nowhere").await, 404, "route", "no endpoint `/nowhere`; there are "),
        (&get(&emulator, "/v1/users").await, 404, "route", "announced"),
        (&send(&emulator, "PUT", "/v1/hello", &[], "").await, 405, "route", "accepts GET, HEAD, not PUT"),
    ] {
        assert_eq!(answer.status, status);
        let explanation = explained(&emulator, answer).await;
        let (found, detail) = decided(&explanation);
        assert_eq!(found, check, "{explanation}");
        assert!(detail.contains(words), "{status}: {detail}");
        assert!(
            explanation["summary"].as_str().is_some_and(|summary| summary.starts_with(&status.to_string())),
            "{explanation}"
        );
    }
}

/// As data, so that a package for tests shows a call of its own instead of a command.
#[tokio::test]
async fn what_a_setting_or_a_scenario_would_allow_is_advice() {
    let emulator = start_with(&[]).await;
    let announced = json!({
        "text": "to have it answered in an assumed shape:",
        "advice": { "do": "use_scenarios", "active": ["announced-endpoints"], "key": null },
    });
    let allowed = json!({
        "text": "to have the emulator accept it:",
        "advice": { "do": "set", "setting": "webhooks.allow_http", "value": "true" },
    });
    for (answer, status, advice) in [
        (get(&emulator, "/v1/users").await, 404, json!([announced])),
        (subscribe(&emulator, &hook("http://localhost:3000/hooks")).await, 422, json!([allowed])),
        (subscribe(&emulator, &hook("ftp://localhost/hooks")).await, 422, Value::Null),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(explained(&emulator, &answer).await["advice"], advice);
    }
}

#[tokio::test]
async fn a_used_up_quota_names_when_it_is_free_and_what_to_type() {
    let emulator = start_with(&["rate_limit.requests=1", "rate_limit.window=30s"]).await;
    let status = || get_as(&emulator, "sk_test_burst", "/v1/system/status");
    assert_eq!(status().await.status, 200);
    let limited = status().await;
    assert_eq!(limited.status, 429);
    control(&emulator, "POST", "clock", &json!({ "key": "sk_test_burst", "advance": "10s" })).await;
    let advice = explained(&emulator, &limited).await["advice"].clone();
    let wait = json!({
        "text": "the quota of sk_test_burst is free again in 20 s, at 2026-01-31T09:30:30.000Z by the key's clock, which is frozen; to move the clock there:",
        "advice": { "do": "advance_clock", "advance": "20s", "key": "sk_test_burst" },
    });
    let client = "after a 429, a client waits as long as `Retry-After` says, or else with growing pauses; this one has";
    let header = json!({
        "text": format!("{client} none, because `rate_limit.retry_after` is off; to send it from now on:"),
        "advice": { "do": "set", "setting": "rate_limit.retry_after", "value": "seconds" },
    });
    assert_eq!(advice, json!([wait, header]));

    // The commands do what the advice says.
    control(&emulator, "PATCH", "profile", &json!({ "rate_limit.retry_after": "seconds" })).await;
    let limited = status().await;
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("20")));
    let header = json!({ "text": format!("{client} `Retry-After: 20`"), "advice": null });
    assert_eq!(explained(&emulator, &limited).await["advice"], json!([wait, header]));
    control(&emulator, "POST", "clock", &json!({ "key": "sk_test_burst", "advance": "20s" })).await;
    let free = json!([{ "text": "the quota of sk_test_burst is free again", "advice": null }, header]);
    assert_eq!(explained(&emulator, &limited).await["advice"], free);
    let answer = status().await;
    assert_eq!(answer.status, 200);
    assert_eq!(explained(&emulator, &answer).await["advice"], Value::Null);
}

#[tokio::test]
async fn a_quota_that_only_a_scenario_shows_as_used_up_is_told_as_that() {
    let emulator = started(crate::support::builder().scenario("rate-limit-burst")).await;
    for _ in 0..5 {
        assert_eq!(get(&emulator, "/v1/system/status").await.status, 200);
    }
    let limited = get(&emulator, "/v1/system/status").await;
    assert_eq!((limited.status, limited.header("x-ratelimit-remaining")), (429, Some("0")));
    let explanation = explained(&emulator, &limited).await;
    let steps = explanation["steps"].as_array().expect("steps");
    let quota = steps.iter().find(|step| step["check"] == "quota").expect("a step about the quota");
    let reported = "the request was let through; the scenario then shows the quota as used up: 0 of 100 requests left";
    assert_eq!((&quota["verdict"], &quota["detail"]), (&json!("passed"), &json!(reported)));
    assert_eq!(decided(&explanation).0, "scenario");
}

/// The sentences, and what to do.
async fn advised(emulator: &wrs_emulator::Emulator, answer: &Answer) -> Vec<(String, Option<Value>)> {
    let advice = explained(emulator, answer).await["advice"].clone();
    let done = |value: &Value| Some(value.clone()).filter(Value::is_object);
    let pair = |one: &Value| (one["text"].as_str().expect("a text").to_owned(), done(&one["advice"]));
    advice.as_array().map(|advice| advice.iter().map(pair).collect()).unwrap_or_default()
}

#[tokio::test]
async fn a_429_of_a_scenario_names_the_rule_how_to_lift_it_and_what_a_client_does() {
    let rule = "[[rule]]\nname = 'full'\nwhen = { operation = 'system.status' }\ntimes = 3\nreply = { error = 'rate_limit_exceeded' }\n";
    let emulator = started(crate::support::builder().scenario("rate-limit-burst").scenario_text(rule)).await;
    let status = || get(&emulator, "/v1/system/status");
    activate(&emulator, &["inline-1"], None).await;
    let limited = status().await;
    let advice = advised(&emulator, &limited).await;
    let place = "scenario `inline-1` (given as text, line 1), rule `full`, gave this answer";
    assert_eq!(
        advice[0],
        (
            format!("{place} and will do so 2 more times; to turn it off:"),
            Some(json!({ "do": "use_scenarios", "active": [], "key": null }))
        )
    );
    assert!(
        advice[1].0.ends_with("this one has none, because `rate_limit.retry_after` is off; to send it from now on:")
    );
    assert_eq!(
        (advice[1].1.clone(), advice.len()),
        (Some(json!({ "do": "set", "setting": "rate_limit.retry_after", "value": "seconds" })), 2)
    );
    // The other active scenarios stay, and so do those of other keys.
    activate(&emulator, &["inline-1", "slow-responses"], Some(crate::support::KEY)).await;
    let limited = status().await;
    let lift = advised(&emulator, &limited).await.swap_remove(0).1.expect("advice");
    let others = ["slow-responses"];
    assert_eq!(lift, json!({ "do": "use_scenarios", "active": others, "key": crate::support::KEY }));
    for _ in 0..2 {
        assert_eq!(status().await.status, 429);
    }
    let used = advised(&emulator, &limited).await.swap_remove(0);
    assert_eq!(used, (format!("{place}; it has no turns left"), None));
    activate(&emulator, &[], Some(crate::support::KEY)).await;
    let off = advised(&emulator, &limited).await.swap_remove(0);
    assert_eq!(off, (format!("{place}; the scenario is no longer active"), None));
    // A scenario that the request itself names, and one with its own header.
    let key = format!("Bearer {}", crate::support::KEY);
    let named = [("authorization", key.as_str()), ("x-emulator-scenario", "always-429")];
    let named = send(&emulator, "GET", "/v1/system/status", &named, "").await;
    let of_request = advised(&emulator, &named).await.swap_remove(0);
    assert!(
        of_request.0.starts_with("scenario `always-429` (built in, line ") && of_request.1.is_none(),
        "{of_request:?}"
    );
    assert!(
        of_request.0.ends_with("gave this answer; the request names it in `X-Emulator-Scenario`"),
        "{of_request:?}"
    );
    let own = "[[rule]]\nreply = { status = 429, code = 'slow', message = 'no', headers = { Retry-After = '7' } }\n\n";
    for (text, client) in [
        (own.to_owned(), "this one has `Retry-After: 7`"),
        (
            own.replace(", headers = { Retry-After = '7' }", ""),
            "this one has none: add `headers = { Retry-After = \"5\" }` to the reply of the rule",
        ),
    ] {
        put_scenario(&emulator, "own", &text).await;
        activate(&emulator, &["own"], None).await;
        let limited = get_as(&emulator, "sk_test_b", "/v1/system/status").await;
        let advice = advised(&emulator, &limited).await;
        assert!(advice[1].0.ends_with(client) && advice[1].1.is_none(), "{advice:?}");
        assert!(advice[0].0.ends_with(", rule 1, gave this answer; to turn it off:"), "{advice:?}");
    }
    // A file of the run has the same, without commands, which would come too late.
    let run = view(&emulator, "run").await;
    let saved = &run["requests"][0]["explanation"]["advice"];
    assert!(saved[0]["text"].as_str().is_some_and(|text| text.ends_with("rule 1, gave this answer")), "{saved}");
    assert_eq!((&saved[0]["advice"], &saved[1]["advice"]), (&Value::Null, &Value::Null));
}

/// A rule that delays, patches or slows an answer has not given it.
#[tokio::test]
async fn a_rule_beside_an_answer_of_the_api_is_not_taken_for_its_author() {
    let emulator = started(crate::support::builder()).await;
    for (action, did) in [
        ("delay = '0s'", "after 0 ms: the ordinary answer"),
        ("patch = { hint = 'x' }", "the ordinary answer, patched"),
        ("pass = true", "the ordinary answer"),
        ("fault = { kind = 'drip', bytes = 1000 }", "fault drip"),
    ] {
        put_scenario(&emulator, "beside", format!("[[rule]]\n{action}\n")).await;
        activate(&emulator, &["beside"], None).await;
        let refused = get(&emulator, "/v1/system/status?include_checks=x").await;
        assert_eq!(refused.status, 422, "{action}");
        let explanation = explained(&emulator, &refused).await;
        let (check, why) = decided(&explanation);
        let problem = "`include_checks` must be true or false, found \"x\"";
        assert_eq!((check.as_str(), why.as_str()), ("operation", problem), "{action}");
        let part = format!("; scenario `beside`, rule 1, turn 1: {did}");
        assert_eq!(explanation["summary"], format!("422 Unprocessable Entity because {why}{part}"));
        let own = format!(
            "scenario `beside` (given as text, line 1), rule 1, did not give this answer, which is the API's own ({did})"
        );
        assert_eq!(advised(&emulator, &refused).await, [(own, None)], "{action}");
        let verdict = view(&emulator, "verdict").await;
        let cause = &verdict["causes"][0];
        assert_eq!((&cause["kind"], &cause["count"]), (&json!("refused"), &json!(1)), "{verdict}");
        // A secret that was shown once is as hidden as without the rule.
        let secret = "a secret of my own";
        let body = json!({ "url": "https://x.example", "events": ["workflow.completed"], "secret": secret });
        let made = subscribe(&emulator, &body).await;
        assert_eq!(made.status, 200);
        let shown = explained(&emulator, &made).await;
        assert_eq!(shown["request"]["reason"], "subscription_created");
        assert!(!shown.to_string().contains(secret), "{shown}");
        control(&emulator, "POST", "reset", &json!({})).await;
    }
}

/// A scenario of a key alone is as active for a request to an operation that needs no key, and after the key's workspace is reset.
#[tokio::test]
async fn a_scenario_of_the_request_s_key_is_active_for_it() {
    let emulator = started(crate::support::builder()).await;
    put_scenario(&emulator, "down", "[[rule]]\nreply = { status = 503 }\n").await;
    activate(&emulator, &["down"], Some("sk_test_mine")).await;
    let hello = get_as(&emulator, "sk_test_mine", "/v1/hello").await;
    let status = get_as(&emulator, "sk_test_mine", "/v1/system/status").await;
    assert_eq!((hello.status, status.status), (503, 503));
    let place = "scenario `down` (given as text, line 1), rule 1, gave this answer";
    let off = (
        format!("{place}; to turn it off:"),
        Some(json!({ "do": "use_scenarios", "active": [], "key": "sk_test_mine" })),
    );
    for answer in [&hello, &status] {
        assert_eq!(advised(&emulator, answer).await, std::slice::from_ref(&off));
    }
    activate(&emulator, &[], Some("sk_test_mine")).await;
    for answer in [&hello, &status] {
        let ended = (format!("{place}; the scenario is no longer active"), None);
        assert_eq!(advised(&emulator, answer).await, [ended]);
    }
}

/// A live key is masked, and a masked key names nothing: its workspace is named, or nothing is.
#[tokio::test]
async fn advice_about_a_live_key_names_what_can_be_named() {
    const LIVE: &str = "sk_live_abcdefgh";
    let small = crate::support::builder().set("keys.mode=any").configure(|settings| settings.max_workspaces = 2);
    let emulator = started(small).await;
    put_scenario(&emulator, "down", "[[rule]]\nreply = { status = 503 }\n").await;
    activate(&emulator, &["down"], Some(LIVE)).await;
    let place = "scenario `down` (given as text, line 1), rule 1, gave this answer";
    // Others evict its workspace; an operation that needs no key does not open it again.
    for other in ["sk_test_a", "sk_test_b", "sk_test_c"] {
        get_as(&emulator, other, "/v1/system/status").await;
    }
    let hello = get_as(&emulator, LIVE, "/v1/hello").await;
    let masked = format!("{place}; to turn it off, activate other scenarios for sk_live_…efgh");
    assert_eq!(advised(&emulator, &hello).await, [(masked, None)]);
    let status = get_as(&emulator, LIVE, "/v1/system/status").await;
    let [(text, Some(advice))] = &advised(&emulator, &status).await[..] else { panic!("one piece of advice") };
    assert!(
        text.ends_with("to turn it off:") && advice["key"].as_str().is_some_and(|key| key.starts_with("ws_")),
        "{advice}"
    );
    ask(&emulator, "POST", "scenarios/active", &json!({ "key": advice["key"], "active": [] })).await;
    assert_eq!(get_as(&emulator, LIVE, "/v1/hello").await.status, 200);
}

const STORY: &str = r#"
[[rule]]
name = "only with a header"
when = { operation = "system.status", header.x-team = "red" }
reply = { error = "unauthorized" }

[[rule]]
name = "only that secret"
when = { operation = "events.subscribe", body."/secret" = "another" }
reply = { error = "unauthorized" }

[[rule]]
name = "after one"
when = { operation = "system.status" }
skip = 1
times = 1
reply = { error = "rate_limit_exceeded" }

[[rule]]
name = "the rest"
when = { operation = "system.status" }
pass = true
"#;

#[tokio::test]
async fn the_rules_of_active_scenarios_say_what_they_make_of_a_request() {
    let emulator = started(crate::support::builder().scenario_text(STORY)).await;
    let rules = |explanation: &Value| -> Vec<(String, bool, String)> {
        let rules = explanation["rules"].as_array().unwrap_or_else(|| panic!("no rules in {explanation}"));
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let row = |rule: &Value| (text(&rule["rule"]), rule["applied"] == true, text(&rule["outcome"]));
        rules.iter().map(row).collect()
    };
    let first = get(&emulator, "/v1/system/status").await;
    let explanation = explained(&emulator, &first).await;
    assert!(explanation["note"].as_str().is_some_and(|note| note.starts_with("as they were when")), "{explanation}");
    let found = rules(&explanation);
    assert_eq!(found[0].2, "header.x-team is absent; expected \"red\"");
    assert!(found[1].2.starts_with("operation is `system.status`; expected `events.subscribe`"), "{found:?}");
    // The counters have moved since; the decision has not.
    let of_first =
        ("after one", "matched, but did not apply: it lets 1 matching request through first; this was the 1st");
    assert_eq!((found[2].0.as_str(), found[2].1, found[2].2.as_str()), (of_first.0, false, of_first.1));
    assert_eq!((found.len(), found[3].0.as_str(), found[3].1), (4, "the rest", true));
    let limited = get(&emulator, "/v1/system/status").await;
    assert_eq!(limited.status, 429);
    let third = get(&emulator, "/v1/system/status").await;
    assert_eq!(third.status, 200);
    assert_eq!(rules(&explained(&emulator, &first).await), found);
    let third = rules(&explained(&emulator, &third).await);
    assert_eq!(third[2].2, "matched, but did not apply: it has been used 1 of 1 time");
    let found = rules(&explained(&emulator, &limited).await);
    assert_eq!((found.len(), found[2].0.as_str(), found[2].1), (4, "after one", true));
    assert_eq!((found[3].0.as_str(), found[3].1), ("the rest", false));
    let (check, detail) = decided(&explained(&emulator, &limited).await);
    assert!(check == "scenario" && detail.ends_with(&format!("turn 1: {}", found[2].2)), "{detail} {found:?}");
    let body = json!({ "url": "https://x.example", "events": ["workflow.completed"], "secret": "my own secret text" });
    let made = subscribe(&emulator, &body).await;
    let explanation = explained(&emulator, &made).await;
    assert!(rules(&explanation)[1].2.contains("is not shown") && !explanation.to_string().contains("my own secret"));
    // A key with its own empty list has no rules, and a request that names a scenario has that one's.
    let none = json!({ "active": [], "key": "sk_test_other" });
    control(&emulator, "POST", "scenarios/active", &none).await;
    let other = get_as(&emulator, "sk_test_other", "/v1/system/status").await;
    assert_eq!(explained(&emulator, &other).await.get("rules"), None);
    let named = [("authorization", "Bearer sk_test_other"), ("x-emulator-scenario", "always-401")];
    let named = send(&emulator, "GET", "/v1/system/status", &named, "").await;
    let explanation = explained(&emulator, &named).await;
    assert_eq!((&explanation["rules"][0]["scenario"], named.status), (&json!("always-401"), 401));
    for early in [get(&emulator, "/nowhere").await, get_as(&emulator, "sk_live_x", "/v1/system/status").await] {
        assert_eq!(explained(&emulator, &early).await.get("rules"), None, "no rule was reached");
    }
}

#[tokio::test]
async fn events_and_deliveries_are_explained() {
    let emulator = start().await;
    subscribe_sink(&emulator, "both").await;
    subscribe(&emulator, &json!({ "url": "https://one.sink.localhost/x", "events": ["reference.matched"] })).await;
    let fired = crate::support::fire(&emulator, &json!({ "type": "workflow.completed" })).await;
    let id = fired["events"][0]["id"].as_str().expect("an id");
    let event = view(&emulator, &format!("explain/{id}")).await;
    assert_eq!(event["summary"], "it went to 1 of 2 subscriptions");
    assert!(event["steps"].to_string().contains("is not subscribed to workflow.completed"), "{event}");
    let id = fired["deliveries"][0]["id"].as_str().expect("an id");
    let delivery = view(&emulator, &format!("explain/{id}")).await;
    assert_eq!(delivery["summary"], "delivered at attempt 1");
}

#[tokio::test]
async fn unknown_ids_are_404_with_what_is_expected() {
    let emulator = start().await;
    for id in ["req_nothing", "evt_nothing", "dlv_nothing", "nonsense", "%00"] {
        let answer = control(&emulator, "GET", &format!("explain/{id}"), &Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{id}");
    }
}

/// A request is judged by the state in force when it was answered, whatever changed since.
#[tokio::test]
async fn a_request_is_explained_by_the_settings_that_answered_it() {
    let emulator = started(crate::support::builder().scenario_text(STORY)).await;
    let refused = get_as(&emulator, "sk_live_x", "/v1/system/status").await;
    let named = [("authorization", "Bearer sk_test_local"), ("x-team", "red")];
    let scripted = send(&emulator, "GET", "/v1/system/status", &named, "").await;
    assert_eq!((refused.status, scripted.status), (401, 401));
    let before = (explained(&emulator, &refused).await, explained(&emulator, &scripted).await);
    assert_eq!(
        (&before.1["rules"][0]["rule"], &before.1["rules"][0]["applied"]),
        (&json!("only with a header"), &json!(true))
    );
    let production = json!({ "environment": "production", "keys.live_prefix": "sk_real_" });
    assert_eq!(control(&emulator, "PATCH", "profile", &production).await.status, 200);
    assert_eq!(control(&emulator, "POST", "scenarios/active", &json!({ "active": [] })).await.status, 200);
    let after = (explained(&emulator, &refused).await, explained(&emulator, &scripted).await);
    assert_eq!((&after.0["steps"], &after.0["summary"]), (&before.0["steps"], &before.0["summary"]));
    assert_eq!((&after.1["rules"], &after.1["summary"]), (&before.1["rules"], &before.1["summary"]));
}

/// The rules of a request stay what they were, in the explanation and in the saved run, whatever happens to its scenario.
#[tokio::test]
async fn the_rules_of_a_request_never_contradict_what_decided_it() {
    let emulator = start().await;
    let once = "[[rule]]\nname = 'once'\nwhen.operation = 'system.status'\ntimes = 1\nreply = { status = 503 }\n";
    put_scenario(&emulator, "mine", format!("{once}[[rule]]\nname = 'then'\nreply = {{ status = 418 }}\n")).await;
    activate(&emulator, &["mine"], None).await;
    let answers = [get(&emulator, "/v1/system/status").await, get(&emulator, "/v1/system/status").await];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [503, 418]);
    let of = async |answer: &Answer| {
        let explanation = explained(&emulator, answer).await;
        let by = decided(&explanation).1;
        let applied: Vec<&Value> =
            explanation["rules"].as_array().expect("rules").iter().filter(|rule| rule["applied"] == true).collect();
        let [applied] = applied.as_slice() else { panic!("not one rule that applied: {explanation}") };
        let (rule, outcome) = (applied["rule"].as_str().expect("a name"), applied["outcome"].as_str().expect("words"));
        assert!(by.starts_with(&format!("scenario `mine`, rule `{rule}`, turn 1: {outcome}")), "{by} {explanation}");
        (explanation["rules"].clone(), explanation["note"].as_str().expect("a note").to_owned())
    };
    let before = [of(&answers[0]).await, of(&answers[1]).await];
    assert!(!before[0].1.contains("changed since"), "{}", before[0].1);
    // Edited so that the other rule comes first, switched off and on again, and taken away.
    put_scenario(
        &emulator,
        "mine",
        "[[rule]]\nname = 'then'\nreply = { status = 418 }\n[[rule]]\nname = 'once'\npass = true\n",
    )
    .await;
    for edit in 0..100 {
        for (answer, (rules, _)) in answers.iter().zip(&before) {
            let (now, note) = of(answer).await;
            assert_eq!(now, *rules);
            assert!(note.contains("scenarios or settings have changed since"), "{note}");
        }
        let active: &[&str] = if edit % 2 == 0 { &[] } else { &["mine"] };
        activate(&emulator, active, None).await;
    }
    activate(&emulator, &[], None).await;
    assert_eq!(control(&emulator, "DELETE", "scenarios/mine", &Value::Null).await.status, 200);
    let run = view(&emulator, "run").await;
    for (answer, (rules, _)) in answers.iter().zip(&before) {
        assert_eq!(of(answer).await.0, *rules);
        let id = answer.header("x-emulator-request-id").expect("an id");
        let saved = run["requests"].as_array().expect("requests").iter().find(|request| request["id"] == id);
        assert_eq!(saved.expect("it is in the document")["explanation"]["rules"], *rules);
    }
}

/// Conditions and counters are those of the decision: a body beyond the part that the journal keeps, and counters that have moved since.
#[tokio::test]
async fn an_outcome_is_recorded_when_it_is_decided() {
    let text = r#"
[[rule]]
name = "the end"
when = { operation = "events.subscribe", body."/description" = "at the end" }
skip = 2
times = 1
reply = { status = 418 }
"#;
    let emulator = started(crate::support::builder().scenario_text(text)).await;
    let body = |filler: usize| {
        let body =
            json!({ "url": "https://x.example", "events": ["workflow.completed"], "filler": "x".repeat(filler) });
        body.to_string().replace('}', r#", "description": "at the end" }"#)
    };
    let headers = [("authorization", "Bearer sk_test_local"), ("content-type", "application/json")];
    let mut answers = Vec::new();
    for filler in [80_000, 1, 1, 80_000] {
        answers.push(send(&emulator, "POST", "/v1/events/subscribe", &headers, body(filler)).await);
    }
    let expected = [
        "matched, but did not apply: it lets 2 matching requests through first; this was the 1st",
        "matched, but did not apply: it lets 2 matching requests through first; this was the 2nd",
        "418",
        "matched, but did not apply: it has been used 1 of 1 time",
    ];
    for (answer, expected) in answers.iter().zip(expected) {
        let outcome = explained(&emulator, answer).await["rules"][0]["outcome"].clone();
        assert!(outcome.as_str().is_some_and(|outcome| outcome.contains(expected)), "{outcome} {expected}");
    }
}

#[tokio::test]
async fn of_a_thousand_rules_the_first_are_listed_and_the_others_counted() {
    let rule = |number: usize| format!("[[rule]]\nwhen.query.id = \"{number}\"\nreply = {{ status = 418 }}\n");
    let text: String = (0..1_000).map(rule).collect();
    let emulator = started(crate::support::builder().scenario_text(&text)).await;
    let long = "x".repeat(3_000);
    for (id, status, listed, last, note) in [
        ("999", 418, 17, (true, "418"), "not listed: 983 more rules that did not apply"),
        ("none", 200, 16, (false, "query.id is \"none\"; expected \"15\""), "984 more rules that did not apply"),
        (&long, 200, 16, (false, "query.id is too long to be shown; expected"), "984 more rules that did not apply"),
        ("3", 418, 4, (true, "418"), "as they were when the request was answered"),
    ] {
        let answer = get(&emulator, &format!("/v1/system/status?id={id}")).await;
        assert_eq!(answer.status, status, "{id}");
        let explanation = explained(&emulator, &answer).await;
        let rules = explanation["rules"].as_array().expect("rules");
        let (rule, note_found) = (rules.last().expect("some rules"), explanation["note"].as_str().expect("a note"));
        assert_eq!((rules.len(), &rule["applied"]), (listed, &json!(last.0)), "{id}: {explanation}");
        assert!(rule["outcome"].as_str().is_some_and(|outcome| outcome.contains(last.1)), "{id}: {rule}");
        assert!(note_found.ends_with(note), "{id}: {note_found}");
    }
}

/// For rules the first match of the list wins, for settings the later scenario.
#[tokio::test]
async fn the_rules_after_the_one_that_decided_are_named_if_they_match_too() {
    let emulator = start().await;
    for (name, requests) in [("a", 30), ("b", 50)] {
        let text = format!(
            "profile.rate_limit.requests = {requests}\n[[rule]]\nwhen.operation = \"hello\"\npass = true\n\
             [[rule]]\nwhen.operation = \"system.status\"\ntimes = 1\nreply = {{ status = 503 }}\n"
        );
        put_scenario(&emulator, name, text).await;
    }
    let elsewhere = "rule 1: operation is `system.status`; expected `hello`";
    let used_up = "rule 2: matched, but did not apply: it has been used 1 of 1 time";
    let too = "rule 2: matches too, but an earlier rule decided";
    for ([first, second], limit) in [(["a", "b"], "50"), (["b", "a"], "30")] {
        activate(&emulator, &[first, second], None).await;
        for expected in [
            vec![(first, elsewhere), (first, "rule 2 decided"), (second, too)],
            vec![(first, elsewhere), (first, used_up), (second, elsewhere), (second, "rule 2 decided")],
        ] {
            let answer = get(&emulator, "/v1/system/status").await;
            assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (503, Some(limit)));
            let explanation = explained(&emulator, &answer).await;
            let text = |rule: &Value, field: &str| rule[field].as_str().expect("a text").to_owned();
            let outcome = |rule: &Value| match rule["applied"].as_bool() {
                Some(true) => " decided".to_owned(),
                _ => format!(": {}", text(rule, "outcome")),
            };
            let line = |rule: &Value| text(rule, "rule") + &outcome(rule);
            let rules = explanation["rules"].as_array().expect("rules").iter();
            let found: Vec<_> = rules.map(|rule| (text(rule, "scenario"), line(rule))).collect();
            let found: Vec<_> = found.iter().map(|(scenario, line)| (scenario.as_str(), line.as_str())).collect();
            assert_eq!(found, expected, "{explanation}");
        }
    }
}
