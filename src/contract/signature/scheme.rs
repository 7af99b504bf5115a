//! The signature schemes: their names, the setting that lists them, and each as one row of data: header names, signed content,
//! hash, and how the signature header is put together.
//!
//! `sign` and `verify` read the same row, so a scheme cannot be signed one way and checked another. The rows follow what the
//! named services send. Must not know about time.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::custom::CustomScheme;
use super::mac::{Encoding, Hash, KeyReading};
use crate::contract::named::named;

named! {
    /// The name of a signature scheme, as `webhooks.scheme` spells it (lower case).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum SchemeName {
        /// Standard Webhooks v1: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
        Standard = "standard",
        /// Svix: the same content and form under `svix-` names.
        Svix = "svix",
        /// Stripe: `stripe-signature: t=…,v1=…`.
        Stripe = "stripe",
        /// GitHub: `x-hub-signature-256: sha256=…` over the body alone.
        Github = "github",
        /// Slack: `x-slack-signature: v0=…` over `v0:timestamp:body`.
        Slack = "slack",
        /// Shopify: `x-shopify-hmac-sha256`, base64 over the body alone.
        Shopify = "shopify",
        /// The scheme that `webhooks.custom` describes.
        Custom = "custom",
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One scheme, or a list of at least one without repetition; a single name is written without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "OneOrMany")]
pub struct SchemeNames(Vec<SchemeName>);

impl SchemeNames {
    /// The schemes in sending order.
    pub fn names(&self) -> &[SchemeName] {
        &self.0
    }
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "expected a signature scheme or a list of them: standard, svix, stripe, github, slack, shopify, custom"
)]
enum OneOrMany {
    One(SchemeName),
    Many(Vec<SchemeName>),
}

impl TryFrom<OneOrMany> for SchemeNames {
    type Error = String;

    fn try_from(names: OneOrMany) -> Result<Self, String> {
        let names = match names {
            OneOrMany::One(name) => vec![name],
            OneOrMany::Many(names) => names,
        };
        if names.is_empty() {
            return Err("expected at least one signature scheme".to_owned());
        }
        if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
            return Err("a signature scheme is listed twice".to_owned());
        }
        Ok(Self(names))
    }
}

/// A signature scheme, ready to sign and verify with: one row of data. Header names are in lower case.
///
/// Made by [`Scheme::new`]. Signing and verifying never fail on a custom scheme that [`CustomScheme::check`] refuses, but the
/// result is only defined for one it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    pub(super) name: SchemeName,
    /// How a custom scheme reads secrets; `auto` leaves it to `webhooks.secret_key`.
    pub(super) key: KeyReading,
    pub(super) id_header: Option<Cow<'static, str>>,
    /// Whether receivers refuse a delivery without the id header.
    pub(super) id_required: bool,
    /// A header of its own for the timestamp; Stripe's is inside the signature header.
    pub(super) timestamp_header: Option<Cow<'static, str>>,
    pub(super) signature_header: Cow<'static, str>,
    pub(super) content: Cow<'static, str>,
    pub(super) hash: Hash,
    pub(super) encoding: Encoding,
    pub(super) form: Form,
}

/// How the signature header is put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `v1,<signature>` tokens, separated by spaces.
    Tokens,
    /// `t=<timestamp>,v1=<signature>`, more `v1=` parts allowed.
    Parts,
    One {
        prefix: Cow<'static, str>,
    },
}

