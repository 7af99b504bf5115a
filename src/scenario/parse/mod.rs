//! TOML text to a checked scenario: every problem of the text in one pass, each with its place, code and hint.
//!
//! Reads no files and no clock. `kinds` says what values may look like, `keys` how a function names the keys of a table, and `reader`
//! checks a text against both. One file for each part of the language has the functions; `fingerprints` tells rules apart while a text
//! is edited, and `warnings` looks for what can never happen.

mod actions;
mod conditions;
mod emits;
mod fingerprints;
mod keys;
pub(super) mod kinds;
mod reader;
mod rules;
mod warnings;

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::action::{Delay, Fault, ScriptedQuota, ScriptedReply};
use super::emit::{DeliveryFaults, Emit, Trigger};
use super::matcher::When;
use super::rule::{NextStep, Rule, SequenceStep};
use super::{Given, Scenario, ScenarioOrigin};
use crate::contract::types::SubscribeRequest;
use crate::diagnostic::{Diagnostic, Level};
use crate::settings::{Draft, Layer, Layered};
use crate::util::toml_messages::{SyntaxProblem, is_json, syntax_problems};
use crate::util::wording::quoted;
use conditions::Matcher;
use emits::Rotate;
use keys::{KeyReader, TableKind};
use kinds::{KeyRule, SETTINGS, TableKeys, ValueKind as Kind};
use reader::{Parser, Table};

/// Maximum bytes that one scenario, those given as text, and those in files may use in memory: small rules and patterns use a
/// hundred times as much as their text.
pub(crate) const MAX_WEIGHT: usize = 64 * 1024 * 1024;
const MAX_NAME: usize = 100;
/// Maximum number of syntax errors reported: after the first few the TOML parser is guessing.
const MAX_SYNTAX_ERRORS: usize = 10;

/// Every kind of table, in the order of the page about the language.
pub(super) fn tables() -> Vec<TableKeys> {
    vec![
        TableKeys::of::<Scenario>(),
        TableKeys::of::<Given>(),
        TableKeys::of::<SubscribeRequest>(),
        TableKeys::of::<Rule>(),
        TableKeys::of::<When>(),
        TableKeys::of::<NextStep>(),
        TableKeys::of::<Matcher>(),
        TableKeys::of::<ScriptedReply>(),
        TableKeys::of::<ScriptedQuota>(),
        TableKeys::of::<SequenceStep>(),
        TableKeys::of::<Delay>(),
        TableKeys::of::<Fault>(),
        TableKeys::of::<Emit>(),
        TableKeys::of::<Trigger>(),
        TableKeys::of::<DeliveryFaults>(),
        TableKeys::of::<Rotate>(),
    ]
}

/// Checks a text. There is a scenario if no problem is an error; warnings come either way.
pub fn check_text(name: &str, text: &str) -> (Option<Scenario>, Vec<Diagnostic>) {
    parse_scenario(name, text, ScenarioOrigin::Inline, &Layered::default())
}

/// Checks a text against the profile that will be below its `[profile]`.
pub(super) fn parse_scenario(
    name: &str,
    text: &str,
    origin: ScenarioOrigin,
    base: &Layered,
) -> (Option<Scenario>, Vec<Diagnostic>) {
    if let Some(problem) = problem_of_name(name) {
        return (None, vec![problem]);
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return (None, problems_of_syntax(text, &errors));
    }
    let mut parser = Parser::new(name, text, base, TableKeys::of::<Scenario>);
    let scenario = parser.scenario(text, origin, document.get_ref());
    let failed = parser.has_errors();
    (scenario.filter(|_| !failed), parser.finish())
}

fn problem_of_name(name: &str) -> Option<Diagnostic> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(known) {
        return None;
    }
    let message = format!("`{}` cannot be the name of a scenario", quoted(name));
    let hint = "a name has 1 to 100 of the characters A-Z a-z 0-9 - _ and dots; it is the file's name without .toml";
    Some(Diagnostic::of_file("scenario/bad-name", message, hint))
}

/// The likeliest cause of a syntax error, and so whether others follow from it.
#[derive(Clone, Copy, PartialEq)]
enum SyntaxCause {
    /// One word; the rest of the text is read as it is meant.
    Word,
    Quotes,
    Unclear,
}

