//! Time and chance: one clock that can be real, frozen or advanced, and one repeatable random source per workspace.
//!
//! This is the only file that reads the operating system's time and entropy (`clippy.toml` bans them elsewhere). It knows
//! nothing of what is timed. Rules take `now` and a random source as arguments; only drivers call [`Clock::sleep_until`].
//!
//! Two readings make an instant ([`Now`]): a monotonic [`Moment`], on which windows, retries and delays run, and a wall
//! time, which only labels. A step of the machine's wall clock therefore neither refills a window nor holds a retry back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use rand::rngs::ChaCha8Rng;
#[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
use rand::rngs::SysRng;
use rand::{SeedableRng, TryRng};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// A point on the emulator's monotonic time line: time since it started, moved on by `advance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the start.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the start.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `delay` later.
    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic; everything that waits or expires uses it.
    pub moment: Moment,
    /// Wall time, UTC; labels only.
    pub wall: Timestamp,
}

/// How a clock moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMode {
    /// With the machine.
    Real,
    /// Only by `advance`.
    Frozen,
}

/// A cheap handle to one clock.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// True while the clock is the machine's, unmoved: then it is read without the lock.
    plain: AtomicBool,
    state: RwLock<State>,
    changed: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The machine's time; both offsets are what `advance` has added.
    Real {
        moment_offset: Duration,
        wall_offset: SignedDuration,
    },
    Frozen(Now),
}

impl State {
    fn is_plain(self) -> bool {
        matches!(self, Self::Real { moment_offset: Duration::ZERO, wall_offset: SignedDuration::ZERO })
    }
}

impl Clock {
    /// A clock that moves with the machine.
    pub fn real() -> Self {
        Self::start(State::Real { moment_offset: Duration::ZERO, wall_offset: SignedDuration::ZERO })
    }

    /// A clock that stands at `wall` until it is advanced.
    pub fn frozen(wall: Timestamp) -> Self {
        Self::start(State::Frozen(Now { moment: Moment::default(), wall }))
    }

    /// A clock that stands at the machine's present time until it is advanced.
    pub fn frozen_now() -> Self {
        Self::frozen(machine_wall_time())
    }

    fn start(state: State) -> Self {
        let shared = Shared {
            started: machine_moment(),
            plain: AtomicBool::new(state.is_plain()),
            state: RwLock::new(state),
            changed: watch::Sender::new(()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Reads the clock.
    pub fn now(&self) -> Now {
        if self.shared.plain.load(Ordering::Acquire) {
            return Now { moment: Moment(self.shared.started.elapsed()), wall: machine_wall_time() };
        }
        self.read(*self.shared.state.read())
    }

    /// Reads the monotonic half of the clock alone.
    pub fn moment(&self) -> Moment {
        if self.shared.plain.load(Ordering::Acquire) {
            return Moment(self.shared.started.elapsed());
        }
        self.now().moment
    }

    fn read(&self, state: State) -> Now {
        match state {
            State::Frozen(now) => now,
            State::Real { moment_offset, wall_offset } => Now {
                moment: Moment(self.shared.started.elapsed().saturating_add(moment_offset)),
                wall: machine_wall_time().saturating_add(wall_offset).unwrap_or(Timestamp::MAX),
            },
        }
    }

    /// How the clock moves at present.
    pub fn mode(&self) -> ClockMode {
        match *self.shared.state.read() {
            State::Real { .. } => ClockMode::Real,
            State::Frozen(_) => ClockMode::Frozen,
        }
    }

    /// Stops the clock where it stands.
    pub fn freeze(&self) -> Now {
        self.change(|_, now| State::Frozen(now))
    }

    /// Lets a frozen clock move on with the machine from where it stands.
    pub fn resume(&self) -> Now {
        let elapsed = self.shared.started.elapsed();
        self.change(|state, now| match state {
            State::Real { .. } => state,
            State::Frozen(_) => State::Real {
                moment_offset: now.moment.0.saturating_sub(elapsed),
                wall_offset: now.wall.duration_since(machine_wall_time()),
            },
        })
    }

    /// Moves the clock forward. Everything that sleeps on it and has become due wakes.
    pub fn advance(&self, by: Duration) -> Now {
        let step = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.change(|state, now| match state {
            State::Real { moment_offset, wall_offset } => State::Real {
                moment_offset: moment_offset.saturating_add(by),
                wall_offset: wall_offset.saturating_add(step),
            },
            State::Frozen(_) => State::Frozen(Now {
                moment: now.moment.plus(by),
                wall: now.wall.saturating_add(step).unwrap_or(Timestamp::MAX),
            }),
        })
    }

    fn change(&self, next: impl FnOnce(State, Now) -> State) -> Now {
        let now = {
            let mut state = self.shared.state.write();
            *state = next(*state, self.read(*state));
            self.shared.plain.store(state.is_plain(), Ordering::Release);
            self.read(*state)
        };
        self.shared.changed.send_replace(());
        now
    }

    /// Returns once the clock has reached `moment`, however it got there.
    pub async fn sleep_until(&self, moment: Moment) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let now = self.now();
            if now.moment >= moment {
                return;
            }
            match self.mode() {
                ClockMode::Real => {
                    let wait = tokio::time::sleep(moment.since(now.moment));
                    tokio::select! { () = wait => {}, _ = changed.changed() => {} }
                }
                // The sender lives in `self`, so waiting for it cannot fail.
                ClockMode::Frozen => drop(changed.changed().await),
            }
        }
    }
}

/// The machine's wall time: for labels, and for signatures that real receivers compare with their own clock.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's wall time")]
pub fn machine_wall_time() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's monotonic time")]
fn machine_moment() -> Instant {
    Instant::now()
}

/// A repeatable source of chance: the same numbers on every machine and in every release.
pub type Random = ChaCha8Rng;

/// What fixes every id, secret, jitter and dice roll.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed that `--seed N` means.
    pub fn from_number(number: u64) -> Self {
        Self(Sha256::digest(number.to_be_bytes()).into())
    }

