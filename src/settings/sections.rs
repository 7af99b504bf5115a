//! The profile itself, one field a section, and what a whole profile must keep to. Sections with their own rules are in
//! the contract, next to the rules; the others are here.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue, USER_AGENT};
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::Value;

use super::forwards::{Forwards, IdleForward};
use crate::contract::error::{ERROR_FIELDS, Errors};
use crate::contract::headers::{HeaderSetting, is_of_answers, is_of_deliveries};
use crate::contract::ids::Ids;
use crate::contract::keys::{KeyRules, Keys};
use crate::contract::quota::RateLimit;
use crate::contract::rules::{SubscribeRules, Validation};
use crate::contract::setting::{Section as _, Setting, settings};
use crate::contract::signature::{CustomScheme, KeyReading, Scheme, SchemeNames};
use crate::contract::timestamp::Time;
use crate::contract::types::{Environment, Events};
use crate::contract::variation::Variation;
use crate::util::duration::{DurationText, duration_text};
use crate::util::wording::quoted;

/// Every setting, in the order of the profile.
pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut all = Vec::new();
    Profile::add_settings("", &mut all);
    all
});

settings! {
    /// Every setting, typed. Field paths are the settings' names: `profile.rate_limit.window` is `rate_limit.window`.
    pub struct Profile {
        /// The environment emulated; decides which key prefix is valid.
        pub environment: Environment = "sandbox" {
            contract: "sandbox and production exist; sandbox is used during integration",
            assumed: "the sandbox: test keys are valid, live keys are a 401",
            observed_by: "`environment` of system status",
        },
        pub keys: Keys,
        pub errors: Errors,
        pub validation: Validation,
        pub status: Status,
        pub rate_limit: RateLimit,
        pub ids: Ids,
        pub time: Time,
        pub variation: Variation,
        pub subscriptions: SubscriptionSettings,
        pub events: Events,
        pub webhooks: Webhooks,
        pub hello: Hello,
    }
}

impl Profile {
    /// The rules by which a key is valid.
    pub fn key_rules(&self) -> KeyRules<'_> {
        KeyRules { environment: self.environment, keys: &self.keys }
    }

    pub fn idle_forwards(&self) -> Vec<IdleForward> {
        self.webhooks.forwards.idle(self.webhooks.allow_http)
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

settings! {
    /// `GET /v1/system/status`.
    pub struct Status {
        /// The checks that `include_checks=true` adds: name to any object.
        pub checks: serde_json::Map<String, serde_json::Value> = {
            "database": { "status": "ok", "latency_ms": 3 },
            "queue": { "status": "ok", "latency_ms": 5 },
            "webhooks": { "status": "ok", "latency_ms": 8 },
        } {
            contract: "include_checks=true adds dependency health details; their shape is not shown",
            assumed: "`checks`: name to {status, latency_ms}",
            values: "name = any object, such as database = { status = \"ok\" }",
            observed_by: "include_checks=true, twice: nothing in it may come and go",
            merges: false,
        },
    }
}

settings! {
    /// `GET /v1/hello`.
    pub struct Hello {
        /// The whole body; the contract publishes only the version label.
        pub body: serde_json::Map<String, serde_json::Value> = { "message": "Hello, world!", "version": "1.3.2" } {
            contract: "label 1.3.2; the body is not shown",
            assumed: "a message and the version label",
            values: "any object such as { message = \"hello\" }",
            observed_by: "the greeting, twice: nothing in it may come and go",
            merges: false,
        },
    }
}

settings! {
    /// Subscribing.
    pub struct SubscriptionSettings {
        /// The effect of subscribing the same URL twice.
        pub upsert: Upsert = "url" {
            contract: "200: subscription created or updated; which applies when is not shown",
            assumed: "the same URL in the same workspace updates: id and created_at stay",
            observed_by: "the id after subscribing the same URL again",
        },
        /// The name of the response field with a generated secret.
        pub secret_field: String = "secret" {
            contract: "a generated secret is returned once; the field's name is not shown",
            assumed: "secret",
            values: "a field name such as \"signing_secret\"",
            observed_by: "the field of the first subscription that looks like a secret",
        },
        /// True if a supplied secret is sent back.
        pub echo_secret: bool = false {
            contract: "not shown",
            assumed: "a supplied secret is never sent back",
            observed_by: "subscribing again with a secret",
        },
    }
}

/// The effect of subscribing the same URL twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Upsert {
    /// Updates the first subscription.
    Url,
    /// Makes another.
    Never,
}

