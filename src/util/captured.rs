//! Reads captured HTTP messages: headers as lines, perhaps with request line and body, the output of `curl -v`, JSON with headers as an
//! object or as a list of pairs, HAR. Independent of what the messages are for.

use crate::util::wording::quoted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderName;
use serde_json::{Map, Value};

/// A message, with what its capture has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedMessage {
    pub method: Option<String>,
    /// A path or a whole URL.
    pub target: Option<String>,
    /// In their order, repeated ones as often as they came; names in lower case.
    pub headers: Vec<Header>,
    pub body: Option<Vec<u8>>,
}

/// A header, its name in lower case.
pub type Header = (String, String);

/// Fields of JSON with the answer to a message.
const ANSWERS: [&str; 2] = ["answer", "response"];

impl CapturedMessage {
    pub fn values<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body without what an editor added after the bytes that `content-length` counts.
    pub fn sent_body(&self) -> Option<&[u8]> {
        let body = self.body.as_deref()?;
        let length = self.values("content-length").next().and_then(|length| length.parse().ok());
        Some(length.and_then(|length| body.get(..length)).unwrap_or(body))
    }
}

/// All messages in a capture, at least one.
pub fn messages(capture: &[u8]) -> Result<Vec<CapturedMessage>, String> {
    let bytes = capture.strip_prefix(b"\xef\xbb\xbf").unwrap_or(capture);
    let found = match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => from_json(bytes)?,
        _ => from_text(bytes)?,
    };
    if found.is_empty() { Err("expected headers, found nothing".to_owned()) } else { Ok(found) }
}

/// Parses `name: value`.
pub fn header_line(line: &str) -> Result<Header, String> {
    let pair = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let pair = pair.filter(|(name, _)| HeaderName::from_bytes(name.as_bytes()).is_ok());
    let header = pair.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    header.ok_or_else(|| format!("expected `name: value`, found `{}`", line.trim().escape_debug()))
}

struct Line<'b> {
    number: usize,
    bytes: &'b [u8],
    /// Where the next line starts.
    end: usize,
}

impl<'b> Line<'b> {
    fn text(&self) -> Result<&'b str, String> {
        std::str::from_utf8(self.bytes).map_err(|_| format!("line {}: the header is not UTF-8", self.number))
    }

    /// The direction and the text of a line that `curl -v` prints of a message.
    fn curl_part(&self) -> Option<(u8, &'b str)> {
        let text = self.text().ok()?;
        match text.as_bytes() {
            [way @ (b'>' | b'<')] => Some((*way, "")),
            [way @ (b'>' | b'<'), b' ', ..] => Some((*way, &text[2..])),
            _ => None,
        }
    }
}

/// The method and target of a request line; nothing in those of a status line.
fn start_line(line: &str) -> Option<(Option<&str>, Option<&str>)> {
    let line = line.trim();
    if line.starts_with("HTTP/") {
        return Some((None, None));
    }
    let (method, rest) = line.split_once(' ')?;
    let target = rest.split_whitespace().next()?;
    let is_target = target.starts_with('/') || target.contains("://") || rest.contains(" HTTP/");
    let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_method && is_target).then_some((Some(method), Some(target)))
}

impl CapturedMessage {
    /// Adds a line of a message's head.
    fn push(&mut self, line: &Line<'_>, text: &str) -> Result<(), String> {
        if let Some((method, target)) = start_line(text) {
            self.method = method.map(str::to_owned);
            self.target = target.map(str::to_owned);
        } else {
            self.headers.push(header_line(text).map_err(|problem| format!("line {}: {problem}", line.number))?);
        }
        Ok(())
    }
}

fn from_text(bytes: &[u8]) -> Result<Vec<CapturedMessage>, String> {
    let mut end = 0;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').zip(1..).map(|(line, number)| {
        end += line.len();
        Line { number, bytes: line.trim_ascii_end(), end }
    });
    let lines: Vec<Line<'_>> = lines.skip_while(|line| line.bytes.is_empty()).collect();
    let Some(first) = lines.first() else { return Ok(Vec::new()) };
    let is_raw = first.text().is_ok_and(|text| start_line(text).is_some());
    let is_header = first.text().is_ok_and(|text| header_line(text).is_ok());
    if !(is_raw || is_header) && lines.iter().any(|line| line.curl_part().is_some()) {
        return from_curl(&lines);
    }
    // The head, perhaps with a body after an empty line.
    let mut message = CapturedMessage::default();
    for line in lines.iter().take_while(|line| !line.bytes.is_empty()) {
        message.push(line, line.text()?)?;
    }
    let body = lines.iter().find(|line| line.bytes.is_empty()).map(|line| &bytes[line.end..]);
    message.body = body.filter(|body| is_raw || !body.is_empty()).map(<[u8]>::to_vec);
    Ok(vec![message])
}

