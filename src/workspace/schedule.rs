//! When a failed attempt is retried: named schedules, jitter, and a receiver's `Retry-After`. Pure arithmetic.

use std::time::Duration;

use rand::RngExt as _;

use crate::clock::Random;
use crate::profile::{Retry, RetryPreset, Webhooks};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const CI: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)];
const STANDARD: [Duration; 3] = [seconds(1), seconds(4), seconds(25)];
const SVIX: [Duration; 7] =
    [seconds(5), seconds(300), seconds(1800), seconds(7200), seconds(18_000), seconds(36_000), seconds(36_000)];
const STRIPE_SANDBOX: [Duration; 3] = [seconds(1200), seconds(3600), seconds(7200)];
const SHOPIFY: [Duration; 8] =
    [seconds(10), seconds(60), seconds(300), seconds(600), seconds(1800), seconds(3600), seconds(3600), seconds(4500)];
const SLACK: [Duration; 3] = [Duration::ZERO, seconds(60), seconds(300)];

/// The delay after failed attempt `attempt` (from 1), before jitter; `None` when there is no further attempt.
pub(super) fn delay_after(retry: &Retry, attempt: u32) -> Option<Duration> {
    let at = usize::try_from(attempt).ok()?.checked_sub(1)?;
    match retry.preset {
        RetryPreset::None => None,
        RetryPreset::Ci => CI.get(at).copied(),
        RetryPreset::Standard => STANDARD.get(at).copied(),
        RetryPreset::Svix => SVIX.get(at).copied(),
        RetryPreset::StripeSandbox => STRIPE_SANDBOX.get(at).copied(),
        RetryPreset::Shopify => SHOPIFY.get(at).copied(),
        RetryPreset::Slack => SLACK.get(at).copied(),
        RetryPreset::Custom => retry.schedule.get(at).map(|delay| delay.get()),
    }
}

/// The delay after a failed attempt, with jitter. A receiver's `Retry-After` replaces it, clamped to between one and two steps.
pub(super) fn next_delay(
    webhooks: &Webhooks,
    attempt: u32,
    retry_after: Option<Duration>,
    random: &mut Random,
) -> Option<Duration> {
    let step = delay_after(&webhooks.retry, attempt)?;
    let jitter = f64::from(webhooks.retry.jitter);
    let spread = if jitter > 0.0 { 1.0 + jitter * random.random_range(-1.0..=1.0) } else { 1.0 };
    let requested = retry_after.filter(|_| webhooks.honor_retry_after);
    Some(match requested {
        Some(requested) => requested.clamp(step, step.saturating_mul(2)),
        None => step.mul_f64(spread),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Seed;
    use crate::profile::Layered;

    fn webhooks(assignments: &[&str]) -> Webhooks {
        let layered = assignments.iter().fold(Layered::default(), |layered, assignment| {
            layered.with_assignment(assignment, "--set").expect("the assignment is valid")
        });
        layered.profile().webhooks.clone()
    }

    #[test]
    fn schedules_follow_their_preset() {
        for (preset, millis) in [
            ("none", &[][..]),
            ("ci", &[100, 200, 400]),
            ("standard", &[1000, 4000, 25_000]),
            ("slack", &[0, 60_000, 300_000]),
            ("custom", &[7_000]),
        ] {
            let webhooks = webhooks(&[&format!("webhooks.retry.preset={preset}"), "webhooks.retry.schedule=[\"7s\"]"]);
            let delays: Vec<u64> = (1..)
                .map_while(|attempt| delay_after(&webhooks.retry, attempt))
                .map(|delay| u64::try_from(delay.as_millis()).expect("short"))
                .collect();
            assert_eq!(delays, millis, "{preset}");
        }
    }

    #[test]
    fn retry_after_is_clamped_and_jitter_stays_within_its_spread() {
        let mut random = Seed::from_number(1).source("test");
        let plain = webhooks(&[]);
        for (requested, seconds) in [(0, 4), (5, 5), (8, 8), (3600, 8)] {
            let delay = next_delay(&plain, 2, Some(Duration::from_secs(requested)), &mut random);
            assert_eq!(delay, Some(Duration::from_secs(seconds)));
        }
        let ignoring = webhooks(&["webhooks.honor_retry_after=false"]);
        assert_eq!(next_delay(&ignoring, 2, Some(Duration::from_secs(5)), &mut random), Some(Duration::from_secs(4)));
        let spread = webhooks(&["webhooks.retry.jitter=0.5"]);
        let delays: Vec<Duration> = (0..50).filter_map(|_| next_delay(&spread, 2, None, &mut random)).collect();
        assert!(delays.iter().all(|delay| (2.0..=6.0).contains(&delay.as_secs_f64())));
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