settings! {
    /// Signing and delivering webhooks.
    pub struct Webhooks {
        /// True if `http` URLs may be subscribed.
        pub allow_http: bool = false {
            contract: "the URL must be HTTPS",
            assumed: "http is a 422",
            observed_by: "422s of no events with an https, an http and an ftp URL, if they name each reason",
        },
        /// The signature scheme or a list of schemes, each sent with every attempt.
        pub scheme: SchemeNames = "standard" {
            contract: "the body is signed; header and algorithm are not shown",
            assumed: "Standard Webhooks v1: webhook-id, webhook-timestamp, webhook-signature",
            observed_by: "a delivery (`--delivery`): the scheme that verifies it",
        },
        /// How the text of a secret becomes key bytes.
        pub secret_key: KeyReading = "auto" {
            contract: "signed with the subscription secret; how its text becomes key bytes is not shown",
            assumed: "as the scheme's own libraries read it",
            observed_by: "a delivery: the reading of the secret that verifies it, if only one does",
        },
        /// Whose time a signature carries.
        pub timestamp: SignatureTime = "auto" {
            contract: "not shown",
            assumed: "the emulator's clock while it is frozen, real time otherwise",
            observed_by: "not by calls: the service has one clock",
        },
        /// The `User-Agent` of deliveries; empty for none.
        pub user_agent: String = "WRS-Webhooks/1.0" {
            contract: "not shown",
            assumed: "one is sent, because firewalls and frameworks refuse requests without it",
            observed_by: "a delivery: its User-Agent",
        },
        /// Further headers of deliveries, by name.
        pub headers: BTreeMap<String, String> = {} {
            contract: "not shown",
            assumed: "none",
            values: "name = value, such as X-Environment = \"sandbox\"",
            observed_by: "not by calls: proxies in between add headers",
        },
        /// How the length of a delivery's body is declared.
        pub framing: Framing = "length" {
            contract: "not shown; HTTP has both",
            assumed: "Content-Length",
            observed_by: "not by calls: recorders of deliveries join the chunks",
        },
        /// How long a whole attempt may take.
        pub timeout: DurationText = "15s" {
            contract: "delivery timeouts are not shown",
            assumed: "15 seconds for a whole attempt",
            observed_by: "not by calls: needs a receiver that never answers",
        },
        /// How long connecting alone may take.
        pub connect_timeout: DurationText = "5s" {
            contract: "delivery timeouts are not shown",
            assumed: "5 seconds",
            observed_by: "not by calls: needs a receiver that never accepts connections",
        },
        /// The order of deliveries.
        pub order: DeliveryOrder = "first_attempts" {
            contract: "not shown",
            assumed: "first attempts in the order of events; retries delay no other event",
            observed_by: "not by calls: a receiver that fails would be needed",
        },
        /// How often each event is delivered to each subscription, with the same id and body.
        pub copies: NonZeroU32 = 1 {
            contract: "not shown",
            assumed: "each event is delivered once",
            values: "an integer from 1 to 100, such as 2",
            observed_by: "not by calls: all deliveries of an event would be needed",
        },
        /// The longest time that an event's first attempts wait, by the workspace's clock, so that events overtake each other; how
        /// long is drawn for each event.
        pub scatter: DurationText = "0s" {
            contract: "not shown",
            assumed: "first attempts do not wait, so events arrive in their order",
            observed_by: "not by calls: many deliveries would be needed",
        },
        /// How long every other event waits, beginning with the first, so that the one after it overtakes it.
        pub swap: DurationText = "0s" {
            contract: "not shown",
            assumed: "no event waits for the one after it",
            observed_by: "not by calls: many deliveries would be needed",
        },
        /// True if 410 Gone disables the subscription.
        pub disable_on_gone: bool = true {
            contract: "not shown",
            assumed: "410 disables the subscription",
            observed_by: "not by calls: a receiver that answers 410 would be needed",
        },
        /// True if a receiver's `Retry-After` is honoured, between one and two retry steps.
        pub honor_retry_after: bool = true {
            contract: "not shown",
            assumed: "honoured, but clamped to between one and two retry steps",
            observed_by: "not by calls: a receiver that answers 503 would be needed",
        },
        /// How long a rotated secret still signs along with the new one.
        pub rotation_grace: DurationText = "24h" {
            contract: "the operation for rotating a secret is not shown",
            assumed: "the old secret signs together with the new one for 24 hours",
            observed_by: "not by calls: the operation that rotates a secret is not published",
        },
        pub retry: Retry,
        /// Where deliveries go instead of the URL subscribed. The longest URL that is a prefix decides; an empty target disables a
        /// forward of another layer.
        pub forwards: Forwards = {} {
            contract: "events are posted to the registered URL",
            assumed: "to that URL, unless --forward or this setting leads elsewhere",
            values: "URL subscribed = URL dialled, such as \"https://app.example.com\" = \"http://localhost:3000\"",
            observed_by: "not by calls: it is about the emulator, not the service",
        },
        /// The `Host` of a delivery that is forwarded; `X-Forwarded-Host` has the one subscribed in any case.
        pub forward_host: ForwardHost = "target" {
            contract: "events are posted to the registered URL",
            assumed: "the host to which a forward leads",
            observed_by: "not by calls: it is about the emulator, not the service",
        },
        /// The headers of the scheme `custom`.
        pub custom: CustomScheme = (CustomScheme::default()) {
            contract: "not shown",
            assumed: "ignored unless the scheme is custom",
            values: "id_header, timestamp_header, signature_header, content, hash, encoding, prefix, key; such as hash = \
                \"sha512\"",
            observed_by: "a delivery: headers, content, hash and encoding under which it verifies, if no named scheme does",
        },
    }
}

