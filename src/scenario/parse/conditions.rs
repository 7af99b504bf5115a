//! `when` and `on`: text to checked conditions, with a warning where one can never hold.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::header::HeaderName;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Parser;
use super::advice::nearest_hint;
use super::reader::{Place, shown};
use super::words::{self, Words};
use crate::contract::keys::judge;
use crate::contract::nearest;
use crate::contract::openapi::statuses;
use crate::contract::routes::{Operation, ROUTES};
use crate::scenario::matcher::{Condition, Found, Literal, Subject, Test, When, glob_pattern};
use crate::wording::any_of;

/// Largest compiled regular expression, and the size up to which one costs next to nothing.
const LARGEST_PATTERN: usize = 1 << 20;
const SMALL_PATTERN: usize = 64 * 1024;
const TINY_PATTERN: usize = 8 * 1024;
/// Most regular expressions in one file, and most that are larger than small: compiling them takes time and memory.
const MOST_PATTERNS: usize = 1_000;
const MOST_LARGE_PATTERNS: usize = 16;
/// Deepest nesting of `not`.
const DEEPEST_NOT: usize = 8;

impl Parser<'_> {
    /// Reads the conditions of a `when` or `on`, whose keys were checked already.
    pub(super) fn conditions(&mut self, table: &DeTable<'_>) -> When {
        let mut when = When { operations: self.operations(table), conditions: Vec::new() };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "method" => self.condition(&mut when, Subject::Method, "method", value),
                "path" => self.condition(&mut when, Subject::Path, "path", value),
                "key" => self.condition(&mut when, Subject::Key, "key", value),
                group @ ("query" | "header" | "body") => {
                    for (name, value) in self.problems.any_table(group, "a table of names", value).into_iter().flatten()
                    {
                        if let Some(subject) = self.subject(group, name) {
                            self.condition(&mut when, subject, name.get_ref(), value);
                        }
                    }
                }
                _ => {}
            }
        }
        self.warn_of_foreign_route(&when, table);
        when
    }

    /// Whether one of these operations, of all if none is named, can answer with this status by itself.
    pub(super) fn can_answer(&self, operations: &[Operation], status: u16) -> bool {
        let known = self.statuses.get_or_init(|| {
            ROUTES.iter().map(|route| (route.operation, statuses(route, &self.profile.api_shape()).collect())).collect()
        });
        let mut meant = known.iter().filter(|(operation, _)| operations.is_empty() || operations.contains(operation));
        meant.any(|(_, answered)| answered.contains(&status))
    }

    /// The `status` of a `next` or `on`.
    pub(super) fn status(&mut self, table: &DeTable<'_>, words: &Words) -> Option<u16> {
        self.problems.number(table, words, "status").and_then(|status| u16::try_from(status).ok())
    }

    /// The `step` of a `when`.
    pub(super) fn step_name(&mut self, table: &DeTable<'_>, key: &str) -> Option<Arc<str>> {
        self.problems.filled_text(table, key).map(Arc::from)
    }

    fn operations(&mut self, table: &DeTable<'_>) -> Vec<Operation> {
        let Some(value) = table.get("operation") else { return Vec::new() };
        let entries: Vec<Place<'_, '_>> = match value.get_ref() {
            DeValue::Array(entries) if entries.is_empty() => {
                self.problems.error("scenario/bad-value", value.span(), "`operation` must not be an empty array", "");
                Vec::new()
            }
            DeValue::Array(entries) => entries.iter().collect(),
            _ => vec![value],
        };
        let mut operations = Vec::new();
        for entry in entries {
            let Some(name) = entry.get_ref().as_str() else {
                self.problems.wrong_type("operation", "a name, or an array of names", entry);
                continue;
            };
            match Operation::from_name(name) {
                Some(operation) if operations.contains(&operation) => {}
                Some(operation) => operations.push(operation),
                None => {
                    let known: Vec<&str> = ROUTES.iter().map(|route| route.operation.name()).collect();
                    let message = format!("unknown operation `{}`", shown(name));
                    self.problems.error(
                        "scenario/unknown-operation",
                        entry.span(),
                        message,
                        nearest_hint(name, &known),
                    );
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
                    let message = format!("`{}` is not a valid header name", shown(text));
                    self.problems.error("scenario/bad-value", name.span(), message, "for example `header.user-agent`");
                }
                header.map(Subject::Header)
            }
            _ if text.is_empty() || text.starts_with('/') => Some(Subject::Body(text.into())),
            _ => {
                let message = format!("expected a JSON pointer, found `{}`", shown(text));
                let hint = format!("write body.\"/{}\": a pointer begins with a slash", shown(&text.replace('.', "/")));
                self.problems.refuse("scenario/bad-pointer", name.span(), message, hint)
            }
        }
    }

    fn condition(&mut self, when: &mut When, subject: Subject, key: &str, value: Place<'_, '_>) {
        let tests = match value.get_ref() {
            DeValue::Table(table) => {
                self.problems.check_keys(table, &words::MATCHER);
                if table.is_empty() {
                    let message = format!("the matcher for `{}` is empty", shown(key));
                    let hint = "for example { present = true }";
                    self.problems.error("scenario/missing-key", value.span(), message, hint);
                }
                self.tests(&subject, table, 0)
            }
            DeValue::String(text) if subject == Subject::Path && text.contains(['*', '?']) => {
                let pattern = self.pattern(value, &glob_pattern(text));
                pattern.map(|pattern| Test::Glob(text.as_ref().into(), pattern)).into_iter().collect()
            }
            _ => self.literal(&subject, value).map(Test::Equals).into_iter().collect(),
        };
        if !tests.is_empty() {
            self.warn_of_contradiction(&subject, &tests, value);
            when.conditions.push(Condition { subject, tests });
        }
    }

    fn tests(&mut self, subject: &Subject, table: &DeTable<'_>, depth: usize) -> Vec<Test> {
        let mut tests = Vec::new();
        for (key, value) in table {
            let affix = |parser: &mut Self| parser.problems.text(table, key.get_ref()).map(Box::from);
            let test = match key.get_ref().as_ref() {
                "equals" => self.literal(subject, value).map(Test::Equals),
                "contains" => self.literal(subject, value).map(Test::Contains),
                "starts_with" => affix(self).map(Test::StartsWith),
                "ends_with" => affix(self).map(Test::EndsWith),
                "matches" => {
                    let pattern = self.problems.text(table, "matches");
                    pattern.and_then(|pattern| self.pattern(value, pattern)).map(Test::Matches)
                }
                "one_of" => self.one_of(subject, value),
                "present" => self.problems.flag(table, "present").map(Test::Present),
                "not" => self.negated(subject, value, depth),
                "lt" => self.problems.float_of("lt", value).map(Test::Lt),
                "gt" => self.problems.float_of("gt", value).map(Test::Gt),
                _ => None,
            };
            tests.extend(test);
        }
        tests
    }

    fn one_of(&mut self, subject: &Subject, value: Place<'_, '_>) -> Option<Test> {
        let DeValue::Array(values) = value.get_ref() else {
            self.problems.wrong_type("one_of", "an array of values", value);
            return None;
        };
        Some(Test::OneOf(values.iter().filter_map(|value| self.literal(subject, value)).collect()))
    }

    fn negated(&mut self, subject: &Subject, value: Place<'_, '_>, depth: usize) -> Option<Test> {
        if depth >= DEEPEST_NOT {
            let message = format!("`not` is nested more than {DEEPEST_NOT} deep");
            let hint = "two of them cancel each other out";
            return self.problems.refuse("scenario/too-many", value.span(), message, hint);
        }
        let tests = match value.get_ref() {
            DeValue::Table(table) => {
                self.problems.check_keys(table, &words::MATCHER);
                self.tests(subject, table, depth + 1)
            }
            // `not = "x"` reads as naturally as `not = { equals = "x" }`.
            _ => self.literal(subject, value).map(Test::Equals).into_iter().collect(),
        };
        if tests.is_empty() {
            let hint = "for example not = { starts_with = \"x\" }";
            return self.problems.refuse("scenario/missing-key", value.span(), "`not` has nothing to negate", hint);
        }
        Some(Test::Not(tests))
    }

    fn literal(&mut self, subject: &Subject, value: Place<'_, '_>) -> Option<Literal> {
        if !matches!(subject, Subject::Body(_)) && matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            self.problems.wrong_type(&subject.to_string(), "a string, a number or a boolean", value);
            return None;
        }
        let json = self.problems.json(value)?;
        Some(Literal::new(match (subject, json) {
            (Subject::Method, Value::String(method)) => Value::String(method.to_ascii_uppercase()),
            (_, json) => json,
        }))
    }

    fn pattern(&mut self, value: Place<'_, '_>, pattern: &str) -> Option<regex::Regex> {
        self.patterns += 1;
        let too_many = |parser: &mut Self, what: &str| {
            let hint = "use `starts_with`, `one_of` or a shorter expression where it will do";
            parser.problems.refuse("scenario/too-many", value.span(), what, hint)
        };
        if self.patterns > MOST_PATTERNS {
            return too_many(self, &format!("a file may hold at most {MOST_PATTERNS} regular expressions"));
        }
        let compile = |limit: usize| regex::RegexBuilder::new(pattern).size_limit(limit).build();
        // Backwards as well as forwards.
        self.pattern_bytes += 2 * TINY_PATTERN;
        if let Ok(compiled) = compile(TINY_PATTERN) {
            return Some(compiled);
        }
        self.pattern_bytes += 2 * SMALL_PATTERN;
        match compile(SMALL_PATTERN) {
            Err(regex::Error::CompiledTooBig(_)) => {}
            Ok(compiled) => return Some(compiled),
            Err(error) => {
                // The first line only: the rest draws the place, which the caret shows.
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                let hint = "text with special characters can be matched as it is with `contains`";
                let message = format!("the regular expression is wrong: {reason}");
                return self.problems.refuse("scenario/bad-pattern", value.span(), message, hint);
            }
        }
        self.large_patterns += 1;
        if self.large_patterns > MOST_LARGE_PATTERNS {
            return too_many(self, &format!("a file may hold at most {MOST_LARGE_PATTERNS} large regular expressions"));
        }
        self.pattern_bytes += 2 * LARGEST_PATTERN;
        let compiled = compile(LARGEST_PATTERN).ok();
        if compiled.is_none() {
            let message = "the regular expression is too large when compiled";
            self.problems.error("scenario/bad-pattern", value.span(), message, "use smaller repetition counts");
        }
        compiled
    }

    /// Conditions on one subject that no value can meet.
    fn warn_of_contradiction(&mut self, subject: &Subject, tests: &[Test], value: Place<'_, '_>) {
        let never = |parser: &mut Self, why: String, hint: &str| {
            parser.problems.warning("scenario/never-matches", value.span(), format!("this never holds: {why}"), hint);
        };
        if let Some(Test::Equals(literal)) = tests.iter().find(|test| matches!(test, Test::Equals(_))) {
            let found = match subject {
                Subject::Body(_) => Found::Json(literal.json()),
                _ => Found::Text(Cow::Borrowed(literal.text())),
            };
            if let Some(failed) = tests.iter().find(|test| !test.holds(&found)) {
                never(self, format!("{literal} is not {failed}"), "drop one of the two");
                return;
            }
        }
        let absent = tests.iter().any(|test| matches!(test, Test::Present(false)));
        if absent && tests.iter().any(|test| !test.holds(&Found::Absent)) {
            never(self, "what is absent has no value".to_owned(), "drop `present = false`");
        }
        if tests.iter().any(|test| matches!(test, Test::OneOf(literals) if literals.is_empty())) {
            never(self, "`one_of` lists nothing".to_owned(), "list at least one value");
        }
        let bound = |pick: fn(&Test) -> Option<f64>| tests.iter().find_map(pick);
        let low = bound(|test| if let Test::Gt(bound) = test { Some(*bound) } else { None });
        let high = bound(|test| if let Test::Lt(bound) = test { Some(*bound) } else { None });
        if let (Some(low), Some(high)) = (low, high)
            && low >= high
        {
            never(self, format!("no number is greater than {low} and less than {high}"), "swap `lt` and `gt`?");
        }
        if *subject == Subject::Key {
            let refusal = tests.iter().find_map(|test| match test {
                Test::Equals(literal) => judge(literal.text(), self.profile.key_rules()).err(),
                _ => None,
            });
            if let Some(refusal) = refusal {
                never(
                    self,
                    refusal.to_string(),
                    "a request with such a key is answered with 401 before any rule is asked",
                );
            }
        }
    }

    /// A method or path that no endpoint has, or none of the operations named.
    fn warn_of_foreign_route(&mut self, when: &When, table: &DeTable<'_>) {
        for condition in &when.conditions {
            let (key, fits): (_, fn(&Condition, &str, &str) -> bool) = match condition.subject {
                Subject::Path => ("path", |condition, path, _| may_have_path(condition, path)),
                Subject::Method => ("method", |condition, _, method| {
                    holds(condition, method) || (method == "GET" && holds(condition, "HEAD"))
                }),
                _ => continue,
            };
            let named = &when.operations;
            let routes = || ROUTES.iter().filter(|route| named.is_empty() || named.contains(&route.operation));
            if routes().any(|route| fits(condition, route.path, route.method.as_str())) {
                continue;
            }
            let (message, hint) = if named.is_empty() {
                let hint = match condition.exact().and_then(|path| nearest(path, ROUTES.iter().map(|route| route.path)))
                {
                    Some(near) => format!("did you mean \"{near}\"? "),
                    None => String::new(),
                };
                let answered = format!("{hint}such a request is answered before any rule is asked");
                (format!("this never holds: no endpoint has this {key}"), answered)
            } else {
                let real: Vec<_> = routes().map(|route| format!("{} {}", route.method, route.path)).collect();
                let message = format!("this never holds: the operation is {}", any_of(&real));
                (message, format!("drop `{key}`: the operation says it already"))
            };
            let span = table.get(key).map_or(0..0, Spanned::span);
            self.problems.warning("scenario/never-matches", span, message, hint);
        }
    }
}

