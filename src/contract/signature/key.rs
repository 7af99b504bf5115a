//! Turns the text of a signing secret, as people pass it on, into the key bytes that sign.
//!
//! Services write secrets down differently: with or without `whsec_`, as base64 or as plain text,
//! and libraries read the same text as different keys; [`KeyReading`] names the ways. `warning`
//! describes where they differ. Must not know where secrets come from or are kept, and never puts
//! one in a message.

use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use ring::hmac::Tag;

use super::mac::{Hash, KeyReading, Keyed};
use super::scheme::{Scheme, SchemeName};

/// The mark in front of a base64 secret, by Standard Webhooks.
pub(super) const PREFIX: &str = "whsec_";

/// Why a secret makes no key; the messages never repeat the secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// No key bytes are left: the text is empty, or nothing follows `whsec_`.
    #[error("expected a signing secret, found {found}")]
    Empty { found: &'static str },
    /// The reading asks for base64 and the text is not.
    #[error("expected {part} to be base64 (`A-Z a-z 0-9 + /`, padded with `=`), found {found}")]
    NotBase64 {
        /// Which part of the text was read as base64.
        part: &'static str,
        found: String,
    },
}

/// The key bytes a delivery is signed with, at least one; `Debug` shows their number only. Clones share the prepared HMAC.
#[derive(Clone)]
pub struct SigningKey(Arc<Key>);

struct Key {
    bytes: Vec<u8>,
    /// Prepared for the first hash that it signed with.
    keyed: OnceLock<Keyed>,
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
        }?;
        Self::from_bytes(bytes)
    }

    /// A key of exactly these bytes; refuses an empty one.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SecretProblem> {
        if bytes.is_empty() {
            return Err(SecretProblem::Empty { found: "a key of no bytes" });
        }
        Ok(Self(Arc::new(Key { bytes, keyed: OnceLock::new() })))
    }

    pub(super) fn sign(&self, hash: Hash, content: &[u8]) -> Tag {
        let Key { bytes, keyed } = &*self.0;
        let keyed = keyed.get_or_init(|| Keyed::new(hash, bytes));
        if keyed.hash == hash { keyed.sign(content) } else { Keyed::new(hash, bytes).sign(content) }
    }

    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(<{} bytes>)", self.0.bytes.len())
    }
}

/// Whether the libraries of `scheme` read secrets as base64.
pub(super) const fn reads_base64(scheme: &Scheme) -> bool {
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
            DecodeError::InvalidLength(_) => "a length that no base64 has".to_owned(),
            DecodeError::InvalidPadding => "wrong or missing padding".to_owned(),
            DecodeError::InvalidLastSymbol { .. } => {
                "a last character that cannot end it, as if the text were cut".to_owned()
            }
        };
        let part = if after_prefix { "what follows `whsec_` in the secret" } else { "the secret" };
        SecretProblem::NotBase64 { part, found }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::signature::{CustomScheme, SchemeName};

    fn read(secret: &str, scheme: SchemeName, reading: KeyReading) -> Result<Vec<u8>, String> {
        let scheme = Scheme::new(scheme, &CustomScheme::default());
        SigningKey::read(secret, &scheme, reading)
            .map(|key| key.as_bytes().to_vec())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn readings() {
        use KeyReading::{Auto, Base64, Utf8, Utf8WithPrefix};
        let check = |secret: &str, scheme: SchemeName, reading, expected: &[u8]| {
            assert_eq!(read(secret, scheme, reading).as_deref(), Ok(expected), "{secret} {scheme} {reading}");
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
    }

    #[test]
    fn a_custom_schemes_own_reading_wins_unless_it_is_auto() {
        let check = |own, reading, expected: &[u8]| {
            let scheme = Scheme::new(SchemeName::Custom, &CustomScheme { key: own, ..CustomScheme::default() });
            let key = SigningKey::read("whsec_a2V5", &scheme, reading).unwrap();
            assert_eq!(key.as_bytes(), expected, "{own} {reading}");
        };
        check(KeyReading::Auto, KeyReading::Auto, b"whsec_a2V5");
        check(KeyReading::Auto, KeyReading::Base64, b"key");
        check(KeyReading::Base64, KeyReading::Utf8, b"key");
        check(KeyReading::Utf8, KeyReading::Auto, b"a2V5");
    }

    #[test]
    fn refusals_name_the_fault_and_not_the_secret() {
        let check = |secret: &str, reading, expected: &str| {
            let problem = read(secret, SchemeName::Standard, reading).unwrap_err();
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
    fn debug_masks_the_key() {
        let key = SigningKey::from_bytes(b"hush".to_vec()).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(<4 bytes>)");
        assert!(SigningKey::from_bytes(Vec::new()).is_err());
    }
}
