//! The differential run: a client's own test command under settings that differ in one thing that the contract does not promise. A
//! table has the changes, one row each; then two runs are compared: whether the client saw anything of a change, and the first request
//! in which it acted differently. Texts are compared without what differs from run to run: ids, times, ports. Pure; `cli/differential`
//! runs the command.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Serialize;
use serde_json::Value;

use crate::state::journal::record::{DeliveryWhole, RequestWhole};

/// One thing that the contract does not promise, changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct UnpromisedChange {
    pub(crate) name: &'static str,
    pub(crate) changes: &'static str,
    pub(crate) clause: &'static str,
    /// How to make a command that saw nothing of it exercise it.
    pub(crate) exercise: &'static str,
    /// Where it shows.
    #[serde(skip)]
    pub(crate) aspect: Aspect,
    /// The settings; without any, those of all parts together.
    #[serde(skip)]
    whole: &'static [&'static str],
    /// Smaller changes that it consists of.
    #[serde(skip)]
    pub(crate) parts: &'static [Part],
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) settings: &'static [&'static str],
}

impl UnpromisedChange {
    pub(crate) fn settings(&self) -> Vec<&'static str> {
        let parts = || self.parts.iter().flat_map(|part| part.settings);
        if self.whole.is_empty() { parts().copied().collect() } else { self.whole.to_vec() }
    }
}

const fn part(name: &'static str, settings: &'static [&'static str]) -> Part {
    Part { name, settings }
}

const MEET_ERRORS: &str = "let the command meet errors: a wrong key, a wrong value, --scenario always-429";
const CALL: &str = "let the command call the API with its key";
const RECEIVE: &str =
    "let the command subscribe a receiver, fire events with `wrs-emulator trigger`, and wait for them";

const fn change(
    name: &'static str,
    aspect: Aspect,
    changes: &'static str,
    clause: &'static str,
    exercise: &'static str,
    whole: &'static [&'static str],
    parts: &'static [Part],
) -> UnpromisedChange {
    UnpromisedChange { name, changes, clause, exercise, aspect, whole, parts }
}

