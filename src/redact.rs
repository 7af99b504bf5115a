//! The one place that masks credentials, and the one that escapes control characters.
//!
//! Everything shown or exported passes through here: log lines, answers of the control API, the event stream, the command line.
//! Test keys are shown in full: they protect nothing, and users need to tell them apart; live keys, secrets, cookies and
//! passwords are masked. Independent of where anything is shown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use parking_lot::RwLock;
use percent_encoding::percent_decode_str;
use regex::{Captures, Regex};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::contract::keys::{Keys, is_test_key, mask_key, masked};
use crate::settings::Layered;
use crate::util::expansion::{MAX_INNER, check_expansion};
use crate::util::html;
use crate::util::wording::shorten;

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

/// A signing secret, the user information of a URL, or a parameter with the name of a secret field and its value.
static CREDENTIAL: LazyLock<Regex> = LazyLock::new(|| {
    let fields = SECRET_FIELDS.join("|");
    let name = format!(r"(?:^|[?&;])(?:[^\s=&?;]*[\[\]])?(?i:{fields})(?:[\[\]][^\s=&?;]*)?=");
    let user = r#"://[^/?\#"'<>\\`\s]*@"#;
    let expression = format!(r#"{user}|(whsec_)[A-Za-z0-9_+/=-]+|({name})([^&\#"'\\\s]+)"#);
    Regex::new(&expression).expect("a valid expression")
});

/// True if a field of this name holds a secret: `password`, as well as `password[]` and `user[password]`.
pub fn is_secret_field(name: &str) -> bool {
    name.split(['[', ']']).any(|part| SECRET_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(part)))
}

