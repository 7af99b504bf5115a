//! Rules about what is sent: paths, parameters, fields, content types.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::check::{
    ALWAYS, Check, Judged, SEND_REQUESTS, SOUND_SUBSCRIBE, STATUS, SUBSCRIBE, Severity, Sighting, requests,
};
use super::traffic::Traffic;
use crate::contract::routes::Operation;
use crate::journal::Reason;
use crate::redact::visible;

/// The checks of this subject.
pub(super) const CHECKS: [Check; 5] = [
    Check {
        code: "wrong-path",
        title: "A request matches no endpoint",
        why: "It does nothing, here and in production.",
        clause: "Endpoints; Versioning: the version is part of the path",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "correct the path or the method; the answer names the nearest endpoint",
        cwe: None,
        exercise: SEND_REQUESTS,
        judge: wrong_path,
        example: requests(&["GET /v1/system/stat HTTP/1.1\nhost: localhost\n\n"], &[STATUS]),
    },
    Check {
        code: "unknown-parameter",
        title: "A query parameter is unknown",
        why: "It is ignored today, and may be refused tomorrow; most often it is a typing error.",
        clause: "Endpoints: the query parameters of each",
        severity: Severity::Low,
        confidence: ALWAYS,
        remedy: "remove or correct the parameter",
        cwe: None,
        exercise: "send a request with a query, such as include_checks=true",
        judge: unknown_parameter,
        example: requests(
            &[
                "GET /v1/system/status?include_check=true HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
            ],
            &[
                "GET /v1/system/status?include_checks=true HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n",
            ],
        ),
    },
    Check {
        code: "unknown-field",
        title: "A body has an unknown field",
        why: "It is ignored today, and may be refused tomorrow; most often it is a typing error.",
        clause: "POST /v1/events/subscribe: the fields of the body",
        severity: Severity::Low,
        confidence: ALWAYS,
        remedy: "remove or correct the field",
        cwe: None,
        exercise: SUBSCRIBE,
        judge: unknown_field,
        example: requests(
            &["POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
               content-type: application/json\n\n\
               {\"url\":\"https://a.sink.localhost/\",\"events\":[\"workflow.completed\"],\"name\":\"a\"}"],
            &[SOUND_SUBSCRIBE],
        ),
    },
    Check {
        code: "duplicate-json-key",
        title: "An object of the body has a key twice",
        why: "Parsers disagree on which of the two counts.",
        clause: "RFC 8259 section 4: the names within an object should be unique",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "write each key once; build JSON with a library",
        cwe: Some(436),
        exercise: SUBSCRIBE,
        judge: duplicate_key,
        example: requests(
            &["POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
               content-type: application/json\n\n\
               {\"url\":\"https://b.sink.localhost/\",\"url\":\"https://a.sink.localhost/\",\"events\":[\"workflow.completed\"]}"],
            &[SOUND_SUBSCRIBE],
        ),
    },
    Check {
        code: "wrong-content-type",
        title: "A JSON body is not declared as JSON",
        why: "A service may refuse or misread it.",
        clause: "POST /v1/events/subscribe: the content type is application/json",
        severity: Severity::Medium,
        confidence: ALWAYS,
        remedy: "send `Content-Type: application/json`",
        cwe: None,
        exercise: SUBSCRIBE,
        judge: wrong_content_type,
        example: requests(
            &["POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\
               content-type: text/plain\n\n{\"url\":\"https://a.sink.localhost/\",\"events\":[\"workflow.completed\"]}"],
            &[SOUND_SUBSCRIBE],
        ),
    },
];

/// The fields of a subscribe, by the contract.
const SUBSCRIBE_FIELDS: [&str; 4] = ["url", "events", "secret", "description"];
/// Most names that a text repeats, and most characters of each.
const MOST_NAMES: usize = 3;
const LONGEST_NAME: usize = 40;

/// The first few of these names, quoted.
fn quoted<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let short = |name: &str| format!("`{}`", visible(&name.chars().take(LONGEST_NAME).collect::<String>()));
    names.take(MOST_NAMES).map(short).collect::<Vec<_>>().join(", ")
}

pub(super) fn wrong_path(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.requests(), |request| {
        let why = match &request.0.reason {
            Reason::NotFound(_) => "no endpoint has this path".to_owned(),
            Reason::MethodNotAllowed(allow) => format!("this path takes {allow}"),
            Reason::Announced(path) => format!("{path} is announced and not open yet"),
            _ => return Some(None),
        };
        Some(Some(Sighting::certain(request.id(), format!("{}: {why}", visible(&request.line())))))
    })
}

pub(super) fn unknown_parameter(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.requests(), |request| {
        let known: &[&str] = match request.0.operation? {
            Operation::SystemStatus => &["include_checks"],
            Operation::EventsSubscribe | Operation::Hello => &[],
            _ => return None,
        };
        if request.query().is_empty() {
            return None;
        }
        let names: Vec<String> = form_urlencoded::parse(request.query().as_bytes())
            .map(|(name, _)| name.into_owned())
            .filter(|name| !known.contains(&name.as_str()))
            .collect();
        Some((!names.is_empty()).then(|| {
            let names = quoted(names.iter().map(String::as_str));
            Sighting::certain(request.id(), format!("{}: {names} in the query", request.line()))
        }))
    })
}

pub(super) fn unknown_field(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let fields: Map<String, Value> = serde_json::from_slice(request.0.transcript.body()).ok()?;
        let unknown = || fields.keys().map(String::as_str).filter(|name| !SUBSCRIBE_FIELDS.contains(name));
        let detail = || format!("{}: {} in the body", request.line(), quoted(unknown()));
        Some(unknown().next().map(|_| Sighting::certain(request.id(), detail())))
    })
}

pub(super) fn duplicate_key(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let Doubled(doubled) = serde_json::from_slice(request.0.transcript.body()).ok()?;
        let detail = |name: String| format!("{}: {} twice in one object", request.line(), quoted([&*name].into_iter()));
        Some(doubled.map(|name| Sighting::certain(request.id(), detail(name))))
    })
}

pub(super) fn wrong_content_type(traffic: &Traffic<'_>) -> Judged {
    Judged::each(traffic.of(Operation::EventsSubscribe), |request| {
        let sent = request.header("content-type");
        let essence = sent.as_deref().map(|value| value.split(';').next().unwrap_or_default().trim());
        if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
            return Some(None);
        }
        let sent = essence.map_or("no content type".to_owned(), |essence| quoted([essence].into_iter()));
        Some(Some(Sighting::certain(request.id(), format!("{}: {sent}", request.line()))))
    })
}

/// The first name that one object of a JSON text has twice, at any depth.
struct Doubled(Option<String>);

impl<'de> Deserialize<'de> for Doubled {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Self(None))
    }
}

impl<'de> Visitor<'de> for Doubled {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Self(inner) = fields.next_value()?;
            let doubled = names.contains(&name).then(|| name.clone()).or(inner);
            self.0 = self.0.or(doubled);
            names.insert(name);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self, A::Error> {
        while let Some(Self(inner)) = items.next_element()? {
            self.0 = self.0.or(inner);
        }
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}
