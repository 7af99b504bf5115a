//! Calibration against emulators with profiles of any kind: the observed values are those that were set, and nothing else is claimed. The calls
//! are those of the plan, made here by the clock of the emulator, a second and a half apart.

use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use wrs_emulator::Emulator;
use wrs_emulator::lab::calibrate::call_log::{CallLog, Caller, RecordedAnswer};
use wrs_emulator::lab::calibrate::evidence::RowOutcome;
use wrs_emulator::lab::calibrate::infer::infer;
use wrs_emulator::lab::calibrate::openapi;
use wrs_emulator::lab::calibrate::plan::next;
use wrs_emulator::lab::calibrate::report::{Report, Row};
use wrs_emulator::settings::api_document::document;
use wrs_emulator::settings::{Layered, SETTINGS};

use crate::support::{Client, KEY, builder, sized, started};

/// Not on a full minute, because a window that ends there may follow the clock.
const BEGIN: Timestamp = Timestamp::constant(1_769_851_817, 0);
const STEP: Duration = Duration::from_millis(1_500);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Plan<'p> {
    key: &'p str,
    max_calls: usize,
    subscribes: bool,
    exhausts: bool,
}

const WHOLE: Plan<'static> = Plan { key: KEY, max_calls: 40, subscribes: true, exhausts: false };

/// Calibrates an emulator with these settings.
async fn calibrated(settings: &[String], plan: &Plan<'_>, seed: u64) -> CallLog {
    let builder = settings.iter().fold(builder().frozen_at(BEGIN).seed(seed), |builder, setting| builder.set(setting));
    let emulator: Emulator = started(builder).await;
    let mut call_log = CallLog::new(&emulator.base_url(), plan.key, plan.max_calls, plan.subscribes, plan.exhausts);
    let url = "https://calibrate.sink.localhost/x".to_owned();
    let caller = Caller { key: plan.key.to_owned(), url, secret: SECRET.to_owned() };
    let (mut client, mut at) = (Client::new(&emulator), BEGIN);
    while let Some(mut exchange) = next(&call_log, &caller) {
        exchange.at = at;
        let authorization = caller.authorization(exchange.key);
        let own = exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<_> = authorization.iter().map(|text| ("authorization", text.as_str())).chain(own).collect();
        let found = client.send(&exchange.method, &exchange.target, &headers, exchange.body.clone()).await;
        // The date is the machine's.
        let headers = found.headers.iter().filter(|(name, _)| *name != "date");
        exchange.answer = Some(RecordedAnswer {
            status: found.status,
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
                .collect(),
            body: String::from_utf8(found.body.to_vec()).expect("text"),
            is_cut: false,
        });
        call_log.push(exchange, &caller);
        emulator.control().advance(STEP).await;
        at += STEP;
    }
    assert!(call_log.calls.len() <= plan.max_calls, "{} calls", call_log.calls.len());
    call_log
}

fn report(call_log: &CallLog) -> Report {
    Report::new(call_log, &[], &Layered::default())
}

pub(crate) fn row<'r>(report: &'r Report, setting: &str) -> &'r Row {
    report.data.iter().find(|row| row.setting == setting).expect("every setting has a row")
}

/// The profile that was set, as far as a row observes it.
pub(crate) fn expected(row: &Row, set: &Layered) -> Value {
    let ledger = wrs_emulator::settings::ledger(set);
    let value = ledger.into_iter().find(|other| other.setting == row.setting).expect("the setting").value;
    match (&*row.setting, &row.observed) {
        ("errors.codes" | "errors.messages", Some(Value::Object(seen))) => {
            seen.keys().map(|kind| (kind.clone(), value.get(kind).cloned().unwrap_or(Value::Null))).collect()
        }
        ("rate_limit.header_names", _) => serde_json::from_str(&value.to_string().to_lowercase()).expect("JSON"),
        ("ids.request_header", _) => value.as_str().expect("a name").to_lowercase().into(),
        _ => value,
    }
}

pub(crate) fn layered(settings: &[String]) -> Layered {
    let set = Layered::default().with(|draft| {
        for setting in settings {
            draft.assignment(setting, "test");
        }
    });
    set.unwrap_or_else(|problems| panic!("{settings:?}: {problems:?}"))
}

