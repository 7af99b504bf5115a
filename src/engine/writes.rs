//! How often something was changed from outside: whoever saves the state sees by it whether it is worth saving again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what may have changed the state of the emulator without a trace in the journal.
#[derive(Clone, Debug, Default)]
pub struct Writes(Arc<AtomicU64>);

impl Writes {
    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Begins one, which is counted when what is returned is dropped: after the change, so that whoever reads the count first
    /// and then the state misses nothing.
    #[must_use]
    pub fn begin(&self) -> Writing {
        Writing(self.clone())
    }
}

/// A change that is being made.
#[derive(Debug)]
pub struct Writing(Writes);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}
