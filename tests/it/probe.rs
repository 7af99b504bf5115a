//! `review probe` against small receivers: a sound one passes, each broken one is named for its fault and for nothing
//! else, and whatever a receiver does, the probe ends in time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use url::Url;
use wrs_emulator::cases::ProbeSigning;
use wrs_emulator::clock::machine;
use wrs_emulator::contract::signature::{CustomScheme, KeyReading, Scheme, SchemeName, SigningKey, verify};
use wrs_emulator::lab::probe::Probe;
use wrs_emulator::settings::Layered;
use wrs_emulator::webhook::dial::DialContext;
use wrs_emulator::webhook::egress::{Destination, Egress};
use wrs_emulator::webhook::resolve::{LookUp, Resolver};

use crate::probe_receiver::Does::{self, Answers};
use crate::probe_receiver::{Request, SECRET, receiver, sound};
use crate::support::{Certificates, MachineTime, Outcome, Receiver, finish, listing, sized, text, wrs_emulator};

fn probe(address: SocketAddr, arguments: &[&str]) -> Outcome {
    let url = format!("http://{address}/hooks");
    let mut command = wrs_emulator(&[&["review", "probe", &url], arguments].concat());
    finish(command.env("WRS_WEBHOOK_SECRET", SECRET))
}

fn report(address: SocketAddr, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = probe(address, &[&["--json"], arguments].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

/// The cases that did not pass, with their outcomes.
fn others(report: &Value) -> BTreeMap<&str, &str> {
    let cases = report["cases"].as_array().expect("cases").iter();
    let pairs =
        cases.map(|case| (case["name"].as_str().expect("a name"), case["outcome"].as_str().expect("an outcome")));
    pairs.filter(|(_, outcome)| *outcome != "pass").collect()
}

/// Names of cases with one expectation, as `--list` has them.
fn names(expected: &str) -> Vec<String> {
    let listed = finish(&mut wrs_emulator(&["review", "probe", "--list", "--json"]));
    let cases = listing(&text(&listed.stdout)).expect("a listing");
    let chosen = cases["data"].as_array().expect("cases").iter().filter(|case| case["expects"] == expected);
    chosen.map(|case| case["name"].as_str().expect("a name").to_owned()).collect()
}

/// Probes a receiver; only these cases may not pass.
fn check(what: &str, behaviour: impl Fn(&Request) -> Does + Send + Sync + 'static, expected: &[(&str, &str)]) -> Value {
    let (code, report) = report(receiver(behaviour), &[]);
    // No receiver here shows what its deliveries did.
    let mut expected: BTreeMap<&str, &str> = expected.iter().copied().collect();
    expected.entry("duplicate").or_insert("incomplete");
    expected.retain(|_, outcome| *outcome != "pass");
    assert_eq!(others(&report), expected, "{what}");
    let fails = expected.values().any(|outcome| *outcome != "incomplete");
    assert_eq!(code, Some(i32::from(fails)), "{what}");
    for case in report["cases"].as_array().expect("cases") {
        let fails = !["pass", "incomplete"].contains(&case["outcome"].as_str().expect("an outcome"));
        assert_eq!(case["remedy"].is_string(), fails, "{what}: {case}");
    }
    report
}

#[test]
fn a_sound_receiver_passes_every_case_in_little_time() {
    let report = check("sound", sound, &[]);
    let cases = report["cases"].as_array().expect("cases");
    assert!(cases.len() >= 24, "{}", cases.len());
    assert!(report["requests"].as_u64().expect("a number") <= 100, "{report}");
    assert!(report["took_ms"].as_u64().expect("a number") <= 10_000, "{report}");
    assert!(report.get("diagnosis").is_none() && report["not_applicable"] == serde_json::json!([]), "{report}");
    for case in cases {
        for field in ["name", "sent", "expected", "observed", "clause"] {
            assert!(case[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {case}");
        }
        assert!(case["requests"][0]["method"].is_string(), "{case}");
    }
}

#[test]
fn what_arrives_is_what_the_cases_say() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let address = receiver(move |request| {
        let event = request.json();
        let facts = (request.lines.clone(), request.text(), request.at_once, event["id"].as_str().map(str::to_owned));
        kept.lock().expect("no panic").push(facts);
        sound(request)
    });
    let (code, report) = report(address, &[]);
    assert_eq!(code, Some(0), "{report}");
    let seen = seen.lock().expect("no panic");
    assert_eq!(seen.len() as u64, report["requests"].as_u64().expect("a number"));
    let heads = || seen.iter().map(|(lines, ..)| lines.join("\n"));
    assert_eq!(heads().filter(|head| head.starts_with("GET /hooks ")).count(), 1);
    assert_eq!(heads().filter(|head| head.starts_with("HEAD /hooks ")).count(), 1);
    assert_eq!(heads().filter(|head| head.contains("content-type: text/plain")).count(), 1);
    assert_eq!(seen.iter().filter(|(_, _, at_once, _)| !at_once).count(), 1, "one comes in pieces");
    assert!(
        seen.iter().any(|(_, body, ..)| body.len() >= 64 * 1024)
            && seen.iter().any(|(_, body, ..)| body.contains('東'))
    );
    let ids = seen.iter().filter_map(|(.., id)| id.as_ref());
    let different: BTreeSet<&String> = ids.clone().collect();
    assert_eq!(different.len() + 1, ids.count(), "one event comes twice");
}

#[test]
fn a_receiver_that_compares_only_what_was_sent_is_named() {
    let by_prefix = |request: &Request| {
        let expected = request.expected(&request.body, KeyReading::Auto);
        let sent = request.header("webhook-signature");
        let right = sent.split(' ').any(|sent| sent.len() > 3 && expected.starts_with(sent));
        Answers(if right && request.is_recent() { 204 } else { 401 })
    };
    check("compares a prefix", by_prefix, &[("signature-cut", "accepted-forged")]);
}

#[test]
fn a_sound_receiver_of_any_scheme_passes() {
    for name in SchemeName::ALL.into_iter().filter(|name| *name != SchemeName::Standard) {
        let address = receiver(move |request| {
            let scheme = Scheme::new(name, &Layered::default().profile().webhooks.custom);
            let key = SigningKey::read(SECRET, &scheme, KeyReading::Auto).expect("a key");
            let header = |name: &str| request.headers.get(name).cloned();
            let now = machine::wall_time().as_second();
            let verified = verify(&scheme, &[key], &header, "", &request.body, now, 300).is_ok();
            Answers(if verified { 200 } else { 403 })
        });
        let (code, report) = report(address, &["--scheme", name.name()]);
        let only_incomplete = others(&report).into_iter().all(|(_, outcome)| outcome == "incomplete");
        assert!(code == Some(0) && only_incomplete, "{name}: {:?}", others(&report));
        // A case is left out where the scheme cannot tell.
        let without_time =
            ["old-timestamp", "future-timestamp", "timestamp-not-a-number", "timestamp-changed", "id-changed"];
        let left_out = match name {
            SchemeName::Standard | SchemeName::Svix => vec![],
            SchemeName::Stripe => vec!["future-timestamp", "id-changed"],
            SchemeName::Github => [&without_time[..], &["rotation"]].concat(),
            SchemeName::Shopify => [&["other-version"], &without_time[..], &["rotation"]].concat(),
            SchemeName::Slack => vec!["id-changed", "rotation"],
            SchemeName::Custom => vec!["rotation"],
        };
        assert_eq!(report["not_applicable"], serde_json::json!(left_out), "{name}");
    }
}

#[test]
fn a_receiver_that_knows_one_of_two_secrets_is_named() {
    let other = "whsec_dGhlIHNlY3JldCBhZnRlciB0aGUgcm90YXRpb24gMDE=";
    let address = receiver(sound);
    for (newest, oldest, refused) in [(other, SECRET, "new-secret-alone"), (SECRET, other, "old-secret-alone")] {
        let (code, report) = report(address, &["--secret", newest, "--secret", oldest]);
        let expected = BTreeMap::from([("duplicate", "incomplete"), (refused, "refused-valid")]);
        assert_eq!((code, others(&report)), (Some(1), expected));
        let case = report["cases"].as_array().expect("cases").iter().find(|case| case["name"] == refused);
        let remedy = case.expect("the case")["remedy"].as_str().expect("a remedy");
        assert!(remedy.starts_with("your receiver knows the "), "{remedy}");
    }
    let (_, report) = report(address, &["--only", "new-secret-alone"]);
    assert_eq!(report["not_applicable"], serde_json::json!(["new-secret-alone"]));
}

#[test]
fn broken_receivers_are_named_for_what_they_do() {
    let forgeries = names("4xx");
    let forged = |outcome: &'static str| -> Vec<(&str, &str)> {
        forgeries.iter().map(|name| (name.as_str(), outcome)).collect()
    };
    let nothing_shown = [("get", "incomplete"), ("head", "incomplete")];
    check("accepts anything", |_| Answers(200), &[forged("accepted-forged"), nothing_shown.to_vec()].concat());
    check(
        "answers before it verifies",
        |request| Answers(if request.method == "POST" { 202 } else { 405 }),
        &forged("accepted-forged"),
    );
    check(
        "compares the body serialised again",
        |request| {
            let again = request.json().to_string();
            let signed = request.is_signed(&request.expected(again.as_bytes(), KeyReading::Auto));
            Answers(if signed && request.is_recent() { 200 } else { 401 })
        },
        &[("reformatted-body", "refused-valid")],
    );
    check(
        "ignores the timestamp",
        |request| {
            Answers(if request.is_signed(&request.expected(&request.body, KeyReading::Auto)) { 200 } else { 401 })
        },
        &[
            ("old-timestamp", "accepted-forged"),
            ("future-timestamp", "accepted-forged"),
            ("timestamp-not-a-number", "accepted-forged"),
        ],
    );
    check(
        "accepts an empty signature",
        |request| {
            let is_empty = request.headers.get("webhook-signature").is_some_and(String::is_empty);
            if is_empty { Answers(200) } else { sound(request) }
        },
        &[("signature-empty", "accepted-forged")],
    );
    check(
        "accepts what is not signed",
        |request| if request.headers.contains_key("webhook-signature") { sound(request) } else { Answers(200) },
        &[
            ("signature-missing", "accepted-forged"),
            ("headers-missing", "accepted-forged"),
            ("get", "incomplete"),
            ("head", "incomplete"),
        ],
    );
    check(
        "ignores the version",
        |request| {
            let expected = request.expected(&request.body, KeyReading::Auto);
            let mut sent = request.header("webhook-signature").split(' ').filter_map(|one| one.split_once(','));
            let signed = sent.any(|(_, sent)| expected.ends_with(sent) && !sent.is_empty());
            Answers(if signed && request.is_recent() { 200 } else { 401 })
        },
        &[("other-version", "accepted-forged")],
    );
}

#[test]
fn what_refuses_genuine_deliveries_is_named_too() {
    let is_unknown = |request: &Request| request.json().get("probe_version").is_some();
    check(
        "answers 500 to unknown fields",
        move |request| if is_unknown(request) { Answers(500) } else { sound(request) },
        &[("unknown-fields", "crashed")],
    );
    check(
        "breaks off at unknown fields",
        move |request| if is_unknown(request) { Does::Resets } else { sound(request) },
        &[("unknown-fields", "crashed")],
    );
    check(
        "reads as many bytes as Content-Length says",
        |request| {
            let is_read = request.method != "POST" || request.headers.contains_key("content-length");
            if is_read { sound(request) } else { Answers(401) }
        },
        &[("chunked", "refused-valid")],
    );
    check(
        "looks headers up in lower case",
        |request| {
            let is_found = request.lines.iter().any(|line| line.starts_with("webhook-signature:"));
            let is_absent = !request.headers.contains_key("webhook-signature");
            if is_found || is_absent { sound(request) } else { Answers(401) }
        },
        &[("title-case-headers", "refused-valid")],
    );
    check(
        "refuses unknown types",
        |request| if request.json()["type"] == "workflow.probed" { Answers(422) } else { sound(request) },
        &[("unknown-event-type", "refused-valid")],
    );
    check(
        "takes the first signature only",
        |request| {
            let first = request.header("webhook-signature").split(' ').next().unwrap_or_default();
            let signed = first == request.expected(&request.body, KeyReading::Auto);
            Answers(if signed && request.is_recent() { 200 } else { 401 })
        },
        &[("rotation", "refused-valid")],
    );
    let seen = Mutex::new(BTreeSet::new());
    check(
        "refuses a duplicate",
        move |request| {
            let is_new = seen.lock().expect("no panic").insert(request.header("webhook-id").to_owned());
            if request.verifies() && !is_new { Answers(409) } else { sound(request) }
        },
        &[("duplicate", "refused-valid")],
    );
    check(
        "limits bodies",
        |request| if request.body.len() > 32 * 1024 { Answers(413) } else { sound(request) },
        &[("large-body", "refused-valid")],
    );
    check(
        "insists on a bare media type",
        |request| if request.header("content-type") == "application/json" { sound(request) } else { Answers(415) },
        &[("content-type-charset", "refused-valid"), ("get", "pass")],
    );
    check(
        "reads what is there",
        |request| if request.at_once { sound(request) } else { Answers(400) },
        &[("slow-sender", "refused-valid")],
    );
    check(
        "limits requests",
        |request| if request.text().contains('東') { Answers(429) } else { sound(request) },
        &[("unicode", "incomplete")],
    );
}

/// A receiver with a model of our OpenAPI document, which it applies once the signature is verified.
fn typed(types: &'static [&'static str], is_strict: bool) -> impl Fn(&Request) -> Does + Send + Sync {
    move |request| {
        let event = request.json();
        let is_text = |value: &Value| value.is_string();
        let fields: &[&str] = if event["type"] == "workflow.completed" {
            &["workflow_id", "status"]
        } else {
            &["reference_id", "workflow_id"]
        };
        let ulid = event["id"].as_str().and_then(|id| id.strip_prefix("evt_")).unwrap_or_default();
        let has_only = |value: &Value, names: &[&str]| {
            value.as_object().is_some_and(|all| all.keys().all(|name| names.contains(&name.as_str())))
        };
        let is_modelled = types.iter().any(|known| event["type"] == *known)
            && ulid.len() == 26
            && ulid.bytes().all(|byte| b"0123456789abcdefghjkmnpqrstvwxyz".contains(&byte))
            && event["created_at"].as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok())
            && fields.iter().all(|name| is_text(&event["data"][name]))
            && (!is_strict
                || has_only(&event, &["id", "type", "created_at", "data"]) && has_only(&event["data"], fields));
        if request.verifies() && !is_modelled { Answers(422) } else { sound(request) }
    }
}

