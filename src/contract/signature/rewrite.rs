//! Undoes what commonly happens to a body on its way to the code that verifies it: newlines added or removed, JSON
//! parsed and written again. Must not know about signatures.

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Every body that `body` may have been, with words that complete "the body …"; never `body` itself.
pub fn rewrites(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
    let mut add = |what: &'static str, bytes: Vec<u8>| {
        if bytes != body && all.iter().all(|(_, known)| *known != bytes) {
            all.push((what, bytes));
        }
    };
    if let Some(rest) = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n")) {
        add("without its last newline", rest.to_vec());
    }
    add("without white space around it", body.trim_ascii().to_vec());
    add("with a newline at its end", [body, b"\n"].concat());
    add("with CR LF at its end", [body, b"\r\n"].concat());
    add("with LF in place of CR LF", replace(body, b"\r\n", b"\n"));
    add("with CR LF in place of LF", replace(&replace(body, b"\r\n", b"\n"), b"\n", b"\r\n"));
    if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
        add("without its byte order mark", rest.to_vec());
    }
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let mut sorted = value.clone();
        sorted.sort_all_objects();
        for (value, names) in [(&value, &AS_IS), (&sorted, &SORTED)] {
            let forms = [
                compact(value),
                written(value, Spaced),
                written(value, PrettyFormatter::with_indent(b"  ")),
                written(value, PrettyFormatter::with_indent(b"    ")),
            ];
            for (text, [plain, ascii]) in forms.into_iter().zip(names.iter()) {
                add(plain, text.clone().into_bytes());
                add(ascii, escaped(&text).into_bytes());
            }
        }
    }
    all
}

/// For each form, in the order of `rewrites`: as it is, and with everything beyond ASCII escaped.
type Names = [[&'static str; 2]; 4];

const AS_IS: Names = [
    ["as compact JSON", "as compact JSON in ASCII"],
    ["as JSON with spaces after `,` and `:`", "as JSON with spaces after `,` and `:` in ASCII"],
    ["as JSON indented by 2", "as JSON indented by 2 in ASCII"],
    ["as JSON indented by 4", "as JSON indented by 4 in ASCII"],
];
const SORTED: Names = [
    ["as compact JSON with sorted keys", "as compact JSON with sorted keys in ASCII"],
    [
        "as JSON with spaces after `,` and `:` and sorted keys",
        "as JSON with spaces after `,` and `:` and sorted keys in ASCII",
    ],
    ["as JSON indented by 2 with sorted keys", "as JSON indented by 2 with sorted keys in ASCII"],
    ["as JSON indented by 4 with sorted keys", "as JSON indented by 4 with sorted keys in ASCII"],
];

fn replace(body: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}

fn compact(value: &Value) -> String {
    value.to_string()
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut out = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut out, formatter))
        .expect("JSON values always serialise into memory");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Only strings contain anything beyond ASCII, so the text can be escaped as a whole.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// `, ` and `: ` on one line, as Python's `json.dumps` writes.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_back_is_there_once() {
        let check = |body: &str, what: &str, expected: &str| {
            let all = rewrites(body.as_bytes());
            let found = all.iter().find(|(name, _)| *name == what).map(|(_, bytes)| String::from_utf8_lossy(bytes));
            assert_eq!(found.as_deref(), Some(expected), "{body:?} {what}");
            assert!(all.iter().all(|(_, bytes)| bytes != body.as_bytes()), "{body:?}");
        };
        check("{}\n", "without its last newline", "{}");
        check("{}\r\n", "without its last newline", "{}");
        check("{}", "with a newline at its end", "{}\n");
        check("{}", "with CR LF at its end", "{}\r\n");
        check("a\r\nb", "with LF in place of CR LF", "a\nb");
        check("a\nb\r\n", "with CR LF in place of LF", "a\r\nb\r\n");
        check("\u{feff}{}", "without its byte order mark", "{}");
        check(r#"{"b": [1, 2], "a": "é"}"#, "as compact JSON", r#"{"b":[1,2],"a":"é"}"#);
        check(r#"{"b": [1, 2], "a": "é😀"}"#, "as compact JSON in ASCII", r#"{"b":[1,2],"a":"\u00e9\ud83d\ude00"}"#);
        check(r#"{"b":[1,2],"a":{}}"#, "as JSON with spaces after `,` and `:`", r#"{"b": [1, 2], "a": {}}"#);
        check(r#"{"b":1,"a":2}"#, "as compact JSON with sorted keys", r#"{"a":2,"b":1}"#);
        check(r#"{"b":1}"#, "as JSON indented by 2", "{\n  \"b\": 1\n}");
        assert!(rewrites(b"\xff\x00").iter().all(|(what, _)| !what.contains("JSON")));
    }
}
