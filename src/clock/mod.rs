//! Time and chance: a clock that can be real, frozen, set or advanced, clocks that follow it, and one repeatable random
//! source for each workspace.
//!
//! It knows nothing of what is timed. Rules take `now` and a random source as arguments; only drivers call
//! [`Clock::sleep_until`]. [`machine`] alone reads the operating system's time and entropy.

pub mod agenda;
mod chance;
mod instant;
pub mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use crate::clock::chance::{Random, Seed, restore_random, save_random};
use crate::clock::instant::moved;
pub use crate::clock::instant::{Instant, Now};

/// How a clock moves.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    // With the machine.
    Real,
    // Only by `advance`.
    Frozen,
}

/// A clock as a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedClock {
    pub moment: Instant,
    pub now: Timestamp,
    /// Whether it was frozen separately from the clock that it follows.
    pub frozen: bool,
    /// How far its wall time was ahead of the clock that it follows.
    pub ahead: SignedDuration,
}

/// A cheap handle to one clock: the emulator's own, or a workspace's, which follows the emulator's until it is moved separately.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    base: Base,
    /// The time at which it was frozen at the start, to which a restart returns it; `None` if it was running.
    origin: Option<Timestamp>,
    /// True while the clock runs with its base and was not moved away from it; it is then read without the lock.
    plain: AtomicBool,
    /// How often it was restarted or restored.
    life: AtomicU64,
    state: RwLock<State>,
    changed: watch::Sender<()>,
}

/// The source of a running clock.
#[derive(Debug)]
enum Base {
    /// The machine's time since this instant.
    Machine(std::time::Instant),
    Clock(Clock),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The base's time; both offsets are what the clock was moved by.
    Running {
        instant_offset: SignedDuration,
        wall_offset: SignedDuration,
        /// The time shown while the clock is held back, briefly, as its base moves.
        held: Option<Now>,
    },
    Frozen(Now),
}

const FOLLOWING: State =
    State::Running { instant_offset: SignedDuration::ZERO, wall_offset: SignedDuration::ZERO, held: None };

impl State {
    fn is_plain(self) -> bool {
        matches!(
            self,
            Self::Running { instant_offset: SignedDuration::ZERO, wall_offset: SignedDuration::ZERO, held: None }
        )
    }
}

impl Clock {
    /// A clock that moves with the machine.
    pub fn real() -> Self {
        Self::start(Base::Machine(machine::monotonic()), FOLLOWING, None)
    }

    /// A clock frozen at `wall` until it is advanced.
    pub fn frozen(wall: Timestamp) -> Self {
        let state = State::Frozen(Now { instant: Instant::default(), wall });
        Self::start(Base::Machine(machine::monotonic()), state, Some(wall))
    }

    /// A clock frozen at the machine's present time until it is advanced.
    pub fn frozen_now() -> Self {
        Self::frozen(machine::wall_time())
    }

    /// A clock that follows this one until it is moved separately.
    #[must_use]
    pub fn follower(&self) -> Self {
        Self::start(Base::Clock(self.clone()), FOLLOWING, None)
    }

    fn start(base: Base, state: State, origin: Option<Timestamp>) -> Self {
        let (plain, life) = (AtomicBool::new(state.is_plain()), AtomicU64::new(0));
        let (state, changed) = (RwLock::new(state), watch::Sender::new(()));
        Self { shared: Arc::new(Shared { base, origin, plain, life, state, changed }) }
    }

    pub fn now(&self) -> Now {
        if self.is_plain() {
            return self.shared.base.now();
        }
        self.read(*self.shared.state.read())
    }

    /// Reads the monotonic half of the clock alone.
    pub fn instant(&self) -> Instant {
        if self.is_plain() {
            return self.shared.base.instant();
        }
        self.now().instant
    }

    pub fn wall(&self) -> Timestamp {
        self.now().wall
    }

    /// Whether the clock runs with its base and was not moved away from it.
    pub fn is_plain(&self) -> bool {
        self.shared.plain.load(Ordering::Acquire)
    }

    /// Whether the wall time is the base's; the monotonic time may have been moved.
    pub fn follows(&self) -> bool {
        matches!(*self.shared.state.read(), State::Running { wall_offset, .. } if wall_offset.is_zero())
    }

