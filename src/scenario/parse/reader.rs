//! Typed values out of TOML, read by the tables of keys: every problem is recorded with its place, and reading continues.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fingerprints::Fingerprints;
use super::kinds::{Described, KeyRule, TableKeys, ValueProblem, nearest_hint, number};
use crate::contract::nearest;
use crate::diagnostic::{Diagnostic, Level};
use crate::scenario::template::{MAX_TEMPLATES, Template, is_template};
use crate::settings::{Layered, Profile};
use crate::util::duration::parse_duration;
use crate::util::wording::{any_of, quoted};

/// Maximum number of problems reported of one file; the rest would follow from the same mistake.
const MAX: usize = 100;

pub(crate) type Place<'v, 'i> = &'v Spanned<DeValue<'i>>;
pub(crate) type Span = Range<usize>;
type Code = &'static str;

/// A table of the file with the keys that it may have. Its getters read values that [`Parser::open`] found valid; the others were reported
/// there, and count as missing.
pub(crate) struct Table<'v, 'i> {
    pub(crate) fields: &'v DeTable<'i>,
    pub(crate) keys: Rc<TableKeys>,
    pub(crate) span: Span,
    /// Its place in its list, from 1; 0 if it is in none.
    pub(crate) position: usize,
    /// How many errors were found before it was opened.
    pub(crate) errors_before: usize,
    /// Keys whose values were reported.
    wrong: Vec<&'static str>,
}

impl<'v, 'i> Table<'v, 'i> {
    /// The value at a key, right or wrong.
    pub(crate) fn get(&self, key: &str) -> Option<Place<'v, 'i>> {
        self.fields.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// The first of these keys that is present.
    pub(crate) fn first_of(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().copied().find(|key| self.has(key))
    }

    /// True if there is a value at a key, and of the key's kind.
    pub(crate) fn is_valid(&self, key: &str) -> bool {
        self.right(key).is_some()
    }

    fn right(&self, key: &str) -> Option<&'v DeValue<'i>> {
        self.get(key).filter(|_| !self.wrong.contains(&key)).map(Spanned::get_ref)
    }

    /// A text, or a name that its kind lists.
    pub(crate) fn text(&self, key: &str) -> Option<&'v str> {
        self.right(key)?.as_str()
    }

    pub(crate) fn integer(&self, key: &str) -> Option<u64> {
        let number = self.right(key)?.as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        number(self.right(key)?)
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.right(key)?.as_bool()
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        parse_duration(self.text(key)?).ok()
    }

    /// The table at a key, which may have any keys.
    pub(crate) fn fields_at(&self, key: &str) -> Option<&'v DeTable<'i>> {
        self.right(key)?.as_table()
    }

    pub(crate) fn is_empty_array(&self, key: &str) -> bool {
        self.right(key).and_then(DeValue::as_array).is_some_and(|entries| entries.is_empty())
    }

    /// The entries of an array.
    pub(crate) fn entries(&self, key: &str) -> impl Iterator<Item = Place<'v, 'i>> + use<'v, 'i> {
        self.right(key).and_then(DeValue::as_array).into_iter().flatten()
    }