    /// A fresh seed from the machine's entropy.
    #[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
    pub fn from_entropy() -> Self {
        let mut bytes = [0; 32];
        SysRng.try_fill_bytes(&mut bytes).expect("the operating system provides entropy");
        Self(bytes)
    }

    /// The random source of one workspace: fixed by the seed and the name alone, whatever other workspaces draw.
    pub fn source(&self, name: &str) -> Random {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(name.as_bytes());
        Random::from_seed(hash.finalize().into())
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets follow from it.
        f.write_str("Seed(…)")
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    const START: Timestamp = Timestamp::constant(1_750_000_000, 0);

    #[test]
    fn a_frozen_clock_moves_only_by_advance() {
        let clock = Clock::frozen(START);
        assert_eq!(clock.now(), clock.now());
        let later = clock.advance(Duration::from_mins(1));
        assert_eq!(later.moment, Moment::after_start(Duration::from_mins(1)));
        assert_eq!(later.wall, START + SignedDuration::from_secs(60));
        assert_eq!(clock.mode(), ClockMode::Frozen);
    }

    #[test]
    fn resuming_never_goes_back() {
        let clock = Clock::frozen(START);
        clock.advance(Duration::from_hours(1));
        let frozen = clock.now();
        let resumed = clock.resume();
        assert!(resumed.moment >= frozen.moment);
        assert_eq!(clock.mode(), ClockMode::Real);
        let advanced = clock.advance(Duration::from_secs(10));
        assert!(advanced.moment.since(resumed.moment) >= Duration::from_secs(10));
        assert_eq!(clock.freeze(), clock.now());
    }

    #[test]
    fn sleepers_wake_when_an_advance_reaches_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let clock = Clock::frozen(START);
            let sleeper = tokio::spawn({
                let clock = clock.clone();
                async move { clock.sleep_until(Moment::after_start(Duration::from_secs(5))).await }
            });
            clock.advance(Duration::from_secs(4));
            tokio::task::yield_now().await;
            assert!(!sleeper.is_finished());
            clock.advance(Duration::from_secs(1));
            sleeper.await.expect("the sleeper returns");
        });
    }

    #[test]
    fn sources_depend_on_seed_and_name_alone() {
        let draw = |seed: u64, name: &str| Seed::from_number(seed).source(name).next_u64();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }
}
