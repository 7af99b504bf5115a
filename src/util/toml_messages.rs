//! The messages of the TOML parser and of serde about a wrong value, in TOML's own terms, not Rust's.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::util::duration::parse_duration;
use crate::util::wording::shorten;

/// Longest value or key quoted in a message, in characters.
const MAX_QUOTED: usize = 80;

/// A complaint of serde: expected before found, and no names of Rust's types.
pub(crate) fn plain_message(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: ", "invalid ", "unknown variant "];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind));
    // The found text may contain `, expected ` itself; the expected one never does.
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            let found = shorten(found_text(found), MAX_QUOTED);
            format!("expected {}, found {found}", expected_text(expected))
        }
        None => message.to_owned(),
    }
}

fn expected_text(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "an integer",
        "a nonzero u32" => "an integer from 1",
        "f32" | "f64" => "a number",
        "a boolean" => "a boolean",
        "a string" | "string only" => "a string",
        "a sequence" => "an array",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

fn found_text(found: &str) -> &str {
    let number = ["integer `", "floating point `", "boolean `"].into_iter().find_map(|kind| found.strip_prefix(kind));
    match found {
        "sequence" => "an array",
        "map" => "a table",
        "unit variant" => "another type",
        // A table may be written as a list of its values, which is never meant.
        found if found.starts_with("length ") => "an array",
        // The text is in its own quotes.
        _ => number.and_then(|rest| rest.strip_suffix('`')).or_else(|| found.strip_prefix("string ")).unwrap_or(found),
    }
}

/// True if a text is most likely written in JSON.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A syntax error in a text that is not TOML.
pub(crate) struct SyntaxProblem {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
    /// How to write it, if that is known.
    pub(crate) hint: Option<String>,
    /// The quote that is missing, if it is a string that is not closed.
    pub(crate) missing_quote: Option<String>,
}

/// Maximum number of syntax errors that are explained; what follows is most likely the same mistake.
const MAX_PROBLEMS: usize = 100;

/// The first syntax errors of a text that is not TOML, in the words and with the names of the text, and how many more there are.
pub(crate) fn syntax_problems(text: &str, errors: &[toml::de::Error]) -> (Vec<SyntaxProblem>, usize) {
    let unclosed = unclosed_bracket(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // Text after an unclosed bracket is read as if it were within the brackets.
    let mut errors: Vec<&toml::de::Error> =
        errors.iter().filter(|error| unclosed.is_none_or(|at| start(error) < at)).collect();
    errors.sort_by_key(|error| start(error));
    let repeats: Vec<Range<usize>> =
        errors.iter().filter(|error| is_repeat(error.message())).filter_map(|error| error.span()).collect();
    let more = errors.len().saturating_sub(MAX_PROBLEMS);
    errors.truncate(MAX_PROBLEMS);
    let first_lines = first_lines(text, &repeats);
    let problem = |error| {
        let mut problem = syntax_problem(text, error);
        if let Some((_, first)) = first_lines.iter().find(|(at, _)| *at == problem.span.start) {
            problem = repeated(text, problem.span, *first);
        }
        problem
    };
    let mut problems: Vec<SyntaxProblem> = errors.into_iter().map(problem).collect();
    if let Some(at) = unclosed {
        let (opening, closing) = if text[at..].starts_with('{') { ('{', '}') } else { ('[', ']') };
        let message = format!("the `{opening}` on line {} is not closed", line_of(text, at));
        let hint = Some(format!("write `{closing}` where it ends"));
        problems.push(SyntaxProblem { span: at..at + 1, message, hint, missing_quote: None });
    }
    (problems, more)
}

/// Where a bracket of a value is that is never closed, or that another kind of bracket closes.
fn unclosed_bracket(text: &str) -> Option<usize> {
    let mut open: Vec<(usize, u8)> = Vec::new();
    let (bytes, mut at) = (text.as_bytes(), 0);
    let mut begins_line = true;
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        let end_of_line = || rest.find('\n').unwrap_or(rest.len());
        let length = match byte {
            b'"' | b'\'' => string_length(rest)?,
            b'#' => end_of_line(),
            // The header of a table.
            b'[' if begins_line && open.is_empty() => end_of_line(),
            _ => 1,
        };
        match byte {
            b'{' | b'[' if length == 1 => open.push((at, if byte == b'{' { b'}' } else { b']' })),
            b'}' | b']' => {
                let (opened, expected) = open.pop()?;
                if byte != expected {
                    return Some(opened);
                }
            }
            _ => {}
        }
        begins_line = byte == b'\n' || (begins_line && byte.is_ascii_whitespace());
        // A character of several bytes is no bracket; its last byte ends it.
        at += length.max(rest.chars().next().map_or(1, char::len_utf8));
    }
    open.first().map(|(at, _)| *at)
}

/// The length of the string that a text begins with; `None` if it is not closed.
fn string_length(text: &str) -> Option<usize> {
    let quote = &text[..1];
    let long = quote.repeat(3);
    let delimiter = if text.starts_with(&long) { long.as_str() } else { quote };
    let escapes = quote == "\"";
    let mut at = delimiter.len();
    loop {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        if rest.starts_with(delimiter) {
            return Some(at + delimiter.len());
        }
        if delimiter.len() == 1 && rest.starts_with('\n') {
            return None;
        }
        let escaped = escapes && rest.starts_with('\\');
        at += rest.chars().take(1 + usize::from(escaped)).map(char::len_utf8).sum::<usize>();
    }
}

fn is_repeat(message: &str) -> bool {
    message == "duplicate key" || message.starts_with("cannot extend value of type")
}

fn syntax_problem(text: &str, error: &toml::de::Error) -> SyntaxProblem {
    let span = error.span().unwrap_or(0..0);
    let message = error.message();
    let is_unquoted = message.starts_with("string values must be quoted");
    // Where a value is missing, the TOML parser finds an empty word without quotes.
    let before = text.get(..span.start).unwrap_or_default().trim_end_matches([' ', '\t']);
    if span.is_empty() && before.ends_with('=') && is_unquoted {
        let message = "a value is missing after `=`".to_owned();
        return SyntaxProblem { span: before.len() - 1..before.len(), message, hint: None, missing_quote: None };
    }
    // The parser reads `2.5s` as a number up to the unit.
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let (before, after) = text.split_at_checked(span.start).unwrap_or((text, ""));
    let before = before.trim_end_matches(is_of_word);
    let rest = after.trim_start_matches(is_of_word).len();
    let word = text.get(before.len()..span.end.max(text.len() - rest)).unwrap_or_default();
    let lower = word.to_ascii_lowercase();
    let joined = word.replace(' ', "");
    let value = match lower.as_str() {
        "true" | "false" => Some(lower),
        _ if word.contains(['"', '\\']) => None,
        _ if parse_duration(&joined).is_ok() => Some(format!("\"{joined}\"")),
        _ => is_unquoted.then(|| format!("\"{word}\"")),
    };
    let key = before.trim_end_matches([' ', '\t']).strip_suffix('=').map(str::trim_end);
    let key = key.and_then(|before| before.rsplit([' ', '\t', '\n', ',', '{']).next());
    let assigned = key.map_or(String::new(), |key| format!("{} = ", shorten(key, MAX_QUOTED)));
    let message = match &value {
        Some(value) if value.starts_with('"') => {
            format!("expected a string in quotes, found `{}`", shorten(word, MAX_QUOTED))
        }
        _ => message.to_owned(),
    };
    let missing_quote = error.message().split_once("string, expected ").map(|(_, quote)| quote.to_owned());
    SyntaxProblem {
        span,
        message,
        hint: value.map(|value| format!("write `{assigned}{}`", shorten(&value, MAX_QUOTED))),
        missing_quote,
    }
}

/// A key that its table has already.
fn repeated(text: &str, span: Range<usize>, first: usize) -> SyntaxProblem {
    let line = line_of(text, span.start);
    let places = if first == line { format!("twice on line {line}") } else { format!("on lines {first} and {line}") };
    let key = shorten(text.get(span.clone()).unwrap_or_default(), MAX_QUOTED);
    let message = format!("the key `{key}` is defined {places}");
    let is_header = text[..span.start].rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with('['));
    let hint = if is_header {
        "write a table once, with all its keys, or each `[[like this]]` if there are several"
    } else {
        "keep one of the two"
    };
    SyntaxProblem { span, message, hint: Some(hint.to_owned()), missing_quote: None }
}

