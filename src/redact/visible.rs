//! Escapes control characters: bytes from clients must not control a terminal, change the direction of text, or split a record
//! into two lines.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is escaped: controls (C0, DEL, C1), line separators, and characters that change the direction of text
/// or are invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A text on one line: control characters and line ends as escapes such as `\n` or `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, |c, shown| shown.extend(c.escape_default()))
}

/// [`visible`] for a text of several lines: line ends and tabs are kept.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    let text = if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    let hides = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    let escape = |c: char, shown: &mut String| shown.extend(c.escape_default());
    match text {
        Cow::Borrowed(text) => escaped(text, hides, escape),
        Cow::Owned(text) => Cow::Owned(escaped(&text, hides, escape).into_owned()),
    }
}

/// [`visible`] for a JSON text, which stays valid: characters that serde does not escape become `\u202e` and the like.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    escaped(json, hides, |c, shown| {
        // A write to a String cannot fail; all of these are in the basic plane.
        let _ = write!(shown, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, hides: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.chars().any(&hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) { escape(c, &mut shown) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str =
        "a\u{1b}[31m\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}ä";

    #[test]
    fn terminal_controls_are_escaped() {
        let expected = "a\\u{1b}[31m\\u{7f}\\u{85}\\u{9b}\\u{61c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\\u{202a}\\u{202e}\\u{2066}\\u{2069}ä";
        assert_eq!(visible(ODD), expected);
        assert_eq!(visible("a\r\n\tb ä"), "a\\r\\n\\tb ä");
        assert_eq!(visible_lines("a\r\n\tb\rc\u{9b}\n"), "a\n\tb\\rc\\u{9b}\n");
        assert!(matches!(visible("plain ä"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_json() {
        let json = serde_json::to_string(ODD).expect("a text serialises");
        let shown = visible_json(&json);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("it is JSON"), ODD);
    }
}
