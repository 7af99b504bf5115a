//! Results of inferences, and a call log as inferences see it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::call_log::{CallLog, Exchange, MAX_CALLS, is_masked};
use super::promises::{ERROR, HELLO, Promise, STATUS, SUBSCRIBE, SUBSCRIPTION, SYSTEM_STATUS, UNAUTHORIZED};

/// Why calls whose keys were not recorded show nothing together.
pub(super) const UNKNOWN_KEY: &str = "the recording does not show which calls have the same key";

/// The result for a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOutcome {
    Contradicts,
    Differs,
    AsAssumed,
    NotReached,
    NotObservable,
}

/// A value that was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub value: Value,
    /// Numbers of the calls that show it.
    pub calls: BTreeSet<usize>,
    /// Further details.
    pub note: String,
    /// The clause of the contract that it contradicts.
    pub clause: Option<&'static str>,
}

/// Why a setting has no value: it cannot be observed, the calls ended too early, or the answer contradicts the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    pub outcome: RowOutcome,
    pub reason: String,
    pub clause: Option<&'static str>,
}

pub type Observation = Result<Seen, Unclear>;

impl Seen {
    pub(super) fn new<'c>(value: impl Into<Value>, calls: impl IntoIterator<Item = &'c Exchange>) -> Self {
        let calls = calls.into_iter().map(|call| call.number).collect();
        Self { value: value.into(), calls, note: String::new(), clause: None }
    }

    pub(super) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(super) fn against(self, clause: &'static str, contradicts: bool) -> Self {
        Self { clause: contradicts.then_some(clause), ..self }
    }
}

pub(super) fn hidden<T>(reason: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear { outcome: RowOutcome::NotObservable, reason: reason.into(), clause: None })
}

pub(super) fn not_reached(reason: String) -> Unclear {
    Unclear { outcome: RowOutcome::NotReached, reason, clause: None }
}

pub(super) fn contradiction<T>(clause: &'static str, found: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear { outcome: RowOutcome::Contradicts, reason: found.into(), clause: Some(clause) })
}

/// An answer that no value of the setting makes.
pub(super) fn unlike_any<T>(call: &Exchange) -> Result<T, Unclear> {
    let Exchange { number, name, .. } = call;
    hidden(format!("call {number} (`{name}`) was answered {} as under no value of the setting", call.status()))
}

impl Exchange {
    /// The contract's promises about the fields of this answer.
    pub(super) fn promised(&self) -> impl Iterator<Item = &'static Promise> {
        let path = self.path();
        // Other statuses and paths are not of the contract, and may be answers of a proxy before the service.
        let has_envelope = || self.field("error").is_object();
        let is_published = [HELLO, STATUS, SUBSCRIBE].contains(&path);
        let (promises, further): (&[Promise], &[Promise]) = match (self.status(), self.method.as_str(), path) {
            // Answers of the announced token endpoint may have their own form.
            _ if self.name == "token" => (&[], &[]),
            (200, "GET", STATUS) => (SYSTEM_STATUS, &[]),
            (200, "POST", SUBSCRIBE) => (SUBSCRIPTION, &[]),
            (401, ..) if is_published || has_envelope() => (ERROR, UNAUTHORIZED),
            (422 | 429, ..) if is_published => (ERROR, &[]),
            (400.., ..) if has_envelope() => (ERROR, &[]),
            _ => (&[], &[]),
        };
        promises.iter().chain(further)
    }

    /// The promises about fields that the answer breaks, at most one about each field, and how.
    pub(super) fn breaches(&self) -> Vec<(&'static Promise, String)> {
        let body = self.json();
        let mut found: Vec<(&Promise, String)> = Vec::new();
        // That a body is not JSON is no matter of a field.
        for promise in self.promised().filter(|_| !body.is_null()) {
            // A missing value has no parts; the form of a masked value is not known.
            let is_covered = found.iter().any(|(known, _)| promise.field.starts_with(known.field));
            let is_hidden = body.pointer(promise.field).and_then(Value::as_str).is_some_and(is_masked);
            found.extend(promise.broken_by(&body).filter(|_| !is_covered && !is_hidden).map(|how| (promise, how)));
        }
        found
    }
}

impl CallLog {
    /// The advice, if the calls are those of the plan.
    pub(super) fn advice(&self, advice: &'static str) -> &'static str {
        if self.is_traffic { "" } else { advice }
    }

    /// Too little was observed: not reached if the calls ended early, else not observable.
    pub(super) fn too_little<T>(&self, reason: &str) -> Result<T, Unclear> {
        match self.stop() {
            Some(stop) if self.calls.len() < MAX_CALLS => Err(not_reached(format!("{reason}; {stop}"))),
            _ => hidden(reason),
        }
    }

    /// Why calls of this name do not show anything.
    pub(super) fn not_shown_by(&self, name: &str) -> Unclear {
        if self.is_traffic {
            return not_reached("the recording has no call that shows it".to_owned());
        }
        let skipped = name.starts_with("subscribe") && !self.subscribes;
        not_reached(match self.calls.iter().find(|call| call.name == name) {
            Some(Exchange { failed: Some(why), .. }) => format!("the call `{name}` had no answer: {why}"),
            Some(call) if !matches!(call.status(), 401 | 403 | 429) => {
                let reason = format!("the call `{name}` was answered {}", call.status());
                return Unclear { outcome: RowOutcome::NotObservable, ..not_reached(reason) };
            }
            None if skipped => "no subscription was to be made".to_owned(),
            _ => self.stop().unwrap_or_else(|| format!("the call `{name}` was not made")),
        })
    }

    /// The first call of this name with this status.
    pub(super) fn one(&self, name: &str, status: u16) -> Result<&Exchange, Unclear> {
        self.answers(name).find(|call| call.status() == status).ok_or_else(|| self.not_shown_by(name))
    }

    /// The value that each of these calls shows alike; without any, what stopped the call of this name.
    pub(super) fn agreed<'c, V: Into<Value>>(
        &self,
        name: &str,
        calls: impl IntoIterator<Item = &'c Exchange>,
        shows: impl Fn(&Exchange) -> Result<V, Unclear>,
    ) -> Observation {
        let mut seen: Option<Seen> = None;
        for call in calls {
            let value = shows(call)?.into();
            let seen = seen.get_or_insert_with(|| Seen::new(value.clone(), []));
            if seen.value != value {
                return hidden(format!("call {} (`{}`) shows another value than others", call.number, call.name));
            }
            seen.calls.insert(call.number);
        }
        seen.ok_or_else(|| self.not_shown_by(name))
    }

    /// The value that the calls of this name show.
    pub(super) fn shown_by<V: Into<Value>>(
        &self,
        name: &str,
        shows: impl Fn(&Exchange) -> Result<V, Unclear>,
    ) -> Observation {
        self.agreed(name, self.answers(name).filter(|call| call.status() != 429), shows)
    }

    /// The value that stands for the status of a call.
    pub(super) fn by_status<V: Into<Value> + Copy>(&self, name: &str, values: [(u16, V); 2]) -> Observation {
        self.shown_by(name, |call| match values.iter().find(|(status, _)| *status == call.status()) {
            Some((_, value)) => Ok(*value),
            None => unlike_any(call),
        })
    }

    /// Every error in the envelope; those of the token endpoint may have their own form.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&Exchange, Value)> {
        self.answered().filter(|call| call.name != "token").filter_map(|call| Some((call, call.error()?)))
    }

    /// The errors of validation.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&Exchange, Value)> {
        self.errors().filter(|(call, _)| call.status() == 422 && call.name != "subscribe-text")
    }
}
