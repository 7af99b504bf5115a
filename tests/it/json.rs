//! JSON that is proper, improper, or left open by RFC 8259, as bytes with what each must give: on the emulated API, on the
//! control API, and for generated documents. Never a 5xx, and the next request is answered.

use proptest::prelude::*;
use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{Answer, control, get, send, start_with, subscribe_sink};

/// Values that every parser must take.
const PROPER: &[&[u8]] = &[
    b"null",
    b"true",
    b" false ",
    b"\n\t\r 0 \r\t\n",
    b"-0",
    b"-1",
    b"1.5",
    b"-0.0",
    b"1e3",
    b"1E+3",
    b"1e-3",
    b"0e1",
    b"0.4e006",
    b"123456789",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"\"\"",
    b"\"plain\"",
    b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    b"\"\\u0000\"",
    b"\"\\u001F\\u007f\"",
    b"\"\\uD83D\\uDE00\"",
    b"\"\\uFFFF\\uFFFE\"",
    b"\"\\u00e9\\u00E9\"",
    b"\"\x7f\"",
    b"\"\xc3\xa9\"",
    b"\"\xe2\x80\xa8\xe2\x80\xa9\"",
    b"\"\xf0\x9f\x98\x80\"",
    b"\"\xf4\x8f\xbf\xbf\"",
    b"\"\xef\xbb\xbf within\"",
    b"\"//no comment/**/\"",
    b"[]",
    b"[ ]",
    b"[1,\"a\",null,{}]",
    b"[[[[[[]]]]]]",
    b"{}",
    b"{\"\":0}",
    b"{\"a\":{\"b\":{\"c\":[]}}}",
    b"{\"\\u0061\":1}",
    b"{\"long key of many words\":\"and a value\"}",
];

/// What no parser may take.
const IMPROPER: &[&[u8]] = &[
    b"",
    b"nul",
    b"NULL",
    b"True",
    b"undefined",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"+1",
    b"01",
    b"-01",
    b".5",
    b"5.",
    b"-",
    b"--1",
    b"1e",
    b"1e+",
    b"1.e1",
    b"1 2",
    b"0x1F",
    b"1_000",
    b"1,",
    b"\xef\xbc\x91",
    b"'single'",
    b"plain",
    b"\"open",
    b"\"ends with \\\"",
    b"\"\\",
    b"\"\\x41\"",
    b"\"\\a\"",
    b"\"\\U0041\"",
    b"\"\\u12\"",
    b"\"\\u123g\"",
    b"\"\\u{41}\"",
    b"\"tab\there\"",
    b"\"line\nend\"",
    b"\"nul\0byte\"",
    b"\"\x1f\"",
    b"[",
    b"]",
    b"[1,]",
    b"[,1]",
    b"[1,,2]",
    b"[1 2]",
    b"[1;2]",
    b"[1}",
    b"[\"a\":1]",
    b"{",
    b"{]",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{\"a\":1,}",
    b"{,\"a\":1}",
    b"{\"a\" 1}",
    b"{\"a\"=1}",
    b"{\"a\"::1}",
    b"{\"a\":1 \"b\":2}",
    b"{a:1}",
    b"{'a':1}",
    b"{1:1}",
    b"{null:1}",
    b"/**/1",
    b"1 // one",
    b"# one\n1",
    b"\xa0",
    b"\xc2\xa01",
    b"\x0c1",
    b"\x0b1",
    b"\0",
    b"1\0",
    b"\xe2\x81\xa01",
    b"\xff",
    b"*",
    b"<a/>",
    b"$",
];

/// What the RFC leaves open, and what is done here.
const OPEN: &[(&[u8], bool)] = &[
    // Numbers beyond a double: too large is refused, too small is zero, too many digits are rounded.
    (b"1e999", false),
    (b"-1e999", false),
    (b"1e-999", true),
    (b"123456789012345678901234567890", true),
    (b"0.12345678901234567890123456789", true),
    (b"1e00000000000000000000000000000001", true),
    (b"1e99999999999999999999", false),
    // Halves of surrogate pairs are no text.
    (b"\"\\uD800\"", false),
    (b"\"\\uDC00\"", false),
    (b"\"\\uDC00\\uD800\"", false),
    (b"\"\\uD800\\u0041\"", false),
    (b"\"\\uD800\\n\"", false),
    (b"\"\\uD800\\uD800\\uDC00\"", false),
    // Bytes that are not UTF-8.
    (b"\"\xff\"", false),
    (b"\"\xc0\xaf\"", false),
    (b"\"\xed\xa0\x80\"", false),
    (b"\"\xf4\x90\x80\x80\"", false),
    (b"\"\xe2\x82\"", false),
    (b"\"\x80\"", false),
    // Of duplicate keys the last one counts.
    (b"{\"a\":1,\"a\":2}", true),
    (b"{\"a\":1,\"\\u0061\":2}", true),
];

/// A body with the value as a field that the contract does not know, and is taken with.
fn subscription(value: &[u8]) -> Vec<u8> {
    [&b"{\"url\":\"https://a.example/\",\"events\":[\"reference.matched\"],\"x\":"[..], value, b"}"].concat()
}

/// A call of the control API with the value in an event's data; the event is lost on purpose, so that nothing waits.
fn firing(value: &[u8]) -> Vec<u8> {
    [&b"{\"type\":\"workflow.completed\",\"drop\":true,\"data\":{\"x\":"[..], value, b"}}"].concat()
}

async fn subscribing(emulator: &Emulator, body: Vec<u8>) -> Answer {
    let headers = [("authorization", "Bearer sk_test_local"), ("content-type", "application/json")];
    send(emulator, "POST", "/v1/events/subscribe", &headers, body).await
}

async fn calling(emulator: &Emulator, method: &str, path: &str, body: Vec<u8>) -> Answer {
    send(emulator, method, &format!("/_emulator/{path}"), &[("content-type", "application/json")], body).await
}

/// Without a quota, so that as many requests can be made as there are cases, and with a subscription to fire at.
async fn stage(knobs: &[&str]) -> Emulator {
    let emulator = start_with(&[&["rate_limit.enabled=false"][..], knobs].concat()).await;
    subscribe_sink(&emulator, "json").await;
    emulator
}

/// Equal; of numbers with more digits than a double has, the last one may be rounded otherwise each time they are read.
fn same(found: &Value, expected: &Value) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= expected.abs() * f64::EPSILON,
        _ => found == expected,
    }
}

