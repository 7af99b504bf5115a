//! What an inference returns, and a cassette as inferences look at it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::cassette::{Cassette, Exchange};

/// A value that was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub value: Value,
    /// Numbers of the calls that show it.
    pub calls: BTreeSet<usize>,
    /// What else there is to know about it.
    pub note: String,
    /// The clause of the contract that it contradicts.
    pub contradicts: Option<&'static str>,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unclear {
    /// The answers do not tell.
    NotObservable(String),
    /// The calls that would tell were not made.
    NotReached(String),
    /// What was answered is against a clause of the contract, and no value of the setting is like it.
    Contradicts(&'static str, String),
}

pub type Observation = Result<Seen, Unclear>;

impl Seen {
    pub(super) fn new<'c>(value: impl Into<Value>, calls: impl IntoIterator<Item = &'c Exchange>) -> Self {
        let calls = calls.into_iter().map(|call| call.number).collect();
        Self { value: value.into(), calls, note: String::new(), contradicts: None }
    }

    pub(super) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(super) fn against(self, clause: &'static str, contradicts: bool) -> Self {
        Self { contradicts: contradicts.then_some(clause), ..self }
    }
}

pub(super) fn hidden<T>(reason: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear::NotObservable(reason.into()))
}

/// An answer as no value of the setting makes it.
pub(super) fn unlike_any<T>(call: &Exchange) -> Result<T, Unclear> {
    hidden(format!(
        "call {} (`{}`) was answered {} as under no value of the setting",
        call.number,
        call.name,
        call.status()
    ))
}

impl Cassette {
    /// The reason if calls ended before they showed something; otherwise they do not show it.
    pub(super) fn ended<T>(&self, reason: impl Into<String>) -> Result<T, Unclear> {
        Err(self.stop().map_or_else(|| Unclear::NotObservable(reason.into()), Unclear::NotReached))
    }

    /// Why calls of this name do not show anything.
    pub(super) fn not_shown_by(&self, name: &str) -> Unclear {
        let skipped = name.starts_with("subscribe") && !self.subscribes;
        Unclear::NotReached(match self.calls.iter().find(|call| call.name == name) {
            Some(Exchange { failed: Some(why), .. }) => format!("the call `{name}` had no answer: {why}"),
            Some(call) if !matches!(call.status(), 401 | 403 | 429) => {
                return Unclear::NotObservable(format!("the call `{name}` was answered {}", call.status()));
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
            match &mut seen {
                Some(seen) if seen.value == value => drop(seen.calls.insert(call.number)),
                Some(_) => {
                    return hidden(format!("call {} (`{}`) shows another value than others", call.number, call.name));
                }
                None => seen = Some(Seen::new(value, [call])),
            }
        }
        seen.ok_or_else(|| self.not_shown_by(name))
    }

    /// What the calls of this name show.
    pub(super) fn shown_by<V: Into<Value>>(
        &self,
        name: &str,
        shows: impl Fn(&Exchange) -> Result<V, Unclear>,
    ) -> Observation {
        self.agreed(name, self.answers(name).filter(|call| call.status() != 429), shows)
    }

    /// The value for which the status of a call stands.
    pub(super) fn by_status<V: Into<Value> + Copy>(&self, name: &str, values: [(u16, V); 2]) -> Observation {
        self.shown_by(name, |call| match values.iter().find(|(status, _)| *status == call.status()) {
            Some((_, value)) => Ok(*value),
            None => unlike_any(call),
        })
    }

    /// Every error in the envelope; those of the token endpoint may have a form of their own.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&Exchange, Map<String, Value>)> {
        self.answered().filter(|call| call.name != "token").filter_map(|call| Some((call, call.error()?)))
    }

    /// The errors of validation.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&Exchange, Map<String, Value>)> {
        self.errors().filter(|(call, _)| call.status() == 422 && call.name != "subscribe-text")
    }
}
