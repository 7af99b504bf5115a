//! Counts and lists in sentences, and words of commands, in the one form that they have everywhere. Knows nothing else.

use std::borrow::Cow;
use std::fmt::Display;

/// A rule or an emission in a sentence: by its position where its label is one, as `rule 2`, or else by its name.
pub fn labelled(kind: &str, position: &str, label: &str) -> String {
    match label.strip_prefix(position).map(str::parse::<usize>) {
        Some(Ok(position)) => format!("{kind} {position}"),
        _ => format!("{kind} `{}`", shorten(label, 80)),
    }
}

/// A number of things: `1 workspace`, `2 workspaces`, `2 entries`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    match what.strip_suffix("ry") {
        _ if count == N::from(1) => format!("{count} {what}"),
        Some(stem) => format!("{count} {stem}ries"),
        None => format!("{count} {what}s"),
    }
}

/// A place in an order: `1st`, `2nd`, `11th`.
pub fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Alternatives: `a`, `a or b`, `a, b or c`.
pub fn any_of<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    match texts.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// The text; of a longer one that many characters and `…`.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Text from users as messages quote it: shortened, control characters escaped.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    shorten(text, SHOWN).escape_debug().to_string()
}

/// A text as one word of a command for a POSIX shell, in quotes if it has anything that a shell acts on.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./_-".contains(&byte);
    if !text.is_empty() && !text.starts_with('=') && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_it_was() {
        for text in [
            "a-1_b/c:d=e",
            "",
            "it's",
            "$(id)",
            "`id`",
            "a b",
            "a;b",
            "=ls",
            "~",
            "\\",
            "\"!!\"",
            "ü",
            "a\nb",
            "*?[1-3]{a,b}",
        ] {
            let script = format!("printf %s {}", shell_word(text));
            let read = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh starts");
            assert_eq!(String::from_utf8_lossy(&read.stdout), text, "{script}");
        }
        assert_eq!(shell_word("https://a.example=http://localhost:1"), "https://a.example=http://localhost:1");
    }

    #[test]
    fn counts_and_alternatives_read_as_sentences() {
        for (count, what, expected) in [
            (0, "attempt", "0 attempts"),
            (1, "attempt", "1 attempt"),
            (2, "attempt", "2 attempts"),
            (1, "delivery", "1 delivery"),
        ] {
            assert_eq!(counted::<u64>(count, what), expected);
        }
        assert_eq!(counted(2_u64, "entry"), "2 entries");
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 111, 122].map(ordinal).join(" ");
        assert_eq!(ordinals, "1st 2nd 3rd 4th 11th 12th 13th 21st 111th 122nd");
        for (texts, expected) in
            [(&[][..], ""), (&["a"], "a"), (&["a", "b"], "a or b"), (&["a", "b", "c"], "a, b or c")]
        {
            assert_eq!(any_of(texts), expected);
        }
    }
}
