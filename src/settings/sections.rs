//! The profile itself, one field a section. Sections that decide what the API answers belong to the contract; those that decide
//! what happens afterwards are here.

use std::num::NonZeroU32;

use serde::Deserialize;

use super::forwards::Forwards;
use crate::contract::error::Errors;
use crate::contract::ids::Ids;
use crate::contract::keys::{KeyRules, Keys};
use crate::contract::preview::{Oauth, Preview};
use crate::contract::quota::RateLimit;
use crate::contract::rules::{SubscribeRules, Validation};
use crate::contract::signature::{CustomScheme, KeyReading, Scheme, SchemeNames};
use crate::contract::timestamp::Time;
use crate::contract::types::{Environment, Events};
use crate::contract::variation::Variation;
use crate::util::duration::DurationText;

/// Every setting, typed. Field paths are the settings' names: `profile.rate_limit.window` is `rate_limit.window`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The environment emulated; decides which key prefix is valid.
    pub environment: Environment,
    /// Which API keys are valid and which share a workspace.
    pub keys: Keys,
    /// The error envelope.
    pub errors: Errors,
    /// How strictly requests are read.
    pub validation: Validation,
    /// `GET /v1/system/status`.
    pub status: Status,
    /// The quota of each key and its headers.
    pub rate_limit: RateLimit,
    /// The form of ids.
    pub ids: Ids,
    /// The form of timestamps.
    pub time: Time,
    /// What a JSON body may be like beyond its published fields.
    pub variation: Variation,
    /// Subscribing.
    pub subscriptions: SubscriptionSettings,
    /// Event types and their `data`.
    pub events: Events,
    /// Signing and delivering webhooks.
    pub webhooks: Webhooks,
    /// `GET /v1/hello`.
    pub hello: Hello,
    /// The announced endpoints.
    pub preview: Preview,
    /// OAuth 2.0 client credentials, part of the preview.
    pub oauth: Oauth,
}

impl Profile {
    /// The rules by which a key is valid.
    pub fn key_rules(&self) -> KeyRules<'_> {
        KeyRules { environment: self.environment, keys: &self.keys }
    }

    /// The rules by which a subscribe request is valid.
    pub fn subscribe_rules(&self) -> SubscribeRules<'_> {
        SubscribeRules {
            validation: &self.validation,
            malformed_json_status: self.errors.malformed_json_status,
            events: &self.events,
            allow_http: self.webhooks.allow_http,
            schemes: self.schemes(),
            secret_key: self.webhooks.secret_key,
        }
    }

    /// The signature schemes in force, in sending order.
    pub fn schemes(&self) -> Vec<Scheme> {
        self.webhooks.scheme.names().iter().map(|name| Scheme::new(*name, &self.webhooks.custom)).collect()
    }
}

/// `GET /v1/system/status`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// What `include_checks=true` adds: name to any object.
    pub checks: serde_json::Map<String, serde_json::Value>,
}

/// `GET /v1/hello`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The whole body.
    pub body: serde_json::Map<String, serde_json::Value>,
}

/// Subscribing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubscriptionSettings {
    /// What subscribing twice to one URL does.
    pub upsert: Upsert,
    /// Name of the response field with a generated secret.
    pub secret_field: String,
    /// Whether a supplied secret is sent back.
    pub echo_secret: bool,
}

/// What subscribing twice to one URL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Upsert {
    /// Updates the first subscription.
    Url,
    /// Makes another.
    Never,
}

/// Signing and delivering webhooks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// Whether `http` URLs may be subscribed.
    pub allow_http: bool,
    /// Signature schemes, each sent with every attempt.
    pub scheme: SchemeNames,
    /// How a secret becomes key bytes.
    pub secret_key: KeyReading,
    /// Whose time a signature carries.
    pub timestamp: SignatureTime,
    /// The limit for a whole attempt.
    pub timeout: DurationText,
    /// The limit for its connect alone.
    pub connect_timeout: DurationText,
    /// Whether retries hold later events back.
    pub order: DeliveryOrder,
    /// How often each event is delivered to each subscription, 1 to 100.
    pub copies: NonZeroU32,
    /// The longest time that an event's first attempts wait; how long is drawn for each event.
    pub scatter: DurationText,
    /// How long every other event's first attempts wait, beginning with the first.
    pub swap: DurationText,
    /// Whether 410 disables the subscription.
    pub disable_on_gone: bool,
    /// Whether a receiver's `Retry-After` is honoured.
    pub honor_retry_after: bool,
    /// How long a rotated secret still signs.
    pub rotation_grace: DurationText,
    /// Where deliveries go instead of the URL subscribed.
    pub forwards: Forwards,
    /// When failed attempts are repeated.
    pub retry: Retry,
    /// What the scheme `custom` sends.
    pub custom: CustomScheme,
}

/// Whose time a signature carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignatureTime {
    /// The workspace's clock while it is frozen, the machine's otherwise.
    Auto,
    /// The machine's.
    Real,
    /// The workspace's clock.
    Clock,
}

/// Whether retries hold later events back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryOrder {
    /// Only first attempts keep the order of events.
    FirstAttempts,
    /// An event waits until the one before it is delivered or given up.
    Strict,
}

/// When failed attempts are repeated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// A named schedule.
    pub preset: RetryPreset,
    /// Delays after each failed attempt, for the preset `custom`; a schedule without a preset implies that preset.
    pub schedule: Vec<DurationText>,
    /// Spread of each delay as a fraction, 0 to 1.
    pub jitter: Fraction,
}

/// Named retry schedules: delays after each failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryPreset {
    /// One attempt only.
    None,
    /// 100 ms, 200 ms, 400 ms: short enough for a build.
    Ci,
    /// 1, 4 and 25 s.
    Standard,
    /// 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h.
    Svix,
    /// Three retries over some hours.
    StripeSandbox,
    /// Eight retries over four hours.
    Shopify,
    /// At once, after 1 min, after 5 min.
    Slack,
    /// `webhooks.retry.schedule`.
    Custom,
}

/// A fraction from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("minimum" = 0, "maximum" = 1)))]
#[serde(try_from = "f64")]
pub struct Fraction(f64);

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("expected a fraction from 0 to 1, found {value}"))
        }
    }
}

impl From<Fraction> for f64 {
    fn from(fraction: Fraction) -> f64 {
        fraction.0
    }
}
