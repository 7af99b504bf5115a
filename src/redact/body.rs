//! Masks bodies: JSON keeps its layout outside of masked values; a body that cannot be parsed and may contain a secret is
//! withheld.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{DEEPEST, MASK, Redactor, SECRET_FIELDS, is_secret_field};
use crate::contract::keys::is_test_key;

/// Shown in place of a body that may contain a secret anywhere.
const WITHHELD: &str = "… (not shown: it cannot be read as JSON and may hold a secret)";

/// Most characters of a body's first line.
const LONGEST_LINE: usize = 120;

impl Redactor<'_> {
    /// A body with credentials masked; the same bytes if it has none.
    pub fn body(self, body: &[u8]) -> Cow<'_, [u8]> {
        let bytes = |text: Cow<'_, str>| match text {
            Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
            Cow::Borrowed(_) => Cow::Borrowed(body),
        };
        match std::str::from_utf8(body) {
            Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                self.json(text, 0).map_or(Cow::Borrowed(body), |masked| Cow::Owned(masked.into_bytes()))
            }
            Ok(text) if is_json_like(text) && names_secret(text) => Cow::Borrowed(WITHHELD.as_bytes()),
            Ok(text) => bytes(self.text(text)),
            // Bytes that are not UTF-8 are shown unchanged only if their lossy text needs no masking.
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                if is_json_like(&text) && names_secret(&text) {
                    return Cow::Borrowed(WITHHELD.as_bytes());
                }
                bytes(match self.text(&text) {
                    Cow::Owned(masked) => Cow::Owned(masked),
                    Cow::Borrowed(_) => Cow::Borrowed(""),
                })
            }
        }
    }

    /// The signed bytes. They contain the body, which is masked as [`Self::body`] does.
    pub fn signed(self, signed: &[u8], body: &[u8]) -> Vec<u8> {
        let at = (!body.is_empty()).then(|| signed.windows(body.len()).rposition(|part| part == body)).flatten();
        match at {
            Some(at) => {
                let (before, after) = (&signed[..at], &signed[at + body.len()..]);
                [self.body(before), self.body(body), self.body(after)].concat()
            }
            None => self.body(signed).into_owned(),
        }
    }

    /// The text of a field with credentials masked, if it is a JSON object or array and has any; `depth` counts what contains it.
    pub(super) fn json_at(self, text: &str, depth: usize) -> Option<String> {
        if !is_json_like(text) || serde_json::from_str::<IgnoredAny>(text).is_err() {
            return None;
        }
        if depth == DEEPEST { Some(MASK.to_owned()) } else { self.json(text, depth + 1) }
    }

    /// The first line of a body that has content; JSON over several lines is joined to one. `None` if the body is empty.
    pub fn first_line(self, body: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        let shown = if let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&text) {
            self.value(&mut value);
            value.to_string()
        } else {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
            String::from_utf8_lossy(&self.body(line.as_bytes())).into_owned()
        };
        match shown.char_indices().nth(LONGEST_LINE) {
            Some((at, _)) => Some(format!("{}…", &shown[..at])),
            None => Some(shown),
        }
    }

    /// A valid JSON text with credentials masked; `None` if it has none.
    fn json(self, text: &str, depth: usize) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut shown, mut done, mut at) = (String::new(), 0, 0);
        while let Some(start) = bytes[at..].iter().position(|byte| *byte == b'"').map(|offset| at + offset) {
            let end = string_end(bytes, start);
            let content = content(&text[start..end]);
            let value = value_start(bytes, end);
            if let Some(value) = value.filter(|_| is_secret_field(&content)) {
                let after = value_end(bytes, value);
                if !self.is_harmless(&text[value..after]) {
                    shown.push_str(&text[done..value]);
                    shown.push_str(&format!("\"{MASK}\""));
                    done = after;
                }
                at = after;
                continue;
            }
            if let Cow::Owned(masked) = self.nested(&content, depth) {
                shown.push_str(&text[done..start]);
                shown.push_str(&serde_json::to_string(&masked).expect("a text always serialises"));
                done = end;
            }
            at = end;
        }
        if done == 0 {
            return None;
        }
        shown.push_str(&text[done..]);
        Some(shown)
    }

    /// Whether the value of a secret field needs no masking.
    fn is_harmless(self, value: &str) -> bool {
        value == "null" || value == "\"\"" || is_test_key(value.trim_matches('"'), self.keys)
    }
}

fn is_json_like(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
}

fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_FIELDS.iter().any(|name| text.contains(name)) || text.contains("\\u")
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn content(quoted: &str) -> Cow<'_, str> {
    if quoted.contains('\\') {
        // A lone surrogate is a valid escape but does not decode to text.
        return serde_json::from_str(quoted).map_or(Cow::Borrowed(quoted), Cow::Owned);
    }
    Cow::Borrowed(quoted.trim_matches('"'))
}