pub fn is_credential_header(name: &str) -> bool {
    ["authorization", "proxy-authorization", "x-api-key", "cookie", "set-cookie"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Credentials that are known, each with the text that is shown in its place.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<(String, &'static str)>);

impl Secrets {
    #[must_use]
    pub fn and(mut self, secret: &str, mark: &'static str) -> Self {
        if !secret.is_empty() {
            self.0.push((secret.to_owned(), mark));
        }
        self
    }

    pub fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for (secret, mark) in &self.0 {
            if shown.contains(secret) {
                shown = shown.replace(secret, mark).into();
            }
        }
        shown
    }
}

static CONTRACT: LazyLock<Keys> = LazyLock::new(|| Layered::default().profile().keys.clone());
/// The rules of keys that [`mask_by`] was given.
static IN_FORCE: RwLock<Option<&'static Keys>> = RwLock::new(None);

/// From now on, the whole program masks by these settings where nothing else is said: those that it was started with, or those of the
/// emulator that it calls. Without any it masks by the contract's: what a command prints is then from its user's own files and
/// arguments, or from an emulator, which has masked it.
pub fn mask_by(keys: &Keys) {
    let mut in_force = IN_FORCE.write();
    if in_force.unwrap_or(&CONTRACT) != keys {
        // Redactors that were made before keep the old one, so it stays in memory; a command changes it once or twice.
        *in_force = Some(Box::leak(Box::new(keys.clone())));
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Redactor<'k> {
    keys: &'k Keys,
}

impl Default for Redactor<'static> {
    /// A redactor by the settings of the program, or else by the contract's prefixes.
    fn default() -> Self {
        Self::new(IN_FORCE.read().unwrap_or(&CONTRACT))
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

    /// True if a key is masked, so that the shown text cannot name it.
    pub fn masks(self, key: &str) -> bool {
        self.key(key) != key
    }

    /// Any text, such as a URL, a message or a header's value, with live keys, signing secrets, user information of URLs and
    /// secret parameters masked, percent-encoded once or not.
    pub fn text(self, text: &str) -> Cow<'_, str> {
        match self.decoded(text) {
            Some(decoded) => self.plain(&decoded).into_owned().into(),
            None => self.plain(text),
        }
    }

    /// The text with each percent-encoded part that has a credential decoded and masked; `None` if nothing is encoded.
    fn decoded(self, text: &str) -> Option<String> {
        let ends = |c: char| matches!(c, '/' | '?' | '&' | '#' | ',' | '"' | '\'' | '\\') || c.is_whitespace();
        let shown = |part: &str| {
            let encoded = part.trim_end_matches(ends);
            let plain = percent_decode_str(encoded).decode_utf8_lossy();
            let masked = match plain.split_once('=') {
                // The value ends with the part, even if it decodes to delimiters.
                Some((name, value)) if is_secret_field(name) && !is_test_key(value, self.keys) => {
                    format!("{name}={MASK}")
                }
                _ => self.plain(&plain).into_owned(),
            };
            if masked == plain { part.to_owned() } else { masked + &part[encoded.len()..] }
        };
        let part = |part: &str| if part.contains('%') { shown(part) } else { part.to_owned() };
        text.contains('%').then(|| text.split_inclusive(ends).map(part).collect())
    }

    /// The text with credentials masked, not decoded.
    fn plain(self, text: &str) -> Cow<'_, str> {
        let masked =
            CREDENTIAL.replace_all(text, |found: &Captures<'_>| match (found.get(1).or(found.get(2)), found.get(3)) {
                (Some(_), Some(value)) if is_test_key(value.as_str(), self.keys) => found[0].to_owned(),
                (Some(kept), _) => format!("{}{MASK}", kept.as_str()),
                (None, _) => "://***@".to_owned(),
            });
        match self.live_keys(&masked) {
            Some(shown) => shown.into(),
            None => masked,
        }
    }

    /// The text with live keys masked; `None` if it has none.
    fn live_keys(self, text: &str) -> Option<String> {
        let prefixes = [&*self.keys.live_prefix, LIVE_PREFIX];
        // Nearly every text has none, and may have megabytes.
        if !prefixes.iter().any(|prefix| text.contains(prefix)) {
            return None;
        }
        let (mut shown, mut done) = (String::new(), 0);
        for (at, _) in text.char_indices() {
            let begins = |prefix: &&str| at >= done && text[at..].starts_with(prefix);
            let Some(prefix) = prefixes.into_iter().filter(begins).map(str::len).max() else { continue };
            let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            let length = text.as_bytes()[at + prefix..].iter().take_while(|byte| is_of_key(byte)).count();
            let key = &text[at..at + prefix + length];
            // A test key is passed over as a whole, so that prefixes inside it are not found.
            let is_shown = length == 0 || is_test_key(key, self.keys);
            shown.push_str(&text[done..at]);
            shown.push_str(&if is_shown { Cow::Borrowed(key) } else { masked(key, prefix).into() });
            done = at + key.len();
        }
        (done > 0).then(|| shown + &text[done..])
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
        let text = String::from_utf8_lossy(body);
        let masked = match self.json(&text, false) {
            Some(masked) => masked,
            None if is_json_like(&text) && names_secret(&text) => WITHHELD.into(),
            None => self.text(&text),
        };
        // Bytes that are not UTF-8 are shown unchanged only if their lossy text needs no masking.
        if masked == text { body.into() } else { masked.into_owned().into_bytes().into() }
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
        let shown = if expands(&text) {
            WITHHELD.to_owned()
        } else if let Ok(mut value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&text) {
            self.value(&mut value);
            value.to_string()
        } else if html::is_page(body) {
            String::from_utf8_lossy(&self.body(html::visible_text(&text)?.as_bytes())).into_owned()
        } else {
            let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
            String::from_utf8_lossy(&self.body(line.as_bytes())).into_owned()
        };
        Some(shorten(&shown, MAX_LINE).into_owned())
    }

    /// JSON with credentials masked, as it is if it has none; `None` if the text is not JSON. One that would need too much memory is
    /// not read.
    fn json(self, text: &str, is_inner: bool) -> Option<Cow<'_, str>> {
        if expands(text) {
            return Some(Cow::Owned(WITHHELD.to_owned()));
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let mut shown = value.clone();
        self.mask(&mut shown, is_inner);
        // Only the last of several fields with one name was read; a secret may be in the others.
        let is_clean = shown == value && !names_secret(text) && self.text(text) == text;
        Some(if is_clean { text.into() } else { shown.to_string().into() })
    }

    /// Masks a JSON value in place: every text in it, also in JSON that is such a text, and the value of every secret field.
    pub fn value(self, value: &mut Value) {
        self.mask(value, false);
    }

    fn mask(self, value: &mut Value, is_inner: bool) {
        match value {
            Value::String(text) => {
                let inner = if is_json_like(text) && !is_inner { self.json(text, true) } else { None };
                if let Cow::Owned(masked) = inner.unwrap_or_else(|| self.text(text)) {
                    *text = masked;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask(value, is_inner)),
            Value::Object(fields) => {
                // A row of the profile gives the setting's name in `setting`; a patch has it as the field's name.
                let is_setting = fields.get("setting").and_then(Value::as_str).is_some_and(|name| name == KEY_LIST);
                let masked = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                    match &*name {
                        "value" if is_setting => self.keys(&mut value),
                        KEY_LIST => self.keys(&mut value),
                        name if is_secret_field(name) => self.secret(&mut value),
                        _ => self.mask(&mut value, is_inner),
                    }
                    (self.text(&name).into_owned(), value)
                });
                *fields = masked.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub fn setting(self, name: &str, value: &mut Value) {
        if name == KEY_LIST { self.keys(value) } else { self.value(value) }
    }

    fn keys(self, value: &mut Value) {
        match value {
            Value::String(key) => *key = self.key(key).into_owned(),
            Value::Array(keys) => keys.iter_mut().for_each(|key| self.keys(key)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
    }

    fn secret(self, value: &mut Value) {
        let is_harmless = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty() || is_test_key(text, self.keys),
            _ => false,
        };
        if !is_harmless {
            *value = MASK.into();
        }
    }
}

/// True if a text is JSON that would need too much memory.
fn expands(text: &str) -> bool {
    check_expansion(text.as_bytes(), MAX_INNER).is_err() && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn is_json_like(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
}

fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_FIELDS.iter().any(|name| text.contains(name)) || text.contains("\\u")
}

/// True if a character is escaped: controls (C0, DEL, C1), line separators, and characters that change the direction of text
/// or are invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A text on one line: control characters and line ends as escapes such as `\n` or `\u{202e}`. It is no command of a CI system.
pub fn visible(text: &str) -> Cow<'_, str> {
    without_commands(escaped(text, is_hidden, |c, shown| shown.extend(c.escape_default())))
}

/// [`visible`] for a text of several lines: line ends and tabs are kept.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && c != '\n' && c != '\t';
    let escape = |c: char, shown: &mut String| shown.extend(c.escape_default());
    if text.contains("\r\n") {
        return without_commands(escaped(&text.replace("\r\n", "\n"), hides, escape)).into_owned().into();
    }
    without_commands(escaped(text, hides, escape))
}

/// [`visible`] for a JSON text, which stays valid: characters that serde does not escape become `\u202e` and the like.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && !matches!(c, '\n' | '\r' | '\t');
    let shown = escaped(json, hides, |c, shown| {
        // A write to a String cannot fail; all of these are in the basic plane.
        let _ = write!(shown, "\\u{:04x}", u32::from(c));
    });
    // Each line of JSON begins with a quote or a sign of JSON, so only the form that counts anywhere can be in it.
    if shown.contains(COMMAND_ANYWHERE) { shown.replace(COMMAND_ANYWHERE, r"#\u0023[").into() } else { shown }
}

