//! Every setting with what was observed, compared with a profile; promises of the contract that were broken; and the profile that
//! makes the emulator answer as the service did.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::cassette::{CallKey, Cassette, Exchange, RecordedAnswer, SUBSCRIPTION};
use super::infer::{Seen, Unclear, infer, reason};
use super::plan::promise;
use crate::settings::{Draft, Layered, LedgerRow, Profile, ledger};
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
    /// The value that was observed; of some maps only the entries that were.
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
    Contradicts,
    Differs,
    AsAssumed,
    NotReached,
    NotObservable,
}

impl RowResult {
    /// Every result, with its words; what matters most comes first.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Contradicts, "contradicts the contract"),
        (Self::Differs, "observed: differs"),
        (Self::AsAssumed, "observed: as assumed"),
        (Self::NotReached, "not reached"),
        (Self::NotObservable, "not observable"),
    ];
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
            if found.is_empty() {
                let reason = row.observed_by.trim_start_matches("not by calls: ").to_owned();
                found.push(("", Err(Unclear::NotObservable(reason))));
            }
            // What was observed anywhere, else that calls were not made, else the last reason: another source was asked because
            // calls do not tell.
            let is_late = |found: &Result<_, _>| matches!(found, Err(Unclear::NotReached(_)));
            let place = |is: &dyn Fn(&Result<_, _>) -> bool| found.iter().position(|(_, found)| is(found));
            let at = place(&Result::is_ok).or_else(|| place(&is_late)).unwrap_or(found.len() - 1);
            let (source, found_first) = found.swap_remove(at);
            let mut chosen = Row::new(&row, source, found_first);
            for (source, other) in found {
                let other = Row::new(&row, source, other);
                let says = match (&chosen.observed, &other.observed) {
                    (Some(one), Some(second)) if alone(row.setting, one) != alone(row.setting, second) => {
                        second.to_string()
                    }
                    (Some(_), None) if other.clause.is_some() => other.detail,
                    _ => continue,
                };
                let joint = if chosen.detail.is_empty() { "" } else { "; " };
                chosen.detail = format!("{}{joint}{source} says {says}", chosen.detail);
            }
            chosen
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

    /// The profile: each setting that differs, with its source.
    pub fn profile(&self, cassette: &Cassette) -> String {
        let date = cassette.calls.last().map(|call| call.at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
        let calls = counted(self.calls as u64, "call");
        let mut text = format!(
            "#:schema ./profile.schema.json\n# What {} does where the contract is silent, by {calls} of `wrs-emulator calibrate` on {date}.\n\
             # What is not here was as assumed, or was not observed.\n",
            self.url,
        );
        for row in self.data.iter().filter(|row| row.differs) {
            let (Some(observed), Some((_, assumed))) = (&row.observed, row.change()) else { continue };
            let mut about = format!("observed in {} on {date}; assumed: {assumed}", row.source);
            if let Some(clause) = row.clause {
                write!(about, "; contradicts the contract ({clause})").expect("a String takes everything");
            }
            if !row.detail.is_empty() {
                write!(about, "; {}", row.detail).expect("a String takes everything");
            }
            writeln!(text, "\n# {}", about.replace(char::is_control, " ")).expect("a String takes everything");
            for (path, value) in row.assignments() {
                let value = toml::Value::try_from(&value).map_or_else(|_| String::new(), |value| value.to_string());
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

/// The settings whose entries are observed one by one. A null says that there is none.
const BY_ENTRY: [&str; 4] = ["errors.codes", "errors.messages", "rate_limit.header_names", "webhooks.custom"];

/// A profile with this setting alone, or why there can be none. The case of header names is not observed.
fn alone(setting: &str, value: &Value) -> Result<Arc<Profile>, String> {
    let mut draft = Draft::of(&Layered::default());
    let is_header = ["rate_limit.header_names", "ids.request_header"].contains(&setting);
    let lower = || value.to_string().to_lowercase().parse().unwrap_or_default();
    draft.value(setting, &if is_header { lower() } else { value.clone() }, "calibrate");
    let made = draft.finish_alone().map(|layered| Arc::clone(layered.profile()));
    made.map_err(|problems| format!("{value} cannot be set: {}", problems[0].message))
}

impl Row {
    fn new(row: &LedgerRow, source: &str, found: Result<Seen, Unclear>) -> Self {
        let expected = row.value.clone();
        let mut new = Self {
            setting: row.setting,
            result: RowResult::NotObservable,
            observed: None,
            expected,
            differs: false,
            source: source.to_owned(),
            detail: String::new(),
            clause: None,
        };
        let whole = |seen: &Seen| match (&row.value, &seen.value) {
            (Value::Object(expected), Value::Object(seen)) if BY_ENTRY.contains(&row.setting) => {
                let mut whole = expected.clone();
                whole.extend(seen.clone());
                whole.retain(|_, value| !value.is_null());
                whole.into()
            }
            (_, seen) => seen.clone(),
        };
        // Only a value that a profile may have can be written into one.
        let set = |seen: Seen| match alone(row.setting, &whole(&seen)) {
            Ok(profile) => Ok((seen, profile)),
            Err(reason) => Err(Unclear::NotObservable(reason)),
        };
        match found.and_then(set) {
            Err(Unclear::NotObservable(reason)) => new.detail = reason,
            Err(Unclear::NotReached(reason)) => (new.result, new.detail) = (RowResult::NotReached, reason),
            Err(Unclear::Contradicts(clause, found)) => {
                (new.result, new.detail, new.clause) = (RowResult::Contradicts, found, Some(clause));
            }
            Ok((seen, profile)) => {
                new.differs = alone(row.setting, &row.value).as_ref() != Ok(&profile);
                new.result = match seen.contradicts {
                    Some(_) => RowResult::Contradicts,
                    None if new.differs => RowResult::Differs,
                    None => RowResult::AsAssumed,
                };
                let calls: Vec<String> = seen.calls.iter().map(usize::to_string).collect();
                match calls.as_slice() {
                    [] => {}
                    [call] => new.source = format!("call {call}"),
                    [first @ .., last] if first.len() < 6 => {
                        new.source = format!("calls {} and {last}", first.join(", "));
                    }
                    [first, .., last] => new.source = format!("{} calls from {first} to {last}", calls.len()),
                }
                (new.observed, new.detail, new.clause) = (Some(seen.value), seen.note, seen.contradicts);
            }
        }
        new
    }

    /// What was observed and what it is compared with, if they differ; of some maps only the entries that do.
    pub fn change(&self) -> Option<(Value, Value)> {
        let observed = self.observed.as_ref().filter(|_| self.differs)?;
        let Some(entries) = self.differing() else { return Some((observed.clone(), self.expected.clone())) };
        let was: Map<_, _> = entries.keys().map(|name| (name.clone(), self.expected[name.as_str()].clone())).collect();
        Some((entries.into(), was.into()))
    }

    /// The entries that differ, if they are observed one by one.
    fn differing(&self) -> Option<Map<String, Value>> {
        let mut entries = self.observed.as_ref()?.as_object()?.clone();
        entries.retain(|name, value| self.expected.get(name).unwrap_or(&Value::Null) != value);
        BY_ENTRY.contains(&self.setting).then_some(entries)
    }

    /// What a profile needs to have the value that was observed.
    fn assignments(&self) -> Vec<(String, Value)> {
        match self.differing() {
            Some(entries) => {
                let set = entries.into_iter().filter(|(_, value)| !value.is_null());
                set.map(|(name, value)| (format!("{}.{name}", self.setting), value)).collect()
            }
            None => self.observed.iter().map(|value| (self.setting.to_owned(), value.clone())).collect(),
        }
    }
}

/// Promises about calls that no setting is about, each once.
fn broken(cassette: &Cassette) -> Vec<Broken> {
    let mut broken: Vec<Broken> = Vec::new();
    for (exchange, answer) in cassette.answered() {
        let Some((clause, observed)) = breaks(exchange, answer) else { continue };
        if broken.iter().all(|other| other.clause != clause) {
            let observed = format!("{} {}: {observed}", exchange.method, exchange.target);
            broken.push(Broken { clause, observed, call: exchange.number });
        }
    }
    broken
}

/// The clause that an answer breaks, and how.
fn breaks(exchange: &Exchange, answer: &RecordedAnswer) -> Option<(&'static str, String)> {
    let (status, clause) = promise(&exchange.name).filter(|_| answer.status != 429)?;
    if answer.status != status {
        // A key that is refused may be the wrong one.
        let is_refused = status == 200 && matches!(answer.status, 401 | 403) && exchange.key == CallKey::Given;
        return (!is_refused).then(|| (clause, format!("it was answered {}", answer.status)));
    }
    let content_type = answer.header("content-type").unwrap_or("absent");
    if !content_type.starts_with("application/json") {
        return Some(("All request and response bodies are JSON", format!("Content-Type is {content_type}")));
    }
    let object = answer.object().unwrap_or_default();
    let error = answer.error().filter(|_| object.len() == 1);
    let (clause, object, fields): (_, _, &[&str]) = match exchange.name.as_str() {
        _ if status >= 400 => (
            "Errors: one top-level key, error, with code, message and request_id",
            error.unwrap_or_default(),
            &["code", "message", "request_id"],
        ),
        "status" | "checks" => (
            "Resources: system status has ok, environment, version and checked_at",
            object,
            &["ok", "environment", "version", "checked_at"],
        ),
        "subscribe" | "subscribe-again" => {
            ("Resources: a subscription has id, url, events, status and created_at", object, &SUBSCRIPTION)
        }
        _ => return None,
    };
    let missing: Vec<&str> = fields.iter().copied().filter(|name| !object.contains_key(*name)).collect();
    (!missing.is_empty()).then(|| (clause, format!("the {status} has no {}", missing.join(", "))))
}

/// What there is no setting for: the order of checks, limits, headers.
fn notes(cassette: &Cassette) -> Vec<String> {
    const CALLS: [(&str, [&str; 2]); 7] = [
        ("an unknown path, without and with the key", ["unknown-path", "unknown-path-2"]),
        ("a method that the endpoint does not have, without and with the key", ["wrong-method", "wrong-method-2"]),
        ("a long target", ["long-target"; 2]),
        ("a long body", ["long-body", "shorter-body"]),
        ("a list of 1,000 event types beside a wrong URL", ["long-list"; 2]),
        ("a body with Content-Encoding gzip", ["coded"; 2]),
        ("GET /v1/workflows", ["workflows"; 2]),
    ];
    let note = |(what, names): (&str, [&str; 2])| {
        let made = cassette.calls.iter().filter(|call| names.contains(&call.name.as_str()));
        let answered = made.map(|call| {
            let answer =
                call.answer.as_ref().map_or_else(|| "no answer".to_owned(), |answer| answer.status.to_string());
            match call.target.len().max(call.body_bytes) {
                bytes if bytes > 8_000 => format!("{bytes} bytes {answer}"),
                _ => answer,
            }
        });
        let mut answered: Vec<String> = answered.collect();
        match reason(cassette, names[0], "events").as_ref().map(|(_, reason)| reason.as_str()) {
            Ok("true") => answered.push("the list is refused".to_owned()),
            Ok("false") => answered.push("the list is taken".to_owned()),
            _ => {}
        }
        (!answered.is_empty()).then(|| format!("{what}: {}", answered.join(", ")))
    };
    let mut notes: Vec<String> = CALLS.into_iter().filter_map(note).collect();
    if let Some((_, answer)) = cassette.answers("status").next() {
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        notes.push(format!("headers of system status: {}", names.join(", ")));
    }
    let slowest = cassette.calls.iter().max_by_key(|call| call.took_ms);
    notes.extend(slowest.map(|call| format!("the slowest answer took {} ms ({})", call.took_ms, call.name)));
    notes
}
