//! Why a signature does not verify: each common mistake is undone, one at a time, and each change after which the delivery
//! verifies is reported. Never repeats a secret.

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::{CustomScheme, KeyReading, Rejection, Scheme, SchemeName, SigningKey, Verified, verify};

/// A delivery as it was received, and what it is to be verified with.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub scheme: &'a Scheme,
    /// The custom scheme at hand, tried as well as the named ones.
    pub custom: &'a CustomScheme,
    /// The texts of the secrets, newest first.
    pub secrets: &'a [String],
    pub reading: KeyReading,
    /// Looks a header up by its lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    pub url: &'a str,
    pub body: &'a [u8],
    pub now: i64,
    /// Seconds a timestamp may be off.
    pub tolerance: i64,
}

/// One change that would make the delivery verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another time of verification: the signature matches, the timestamp is too far off.
    Time,
    /// The secrets read in another way.
    Reading(KeyReading),
    /// The secrets without the white space around them.
    TrimmedSecret,
    /// The body as it was before something changed its bytes: what it would have to be.
    Body(&'static str),
    /// The signature of another scheme, with the secrets read as given.
    Scheme(SchemeName),
    /// The URL that is signed, with or without its last slash.
    Url,
}

impl Change {
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Reading(_) => "secret_key",
            Self::TrimmedSecret => "secret",
            Self::Body(_) => "body",
            Self::Scheme(_) => "scheme",
            Self::Url => "url",
        }
    }

    /// What to change it to; `None` where the kind is enough.
    pub const fn value(self) -> Option<&'static str> {
        match self {
            Self::Time | Self::TrimmedSecret | Self::Url => None,
            Self::Reading(reading) => Some(reading.name()),
            Self::Body(what) => Some(what),
            Self::Scheme(name) => Some(name.name()),
        }
    }
}

/// The change that makes the delivery verify, and the time if that is off as well. `Display` writes one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub changes: Vec<Change>,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, change) in self.changes.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", and " })?;
            match change {
                Change::Time => f.write_str(
                    "the signature holds, only the time is off: a replay, an old capture, or a clock that is wrong",
                )?,
                Change::Reading(reading) => write!(f, "the secret read as `{reading}` (`webhooks.secret_key`)")?,
                Change::TrimmedSecret => f.write_str("the secret without the white space around it")?,
                Change::Body(what) => write!(f, "the body {what}: verify the bytes as they came")?,
                Change::Scheme(name) => write!(f, "the signature that scheme `{name}` makes")?,
                Change::Url => f.write_str("the URL with its last slash added or left out")?,
            }
        }
        Ok(())
    }
}

impl Evidence<'_> {
    /// Verifies the delivery as it is. A secret that cannot be read counts as no key.
    pub fn verify(&self) -> Result<Verified, Rejection> {
        verify(self.scheme, &self.keys(), self.header, self.url, self.body, self.now, self.tolerance)
    }

    /// The mistakes each of which explains why the delivery was rejected, the likeliest first; empty if none does. A timestamp
    /// that is off as well is part of the remedy.
    pub fn remedies(&self) -> Vec<Remedy> {
        if self.verify().is_ok() {
            return Vec::new();
        }
        if let Some(remedy) = self.remedy(Change::Time) {
            return vec![remedy];
        }
        let mut found = Vec::new();
        let trimmed: Vec<String> = self.secrets.iter().map(|secret| secret.trim().to_owned()).collect();
        // The reading of a custom scheme is part of the scheme.
        let schemes = KeyReading::ALL.map(|key| Scheme { key, ..self.scheme.clone() });
        let readings = KeyReading::ALL.into_iter().zip(&schemes);
        let readings =
            readings.map(|(reading, scheme)| (Change::Reading(reading), Evidence { scheme, reading, ..*self }));
        let mut tried = vec![self.key_bytes()];
        for (change, other) in
            [(Change::TrimmedSecret, Evidence { secrets: &trimmed, ..*self })].into_iter().chain(readings)
        {
            let keys = other.key_bytes();
            if !tried.contains(&keys) {
                found.extend(other.remedy(change));
                tried.push(keys);
            }
        }
        for (what, body) in rewrites(self.body) {
            found.extend(Evidence { body: &body, ..*self }.remedy(Change::Body(what)));
        }
        let url = self.url.strip_suffix('/').map_or_else(|| format!("{}/", self.url), str::to_owned);
        found.extend(Evidence { url: &url, ..*self }.remedy(Change::Url));
        for name in SchemeName::ALL {
            let scheme = &Scheme::new(name, self.custom);
            if scheme != self.scheme {
                found.extend(Evidence { scheme, ..*self }.remedy(Change::Scheme(name)));
            }
        }
        found
    }

    /// This change, if the signature of the changed delivery matches, whatever the time.
    fn remedy(&self, change: Change) -> Option<Remedy> {
        Evidence { tolerance: i64::MAX, ..*self }.verify().ok()?;
        let late = (change != Change::Time && self.verify().is_err()).then_some(Change::Time);
        Some(Remedy { changes: [change].into_iter().chain(late).collect() })
    }

    fn keys(&self) -> Vec<SigningKey> {
        self.secrets.iter().filter_map(|secret| SigningKey::read(secret, self.scheme, self.reading).ok()).collect()
    }

    fn key_bytes(&self) -> Vec<Vec<u8>> {
        self.keys().iter().map(|key| key.as_bytes().to_vec()).collect()
    }
}

