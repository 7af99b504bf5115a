//! Time and chance: a clock that can be real, frozen, automatic, set or advanced, clocks that follow it, and one repeatable random
//! source for each workspace.
//!
//! Independent of the timed work. Rules take `now` and a random source as arguments; only drivers call
//! [`Clock::sleep_until`]. [`machine`] alone reads the operating system's time and entropy.
//!
//! A reading is a monotonic [`Instant`], on which windows, retries and delays run, and a wall time, which only labels. A step of
//! the machine's wall clock therefore neither refills a window nor holds a retry back.

pub mod agenda;
pub mod machine;
#[cfg(feature = "simulation")]
pub mod simulated;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use machine::{entropy, monotonic, wall_time};

/// A point on the emulator's monotonic time line: time since it started, moved forward by `advance`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(from = "u64", into = "u64")]
pub struct Instant(Duration);

impl From<u64> for Instant {
    fn from(nanos: u64) -> Self {
        Self::from_nanos(nanos)
    }
}

impl From<Instant> for u64 {
    fn from(instant: Instant) -> Self {
        // For a snapshot: enough for five centuries.
        u64::try_from(instant.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Instant {
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    pub const fn since_start(self) -> Duration {
        self.0
    }

    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// From `origin` to this instant, below zero if `origin` is later.
    fn from(self, origin: Self) -> SignedDuration {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        signed(self.0).saturating_sub(signed(origin.0))
    }

    /// This instant moved either way; never before the start.
    fn moved(self, by: SignedDuration) -> Self {
        if by.is_negative() { Self(self.0.saturating_sub(by.unsigned_abs())) } else { self.plus(by.unsigned_abs()) }
    }

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    #[must_use]
    pub fn minus(self, age: Duration) -> Self {
        Self(self.0.saturating_sub(age))
    }

    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic; everything that waits or expires uses it.
    pub instant: Instant,
    /// Wall time, UTC; labels only.
    pub wall: Timestamp,
}

/// A wall time moved either way; the first or last one that exists if it would leave the calendar.
fn moved(wall: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    wall.checked_add(by).unwrap_or(end)
}

/// A time that no clock of the emulator shows: ids and signatures count from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is before 1970-01-01T00:00:00Z, from which ids and signatures count")]
pub struct TooEarly(Timestamp);

/// Refuses a time at which a clock cannot be set.
pub fn check_wall(wall: Timestamp) -> Result<Timestamp, TooEarly> {
    if wall < Timestamp::UNIX_EPOCH { Err(TooEarly(wall)) } else { Ok(wall) }
}

/// How a clock moves.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum ClockMode {
    // With the machine.
    Real,
    // Only by `advance`.
    Frozen,
    // Like `Frozen`, but while a call waits, to the next due instant whenever nothing is in flight.
    Auto,
}

/// A clock as a snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedClock {
    pub moment: Instant,
    pub now: Timestamp,
    /// True if it was frozen or automatic separately from the clock that it follows.
    pub frozen: bool,
    /// True if it was automatic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
    /// How far its wall time was ahead of the clock that it follows.
    pub ahead: SignedDuration,
}

impl SavedClock {
    /// Refuses one that shows a time before 1970, or would after it is restored.
    pub fn check(&self) -> Result<(), TooEarly> {
        check_wall(self.now)?;
        check_wall(if self.frozen { self.now } else { moved(wall_time(), self.ahead) }).map(drop)
    }
}

/// A cheap handle to one clock: the emulator's own, or a workspace's, which follows the emulator's until it is moved separately.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Timekeeper>,
}

#[derive(Debug)]
struct Timekeeper {
    base: Base,
    /// The state in which it was stopped at the start, to which a restart returns it; `None` if it was running.
    origin: Option<(Stopped, Timestamp)>,
    /// True while the clock runs with its base and was not moved away from it; it is then read without the lock.
    plain: AtomicBool,
    /// How often it was restarted or restored.
    life: AtomicU64,
    state: RwLock<ClockState>,
    changed: Notify,
    /// Shared with the clocks that follow it, whose modes may depend on its own.
    mode_changed: Arc<Notify>,
}

#[derive(Debug)]
enum Base {
    /// The machine's time since this instant.
    Machine(std::time::Instant),
    Clock(Clock),
}

/// How a clock differs from its base.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ClockState {
    /// The total by which the clock was moved; ignored while it is frozen.
    instant_offset: SignedDuration,
    wall_offset: SignedDuration,
    /// The time shown while the clock is stopped, or held back, briefly, as its base moves.
    stopped_at: Option<Now>,
    stopped: Option<Stopped>,
}