/// Checks that every claimed value was set, and that these rows are claimed.
fn check(call_log: &CallLog, key: &str, settings: &[String], rows: &[&str]) {
    let (set, report) = (layered(settings), report(call_log));
    for row in &report.data {
        if let Some(observed) = &row.observed {
            assert_eq!(*observed, expected(row, &set), "{}: {settings:#?}", row.setting);
        }
    }
    let unauthorized = "Authentication 4: 401 with error code unauthorized";
    let is_set = |clause: &str| clause == unauthorized && settings.concat().contains("unauthorized");
    let broken: Vec<_> = report.broken.iter().filter(|broken| !is_set(broken.clause)).collect();
    assert!(broken.is_empty(), "{settings:?}: {broken:?}");
    let subscribed: Vec<&str> = call_log
        .calls
        .iter()
        .filter(|call| call.name.starts_with("subscribe"))
        .map(|call| call.target.as_str())
        .collect();
    assert!(subscribed.len() <= 3, "{subscribed:?}");
    for setting in rows {
        let row = row(&report, setting);
        assert!(row.observed.is_some(), "{setting} is {:?} ({}): {settings:#?}", row.result, row.detail);
    }
    // The profile makes an emulator that is the same as far as was seen.
    let text = report.profile(call_log);
    let profile = Layered::default().with(|draft| draft.text(&text, "calibrated"));
    let profile = profile.unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
    let again = Report::new(call_log, &[], &profile);
    let drifted: Vec<_> =
        again.data.iter().filter(|row| row.result == RowOutcome::Differs).map(|row| &*row.setting).collect();
    assert_eq!(drifted, [""; 0], "{text}");
    // What is saved shows the same, and no credential.
    let saved = call_log.to_har();
    let masked = [key, SECRET].map(|text| !saved.contains(text));
    assert_eq!(masked, [true; 2], "{settings:?}");
    let read = Report::new(&CallLog::from_har(saved.as_bytes()).expect("an archive"), &[], &Layered::default());
    assert_eq!(json!(read), json!(report));
}

/// The rows that calls always show, unless something hides them.
const ALWAYS: &[&str] = &[
    "environment",
    "keys.mode",
    "errors.details",
    "errors.malformed_json_status",
    "errors.codes",
    "errors.messages",
    "errors.extra",
    "validation.unknown",
    "validation.lenient_booleans",
    "validation.content_type",
    "status.checks",
    "rate_limit.enabled",
    "rate_limit.requests",
    "rate_limit.header_names",
    "rate_limit.reset",
    "rate_limit.ietf",
    "ids.style",
    "ids.request_header",
    "time.precision",
    "subscriptions.upsert",
    "subscriptions.secret_field",
    "subscriptions.echo_secret",
    "hello.body",
];

