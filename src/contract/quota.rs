//! The settings of a key's quota and its headers (contract: Limits, numbers not shown). The code that counts reads them from here.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::contract::headers::HeaderSetting;
use crate::contract::setting::settings;
use crate::util::duration::DurationText;

settings! {
    /// The quota of each key and its headers.
    pub struct RateLimit {
        /// True if requests are counted at all; the headers are sent either way.
        pub enabled: bool = true {
            contract: "sandbox traffic is throttled per key",
            assumed: "requests are counted per key",
            observed_by: "whether the remaining requests become fewer",
        },
        /// Requests that a key may make in one window.
        pub requests: u32 = 100 {
            contract: "exact quotas are not shown",
            assumed: "100 requests",
            observed_by: "the header of the limit",
        },
        /// Requests that a full bucket holds if `algorithm` is `token_bucket`; as many as `requests` if not set. The headers count what
        /// the bucket holds: their limit is this number, and the window of `RateLimit-Policy` is the time in which an empty one fills.
        #[schemars(with = "NonZeroU32")]
        pub burst: Option<NonZeroU32> = null {
            contract: "exact quotas are not shown",
            assumed: "as many as `requests`",
            values: "an integer from 1 to 4294967295, such as 20",
            observed_by: "not by calls: a smaller quota in a shorter window is answered alike",
        },
        /// The length of the window.
        pub window: DurationText = "60s" {
            contract: "windows are not shown",
            assumed: "60 seconds",
            observed_by: "`w` of RateLimit-Policy, or the first X-RateLimit-Reset of a fixed or sliding window; not without \
                these headers, and not a bucket's",
        },
        /// How the window moves.
        pub algorithm: RateAlgorithm = "fixed" {
            contract: "not shown",
            assumed: "a fixed window opened by the first request",
            observed_by: "how X-RateLimit-Reset, or `t` of RateLimit, changes over calls that are a second apart; not without \
                these headers",
        },
        /// Which requests cost quota.
        pub count: CountRule = "allowed" {
            contract: "not shown",
            assumed: "a 422 counts, a 429 of the quota does not",
            observed_by: "whether a 422 costs; not whether a 429 does, because the first one ends the calls",
        },
        /// The names of the two headers that the contract publishes.
        pub header_names: RateHeaderNames = { "limit": "X-RateLimit-Limit", "remaining": "X-RateLimit-Remaining" } {
            contract: "X-RateLimit-Limit and X-RateLimit-Remaining; units are not shown",
            assumed: "X-RateLimit-Limit and X-RateLimit-Remaining, in whole requests",
            values: "limit and remaining = a field name, such as limit = \"RateLimit-Limit\"",
            observed_by: "the two headers of numbers that only answers to a key have",
        },
        /// `Retry-After` on a 429.
        pub retry_after: RetryAfterForm = "off" {
            contract: "a 429 is retryable; no Retry-After is mentioned",
            assumed: "not sent",
            observed_by: "the first 429; only if the quota may be used up (`--yes`) and is small enough",
        },
        /// The header that shows when the full quota is available again.
        pub reset: ResetForm = "off" {
            contract: "not mentioned",
            assumed: "not sent",
            observed_by: "the header of `reset_header`: absent, seconds, or a time",
        },
        /// The name of that header.
        pub reset_header: HeaderSetting = "X-RateLimit-Reset" {
            contract: "not mentioned",
            assumed: "X-RateLimit-Reset",
            values: "a field name such as \"RateLimit-Reset\"",
            observed_by: "X-RateLimit-Reset, or else the only header of numbers with `reset` in its name",
        },
        /// True if the headers of the IETF draft, `RateLimit` and `RateLimit-Policy`, are sent.
        pub ietf: bool = false {
            contract: "not mentioned",
            assumed: "not sent",
            observed_by: "RateLimit and RateLimit-Policy",
        },
    }
}

/// Names of the quota headers (contract: Limits).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateHeaderNames {
    /// Requests allowed per window.
    pub limit: HeaderSetting,
    /// Requests left after this one, at least 0.
    pub remaining: HeaderSetting,
}

/// How the quota's window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateAlgorithm {
    /// Opened by the first request, closed after the window.
    Fixed,
    /// At any instant, the `window` before it.
    Sliding,
    /// Tokens refilled evenly.
    TokenBucket,
}

/// Which requests cost quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountRule {
    /// All that the quota allowed, whatever their answer.
    Allowed,
    /// All, also those that the quota refused.
    All,
    /// Those answered with 200.
    Successful,
}

/// Form of `Retry-After` on a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterForm {
    /// Not sent.
    Off,
    /// Whole seconds, rounded up.
    Seconds,
    /// An HTTP date.
    Date,
}

/// Form of the header that shows when the full quota is available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResetForm {
    /// Not sent.
    Off,
    /// Seconds from now, rounded up.
    Delta,
    /// Unix seconds.
    Epoch,
}
