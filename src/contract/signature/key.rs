//! Turns the text of a signing secret, as people pass it on, into the key bytes that sign, and warns where libraries disagree on it.
//!
//! Services write secrets down differently: with or without `whsec_`, as base64 or as plain text, and libraries read the same
//! text as different keys; [`KeyReading`] names the ways. Independent of where secrets come from or are kept, and never puts one
//! in a message.

use std::fmt;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use ring::hmac::{self, Tag};

use super::scheme::{Hash, KeyReading, Scheme, SchemeName};
use crate::util::wording::counted;

/// The mark in front of a base64 secret, by Standard Webhooks.
const PREFIX: &str = "whsec_";

/// Why a secret makes no key; the messages never repeat the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// No key bytes are left: the text is empty, or nothing follows `whsec_`.
    #[error("expected a signing secret, found {found}")]
    Empty { found: &'static str },
    /// The reading asks for base64 and the text is not.
    #[error("expected {part} to be base64 (`A-Z a-z 0-9 + /`, padded with `=`), found {found}")]
    NotBase64 { part: &'static str, found: String },
    /// The reading asks for hexadecimal and the text is not.
    #[error("expected {part} to be hexadecimal (`0-9 a-f`, two digits a byte), found {found}")]
    NotHex { part: &'static str, found: String },
}

/// The key bytes a delivery is signed with, at least one; `Debug` shows their number only. Clones share the prepared HMAC.
#[derive(Clone)]
pub struct SigningKey(Arc<Key>);

struct Key {
    bytes: Vec<u8>,
    /// The hash of the scheme that it was read for, and the key prepared for it. ring signs, because it needs a sixth fewer instructions for
    /// a whole delivery than `sha2` where the processor has no instructions for SHA; `verify` checks with `hmac`.
    hash: Hash,
    prepared: hmac::Key,
}

impl SigningKey {
    /// Reads `secret` for `scheme`; a custom scheme's own `key` takes precedence over `reading`.
    ///
    /// Refuses a secret of no bytes, and bad base64 where base64 is asked for.
    pub fn read(secret: &str, scheme: &Scheme, reading: KeyReading) -> Result<Self, SecretProblem> {
        if secret.is_empty() {
            return Err(SecretProblem::Empty { found: "an empty string" });
        }
        let tail = secret.strip_prefix(PREFIX);
        if tail == Some("") {
            return Err(SecretProblem::Empty { found: "nothing after `whsec_`" });
        }
        let utf8 = |text: &str| Ok(text.as_bytes().to_vec());
        let bytes = match (scheme.reading(reading).0, tail) {
            (KeyReading::Auto, Some(tail)) if reads_base64(scheme) => decode(tail, true),
            (KeyReading::Auto | KeyReading::Utf8WithPrefix, _) => utf8(secret),
            (KeyReading::Base64, Some(tail)) => decode(tail, true),
            (KeyReading::Base64, None) => decode(secret, false),
            (KeyReading::Utf8, tail) => utf8(tail.unwrap_or(secret)),
            (KeyReading::Hex, tail) => decode_hex(tail.unwrap_or(secret), tail.is_some()),
        }?;
        Self::prepared(bytes, scheme.hash)
    }

    /// The texts that [`SigningKey::read`] accepts, as a pattern of JSON Schema. Without lookahead, which many readers of patterns lack.
    pub fn secret_pattern(scheme: &Scheme, reading: KeyReading) -> String {
        // Whole groups of four, and a last one that may be padded; its last character has no bits beyond the bytes.
        let any = "[A-Za-z0-9+/]";
        let base64 = format!("({any}{{4}})*({any}{{4}}|{any}{{2}}[AEIMQUYcgkosw048]=|{any}[AQgw]==)");
        let prefix: Vec<char> = PREFIX.chars().collect();
        let without = |at: usize| format!("{}([^{}]|$)", prefix[..at].iter().collect::<String>(), prefix[at]);
        let without: Vec<String> = (1..prefix.len()).map(without).collect();
        let without = format!("[^{}]|{}", prefix[0], without.join("|"));
        match scheme.reading(reading).0 {
            KeyReading::Auto if reads_base64(scheme) => format!("^({without}|{PREFIX}{base64}$)"),
            KeyReading::Auto | KeyReading::Utf8WithPrefix | KeyReading::Utf8 => {
                format!(r"^({without}|{PREFIX}[\s\S])")
            }
            KeyReading::Base64 => format!("^({PREFIX})?{base64}$"),
            KeyReading::Hex => format!("^({PREFIX})?([0-9A-Fa-f]{{2}})+$"),
        }
    }

    /// A key of exactly these bytes; refuses an empty one.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretProblem> {
        Self::prepared(bytes, Hash::Sha256)
    }

    fn prepared(bytes: Vec<u8>, hash: Hash) -> Result<Self, SecretProblem> {
        if bytes.is_empty() {
            return Err(SecretProblem::Empty { found: "a key of no bytes" });
        }
        let prepared = hmac_key(&bytes, hash);
        Ok(Self(Arc::new(Key { bytes, hash, prepared })))
    }

    pub(super) fn sign(&self, hash: Hash, content: &[u8]) -> Tag {
        let Key { bytes, hash: own, prepared } = &*self.0;
        if *own == hash { hmac::sign(prepared, content) } else { hmac::sign(&hmac_key(bytes, hash), content) }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(<{} bytes>)", self.0.bytes.len())
    }
}

fn hmac_key(bytes: &[u8], hash: Hash) -> hmac::Key {
    let algorithm = match hash {
        Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha256 => hmac::HMAC_SHA256,
        Hash::Sha512 => hmac::HMAC_SHA512,
    };
    hmac::Key::new(algorithm, bytes)
}

fn decode_hex(text: &str, after_prefix: bool) -> Result<Vec<u8>, SecretProblem> {
    let found = match text.bytes().position(|byte| !byte.is_ascii_hexdigit()) {
        Some(at) => format!("something else at byte {} of it", at + 1),
        None if !text.len().is_multiple_of(2) => format!("{} of them", counted(text.len(), "digit")),
        None => {
            let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("they are digits");
            return Ok((0..text.len()).step_by(2).map(byte).collect());
        }
    };
    Err(SecretProblem::NotHex { part: part_of_secret(after_prefix), found })
}

const fn part_of_secret(after_prefix: bool) -> &'static str {
    if after_prefix { "the part after `whsec_` of the secret" } else { "the secret" }
}