/// Where each repeated key begins, and the line on which its table has the key first. The parser reports only the second place, so
/// it reads the text again with another name there: the key with the right name in the same table is the first.
fn first_lines(text: &str, repeats: &[Range<usize>]) -> Vec<(usize, usize)> {
    const RENAMED: &str = "renamed-repeated-key-";
    let mut renamed = String::new();
    let mut end = 0;
    let mut known: Vec<(usize, &str)> = Vec::new();
    for span in repeats.iter().filter(|span| !span.is_empty()) {
        let (Some(between), Some(key)) = (text.get(end..span.start), text.get(span.clone())) else { continue };
        renamed += &format!("{between}{RENAMED}{}", known.len());
        known.push((span.start, key.trim_matches(['"', '\''])));
        end = span.end;
    }
    if known.is_empty() {
        return Vec::new();
    }
    renamed += &text[end..];
    let (document, _) = DeTable::parse_recoverable(&renamed);
    let mut found = Vec::new();
    let mut tables = vec![document.get_ref()];
    while let Some(table) = tables.pop() {
        for (key, value) in table {
            let number = key.get_ref().strip_prefix(RENAMED).and_then(|number| number.parse::<usize>().ok());
            // All are renamed, so that the first is the one that stays, but a line is counted only for those that are shown.
            if let Some((start, name)) = number.and_then(|number| known.get(number).filter(|_| number < MAX_PROBLEMS))
                && let Some((first, _)) = table.get_key_value(*name)
            {
                found.push((*start, line_of(&renamed, first.span().start)));
            }
            let mut values = vec![value.get_ref()];
            while let Some(value) = values.pop() {
                match value {
                    DeValue::Table(table) => tables.push(table),
                    DeValue::Array(items) => values.extend(items.iter().map(Spanned::get_ref)),
                    _ => {}
                }
            }
        }
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