/// Every body that `body` may have been before newlines were added or removed, or JSON was parsed and written again, with words
/// that complete "the body …"; never `body` itself.
pub fn rewrites(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<(&'static str, Vec<u8>)> = Vec::new();
    let mut add = |what: &'static str, bytes: Vec<u8>| {
        if bytes != body && all.iter().all(|(_, known)| *known != bytes) {
            all.push((what, bytes));
        }
    };
    if let Some(rest) = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n")) {
        add("without its last newline", rest.to_vec());
    }
    add("without white space around it", body.trim_ascii().to_vec());
    add("with a newline at its end", [body, b"\n"].concat());
    add("with CR LF at its end", [body, b"\r\n"].concat());
    if let Ok(text) = std::str::from_utf8(body) {
        let lf = text.replace("\r\n", "\n");
        add("with CR LF instead of LF", lf.replace('\n', "\r\n").into_bytes());
        add("with LF instead of CR LF", lf.into_bytes());
    }
    if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
        add("without its byte order mark", rest.to_vec());
    }
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let (compact, spaced) = (value.to_string(), written(&value, Spaced));
        for (text, plain, ascii) in [
            (compact, "as compact JSON", "as compact JSON in ASCII"),
            (spaced, "as JSON with spaces after `,` and `:`", "as JSON with spaces after `,` and `:` in ASCII"),
        ] {
            add(plain, text.clone().into_bytes());
            add(ascii, escaped(&text).into_bytes());
        }
        add("as JSON indented by 2", written(&value, PrettyFormatter::new()).into_bytes());
    }
    all
}

fn written(value: &Value, formatter: impl Formatter) -> String {
    let mut out = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut out, formatter))
        .expect("JSON values always serialise into memory");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Only strings contain anything beyond ASCII, so the text can be escaped as a whole.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// `, ` and `: ` on one line, as Python's `json.dumps` writes.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rewritten_body_is_undone() {
        let body = r#"{"type":"workflow.completed","data":{"z":1,"a":"é"}}"#;
        let python = r#"{"type": "workflow.completed", "data": {"z": 1, "a": "\u00e9"}}"#;
        let indented = "{\n  \"type\": \"workflow.completed\",\n  \"data\": {\n    \"z\": 1,\n    \"a\": \"é\"\n  }\n}";
        for (sent, taken, what) in [
            ("{}", "{}\n", "without its last newline"),
            ("{}", "{}\r\n", "without its last newline"),
            ("{}\n", "{}", "with a newline at its end"),
            ("{}\r\n", "{}", "with CR LF at its end"),
            ("{}", " {}", "without white space around it"),
            ("a\nb", "a\r\nb", "with LF instead of CR LF"),
            ("a\r\nb", "a\nb", "with CR LF instead of LF"),
            ("{}", "\u{feff}{}", "without its byte order mark"),
            (body, python, "as compact JSON"),
            (body, indented, "as compact JSON"),
            (r#"{"a":"\u00e9\ud83d\ude00"}"#, r#"{"a": "é😀"}"#, "as compact JSON in ASCII"),
            (python, body, "as JSON with spaces after `,` and `:` in ASCII"),
            (r#"{"b": [1, 2], "a": {}}"#, r#"{"b":[1,2],"a":{}}"#, "as JSON with spaces after `,` and `:`"),
            (indented, body, "as JSON indented by 2"),
        ] {
            assert!(rewrites(taken.as_bytes()).contains(&(what, sent.as_bytes().to_vec())), "{taken} {what}");
        }
        assert!(rewrites(b"\xff\x00").iter().all(|(what, _)| !what.contains("JSON")));
    }
}