/// Every change, the most common cause of trouble first.
#[rustfmt::skip]
pub(crate) const CHANGES: &[UnpromisedChange] = &[
    change("message-text", Aspect::Message, "the message of every error reads differently",
        "Errors: message is text for people; no wording is shown",
        MEET_ERRORS, &[], &[
            part("401", &["errors.messages.unauthorized=\"this message has another wording\""]),
            part("422", &["errors.messages.validation_error=\"this message has another wording\""]),
            part("429", &["errors.messages.rate_limit_exceeded=\"this message has another wording\""]),
            part("404", &["errors.messages.not_found=\"this message has another wording\""]),
            part("405", &["errors.messages.method_not_allowed=\"this message has another wording\""]),
            part("any other status", &[
                "errors.messages.bad_request=\"this message has another wording\"", "errors.messages.request_timeout=\"this message has another wording\"",
                "errors.messages.payload_too_large=\"this message has another wording\"", "errors.messages.uri_too_long=\"this message has another wording\"",
                "errors.messages.unsupported_media_type=\"this message has another wording\"", "errors.messages.not_implemented=\"this message has another wording\"", "errors.messages.misdirected_request=\"this message has another wording\"",
                "errors.messages.headers_too_large=\"this message has another wording\"", "errors.messages.internal_error=\"this message has another wording\"",
            ]),
        ]),
    change("error-codes", Aspect::Code, "errors other than 401 have other codes",
        "Errors: the code unauthorized accompanies 401; other codes are not shown",
        MEET_ERRORS, &[], &[
            part("422", &["errors.codes.validation_error=invalid_request"]),
            part("429", &["errors.codes.rate_limit_exceeded=throttled"]),
            part("404", &["errors.codes.not_found=no_such_resource"]),
            part("405", &["errors.codes.method_not_allowed=wrong_method"]),
            part("any other status", &[
                "errors.codes.bad_request=malformed_request", "errors.codes.request_timeout=too_slow",
                "errors.codes.payload_too_large=body_too_large", "errors.codes.uri_too_long=target_too_long",
                "errors.codes.unsupported_media_type=unknown_coding", "errors.codes.not_implemented=unknown_transfer_coding", "errors.codes.misdirected_request=wrong_host",
                "errors.codes.headers_too_large=head_too_large", "errors.codes.internal_error=server_failure",
            ]),
        ]),
    change("key-order", Aspect::Keys, "the keys of each JSON object come in the reverse order",
        "not shown; RFC 8259 section 4: an object is unordered",
        CALL, &["variation.key_order=reversed"], &[
            part("answers", &["variation.key_order=reversed", "variation.bodies=answers"]),
            part("errors", &["variation.key_order=reversed", "variation.bodies=errors"]),
            part("events", &["variation.key_order=reversed", "variation.bodies=events"]),
        ]),
    change("extra-fields", Aspect::Keys, "each JSON object has fields that the contract does not name",
        "Errors: the shape may gain fields; compatibility guarantees are not shown",
        CALL, &["variation.unknown_fields=true"], &[
            part("answers", &["variation.unknown_fields=true", "variation.bodies=answers"]),
            part("errors", &["variation.unknown_fields=true", "variation.bodies=errors"]),
            part("events", &["variation.unknown_fields=true", "variation.bodies=events"]),
        ]),
    change("extra-headers", Aspect::Header, "answers have headers that the contract does not name; Retry-After is a date",
        "Limits: two headers are named; others are neither promised nor excluded",
        CALL, &[], &[
            part("X-Request-Id", &["ids.request_header=X-Request-Id"]),
            part("X-RateLimit-Reset", &["rate_limit.reset=epoch"]),
            part("RateLimit and RateLimit-Policy", &["rate_limit.ietf=true"]),
            part("Retry-After", &["rate_limit.retry_after=date"]),
        ]),
    change("long-ids", Aspect::Id, "ids have 64 letters, digits, _ and - after the prefix",
        "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        CALL, &["ids.style=longest"], &[]),
    change("short-ids", Aspect::Id, "ids are eight digits after the prefix",
        "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        CALL, &["ids.style=counter"], &[]),
    change("whole-seconds", Aspect::Time, "timestamps have no fraction of a second",
        "timestamps are ISO 8601 in UTC; the fraction is not shown",
        CALL, &["time.precision=seconds"], &[]),
    change("nanoseconds", Aspect::Time, "timestamps have nine digits of a second",
        "timestamps are ISO 8601 in UTC; the fraction is not shown",
        CALL, &["time.precision=nanoseconds"], &[]),
    change("doubled-events", Aspect::Copies, "each event is delivered twice, with the same id",
        "Events: how often an event is delivered is not shown; the id identifies it",
        RECEIVE, &["webhooks.copies=2"], &[]),
    change("reordered-events", Aspect::Order, "of two events in a row, the first is held back by half a second, so the second comes first",
        "Events: their order is not shown",
        "let the command receive two events that are fired within half a second, while the clock runs", &["webhooks.swap=500ms"], &[]),
    change("malformed-status", Aspect::Status, "a body that is not JSON is answered with 400 instead of 422",
        "Endpoints: 422 for validation; a body that is not JSON is not shown",
        "let the command send a body that is not JSON", &["errors.malformed_json_status=400"], &[]),
    change("unpublished-shapes", Aspect::Keys, "objects whose fields the contract does not show have others",
        "the body of hello, dependency health and the payload of reference.matched are not shown",
        "let the command call GET /v1/hello, ask for include_checks=true, or receive reference.matched", &[], &[
            part("GET /v1/hello", &["hello.body={ version = \"1.3.2\", greeting = { text = \"hello\", language = \"en\" } }"]),
            part("include_checks=true", &["status.checks={ primary-store = { healthy = true, since = 0 } }"]),
            part("reference.matched", &["events.data={ \"reference.matched\" = { match = { reference = \"ref_{{ ulid() }}\" } } }"]),
        ]),
];

/// Most characters of a text that are shown.
const SHOWN: usize = 400;

/// What a client saw in one run, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) requests: Vec<RequestWhole>,
    pub(crate) deliveries: Vec<DeliveryWhole>,
    /// True if a clock was frozen.
    pub(crate) frozen: bool,
}

/// Where a change shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    Message,
    Code,
    /// In the names and order of the keys of objects.
    Keys,
    Header,
    Id,
    Time,
    Status,
    Copies,
    /// In the order of events.
    Order,
}

