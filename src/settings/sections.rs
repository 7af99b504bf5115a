//! The profile itself, one field a section, and what a whole profile must keep to. Sections with their own rules are in
//! the contract, next to the rules; the others are here.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use hyper::header::HeaderName;
use serde::Deserialize;

use super::forwards::Forwards;
use crate::contract::error::Errors;
use crate::contract::header_setting::HeaderSetting;
use crate::contract::ids::Ids;
use crate::contract::keys::{KeyRules, Keys, mask_key};
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
    /// True if a supplied secret is sent back.
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
    /// True if `http` URLs may be subscribed.
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
    /// True if retries hold later events back.
    pub order: DeliveryOrder,
    /// How often each event is delivered to each subscription, 1 to 100.
    pub copies: NonZeroU32,
    /// The longest time that an event's first attempts wait; how long is drawn for each event.
    pub scatter: DurationText,
    /// How long every other event's first attempts wait, beginning with the first.
    pub swap: DurationText,
    /// True if 410 disables the subscription.
    pub disable_on_gone: bool,
    /// True if a receiver's `Retry-After` is honoured.
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

/// True if retries hold later events back.
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
    #[cfg_attr(test, schemars(extend("minimum" = 0, "maximum" = 1)))]
    pub jitter: f64,
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

/// Headers that HTTP itself or the emulator sends; a header of a profile with that name would break the answer.
const TAKEN: [&str; 17] = [
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "date",
    "allow",
    "www-authenticate",
    "retry-after",
    "location",
    "x-ratelimit-reset",
    "ratelimit",
    "ratelimit-policy",
];
/// Most copies of one delivery.
const MAX_COPIES: u32 = 100;
/// The fields of a subscription that the contract publishes.
const SUBSCRIPTION_FIELDS: [&str; 5] = ["id", "url", "events", "status", "created_at"];
const ERROR_FIELDS: [&str; 4] = ["code", "message", "request_id", "details"];

/// A rule that a profile breaks.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) settings: &'static [&'static str],
    /// In words; the setting is named by the caller.
    pub(super) message: String,
}

const NAMES: &str = "rate_limit.header_names";
const REQUEST_HEADER: &str = "ids.request_header";
const TEST_PREFIX: &str = "keys.test_prefix";
const LIVE_PREFIX: &str = "keys.live_prefix";

/// The rules that a profile breaks beyond the types of its settings: values that would corrupt answers or could never work.
pub(super) fn check(profile: &Profile) -> Vec<Broken> {
    let mut found = Vec::new();
    check_headers(profile, &mut found);
    check_keys(profile, &mut found);
    let mut push = |settings, message| found.push(Broken { settings, message });
    let secret_field = profile.subscriptions.secret_field.as_str();
    if secret_field.is_empty() || SUBSCRIPTION_FIELDS.contains(&secret_field) {
        let message = format!("\"{secret_field}\" cannot name the secret: it is empty or a field of the subscription");
        push(&["subscriptions.secret_field"], message);
    }
    if let Some(field) = profile.errors.extra.keys().find(|field| ERROR_FIELDS.contains(&field.as_str())) {
        push(&["errors.extra"], format!("`{field}` is a field that every error has"));
    }
    let malformed = profile.errors.malformed_json_status;
    if !matches!(malformed, 400 | 422) {
        push(&["errors.malformed_json_status"], format!("expected 400 or 422, found {malformed}"));
    }
    if let Some((kind, _)) = profile.errors.codes.iter().find(|(_, code)| code.is_empty()) {
        push(&["errors.codes"], format!("the code of `{}` must not be empty", kind.name()));
    }
    if let Some((name, _)) = profile.status.checks.iter().find(|(_, check)| !check.is_object()) {
        push(&["status.checks"], format!("`{name}` must be an object, such as {{ status = \"ok\" }}"));
    }
    let webhooks = &profile.webhooks;
    let positive: [(&'static [&'static str], DurationText); 3] = [
        (&["rate_limit.window"], profile.rate_limit.window),
        (&["webhooks.timeout"], webhooks.timeout),
        (&["webhooks.connect_timeout"], webhooks.connect_timeout),
    ];
    for (settings, duration) in positive.into_iter().filter(|(_, duration)| duration.get().as_millis() == 0) {
        push(settings, format!("expected at least 1ms, found \"{duration}\""));
    }
    if webhooks.copies.get() > MAX_COPIES {
        push(&["webhooks.copies"], format!("expected at most {MAX_COPIES} copies, found {}", webhooks.copies));
    }
    let word = |text: &String| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(event) = profile.events.extra.iter().find(|event| !word(event)) {
        let message =
            format!("\"{}\" is not an event type: expected letters, digits, `.`, `_` and `-`", event.escape_debug());
        push(&["events.extra"], message);
    }
    let jitter = webhooks.retry.jitter;
    if !(0.0..=1.0).contains(&jitter) {
        push(&["webhooks.retry.jitter"], format!("expected a fraction from 0 to 1, found {jitter}"));
    }
    if let Err(problem) = webhooks.scheme.check() {
        push(&["webhooks.scheme"], problem.to_owned());
    }
    if let Err(problem) = webhooks.custom.check() {
        push(&["webhooks.custom"], problem);
    }
    found
}