/// The problems of a text that is not TOML. After the first error in a line, and after a bracket that was left open, the others
/// follow from it.
fn problems_of_syntax(text: &str, errors: &[toml::de::Error]) -> Vec<Diagnostic> {
    let at =
        |span, message: String, hint: &str| Diagnostic::at(Level::Error, "scenario/syntax", text, span, message, hint);
    if is_json(text) {
        let start = text.len() - text.trim_start().len();
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        let hint = "`wrs-emulator scenarios new NAME` writes one to begin with";
        return vec![at(start..end, "this looks like JSON; scenarios are TOML".to_owned(), hint)];
    }
    let is_curly = |c: &char| matches!(c, '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»');
    let mut problems: Vec<(SyntaxCause, Diagnostic)> = syntax_problems(text, errors)
        .0
        .into_iter()
        .map(|SyntaxProblem { span, message, hint, missing_quote }| {
            let first = text.get(span.clone()).and_then(|text| text.chars().next());
            if let Some(quote) = first.filter(is_curly) {
                let hint = "write strings in straight quotes: \"…\" or '…'";
                return (SyntaxCause::Quotes, at(span, format!("`{quote}` is not a quote in TOML"), hint));
            }
            if let Some(quote) = missing_quote {
                let message = format!("the string is not closed; expected {quote}");
                return (SyntaxCause::Quotes, at(span, message, "write the quote where the string ends"));
            }
            let usual = "the file must be TOML: strings in quotes, arrays in [ ], tables in { } or under [names]";
            (
                if hint.is_some() { SyntaxCause::Word } else { SyntaxCause::Unclear },
                at(span, message, hint.as_deref().unwrap_or(usual)),
            )
        })
        .collect();
    problems.sort_by_key(|(cause, problem)| (problem.line, *cause == SyntaxCause::Unclear, problem.span.start));
    problems.dedup_by_key(|(_, problem)| problem.line);
    let lines: Vec<&str> = text.lines().collect();
    let is_open = |(cause, problem): &(SyntaxCause, Diagnostic)| {
        let line = lines.get(problem.line - 1).map_or("", |line| line.trim_start());
        *cause != SyntaxCause::Word && !line.starts_with('[') && line.contains(['{', '['])
    };
    let kept = problems.iter().position(is_open).map_or(problems.len(), |last| last + 1);
    problems.into_iter().take(kept.min(MAX_SYNTAX_ERRORS)).map(|(_, problem)| problem).collect()
}

/// About how many bytes a table uses in memory; measured on files that are dense with rules, conditions and bodies.
fn table_weight(table: &DeTable<'_>) -> usize {
    512 + table.values().map(|value| value_weight(value.get_ref())).sum::<usize>()
}

fn value_weight(value: &DeValue<'_>) -> usize {
    176 + match value {
        DeValue::Table(table) => table_weight(table),
        DeValue::Array(items) => items.iter().map(|item| value_weight(item.get_ref())).sum(),
        DeValue::String(text) => text.len(),
        _ => 0,
    }
}

impl TableKind for Scenario {
    const DEFINITION: &'static str = "file";
    const PLACE: &'static str = "a scenario";

    fn rules() -> Vec<KeyRule> {
        vec![KeyRule::NotEmpty]
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let title = keys.name("title", "the story in one line");
        let description = keys.text("description", "the story and the right behaviour of a client, for people");
        let overlay = keys.optional(
            "profile",
            SETTINGS,
            "settings in force while the scenario is active; `wrs-emulator assumptions` lists them",
            Parser::overlay,
        );
        let given = keys.table("given", "state put in place at activation");
        let rules = keys.optional(
            "rule",
            Kind::Tables(TableKeys::of::<Rule>),
            "changes the answer to a request; the first rule that applies decides",
            |parser, table, key| Some(parser.rules(table, key)),
        );
        let emits = keys.optional(
            "emit",
            Kind::Tables(TableKeys::of::<Emit>),
            "an event that is fired",
            |parser, table, key| Some(parser.emits(table, key)),
        );
        let rotations = keys.optional(
            "rotate",
            Kind::Tables(TableKeys::of::<Rotate>),
            "a rotation of signing secrets",
            |parser, table, key| Some(parser.rotations(table, key)),
        );

        let (parser, table) = keys.input()?;
        let is_empty = ["profile", "given", "rule", "emit", "rotate"].iter().all(|key| !table.has(key));
        // An unknown key is most likely the one that is missing.
        if is_empty && !parser.has_errors() {
            let message = "the scenario changes nothing";
            let hint = "add a `[[rule]]`, an `[[emit]]`, a `[profile]` or a `[[given.subscription]]`";
            parser.warning("scenario/no-effect", 0..0, message, hint);
        }
        Some(Self {
            title: title.unwrap_or_else(|| parser.scenario.to_string()),
            name: Arc::clone(&parser.scenario),
            description: description.map(|text| text.trim().to_owned()),
            overlay,
            given: given.unwrap_or_default(),
            rules: rules.unwrap_or_default(),
            emits: emits.into_iter().chain(rotations).flatten().collect(),
            // [`Parser::scenario`] fills in the facts about the whole text.
            text: Arc::default(),
            origin: ScenarioOrigin::Inline,
            weight: 0,
        })
    }
}

