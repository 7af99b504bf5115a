//! `when` and `on`: text to checked conditions.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::header::HeaderName;
use serde_json::Value;
use toml::Spanned;
use toml::de::DeValue;

use super::keys::{KeyReader, TableKind};
use super::kinds::{
    ANYTHING, ARRAY, BODY_CONDITIONS, CONDITION, CONDITIONS, HEADER_CONDITIONS, KeyRule, NEGATED, OPERATIONS, PATTERN,
    ValueKind as Kind, nearest_hint,
};
use super::reader::{Parser, Place, Span, Table};
use crate::contract::routes::Operation;
use crate::scenario::matcher::{Condition, Literal, Subject, Test, When, glob_pattern, parameter};
use crate::util::wording::quoted;

/// Maximum bytes of a regular expression, and of those of a file together, once compiled.
const MAX_PATTERN: usize = 1 << 20;
const MAX_PATTERN_BYTES: usize = 96 << 20;
/// Deepest nesting of `not`.
const DEEPEST_NOT: usize = 8;

/// A rule's `when`.
impl TableKind for When {
    const DEFINITION: &'static str = "when";
    const PLACE: &'static str = "`when`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let when = request(keys);
        let step = keys.name("step", "the step at which the story must be; it begins at \"start\"");
        let authenticated = keys.flag(
            "authenticated",
            "whether a path that no endpoint has needs a valid key, which is then counted; true below /v1/ if left out",
        );
        let (parser, table) = keys.input()?;
        if authenticated.is_some() && !when.no_endpoint && parser.errors == table.errors_before {
            let message = "`authenticated` has no effect: it is for a `path` that no endpoint has";
            parser.warning("scenario/no-effect", table.span_of("authenticated"), message, "drop it");
        }
        Some(Self { step: step.map(Arc::from), authenticated, ..when })
    }
}

/// Conditions for a request: the keys that `when` and `on` share. The order of the conditions is that of the text.
pub(super) fn request(keys: &mut KeyReader<'_, '_>) -> When {
    keys.name_only("operation", OPERATIONS, "the operation's name, or a list of names");
    keys.name_only("method", CONDITION, "the HTTP method");
    keys.name_only(
        "path",
        CONDITION,
        "the path; in a string, {name} matches one segment, * any text without a slash, ** any text, ? one character",
    );
    keys.name_only("query", CONDITIONS, "query parameters by name");
    keys.name_only("header", HEADER_CONDITIONS, "headers by name");
    keys.name_only("body", BODY_CONDITIONS, "places in the JSON body by JSON pointer");
    keys.name_only("key", CONDITION, "the API key");
    keys.input().map(|(parser, table)| parser.conditions(table)).unwrap_or_default()
}

/// The comparison for a value. [`Parser::tests`] reads it, because it depends on the value's type.
pub(super) struct Matcher;

impl TableKind for Matcher {
    const DEFINITION: &'static str = "matcher";
    const PLACE: &'static str = "a matcher";

    fn rules() -> Vec<KeyRule> {
        vec![KeyRule::NotEmpty]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        keys.name_only("equals", ANYTHING, "is this value");
        keys.name_only("contains", ANYTHING, "text: contains this part; list: has this entry; object: has this key");
        keys.name_only("starts_with", Kind::Text, "begins with this text");
        keys.name_only("ends_with", Kind::Text, "ends with this text");
        keys.name_only("matches", PATTERN, "matches this regular expression, anywhere unless ^ and $ are used");
        keys.name_only("one_of", ARRAY, "is one of these values");
        keys.name_only("present", Kind::Boolean, "true: exists; false: does not exist");
        keys.name_only("not", NEGATED, "the matcher given here does not match");
        keys.name_only("lt", Kind::Number, "is a number less than this");
        keys.name_only("gt", Kind::Number, "is a number greater than this");
        Some(Self)
    }
}