#[test]
fn a_receiver_with_typed_models_is_blamed_for_what_it_refuses_and_for_nothing_else() {
    const BOTH: &[&str] = &["workflow.completed", "reference.matched"];
    let refuses_types = ("unknown-event-type", "refused-valid");
    check("typed", typed(BOTH, false), &[refuses_types, ("empty-data", "refused-valid")]);
    // What builds on a refused case proves nothing more.
    let strict = check(
        "without further fields",
        typed(BOTH, true),
        &[
            refuses_types,
            ("unknown-fields", "refused-valid"),
            ("large-body", "incomplete"),
            ("unicode", "incomplete"),
            ("empty-data", "refused-valid"),
        ],
    );
    let of = |name: &str| strict["cases"].as_array().and_then(|cases| cases.iter().find(|case| case["name"] == name));
    let detail = of("unicode").expect("a case")["detail"].as_str().expect("a reason");
    assert!(detail.contains("answers `unknown-fields` in the same way"), "{detail}");
    check(
        "of one type",
        typed(&["workflow.completed"], false),
        &[refuses_types, ("reference-matched", "incomplete"), ("empty-data", "incomplete")],
    );
    // A case alone comes with the one that it builds on.
    let (code, alone) = report(receiver(typed(BOTH, true)), &["--only", "large-body"]);
    let names: Vec<&str> =
        alone["cases"].as_array().expect("cases").iter().filter_map(|case| case["name"].as_str()).collect();
    assert_eq!((code, &names[..]), (Some(1), &["valid", "unknown-fields", "large-body"][..]), "{alone}");
    assert_eq!(others(&alone).get("large-body"), Some(&"incomplete"), "{alone}");
}

