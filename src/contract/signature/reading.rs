//! The ways in which the text of a signing secret is read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the text of a secret becomes key bytes (`webhooks.secret_key`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyReading {
    /// As the scheme's own libraries do: base64 after `whsec_` for `standard` and `svix`, and for
    /// them the UTF-8 bytes of a text without it; the UTF-8 bytes of the whole text for the others.
    #[default]
    Auto,
    /// The text, after `whsec_` if it starts so, is base64 (standard alphabet, padded).
    Base64,
    /// The UTF-8 bytes of the text after `whsec_` if it starts so.
    Utf8,
    /// The UTF-8 bytes of the whole text.
    Utf8WithPrefix,
}

impl KeyReading {
    /// The reading as the profile spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Base64 => "base64",
            Self::Utf8 => "utf8",
            Self::Utf8WithPrefix => "utf8_with_prefix",
        }
    }
}

impl fmt::Display for KeyReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