fn check_headers(profile: &Profile, found: &mut Vec<Broken>) {
    let mut push = |settings, message| found.push(Broken { settings, message });
    let taken = |name: &HeaderName| format!("`{name}` is a header that HTTP or the emulator itself sends");
    let names = &profile.rate_limit.header_names;
    let (limit, remaining) = (names.limit.name(), names.remaining.name());
    if let Some(name) = [limit, remaining].into_iter().find(|name| is_taken(name)) {
        push(&[NAMES], taken(name));
    }
    if limit == remaining {
        push(&[NAMES], format!("`limit` and `remaining` cannot both be `{limit}`"));
    }
    let Some(name) = profile.ids.request_header.as_ref().map(HeaderSetting::name) else { return };
    if is_taken(name) {
        push(&[REQUEST_HEADER], taken(name));
    }
    if [limit, remaining].contains(&name) {
        let message = format!("`{name}` is a quota header and cannot carry the request's id as well");
        push(&[REQUEST_HEADER, NAMES], message);
    }
}

fn is_taken(name: &HeaderName) -> bool {
    TAKEN.contains(&name.as_str()) || name.as_str().starts_with("x-emulator-")
}

fn check_keys(profile: &Profile, found: &mut Vec<Broken>) {
    let mut push = |settings, message| found.push(Broken { settings, message });
    let keys = &profile.keys;
    let prefixes: [(&'static [&'static str], &String); 2] =
        [(&[TEST_PREFIX], &keys.test_prefix), (&[LIVE_PREFIX], &keys.live_prefix)];
    for (settings, prefix) in prefixes {
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            push(
                settings,
                format!("\"{}\" is not a prefix: expected characters without spaces", prefix.escape_debug()),
            );
        }
    }
    if keys.test_prefix == keys.live_prefix {
        let message = format!("test and live keys cannot both begin with \"{}\"", keys.test_prefix);
        push(&[TEST_PREFIX, LIVE_PREFIX], message);
    }
    if keys.list.iter().any(String::is_empty) {
        push(&["keys.list"], "\"\" is not a key".to_owned());
    }
    if keys.workspaces.values().flatten().any(String::is_empty) {
        push(&["keys.workspaces"], "\"\" is not a key".to_owned());
    }
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    if let Some(key) = keys.workspaces.values().flatten().find(|key| !seen.insert(key)) {
        push(&["keys.workspaces"], format!("the key \"{}\" is in two groups", mask_key(key, keys)));
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Layered;

    #[test]
    fn values_that_corrupt_answers_or_cannot_work_are_refused() {
        for (assignment, said) in [
            ("rate_limit.header_names.limit=Content-Length", "content-length"),
            ("rate_limit.header_names={limit=\"Transfer-Encoding\",remaining=\"Connection\"}", "transfer-encoding"),
            ("rate_limit.header_names={limit=\"A\",remaining=\"a\"}", "cannot both be"),
            ("rate_limit.header_names.limit=X-Emulator-Generation", "x-emulator-generation"),
            ("rate_limit.header_names.limit=X-RateLimit-Reset", "x-ratelimit-reset"),
            ("ids.request_header=Date", "date"),
            ("ids.request_header=X-RateLimit-Limit", "a quota header"),
            ("ids.request_header=a b", "field name"),
            ("subscriptions.secret_field=id", "field of the subscription"),
            ("subscriptions.secret_field=", "empty"),
            ("errors.extra={code=\"x\"}", "`code`"),
            ("errors.codes.not_found=", "`not_found`"),
            ("status.checks.db=1", "`db` must be an object"),
            ("rate_limit.window=0s", "at least 1ms"),
            ("webhooks.timeout=0s", "at least 1ms"),
            ("errors.malformed_json_status=401", "expected 400 or 422, found 401"),
            ("webhooks.scheme=[]", "at least one"),
            ("webhooks.scheme=[\"svix\", \"svix\"]", "listed twice"),
            ("webhooks.retry.jitter=2.5", "from 0 to 1, found 2.5"),
            ("webhooks.copies=101", "at most 100 copies"),
            ("webhooks.copies=0", "an integer from 1"),
            ("keys.test_prefix=", "not a prefix"),
            ("keys.test_prefix=sk_live_", "cannot both begin"),
            ("keys.workspaces={a=[\"sk_test_x\"],b=[\"sk_test_x\"]}", "two groups"),
            ("events.extra=[\"a b\"]", "not an event type"),
        ] {
            let problem = Layered::default().with_assignment(assignment, "test").expect_err(assignment);
            assert!(problem.message.contains(said), "{assignment}: {}", problem.message);
        }
    }
}
