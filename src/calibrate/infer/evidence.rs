//! A cassette as the inferences look at it, what they return, and what several of them need.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::cassette::{CallKey, Cassette, Exchange, RecordedAnswer};

/// How many different timestamps show that their precision is fixed.
pub(in crate::calibrate) const TIMESTAMPS: usize = 10;
/// The fields of an error that are published, or have a setting.
pub(super) const ERROR: [&str; 4] = ["code", "message", "request_id", "details"];

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

/// An object, and the number of the call that was answered with it.
pub(super) type Numbered = (usize, Map<String, Value>);

pub(super) type Found = Result<Seen, Unclear>;

impl Seen {
    pub fn new(value: impl Into<Value>, calls: impl IntoIterator<Item = usize>) -> Self {
        let calls: BTreeSet<usize> = calls.into_iter().collect();
        Self { value: value.into(), calls: calls.into_iter().collect(), note: String::new(), contradicts: None }
    }

    pub(super) fn noted(self, note: impl Into<String>) -> Self {
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

/// The answers, as the inferences look at them.
pub(super) struct Evidence<'c> {
    pub(super) cassette: &'c Cassette,
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

impl<'c> Evidence<'c> {
    pub(super) fn not_reached<T>(&self, name: &str) -> Result<T, Unclear> {
        if let Some(why) =
            self.cassette.calls.iter().find(|call| call.name == name).and_then(|call| call.failed.as_ref())
        {
            return Err(Unclear::NotReached(format!("the call `{name}` had no answer: {why}")));
        }
        let skipped = name.starts_with("subscribe") && !self.cassette.subscribes;
        let why = if skipped { Some("no subscription was to be made".to_owned()) } else { self.cassette.stop() };
        Err(Unclear::NotReached(why.unwrap_or_else(|| format!("the call `{name}` was not made"))))
    }

    /// The first answer to a call of this name.
    pub(super) fn one(&self, name: &'c str) -> Result<(&'c Exchange, &'c RecordedAnswer), Unclear> {
        match self.cassette.answers(name).next() {
            Some((_, answer)) if answer.status == 429 => self.not_reached(name),
            Some(found) => Ok(found),
            None => self.not_reached(name),
        }
    }

    /// The objects that calls of this name were answered with 200.
    pub(super) fn objects(&self, name: &'c str) -> Result<Vec<Numbered>, Unclear> {
        let (_, first) = self.one(name)?;
        let answers = self.cassette.answers(name).filter(|(_, answer)| answer.status == 200);
        let objects: Vec<_> =
            answers.filter_map(|(exchange, answer)| Some((exchange.number, answer.object()?))).collect();
        if objects.is_empty() {
            return hidden(format!("the call `{name}` was answered {} without a JSON object of the API", first.status));
        }
        Ok(objects)
    }

    /// Every answer of system status with 200, whatever its call was for.
    pub(super) fn statuses(&self) -> Vec<(usize, Map<String, Value>)> {
        let status = |(exchange, answer): (&Exchange, &RecordedAnswer)| {
            let is_status = exchange.target.starts_with("/v1/system/status") && answer.status == 200;
            is_status.then(|| Some((exchange.number, answer.object()?)))?
        };
        self.cassette.answered().filter_map(status).collect()
    }

    /// Every error in the envelope.
    pub(super) fn errors(&self) -> Vec<ApiError<'c>> {
        let read = |(exchange, answer): (&'c Exchange, &'c RecordedAnswer)| {
            let fields = answer.error()?;
            // Errors of the token endpoint may have a form of their own.
            let is_own = exchange.name != "token";
            is_own.then_some(ApiError { number: exchange.number, name: &exchange.name, status: answer.status, fields })
        };
        self.cassette.answered().filter_map(read).collect()
    }

    /// Answers to calls with the key that was given.
    pub(super) fn of_key(&self) -> impl Iterator<Item = (&'c Exchange, &'c RecordedAnswer)> {
        self.cassette.answered().filter(|(exchange, _)| exchange.key == CallKey::Given)
    }
}

/// The part of two values that is in both: fields that come and go are left out, and of numbers that change the first is kept.
fn common(one: &Value, other: &Value) -> Option<Value> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => Some(Value::Object(common_fields(one, other))),
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            ones.iter().zip(others).map(|(one, other)| common(one, other)).collect::<Option<_>>().map(Value::Array)
        }
        (Value::Number(_), Value::Number(_)) => Some(one.clone()),
        _ => (one == other).then(|| one.clone()),
    }
}

fn common_fields(one: &Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    let both = |(name, value): (&String, &Value)| Some((name.clone(), common(value, other.get(name)?)?));
    one.iter().filter_map(both).collect()
}

/// What is in all of these objects.
pub(super) fn common_to_all(objects: &[(usize, Map<String, Value>)]) -> Map<String, Value> {
    let (first, rest) = objects.split_first().expect("callers have looked");
    rest.iter().fold(first.1.clone(), |fields, (_, object)| common_fields(&fields, object))
}

pub(super) fn numbers<T>(found: &[(usize, T)]) -> Vec<usize> {
    found.iter().map(|(number, _)| *number).collect()
}

/// Fields that every error has, always with the same value.
pub(super) fn extra_fields(evidence: &Evidence<'_>) -> Map<String, Value> {
    let errors: Vec<_> = evidence.errors().into_iter().map(|error| (error.number, error.fields)).collect();
    let mut fields = if errors.is_empty() { Map::new() } else { common_to_all(&errors) };
    fields.retain(|name, _| !ERROR.contains(&name.as_str()));
    fields
}