    /// The place of a value; the table's own if there is none.
    pub(crate) fn span_of(&self, key: &str) -> Span {
        self.get(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    pub(crate) fn key_span(&self, key: &str) -> Option<Span> {
        self.fields.get_key_value(key).map(|(key, _)| key.span())
    }

    /// An unknown key was reported already, and is most likely the one that is missing.
    pub(crate) fn has_unknown_key(&self) -> bool {
        !self.fields.keys().all(|key| self.keys.has(key.get_ref()))
    }

    pub(crate) fn meaning(&self, key: &str) -> String {
        self.keys.find(key).map_or(String::new(), |found| format!("`{key}`: {}", found.meaning))
    }
}

/// One text being checked, and the problems found in it so far.
pub(crate) struct Parser<'t> {
    text: &'t str,
    /// Where its lines end: a file may have thousands of rules to number.
    line_ends: Vec<usize>,
    found: Vec<Diagnostic>,
    /// How many errors were found, also those that are not shown.
    pub(crate) errors: usize,
    unreported: usize,
    templates: usize,
    /// The paths into the request that templates name, each with its place; kept until they are taken.
    request_paths: Vec<(Span, Vec<String>)>,
    /// The keys of the whole text.
    top: Described,
    /// The keys of the kinds of tables seen so far, by their definition.
    pub(crate) described: BTreeMap<&'static str, Rc<TableKeys>>,
    /// The scenario's name.
    pub(crate) scenario: Arc<str>,
    /// The profile under the scenario's `[profile]`.
    pub(crate) base: &'t Layered,
    /// The profile in force while the scenario is active: decides which event types and URLs are accepted.
    pub(crate) profile: Arc<Profile>,
    /// About the bytes of the patterns once compiled.
    pub(crate) pattern_bytes: usize,
    /// Statuses that the file's own rules answer.
    pub(crate) scripted: BTreeSet<u16>,
    pub(super) rule_prints: Fingerprints,
    pub(super) emit_prints: Fingerprints,
    pub(super) rotate_prints: Fingerprints,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(scenario: &str, text: &'t str, base: &'t Layered, top: Described) -> Self {
        Self {
            text,
            top,
            described: BTreeMap::new(),
            scenario: scenario.into(),
            base,
            line_ends: text.match_indices('\n').map(|(at, _)| at).collect(),
            found: Vec::new(),
            errors: 0,
            unreported: 0,
            templates: 0,
            request_paths: Vec::new(),
            profile: Arc::clone(base.profile()),
            pattern_bytes: 0,
            scripted: BTreeSet::new(),
            rule_prints: Fingerprints::new(scenario, "rule"),
            emit_prints: Fingerprints::new(scenario, "emit"),
            rotate_prints: Fingerprints::new(scenario, "rotate"),
        }
    }

    /// The line of a place, from 1.
    pub(crate) fn line_of(&self, span: &Span) -> usize {
        self.line_ends.partition_point(|end| *end < span.start) + 1
    }

    pub(crate) fn error(&mut self, code: Code, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Level::Error, code, span, message.into(), hint.into());
    }

    /// An error instead of a value.
    pub(crate) fn refuse<T>(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.error(code, span, message, hint);
        None
    }

