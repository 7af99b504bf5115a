//! The quota headers: the two that the contract publishes, and those that a profile adds. What becomes of the quota itself is in `request`.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::clock::Now;
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::http::answer::{header_value, number_value};
use crate::profile::Profile;
use crate::rate_limit::Verdict;

const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const IETF: HeaderName = HeaderName::from_static("ratelimit");
const IETF_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Adds the quota headers of an answer to a valid key.
pub(super) fn push_quota_headers(headers: &mut HeaderMap, verdict: &Verdict, profile: &Profile, now: Now) {
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

/// Adds `Retry-After` in the form that the profile has.
fn push_retry_after(headers: &mut HeaderMap, wait: Duration, form: RetryAfterForm, now: Now) {
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

/// Rounded up: a client that waits this long is let through.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn epoch(now: Now, after: Duration) -> i64 {
    let at = now.wall.saturating_add(after).unwrap_or(now.wall);
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;

    /// The headers of one answer, sorted by name.
    fn headers(allowed: bool, edit: impl FnOnce(&mut Profile)) -> Vec<String> {
        let mut profile = Profile::default();
        edit(&mut profile);
        let [wait, reset, window] = [2_000, 3_001, 60_000].map(Duration::from_millis);
        let verdict = Verdict { allowed, limit: 5, remaining: 4, wait, reset, window };
        let wall = jiff::Timestamp::from_millisecond(1_769_851_800_500).expect("a time");
        let mut headers = HeaderMap::new();
        push_quota_headers(&mut headers, &verdict, &profile, Now { wall, instant: Instant::from_nanos(0) });
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_published_headers_are_always_there_and_others_where_wanted() {
        let published = ["x-ratelimit-limit: 5", "x-ratelimit-remaining: 4"];
        assert_eq!(headers(true, |_| {}), published);
        let with = |more: &[&'static str]| [more, &published[..]].concat();
        let seconds = |profile: &mut Profile| profile.rate_limit.retry_after = RetryAfterForm::Seconds;
        assert_eq!(headers(true, seconds), published, "no waiting where nothing is refused");
        assert_eq!(headers(false, seconds), with(&["retry-after: 2"]));
        // Rounded up: half a second past the full one, and two to wait.
        let date = |profile: &mut Profile| profile.rate_limit.retry_after = RetryAfterForm::Date;
        assert_eq!(headers(false, date), with(&["retry-after: Sat, 31 Jan 2026 09:30:03 GMT"]));
        let ietf = |profile: &mut Profile| profile.rate_limit.ietf = true;
        assert_eq!(
            headers(true, ietf),
            with(&["ratelimit-policy: \"default\";q=5;w=60", "ratelimit: \"default\";r=4;t=4"])
        );
    }

    #[test]
    fn the_reset_is_rounded_up_to_whole_seconds() {
        for (form, expected) in [(ResetForm::Delta, "4"), (ResetForm::Epoch, "1769851804")] {
            let found = headers(true, |profile| profile.rate_limit.reset = form);
            assert_eq!(found[2], format!("x-ratelimit-reset: {expected}"), "{form:?}");
        }
        let now = |millis| Now {
            wall: jiff::Timestamp::from_millisecond(millis).expect("a time"),
            instant: Instant::from_nanos(0),
        };
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
        assert_eq!((epoch(now(5_000), Duration::from_secs(3)), epoch(now(5_001), Duration::from_secs(3))), (8, 9));
    }
}
