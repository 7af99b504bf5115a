//! What a cassette shows: one pure function for each setting that calls can show, in one table. A value is returned only if no other
//! value of the setting would have been answered alike; everything else is a reason.

mod answers;
mod errors;
pub(super) mod quota;
mod subscribing;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::cassette::{Answer, Cassette, Exchange, Key};

pub(super) use answers::{answers_vary, timestamps};

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
pub enum Unknown {
    /// The answers do not tell.
    NotObservable(String),
    /// The calls that would tell were not made.
    NotReached(String),
    /// What was answered is against a clause of the contract, and no value of the setting is like it.
    Contradicts(&'static str, String),
}

type Found = Result<Seen, Unknown>;

impl Seen {
    pub(super) fn new(value: impl Into<Value>, calls: impl IntoIterator<Item = usize>) -> Self {
        let calls: BTreeSet<usize> = calls.into_iter().collect();
        Self { value: value.into(), calls: calls.into_iter().collect(), note: String::new(), contradicts: None }
    }

    fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn against(self, clause: &'static str, contradicts: bool) -> Self {
        Self { contradicts: contradicts.then_some(clause), ..self }
    }
}

fn hidden<T>(reason: impl Into<String>) -> Result<T, Unknown> {
    Err(Unknown::NotObservable(reason.into()))
}

type Inference = fn(&Evidence<'_>) -> Found;

/// The settings that calls can show.
const INFERENCES: &[(&str, Inference)] = &[
    ("environment", answers::environment),
    ("keys.mode", subscribing::key_mode),
    ("keys.test_prefix", |evidence| subscribing::key_prefix(evidence, "sandbox")),
    ("keys.live_prefix", |evidence| subscribing::key_prefix(evidence, "production")),
    ("errors.details", errors::details),
    ("errors.malformed_json_status", errors::malformed_status),
    ("errors.codes", errors::codes),
    ("errors.messages", errors::messages),
    ("errors.extra", errors::extra),
    ("validation.unknown", answers::unknown_parameters),
    ("validation.lenient_booleans", answers::lenient_booleans),
    ("validation.content_type", subscribing::content_type),
    ("status.checks", answers::checks),
    ("rate_limit.enabled", quota::enabled),
    ("rate_limit.requests", quota::requests),
    ("rate_limit.window", quota::window),
    ("rate_limit.algorithm", quota::algorithm),
    ("rate_limit.count", quota::count),
    ("rate_limit.header_names", quota::header_names),
    ("rate_limit.retry_after", quota::retry_after),
    ("rate_limit.reset", quota::reset),
    ("rate_limit.ietf", quota::ietf),
    ("ids.style", answers::id_style),
    ("ids.request_header", answers::request_header),
    ("time.precision", answers::precision),
    ("variation.unknown_fields", answers::unknown_fields),
    ("variation.key_order", answers::key_order),
    ("variation.bodies", answers::bodies),
    ("subscriptions.upsert", subscribing::upsert),
    ("subscriptions.secret_field", subscribing::secret_field),
    ("subscriptions.echo_secret", subscribing::echo_secret),
    ("events.extra", errors::event_types),
    ("webhooks.allow_http", errors::allow_http),
    ("hello.body", answers::hello),
    ("preview.enabled", answers::preview),
    ("oauth.error_shape", answers::oauth_errors),
];

/// What the cassette shows about a setting; `None` if calls cannot show it.
pub fn infer(cassette: &Cassette, setting: &str) -> Option<Found> {
    let (_, inference) = INFERENCES.iter().find(|(path, _)| *path == setting)?;
    let found = inference(&Evidence { cassette });
    Some(found.and_then(|seen| match seen.value.to_string() {
        _ if setting == "errors.messages" => Ok(seen),
        text if text.contains("null") && has_null(&seen.value) => {
            hidden("it has null in it, which a profile cannot hold")
        }
        text if text.contains('…') || text.contains("<key>") => hidden("it has a credential in it, which was masked"),
        _ => Ok(seen),
    }))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

/// The answers, as the inferences look at them.
struct Evidence<'c> {
    cassette: &'c Cassette,
}

/// An error in the envelope, and the call that it answers.
struct ApiError<'c> {
    number: usize,
    name: &'c str,
    status: u16,
    fields: Map<String, Value>,
}

impl ApiError<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }
}

impl<'c> Evidence<'c> {
    fn not_reached<T>(&self, name: &str) -> Result<T, Unknown> {
        if let Some(why) =
            self.cassette.calls.iter().find(|call| call.name == name).and_then(|call| call.failed.as_ref())
        {
            return Err(Unknown::NotReached(format!("the call `{name}` had no answer: {why}")));
        }
        let skipped = name.starts_with("subscribe") && !self.cassette.subscribes;
        let why = if skipped { Some("no subscription was to be made".to_owned()) } else { self.cassette.stop() };
        Err(Unknown::NotReached(why.unwrap_or_else(|| format!("the call `{name}` was not made"))))
    }

    /// The first answer to a call of this name.
    fn one(&self, name: &'c str) -> Result<(&'c Exchange, &'c Answer), Unknown> {
        match self.cassette.answers(name).next() {
            Some((_, answer)) if answer.status == 429 => self.not_reached(name),
            Some(found) => Ok(found),
            None => self.not_reached(name),
        }
    }

    /// The objects that calls of this name were answered with 200.
    fn objects(&self, name: &'c str) -> Result<Vec<(usize, Map<String, Value>)>, Unknown> {
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
    fn statuses(&self) -> Vec<(usize, Map<String, Value>)> {
        let status = |(exchange, answer): (&Exchange, &Answer)| {
            let is_status = exchange.target.starts_with("/v1/system/status") && answer.status == 200;
            is_status.then(|| Some((exchange.number, answer.object()?)))?
        };
        self.cassette.answered().filter_map(status).collect()
    }

    /// Every error in the envelope.
    fn errors(&self) -> Vec<ApiError<'c>> {
        let read = |(exchange, answer): (&'c Exchange, &'c Answer)| {
            let fields = answer.error()?;
            // Errors of the token endpoint may have a form of their own.
            let is_own = exchange.name != "token";
            is_own.then_some(ApiError { number: exchange.number, name: &exchange.name, status: answer.status, fields })
        };
        self.cassette.answered().filter_map(read).collect()
    }

    /// Answers to calls with the key that was given.
    fn of_key(&self) -> impl Iterator<Item = (&'c Exchange, &'c Answer)> {
        self.cassette.answered().filter(|(exchange, _)| exchange.key == Key::Given)
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
fn common_to_all(objects: &[(usize, Map<String, Value>)]) -> Map<String, Value> {
    let (first, rest) = objects.split_first().expect("callers have looked");
    rest.iter().fold(first.1.clone(), |fields, (_, object)| common_fields(&fields, object))
}

fn numbers<T>(found: &[(usize, T)]) -> Vec<usize> {
    found.iter().map(|(number, _)| *number).collect()
}