#[test]
fn events_have_the_forms_of_the_settings() {
    let address = receiver(|request| {
        let event = request.json();
        let is_right = event["id"].as_str().is_some_and(|id| id.len() == "evt_".len() + 36)
            && event["created_at"].as_str().is_some_and(|time| time.len() == "2026-01-31T09:30:00Z".len())
            && (event["type"] != "reference.matched" || event["data"] == serde_json::json!({ "a": 1 }))
            && (request.header("user-agent"), request.header("x-environment")) == ("Service/2", "sandbox");
        if request.verifies() && !is_right { Answers(422) } else { sound(request) }
    });
    let settings = ["ids.style=uuid", "time.precision=seconds", "webhooks.user_agent=Service/2"];
    let settings = [&settings[..], &["webhooks.headers={ X-Environment = \"sandbox\" }"]].concat();
    let settings: Vec<&str> = settings.into_iter().flat_map(|setting| ["--set", setting]).collect();
    let data =
        ["--set", "events.data={ \"reference.matched\" = { a = 1 } }", "--only", "valid,unicode,reference-matched"];
    let (code, report) = report(address, &[&settings[..], &data].concat());
    assert_eq!((code, others(&report).len()), (Some(0), 0), "{report}");
    let broken = ["--set", "events.data={ \"workflow.completed\" = { a = \"{{ nothing() }}\" } }"];
    let output = probe(address, &broken).exits(2);
    output.says(&["nothing"]);
}