/// True if the libraries of `scheme` read secrets as base64.
const fn reads_base64(scheme: &Scheme) -> bool {
    matches!(scheme.name, SchemeName::Standard | SchemeName::Svix)
}

fn decode(text: &str, after_prefix: bool) -> Result<Vec<u8>, SecretProblem> {
    STANDARD.decode(text).map_err(|error| {
        let found = match error {
            DecodeError::InvalidByte(_, b'-' | b'_') => "`-` or `_`, which are of the URL-safe alphabet".to_owned(),
            DecodeError::InvalidByte(_, byte) if byte.is_ascii_whitespace() => "white space".to_owned(),
            DecodeError::InvalidByte(at, _) => {
                format!("something else at byte {} of it", at + 1)
            }
            DecodeError::InvalidLength(_) => "an invalid base64 length".to_owned(),
            DecodeError::InvalidPadding => "wrong or missing padding".to_owned(),
            DecodeError::InvalidLastSymbol { .. } => {
                "a last character that cannot end it, as if the text were cut".to_owned()
            }
        };
        SecretProblem::NotBase64 { part: part_of_secret(after_prefix), found }
    })
}

/// Keys below this many bytes are guessable.
const SHORT: usize = 16;

/// The size of a key in bytes that Standard Webhooks requires; some of its libraries refuse any other.
const STANDARD_LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a receiver may not use a secret as it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretWarning {
    /// True if the key is too short or too long; else receivers may read another key.
    pub is_of_length: bool,
    /// A short sentence without a final period, which names the setting that decides.
    pub text: String,
}

