//! Limits over all keys on the number and bytes of resources of one kind, which a client cannot evade by inventing keys.

use std::sync::Arc;

use parking_lot::Mutex;

/// The limits of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The kind, as a plural noun.
    pub kind: &'static str,
    /// Most resources of all keys together.
    pub count: usize,
    /// Most bytes of them together.
    pub bytes: usize,
}

/// Limits on the subscriptions of all keys.
pub const SUBSCRIPTIONS: Bounds = Bounds { kind: "subscriptions", count: 50_000, bytes: 32 * 1024 * 1024 };
/// Limits on the workflows and users of all keys.
pub const WORKFLOWS: Bounds = Bounds { kind: "workflows and users", count: 50_000, bytes: 32 * 1024 * 1024 };

/// Most events that emissions have planned at a time, over all keys.
pub const MOST_PLANNED: usize = 100_000;
/// Limits on planned events; only their number counts, as each is small.
const PLANNED: Bounds = Bounds { kind: "planned events", count: MOST_PLANNED, bytes: usize::MAX };

/// A cheap handle to what is used under one limit.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    bounds: Bounds,
    taken: Arc<Mutex<Taken>>,
}

/// All limits of one emulator.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(super) subscriptions: Room,
    pub(super) workflows: Room,
    pub(super) planned: Room,
}

impl Default for Rooms {
    fn default() -> Self {
        let room = |bounds| Room { bounds, taken: Arc::default() };
        Self { subscriptions: room(SUBSCRIPTIONS), workflows: room(WORKFLOWS), planned: room(PLANNED) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: usize,
    bytes: usize,
}

/// What one workspace uses of a room; released when dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Room,
    own: Taken,
}

impl Room {
    /// An empty share of this room.
    pub(super) fn share(&self) -> Share {
        Share { room: self.clone(), own: Taken::default() }
    }
}

impl Share {
    /// Takes room for one resource; the error says why there is none.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let Bounds { kind, count, bytes: most } = self.room.bounds;
        let taken = *self.room.taken.lock();
        if taken.count >= count {
            return Err(format!("the emulator holds at most {count} {kind}, for all keys together"));
        }
        if taken.bytes + bytes > most {
            let most = most / (1024 * 1024);
            return Err(format!("the {kind} of all keys together hold {most} MiB, which is the most"));
        }
        self.take_anyway(bytes);
        Ok(())
    }

    /// Takes room without checking the limits, for resources that were granted room before.
    pub(super) fn take_anyway(&mut self, bytes: usize) {
        self.change(|taken| {
            taken.count += 1;
            taken.bytes += bytes;
        });
    }

    /// Releases the room of one resource.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.change(|taken| {
            taken.count -= 1;
            taken.bytes -= bytes;
        });
    }

    fn change(&mut self, change: impl Fn(&mut Taken)) {
        change(&mut self.own);
        change(&mut self.room.taken.lock());
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let own = self.own;
        let mut taken = self.room.taken.lock();
        taken.count -= own.count;
        taken.bytes -= own.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_bounded_and_released() {
        let room = Rooms::default().subscriptions;
        let Bounds { count, bytes, .. } = SUBSCRIPTIONS;
        let (mut one, mut other) = (room.share(), room.share());
        assert_eq!(one.take(bytes / 2), Ok(()));
        assert_eq!(other.take(bytes / 2), Ok(()));
        assert!(other.take(1).expect_err("full").contains("32 MiB"));
        other.give_back(bytes / 2);
        assert_eq!(one.take(1), Ok(()));
        drop(one);
        for _ in 0..count {
            assert_eq!(other.take(0), Ok(()));
        }
        assert!(room.share().take(0).expect_err("full").contains("50000"));
        other.take_anyway(bytes);
        drop(other);
        let taken = *room.taken.lock();
        assert_eq!((taken.count, taken.bytes), (0, 0));
    }
}
