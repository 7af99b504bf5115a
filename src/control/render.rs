//! Answers as text: what `Accept: text/plain` gets and the command line prints. The parts that renderers of several resources share.

use std::fmt::Display;
use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::advice::Audience;
use crate::redact::visible;
use crate::state::journal::record::{Bytes, Headers};

/// An answer as lines for people: without colour, control characters escaped, with advice for its reader. By default its JSON,
/// indented.
pub(crate) trait Text: Serialize {
    fn text(&self, _: &Audience) -> String {
        let value = serde_json::to_value(self).expect("texts and numbers always serialise");
        format!("{value:#}\n")
    }
}

/// An answer without its type.
pub(crate) trait AnyText: Send {
    fn text(&self, reader: &Audience) -> String;
    fn json(&self) -> Value;
}

impl<A: Text + Send> AnyText for A {
    fn text(&self, reader: &Audience) -> String {
        Text::text(self, reader)
    }

    fn json(&self) -> Value {
        serde_json::to_value(self).expect("texts and numbers always serialise")
    }
}

impl Text for String {
    fn text(&self, _: &Audience) -> String {
        self.clone()
    }
}

/// A record that is listed in a table.
pub(crate) trait TableRow: Serialize + Sized {
    fn table(rows: &[Self]) -> String;
}

/// Rows in columns as wide as their widest cell; the last column is not padded.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(header.map(str::to_owned)).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A field of a record on one line: control characters escaped.
pub(crate) fn cell(field: impl Display) -> String {
    visible(&field.to_string()).into_owned()
}

/// Like [`cell`], with `-` for an absent field.
pub(crate) fn optional(field: Option<impl Display>) -> String {
    field.map_or_else(|| "-".to_owned(), cell)
}

/// Texts on one line, joined by commas.
pub(crate) fn joined(texts: &[String]) -> String {
    texts.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// Whose something is, at the end of a sentence; empty for all keys.
pub(crate) fn for_key(key: Option<&str>) -> String {
    key.map_or_else(String::new, |key| format!(" for {}", cell(key)))
}

/// Warnings in a record, one a line.
pub(crate) fn warnings(warnings: &[String]) -> String {
    warnings.iter().map(|warning| format!("warning: {}\n", cell(warning))).collect()
}

/// Headers as on the wire, one a line.
pub(crate) fn header_text(headers: &Headers) -> String {
    headers.iter().map(|(name, value)| format!("{}: {}\n", cell(name), cell(value))).collect()
}

/// A body: text with control characters other than line ends escaped, anything else as base64 in JSON.
pub(crate) fn body_text(body: &Bytes) -> String {
    match body {
        Bytes::Text(text) => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        Bytes::Binary { base64 } => format!("{{\"base64\":\"{base64}\"}}"),
    }
}

/// How many bytes of JSON a record has.
pub(super) fn bytes_of(record: &impl Serialize) -> usize {
    let mut written = Written(0);
    serde_json::to_writer(&mut written, record).expect("texts and numbers always serialise");
    written.0
}

/// Counts the bytes that are written.
struct Written(usize);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
