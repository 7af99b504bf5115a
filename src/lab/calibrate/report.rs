//! Every setting with its observed value, compared with a profile; promises of the contract that were broken; and the profile that
//! makes the emulator answer as the service did.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::call_log::{CallKey, CallLog, Exchange};
use super::evidence::{Observation, RowOutcome, hidden};
use super::infer::{infer, reason};
use super::plan::step;
use crate::contract::keys::{KeyRules, check_key};
use crate::redact::visible;
use crate::settings::{Draft, Layered, LedgerRow, Profile, ledger};
use crate::util::wording::counted;

/// Maximum number of calls that showed nothing that are named.
const MAX_NAMED: usize = 6;

#[derive(Debug, Serialize)]
pub struct Report {
    pub url: String,
    pub calls: usize,
    /// The reason why the calls ended early.
    pub stopped: Option<String>,
    /// One for each setting, in the order of the profile.
    pub data: Vec<Row>,
    /// Promises of the contract that the service did not keep.
    pub broken: Vec<Broken>,
    /// Observations that no setting covers.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub setting: Cow<'static, str>,
    pub result: RowOutcome,
    /// The value that was observed; of some maps only the entries that were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Value>,
    /// The value that it is compared with, and where that comes from.
    pub expected: Value,
    pub expected_from: String,
    /// True if another value was observed.
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
    /// The calls that showed the value.
    #[serde(skip)]
    calls: BTreeSet<usize>,
}

#[derive(Debug, Serialize)]
pub struct Broken {
    pub clause: &'static str,
    pub observed: String,
    pub call: usize,
}

/// Results about settings from a source other than calls, and its name.
#[derive(Debug, Default)]
pub struct OtherSource {
    pub source: &'static str,
    pub settings: BTreeMap<&'static str, Observation>,
}

impl Report {
    /// Compares what a call log and other sources show with the settings of a profile.
    pub fn new(call_log: &CallLog, others: &[OtherSource], profile: &Layered) -> Self {
        let mut broken: Vec<Broken> = call_log.answered().flat_map(broken_promises).collect();
        let data: Vec<Row> = ledger(profile).iter().map(|row| Row::of(row, call_log, others)).collect();
        let used: BTreeSet<usize> =
            data.iter().flat_map(|row| &row.calls).copied().chain(broken.iter().map(|broken| broken.call)).collect();
        let mut clauses = BTreeSet::new();
        broken.retain(|found| clauses.insert(found.clause));
        Self {
            url: call_log.url.clone(),
            calls: call_log.calls.len(),
            stopped: call_log.stop(),
            data,
            broken,
            notes: notes(call_log).into_iter().chain(unused(call_log, &used)).collect(),
        }
    }

