//! Characters spelled in another way: escapes of JSON and other strings, of URLs and of HTML, and base64. Finds a known secret however it
//! is spelled, and reads escapes in a text. Independent of which texts are secrets.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A character, and where its spelling ends.
type Reading = (u8, usize);

/// Most characters that are read at one place, and most numbers that the digits of an escape are.
const MAX_READINGS: usize = 64;
const MAX_DIGITS: usize = 8;

/// The names of ASCII characters in HTML, in lower case.
const NAMED: [(&str, u8); 37] = [
    ("amp", b'&'),
    ("apos", b'\''),
    ("ast", b'*'),
    ("bsol", b'\\'),
    ("colon", b':'),
    ("comma", b','),
    ("commat", b'@'),
    ("diacriticalgrave", b'`'),
    ("dollar", b'$'),
    ("equals", b'='),
    ("excl", b'!'),
    ("grave", b'`'),
    ("gt", b'>'),
    ("hat", b'^'),
    ("lbrace", b'{'),
    ("lbrack", b'['),
    ("lcub", b'{'),
    ("lowbar", b'_'),
    ("lpar", b'('),
    ("lsqb", b'['),
    ("lt", b'<'),
    ("midast", b'*'),
    ("num", b'#'),
    ("percnt", b'%'),
    ("period", b'.'),
    ("plus", b'+'),
    ("quest", b'?'),
    ("quot", b'"'),
    ("rbrace", b'}'),
    ("rbrack", b']'),
    ("rcub", b'}'),
    ("rpar", b')'),
    ("rsqb", b']'),
    ("semi", b';'),
    ("sol", b'/'),
    ("underbar", b'_'),
    ("verbar", b'|'),
];

fn begins_escape(byte: u8) -> bool {
    matches!(byte, b'\\' | b'%' | b'&' | b'=')
}

/// What an escape may stand for whose first character ends at `end`; `read` gives the readings of the character at a place. Only ASCII, of
/// which credentials consist.
fn escapes(first: u8, end: usize, read: &dyn Fn(usize) -> Vec<Reading>) -> Vec<Reading> {
    let digits = |at, radix, least, most| digits(at, radix, least..=most, read);
    // With and without the semicolon.
    let closed = |(c, end): Reading| {
        let semicolons = read(end).into_iter().filter(|(c, _)| *c == b';');
        semicolons.map(move |(_, end)| (c, end)).chain([(c, end)])
    };
    let after = |at, wanted: u8| read(at).into_iter().filter(move |(c, _)| c.eq_ignore_ascii_case(&wanted));
    match first {
        b'\\' => {
            let escaped = |(c, end): Reading| match c {
                b'u' => {
                    let braced = after(end, b'{').flat_map(|(_, end)| digits(end, 16, 1, MAX_DIGITS));
                    let closed = braced.flat_map(|(c, end)| after(end, b'}').map(move |(_, end)| (c, end)));
                    digits(end, 16, 4, 4).into_iter().chain(closed).collect()
                }
                b'x' => digits(end, 16, 2, 2),
                b'U' => digits(end, 16, 8, 8),
                b'n' => vec![(b'\n', end)],
                b'r' => vec![(b'\r', end)],
                b't' => vec![(b'\t', end)],
                c if c.is_ascii() => vec![(c, end)],
                _ => Vec::new(),
            };
            // The last of several backslashes escapes: the work must not grow with their number squared.
            let (backslashes, others): (Vec<_>, Vec<_>) = read(end).into_iter().partition(|(c, _)| *c == b'\\');
            others.into_iter().chain(backslashes.into_iter().max()).flat_map(escaped).collect()
        }
        b'%' => {
            let wide = after(end, b'u').flat_map(|(_, end)| digits(end, 16, 4, 4));
            digits(end, 16, 2, 2).into_iter().chain(wide).collect()
        }
        b'=' => {
            // Before a line end it only breaks the line.
            let breaks = read(end).into_iter().filter(|(c, _)| matches!(c, b'\r' | b'\n'));
            breaks.chain(digits(end, 16, 2, 2)).collect()
        }
        b'&' => {
            let numbered = after(end, b'#').flat_map(|(_, end)| {
                let hexadecimal = after(end, b'x').flat_map(|(_, end)| digits(end, 16, 1, MAX_DIGITS));
                hexadecimal.chain(digits(end, 10, 1, MAX_DIGITS)).collect::<Vec<_>>()
            });
            numbered.chain(named(end, read)).flat_map(closed).collect()
        }
        _ => Vec::new(),
    }
}

