//! Text without what differs from run to run: ids, timestamps, ports. Two requests of the same shape ask for the same.

use std::borrow::Cow;

/// The prefixes of ids.
const PREFIXES: [&str; 7] = ["sub_", "evt_", "req_", "wf_", "ref_", "usr_", "dlv_"];
/// Words of at least this many characters with a digit in them count as random, and numbers of at least `LONG_NUMBER` as ports or
/// times.
const LONG_WORD: usize = 16;
const LONG_NUMBER: usize = 4;

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// An id: its prefix, and what follows.
    Id(&'static str, &'t str),
    /// A timestamp.
    Time(&'t str),
    /// A word drawn by chance, or a large number.
    Drawn,
    /// Anything else.
    Plain(&'t str),
}

/// A text in pieces.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let taken = match time_length(rest) {
            Some(length) => (length, Piece::Time(&rest[..length])),
            None if word == 0 => {
                let length = rest.find(is_word).unwrap_or(rest.len());
                (length, Piece::Plain(&rest[..length]))
            }
            None => (word, classified(&rest[..word])),
        };
        rest = &rest[taken.0..];
        Some(taken.1)
    })
}

fn classified(word: &str) -> Piece<'_> {
    let id = PREFIXES.into_iter().find_map(|prefix| Some((prefix, word.strip_prefix(prefix)?)));
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    match id {
        Some((prefix, rest)) if !rest.is_empty() => Piece::Id(prefix, rest),
        _ if digits == word.len() && digits >= LONG_NUMBER => Piece::Drawn,
        _ if digits > 0 && word.len() >= LONG_WORD => Piece::Drawn,
        _ => Piece::Plain(word),
    }
}

/// The length of the timestamp that a text begins with, such as `2026-01-31T09:30:00.000Z`.
fn time_length(text: &str) -> Option<usize> {
    const PATTERN: &[u8] = b"0000-00-00T00:00:00";
    let matches = |(at, pattern): (usize, &u8)| match (text.as_bytes().get(at), pattern) {
        (Some(byte), b'0') => byte.is_ascii_digit(),
        (byte, pattern) => byte == Some(pattern),
    };
    if !PATTERN.iter().enumerate().all(matches) {
        return None;
    }
    let rest = &text[PATTERN.len()..];
    let end = rest.find(|c: char| !matches!(c, '0'..='9' | '.' | ':' | '+' | 'Z')).unwrap_or(rest.len());
    Some(PATTERN.len() + end)
}

/// The text with each id, timestamp and drawn word replaced.
pub(super) fn shape(text: &str) -> String {
    let shown = |piece| match piece {
        Piece::Id(prefix, _) => Cow::Owned(format!("{prefix}…")),
        Piece::Time(_) => "TIME".into(),
        Piece::Drawn => "…".into(),
        Piece::Plain(text) => Cow::Borrowed(text),
    };
    pieces(text).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        for (text, expected) in [
            ("", ""),
            ("/v1/workflows/wf_01k9/cancel", "/v1/workflows/wf_…/cancel"),
            ("wf_a-b_c9,", "wf_…,"),
            ("http://127.0.0.1:54321/hooks?limit=10", "http://127.0.0.1:…/hooks?limit=10"),
            ("{\"at\":\"2026-01-31T09:30:00.123Z\"}", "{\"at\":\"TIME\"}"),
            ("2026-01-31T09:30:00Z", "TIME"),
            ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "…"),
            ("workflow.completed", "workflow.completed"),
            ("a-word-without-any-digit", "a-word-without-any-digit"),
            ("sub_", "sub_"),
            ("Grüße 世界", "Grüße 世界"),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }
}