/// Possible problems of `secret` at a receiver; empty for one that [`SigningKey::read`] refuses.
pub fn secret_warnings(secret: &str, scheme: &Scheme, reading: KeyReading) -> Vec<SecretWarning> {
    let Ok(key) = SigningKey::read(secret, scheme, reading) else {
        return Vec::new();
    };
    let (key, name, (reading, setting)) = (key.as_bytes(), scheme.name(), scheme.reading(reading));
    let is_whole_text = key == secret.as_bytes();
    let tail = secret.strip_prefix(PREFIX);
    let decoded = STANDARD.decode(tail.unwrap_or(secret)).ok();
    let mut found = Vec::new();
    let of_length = if key.len() < SHORT {
        let bytes = counted(key.len(), "byte");
        Some(format!("the secret makes a key of {bytes}, and fewer than {SHORT} can be guessed"))
    } else if reads_base64(scheme) && !STANDARD_LENGTHS.contains(&key.len()) {
        let (bytes, least, most) = (key.len(), STANDARD_LENGTHS.start(), STANDARD_LENGTHS.end());
        Some(format!(
            "the secret makes a key of {bytes} bytes, and some {name} libraries refuse all but {least} to {most}"
        ))
    } else {
        None
    };
    let (plain, decorations) = undecorated(secret);
    // Only a secret in quotes or white space is odd whatever it is; punctuation and a name may belong to a password.
    for Decoration { what, .. } in decorations.iter().filter(|it| plain.starts_with(PREFIX) || it.is_around) {
        found.push(format!("the secret includes {what}, which many receivers remove"));
    }
    // Most hexadecimal texts would pass for base64 as well, and are not meant as base64.
    let is_hexadecimal = secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    found.extend(match (name, decoded) {
        (SchemeName::Standard | SchemeName::Svix, Some(decoded)) => (decoded != key)
            .then(|| format!("{name} libraries decode this secret as base64, with or without `whsec_`")),
        (SchemeName::Standard | SchemeName::Svix, None) => Some(format!(
            "{name} libraries expect base64, which this secret is not: hand the receiver the raw key or use `whsec_` and base64"
        )),
        (SchemeName::Custom, _) if tail.is_some() => {
            Some("receivers read a secret that starts with `whsec_` in three ways".to_owned())
        }
        (SchemeName::Custom, Some(_)) if !is_hexadecimal && secret.len() >= SHORT => {
            Some("the secret could be base64 or plain text".to_owned())
        }
        (SchemeName::Custom, _) => None,
        _ if !is_whole_text => Some(format!("{name} libraries use the whole text of the secret as the key")),
        // Stripe's own secrets start with `whsec_` and all its libraries keep it.
        _ if tail.is_some() && name != SchemeName::Stripe => {
            Some(format!("`whsec_` marks a base64 secret, but {name} libraries use the whole text as the key"))
        }
        _ => None,
    });
    let taken = match tail {
        _ if is_whole_text => "uses its whole text",
        Some(tail) if key == tail.as_bytes() => "uses the text after `whsec_`",
        _ => "decodes it",
    };
    let warning = |is_of_length, text| SecretWarning {
        is_of_length,
        text: format!("{text}; `{setting} = \"{reading}\"` {taken}"),
    };
    let of_length = of_length.map(|text| warning(true, text));
    of_length.into_iter().chain(found.into_iter().map(|text| warning(false, text))).collect()
}

/// Text around a secret that was copied from a file or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoration {
    /// In words that complete "the secret without …".
    pub what: &'static str,
    /// True if it is at both ends.
    pub is_around: bool,
}