/// Whether a request to this endpoint may meet a condition on the path. Where the path has a part that can be anything, what
/// is uncertain counts as met.
fn may_have_path(condition: &Condition, path: &str) -> bool {
    let Some((fixed, _)) = path.split_once('{') else { return holds(condition, path) };
    let overlaps = |start: &str| start.starts_with(fixed) || fixed.starts_with(start);
    let is_one = |text: &str| {
        let (known, sent) = (path.split('/'), text.split('/'));
        known.clone().count() == sent.clone().count()
            && known.zip(sent).all(|(known, sent)| known == sent || (known == "{id}" && !sent.is_empty()))
    };
    let literal =
        |text: &str| text.find(|at: char| !at.is_ascii_alphanumeric() && !"/_-".contains(at)).unwrap_or(text.len());
    condition.tests.iter().all(|test| match test {
        Test::Equals(value) => is_one(value.text()),
        Test::OneOf(values) => values.iter().any(|value| is_one(value.text())),
        Test::StartsWith(start) => overlaps(start),
        Test::Glob(glob, _) => overlaps(&glob[..literal(glob)]),
        Test::Matches(pattern) if pattern.as_str().contains('|') => true,
        Test::Matches(pattern) => {
            pattern.as_str().strip_prefix('^').is_none_or(|rest| overlaps(fixed_part(rest, literal(rest))))
        }
        Test::Present(expected) => *expected,
        _ => true,
    })
}

/// The text that a regular expression begins with; what may be repeated or left out is not part of it.
fn fixed_part(pattern: &str, end: usize) -> &str {
    let is_repeated = pattern[end..].starts_with(['?', '*', '{']);
    &pattern[..end - usize::from(is_repeated && end > 0)]
}

fn holds(condition: &Condition, text: &str) -> bool {
    let found = Found::Text(Cow::Borrowed(text));
    condition.tests.iter().all(|test| test.holds(&found))
}