    /// The instant of the clock or machine that this one moves with.
    pub fn base_instant(&self) -> Instant {
        self.shared.base.instant()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether the clock itself is frozen, whatever its base does.
    pub fn is_frozen_itself(&self) -> bool {
        matches!((*self.shared.state.read(), &self.shared.base), (State::Frozen(_), Base::Clock(_)))
    }

    fn read(&self, state: State) -> Now {
        match state {
            State::Frozen(now) | State::Running { held: Some(now), .. } => now,
            State::Running { instant_offset, wall_offset, held: None } => {
                let base = self.shared.base.now();
                Now { instant: base.instant.moved(instant_offset), wall: moved(base.wall, wall_offset) }
            }
        }
    }

    /// How the clock moves at present. A clock that follows a frozen one is frozen.
    pub fn mode(&self) -> ClockMode {
        match (*self.shared.state.read(), &self.shared.base) {
            (State::Frozen(_), _) => ClockMode::Frozen,
            (_, Base::Machine(_)) => ClockMode::Real,
            (_, Base::Clock(base)) => base.mode(),
        }
    }

    pub fn freeze(&self) -> Now {
        self.change(|_, now| State::Frozen(now))
    }

    /// Lets a frozen clock continue with its base from its present time.
    pub fn resume(&self) -> Now {
        self.change(|state, now| match state {
            State::Running { .. } => state,
            State::Frozen(_) => self.running_from(now),
        })
    }

    /// Holds a running clock back until [`Self::release`], so that a caller who moves its base can let the clocks that follow
    /// it continue one by one.
    pub fn hold(&self) {
        self.change(|state, now| match state {
            State::Running { instant_offset, wall_offset, .. } => {
                State::Running { instant_offset, wall_offset, held: Some(now) }
            }
            state @ State::Frozen(_) => state,
        });
    }

    /// Lets a clock that is held back continue with its base.
    pub fn release(&self) {
        self.change(|state, _| match state {
            State::Running { instant_offset, wall_offset, .. } => {
                State::Running { instant_offset, wall_offset, held: None }
            }
            state @ State::Frozen(_) => state,
        });
    }

    /// Moves the clock forward. Everything that sleeps on it and has become due wakes.
    pub fn advance(&self, by: Duration) -> Now {
        self.advance_in(self.life(), by)
    }

    /// How often the clock was restarted or restored so far.
    pub fn life(&self) -> u64 {
        self.shared.life.load(Ordering::Acquire)
    }

    /// Like [`Self::advance`], but does nothing if the clock was restarted or restored since `life` was read: a step from
    /// before that must not move the clock after it.
    pub fn advance_in(&self, life: u64, by: Duration) -> Now {
        let step = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.change(|state, now| match state {
            // Checked under the lock that a restart also takes.
            state if self.life() != life => state,
            State::Running { instant_offset, wall_offset, .. } => State::Running {
                instant_offset: instant_offset.saturating_add(step),
                wall_offset: wall_offset.saturating_add(step),
                held: None,
            },
            State::Frozen(_) => State::Frozen(Now { instant: now.instant.plus(by), wall: moved(now.wall, step) }),
        })
    }

    /// Shows another wall time from now on. Nothing that waits becomes due sooner or later because of it.
    pub fn relabel(&self, wall: Timestamp) -> Now {
        self.change(|state, now| match state {
            State::Frozen(_) => State::Frozen(Now { wall, ..now }),
            State::Running { .. } => self.running_from(Now { wall, ..now }),
        })
    }

    /// Lets a clock that was moved separately show its base's time again. If its wall time jumps forward, that much time
    /// has passed for everything that waits.
    pub fn follow(&self) -> Now {
        self.change(|_, now| {
            let base = self.shared.base.now();
            let jump = base.wall.duration_since(now.wall).max(SignedDuration::ZERO);
            let instant_offset = now.instant.moved(jump).from(base.instant);
            State::Running { instant_offset, wall_offset: SignedDuration::ZERO, held: None }
        })
    }

    /// Returns the clock to the mode and wall time with which it was made. Its monotonic time continues.
    pub fn restart(&self) -> Now {
        let origin = self.shared.origin;
        self.change(|_, now| {
            self.shared.life.fetch_add(1, Ordering::AcqRel);
            match origin {
                Some(wall) => State::Frozen(Now { wall, ..now }),
                None => State::Running {
                    instant_offset: now.instant.from(self.shared.base.instant()),
                    wall_offset: SignedDuration::ZERO,
                    held: None,
                },
            }
        })
    }

    pub fn save(&self) -> SavedClock {
        let state = *self.shared.state.read();
        let (frozen, ahead) = match state {
            State::Frozen(_) => (true, SignedDuration::ZERO),
            State::Running { wall_offset, .. } => (false, wall_offset),
        };
        let Now { instant, wall } = self.read(state);
        SavedClock { moment: instant, now: wall, frozen, ahead }
    }

    /// Restores a saved clock, `elapsed` later if it was running. Instants keep their meaning, and so does everything that waits for one.
    pub fn restore(&self, saved: &SavedClock, elapsed: Duration) -> Now {
        self.change(|_, _| {
            self.shared.life.fetch_add(1, Ordering::AcqRel);
            let (base, instant) = (self.shared.base.now(), saved.moment);
            if saved.frozen {
                return State::Frozen(Now { instant, wall: saved.now });
            }
            let instant_offset = instant.plus(elapsed).from(base.instant);
            State::Running { instant_offset, wall_offset: saved.ahead, held: None }
        })
    }

    /// A state that runs with the base and shows `now` at this instant.
    fn running_from(&self, now: Now) -> State {
        let base = self.shared.base.now();
        State::Running {
            instant_offset: now.instant.from(base.instant),
            wall_offset: now.wall.duration_since(base.wall),
            held: None,
        }
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

    /// Returns once the clock has reached `instant`, however it got there.
    pub async fn sleep_until(&self, instant: Instant) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let state = *self.shared.state.read();
            if self.read(state).instant >= instant {
                return;
            }
            match state {
                State::Running { instant_offset, held: None, .. } => {
                    let wait = self.shared.base.sleep_until(instant.moved(-instant_offset));
                    tokio::select! { () = wait => {}, _ = changed.changed() => {} }
                }
                // The sender lives in `self`, so waiting for it cannot fail.
                State::Frozen(_) | State::Running { .. } => drop(changed.changed().await),
            }
        }
    }
}

impl Base {
    fn now(&self) -> Now {
        match self {
            Self::Machine(started) => {
                Now { instant: Instant::after_start(started.elapsed()), wall: machine::wall_time() }
            }
            Self::Clock(clock) => clock.now(),
        }
    }

    fn instant(&self) -> Instant {
        match self {
            Self::Machine(started) => Instant::after_start(started.elapsed()),
            Self::Clock(clock) => clock.instant(),
        }
    }

    async fn sleep_until(&self, instant: Instant) {
        match self {
            Self::Machine(started) => tokio::time::sleep(instant.since(Instant::after_start(started.elapsed()))).await,
            // Boxed, as a clock's sleep contains that of its base.
            Self::Clock(clock) => Box::pin(clock.sleep_until(instant)).await,
        }
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