/// How a clock that does not run is moved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stopped {
    Frozen,
    Auto,
}

impl ClockState {
    fn stopped(how: Stopped, now: Now) -> Self {
        Self { stopped_at: Some(now), stopped: Some(how), ..Self::default() }
    }
}

impl Clock {
    pub fn real() -> Self {
        Self::start(Base::Machine(monotonic()), ClockState::default(), None)
    }

    pub fn frozen(wall: Timestamp) -> Self {
        Self::stopped(Stopped::Frozen, wall)
    }

    /// A clock that stands at this time, and moves by itself while a call waits.
    pub fn auto(wall: Timestamp) -> Self {
        Self::stopped(Stopped::Auto, wall)
    }

    fn stopped(how: Stopped, wall: Timestamp) -> Self {
        let state = ClockState::stopped(how, Now { instant: Instant::default(), wall });
        Self::start(Base::Machine(monotonic()), state, Some((how, wall)))
    }

    #[must_use]
    pub fn follower(&self) -> Self {
        Self::start(Base::Clock(self.clone()), ClockState::default(), None)
    }

    /// Completes when the mode of this clock, its base or any other that follows the base may have changed after the call.
    pub fn mode_changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.shared.mode_changed.notified()
    }

    fn start(base: Base, state: ClockState, origin: Option<(Stopped, Timestamp)>) -> Self {
        let (plain, life) = (AtomicBool::new(state == ClockState::default()), AtomicU64::new(0));
        let mode_changed = match &base {
            Base::Clock(base) => Arc::clone(&base.shared.mode_changed),
            Base::Machine(_) => Arc::default(),
        };
        let (state, changed) = (RwLock::new(state), Notify::new());
        Self { shared: Arc::new(Timekeeper { base, origin, plain, life, state, changed, mode_changed }) }
    }

    pub fn now(&self) -> Now {
        if self.is_plain() {
            return self.shared.base.now();
        }
        self.read(*self.shared.state.read())
    }

    pub fn instant(&self) -> Instant {
        if self.is_plain() {
            return self.shared.base.instant();
        }
        self.now().instant
    }

    /// True if the clock runs with its base and was not moved away from it.
    pub fn is_plain(&self) -> bool {
        self.shared.plain.load(Ordering::Acquire)
    }

    /// True if the clock, or the one that it follows, moves by itself while a call waits. Cheap for a clock that was not moved.
    pub fn is_auto(&self) -> bool {
        match &self.shared.base {
            Base::Clock(base) if self.is_plain() => base.is_auto(),
            Base::Machine(_) if self.is_plain() => false,
            _ => self.mode() == ClockMode::Auto,
        }
    }

    /// True if the wall time is the base's; the monotonic time may have been moved.
    pub fn follows(&self) -> bool {
        let state = *self.shared.state.read();
        state.stopped.is_none() && state.wall_offset.is_zero()
    }

    /// The instant of the clock or machine that this one moves with.
    pub fn base_instant(&self) -> Instant {
        self.shared.base.instant()
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// True if the clock itself is stopped, whatever its base does.
    pub fn is_stopped_itself(&self) -> bool {
        self.shared.state.read().stopped.is_some() && matches!(self.shared.base, Base::Clock(_))
    }

    /// True if the clock does not run with the machine: it is frozen, or automatic.
    pub fn is_stopped(&self) -> bool {
        self.mode() != ClockMode::Real
    }

    fn read(&self, state: ClockState) -> Now {
        state.stopped_at.unwrap_or_else(|| {
            let base = self.shared.base.now();
            Now { instant: base.instant.moved(state.instant_offset), wall: moved(base.wall, state.wall_offset) }
        })
    }

    /// How the clock moves at present. A clock that follows a frozen one is frozen.
    pub fn mode(&self) -> ClockMode {
        match (&self.shared.base, self.shared.state.read().stopped) {
            (_, Some(Stopped::Frozen)) => ClockMode::Frozen,
            (_, Some(Stopped::Auto)) => ClockMode::Auto,
            (Base::Machine(_), None) => ClockMode::Real,
            (Base::Clock(base), None) => base.mode(),
        }
    }

    /// The time that others compare with their own clocks, in a signature, `Date`, `Retry-After` or a reset header: the machine's
    /// while this clock runs, however far it was moved, and this clock's while it is stopped.
    pub fn shared_time(&self, now: Now) -> Timestamp {
        if self.is_stopped() { now.wall } else { wall_time() }
    }

    pub fn freeze(&self) -> Now {
        self.change(|_, now| ClockState::stopped(Stopped::Frozen, now))
    }

    /// Stops the clock, to be moved by calls that wait.
    pub fn automate(&self) -> Now {
        self.change(|_, now| ClockState::stopped(Stopped::Auto, now))
    }

    /// Lets a stopped clock continue with its base from its present time.
    pub fn resume(&self) -> Now {
        self.change(|state, now| if state.stopped.is_some() { self.running_from(now) } else { state })
    }

    /// Holds a running clock back until [`Self::release`], so that a caller who moves its base can let the clocks that follow
    /// it continue one by one.
    pub fn hold(&self) {
        self.change(|state, now| ClockState { stopped_at: Some(now), ..state });
    }

    pub fn release(&self) {
        self.change(|state, _| ClockState {
            stopped_at: state.stopped_at.filter(|_| state.stopped.is_some()),
            ..state
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
        self.change(|state, now| {
            // Checked under the lock that a restart also takes.
            if self.life() != life {
                state
            } else if let Some(how) = state.stopped {
                ClockState::stopped(how, Now { instant: now.instant.plus(by), wall: moved(now.wall, step) })
            } else {
                ClockState {
                    instant_offset: state.instant_offset.saturating_add(step),
                    wall_offset: state.wall_offset.saturating_add(step),
                    ..ClockState::default()
                }
            }
        })
    }

    /// Shows another wall time from now on. Nothing that waits becomes due sooner or later because of it.
    pub fn set_wall_time(&self, wall: Timestamp) -> Now {
        self.change(|state, now| {
            let now = Now { wall, ..now };
            state.stopped.map_or_else(|| self.running_from(now), |how| ClockState::stopped(how, now))
        })
    }

    /// Lets a clock that was moved separately show its base's time again. If its wall time jumps forward, that much time
    /// has passed for everything that waits.
    pub fn follow(&self) -> Now {
        self.change(|_, now| {
            let base = self.shared.base.now();
            let jump = base.wall.duration_since(now.wall).max(SignedDuration::ZERO);
            let instant_offset = now.instant.moved(jump).from(base.instant);
            ClockState { instant_offset, ..ClockState::default() }
        })
    }

    /// Returns the clock to the mode and wall time with which it was made. Its monotonic time continues.
    pub fn restart(&self) -> Now {
        let origin = self.shared.origin;
        self.change(|_, now| {
            self.shared.life.fetch_add(1, Ordering::AcqRel);
            match origin {
                Some((how, wall)) => ClockState::stopped(how, Now { wall, ..now }),
                None => {
                    ClockState { instant_offset: now.instant.from(self.shared.base.instant()), ..ClockState::default() }
                }
            }
        })
    }

    pub fn save(&self) -> SavedClock {
        let state = *self.shared.state.read();
        let Now { instant, wall } = self.read(state);
        let (frozen, auto) = (state.stopped.is_some(), state.stopped == Some(Stopped::Auto));
        SavedClock { moment: instant, now: wall, frozen, auto, ahead: state.wall_offset }
    }

    /// Restores a saved clock, `elapsed` later if it was running. Instants keep their meaning, and so does everything that waits for one.
    pub fn restore(&self, saved: &SavedClock, elapsed: Duration) -> Now {
        self.change(|_, _| {
            self.shared.life.fetch_add(1, Ordering::AcqRel);
            let (base, instant) = (self.shared.base.now(), saved.moment);
            if saved.frozen {
                let how = if saved.auto { Stopped::Auto } else { Stopped::Frozen };
                return ClockState::stopped(how, Now { instant, wall: saved.now });
            }
            let instant_offset = instant.plus(elapsed).from(base.instant);
            ClockState { instant_offset, wall_offset: saved.ahead, ..ClockState::default() }
        })
    }

    /// A state that runs with the base and shows `now` at this instant.
    fn running_from(&self, now: Now) -> ClockState {
        let base = self.shared.base.now();
        ClockState {
            instant_offset: now.instant.from(base.instant),
            wall_offset: now.wall.duration_since(base.wall),
            ..ClockState::default()
        }
    }

    fn change(&self, next: impl FnOnce(ClockState, Now) -> ClockState) -> Now {
        let (now, has_new_mode) = {
            let mut state = self.shared.state.write();
            let stopped = state.stopped;
            *state = next(*state, self.read(*state));
            self.shared.plain.store(*state == ClockState::default(), Ordering::Release);
            (self.read(*state), state.stopped != stopped)
        };
        self.shared.changed.notify_waiters();
        if has_new_mode {
            self.shared.mode_changed.notify_waiters();
        }
        now
    }

    /// Returns once the clock has reached `instant`, however it got there.
    pub async fn sleep_until(&self, instant: Instant) {
        loop {
            // Made before the state is read, so that it completes after any change from then on.
            let changed = self.shared.changed.notified();
            let state = *self.shared.state.read();
            if self.read(state).instant >= instant {
                return;
            }
            let base_instant = instant.moved(-state.instant_offset);
            tokio::select! {
                biased;
                () = self.shared.base.sleep_until(base_instant), if state.stopped_at.is_none() => {}
                () = changed => {}
            }
        }
    }
}

impl Base {
    fn now(&self) -> Now {
        match self {
            Self::Machine(started) => Now { instant: since(*started), wall: wall_time() },
            Self::Clock(clock) => clock.now(),
        }
    }

    fn instant(&self) -> Instant {
        match self {
            Self::Machine(started) => since(*started),
            Self::Clock(clock) => clock.instant(),
        }
    }

    async fn sleep_until(&self, instant: Instant) {
        match self {
            Self::Machine(started) => tokio::time::sleep(instant.since(since(*started))).await,
            // Boxed, because a clock's sleep contains that of its base.
            Self::Clock(clock) => Box::pin(clock.sleep_until(instant)).await,
        }
    }
}

/// The machine's time since `started`.
fn since(started: std::time::Instant) -> Instant {
    Instant::after_start(monotonic().duration_since(started))
}

/// A repeatable source of chance: the same numbers on every machine and in every release.
pub type Random = ChaCha8Rng;

/// The seed of every id, secret, jitter and dice roll.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed that `--seed N` means.
    pub fn from_number(number: u64) -> Self {
        Self(Sha256::digest(number.to_be_bytes()).into())
    }

    /// The seed that a snapshot keeps as base64; `None` if it is not a seed.
    pub fn from_text(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The seed for a snapshot; every secret follows from it.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }

    pub fn from_entropy() -> Self {
        Self(entropy())
    }

    /// The random source of one workspace: fixed by the seed and the name alone, whatever other workspaces draw.
    pub fn source(&self, name: &str) -> Random {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(name.as_bytes());
        Random::from_seed(hash.finalize().into())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets follow from it.
        f.write_str("Seed(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_began_before_a_restart_does_not_move_the_clock_after_it() {
        let start = Timestamp::UNIX_EPOCH;
        let clock = Clock::frozen(start);
        let saved = clock.save();
        let put_back: [&dyn Fn() -> Now; 2] = [&|| clock.restart(), &|| clock.restore(&saved, Duration::ZERO)];
        for put_back in put_back {
            let life = clock.life();
            assert_ne!(clock.advance_in(life, Duration::from_secs(5)).wall, start);
            put_back();
            assert_eq!(clock.advance_in(life, Duration::from_secs(5)).wall, start);
            assert_ne!(clock.advance(Duration::from_secs(5)).wall, start);
        }
    }

    #[tokio::test]
    async fn what_sleeps_until_one_instant_wakes_in_its_order() {
        let clock = Clock::frozen(Timestamp::UNIX_EPOCH);
        let (woken, mut sleeping) = (Arc::<parking_lot::Mutex<Vec<usize>>>::default(), tokio::task::JoinSet::new());
        for number in 0..30 {
            let (clock, woken) = (clock.clone(), Arc::clone(&woken));
            sleeping.spawn(async move {
                clock.sleep_until(Instant::after_start(Duration::from_secs(5))).await;
                woken.lock().push(number);
            });
        }
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(5));
        sleeping.join_all().await;
        assert!(woken.lock().iter().copied().eq(0..30), "{woken:?}");
    }

    #[test]
    fn a_saved_clock_keeps_its_form() {
        let form = r#"{"moment":103000000000,"now":"2025-06-15T15:06:40.5Z","frozen":false,"ahead":"-PT1H0.25S"}"#;
        let saved: SavedClock = serde_json::from_str(form).expect("the form of every snapshot so far");
        assert_eq!(saved.ahead, SignedDuration::from_millis(-3_600_250));
        assert_eq!(serde_json::to_string(&saved).expect("it serialises"), form);
    }
}