async fn check(emulator: &Emulator, value: &[u8], taken: bool) {
    let shown = value[..value.len().min(100)].escape_ascii().to_string();
    let answer = subscribing(emulator, subscription(value)).await;
    assert_eq!(answer.status, if taken { 200 } else { 422 }, "subscribe with {shown}: {answer:?}");
    if !taken {
        assert_eq!(answer.code(), "validation_error", "{shown}");
        assert!(answer.message().contains("is not valid JSON"), "{shown}: {}", answer.message());
    }
    let answer = calling(emulator, "POST", "events", firing(value)).await;
    assert_eq!(answer.status, if taken { 200 } else { 422 }, "events with {shown}: {answer:?}");
    if taken {
        // What goes out is JSON again, with the value in it.
        let sent: Value = serde_json::from_str(answer.json()["events"][0]["body"].as_str().expect("a body"))
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        let taken: Value = serde_json::from_slice(value).expect("it was taken");
        assert!(same(&sent["data"]["x"], &taken), "{shown}: {sent}");
    }
    assert_eq!(get(emulator, "/v1/hello").await.status, 200, "after {shown}");
}

#[tokio::test]
async fn proper_values_are_taken_and_improper_ones_refused() {
    let emulator = stage(&[]).await;
    for value in PROPER {
        check(&emulator, value, true).await;
    }
    for value in IMPROPER {
        check(&emulator, value, false).await;
    }
    for (value, taken) in OPEN {
        check(&emulator, value, *taken).await;
    }
}

#[tokio::test]
async fn depth_is_bounded_and_length_is_not_work() {
    let emulator = stage(&[]).await;
    let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    let objects = |depth: usize| [b"{\"a\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat();
    for depth in [1, 100] {
        check(&emulator, &nested(depth), true).await;
        check(&emulator, &objects(depth), true).await;
    }
    for depth in [128, 5_000, 120_000] {
        check(&emulator, &nested(depth), false).await;
        check(&emulator, &b"[".repeat(depth), false).await;
    }
    for depth in [128, 5_000, 30_000] {
        check(&emulator, &objects(depth), false).await;
        check(&emulator, &b"{\"a\":".repeat(depth), false).await;
    }
    check(&emulator, &[b"\"".to_vec(), b"a".repeat(200_000), b"\"".to_vec()].concat(), true).await;
    check(&emulator, &[b"\"".to_vec(), b"\\u0061".repeat(30_000), b"\"".to_vec()].concat(), true).await;
    check(&emulator, &[b"[".to_vec(), b"0,".repeat(50_000), b"0]".to_vec()].concat(), true).await;
    // Digits are read to their end; a number of these is beyond a double, a fraction is only rounded.
    check(&emulator, &b"9".repeat(200_000), false).await;
    check(&emulator, &[b"0.".to_vec(), b"9".repeat(200_000)].concat(), true).await;
    let keys: Vec<u8> = (0..10_000).flat_map(|number| format!("\"k{number}\":{number},").into_bytes()).collect();
    check(&emulator, &[b"{".to_vec(), keys, b"\"last\":0}".to_vec()].concat(), true).await;
}

/// Whole bodies: text that is not JSON and JSON that is not an object have different answers.
#[tokio::test]
async fn whole_bodies_are_objects_or_told_what_they_are() {
    let emulator = stage(&["errors.malformed_json_status=400"]).await;
    for (body, status) in [
        (&b""[..], 400),
        (b" \r\n\t", 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"\xff\xfe{\0}\0", 400),
        (b"\0{\0}", 400),
        (b"{}{}", 400),
        (b"{} x", 400),
        (b"{}\0", 400),
        (b"{\"url\":", 400),
        (b"url=https%3A%2F%2Fa.example", 400),
        (b"null", 422),
        (b"[]", 422),
        (b"7", 422),
        (b"\"{}\"", 422),
        (b"true", 422),
        (b"{}", 422),
        (b" \n{ }\t", 422),
        (b"{\"url\":1,\"events\":{},\"secret\":[],\"description\":false}", 422),
    ] {
        let shown = body.escape_ascii().to_string();
        let answer = subscribing(&emulator, body.to_vec()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, "validation_error"), "{shown}: {answer:?}");
        let what = if status == 400 { ["is empty", "is not valid JSON"] } else { ["must be", "is required"] };
        assert!(what.iter().any(|part| answer.message().contains(part)), "{shown}: {}", answer.message());
        assert_eq!(calling(&emulator, "POST", "events", body.to_vec()).await.status, 422, "{shown}");
    }
    assert_eq!(get(&emulator, "/v1/hello").await.status, 200);
}

