//! Printing data: text or JSON on stdout.

use std::fmt::Display;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};

use super::stream::Stream;
pub(crate) use crate::control::render::{cell, optional, table};
use crate::redact::{visible_json, visible_lines};

/// Prints lines of text, with terminal control characters escaped.
pub(crate) fn print(text: &str) {
    print_as_is(&visible_lines(text));
}

/// Prints text that is already escaped, or contains nothing from clients.
pub(crate) fn print_as_is(text: &str) {
    try_print(text);
}

/// Prints text that is already escaped. Returns false if it could not be written, or its reader is gone.
pub(crate) fn try_print(text: &str) -> bool {
    Stream::Out.write(text)
}

pub(crate) fn print_json<T: Serialize>(value: &T) {
    print_as_is(&format!("{}\n", pretty(value)));
}

/// Prints a schema or another document, which is JSON in any case.
pub(crate) fn print_document<T: Serialize>(document: &T) -> ExitCode {
    print_json(document);
    ExitCode::SUCCESS
}

/// Prints a value as JSON, or as `text`.
pub(crate) fn show<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) -> ExitCode {
    if json {
        print_json(value);
    } else {
        print(&text());
    }
    ExitCode::SUCCESS
}

/// Prints a listing, an object with its records in `data`, as JSON or as `text`.
pub(crate) fn show_list<T: Serialize>(json: bool, listing: &T, text: impl FnOnce() -> String) -> ExitCode {
    if json {
        print_as_is(&lines(as_value(listing)));
    } else {
        print(&text());
    }
    ExitCode::SUCCESS
}

/// A listing as JSON: a record a line, then a line with its other fields and whether there are more records.
pub(crate) fn lines(listing: Value) -> String {
    let Value::Object(mut rest) = listing else { return String::new() };
    let Some(Value::Array(records)) = rest.shift_remove("data") else { return String::new() };
    // The last line has it as `truncated`.
    rest.shift_remove("has_more");
    rest.retain(|name, value| name != "next_cursor" || !value.is_null());
    let end = end_line(rest.contains_key("next_cursor"), records.len(), rest);
    let mut lines: String = records.iter().map(|record| compact(record) + "\n").collect();
    lines.push_str(&end);
    lines
}

/// The last line of a listing: whether there are records that were not printed, and the other fields.
pub(crate) fn end_line(truncated: bool, shown: usize, rest: Map<String, Value>) -> String {
    let mut end = Map::from_iter([("truncated".to_owned(), truncated.into()), ("shown".to_owned(), shown.into())]);
    end.extend(rest);
    compact(&end) + "\n"
}

pub(crate) fn pretty<T: Serialize>(value: &T) -> String {
    let text = format!("{:#}", as_value(value));
    visible_json(&text).into_owned()
}

pub(crate) fn compact<T: Serialize>(value: &T) -> String {
    let text = as_value(value).to_string();
    visible_json(&text).into_owned()
}

/// A value as JSON. Everything that is printed is made from it, as each further serialiser would be another copy of the code for each type.
pub(crate) fn as_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("texts and numbers always serialise")
}

/// Bytes as a field of an object: as text, or in base64 under a name that ends in `_base64` if they are not UTF-8.
pub(crate) fn bytes_field(name: &str, bytes: Vec<u8>) -> (String, Value) {
    match String::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), text.into()),
        Err(error) => (format!("{name}_base64"), STANDARD.encode(error.as_bytes()).into()),
    }
}

pub(crate) const BOLD_RED: &str = "1;31";
pub(crate) const CYAN: &str = "36";
pub(crate) const DIM: &str = "2";
pub(crate) const GREEN: &str = "32";
pub(crate) const RED: &str = "31";
pub(crate) const YELLOW: &str = "33";

/// A text in a color, if there are colors.
pub(crate) fn painted(color: &str, text: impl Display, colors: bool) -> String {
    if colors { format!("\u{1b}[{color}m{text}\u{1b}[0m") } else { text.to_string() }
}

/// The mark of a check that passed or failed.
pub(crate) fn mark(passed: bool, colors: bool) -> String {
    if passed { painted(GREEN, '✓', colors) } else { painted(RED, '✗', colors) }
}

/// The ready line of a command that serves, as JSON.
pub(crate) fn ready_line(fields: Value) -> String {
    let mut line = Map::from_iter([("event".to_owned(), "ready".into())]);
    line.extend(fields.as_object().cloned().unwrap_or_default());
    compact(&line) + "\n"
}