/// How the length of a delivery's body is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// By `Content-Length`.
    Length,
    /// By `Transfer-Encoding: chunked`, in two chunks.
    Chunked,
}

/// The `Host` of a delivery that is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForwardHost {
    /// The host to which the forward leads.
    Target,
    /// The host of the URL subscribed, as behind a proxy that keeps it.
    Original,
}

/// Whose time a signature carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignatureTime {
    /// The workspace's clock while it is frozen, the machine's otherwise.
    Auto,
    /// The machine's.
    Real,
    /// The workspace's clock.
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryOrder {
    /// Only first attempts keep the order of events.
    FirstAttempts,
    /// An event waits until the one before it is delivered or given up.
    Strict,
}

settings! {
    /// When failed attempts are repeated.
    pub struct Retry {
        /// A named schedule.
        pub preset: RetryPreset = "standard" {
            contract: "the retry policy is not shown",
            assumed: "attempts at 0, 1, 5 and 30 seconds",
            observed_by: "not by calls: a receiver that fails for days would be needed",
        },
        /// Delays after each failed attempt, for the preset `custom`; a schedule without a preset implies that preset.
        pub schedule: Vec<DurationText> = [] {
            contract: "the retry policy is not shown",
            assumed: "ignored unless the preset is custom",
            values: "a list of durations such as [\"1s\", \"30s\"], each after the failed attempt before it",
            observed_by: "not by calls: a receiver that fails for days would be needed",
        },
        /// The random spread of each delay as a fraction: 0.1 is plus or minus 10 %.
        #[schemars(extend("minimum" = 0, "maximum" = 1))]
        pub jitter: f64 = 0.0 {
            contract: "not shown",
            assumed: "none",
            values: "a fraction from 0 to 1, such as 0.2",
            observed_by: "not by calls: a receiver that fails for days would be needed",
        },
    }
}