/// The first request that differs from the plain run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) what: String,
    /// The request of the plain run; `None` if the changed run has an additional one.
    plain: Option<String>,
    /// The request in its place in the changed run; `None` if it is missing.
    changed: Option<String>,
}

/// The changed answer or event that the client saw last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Exercised {
    pub(crate) what: String,
    /// The answer or the event; of a long one the beginning.
    pub(crate) text: String,
}

/// What shows in a run, as texts that two runs have in common unless something changed.
type Features = BTreeSet<String>;

/// True if the client saw anything of the change.
pub(crate) fn is_exercised(plain: &Record, changed: &Record, aspect: Aspect) -> bool {
    !changed.features(aspect).is_subset(&plain.features(aspect))
}

/// The first request that differs, and the changed answer or event that the client saw last before it.
pub(crate) fn compare(plain: &Record, changed: &Record, aspect: Aspect) -> (Option<Difference>, Option<Exercised>) {
    let (difference, before) = first_difference(plain, changed).unzip();
    (difference, last_sight(plain, changed, aspect, before.unwrap_or(usize::MAX)))
}

impl Record {
    /// What the whole run shows of one aspect.
    fn features(&self, aspect: Aspect) -> Features {
        let answers = self.requests.iter().flat_map(|request| of_answer(request, aspect));
        let events = self.deliveries.iter().flat_map(|delivery| of_event(delivery, aspect));
        let unusual = self.unusual(aspect).map(|_| "an unusual delivery".to_owned());
        answers.chain(events).chain(unusual).collect()
    }

    /// The first delivery of an event that came before, or that overtook another, if that is the aspect.
    fn unusual(&self, aspect: Aspect) -> Option<&DeliveryWhole> {
        let is_unusual = |one: &DeliveryWhole, later: &DeliveryWhole| match aspect {
            Aspect::Copies => one.event == later.event,
            // Times have one form, which sorts as text.
            Aspect::Order => one.event != later.event && one.first_at() > later.first_at(),
            _ => false,
        };
        self.deliveries.iter().enumerate().find_map(|(at, later)| {
            let mut earlier = self.deliveries[..at].iter();
            earlier.any(|one| one.subscription == later.subscription && is_unusual(one, later)).then_some(later)
        })
    }
}

fn title(request: &RequestWhole) -> String {
    format!("{} {}", request.row.method, request.row.target())
}

/// The request without what differs from run to run.
fn shape_of(request: &RequestWhole) -> String {
    shape(&format!("{}\n{}", title(request), request.body.as_text()))
}

fn of_answer(request: &RequestWhole, aspect: Aspect) -> Features {
    let answer = &request.answer;
    match aspect {
        Aspect::Header => answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect(),
        Aspect::Status => Features::from([format!("{} {}", shape_of(request), answer.status)]),
        Aspect::Copies | Aspect::Order => Features::new(),
        Aspect::Message | Aspect::Code | Aspect::Keys | Aspect::Id | Aspect::Time => {
            of_body(answer.body.as_text(), aspect)
        }
    }
}

fn of_event(delivery: &DeliveryWhole, aspect: Aspect) -> Features {
    match aspect {
        Aspect::Keys | Aspect::Id | Aspect::Time => of_body(delivery.body(), aspect),
        _ => Features::new(),
    }
}

