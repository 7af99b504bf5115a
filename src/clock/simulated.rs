//! The machine of a simulation: the runtime's virtual time, and entropy from a seed. One for each thread.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, SeedableRng as _};

struct Machine {
    began: Instant,
    /// Since 1970, when it began.
    epoch: Duration,
    entropy: ChaCha8Rng,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// Begins a simulation on this thread, in a runtime whose time is paused: at `epoch` since 1970, with entropy that follows from
/// `seed`.
pub fn begin(epoch: Duration, seed: u64) {
    let machine = Machine { began: monotonic(), epoch, entropy: ChaCha8Rng::seed_from_u64(seed) };
    MACHINE.set(Some(machine));
}

fn with<T>(read: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with_borrow_mut(|machine| read(machine.as_mut().expect("a simulation has begun on this thread")))
}

pub(super) fn system_time() -> SystemTime {
    let now = monotonic();
    with(|machine| SystemTime::UNIX_EPOCH + machine.epoch + now.duration_since(machine.began))
}

pub(super) fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}

pub(super) fn fill(bytes: &mut [u8]) {
    with(|machine| machine.entropy.fill_bytes(bytes));
}
