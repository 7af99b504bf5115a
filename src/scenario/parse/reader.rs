//! Reading typed values out of TOML with their places: every problem is recorded, and reading continues.
//!
//! Knows no rule of the language beyond types and ranges.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::advice::{BOOLEAN, INTEGER, NUMBER, STRING, hint_for_key, meaning, nearest_hint, right_form};
use super::words::{Kind, Words};
use crate::diagnostic::{Diagnostic, Level};
use crate::duration::parse_duration;
use crate::template::{MOST_TEMPLATES as MOST_IN_A_BODY, check_template, is_template, request_paths, try_template};

/// Most problems reported of one file; the rest would follow from the same mistake.
const MOST: usize = 100;

/// What was found in one text so far.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: Vec<Diagnostic>,
    unreported: usize,
    templates: usize,
    /// The paths into the request that templates name, each with its place; kept until they are taken.
    request_paths: Vec<(Range<usize>, Vec<String>)>,
}

/// Most templates tried in one file, as trying takes time; the others show their problems when they are rendered.
const MOST_TEMPLATES: usize = 1_000;

pub(super) type Place<'t, 'i> = &'t Spanned<DeValue<'i>>;

impl<'t> Problems<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new(), unreported: 0, templates: 0, request_paths: Vec::new() }
    }

    /// How many lines end in this part of the text.
    pub(super) fn line_ends(&self, part: Range<usize>) -> usize {
        self.text.get(part).map_or(0, |part| part.matches('\n').count())
    }

    pub(super) fn error(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.note(Level::Error, code, span, message.into(), hint.into());
    }

    /// An error in place of a value.
    pub(super) fn refuse<T>(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.error(code, span, message, hint);
        None
    }

    pub(super) fn warning(
        &mut self,
        code: &'static str,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.note(Level::Warning, code, span, message.into(), hint.into());
    }

    fn note(&mut self, severity: Level, code: &'static str, span: Range<usize>, message: String, hint: String) {
        if self.is_full() {
            // A warning must not push an error out: only whether there is an error decides whether the file is taken.
            let warning = self.found.iter().rposition(|known| !known.is_error());
            self.unreported += 1;
            let Some(at) = warning.filter(|_| severity == Level::Error) else { return };
            self.found.remove(at);
        }
        self.found.push(Diagnostic::at(severity, code, self.text, span, message, hint));
    }

    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= MOST
    }

    pub(super) fn has_errors(&self) -> bool {
        self.found.iter().any(Diagnostic::is_error)
    }

    /// Everything found, in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|problem| (problem.span.start, problem.span.end));
        if let Some(last) = self.found.last_mut().filter(|_| self.unreported > 0) {
            let more = format!("{} further problems are not shown", self.unreported);
            last.hint = if last.hint.is_empty() { more } else { format!("{}; {more}", last.hint) };
        }
        self.found
    }

    pub(super) fn wrong_type(&mut self, key: &str, expected: &str, found: Place<'_, '_>) {
        let kind = match found.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let message = format!("expected {expected} for `{}`, found {kind}", shown(key));
        let hint = right_form(key, expected, found.get_ref()).unwrap_or_else(|| meaning(key));
        self.error("scenario/wrong-type", found.span(), message, hint);
    }

    /// Reports every key that does not belong in the table.
    pub(super) fn check_keys(&mut self, table: &DeTable<'_>, words: &Words) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if words.has(name) {
                continue;
            }
            let hint = if self.is_full() { String::new() } else { hint_for_key(name, words) };
            self.error(
                "scenario/unknown-key",
                key.span(),
                format!("unknown key `{}` in {}", shown(name), words.place),
                hint,
            );
        }
    }

    pub(super) fn table<'v, 'i>(&mut self, key: &str, value: Place<'v, 'i>, words: &Words) -> Option<&'v DeTable<'i>> {
        let table = self.any_table(key, "a table", value)?;
        self.check_keys(table, words);
        Some(table)
    }

    /// A table with any keys; `expected` says of what.
    pub(super) fn any_table<'v, 'i>(
        &mut self,
        key: &str,
        expected: &str,
        value: Place<'v, 'i>,
    ) -> Option<&'v DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, expected, value);
        }
        table
    }

    /// The tables of a list: `[[key]]`, or a list of inline tables.
    pub(super) fn tables<'v, 'i>(
        &mut self,
        key: &str,
        value: Place<'v, 'i>,
        words: &Words,
    ) -> Vec<(Range<usize>, &'v DeTable<'i>)> {
        let DeValue::Array(entries) = value.get_ref() else {
            let hint = format!("write `[[{key}]]` with double brackets: there may be several");
            match value.get_ref() {
                DeValue::Table(_) => self.error(
                    "scenario/wrong-type",
                    value.span(),
                    format!("expected an array of tables for `{key}`, found one table"),
                    hint,
                ),
                _ => self.wrong_type(key, "an array of tables", value),
            }
            return Vec::new();
        };
        entries.iter().filter_map(|entry| Some((entry.span(), self.table(key, entry, words)?))).collect()
    }

    pub(super) fn text<'v>(&mut self, table: &'v DeTable<'_>, key: &str) -> Option<&'v str> {
        let value = table.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(key, STRING, value);
        }
        text
    }

    /// A text that must not be empty.
    pub(super) fn filled_text<'v>(&mut self, table: &'v DeTable<'_>, key: &str) -> Option<&'v str> {
        let text = self.text(table, key)?;
        if text.trim().is_empty() {
            let span = table.get(key).map_or(0..0, Spanned::span);
            return self.refuse(
                "scenario/bad-value",
                span,
                format!("`{key}` must not be empty"),
                "leave it out, or write a string",
            );
        }
        Some(text)
    }

    /// An integer, within the bounds that the table of keys gives it.
    pub(super) fn number(&mut self, table: &DeTable<'_>, words: &Words, key: &str) -> Option<u64> {
        let Some(Kind::Integer(least, most)) = words.kind(key) else { return None };
        self.number_within(table, key, least, most)
    }

    /// An integer from `least` to `most`.
    pub(super) fn number_within(&mut self, table: &DeTable<'_>, key: &str, least: u64, most: u64) -> Option<u64> {
        let value = table.get(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            self.wrong_type(key, INTEGER, value);
            return None;
        };
        let read = i128::from_str_radix(number.as_str(), number.radix()).ok().and_then(|number| number.try_into().ok());
        let read = read.filter(|number: &u64| (least..=most).contains(number));
        if read.is_none() {
            let message = match most {
                u64::MAX => format!("`{key}` must be at least {least}, found {number}"),
                most => format!("`{key}` must be from {least} to {most}, found {number}"),
            };
            self.error("scenario/bad-value", value.span(), message, meaning(key));
        }
        read
    }

    pub(super) fn flag(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(key, BOOLEAN, value);
        }
        flag
    }

    pub(super) fn duration(&mut self, table: &DeTable<'_>, key: &str) -> Option<Duration> {
        self.duration_of(key, table.get(key)?)
    }

    pub(super) fn duration_of(&mut self, key: &str, value: Place<'_, '_>) -> Option<Duration> {
        let (problem, hint) = match value.get_ref() {
            DeValue::String(text) => match parse_duration(text) {
                Ok(duration) => return Some(duration),
                Err(problem) => (problem, "units are ms, s, m, h and d".to_owned()),
            },
            DeValue::Integer(number) => (
                format!("expected a duration such as \"250ms\" or \"30s\" for `{key}`, found the bare number {number}"),
                format!("say the unit: \"{number}s\" or \"{number}ms\""),
            ),
            _ => {
                self.wrong_type(key, "a duration such as \"250ms\" or \"30s\"", value);
                return None;
            }
        };
        self.refuse("scenario/bad-duration", value.span(), problem, hint)
    }

    /// A finite number, with or without a fraction.
    pub(super) fn float_of(&mut self, key: &str, value: Place<'_, '_>) -> Option<f64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => {
                self.wrong_type(key, NUMBER, value);
                return None;
            }
        };
        let number = number.filter(|number| number.is_finite());
        if number.is_none() {
            self.error("scenario/bad-value", value.span(), format!("`{key}` must be a finite decimal number"), "");
        }
        number
    }

    /// Any value as JSON. Dates become texts; what JSON has no number for is a problem.
    pub(super) fn json(&mut self, value: Place<'_, '_>) -> Option<Value> {
        Some(match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Integer(number) => {
                let Ok(number) = i64::from_str_radix(number.as_str(), number.radix()) else {
                    let message = format!("the number {number} is too large");
                    return self.refuse("scenario/bad-value", value.span(), message, "write it as a string");
                };
                number.into()
            }
            DeValue::Float(number) => {
                let read = number.as_str().parse().ok().and_then(serde_json::Number::from_f64);
                let Some(read) = read else {
                    return self.refuse("scenario/bad-value", value.span(), "JSON has no such number", "");
                };
                Value::Number(read)
            }
            DeValue::Array(values) => {
                let values: Vec<Option<Value>> = values.iter().map(|value| self.json(value)).collect();
                Value::Array(values.into_iter().collect::<Option<_>>()?)
            }
            DeValue::Table(table) => Value::Object(self.json_map(table)?),
        })
    }

    pub(super) fn json_map(&mut self, table: &DeTable<'_>) -> Option<Map<String, Value>> {
        let fields: Vec<Option<(String, Value)>> =
            table.iter().map(|(key, value)| Some((key.get_ref().to_string(), self.json(value)?))).collect();
        fields.into_iter().collect()
    }

    /// The same for the texts of one body, which are rendered together.
    pub(super) fn check_body<'v>(&mut self, values: impl IntoIterator<Item = Place<'v, 'v>>) {
        let before = self.templates;
        let mut first = None;
        for value in values {
            first.get_or_insert(value.span());
            self.check_templates(value);
        }
        let count = self.templates - before;
        if let Some(span) = first.filter(|_| count > MOST_IN_A_BODY) {
            let message = format!("a body has at most {MOST_IN_A_BODY} templates, found {count}");
            self.error("scenario/too-many", span, message, "put several values into one text, or write them out");
        }
    }

    /// Reports every text below `value` whose template cannot be read, or fails whatever the request is.
    fn check_templates(&mut self, value: Place<'_, '_>) {
        match value.get_ref() {
            DeValue::String(text) if is_template(text) => {
                self.templates += 1;
                let is_tried = self.templates <= MOST_TEMPLATES;
                let tried = if is_tried { try_template(text) } else { Ok(()) };
                if let Err(problem) = check_template(text).and(tried) {
                    let hint = "write values such as {{ request.body.url }}, {{ now }} or {{ ulid() }}; `docs/scenario-language.md` lists them";
                    self.error("scenario/bad-template", value.span(), problem.to_string(), hint);
                }
                if is_tried {
                    self.request_paths.extend(request_paths(text).into_iter().map(|path| (value.span(), path)));
                }
            }
            DeValue::Array(values) => values.iter().for_each(|value| self.check_templates(value)),
            DeValue::Table(table) => table.values().for_each(|value| self.check_templates(value)),
            _ => {}
        }
    }

    /// The paths into the request that templates named since the last call.
    pub(super) fn take_request_paths(&mut self) -> Vec<(Range<usize>, Vec<String>)> {
        std::mem::take(&mut self.request_paths)
    }

    /// A text that must be one of those that the table of keys lists.
    pub(super) fn choice<'v>(&mut self, table: &'v DeTable<'_>, words: &Words, key: &str) -> Option<&'v str> {
        let text = self.text(table, key)?;
        let Some(Kind::OneOf(choices) | Kind::NameOr(choices, _)) = words.kind(key) else { return None };
        let choices = choices();
        if choices.contains(&text) {
            return Some(text);
        }
        let span = table.get(key).map_or(0..0, Spanned::span);
        let message = format!("unknown value \"{}\" for `{key}`", shown(text));
        self.refuse("scenario/bad-value", span, message, nearest_hint(text, &choices))
    }

    /// Of keys that exclude each other, reports each but the first that is there; returns the first.
    pub(super) fn only_one(&mut self, table: &DeTable<'_>, keys: &[&'static str], why: &str) -> Option<&'static str> {
        let mut there = keys.iter().filter_map(|key| Some((*key, table.get_key_value(*key)?.0.span())));
        let (first, _) = there.next()?;
        for (other, span) in there {
            self.error("scenario/clash", span, format!("`{other}` excludes `{first}`: {why}"), "keep one of the two");
        }
        Some(first)
    }
}

/// A user's text as messages show it.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}
