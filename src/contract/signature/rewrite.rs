//! Changes to a body before a receiver verifies it: one table of the commonest, undone one at a time, and one of texts that have lost
//! the body.

use std::collections::HashSet;
use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use url::form_urlencoded;

/// A larger body is not rewritten in every way: indented, it may become many times as large.
const LARGE: usize = 1024 * 1024;
/// How many rows of the table are tried whatever the size of the body.
const COMMONEST: usize = 4;

/// Reverses one change of a body: words that complete "the body …", and the bodies that it may have been.
type Rewrite = (&'static str, fn(&Received<'_>) -> Vec<Vec<u8>>);

/// The commonest come first.
const REWRITES: [Rewrite; 14] = [
    ("without its last newline", |body| {
        let rest = body.bytes.strip_suffix(b"\r\n").or_else(|| body.bytes.strip_suffix(b"\n"));
        rest.map(<[u8]>::to_vec).into_iter().collect()
    }),
    ("as compact JSON", |body| body.written(CompactFormatter)),
    ("with a newline at its end", |body| vec![[body.bytes, b"\n"].concat()]),
    ("as JSON with spaces after `,` and `:`", |body| body.written(Spaced)),
    ("as JSON with spaces after `,` and `:` in ASCII", |body| {
        body.written(Spaced).iter().map(|json| in_ascii(json)).collect()
    }),
    ("without white space around it", |body| vec![body.bytes.trim_ascii().to_vec()]),
    ("with CR LF instead of LF", |body| body.decoded(|text| text.replace("\r\n", "\n").replace('\n', "\r\n"))),
    ("with LF instead of CR LF", |body| body.decoded(|text| text.replace("\r\n", "\n"))),
    ("without its byte order mark", |body| {
        body.decoded(|text| text.strip_prefix('\u{feff}').unwrap_or(text).to_owned())
    }),
    ("as compact JSON in ASCII", |body| body.written(CompactFormatter).iter().map(|json| in_ascii(json)).collect()),
    ("as JSON indented by 2", |body| body.written(PrettyFormatter::new())),
    ("before it was decoded as Latin-1", |body| {
        let bytes = body.text.and_then(|text| text.chars().map(|c| u8::try_from(c).ok()).collect());
        bytes.into_iter().collect()
    }),
    ("decoded from a form", |body| {
        // A form parser makes the whole JSON text the name of a field.
        let fields = form_urlencoded::parse(body.bytes);
        fields.flat_map(|(name, value)| [name, value]).map(|text| text.into_owned().into_bytes()).take(2).collect()
    }),
    ("with sorted keys", |body| {
        let mut json = body.json.clone();
        json.iter_mut().for_each(Value::sort_all_objects);
        let sorted = Received { json, ..*body };
        let spaced = sorted.written(Spaced);
        let ascii = spaced.iter().map(|json| in_ascii(json)).collect();
        [sorted.written(CompactFormatter), spaced, ascii].concat()
    }),
];

/// Texts that have lost the body, by their start, and what happened.
const LOST: &[(&str, &str)] = &[
    ("[object ", "the body is an object that JavaScript turned into text: pass the raw bytes, not the parsed body"),
    ("<Buffer ", "the body is a printed Buffer: pass its bytes"),
    ("{'", "the body is a dictionary that Python turned into text: pass the raw bytes, not the parsed body"),
    ("{\"id\"=>", "the body is a hash that Ruby turned into text: pass the raw bytes, not the parsed body"),
    ("map[", "the body is a map that Go turned into text: pass the raw bytes, not the parsed body"),
];
/// The remains of a body that other code has read or parsed before.
const CONSUMED: [&str; 5] = ["", "{}", "null", "undefined", "None"];

/// A body as it was received.
struct Received<'b> {
    bytes: &'b [u8],
    text: Option<&'b str>,
    json: Option<Value>,
}

impl Received<'_> {
    /// The JSON in another layout.
    fn written(&self, layout: impl Formatter) -> Vec<Vec<u8>> {
        let Some(json) = &self.json else { return Vec::new() };
        let mut written = Vec::new();
        let done = json.serialize(&mut Serializer::with_formatter(&mut written, layout));
        done.expect("a JSON value always serialises");
        vec![written]
    }

    fn decoded(&self, change: impl Fn(&str) -> String) -> Vec<Vec<u8>> {
        self.text.map(|text| change(text).into_bytes()).into_iter().collect()
    }
}

/// `, ` and `: ` on one line, as Python's `json.dumps` writes.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn in_ascii(json: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(json.len());
    for c in String::from_utf8_lossy(json).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out.into_bytes()
}

/// Every body that `body` may have been before something changed its bytes, with words that complete "the body …"; never `body`
/// itself, and none twice.
pub fn rewrites(body: &[u8]) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let text = std::str::from_utf8(body).ok();
    let received = Received { bytes: body, text, json: serde_json::from_slice(body).ok() };
    let tried = if body.len() > LARGE { &REWRITES[..COMMONEST] } else { &REWRITES[..] };
    let mut known = HashSet::from([body.to_vec()]);
    let found = tried.iter().flat_map(move |(what, undo)| undo(&received).into_iter().map(move |body| (*what, body)));
    found.filter(move |(_, body)| known.insert(body.clone()))
}