/// Named retry schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = add_delays)]
pub enum RetryPreset {
    /// One attempt only.
    None,
    /// Short enough for a build.
    Ci,
    /// The default.
    Standard,
    /// As Svix does.
    Svix,
    /// As Stripe's sandbox does.
    StripeSandbox,
    /// As Shopify does.
    Shopify,
    /// As Slack does.
    Slack,
    /// `webhooks.retry.schedule`.
    Custom,
}

impl RetryPreset {
    /// The delays after each failed attempt; none for `custom`, which has its own.
    pub fn delays(self) -> &'static [Duration] {
        const fn seconds(count: u64) -> Duration {
            Duration::from_secs(count)
        }
        const fn minutes(count: u64) -> Duration {
            Duration::from_mins(count)
        }
        const fn hours(count: u64) -> Duration {
            Duration::from_hours(count)
        }
        match self {
            Self::None | Self::Custom => &[],
            Self::Ci => const { &[Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)] },
            Self::Standard => const { &[seconds(1), seconds(4), seconds(25)] },
            Self::Svix => const { &[seconds(5), minutes(5), minutes(30), hours(2), hours(5), hours(10), hours(10)] },
            Self::StripeSandbox => const { &[minutes(20), hours(1), hours(2)] },
            Self::Shopify => {
                const { &[seconds(10), minutes(1), minutes(5), minutes(10), minutes(30), hours(1), hours(1), minutes(75)] }
            }
            Self::Slack => const { &[Duration::ZERO, minutes(1), minutes(5)] },
        }
    }
}

/// Adds the delays to the meaning of each schedule.
fn add_delays(schema: &mut Schema) {
    let schedules = schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten();
    for schedule in schedules.filter_map(Value::as_object_mut) {
        let preset = schedule.get("const").and_then(|name| RetryPreset::deserialize(name).ok());
        let delays: Vec<String> =
            preset.iter().flat_map(|preset| preset.delays()).map(|delay| duration_text(*delay)).collect();
        if let Some(Value::String(meaning)) = schedule.get_mut("description")
            && !delays.is_empty()
        {
            *meaning = format!("Retries after {}. {meaning}", delays.join(", "));
        }
    }
}

/// Maximum number of copies of one delivery.
const MAX_COPIES: u32 = 100;
/// The fields of a subscription that the contract publishes.
const SUBSCRIPTION_FIELDS: [&str; 5] = ["id", "url", "events", "status", "created_at"];

/// A rule that a profile breaks.
#[derive(Debug)]
pub(super) struct BrokenRule {
    pub(super) settings: &'static [&'static str],
    /// In words; the setting is named by the caller.
    pub(super) message: String,
}

const NAMES: &str = "rate_limit.header_names";
const RESET_HEADER: &str = "rate_limit.reset_header";
const REQUEST_HEADER: &str = "ids.request_header";
const TEST_PREFIX: &str = "keys.test_prefix";
const LIVE_PREFIX: &str = "keys.live_prefix";