/// GitHub executes `##[name]` anywhere in a line of a job's output.
const COMMAND_ANYWHERE: &str = "##[";

/// The text with what GitHub would execute escaped: `##[` anywhere, and `::name` at the beginning of a line, after white space.
fn without_commands(text: Cow<'_, str>) -> Cow<'_, str> {
    let begins = |line: &str| {
        let name = line.trim_start().strip_prefix("::");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    let text = if text.contains(COMMAND_ANYWHERE) { text.replace(COMMAND_ANYWHERE, r"#\u{23}[").into() } else { text };
    if !text.lines().any(begins) {
        return text;
    }
    let line = |line: &str| if begins(line) { line.replacen(':', r"\u{3a}", 1) } else { line.to_owned() };
    text.split_inclusive('\n').map(line).collect::<String>().into()
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
            ("/x?acc%65ss_token=a%26b&token=sk_test_a", "/x?access_token=…&token=sk_test_a"),
            ("secret=abc", "secret=…"),
            ("notsecret=abc tokens=a ä=ö", "notsecret=abc tokens=a ä=ö"),
            ("/x?user[password]=abc&user%5Bpassword%5D=abc", "/x?user[password]=…&user[password]=…"),
            ("/x?password[]=abc&a[]=1;api_key=abc&apiKey=abc", "/x?password[]=…&a[]=1;api_key=…&apiKey=…"),
            ("ä?token=ä:// é@x", "ä?token=… é@x"),
        ] {
            let shown = redactor(&[]).text(text).into_owned();
            assert_eq!(shown, expected, "{text}");
            assert_eq!(redactor(&[]).text(&shown), shown, "masking again changes nothing");
        }
        assert_eq!(Secrets::default().and("a%b", "<a>").and("", "<b>").hide("a%b, a%B"), "<a>, a%B");
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
    }

    #[test]
    fn headers_with_credentials_stay_distinguishable() {
        for (name, value, expected) in [
            ("Authorization", "Bearer sk_test_abcdefgh", "Bearer sk_test_abcdefgh"),
            ("authorization", "bearer  sk_live_abcdefgh", "bearer sk_live_…efgh"),
            ("authorization", "Bearer sk_test_a sk_live_abcdefgh", "Bearer …efgh"),
            ("authorization", "Basic dXNlcjpwdw==", "Basic …"),
            ("authorization", "dXNlcjpwdw==", "…"),
            ("authorization", "sk_test_abcdefgh", "sk_test_abcdefgh"),
            ("X-Api-Key", "sk_live_abcdefgh", "sk_live_…efgh"),
            ("x-api-key", "abc", "…"),
            ("cookie", "session=abc; key=sk_test_a; odd", "session=…; key=sk_test_a; …"),
            ("set-cookie", "session=abc; Path=/; HttpOnly", "session=…; Path=/; HttpOnly"),
            ("referer", "https://u:p@host/?token=abc", "https://***@host/?token=…"),
        ] {
            assert_eq!(redactor(&[]).header(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn values_are_masked_at_any_depth() {
        let mut value = json!({
            "a": [{ "Secret": "x", "n": { "password": { "deep": 1 } }, "token": null }],
            "sk_live_abcdefgh": "sk_test_abcdefgh",
            "keys.list": ["sk_test_abc", "plain-key"],
            "row": { "setting": "keys.list", "value": ["plain-key"] },
            "text": "{\"a\": [{\"password\": \"x\"}], \"b\": 1}",
            "draft": "[draft] of a token",
        });
        redactor(&[]).value(&mut value);
        let expected = json!({
            "a": [{ "Secret": "…", "n": { "password": "…" }, "token": null }],
            "sk_live_…efgh": "sk_test_abcdefgh",
            "keys.list": ["sk_test_abc", "…-key"],
            "row": { "setting": "keys.list", "value": ["…-key"] },
            "text": "{\"a\":[{\"password\":\"…\"}],\"b\":1}",
            "draft": "[draft] of a token",
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn bodies_keep_their_form_unless_they_may_hold_a_secret() {
        for (body, expected) in [
            ("{ \"a\" : [1, \"b\"] }\n", "{ \"a\" : [1, \"b\"] }\n"),
            ("{\"secret\": \"x\\\"y\", \"a\": 1}", "{\"secret\":\"…\",\"a\":1}"),
            ("{\"s\\u0065cret\":true,\"password\":null}", "{\"secret\":\"…\",\"password\":null}"),
            ("{\"a\":\"sk\\u005flive\\u005fabcdefgh\"}", "{\"a\":\"sk_live_…efgh\"}"),
            ("{\"u\":\"https:\\/\\/u:p@h\\/?token=a\\\"b\"}", "{\"u\":\"https://***@h/?token=…\\\"b\"}"),
            ("{\"user[password]\":\"x\",\"api_key\":\"x\"}", "{\"user[password]\":\"…\",\"api_key\":\"…\"}"),
            ("{\"token\": \"x\", \"token\": null}", "{\"token\":null}"),
            ("{\"whsec_abc\":\"\\ud800\"}", WITHHELD),
            ("{\"secret\": \"x\"", WITHHELD),
            ("{'s': 1}", "{'s': 1}"),
            ("plain token", "plain token"),
            ("grant_type=a&client_secret=b", "grant_type=a&client_secret=…"),
        ] {
            let shown = Redactor::default().body(body.as_bytes()).into_owned();
            assert_eq!(String::from_utf8_lossy(&shown), expected, "{body}");
        }
        let redactor = Redactor::default();
        assert_eq!(redactor.body(b"\xff\xfe"), &b"\xff\xfe"[..]);
        assert_eq!(redactor.body(b"{\"secret\":\"\xff\"}"), "{\"secret\":\"…\"}".as_bytes());
        let (signed, body) = (b"msg_1.17.{\"secret\":\"x\"}", b"{\"secret\":\"x\"}");
        assert_eq!(redactor.signed(signed, body), "msg_1.17.{\"secret\":\"…\"}".as_bytes());
        assert_eq!(redactor.signed(b"17.", b""), b"17.");
    }

    #[test]
    fn json_that_expands_is_not_read() {
        let many = format!("[{}]", vec!["{}"; 100_000].join(","));
        let redactor = redactor(&[]);
        assert_eq!(String::from_utf8_lossy(&redactor.body(many.as_bytes())), WITHHELD);
        assert_eq!(redactor.first_line(many.as_bytes()).as_deref(), Some(WITHHELD));
        assert_eq!(redactor.shown(&json!({ "body": many })), json!({ "body": WITHHELD }));
        let text = "{,".repeat(100_000);
        assert_eq!(redactor.text(&text), text, "text that is not JSON is shown");
        assert_eq!(redactor.body(text.as_bytes()), text.as_bytes());
    }

    #[test]
    fn the_first_line_with_content_is_short_and_masked() {
        for (body, expected) in [
            (" \r\n\n", None),
            ("\r\n  one \r\ntwo", Some("one")),
            ("{\n  \"error\": \"bad\",\n  \"secret\": \"hidden\"\n}\n", Some(r#"{"error":"bad","secret":"…"}"#)),
            ("{\"secret\":\"hidden\"} and\nmore", Some(WITHHELD)),
            (&"ä".repeat(500), Some(&*format!("{}…", "ä".repeat(120)))),
        ] {
            assert_eq!(Redactor::default().first_line(body.as_bytes()).as_deref(), expected, "{body:?}");
        }
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

    #[test]
    fn nothing_that_is_shown_is_a_command_of_a_ci_system() {
        for (text, expected) in [
            ("::error::x", r"\u{3a}:error::x"),
            ("  ::set-output name=a::b", r"  \u{3a}:set-output name=a::b"),
            ("a ##[error]b ##vso", r"a #\u{23}[error]b ##vso"),
            ("a::b::c ::1 ## b", "a::b::c ::1 ## b"),
            ("::1", "::1"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(visible_lines("a\n  ::add-mask::b\n::1\n"), "a\n  \\u{3a}:add-mask::b\n::1\n");
        assert_eq!(visible("a\n::error::b"), r"a\n::error::b");
        let json = serde_json::to_string("##[error]").expect("a text serialises");
        assert_eq!(visible_json(&json), r##""#\u0023[error]""##);
        assert_eq!(serde_json::from_str::<String>(&visible_json(&json)).expect("it is JSON"), "##[error]");
    }
}
