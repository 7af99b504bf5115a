//! Every setting with what was observed, compared with a profile; promises of the contract that were broken; and the profile that
//! makes the emulator answer as the service did.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cassette::{Cassette, RecordedAnswer, SUBSCRIPTION};
use super::infer::{Seen, Unclear, infer};
use crate::contract::ids::IdKind;
use crate::settings::{Draft, Layered, LedgerRow, ledger};
use crate::util::duration::parse_duration;
use crate::util::wording::counted;

#[derive(Debug, Serialize)]
pub struct Report {
    pub url: String,
    pub calls: usize,
    /// What ended the calls early.
    pub stopped: Option<String>,
    /// One for each setting, in the order of the profile.
    pub data: Vec<Row>,
    /// Promises of the contract that the service did not keep.
    pub broken: Vec<Broken>,
    /// What was seen beside, for which there is no setting.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub setting: &'static str,
    pub result: RowResult,
    /// The value that was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Value>,
    /// The value that it is compared with.
    pub expected: Value,
    /// Whether another value was observed.
    pub differs: bool,
    /// Where it was observed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The reason, or what else there is to know.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The clause of the contract that it contradicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clause: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowResult {
    AsAssumed,
    Differs,
    Contradicts,
    NotObservable,
    NotReached,
}

impl RowResult {
    pub const fn words(self) -> &'static str {
        match self {
            Self::AsAssumed => "observed: as assumed",
            Self::Differs => "observed: differs",
            Self::Contradicts => "contradicts the contract",
            Self::NotObservable => "not observable",
            Self::NotReached => "not reached",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Broken {
    pub clause: &'static str,
    pub observed: String,
    pub call: usize,
}

/// What another source than calls shows about settings, and its name.
#[derive(Debug, Default)]
pub struct OtherSource {
    pub source: &'static str,
    pub settings: BTreeMap<&'static str, Result<Seen, Unclear>>,
}

impl Report {
    /// Compares what a cassette and other sources show with the settings of a profile. What calls show comes first.
    pub fn new(cassette: &Cassette, others: &[OtherSource], profile: &Layered) -> Self {
        let row = |row: LedgerRow| {
            let by_calls = infer(cassette, row.setting).map(|found| ("", found));
            let by_others =
                others.iter().filter_map(|shown| Some((shown.source, shown.settings.get(row.setting)?.clone())));
            let mut found: Vec<_> = by_calls.into_iter().chain(by_others).collect();
            // What was observed anywhere, else the last reason: another source was asked because calls do not tell.
            let at = found.iter().position(|(_, found)| found.is_ok()).unwrap_or(found.len().saturating_sub(1));
            let reason = row.observed_by.trim_start_matches("not by calls: ").to_owned();
            let (source, mut chosen) =
                if found.is_empty() { ("", Err(Unclear::NotObservable(reason))) } else { found.swap_remove(at) };
            let differs = |(other, found): &(_, Result<Seen, Unclear>), seen: &Seen| match found {
                Ok(second) if !agrees(row.setting, &seen.value, &second.value) => {
                    Some(format!("{other} says {}", second.value))
                }
                Err(Unclear::Contradicts(_, found)) => Some(format!("in {other} {found}")),
                _ => None,
            };
            if let Ok(seen) = &mut chosen
                && let Some(text) = found.iter().find_map(|other| differs(other, seen))
            {
                write!(seen.note, "{}{text}", if seen.note.is_empty() { "" } else { "; " })
                    .expect("a String takes everything");
            }
            Row::new(&row, source, chosen)
        };
        Self {
            url: cassette.url.clone(),
            calls: cassette.calls.len(),
            stopped: cassette.stop(),
            data: ledger(profile).into_iter().map(row).collect(),
            broken: broken(cassette),
            notes: notes(cassette),
        }
    }

    pub fn count(&self, result: RowResult) -> usize {
        self.data.iter().filter(|row| row.result == result).count()
    }

    /// The profile: each setting that differs, with its source.
    pub fn profile(&self, cassette: &Cassette) -> String {
        let date = cassette.calls.last().map(|call| call.at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
        let mut text = format!(
            "#:schema ./profile.schema.json\n# What {} does where the contract is silent, by {} of `wrs-emulator calibrate` on {date}.\n\
             # What is not here was as assumed, or was not observed.\n",
            self.url,
            counted(self.calls as u64, "call")
        );
        for row in self.data.iter().filter(|row| row.differs) {
            let Some(observed) = &row.observed else { continue };
            let by = if row.source.is_empty() { String::new() } else { format!(" in {}", row.source) };
            let note =
                [row.clause.map(|clause| format!("contradicts the contract ({clause})")), Some(row.detail.clone())];
            let note: String =
                note.into_iter().flatten().filter(|note| !note.is_empty()).map(|note| format!("; {note}")).collect();
            let assumed = format!("; assumed: {}", row.shown().1);
            writeln!(text, "\n# observed{by} on {date}{assumed}{}", note.escape_debug())
                .expect("a String takes everything");
            for (path, value) in lines(row.setting, observed, &row.expected) {
                writeln!(text, "{path} = {value}").expect("a String takes everything");
            }
            // What goes with it, as the profile would take no key otherwise.
            text.push_str(match (row.setting, observed.as_str()) {
                ("keys.mode", Some("list")) => {
                    "# which keys are valid was not observed: add those that your tests use\nkeys.list = [\"sk_test_local\"]\n"
                }
                ("keys.live_prefix", Some("sk_test_")) => "keys.test_prefix = \"not_observed_\"\n",
                ("keys.test_prefix", Some("sk_live_")) => "keys.live_prefix = \"not_observed_\"\n",
                _ => "",
            });
        }
        text
    }
}

/// The settings whose entries are observed one by one.
const BY_ENTRY: [&str; 4] = ["errors.codes", "errors.messages", "rate_limit.header_names", "webhooks.custom"];

/// The entries of a map that differ.
fn differing<'v>(setting: &str, observed: &'v Map<String, Value>, expected: &Value) -> Vec<(&'v String, &'v Value)> {
    let agrees = |name: &String, value: &Value| agrees(setting, &json!({ name.as_str(): value }), expected);
    observed.iter().filter(|(name, value)| !agrees(name, value)).collect()
}

/// The assignments of a value: of some settings only the entries that differ.
fn lines(setting: &str, observed: &Value, expected: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| toml::Value::try_from(value).map_or_else(|_| String::new(), |value| value.to_string());
    match observed {
        Value::Object(entries) if BY_ENTRY.contains(&setting) => {
            let entries = differing(setting, entries, expected).into_iter().filter(|(_, value)| !value.is_null());
            entries.map(|(name, value)| (format!("{setting}.{name}"), text(value))).collect()
        }
        _ => vec![(setting.to_owned(), text(observed))],
    }
}

/// Whether a value is like that of a profile.
fn agrees(setting: &str, observed: &Value, expected: &Value) -> bool {
    match (observed, expected) {
        (Value::Object(observed), Value::Object(expected)) if BY_ENTRY.contains(&setting) => {
            let same = |(name, value): (&String, &Value)| match (value, expected.get(name).unwrap_or(&Value::Null)) {
                (Value::String(one), Value::String(other)) if setting == "rate_limit.header_names" => {
                    one.eq_ignore_ascii_case(other)
                }
                (one, other) => one == other,
            };
            observed.iter().all(same)
        }
        (Value::String(one), Value::String(other)) => match setting {
            "rate_limit.window" => parse_duration(one) == parse_duration(other),
            "ids.request_header" => one.eq_ignore_ascii_case(other),
            _ => one == other,
        },
        (Value::Object(one), Value::Object(other)) => same_fields(one, other),
        // A scheme may be written without its list.
        (one, Value::Array(others)) if others.len() == 1 && !one.is_array() => *one == others[0],
        (one, other) => one == other,
    }
}

fn same_fields(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.len() == other.len() && one.iter().all(|(name, value)| other.get(name) == Some(value))
}

impl Row {
    /// What was observed and what it is compared with, as texts; of some maps only the entries that differ.
    pub fn shown(&self) -> (Option<String>, String) {
        match (&self.observed, &self.expected) {
            (Some(Value::Object(observed)), expected) if self.differs && BY_ENTRY.contains(&self.setting) => {
                let entries = differing(self.setting, observed, expected);
                let was = entries.iter().map(|(name, _)| ((*name).clone(), expected[name.as_str()].clone()));
                let is = entries.iter().map(|(name, value)| ((*name).clone(), (*value).clone()));
                (Some(is.collect::<Value>().to_string()), was.collect::<Value>().to_string())
            }
            (observed, expected) => (observed.as_ref().map(Value::to_string), expected.to_string()),
        }
    }

    fn new(row: &LedgerRow, source: &str, found: Result<Seen, Unclear>) -> Self {
        let without = |result, detail, clause| Self {
            setting: row.setting,
            result,
            observed: None,
            expected: row.value.clone(),
            differs: false,
            source: source.to_owned(),
            detail,
            clause,
        };
        let seen = match found.and_then(|seen| settable(row.setting, seen)) {
            Ok(seen) => seen,
            Err(Unclear::NotObservable(reason)) => return without(RowResult::NotObservable, reason, None),
            Err(Unclear::NotReached(reason)) => return without(RowResult::NotReached, reason, None),
            Err(Unclear::Contradicts(clause, found)) => return without(RowResult::Contradicts, found, Some(clause)),
        };
        let differs = !agrees(row.setting, &seen.value, &row.value);
        let result = match seen.contradicts {
            Some(_) => RowResult::Contradicts,
            None if differs => RowResult::Differs,
            None => RowResult::AsAssumed,
        };
        let calls: Vec<String> = seen.calls.iter().map(usize::to_string).collect();
        let calls = match calls.as_slice() {
            [] => source.to_owned(),
            [call] => format!("call {call}"),
            [first @ .., last] if first.len() < 6 => format!("calls {} and {last}", first.join(", ")),
            [first, .., last] => format!("{} calls from {first} to {last}", calls.len()),
        };
        Self {
            observed: Some(seen.value),
            differs,
            source: calls,
            detail: seen.note,
            clause: seen.contradicts,
            ..without(result, String::new(), None)
        }
    }
}

/// Only a value that a profile may have can be written into one.
fn settable(setting: &str, seen: Seen) -> Result<Seen, Unclear> {
    let mut value = seen.value.clone();
    if let Value::Object(entries) = &mut value
        && BY_ENTRY.contains(&setting)
    {
        entries.retain(|_, value| !value.is_null());
    }
    let mut draft = Draft::of(&Layered::default());
    draft.value(setting, &value, "calibrate");
    let checked = draft.finish_alone();
    match checked {
        Ok(_) => Ok(seen),
        Err(problems) => Err(Unclear::NotObservable(format!("{value} cannot be set: {}", problems[0].message))),
    }
}

/// A clause, the calls that show whether it is kept, and what an answer that does not keep it is like.
type Promise = (&'static str, &'static [&'static str], fn(&RecordedAnswer) -> Option<String>);

fn unlike(expected: u16, answer: &RecordedAnswer) -> Option<String> {
    let is_other = answer.status != expected && answer.status != 429;
    is_other.then(|| format!("it was answered {}", answer.status))
}

fn lacks(object: &Map<String, Value>, fields: &[&str]) -> Option<String> {
    let missing: Vec<&str> = fields.iter().copied().filter(|name| !object.contains_key(*name)).collect();
    (!missing.is_empty()).then(|| format!("the answer has no {}", missing.join(", ")))
}

fn lacks_if_ok(answer: &RecordedAnswer, fields: &[&str]) -> Option<String> {
    lacks(&answer.object().unwrap_or_default(), fields).filter(|_| answer.status == 200)
}

fn other_error(answer: &RecordedAnswer) -> Option<String> {
    let has_one_key = answer.object().is_some_and(|object| object.len() == 1);
    let Some(error) = answer.error().filter(|_| has_one_key) else {
        return (answer.status >= 400).then(|| format!("the {} has another form", answer.status));
    };
    lacks(&error, &["code", "message", "request_id"])
}

fn other_id(answer: &RecordedAnswer) -> Option<String> {
    let error = answer.error()?;
    let id = error.get("request_id")?.as_str()?;
    (!id.starts_with(IdKind::Request.prefix())).then(|| format!("it is `{}`", id.escape_debug()))
}

fn other_type(answer: &RecordedAnswer) -> Option<String> {
    let content_type = answer.header("content-type").unwrap_or("absent");
    (!content_type.starts_with("application/json")).then(|| format!("Content-Type is {content_type}"))
}

/// Promises that no setting is about.
#[rustfmt::skip]
const PROMISES: &[Promise] = &[
    ("GET /v1/hello: no Bearer token is needed", &["hello"], |answer| unlike(200, answer)),
    ("GET /v1/system/status: 401 when the Bearer token is missing or invalid", &["no-key", "other-scheme"], |answer| unlike(401, answer)),
    ("GET /v1/system/status: 200 when the key is valid", &["status", "checks"], |answer| unlike(200, answer)),
    ("GET /v1/system/status: 422 when query parameters fail validation", &["bad-boolean"], |answer| unlike(422, answer)),
    ("POST /v1/events/subscribe: 422 for an invalid URL, an empty events list, or an unsupported event type",
        &["no-events", "http-url", "ftp-url", "unknown-event"], |answer| unlike(422, answer)),
    ("POST /v1/events/subscribe: 200 when a subscription is created or updated", &["subscribe", "subscribe-again"],
        |answer| unlike(200, answer)),
    ("Resources: system status has ok, environment, version and checked_at", &["status"],
        |answer| lacks_if_ok(answer, &["ok", "environment", "version", "checked_at"])),
    ("Resources: a subscription has id, url, events, status and created_at", &["subscribe", "subscribe-again"],
        |answer| lacks_if_ok(answer, &SUBSCRIPTION)),
    ("Errors: one top-level key, error, with code, message and request_id",
        &["no-key", "other-scheme", "bad-boolean", "malformed", "no-events", "unknown-event", "exhaust"], other_error),
    ("Errors: request_id has the form req_<id>", &["no-key", "bad-boolean"], other_id),
    ("All request and response bodies are JSON", &["hello", "no-key", "status", "bad-boolean", "subscribe"], other_type),
];

fn broken(cassette: &Cassette) -> Vec<Broken> {
    let answers: Vec<_> = cassette.answered().collect();
    let of = |(clause, names, check): &Promise| {
        let mut made = answers.iter().filter(|(exchange, _)| names.contains(&exchange.name.as_str()));
        made.find_map(|(exchange, answer)| {
            let observed = check(answer)?;
            Some(Broken {
                clause,
                observed: format!("{} {}: {observed}", exchange.method, short(&exchange.target)),
                call: exchange.number,
            })
        })
    };
    PROMISES.iter().filter_map(of).collect()
}

fn short(target: &str) -> &str {
    target.get(..60).unwrap_or(target)
}

/// What there is no setting for.
fn notes(cassette: &Cassette) -> Vec<String> {
    let status = |name| cassette.status_of(name).map_or_else(|| "not asked".to_owned(), |status| status.to_string());
    let mut notes = vec![
        format!(
            "order of checks: an unknown path is answered {} without a key and {} with it",
            status("unknown-path"),
            status("unknown-path-2")
        ),
        format!(
            "a method that the endpoint does not have: {} without a key, {} with it",
            status("wrong-method"),
            status("wrong-method-2")
        ),
        format!(
            "a target of 8 KiB: {}; a body with Content-Encoding gzip: {}; GET /v1/workflows: {}",
            status("long-target"),
            status("coded"),
            status("workflows")
        ),
    ];
    if let Some((_, answer)) = cassette.answers("status").next() {
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        notes.push(format!("headers of system status: {}", names.join(", ")));
    }
    if let Some(id) = cassette
        .answers("no-key")
        .find_map(|(_, answer)| answer.error()?.get("request_id")?.as_str().map(str::to_owned))
    {
        notes.push(format!("ids are like {id}, {} characters", id.chars().count()));
    }
    let slowest = cassette.calls.iter().max_by_key(|call| call.took_ms);
    notes.extend(slowest.map(|call| format!("the slowest answer took {} ms ({})", call.took_ms, call.name)));
    notes
}
