//! The profile: one typed value for everything the published contract leaves open ("not shown").
//!
//! The defaults stand in `default.toml`, which this module reads; `ledger.rs` says for each knob what the contract
//! states and what is assumed; `draft.rs` puts a user's changes on top of `layers.rs`, `presets.rs` sets of changes by name.
//! Nothing here reads files or the command line.

mod check;
mod draft;
mod duration;
mod forwards;
mod layers;
mod ledger;
mod paths;
mod plain;
mod presets;
mod values;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub use draft::{Draft, Settings};
pub use duration::{DurationText, duration_text, parse_duration};
pub use forwards::{Forward, Forwards, MOST_FORWARDS};
pub use layers::{KnobSetting, Layered, ProfileProblem};
pub use ledger::{KNOBS, Knob, LedgerRow, ledger, ledger_markdown};
pub use paths::{knob_path, setting_group};
pub(crate) use plain::syntax_problem;
pub use presets::{PRESETS, Preset};
pub use values::*;

use crate::contract::error::ErrorKind;
use crate::contract::signature::{CustomScheme, KeyReading, Scheme, SchemeName};

/// The commented text of the built-in profile.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");

/// Every knob, typed. Field paths are the knobs' names: `profile.rate_limit.window` is `rate_limit.window`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub subscriptions: Subscriptions,
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

/// Which API keys are valid (contract: Authentication 3, prefixes not given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// How a key is judged.
    pub mode: KeyMode,
    /// Prefix of test keys.
    pub test_prefix: String,
    /// Prefix of live keys.
    pub live_prefix: String,
    /// The valid keys when `mode` is `list`.
    pub list: Vec<String>,
    /// Workspace name to the keys that share it.
    pub workspaces: BTreeMap<String, Vec<String>>,
}

/// The error envelope (contract: Errors).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Where validation reasons stand beside `message`.
    pub details: ErrorDetails,
    /// Status of a body that is not JSON: 400 or 422.
    pub malformed_json_status: MalformedStatus,
    /// The `code` of each kind of error.
    pub codes: BTreeMap<ErrorKind, String>,
    /// Fields added to each error object.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// How strictly requests are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Unknown body fields and query parameters.
    pub unknown: Unknown,
    /// Whether `include_checks` takes more spellings than `true` and `false`.
    pub lenient_booleans: bool,
    /// Whether a POST must declare JSON.
    pub content_type: ContentTypeRule,
}

/// `GET /v1/system/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// What `include_checks=true` adds: name to any object.
    pub checks: serde_json::Map<String, serde_json::Value>,
}

/// The quota of each key (contract: Limits, numbers not shown).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Whether requests are counted at all; the headers are sent either way.
    pub enabled: bool,
    /// Requests per window, 0 to 4,294,967,295.
    pub requests: u32,
    /// Length of the window.
    pub window: DurationText,
    /// How the window moves.
    pub algorithm: RateAlgorithm,
    /// Which requests cost quota.
    pub count: CountRule,
    /// Names of the two published headers.
    pub header_names: RateHeaderNames,
    /// `Retry-After` on 429.
    pub retry_after: RetryAfterForm,
    /// `X-RateLimit-Reset`.
    pub reset: ResetForm,
    /// `RateLimit` and `RateLimit-Policy` of the IETF draft.
    pub ietf: bool,
}

/// Names of the quota headers (contract: Limits).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateHeaderNames {
    /// Requests allowed per window.
    pub limit: HeaderNameText,
    /// Requests left after this one, at least 0.
    pub remaining: HeaderNameText,
}

/// The form of ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ids {
    /// What follows the prefix.
    pub style: IdStyle,
    /// The header that carries a request's id; none when empty.
    pub request_header: OptionalHeaderName,
}

/// The form of timestamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Fraction of a second shown.
    pub precision: Precision,
}

/// What a JSON body may be like beyond its published fields: answers and events alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Whether each object has fields that nobody knows, of any type.
    pub unknown_fields: bool,
    /// The order of keys.
    pub key_order: KeyOrder,
}

impl Variation {
    /// Whether bodies are varied at all; if not, no chance is drawn for it.
    pub fn is_on(&self) -> bool {
        self.unknown_fields || self.key_order == KeyOrder::Shuffled
    }
}

/// Subscribing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscriptions {
    /// What subscribing twice to one URL does.
    pub upsert: Upsert,
    /// Name of the response field with a generated secret.
    pub secret_field: String,
    /// Whether a supplied secret is sent back.
    pub echo_secret: bool,
}

/// Event types and their `data`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Types beside the two published ones.
    pub extra: Vec<String>,
    /// Default `data` by event type, with templates in strings.
    pub data: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
}

/// Signing and delivering webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// One attempt in all.
    pub timeout: DurationText,
    /// Its connect alone.
    pub connect_timeout: DurationText,
    /// Whether retries hold later events back.
    pub order: DeliveryOrder,
    /// How often each event is delivered to each subscription, 1 to 100.
    pub copies: NonZeroU32,
    /// The longest time that an event's first attempts wait; how long is drawn for each event.
    pub scatter: DurationText,
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

/// When failed attempts are repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// A named schedule.
    pub preset: RetryPreset,
    /// Delays after each failed attempt, with the preset `custom`, which a schedule without a preset means.
    pub schedule: Vec<DurationText>,
    /// Spread of each delay as a fraction, 0 to 1.
    pub jitter: Fraction,
}

/// `GET /v1/hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The whole body.
    pub body: serde_json::Map<String, serde_json::Value>,
}

/// The announced endpoints: workflows and users (contract: shapes not shown).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preview {
    /// Whether they are served.
    pub enabled: bool,
    /// Entries of a page without `limit`.
    pub page_size: NonZeroU32,
    /// Most entries of a page.
    pub page_limit: NonZeroU32,
    /// How long a created workflow runs.
    pub run_time: DurationText,
}

/// OAuth 2.0 client credentials (contract: announced, endpoints and lifetimes not shown).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oauth {
    /// How long an access token is valid.
    pub token_lifetime: DurationText,
    /// The form of the token endpoint's errors.
    pub error_shape: OauthErrorShape,
}

impl Profile {
    /// The event types that can be subscribed: the two published ones, then `events.extra`.
    pub fn event_types(&self) -> impl Iterator<Item = &str> {
        crate::contract::types::EVENT_TYPES.into_iter().chain(self.events.extra.iter().map(String::as_str))
    }

    /// The signature schemes in force, in sending order.
    pub fn schemes(&self) -> Vec<Scheme> {
        self.webhooks.scheme.names().iter().map(|name: &SchemeName| Scheme::new(*name, &self.webhooks.custom)).collect()
    }

    /// The `code` sent for `kind`.
    pub fn error_code(&self, kind: ErrorKind) -> &str {
        self.errors.codes.get(&kind).map_or(kind.name(), String::as_str)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Layered::default().profile().as_ref().clone()
    }
}