#[test]
fn what_has_one_cause_is_one_block() {
    let shown = text(&probe(receiver(|request| Answers(if request.method == "POST" { 200 } else { 405 })), &[]).stdout);
    assert!(shown.contains(&format!("\n{} cases: accepted-forged\n  body-changed  ", names("4xx").len())), "{shown}");
    assert_eq!(shown.matches("  remedy  ").count(), 1, "{shown}");
    // Without the valid delivery, the answer to it is the cause.
    let shown = text(&probe(receiver(|_| Answers(401)), &["--all"]).stdout);
    assert!(shown.contains("first make it accept that one") && !shown.contains("raise the limit"), "{shown}");
}

#[test]
fn a_receiver_that_refuses_the_valid_delivery_is_diagnosed() {
    let refused = |diagnosis: &str, behaviour: fn(&Request) -> Does| {
        let address = receiver(behaviour);
        let (code, report) = report(address, &["--all"]);
        assert_eq!((code, &report["not_sent"]), (Some(1), &0.into()));
        let found = report["diagnosis"].as_str().unwrap_or_else(|| panic!("no diagnosis: {report}"));
        assert!(found.contains(diagnosis), "{diagnosis}: {found}");
        assert!(report["requests"].as_u64().expect("a number") <= 100, "{report}");
        let shown = text(&probe(address, &["--all"]).stdout);
        assert!(shown.starts_with("the valid delivery was not accepted: ") && shown.contains(diagnosis), "{shown}");
        report
    };
    let reading = "it reads the whole secret as text; decode the base64 after `whsec_` (it accepts --secret-key utf8_with_prefix)";
    let wrong = refused(reading, |request| {
        let signed = request.is_signed(&request.expected(&request.body, KeyReading::Utf8WithPrefix));
        Answers(if signed && request.is_recent() { 200 } else { 401 })
    });
    // One secret was given.
    for name in names("2xx").into_iter().filter(|name| !name.ends_with("-secret-alone")) {
        assert_eq!(others(&wrong).get(name.as_str()), Some(&"refused-valid"), "{name}");
    }
    for name in names("4xx") {
        assert_eq!(others(&wrong).get(name.as_str()), Some(&"incomplete"), "{name}: a refusal proves nothing");
    }
    refused("it always verifies the body as JSON with spaces after `,` and `:`", |request| {
        // As Python's `json.dumps` writes it.
        let again = request.json().to_string().replace("\":", "\": ").replace(",\"", ", \"");
        let signed = request.is_signed(&request.expected(again.as_bytes(), KeyReading::Auto));
        Answers(if signed && request.is_recent() { 200 } else { 401 })
    });
    refused("it verifies the scheme `stripe`", |request| {
        Answers(if request.headers.contains_key("stripe-signature") { 200 } else { 400 })
    });
    refused("has this secret", |_| Answers(401));
    refused("its check of CSRF leaves this path out", |_| Does::Says(403, "<!DOCTYPE html>\n<title>403</title>\n"));
    refused("check the path", |_| Answers(404));
    refused("look at its log", |_| Answers(500));
    let redirects = refused("redirects deliveries", |_| Does::Redirects);
    let found = others(&redirects);
    let posts = found.iter().filter(|(name, _)| !["get", "head"].contains(name));
    assert!(found.len() > 24 && posts.into_iter().all(|(_, outcome)| *outcome == "redirected"), "{found:?}");
    assert!(
        redirects["cases"][0]["observed"]
            == "302 (Location: https://app.example.com/login) \"from the \u{1b}receiver\"",
        "{redirects}"
    );
    // The URL that it redirects to answers nothing: there is no TLS.
    let redirects = refused("let it answer at this URL itself", |_| Does::RedirectsToHttps);
    let observed = redirects["cases"][0]["observed"].as_str().expect("text");
    assert!(observed.contains("its own address: it refuses plain HTTP"), "{observed}");
}

