//! Quotas: given a policy and an instant, allows a request or returns the time to wait. One [`Quota`] per API key.
//!
//! Independent of headers, requests or the clock. The contract says that sandbox traffic is throttled per key; numbers and
//! algorithm are assumptions (settings `rate_limit.*`).

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Instant;
use crate::contract::quota::{CountRule, RateAlgorithm, RateLimit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaCheck {
    pub allowed: bool,
    pub limit: u32,
    /// Requests left after this one, at least 0.
    pub remaining: u32,
    /// Time until the next request would be allowed; zero unless refused.
    pub wait: Duration,
    /// Time until the full quota is available again: the end of the window, or a full bucket.
    pub reset: Duration,
    pub window: Duration,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Quota {
    #[default]
    None,
    /// Requests since the window was opened.
    Fixed { opened: Instant, used: u32 },
    /// Requests by millisecond, oldest first: bounded by the window's length, not by the traffic.
    Sliding {
        log: VecDeque<(Instant, u32)>,
        #[serde(skip)]
        used: u64,
    },
    /// How much is missing from a full bucket at `at`, in units of one token divided by `window_nanos`.
    Bucket {
        // A number too large for JSON.
        #[serde(with = "text")]
        missing: u128,
        at: Instant,
        // Absent in snapshots of older versions; zero means the window of the next check.
        #[serde(default, rename = "window")]
        window_nanos: u64,
    },
}

impl Quota {
    pub fn check(&mut self, policy: &RateLimit, now: Instant) -> QuotaCheck {
        let window = policy.window.get().max(Duration::from_millis(1));
        let limit = match (policy.algorithm, policy.burst) {
            (RateAlgorithm::TokenBucket, Some(burst)) => burst.get(),
            _ => policy.requests,
        };
        if !policy.enabled {
            return QuotaCheck {
                allowed: true,
                limit,
                remaining: limit,
                wait: Duration::ZERO,
                reset: Duration::ZERO,
                window,
            };
        }
        let charge_refused = policy.count == CountRule::All;
        match policy.algorithm {
            RateAlgorithm::Fixed => self.check_fixed(limit, window, charge_refused, now),
            RateAlgorithm::Sliding => self.check_sliding(limit, window, charge_refused, now),
            RateAlgorithm::TokenBucket => self.check_bucket(limit, policy.requests, window, now),
        }
    }

    /// The rest of the quota at `now`, without counting a request.
    pub fn peek(&self, policy: &RateLimit, now: Instant) -> QuotaCheck {
        // A request is counted in a copy and taken back.
        let mut copy = self.clone();
        let check = copy.check(&RateLimit { count: CountRule::Allowed, ..policy.clone() }, now);
        if !check.allowed || !policy.enabled {
            return check;
        }
        copy.refund();
        let reset = match &copy {
            Self::None | Self::Fixed { used: 0, .. } => Duration::ZERO,
            Self::Fixed { opened, .. } => opened.plus(check.window).since(now),
            Self::Sliding { log, .. } => {
                log.back().map_or(Duration::ZERO, |(at, _)| at.plus(check.window).since(now).min(check.window))
            }
            Self::Bucket { missing, .. } => {
                let nanos = missing.div_ceil(u128::from(policy.requests.max(1)));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        QuotaCheck { remaining: check.remaining.saturating_add(1).min(check.limit), reset, ..check }
    }

    /// Undoes the counting of the last allowed request.
    pub fn refund(&mut self) {
        match self {
            Self::None => {}
            Self::Fixed { used, .. } => *used = used.saturating_sub(1),
            Self::Sliding { log, used } => {
                if let Some((_, count)) = log.back_mut() {
                    *count -= 1;
                    *used -= 1;
                    if *count == 0 {
                        log.pop_back();
                    }
                }
            }
            Self::Bucket { missing, window_nanos, .. } => *missing = missing.saturating_sub(u128::from(*window_nanos)),
        }
    }

    /// True if anything was used, so it must be saved.
    pub fn is_used(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// True if each request adds to a log of the window.
    pub fn is_logged(&self) -> bool {
        matches!(self, Self::Sliding { .. })
    }

    /// The use according to a snapshot, which may contain anything: `refund` would underflow on an entry without requests.
    #[must_use]
    pub fn restored(mut self) -> Self {
        if let Self::Sliding { log, used } = &mut self {
            log.retain(|(_, count)| *count > 0);
            *used = log.iter().map(|(_, count)| u64::from(*count)).sum();
        }
        self
    }

    fn check_fixed(&mut self, limit: u32, window: Duration, charge_refused: bool, now: Instant) -> QuotaCheck {
        let (opened, used) = match *self {
            Self::Fixed { opened, used } if now.since(opened) < window => (opened, used),
            _ => (now, 0),
        };
        let allowed = used < limit;
        let used = if allowed || charge_refused { used.saturating_add(1) } else { used };
        *self = Self::Fixed { opened, used };
        let reset = opened.plus(window).since(now);
        let wait = if allowed { Duration::ZERO } else { reset };
        QuotaCheck { allowed, limit, remaining: limit.saturating_sub(used), wait, reset, window }
    }

    fn check_sliding(&mut self, limit: u32, window: Duration, charge_refused: bool, now: Instant) -> QuotaCheck {
        if !matches!(self, Self::Sliding { .. }) {
            *self = Self::Sliding { log: VecDeque::new(), used: 0 };
        }
        let Self::Sliding { log, used } = self else { unreachable!("set above") };
        while let Some((at, count)) = log.front().copied() {
            if now.since(at) < window {
                break;
            }
            *used -= u64::from(count);
            log.pop_front();
        }
        let allowed = *used < u64::from(limit);
        if allowed || charge_refused {
            // Rounded up, so that no request leaves the window early.
            let nanos = now.since_start().as_nanos().div_ceil(1_000_000);
            let tick = Instant::after_start(Duration::from_millis(u64::try_from(nanos).unwrap_or(u64::MAX)));
            match log.back_mut() {
                Some((at, count)) if *at == tick && *count < u32::MAX => *count += 1,
                _ => log.push_back((tick, 1)),
            }
            *used += 1;
        }
        let newest = log.back().map_or(now, |(at, _)| *at);
        let wait = if allowed {
            Duration::ZERO
        } else {
            free_at(log, *used, limit).map_or(window, |at| at.plus(window).since(now))
        };
        let remaining = u32::try_from(u64::from(limit).saturating_sub(*used)).unwrap_or(0);
        // The newest entry may be rounded up to later than now.
        let reset = newest.plus(window).since(now).min(window);
        QuotaCheck { allowed, limit, remaining, wait, reset, window }
    }

    fn check_bucket(&mut self, limit: u32, requests: u32, window: Duration, now: Instant) -> QuotaCheck {
        // Exact in integers: `requests` units are refilled each nanosecond, and one token is `window` units.
        let (token, flow) = (window.as_nanos(), u128::from(requests));
        let full = token * u128::from(limit);
        let missing = match *self {
            Self::Bucket { missing, at, window_nanos } => {
                // When the window changes, the number of missing tokens stays the same.
                let missing = match u128::from(window_nanos) {
                    0 => missing,
                    old if old == token => missing,
                    old => missing.min(u128::MAX / token).saturating_mul(token).div_ceil(old),
                };
                missing.min(full).saturating_sub(now.since(at).as_nanos().saturating_mul(flow))
            }
            _ => 0,
        };
        let allowed = missing + token <= full;
        let missing = if allowed { missing + token } else { missing };
        let window_nanos = u64::try_from(token).unwrap_or(u64::MAX);
        *self = Self::Bucket { missing, at: now, window_nanos };
        let time_for = |units: u128| match flow {
            0 => window,
            _ => Duration::from_nanos(u64::try_from(units.div_ceil(flow)).unwrap_or(u64::MAX)),
        };
        let wait = if allowed { Duration::ZERO } else { time_for((missing + token).saturating_sub(full)) };
        let remaining = u32::try_from((full - missing) / token).unwrap_or(limit);
        QuotaCheck { allowed, limit, remaining, wait, reset: time_for(missing), window: time_for(full) }
    }
}

mod text {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The time of the entry whose expiry allows one more request.
fn free_at(log: &VecDeque<(Instant, u32)>, used: u64, limit: u32) -> Option<Instant> {
    if limit == 0 {
        return None;
    }
    let mut over = (used + 1).saturating_sub(u64::from(limit));
    log.iter().find_map(|(at, count)| {
        over = over.saturating_sub(u64::from(*count));
        (over == 0).then_some(*at)
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::settings::Profile;
    use crate::util::duration::DurationText;

    const ALGORITHMS: [RateAlgorithm; 3] = [RateAlgorithm::Fixed, RateAlgorithm::Sliding, RateAlgorithm::TokenBucket];

    fn policy(algorithm: RateAlgorithm, requests: u32, count: CountRule) -> RateLimit {
        let window = DurationText(Duration::from_secs(10));
        RateLimit { requests, window, algorithm, count, ..Profile::default().rate_limit }
    }

    fn at(millis: u64) -> Instant {
        Instant::after_start(Duration::from_millis(millis))
    }

    /// Makes requests at the given milliseconds; expects for each how many are left or how long to wait.
    fn check(policy: &RateLimit, plays: &[(u64, Result<u32, u64>)]) {
        let mut quota = Quota::default();
        for (millis, expected) in plays {
            let check = quota.check(policy, at(*millis));
            let found = if check.allowed {
                Ok(check.remaining)
            } else {
                Err(u64::try_from(check.wait.as_millis()).expect("short"))
            };
            assert_eq!(found, *expected, "{:?} at {millis} ms", policy.algorithm);
        }
    }

    #[test]
    fn a_refused_request_has_to_wait_by_its_algorithm() {
        use RateAlgorithm::{Fixed, Sliding, TokenBucket};
        check(
            &policy(Fixed, 2, CountRule::Allowed),
            &[(5_000, Ok(1)), (6_000, Ok(0)), (7_000, Err(8_000)), (14_999, Err(1)), (15_000, Ok(1)), (99_000, Ok(1))],
        );
        check(
            &policy(Sliding, 2, CountRule::Allowed),
            &[(0, Ok(1)), (4_000, Ok(0)), (5_000, Err(5_000)), (10_000, Ok(0)), (10_001, Err(3_999)), (14_000, Ok(0))],
        );
        check(
            &policy(Sliding, 1, CountRule::All),
            &[(0, Ok(0)), (6_000, Err(10_000)), (12_000, Err(10_000)), (22_000, Ok(0))],
        );
        check(
            &policy(TokenBucket, 2, CountRule::Allowed),
            &[(0, Ok(1)), (0, Ok(0)), (1_000, Err(4_000)), (5_000, Ok(0)), (100_000, Ok(1))],
        );
        for algorithm in ALGORITHMS {
            check(&policy(algorithm, 0, CountRule::Allowed), &[(0, Err(10_000)), (20_000, Err(10_000))]);
        }
    }

    #[test]
    fn a_bucket_holds_a_burst_and_fills_at_the_rate_of_the_requests() {
        let bucket = |requests, burst| RateLimit {
            burst: NonZeroU32::new(burst),
            ..policy(RateAlgorithm::TokenBucket, requests, CountRule::Allowed)
        };
        check(
            &bucket(10, 2),
            &[(0, Ok(1)), (0, Ok(0)), (0, Err(1_000)), (999, Err(1)), (1_000, Ok(0)), (9_000, Ok(1))],
        );
        check(&bucket(1, 3), &[(0, Ok(2)), (0, Ok(1)), (0, Ok(0)), (0, Err(10_000)), (20_000, Ok(1))]);
        for (requests, burst, window) in [(100, 20, 2_000), (10, 30, 30_000), (10, 0, 10_000)] {
            let (bucket, mut quota) = (bucket(requests, burst), Quota::default());
            let limit = if burst == 0 { requests } else { burst };
            let one = Duration::from_secs(10) / requests;
            let first = quota.check(&bucket, at(0));
            assert_eq!((first.limit, first.remaining, first.reset), (limit, limit - 1, one), "{burst}");
            assert_eq!(first.window, Duration::from_millis(window), "{burst}");
            assert_eq!(quota.peek(&bucket, at(0)).reset, one, "{burst}");
        }
        // Another algorithm has no bucket.
        check(
            &RateLimit { burst: NonZeroU32::new(1), ..policy(RateAlgorithm::Fixed, 2, CountRule::All) },
            &[(0, Ok(1)), (0, Ok(0))],
        );
    }

    #[test]
    fn a_peek_shows_what_is_left_and_counts_nothing() {
        for (algorithm, resets) in [
            (RateAlgorithm::Fixed, [0, 10_000, 6_000]),
            (RateAlgorithm::Sliding, [0, 10_000, 10_000]),
            (RateAlgorithm::TokenBucket, [0, 5_000, 6_000]),
        ] {
            let (policy, mut quota) = (policy(algorithm, 2, CountRule::All), Quota::default());
            // Unused, after one request, and after a second one four seconds later.
            for (left, reset) in [2, 1, 0].into_iter().zip(resets) {
                let now = at(if left == 0 { 4_000 } else { 0 });
                let peeked = [(); 2].map(|()| quota.peek(&policy, now));
                assert_eq!(peeked.map(|check| check.remaining), [left; 2], "{algorithm:?}");
                assert_eq!(
                    peeked.map(|check| check.reset),
                    [Duration::from_millis(reset); 2],
                    "{algorithm:?}, {left} left"
                );
                quota.check(&policy, at(if left == 2 { 0 } else { 4_000 }));
            }
            let off = RateLimit { enabled: false, ..policy };
            let peeked = quota.peek(&off, at(4_000));
            assert_eq!((peeked.allowed, peeked.remaining, peeked.reset), (true, 2, Duration::ZERO), "{algorithm:?}");
        }
    }

    #[test]
    fn a_refund_leaves_no_trace_of_the_request() {
        for algorithm in ALGORITHMS {
            let (policy, mut quota) = (policy(algorithm, 9, CountRule::Allowed), Quota::default());
            assert!(!quota.is_used());
            for millis in [0, 4_000, 4_000] {
                quota.check(&policy, at(millis));
            }
            assert!(quota.is_used());
            let before = format!("{quota:?}");
            // A bucket also records the time of its last check.
            let later = if algorithm == RateAlgorithm::TokenBucket { 4_000 } else { 5_000 };
            for millis in [4_000, later] {
                quota.check(&policy, at(millis));
                quota.refund();
                assert_eq!(format!("{quota:?}"), before, "{millis} ms");
            }
        }
    }

    #[test]
    fn a_sliding_window_does_not_grow_with_the_traffic() {
        let (policy, mut quota) = (policy(RateAlgorithm::Sliding, 9, CountRule::Allowed), Quota::default());
        for _ in 0..3 {
            quota.check(&policy, at(7));
        }
        let Quota::Sliding { log, used } = quota else { panic!("{quota:?}") };
        assert_eq!((log, used), ([(at(7), 3)].into(), 3));
    }

    #[test]
    fn no_window_is_longer_than_its_length() {
        for algorithm in ALGORITHMS {
            let (policy, mut quota) = (policy(algorithm, 2, CountRule::Allowed), Quota::default());
            // Between two milliseconds.
            let now = Instant::from_nanos(1_300_000);
            assert!(quota.check(&policy, now).reset <= Duration::from_secs(10), "{algorithm:?}");
            assert!(quota.peek(&policy, now).reset <= Duration::from_secs(10), "{algorithm:?}");
        }
    }

    #[test]
    fn a_bucket_keeps_its_level_when_the_window_changes_and_when_it_is_restored() {
        let of = |seconds: u64| RateLimit {
            window: DurationText(Duration::from_secs(seconds)),
            ..policy(RateAlgorithm::TokenBucket, 100, CountRule::Allowed)
        };
        for other in [10, 600] {
            let mut quota = Quota::default();
            let used = (0..50).map(|_| quota.check(&of(60), at(0)).remaining).last();
            assert_eq!(used, Some(50));
            assert_eq!(quota.check(&of(other), at(0)).remaining, 49, "60 s to {other} s");
            let saved = serde_json::to_string(&quota).expect("it serialises");
            let mut restored = serde_json::from_str::<Quota>(&saved).expect("it is as it was saved").restored();
            assert_eq!(restored.check(&of(60), at(0)).remaining, 48, "{other} s to 60 s");
        }
        // Exactly, also where its units are many.
        let (year, requests) = (31_536_000, u32::MAX);
        let nanos = year * 1_000_000_000;
        let empty = format!(
            r#"{{"bucket":{{"missing":"{}","at":0,"window":{nanos}}}}}"#,
            u128::from(nanos) * u128::from(requests)
        );
        let mut empty = serde_json::from_str::<Quota>(&empty).expect("a saved bucket");
        assert!(!empty.check(&RateLimit { requests, ..of(year) }, at(0)).allowed);
        let old = r#"{"bucket":{"missing":"500000000000","at":0}}"#;
        let mut old = serde_json::from_str::<Quota>(old).expect("the form of older versions").restored();
        assert_eq!(old.check(&of(10), at(0)).remaining, 49);
    }

    #[test]
    fn a_saved_window_may_be_as_full_as_can_be_or_damaged() {
        let saved = |count: u32| {
            let text = format!(r#"{{"sliding":{{"log":[[0,{count}]]}}}}"#);
            serde_json::from_str::<Quota>(&text).expect("the form of every snapshot so far").restored()
        };
        let policy = policy(RateAlgorithm::Sliding, u32::MAX, CountRule::All);
        let mut full = saved(u32::MAX);
        assert_eq!([0, 1].map(|_| full.check(&policy, at(0)).allowed), [false; 2]);
        let mut damaged = saved(0);
        damaged.refund();
        assert_eq!(damaged.check(&policy, at(0)).remaining, u32::MAX - 1);
    }

    #[test]
    fn only_a_sliding_window_keeps_a_log() {
        for algorithm in ALGORITHMS {
            let mut quota = Quota::default();
            quota.check(&policy(algorithm, 5, CountRule::All), at(0));
            assert_eq!(quota.is_logged(), algorithm == RateAlgorithm::Sliding, "{algorithm:?}");
        }
    }
}
