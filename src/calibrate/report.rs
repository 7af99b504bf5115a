//! Every setting with what was observed, compared with a profile; promises of the contract that were broken; and the profile that
//! makes the emulator answer as the service did.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::cassette::{CallKey, Cassette, Exchange, SUBSCRIPTION};
use super::evidence::{Observation, Unclear};
use super::infer::{infer, reason};
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
    pub settings: BTreeMap<&'static str, Observation>,
}

impl Report {
    /// Compares what a cassette and other sources show with the settings of a profile.
    pub fn new(cassette: &Cassette, others: &[OtherSource], profile: &Layered) -> Self {
        let mut broken: Vec<Broken> = Vec::new();
        for found in cassette.answered().filter_map(broken_promise) {
            if broken.iter().all(|other| other.clause != found.clause) {
                broken.push(found);
            }
        }
        Self {
            url: cassette.url.clone(),
            calls: cassette.calls.len(),
            stopped: cassette.stop(),
            data: ledger(profile).iter().map(|row| Row::of(row, cassette, others)).collect(),
            broken,
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
        for row in &self.data {
            let Some((observed, assumed)) = row.change() else { continue };
            let mut about = vec![format!("observed in {} on {date}", row.source), format!("assumed: {assumed}")];
            about.extend(row.clause.map(|clause| format!("contradicts the contract ({clause})")));
            about.extend(Some(row.detail.clone()).filter(|detail| !detail.is_empty()));
            text.push_str(&format!("\n# {}\n", about.join("; ").replace(char::is_control, " ")));
            // What goes with it, as the profile would take no key otherwise.
            let beside = match (row.setting, observed.as_str()) {
                ("keys.mode", Some("list")) => {
                    "# which keys are valid was not observed: add those that your tests use\nkeys.list = [\"sk_test_local\"]\n"
                }
                ("keys.live_prefix", Some("sk_test_")) => "keys.test_prefix = \"not_observed_\"\n",
                ("keys.test_prefix", Some("sk_live_")) => "keys.live_prefix = \"not_observed_\"\n",
                _ => "",
            };
            let values: Vec<(String, Value)> = match observed {
                Value::Object(entries) if BY_ENTRY.contains(&row.setting) => {
                    entries.into_iter().map(|(name, value)| (format!("{}.{name}", row.setting), value)).collect()
                }
                value => vec![(row.setting.to_owned(), value)],
            };
            for (path, value) in values.into_iter().filter(|(_, value)| !value.is_null()) {
                let value = toml::Value::try_from(&value).map_or_else(|_| String::new(), |value| value.to_string());
                text.push_str(&format!("{path} = {value}\n"));
            }
            text.push_str(beside);
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
    /// What calls and other sources show about a setting.
    fn of(setting: &LedgerRow, cassette: &Cassette, others: &[OtherSource]) -> Self {
        let by_calls = infer(cassette, setting.setting).map(|found| ("", found));
        let by_others =
            others.iter().filter_map(|other| Some((other.source, other.settings.get(setting.setting)?.clone())));
        let rows = by_calls.into_iter().chain(by_others).map(|(source, found)| Self::new(setting, source, found));
        let mut rows: Vec<Self> = rows.collect();
        // Another source was asked because calls do not tell, so its reason comes before theirs.
        rows.sort_by_key(|row| match row.result {
            _ if row.observed.is_some() => 0,
            RowResult::Contradicts => 1,
            RowResult::NotReached => 2,
            _ if !row.source.is_empty() => 3,
            _ => 4,
        });
        let mut rows = rows.into_iter();
        let Some(mut first) = rows.next() else {
            let reason = setting.observed_by.trim_start_matches("not by calls: ").to_owned();
            return Self::new(setting, "", Err(Unclear::NotObservable(reason)));
        };
        for other in rows {
            let says = match (&first.observed, &other.observed) {
                (Some(one), Some(second)) if alone(setting.setting, one) != alone(setting.setting, second) => {
                    second.to_string()
                }
                (Some(_), None) if other.clause.is_some() => other.detail,
                _ => continue,
            };
            let joint = if first.detail.is_empty() { "" } else { "; " };
            first.detail.push_str(&format!("{joint}{} says {says}", other.source));
        }
        first
    }

    fn new(setting: &LedgerRow, source: &str, found: Observation) -> Self {
        let mut row = Self {
            setting: setting.setting,
            result: RowResult::NotObservable,
            observed: None,
            expected: setting.value.clone(),
            differs: false,
            source: source.to_owned(),
            detail: String::new(),
            clause: None,
        };
        // Only a value that a profile may have can be written into one.
        let set = found.and_then(|seen| match alone(row.setting, &row.whole(&seen.value)) {
            Ok(profile) => Ok((seen, profile)),
            Err(reason) => Err(Unclear::NotObservable(reason)),
        });
        match set {
            Err(Unclear::NotObservable(reason)) => row.detail = reason,
            Err(Unclear::NotReached(reason)) => (row.result, row.detail) = (RowResult::NotReached, reason),
            Err(Unclear::Contradicts(clause, found)) => {
                (row.result, row.detail, row.clause) = (RowResult::Contradicts, found, Some(clause));
            }
            Ok((seen, profile)) => {
                row.differs = alone(row.setting, &row.expected).as_ref() != Ok(&profile);
                row.result = match seen.contradicts {
                    Some(_) => RowResult::Contradicts,
                    None if row.differs => RowResult::Differs,
                    None => RowResult::AsAssumed,
                };
                let calls: Vec<String> = seen.calls.iter().map(usize::to_string).collect();
                row.source = match &calls[..] {
                    [] => row.source,
                    [call] => format!("call {call}"),
                    [first, .., last] if calls.len() > 6 => format!("{} calls from {first} to {last}", calls.len()),
                    [first @ .., last] => format!("calls {} and {last}", first.join(", ")),
                };
                (row.observed, row.detail, row.clause) = (Some(seen.value), seen.note, seen.contradicts);
            }
        }
        row
    }

    /// An observed value with the entries that were not observed.
    fn whole(&self, observed: &Value) -> Value {
        match (&self.expected, observed) {
            (Value::Object(expected), Value::Object(observed)) if BY_ENTRY.contains(&self.setting) => {
                let mut whole = expected.clone();
                whole.extend(observed.clone());
                whole.retain(|_, value| !value.is_null());
                whole.into()
            }
            _ => observed.clone(),
        }
    }

    /// What was observed and what it is compared with, if they differ; of some maps only the entries that do.
    pub fn change(&self) -> Option<(Value, Value)> {
        let observed = self.observed.clone().filter(|_| self.differs)?;
        let Value::Object(mut entries) = observed else { return Some((observed, self.expected.clone())) };
        if !BY_ENTRY.contains(&self.setting) {
            return Some((entries.into(), self.expected.clone()));
        }
        entries.retain(|name, value| self.expected.get(name).unwrap_or(&Value::Null) != value);
        let was: Map<_, _> = entries.keys().map(|name| (name.clone(), self.expected[name.as_str()].clone())).collect();
        Some((entries.into(), was.into()))
    }
}

/// The promise about a call, beside settings, that its answer breaks.
fn broken_promise(call: &Exchange) -> Option<Broken> {
    let (status, clause) = promise(&call.name).filter(|_| call.status() != 429)?;
    let broken = |clause, what: String| {
        let observed = format!("{} {}: {what}", call.method, call.target);
        Some(Broken { clause, observed, call: call.number })
    };
    if call.status() != status {
        // A key that is refused may be the wrong one.
        let is_refused = status == 200 && matches!(call.status(), 401 | 403) && call.key == CallKey::Given;
        return if is_refused { None } else { broken(clause, format!("it was answered {}", call.status())) };
    }
    let content_type = call.header("content-type").unwrap_or("absent");
    if !content_type.starts_with("application/json") {
        return broken("All request and response bodies are JSON", format!("Content-Type is {content_type}"));
    }
    let object = call.object().unwrap_or_default();
    let (clause, object, fields): (_, _, &[&str]) = match call.name.as_str() {
        _ if status >= 400 => (
            "Errors: one top-level key, error, with code, message and request_id",
            call.error().filter(|_| object.len() == 1).unwrap_or_default(),
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
    if missing.is_empty() { None } else { broken(clause, format!("the {status} has no {}", missing.join(", "))) }
}

/// What there is no setting for: the order of checks, limits, headers.
fn notes(cassette: &Cassette) -> Vec<String> {
    const CALLS: [(&str, &[&str]); 7] = [
        ("an unknown path, without and with the key", &["unknown-path", "unknown-path-2"]),
        ("a method that the endpoint does not have, without and with the key", &["wrong-method", "wrong-method-2"]),
        ("a target of 8,300 bytes", &["long-target"]),
        ("a body of 1,100,000 bytes, then one of 70,000 unless that was read", &["long-body", "shorter-body"]),
        ("a list of 1,000 event types beside a wrong URL", &["long-list"]),
        ("a body with Content-Encoding gzip", &["coded"]),
        ("GET /v1/workflows", &["workflows"]),
    ];
    let mut notes = Vec::new();
    for (what, names) in CALLS {
        let made = cassette.calls.iter().filter(|call| names.contains(&call.name.as_str()));
        let mut answered: Vec<String> = made
            .map(|call| if call.answer.is_some() { call.status().to_string() } else { "no answer".to_owned() })
            .collect();
        match reason(cassette, names[0], "events").as_ref().map(|(_, reason)| reason.as_str()) {
            Ok("true") => answered.push("the list is refused".to_owned()),
            Ok("false") => answered.push("the list is taken".to_owned()),
            _ => {}
        }
        notes.extend((!answered.is_empty()).then(|| format!("{what}: {}", answered.join(", "))));
    }
    if let Some(headers) =
        cassette.answers("status").find_map(|call| call.answer.as_ref()).map(|answer| &answer.headers)
    {
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        notes.push(format!("headers of system status: {}", names.join(", ")));
    }
    let slowest = cassette.calls.iter().max_by_key(|call| call.took_ms);
    notes.extend(slowest.map(|call| format!("the slowest answer took {} ms ({})", call.took_ms, call.name)));
    notes
}
