//! Headers as lines of text, as the journal and the delivery store keep them: all of a message in one allocation.

use std::borrow::Cow;

use hyper::body::Bytes;
use hyper::header::HeaderMap;

/// The headers of a message: a line `name: value` each, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderLines(Bytes);

impl HeaderLines {
    /// Headers that are lines already, as [`push_header`] writes them.
    pub fn from_lines(lines: Bytes) -> Self {
        Self(lines)
    }

    pub fn of(headers: &HeaderMap) -> Self {
        let mut lines = Vec::new();
        push_headers(&mut lines, headers);
        Self(lines.into())
    }

    /// Names and values in their order; values that are not UTF-8 are escaped.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        fields(&self.0)
    }

    /// The value of the first header of this name, in lower case.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub fn size(&self) -> usize {
        self.0.len()
    }
}

pub fn push_headers(lines: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        push_header(lines, name.as_str(), value.as_bytes());
    }
}

pub fn push_header(lines: &mut Vec<u8>, name: &str, value: &[u8]) {
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    lines.extend_from_slice(value);
    lines.extend_from_slice(b"\r\n");
}

/// The names and values in lines; values that are not UTF-8 are escaped. What is not a header is left out.
pub fn fields(lines: &[u8]) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r")?;
        let at = line.windows(2).position(|pair| pair == b": ")?;
        let value = match std::str::from_utf8(&line[at + 2..]) {
            Ok(value) => Cow::Borrowed(value),
            Err(_) => Cow::Owned(line[at + 2..].escape_ascii().to_string()),
        };
        Some((std::str::from_utf8(&line[..at]).ok()?, value))
    })
}