#[test]
fn a_probe_ends_where_the_valid_delivery_is_not_accepted() {
    let by = |content: fn(&Request) -> Vec<u8>, hex: bool, bare: bool, reading: KeyReading| {
        move |request: &Request| {
            let key = SigningKey::read(
                SECRET,
                &Scheme::new(SchemeName::Standard, &Layered::default().profile().webhooks.custom),
                reading,
            );
            let key = key.expect("a key").as_bytes().to_vec();
            let expected = hmac(&key, &content(request), hex);
            let sent = request.header("webhook-signature");
            let sent = if bare { sent } else { sent.strip_prefix("v1,").unwrap_or_default() };
            Answers(if sent == expected { 200 } else { 401 })
        }
    };
    let standard: fn(&Request) -> Vec<u8> = |request| {
        let start = format!("{}.{}.", request.header("webhook-id"), request.header("webhook-timestamp"));
        [start.as_bytes(), &request.body].concat()
    };
    let body: fn(&Request) -> Vec<u8> = |request| request.body.clone();
    let right = "the scheme `standard` signs `{id}.{timestamp}.{body}`, in base64 after `v1,`";
    let text_secret = "it reads the secret as text; decode the base64 after `whsec_` (it accepts --secret-key utf8)";
    for (receives, diagnosis) in [
        (by(standard, false, false, KeyReading::Utf8), text_secret.to_owned()),
        (by(standard, true, false, KeyReading::Auto), format!("it expects a signature in hex; {right}")),
        (by(body, false, false, KeyReading::Auto), format!("it expects a signature over the body alone; {right}")),
        (
            by(body, true, true, KeyReading::Utf8),
            format!(
                "{text_secret}, and it expects a signature over the body alone and in hex and without the prefix in front of it; {right}"
            ),
        ),
    ] {
        let address = receiver(receives);
        let (code, report) = report(address, &[]);
        assert_eq!((code, &report["diagnosis"]), (Some(1), &diagnosis.clone().into()), "{report}");
        let cases = report["cases"].as_array().expect("cases").len();
        let not_sent = report["not_sent"].as_u64().expect("a number");
        assert!(cases == 1 && not_sent > 24, "{report}");
        let shown = text(&probe(address, &[]).stdout);
        let first: Vec<&str> = shown.lines().take(3).collect();
        assert_eq!(first[1..], [diagnosis, format!("{not_sent} further cases not sent; --all sends them")], "{shown}");
        assert!(shown.lines().count() < 15, "{shown}");
    }
    // Nor can anything be judged if no variation is accepted, or if the answer is no refusal.
    for (behaviour, remedy) in [
        (
            (|_| Answers(401)) as fn(&Request) -> Does,
            "check that it has this secret (`wrs-emulator subscriptions show ID --secret`",
        ),
        (|_| Answers(500), "look at its log"),
        (|_| Answers(404), "check the path of the URL"),
        (|_| Does::Resets, "look at its log"),
    ] {
        let address = receiver(behaviour);
        let (code, report) = report(address, &[]);
        let cases = report["cases"].as_array().expect("cases");
        let is_ended = report["not_sent"].as_u64().is_some_and(|not_sent| not_sent > 24) && cases.len() == 1;
        assert!(code == Some(1) && is_ended && cases[0].get("remedy").is_none(), "{report}");
        let shown = text(&probe(address, &[]).stdout);
        assert!(shown.matches(remedy).count() == 1 && !shown.contains("  remedy "), "one remedy: {shown}");
    }
    let alone = text(&probe(receiver(|_| Answers(401)), &["--only", "valid"]).stdout);
    assert!(!alone.contains("--all") && !alone.contains("later results"), "{alone}");
}

