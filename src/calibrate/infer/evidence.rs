//! A cassette as the inferences look at it, what they return, and what several of them need.

use serde_json::{Map, Value};

use super::super::cassette::{CallKey, Cassette, Exchange, RecordedAnswer};

/// A value that was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub value: Value,
    /// Numbers of the calls that show it.
    pub calls: Vec<usize>,
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

pub(super) type Found = Result<Seen, Unclear>;

/// An object, and the number of the call that was answered with it.
pub(super) type Numbered = (usize, Map<String, Value>);

impl Seen {
    pub fn new(value: impl Into<Value>, calls: impl IntoIterator<Item = usize>) -> Self {
        let mut calls: Vec<usize> = calls.into_iter().collect();
        calls.sort_unstable();
        calls.dedup();
        Self { value: value.into(), calls, note: String::new(), contradicts: None }
    }

    pub(in crate::calibrate) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(super) fn against(self, clause: &'static str, contradicts: bool) -> Self {
        Self { contradicts: contradicts.then_some(clause), ..self }
    }
}

/// Whether a text was masked when it was recorded.
pub(super) fn has_credential(text: &str) -> bool {
    text.contains('…') || text.contains("<key>")
}

pub(super) fn hidden<T>(reason: impl Into<String>) -> Result<T, Unclear> {
    Err(Unclear::NotObservable(reason.into()))
}

/// An error in the envelope, and the call that it answers.
pub(super) struct ApiError<'c> {
    pub(super) number: usize,
    pub(super) name: &'c str,
    pub(super) status: u16,
    pub(super) fields: Map<String, Value>,
}

impl ApiError<'_> {
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }
}

impl Cassette {
    /// The reason if calls ended before they showed something; otherwise they do not show it.
    pub(super) fn ended<T>(&self, reason: impl Into<String>) -> Result<T, Unclear> {
        Err(self.stop().map_or_else(|| Unclear::NotObservable(reason.into()), Unclear::NotReached))
    }

    pub(super) fn not_reached<T>(&self, name: &str) -> Result<T, Unclear> {
        let failed = self.calls.iter().find_map(|call| call.failed.as_ref().filter(|_| call.name == name));
        let skipped = name.starts_with("subscribe") && !self.subscribes;
        let why = match failed {
            Some(why) => Some(format!("the call `{name}` had no answer: {why}")),
            None if skipped => Some("no subscription was to be made".to_owned()),
            None => self.stop(),
        };
        Err(Unclear::NotReached(why.unwrap_or_else(|| format!("the call `{name}` was not made"))))
    }

    /// The first answer to a call of this name, and its number.
    pub(super) fn one(&self, name: &str) -> Result<(usize, &RecordedAnswer), Unclear> {
        match self.answers(name).next() {
            Some((exchange, answer)) if answer.status != 429 => Ok((exchange.number, answer)),
            _ => self.not_reached(name),
        }
    }

    /// The value for which the status of a call stands.
    pub(super) fn by_status<T: Into<Value> + Copy>(&self, name: &str, values: [(u16, T); 2]) -> Found {
        let (number, answer) = self.one(name)?;
        match values.iter().find(|(status, _)| *status == answer.status) {
            Some((_, value)) => Ok(Seen::new(*value, [number])),
            None => hidden(format!("the call `{name}` was answered {}", answer.status)),
        }
    }

    /// The objects that calls of this name are answered with, with their numbers.
    pub(super) fn objects(&self, name: &str) -> Result<Vec<Numbered>, Unclear> {
        let status = self.one(name)?.1.status;
        let answers = self.answers(name).filter(|(_, answer)| answer.status == 200);
        let objects: Vec<_> =
            answers.filter_map(|(exchange, answer)| Some((exchange.number, answer.object()?))).collect();
        if objects.is_empty() {
            return hidden(format!("the call `{name}` was answered {status} without a JSON object of the API"));
        }
        Ok(objects)
    }

    /// Every error in the envelope; those of the token endpoint may have a form of their own.
    pub(super) fn errors(&self) -> Vec<ApiError<'_>> {
        let mut errors = Vec::new();
        for (exchange, answer) in self.answered().filter(|(exchange, _)| exchange.name != "token") {
            if let Some(fields) = answer.error() {
                errors.push(ApiError { number: exchange.number, name: &exchange.name, status: answer.status, fields });
            }
        }
        errors
    }

    /// Answers to calls with the key that was given.
    pub(super) fn of_key(&self) -> impl Iterator<Item = (&Exchange, &RecordedAnswer)> {
        self.answered().filter(|(exchange, _)| exchange.key == CallKey::Given)
    }
}

/// Whether two values are the same but for numbers.
pub(super) fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| alike(value, other)))
        }
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| alike(one, other))
        }
        (Value::Number(_), Value::Number(_)) => true,
        _ => one == other,
    }
}