    /// The profile: each setting that differs, with its source.
    pub fn profile(&self, call_log: &CallLog) -> String {
        let date = call_log.calls.last().map(|call| call.at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
        let calls = counted(self.calls as u64, "call");
        let by = if call_log.is_traffic {
            "a recording read by `wrs-emulator calibrate`"
        } else {
            "`wrs-emulator calibrate`"
        };
        let about = format!("What {} does where the contract is silent, by {calls} of {by} on {date}.", self.url);
        let mut text = format!(
            "#:schema ./profile.schema.json\n{}{}",
            comment(&about),
            comment("What is not here was as assumed, or was not observed.")
        );
        for row in &self.data {
            let Some((observed, assumed)) = row.change() else { continue };
            let mut about = vec![format!("observed in {} on {date}", row.source), format!("assumed: {assumed}")];
            about.extend(row.clause.map(|clause| format!("contradicts the contract ({clause})")));
            about.extend(Some(row.detail.clone()).filter(|detail| !detail.is_empty()));
            text.push_str(&format!("\n{}", comment(&about.join("; "))));
            // A list of no keys, and two equal prefixes, are refused.
            text.push_str(match (&*row.setting, observed.as_str()) {
                ("keys.mode", Some("list")) => "keys.list = [\"sk_test_local\"]\n",
                ("keys.live_prefix", Some("sk_test_")) => "keys.test_prefix = \"not_observed_\"\n",
                ("keys.test_prefix", Some("sk_live_")) => "keys.live_prefix = \"not_observed_\"\n",
                _ => "",
            });
            let values: Vec<(String, Value)> = match observed {
                Value::Object(entries) if BY_ENTRY.contains(&&*row.setting) => {
                    entries.into_iter().map(|(name, value)| (format!("{}.{name}", row.setting), value)).collect()
                }
                value => vec![(row.setting.to_string(), value)],
            };
            for (path, value) in values.into_iter().filter(|(_, value)| !value.is_null()) {
                let value = toml::Value::try_from(&value).map_or_else(|_| String::new(), |value| value.to_string());
                text.push_str(&format!("{path} = {value}\n"));
            }
        }
        if refuses_key(&text, call_log) { text + REFUSES_KEY } else { text }
    }
}

/// A comment line of a profile. What a service or a call log says stays in it: TOML ends a comment at a line end, and refuses other
/// control characters.
fn comment(text: &str) -> String {
    format!("# {}\n", visible(text))
}

/// The end of a profile under which the key that calibrated may not be valid.
pub const REFUSES_KEY: &str = "\n# This profile may refuse the key with which it was made, because the calls do not show which keys are valid.\n\
    # Set keys.mode to \"list\", and keys.list to the keys that your tests use; or keys.mode to \"any\".\n";

/// True if the key that calibrated is refused under a profile, as far as is known of it.
fn refuses_key(profile: &str, call_log: &CallLog) -> bool {
    let Ok(layered) = Layered::default().with(|draft| draft.text(profile, "calibrate")) else { return false };
    let profile = layered.profile();
    let key = format!("{}key", call_log.key_prefix.as_ref().unwrap_or(&call_log.assumed_prefix));
    check_key(&key, KeyRules { environment: profile.environment, keys: &profile.keys }).is_err()
}

/// The settings whose entries are observed one by one. A null says that there is none.
const BY_ENTRY: [&str; 4] = ["errors.codes", "errors.messages", "rate_limit.header_names", "webhooks.custom"];

/// A profile with this setting alone, or why there can be none. The case of header names is not observed.
fn alone(setting: &str, value: &Value) -> Result<Arc<Profile>, String> {
    let is_header = ["rate_limit.header_names", "ids.request_header"].contains(&setting);
    let lower = || value.to_string().to_lowercase().parse().unwrap_or_default();
    let mut set = if is_header { lower() } else { value.clone() };
    if let Value::Object(entries) = &mut set
        && BY_ENTRY.contains(&setting)
    {
        entries.retain(|_, value| !value.is_null());
    }
    let mut draft = Draft::of(&Layered::default());
    draft.value(setting, &set, "calibrate");
    let made = draft.finish_alone().map(|layered| Arc::clone(layered.profile()));
    made.map_err(|problems| format!("{value} cannot be set: {}", problems[0].message))
}

impl Row {
    /// Results about a setting from calls and other sources.
    fn of(setting: &LedgerRow, call_log: &CallLog, others: &[OtherSource]) -> Self {
        let by_calls = infer(call_log, &setting.setting).map(|found| Self::new(setting, "", found));
        let by_others = others
            .iter()
            .filter_map(|other| Some(Self::new(setting, other.source, other.settings.get(&*setting.setting)?.clone())));
        let mut rows: Vec<Self> = by_calls.into_iter().chain(by_others).collect();
        // Another source was asked because calls do not show it, so its reason comes before theirs.
        rows.sort_by_key(|row| row.observed.is_none().then_some((row.result, row.source.is_empty())));
        let mut rows = rows.into_iter();
        let Some(mut first) = rows.next() else {
            return Self::new(setting, "", hidden(setting.observed_by.trim_start_matches("not by calls: ")));
        };
        for other in rows {
            let says = match (&first.observed, &other.observed) {
                (Some(one), Some(same)) if alone(&first.setting, one) == alone(&first.setting, same) => "the same",
                (Some(_), Some(second)) => &second.to_string(),
                (Some(_), None) if other.clause.is_some() => &other.detail,
                _ => continue,
            };
            let joint = if first.detail.is_empty() { "" } else { "; " };
            first.detail.push_str(&format!("{joint}{} says {says}", other.source));
        }
        first
    }

