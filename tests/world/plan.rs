//! What a seed decides: the settings, the scenario file, and how many there are of everything. The actors draw the rest.

use std::fmt;

use jiff::Timestamp;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// Where the clocks of the world begin: 2026-01-31T09:30:00Z.
pub(crate) const START: Timestamp = Timestamp::constant(1_769_851_800, 0);
pub(crate) const TIMEOUT_MS: u64 = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Real,
    Frozen,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Fixed,
    Sliding,
    Bucket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Allowed,
    All,
    Successful,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) latency_ms: u64,
    pub(crate) mode: Mode,
    pub(crate) window_ms: u64,
    pub(crate) algorithm: Algorithm,
    pub(crate) count: Count,
    /// Delays after failed attempts, in milliseconds.
    pub(crate) steps: Vec<u64>,
    pub(crate) jitter: bool,
    pub(crate) settings: Vec<String>,
    pub(crate) keys: usize,
    pub(crate) receivers: usize,
    pub(crate) rounds: usize,
    pub(crate) copies: usize,
    /// How often the receivers accept, of 10.
    pub(crate) accepts: u32,
}

/// The actor's own source of chance.
pub(crate) fn chance(seed: u64, actor: &str) -> ChaCha8Rng {
    let mixed = actor.bytes().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), |mixed, byte| {
        (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ChaCha8Rng::seed_from_u64(mixed)
}

pub(crate) fn key(number: usize) -> String {
    format!("sk_test_{}", char::from(b'a' + u8::try_from(number).unwrap_or_default()))
}

fn pick<T: Copy>(chance: &mut ChaCha8Rng, of: &[T]) -> T {
    *of.choose(chance).expect("there is something to choose from")
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let chance = &mut chance(seed, "plan");
        let mode = pick(chance, &[Mode::Real, Mode::Frozen, Mode::Auto]);
        let algorithm = pick(chance, &[Algorithm::Fixed, Algorithm::Sliding, Algorithm::Bucket]);
        let count = pick(chance, &[Count::Allowed, Count::All, Count::Successful]);
        let (requests, window_ms) = (chance.random_range(2..=9), 1_000 * chance.random_range(1..=6));
        let (preset, steps) = match chance.random_range(0..3) {
            0 => ("ci", vec![100, 200, 400]),
            1 => ("standard", vec![1_000, 4_000, 25_000]),
            _ => ("custom", (0..chance.random_range(1..=5)).map(|_| chance.random_range(50..4_000)).collect()),
        };
        let (jitter, copies) = (chance.random_bool(0.3), if chance.random_bool(0.2) { 2 } else { 1 });
        let schedule: Vec<String> = steps.iter().map(|step| format!("\"{step}ms\"")).collect();
        let mut settings = vec![
            "ids.style=counter".to_owned(),
            "webhooks.allow_http=true".to_owned(),
            format!("rate_limit.requests={requests}"),
            format!("rate_limit.window={window_ms}ms"),
            format!(
                "rate_limit.algorithm={}",
                match algorithm {
                    Algorithm::Fixed => "fixed",
                    Algorithm::Sliding => "sliding",
                    Algorithm::Bucket => "token_bucket",
                }
            ),
            format!(
                "rate_limit.count={}",
                match count {
                    Count::Allowed => "allowed",
                    Count::All => "all",
                    Count::Successful => "successful",
                }
            ),
            "rate_limit.retry_after=seconds".to_owned(),
            format!("webhooks.timeout={TIMEOUT_MS}ms"),
            "webhooks.connect_timeout=700ms".to_owned(),
            format!("webhooks.rotation_grace={}s", chance.random_range(1..=20)),
            format!("webhooks.retry.preset={preset}"),
            format!("webhooks.copies={copies}"),
        ];
        if preset == "custom" {
            settings.push(format!("webhooks.retry.schedule=[{}]", schedule.join(",")));
        }
        if jitter {
            settings.push("webhooks.retry.jitter=0.3".to_owned());
        }
        for setting in ["webhooks.order=strict", "webhooks.scatter=300ms", "webhooks.swap=200ms"] {
            if chance.random_bool(0.25) {
                settings.push(setting.to_owned());
            }
        }
        Self {
            seed,
            latency_ms: pick(chance, &[0, 1, 5, 30]),
            mode,
            window_ms,
            algorithm,
            count,
            steps,
            jitter,
            settings,
            keys: chance.random_range(3..=5),
            receivers: chance.random_range(2..=4),
            rounds: chance.random_range(2..=4),
            copies,
            accepts: chance.random_range(3..=9),
        }
    }

    /// The key of clients that leave. Requests under way at a stop are counted and not recorded, so its quota is not known.
    pub(crate) fn left_key(&self) -> String {
        key(self.keys - 2)
    }

    /// The text of the active scenario; each version has other numbers.
    pub(crate) fn scenario(&self, version: usize) -> String {
        let chance = &mut chance(self.seed, &format!("scenario {version}"));
        let mut text = format!("title = 'version {version}'\n");
        if version > 0 && chance.random_bool(0.5) {
            text.push_str(&format!("profile.rate_limit.requests = {}\n", chance.random_range(2..=9)));
        }
        for fault in ["reset", "empty", "garbage"] {
            text.push_str(&format!(
                "[[rule]]\nwhen = {{ operation = 'system.status', header.x-fault = '{fault}' }}\nfault = '{fault}'\n"
            ));
        }
        text.push_str(&format!(
            "[[rule]]\nwhen = {{ operation = 'system.status', header.x-fault = 'slow' }}\ndelay = '{}ms'\n",
            chance.random_range(1..1_500)
        ));
        text.push_str(&format!(
            "[[rule]]\nwhen = {{ operation = 'hello' }}\ntimes = {}\nreply = {{ error = 'internal_error' }}\n",
            chance.random_range(1..4)
        ));
        let (after, every, times) =
            (chance.random_range(0..3_000), chance.random_range(500..4_000), chance.random_range(1..6));
        for (on, rest) in [
            (format!("{{ every = '{every}ms' }}"), format!("times = {times}")),
            (format!("{{ after = '{after}ms' }}"), "times = 3\ninterval = '70ms'".to_owned()),
            ("{ operation = 'events.subscribe', status = 200 }".to_owned(), "delay = '40ms'".to_owned()),
            ("'command'".to_owned(), format!("name = 'burst'\ntimes = {times}\ninterval = '20ms'")),
        ] {
            if chance.random_bool(0.6) || on.contains("command") {
                let event = pick(chance, &["workflow.completed", "reference.matched"]);
                text.push_str(&format!("[[emit]]\nevent = '{event}'\non = {on}\n{rest}\n"));
            }
        }
        text
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, algorithm, count, latency_ms, .. } = self;
        write!(f, "clock {mode:?}, quota {algorithm:?} {count:?}, latency {latency_ms} ms")
    }
}