/// Why nothing can verify a body like this, if it is none any more.
pub(super) fn lost_body(body: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if CONSUMED.contains(&text) {
        return Some("the body is empty, as if something had read or parsed it before: keep the raw bytes");
    }
    let lost = LOST.iter().find(|(start, _)| text.starts_with(start)).map(|(_, what)| *what);
    let replaced = std::str::from_utf8(body).is_ok_and(|text| text.contains('\u{fffd}'));
    lost.or(replaced.then_some("the body has `\u{fffd}`, where bytes were lost when it was decoded: pass the raw bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rewritten_body_is_undone() {
        let body = r#"{"type":"workflow.completed","data":{"z":1,"a":"é"}}"#;
        let python = r#"{"type": "workflow.completed", "data": {"z": 1, "a": "\u00e9"}}"#;
        let indented = "{\n  \"type\": \"workflow.completed\",\n  \"data\": {\n    \"z\": 1,\n    \"a\": \"é\"\n  }\n}";
        let (compact, spaced) = ("as compact JSON", "as JSON with spaces after `,` and `:`");
        let (sorted, form) = ("with sorted keys", "decoded from a form");
        for (sent, taken, what) in [
            ("{}", "{}\n", "without its last newline"),
            ("{}", "{}\r\n", "without its last newline"),
            ("{}\n", "{}", "with a newline at its end"),
            ("{}", " {}", compact),
            ("x", " x", "without white space around it"),
            ("a\nb", "a\r\nb", "with LF instead of CR LF"),
            ("a\r\nb", "a\nb", "with CR LF instead of LF"),
            ("{}", "\u{feff}{}", "without its byte order mark"),
            (body, python, compact),
            (body, indented, compact),
            (r#"{"a":"\u00e9\ud83d\ude00"}"#, r#"{"a": "é😀"}"#, "as compact JSON in ASCII"),
            (python, body, "as JSON with spaces after `,` and `:` in ASCII"),
            (r#"{"b": [1, 2], "a": {}}"#, r#"{"b":[1,2],"a":{}}"#, spaced),
            (indented, body, "as JSON indented by 2"),
            (r#"{"a":"/<"}"#, r#"{"a":"\/\u003c"}"#, compact),
            (r#"{"a":"é"}"#, r#"{"a":"Ã©"}"#, "before it was decoded as Latin-1"),
            (r#"{"a":{"b":1,"c":2},"d":3}"#, r#"{"d":3,"a":{"c":2,"b":1}}"#, sorted),
            (r#"{"a": {"b": 1, "c": "é"}, "d": 3}"#, r#"{"d":3,"a":{"c":"é","b":1}}"#, sorted),
            (r#"{"a": "\u00e9", "d": 3}"#, r#"{"d":3,"a":"é"}"#, sorted),
            (r#"{"a":"b c"}"#, "%7B%22a%22%3A%22b+c%22%7D=", form),
            (r#"{"a":"b c"}"#, "payload=%7B%22a%22%3A%22b%20c%22%7D&x=y", form),
        ] {
            let found = rewrites(taken.as_bytes()).find(|(_, body)| body == sent.as_bytes());
            assert_eq!(found.map(|(what, _)| what), Some(what), "{taken} to {sent}");
        }
        assert!(rewrites(b"\xff\x00").all(|(what, _)| !what.contains("JSON")));
    }

    /// However large or strange a body is, the effort is bounded.
    #[test]
    fn a_large_body_is_rewritten_in_few_ways() {
        let large = [b" ", &*vec![b'x'; LARGE], b"\n"].concat();
        let tried: Vec<_> = rewrites(&large).map(|(what, _)| what).collect();
        assert_eq!(tried, ["without its last newline", "with a newline at its end"]);
        let nested = ["[".repeat(120), vec!["1"; 100_000].join(","), "]".repeat(120)].concat();
        for body in [nested, "[".repeat(100_000), "=&".repeat(100_000), String::new()] {
            assert!(rewrites(body.as_bytes()).count() <= 2 * REWRITES.len());
        }
    }

    #[test]
    fn a_lost_body_is_named() {
        for (body, says) in [
            ("", "the body is empty"),
            ("{}\n", "the body is empty"),
            ("undefined", "the body is empty"),
            ("[object Object]", "JavaScript"),
            ("<Buffer 7b 7d>", "Buffer"),
            ("{'id': 'evt_1'}", "Python"),
            ("map[id:evt_1]", "Go"),
            ("{\"a\":\"\u{fffd}\"}", "bytes were lost"),
        ] {
            assert!(lost_body(body.as_bytes()).is_some_and(|found| found.contains(says)), "{body}");
        }
        for body in [&br#"{"id":"evt_1"}"#[..], b"\xff\xfe", b"[1]"] {
            assert_eq!(lost_body(body), None);
        }
    }
}
