//! The quota headers: the two that the contract publishes, and those that a profile adds.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::clock::Now;
use crate::contract::profile::{Profile, ResetForm, RetryAfterForm};
use crate::http::answer::{header_value, number_value};
use crate::rate_limit::Verdict;

const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const IETF: HeaderName = HeaderName::from_static("ratelimit");
const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Adds the quota headers of an answer to a valid key.
pub fn push_quota_headers(headers: &mut HeaderMap, verdict: &Verdict, profile: &Profile, now: Now) {
    let rate_limit = &profile.rate_limit;
    headers.insert(rate_limit.header_names.limit.name().clone(), number_value(verdict.limit.into()));
    headers.insert(rate_limit.header_names.remaining.name().clone(), number_value(verdict.remaining.into()));
    if !verdict.allowed {
        push_retry_after(headers, verdict.wait, rate_limit.retry_after, now);
    }
    match rate_limit.reset {
        ResetForm::Off => {}
        ResetForm::Delta => drop(headers.insert(RESET, HeaderValue::from(whole_seconds(verdict.reset)))),
        ResetForm::Epoch => drop(headers.insert(RESET, HeaderValue::from(epoch(now, verdict.reset)))),
    }
    if rate_limit.ietf {
        let (limit, window) = (verdict.limit, whole_seconds(verdict.window));
        headers.insert(IETF_POLICY, header_value(&format!("\"default\";q={limit};w={window}")));
        let (left, reset) = (verdict.remaining, whole_seconds(verdict.reset));
        headers.insert(IETF, header_value(&format!("\"default\";r={left};t={reset}")));
    }
}

/// Adds `Retry-After` in the form that the profile wants.
pub fn push_retry_after(headers: &mut HeaderMap, wait: Duration, form: RetryAfterForm, now: Now) {
    match form {
        RetryAfterForm::Off => {}
        RetryAfterForm::Seconds => drop(headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)))),
        RetryAfterForm::Date => {
            let at = jiff::Timestamp::from_second(epoch(now, wait)).unwrap_or(now.wall);
            if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&at) {
                headers.insert(RETRY_AFTER, header_value(&date));
            }
        }
    }
}

/// Rounded up: a client that waits so long is let through.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn epoch(now: Now, after: Duration) -> i64 {
    let at = now.wall.saturating_add(after).unwrap_or(now.wall);
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}
