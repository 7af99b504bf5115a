//! The meaning of expressions: values from the request, the clock and chance, and the filters. Every operation is charged in bytes to
//! one budget, so that a body of many templates cannot keep a processor busy.

use jiff::Timestamp;
use rand::{Rng as _, RngExt as _};
use serde_json::{Map, Value};

use super::parse::{Expression, Filter, PathPart, Piece, Source, TemplateFunction};
use crate::clock::Random;
use crate::contract::ids::{IdKind, IdStyle, make_id};
use crate::contract::timestamp::{Precision, format_timestamp};
use crate::util::wording::shorten;

/// Longest text that one template makes, in bytes.
pub const MAX_TEXT: usize = 64 * 1024;
/// Maximum number of gaps reported of one body, and the longest path named.
const MAX_GAPS: usize = 10;
const MAX_PATH: usize = 100;
/// The cost of one operation besides the bytes that it handles.
const OPERATION: usize = 16;

/// The values that templates see, and the work that they may still do.
pub(super) struct Evaluation<'s> {
    pub(super) facts: &'s Map<String, Value>,
    pub(super) wall: Timestamp,
    pub(super) random: Random,
    pub(super) budget: usize,
    pub(super) gaps: Vec<Gap>,
}

/// Why a part of a template gave an empty string instead of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    Missing(String),
    Failed {
        /// The path that the value comes from, if it comes from one.
        path: Option<String>,
        reason: String,
    },
}

impl Gap {
    /// Why a value cannot be used; `None` if there is none.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Missing(_) => None,
            Self::Failed { reason, .. } => Some(reason),
        }
    }

    /// The gap as a warning about a template of `whose`; `why_missing` explains why a path may lead nowhere.
    pub fn text(&self, whose: &str, why_missing: &str) -> String {
        match self {
            Self::Missing(path) => {
                format!("a template of {whose} names `{path}`, {why_missing}; it gave an empty string")
            }
            Self::Failed { path: Some(path), reason } => {
                format!("a template of {whose} gave an empty string for `{path}`: {reason}")
            }
            Self::Failed { path: None, reason } => format!("a template of {whose} gave an empty string: {reason}"),
        }
    }
}

/// A value on its way through filters.
enum Term<'v> {
    /// A part that the request does not have, by its path.
    Missing(String),
    Borrowed(&'v Value),
    Owned(Value),
}

impl Term<'_> {
    fn value(&self) -> &Value {
        match self {
            Term::Missing(_) => &Value::Null,
            Term::Borrowed(value) => value,
            Term::Owned(value) => value,
        }
    }
}

impl<'s> Evaluation<'s> {
    pub(super) fn render(&mut self, pieces: &[Piece<'_>]) -> String {
        let mut text = String::new();
        for piece in pieces {
            let (path, written) = match piece {
                Piece::Text(plain) => (None, self.write(&mut text, plain)),
                Piece::Value(expression) => {
                    let made = self.evaluate(expression).and_then(|term| self.text_of(&term));
                    (expression.path(), made.and_then(|more| self.write(&mut text, &more)))
                }
            };
            if let Err(reason) = written {
                self.leave(Gap::Failed { path, reason });
            }
        }
        text
    }

    fn leave(&mut self, gap: Gap) {
        if self.gaps.len() < MAX_GAPS && !self.gaps.contains(&gap) {
            self.gaps.push(gap);
        }
    }

    fn write(&mut self, text: &mut String, more: &str) -> Result<(), String> {
        self.pay(more.len())?;
        if text.len() + more.len() > MAX_TEXT {
            return Err(too_long());
        }
        text.push_str(more);
        Ok(())
    }

    fn pay(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.budget.checked_sub(bytes + OPERATION);
        // Nothing more is done then: what failed may have taken time before it was charged for.
        self.budget = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| "the templates of one body handle more than 1 MiB of text".to_owned())
    }

