//! A body as one masked, short line, for listings and log lines that show a receiver's answer.

use serde_json::Value;

use super::Redactor;

/// Most characters shown.
const MOST: usize = 120;

impl Redactor<'_> {
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
        match shown.char_indices().nth(MOST) {
            Some((at, _)) => Some(format!("{}…", &shown[..at])),
            None => Some(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