impl Scheme {
    pub(super) const STANDARD: Self = Self {
        name: SchemeName::Standard,
        key: KeyReading::Auto,
        id_header: Some(Cow::Borrowed("webhook-id")),
        id_required: true,
        timestamp_header: Some(Cow::Borrowed("webhook-timestamp")),
        signature_header: Cow::Borrowed("webhook-signature"),
        content: Cow::Borrowed("{id}.{timestamp}.{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Base64,
        form: Form::Tokens,
    };

    pub(super) const SVIX: Self = Self {
        name: SchemeName::Svix,
        id_header: Some(Cow::Borrowed("svix-id")),
        timestamp_header: Some(Cow::Borrowed("svix-timestamp")),
        signature_header: Cow::Borrowed("svix-signature"),
        ..Self::STANDARD
    };

    pub(super) const STRIPE: Self = Self {
        name: SchemeName::Stripe,
        key: KeyReading::Auto,
        id_header: None,
        id_required: false,
        timestamp_header: None,
        signature_header: Cow::Borrowed("stripe-signature"),
        content: Cow::Borrowed("{timestamp}.{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Hex,
        form: Form::Parts,
    };

    pub(super) const GITHUB: Self = Self {
        name: SchemeName::Github,
        key: KeyReading::Auto,
        id_header: Some(Cow::Borrowed("x-github-delivery")),
        // Neither the id nor a time is signed, and GitHub's libraries ask for the signature alone.
        id_required: false,
        timestamp_header: None,
        signature_header: Cow::Borrowed("x-hub-signature-256"),
        content: Cow::Borrowed("{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Hex,
        form: Form::One { prefix: Cow::Borrowed("sha256=") },
    };

    pub(super) const SLACK: Self = Self {
        name: SchemeName::Slack,
        key: KeyReading::Auto,
        id_header: None,
        id_required: false,
        timestamp_header: Some(Cow::Borrowed("x-slack-request-timestamp")),
        signature_header: Cow::Borrowed("x-slack-signature"),
        content: Cow::Borrowed("v0:{timestamp}:{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Hex,
        form: Form::One { prefix: Cow::Borrowed("v0=") },
    };

    pub(super) const SHOPIFY: Self = Self {
        name: SchemeName::Shopify,
        key: KeyReading::Auto,
        id_header: Some(Cow::Borrowed("x-shopify-webhook-id")),
        id_required: false,
        timestamp_header: None,
        signature_header: Cow::Borrowed("x-shopify-hmac-sha256"),
        content: Cow::Borrowed("{body}"),
        hash: Hash::Sha256,
        encoding: Encoding::Base64,
        form: Form::One { prefix: Cow::Borrowed("") },
    };

    /// The scheme of that name; `custom` is copied for [`SchemeName::Custom`] and otherwise ignored.
    pub fn new(name: SchemeName, custom: &CustomScheme) -> Self {
        match name {
            SchemeName::Standard => Self::STANDARD,
            SchemeName::Svix => Self::SVIX,
            SchemeName::Stripe => Self::STRIPE,
            SchemeName::Github => Self::GITHUB,
            SchemeName::Slack => Self::SLACK,
            SchemeName::Shopify => Self::SHOPIFY,
            SchemeName::Custom => {
                let header =
                    |name: &str| (!name.is_empty()).then(|| Cow::<'static, str>::Owned(name.to_ascii_lowercase()));
                Self {
                    name,
                    key: custom.key,
                    id_header: header(&custom.id_header),
                    id_required: true,
                    timestamp_header: header(&custom.timestamp_header),
                    signature_header: Cow::Owned(custom.signature_header.to_ascii_lowercase()),
                    content: Cow::Owned(custom.content.clone()),
                    hash: custom.hash,
                    encoding: custom.encoding,
                    form: Form::One { prefix: Cow::Owned(custom.prefix.clone()) },
                }
            }
        }
    }

    pub const fn name(&self) -> SchemeName {
        self.name
    }

    /// The reading of secrets in force, and the setting that decided it.
    ///
    /// A custom scheme's own `key` is the more specific setting and wins; its `auto` defers to `webhooks.secret_key`.
    pub fn reading(&self, reading: KeyReading) -> (KeyReading, &'static str) {
        match self.key {
            KeyReading::Auto => (reading, "webhooks.secret_key"),
            own => (own, "webhooks.custom.key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_to_a_scheme_and_back() {
        for name in SchemeName::ALL {
            assert_eq!(Scheme::new(name, &CustomScheme::default()).name(), name);
            assert_eq!(serde_json::to_value(name).unwrap(), serde_json::Value::from(name.to_string()),);
        }
    }
}
