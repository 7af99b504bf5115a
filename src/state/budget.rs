//! One budget of memory for everything that is kept. Each store holds a [`Charge`] for the bytes of its records.
//!
//! When the budget is used up, history is evicted: the journal first, then finished deliveries and the requests that built-in
//! receivers received, each oldest first. If that is not enough, the charge is refused. Independent of the kept data.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use serde::Serialize;

/// The budget unless `--max-memory-bytes` sets another.
pub const DEFAULT_BYTES: usize = 256 * 1024 * 1024;

/// Records that are evicted for others. The budget calls it from any charge, so its lock must be one under which nothing is charged.
pub trait Evictable: fmt::Debug + Send + Sync {
    /// Drops records, oldest first, until `is_enough` or nothing is left.
    fn evict_until(&self, is_enough: &dyn Fn() -> bool);
}

/// A cheap handle to one budget.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    used: AtomicUsize,
    histories: OnceLock<Vec<Weak<dyn Evictable>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget of {most} bytes (--max-memory-bytes) is used up")]
pub struct Full {
    most: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl Budget {
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, used: AtomicUsize::new(0), histories: OnceLock::new() }))
    }

    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Sets, once, the stores to evict from when the budget is used up, in this order.
    pub fn evict_first(&self, histories: Vec<Weak<dyn Evictable>>) {
        let _ = self.0.histories.set(histories);
    }

    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    pub fn full(&self) -> Full {
        Full { most: self.0.most }
    }

    pub fn charge(&self, bytes: usize) -> Result<Charge, Full> {
        self.take(bytes)?;
        Ok(Charge { budget: self.clone(), bytes })
    }

    /// Takes bytes that a charge of the caller [adopts](Charge::adopt).
    pub fn take(&self, bytes: usize) -> Result<(), Full> {
        if self.try_take(bytes) {
            return Ok(());
        }
        let is_enough = || self.used().saturating_add(bytes) <= self.0.most;
        for history in self.0.histories.get().into_iter().flatten().filter_map(Weak::upgrade) {
            history.evict_until(&is_enough);
            if is_enough() {
                break;
            }
        }
        if self.try_take(bytes) { Ok(()) } else { Err(self.full()) }
    }

    /// The same, and exceeds the budget if nothing more gives way.
    pub fn take_anyway(&self, bytes: usize) {
        if self.take(bytes).is_err() {
            self.0.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn try_take(&self, bytes: usize) -> bool {
        let fits = self.0.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.0.most;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }
}

/// Bytes of the budget; given back when dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    pub fn empty(budget: &Budget) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    pub fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.give_back(bytes);
    }

    /// Adds bytes that were [taken](Budget::take) already.
    pub fn adopt(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Adds another charge on the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// A record with its charge. Whoever shares it, such as a snapshot that is being sent, keeps it charged after it has been replaced.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Charged<T> {
    record: T,
    #[serde(skip)]
    charge: Charge,
}

impl<T> Charged<T> {
    pub fn new(record: T, bytes: usize, budget: &Budget) -> Result<Arc<Self>, Full> {
        let charge = budget.charge(bytes)?;
        Ok(Arc::new(Self { record, charge }))
    }
}

/// For a record that is changed while it is shared: both are charged, even beyond the budget, because a change is never refused for it.
impl<T: Clone> Clone for Charged<T> {
    fn clone(&self) -> Self {
        let Charge { budget, bytes } = &self.charge;
        budget.take_anyway(*bytes);
        Self { record: self.record.clone(), charge: Charge { budget: budget.clone(), bytes: *bytes } }
    }
}

impl<T> Deref for Charged<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

impl<T> DerefMut for Charged<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.record
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Log(Mutex<Vec<Charge>>);

    impl Evictable for Log {
        fn evict_until(&self, is_enough: &dyn Fn() -> bool) {
            let mut log = self.0.lock();
            while !is_enough() && !log.is_empty() {
                log.remove(0);
            }
        }
    }

    #[test]
    fn history_gives_way_and_then_charges_are_refused() {
        let budget = Budget::new(100);
        let log = Arc::new(Log(Mutex::default()));
        let history: Arc<dyn Evictable> = log.clone();
        budget.evict_first(vec![Arc::downgrade(&history)]);
        for _ in 0..3 {
            let charge = budget.charge(30).expect("there is room");
            log.0.lock().push(charge);
        }
        let mut kept = budget.charge(40).expect("one of the log gives way");
        assert_eq!((budget.used(), log.0.lock().len()), (100, 2));
        assert_eq!(kept.grow(61), Err(budget.full()), "more than there is");
        assert_eq!((budget.used(), log.0.lock().len()), (40, 0), "refused whole");
        kept.grow(60).expect("there is room");
        assert!(budget.full().to_string().contains("--max-memory-bytes"));
        budget.take_anyway(1);
        kept.adopt(1);
        assert_eq!(budget.used(), 101);
        kept.shrink(51);
        kept.absorb(budget.charge(50).expect("there is room"));
        assert_eq!((kept.bytes(), budget.used()), (100, 100));
        drop(kept);
        assert_eq!(budget.used(), 0);
    }
}