/// The characters that a number with this many digits stands for.
fn digits(
    at: usize,
    radix: u32,
    count: std::ops::RangeInclusive<usize>,
    read: &dyn Fn(usize) -> Vec<Reading>,
) -> Vec<Reading> {
    let (mut states, mut found) = (vec![(0_u32, at)], Vec::new());
    for length in 1..=*count.end() {
        let next = |(value, at): (u32, usize)| {
            let digit = move |(c, end): Reading| {
                let value = value.saturating_mul(radix);
                Some((value.saturating_add(char::from(c).to_digit(radix)?), end))
            };
            read(at).into_iter().filter_map(digit)
        };
        states = states.into_iter().flat_map(next).collect();
        states.sort_unstable();
        states.dedup();
        states.truncate(MAX_READINGS);
        if count.contains(&length) {
            found.extend(states.iter().filter_map(|(value, end)| Some((u8::try_from(*value).ok()?, *end))));
        }
    }
    found.retain(|(c, _)| c.is_ascii());
    found
}

/// The characters of the names that begin at a place, in any case.
fn named(at: usize, read: &dyn Fn(usize) -> Vec<Reading>) -> Vec<Reading> {
    let next = |ends: Vec<usize>, wanted: u8| -> Vec<usize> {
        let mut next: Vec<usize> = ends
            .into_iter()
            .flat_map(read)
            .filter_map(|(c, end)| c.eq_ignore_ascii_case(&wanted).then_some(end))
            .collect();
        next.sort_unstable();
        next.dedup();
        next
    };
    let ends = |name: &str| name.bytes().fold(vec![at], next);
    let first = read(at);
    let begins = |name: &str| first.iter().any(|(c, _)| name.as_bytes()[0].eq_ignore_ascii_case(c));
    NAMED
        .iter()
        .filter(|(name, _)| begins(name))
        .flat_map(|(name, c)| ends(name).into_iter().map(|end| (*c, end)))
        .collect()
}

/// A text with its escapes read once, each as far as it goes; the same text if it has none.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let read = |at: usize| Vec::from_iter(bytes.get(at).map(|byte| (*byte, at + 1)));
    let (mut plain, mut done, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        let longest = match bytes[at] {
            // Too common in texts to stand for an escape.
            b'=' => None,
            first => escapes(first, at + 1, &read).into_iter().max_by_key(|(_, end)| *end),
        };
        let Some((c, end)) = longest else {
            at += 1;
            continue;
        };
        plain.push_str(&text[done..at]);
        plain.push(char::from(c));
        (at, done) = (end, end);
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    plain.push_str(&text[done..]);
    Cow::Owned(plain)
}

/// A text in which secrets are looked for. Of each place where an escape may begin, it knows every character that may be read there,
/// through escapes within escapes.
struct Spelled<'t> {
    text: &'t [u8],
    escaped: HashMap<usize, Vec<Reading>>,
}

impl<'t> Spelled<'t> {
    fn new(text: &'t str) -> Self {
        let mut spelled = Self { text: text.as_bytes(), escaped: HashMap::new() };
        // From the end, as an escape is made of what follows it.
        let mut backslashes = 0;
        for (at, &first) in text.as_bytes().iter().enumerate().rev() {
            backslashes = if first == b'\\' { backslashes + 1 } else { 0 };
            if !begins_escape(first) {
                continue;
            }
            let run = backslashes.max(1);
            let mut readings = vec![(first, at + run)];
            let mut next = 0;
            while let Some((c, end)) = readings.get(next).copied() {
                next += 1;
                for found in escapes(c, end, &|at| spelled.readings(at).to_vec()) {
                    if readings.len() < MAX_READINGS && !readings.contains(&found) {
                        readings.push(found);
                    }
                }
            }
            if run > 1 {
                readings.push((first, at + 1));
            }
            spelled.escaped.insert(at, readings);
        }
        spelled
    }

    fn readings(&self, at: usize) -> Cow<'_, [Reading]> {
        match (self.escaped.get(&at), self.text.get(at)) {
            (Some(readings), _) => Cow::Borrowed(readings),
            (None, Some(byte)) => Cow::Owned(vec![(*byte, at + 1)]),
            (None, None) => Cow::Borrowed(&[]),
        }
    }

    /// How many bytes of a form begin at a place, and where they end; line ends between them are skipped.
    fn matched(&self, at: usize, form: &[u8]) -> (usize, usize) {
        // Most places begin no form, which is found without a list.
        if !self.escaped.contains_key(&at) && !self.text[at].eq_ignore_ascii_case(&form[0]) {
            return (0, at);
        }
        let (mut ends, mut longest) = (vec![at], at);
        for (matched, byte) in form.iter().enumerate() {
            let mut next = Vec::new();
            while let Some(at) = ends.pop() {
                for (c, end) in self.readings(at).iter() {
                    if c.eq_ignore_ascii_case(byte) {
                        next.push(*end);
                    } else if matched > 0 && matches!(c, b'\r' | b'\n') {
                        ends.push(*end);
                    }
                }
            }
            next.sort_unstable();
            next.dedup();
            match next.last() {
                Some(end) => longest = *end,
                None => return (matched, longest),
            }
            ends = next;
        }
        (form.len(), longest)
    }
}