fn skip_space(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Where the value of the field whose name ends at `end` begins; `None` if the string is not a field's name.
fn value_start(bytes: &[u8], end: usize) -> Option<usize> {
    let colon = skip_space(bytes, end);
    (bytes.get(colon) == Some(&b':')).then(|| skip_space(bytes, colon + 1))
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                // The end of what contains the value.
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                at += 1;
            }
            b',' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let redactor = Redactor::default();
        let shown = redactor.body(body.as_bytes());
        assert_eq!(String::from_utf8_lossy(&shown), expected, "{body}");
    }

    #[test]
    fn json_keeps_its_form_but_for_what_is_masked() {
        check("{ \"a\" : [1, \"b\"] }\n", "{ \"a\" : [1, \"b\"] }\n");
        check("{\"secret\": \"x\\\"y\", \"a\": 1}", "{\"secret\": \"…\", \"a\": 1}");
        check("{\"a\":{\"b\":[{\"Client_Secret\" :12}]}}", "{\"a\":{\"b\":[{\"Client_Secret\" :\"…\"}]}}");
        check("{\"token\":{\"a\":[\"}\",{}]},\"b\":2}", "{\"token\":\"…\",\"b\":2}");
        check("{\"s\\u0065cret\":true,\"password\":null}", "{\"s\\u0065cret\":\"…\",\"password\":null}");
        check("{\"token\":\"sk_test_abc\"}", "{\"token\":\"sk_test_abc\"}");
        check("[\"secret\",\"x\"]", "[\"secret\",\"x\"]");
        check("{\"a\":\"sk\\u005flive\\u005fabcdefgh\"}", "{\"a\":\"sk_live_…efgh\"}");
        check("{\"u\":\"https:\\/\\/u:p@h\\/?token=a\\\"b\"}", "{\"u\":\"https://***@h/?token=…\\\"b\"}");
        check("{\"whsec_abc\":\"\\ud800\"}", "{\"whsec_…\":\"\\ud800\"}");
        check("{\"user[password]\":\"x\",\"api_key\":\"x\"}", "{\"user[password]\":\"…\",\"api_key\":\"…\"}");
        let inner = |value: &str| serde_json::json!({ "a": format!("{{\"password\": \"{value}\"}}") }).to_string();
        check(&inner("x"), &inner("…"));
        let twice = |value: &str| serde_json::json!([inner(value)]).to_string();
        check(&twice("x"), &twice("…"));
    }

    #[test]
    fn other_bodies_are_texts_and_what_may_hold_a_secret_is_withheld() {
        check("", "");
        check("plain token", "plain token");
        check("grant_type=a&client_secret=b", "grant_type=a&client_secret=…");
        check("key sk_live_abcdefgh", "key sk_live_…efgh");
        check("{\"secret\": \"x\"", WITHHELD);
        check("{'s': 1}", "{'s': 1}");
        check(&format!("{}\"password\":\"x\"", "[".repeat(500)), WITHHELD);
        let redactor = Redactor::default();
        assert_eq!(redactor.body(b"\xff\xfe"), &b"\xff\xfe"[..]);
        assert!(String::from_utf8_lossy(&redactor.body(b"\xff sk_live_abcdefgh")).ends_with(" sk_live_…efgh"));
        assert_eq!(redactor.body(b"{\"secret\":\"\xff\"}"), WITHHELD.as_bytes());
    }

    #[test]
    fn what_was_signed_shows_the_body_as_it_is_shown() {
        let (redactor, body) = (Redactor::default(), b"{\"secret\":\"x\"}");
        let signed = [b"msg_1.17.".as_slice(), body].concat();
        assert_eq!(String::from_utf8_lossy(&redactor.signed(&signed, body)), "msg_1.17.{\"secret\":\"…\"}");
        assert_eq!(redactor.signed(b"17.", b""), b"17.");
    }

    #[test]
    fn the_first_line_with_content_is_short_and_masked() {
        for (body, expected) in [
            ("", None),
            (" \r\n\n", None),
            ("one\ntwo", Some("one")),
            ("\r\n  one \r\ntwo", Some("one")),
            ("{\n  \"error\": \"bad\",\n  \"secret\": \"hidden\"\n}\n", Some(r#"{"error":"bad","secret":"…"}"#)),
            ("refused sk_live_abcdefgh1234", Some("refused sk_live_…1234")),
            (&"ä".repeat(500), Some(&*format!("{}…", "ä".repeat(120)))),
        ] {
            assert_eq!(Redactor::default().first_line(body.as_bytes()).as_deref(), expected, "{body:?}");
        }
        let broken = "{\"secret\":\"hidden\"} and\nmore";
        assert!(!Redactor::default().first_line(broken.as_bytes()).expect("a line").contains("hidden"));
        assert_eq!(Redactor::default().first_line(b"\xff\xfe").as_deref(), Some("\u{fffd}\u{fffd}"));
    }
}
