//! Printing data: text or JSON on stdout, quietly ending where the reader has gone.

use std::io::Write as _;

use serde_json::Value;

use crate::redact::{visible, visible_json, visible_lines};
use crate::scenario::generation_text;

/// Prints lines of text; what would drive a terminal is escaped.
pub(super) fn print(text: &str) {
    print_as_is(&visible_lines(text));
}

/// Prints what holds nothing from clients, or what was escaped; a reader that closed the pipe, as `head` does, is no error.
pub(super) fn print_as_is(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints a JSON value, indented.
pub(super) fn print_json(value: &Value) {
    print_as_is(&format!("{}\n", pretty(value)));
}

/// JSON over several lines.
pub(super) fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("JSON values always serialise");
    visible_json(&text).into_owned()
}

/// JSON on one line.
pub(super) fn compact(value: &Value) -> String {
    visible_json(&value.to_string()).into_owned()
}

/// Prints rows in columns as wide as their widest cell; the last column is not padded.
pub(super) fn print_table(header: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(header.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    print(&text);
}

/// A field of a JSON object as a cell: strings plain, absent ones as `-`, control bytes escaped.
pub(super) fn cell(value: &Value, field: &str) -> String {
    plain(&value[field])
}

/// A JSON value as plain text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text).into_owned(),
        other => compact(other),
    }
}

/// A number of things: `1 workspace`, `2 workspaces`.
pub(super) fn counted(count: u64, what: &str) -> String {
    match what.strip_suffix("ry") {
        Some(stem) if count != 1 => format!("{count} {stem}ries"),
        _ => format!("{count} {what}{}", if count == 1 { "" } else { "s" }),
    }
}

/// The generation that an answer names.
pub(super) fn generation(body: &Value) -> String {
    generation_text(body["generation"].as_u64().unwrap_or_default())
}

/// For whom, where it is not for all keys.
pub(super) fn whose(body: &Value) -> String {
    body["key"].as_str().map(|key| format!(" for {key}")).unwrap_or_default()
}
