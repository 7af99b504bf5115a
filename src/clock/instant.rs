//! Instants. Two readings make one ([`Now`]): a monotonic [`Instant`], on which windows, retries and delays run, and a wall
//! time, which only labels. A step of the machine's wall clock therefore neither refills a window nor holds a retry back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

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
        instant.nanos()
    }
}

impl Instant {
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// From `origin` to this instant, below zero if `origin` is later.
    pub(super) fn from(self, origin: Self) -> SignedDuration {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        signed(self.0).saturating_sub(signed(origin.0))
    }

    /// This instant moved either way; never before the start.
    pub(super) fn moved(self, by: SignedDuration) -> Self {
        if by.is_negative() { Self(self.0.saturating_sub(by.unsigned_abs())) } else { self.plus(by.unsigned_abs()) }
    }

    /// The instant that a snapshot names in nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    /// Nanoseconds since the start, for a snapshot: at most five centuries.
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The instant this much earlier; the start if that is earlier than it.
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
pub(super) fn moved(wall: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    wall.checked_add(by).unwrap_or(end)
}
