//! HMAC over bytes, and its spelling as text.
//!
//! Must not know about headers, schemes or secrets: key bytes and content go in, text comes out.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use ring::hmac::{self as signer, Tag};
use serde::{Deserialize, Serialize};
use sha2::{Sha256, Sha512};

use crate::contract::named::named;

/// The hash function under the HMAC (`webhooks.custom.hash`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Hash {
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl Hash {
    pub(super) const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// A key prepared to sign with one hash function. ring signs, as it takes a sixth fewer instructions for a whole delivery than `sha2`
/// where the processor has no instructions for SHA; `hmac` checks.
#[derive(Clone)]
pub(super) struct Keyed {
    pub(super) hash: Hash,
    key: signer::Key,
}

impl Keyed {
    pub(super) fn new(hash: Hash, key: &[u8]) -> Self {
        let algorithm = match hash {
            Hash::Sha1 => signer::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => signer::HMAC_SHA256,
            Hash::Sha512 => signer::HMAC_SHA512,
        };
        Self { hash, key: signer::Key::new(algorithm, key) }
    }

    pub(super) fn sign(&self, content: &[u8]) -> Tag {
        signer::sign(&self.key, content)
    }
}

/// The HMAC that a signature is compared with, with the hashes in use today from another library than the one that
/// signs, so that our tests notice an error in either.
pub(super) fn expected(hash: Hash, key: &[u8], content: &[u8]) -> Vec<u8> {
    fn by<M: KeyInit + Mac>(key: &[u8], content: &[u8]) -> Vec<u8> {
        let keyed = <M as KeyInit>::new_from_slice(key).expect("HMAC hashes or pads a key of any length");
        keyed.chain_update(content).finalize().into_bytes().to_vec()
    }
    match hash {
        Hash::Sha1 => Keyed::new(hash, key).sign(content).as_ref().to_vec(),
        Hash::Sha256 => by::<Hmac<Sha256>>(key, content),
        Hash::Sha512 => by::<Hmac<Sha512>>(key, content),
    }
}

/// How a signature's bytes are written in its header (`webhooks.custom.encoding`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Lower-case hexadecimal.
    Hex,
    /// Base64 of the standard alphabet, padded.
    Base64,
}

impl Encoding {
    pub(super) fn encode(self, bytes: &[u8]) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match self {
            Self::Hex => bytes
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 0xf])
                .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
                .collect(),
            Self::Base64 => STANDARD.encode(bytes),
        }
    }

    /// Whether `text` could be `length` bytes in this encoding, going by its length and alphabet.
    ///
    /// Looser than decoding on purpose: a signature with one character changed is still a
    /// signature, only a wrong one.
    pub(super) fn looks_like(self, text: &str, length: usize) -> bool {
        match self {
            Self::Hex => text.len() == 2 * length && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Base64 => {
                text.len() == length.div_ceil(3) * 4
                    && text
                        .trim_end_matches('=')
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
            }
        }
    }
}

named! {
    /// How the text of a secret becomes key bytes (`webhooks.secret_key`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum KeyReading {
        /// As the scheme's own libraries do. For `standard` and `svix`: base64 after `whsec_`, or the
        /// UTF-8 bytes of a text without that prefix. For the others: the UTF-8 bytes of the whole
        /// text.
        #[default]
        Auto = "auto",
        /// The text, after `whsec_` if it starts with that, is base64 (standard alphabet, padded).
        Base64 = "base64",
        /// The UTF-8 bytes of the text, after `whsec_` if it starts with that.
        Utf8 = "utf8",
        /// The UTF-8 bytes of the whole text.
        Utf8WithPrefix = "utf8_with_prefix",
    }
}

impl fmt::Display for KeyReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202 and RFC 4231, test case 2 of each.
    #[test]
    fn published_vectors() {
        let check = |hash: Hash, expected: &str| {
            let (key, content) = (b"Jefe", b"what do ya want for nothing?");
            let checked = super::expected(hash, key, content);
            assert_eq!(checked.len(), hash.length(), "{hash:?}");
            assert_eq!(Encoding::Hex.encode(&checked), expected, "{hash:?}");
            assert_eq!(Keyed::new(hash, key).sign(content).as_ref(), checked, "{hash:?}");
        };
        check(Hash::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        check(Hash::Sha256, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        check(
            Hash::Sha512,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        );
    }

    #[test]
    fn shapes() {
        let check = |encoding: Encoding, text: &str, length: usize, expected: bool| {
            assert_eq!(encoding.looks_like(text, length), expected, "{text:?}");
        };
        check(Encoding::Hex, "00fF", 2, true);
        check(Encoding::Hex, "00f", 2, false);
        check(Encoding::Hex, "00fg", 2, false);
        check(Encoding::Base64, "AP8=", 2, true);
        check(Encoding::Base64, "AP9=", 2, true);
        check(Encoding::Base64, "AP8", 2, false);
        check(Encoding::Base64, "A-8=", 2, false);
        for length in [20, 32, 64] {
            for encoding in [Encoding::Hex, Encoding::Base64] {
                assert!(encoding.looks_like(&encoding.encode(&vec![0xfb; length]), length));
            }
        }
    }
}