    fn evaluate(&mut self, expression: &Expression<'_>) -> Result<Term<'s>, String> {
        let mut term = match &expression.source {
            Source::Literal(value) => Term::Owned(value.clone()),
            Source::Path { root, parts } => self.look_up(root, parts)?,
            Source::Call(function, arguments) => self.call(*function, arguments)?,
        };
        for (filter, arguments) in &expression.filters {
            self.pay(0)?;
            term = self.filter(term, *filter, arguments)?;
        }
        Ok(term)
    }

    fn look_up(&mut self, root: &str, parts: &[PathPart<'_>]) -> Result<Term<'s>, String> {
        self.pay(parts.len())?;
        let facts = self.facts;
        let mut found = match root {
            "now" => return Ok(Term::Owned(format_timestamp(self.wall, Precision::Milliseconds).into())),
            "now_unix" => return Ok(Term::Owned(self.wall.as_second().into())),
            _ => facts.get(root),
        };
        for part in parts {
            found = match (found, part) {
                (Some(Value::Object(fields)), PathPart::Field(name)) => fields.get(name.as_ref()),
                (Some(Value::Object(fields)), PathPart::Position(at)) => fields.get(&at.to_string()),
                (Some(Value::Array(values)), PathPart::Position(at)) => values.get(*at),
                _ => None,
            };
        }
        Ok(found.map_or_else(|| Term::Missing(path_text(root, parts)), Term::Borrowed))
    }

    fn call(&mut self, function: TemplateFunction, arguments: &[Expression<'_>]) -> Result<Term<'s>, String> {
        self.pay(0)?;
        let style = match function {
            TemplateFunction::Ulid => IdStyle::Ulid,
            TemplateFunction::Uuid => IdStyle::Uuid,
            TemplateFunction::RandomInt => {
                let low = self.integer(&arguments[0], "`random_int` needs whole numbers")?;
                let high = self.integer(&arguments[1], "`random_int` needs whole numbers")?;
                let (low, high) = match (low, high) {
                    (Ok(low), Ok(high)) => (low, high),
                    (Err(missing), _) | (_, Err(missing)) => return Ok(missing),
                };
                let drawn = if low > high {
                    self.random.next_u64().cast_signed()
                } else {
                    self.random.random_range(low..=high)
                };
                return Ok(Term::Owned(drawn.into()));
            }
        };
        let millis = u64::try_from(self.wall.as_millisecond()).unwrap_or(0);
        let id = make_id(IdKind::Event, style, millis, 0, &mut self.random);
        Ok(Term::Owned(id[IdKind::Event.prefix().len()..].into()))
    }

    /// A whole number as argument; a part that is missing makes the whole call missing.
    fn integer(&mut self, expression: &Expression<'_>, otherwise: &str) -> Result<Result<i64, Term<'s>>, String> {
        match self.evaluate(expression)? {
            missing @ Term::Missing(_) => Ok(Err(missing)),
            term => integer(term.value()).map(Ok).ok_or_else(|| otherwise.to_owned()),
        }
    }

    fn filter(&mut self, term: Term<'s>, filter: Filter, arguments: &[Expression<'_>]) -> Result<Term<'s>, String> {
        Ok(Term::Owned(match filter {
            // A missing value stays missing, so that filters after it still see it as missing.
            Filter::Lower | Filter::Upper | Filter::Trim if matches!(term, Term::Missing(_)) => return Ok(term),
            Filter::Default => match term {
                Term::Missing(_) | Term::Borrowed(Value::Null) => return self.evaluate(&arguments[0]),
                given => return Ok(given),
            },
            Filter::Json => self.json(term.value())?.into(),
            Filter::Length => match term.value() {
                Value::Array(values) => values.len().into(),
                Value::Object(fields) => fields.len().into(),
                _ => self.text_of(&term)?.chars().count().into(),
            },
            Filter::Plus => {
                let more = match self.integer(&arguments[0], "`plus` needs a whole number as argument")? {
                    _ if matches!(term, Term::Missing(_)) => return Ok(term),
                    Ok(more) => more,
                    Err(missing) => return Ok(missing),
                };
                let number = integer(term.value()).ok_or("`plus` needs a whole number before it")?;
                number.saturating_add(more).into()
            }
            Filter::Lower => self.text_of(&term)?.to_lowercase().into(),
            Filter::Upper => self.text_of(&term)?.to_uppercase().into(),
            Filter::Trim => self.text_of(&term)?.trim().into(),
        }))
    }

    /// A value as it appears in a text: a text as it is, anything else as JSON, and nothing for a part that is missing.
    fn text_of(&mut self, term: &Term<'_>) -> Result<String, String> {
        match (term, term.value()) {
            (Term::Missing(path), _) => {
                self.leave(Gap::Missing(path.clone()));
                Ok(String::new())
            }
            (_, Value::String(text)) => {
                self.pay(text.len())?;
                if text.len() > MAX_TEXT { Err(too_long()) } else { Ok(text.clone()) }
            }
            (_, other) => self.json(other),
        }
    }

    fn json(&mut self, value: &Value) -> Result<String, String> {
        let text = value.to_string();
        self.pay(text.len().min(MAX_TEXT))?;
        if text.len() > MAX_TEXT { Err(too_long()) } else { Ok(text) }
    }
}

impl Expression<'_> {
    /// The path that its value comes from, if it comes from one.
    fn path(&self) -> Option<String> {
        match &self.source {
            Source::Path { root, parts } => Some(path_text(root, parts)),
            Source::Literal(_) | Source::Call(..) => None,
        }
    }
}

/// A path as it is written, shortened.
fn path_text(root: &str, parts: &[PathPart<'_>]) -> String {
    let mut path = root.to_owned();
    for part in parts {
        path = match part {
            PathPart::Field(name) => format!("{path}.{name}"),
            PathPart::Position(at) => format!("{path}[{at}]"),
        };
        // The rest is not shown.
        if path.len() > 4 * MAX_PATH {
            break;
        }
    }
    shorten(&path, MAX_PATH).into_owned()
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn too_long() -> String {
    format!("the text made is longer than {} KiB", MAX_TEXT / 1024)
}
