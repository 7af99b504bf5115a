//! The one place that masks credentials, and the one that escapes control characters.
//!
//! Everything shown or exported passes through here: log lines, answers of the control API, the event stream, the command line.
//! Test keys are shown in full: they protect nothing, and users need to tell them apart; live keys, secrets, cookies and
//! passwords are masked. Independent of where anything is shown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::contract::keys::{Keys, is_test_key, mask_key, masked};
use crate::settings::Layered;
use crate::util::escapes::unescaped;

pub const MASK: &str = "…";

/// Shown instead of a body that may contain a secret anywhere.
const WITHHELD: &str = "… (not shown: it cannot be read as JSON and may hold a secret)";

const MAX_LINE: usize = 120;

/// Fields of JSON, forms and queries whose values are never shown, in lower case.
const SECRET_FIELDS: [&str; 7] = ["secret", "client_secret", "password", "token", "access_token", "api_key", "apikey"];
/// The setting whose values are keys.
const KEY_LIST: &str = "keys.list";
/// The live prefix of the contract, which is masked whatever the profile.
const LIVE_PREFIX: &str = "sk_live_";
const SECRET_PREFIX: &str = "whsec_";

/// Longest name of a parameter that may be that of a secret, in bytes.
const MAX_NAME: usize = 100;
/// How often a text may be percent-encoded, or JSON be the text of a field of JSON, and still be read.
const DEEPEST: usize = 8;

/// True if a field of this name holds a secret: `password`, as well as `password[]` and `user[password]`.
pub fn is_secret_field(name: &str) -> bool {
    name.split(['[', ']']).any(|part| SECRET_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(part)))
}

pub fn is_credential_header(name: &str) -> bool {
    ["authorization", "proxy-authorization", "x-api-key", "cookie", "set-cookie"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

static CONTRACT: LazyLock<Keys> = LazyLock::new(|| Layered::default().profile().keys.clone());

#[derive(Clone, Copy, Debug)]
pub struct Redactor<'k> {
    keys: &'k Keys,
}

impl Default for Redactor<'static> {
    /// A redactor by the contract's prefixes.
    fn default() -> Self {
        Self::new(&CONTRACT)
    }
}

impl<'k> Redactor<'k> {
    pub fn new(keys: &'k Keys) -> Self {
        Self { keys }
    }