fn of_body(body: &str, aspect: Aspect) -> Features {
    let mut found = Features::new();
    let value = || serde_json::from_str::<Value>(body).unwrap_or_default();
    let error = |value: Value, field: &str| value["error"][field].as_str().map(shape);
    match aspect {
        Aspect::Message => found.extend(error(value(), "message")),
        Aspect::Code => found.extend(error(value(), "code")),
        Aspect::Keys => add_keys(&value(), &mut found),
        _ => found.extend(WORD.find_iter(body).filter_map(|word| match Word::of(word.as_str()) {
            Word::Id(prefix) if aspect == Aspect::Id => Some((word.len() - prefix.len()).to_string()),
            Word::Time if aspect == Aspect::Time => Some(word.len().to_string()),
            _ => None,
        })),
    }
    found
}

/// Adds the keys of each object, in their order.
fn add_keys(value: &Value, found: &mut Features) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| add_keys(value, found)),
        Value::Object(fields) => {
            found.insert(fields.keys().map(String::as_str).collect::<Vec<_>>().join(","));
            fields.values().for_each(|value| add_keys(value, found));
        }
        _ => {}
    }
}

/// The last changed answer before the request at this place; without one, the first changed event.
fn last_sight(plain: &Record, changed: &Record, aspect: Aspect, before: usize) -> Option<Exercised> {
    let known = plain.features(aspect);
    let is_new = |features: Features| !features.is_subset(&known);
    let shown = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let earlier = &changed.requests[..before.min(changed.requests.len())];
    if let Some(request) = earlier.iter().rev().find(|request| is_new(of_answer(request, aspect))) {
        let answer = &request.answer;
        let names = answer.headers.iter().map(|(name, _)| name.as_str());
        let new_names: Vec<&str> = names.filter(|name| !known.contains(&name.to_ascii_lowercase())).collect();
        let text = if aspect == Aspect::Header { new_names.join(", ") } else { shown(answer.body.as_text()) };
        let what = format!("the answer {} to {} ({})", answer.status, title(request), request.row.id);
        return Some(Exercised { what, text });
    }
    let varied = || changed.deliveries.iter().find(|delivery| is_new(of_event(delivery, aspect)));
    let event = changed.unusual(aspect).or_else(varied)?;
    let what = format!("the delivery {} of {}", event.id, event.event_type);
    Some(Exercised { what, text: shown(event.body()) })
}

/// The first difference in the order of the changed run, and the place of its request there.
fn first_difference(plain: &Record, changed: &Record) -> Option<(Difference, usize)> {
    let keys = |record: &Record| -> BTreeSet<Option<String>> {
        record.requests.iter().map(|request| request.row.key.clone()).collect()
    };
    let (known, found) = (keys(plain), keys(changed));
    // Tests with their own keys may run at the same time, so each key is compared by itself; keys that are drawn anew by each run
    // have no counterpart, and everything is compared in one sequence.
    let groups = if found.is_subset(&known) { known.into_iter().map(Some).collect() } else { vec![None] };
    let differences = groups.iter().filter_map(|group| {
        let of = |record| of_key(record, group.as_ref());
        difference_of(&of(plain), &of(changed))
    });
    // Anything may have led to a request that is missing; of several, the first in the plain run is reported.
    let first = differences.min_by_key(|(_, [before, now])| (now.unwrap_or(usize::MAX), *before));
    first.map(|(difference, [_, now])| (difference, now.unwrap_or(usize::MAX)))
}

/// The requests of a key with their places; without a key, those of all keys.
fn of_key<'r>(record: &'r Record, key: Option<&Option<String>>) -> Vec<(usize, &'r RequestWhole)> {
    let all = record.requests.iter().enumerate();
    all.filter(|(_, request)| key.is_none_or(|key| *key == request.row.key)).collect()
}