impl Parser<'_> {
    fn scenario(&mut self, text: &str, origin: ScenarioOrigin, file: &DeTable<'_>) -> Option<Scenario> {
        if file.is_empty() {
            // An editor that empties a file before it writes is seen here; the empty state must not be served.
            let hint = "`wrs-emulator scenarios new NAME` writes one to begin with";
            let is_blank = text.trim().is_empty();
            let message = if is_blank { "the file is empty" } else { "the file has nothing but comments" };
            return self.refuse("scenario/no-effect", 0..0, message, hint);
        }
        let weight = text.len() + table_weight(file);
        if weight > MAX_WEIGHT {
            let message = format!("the scenario would use {weight} bytes in memory; the limit is {MAX_WEIGHT}");
            return self.refuse(
                "scenario/too-many",
                0..0,
                message,
                "a large body uses less memory as one string than as a table",
            );
        }
        let table = self.open_table::<Scenario>(file, 0..0);
        let scenario = self.read_table::<Scenario>(&table)?;
        Some(Scenario { text: text.into(), origin, weight: weight + self.pattern_bytes, ..scenario })
    }

    fn overlay(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<Arc<Layer>> {
        let table = table.fields_at(key)?;
        let mut draft = Draft::of(self.base);
        let layer = draft.table(table, &format!("scenario {}", self.scenario));
        // Whether it is valid over the profile in force shows when it is activated.
        match draft.finish_alone() {
            Ok(layered) => {
                self.profile = Arc::clone(layered.profile());
                Some(Arc::new(layer))
            }
            Err(problems) => {
                for problem in problems {
                    self.error(problem.code, problem.span, problem.message, problem.hint);
                }
                None
            }
        }
    }
}

/// A scenario given as JSON, as TOML text.
pub fn json_to_toml(json: &str) -> Result<String, String> {
    let value: toml::Table =
        serde_json::from_str(json).map_err(|error| format!("the text is not JSON that TOML can hold: {error}"))?;
    toml::to_string(&value).map_err(|error| format!("the JSON cannot be written as TOML: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_follow_the_content_of_each_rule() {
        let rule = |times: u32| format!("[[rule]] # note\ntimes = {times}\npass = true\n");
        let prints = |name: &str, text: &str| {
            let (scenario, _) = check_text(name, text);
            scenario.expect("the text is valid").rules.iter().map(|rule| rule.fingerprint).collect::<Vec<_>>()
        };
        let before = prints("test", &format!("{}{}", rule(1), rule(2)));
        let after = prints("test", &format!("title = 'x'\n{}\n\n{}", rule(3), rule(2).replace("# note", "")));
        assert_ne!(before[0], after[0]);
        assert_eq!(before[1], after[1]);
        let equal = prints("test", &rule(1).repeat(2));
        assert_eq!(equal[0], before[0]);
        assert_ne!(equal[0], equal[1]);
        assert_ne!(prints("other", &rule(1))[0], before[0]);
    }

    #[test]
    fn of_equally_near_steps_the_same_is_suggested_each_time() {
        let rule = |step: char| format!("[[rule]]\nnext = 'step-{step}'\npass = true\n");
        let rules: String = ('a'..='h').map(rule).collect();
        let text = format!("{rules}[[rule]]\nwhen.step = 'step-x'\npass = true\n");
        let hints: std::collections::BTreeSet<String> =
            (0..20).flat_map(|_| check_text("test", &text).1).map(|found| found.hint).collect();
        assert_eq!(hints.iter().filter(|hint| hint.contains("did you mean")).count(), 1, "{hints:?}");
    }

    #[test]
    fn names_are_restricted() {
        let valid = |name: &str| check_text(name, "[profile]\n").0.is_some();
        assert!(valid("Rate-limit_2.v1"));
        assert!(!["", "a,b", "a b", "ä", "a/b", &"x".repeat(101)].iter().any(|name| valid(name)));
    }
}
