//! What is wrong with a text that is not TOML: one message for each mistake, without the errors that follow from it.

use super::reader::shown;
use crate::diagnostic::{Diagnostic, Level};
use crate::profile::{other_language, syntax_problem};

/// Most syntax errors reported: after the first few the TOML parser is guessing.
const MOST: usize = 10;
const HINT: &str = "the file must be TOML: strings in quotes, arrays in [ ], tables in { } or under [names]";

/// The mistakes behind the errors that the reader of TOML found.
pub(super) fn problems_of(text: &str, errors: &[toml::de::Error]) -> Vec<Diagnostic> {
    let at =
        |span, message: String, hint: &str| Diagnostic::at(Level::Error, "scenario/syntax", text, span, message, hint);
    if let Some(language) = other_language(text) {
        let start = text.len() - text.trim_start().len();
        let end = start + text[start..].find('\n').unwrap_or(text.len() - start);
        let hint = "`wrs-emulator scenarios new NAME` writes one to begin with";
        return vec![at(start..end, format!("this looks like {language}; scenarios are TOML"), hint)];
    }
    let mut problems: Vec<(u8, Diagnostic)> = errors
        .iter()
        .map(|error| {
            let (span, message) = syntax_problem(text, error);
            if let Some(key) = key_before_colon(text, span.start) {
                let hint = format!("this file is TOML: write {key} = …");
                return (0, at(span, format!("expected `=` after `{key}`, found `:`"), &hint));
            }
            if let Some(quote) = text.get(span.clone()).and_then(|text| text.chars().next()).filter(|c| is_curly(*c)) {
                let message = format!("`{quote}` is not a quote in TOML");
                return (0, at(span, message, "write strings in straight quotes: \"…\" or '…'"));
            }
            match message.split_once("string, expected ") {
                Some((_, quote)) => {
                    let message = format!("the string is not closed; expected {quote}");
                    (1, at(span, message, "write the quote where the string ends"))
                }
                None => (2, at(span, message, HINT)),
            }
        })
        .collect();
    // Of several errors in a line, the one that is most likely the mistake; the others follow from it.
    problems.sort_by_key(|(rank, problem)| (*rank, problem.span.start));
    problems.sort_by_key(|(_, problem)| problem.line);
    let lines: Vec<&str> = text.lines().collect();
    let is_heading = |line: &str| line.trim_start().starts_with('[');
    let mut kept: Vec<Diagnostic> = Vec::new();
    for (_, problem) in problems {
        if kept.last().is_some_and(|last| last.line == problem.line) {
            continue;
        }
        let line = lines.get(problem.line - 1).copied().unwrap_or_default();
        kept.push(problem);
        // What was left open swallows what follows.
        if kept.len() == MOST || (!is_heading(line) && line.contains(['{', '['])) {
            break;
        }
    }
    kept
}

/// Whether this is a quote as word processors set it.
fn is_curly(c: char) -> bool {
    matches!(c, '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»')
}

/// The key that a colon at this place follows, as other languages write it.
fn key_before_colon(text: &str, colon: usize) -> Option<String> {
    let (before, after) = text.split_at_checked(colon)?;
    let key = before.rsplit(['\n', '{', ',']).next()?.trim().trim_matches(['"', '\'']);
    (after.starts_with(':') && !key.is_empty() && !key.contains('=')).then(|| shown(key))
}