/// The first difference, and the places of the two requests in their runs.
fn difference_of(
    plain: &[(usize, &RequestWhole)],
    changed: &[(usize, &RequestWhole)],
) -> Option<(Difference, [Option<usize>; 2])> {
    let at = (0..plain.len().max(changed.len())).find(|at| {
        let shape = |list: &[(usize, &RequestWhole)]| list.get(*at).map(|(_, request)| shape_of(request));
        shape(plain) != shape(changed)
    })?;
    let title_in = |list: &[(usize, &RequestWhole)]| list.get(at).map(|(_, request)| title(request));
    let nth = |list: &[(usize, &RequestWhole)]| {
        let own = title(list[at].1);
        let count = list[..=at].iter().filter(|(_, request)| title(request) == own).count();
        format!("{own} (number {count})")
    };
    let (one, other) = (title_in(plain), title_in(changed));
    let what = match (&one, &other) {
        (Some(one), Some(other)) if shape(one) == shape(other) => format!("{} has another body", nth(changed)),
        (Some(_), Some(_)) => format!("{} came instead of {}", nth(changed), nth(plain)),
        (Some(_), None) => format!("{} did not come any more", nth(plain)),
        _ => format!("{} came in addition", nth(changed)),
    };
    let places = [plain, changed].map(|list| list.get(at).map(|(place, _)| *place));
    Some((Difference { what, plain: one, changed: other }, places))
}

/// A timestamp such as `2026-01-31T09:30:00.000Z`, or a word.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.:+Z]*|[A-Za-z0-9_-]+")
        .expect("a test compiles it")
});
const PREFIXES: [&str; 7] = ["sub_", "evt_", "req_", "wf_", "ref_", "usr_", "dlv_"];
/// Words of at least this many characters with a digit in them count as random, and numbers of at least `LONG_NUMBER` as ports or
/// times.
const LONG_WORD: usize = 16;
const LONG_NUMBER: usize = 4;

/// What a match of [`WORD`] is.
enum Word {
    Time,
    /// An id, with its prefix.
    Id(&'static str),
    /// A word drawn by chance, or a large number.
    Drawn,
    Plain,
}

impl Word {
    fn of(word: &str) -> Self {
        let prefix = PREFIXES.into_iter().find(|prefix| word.len() > prefix.len() && word.starts_with(prefix));
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        match prefix {
            _ if word.contains(':') => Self::Time,
            Some(prefix) => Self::Id(prefix),
            None if digits == word.len() && digits >= LONG_NUMBER => Self::Drawn,
            None if digits > 0 && word.len() >= LONG_WORD => Self::Drawn,
            None => Self::Plain,
        }
    }
}

/// The text with each id, timestamp and drawn word replaced.
fn shape(text: &str) -> String {
    let replaced = |found: &Captures<'_>| match Word::of(&found[0]) {
        Word::Time => "TIME".to_owned(),
        Word::Id(prefix) => format!("{prefix}…"),
        Word::Drawn => "…".to_owned(),
        Word::Plain => found[0].to_owned(),
    };
    WORD.replace_all(text, replaced).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::{Layered, SETTINGS};

    fn with(settings: &[&str]) -> Layered {
        settings.iter().fold(Layered::default(), |layered, setting| {
            layered.with_assignment(setting, "test").unwrap_or_else(|problem| panic!("{setting}: {problem:?}"))
        })
    }

    #[test]
    fn each_part_is_valid_and_another_change_than_the_whole() {
        for change in CHANGES {
            let whole = with(&change.settings());
            for part in change.parts {
                let part = with(part.settings);
                assert!(part.profile() != Layered::default().profile() && part.profile() != whole.profile());
            }
        }
    }

    /// What one preset does at once, the changes do one by one.
    #[test]
    fn the_changes_cover_the_preset_hostile() {
        let hostile = Layered::default().with(|draft| draft.preset("hostile")).expect("the preset is valid");
        let covered: BTreeSet<&str> = CHANGES
            .iter()
            .flat_map(UnpromisedChange::settings)
            .map(|setting| setting.split('=').next().expect("a path"))
            .map(|path| {
                SETTINGS
                    .iter()
                    .find(|setting| path.starts_with(&setting.path))
                    .map_or(path, |setting| setting.path.as_str())
            })
            .collect();
        for setting in SETTINGS.iter().filter(|setting| hostile.source(&setting.path) == "preset hostile") {
            // Order by chance, and details of errors, which are one of the unknown fields.
            let other = ["webhooks.scatter", "errors.details"].contains(&setting.path.as_str());
            assert!(covered.contains(setting.path.as_str()) != other, "{}", setting.path);
        }
    }