/// Every call that takes a body refuses improper JSON and changes nothing.
#[tokio::test]
async fn every_call_of_the_control_api_refuses_what_is_no_json() {
    let emulator = stage(&[]).await;
    let before = control(&emulator, "GET", "snapshot?key=*", &Value::Null).await.json();
    let document = control(&emulator, "GET", "openapi.json", &Value::Null).await.json();
    let mut calls = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let path = path.trim_start_matches("/_emulator/").replace("{id}", "x").replace("{name}", "x");
        for method in
            operations.as_object().expect("operations").keys().filter(|name| !["get", "head"].contains(&name.as_str()))
        {
            for body in [&b"{"[..], b"{\"key\":\"\\ud800\"}", b"\xff", b"[1,]", b"{\"key\":NaN}", &b"[".repeat(50_000)]
            {
                let answer = calling(&emulator, &method.to_uppercase(), &path, body.to_vec()).await;
                // Some look for what the path names first.
                assert!([404, 422].contains(&answer.status), "{method} {path}: {answer:?}");
                assert!(!answer.message().is_empty(), "{method} {path}");
            }
            calls += 1;
        }
    }
    assert!(calls >= 15, "the calls were found: {calls}");
    assert_eq!(control(&emulator, "GET", "snapshot?key=*", &Value::Null).await.json(), before, "nothing was changed");
}

/// Any text without `{`: the data of an event may hold templates, and what begins like one must be one.
fn any_text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('{', "("))
}

/// Any document; numbers are such as every reader gives back the same.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-100_000_i32..100_000).prop_map(|number| json!(f64::from(number) / 8.0)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The same document in other bytes: every character of a string may be an escape, and space may stand between tokens.
fn spelled(value: &Value, choices: &mut impl Iterator<Item = u8>) -> String {
    let mut pick = |of: u8| choices.next().unwrap_or(0) % of;
    match value {
        Value::String(text) => {
            let mut spelled = String::from("\"");
            for letter in text.chars() {
                if pick(4) == 0 || letter.is_control() || matches!(letter, '"' | '\\') {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        spelled += &format!("\\u{unit:04x}");
                    }
                } else {
                    spelled.push(letter);
                }
            }
            spelled + "\""
        }
        Value::Array(entries) => {
            let entries: Vec<String> = entries.iter().map(|entry| spelled_with_space(entry, choices)).collect();
            format!("[{}]", entries.join(","))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| {
                    let name = spelled_with_space(&Value::from(name.as_str()), choices);
                    format!("{name}:{}", spelled_with_space(value, choices))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

fn spelled_with_space(value: &Value, choices: &mut impl Iterator<Item = u8>) -> String {
    let spaces = ["", " ", "\n", "\t\r\n "];
    let around =
        [spaces[usize::from(choices.next().unwrap_or(0) % 4)], spaces[usize::from(choices.next().unwrap_or(0) % 4)]];
    format!("{}{}{}", around[0], spelled(value, choices), around[1])
}

#[test]
fn generated_documents_are_taken_and_damaged_ones_never_a_failure() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let emulator = runtime.block_on(stage(&[]));
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(value in any_json(), choices in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), byte in any::<u8>())| {
        let text = spelled_with_space(&value, &mut choices.into_iter());
        let mut damaged = text.clone().into_bytes();
        let place = at.index(damaged.len());
        damaged[place] = byte;
        runtime.block_on(async {
            check(&emulator, text.as_bytes(), true).await;
            // What is still JSON is taken; what is not is refused, and nothing else happens.
            for body in [subscription(&damaged), damaged.clone()] {
                let answer = subscribing(&emulator, body.clone()).await;
                let proper = serde_json::from_slice::<Value>(&body).is_ok();
                let allowed: &[u16] = if proper { &[200, 422] } else { &[422] };
                assert!(allowed.contains(&answer.status), "{}: {answer:?}", body.escape_ascii());
            }
            let answer = calling(&emulator, "POST", "events", firing(&damaged)).await;
            assert!([200, 422].contains(&answer.status), "{answer:?}");
        });
    });
}