#[tokio::test]
async fn the_default_profile_is_observed_as_assumed() {
    let call_log = calibrated(&[], &WHOLE, 1).await;
    check(&call_log, KEY, &[], &[ALWAYS, &["keys.test_prefix", "webhooks.allow_http", "events.extra"]].concat());
    let report = report(&call_log);
    let others: Vec<&Row> =
        report.data.iter().filter(|row| matches!(row.result, RowOutcome::Differs | RowOutcome::Contradicts)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(report.broken.is_empty(), "{:?}", report.broken);

    // A document confirms or contradicts the calls, and shows what they cannot.
    let published = layered(&["rate_limit.retry_after=seconds".to_owned()]);
    let document = openapi::shows(&document(published.profile()).to_string()).expect("a document");
    let report = Report::new(&call_log, &[document], &Layered::default());
    let same = row(&report, "events.extra");
    assert!(same.detail.ends_with("says the same") && same.result == RowOutcome::AsAssumed, "{same:?}");
    let promised = row(&report, "rate_limit.retry_after");
    let shown = (promised.observed.as_ref(), promised.source.as_str());
    assert_eq!(shown, (Some(&"seconds".into()), "the OpenAPI document"));
}

/// What the contract promises of each field of an answer: values that break it, and the clause that is named.
#[rustfmt::skip]
const PROMISED: &[(&str, &[&str], &str)] = &[
    ("/ok", &["false", "\"true\"", "1"], "System status: ok, a boolean, true when the service is reachable and the key is valid"),
    ("/environment", &["1", "\"staging\"", "null"], "System status: environment, for example the value sandbox; two environments exist"),
    ("/version", &["1.0", "\"1.0\"", "\"v1\"", "\"v1.0.0\""], "System status: version, form v<major>.<minor>"),
    ("/version", &["\"v2.0\""], "Versioning: the status response field version carries the label v1.0"),
    ("/checked_at", TIMES, "System status: checked_at, an ISO 8601 UTC timestamp"),
    ("/id", &["1", "\"sub_\"", "\"subscription-1\""], "Subscription: id, form sub_<id>"),
    ("/url", &["null", "[]"], "Subscription: url, a string"),
    ("/events", &["\"workflow.completed\"", "[1]", "{}"], "Subscription: events, a list of strings"),
    ("/status", &["true", "[\"active\"]"], "Subscription: status, a string"),
    ("/created_at", TIMES, "Subscription: created_at, an ISO 8601 UTC timestamp"),
    ("/error", &["\"no\"", "[]"], "Errors: failed responses carry a JSON object with the key error"),
    ("/error/code", &["401", "null"], "Errors: code, a string"),
    ("/error/code", &["\"no_key\""], "Authentication 4: 401 with error code unauthorized"),
    ("/error/message", &["{}", "1"], "Errors: message, a string"),
    ("/error/request_id", &["1", "\"req_\"", "\"abc\""], "Errors: request_id, form req_<id>"),
];
const TIMES: &[&str] = &[
    "1769851817",
    "1769851817.5",
    "\"1769851817\"",
    "\"2026-01-31T09:30:17\"",
    "\"2026-01-31T10:30:17+01:00\"",
    "\"Sat, 31 Jan 2026 09:30:17 GMT\"",
    "\"2026-01-31\"",
    "\"2026-01-31 09:30:17Z\"",
    "\"2026-13-31T09:30:17Z\"",
    "null",
];

/// The clauses that a service breaks whose answers have this value instead of a field, and its row of a setting.
fn broken_with(call_log: &CallLog, pointer: &str, value: Option<&str>) -> (Vec<&'static str>, Report) {
    let mut call_log = call_log.clone();
    for answer in call_log.calls.iter_mut().filter_map(|call| call.answer.as_mut()) {
        let mut body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let Some(fields) = body.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        match value {
            Some(value) if fields.contains_key(name) => {
                fields.insert(name.to_owned(), serde_json::from_str(value).expect("JSON"));
            }
            _ => drop(fields.remove(name)),
        }
        answer.body = body.to_string();
    }
    let report = report(&call_log);
    (report.broken.iter().map(|broken| broken.clause).collect(), report)
}

#[tokio::test]
async fn each_promise_about_a_field_is_checked() {
    let call_log = calibrated(&[], &WHOLE, 1).await;
    for (pointer, values, clause) in PROMISED {
        for value in *values {
            let (broken, _) = broken_with(&call_log, pointer, Some(value));
            assert_eq!(broken, [*clause], "{pointer} = {value}");
        }
        if !clause.starts_with("Versioning") && !clause.starts_with("Authentication") {
            assert_eq!(broken_with(&call_log, pointer, None).0, [*clause], "no {pointer}");
        }
    }
    let (broken, found) = broken_with(&call_log, "/checked_at", Some("\"2026-01-31T09:30:17.5+00:00\""));
    assert!(broken.is_empty() && row(&found, "time.precision").clause.is_none(), "{broken:?}");
    // The setting of that field also contradicts the contract.
    for (pointer, value, setting, says) in [
        ("/checked_at", "1769851817", "time.precision", "`checked_at` is 1769851817"),
        ("/created_at", "1769851817", "time.precision", "`created_at` is 1769851817"),
        ("/environment", "\"staging\"", "environment", "`environment` is \"staging\""),
        ("/id", "1", "ids.style", "`id` is 1"),
        ("/error/request_id", "\"abc\"", "ids.style", "`error.request_id` is \"abc\""),
    ] {
        let (broken, found) = broken_with(&call_log, pointer, Some(value));
        let row = row(&found, setting);
        assert_eq!((row.result, row.clause), (RowOutcome::Contradicts, Some(broken[0])), "{row:?}");
        assert_eq!(row.detail, says);
    }
}

/// Nothing is claimed about a cut body or a masked value.
#[tokio::test]
async fn what_is_cut_or_masked_breaks_no_promise() {
    let mut call_log = calibrated(&[], &WHOLE, 1).await;
    assert!(broken_with(&call_log, "/error/request_id", Some("\"<key>\"")).0.is_empty());
    for answer in call_log.calls.iter_mut().filter_map(|call| call.answer.as_mut()) {
        answer.body.pop();
        answer.is_cut = true;
    }
    assert!(report(&call_log).broken.is_empty());
}

/// A list of event types that a service without a check of URLs would accept is sent to none.
#[tokio::test]
async fn no_wrong_url_can_be_subscribed() {
    let settings = ["errors.messages.validation_error=no".to_owned()];
    let call_log = calibrated(&settings, &WHOLE, 1).await;
    assert!(call_log.calls.iter().all(|call| call.name != "long-list"));
}

/// No row of the ledger is without what observes it, or the reason why nothing does.
#[test]
fn each_setting_says_what_observes_it() {
    let call_log = CallLog::new("http://localhost", KEY, 40, true, false);
    for setting in SETTINGS.iter() {
        let by_calls = infer(&call_log, &setting.path).is_some();
        let says = setting.observed_by;
        let by_delivery = says.starts_with("a delivery");
        assert!(
            !says.is_empty() && by_calls != (says.starts_with("not by calls: ") || by_delivery),
            "{}",
            setting.path
        );
    }
}

/// A random profile, its key, and the rows that must be observed under it.
pub(crate) struct Random {
    pub(crate) settings: Vec<String>,
    pub(crate) key: String,
    rows: Vec<&'static str>,
}

fn one_of<T: Copy>(random: &mut ChaCha8Rng, values: &[T]) -> T {
    *values.choose(random).expect("there are some")
}

fn word(random: &mut ChaCha8Rng) -> String {
    (0..random.random_range(4..10)).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

/// Any JSON that TOML can hold.
fn value(random: &mut ChaCha8Rng, depth: usize) -> Value {
    match random.random_range(0..if depth == 0 { 4 } else { 6 }) {
        0 => random.random_bool(0.5).into(),
        1 => random.random_range(0..1000).into(),
        2 => word(random).into(),
        3 => "Grüße, \"quoted\" \\ 世界".into(),
        4 => (0..random.random_range(0..3)).map(|_| value(random, depth - 1)).collect(),
        _ => fields(random, depth - 1),
    }
}

fn fields(random: &mut ChaCha8Rng, depth: usize) -> Value {
    let fields = (0..random.random_range(0..3)).map(|_| (format!("x{}", word(random)), value(random, depth)));
    Value::Object(fields.collect())
}

impl Random {
    #[allow(clippy::too_many_lines, reason = "a line for each setting")]
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut settings = Vec::new();
        let mut set = |path: &str, value: Value| -> Value {
            settings.push(format!("{path}={}", toml::Value::try_from(&value).expect("TOML")));
            value
        };
        let mut rows = ALWAYS.to_vec();
        let precision_set = one_of(random, &["seconds", "milliseconds", "microseconds", "nanoseconds", "mixed"]);
        set("time.precision", precision_set.into());
        let environment = one_of(random, &["sandbox", "production"]);
        set("environment", environment.into());
        let mode = one_of(random, &["prefix", "prefix", "any", "list"]);
        set("keys.mode", mode.into());
        let prefix = one_of(random, &["sk_test_", "tk_", "wrs-calibrated-", "w"]);
        let (own, other) = if environment == "sandbox" {
            ("keys.test_prefix", "keys.live_prefix")
        } else {
            ("keys.live_prefix", "keys.test_prefix")
        };
        set(own, prefix.into());
        set(other, "other_".into());
        let key = format!("{prefix}{}{}", word(random), "0123456789abcdef");
        set("keys.list", json!([key]));
        if mode == "prefix" {
            rows.push(own);
        }
        let details = one_of(random, &["off", "list", "map"]);
        set("errors.details", details.into());
        set("errors.malformed_json_status", one_of(random, &[400, 422]).into());
        for kind in [
            "unauthorized",
            "validation_error",
            "rate_limit_exceeded",
            "not_found",
            "method_not_allowed",
            "uri_too_long",
            "unsupported_media_type",
        ] {
            set(&format!("errors.codes.{kind}"), word(random).into());
        }
        let fixed = ["unauthorized", "validation_error", "not_found", "method_not_allowed"].map(|kind| {
            let is_fixed = random.random_bool(0.4);
            if is_fixed {
                set(
                    &format!("errors.messages.{kind}"),
                    format!("{}: workflow.completed, {}", word(random), word(random)).into(),
                );
            }
            is_fixed
        });
        if details != "off" || !fixed[1] {
            rows.extend(["webhooks.allow_http", "events.extra"]);
        }
        set("errors.extra", fields(random, 2));
        set("validation.unknown", one_of(random, &["ignore", "reject"]).into());
        set("validation.lenient_booleans", random.random_bool(0.5).into());
        set("validation.content_type", one_of(random, &["require", "ignore"]).into());
        let checks = (0..random.random_range(0..4)).map(|_| (word(random), fields(random, 1)));
        set("status.checks", Value::Object(checks.collect()));
        let enabled = random.random_bool(0.8);
        set("rate_limit.enabled", enabled.into());
        let requests = one_of(random, &[45_u32, 60, 100, 1000, 4_294_967_295]);
        set("rate_limit.requests", requests.into());
        let window = one_of(random, &[30, 60, 300, 3600]);
        set("rate_limit.window", format!("{window}s").into());
        let algorithm = one_of(random, &["fixed", "sliding", "token_bucket"]);
        set("rate_limit.algorithm", algorithm.into());
        let count = one_of(random, &["allowed", "all", "successful"]);
        set("rate_limit.count", count.into());
        let names = one_of(
            random,
            &[
                ("X-RateLimit-Limit", "X-RateLimit-Remaining"),
                ("RateLimit-Limit", "RateLimit-Remaining"),
                ("X-Most", "X-Left"),
                ("X-Remaining-Most", "X-Rest"),
            ],
        );
        set("rate_limit.header_names", json!({ "limit": names.0, "remaining": names.1 }));
        if !enabled && names.0 != "X-RateLimit-Limit" {
            rows.retain(|row| !["rate_limit.enabled", "rate_limit.requests", "rate_limit.header_names"].contains(row));
        }
        set("rate_limit.retry_after", one_of(random, &["off", "seconds", "date"]).into());
        let reset = one_of(random, &["off", "delta", "epoch"]);
        set("rate_limit.reset", reset.into());
        let ietf = random.random_bool(0.3);
        set("rate_limit.ietf", ietf.into());
        let refills = algorithm == "token_bucket";
        let is_slow = window / i64::from(requests) >= 5;
        if enabled && (reset != "off" || ietf) && (!refills || is_slow) {
            rows.push("rate_limit.algorithm");
            let precision = ["milliseconds", "microseconds", "nanoseconds"];
            if !refills && (reset == "delta" || reset == "epoch" && precision.contains(&precision_set)) {
                rows.push("rate_limit.window");
            }
        }
        if ietf && (enabled || names.0 == "X-RateLimit-Limit") {
            rows.push("rate_limit.window");
        }
        if enabled && count == "successful" && !refills && window >= 300 {
            rows.push("rate_limit.count");
        }
        set("ids.style", one_of(random, &["ulid", "uuid", "counter", "longest"]).into());
        set("ids.request_header", one_of(random, &["", "X-Request-Id", "X-Trace"]).into());
        let (grows, order) = (random.random_bool(0.4), one_of(random, &["fixed", "fixed", "shuffled", "reversed"]));
        let bodies = one_of(random, &["all", "answers", "errors", "events"]);
        set("variation.unknown_fields", grows.into());
        set("variation.key_order", order.into());
        set("variation.bodies", bodies.into());
        // Fields that come and go hide what always comes.
        for (varied, hidden) in [("answers", "hello.body"), ("answers", "status.checks"), ("errors", "errors.extra")] {
            rows.retain(|row| !(grows && [varied, "all"].contains(&bodies) && *row == hidden));
        }
        set("subscriptions.upsert", one_of(random, &["url", "never"]).into());
        set("subscriptions.secret_field", one_of(random, &["secret", "signing_secret", "key"]).into());
        set("subscriptions.echo_secret", random.random_bool(0.5).into());
        set("events.extra", (0..random.random_range(0..3)).map(|_| word(random)).collect());
        set("webhooks.allow_http", random.random_bool(0.5).into());
        set("hello.body", fields(random, 3));
        Self { settings, key, rows }
    }
}

/// How many random profiles are tried; `.ci/nightly` tries more.
pub(crate) fn profiles() -> u64 {
    std::env::var("WRS_TEST_PROFILES").ok().and_then(|count| count.parse().ok()).unwrap_or(8)
}

#[tokio::test]
async fn every_observable_setting_of_a_random_profile_is_recovered() {
    let mut most = 0;
    for seed in 0..profiles() {
        let Random { settings, key, rows } = Random::new(seed);
        let call_log = calibrated(&settings, &Plan { key: &key, ..WHOLE }, seed).await;
        most = most.max(call_log.calls.len());
        check(&call_log, &key, &settings, &rows);
    }
    assert!(most <= 40, "{most} calls");
}

/// Nothing wrong is claimed where calls end early, for whatever reason.
#[tokio::test]
async fn what_is_hidden_is_not_claimed() {
    for seed in 0..profiles() / 2 {
        let Random { mut settings, key, .. } = Random::new(1_000 + seed);
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        match seed % 4 {
            0 => settings.push(format!("rate_limit.requests={}", seed / 4)),
            1 => settings.push("rate_limit.window=1s".to_owned()),
            2 => settings.extend(["rate_limit.requests=12".to_owned(), "rate_limit.window=8s".to_owned()]),
            _ => {}
        }
        let max_calls = if seed % 4 == 3 { random.random_range(1..40) } else { 40 };
        let plan = Plan { key: &key, max_calls, subscribes: seed % 3 != 0, exhausts: seed % 2 == 0 };
        check(&calibrated(&settings, &plan, seed).await, &key, &settings, &[]);
    }
}

/// A bucket that fills about as fast as the calls empty it is no sliding window of a call or two.
#[tokio::test]
async fn a_bucket_that_keeps_up_with_the_calls_is_no_window() {
    for requests in (30..45).step_by(4) {
        for reset in ["delta", "epoch"] {
            let settings = [
                "rate_limit.algorithm=token_bucket".to_owned(),
                format!("rate_limit.requests={requests}"),
                format!("rate_limit.reset={reset}"),
            ];
            check(
                &calibrated(&settings, &WHOLE, 1).await,
                KEY,
                &settings,
                &["rate_limit.requests", "rate_limit.reset"],
            );
        }
    }
}

#[tokio::test]
async fn a_message_with_a_masked_credential_is_not_written_as_fixed() {
    let settings = [format!("errors.messages.not_found=nothing here for {KEY}")];
    let found = report(&calibrated(&settings, &WHOLE, 1).await);
    let row = row(&found, "errors.messages");
    assert!(row.detail.contains("has a masked credential in it: not_found"), "{row:?}");
    assert!(!format!("{row:?}").contains("nothing here"), "{row:?}");
}

#[tokio::test]
async fn effects_that_hide_each_other_end_in_a_reason() {
    let one = ["rate_limit.requests=1".to_owned()];
    let call_log = calibrated(&one, &WHOLE, 1).await;
    check(
        &call_log,
        KEY,
        &one,
        &["environment", "rate_limit.requests", "hello.body", "errors.extra", "rate_limit.retry_after"],
    );
    let found = report(&call_log);
    for setting in ["status.checks", "validation.unknown", "subscriptions.upsert", "errors.messages"] {
        let row = row(&found, setting);
        let is_reached = setting == "errors.messages";
        assert_eq!(row.result == RowOutcome::NotReached, !is_reached, "{row:?}");
        assert!(is_reached || row.detail.contains("429"), "{row:?}");
    }
    let kinds = ["unauthorized", "validation_error", "not_found", "method_not_allowed", "rate_limit_exceeded"];
    let equal: Vec<String> = kinds
        .iter()
        .map(|kind| format!("errors.messages.{kind}=no: workflow.completed, reference.matched, more"))
        .collect();
    let call_log = calibrated(&equal, &WHOLE, 1).await;
    check(&call_log, KEY, &equal, ALWAYS);
    for setting in ["events.extra", "webhooks.allow_http"] {
        assert_eq!(row(&report(&call_log), setting).result, RowOutcome::NotObservable, "{setting}");
    }
    // All of these at once.
    let grows = ["variation.unknown_fields=true", "variation.key_order=shuffled"].map(str::to_owned);
    let all = [&one[..], &equal, &grows].concat();
    let call_log = calibrated(&all, &WHOLE, 1).await;
    check(&call_log, KEY, &all, &[]);
    let reached = report(&call_log);
    for setting in ["status.checks", "validation.unknown", "subscriptions.upsert", "time.precision", "ids.style"] {
        let row = row(&reached, setting);
        assert!(
            setting == "ids.style" || row.result == RowOutcome::NotReached && row.detail.contains("429"),
            "{row:?}"
        );
    }
    let plan = Plan { subscribes: false, ..WHOLE };
    let found = report(&calibrated(&[], &plan, 1).await);
    for setting in
        ["subscriptions.upsert", "subscriptions.secret_field", "subscriptions.echo_secret", "validation.content_type"]
    {
        assert_eq!(row(&found, setting).detail, "no subscription was to be made", "{setting}");
    }
}

/// With consent, a quota that is small enough is used up at the end, which shows the 429; without, it is not.
#[tokio::test]
async fn a_small_quota_is_used_up_if_that_is_allowed() {
    let small = ["rate_limit.requests=20", "rate_limit.retry_after=date", "errors.codes.rate_limit_exceeded=slow_down"];
    let small = small.map(str::to_owned);
    let call_log = calibrated(&small, &Plan { exhausts: true, ..WHOLE }, 1).await;
    check(&call_log, KEY, &small, &[ALWAYS, &["rate_limit.retry_after"]].concat());
    let found = report(&call_log);
    let codes = row(&found, "errors.codes").observed.as_ref().expect("codes");
    assert_eq!(codes["rate_limit_exceeded"], "slow_down", "{codes}");
    let found = report(&calibrated(&small, &WHOLE, 1).await);
    assert_eq!(row(&found, "rate_limit.retry_after").result, RowOutcome::NotReached);
}

/// Each setting that calls show, with each of its values, over profiles that show different things: each over all of them if large.
#[tokio::test]
async fn each_value_of_a_setting_is_told_from_the_others() {
    const VALUES: &[(&str, &[&str])] = &[
        ("environment", &["sandbox"]),
        ("keys.mode", &["prefix", "any"]),
        ("errors.details", &["off", "list", "map"]),
        ("errors.malformed_json_status", &["400", "422"]),
        ("errors.codes", &["{ unauthorized = \"a\", not_found = \"a\", validation_error = \"a\" }"]),
        (
            "errors.messages",
            &["{ not_found = \"there is no such endpoint\" }", "{ validation_error = \"events: must not be empty\" }"],
        ),
        ("errors.extra", &["{}", "{ docs = 1 }"]),
        ("validation.unknown", &["ignore", "reject"]),
        ("validation.lenient_booleans", &["false", "true"]),
        ("validation.content_type", &["require", "ignore"]),
        ("status.checks", &["{}", "{ a = {} }"]),
        ("rate_limit.enabled", &["true", "false"]),
        ("rate_limit.requests", &["0", "1", "30", "100", "4294967295"]),
        ("rate_limit.window", &["1s", "5s", "60s", "3600s", "86400s"]),
        ("rate_limit.algorithm", &["fixed", "sliding", "token_bucket"]),
        ("rate_limit.count", &["allowed", "all", "successful"]),
        ("rate_limit.retry_after", &["off", "seconds", "date"]),
        ("rate_limit.reset", &["off", "delta", "epoch"]),
        ("rate_limit.ietf", &["true", "false"]),
        ("ids.style", &["ulid", "uuid", "counter", "longest"]),
        ("ids.request_header", &["", "X-Request-Id"]),
        ("time.precision", &["seconds", "milliseconds", "microseconds", "nanoseconds", "mixed"]),
        ("subscriptions.upsert", &["url", "never"]),
        ("subscriptions.secret_field", &["secret", "labels"]),
        ("subscriptions.echo_secret", &["true", "false"]),
        ("events.extra", &["[]", "[\"a\", \"b.c\"]"]),
        ("webhooks.allow_http", &["true", "false"]),
        ("hello.body", &["{}", "{ a = [{ b = 1 }] }"]),
    ];
    let bases: [&[&str]; 3] = [
        &[],
        &["rate_limit.reset=delta", "errors.details=map", "variation.unknown_fields=true", "rate_limit.requests=60"],
        &[
            "rate_limit.ietf=true",
            "rate_limit.algorithm=sliding",
            "errors.messages.validation_error=no",
            "variation.key_order=shuffled",
        ],
    ];
    for (at, base) in bases.iter().enumerate() {
        let mut number = at;
        for (setting, values) in VALUES {
            for value in *values {
                // One of the profiles for every second value.
                number += 1;
                if number % sized(2 * bases.len(), 1) != 0 {
                    continue;
                }
                let settings: Vec<String> =
                    base.iter().map(|text| (*text).to_owned()).chain([format!("{setting}={value}")]).collect();
                let plan = Plan { exhausts: at == 2, ..WHOLE };
                check(&calibrated(&settings, &plan, at as u64).await, KEY, &settings, &[]);
            }
        }
    }
}
