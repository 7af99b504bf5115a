//! The settings of a key's quota and its headers (contract: Limits, numbers not shown). The code that counts reads them from here.

use serde::Deserialize;

use crate::contract::header_setting::HeaderSetting;
use crate::util::duration::DurationText;

/// The quota of each key (contract: Limits, numbers not shown).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// True if requests are counted at all; the headers are sent either way.
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateHeaderNames {
    /// Requests allowed per window.
    pub limit: HeaderSetting,
    /// Requests left after this one, at least 0.
    pub remaining: HeaderSetting,
}

/// How the quota's window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CountRule {
    /// All but the 429s.
    Allowed,
    /// All, the 429s too.
    All,
    /// Those that are answered with 200.
    Successful,
}

/// Form of `Retry-After` on a 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterForm {
    /// Not sent.
    Off,
    /// Whole seconds, rounded up.
    Seconds,
    /// An HTTP date.
    Date,
}

/// Form of `X-RateLimit-Reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResetForm {
    /// Not sent.
    Off,
    /// Seconds from now, rounded up.
    Delta,
    /// Unix seconds.
    Epoch,
}
