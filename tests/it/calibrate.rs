//! Calibration against emulators with profiles of any kind: what is observed is what was set, and nothing else is claimed. The calls
//! are those of the plan, made here by the clock of the emulator, a second and a half apart.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use wrs_emulator::Emulator;
use wrs_emulator::calibrate::cassette::{Answer, Cassette, Exchange, Secrets};
use wrs_emulator::calibrate::plan::{Subscriber, next};
use wrs_emulator::calibrate::report::{Outcome, Report, Row};
use wrs_emulator::settings::Layered;

use crate::support::{Client, KEY, builder, started};

/// Not on a full minute, as a window that ends there may follow the clock.
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
async fn calibrated(settings: &[String], plan: &Plan<'_>, seed: u64) -> Cassette {
    let builder = settings.iter().fold(builder().frozen_at(BEGIN).seed(seed), |builder, setting| builder.set(setting));
    let emulator: Emulator = started(builder).await;
    let mut cassette = Cassette::new(&emulator.base_url(), plan.key, plan.max_calls, plan.subscribes, plan.exhausts);
    let secrets = Secrets { key: plan.key.to_owned(), supplied: SECRET.to_owned() };
    let subscriber = Subscriber { url: "https://calibrate.sink.localhost/x".to_owned(), secret: SECRET.to_owned() };
    let (mut client, mut at) = (Client::new(&emulator), BEGIN);
    while let Some(call) = next(&cassette, &subscriber) {
        let mut exchange = Exchange::new(&call, at);
        let authorization = secrets.authorization(call.key);
        let headers: Vec<(&str, &str)> = [
            ("authorization", authorization.as_deref()),
            ("content-type", call.content_type),
            ("content-encoding", call.content_encoding),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        let found = client.send(call.method, &call.target, &headers, call.body).await;
        // The date is the machine's.
        let headers = found.headers.iter().filter(|(name, _)| *name != "date");
        exchange.answer = Some(Answer {
            status: found.status,
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
                .collect(),
            body: String::from_utf8(found.body.to_vec()).expect("text"),
            whole: true,
        });
        cassette.push(exchange, &secrets);
        emulator.control().advance(STEP).await;
        at += STEP;
    }
    assert!(cassette.calls.len() <= plan.max_calls, "{} calls", cassette.calls.len());
    cassette
}

fn report(cassette: &Cassette) -> Report {
    Report::new(cassette, &[], &Layered::default())
}

fn row<'r>(report: &'r Report, setting: &str) -> &'r Row {
    report.data.iter().find(|row| row.setting == setting).expect("every setting has a row")
}

/// The profile that was set, as far as a row observes it.
fn expected(row: &Row, set: &Layered) -> Value {
    let ledger = wrs_emulator::settings::ledger(set);
    let value = ledger.into_iter().find(|other| other.setting == row.setting).expect("the setting").value;
    match (row.setting, &row.observed) {
        ("errors.codes" | "errors.messages", Some(Value::Object(seen))) => {
            seen.keys().map(|kind| (kind.clone(), value.get(kind).cloned().unwrap_or(Value::Null))).collect()
        }
        ("rate_limit.header_names", _) => serde_json::from_str(&value.to_string().to_lowercase()).expect("JSON"),
        ("ids.request_header", _) => value.as_str().expect("a name").to_lowercase().into(),
        _ => value,
    }
}

fn layered(settings: &[String]) -> Layered {
    let set = Layered::default().with(|draft| {
        for setting in settings {
            draft.assignment(setting, "test");
        }
    });
    set.unwrap_or_else(|problems| panic!("{settings:?}: {problems:?}"))
}

/// Checks that everything that is claimed is what was set, and that these rows are.
fn check(cassette: &Cassette, settings: &[String], rows: &[&str]) {
    let (set, report) = (layered(settings), report(cassette));
    for row in &report.data {
        if let Some(observed) = &row.observed {
            assert_eq!(*observed, expected(row, &set), "{}: {settings:#?}", row.setting);
        }
    }
    for setting in rows {
        let row = row(&report, setting);
        assert!(row.observed.is_some(), "{setting} is {:?} ({}): {settings:#?}", row.result, row.detail);
    }
    // The profile makes an emulator that is the same as far as was seen.
    let text = report.profile(cassette);
    let profile = Layered::default().with(|draft| draft.text(&text, "calibrated"));
    let profile = profile.unwrap_or_else(|problems| panic!("{text}\n{problems:?}"));
    let again = Report::new(cassette, &[], &profile);
    let drifted: Vec<_> =
        again.data.iter().filter(|row| row.result == Outcome::Differs).map(|row| row.setting).collect();
    assert_eq!(drifted, [""; 0], "{text}");
    // What is saved shows the same, and no credential.
    let saved = serde_json::to_vec(cassette).expect("JSON");
    let saved_text = String::from_utf8_lossy(&saved);
    assert!(!saved_text.contains(KEY) && !saved_text.contains(SECRET), "{saved_text}");
    let read = Report::new(&Cassette::read(&saved).expect("a cassette"), &[], &Layered::default());
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
    "preview.enabled",
];

#[tokio::test]
async fn the_default_profile_is_observed_as_assumed() {
    let cassette = calibrated(&[], &WHOLE, 1).await;
    check(&cassette, &[], &[ALWAYS, &["keys.test_prefix", "webhooks.allow_http", "events.extra"]].concat());
    let report = report(&cassette);
    for row in &report.data {
        println!(
            "{:30} {:?} {:?} [{}] {}",
            row.setting,
            row.result,
            row.observed.as_ref().map(ToString::to_string),
            row.source,
            row.detail
        );
    }
    println!("{} calls {:?} {:?} {:?}", report.calls, report.stopped, report.broken, report.notes);
    assert!(report.data.iter().all(|row| !matches!(row.result, Outcome::Differs | Outcome::Contradicts)));
    assert!(report.broken.is_empty(), "{:?}", report.broken);
}
