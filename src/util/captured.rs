//! Reads captured HTTP messages in the forms that tools print and save: lines, raw requests, `curl -v`, JSON of several shapes, HAR.
//! Independent of what the messages are for.

use std::borrow::Cow;

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

/// Fields of JSON with the bytes of a body, as text or in base64.
const BODIES: [&str; 4] = ["body", "rawBody", "content", "body_base64"];
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
    let bytes = in_utf8(capture);
    let found = match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => of_json(&bytes)?,
        _ => of_text(&bytes)?,
    };
    if found.is_empty() { Err("expected headers, found nothing".to_owned()) } else { Ok(found) }
}

/// Parses `name: value`, perhaps as an argument of curl.
pub fn header_line(line: &str) -> Result<Header, String> {
    let line = line.trim();
    let argument = ["-H", "--header"].iter().find_map(|flag| line.strip_prefix(flag));
    let argument = argument.map(|text| text.trim_end_matches('\\').trim());
    let quoted = |text: &str, quote| text.strip_prefix(quote)?.strip_suffix(quote).map(str::to_owned);
    let text = match argument {
        Some(text) => quoted(text, '\'').or_else(|| quoted(text, '"')).unwrap_or_else(|| text.to_owned()),
        None => line.to_owned(),
    };
    let pair = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    let pair = pair.filter(|(name, _)| HeaderName::from_bytes(name.as_bytes()).is_ok());
    let header = pair.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    header.ok_or_else(|| format!("expected `name: value`, found `{}`", line.escape_debug()))
}

/// The bytes without a byte order mark; PowerShell redirects output in UTF-16.
fn in_utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let units = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
    };
    match bytes {
        [0xff, 0xfe, ..] => units(u16::from_le_bytes),
        [0xfe, 0xff, ..] => units(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => Cow::Borrowed(rest),
        _ => Cow::Borrowed(bytes),
    }
}

struct Line<'b> {
    number: usize,
    bytes: &'b [u8],
    /// Where the next line starts.
    end: usize,
}

impl Line<'_> {
    fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }

    fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(self.bytes).map_err(|_| format!("line {}: the header is not UTF-8", self.number))
    }

    fn header(&self) -> Result<Header, String> {
        header_line(self.text()?).map_err(|problem| format!("line {}: {problem}", self.number))
    }

    fn is_head(&self) -> bool {
        self.text().is_ok_and(|text| start_line(text).is_some() || pseudo_header(text).is_some())
            || self.header().is_ok()
    }

    /// The direction and the text of a line that `curl -v` prints of a message.
    fn of_curl(&self) -> Option<(u8, &str)> {
        match self.text().ok()?.as_bytes() {
            [way @ (b'>' | b'<')] => Some((*way, "")),
            [way @ (b'>' | b'<'), b' ', ..] => Some((*way, &self.text().ok()?[2..])),
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

/// `:path: /hooks` of HTTP/2.
fn pseudo_header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().strip_prefix(':')?.split_once(':')?;
    Some((name, value.trim()))
}

impl CapturedMessage {
    /// Adds a line of a message's head.
    fn push(&mut self, text: &str) -> Result<(), String> {
        if let Some((method, target)) = start_line(text) {
            self.method = method.map(str::to_owned);
            self.target = target.map(str::to_owned);
        } else if let Some((name, value)) = pseudo_header(text) {
            match name {
                "method" => self.method = Some(value.to_owned()),
                "path" => self.target = Some(value.to_owned()),
                "authority" => self.headers.insert(0, ("host".to_owned(), value.to_owned())),
                _ => {}
            }
        } else {
            self.headers.push(header_line(text)?);
        }
        Ok(())
    }
}

fn of_text(bytes: &[u8]) -> Result<Vec<CapturedMessage>, String> {
    let mut end = 0;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').zip(1..).map(|(line, number)| {
        end += line.len();
        Line { number, bytes: line.trim_ascii_end(), end }
    });
    let lines: Vec<Line<'_>> = lines.skip_while(Line::is_blank).collect();
    let Some(first) = lines.first() else { return Ok(Vec::new()) };
    if first.is_head() || first.bytes.starts_with(b"curl ") {
        return one_message(bytes, &lines).map(|message| vec![message]);
    }
    if lines.iter().any(|line| line.of_curl().is_some()) {
        return of_curl(&lines);
    }
    // A text for people, with headers among other things.
    let blocks = lines.split(Line::is_blank).filter(|block| !block.is_empty());
    let blocks: Vec<_> = blocks.filter(|block| block.iter().all(Line::is_head)).collect();
    if blocks.is_empty() {
        return first.header().map(|_| Vec::new());
    }
    blocks.into_iter().map(head).collect()
}