    pub(crate) fn warning(&mut self, code: Code, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Level::Warning, code, span, message.into(), hint.into());
    }

    fn report(&mut self, severity: Level, code: Code, span: Span, message: String, hint: String) {
        self.errors += usize::from(severity == Level::Error);
        if self.found.len() >= MAX {
            // A warning must not push an error out: only whether there is an error decides whether the file is taken.
            let warning = self.found.iter().rposition(|known| !known.is_error());
            self.unreported += 1;
            let Some(at) = warning.filter(|_| severity == Level::Error) else { return };
            self.found.remove(at);
        }
        self.found.push(Diagnostic::at(severity, code, self.text, span, message, hint));
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(Diagnostic::is_error)
    }

    /// Everything found, in the order of the text.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|problem| (problem.span.start, problem.span.end));
        if let Some(last) = self.found.last_mut().filter(|_| self.unreported > 0) {
            let more = format!("{} further problems are not shown", self.unreported);
            last.hint = if last.hint.is_empty() { more } else { format!("{}; {more}", last.hint) };
        }
        self.found
    }

    pub(crate) fn wrong_type(&mut self, key: &str, expected: &str, found: Place<'_, '_>, hint: impl Into<String>) {
        let problem = ValueProblem::wrong_type(key, expected, found.get_ref());
        self.error(problem.code, found.span(), problem.message, problem.hint.unwrap_or_else(|| hint.into()));
    }

    /// Reports every key that does not belong in a table or that it lacks, and every value that is not of its key's kind.
    pub(crate) fn open<'v, 'i>(&mut self, fields: &'v DeTable<'i>, keys: Rc<TableKeys>, span: Span) -> Table<'v, 'i> {
        let errors_before = self.errors;
        let mut table = Table { fields, keys: Rc::clone(&keys), span, position: 0, errors_before, wrong: Vec::new() };
        for (key, value) in fields {
            let Some(spec) = keys.find(key.get_ref()) else {
                // Looking for the nearest name is slow, and a file may have thousands of wrong keys.
                let is_shown = self.found.len() < MAX;
                let hint = if is_shown { key_hint(key.get_ref(), &keys, &(self.top)()) } else { String::new() };
                let message = format!("unknown key `{}` in {}", quoted(key.get_ref()), keys.place);
                self.error("scenario/unknown-key", key.span(), message, hint);
                continue;
            };
            if let Some(ValueProblem { code, message, hint }) = spec.kind.problem(spec.name, value.get_ref()) {
                self.error(code, value.span(), message, hint.unwrap_or_else(|| table.meaning(spec.name)));
                table.wrong.push(spec.name);
            }
        }
        for key in keys.required().filter(|key| !table.has(key)) {
            let message = format!("{} needs `{key}`", keys.place);
            self.error("scenario/missing-key", table.span.clone(), message, table.meaning(key));
        }
        self.check_rules(&table);
        table
    }

    /// Reports keys that do not go together, each once.
    fn check_rules(&mut self, table: &Table<'_, '_>) {
        let mut reported: Vec<&str> = Vec::new();
        for rule in &table.keys.rules {
            match rule {
                KeyRule::Excludes(firsts, others, why, hint) => {
                    let is_there = |key: &&&str| table.has(key) && !reported.contains(*key);
                    let Some(first) = firsts.iter().find(is_there) else { continue };
                    let others: Vec<&str> =
                        others.iter().filter(is_there).copied().filter(|key| key != first).collect();
                    for other in &others {
                        self.clash(table, other, format!("`{other}` excludes `{first}`: {why}"), hint);
                    }
                    reported.extend(others);
                }
                KeyRule::Needs(key, needed, hint) if !table.has(needed) => {
                    self.clash(table, key, format!("`{key}` needs a `{needed}`"), hint);
                }
                KeyRule::Takes(by, kinds) => {
                    let (what, by) = (table.keys.definition, *by);
                    let Some((kind, taken)) = kinds.iter().find(|(kind, _)| table.text(by) == Some(kind)) else {
                        continue;
                    };
                    for key in table.keys.names().into_iter().filter(|key| *key != by && !taken.contains(key)) {
                        self.clash(table, key, format!("the {what} `{kind}` does not accept `{key}`"), "drop it");
                    }
                }
                KeyRule::Requires(keys, hint) if table.first_of(keys).is_none() && !table.has_unknown_key() => {
                    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                    let message = format!("{} needs {}", table.keys.place, any_of(&keys));
                    self.error("scenario/missing-key", table.span.clone(), message, *hint);
                }
                KeyRule::Requires(..)
                | KeyRule::Needs(..)
                | KeyRule::AnyOf(_)
                | KeyRule::NotEmpty
                | KeyRule::Elsewhere(..)
                | KeyRule::Never(_) => {}
            }
        }
    }

    /// The texts at a key, which has one or an array of them; `expected` says of what.
    pub(crate) fn texts<'v>(&mut self, table: &Table<'v, '_>, key: &str, expected: &str) -> Vec<(Span, &'v str)> {
        let one = table.get(key).filter(|value| !value.get_ref().is_array() && table.right(key).is_some());
        let mut texts = Vec::new();
        for entry in table.entries(key).chain(one) {
            match entry.get_ref().as_str() {
                Some(text) => texts.push((entry.span(), text)),
                None => self.wrong_type(key, expected, entry, ""),
            }
        }
        texts
    }

    /// Any value as JSON. Dates become texts; what JSON has no number for is a problem.
    pub(crate) fn json(&mut self, value: Place<'_, '_>) -> Option<Value> {
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

    pub(crate) fn json_map(&mut self, table: &DeTable<'_>) -> Option<Map<String, Value>> {
        let fields: Vec<Option<(String, Value)>> =
            table.iter().map(|(key, value)| Some((key.get_ref().to_string(), self.json(value)?))).collect();
        fields.into_iter().collect()
    }

    /// A table of fields that may have templates: `patch` or `data`.
    pub(crate) fn json_fields(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Map<String, Value>> {
        self.check_templates(table, &[key]);
        let fields = table.fields_at(key)?;
        self.json_map(fields)
    }

    /// Reports the problems of the templates of one body, which are rendered together.
    pub(crate) fn check_templates(&mut self, table: &Table<'_, '_>, keys: &[&str]) {
        let before = self.templates;
        for value in keys.iter().filter_map(|key| table.get(key)) {
            self.check_templates_of(value);
        }
        let count = self.templates - before;
        if let Some(first) = keys.iter().find_map(|key| table.get(key)).filter(|_| count > MAX_TEMPLATES) {
            let message = format!("a body has at most {MAX_TEMPLATES} templates, found {count}");
            self.error(
                "scenario/too-many",
                first.span(),
                message,
                "put several values into one text, or write them out",
            );
        }
    }

    fn check_templates_of(&mut self, value: Place<'_, '_>) {
        match value.get_ref() {
            DeValue::String(text) if is_template(text) => {
                self.templates += 1;
                let template = Template::parse(text);
                let tried = template.as_ref().map_err(Clone::clone).and_then(Template::try_out);
                if let Err(problem) = tried {
                    let hint = "write values such as {{ request.body.url }}, {{ now }} or {{ ulid() }}; `docs/scenario-language.md` lists them";
                    self.error("scenario/bad-template", value.span(), problem, hint);
                }
                let paths = template.map(|template| template.request_paths()).unwrap_or_default();
                self.request_paths.extend(paths.into_iter().map(|path| (value.span(), path)));
            }
            DeValue::Array(values) => values.iter().for_each(|value| self.check_templates_of(value)),
            DeValue::Table(table) => table.values().for_each(|value| self.check_templates_of(value)),
            _ => {}
        }
    }

    /// The paths into the request that templates named since the last call.
    pub(crate) fn take_request_paths(&mut self) -> Vec<(Span, Vec<String>)> {
        std::mem::take(&mut self.request_paths)
    }

    /// Refuses a key that something else in its table excludes, if it is present.
    pub(crate) fn clash(&mut self, table: &Table<'_, '_>, key: &str, message: impl Into<String>, hint: &str) {
        if let Some(span) = table.key_span(key) {
            self.error("scenario/clash", span, message, hint);
        }
    }
}

/// The table at one of the keys that has this key, or the nearest key.
fn key_hint(key: &str, keys: &TableKeys, top: &TableKeys) -> String {
    let inner: Vec<TableKeys> = keys.keys.iter().filter_map(|own| keys.inner(own.name)).collect();
    let places: Vec<&str> = inner.iter().filter(|inner| inner.has(key)).map(|inner| inner.place).collect();
    if !places.is_empty() {
        return format!("`{key}` belongs in {}", any_of(&places));
    }
    let elsewhere = keys.rules.iter().find_map(|rule| match rule {
        KeyRule::Elsewhere(names, hint) if names.contains(&key) => Some(*hint),
        _ => None,
    });
    if let Some(hint) = elsewhere {
        return hint.to_owned();
    }
    // After the first table, a key is that table's.
    if top.has(key) && !keys.has(key) && keys.definition != top.definition {
        return format!("`{key}` belongs at the top of the file, before the first `[table]`");
    }
    // The names of tables that are written out with their path, such as `[[given.subscription]]`, may be mistyped anywhere.
    let header = |table: &TableKeys, name| {
        let place = table.inner(name)?.place;
        place.split('`').find(|part| part.starts_with('['))
    };
    let mut names = keys.names();
    names.extend(inner.iter().flat_map(|table| table.names().into_iter().filter(|name| header(table, name).is_some())));
    let written = nearest(key, names.into_iter())
        .and_then(|near| iter::once(keys).chain(&inner).find_map(|table| header(table, near)));
    written.map_or_else(|| nearest_hint(key, &keys.names()), |written| format!("did you mean `{written}`?"))
}