    fn new(setting: &LedgerRow, source: &str, found: Observation) -> Self {
        let mut row = Self {
            setting: setting.setting.clone(),
            result: RowOutcome::NotObservable,
            observed: None,
            expected: setting.value.clone(),
            expected_from: setting.source.clone(),
            differs: false,
            source: source.to_owned(),
            detail: String::new(),
            clause: None,
            calls: BTreeSet::new(),
        };
        // Only a value that a profile may have can be written into one.
        let set = found.and_then(|seen| match alone(&row.setting, &seen.value) {
            Ok(profile) => Ok((seen, profile)),
            Err(reason) => hidden(reason),
        });
        match set {
            Err(unclear) => (row.result, row.detail, row.clause) = (unclear.outcome, unclear.reason, unclear.clause),
            Ok((seen, profile)) => {
                if let (Value::Object(seen), Value::Object(expected)) = (&seen.value, &mut row.expected)
                    && BY_ENTRY.contains(&&*row.setting)
                {
                    let of = |name: &String| (name.clone(), expected.get(name).cloned().unwrap_or_default());
                    *expected = seen.keys().map(of).collect();
                }
                row.differs = alone(&row.setting, &row.expected).as_ref() != Ok(&profile);
                row.result = match seen.clause {
                    Some(_) => RowOutcome::Contradicts,
                    None if row.differs => RowOutcome::Differs,
                    None => RowOutcome::AsAssumed,
                };
                let calls: Vec<String> = seen.calls.iter().map(usize::to_string).collect();
                row.source = match &calls[..] {
                    [] => row.source,
                    [call] => format!("call {call}"),
                    [first, .., last] if calls.len() > 6 => format!("{} calls from {first} to {last}", calls.len()),
                    [first @ .., last] => format!("calls {} and {last}", first.join(", ")),
                };
                (row.observed, row.detail, row.clause) = (Some(seen.value), seen.note, seen.clause);
                row.calls = seen.calls;
            }
        }
        row
    }