fn head(lines: &[Line<'_>]) -> Result<CapturedMessage, String> {
    let mut message = CapturedMessage::default();
    // Of a command, only the headers count.
    let is_command = lines[0].bytes.starts_with(b"curl ");
    for line in lines.iter().filter(|line| !line.is_blank() && (!is_command || line.header().is_ok())) {
        message.push(line.text()?).map_err(|problem| format!("line {}: {problem}", line.number))?;
    }
    Ok(message)
}

/// A head, perhaps with a body after an empty line.
fn one_message(bytes: &[u8], lines: &[Line<'_>]) -> Result<CapturedMessage, String> {
    let text = lines[0].text()?;
    let is_raw = start_line(text).is_some() || pseudo_header(text).is_some();
    // Without a request line there may be empty lines between headers.
    let mut length = 0;
    for block in lines.split_inclusive(Line::is_blank) {
        let is_head = block.iter().all(|line| line.is_blank() || line.is_head());
        if length > 0 && (is_raw || !is_head) {
            break;
        }
        length += block.len();
    }
    let (before, after) = lines.split_at(length);
    let mut message = head(before)?;
    let ends_empty = before.last().is_some_and(Line::is_blank);
    if ends_empty && (is_raw || !after.is_empty()) {
        message.body = Some(bytes[lines[length - 1].end..].to_vec());
    }
    Ok(message)
}

/// The messages of `curl -v`: `> ` precedes the lines that were sent, `< ` those that came back.
fn of_curl(lines: &[Line<'_>]) -> Result<Vec<CapturedMessage>, String> {
    let mut found: Vec<CapturedMessage> = Vec::new();
    let mut last = 0;
    for (line, (way, text)) in lines.iter().filter_map(|line| Some((line, line.of_curl()?))) {
        if text.trim().is_empty() {
            continue;
        }
        if last != way || start_line(text).is_some() {
            found.push(CapturedMessage::default());
        }
        last = way;
        let message = found.last_mut().ok_or("expected headers")?;
        message.push(text).map_err(|problem| format!("line {}: {problem}", line.number))?;
    }
    found.retain(|message| !message.headers.is_empty());
    Ok(found)
}

fn of_json(bytes: &[u8]) -> Result<Vec<CapturedMessage>, String> {
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
            let text = |names: [&str; 2]| names.into_iter().find_map(|name| fields.get(name)?.as_str());
            let url = text(["url", "target"]).or(url);
            let headers = fields.get("multiValueHeaders").filter(|headers| headers.is_object());
            let Some(headers) = headers.or_else(|| fields.get("headers")).filter(|headers| !headers.is_null()) else {
                let others = fields.iter().filter(|(name, _)| !ANSWERS.contains(&name.as_str()));
                return others.into_iter().try_for_each(|(_, value)| find(value, url, found));
            };
            found.push(CapturedMessage {
                method: text(["method", "httpMethod"]).map(str::to_owned),
                target: url.map(str::to_owned),
                headers: json_headers(headers)?,
                body: json_body(fields),
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn json_body(fields: &Map<String, Value>) -> Option<Vec<u8>> {
    let is_base64 = |name: &str| name == "body_base64" || fields.get("isBase64Encoded") == Some(&Value::Bool(true));
    let (text, is_base64) = match fields.get("postData").and_then(Value::as_object) {
        Some(posted) => (posted.get("text")?.as_str()?, posted.get("encoding").is_some_and(|form| form == "base64")),
        None => BODIES.iter().find_map(|name| Some((fields.get(*name)?.as_str()?, is_base64(name))))?,
    };
    if is_base64 { STANDARD.decode(text).ok() } else { Some(text.as_bytes().to_vec()) }
}

/// An object by name, or a list of lines, of pairs, of objects with `name` and `value`, or of names and values in turn.
fn json_headers(value: &Value) -> Result<Vec<Header>, String> {
    let mut found = Vec::new();
    match value {
        Value::String(lines) => {
            for line in lines.lines().filter(|line| !line.trim().is_empty() && start_line(line).is_none()) {
                found.push(header_line(line)?);
            }
        }
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| add(&mut found, name, value))?,
        Value::Array(items) => {
            let mut items = items.iter();
            while let Some(item) = items.next() {
                let fields = |name: &str, value: &str| Some((item.get(name)?.as_str()?, item.get(value)?));
                let pair = match item {
                    Value::Array(pair) => pair.first().and_then(Value::as_str).zip(pair.get(1)),
                    Value::Object(_) => fields("name", "value").or_else(|| fields("key", "value")),
                    Value::String(line) if line.trim_start_matches(':').contains(':') => {
                        found.push(header_line(line)?);
                        continue;
                    }
                    Value::String(name) => items.next().map(|value| (name.as_str(), value)),
                    _ => None,
                };
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
    // The names that CGI gives to headers.
    let name = name.strip_prefix("HTTP_").map_or_else(|| name.to_owned(), |name| name.replace('_', "-"));
    let name = name.to_ascii_lowercase();
    match value {
        Value::Null => {}
        // HTTP/2 has the parts of the request line there.
        _ if name.starts_with(':') => {}
        Value::String(text) => headers.push((name, text.clone())),
        Value::Number(_) | Value::Bool(_) => headers.push((name, value.to_string())),
        Value::Array(values) => values.iter().try_for_each(|value| add(headers, &name, value))?,
        Value::Object(_) => {
            return Err(format!("expected a string for `{}`, found {value}", name.escape_debug()));
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
    struct Case {
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
        for Case { capture, messages: expected } in serde_json::from_str::<Vec<Case>>(cases).expect("cases") {
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
        let utf16 = |units: fn(u16) -> [u8; 2], mark: [u8; 2]| {
            [mark.to_vec(), "a: é\r\n".encode_utf16().flat_map(units).collect()].concat()
        };
        for capture in [
            utf16(u16::to_le_bytes, [0xff, 0xfe]),
            utf16(u16::to_be_bytes, [0xfe, 0xff]),
            "\u{feff}A: é".as_bytes().to_vec(),
            "\u{feff}{\"a\":\"é\"}".as_bytes().to_vec(),
        ] {
            let found = messages(&capture).expect("a message");
            assert_eq!(found[0].headers, [("a".to_owned(), "é".to_owned())], "{capture:?}");
        }
        let raw = messages(b"POST /a HTTP/1.1\r\ncontent-length: 2\r\n\r\n\xff\n\n\n").expect("a message");
        assert_eq!(raw[0].body.as_deref(), Some(&b"\xff\n\n\n"[..]));
        assert_eq!(raw[0].sent_body(), Some(&b"\xff\n"[..]));
        for (capture, method, target) in [
            ("POST /a HTTP/1.1\na: b\n\n{}", Some("POST"), Some("/a")),
            ("POST https://a.example/b HTTP/2\na: b\n\n{}", Some("POST"), Some("https://a.example/b")),
            (":method: POST\n:authority: a.example\n:path: /a?b=1\na: b\n\n{}", Some("POST"), Some("/a?b=1")),
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
        ] {
            let problem = messages(capture).expect_err("a problem");
            assert!(problem.contains(says), "{problem}");
        }
    }

    const PIECES: [&str; 20] = [
        "\n",
        "\r\n",
        "> ",
        "< ",
        "*",
        ": ",
        ":",
        "a",
        "-H 'a: b'",
        "curl x",
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
