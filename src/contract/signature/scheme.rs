//! The schemes by name, one ready to sign with, and the setting that lists them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::custom::CustomScheme;
use super::reading::KeyReading;

/// The name of a signature scheme, as `webhooks.scheme` spells it (lower case).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchemeName {
    /// Standard Webhooks v1: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    Standard,
    /// Svix: the same content and form under `svix-` names.
    Svix,
    /// Stripe: `stripe-signature: t=…,v1=…`.
    Stripe,
    /// GitHub: `x-hub-signature-256: sha256=…` over the body alone.
    Github,
    /// Slack: `x-slack-signature: v0=…` over `v0:timestamp:body`.
    Slack,
    /// Shopify: `x-shopify-hmac-sha256`, base64 over the body alone.
    Shopify,
    /// The scheme that `webhooks.custom` describes.
    Custom,
}

impl SchemeName {
    /// Every name, in the order they are documented.
    pub const ALL: [Self; 7] =
        [Self::Standard, Self::Svix, Self::Stripe, Self::Github, Self::Slack, Self::Shopify, Self::Custom];

    /// The name as the profile and the command line spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Svix => "svix",
            Self::Stripe => "stripe",
            Self::Github => "github",
            Self::Slack => "slack",
            Self::Shopify => "shopify",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for SchemeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One scheme, or a list of at least one without repetition; a single name is written without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "OneOrMany", into = "OneOrMany")]
pub struct SchemeNames(Vec<SchemeName>);

impl SchemeNames {
    /// The schemes in sending order.
    pub fn names(&self) -> &[SchemeName] {
        &self.0
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
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

impl From<SchemeNames> for OneOrMany {
    fn from(names: SchemeNames) -> Self {
        match names.0.as_slice() {
            [one] => Self::One(*one),
            _ => Self::Many(names.0),
        }
    }
}

/// A signature scheme, ready to sign and verify with.
///
/// Made by [`Scheme::new`]. Signing and verifying never fail on a custom scheme that
/// [`CustomScheme::check`] refuses, but what they make of it is only defined for one it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Standard Webhooks v1.
    Standard,
    /// Svix.
    Svix,
    /// Stripe.
    Stripe,
    /// GitHub.
    Github,
    /// Slack.
    Slack,
    /// Shopify.
    Shopify,
    /// The scheme a profile describes.
    Custom(Box<CustomScheme>),
}

impl Scheme {
    /// The scheme of that name; `custom` is copied for [`SchemeName::Custom`] and else ignored.
    pub fn new(name: SchemeName, custom: &CustomScheme) -> Self {
        match name {
            SchemeName::Standard => Self::Standard,
            SchemeName::Svix => Self::Svix,
            SchemeName::Stripe => Self::Stripe,
            SchemeName::Github => Self::Github,
            SchemeName::Slack => Self::Slack,
            SchemeName::Shopify => Self::Shopify,
            SchemeName::Custom => Self::Custom(Box::new(custom.clone())),
        }
    }

    /// The reading of secrets in force, and the knob that decided it.
    ///
    /// A custom scheme's own `key` is the more particular setting and wins; its `auto` defers to
    /// `webhooks.secret_key`.
    pub(super) fn reading(&self, reading: KeyReading) -> (KeyReading, &'static str) {
        match self {
            Self::Custom(custom) if custom.key != KeyReading::Auto => (custom.key, "webhooks.custom.key"),
            _ => (reading, "webhooks.secret_key"),
        }
    }

    /// The scheme's name.
    pub const fn name(&self) -> SchemeName {
        match self {
            Self::Standard => SchemeName::Standard,
            Self::Svix => SchemeName::Svix,
            Self::Stripe => SchemeName::Stripe,
            Self::Github => SchemeName::Github,
            Self::Slack => SchemeName::Slack,
            Self::Shopify => SchemeName::Shopify,
            Self::Custom(_) => SchemeName::Custom,
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