    #[test]
    fn what_the_contract_publishes_stays() {
        for setting in CHANGES.iter().flat_map(UnpromisedChange::settings) {
            assert!(!setting.starts_with("errors.codes.unauthorized"), "{setting}");
            for kept in ["environment", "keys.", "rate_limit.header_names", "rate_limit.requests", "webhooks.scheme"] {
                assert!(!setting.starts_with(kept), "{setting}");
            }
        }
    }

    fn run(requests: &[(&str, &str, &str)]) -> Record {
        let request = |(at, (key, title, answer)): (usize, &(&str, &str, &str))| -> RequestWhole {
            let (method, rest) = title.split_once(' ').expect("method and target");
            let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
            let request = json!({
                "id": format!("req_{at}"), "at": "", "key": key, "method": method, "path": path, "status": 200, "reason": "",
                "latency_ms": 0.0, "generation": 1, "headers": [], "body": body,
                "answer": { "status": 200, "headers": [], "body": answer }, "warnings": [],
            });
            serde_json::from_value(request).expect("a request")
        };
        Record { requests: requests.iter().enumerate().map(request).collect(), ..Record::default() }
    }

    #[test]
    fn the_first_difference_is_named_with_what_led_there() {
        const ONE: &str = "{\"a\":1}";
        const MORE: &str = "{\"a\":1,\"b\":2}";
        let plain = run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_1", ONE), ("k", "POST /c x", ONE)]);
        for (changed, what, led) in [
            (run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_2", ONE), ("k", "POST /c x", ONE)]), None, None),
            (run(&[("k", "GET /a", MORE)]), Some("GET /b/sub_1 (number 1) did not come any more"), Some("req_0")),
            (
                run(&[("k", "GET /a", MORE), ("k", "GET /b/sub_2", MORE), ("k", "POST /c y", MORE)]),
                Some("POST /c (number 1) has another body"),
                Some("req_1"),
            ),
            (
                run(&[("k", "GET /a", MORE), ("k", "GET /a", MORE)]),
                Some("GET /a (number 2) came instead of GET /b/sub_1 (number 1)"),
                Some("req_0"),
            ),
            (
                run(&[("new", "GET /a", MORE), ("new", "GET /b/sub_2", ONE)]),
                Some("POST /c (number 1) did not come any more"),
                Some("req_0"),
            ),
            (
                run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_2", ONE), ("k", "POST /c x", ONE), ("k", "GET /a", ONE)]),
                Some("GET /a (number 2) came in addition"),
                None,
            ),
        ] {
            let (difference, sight) = compare(&plain, &changed, Aspect::Keys);
            assert_eq!(difference.as_ref().map(|difference| difference.what.as_str()), what);
            let has_led = sight.as_ref().is_some_and(|sight| led.is_some_and(|id| sight.what.contains(id)));
            assert_eq!((has_led, is_exercised(&plain, &changed, Aspect::Keys)), (led.is_some(), led.is_some()));
        }
    }

    #[test]
    fn keys_whose_tests_run_at_the_same_time_are_compared_by_themselves() {
        let plain = run(&[("a", "GET /1", ""), ("b", "GET /2", ""), ("a", "GET /3", "")]);
        let changed = run(&[("b", "GET /2", ""), ("a", "GET /1", ""), ("a", "GET /3", "")]);
        assert_eq!(compare(&plain, &changed, Aspect::Keys), (None, None));
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        for (text, expected) in [
            ("/v1/workflows/wf_01k9/cancel", "/v1/workflows/wf_…/cancel"),
            ("wf_a-b_c9,", "wf_…,"),
            ("http://127.0.0.1:54321/hooks?limit=10", "http://127.0.0.1:…/hooks?limit=10"),
            ("{\"at\":\"2026-01-31T09:30:00.123Z\"}", "{\"at\":\"TIME\"}"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "…"),
            ("workflow.completed", "workflow.completed"),
            ("a-word-without-any-digit", "a-word-without-any-digit"),
            ("sub_", "sub_"),
            ("Grüße 世界", "Grüße 世界"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }
}