/// A secret without its decorations, and these.
pub fn undecorated(secret: &str) -> (&str, Vec<Decoration>) {
    type Strip = fn(&str) -> Option<&str>;
    const fn around(what: &'static str, strip: Strip) -> (Decoration, Strip) {
        (Decoration { what, is_around: true }, strip)
    }
    const fn at_one_end(what: &'static str, strip: Strip) -> (Decoration, Strip) {
        (Decoration { what, is_around: false }, strip)
    }
    const DECORATIONS: [(Decoration, Strip); 7] = [
        around("the white space around it", |text| Some(text.trim())),
        around("the invisible characters around it", |text| {
            Some(text.trim_matches(['\u{feff}', '\u{200b}', '\u{2060}']))
        }),
        at_one_end("the `\\n` at its end", |text| text.strip_suffix("\\n")),
        at_one_end("the punctuation at its end", |text| Some(text.trim_end_matches([',', ';']))),
        at_one_end("the name in front of it", without_name),
        around("the quotes around it", |text| {
            let pairs = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('‘', '’')];
            pairs.into_iter().find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
        }),
        at_one_end("the `v1,` in front of it", |text| text.strip_prefix("v1,")),
    ];
    let (mut rest, mut found) = (secret, Vec::new());
    while let Some((decoration, shorter)) = DECORATIONS.iter().find_map(|(decoration, strip)| {
        let shorter = strip(rest).filter(|shorter| shorter.len() < rest.len() && !shorter.is_empty())?;
        Some((*decoration, shorter))
    }) {
        rest = shorter;
        if !found.contains(&decoration) {
            found.push(decoration);
        }
    }
    (rest, found)
}