/// The messages of `curl -v`: `> ` precedes the lines that were sent, `< ` those that came back.
fn from_curl(lines: &[Line<'_>]) -> Result<Vec<CapturedMessage>, String> {
    let mut found: Vec<CapturedMessage> = Vec::new();
    let mut last = 0;
    for (line, (way, text)) in lines.iter().filter_map(|line| Some((line, line.curl_part()?))) {
        if text.trim().is_empty() {
            continue;
        }
        if last != way || start_line(text).is_some() {
            found.push(CapturedMessage::default());
        }
        last = way;
        found.last_mut().ok_or("expected headers")?.push(line, text)?;
    }
    found.retain(|message| !message.headers.is_empty());
    Ok(found)
}

fn from_json(bytes: &[u8]) -> Result<Vec<CapturedMessage>, String> {
    // `listen --json` prints a line for each delivery.
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(bytes).into_iter().collect();
    let values = values.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for value in &values {
        find(value, None, &mut found)?;
    }
    match &values[..] {
        [headers] if found.is_empty() => {
            Ok(vec![CapturedMessage { headers: json_headers(headers)?, ..CapturedMessage::default() }])
        }
        _ => Ok(found),
    }
}

/// Finds the objects with headers, other than answers; `url` is that of the object around the value.
fn find(value: &Value, url: Option<&str>, found: &mut Vec<CapturedMessage>) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| find(value, url, found)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name)?.as_str();
            let url = text("url").or_else(|| text("target")).or(url);
            let Some(headers) = fields.get("headers").filter(|headers| !headers.is_null()) else {
                let others = fields.iter().filter(|(name, _)| !ANSWERS.contains(&name.as_str()));
                return others.into_iter().try_for_each(|(_, value)| find(value, url, found));
            };
            found.push(CapturedMessage {
                method: text("method").map(str::to_owned),
                target: url.map(str::to_owned),
                headers: json_headers(headers)?,
                body: json_body(fields),
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The body of HAR in `postData`, of others in `body` or, in base64, `body_base64`.
fn json_body(fields: &Map<String, Value>) -> Option<Vec<u8>> {
    let text = |name: &str| fields.get(name)?.as_str();
    let (text, is_base64) = match fields.get("postData") {
        Some(posted) => (posted.get("text")?.as_str()?, posted.get("encoding").is_some_and(|form| form == "base64")),
        None => text("body").map(|text| (text, false)).or(text("body_base64").map(|text| (text, true)))?,
    };
    if is_base64 { STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
}

/// An object by name, or a list of pairs or of objects with `name` and `value`.
fn json_headers(value: &Value) -> Result<Vec<Header>, String> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| add(&mut found, name, value))?,
        Value::Array(items) => {
            for item in items {
                let (name, value) = match item {
                    Value::Array(pair) => (pair.first(), pair.get(1)),
                    item => (item.get("name"), item.get("value")),
                };
                let pair = name.and_then(Value::as_str).zip(value);
                let (name, value) = pair.ok_or_else(|| format!("expected a name and a value, found {item}"))?;
                add(&mut found, name, value)?;
            }
        }
        other => return Err(format!("expected headers, found {other}")),
    }
    Ok(found)
}