    pub fn key_settings(self) -> &'k Keys {
        self.keys
    }

    /// A key for display: a test key in full, any other as its prefix and last four characters.
    pub fn key(self, key: &str) -> Cow<'_, str> {
        mask_key(key, self.keys)
    }

    /// Any text, such as a URL, a message or a header's value, with live keys, signing secrets, user information of URLs and
    /// secret parameters masked, escaped or not.
    pub fn text(self, text: &str) -> Cow<'_, str> {
        match self.escaped(text) {
            Some(masked) => masked.into(),
            None => self.unescaped(text),
        }
    }

    /// [`Self::text`] of a text without escapes, percent-encoding aside.
    fn unescaped(self, text: &str) -> Cow<'_, str> {
        let decoded = self.encoded(text);
        match self.plain(decoded.as_deref().unwrap_or(text)) {
            Some(masked) => Cow::Owned(masked),
            None => decoded.map_or(Cow::Borrowed(text), Cow::Owned),
        }
    }

    pub fn header<'v>(self, name: &str, value: &'v str) -> Cow<'v, str> {
        match name.to_ascii_lowercase().as_str() {
            "authorization" | "proxy-authorization" => self.credential(value).into(),
            "x-api-key" => mask_key(value.trim(), self.keys),
            "cookie" => value.split("; ").map(|pair| self.cookie(pair)).collect::<Vec<_>>().join("; ").into(),
            "set-cookie" => match value.split_once(';') {
                Some((pair, attributes)) => format!("{};{}", self.cookie(pair), self.text(attributes)).into(),
                None => self.cookie(value).into(),
            },
            _ => self.text(value),
        }
    }

    /// A scheme and its key: `Bearer sk_live_…cdef`. Of other schemes only the name is shown.
    fn credential(self, value: &str) -> String {
        match value.trim().split_once(' ') {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => {
                format!("{scheme} {}", mask_key(key.trim(), self.keys))
            }
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
                format!("{scheme} {MASK}")
            }
            None if is_test_key(value.trim(), self.keys) => value.to_owned(),
            _ => MASK.to_owned(),
        }
    }

    fn cookie(self, pair: &str) -> String {
        match pair.split_once('=') {
            Some((name, value)) if is_test_key(value, self.keys) => format!("{name}={value}"),
            Some((name, _)) => format!("{}={MASK}", self.text(name)),
            None => MASK.to_owned(),
        }
    }

    pub fn shown<T: Serialize>(self, record: &T) -> Value {
        let mut value = serde_json::to_value(record).expect("texts and numbers always serialise");
        self.value(&mut value);
        value
    }

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
        match shown.char_indices().nth(MAX_LINE) {
            Some((at, _)) => Some(format!("{}…", &shown[..at])),
            None => Some(shown),
        }
    }

    /// A text inside JSON, which may be JSON itself; `depth` counts what contains it.
    fn nested(self, text: &str, depth: usize) -> Cow<'_, str> {
        if is_json_like(text) {
            if depth == DEEPEST {
                return MASK.into();
            }
            if let Ok(Some(masked)) = self.json(text, depth + 1) {
                return masked.into();
            }
        }
        self.text(text)
    }

    /// JSON with credentials masked; `None` if it has none, and an error if the text is not JSON.
    fn json(self, text: &str, depth: usize) -> serde_json::Result<Option<String>> {
        let value: Value = serde_json::from_str(text)?;
        let mut shown = value.clone();
        self.value_at(&mut shown, depth);
        // Only the last of several fields with one name was read; a secret may be in the others.
        let is_clean = shown == value && !names_secret(text) && matches!(self.text(text), Cow::Borrowed(_));
        Ok((!is_clean).then(|| shown.to_string()))
    }

    /// Masks a JSON value in place: every text in it, and the value of every secret field.
    pub fn value(self, value: &mut Value) {
        self.value_at(value, 0);
    }

    fn value_at(self, value: &mut Value, depth: usize) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.nested(text, depth) {
                    *text = masked;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value_at(value, depth)),
            Value::Object(fields) => self.fields(fields, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn fields(self, fields: &mut Map<String, Value>, depth: usize) {
        // A row of the profile gives the setting's name in `knob`; a patch has it as the field's name.
        let setting = fields.iter().find(|(name, _)| *name == "knob").and_then(|(_, value)| value.as_str());
        let setting = setting.unwrap_or_default().to_owned();
        for (name, value) in fields.iter_mut() {
            match name.as_str() {
                "value" => self.setting_at(&setting, value, depth),
                name if is_secret_field(name) => self.secret(value),
                name => self.setting_at(name, value, depth),
            }
        }
        if fields.keys().any(|name| matches!(self.text(name), Cow::Owned(_))) {
            let named = std::mem::take(fields).into_iter();
            *fields = named.map(|(name, value)| (self.text(&name).into_owned(), value)).collect();
        }
    }

    pub fn setting(self, name: &str, value: &mut Value) {
        self.setting_at(name, value, 0);
    }

    fn setting_at(self, name: &str, value: &mut Value, depth: usize) {
        if name == KEY_LIST { self.keys(value) } else { self.value_at(value, depth) }
    }

    fn keys(self, value: &mut Value) {
        match value {
            Value::String(key) => *key = self.key(key).into_owned(),
            Value::Array(keys) => keys.iter_mut().for_each(|key| self.keys(key)),
            Value::Object(fields) => fields.values_mut().for_each(|keys| self.keys(keys)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn secret(self, value: &mut Value) {
        let harmless = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty() || is_test_key(text, self.keys),
            _ => false,
        };
        if !harmless {
            *value = MASK.into();
        }
    }

    /// The text with each word in which escapes, such as those of JSON or HTML, hide a credential unescaped and masked; `None` if there is
    /// none.
    fn escaped(self, text: &str) -> Option<String> {
        let may_escape = text.contains('\\') || (text.contains('&') && text.contains(';'));
        if !may_escape {
            return None;
        }
        let mut changed = false;
        let mut shown = |word| {
            let masked = self.escaped_word(word);
            changed |= masked.is_some();
            masked.map_or(Cow::Borrowed(word), Cow::Owned)
        };
        let words: String = text.split_inclusive(char::is_whitespace).map(&mut shown).collect();
        changed.then_some(words)
    }

    fn escaped_word(self, word: &str) -> Option<String> {
        let (mut plain, mut masked) = (Cow::Borrowed(word), self.unescaped(word));
        let mut found = None;
        for _ in 0..DEEPEST {
            let Cow::Owned(once) = unescaped(&plain) else { break };
            masked = unescaped(&masked).into_owned().into();
            let shown = self.unescaped(&once).into_owned();
            // What is masked before it is unescaped as well was not hidden.
            if shown == masked {
                plain = once.into();
            } else {
                (plain, masked) = (shown.clone().into(), shown.clone().into());
                found = Some(shown);
            }
        }
        found
    }

    /// The text with each percent-encoded part that contains a credential decoded and masked; `None` if there is none.
    fn encoded(self, text: &str) -> Option<String> {
        if !text.as_bytes().contains(&b'%') {
            return None;
        }
        let ends = |c: char| matches!(c, '/' | '?' | '&' | '#' | ',' | '"' | '\'' | '\\') || c.is_whitespace();
        let (mut shown, mut changed) = (String::new(), false);
        for part in text.split_inclusive(ends) {
            let (part, end) = match part.char_indices().next_back() {
                Some((at, last)) if ends(last) => part.split_at(at),
                _ => (part, ""),
            };
            let masked = part.contains('%').then(|| self.encoded_part(part)).flatten();
            changed |= masked.is_some();
            shown.push_str(masked.as_deref().unwrap_or(part));
            shown.push_str(end);
        }
        changed.then_some(shown)
    }

    fn encoded_part(self, part: &str) -> Option<String> {
        let mut decoded = Cow::Borrowed(part);
        for _ in 0..DEEPEST {
            decoded = percent_decode_str(&decoded).decode_utf8_lossy().into_owned().into();
            let masked = match decoded.split_once('=') {
                // The value ends with the part, even if it decodes to delimiters.
                Some((name, value)) if is_secret_field(name) && !is_test_key(value, self.keys) => {
                    Some(format!("{name}={MASK}"))
                }
                _ => self.plain(&decoded),
            };
            if masked.is_some() || !decoded.contains('%') {
                return masked;
            }
        }
        None
    }

    /// The text with credentials masked, not decoded; `None` if there are none.
    fn plain(self, text: &str) -> Option<String> {
        let live = [self.keys.live_prefix.as_str(), LIVE_PREFIX];
        let first = live.map(|prefix| prefix.bytes().next().unwrap_or_default());
        let bytes = text.as_bytes();
        let (mut shown, mut done, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found = match rest[0] {
                b'w' if rest.starts_with(SECRET_PREFIX.as_bytes()) => {
                    secret_end(text, at).map(|end| (end, "whsec_…".into()))
                }
                b':' if rest.starts_with(b"://") => user_end(text, at + 3).map(|end| (end, "://***".into())),
                byte if at == 0 || matches!(bytes[at - 1], b'?' | b'&' | b';') => self
                    .parameter(text, at)
                    .or_else(|| if first.contains(&byte) { self.live_key(text, at, live) } else { None }),
                byte if first.contains(&byte) => self.live_key(text, at, live),
                _ => None,
            };
            match found {
                Some((end, masked)) => {
                    shown.push_str(&text[done..at]);
                    shown.push_str(&masked);
                    (at, done) = (end, end);
                }
                None => at += 1,
            }
        }
        if done == 0 {
            return None;
        }
        shown.push_str(&text[done..]);
        Some(shown)
    }

    /// The end of the live key that begins at `at`, and its masked form.
    fn live_key(self, text: &str, at: usize, prefixes: [&str; 2]) -> Option<(usize, String)> {
        let rest = &text[at..];
        let prefix =
            prefixes.into_iter().filter(|prefix| rest.starts_with(prefix)).max_by_key(|prefix| prefix.len())?;
        let length = rest.bytes().skip(prefix.len()).take_while(|byte| is_key_byte(*byte)).count();
        let key = &rest[..prefix.len() + length];
        let shown = match length {
            0 => return None,
            // Skipped as a whole, so that prefixes inside it are not searched again.
            _ if is_test_key(key, self.keys) => key.to_owned(),
            _ => masked(key, prefix.len()),
        };
        Some((at + key.len(), shown))
    }

    /// The end of the parameter `name=value` that begins at `at`, and its masked form; `None` unless its name is that of a secret.
    fn parameter(self, text: &str, at: usize) -> Option<(usize, String)> {
        let rest = &text[at..];
        let name = &rest[..rest.bytes().take(MAX_NAME).position(|byte| byte == b'=')?];
        if !is_secret_field(name) {
            return None;
        }
        let value = &rest[name.len() + 1..];
        let end = |c: char| matches!(c, '&' | '#' | '"' | '\'' | '\\') || c.is_whitespace();
        let value = &value[..value.find(end).unwrap_or(value.len())];
        let harmless = value.is_empty() || value == MASK || is_test_key(value, self.keys);
        (!harmless).then(|| (at + name.len() + 1 + value.len(), format!("{name}={MASK}")))
    }
}

fn is_json_like(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
}

fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_FIELDS.iter().any(|name| text.contains(name)) || text.contains("\\u")
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The end of the signing secret that begins at `at`; `None` if nothing follows the prefix.
fn secret_end(text: &str, at: usize) -> Option<usize> {
    let start = at + SECRET_PREFIX.len();
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte);
    let length = text.as_bytes()[start..].iter().take_while(|byte| is_base64(byte)).count();
    (length > 0).then_some(start + length)
}

/// Where the user information of an authority that begins at `start` ends; `None` if it has none.
fn user_end(text: &str, start: usize) -> Option<usize> {
    let ends = |byte: &u8| {
        matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`') || byte.is_ascii_whitespace()
    };
    let rest = &text.as_bytes()[start..];
    let authority = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    authority.iter().rposition(|byte| *byte == b'@').map(|at| start + at)
}

/// True if a character is escaped: controls (C0, DEL, C1), line separators, and characters that change the direction of text
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
    let hides = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    let escape = |c: char, shown: &mut String| shown.extend(c.escape_default());
    if text.contains("\r\n") {
        return escaped(&text.replace("\r\n", "\n"), hides, escape).into_owned().into();
    }
    escaped(text, hides, escape)
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
    use serde_json::json;

    use super::*;

    fn redactor(assignments: &[&str]) -> Redactor<'static> {
        let profile = assignments.iter().fold(Layered::default(), |profile, assignment| {
            profile.with_assignment(assignment, "test").expect("the assignment is valid")
        });
        Redactor::new(Box::leak(Box::new(profile.profile().keys.clone())))
    }

    #[test]
    fn live_keys_secrets_and_passwords_are_masked_in_any_text() {
        for (text, expected) in [
            ("", ""),
            ("sk_live_", "sk_live_"),
            ("GET /x?a=sk_live_abcdefgh1234&b=1", "GET /x?a=sk_live_…1234&b=1"),
            ("sk_live_abcd, sk_live_abcdefgh.", "sk_live_…, sk_live_…efgh."),
            ("k=sk_test_abcdefgh", "k=sk_test_abcdefgh"),
            ("/v1/%73k_live_abcdefgh/x%2fy", "/v1/sk_live_…efgh/x%2fy"),
            ("a=sk%5Flive%5Fabcdefgh&b=%41", "a=sk_live_…efgh&b=%41"),
            ("`whsec_a2V5+/==` and whsec_", "`whsec_…` and whsec_"),
            ("to https://user:p%40ss@host:80/a@b", "to https://***@host:80/a@b"),
            ("https://host/a@b ftp://u@h", "https://host/a@b ftp://***@h"),
            ("?u=https%3A%2F%2Fuser%3Apw%40host", "?u=https://***@host"),
            ("/x?token=abc&a=1&Client_Secret=d%20e#f", "/x?token=…&a=1&Client_Secret=…#f"),
            ("/x?acc%65ss_token=abc&token=sk_test_a", "/x?access_token=…&token=sk_test_a"),
            ("secret=abc", "secret=…"),
            ("notsecret=abc ä=ö", "notsecret=abc ä=ö"),
            ("/x?password[]=abc&a[]=1", "/x?password[]=…&a[]=1"),
            ("/x?user[password]=abc&user%5Bpassword%5D=abc", "/x?user[password]=…&user[password]=…"),
            ("/x?a=1;password=abc;d", "/x?a=1;password=…"),
            ("/x?api_key=abc&apiKey=abc", "/x?api_key=…&apiKey=…"),
            ("/x?a=sk%255Flive%255Fabcdefgh&b=%2573k%25255Flive_abcdefgh", "/x?a=sk_live_…efgh&b=sk_live_…efgh"),
            ("ä?token=ä:// é@x", "ä?token=… é@x"),
            ("f({\"a\":\"sk\\u005flive\\u005fabcdefgh\"})", "f({\"a\":\"sk_live_…efgh\"})"),
            ("data: \"whsec_ab\\/cd\" \"a\\/b\"", "data: \"whsec_…\" \"a\\/b\""),
            ("<a>sk&#95;live&#x5f;abcdefgh</a> a&amp;b", "<a>sk_live_…efgh</a> a&amp;b"),
            ("see \"https:\\/\\/user:pw@host\\/\"", "see \"https://***@host/\""),
            ("[\"\\\"sk\\\\u005flive_abcdefgh\\\"\"", "[\"\"sk_live_…efgh\"\""),
            ("\\sk_live_abcdefgh\\n", "\\sk_live_…efgh\\n"),
        ] {
            let shown = redactor(&[]).text(text).into_owned();
            assert_eq!(shown, expected, "{text}");
            assert_eq!(redactor(&[]).text(&shown), shown, "masking again changes nothing");
        }
    }

    #[test]
    fn the_prefixes_of_the_profile_and_of_the_contract_are_masked() {
        for (live, test, text, expected) in [
            ("pk-", "tk-", "pk-abcdefgh sk_live_abcdefgh tk-abcdefgh", "pk-…efgh sk_live_…efgh tk-abcdefgh"),
            ("sk_", "sk_test_", "sk_abcdefgh sk_test_abcdefgh", "sk_…efgh sk_test_abcdefgh"),
            ("sk_", "sk_live_test_", "sk_live_test_abcdefgh, sk_live_abcdefgh", "sk_live_test_abcdefgh, sk_live_…efgh"),
        ] {
            let redactor = redactor(&[&format!("keys.live_prefix={live}"), &format!("keys.test_prefix={test}")]);
            assert_eq!(redactor.text(text), expected);
        }
        let turned = redactor(&["keys.live_prefix=sk_live_", "keys.test_prefix=sk_"]);
        assert_eq!(["sk_abcdefgh", "sk_live_abcdefgh"].map(|key| turned.key(key)), ["sk_abcdefgh", "sk_live_…efgh"]);
    }

    #[test]
    fn headers_with_credentials_stay_distinguishable() {
        for (name, value, expected) in [
            ("Authorization", "Bearer sk_test_abcdefgh", "Bearer sk_test_abcdefgh"),
            ("authorization", "bearer  sk_live_abcdefgh", "bearer sk_live_…efgh"),
            ("authorization", "Bearer unknown-key-text", "Bearer …text"),
            ("authorization", "Bearer sk_test_a sk_live_abcdefgh", "Bearer …efgh"),
            ("authorization", "Basic dXNlcjpwdw==", "Basic …"),
            ("authorization", "dXNlcjpwdw==", "…"),
            ("authorization", "sk_test_abcdefgh", "sk_test_abcdefgh"),
            ("proxy-authorization", "Basic dXNlcjpwdw==", "Basic …"),
            ("x-api-key", "sk_test_abcdefgh", "sk_test_abcdefgh"),
            ("X-Api-Key", "sk_live_abcdefgh", "sk_live_…efgh"),
            ("x-api-key", "abc", "…"),
            ("cookie", "session=abc; key=sk_test_a; odd", "session=…; key=sk_test_a; …"),
            ("set-cookie", "session=abc; Path=/; HttpOnly", "session=…; Path=/; HttpOnly"),
            ("referer", "https://u:p@host/?token=abc", "https://***@host/?token=…"),
            ("x-a", "plain", "plain"),
        ] {
            assert_eq!(redactor(&[]).header(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn values_are_masked_at_any_depth() {
        let mut value = json!({
            "a": [{ "Secret": "x", "n": { "password": { "deep": 1 } }, "token": null }],
            "url": "https://u:p@h/",
            "sk_live_abcdefgh": "sk_test_abcdefgh",
            "keys.list": ["sk_test_abc", "plain-key"],
            "row": { "knob": "keys.list", "value": ["plain-key"] },
            "apikey": "x",
            "text": "{\"a\": [{\"password\": \"x\"}], \"b\": 1}",
            "draft": "[draft] of a token",
        });
        redactor(&[]).value(&mut value);
        let expected = json!({
            "a": [{ "Secret": "…", "n": { "password": "…" }, "token": null }],
            "url": "https://***@h/",
            "sk_live_…efgh": "sk_test_abcdefgh",
            "keys.list": ["sk_test_abc", "…-key"],
            "row": { "knob": "keys.list", "value": ["…-key"] },
            "apikey": "…",
            "text": "{\"a\":[{\"password\":\"…\"}],\"b\":1}",
            "draft": "[draft] of a token",
        });
        assert_eq!(value, expected);
    }

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

    #[test]
    fn control_characters_are_escaped_and_json_stays_json() {
        let odd =
            "a\u{1b}[31m\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}ä";
        let expected = "a\\u{1b}[31m\\u{7f}\\u{85}\\u{9b}\\u{61c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\\u{202a}\\u{202e}\\u{2066}\\u{2069}ä";
        assert_eq!(visible(odd), expected);
        assert_eq!(visible("a\r\n\tb ä"), "a\\r\\n\\tb ä");
        assert_eq!(visible_lines("a\r\n\tb\rc\u{9b}\n"), "a\n\tb\\rc\\u{9b}\n");
        let json = serde_json::to_string(odd).expect("a text serialises");
        let shown = visible_json(&json);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("it is JSON"), odd);
    }
}