/// What many receivers compute by hand.
fn hmac(key: &[u8], content: &[u8], hex: bool) -> String {
    use base64::Engine as _;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    let tag = ring::hmac::sign(&key, content);
    if hex {
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    } else {
        base64::engine::general_purpose::STANDARD.encode(tag)
    }
}

#[test]
fn a_receiver_that_hangs_takes_no_longer_than_the_limits() {
    let address = receiver(|_| Does::Hangs);
    let quick = probe(address, &["--all", "--timeout", "300ms", "--json"]);
    let report: Value = serde_json::from_slice(&quick.stdout).expect("JSON");
    assert_eq!(quick.status.code(), Some(1), "{quick:?}");
    let found = others(&report);
    assert!(found.len() > 24 && found.values().all(|outcome| *outcome == "slow"), "{found:?}");
    // The note comes after two seconds.
    if sized(false, true) {
        probe(address, &["--all", "--timeout", "1s"]).exits(1).says(&["note: the receiver is still being probed"]);
    }
}

#[tokio::test]
async fn a_probe_ends_in_time_and_only_what_hangs_is_slow() {
    let report = in_stopped_time(|_| Does::Hangs, Duration::from_secs(10)).await;
    assert!((10_000..10_100).contains(&report["took_ms"].as_u64().expect("a number")), "{report}");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases[0]["outcome"], "slow", "{report}");
    for case in &cases[1..] {
        let detail = case["detail"].as_str().unwrap_or_default();
        assert!(case["outcome"] == "incomplete" && detail.ends_with("the 10 s of the probe were over"), "{case}");
    }
    let at_an_empty_body = |request: &Request| {
        if request.method == "POST" && request.body.is_empty() { Does::Hangs } else { sound(request) }
    };
    let report = in_stopped_time(at_an_empty_body, Duration::from_secs(5)).await;
    let expected = BTreeMap::from([("body-missing", "slow"), ("duplicate", "incomplete")]);
    assert_eq!(others(&report), expected);
}