/// Adds a header with each of its values.
fn add(headers: &mut Vec<Header>, name: &str, value: &Value) -> Result<(), String> {
    let name = name.to_ascii_lowercase();
    match value {
        Value::Null => {}
        // HAR of HTTP/2 has the parts of the request line there.
        _ if name.starts_with(':') => {}
        Value::String(text) => headers.push((name, text.clone())),
        Value::Number(_) | Value::Bool(_) => headers.push((name, value.to_string())),
        Value::Array(values) => values.iter().try_for_each(|value| add(headers, &name, value))?,
        Value::Object(_) => {
            return Err(format!("expected a string for `{}`, found {}", quoted(&name), quoted(&value.to_string())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde::Deserialize;

    use super::*;

    /// A capture and its messages, headers and body of each; the page reads them alike.
    #[derive(Deserialize)]
    struct CapturedCase {
        capture: String,
        messages: Vec<Expected>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Expected {
        headers: Vec<Header>,
        body: Option<String>,
    }

    #[test]
    fn every_form_of_a_capture_is_read() {
        let cases = include_str!("../../tests/ui/captures.json");
        for CapturedCase { capture, messages: expected } in
            serde_json::from_str::<Vec<CapturedCase>>(cases).expect("cases")
        {
            let found = messages(capture.as_bytes()).unwrap_or_else(|problem| panic!("{problem}: {capture}"));
            let found = found.into_iter().map(|message| Expected {
                headers: message.headers,
                body: message.body.map(|body| String::from_utf8(body).expect("text")),
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{capture}");
        }
    }

    #[test]
    fn bytes_methods_and_targets_are_read() {
        for capture in ["\u{feff}A: é", "\u{feff}{\"a\":\"é\"}"] {
            let found = messages(capture.as_bytes()).expect("a message");
            assert_eq!(found[0].headers, [("a".to_owned(), "é".to_owned())], "{capture:?}");
        }
        let raw = messages(b"POST /a HTTP/1.1\r\ncontent-length: 2\r\n\r\n\xff\n\n\n").expect("a message");
        assert_eq!(raw[0].body.as_deref(), Some(&b"\xff\n\n\n"[..]));
        assert_eq!(raw[0].sent_body(), Some(&b"\xff\n"[..]));
        for (capture, method, target) in [
            ("POST /a HTTP/1.1\na: b\n\n{}", Some("POST"), Some("/a")),
            ("POST https://a.example/b HTTP/2\na: b\n\n{}", Some("POST"), Some("https://a.example/b")),
            ("* x\n> POST /a HTTP/1.1\n> a: b\n>\n", Some("POST"), Some("/a")),
            ("HTTP/1.1 200 OK\na: b\n", None, None),
            ("a: b", None, None),
            (
                r#"{"url":"https://a.example/b","attempts":[{"request":{"headers":{}}}]}"#,
                None,
                Some("https://a.example/b"),
            ),
            (r#"{"target":"/a","headers":[["host","a.example"]]}"#, None, Some("/a")),
            (r#"{"request":{"method":"PUT","url":"/a","headers":[]}}"#, Some("PUT"), Some("/a")),
        ] {
            let found = messages(capture.as_bytes()).expect("a message").remove(0);
            assert_eq!((found.method.as_deref(), found.target.as_deref()), (method, target), "{capture}");
        }
        let encoded = br#"{"headers":{},"postData":{"text":"/w==","encoding":"base64"}}"#;
        assert_eq!(messages(encoded).expect("a message")[0].body.as_deref(), Some(&b"\xff"[..]));
    }

    #[test]
    fn refusals_name_the_place() {
        for (capture, says) in [
            (&b""[..], "found nothing"),
            (b"\n \n", "found nothing"),
            (b"\na: b\nno header\n", "line 3: expected `name: value`, found `no header`"),
            (b"no header\n\n{}", "line 1: "),
            (b"a: b\nc: \xff", "line 2: the header is not UTF-8"),
            (b"{\"a\":", "EOF"),
            (b"[1]", "found 1"),
            (b"{\"a\":{}}", "expected a string for `a`"),
            (b"[[\"a\"]]", "expected a name and a value"),
            (b"{\"headers\":7}", "found 7"),
            (b"> nothing\n", "line 1: "),
            (b"[\"a\", \"b\"]", "expected a name and a value"),
        ] {
            let problem = messages(capture).expect_err("a problem");
            assert!(problem.contains(says), "{problem}");
        }
    }

    const PIECES: [&str; 18] = [
        "\n",
        "\r\n",
        "> ",
        "< ",
        "*",
        ": ",
        ":",
        "a",
        "POST / HTTP/1.1",
        "HTTP/1.1 200",
        "{",
        "}",
        "[",
        "]",
        "\"headers\":",
        "\"a\",",
        "é",
        "\u{feff}",
    ];

    proptest! {
        #[test]
        fn anything_is_read_or_refused(pieces in vec(select(PIECES.to_vec()), 0..24), bytes in vec(any::<u8>(), 0..40)) {
            for capture in [pieces.concat().as_bytes(), &bytes[..], &[&[0xff, 0xfe][..], &bytes[..]].concat()] {
                if let Ok(found) = messages(capture) {
                    prop_assert!(!found.is_empty());
                }
            }
        }
    }
}