/// A secret without the name in front, as in files of the environment, in shells, YAML and JSON.
fn without_name(text: &str) -> Option<&str> {
    let text =
        ["export ", "set ", "$env:"].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text).trim_start();
    let at = text.find(['=', ':'])?;
    let (name, value) = (text[..at].trim_end(), &text[at + 1..]);
    let quoted = |quote| name.strip_prefix(quote)?.strip_suffix(quote);
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(name);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let is_assigned = text[at..].starts_with('=') || value.starts_with(' ');
    // Base64 may end with `=`.
    (is_name && is_assigned && !name.is_empty() && !value.trim_matches('=').is_empty()).then(|| value.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::CustomScheme;

    #[test]
    fn readings() {
        use KeyReading::{Auto, Base64, Utf8, Utf8WithPrefix};
        let check = |secret: &str, scheme: SchemeName, reading, expected: &[u8]| {
            let key = SigningKey::read(secret, &Scheme::new(scheme, &CustomScheme::default()), reading).unwrap();
            assert_eq!(key.as_bytes(), expected, "{secret} {scheme} {reading}");
        };
        for scheme in SchemeName::ALL {
            check("whsec_a2V5", scheme, Base64, b"key");
            check("a2V5", scheme, Base64, b"key");
            check("whsec_a2V5", scheme, Utf8, b"a2V5");
            check("a2V5", scheme, Utf8, b"a2V5");
            check("whsec_a2V5", scheme, Utf8WithPrefix, b"whsec_a2V5");
            check("a2V5", scheme, Auto, b"a2V5");
            check("schlüssel", scheme, Auto, "schlüssel".as_bytes());
        }
        check("whsec_a2V5", SchemeName::Standard, Auto, b"key");
        check("whsec_a2V5", SchemeName::Svix, Auto, b"key");
        for scheme in &SchemeName::ALL[2..] {
            check("whsec_a2V5", *scheme, Auto, b"whsec_a2V5");
        }
        // A custom scheme's own reading wins unless it is `auto`.
        for (own, reading, expected) in
            [(Auto, Base64, &b"key"[..]), (Base64, Utf8, b"key"), (Utf8, Auto, b"a2V5"), (Auto, Auto, b"whsec_a2V5")]
        {
            let scheme = Scheme::new(SchemeName::Custom, &CustomScheme { key: own, ..CustomScheme::default() });
            let key = SigningKey::read("whsec_a2V5", &scheme, reading).unwrap();
            assert_eq!(key.as_bytes(), expected, "{own} {reading}");
        }
    }

    #[test]
    fn refusals_name_the_fault_and_not_the_secret() {
        let check = |secret: &str, reading, expected: &str| {
            let problem = SigningKey::read(secret, &Scheme::STANDARD, reading).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
            assert!(!problem.contains("a2V5"), "{problem}");
        };
        check("", KeyReading::Auto, "an empty string");
        check("whsec_", KeyReading::Auto, "nothing after `whsec_`");
        check("whsec_", KeyReading::Utf8, "nothing after `whsec_`");
        check("whsec_a2V5-a2V5==", KeyReading::Auto, "URL-safe");
        check("whsec_a2V5\n", KeyReading::Auto, "white space");
        check("whsec_a2V5!a2V5", KeyReading::Auto, "at byte 5");
        check("whsec_a2V5a2", KeyReading::Auto, "padding");
        check("whsec_a2V5a", KeyReading::Auto, "length");
        check("whsec_a2V5a3==", KeyReading::Auto, "as if the text were cut");
        check("a2V5.", KeyReading::Base64, "expected the secret");
    }

    #[test]
    fn only_a_text_of_whole_bytes_is_read_as_hex() {
        let read = |secret: &str| SigningKey::read(secret, &Scheme::GITHUB, KeyReading::Hex);
        let key = read(HEX).expect("a key");
        assert_eq!((key.as_bytes().len(), key.as_bytes()[0]), (HEX.len() / 2, 0x8f));
        for same in [format!("{PREFIX}{HEX}"), HEX.to_uppercase()] {
            assert_eq!(read(&same).expect("a key").as_bytes(), key.as_bytes(), "{same}");
        }
        for (other, problem) in [
            (format!("{HEX}0"), "33 digits"),
            (HEX.replace('8', "g"), "at byte 1"),
            (format!("{PREFIX}é"), "the part after `whsec_`"),
        ] {
            let found = read(&other).expect_err("no key").to_string();
            assert!(found.contains(problem) && !found.contains(HEX), "{other}: {found}");
        }
    }

    #[test]
    fn the_pattern_matches_the_secrets_that_are_read() {
        let secrets = [
            "",
            "w",
            "whsec",
            "whsec_",
            "whsex_?",
            "whsec_?",
            "whsec_a2V5",
            "whsec_YQ==",
            "whsec_YR==",
            "whsec_YWE=",
            "a2V5",
            "a2V5a2V5",
            "a2V5a",
            "a2V5a2V5YQ==",
            "plain text",
            "\n",
        ];
        for name in SchemeName::ALL {
            let scheme = Scheme::new(name, &CustomScheme::default());
            for reading in KeyReading::ALL {
                let pattern = regex::Regex::new(&SigningKey::secret_pattern(&scheme, reading)).expect("a pattern");
                for secret in secrets {
                    let is_read = SigningKey::read(secret, &scheme, reading).is_ok();
                    assert_eq!(pattern.is_match(secret), is_read, "{secret:?} {name} {reading}");
                }
            }
        }
    }

    #[test]
    fn decorations_are_named() {
        type SecretCase = (String, String, Vec<String>);
        let cases: Vec<SecretCase> = serde_json::from_str(include_str!("../../../tests/ui/secrets.json")).unwrap();
        for (secret, plain, decorations) in &cases {
            let (found, named) = undecorated(secret);
            let named: Vec<&str> = named.iter().map(|decoration| decoration.what).collect();
            assert_eq!(
                (found, named),
                (plain.as_str(), decorations.iter().map(String::as_str).collect()),
                "{secret:?}"
            );
        }
    }

    #[test]
    fn debug_masks_the_key() {
        let key = SigningKey::from_bytes(b"hush".to_vec()).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(<4 bytes>)");
        assert!(SigningKey::from_bytes(Vec::new()).is_err());
    }

    /// 32 bytes in base64.
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const HEX: &str = "8f742231b10e8888abcd99aaabbb85a5";
    const PHRASE: &str = "a long phrase that is no base64";

    #[test]
    fn warnings() {
        use KeyReading::{Auto, Base64, Utf8, Utf8WithPrefix};
        use SchemeName::{Custom, Github, Shopify, Slack, Standard, Stripe, Svix};
        let check = |secret: &str, scheme: SchemeName, reading: KeyReading, expected: &[&str]| {
            let scheme = Scheme::new(scheme, &CustomScheme::default());
            let warnings = secret_warnings(secret, &scheme, reading);
            let context = format!("{scheme:?} {reading}: {warnings:#?}");
            assert_eq!(warnings.len(), expected.len(), "{context}");
            for (warning, expected) in warnings.iter().zip(expected) {
                assert!(warning.text.contains(expected), "{expected:?} in {context}");
                assert!(warning.text.contains("webhooks.secret_key"), "{context}");
                assert!(!warning.text.contains(secret), "{context}");
            }
        };
        let marked = &format!("{PREFIX}{BASE64}");

        for scheme in [Standard, Svix] {
            check(marked, scheme, Auto, &[]);
            check(marked, scheme, Base64, &[]);
            check(BASE64, scheme, Base64, &[]);
            check(BASE64, scheme, Auto, &["with or without `whsec_`"]);
            check(marked, scheme, Utf8, &["libraries decode this secret"]);
            check(PHRASE, scheme, Auto, &["which this secret is not"]);
            check(HEX, scheme, Auto, &["libraries decode this secret"]);
            check("whsec_a2V5", scheme, Auto, &["a key of 3 bytes"]);
            check("whsec_AAECAwQFBgcICQoLDA0ODw==", scheme, Auto, &["all but 24 to 64"]);
        }
        check(marked, Stripe, Auto, &[]);
        for scheme in [Github, Slack, Shopify] {
            check(marked, scheme, Auto, &["`whsec_` marks a base64 secret"]);
        }
        for scheme in [Stripe, Github, Slack, Shopify] {
            check(PHRASE, scheme, Auto, &[]);
            check(BASE64, scheme, Auto, &[]);
            check(HEX, scheme, Auto, &[]);
            check(marked, scheme, Base64, &["use the whole text"]);
            check(marked, scheme, Utf8, &["use the whole text"]);
            check(" x", scheme, Auto, &["a key of 2 bytes", "white space"]);
            check(&format!("\"{PHRASE}\""), scheme, Auto, &["the quotes around it"]);
            check(&format!("{PHRASE};"), scheme, Auto, &[]);
            check(&format!("v1,{marked}"), scheme, Auto, &["the `v1,` in front of it"]);
            check("", scheme, Auto, &[]);
            check("!", scheme, Base64, &[]);
        }
        let three =
            |reading: KeyReading, what: &str| format!("in three ways; `webhooks.secret_key = \"{reading}\"` {what}");
        check(marked, Custom, Auto, &[&three(Auto, "uses its whole text")]);
        check(marked, Custom, Utf8WithPrefix, &[&three(Utf8WithPrefix, "uses its whole text")]);
        check(marked, Custom, Utf8, &[&three(Utf8, "uses the text after `whsec_`")]);
        check(marked, Custom, Base64, &[&three(Base64, "decodes it")]);
        check(BASE64, Custom, Auto, &["could be base64 or plain text"]);
        for reading in [Auto, Base64] {
            check(HEX, Custom, reading, &[]);
        }
        check(PHRASE, Custom, Auto, &[]);
        let own = CustomScheme { key: Utf8, ..CustomScheme::default() };
        let warnings = secret_warnings("short", &Scheme::new(Custom, &own), Auto);
        assert!(warnings[0].text.ends_with("`webhooks.custom.key = \"utf8\"` uses its whole text"), "{warnings:?}");
    }
}
