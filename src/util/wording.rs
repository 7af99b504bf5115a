//! Counts and lists in sentences, in the one form that they have everywhere. Knows nothing else.

use std::fmt::Display;

/// A number of things: `1 workspace`, `2 workspaces`, `2 entries`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    match what.strip_suffix("ry") {
        _ if count == N::from(1) => format!("{count} {what}"),
        Some(stem) => format!("{count} {stem}ries"),
        None => format!("{count} {what}s"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        for (texts, expected) in
            [(&[][..], ""), (&["a"], "a"), (&["a", "b"], "a or b"), (&["a", "b", "c"], "a, b or c")]
        {
            assert_eq!(any_of(texts), expected);
        }
    }
}
