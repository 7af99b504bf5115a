//! The ways in which the text of a signing secret is read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::named::named;

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