    /// The observed and the compared value, if they differ; of some maps only the entries that do.
    pub fn change(&self) -> Option<(Value, Value)> {
        let (mut is, mut was) = (self.observed.clone().filter(|_| self.differs)?, self.expected.clone());
        if let (Value::Object(is), Value::Object(was)) = (&mut is, &mut was)
            && BY_ENTRY.contains(&&*self.setting)
        {
            is.retain(|name, value| was.get(name) != Some(value));
            was.retain(|name, _| is.contains_key(name));
        }
        Some((is, was))
    }
}

/// The promises about a call that its answer breaks.
pub(super) fn broken_promises(call: &Exchange) -> Vec<Broken> {
    let broken = |clause, found| Broken {
        clause,
        observed: format!("{} {}: {found}", call.method, call.target.get(..60).unwrap_or(&call.target)),
        call: call.number,
    };
    let of_fields = call.breaches().into_iter().map(|(promise, how)| broken(promise.clause, how));
    let of_call = step(&call.name).and_then(|step| step.promise).and_then(|(status, clause)| {
        // A key that is refused may be the wrong one.
        let is_refused = status == 200 && matches!(call.status(), 401 | 403) && call.key == CallKey::Given;
        let content_type = call.header("content-type").unwrap_or("absent");
        let found = match call.status() {
            _ if call.status() == 429 || is_refused => return None,
            other if other != status => format!("it was answered {other}"),
            _ if !content_type.starts_with("application/json") => format!("Content-Type is {content_type}"),
            _ if call.json().is_null() && !call.is_cut() => "its body is not JSON".to_owned(),
            _ => return None,
        };
        Some(broken(clause, found))
    });
    of_call.into_iter().chain(of_fields).collect()
}

/// Observations without a setting: the order of checks, limits, headers.
fn notes(call_log: &CallLog) -> Vec<String> {
    let note = |call: &Exchange| {
        let status = if call.answer.is_some() { call.status().to_string() } else { "no answer".to_owned() };
        step(&call.name).filter(|step| !step.about.is_empty()).map(|step| format!("{}: {status}", step.about))
    };
    let mut notes: Vec<String> = call_log.calls.iter().filter_map(note).collect();
    match reason(call_log, "long-list", "events") {
        Ok((_, named)) if named == "true" => notes.push("1,000 event types are too many".to_owned()),
        Ok((_, named)) if named == "false" => notes.push("1,000 event types are not too many".to_owned()),
        _ => {}
    }
    if let Some(status) = call_log.answers("status").next() {
        let names: Vec<&str> = status.answer_headers().map(|(name, _)| name).collect();
        notes.push(format!("headers of system status: {}", names.join(", ")));
    }
    let slowest = call_log.calls.iter().max_by_key(|call| call.took_ms);
    notes.extend(slowest.map(|call| format!("the slowest answer took {} ms ({})", call.took_ms, call.name)));
    notes
}

/// The calls of a recording that showed nothing.
fn unused(call_log: &CallLog, used: &BTreeSet<usize>) -> Option<String> {
    if !call_log.is_traffic {
        return None;
    }
    let unused = call_log.calls.iter().filter(|call| !used.contains(&call.number));
    let unused =
        unused.map(|call| format!("{} {}", call.method, call.path())).chain(call_log.elsewhere.iter().cloned());
    let (mut count, mut names) = (0_usize, Vec::new());
    for name in unused {
        count += 1;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    names.truncate(MAX_NAMED);
    (count > 0).then(|| format!("{} showed nothing: {}{more}", counted(count as u64, "call"), names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The paths at which a table has values.
    fn paths(table: &toml::Table, before: &str) -> BTreeSet<String> {
        let entries = table.iter().map(|(name, value)| (format!("{before}{name}"), value));
        let below = |(path, value): (String, &toml::Value)| match value {
            toml::Value::Table(table) if path != "hello.body" => paths(table, &format!("{path}.")),
            _ => BTreeSet::from([path]),
        };
        entries.flat_map(below).collect()
    }

    /// Texts with what ends a comment, or is refused in one.
    fn odd_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            Just("\n".to_owned()),
            Just("\r\nwebhooks.timeout = \"1s\"\n".to_owned()),
            Just("\0".to_owned()),
            Just("\u{7f}\u{85}\u{2028}\"\"\"'''#".to_owned()),
            ".{0,8}",
        ];
        proptest::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_profile_sets_what_was_observed_whatever_the_texts_are(texts in proptest::array::uniform5(odd_text())) {
            let [url, detail, source, message, field] = texts;
            let mut call_log = CallLog::new("http://localhost", "sk_test_a", 40, true, false);
            call_log.url.clone_from(&url);
            let row = |setting: &'static str, observed: Value| Row {
                setting: setting.into(),
                result: RowOutcome::Differs,
                observed: Some(observed),
                expected: Value::Null,
                expected_from: String::new(),
                differs: true,
                source: source.clone(),
                detail: detail.clone(),
                clause: None,
                calls: BTreeSet::new(),
            };
            let body = serde_json::json!({ (field.clone()): [{ (field): message.clone() }] });
            let data = vec![
                row("errors.messages", serde_json::json!({ "unauthorized": message })),
                row("hello.body", body.clone()),
                row("ids.style", "uuid".into()),
            ];
            let report = Report { url, calls: 1, stopped: None, data, broken: Vec::new(), notes: Vec::new() };
            let text = report.profile(&call_log);
            let table: toml::Table = text.parse().map_err(|error| TestCaseError::fail(format!("{error}: {text:?}")))?;
            let set = ["errors.messages.unauthorized", "hello.body", "ids.style"].map(str::to_owned);
            prop_assert_eq!(paths(&table, ""), BTreeSet::from(set), "{:?}", text);
            prop_assert_eq!(serde_json::to_value(&table["hello"]["body"]).expect("JSON"), body);
        }
    }
}
