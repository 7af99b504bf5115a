//! One budget of memory for everything that is kept. Memory is measured, not estimated: the allocator knows the sum, whatever is
//! kept where.
//!
//! Code that keeps more asks for room first. Above the budget history is evicted: the journal first, then finished deliveries and the
//! requests that built-in receivers received, each oldest first. If that is not enough, there is no room. Below the budget nothing
//! depends on it. Independent of the kept data.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// The budget unless `--max-memory-bytes` sets another.
pub const DEFAULT_BYTES: usize = 256 * 1024 * 1024;

/// With less, the program itself would need everything.
pub const LEAST_BYTES: usize = 8 * 1024 * 1024;

/// The additional memory that a snapshot may use while it is loaded.
const LOADING: usize = 48 * 1024 * 1024;

/// One for the process, as the allocator is.
static ALLOCATED: OnceLock<fn() -> usize> = OnceLock::new();

/// Sets, once, what counts the bytes that the process has allocated. The program `wrs-emulator` does; a program that embeds emulators
/// may, and all its emulators then share its sum. Without it there is no budget of memory, only the limits on numbers and sizes.
pub fn measure_memory_by(allocated: fn() -> usize) {
    let _ = ALLOCATED.set(allocated);
}

/// Records that are evicted for others. The budget calls it whenever room is asked for, so nothing may ask under its lock.
pub trait History: fmt::Debug + Send + Sync {
    /// Drops records, oldest first, until `is_enough` or nothing is left that may go.
    fn evict_until(&self, is_enough: &dyn Fn() -> bool);
}

/// A cheap handle to one budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Allowance>);

#[derive(Debug)]
struct Allowance {
    most: usize,
    allocated: fn() -> usize,
    histories: OnceLock<Vec<Weak<dyn History>>>,
}

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget of {most} bytes (--max-memory-bytes) is used up")]
pub struct NoRoom {
    most: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl Budget {
    pub fn new(most: usize) -> Self {
        Self::measured(most, || ALLOCATED.get().map_or(0, |allocated| allocated()))
    }

    fn measured(most: usize, allocated: fn() -> usize) -> Self {
        Self(Arc::new(Allowance { most, allocated, histories: OnceLock::new() }))
    }

    /// Sets, once, the stores to evict from when the budget is used up, in this order.
    pub fn evict_first(&self, histories: Vec<Weak<dyn History>>) {
        let _ = self.0.histories.set(histories);
    }

    /// The bytes that the process has allocated; 0 if nothing counts them.
    pub fn allocated(&self) -> usize {
        (self.0.allocated)()
    }

    pub fn no_room(&self) -> NoRoom {
        NoRoom { most: self.0.most }
    }

    /// Makes sure that more may be kept. What it is made of is mostly allocated already, and so counted.
    pub fn room(&self) -> Result<(), NoRoom> {
        self.room_up_to(self.0.most)
    }

    /// The same for a snapshot that is read. What filled the budget when it was saved can be loaded again, although its text and what
    /// was read of it are in memory at the same time.
    pub fn room_to_load(&self) -> Result<(), NoRoom> {
        self.room_up_to(self.0.most.saturating_add(LOADING))
    }

    fn room_up_to(&self, most: usize) -> Result<(), NoRoom> {
        let is_enough = || self.allocated() <= most;
        for history in self.0.histories.get().into_iter().flatten() {
            if is_enough() {
                return Ok(());
            }
            if let Some(history) = history.upgrade() {
                history.evict_until(&is_enough);
            }
        }
        if is_enough() { Ok(()) } else { Err(self.no_room()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static USED: AtomicUsize = AtomicUsize::new(0);

    /// So many records of ten bytes.
    #[derive(Debug)]
    struct Entries(AtomicUsize);

    impl History for Entries {
        fn evict_until(&self, is_enough: &dyn Fn() -> bool) {
            while !is_enough() && self.0.load(Ordering::SeqCst) > 0 {
                self.0.fetch_sub(1, Ordering::SeqCst);
                USED.fetch_sub(10, Ordering::SeqCst);
            }
        }
    }

    #[test]
    fn history_gives_way_in_its_order_and_then_there_is_no_room() {
        let budget = Budget::measured(100, || USED.load(Ordering::SeqCst));
        let logs = [3, 2].map(|count| Arc::new(Entries(AtomicUsize::new(count))));
        let histories = logs.iter().map(|log| Arc::downgrade(&(Arc::clone(log) as Arc<dyn History>)));
        budget.evict_first(histories.collect());
        let check = |used, most, left, expected| {
            USED.store(used, Ordering::SeqCst);
            assert_eq!(budget.room_up_to(most), expected);
            assert_eq!([0, 1].map(|at| logs[at].0.load(Ordering::SeqCst)), left);
        };
        check(100, 100, [3, 2], Ok(()));
        check(111, 100, [1, 2], Ok(()));
        check(90, 60, [0, 0], Ok(()));
        check(101, 100, [0, 0], Err(budget.no_room()));
        assert!(budget.no_room().to_string().contains("--max-memory-bytes"));
    }
}
