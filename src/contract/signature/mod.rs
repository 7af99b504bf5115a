//! Webhook signatures: what a delivery is signed with, over which bytes, and in which headers.
//!
//! [`sign()`] makes the headers of one attempt, [`verify()`] reads them back the way the scheme's
//! own receiver libraries do, [`SigningKey::read`] turns a signing secret into key bytes. Bodies
//! are raw bytes and are never parsed or serialised again; time is always an argument.
//!
//! Must not know about deliveries, retries, subscriptions, sockets or clocks.
//!
//! Reading order: `layout` (every scheme as one row of data), `template` (the signed content),
//! `mac`, `key` and `warning` (secrets), `sign`, `verify`, `rejection`, `tamper` (forged
//! deliveries), `custom` (the scheme that a profile spells out), `diagnose` and `rewrite` (what
//! would make a rejected delivery verify).

mod custom;
mod diagnose;
mod key;
mod layout;
mod mac;
mod rejection;
mod rewrite;
#[cfg(test)]
mod round_trip_tests;
mod sign;
mod tamper;
mod template;
mod verify;
mod warning;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use custom::{CustomScheme, SchemeProblem};
pub use diagnose::{Change, Evidence, Remedy};
pub use key::{KeyReading, SecretProblem, SigningKey};
pub use mac::{Encoding, Hash};
pub use rejection::{Rejection, Verified};
pub use sign::{Signed, sign};
pub use tamper::{Tamper, sign_tampered};
pub use verify::verify;
pub use warning::secret_warnings;

/// One delivery as it is signed.
///
/// `id` and `url` stand in headers and in the signed content as they are, so they must be free of
/// control characters; whoever makes them sees to that.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The event's id, the same for every attempt.
    pub id: &'a str,
    /// Unix seconds of this attempt.
    pub timestamp: i64,
    /// The URL the delivery is addressed to; only `custom` schemes may sign it.
    pub url: &'a str,
    /// The body's bytes exactly as they are sent.
    pub body: &'a [u8],
}

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
