//! Masks bodies: JSON with a credential is written again, in one line; a body that cannot be parsed and may contain a secret is
//! withheld.

use std::borrow::Cow;

use serde_json::Value;

use super::{Redactor, is_json_like, names_secret};

/// Shown in place of a body that may contain a secret anywhere.
const WITHHELD: &str = "… (not shown: it cannot be read as JSON and may hold a secret)";

/// Most characters of a body's first line.
const LONGEST_LINE: usize = 120;

impl Redactor<'_> {
    /// A body with credentials masked; the same bytes if it has none.
    pub fn body(self, body: &[u8]) -> Cow<'_, [u8]> {
        // Bytes that are not UTF-8 are shown unchanged only if their lossy text needs no masking.
        let text = String::from_utf8_lossy(body);
        let masked = match self.json(&text, 0) {
            Ok(masked) => masked,
            Err(_) if is_json_like(&text) && names_secret(&text) => Some(WITHHELD.to_owned()),
            Err(_) => match self.text(&text) {
                Cow::Owned(masked) => Some(masked),
                Cow::Borrowed(_) => None,
            },
        };
        masked.map_or(Cow::Borrowed(body), |masked| Cow::Owned(masked.into_bytes()))
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
    fn json_keeps_its_form_unless_it_may_hold_a_secret() {
        check("{ \"a\" : [1, \"b\"] }\n", "{ \"a\" : [1, \"b\"] }\n");
        check("{\"secret\": \"x\\\"y\", \"a\": 1}", "{\"secret\":\"…\",\"a\":1}");
        check("{\"a\":{\"b\":[{\"Client_Secret\" :12}]}}", "{\"a\":{\"b\":[{\"Client_Secret\":\"…\"}]}}");
        check("{\"token\":{\"a\":[\"}\",{}]},\"b\":2}", "{\"token\":\"…\",\"b\":2}");
        check("{\"s\\u0065cret\":true,\"password\":null}", "{\"secret\":\"…\",\"password\":null}");
        check("{\"token\":\"sk_test_abc\"}", "{\"token\":\"sk_test_abc\"}");
        check("[\"secret\",\"x\"]", "[\"secret\",\"x\"]");
        check("{\"a\":\"sk\\u005flive\\u005fabcdefgh\"}", "{\"a\":\"sk_live_…efgh\"}");
        check("{\"u\":\"https:\\/\\/u:p@h\\/?token=a\\\"b\"}", "{\"u\":\"https://***@h/?token=…\\\"b\"}");
        check("{\"whsec_abc\":\"\\ud800\"}", WITHHELD);
        check("{\"user[password]\":\"x\",\"api_key\":\"x\"}", "{\"user[password]\":\"…\",\"api_key\":\"…\"}");
        check("{\"a\": \"sk_live_abcdefgh\", \"a\": 1}", "{\"a\":1}");
        check("{\"token\": \"x\", \"token\": null}", "{\"token\":null}");
        let inner = |value: &str| serde_json::json!({ "a": format!("{{\"password\":\"{value}\"}}") }).to_string();
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
        assert_eq!(redactor.body(b"{\"secret\":\"\xff\"}"), "{\"secret\":\"…\"}".as_bytes());
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