/// Probes a receiver of this runtime: no time passes but by the waits of the probe.
async fn in_stopped_time(behaviour: fn(&Request) -> Does, timeout: Duration) -> Value {
    let time = MachineTime::stop();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hooks", listener.local_addr().expect("an address"));
    let answer = move |request: hyper::Request<Incoming>| async move {
        let (head, body) = request.into_parts();
        let text = |value: &HeaderValue| value.to_str().expect("text").to_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = body.collect().await?.to_bytes().to_vec();
        let request = Request { method: head.method.to_string(), lines: Vec::new(), headers, body, at_once: true };
        match behaviour(&request) {
            Answers(status) => {
                let mut response = hyper::Response::new(String::new());
                *response.status_mut() = StatusCode::from_u16(status).expect("a status");
                Ok::<_, hyper::Error>(response)
            }
            _ => std::future::pending().await,
        }
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    let egress: Arc<Egress> = Arc::default();
    let subscribed = Arc::new(Url::parse(&url).expect("a URL"));
    let Some(Destination::Dial(target)) =
        egress.destination(&Layered::default().profile().webhooks.forwards, &subscribed)
    else {
        panic!("it is dialled")
    };
    let probe = Probe {
        target,
        reach: DialContext { egress, trust: Arc::default(), resolver: Arc::new(Resolver::new(LookUp::default())) },
        signing: ProbeSigning {
            scheme: Scheme::new(SchemeName::Standard, &CustomScheme::default()),
            secrets: vec![SECRET.to_owned()],
            reading: KeyReading::Auto,
            custom: CustomScheme::default(),
            url,
        },
        profile: Arc::clone(Layered::default().profile()),
        timeout,
        only: Vec::new(),
        all: true,
    };
    let report = time.passes_until(probe.run()).await.expect("the receiver is reached");
    serde_json::to_value(report).expect("JSON")
}

#[test]
fn a_receiver_that_cannot_be_reached_is_one_error() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output =
            finish(wrs_emulator(&[&["review", "probe"], arguments].concat()).env("WRS_WEBHOOK_SECRET", SECRET))
                .exits(2);
        let said = text(&output.stderr);
        assert!(said.matches("error:").count() == 1 && output.stdout.is_empty(), "{said}");
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: no {part:?} in {said}");
        }
    };
    refused(
        &[&format!("http://{closed}/hooks")],
        &["there is no receiver to probe", &format!("nothing listens on {closed}")],
    );
    let own = "to deliver to your own machine: `--forward https://192.0.2.1.invalid=http://localhost:PORT`";
    refused(&["https://192.0.2.1.invalid/"], &["192.0.2.1.invalid", own]);
    refused(&["http://93.184.216.34/"], &["must not be probed", "is on the internet", "--allow-egress 93.184.216.34"]);
    refused(&["http://169.254.169.254/", "--allow-egress", "any"], &["must not be probed", "never dialled"]);
    refused(&["https://app.sink.localhost/"], &["within an emulator", "probe your own receiver"]);
    refused(&[], &["<URL>"]);
    refused(&["ftp://localhost"], &["expected the receiver's URL"]);
    let address = receiver(sound);
    let url = format!("http://{address}/");
    refused(&[&url, "--only", "body-chaned"], &["body-chaned", "body-changed"]);
    refused(&[&url, "--timeout", "11s"], &["at most 10 s"]);
    refused(&[&url, "--forward", "x"], &["--forward: expected FROM=TO"]);
    refused(&[&url, "--webhook-ca", "/no/such/file"], &["--webhook-ca: cannot read"]);
    refused(&[&url, "--junit", "/no/such/folder/x.xml"], &["--junit: cannot write"]);
    refused(&[&url, "--set", "webhooks.scheme=[\"standard\",\"stripe\"]"], &["expected one scheme"]);
    finish(&mut wrs_emulator(&["review", "probe", &url])).exits(2).says(&["WRS_WEBHOOK_SECRET"]);
}