/// Texts that must not be kept, in all their spellings besides escapes.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    forms: Vec<Form>,
    /// The bytes with which a form begins, in lower case.
    first: BTreeSet<u8>,
}

#[derive(Clone, Debug)]
struct Form {
    text: Vec<u8>,
    /// How many bytes of it, from the first one on, must not be kept.
    least: usize,
    /// What is written in its place.
    mark: &'static str,
}

impl Secrets {
    /// Adds a secret of which no more than half may be kept.
    #[must_use]
    pub fn and(self, secret: &str, mark: &'static str) -> Self {
        self.with(secret, mark, |length| (length / 2 + 3).min(length))
    }

    /// Adds a secret of which any part may be kept, but not all of it.
    #[must_use]
    pub fn and_whole(self, secret: &str, mark: &'static str) -> Self {
        self.with(secret, mark, |length| length)
    }

    fn with(mut self, secret: &str, mark: &'static str, least: fn(usize) -> usize) -> Self {
        let secret = secret.as_bytes();
        let once = in_base64(secret);
        let twice = once.iter().flat_map(|text| in_base64(text)).collect();
        let hexadecimal = secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes();
        let texts = [vec![secret.to_vec(), hexadecimal], once, twice].concat().into_iter();
        let form = |text: Vec<u8>| Form { least: least(text.len()), text, mark };
        self.forms.extend(texts.filter(|text| !text.is_empty()).map(form));
        self.first = self.forms.iter().map(|form| form.text[0].to_ascii_lowercase()).collect();
        self
    }

    /// A text with marks instead of the secrets, in whatever case and spelling.
    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spelled = Spelled::new(text);
        let (mut shown, mut done, mut at) = (String::new(), 0, 0);
        while at < text.len() {
            let first = text.as_bytes()[at];
            if !begins_escape(first) && !self.first.contains(&first.to_ascii_lowercase()) {
                at += 1;
                continue;
            }
            let matched = self.forms.iter().filter_map(|form| {
                let (length, end) = spelled.matched(at, &form.text);
                (length >= form.least).then_some((end, form.mark))
            });
            match matched.max_by_key(|(end, _)| *end) {
                Some((end, mark)) => {
                    shown.push_str(&text[done..at]);
                    shown.push_str(mark);
                    (at, done) = (end, end);
                }
                None => at += 1,
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        shown.push_str(&text[done..]);
        Cow::Owned(shown)
    }
}

/// A text as it is within anything in base64, which depends on how many bytes precede it; without the characters at both ends that
/// depend on its neighbours.
fn in_base64(text: &[u8]) -> Vec<Vec<u8>> {
    let engines = [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD];
    let after = |before: usize| {
        let bytes = [&vec![0; before], text].concat();
        let first = (8 * before).div_ceil(6);
        engines
            .map(|engine| engine.encode(&bytes).as_bytes().get(first..8 * bytes.len() / 6).unwrap_or_default().to_vec())
    };
    let mut forms = [0, 1, 2].map(after).concat();
    // A few characters may be part of any text.
    forms.retain(|form| form.len() >= 8);
    forms.sort_unstable();
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_once() {
        for (text, plain) in [
            ("plain ä = 5 & more", "plain ä = 5 & more"),
            (r"a\\b\/\n\u00e9\u005F\u{5f}\x5f\U0000005f\\u005f", "a\\b/\n\\u00e9____\\u005f"),
            ("%5f%255f%u005f%c3%a4", "_%5f_%c3%a4"),
            ("&lowbar;&amp;amp;&#95&#x5F;&UnderBar;&nbsp;", "_&amp;___&nbsp;"),
            (r"\ä%ä&ä;&#ä\", r"\ä%ä&ä;&#ä\"),
        ] {
            assert_eq!(unescaped(text), plain, "{text}");
        }
    }

    #[test]
    fn secrets_end_at_whole_characters_and_empty_ones_hide_nothing() {
        let secrets = Secrets::default().and("abcdefgh", "<a>").and_whole("0123", "<b>").and("", "<c>");
        for (text, hidden) in [
            (r"ä\\abcdefghä", "ä<a>ä"),
            ("äabcdefg 012ä %30123", "ä<a> 012ä <b>"),
            (r"\ä%ä", r"\ä%ä"),
            ("abcdefgh%61bcdefgh0123", "<a><a><b>"),
            ("abc\r\ndefgh", "<a>"),
        ] {
            assert_eq!(secrets.hide(text), hidden, "{text}");
        }
    }
}