/// The rules that a profile breaks beyond the types of its settings: values that would corrupt answers or could never work.
pub(super) fn check(profile: &Profile) -> Vec<BrokenRule> {
    let mut found = Vec::new();
    check_headers(profile, &mut found);
    check_keys(profile, &mut found);
    let mut push = |settings, message| found.push(BrokenRule { settings, message });
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
        let message = format!("\"{}\" is not an event type: expected letters, digits, `.`, `_` and `-`", quoted(event));
        push(&["events.extra"], message);
    }
    if HeaderValue::from_str(&webhooks.user_agent).is_err() {
        push(&["webhooks.user_agent"], "expected printable ASCII".to_owned());
    }
    if let Some(problem) = webhooks.headers.iter().find_map(|(name, value)| header_problem(name, value, profile)) {
        push(&["webhooks.headers"], problem);
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

/// Why deliveries cannot have this further header.
fn header_problem(name: &str, value: &str, profile: &Profile) -> Option<String> {
    let is_signed_with = || {
        let schemes = profile.schemes();
        schemes.iter().any(|scheme| scheme.header_names().any(|sent| sent.eq_ignore_ascii_case(name)))
    };
    match HeaderName::from_bytes(name.as_bytes()) {
        Err(_) => Some(format!("expected an HTTP field name, found \"{}\"", quoted(name))),
        Ok(found) if found == USER_AGENT => Some("`User-Agent` is the setting webhooks.user_agent".to_owned()),
        Ok(found) if is_of_deliveries(&found) || is_signed_with() => {
            Some(format!("`{name}` is a header that every delivery has already"))
        }
        Ok(_) if HeaderValue::from_str(value).is_err() => {
            Some(format!("`{name}` cannot be \"{}\": expected printable ASCII", quoted(value)))
        }
        Ok(_) => None,
    }
}

fn check_headers(profile: &Profile, found: &mut Vec<BrokenRule>) {
    let mut push = |settings, message| found.push(BrokenRule { settings, message });
    let taken = |name: &HeaderName| format!("`{name}` is a header that HTTP or the emulator itself sends");
    let names = &profile.rate_limit.header_names;
    let (limit, remaining) = (names.limit.name(), names.remaining.name());
    if let Some(name) = [limit, remaining].into_iter().find(|name| is_of_answers(name)) {
        push(&[NAMES], taken(name));
    }
    if limit == remaining {
        push(&[NAMES], format!("`limit` and `remaining` cannot both be `{limit}`"));
    }
    let reset = profile.rate_limit.reset_header.name();
    if is_of_answers(reset) {
        push(&[RESET_HEADER], taken(reset));
    }
    if [limit, remaining].contains(&reset) {
        push(&[RESET_HEADER, NAMES], format!("`{reset}` cannot be two headers of the quota"));
    }
    let Some(name) = profile.ids.request_header.as_ref().map(HeaderSetting::name) else { return };
    if is_of_answers(name) {
        push(&[REQUEST_HEADER], taken(name));
    }
    if [limit, remaining, reset].contains(&name) {
        let message = format!("`{name}` is a quota header and cannot carry the request's id as well");
        push(&[REQUEST_HEADER, NAMES, RESET_HEADER], message);
    }
}

fn check_keys(profile: &Profile, found: &mut Vec<BrokenRule>) {
    let mut push = |settings, message| found.push(BrokenRule { settings, message });
    let keys = &profile.keys;
    let prefixes: [(&'static [&'static str], &String); 2] =
        [(&[TEST_PREFIX], &keys.test_prefix), (&[LIVE_PREFIX], &keys.live_prefix)];
    for (settings, prefix) in prefixes {
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            push(settings, format!("\"{}\" is not a prefix: expected characters without spaces", quoted(prefix)));
        }
    }
    if keys.test_prefix == keys.live_prefix {
        let message = format!("test and live keys cannot both begin with \"{}\"", keys.test_prefix);
        push(&[TEST_PREFIX, LIVE_PREFIX], message);
    }
    if keys.list.iter().any(String::is_empty) {
        push(&["keys.list"], "\"\" is not a key".to_owned());
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
            ("rate_limit.reset_header=Retry-After", "retry-after"),
            ("ids.request_header=X-RateLimit-Reset", "a quota header"),
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
            ("webhooks.user_agent=\"a\\nb\"", "printable ASCII"),
            ("webhooks.headers={\"a b\" = \"1\"}", "field name"),
            ("webhooks.headers={X-A = \"1\\r\\nX-B: 2\"}", "printable ASCII"),
            ("webhooks.headers={User-Agent = \"a\"}", "webhooks.user_agent"),
            ("webhooks.headers={Content-Length = \"1\"}", "every delivery"),
            ("webhooks.headers={Webhook-Id = \"1\"}", "every delivery"),
            ("webhooks.headers={X-Emulator-Delivery = \"1\"}", "every delivery"),
            ("webhooks.copies=101", "at most 100 copies"),
            ("webhooks.copies=0", "an integer from 1"),
            ("keys.test_prefix=", "not a prefix"),
            ("keys.test_prefix=sk_live_", "cannot both begin"),
            ("events.extra=[\"a b\"]", "not an event type"),
        ] {
            let problem = Layered::default().with_assignment(assignment, "test").expect_err(assignment);
            assert!(problem.message.contains(said), "{assignment}: {}", problem.message);
        }
    }
}
