//! What the published contract promises, as tables, and a run held against them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::run::{HELLO, Run, TYPES};
use crate::support::Answer;

/// What the contract's tables say of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Boolean,
    Text,
    Exactly(&'static str),
    Id(&'static str),
    Instant,
    HttpsUrl,
    Texts,
    Object,
}

impl Form {
    pub(super) fn fits(self, value: &Value) -> bool {
        let text = value.as_str();
        match self {
            Self::Boolean => value.is_boolean(),
            Self::Text => text.is_some_and(|text| !text.is_empty()),
            Self::Exactly(wanted) => text == Some(wanted),
            Self::Id(prefix) => text.and_then(|text| text.strip_prefix(prefix)).is_some_and(|rest| !rest.is_empty()),
            Self::Instant => text.is_some_and(|text| {
                let bytes = text.as_bytes();
                text.ends_with('Z') && bytes.get(10) == Some(&b'T') && text.parse::<Timestamp>().is_ok()
            }),
            Self::HttpsUrl => text.is_some_and(|text| text.starts_with("https://")),
            Self::Texts => value.as_array().is_some_and(|values| values.iter().all(Value::is_string)),
            Self::Object => value.is_object(),
        }
    }
}

pub(super) type Table = &'static [(&'static str, Form)];

pub(super) const SYSTEM_STATUS: Table = &[
    ("ok", Form::Boolean),
    ("environment", Form::Exactly("sandbox")),
    ("version", Form::Exactly("v1.0")),
    ("checked_at", Form::Instant),
];
pub(super) const SUBSCRIPTION: Table = &[
    ("id", Form::Id("sub_")),
    ("url", Form::HttpsUrl),
    ("events", Form::Texts),
    ("status", Form::Exactly("active")),
    ("created_at", Form::Instant),
];
pub(super) const EVENT: Table =
    &[("id", Form::Id("evt_")), ("type", Form::Text), ("created_at", Form::Instant), ("data", Form::Object)];
pub(super) const COMPLETED: Table = &[("workflow_id", Form::Id("wf_")), ("status", Form::Exactly("completed"))];
pub(super) const ERROR: Table = &[("code", Form::Text), ("message", Form::Text), ("request_id", Form::Id("req_"))];

/// Every promised field exists, in its form.
pub(super) fn keeps(value: &Value, table: Table) {
    let object = object(value);
    for (name, form) in table {
        let field = object.get(*name).unwrap_or_else(|| panic!("no `{name}` in {value}"));
        assert!(form.fits(field), "`{name}` is no {form:?}: {value}");
    }
}

pub(super) fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object"))
}

/// The fields beyond a table.
pub(super) fn beyond(value: &Value, table: Table) -> Vec<&str> {
    object(value).keys().map(String::as_str).filter(|key| table.iter().all(|(name, _)| name != key)).collect()
}

/// The header that stands on every answer of an authenticated endpoint to a valid key.
pub(super) fn quota_header(answer: &Answer, name: &str) -> u32 {
    let value = answer.header(name).unwrap_or_else(|| panic!("no {name} in {answer:?}"));
    value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
}

/// All that the contract promises of a run.
pub(super) fn promised(run: &Run) {
    for answer in &run.statuses {
        assert_eq!(answer.status, 200);
        keeps(&answer.json(), SYSTEM_STATUS);
        assert_eq!(answer.json()["ok"], true);
    }
    for answer in &run.checks {
        assert_eq!(answer.status, 200);
        keeps(&answer.json(), SYSTEM_STATUS);
        assert!(!beyond(&answer.json(), SYSTEM_STATUS).is_empty(), "the details of dependencies");
    }
    for answer in run.created.iter().chain(&run.updated) {
        assert_eq!(answer.status, 200);
        keeps(&answer.json(), SUBSCRIPTION);
    }
    let (created, updated) = (run.created.last().expect("one").json(), run.updated[0].json());
    assert_eq!((&updated["id"], &updated["created_at"]), (&created["id"], &created["created_at"]));
    assert_eq!((&updated["events"], &updated["url"]), (&json!(TYPES), &json!("https://app.sink.localhost/hooks")));
    assert!(run.created.iter().all(|answer| answer.json()["secret"].is_string()));
    assert!(updated.get("secret").is_none(), "a secret is returned once");
    for answer in &run.hellos {
        assert_eq!((answer.status, &answer.json()["version"]), (200, &json!("1.3.2")));
    }
    assert_eq!(run.errors.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), [401, 401, 401, 422, 422, 422, 429]);
    for (status, _, answer) in &run.errors {
        assert_eq!(answer.status, *status, "{answer:?}");
        assert_eq!(object(&answer.json()).keys().collect::<Vec<_>>(), ["error"], "one top-level key");
        keeps(&answer.json()["error"], ERROR);
        assert_eq!(answer.code() == "unauthorized", *status == 401);
        assert_eq!(answer.json()["error"]["request_id"].as_str(), answer.header("x-emulator-request-id"));
    }
    for (_, path, answer) in run.answers() {
        assert_eq!(answer.header("content-type"), Some("application/json"));
        if path != HELLO && answer.status != 401 {
            assert_eq!(quota_header(answer, "X-RateLimit-Limit"), 30);
            assert!(quota_header(answer, "X-RateLimit-Remaining") < 30);
        }
    }
    assert!(run.receipts.iter().all(|receipt| receipt.verified == Ok(())), "every body is signed");
    let types: BTreeMap<&str, &str> =
        run.fired.iter().map(|event| (event.id.as_str(), event.event_type.as_str())).collect();
    for envelope in run.envelopes() {
        keeps(&envelope, EVENT);
        assert_eq!(envelope["type"].as_str(), types.get(envelope["id"].as_str().expect("text")).copied());
        if envelope["type"] == "workflow.completed" {
            keeps(&envelope["data"], COMPLETED);
        }
    }
    let arrived: BTreeSet<String> =
        run.envelopes().map(|event| event["id"].as_str().expect("text").to_owned()).collect();
    assert_eq!(arrived.len(), 12, "each event arrives");
}

/// Every answer and event fits the document that is made for the preset.
pub(super) fn documented(run: &Run) {
    for (method, path, answer) in run.answers() {
        run.document.check(method, path, answer);
    }
    run.envelopes().for_each(|envelope| run.document.check_event(&envelope));
}
