//! Reads a template into pieces: text, and expressions of paths, literals, function calls and filters. Nothing else exists, so
//! a template of bounded length cannot ask for unbounded work.
//!
//! Reading costs no more than the length of the source, and the nesting of calls is bounded, so that no source can exhaust the
//! stack. What an expression means is defined by `evaluate`.

use std::borrow::Cow;

use serde_json::Value;

use crate::contract::nearest;
use crate::util::wording::{counted, shorten};

/// Longest source of one template, in bytes.
pub const MAX_SOURCE: usize = 4 * 1024;
/// How deep calls may be nested in each other.
pub const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    Value(Expression<'t>),
}

/// A value and the filters that it passes through, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression<'t> {
    pub(super) source: Source<'t>,
    pub(super) filters: Vec<(Filter, Vec<Self>)>,
}

impl Expression<'_> {
    /// Collects the paths that begin with `request` and have no `default`.
    pub(super) fn request_paths(&self, found: &mut Vec<Vec<String>>) {
        if self.filters.iter().any(|(filter, _)| *filter == Filter::Default) {
            return;
        }
        match &self.source {
            Source::Path { root: "request", parts } => found.push(
                parts
                    .iter()
                    .map(|part| match part {
                        PathPart::Field(name) => name.to_string(),
                        PathPart::Position(at) => at.to_string(),
                    })
                    .collect(),
            ),
            Source::Call(_, arguments) => arguments.iter().for_each(|argument| argument.request_paths(found)),
            _ => {}
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source<'t> {
    Literal(Value),
    Path { root: &'t str, parts: Vec<PathPart<'t>> },
    Call(TemplateFunction, Vec<Expression<'t>>),
}

/// One part of a path: the member of the value before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPart<'t> {
    Field(Cow<'t, str>),
    Position(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateFunction {
    Ulid,
    Uuid,
    RandomInt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    Default,
    Json,
    Length,
    Lower,
    Plus,
    Trim,
    Upper,
}

/// A name, the number of its arguments, and its meaning.
type Named<T> = (&'static str, usize, T);

const FUNCTIONS: [Named<TemplateFunction>; 3] = [
    ("ulid", 0, TemplateFunction::Ulid),
    ("uuid", 0, TemplateFunction::Uuid),
    ("random_int", 2, TemplateFunction::RandomInt),
];
const FILTERS: [Named<Filter>; 7] = [
    ("default", 1, Filter::Default),
    ("json", 0, Filter::Json),
    ("length", 0, Filter::Length),
    ("lower", 0, Filter::Lower),
    ("plus", 1, Filter::Plus),
    ("trim", 0, Filter::Trim),
    ("upper", 0, Filter::Upper),
];
/// The names that a path can begin with.
const ROOTS: [&str; 3] = ["now", "now_unix", "request"];

/// Reads a template. The error explains the problem to the author of the template.
pub(super) fn parse(text: &str) -> Result<Vec<Piece<'_>>, String> {
    if text.len() > MAX_SOURCE {
        return Err(format!(
            "a string with a template in it has at most {MAX_SOURCE} bytes, and this one has {}",
            text.len()
        ));
    }
    let mut reader = TemplateReader { rest: text };
    let mut pieces = Vec::new();
    while let Some(at) = reader.rest.find("{{") {
        let (before, expression) = reader.rest.split_at(at);
        pieces.push(Piece::Text(checked(before)?));
        reader.rest = &expression[2..];
        let value = reader.expression(0)?;
        reader.expect("}}")?;
        pieces.push(Piece::Value(value));
    }
    pieces.push(Piece::Text(checked(reader.rest)?));
    Ok(pieces)
}

/// Refuses what looks like the statements of larger template languages, which would otherwise be sent unchanged.
fn checked(text: &str) -> Result<&str, String> {
    if text.contains("{%") {
        return Err("there are no statements such as `{% if %}`, only values such as `{{ now }}`".to_owned());
    }
    Ok(text)
}

struct TemplateReader<'t> {
    rest: &'t str,
}

impl<'t> TemplateReader<'t> {
    fn expression(&mut self, depth: usize) -> Result<Expression<'t>, String> {
        if depth > DEEPEST {
            return Err(format!("calls are nested more than {DEEPEST} deep"));
        }
        let source = self.source(depth)?;
        let mut filters = Vec::new();
        while self.take("|") {
            let name = self.name().ok_or_else(|| self.expected("the name of a filter"))?;
            let arguments = if self.take("(") { self.arguments(depth)? } else { Vec::new() };
            filters.push((named(&FILTERS, "filter", name, arguments.len())?, arguments));
        }
        Ok(Expression { source, filters })
    }

    fn source(&mut self, depth: usize) -> Result<Source<'t>, String> {
        if let Some(literal) = self.literal()? {
            return Ok(Source::Literal(literal));
        }
        let name = self.name().ok_or_else(|| self.expected("a name, a number or a string in quotes"))?;
        if self.take("(") {
            let arguments = self.arguments(depth)?;
            return Ok(Source::Call(named(&FUNCTIONS, "function", name, arguments.len())?, arguments));
        }
        match name {
            "true" => return Ok(Source::Literal(Value::Bool(true))),
            "false" => return Ok(Source::Literal(Value::Bool(false))),
            "null" | "none" => return Ok(Source::Literal(Value::Null)),
            _ if !ROOTS.contains(&name) => return Err(unknown("name", name, &ROOTS)),
            _ => {}
        }
        let mut parts = Vec::new();
        loop {
            if self.take(".") {
                let part = self.word().ok_or_else(|| self.expected("a name after `.`"))?;
                parts.push(part.parse().map_or(PathPart::Field(Cow::Borrowed(part)), PathPart::Position));
            } else if self.take("[") {
                let part = match self.literal()? {
                    Some(Value::String(name)) => PathPart::Field(Cow::Owned(name)),
                    Some(Value::Number(number)) => number
                        .as_u64()
                        .and_then(|number| usize::try_from(number).ok())
                        .map(PathPart::Position)
                        .ok_or("a position is a whole number from 0")?,
                    _ => return Err(self.expected("a position or a name in quotes after `[`")),
                };
                self.expect("]")?;
                parts.push(part);
            } else {
                return Ok(Source::Path { root: name, parts });
            }
        }
    }

    /// The arguments of a call whose `(` was read.
    fn arguments(&mut self, depth: usize) -> Result<Vec<Expression<'t>>, String> {
        let mut arguments = Vec::new();
        if self.take(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression(depth + 1)?);
            if !self.take(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn literal(&mut self) -> Result<Option<Value>, String> {
        self.skip_space();
        match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote).map(Some),
            Some(first) if first == '-' || first.is_ascii_digit() => self.number().map(Some),
            _ => Ok(None),
        }
    }

    /// A text in quotes; `\n`, `\t`, and `\` before any other character for that character.
    fn quoted(&mut self, quote: char) -> Result<Value, String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.push(match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(escaped) => escaped,
                    None => break,
                }),
                _ if character == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Value::String(text));
                }
                _ => text.push(character),
            }
        }
        Err(format!("the string is not closed: expected {quote}"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let is_part = |character: char| character.is_ascii_digit() || matches!(character, '-' | '.');
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let whole = digits.parse::<i64>().map(Value::from).ok();
        let fraction = || digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from);
        whole.or_else(fraction).ok_or_else(|| format!("`{digits}` is not a number"))
    }

    /// A name, which begins with a letter or `_`.
    fn name(&mut self) -> Option<&'t str> {
        self.skip_space();
        if self.rest.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            self.word()
        } else {
            None
        }
    }

    fn word(&mut self) -> Option<&'t str> {
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expected(&self, what: &str) -> String {
        const MAX_SHOWN: usize = 20;
        if self.rest.is_empty() {
            return format!("expected {what}, found the end");
        }
        format!("expected {what}, found `{}`", shorten(self.rest, MAX_SHOWN).escape_debug())
    }
}

fn named<T: Copy>(table: &[Named<T>], kind: &str, name: &str, arguments: usize) -> Result<T, String> {
    let Some((_, takes, meant)) = table.iter().find(|(known, ..)| *known == name) else {
        let known: Vec<&str> = table.iter().map(|(known, ..)| *known).collect();
        return Err(unknown(kind, name, &known));
    };
    if *takes == arguments {
        return Ok(*meant);
    }
    Err(format!("the {kind} `{name}` accepts {}, found {arguments}", counted(*takes, "argument")))
}

fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let shown = shorten(name, 40);
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {kind} `{shown}`; did you mean `{near}`?"),
        None => format!("unknown {kind} `{shown}`; there are {}", known.join(", ")),
    }
}