impl Parser<'_> {
    fn conditions(&mut self, table: &Table<'_, '_>) -> When {
        let before = self.errors;
        let mut when = When { operations: self.operations(table), ..When::default() };
        for (key, value) in table.fields {
            let key = key.get_ref().as_ref();
            let single = match key {
                "method" => Subject::Method,
                "path" => Subject::Path,
                "key" => Subject::Key,
                "query" | "header" | "body" => {
                    for (name, value) in table.fields_at(key).into_iter().flatten() {
                        if let Some(subject) = self.subject(key, name) {
                            when.conditions.extend(self.condition(subject, name.get_ref(), value));
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            when.conditions.extend(self.condition(single, key, value));
        }
        when.no_endpoint = when.operations.is_empty() && when.is_without_endpoint();
        // With a wrong condition left out, the others mean something else.
        if self.errors == before {
            self.warn_of_foreign_route(&when, table);
        }
        when
    }

    fn operations(&mut self, table: &Table<'_, '_>) -> Vec<Operation> {
        if table.is_empty_array("operation") {
            let message = "`operation` must not be an empty array";
            self.error("scenario/bad-value", table.span_of("operation"), message, "");
        }
        let mut operations = Vec::new();
        for (span, name) in self.texts(table, "operation", "a name, or an array of names") {
            match Operation::from_name(name) {
                Some(operation) if operations.contains(&operation) => {}
                Some(operation) => operations.push(operation),
                None => {
                    let known: Vec<&str> = Operation::ALL.map(Operation::name).to_vec();
                    let (message, hint) = (format!("unknown operation `{}`", quoted(name)), nearest_hint(name, &known));
                    self.error("scenario/unknown-operation", span, message, hint);
                }
            }
        }
        operations
    }

    fn subject(&mut self, group: &str, name: &Spanned<Cow<'_, str>>) -> Option<Subject> {
        let text = name.get_ref().as_ref();
        match group {
            "query" => Some(Subject::Query(text.into())),
            "header" => {
                let header = HeaderName::from_bytes(text.as_bytes()).ok();
                if header.is_none() {
                    let message = format!("`{}` is not a valid header name", quoted(text));
                    self.error("scenario/bad-value", name.span(), message, "for example `header.user-agent`");
                }
                header.map(Subject::Header)
            }
            _ if text.is_empty() || text.starts_with('/') => Some(Subject::Body(text.into())),
            _ => {
                let message = format!("expected a JSON pointer, found `{}`", quoted(text));
                let hint =
                    format!("write body.\"/{}\": a pointer begins with a slash", quoted(&text.replace('.', "/")));
                self.refuse("scenario/bad-pointer", name.span(), message, hint)
            }
        }
    }

    fn condition(&mut self, subject: Subject, key: &str, value: Place<'_, '_>) -> Option<Condition> {
        let tests = match value.get_ref() {
            DeValue::Table(fields) => {
                let matcher = self.open_table::<Matcher>(fields, value.span());
                if fields.is_empty() {
                    let message = format!("the matcher for `{}` is empty", quoted(key));
                    let hint = "for example { present = true }";
                    self.error("scenario/missing-key", value.span(), message, hint);
                }
                self.tests(&subject, &matcher, 0)
            }
            DeValue::String(text) if subject == Subject::Path && text.contains(['*', '?', '{']) => {
                self.check_parameters(text, value.span())?;
                let pattern = self.pattern(value.span(), &glob_pattern(text));
                pattern.map(|pattern| Test::Glob(text.as_ref().into(), pattern)).into_iter().collect()
            }
            _ => self.literal(&subject, value).map(Test::Equals).into_iter().collect(),
        };
        if tests.is_empty() {
            return None;
        }
        self.warn_of_contradiction(&subject, &tests, value.span());
        Some(Condition { subject, tests })
    }

    /// Reports a `{` in a path that begins no parameter, and a parameter that comes twice.
    fn check_parameters(&mut self, path: &str, span: Span) -> Option<()> {
        let mut names = Vec::new();
        for (at, _) in path.match_indices('{') {
            match parameter(&path[at..]) {
                Some(name) if names.contains(&name) => {
                    let message = format!("the path has two parameters `{name}`");
                    return self.refuse("scenario/bad-value", span, message, "give each a different name");
                }
                Some(name) => names.push(name),
                None => {
                    let message = format!("`{}` begins no parameter", quoted(&path[at..]));
                    let hint = "write a name of letters, digits and _ in braces, such as {id}";
                    return self.refuse("scenario/bad-value", span, message, hint);
                }
            }
        }
        Some(())
    }

    fn tests(&mut self, subject: &Subject, table: &Table<'_, '_>, depth: usize) -> Vec<Test> {
        let mut tests = Vec::new();
        for (key, value) in table.fields {
            let test = match key.get_ref().as_ref() {
                "equals" => self.literal(subject, value).map(Test::Equals),
                "contains" => self.literal(subject, value).map(Test::Contains),
                "starts_with" => table.text("starts_with").map(|text| Test::StartsWith(text.into())),
                "ends_with" => table.text("ends_with").map(|text| Test::EndsWith(text.into())),
                "matches" => {
                    let pattern = table.text("matches");
                    pattern.and_then(|pattern| self.pattern(value.span(), pattern)).map(Test::Matches)
                }
                "one_of" if value.get_ref().is_array() => Some(Test::OneOf(
                    table.entries("one_of").filter_map(|value| self.literal(subject, value)).collect(),
                )),
                "present" => table.flag("present").map(Test::Present),
                "not" => self.negated(subject, value, depth),
                "lt" => table.number("lt").map(Test::Lt),
                "gt" => table.number("gt").map(Test::Gt),
                _ => None,
            };
            tests.extend(test);
        }
        tests
    }

    fn negated(&mut self, subject: &Subject, value: Place<'_, '_>, depth: usize) -> Option<Test> {
        if depth >= DEEPEST_NOT {
            let message = format!("`not` is nested more than {DEEPEST_NOT} deep");
            let hint = "two of them cancel each other out";
            return self.refuse("scenario/too-many", value.span(), message, hint);
        }
        let tests = match value.get_ref() {
            DeValue::Table(fields) => {
                let matcher = self.open_table::<Matcher>(fields, value.span());
                self.tests(subject, &matcher, depth + 1)
            }
            // `not = "x"` reads as naturally as `not = { equals = "x" }`.
            _ => self.literal(subject, value).map(Test::Equals).into_iter().collect(),
        };
        if tests.is_empty() {
            let hint = "for example not = { starts_with = \"x\" }";
            return self.refuse("scenario/missing-key", value.span(), "`not` has nothing to negate", hint);
        }
        Some(Test::Not(tests))
    }

    fn literal(&mut self, subject: &Subject, value: Place<'_, '_>) -> Option<Literal> {
        if !matches!(subject, Subject::Body(_)) && matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            let expected = "a string, a number or a boolean";
            self.wrong_type(&subject.to_string(), expected, value, "");
            return None;
        }
        let json = self.json(value)?;
        Some(Literal::new(match (subject, json) {
            (Subject::Method, Value::String(method)) => Value::String(method.to_ascii_uppercase()),
            (_, json) => json,
        }))
    }

    pub(super) fn pattern(&mut self, span: Span, pattern: &str) -> Option<regex::Regex> {
        // The smallest limit that suffices tells what the compiled expression takes, which nothing else does.
        for limit in [MAX_PATTERN >> 7, MAX_PATTERN >> 4, MAX_PATTERN] {
            self.pattern_bytes += limit;
            if self.pattern_bytes > MAX_PATTERN_BYTES {
                let message = "the regular expressions of this file are too large together";
                let hint = "use `starts_with`, `one_of` or a shorter expression where it will do";
                return self.refuse("scenario/too-many", span, message, hint);
            }
            match regex::RegexBuilder::new(pattern).size_limit(limit).build() {
                Ok(compiled) => return Some(compiled),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => {
                    // The last line only: the others draw the place, which the caret shows.
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    let message = format!("the regular expression is wrong: {reason}");
                    let hint = "text with special characters can be matched as it is with `contains`";
                    return self.refuse("scenario/bad-pattern", span, message, hint);
                }
            }
        }
        let message = "the regular expression is too large when compiled";
        self.refuse("scenario/bad-pattern", span, message, "use smaller repetition counts")
    }
}
