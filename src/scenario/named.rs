//! What requests that name their scenarios get: a setup for each combination, the most used of which are kept.

use std::collections::HashMap;
use std::sync::Arc;

use super::setup::Setup;

/// Setups kept for combinations of scenarios that requests name; past this, the one that was not used for longest leaves.
pub(crate) const MOST_NAMED: usize = 64;
/// Most bytes of text that the scenarios named by one request have together.
pub(crate) const MOST_NAMED_TEXT: usize = 2 * 1024 * 1024;

/// The names in their order, and the knobs of the key that named them.
pub(super) type Combination = (String, String);

/// Setups by combination, each with the number of its last use.
#[derive(Debug, Default)]
pub(super) struct Named {
    kept: HashMap<Combination, (Arc<Setup>, u64)>,
    uses: u64,
}

impl Named {
    /// The setup of a combination, if it is kept.
    pub(super) fn get(&mut self, combination: &Combination) -> Option<Arc<Setup>> {
        self.uses += 1;
        let (setup, used) = self.kept.get_mut(combination)?;
        *used = self.uses;
        Some(Arc::clone(setup))
    }

    /// Keeps a setup; gives the one that leaves for it.
    pub(super) fn keep(&mut self, combination: Combination, setup: Arc<Setup>) -> Option<Arc<Setup>> {
        let leaves = (self.kept.len() >= MOST_NAMED).then(|| {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used)?;
            let oldest = oldest.0.clone();
            self.kept.remove(&oldest).map(|(setup, _)| setup)
        });
        self.kept.insert(combination, (setup, self.uses));
        leaves.flatten()
    }
}