#[test]
fn the_results_are_printed_for_people_and_for_machines() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, target) = (folder.path().join("probe.xml"), folder.path().join("target.xml"));
    // A link is followed, not replaced.
    std::fs::write(&target, "old").and_then(|()| std::os::unix::fs::symlink(&target, &file)).expect("it is linked");
    let address = receiver(|request| if request.is_recent() { sound(request) } else { Answers(200) });
    let shown = text(
        &probe(address, &["--junit", &file.display().to_string(), "--only", "old-timestamp,duplicate"]).exits(1).stdout,
    );
    for part in [
        "pass             valid          204\n",
        "accepted-forged  old-timestamp  200 \"from the \\u{1b}receiver\"\n",
        "incomplete       duplicate      204, then 204\n",
        "\nold-timestamp: accepted-forged\n  sent      a delivery that was signed an hour ago, as in a replay\n  expected  4xx (Standard Webhooks, ",
        "  remedy    compare the timestamp",
        "\nincomplete: duplicate: 2xx proves nothing about its effect",
        "\n3 cases with 4 requests in ",
        ": 1 passed, 1 failed, 1 incomplete\n",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "colors are for terminals: {shown}");
    let xml = std::fs::read_to_string(&file).expect("the file is written");
    let document = roxmltree::Document::parse(&xml).expect("XML");
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    let counts = ["tests", "failures", "skipped"].map(|name| suite.attribute(name).expect("a count"));
    assert_eq!(counts, ["3", "1", "1"], "{xml}");
    let listed = finish(&mut wrs_emulator(&["review", "probe", "--list"])).exits(0);
    assert!(text(&listed.stdout).lines().count() >= 25 && text(&listed.stdout).contains("old-timestamp"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwards_and_certificates_are_those_of_deliveries() {
    let certificates = Certificates::for_localhost();
    let mut receiver = Receiver::tls(&certificates, &[]).await;
    let forward = format!("https://app.example.com=https://{}", receiver.address);
    let arguments =
        ["review", "probe", "https://app.example.com/hooks?a=1", "--only", "get", "--json", "--forward", &forward];
    let run = |more: &[&str]| {
        let mut command = wrs_emulator(&[&arguments[..], more].concat());
        finish(command.env("WRS_WEBHOOK_SECRET", SECRET))
    };
    tokio::task::block_in_place(|| run(&[])).exits(2).says(&["--webhook-ca FILE"]);
    let ca = certificates.ca_file().display().to_string();
    for trusted in [&["--webhook-ca", &ca][..], &["--webhook-insecure"]] {
        let output = tokio::task::block_in_place(|| run(trusted)).exits(0);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["url"], "https://app.example.com/hooks?a=1");
        assert_eq!(report["dialled"], format!("https://{}/hooks?a=1", receiver.address));
        for _ in 0..2 {
            assert_eq!(receiver.next().await.path, "/hooks?a=1");
        }
    }
}
